"""list, call, read, prompt and ping: in this process against a server in a child process, and at a
URL."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, List
from unittest.mock import ANY

import pytest

from minimcp import terminal
from minimcp.extensions.client_tasks import Task

from ..support import ROOT, WAIT, eventually
from ..web import Peer
from .conftest import Done, command_line, quoted, run_process, served

LISTED = """\
shop 3, revision 2026-07-28
  Sells things.
  Ask for prices.

order(item: string, count: integer = 1, price: number = 0.5,"""


def _write(name: str, text: str) -> str:
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


# ------------------------------------------------------------ list


def test_list(shop_url: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("list", shop_url)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(LISTED)
    assert 'size: one of "s", "m" = "m"' in done.out
    assert "\n    Order something.\n      item: What to buy.\n" in done.out
    assert "\nfail()\n    Fail.\n" in done.out
    done = minimcp("list", shop_url, "--output", "json")
    assert [tool["name"] for tool in json.loads(done.out)["tools"]] == [
        "order",
        "fail",
        "slow",
        "pictures",
        "nothing",
    ]


def test_list_of_a_server_without_anything(shop: str, minimcp: Callable[..., Done]) -> None:
    bare = _write("bare.py", "from minimcp import Server\nServer('bare').run()\n")
    assert minimcp("list", bare).out == "bare, revision 2026-07-28\n\nno tools\n"
    nothing = {
        "tools": [],
        "resources": [],
        "resourceTemplates": [],
        "prompts": [],
        "extensions": {},
    }
    assert json.loads(minimcp("list", bare, "--output", "json").out) == nothing


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

if __name__ == "__main__":
    server.run()
"""


@pytest.fixture
def shelf(shop: str) -> str:
    """The file of a server with resources and prompts, next to the shop."""
    return _write("shelf.py", SHELF)


@pytest.fixture(scope="module")
def shelf_url() -> Iterator[str]:
    """Where it is to be had without another process."""
    with served(SHELF) as url:
        yield url


def test_list_of_resources_and_prompts(shelf_url: str, minimcp: Callable[..., Done]) -> None:
    assert minimcp("list", shelf_url) == Done(
        0,
        """\
shelf, revision 2026-07-28

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
""",
        "",
    )
    listed = json.loads(minimcp("list", shelf_url, "--output", "json").out)
    assert [
        len(listed[name]) for name in ("tools", "resources", "resourceTemplates", "prompts")
    ] == [0, 2, 1, 1]


BUG = """
from minimcp import Server
server = Server("bug")

@server.tool
def half(of: str) -> float:
    "Half of it."
    return of / 2

server.run()
"""

OLDER = """
import json, os, sys
ANSWERS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                   "serverInfo": {"name": "older", "version": "1"}},
    "ping": {},
    "tools/list": {"tools": [{"name": "die", "inputSchema": {"type": "object"}}]},
    "resources/list": "database\\ndown",
    "prompts/list": {"prompts": []},
}
for line in sys.stdin:
    asked = json.loads(line)
    method, answer = asked["method"], ANSWERS.get(asked["method"])
    if method == "server/discover":
        print("validation error for ClientRequest\\n" * 90, file=sys.stderr, flush=True)
    elif method == "tools/call":
        print("last words\\x1b", file=sys.stderr, flush=True)
        os._exit(9)
    if isinstance(answer, str):
        said = {"error": {"code": -32603, "message": answer}}
    else:
        said = {"result": answer} if answer is not None else {"error": {"code": -32601, "message": "Method not found"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""


def test_a_failed_list_is_reported_and_the_others_are_shown(
    shop: str, minimcp: Callable[..., Done]
) -> None:
    older = _write("older.py", OLDER)
    done = minimcp("list", older)
    assert (done.code, done.out) == (3, "older 1, revision 2025-06-18\n\ndie()\n")
    assert (
        done.err.endswith(" list: resources: database | down (-32603)\n")
        and done.err.count("\n") == 1
    )
    listed = json.loads(minimcp("list", older, "--output", "json").out)
    assert [
        len(listed[name]) for name in ("tools", "resources", "resourceTemplates", "prompts")
    ] == [1, 0, 0, 0]
    _write("older.py", OLDER.replace('"database\\ndown"', '{"resources": []}'))
    assert minimcp("list", older) == Done(0, "older 1, revision 2025-06-18\n\ndie()\n", "")


def test_the_stderr_of_a_server_is_shown_on_request_or_when_the_connection_fails(
    shop: str, minimcp: Callable[..., Done]
) -> None:
    older = _write("older.py", OLDER)
    done = minimcp("ping", older)
    assert (done.code, done.err) == (0, "")
    assert minimcp("ping", older, "--verbose").err.count("validation error") == 90
    done = minimcp("call", older, "die")
    assert (done.code, done.out) == (3, "") and done.err.endswith("    last words\\x1b\n")
    assert "exited with code 9" in done.err.splitlines()[0]
    assert "ordering" not in minimcp("call", shop, "order", "item=a").err


def test_warnings_for_the_author_are_shown(shop: str, minimcp: Callable[..., Done]) -> None:
    source = "from minimcp import Server\nserver = Server('s')\n@server.tool\ndef f() -> int: return 1\nserver.run()\n"
    done = minimcp("list", _write("bare.py", source))
    warned = " list: tool f has no description: a model sees only its name\n"
    assert done.code == 0 and done.err.endswith(warned) and done.err.count("\n") == 1


# ------------------------------------------------------------ call


def test_an_exception_of_a_tool_is_reported_with_its_class(
    shop: str, minimcp: Callable[..., Done]
) -> None:
    _write("bug.py", BUG)
    done = minimcp("call", "bug.py", "half", "of=3")
    told = "TypeError: unsupported operand type(s) for /: 'str' and 'int' (for the traceback: --verbose)\n"
    assert (done.code, done.out) == (1, "") and done.err.endswith(f" call: {told}")
    assert (
        "Traceback (most recent call last)"
        in minimcp("call", "bug.py", "half", "of=3", "--verbose").err
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            [
                "item=7",
                "count=2",
                "price=3",
                "tags=a",
                "tags=b",
                "gift=yes",
                "size=s",
                'more={"x": 1}',
            ],
            {
                "item": "7",
                "count": 2,
                "price": 3,
                "tags": ["a", "b"],
                "gift": True,
                "size": "s",
                "more": {"x": 1},
            },
        ),
        (
            ["item=京", "--json", '{"item": "b", "count": 3}', "gift=on"],
            {"item": "京", "count": 3, "gift": True},
        ),
        (["-", "--json", '{"count": 8}', "item=y"], {"item": "y", "count": 8, "gift": True}),
    ],
)
def test_call_reads_arguments_by_the_schema(
    words: List[str],
    expected: Any,
    shop_url: str,
    minimcp: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"item": "x", "count": 9, "gift": true}'))
    done = minimcp("call", "--quiet", shop_url, "order", *words)
    assert (done.code, done.err) == (
        0,
        "ordering\n",
    )  # in this process the server reports no progress
    said = json.loads(done.out)
    assert {name: said[name] for name in expected} == expected


def test_call_shows_progress_on_stderr(
    shop: str, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "PROGRESS_SECONDS", WAIT)
    assert minimcp("call", shop, "order", "item=a").err.splitlines() == [
        "[#####...............]  25% step 1",  # a line from time to time, and the last one
        "[####################] 100% step 4",
    ]


def test_output_of_call(shop_url: str, minimcp: Callable[..., Done]) -> None:
    shown = "a\x1b[31mb 京\n[image, image/png, 5 bytes]\n[resource_link, file:///x]\n"
    assert minimcp("call", shop_url, "pictures").out == shown
    done = minimcp("call", shop_url, "pictures", "--output", "json", "--revision", "2025-06-18")
    assert [block["type"] for block in json.loads(done.out)["content"]] == [
        "text",
        "image",
        "resource_link",
    ]
    assert "a\\u001b[31mb 京" in done.out, "JSON is readable, and a terminal does not obey it"
    assert minimcp("call", shop_url, "nothing") == Done(0, "null\n", "")
    done = minimcp("call", shop_url, "fail")
    assert (done.code, done.out) == (1, "") and done.err.endswith(" call: out of stock,\nsorry\n")
    done = minimcp("call", shop_url, "fail", "--output", "json")
    assert (done.code, json.loads(done.out)["isError"]) == (1, True)
    done = minimcp("call", shop_url, "order", "item=a", "cuont=2")
    assert (done.code, done.out) == (1, "") and "cuont" in done.err, (
        "wrong arguments are the server's to judge"
    )


def test_a_terminal_obeys_nothing_of_the_raw_output(
    shop_url: str, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    raw = minimcp("call", shop_url, "pictures", "--output", "raw").out
    assert raw.startswith("a\\x1b[31mb 京") and "12345" not in raw
    assert "[image, image/png, 5 bytes]" in raw


def test_bytes_are_printed_or_saved(
    shop_url: str, tmp_path: Path, minimcp: Callable[..., Done]
) -> None:
    raw = minimcp("call", shop_url, "pictures", "--output", "raw").out
    assert raw.startswith("a\x1b[31mb 京12345{") and '"file:///x"' in raw
    folder = tmp_path / "new" / "folder"
    for number in (1, 2):
        done = minimcp("call", shop_url, "pictures", "--save", str(folder))
        path = folder / f"image-{number}.png"
        assert f"\n{path}\n" in done.out and path.read_bytes() == b"12345"
    assert minimcp("call", shop_url, "pictures", "--save", str(path)).code == 3
    assert minimcp("call", shop_url, "fail", "--output", "raw") == Done(1, "", ANY)
    assert minimcp("ping", shop_url, "--output", "raw").code == 2


def test_text_that_the_encoding_lacks_is_escaped(shelf_url: str) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "ascii",
        "PYTHONUTF8": "0",
    }
    for options in ([], ["--output", "json"]):
        done = run_process(
            "prompt", shelf_url, "greet", "name=京 \U0001f600", *options, env=environment
        )
        assert (done.code, done.err) == (0, "") and "\\u4eac" in done.out, done
    assert json.loads(done.out)["messages"][0]["content"]["text"] == "京 \U0001f600, plain"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nix"], "the server has no tool 'nix': it has order, fail, slow, pictures, nothing"),
        (
            ["ordre"],
            "the server has no tool 'ordre', did you mean order? It has order, fail, slow, pictures, nothing",
        ),
        (["picture"], "did you mean pictures?"),
        (
            ["order"],
            "item is missing: order(item: string, count: integer = 1, price: number = 0.5, ",
        ),
        (["order", "count=2", "--json", '{"gift": true}'], "item is missing: order(item: string, "),
        (["order", "item=a", "count=many"], "count: expected an integer, got the string 'many'"),
        (["order", "item"], "'item' is not key=value"),
        (["order", "--json", "[]"], "--json: not a JSON object"),
    ],
)
def test_wrong_usage_of_call(
    words: str, said: str, shop_url: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("call", shop_url, *words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err


# ------------------------------------------------------------ tasks

BAKERY = """
from minimcp import Bearer, Context, Server, Tasks, ToolError
people = Bearer.static({"a": {"sub": "ada"}, "b": {"sub": "bob"}})
server = Server("bakery", extensions=[Tasks(poll_interval=0.02)], auth=people)

@server.tool(task="optional")
def bake(loaves: int) -> str:
    "Bake."
    return f"{loaves} loaves"

@server.tool(task="required")
def burn() -> str:
    "Burn."
    raise ToolError("burnt")

@server.tool(task="required")
def ask(ctx: Context) -> str:
    "Ask."
    return str(ctx.elicit("How many?", {"count": int}).action)

@server.tool(task="required")
def wait(ctx: Context) -> str:
    "Take for ever."
    ctx.progress(1, message="the oven is warm\\x1b")
    ctx.sleep(600)
    return "no"
"""


@pytest.fixture(scope="module")
def bakery_url() -> Iterator[str]:
    """Return the URL of a server with tasks that accepts the tokens "a" and "b"."""
    with served(BAKERY) as url:
        yield url


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_tasks(
    revision: str, bakery_url: str, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: str, *words: str, who: str = "a") -> Done:
        return minimcp(*command.split(), bakery_url, *words, "--token", who, "--revision", revision)

    def begin(*words: str) -> str:
        done = run("call --task", *words)
        assert (done.code, done.err) == (0, "") and len(done.out.split()) == 1, done
        return done.out.strip()

    baked = begin("bake", "loaves=3")
    assert run("tasks get", baked, "--wait") == Done(0, "3 loaves\n", "")
    assert run("tasks get", baked).out == "3 loaves\n"
    said = json.loads(run("tasks get", baked, "--output", "json").out)
    assert (said["taskId"], said["status"], said["result"]["content"][0]["text"]) == (
        baked,
        "completed",
        "3 loaves",
    )
    done = run("tasks get", begin("burn"), "--wait")
    assert (done.code, done.out) == (1, "") and done.err.endswith(": burnt\n")
    done = run("tasks get", begin("ask"), "--wait")
    assert (done.code, done.out) == (0, "decline\n") and "bakery asks: How many?" in done.err
    waiting = begin("wait")
    assert eventually(lambda: "oven" in run("tasks get", waiting).out)
    assert run("tasks get", waiting).out == f"{waiting} working the oven is warm\\x1b\n"
    wait = Task.wait
    with monkeypatch.context() as patched:
        patched.setattr(
            Task, "wait", lambda task, seconds: wait(task, seconds / 3000)
        )  # connecting may take all
        done = run("tasks get", waiting, "--wait", "--timeout", "30")
    assert done.code == 4 and "did not end in time: no answer within 0.01 s" in done.err
    done = run("tasks cancel", waiting, who="b")
    assert (done.code, done.out) == (3, "") and "no task has this taskId" in done.err, (
        "it is another's"
    )
    assert run("tasks cancel", waiting).out.startswith(f"{waiting} cancelled")
    assert run("tasks get", waiting, "--wait").out.startswith(f"{waiting} cancelled")
    done = run("tasks list")
    if revision == "2026-07-28":
        assert done.code == 3 and "tasks.list" in done.err
        return
    assert f"{baked} completed\n" in done.out and f"{waiting} cancelled" in done.out
    listed = json.loads(run("tasks list", "--output", "json").out)["tasks"]
    assert {"taskId": baked, "status": "completed", "statusMessage": None} in listed
    assert run("tasks list", who="b") == Done(0, "no tasks\n", "")


def test_a_list_shows_extensions(bakery_url: str, minimcp: Callable[..., Done]) -> None:
    shown = minimcp("list", bakery_url, "--token", "a").out
    assert shown.splitlines()[:2] == [
        "bakery, revision 2026-07-28",
        "  extensions: io.modelcontextprotocol/tasks",
    ]
    listed = json.loads(minimcp("list", bakery_url, "--token", "a", "--output", "json").out)
    assert listed["extensions"] == {"io.modelcontextprotocol/tasks": {}}


def test_a_task_of_a_server_without_any(shop_url: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("call", "--task", shop_url, "nothing")
    assert (done.code, done.out) == (
        3,
        "",
    ) and "does not declare the extension io.modelcontextprotocol/tasks" in done.err
    for command in "get", "cancel":
        done = minimcp("tasks", command, shop_url, "any")
        assert (done.code, done.out) == (
            3,
            "",
        ) and "does not declare the extension io.modelcontextprotocol/tasks" in done.err
        done = minimcp("tasks", command, shop_url, "any", "--revision", "2025-11-25")
        assert (done.code, done.out) == (
            3,
            "",
        ) and "does not declare the capability tasks" in done.err
        done = minimcp("tasks", command, shop_url, "any", "--revision", "2025-06-18")
        assert (done.code, done.out) == (3, "") and "2025-06-18 does not support tasks" in done.err
        done = minimcp("tasks", command, shop_url, "")
        assert (done.code, done.out) == (2, "") and "argument ID: the ID is empty" in done.err


def test_a_tool_that_is_a_task_only_is_called(
    bakery_url: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("call", bakery_url, "ask", "--token", "a", "--revision", "2026-07-28")
    assert (done.code, done.out) == (
        2,
        "",
    ) and "'ask' needs a client with the extension" in done.err
    assert done.err.endswith(": use call --task, then tasks get --wait\n")
    assert (
        minimcp("call", bakery_url, "ask", "--token", "a", "--revision", "2025-11-25").out
        == "decline\n"
    )


@pytest.mark.parametrize("words", [[], ["bake"]])
def test_wrong_usage_of_tasks(words: List[str], minimcp: Callable[..., Done]) -> None:
    done = minimcp("tasks", *words)
    assert (done.code, done.out) == (
        2,
        "",
    ) and "after tasks write one of list, get, cancel, then TARGET" in done.err


# ------------------------------------------------------------ read, prompt, ping


def test_read(
    shelf: str, shelf_url: str, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert minimcp("read", shelf_url, "notes://all") == Done(0, "# n\x1b[31motes\n", "")
    assert minimcp("read", shelf_url, "hello://Ada").out == "hello Ada\n"
    said = json.loads(minimcp("read", shelf_url, "bin://data", "--output", "json").out)
    assert said["contents"] == [
        {"uri": "bin://data", "mimeType": "application/octet-stream", "blob": "AP8K"}
    ]
    done = minimcp("read", shelf_url, "none://here")
    assert (done.code, done.out) == (3, "") and "Resource not found: none://here" in done.err
    raw = subprocess.run(
        command_line("read", shelf, "bin://data"), capture_output=True, timeout=3 * WAIT, check=True
    )
    assert raw.stdout == b"\x00\xff\n", "bytes are written as they are"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert minimcp("read", shelf_url, "notes://all").out == "# n\\x1b[31motes\n"
    assert (
        minimcp("read", shelf_url, "bin://data").out
        == "[content, bin://data, application/octet-stream, 3 bytes]\n"
    )


def test_prompt(shelf_url: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("prompt", shelf_url, "greet", "name=Ada=x", "tone=")
    assert done == Done(0, "user: Ada=x, \nassistant: Hi\nuser: [image, image/png, 5 bytes]\n", "")
    said = minimcp("prompt", "--output", "json", shelf_url, "greet", "name=京").out
    assert json.loads(said)["messages"][0]["content"]["text"] == "京, plain" and "京" in said
    for words, code, text in (
        (["greet"], 3, "name"),
        (["nope"], 3, "Unknown prompt: nope"),
        (["greet", "Ada"], 2, "is not key=value"),
        (["greet", "=Ada"], 2, "is not key=value"),
        ([], 2, "NAME"),
    ):
        done = minimcp("prompt", shelf_url, *words)
        assert (done.code, done.out) == (code, "") and text in done.err


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_ping(shop_url: str, revision: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("ping", shop_url, "--revision", revision)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("shop 3 answered in ") and done.out.endswith(
        f" ms, revision {revision}\n"
    )
    said = json.loads(minimcp("ping", shop_url, "--output", "json", "--revision", "handshake").out)
    assert (said["serverInfo"], said["revision"]) == (
        {"name": "shop", "version": "3"},
        "2025-11-25",
    )
    assert said["seconds"] > 0


# ------------------------------------------------------------ targets


def test_the_commands_as_processes_with_a_command_line_as_target(shop: str) -> None:
    target = quoted("env", "A=b", sys.executable, "-m", "minimcp", "run", shop)
    done = run_process("call", target, "order", "-", input='{"item": "x"}')
    assert (done.code, json.loads(done.out)["item"]) == (0, "x")


def test_a_target_is_a_name_in_a_config(shop: str, minimcp: Callable[..., Done]) -> None:
    servers = {
        "my-shop": {"command": sys.executable, "args": ["shop.py"]},
        "my shop": {"command": "x", "args": 5},
        "shop.py": {"command": "no-such-program"},
        "far": {"url": "ftp://example.com"},
        "there": {"command": sys.executable, "args": [os.path.abspath(shop)]},
        "any": {"command": "python3", "args": [shop]},
    }
    for name in ("mcp.json", "other.json"):
        _write(name, json.dumps({"mcpServers": servers}))
    done = minimcp("ping", "my-shop")
    assert done.out.startswith("my-shop (shop 3) answered in ")
    assert (
        done.err.endswith(f": using the server my-shop from {os.path.abspath('mcp.json')}\n")
        and done.err.count("\n") == 1
    )
    assert minimcp("ping", "there", "--config", "other.json").err == ""
    done = minimcp("ping", "my-shop", "--config", "other.json")
    assert done.code == 0 and f"hosts start elsewhere: write {os.path.abspath(shop)}" in done.err
    done = minimcp("ping", "any", "--config", "other.json")
    assert f"python3 may be a different Python in a host: write {sys.executable}" in done.err
    assert (
        ": the server 'shop.py' in other.json: "
        in minimcp("ping", "shop.py", "--config", "other.json").err
    )
    for target, options, problem in (
        ("far", [], "mcp.json: server 'far': url: a URL must begin"),
        (
            "my-shpo",
            ["--config", "other.json"],
            "other.json has no server 'my-shpo', did you mean 'my-shop'? It has",
        ),
        (
            "my shop",
            ["--config", "other.json"],
            "other.json: server 'my shop': args: must be a list of strings",
        ),
        ("my-shop", ["--config", "none.json"], "none.json: No such file or directory"),
        ("my-shop", ["--token", "t"], "belong in the config"),
    ):
        done = minimcp("list", target, *options)
        assert (
            done.code == 2
            and " list: " in done.err
            and problem in done.err
            and done.err.count("\n") == 1
        )
    assert minimcp("ping", "no-such-program-here").code == 3
    _write("mcp.json", "{")
    assert "mcp.json: line 1" in minimcp("ping", "my-shop").err
    assert minimcp("ping", f"{quoted(sys.executable)} no-such.py").code == 3, (
        "a command line is no name"
    )


COMMANDS = [
    ["list"],
    ["call", "echo"],
    ["ping"],
    ["read", "x:y"],
    ["prompt", "p"],
    ["check", "--only", "BASE-05"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
@pytest.mark.parametrize(("words", "sent"), [
    ([], "Bearer from-environment"), (["--token", "given"], "Bearer given"), (["--header", "X: y"], "Bearer from-environment"),
    (["--header", "authorization: Basic eDp5"], "Basic eDp5"),
])  # fmt: skip
def test_a_url_gets_the_token_of_the_environment(
    command: List[str],
    words: List[str],
    sent: str,
    minimcp: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MINIMCP_TOKEN", "from-environment")
    with Peer() as peer:
        minimcp(command[0], peer.url, *command[1:], *words)
        assert peer.heard
        assert {heard.headers.get("authorization") for heard in peer.heard} == {sent}


def test_the_token_of_the_environment_goes_to_a_typed_url_only(
    minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, shop: str
) -> None:
    monkeypatch.setenv("MINIMCP_TOKEN", "from-environment")
    assert minimcp("ping", shop).code == 0
    with Peer() as peer:
        _write("mcp.json", json.dumps({"mcpServers": {"far": {"url": peer.url}}}))
        minimcp("ping", "far")
        minimcp("ping", peer.url.replace("//", "//me:pw@"))
        sent = [heard.headers.get("authorization") for heard in peer.heard]
        assert set(sent) == {None, "Basic bWU6cHc="}
    monkeypatch.setenv("MINIMCP_TOKEN", "")
    with Peer() as peer:
        minimcp("ping", peer.url)
        assert {heard.headers.get("authorization") for heard in peer.heard} == {None}


@pytest.mark.parametrize("command", ["list", "call", "read", "prompt", "ping", "check", "bridge"])
def test_the_help_names_the_variable(command: str, minimcp: Callable[..., Done]) -> None:
    assert "MINIMCP_TOKEN" in minimcp(command, "--help").out


def test_a_url_gets_headers_and_a_token(minimcp: Callable[..., Done]) -> None:
    with Peer() as peer:
        done = minimcp(
            "call",
            peer.url,
            "echo",
            "--header",
            "X-One: a:b",
            "--header",
            "x-two:",
            "--token",
            "s3cret",
        )
        assert done.code == 3 and "Method not found" in done.err, done
        heard = peer.wait_for("tools/list").headers
        assert (heard["x-one"], heard["x-two"], heard["authorization"]) == (
            "a:b",
            "",
            "Bearer s3cret",
        )
        url = peer.url
    done = minimcp("ping", url)
    assert done.code == 3 and "no connection" in done.err and done.err.count("\n") == 1
