"""examples/agent.py with a model that is a list of answers behind the API of a real one; tools in
models' shapes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, Iterator, List, Tuple

import pytest

from minimcp import (
    Audio,
    CallToolResult,
    EmbeddedResource,
    Image,
    ResourceLink,
    Server,
    Text,
    Tool,
    connect,
)
from minimcp.types import BlobResourceContents, TextResourceContents, UnknownContent

from .support import ROOT, WAIT, run_python

Asked = List[Dict[str, Any]]


def calls(*wanted: Tuple[str, str]) -> Dict[str, Any]:
    made = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(wanted)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


ANSWERS = [
    calls(("greet", '{"name": "Ada"}'), ("greet", '{"nam": "Ada"}')),
    calls(("greet", "{"), ("gret", "{}")),
    {"role": "assistant", "content": "Ada was greeted."},
]


@pytest.fixture
def model() -> Iterator[Tuple[str, Asked]]:
    """Yield the URL of a model, and a list of its requests."""
    asked: Asked = []

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert (
                self.path == "/chat/completions" and self.headers["Authorization"] == "Bearer key"
            )
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps({"choices": [{"message": ANSWERS[min(len(asked), 3) - 1]}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as web:
        thread = threading.Thread(target=web.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}", asked
        web.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "says, becomes", [(b"y\n", "Hello, Ada!"), (b"n\n", "the user rejected this call")]
)
def test_the_agent_calls_what_the_model_wants_if_the_user_does(
    model: Tuple[str, Asked], says: bytes, becomes: str
) -> None:
    url, asked = model
    variables = {
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "key",
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "*",
    }
    arguments = ["examples/agent.py", "Greet Ada.", "python3", "examples/02_hello.py", "serve"]
    done = run_python(arguments, env=variables, stdin=3 * says)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().endswith("Ada was greeted.\n")
    assert "hello: 'greet' with {'name': 'Ada'}" in done.stderr.decode()
    assert [tool["function"]["name"] for tool in asked[0]["tools"]] == ["greet"]
    assert asked[0]["tools"][0]["function"]["parameters"]["required"] == ["name"]
    contents = [each["content"] for each in asked[2]["messages"] if each["role"] == "tool"]
    results = [each if isinstance(each, str) else each[0]["text"] for each in contents]
    assert results[0] == becomes and len(results) == 4
    assert results[1] == becomes or "did you mean 'name'?" in results[1]
    assert results[2].startswith("failed: Expecting property name")
    misspelled = "failed: Unknown tool: gret, did you mean greet? (-32602)"
    assert results[3] == (misspelled if says == b"y\n" else becomes)


PICTURE = Image(b"png", "image/png")
CONTENT = [
    Text("a text"),
    Text(""),
    PICTURE,
    Audio(b"12", "audio/wav"),
    ResourceLink("notes://1", "note", title="Note 1"),
    EmbeddedResource(TextResourceContents("notes://2", "inside")),
    EmbeddedResource(BlobResourceContents("notes://3", b"png", mime_type="image/png")),
    EmbeddedResource(BlobResourceContents("notes://4", b"1234", mime_type="application/pdf")),
    Image(b"<svg/>", "image/svg+xml"),
    UnknownContent({"type": "odd", "a": 1}),
]
TEXTS = [
    "a text",
    None,
    "[audio, audio/wav, 2 bytes]",
    "Note 1: notes://1",
    "inside",
    None,
    "[resource, notes://4, application/pdf, 4 bytes]",
    "[image, image/svg+xml, 6 bytes]",
    '{"type":"odd","a":1}',
]


def test_a_result_in_the_shapes_of_models() -> None:
    result = CallToolResult(CONTENT)
    data = "cG5n"
    for made, image in (
        (
            result.as_anthropic(),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": data},
            },
        ),
        (
            result.as_openai(),
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        ),
    ):
        assert made == [image if text is None else {"type": "text", "text": text} for text in TEXTS]
        json.dumps(made)


@pytest.mark.parametrize(
    "result, text",
    [
        (CallToolResult(), "The result is empty."),
        (CallToolResult([Text("")]), "The result is empty."),
        (CallToolResult(structured_content={"ä": 1}), '{"ä":1}'),
    ],
)
def test_a_model_never_gets_an_empty_list_or_an_empty_text(
    result: CallToolResult, text: str
) -> None:
    assert result.as_anthropic() == result.as_openai() == [{"type": "text", "text": text}]


def test_a_scripted_model_calls_the_tools_of_the_demo() -> None:
    done = run_python(["-m", "minimcp", "demo", "--agent"])
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line.strip() for line in done.stdout.decode().splitlines()]
    assert lines[0].endswith("price, bake, order") and len(lines) == 9
    assert lines[2:4] == ['model  calls price {"bread": "rye", "loaves": 2}', "server  9.0"]
    assert lines[5] == "server  Unknown tool: pric, did you mean price? (-32602)"
    assert lines[7] == "server  We have no oat bread. We have rye, wheat, corn."
    assert lines[8].startswith("model  The results are: 9.0; Unknown tool")


def test_a_scripted_model_is_the_model_of_an_agent() -> None:
    command = [sys.executable, "-m", "minimcp", "demo", "--agent", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as served:
        try:
            assert served.stdout is not None
            url = served.stdout.readline().split()[5].decode()
            variables = {
                "OPENAI_BASE_URL": url,
                "OPENAI_API_KEY": "key",
                "PYTHONPATH": str(ROOT),
                "NO_PROXY": "*",
            }
            for question, answer in (
                ("greet name=Ada", "The results are: Hello, Ada!"),
                ("gret name='Ada Byron'; greet nam=Ada", "did you mean greet"),
                (" ", "The results are: none"),
            ):
                arguments = ["examples/agent.py", question, "python3", "examples/02_hello.py"]
                done = run_python([*arguments, "serve"], env=variables, stdin=b"y\n" * 9)
                assert done.returncode == 0, done.stderr.decode()
                assert answer in done.stdout.decode()
            for path, body, text in (
                ("/chat/completions", b"{}", "messages"),
                ("/chat/completions", b"[", "Expecting value"),
                ("/chat/completions", b'{"messages": []}', "no user message"),
                ("/other", b'{"messages": []}', "POST a JSON body to /v1/chat/completions"),
            ):
                request = urllib.request.Request(url + path, body)
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                with pytest.raises(urllib.error.HTTPError) as caught:
                    opener.open(request, timeout=WAIT)
                assert caught.value.code == 400
                assert text in json.loads(caught.value.read())["error"]["message"]
                caught.value.close()
        finally:
            served.kill()


def test_the_agent_is_short() -> None:
    assert len((ROOT / "examples" / "agent.py").read_text("utf-8").splitlines()) < 80


def test_a_tool_in_the_shapes_of_models() -> None:
    server = Server("shapes")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    with connect(server) as client:
        (tool,) = client.list_tools()
    parameters = tool.input_schema
    assert tool.as_openai() == {
        "type": "function",
        "function": {"name": "add", "description": "Add.", "parameters": parameters},
    }
    assert tool.as_anthropic() == {"name": "add", "description": "Add.", "input_schema": parameters}
    assert tool.as_openai("b")["function"]["name"] == tool.as_anthropic(name="b")["name"] == "b"


def test_an_input_schema_that_says_little_is_one_that_models_take() -> None:
    empty = {"type": "object", "properties": {}}
    for schema in ({}, {"type": "object"}):
        tool = Tool("x", schema)
        assert tool.as_openai() == {
            "type": "function",
            "function": {"name": "x", "parameters": empty},
        }
        assert tool.as_anthropic() == {"name": "x", "input_schema": empty}
