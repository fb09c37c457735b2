"""examples/agent.py with a model that is a list of answers behind the API of a real one; tools in
models' shapes."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, Iterator, List, Tuple

import pytest

from minimcp import Server, Tool, connect

from .support import ROOT, run_python

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
    calls(("greet", "{"), ("gone", "{}")),
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
    done = run_python(arguments, env=variables, stdin=2 * says)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().endswith("Ada was greeted.\n")
    assert "hello: 'greet' with {'name': 'Ada'}" in done.stderr.decode()
    assert [tool["function"]["name"] for tool in asked[0]["tools"]] == ["greet"]
    assert asked[0]["tools"][0]["function"]["parameters"]["required"] == ["name"]
    results = [each["content"] for each in asked[2]["messages"] if each["role"] == "tool"]
    assert results[0] == becomes and len(results) == 4
    assert results[1] == becomes or "did you mean 'name'?" in results[1]
    assert (
        results[2].startswith("failed: JSONDecodeError")
        and results[3] == "failed: KeyError('gone')"
    )


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
