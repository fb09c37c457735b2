"""Mistakes of newcomers, and the words of the message that say what to write instead.

One table: the mistake, its form (a command line, code of an author, a call), and its message, in an
exception, in the log or on stderr.
"""

from __future__ import annotations

import http.server
import json
import logging
import socket
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Union

import pytest

import minimcp
from minimcp import Server
from minimcp.cli import main

from .support import ROOT, WAIT, outlives_the_test, refused_port

DATABASE = sqlite3.connect(":memory:")

Mistake = Union[List[str], Callable[[], Any]]
"""A line typed at a terminal, or the code of a program."""

SERVER = """
from minimcp import Context, Server

server = Server("hello")

@server.tool
def greet(name: str) -> str:
    "Greet somebody."
    return f"Hello, {name}!"

@server.tool
def delete(id: int) -> None:
    "Delete."

@server.tool
def ask(ctx: Context) -> str:
    "Ask the user."
    return str(ctx.elicit("How many?", {"n": int}).require())

@server.tool
def look(key: str) -> str:
    "Look."
    return {}[key]

@server.resource("notes://all")
def notes() -> dict[str, int]:
    "All."
    return {"one": 1}

@server.prompt
def brief(topic: str) -> str:
    "Brief."
    return topic

if __name__ == "__main__":
    server.run()
"""

CONFIG: Dict[str, Any] = {
    "todo": {"command": sys.executable, "args": ["server.py"]},
    "words": {"command": "python3 server.py"},
    "cmd": {"cmd": "python3"},
    "typo": {"comand": "python3"},
    "envs": {"command": "python3", "envs": {}},
    "arg": {"command": "python3", "arg": ["server.py"]},
    "alone": {"command": sys.executable},
    "uri": {"uri": "http://127.0.0.1/mcp"},
    "token": {
        "url": "http://127.0.0.1/mcp",
        "headers": {"Authorization": "Bearer ${NO_SUCH_TOKEN}"},
    },
    "bare": {"command": sys.executable, "args": ["-I", "-S", "server.py"]},
    "elsewhere": {"command": sys.executable, "args": ["other/server.py"]},
}

FILES = {
    "server.py": SERVER,
    "01typo.py": SERVER,
    "exits.py": "import sys\nsys.exit(3)\n",
    "none.py": "x = 1\n",
    "raises.py": "raise RuntimeError('no database')\n",
    "server.sh": "python3 server.py\n",
    "bad.json": '{"mcpServer": {}}',
    "comma.json": '{"mcpServers": {"a": {"command": "x"},}}',
    "escape.json": '{"mcpServers": {"a": {"command": "C:\\python"}}}',
    "claude_desktop_config.json": '{"servers": {}}',
    "cnt_server.py": "",
    "norun.py": "",
    "web.py": SERVER.replace("server.run()", "server.run('http', port=0)"),
    "mcp.json": json.dumps({"mcpServers": CONFIG}),
    "prints.py": "print('starting up', flush=True)\n" + SERVER,
}


@pytest.fixture
def beginner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder of a user with a server, copies of it under other names, and a config file."""
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode" / "mcp.json").write_text('{"mcpServers": {}}', encoding="utf-8")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where that server is to be had without another process."""
    with outlives_the_test():
        running = written(SERVER)["server"].start_http()
    yield running.url
    running.close()


# ------------------------------------------------------------ how a mistake is made


def written(code: str) -> Dict[str, Any]:
    """Run the file of an author."""
    names: Dict[str, Any] = {"__name__": "written", "database": DATABASE}
    code = f"import minimcp\nfrom typing import *\nfrom minimcp import *\nserver = Server('s')\n{code}\n"
    exec(compile(code, "written.py", "exec"), names)
    return names


def author(code: str) -> Mistake:
    return lambda: written(code)


def takes(
    parameters: str, way: str = "@server.tool", body: str = "return ''", kind: str = "def"
) -> Mistake:
    """A function with these parameters is registered."""
    return author(f"{way}\n{kind} f({parameters}):\n    'F.'\n    {body}")


def does(body: str, before: str = "", kind: str = "tool", **options: Any) -> Mistake:
    """A tool that does this is called, by a client that can be asked."""

    def call() -> Any:
        code = f"{before}\n@server.{kind}\ndef f(ctx: Context) -> Any:\n    'F.'\n    {body}"
        given = {"elicit": lambda request: {"n": 1}, "timeout": WAIT, **options}
        with minimcp.connect(written(code)["server"], **given) as client:
            return client.call_tool("f") if kind.startswith("tool") else client.get_prompt("f")

    return call


def returns(annotation: str, body: str, options: str = "") -> Mistake:
    """A tool that promises this type is called."""

    def call() -> None:
        code = f"import minimcp.schema\n@server.tool{options}\ndef f() -> {annotation}:\n    'F.'\n    {body}"
        with minimcp.connect(written(code)["server"], timeout=WAIT) as client:
            client.call_tool("f")

    return call


def replayed() -> None:
    code = (
        "@server.tool\ndef settle(ctx: Context) -> None:\n    'P.'\n    ctx.elicit('?', {'n': int})"
    )
    server = written(code)["server"]
    with (
        server.start_http() as running,
        minimcp.connect(running.url, elicit=lambda request: {"n": 1}) as client,
    ):
        client.call_tool("settle")


def client_does(use: Callable[[minimcp.Client], Any], **options: Any) -> Mistake:
    """A client of the server does this."""

    def run() -> None:
        with minimcp.connect(written(SERVER)["server"], timeout=WAIT, **options) as client:
            use(client)

    return run


def connects(target: Any, **options: Any) -> Mistake:
    def run() -> None:
        minimcp.connect(target, **options).close()

    return run


def group_does(use: Callable[[minimcp.Group], Any]) -> Mistake:
    def run() -> None:
        with minimcp.connect_all(
            {"todo": written(SERVER)["server"], "broken": ["/there/is/none"]}
        ) as group:
            use(group)

    return run


def after_the_block() -> None:
    with minimcp.connect(Server("s")) as client:
        pass
    client.list_tools()


def in_a_coroutine() -> None:
    async def use() -> None:
        async with minimcp.connect(Server("s")):  # type: ignore[attr-defined]
            pass

    use().send(None)


def a_broken_answer() -> None:
    """The reply of an https server to an http request is not HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            connection.recv(65536)
            connection.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        try:
            minimcp.connect(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        finally:
            thread.join(WAIT)


def nobody_listens() -> None:
    with refused_port() as port:
        minimcp.connect(f"http://127.0.0.1:{port}/mcp")


def to_http(change: Callable[[str], str]) -> Mistake:
    """Connect to a server over HTTP, by another URL than its own."""

    def run() -> None:
        with Server("s").start_http() as running:
            minimcp.connect(change(running.url))

    return run


def a_port_in_use() -> None:
    with Server("s").start_http() as running:
        Server("s").run("http", port=running.port)


def answered(status: int, kind: str, body: bytes) -> Mistake:
    """Connect to something that answers every request in this way."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("WWW-Authenticate", "Bearer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    def run() -> None:
        with http.server.HTTPServer(("127.0.0.1", 0), Page) as page:
            thread = threading.Thread(target=page.serve_forever)
            thread.start()
            try:
                minimcp.connect(f"http://127.0.0.1:{page.server_port}/")
            finally:
                page.shutdown()
                thread.join(WAIT)

    return run


# ------------------------------------------------------------ the table

NO_LIST = "a function named list hides Python's list: call it list_ and write name='list'"
A_LIST = "@server.tool\ndef list() -> str:\n    'All.'\n    return ''\n"
OF_CONFIG = "did you mean the server 'todo' in mcp.json (config='mcp.json')?"
A_FOLDER = "it is a directory: name the server's file in it"
AN_INT = "@server.tool\ndef f() -> int:\n    'F.'\n    return 'x'\n"
BARE_EXCEPT = "try:\n        ctx.elicit('?', {'n': int})\n    except:\n        pass"
A_GUARD = (
    "@server.middleware\ndef guard(ctx, call_next):\n    raise AuthorizationError('no token')\n"
)
NO_PROGRAM = "there is no such program"
OF_RESULT = "the returned value is in .value"
OF_TEXT = "JSON: json.loads(result.text)"
EARLY = "your server printed to stdout, which is for messages: use stderr"
A_MARKED_CLASS = "class A:\n    @minimcp.tool\n    def f(self) -> str:\n        'F.'\n        return ''\nserver.add(A)"

MISTAKES: Dict[str, List[Any]] = {
    # at a terminal
    "list: a name that is not in mcp.json": [["list", "tood"], OF_CONFIG],
    "list: a file without .py": [["list", "01typo"], "did you mean the file '01typo.py'?"],
    "list: another file": [["list", "sevrer.py"], "there is no file 'sevrer.py' in {folder}, did you mean server.py?"],
    "run: another file": [["run", "sevrer.py"], "there is no file 'sevrer.py' in {folder}, did you mean server.py?"],
    "run: a file without server": [["run", "none.py"], 'none.py has no server object: write  server = Server("name")'],
    "list: a file without server": [["list", "none.py"], "the target 'python3 -m minimcp run FILE', in quotes"],
    "list: a file that is like another in its ending": [["list", "notes_server.py"],
        "there is no file 'notes_server.py' in {folder}\n"],
    "list: a file that is not there": [["list", "nosuch.py"], "there is no file 'nosuch.py' in {folder}\n"],
    "list: a folder": [["list", "{folder}"], A_FOLDER],
    "list: a config": [["list", "mcp.json"],
        "write connect(NAME, config='mcp.json') for one server, or connect_all("],
    "list: exit code 3": [["list", "exits.py"], "it wrote nothing to stderr: run the command in a terminal"],
    "call: another tool": [["call", "{url}", "gret"],
        "has no tool 'gret', did you mean greet? It has greet, delete"],
    "call: a tool that fails": [["call", "server.py", "look", "key=k"],
        "KeyError: 'k' (for the traceback: --verbose)"],
    "call: JSON": [["call", "{url}", "greet", '{"name": "Ada"}'], "write --json '{\"name\": \"Ada\"}'"],
    "call: a word": [["call", "{url}", "greet", "Ada"], "'Ada' is not key=value, as in name=Ada"],
    "call: no JSON": [["call", "{url}", "greet", "--json", "{a: 1}"], '--json: not valid JSON, as in {"name": 1}: '],
    "call: no argument": [["call", "{url}", "greet"], "name is missing: greet(name: string)"],
    "call: another argument": [["call", "{url}", "greet", "nam=Ada"], "name is missing, did you write 'nam' instead?"],
    "call: an unknown argument": [["call", "{url}", "greet", "whom=Ada"],
        "name is missing, and whom is unknown: greet(name: string)"],
    "call: another option": [["call", "{url}", "greet", "--timeut", "4"], "--timeut ... , did you mean --timeout?"],
    "call: another type": [["call", "{url}", "delete", "id=one"], "id: expected an integer, got the string 'one'"],
    "read: another URI": [["read", "{url}", "notes://al"], "not found: notes://al, did you mean notes://all?"],
    "prompt: another name": [["prompt", "{url}", "breif", "topic=x"], "Unknown prompt: breif, did you mean brief?"],
    "prompt: JSON": [["prompt", "{url}", "brief", '{"topic": 1}'], "is not key=value, as in name=Ada"],
    "another command": [["lst", "server.py"],
        "unknown command 'lst', did you mean list? The commands are demo, list, call, tasks, events, read, prompt, ping"],
    "demo: another chapter": [["demo", "99"], "there is no chapter '99': the chapters are 1 Starting; 2 "],
    # in a config
    "config: a command line": [["list", "words"],
        'put arguments into "args", as in "command": "python3", "args": ["se'],
    "config: cmd": [["list", "cmd"], "server 'cmd': cmd: is not a known member: write command"],
    "config: comand": [["list", "typo"], "comand: is not a known member: write command"],
    "config: envs": [["list", "envs"], "envs: is not a known member: write env"],
    "config: arg": [["list", "arg"], "arg: is not a known member: write args"],
    "config: uri": [["list", "uri"], "uri: is not a known member: write url"],
    "config: no variable": [["list", "token"],
        "headers.Authorization: the environment variable NO_SUCH_TOKEN is not set"],
    "config: another Python": [["list", "bare"],
        "has no minimcp: name a Python that has it, or install it there with pip"],
    "config: another folder": [["list", "elsewhere"],
        "does the file exist? Write an absolute path: hosts start servers from a different folder"],
    "config: no args": [["list", "alone"],
        "starts an interpreter without a program: add the server's file after it, in a config as \"args\":"],
    "config: a comma after the last": [lambda: minimcp.client.config.read_servers("comma.json"),
        "WARNING ... comma.json has comments or a trailing comma, which hosts other than VS Code may reject"],
    "config: Claude Desktop's with servers": [
        lambda: minimcp.client.config.read_servers("claude_desktop_config.json"),
        "WARNING ... has servers, but the host that reads this file expects mcpServers"],
    "config: VS Code's with mcpServers": [
        lambda: minimcp.client.config.read_servers(".vscode/mcp.json"),
        "WARNING ... has mcpServers, but the host that reads this file expects servers"],
    "config: a backslash": [lambda: minimcp.connect_all("escape.json"),
        "not JSON: Invalid \\escape: write backslashes twice, or use /"],
    "config: mcpServer": [lambda: minimcp.connect_all("bad.json"),
        "ValueError: bad.json: must have mcpServers or servers"],
    # connecting
    "connect: a name in a config": [connects("todo"), "ConnectionFailed: ... " + OF_CONFIG],
    "connect: a config": [connects("mcp.json"), "'mcp.json' is a config: write connect(NAME, config="],
    "connect: a folder": [connects("/"), A_FOLDER],
    "connect: another folder's file": [connects("todo.py"), "there is no file 'todo.py' in {folder}"],
    "connect: a name alone": [connects("weather"), "for the name of a server in a config, add config=FILE (--config)"],
    "connect: no program": [connects("nosuchcommand --flag"), NO_PROGRAM],
    "connect: a line in a list": [connects(["python3 server.py"]), '"args": ["server.py"]'],
    "connect: a file in a list": [connects(["server.py"]),
        "it is not a program: begin the list with a program, as in [sys.executable, 'server.py']"],
    "connect: Client": [lambda: minimcp.Client("server.py"),  # type: ignore[arg-type]
        "TypeError: a Client is made by minimcp.connect(...): pass 'server.py' to connect"],
    "connect: another name": [lambda: minimcp.connnect,  # type: ignore[attr-defined]
        "AttributeError: module 'minimcp' has no attribute 'connnect', did you mean connect?"],
    "connect: another limit": [lambda: minimcp.Limits(worker=3),  # type: ignore[call-arg]
        "TypeError: Limits(...) has no option worker=: did you mean workers=?"],
    "connect: no executable": [connects("./server.sh"), "is not executable: begin with a program, as in ['bash', "],
    "connect: raises at import": [connects("raises.py"), "exited with code 1 ... RuntimeError: no database"],
    "connect: the class": [connects(Server), "TypeError: Server is a class: give an instance of it"],
    "connect: no scheme": [connects("localhost:8000/mcp"), "write 'http://localhost:8000/mcp' or 'https://localhost:8000/mcp' for a URL"],
    "connect: no scheme, with a token": [connects("127.0.0.1:8765/mcp", auth="x"),
        "write 'http://127.0.0.1:8765/mcp' or 'https://127.0.0.1:8765/mcp' for a URL"],
    "connect: auth for a file": [connects("server.py", auth="x"), "apply only to a server with a URL"],
    "connect: another option": [connects("server.py", time_out=3), "has no option time_out=: did you mean timeout=?"],
    "connect: ellicit": [connects(Server("s"), handlers=type("Host", (), {"ellicit": print})()),
        "did you mean elicit?"],
    "connect: another path": [to_http(lambda url: url + "x"),
        "404: nothing is served at this path: the server is at /mcp (the older HTTP+SSE was tried too: the same response)"],
    "connect: https for http": [to_http(lambda url: url.replace("http:", "https:")),
        "does the server use http, not https?"],
    "connect: http for https": [a_broken_answer, "the connection broke: ... : does the server use https?"],
    "connect: another port": [nobody_listens, "nothing is listening there: is the server running, and is this its port?"],
    "connect: a web page": [answered(200, "text/html", b"<html></html>"),
        "ProtocolViolation: ... (a web page: is this the URL of an MCP server? Often it ends in /mcp)"],
    "connect: no token": [answered(401, "text/plain", b"a token, please"),
        "AuthorizationError: ... 401: a token, please ... pass your token with "
        "--token TOKEN, or connect(..., auth=TOKEN)"],
    "connect: a file that serves over HTTP": [connects("web.py", probe_timeout=2.0, connect_timeout=WAIT),
        "ConnectionFailed: ... it serves over HTTP: connect to http://127.0.0.1: ... , or call run() without \"http\""],
    "prints before it serves": [connects("prints.py"), EARLY],
    # registering
    "no annotation": [takes("a, b"),
        "TypeError: f (written.py:5): parameter 'a' has no annotation: give it a type, such "],
    "ctx without annotation": [takes("ctx"), "give it a type, such as ctx: Context"],
    "two contexts": [takes("a: Context, b: Context"), "two parameters take the context, 'a' and 'b': keep one"],
    "async def": [takes("", kind="async def"), "is async: write a plain def; it runs on a thread and may block"],
    "a generator": [takes("", body="yield 1"),
        "is a generator: return a list, and report progress with ctx"],
    "*numbers": [takes("*numbers: int"), "name each parameter, or take one list: numbers: list[int]"],
    "**options": [takes("**options: int"), "name each parameter, or take one dict: options: dict[str, int]"],
    "positional-only": [takes("x: int, /"), "arguments are passed by name: remove the '/'"],
    "bytes": [takes("x: bytes"), "bytes have no JSON form: take a str (text, or base64 that you decode)"],
    "[int]": [takes("x: [int]"), "is not a type with a JSON form: write list[int]"],
    "a dict as a type": [takes("x: {'a': int}"), "write a TypedDict with these fields, or dict[str, ...]"],
    "a bare class": [takes("x: type('P', (), {})"),
        "P has no JSON form: write list[...], dict[...] or str, or make it a"],
    "self": [author("class A:\n    @server.tool\n    def f(self): 'F.'"),
        "takes self, so it is a method and needs an obj"],
    "a class": [author(A_MARKED_CLASS), "A is a class: pass an instance of it, A()"],
    "print": [author("server.tool(print)"), "is not a Python function: write a def that calls it"],
    "a lambda": [author("server.tool(lambda n: n + 1)"), "a lambda cannot have one: write def add(n: str)"],
    "a name by position": [takes("", "@server.tool('hello')"), "server.tool('hello'): did you mean name='hello'?"],
    "the class's decorator": [takes("", "@Server.tool"),
        'TypeError: write @server.tool, with server = Server("name"), instead of @Server.tool'],
    "the class's decorator of prompts": [takes("", "@Server.prompt"), "write @server.prompt, with server"],
    "FastMCP": [author("from minimcp import FastMCP"), "ImportError: minimcp has no FastMCP: write Server"],
    "an option of HTTP": [author("HttpOptions(session=False)"),
        "TypeError: HttpOptions(...) has no option session=: did you mean sessions=?"],
    "another option": [takes("", "@server.tool(desc='x')"),
        "a tool has no option desc=: did you mean description=?"],
    "a name twice": [author("def f(): 'F.'\nserver.tool(f)\nserver.tool(f)"),
        "Rename one of them, or write replace=True"],
    "no URI": [takes("", "@server.resource"), 'the URI comes first: @server.resource("notes://all")'],
    "no scheme": [takes("id: str", "@server.resource('notes/{id}')"),
        "ValueError: 'notes/{id}' is not a URI: it must begin with a scheme and a colon, as 'notes://{id}' does"],
    "another variable": [takes("id: str", "@server.resource('notes://{number}')"),
        "(written.py:5): ... add {id} to it"],
    "no parameter": [takes("id: str", "@server.resource('notes://{id}/{n}')"), "no parameter of that name: add n: str"],
    "completes nothing": [takes("title: str", "@server.prompt(complete={'tone': []})"),
        "no argument to complete is called 'tone': expected one of title"],
    "a tool list": [author(A_LIST), "WARNING ... " + NO_LIST + " ... (written.py:5)"],
    "a tool list, and a list": [author(f"{A_LIST}@server.tool\ndef g(x: 'list[int]'): 'G.'"),
        "TypeError: ... " + NO_LIST],
    "documents another": [
        author("@server.tool\ndef f(city: str):\n    '''F.\n\n    Args:\n        town: Where.\n    '''"),
        "WARNING ... no parameter 'town', which its docstring describes (the parameters are city) ... written.py:5",
    ],
    "another type's default": [takes("days: int = 'five'"),
        "WARNING ... default days='five', which is not an integer"],
    "another transport": [author("server.run('htp')"), "unknown transport 'htp': write 'stdio', 'http' or 'sse'"],
    "run with a port, over stdio": [author("server.run(port=8123, legacy_sse=True)"),
        'run(port=8123): "stdio" does not accept it; did you mean run("http", port=8123, legacy_sse=True)?'],
    "run with the default port": [author("server.run('stdio', port=8000)"), 'did you mean run("http", port=8000)?'],
    "an option, later": [author("server.auth = Bearer.static('x')"),
        "AttributeError: auth cannot be changed later: write Server('s', auth=...)"],
    "another name, later": [author("server.name = 'x'"), "name cannot be changed later: write Server(...)"],
    "an option of run": [author("Server('s', port=1)"), "has no option port=: pass it to server.run(...)"],
    "an option of the server, to run": [author("server.run('http', auth='x')"),
        "TypeError: run(...) has no option auth=: write Server(..., auth=...)"],
    "an option of the server, to run over stdio": [author("server.run(mask_errors=True)"),
        "TypeError: run(...) has no option mask_errors=: write Server(..., mask_errors=...)"],
    "an option of HTTP, to run": [author("server.run('http', allowed_hosts=['*'])"),
        "TypeError: run(...) has no option allowed_hosts=: write Server(..., http=HttpOptions(allowed_hosts=...))"],
    "another option of run": [author("server.run('http', prot=1)"),
        "TypeError: run(...) has no option prot=: did you mean port=?"],
    "an option of the server, to start_http": [author("server.start_http(max_workers=3)"),
        "TypeError: start_http(...) has no option max_workers=: write Server(..., limits=Limits(workers=...))"],
    "an option of the server, to wsgi": [author("server.wsgi(auth='x')"),
        "TypeError: wsgi(...) has no option auth=: write Server(..., auth=...)"],
    "an option of run, to wsgi": [author("server.wsgi(port=1)"),
        "TypeError: wsgi(...) has no option port=: pass it to server.run(...)"],
    "streams of wsgi as text": [author("server.wsgi(max_streams='5')"), "TypeError: max_streams must be"],
    "a path that is a number": [author("server.start_http(path=1)"), "ValueError: path must begin with /, not 1"],
    "a host that is a number": [author("server.start_http(host=1)"), "TypeError: host must be a str, not 1"],
    "an option of the server, to serve": [author("minimcp.serve(object(), 'http', auth='x')"),
        'TypeError: serve(...) has no option auth=: write Server("name", object, auth=...)'],
    "a port in use": [a_port_in_use,
        "OSError: ... another program is listening there; choose another port, or 0 for a free one"],
    # actions of a tool
    "returns an object": [does("return object()"), "return a str, a number, a list, a dict or a dataclass"],
    "returns a file": [does("with open('none.py') as file: return {'a': file}"),
        "return its content, file.read(), or its path"],
    "returns bytes": [does("return b'x'"), "return Image(data, mime_type), Audio or EmbeddedResource"],
    "returns another type": [
        author(f"{AN_INT}with connect(server) as client:\n    client.call_tool('f')"),
        "ToolError: f returned an invalid value: expected an integer, got the string 'x'. The return annotation is int.",
    ],
    "forgets to return": [returns("str", "pass"),
        "expected a string, got null. The return annotation is str. (None: is a return missing in a branch?)"],
    "returns a number for text": [returns("str", "return 34.5"), "expected a string, got the number 34.5"],
    "returns a dict for text": [returns("str", "return {'a': 1}"), "expected a string, got an object with a"],
    "returns a long text": [
        returns("Annotated[str, minimcp.schema.Limits(max_length=2)]", "return 'abc'"),
        "f returned an invalid value: expected at most 2 characters, got 3"],
    "returns another type, not structured": [returns("int", "return 'x'", "(structured=False)"),
        "f returned an invalid value: expected an integer, got the string 'x'"],
    "returns too much": [does("return 'x' * 2_000", "server = Server('s', limits=Limits(message_bytes=1_000))"),
        "the sender's Limits.message_bytes: ask for less"],
    "a prompt that returns a dict": [does("return {}", kind="prompt"),
        "f returned a dict, {}: return a str, a Message(role"],
    "reads the terminal": [does("raise EOFError('EOF when reading a line')"),
        "with input(): ask the user with ctx.elicit("],
    "SQLite of another thread": [does("database.execute('select 1')"),
        "check_same_thread=False and a lock, or write executor=Serial()"],
    "ctx.call_tool": [does("ctx.call_tool('x')"), "ctx has no 'call_tool': call the function directly"],
    "ctx.progres": [does("ctx.progres(1)"), "ctx has no 'progres': did you mean ctx.progress?"],
    "ctx.report_progress": [does("ctx.report_progress(1)"), "did you mean ctx.progress?"],
    "answer[...]": [does("return ctx.elicit('?', {'n': int})['n']"),
        "an Answer is not subscriptable: use .require() or .content for the form's content"],
    "asks 20 times": [does("return str([ctx.elicit(str(n), {'n': int}) for n in range(20)])"),
        "raise Limits.rounds: Server(..., limits=Limits(rounds=...))"],
    "asks by chance": [
        does("ctx.elicit(str(__import__('random').random()), {'n': int})", "server = Server('s', check_replay=True)"),
        "was a different question in an earlier run: store the values that it depends on with ctx.step",
    ],
    "a bare except": [does(BARE_EXCEPT, "server = Server('s', check_replay=True)"),
        "let Suspend propagate, and catch Exception instead of BaseException"],
    "acts, then asks, over HTTP": [replayed,
        "INFO ... settle (written.py:5), runs again from the top: put actions that must not happen twice into ctx.step"],
    "needs what is not there": [does("", kind="tool(requires='sampling')"),
        "such as connect(..., sample=f); if the server can work without it, test ctx.client.supports('sampling') first"],
    "a guard as middleware": [does("", A_GUARD), "no token: middleware cannot protect a server ... auth=minimcp.Bearer"],
    # actions of a caller
    "another tool": [client_does(lambda c: c.call_tool("delte")),
        "InvalidParams: Unknown tool: delte, did you mean delete?"],
    "another argument's type": [client_does(lambda c: c.call_tool("delete", {"id": "one"})),
        "ToolError: id: expected an int"],
    "arguments by keyword": [client_does(lambda c: c.call_tool("greet", who="x")),
        "TypeError: pass the arguments of a tool as a dict: call_tool('greet', {'who': 'x'})"],
    "arguments by position": [client_does(lambda c: c.call_tool("greet", "Ada")),
        "must be a dict by parameter name, such as "],
    "a set": [client_does(lambda c: c.call_tool("greet", {"name": {1}})), "name is a set, {1}: write list(...)"],
    "an Event as cancel": [client_does(lambda c: c.call_tool("ask", cancel=threading.Event())),  # type: ignore[arg-type]
        "TypeError: cancel must be a CancelToken or None, not ... : make a CancelToken() and call its cancel()"],
    "progress_callback": [client_does(lambda c: c.call_tool("greet", progress_callback=print)),
        "did you mean on_progress=?"],
    "result[...]": [client_does(lambda c: c.call_tool("greet", {"name": "A"})["id"]), "TypeError: ... " + OF_RESULT],
    "result.id": [client_does(lambda c: c.call_tool("greet", {"name": "A"}).id), "AttributeError: ... " + OF_RESULT],
    "resource.value": [client_does(lambda c: c.read_resource("notes://all").value), "AttributeError: ... " + OF_TEXT],
    "resource.json()": [client_does(lambda c: c.read_resource("notes://all").json()), "AttributeError: ... " + OF_TEXT],
    "another resource": [client_does(lambda c: c.read_resource("notes://al")), "did you mean notes://all?"],
    "cannot be asked": [client_does(lambda c: c.call_tool("ask")),
        "CapabilityNotSupported: ... such as connect(..., elicit"],
    "cannot be asked in a session": [client_does(lambda c: c.call_tool("ask"), revision="2025-11-25"),
        "ToolError: elicitation/create needs a client with elicitation.form, such as connect(..., elicit=f)"],
    "no forms in this revision": [
        client_does(lambda c: c.call_tool("ask"), revision="2025-03-26", elicit=lambda r: {"n": 1}),
        "with elicitation.form: 2025-03-26 does not have it; these revisions do: 2025-06-18, 2025-11-25, 2026-07-28"],
    "answers another field": [client_does(lambda c: c.call_tool("ask"), elicit=lambda r: {"m": 1}),
        "HandlerFailed: ... the return value of elicit does not match the schema: unknown field 'm': the fields are n; missing: n"],
    "misspells a field": [
        does("ctx.elicit('?', {'type': 'object', 'properties': {'days': {'type': 'integer', 'default': 14}}})",
             elicit=lambda r: {"dayz": 7}),
        "HandlerFailed: ... unknown field 'dayz', did you mean 'days'?"],
    "declines": [client_does(lambda c: c.call_tool("ask"), elicit=lambda r: None), "ToolError: the user declined"],
    "answers True": [client_does(lambda c: c.call_tool("ask"), elicit=lambda r: True),
        "HandlerFailed: ... elicit must return a dict, a dataclass, None or an Answer, not bool"],
    "async with": [in_a_coroutine, "TypeError: write with, not async with: all methods of a Client block"],
    "after its block": [after_the_block, "ConnectionLost: ... this client is closed: use it inside its with block"],
    "a group's client that did not start": [group_does(lambda g: g.clients["broken"]),
        "KeyError: ... broken did not start: ... /there/is/none"],
    "a group's client": [group_does(lambda g: g.clients["tood"]), "KeyError: 'tood: the group has todo'"],
    "a group's prompts": [group_does(lambda g: g.list_prompts()),
        "a Group has no 'list_prompts': write group.clients[NAME].list_prompts"],
    "a group's tool": [group_does(lambda g: g.call_tool("greet")), "Names in this group have the form server__tool. The servers are todo"],
}  # fmt: skip


@pytest.mark.parametrize(("mistake", "message"), MISTAKES.values(), ids=MISTAKES)
def test_the_message_says_what_to_write(
    mistake: Mistake,
    message: str,
    beginner: Path,
    url: str,
    capsys: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where the message has three dots, there may be more."""
    caplog.set_level(logging.INFO)
    told = ""
    if isinstance(mistake, list):
        assert (
            main([{"{folder}": str(beginner), "{url}": url}.get(word, word) for word in mistake])
            > 0
        )
    else:
        try:
            mistake()
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
    told += (
        "".join(f"\n{each.levelname} {each.getMessage()}" for each in caplog.records)
        + capsys.readouterr().err
    )
    at = 0
    for part in message.replace("{folder}", str(beginner)).split(" ... "):
        assert part in told[at:], told
        at = told.index(part, at) + len(part)
    warnings = [each for each in caplog.records if each.levelname == "WARNING"]
    assert not message.startswith("WARNING") or len(warnings) == 1, (
        "what is not refused is told once"
    )


def test_yes_or_no_is_an_empty_form() -> None:
    code = "@server.tool\ndef f(ctx: Context) -> bool:\n    'F.'\n    return bool(ctx.elicit('Delete all?', {}))"
    server = written(code)["server"]
    for revision in ("2025-06-18", "2025-11-25", "2026-07-28"):
        for said, accepted in (({}, True), (None, False), (minimcp.Answer("accept"), True)):
            with minimcp.connect(
                server, revision=revision, elicit=lambda request, said=said: said
            ) as client:
                assert client.call_tool("f").value is accepted


def test_a_server_accepts_attributes_that_are_not_options() -> None:
    server = Server("x")
    server.database = DATABASE  # type: ignore[attr-defined]
    assert server.database is DATABASE  # type: ignore[attr-defined]


def test_clients_that_are_there() -> None:
    with minimcp.connect_all({"todo": Server("s"), "broken": ["/there/is/none"]}) as group:
        assert group.clients.get("broken") is None and [*group.clients] == ["todo"]


@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_handler_of_a_host_that_fails_is_the_same_everywhere(
    revision: str, over_http: bool
) -> None:
    server = written(SERVER)["server"]
    with server.start_http(port=0) as running:
        target: Any = running.url if over_http else server
        with minimcp.connect(
            target, revision=revision, elicit=lambda request: 1 / 0, timeout=WAIT
        ) as client:
            with pytest.raises(
                minimcp.HandlerFailed, match="elicitation/create failed: division by zero"
            ):
                client.call_tool("ask")
            client.ping()


def test_another_python_says_which_is_needed() -> None:
    source = (
        (ROOT / "minimcp" / "__init__.py")
        .read_text(encoding="utf-8")
        .partition("\n# isort: off")[0]
    )
    old = type(
        "old", (), {"version_info": (3, 8), "version": "3.8.18 (x)", "executable": "/bin/python3.8"}
    )
    with pytest.raises(
        ImportError, match=r"needs Python 3.9 or newer, and this is 3.8.18 \(/bin/python3.8\)"
    ):
        exec(compile(source.replace("import sys\n", ""), "init", "exec"), {"sys": old})
