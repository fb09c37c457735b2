"""list, call and ping: in this process against a server in a child process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import Callable

import pytest

from minimcp.cli.values import kind

from ..support import ROOT, WAIT
from .conftest import Done, command_line, quoted, run_process

LISTED = """\
shop 3, revision 2026-07-28
  Sells things.
  Ask for prices.

order(item: string, count: integer = 1, price: number = 0.5,"""


def test_list(shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("list", shop)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(LISTED)
    assert 'size: one of "s", "m" = "m"' in done.out
    assert "\n    Order something.\n      item: What to buy.\n" in done.out
    assert "\nfail()\n    Fail.\n" in done.out


def test_list_as_json(shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("list", shop, "--output", "json")
    assert [tool["name"] for tool in json.loads(done.out)["tools"]] == ["order", "fail", "slow", "pictures", "nothing"]


def test_list_of_a_server_without_tools(shop: str, minimcp: Callable[..., Done]) -> None:
    with open("bare.py", "w", encoding="utf-8") as file:
        file.write("from minimcp import Server\nServer('bare').run()\n")
    assert minimcp("list", "bare.py").out == "bare 0, revision 2026-07-28\n\nno tools\n"
    nothing = {"tools": [], "resources": [], "resourceTemplates": [], "prompts": []}
    assert json.loads(minimcp("list", "bare.py", "--output", "json").out) == nothing


TODO = """
from __future__ import annotations
import dataclasses
import datetime
from typing import Optional
from minimcp import Server

server = Server("todo")

@dataclasses.dataclass
class Where:
    room: str

@dataclasses.dataclass
class Todo:
    title: str
    due: Optional[datetime.date]
    where: Where
    done: bool = False

@dataclasses.dataclass
class Tree:
    children: list[Tree]

@server.tool
def load(todos: list[Todo], first: Todo, tree: Tree, at: datetime.datetime, sure: dict[str, int]) -> int:
    return len(todos)

server.run()
"""


def test_list_shows_what_objects_hold(shop: str, minimcp: Callable[..., Done]) -> None:
    with open("todo.py", "w", encoding="utf-8") as file:
        file.write(TODO)
    todo = "object (title: string, due: date or null, where: object, done: boolean = false)"
    assert minimcp("list", "todo.py").out.splitlines()[2] == (
        f"load(todos: array of {todo}, first: {todo}, tree: object (children: array of object), at: date and time, "
        "sure: object)"
    )


def test_a_schema_that_goes_round_in_circles_is_shown() -> None:
    root = {"$defs": {"A": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/A"}}]}}}
    assert kind({"$ref": "#/$defs/A"}, root).startswith("integer or array of integer or array of ")
    assert kind({"type": "string", "format": ["date"]}) == "string"


SHELF = """
from minimcp import Image, Message, Server
server = Server("shelf")

@server.resource("notes://all", title="All notes", mime_type="text/markdown", size=7)
def notes() -> str:
    "All that\x1b[31m was noted."
    return "# n\x1b[31motes"

@server.resource("bin://data")
def data() -> bytes:
    "Bytes."
    return b"\\x00\\xff\\n"

@server.resource("hello://{name}")
def hello(name: str) -> str:
    "Somebody."
    return "hello " + name

@server.prompt
def greet(name: str, tone: str = "plain") -> list:
    '''Greet somebody.

    Args:
        tone: How it sounds.
    '''
    return [f"{name}, {tone}", Message("assistant", "Hi"), Image(b"12345", "image/png")]

server.run()
"""


@pytest.fixture
def shelf(shop: str) -> str:
    """The file of a server with resources and prompts, next to the shop."""
    with open("shelf.py", "w", encoding="utf-8") as file:
        file.write(SHELF)
    return "shelf.py"


def test_list_of_resources_and_prompts(shelf: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("list", shelf)
    assert (done.code, done.err) == (0, "")
    assert done.out == """\
shelf 0, revision 2026-07-28

resources:

notes://all (All notes, text/markdown, 7 bytes)
    All that\\x1b[31m was noted.
bin://data (data)
    Bytes.

resource templates:

hello://{name} (hello)
    Somebody.

prompts:

greet(name, [tone])
    Greet somebody.
      tone: How it sounds.
"""
    listed = json.loads(minimcp("list", shelf, "--output", "json").out)
    assert [len(listed[name]) for name in ("tools", "resources", "resourceTemplates", "prompts")] == [0, 2, 1, 1]


def test_read(shelf: str, minimcp: Callable[..., Done]) -> None:
    assert minimcp("read", shelf, "notes://all") == Done(0, "# n\x1b[31motes\n", "")
    assert minimcp("read", shelf, "hello://Ada").out == "hello Ada\n"
    said = json.loads(minimcp("read", shelf, "bin://data", "--output", "json").out)
    assert said["contents"] == [{"uri": "bin://data", "mimeType": "application/octet-stream", "blob": "AP8K"}]
    done = minimcp("read", shelf, "none://here")
    assert (done.code, done.out) == (3, "") and "Resource not found: none://here" in done.err
    assert minimcp("read", shelf).code == 2


def test_read_writes_bytes_as_they_are(shelf: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = command_line("read", shelf, "bin://data")
    done = subprocess.run(command, capture_output=True, timeout=3 * WAIT, env=environment, check=True)
    assert done.stdout == b"\x00\xff\n"


def test_read_shows_a_terminal_nothing_that_it_would_obey(
    shelf: str, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert minimcp("read", shelf, "notes://all").out == "# n\\x1b[31motes\n"
    assert minimcp("read", shelf, "bin://data").out == "[content, bin://data, application/octet-stream, 3 bytes]\n"


def test_prompt(shelf: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("prompt", shelf, "greet", "name=Ada=x", "tone=")
    assert done == Done(0, "user: Ada=x, \nassistant: Hi\nuser: [image, image/png, 5 bytes]\n", "")
    said = json.loads(minimcp("prompt", "--output", "json", shelf, "greet", "name=Ada").out)
    assert said["messages"][0]["content"]["text"] == "Ada, plain"
    for words, code, text in (
        (["greet"], 3, "name"), (["nope"], 3, "Unknown prompt: nope"), (["greet", "Ada"], 2, "is not key=value"),
        (["greet", "=Ada"], 2, "is not key=value"), ([], 2, "NAME"),
    ):
        done = minimcp("prompt", shelf, *words)
        assert (done.code, done.out) == (code, "") and text in done.err


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_ping(shop: str, revision: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("ping", shop, "--revision", revision)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("shop 3 answered in ")
    assert done.out.endswith(f" ms, revision {revision}\n")


def test_ping_as_json(shop: str, minimcp: Callable[..., Done]) -> None:
    said = json.loads(minimcp("ping", shop, "--output", "json", "--revision", "handshake").out)
    assert (said["serverInfo"], said["revision"]) == ({"name": "shop", "version": "3"}, "2025-11-25")
    assert said["seconds"] > 0


def test_call_reads_arguments_by_the_schema(shop: str, minimcp: Callable[..., Done]) -> None:
    words = ["item=7", "count=2", "price=3", "tags=a", "tags=b", "gift=yes", "size=s", 'more={"x": 1}']
    done = minimcp("call", shop, "order", *words, "--quiet")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {
        "item": "7", "count": 2, "price": 3, "tags": ["a", "b"], "gift": True, "size": "s", "more": {"x": 1},
    }  # fmt: skip


def test_call_takes_options_between_arguments(shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("call", "--quiet", shop, "order", "item=a", "--json", '{"item": "b", "count": 3}', "gift=on")
    assert [json.loads(done.out)[name] for name in ("item", "count", "gift")] == ["a", 3, True]


def test_call_takes_arguments_from_stdin(
    shop: str, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"item": "x", "count": 9, "gift": true}'))
    done = minimcp("call", shop, "order", "-", "--json", '{"count": 8}', "item=y", "--quiet")
    assert [json.loads(done.out)[name] for name in ("item", "count", "gift")] == ["y", 8, True]


def test_call_shows_progress_on_stderr(shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("call", shop, "order", "item=a")
    assert done.err.splitlines() == [
        "[#####...............]  25% step 1",
        "[##########..........]  50% step 2",
        "[###############.....]  75% step 3",
        "[####################] 100% step 4",
    ]


def test_call_as_json(shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("call", shop, "pictures", "--output", "json", "--revision", "2025-06-18")
    assert done.code == 0
    assert [block["type"] for block in json.loads(done.out)["content"]] == ["text", "image", "resource_link"]


def test_call_names_what_is_no_text(shop: str, minimcp: Callable[..., Done]) -> None:
    assert minimcp("call", shop, "pictures").out == "a\x1b[31mb\n[image, image/png, 5 bytes]\n[resource_link, file:///x]\n"


def test_call_of_a_tool_that_returns_nothing(shop: str, minimcp: Callable[..., Done]) -> None:
    assert minimcp("call", shop, "nothing") == Done(0, "null\n", "")


def test_a_tools_error_is_exit_code_1(shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("call", shop, "fail")
    assert (done.code, done.out) == (1, "")
    assert done.err.endswith(" call: out of stock,\nsorry\n")
    done = minimcp("call", shop, "fail", "--output", "json")
    assert (done.code, json.loads(done.out)["isError"]) == (1, True)


def test_wrong_arguments_are_the_servers_to_judge(shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("call", shop, "order", "item=a", "cuont=2")
    assert (done.code, done.out) == (1, "")
    assert "cuont" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nix"], "the server has no tool 'nix': it has order, fail, slow, pictures, nothing"),
        (["ordre"], "the server has no tool 'ordre', did you mean order? It has order, fail, slow, pictures, nothing"),
        (["picture"], "did you mean pictures?"),
        (["order"], "item is missing: order(item: string, count: integer = 1, price: number = 0.5, "),
        (["order", "count=2", "--json", '{"gift": true}'], "item is missing: order(item: string, "),
        (["order", "itme=a"], "item is missing (did you mean item instead of itme?): order(item: string, "),
        (["order", "count=many"], "count: expected integer, got 'many'"),
        (["order", "item"], "'item' is not key=value"),
        (["order", "--json", "[]"], "--json: a JSON object was expected"),
    ],
)
def test_wrong_usage_of_call(words: str, said: str, shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("call", shop, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_a_timeout_is_exit_code_4(shop: str, minimcp: Callable[..., Done]) -> None:
    for seconds in ("1.5", "5", "20"):  # in which the server starts too
        done = minimcp("call", shop, "slow", "--timeout", seconds)
        if "slow has begun" in done.err:
            break
    assert (done.code, done.out) == (4, "")
    assert f"tools/call 'slow': no answer within {seconds} s" in done.err


def test_a_server_that_dies_is_exit_code_3(shop: str, minimcp: Callable[..., Done]) -> None:
    with open("dying.py", "w", encoding="utf-8") as file:
        file.write("import os\nfrom minimcp import Server\ns = Server('dying')\n@s.tool\ndef die() -> str:\n")
        file.write("    'Die.'\n    os._exit(9)\ns.run()\n")
    done = minimcp("call", "dying.py", "die")
    assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
    assert "exited with code 9" in done.err


def test_the_commands_as_processes_with_a_command_line_as_target(shop: str) -> None:
    target = quoted("env", "A=b", "python3", "-m", "minimcp", "run", shop)
    assert run_process("ping", target).code == 0
    assert run_process("list", target).out.startswith(LISTED)
    done = run_process("call", target, "order", "-", stdin='{"item": "x"}')
    assert (done.code, json.loads(done.out)["item"]) == (0, "x")
    assert run_process("call", target, "fail").code == 1
    assert run_process("call", target, "nix").code == 2


def test_a_target_is_a_name_in_a_config(shop: str, minimcp: Callable[..., Done]) -> None:
    servers = {"my-shop": {"command": sys.executable, "args": ["shop.py"]}, "my shop": {"command": "x", "args": 5},
               "shop.py": {"command": "no-such-program"}, "far": {"url": "ftp://example.com"}}
    for file in ("mcp.json", "other.json"):
        with open(file, "w", encoding="utf-8") as out:
            json.dump({"mcpServers": servers}, out)
    assert minimcp("ping", "my-shop").out.startswith("shop 3 answered in ")
    assert " ping: the server 'shop.py' of other.json" in minimcp("ping", "shop.py", "--config", "other.json").err
    for target, options, problem in (
        ("far", [], "mcp.json: server 'far': url: a URL begins"),
        ("my-shpo", ["--config", "other.json"], "other.json has no server 'my-shpo', did you mean 'my-shop'? it has"),
        ("my shop", ["--config", "other.json"], "other.json: server 'my shop': args: must be a list of strings"),
        ("my-shop", ["--config", "none.json"], "none.json: No such file or directory"),
    ):
        done = minimcp("list", target, *options)
        assert done.code == 2 and f" list: {problem}" in done.err and done.err.count("\n") == 1
    assert minimcp("ping", "no-such-program-here").code == 3
    with open("mcp.json", "w", encoding="utf-8") as out:
        out.write("{")
    assert "mcp.json: line 1" in minimcp("ping", "my-shop").err
    assert minimcp("ping", f"{quoted(sys.executable)} no-such.py").code == 3, "a command line is no name"
    assert minimcp("ping", "shop.py").code == 0
