"""``minimcp demo --agent``: a scripted model, for lessons and tests without a key.

The model reads a question as a list of calls: ``price bread=rye loaves=2; price bread=oat``. It
makes one call after the other, and then answers with their results.
"""

from __future__ import annotations

import json
import shlex
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Mapping, Sequence

from .. import McpError, StdioServer, connect
from . import UsageError, clean
from .terminal import styled, wants_color

QUESTION = "price bread=rye loaves=2; pric bread=corn; price bread=oat"

# Maximum size of a request to the model.
MAX_BODY_BYTES = 16 * 1024 * 1024


def think(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the model's next message in a conversation: a tool call, or an answer.

    Args:
        messages: The messages in the form of OpenAI's chat completions API.

    Raises:
        ValueError: The conversation has no question, or the question is not a list of calls.
    """
    asked = [at for at, each in enumerate(messages) if each.get("role") == "user"]
    if not asked:
        raise ValueError("the conversation has no user message")
    question = _text(messages[asked[-1]].get("content"))
    calls = [shlex.split(part) for part in question.split(";") if part.strip()]
    results = [each for each in messages[asked[-1] :] if each.get("role") == "tool"]
    if len(results) < len(calls):
        name, *pairs = calls[len(results)]
        function = {"name": name, "arguments": json.dumps(dict(map(_argument, pairs)))}
        call = {"id": f"call_{len(results) + 1}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    texts = [_text(each.get("content")) for each in results]
    return {"role": "assistant", "content": f"The results are: {'; '.join(texts) or 'none'}"}


def _argument(pair: str) -> tuple[str, Any]:
    """Return the name and the value of ``name=value``. The value may be JSON."""
    name, _, text = pair.partition("=")
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text


def _text(content: Any) -> str:
    """Return the text of a message's content. Other parts, such as images, are named."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return " ".join(str(each.get("text", f"[{each.get('type')}]")) for each in parts)


def show(server: StdioServer) -> int:
    """Print a conversation of a user, the model and the demo's server."""
    color = wants_color(sys.stdout)

    def say(speaker: str, text: str) -> None:
        print(f"{styled(speaker.rjust(6), 'bold', color)}  {clean(text)}")

    messages: list[dict[str, Any]] = [{"role": "user", "content": QUESTION}]
    with connect(server, timeout=20) as client:
        names = [tool.as_openai()["function"]["name"] for tool in client.list_tools()]
        say("host", f"gives the model the tools {', '.join(names)}")
        say("user", QUESTION)
        while True:
            messages.append(think(messages))
            calls = messages[-1].get("tool_calls", ())
            if not calls:
                break
            for call in calls:
                function = call["function"]
                say("model", f"calls {function['name']} {function['arguments']}")
                content: Any
                try:
                    arguments = json.loads(function["arguments"])
                    result = client.call_tool(function["name"], arguments, raise_on_error=False)
                    content = result.as_openai()
                except McpError as error:
                    content = str(error)
                say("server", _text(content))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    say("model", messages[-1]["content"])
    return 0


def serve(port: int) -> int:
    """Serve the model at a port of this machine, in the form of OpenAI's chat completions API.

    Raises:
        UsageError: The port is not free.
    """
    try:
        web = ThreadingHTTPServer(("127.0.0.1", port), _Model)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen on port {port}: {error}") from None
    url = f"http://127.0.0.1:{web.server_port}/v1"
    print(f"a scripted model listens at {url} (Ctrl-C ends it). In another terminal:")
    print(f"    export OPENAI_BASE_URL={url} OPENAI_API_KEY=none")
    print(f'    python3 agent.py "{QUESTION}" python3 -m {__package__}.demo_server', flush=True)
    with web:
        web.serve_forever()
    return 0


class _Model(BaseHTTPRequestHandler):
    """Answers requests for chat completions."""

    def do_POST(self) -> None:
        """Answer one request."""
        try:
            size = int(self.headers.get("Content-Length") or 0)
            if not 0 < size <= MAX_BODY_BYTES or not self.path.endswith("/chat/completions"):
                raise ValueError("POST a JSON body to /v1/chat/completions")
            message = think(json.loads(self.rfile.read(size))["messages"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            self._respond(400, {"error": {"message": str(error)}})
            return
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        self._respond(200, {"object": "chat.completion", "choices": [choice]})

    def _respond(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
