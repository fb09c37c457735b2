"""README and the pages next to the examples: every block runs, and every shown output is the real
output."""

from __future__ import annotations

import importlib
import io
import json
import re
import shlex
import sqlite3
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Dict, List, Set

import pytest
from docutils.core import publish_doctree

from minimcp import (
    ElicitRequest,
    Image,
    RequestTimeout,
    Server,
    Text,
    ToolError,
    connect,
    connect_all,
    tool,
)

from .interop.embedding import PROGRAMS
from .modules import PACKAGE, read_package
from .readme import BLOCK, PAGES, README, TEXT, blocks, rows, section
from .support import ROOT, WAIT, run_python
from .test_layers import core_modules

BLOCKS = 52
"""Python blocks in README and the pages; a test below or `tests.interop.embedding` runs each."""


class Shelf:
    """A class with a method that hides a builtin class from the methods below it."""

    @tool
    def list(self) -> list[int]:
        """List."""
        return [1]

    @tool
    def sum(self, numbers: list[int]) -> int:
        """Sum."""
        return sum(numbers)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in blocks("file").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def _run(arguments: List[str], folder: Path) -> str:
    done = run_python(arguments, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().replace("\r\n", "\n")


def test_every_python_block_is_run() -> None:
    """`tests.interop.embedding`, which CI runs, runs the blocks that need a package, and the
    notebook."""
    elsewhere = [name.partition(" ")[0] for name in (*blocks("needs"), *blocks("cells"))]
    assert (
        TEXT.count("code-block:: python")
        == len(set(blocks("file")) - {"mcp.json"}) + len(elsewhere)
        == BLOCKS
    )
    assert elsewhere == list(PROGRAMS)
    assert "module tests.interop.embedding\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for text in blocks("needs").values():
        compile(text, "a page", "exec")


def test_the_text_above_a_file_names_it() -> None:
    """A comment is not shown where the page is."""
    for found in BLOCK.finditer(TEXT):
        kind, name = found.group(1, 2)
        if kind in ("file", "needs", "nginx", "host"):
            above = TEXT[: found.start()].rstrip("\n").rpartition("\n\n")[2].replace("\n", " ")
            assert f"``{name.partition(' ')[0].rpartition('/')[2]}``" in above, name


@pytest.mark.parametrize(
    "name",
    [
        *("ask.py", "client.py", "pack.py", "visit.py", "pages.py", "rounds.py", "malformed.py"),
        *("rights.py", "discover.py", "approved.py"),
        "own_form.py",
    ],
)
def test_the_clients_print_the_documented_output(name: str, files: Path) -> None:
    assert _run([name], files) == blocks("prints")[name]


def test_the_skills_are_read(files: Path) -> None:
    for name, text in blocks("skill").items():
        (files / "skills" / name / "letters").mkdir(parents=True)
        (files / "skills" / name / "SKILL.md").write_text(text, encoding="utf-8")
        (files / "skills" / name / "letters" / "no.md").write_text(
            "We are sorry.", encoding="utf-8"
        )
    assert _run(["refunds.py"], files) == blocks("prints")["refunds.py"]


def test_the_tests_pass(files: Path) -> None:
    _run(["-c", "import test_letters as t; t.test_count()"], files)
    _run(["-c", "import test_server as t; t.test_forecast(); t.test_progress()"], files)


def test_the_tests_of_the_page_on_testing_pass(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # it is named, installed or not
    tests = ["test_fixture.py", "test_recorded.py", "test_misbehaving.py"]
    options = ["-p", "minimcp.testing.plugin", "-p", "no:cacheprovider", "-W", "error"]
    assert "7 passed" in _run(["-m", "pytest", "-q", *options, *tests], files)


def test_the_plain_class_serves(files: Path) -> None:
    with connect(str(files / "notes.py")) as client:
        assert client.call_tool("add", {"text": "milk"}).value == 1
        assert client.read_resource("notes://1").text == "milk"


def test_objects_opened_before_serving_are_available_to_all_calls(files: Path) -> None:
    changed: SimpleQueue[str] = SimpleQueue()
    target = [sys.executable, "todo.py"]
    with connect(target, cwd=files, on_resource_updated=changed.put) as client:
        client.subscribe("todo://all")
        assert client.call_tool("add", {"what": "sleep"}).value == 1
        assert changed.get(timeout=WAIT) == "todo://all"
    with connect(target, cwd=files) as client:
        assert client.call_tool("add", {"what": "eat"}).value == 2
        assert json.loads(client.read_resource("todo://all").text) == ["sleep", "eat"]


def test_server_and_client_in_one_program(files: Path) -> None:
    assert json.loads(_run(["both.py"], files)) == [{"number": 1, "degrees": 3}]


ALONE = """
import sys
sys.path.insert(0, {root!r})
from http.client import HTTPConnection
from minimcp import HttpOptions, Server

body = '{{"jsonrpc": "2.0", "id": 1, "method": "ping"}}'
headers = {{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}}
with Server("alone", http=HttpOptions(sessions=False)).start_http() as running:
    connection = HTTPConnection("127.0.0.1", running.port)
    connection.request("POST", "/mcp", body, headers)
    response = connection.getresponse()
    assert response.status == 200, (response.status, response.read())
    connection.close()
assert not {{"requests", "urllib3", "jsonschema", "asyncio"}} & set(sys.modules)
"""


def test_to_serve_over_http_the_standard_library_is_enough(tmp_path: Path) -> None:
    _run(["-I", "-S", "-c", ALONE.format(root=str(ROOT))], tmp_path)


HOST = """
from http.client import HTTPConnection
from socketserver import ThreadingMixIn
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import minimcp
from {} import application

class Host(ThreadingMixIn, WSGIServer):
    daemon_threads = True

class Quiet(WSGIRequestHandler):
    def log_message(self, *words): pass

host = make_server("127.0.0.1", 0, application, Host, Quiet)
Thread(target=host.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{{host.server_port}}/mcp"
"""

MOUNTED = (
    HOST.format("wsgi")
    + """for revision in ("2026-07-28", "2025-11-25"):
    with minimcp.connect(url, revision=revision) as client:
        assert client.revision == revision
        assert client.call_tool("forecast", {"city": "Oslo", "days": 1}).value[0]["degrees"] == 3
connection = HTTPConnection("127.0.0.1", host.server_port)
connection.request("GET", "/")
assert connection.getresponse().read() == b"Hello"
connection.close()
host.shutdown()
host.server_close()
"""
)


def test_a_wsgi_host_serves_it_next_to_its_pages(files: Path) -> None:
    _run(["-c", MOUNTED], files)


GUARDED = (
    HOST.format("guarded")
    + """with minimcp.connect(url, auth="s3cret") as client:
    assert client.call_tool("forecast", {"city": "Oslo", "days": 1}).value[0]["degrees"] == 3
for auth in (None, "secret"):
    try:
        minimcp.connect(url, auth=auth)
    except minimcp.AuthorizationError as error:
        assert "a token, please" in str(error)
    else:
        raise AssertionError(auth)
host.shutdown()
host.server_close()
"""
)


def test_a_server_that_checks_tokens_rejects_clients_without_one(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    _run(["-c", GUARDED], files)


def test_middleware_does_not_see_the_lists() -> None:
    server = Server("open")

    @server.middleware
    def refuse(ctx: Any, call_next: Any) -> Any:
        raise ToolError("not for you")

    server.add_tool(lambda: "", name="secret")
    with connect(server) as client:
        assert [tool.name for tool in client.list_tools()] == ["secret"]
        with pytest.raises(ToolError, match="not for you"):
            client.call_tool("secret")


def test_a_list_in_a_class_is_the_list() -> None:
    with connect(Server.of(Shelf())) as client:
        assert (
            client.call_tool("list").value == [1]
            and client.call_tool("sum", {"numbers": [1, 2]}).value == 3
        )


def test_the_servers_of_a_file_are_a_group(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = files / "mcp.json"
    config.write_text(
        config.read_text(encoding="utf-8").replace("python3", json.dumps(sys.executable)[1:-1])
    )
    monkeypatch.chdir(files)
    with connect_all("mcp.json") as group:
        assert not group.errors and set(group.clients) == {"weather", "library"}
        assert len(group.call_tool("weather__forecast", {"city": "Oslo", "days": 2}).value) == 2
    with connect("weather", config="mcp.json") as client:
        assert client.call_tool("forecast", {"city": "Oslo", "days": 1}).value == [
            {"number": 1, "degrees": 3}
        ]


def test_the_configurations_of_hosts_start_the_server(files: Path) -> None:
    for text in blocks("host").values():
        config = files / "config.json"
        for path, real in (
            ("/home/ada/weather/.venv/bin/python", sys.executable),
            ("/home/ada/weather", str(files)),
        ):
            text = text.replace(path, json.dumps(real)[1:-1])
        config.write_text(text, encoding="utf-8")
        with connect("weather", config=config) as client:
            assert client.call_tool("forecast", {"city": "Oslo", "days": 1}).value == [
                {"number": 1, "degrees": 3}
            ]


def test_a_tool_names_the_files_that_exist(files: Path) -> None:
    (files / "texts").mkdir()
    (files / "texts" / "a.txt").write_text("first\nsecond\n", encoding="utf-8")
    with connect(str(files / "files.py")) as client:
        assert client.call_tool("head", {"file": "a.txt"}).value == "first"
        with pytest.raises(ToolError, match=r"There is no file b\.txt\. The files are: a\.txt\."):
            client.call_tool("head", {"file": "b.txt"})
        with pytest.raises(ToolError, match="Access denied: the path is not allowed"):
            client.call_tool("head", {"file": "../library.py"})


def test_a_database_is_queried_and_cannot_be_changed(files: Path) -> None:
    with connect(str(files / "shop.py")) as client:
        with pytest.raises(ToolError, match=r"/shop\.db: unable to open database file"):
            client.call_tool("tables")
    with closing(sqlite3.connect(str(files / "shop.db"))) as db, db:
        db.execute("create table orders (id integer, price real)")
        db.executemany("insert into orders values (?, ?)", [(1, 2.5), (2, 4.0), (3, 1.0)])
    with connect(str(files / "shop.py")) as client:
        assert client.call_tool("tables").value == {"orders": ["id", "price"]}
        sql = {"sql": "select * from orders order by id", "limit": 2}
        first = client.call_tool("query", sql).value
        assert first["rows"] == [{"id": 1, "price": 2.5}, {"id": 2, "price": 4.0}]
        assert first["more"] == "There are more rows: use offset=2."
        last = client.call_tool("query", {**sql, "offset": 2}).value
        assert last == {"rows": [{"id": 3, "price": 1.0}], "more": ""}
        for end in (";", ";\n", "; -- all", " /* all */;"):
            assert client.call_tool("query", {"sql": sql["sql"] + end}).value["rows"][2]["id"] == 3
        blob = client.call_tool("query", {"sql": "select id, x'0102ff' as data from orders"})
        assert blob.value["rows"][0] == {"id": 1, "data": "BLOB of 3 bytes"}
        for statement in (
            "delete from orders",
            "select price from order",
            f"attach '{files / 'shop.db'}' as again",
            f"vacuum into '{files / 'copy.db'}'",
            "select 1; select 2",  # its message ends in a period
        ):
            listed = "The tool 'tables' lists tables and columns. SQLite says: "
            with pytest.raises(ToolError, match=listed) as caught:
                client.call_tool("query", {"sql": statement})
            assert ".." not in str(caught.value)
        client.call_tool("add_order", {"price": 9.5})
        found = client.call_tool("query", {"sql": "select max(price) as most from orders"})
        assert found.value["rows"] == [{"most": 9.5}]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("action", "left"), [("accept", 1), ("decline", 2)])
def test_orders_are_deleted_if_the_user_agrees(
    files: Path, action: str, left: int, revision: str
) -> None:
    with closing(sqlite3.connect(str(files / "shop.db"))) as db, db:
        db.execute("create table orders (id integer, price real)")
        db.executemany("insert into orders values (?, ?)", [(1, 2.5), (2, 4.0)])
    asked: List[str] = []

    def elicit(request: ElicitRequest) -> Any:
        asked.append(request.message)
        return {} if action == "accept" else None

    options: Any = {"elicit": elicit, "revision": revision}
    with connect(str(files / "shop.py"), **options) as client:
        client.call_tool("delete_cheap_orders", {"below": 3})
        assert asked == ["Delete 1 orders?"]
        assert len(client.call_tool("query", {"sql": "select * from orders"}).value["rows"]) == left


def test_a_query_ends_when_its_call_is_cancelled(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(str(files / "shop.db"))) as db, db:
        db.execute("create table one (id integer)")
    endless = (
        "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"
    )
    monkeypatch.syspath_prepend(str(files))
    server, ended = importlib.import_module("shop").server, threading.Event()

    @server.middleware
    def watch(ctx: Any, call_next: Any) -> Any:
        try:
            return call_next()
        finally:
            ended.set()

    with connect(server) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("query", {"sql": endless}, timeout=0.1)
        assert ended.wait(WAIT)


def test_a_column_of_a_file_is_added(files: Path) -> None:
    (files / "tables").mkdir()
    (files / "tables" / "sales.csv").write_text("product,sales\ntea,3\ncoffee,5\n")
    with connect(str(files / "tables.py")) as client:
        assert client.call_tool("files").value == ["sales.csv"]
        call = {"file": "sales.csv", "column": "sales"}
        assert client.call_tool("total", call).value == 8
        for change, message in (
            ({"file": "../shop.db"}, "The files are: sales.csv"),
            ({"column": "price"}, "Its columns are: product, sales"),
        ):
            with pytest.raises(ToolError, match=message):
                client.call_tool("total", {**call, **change})


def test_the_providers_are_accepted(files: Path) -> None:
    """Only the arguments are checked, because nothing is fetched before the first token."""
    check = """
        import providers as p
        for bearer in (p.keycloak, p.auth0, p.entra):
            assert b'"resource": "https://mcp.example.com/mcp"' in bearer.metadata([])
        assert b"api://66666666-7777-8888-9999-000000000000/notes.read" in p.entra.metadata([])
    """
    _run(["-c", textwrap.dedent(check)], files)


def test_a_token_of_a_database_is_accepted(files: Path) -> None:
    check = """
        import minimcp
        from tokens import new_token, server

        with server.start_http() as running:
            with minimcp.connect(running.url, auth=new_token("ada", "read")) as client:
                assert client.call_tool("whoami").value == "ada"
            for token in ("unknown", new_token("bob", "")):
                try:
                    with minimcp.connect(running.url, auth=token) as client:
                        client.call_tool("whoami")
                except minimcp.AuthorizationError:
                    continue
                raise AssertionError(token)
    """
    _run(["-c", textwrap.dedent(check)], files)


def test_a_zip_file_on_the_path_serves(files: Path, tmp_path: Path) -> None:
    _run(["-m", "minimcp", "vendor", "mcp.zip", "--one-file", "--only", "server"], files)
    command = [sys.executable, "-I", "-S", str(files / "zipped.py")]
    with connect(command) as client:
        assert client.call_tool("add", {"a": 2, "b": 3}).value == 5


def test_the_help_of_vendor_is_the_one_that_is_shown() -> None:
    """Except for the name of Python, the line breaks and a heading, which differ by version."""
    printed = _run(["-m", "minimcp", "vendor", "--help"], ROOT)
    printed = printed.replace("optional arguments:", "options:")
    printed = re.sub(r"usage: \S+ -m", "usage: python3 -m", printed)
    assert printed.split() == blocks("vendor")["help"].split()


def test_a_conversation_can_be_typed_by_hand() -> None:
    """Each line gets the response that the page describes."""
    typed = blocks("typed")["by hand"]
    done = run_python(
        ["-m", "minimcp", "run", "examples/02_hello.py"], stdin=typed.encode(), cwd=ROOT
    )
    assert done.returncode == 0, done.stderr.decode()
    ping, invalid, opened, tools, greeted, failed = map(json.loads, done.stdout.splitlines())
    assert ping["result"] == {} and opened["result"]["serverInfo"]["name"] == "hello"
    assert (invalid["id"], invalid["error"]["code"]) == (None, -32700)
    assert [tool["name"] for tool in tools["result"]["tools"]] == ["greet"]
    assert greeted["result"]["content"][0]["text"] == "Hello, Ada!"
    assert failed["result"]["isError"] is True


def test_types_go_in_and_out(files: Path) -> None:
    with connect(str(files / "kitchen.py")) as client:
        assert client.call_tool("list").value == ["plum", "lemon"]
        assert client.call_tool("bake", {"what": "cake"}).value == {"cake": 1}
        with pytest.raises(ToolError, match="pieces: expected a number of at most 9"):
            client.call_tool("bake", {"what": "cake", "pieces": 10})
        text, image = client.call_tool("look").content
        assert text == Text("It is dark:") and isinstance(image, Image) and len(image.data) == 12


def test_a_loop_pumps(files: Path) -> None:
    with connect(str(files / "paint.py")) as client:
        assert client.call_tool("draw", {"shape": "circle"}).text == "circle on MainThread"


FORKED = """
import os
from minimcp import ConnectionLost
from weather import weather

def degrees(client):
    return client.call_tool("forecast", {"city": "Oslo", "days": 1}).value[0]["degrees"]

before = weather()
assert degrees(before) == 3 and weather() is before
child = os.fork()
if child == 0:
    try:
        degrees(before)
    except ConnectionLost:
        assert weather() is not before and degrees(weather()) == 3
        weather().close()
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert degrees(before) == 3
before.close()
"""


def test_each_process_has_a_client_of_its_own(files: Path) -> None:
    _run(["-W", "ignore::DeprecationWarning", "-c", FORKED], files)


def test_a_cell_may_be_run_again() -> None:
    """Python runs the cells here; `tests.interop.embedding` runs them in a real notebook."""
    cells = re.split(r"(?m)^# In .*\n", blocks("cells")["notebook"])
    names: Dict[str, Any] = {}
    for cell in cells[:-1]:
        exec(cell, names)
    with names["client"]:
        assert eval(cells[-1], names) == 42
        exec(cells[1].replace("2 * number", "3 * number"), names)
        assert eval(cells[-1], names) == 63


def test_tools_may_be_added_after_the_client() -> None:
    server = Server("scratch", capabilities={"tools"})
    with connect(server) as client:
        server.add_tool(lambda: "", name="late")
        assert [tool.name for tool in client.list_tools()] == ["late"]


def test_the_server_and_the_client_fit_on_one_screen() -> None:
    lines = [
        line for name in ("server.py", "client.py") for line in blocks("file")[name].splitlines()
    ]
    assert len(lines) <= 60
    first = blocks("file")["letters.py"].splitlines()
    assert len([line for line in first if line]) <= 10


def test_the_commands_to_begin_with() -> None:
    marked = {name: text for kind, name, _, text in BLOCK.findall(README) if kind == "ci"}
    assert sorted(marked) == ["demo", "install", "test"]
    assert marked["demo"].split() == ["$", "python3", "-m", "minimcp", "demo"]
    (line,) = marked["test"].strip().splitlines()
    for part in ("python3 -m venv .venv", 'pip install -e ".[test]"', "bin/python -m pytest -n 3"):
        assert part in line
    assert marked["install"].split()[-4:] == ["&&", ".venv/bin/pip", "install", "CHECKOUT"]


def test_no_page_installs_the_package_of_another_project() -> None:
    """The package `minimcp` on the public index is not this library."""
    assert re.findall(r"pip\d* install[^`\n]* [\"']?minimcp\b(?!-sync).*", TEXT) == []


def test_the_demo_prints_the_documented_output() -> None:
    shown = blocks("prints")["demo"]
    assert shown.count("client -->") == 1
    assert shown in _run(["-m", "minimcp", "demo"], ROOT)


def test_the_commands_run(files: Path) -> None:
    commands = [line[2:] for block in blocks("runs").values() for line in block.splitlines()]
    assert len(commands) == 12
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "python3"
        printed = _run(words[1:], files)
        assert printed or "run" in words


def test_the_reading_order_stays_short() -> None:
    names = re.findall(r"^\d+\. ``(.+?)``: ", section("Reading order"), re.M)
    assert len(names) == len(set(names)) >= 12
    assert (
        sum(len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) for name in names) < 7550
    )


def _numbers(text: str) -> Set[int]:
    """The numbers in "1, 3 to 5"."""
    found: Set[int] = set()
    for part in text.split(", "):
        first, _, last = part.partition(" to ")
        found.update(range(int(first), int(last or first) + 1))
    return found


def test_each_file_builds_on_the_files_with_the_numbers_in_parentheses() -> None:
    text = " ".join(section("Reading order").split())
    items = re.findall(r"(\d+)\. ``([\w/]+\.py)``: [^`]*?(?:\(([\d, to]+)\))?\.(?= |$)", text)
    numbers = {path: int(number) for number, path, _ in items}
    assert list(numbers.values()) == list(range(1, len(items) + 1)) and len(items) > 12
    package = read_package()
    imported = {
        path: {
            numbers[each.target]
            for each in package[path].imports
            if each.target in numbers and not each.late and not each.typing_only
        }
        for path in numbers
    }
    assert imported == {path: _numbers(given) if given else set() for _, path, given in items}
    for path, found in imported.items():
        assert max(found, default=0) < numbers[path], f"{path} needs a later file"


def test_the_page_names_each_module_of_the_core() -> None:
    modules = {name for names in core_modules().values() for name in names}
    paths = {f"{name.replace('.', '/')}.py" for name in modules}
    named = set(re.findall(r"``([\w/]+\.py)``", section("Reading order")))
    assert sorted(path for path in paths - named if (PACKAGE / path).is_file()) == []


def test_every_file_that_is_named_is_there() -> None:
    names = re.findall(r"``([\w/]+\.py)``", section("Reading order"))
    assert len(names) > 30 and [name for name in names if not (PACKAGE / name).is_file()] == []


def test_every_function_of_the_walk_is_there() -> None:
    named = re.findall(
        r"``([\w/]+)\.py:([\w.]+)``",
        section("A call over stdio") + section("A call over HTTP"),
    )
    assert len(named) > 40
    for path, name in named:
        found = importlib.import_module("minimcp." + path.replace("/", "."))
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found), name


@pytest.mark.parametrize(
    ("title", "least"), [("Adding a notification", 20), ("Adding a method", 15)]
)
def test_every_place_of_a_recipe_is_there(title: str, least: int) -> None:
    named = re.findall(r"``([\w/]+)\.py:([\w.]+)``", section(title))
    assert len(named) > least
    for path, name in named:
        found = importlib.import_module("minimcp." + path.replace("/", "."))
        for part in name.split("."):
            found = getattr(found, part)


def test_the_listed_examples_exist() -> None:
    there = sorted(path.name for path in ROOT.glob("examples/*.py"))
    assert [name.strip("`") for name, _ in rows("Chapters")] == there


def test_lines_are_short_and_plain() -> None:
    for name, text in {
        **PAGES,
        "CHANGES.rst": (ROOT / "CHANGES.rst").read_text(encoding="utf-8"),
    }.items():
        # A message that a reader pastes into a terminal must be one line.
        lines = [line for line in text.splitlines() if not line.startswith('    {"jsonrpc"')]
        assert max(map(len, lines)) <= 120, name
        assert text.isascii(), name


def test_every_link_to_a_file_leads_to_one() -> None:
    for name, text in PAGES.items():
        for link in re.findall(r"`[^`]+ <([^>`]+)>`_", text):
            assert link.startswith("https://") or ((ROOT / name).parent / link).is_file(), (
                name,
                link,
            )
    linked = set(re.findall(r" <([\w.]+\.rst)>`_", PAGES["examples/README.rst"]))
    assert linked == {path.name for path in ROOT.glob("examples/*.rst")} - {"README.rst"}


def test_the_front_page_is_short_and_begins_with_code() -> None:
    assert len(README.split()) <= 2500
    assert README.index(".. code-block:: python") < 3000


def test_a_page_is_short_and_the_index_fits_on_a_screen() -> None:
    lengths = {name: len(text.split()) for name, text in PAGES.items()}
    del lengths["README.rst"], lengths["examples/conformance.rst"]
    assert {name: length for name, length in lengths.items() if length >= 1500} == {}
    index = PAGES["examples/README.rst"]
    assert len(index.splitlines()) <= 50
    kinds = re.findall(r"^(\w[\w-]+): .+\n-+$", index, re.M)
    assert kinds == ["Tutorial", "How-to", "Reference", "Explanation"]


def test_the_changes_describe_one_release_in_thirty_lines() -> None:
    changes = (ROOT / "CHANGES.rst").read_text(encoding="utf-8")
    assert len(changes.splitlines()) <= 30 and changes.count("\n0.1.0") == 1


def test_it_names_the_running_python_nowhere() -> None:
    assert sys.prefix not in TEXT


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_page_is_correct_markup(page: str) -> None:
    warnings = io.StringIO()
    settings = {"report_level": 2, "warning_stream": warnings, "syntax_highlight": "none"}
    publish_doctree((ROOT / page).read_text(encoding="utf-8"), settings_overrides=settings)
    assert warnings.getvalue() == ""
