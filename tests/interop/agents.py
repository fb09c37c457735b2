"""``python -m tests.interop.agents [HOST...]``: Claude Code, Codex and Gemini CLI, driven offline.

The programs are installed from npm. ``minimcp install`` writes each host's file in a home of its
own. Claude Code and Gemini CLI then talk to a substitute for the API of their model, which
requests one tool call after the other; Codex calls tools through its app-server, without a model. Each host
lists the tools, calls one for each kind of content, one that reports progress, one that fails, and
one that asks the user. ``minimcp trace`` records the messages between host and server.

Prints one line for each host. The exit code is 1 if a host cannot be installed or a check fails.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ..support import ROOT
from .environments import InstallFailed, NodeEnvironment
from .peers.hosts_server import PNG

SERVER = Path(__file__).resolve().parent / "peers" / "hosts_server.py"
SECONDS = 180.0

PACKAGES = {
    "claude-code": ["@anthropic-ai/claude-code@2.1.332"],
    "codex": ["@openai/codex@0.171.0"],
    "gemini": ["@google/gemini-cli@0.61.0"],
}
ENVIRONMENTS = {name: NodeEnvironment(name, packages) for name, packages in PACKAGES.items()}

CALLS: Sequence[tuple[str, dict[str, Any]]] = (
    ("words", {"text": "hi", "count": 2}),
    ("facts", {"city": "Oslo"}),
    ("picture", {}),
    ("sound", {}),
    ("link", {}),
    ("embedded", {}),
    ("work", {}),
    ("fail", {}),
    ("ask", {}),
)

# The text that must be in what the host makes of each result.
EXPECTED = {
    "words": "hi hi",
    "facts": "degrees",
    "picture": base64.b64encode(PNG).decode(),
    "sound": "audio/wav",
    "link": "file:///proof/link.txt",
    "embedded": "the embedded text",
    "work": "the work is done",
    "fail": "out of stock",
}


class Seen(NamedTuple):
    """The tools and results that a host has seen."""

    tools: set[str]
    """The names of the tools that it offers to its model, without the host's prefix."""

    results: Mapping[str, str]
    """The text into which it converts the result of each tool, as JSON."""

    failures: set[str]
    """The tools whose result it reports as a failure."""


class Home:
    """A home folder in which one host runs.

    Args:
        name: The host's name for ``install --client``.
        folder: An empty folder.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.environment = ENVIRONMENTS[name]
        self.folder = folder
        self.rows = folder / "rows.jsonl"
        node = Path(self.environment.command("x")[0]).resolve().parent
        programs = self.environment.folder / "node_modules" / ".bin"
        self.variables = {
            "HOME": str(folder),
            "PATH": os.pathsep.join(map(str, (node, programs, "/usr/bin", "/bin"))),
        }
        (folder / "work").mkdir()

    def install(self, client: str) -> None:
        """Have ``minimcp install`` write the host's file."""
        command = [sys.executable, "-m", "minimcp", "install", str(SERVER), "--client", client]
        self.run([*command, "--env", f"ROWS={self.rows}"], PYTHONPATH=str(ROOT))
        for file in self.row_files():  # the check of this command has talked to the server, too
            file.unlink()

    def run(self, command: Sequence[str], **variables: str) -> str:
        """Run a program in this home, and return what it prints."""
        done = subprocess.run(
            command,
            cwd=self.folder / "work",
            env={**self.variables, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
            text=True,
        )
        if done.returncode:
            raise AssertionError(f"{command[0]} exited with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def messages(self) -> list[dict[str, Any]]:
        """Return the rows of the messages between the host and the server."""
        lines = [line for file in self.row_files() for line in file.read_text("utf-8").splitlines()]
        return [row for row in map(json.loads, lines) if row["kind"] != "note"]

    def row_files(self) -> list[Path]:
        """Return the files with rows, one for each process of the server."""
        return sorted(self.folder.glob(f"{self.rows.name}.*"))


# ------------------------------------------------------------ a model that requests tool calls


class Model:
    """A substitute for the API of a model. It requests the calls of `CALLS`, and then ends the turn.

    Attributes:
        requests: The decoded bodies of the requests that offer tools.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def reply(self, path: str, body: dict[str, Any]) -> tuple[bytes, str]:
        """Return a response and its content type."""
        raise NotImplementedError

    @contextlib.contextmanager
    def served(self) -> Iterator[str]:
        """Serve the model over HTTP, and yield the URL."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._send(b"{}", "application/json")

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._send(*model.reply(self.path, json.loads(data or b"{}")))

            def _send(self, data: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()


class Anthropic(Model):
    """The Messages API."""

    def reply(self, path: str, body: dict[str, Any]) -> tuple[bytes, str]:
        if not path.partition("?")[0].endswith("/messages"):
            return b'{"input_tokens": 1}', "application/json"
        offered = {tool["name"] for tool in body.get("tools", ())}
        block: dict[str, Any] = {"type": "text", "text": "done"}
        reason = "end_turn"
        if any(name.startswith("mcp__proof__") for name in offered):
            self.requests.append(body)
            count = len(self.results())
            if count < len(CALLS):
                name, arguments = CALLS[count]
                block = {"type": "tool_use", "id": f"toolu_{count}", "name": f"mcp__proof__{name}"}
                block["input"] = arguments
                reason = "tool_use"
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [block],
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not body.get("stream"):
            return json.dumps(message).encode(), "application/json"
        empty = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": "done"}
        if reason == "tool_use":
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        ]
        lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]
        return "".join(lines).encode(), "text/event-stream"

    def results(self) -> list[dict[str, Any]]:
        """Return the blocks with results in the last request."""
        return [
            block
            for message in self.requests[-1]["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]


class Gemini(Model):
    """The Gemini API."""

    def reply(self, path: str, body: dict[str, Any]) -> tuple[bytes, str]:
        part: dict[str, Any] = {"text": "done"}
        if body.get("tools") and "enerateContent" in path:
            self.requests.append(body)
            count = sum("functionResponse" in each for each in self.parts())
            if count < len(CALLS):
                name, arguments = CALLS[count]
                call = {"name": f"mcp_proof_{name}", "args": arguments, "id": f"c{count}"}
                part = {"functionCall": call}
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        data = json.dumps({"candidates": [candidate], "usageMetadata": usage}).encode()
        if "alt=sse" in path:
            return b"data: " + data + b"\r\n\r\n", "text/event-stream"
        return data, "application/json"

    def parts(self) -> list[dict[str, Any]]:
        """Return the parts of all contents in the last request."""
        return [part for each in self.requests[-1]["contents"] for part in each["parts"]]


# ------------------------------------------------------------ the hosts


def claude_code(home: Home) -> Seen:
    """Run Claude Code, which shows structured content as JSON."""
    home.install("claude-code")
    model = Anthropic()
    program = home.environment.folder / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
    with model.served() as url:
        home.run(
            [str(program), "-p", "go", "--allowedTools", "mcp__proof"],
            ANTHROPIC_BASE_URL=url,
            ANTHROPIC_API_KEY="sk-not-a-key",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            ENABLE_TOOL_SEARCH="false",
            # By default it asks its model after a few seconds, with or without the servers' tools.
            MCP_CONNECTION_NONBLOCKING="false",
            MCP_CONNECT_TIMEOUT_MS="60000",
            MCP_TIMEOUT="60000",
            CLAUDE_CODE_MCP_STARTUP_WAIT_MS="60000",
        )
    assert model.requests, "no request to the model offers a tool of the server"
    names = {tool["name"] for tool in model.requests[-1]["tools"]}
    blocks = model.results()
    named = [(name, block) for (name, _), block in zip(CALLS, blocks)]
    return Seen(
        {name.partition("mcp__proof__")[2] for name in names if name.startswith("mcp__proof__")},
        {name: json.dumps(block) for name, block in named},
        {name for name, block in named if block.get("is_error")},
    )


def gemini(home: Home) -> Seen:
    """Run Gemini CLI, which shows text blocks."""
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    (home.folder / ".gemini").mkdir()
    (home.folder / ".gemini" / "settings.json").write_text(json.dumps(settings), "utf-8")
    home.install("gemini")
    model = Gemini()
    with model.served() as url:
        command = home.environment.command("@google/gemini-cli/bundle/gemini.js")
        home.run(
            [*command, "-p", "go", "--yolo", "-m", "gemini-2.5-flash"],
            GOOGLE_GEMINI_BASE_URL=url,
            GEMINI_API_KEY="not-a-key",
        )
    declared = [
        each["name"]
        for tool in model.requests[-1]["tools"]
        for each in tool.get("functionDeclarations", ())
    ]
    results: dict[str, str] = {}
    failures = set()
    name = ""
    for part in model.parts():
        if "functionResponse" in part:
            name = part["functionResponse"]["name"].partition("mcp_proof_")[2]
            if "error" in part["functionResponse"]["response"]:
                failures.add(name)
        if name:  # an image follows its response
            results[name] = results.get(name, "") + json.dumps(part)
    prefix = "mcp_proof_"
    names = {each[len(prefix) :] for each in declared if each.startswith(prefix)}
    return Seen(names, results, failures)


class AppServer:
    """The app-server of Codex, a JSON-RPC server over stdio."""

    def __init__(self, home: Home) -> None:
        command = home.environment.command("@openai/codex/bin/codex.js")
        self._process = subprocess.Popen(
            [*command, "app-server"],
            cwd=home.folder / "work",
            env=home.variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._count = 0
        self._timer = threading.Timer(SECONDS, self._process.kill)
        self._timer.daemon = True
        self._timer.start()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and return its result. Accept the questions that arrive before it."""
        self._count += 1
        self.send({"id": self._count, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("method") == "mcpServer/elicitation/request":
                answer = {"action": "accept", "content": {"count": 3}}
                self.send({"id": message["id"], "result": answer})
            elif message.get("id") == self._count and "method" not in message:
                assert "result" in message, message
                return message["result"]
        raise AssertionError(f"{method}: no response")

    def close(self) -> None:
        """End the process."""
        self._timer.cancel()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def codex(home: Home) -> Seen:
    """Run the app-server of Codex. ``install`` has Codex write its file."""
    (home.folder / ".codex").mkdir()
    home.install("codex")
    config = home.folder / ".codex" / "config.toml"
    text = config.read_text("utf-8")
    nowhere = 'model_provider = "nowhere"\n'
    provider = '\n[model_providers.nowhere]\nname = "nowhere"\nbase_url = "http://127.0.0.1:9/v1"\n'
    config.write_text(nowhere + text + provider, "utf-8")
    server = AppServer(home)
    try:
        server.request("initialize", {"clientInfo": {"name": "proof", "version": "1"}})
        server.send({"method": "initialized"})
        thread = server.request("thread/start", {"cwd": str(home.folder / "work")})["thread"]["id"]
        asked = {"threadId": thread, "serverName": "proof"}
        (status,) = server.request("mcpServerStatus/list", asked)["data"]
        results = {}
        failures = set()
        for name, arguments in CALLS:
            params = {"threadId": thread, "server": "proof", "tool": name, "arguments": arguments}
            result = server.request("mcpServer/tool/call", params)
            results[name] = json.dumps(result)
            if result.get("isError"):
                failures.add(name)
    finally:
        server.close()
    return Seen(set(status["tools"]), results, failures)


class Host(NamedTuple):
    """A host, and what is particular to it."""

    drive: Any
    revisions: frozenset[str]
    """The revisions that it may use. Claude Code uses the older one if the server starts slowly."""
    answer: str
    """What the tool that asks the user returns."""


HOSTS = {
    "claude-code": Host(claude_code, frozenset({"2026-07-28", "2025-11-25"}), "cancel"),
    "codex": Host(codex, frozenset({"2025-06-18"}), "accept {'count': 3}"),
    "gemini": Host(gemini, frozenset({"2025-06-18"}), "nobody can be asked"),
}


def faults(host: Host, seen: Seen, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is not as it should be."""
    names = {name for name, _ in CALLS}
    if seen.tools != names:
        yield f"list: the host offers {sorted(seen.tools)}"
    for name, text in {**EXPECTED, "ask": host.answer}.items():
        if text not in seen.results.get(name, ""):
            yield f"{name}: {text!r} is not in {seen.results.get(name)}"
    if seen.failures != {"fail"}:
        yield f"failures: {sorted(seen.failures)}"
    sent = [row for row in rows if row["direction"] == "<--"]
    progress = [row for row in sent if row["method"] == "notifications/progress"]
    if [row["message"]["params"]["progress"] for row in progress] != [1, 2, 3]:
        yield f"progress: {len(progress)} notifications"
    revisions = revisions_of(rows)
    if not revisions or not host.revisions.issuperset(revisions):
        yield f"revisions: {revisions}"
    for row in sent:
        yield from (f"the server violates {breach}" for breach in row["breaches"])


def revisions_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the revisions that messages name."""
    return sorted({_revision(row["message"]) for row in rows} - {None})


def _revision(message: Mapping[str, Any]) -> Any:
    """Return the revision that a message names: the result of a handshake, or a request's own."""
    agreed = (message.get("result") or {}).get("protocolVersion")
    meta = (message.get("params") or {}).get("_meta") or {}
    return agreed or meta.get("io.modelcontextprotocol/protocolVersion")


def visit(name: str) -> bool:
    """Drive one host, print a line, and return whether everything was as it should be."""
    host = HOSTS[name]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            ENVIRONMENTS[name].ready()
            home = Home(name, Path(folder))
            seen = host.drive(home)
            rows = home.messages()
            found = list(faults(host, seen, rows))
        except InstallFailed as error:
            found = [str(error)]
        except Exception as error:
            traceback.print_exc()
            found = [f"{type(error).__name__}: {error}"]
    took = f"{time.monotonic() - begun:.1f} s"
    package = PACKAGES[name][0]
    if not found:
        revisions = ", ".join(revisions_of(rows))
        print(f"{package}: {len(CALLS)} tools, {revisions}, {host.answer!r} ({took})")
    for fault in found:
        print(f"{package} FAILED: {fault}")
    return not found


def main(names: Sequence[str]) -> int:
    """Drive the hosts with these names; without names, all."""
    failed = [name for name in names or HOSTS if not visit(name)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
