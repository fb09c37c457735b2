"""The server as a PEP 3333 application, and as a function."""

from __future__ import annotations

import io
import json
import sys
import threading
from contextlib import closing
from pathlib import Path
from socketserver import ThreadingMixIn
from types import SimpleNamespace
from typing import Any, Dict, Iterable, List, Mapping, Tuple
from weakref import WeakSet
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.validate import validator

import pytest

import minimcp
from minimcp import (
    CapabilityNotSupported,
    ConnectionLost,
    Context,
    HttpOptions,
    HttpRequest,
    Server,
    SqliteStore,
)
from minimcp.http import endpoint, wsgi
from minimcp.http.wsgi import MAX_PIECES, Mailbox
from tests.rows import for_each
from tests.scripted import Task
from tests.streams import read_events
from tests.support import WAIT, eventually
from tests.transports.http_app import HANDSHAKE, Stage, alone, call, message, post
from tests.wire.messages import hello

from ..inside import feature_of, streams_with_changes

requirement = pytest.mark.requirement


class Host:
    """Calls an application like a WSGI server."""

    def __init__(self, app: Any, **environ: Any) -> None:
        self.app, self.environ = app, environ

    def __call__(self, request: HttpRequest, **environ: Any) -> Tuple[int, Dict[str, str], Any]:
        names = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
        given: Dict[str, Any] = {
            names.get(name, "HTTP_" + name.upper().replace("-", "_")): value
            for name, value in request.headers.items()
        }
        path, _, query = request.path.partition("?")
        started: List[Any] = []

        def start_response(
            status: str, headers: List[Tuple[str, str]], exc_info: Any = None
        ) -> Any:
            started.append((int(status[:3]), dict(headers)))
            return lambda data: None

        body: Iterable[bytes] = self.app(
            {
                "REQUEST_METHOD": request.method,
                "SCRIPT_NAME": "",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "SERVER_NAME": "localhost",
                "SERVER_PORT": "80",
                "SERVER_PROTOCOL": "HTTP/1.1",
                "wsgi.version": (1, 0),
                "wsgi.url_scheme": "http",
                "wsgi.input": io.BytesIO(request.body),
                "wsgi.errors": io.StringIO(),
                "wsgi.multithread": True,
                "wsgi.multiprocess": False,
                "wsgi.run_once": False,
                "REMOTE_ADDR": "127.0.0.1",
                "CONTENT_LENGTH": str(len(request.body)),
                **given,
                **self.environ,
                **environ,
            },
            start_response,
        )
        return (*started[0], body)


def whole(response: Tuple[int, Mapping[str, str], Any]) -> Tuple[int, Mapping[str, str], bytes]:
    status, headers, body = response
    try:
        return status, headers, b"".join(body)
    finally:
        if hasattr(body, "close"):
            body.close()


@requirement("SHTTP-12")
def test_it_is_an_application_of_the_standard(server: Server) -> None:
    host = Host(validator(server.wsgi()))
    status, headers, body = whole(host(call("add", {"a": 1, "b": 2})))
    assert status == 200 and headers["Content-Length"] == str(len(body))
    assert json.loads(body)["result"]["structuredContent"] == 3
    status, headers, body = whole(host(call("count", token=1)))
    assert (
        status == 200
        and headers["Content-Type"] == "text/event-stream"
        and len(read_events(body)) == 4
    )


def test_streams_of_notices_are_off_until_they_are_allowed(server: Server) -> None:
    host = Host(server.wsgi())
    assert whole(host(HttpRequest("GET", "/mcp", {"Host": "localhost"})))[0] == 405
    listen = alone("subscriptions/listen", {"notifications": {}})
    assert b"Limits.streams" in whole(host(listen))[2]
    status, _, body = Host(server.wsgi(max_streams=1))(listen)
    assert status == 200 and b"acknowledged" in next(body)
    body.close()
    body.close()
    assert list(body) == []
    assert eventually(lambda: not streams_with_changes(feature_of(server, "subscriptions")))


@for_each(
    ("path", "script_name", "path_info", "status"),
    [
        ("/mcp", "", "/mcp", 200),
        ("/mcp", "", "/mcp/", 200),
        ("/mcp", "/tools", "/mcp", 200),
        ("/mcp", "/tools", "/mcp/", 200),
        ("/mcp", "/mcp", "", 200),
        ("/mcp", "/mcp", "/", 200),  # Starlette, FastAPI, Bottle
        ("/mcp/", "/mcp", "", 200),
        ("/mcp/", "/mcp", "/", 200),
        ("/mcp/", "", "/mcp", 200),
        ("/api/mcp", "/api", "/mcp", 200),
        ("/api/mcp", "/api/mcp", "/", 200),
        ("/api/mcp", "", "/api/mcp", 200),
        ("/", "", "/", 200),
        ("/", "", "", 200),
        ("/", "/mcp", "", 200),
        ("/", "/mcp", "/", 200),
        ("/mcp", "", "/other", 404),
        ("/mcp", "", "", 404),
        ("/mcp", "", "/", 404),
        ("/mcp", "/api/mcp", "/", 200),  # mounted at its path in an app that is mounted at /api
        ("/mcp", "/api/mcp", "", 200),
        ("/mcp/", "/api/mcp", "/", 200),
        ("/mcp", "/api/mcp/x", "/", 404),
        ("/mcp", "/api", "/", 404),
        ("/mcp", "/mcp", "/other", 404),
        ("/mcp", "", "/mcp//", 404),
        ("/mcp", "", "//mcp", 404),
        ("/mcp", "", "/MCP", 404),
        ("/mcp", "", "/mcp?x=1", 404),
        ("/mcp", "", "/mcp#x", 404),
        ("/mcp", "", "/mcp;x", 404),
        ("/mcp", "", "/./mcp", 404),
        ("/mcp", "/mcp", "/../mcp", 404),
        ("/mcp", "", "/mcp\x00", 404),
        ("/mcp", "", "/mcp\xff\u20ac", 404),
        ("/", "/mcp", "/other", 404),
    ],
)
def test_it_answers_wherever_it_is_mounted(
    server: Server, path: str, script_name: str, path_info: str, status: int
) -> None:
    host = Host(server.wsgi(path), SCRIPT_NAME=script_name, PATH_INFO=path_info)
    assert whole(host(alone("server/discover")))[0] == status
    assert whole(host(alone("server/discover"), QUERY_STRING="a=1"))[0] == status


@for_each(
    ("script_name", "path_info", "status"),
    [
        ("", "/.well-known/oauth-protected-resource", 200),
        ("", "/.well-known/oauth-protected-resource/mcp", 200),
        ("", "/.well-known/oauth-protected-resource/mcp/", 404),
        ("/.well-known/oauth-protected-resource", "", 200),
        ("/.well-known/oauth-protected-resource", "/", 200),
        ("/.well-known/oauth-protected-resource", "/mcp", 200),
        ("/.well-known/oauth-protected-resource/mcp", "", 200),
        ("/.well-known/oauth-protected-resource/mcp", "/", 200),
        ("/mcp", "/", 401),
        ("/api/mcp", "/", 401),
        ("/api", "/.well-known/oauth-protected-resource/mcp", 200),
        ("/.well-known", "/mcp", 401),
        ("", "/.well-known/oauth-protected-resource/other", 404),
        ("", "/.well-known/oauth-protected-resource/mcp/x", 404),
    ],
)
def test_metadata_is_found_wherever_it_is_mounted(
    script_name: str, path_info: str, status: int
) -> None:
    auth = minimcp.Bearer.static(
        "secret",
        resource="https://example.com/mcp",
        authorization_servers=["https://login.example.com"],
    )
    host = Host(Server("x", auth=auth).wsgi(), SCRIPT_NAME=script_name, PATH_INFO=path_info)
    asked = HttpRequest("GET", "/", {"Host": "localhost", "Accept": "text/event-stream"})
    assert whole(host(asked))[0] == status


# ------------------------------------------------------------ hosts with one thread


ASKS = {
    "elicit": lambda ctx: ctx.elicit("Your name?", {"name": str}),
    "sample": lambda ctx: ctx.sample("Hello", max_tokens=10),
    "list_roots": lambda ctx: ctx.list_roots(),
}


def asking_server(**options: Any) -> Server:
    server = Server("asking", **options)

    @server.tool
    def ask(how: str, ctx: Context) -> str:
        """Ask."""
        try:
            ASKS[how](ctx)
        except CapabilityNotSupported as error:
            return f"refused: {error}"
        return "answered"

    return server


def call_in_session(host: Host, how: str) -> Tuple[Dict[str, str], Any]:
    """Open a session, and call the tool. Return the session's headers and the response."""
    capabilities = {"elicitation": {}, "sampling": {}, "roots": {}}
    status, headers, _ = whole(host(post(message("initialize", hello(HANDSHAKE, **capabilities)))))
    assert status == 200
    session = {**headers, "MCP-Protocol-Version": HANDSHAKE}
    session = {name: session[name] for name in ("Mcp-Session-Id", "MCP-Protocol-Version")}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert whole(host(post(initialized, session)))[0] == 202
    asked = message("tools/call", {"name": "ask", "arguments": {"how": how}})
    return session, host(post(asked, session))


@pytest.mark.parametrize("how", sorted(ASKS))
def test_a_host_with_one_thread_is_not_waited_for(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(asking_server().wsgi(), **{"wsgi.multithread": False})
    for _ in range(2):
        _, _, body = whole(call_in_session(host, how)[1])
        assert b"refused: this WSGI host serves one request at a time" in body
        assert b"gunicorn --threads" in body
    (record,) = [each for each in caplog.records if "one request at a time" in each.getMessage()]
    assert record.levelname == "WARNING"
    # In a revision without a handshake nothing waits.
    arguments = {"how": how}
    asked = call("ask", arguments, capabilities={"elicitation": {}, "sampling": {}, "roots": {}})
    assert json.loads(whole(host(asked))[2])["result"]["resultType"] == "input_required"


def threads(**environ: Any) -> Dict[str, Any]:
    return {f"wsgi.{name}": value for name, value in environ.items()}


@pytest.mark.parametrize(
    ("environ", "shares", "greenlets"),
    [
        (threads(multithread=True), False, False),
        (threads(multithread=1, multiprocess=True), False, False),
        (threads(multithread=False, multiprocess=True), True, False),
        (threads(multithread=False), False, True),
    ],
)
def test_other_hosts_are_waited_for(
    environ: Dict[str, Any],
    shares: bool,
    greenlets: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkey = SimpleNamespace(is_module_patched=lambda name: greenlets and name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", monkey)
    store = SqliteStore(tmp_path / "store.db") if shares else None
    with closing(store or io.StringIO()), closing(asking_server(store=store)) as server:
        host = Host(server.wsgi(), **environ)
        session, (_, _, body) = call_in_session(host, "list_roots")
        question = b""
        while b"roots/list" not in question:
            question += next(body)
        asked = next(
            json.loads(event.data) for event in read_events(question) if "roots/list" in event.data
        )
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}
        assert whole(host(post(answer, session)))[0] == 202
        assert b"answered" in whole((200, {}, body))[2]


class Threading(ThreadingMixIn, WSGIServer):
    """wsgiref, with a thread for each request."""


@pytest.mark.parametrize(
    ("kind", "said"), [(WSGIServer, "refused: this WSGI"), (Threading, "answered")]
)
def test_wsgiref_with_and_without_threads(kind: Any, said: str) -> None:
    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with (
        closing(asking_server()) as server,
        make_server("127.0.0.1", 0, server.wsgi(), kind, Quiet) as host,
    ):
        thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{host.server_port}/mcp"
            with minimcp.connect(url, revision=HANDSHAKE, timeout=WAIT, roots=[]) as client:
                assert client.call_tool("ask", {"how": "list_roots"}).text.startswith(said)
        finally:
            host.shutdown()
            thread.join(WAIT)


@pytest.mark.parametrize("environ", [threads(multiprocess=True), threads(), threads(run_once=True)])
def test_one_thread_and_one_process_or_no_store(environ: Dict[str, Any], tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db") if not environ else None
    with closing(store or io.StringIO()), closing(asking_server(store=store)) as server:
        host = Host(server.wsgi(), **threads(multithread=False), **environ)
        assert b"refused" in whole(call_in_session(host, "list_roots")[1])[2]


def test_the_answer_to_head_has_no_body_whatever_the_host_would_do_with_one(server: Server) -> None:
    status, headers, body = whole(
        Host(validator(server.wsgi()))(HttpRequest("HEAD", "/mcp", {"Host": "localhost"}))
    )
    assert status == 405 and "POST" in headers["Allow"] and body == b""


def test_a_body_is_read_as_far_as_the_host_vouches_for_it(server: Server) -> None:
    host, request = Host(server.wsgi()), alone("server/discover")
    longer = io.BytesIO(request.body + b"the next request")
    assert whole(host(request, **{"wsgi.input": longer}))[0] == 200
    assert longer.read() == b"the next request"
    assert whole(host(request, CONTENT_LENGTH=""))[0] == 400
    assert whole(host(request, CONTENT_LENGTH="", **{"wsgi.input_terminated": True}))[0] == 200
    assert whole(host(request, **{"wsgi.input": None}))[0] == 400
    for length in ("\u00b2", "-5", "9" * 5000):
        assert whole(host(request, CONTENT_LENGTH=length))[0] in (400, 413), length


class Drip(io.BytesIO):
    """A body that breaks off."""

    def read(self, size: Any = -1) -> bytes:
        raise OSError("the client has gone")


def test_the_rest_of_a_rejected_body_is_read_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wsgi, "MAX_SKIPPED_BYTES", 1000)
    with closing(Server("small", http=HttpOptions(body_bytes=100))) as server:
        host, request = Host(server.wsgi()), alone("server/discover")
        for path, length, left in (("/mcp", 900, 50), ("/mcp", 5000, 4050), ("/other", 900, 50)):
            body = io.BytesIO(b" " * (length + 50))
            answer = whole(
                host(request, CONTENT_LENGTH=str(length), PATH_INFO=path, **{"wsgi.input": body})
            )
            assert answer[0] == (404 if path == "/other" else 413)
            assert len(body.read()) == left
        assert whole(host(request, CONTENT_LENGTH="900", **{"wsgi.input": Drip()}))[0] == 413


def test_hosts_may_be_named_for_one_mount(server: Server) -> None:
    host = Host(server.wsgi(allowed_hosts=["a.example"], allowed_origins=["https://b.example"]))
    headers = {"Host": "a.example", "Origin": "https://b.example"}
    assert whole(host(alone("server/discover", headers=headers)))[0] == 200
    assert whole(host(alone("server/discover")))[0] == 421


def test_a_client_that_leaves_is_noticed_when_the_host_closes_the_body(
    server: Server, stage: Stage
) -> None:
    @server.tool
    def begun(ctx: Context) -> str:
        ctx.on_cancel(stage.cancelled.set)
        ctx.progress(1)
        assert stage.go.wait(WAIT)
        return "x"

    _, _, body = Host(server.wsgi())(call("begun", token=1))
    assert b"progress" in next(body)
    body.close()
    assert stage.cancelled.wait(WAIT)


def test_a_request_during_close_is_answered(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = endpoint.PostResponse
    monkeypatch.setattr(endpoint, "PostResponse", lambda *given: (make(*given), server.close())[0])
    response = Task(server.handle_http, call("add", {"a": 1, "b": 2})).result()
    assert json.loads(response.body)["result"]["structuredContent"] == 3


def endpoint_of_app(app: Any) -> Any:
    """The endpoint that an application serves."""
    return app._server


def test_close_may_happen_while_an_application_is_made(server: Server) -> None:
    class Apps(WeakSet):  # type: ignore[type-arg]
        def add(self, app: Any) -> None:
            assert server._state_lock.locked(), "close looks at them under this lock"
            super().add(app)

    server._wsgi_endpoints = Apps()
    app = server.wsgi()
    assert list(server._wsgi_endpoints) == [endpoint_of_app(app)]


def test_a_closed_endpoint_refuses_and_a_closed_server_serves_again(server: Server) -> None:
    app = server.wsgi()
    endpoint_of_app(app).close()
    assert whole(Host(app)(alone("server/discover")))[0] == 503
    for _ in range(3):
        server.close()
        assert whole(Host(app)(alone("server/discover")))[0] == 200
        assert server.handle_http(alone("server/discover")).status == 200


# ------------------------------------------------------------ the mailbox


def test_a_writer_waits_for_the_reader_with_a_limit() -> None:
    mailbox = Mailbox(patience=0.01)
    gone: List[int] = []
    mailbox.begin(200, [])
    assert mailbox.response().body is mailbox
    mailbox.token.on_cancel(lambda: gone.append(1))
    for number in range(MAX_PIECES + 5):
        assert mailbox.has_room()
        mailbox.write(b"%d" % number)
        if number < 5:
            assert next(mailbox) == b"%d" % number
    assert not mailbox.has_room() and not mailbox.gone
    with pytest.raises(ConnectionLost):
        mailbox.write(b"x")
    assert mailbox.gone and gone == [1] and mailbox.has_room()
    mailbox.token.on_cancel(lambda: gone.append(2))
    with pytest.raises(ConnectionLost):
        mailbox.write(b"x")
    mailbox.close()
    assert gone == [1, 2] and list(mailbox) == []


@pytest.mark.parametrize("end", ["read", "close"])
def test_a_thread_that_waits_for_a_mailbox_is_woken(end: str) -> None:
    mailbox = Mailbox(patience=None)

    def fill() -> None:
        for _ in range(MAX_PIECES + 1):
            mailbox.write(b"x")
        mailbox.end()

    filling = Task(fill)
    assert eventually(lambda: not mailbox.has_room())
    if end == "read":
        assert len(list(mailbox)) == MAX_PIECES + 1
        filling.result()
        return
    mailbox.close()
    with pytest.raises(ConnectionLost):
        filling.result()


# ------------------------------------------------------------ as a function


def test_without_a_stream_progress_is_dropped_and_no_question_is_sent(server: Server) -> None:
    assert b"progress" not in server.handle_http(call("count", token=1)).body
    opening = post(message("initialize", hello("2025-06-18", elicitation={})))
    session = dict(server.handle_http(opening).headers)["Mcp-Session-Id"]
    asked = server.handle_http(
        post(message("tools/call", {"name": "name"}), {"Mcp-Session-Id": session})
    )
    assert json.loads(asked.body)["result"]["isError"]
    get = HttpRequest(
        "GET",
        "/mcp",
        {"Host": "localhost", "Mcp-Session-Id": session, "Accept": "text/event-stream"},
    )
    assert server.handle_http(get).status == 405
    stream = server.handle_http(get, stream=True)
    assert stream.status == 200
    stream.body.close()


def test_wrong_options_are_refused_at_once(server: Server) -> None:
    with pytest.raises(ValueError, match="must begin with /"):
        server.wsgi("mcp")
    with pytest.raises(ValueError, match="allowed_hosts"):
        server.wsgi(allowed_hosts=["http://x"])
