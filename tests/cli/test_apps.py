"""``apps``: what its HTTP server serves, to whom, and under which policy. `tests.interop.preview`
opens the pages in Chromium."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Tuple

import pytest

from minimcp import Apps, Server, connect
from minimcp.cli.apps import MAX_BODY_BYTES, Host, policy

from ..support import ROOT, WAIT
from .conftest import Done, command_line, quoted, run_process

URI = "ui://sales/chart"
CHAPTER = ROOT / "examples" / "16_apps.py"

server = Server("sales</script>", extensions=[Apps()])


@server.app(URI, csp={"connect_domains": ["https://api.example.com"]})
def chart() -> str:
    return '<script src="minimcp-app.js"></script><p>chart</p>'


@server.resource("file:///plain.html", mime_type="text/html")
def plain() -> str:
    return "<p>plain</p>"


@server.tool(ui=URI)
def sales(month: str) -> Dict[str, int]:
    """Return the sales. </script><script>alert(1)</script>"""
    if month != "May":
        raise ValueError(f"no {month}")
    return {month: 56}


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    with connect(server, extensions=[Apps()]) as client:
        tools = [tool.to_wire() for tool in client.list_tools()]
        with Host(client, tools) as host:
            serving = threading.Thread(target=host.serve_forever, args=(0.01,))
            serving.start()
            yield host
            host.shutdown()
            serving.join()


def ask(
    host: Host, method: str, path: str, body: Any = None, **headers: str
) -> Tuple[int, str, Dict[str, str]]:
    """Send one request; a header with the value "" is left out."""
    connection = HTTPConnection("127.0.0.1", host.server_port, timeout=WAIT)
    netloc = host.origin.partition("//")[2]
    given = {"Host": netloc, "Origin": host.origin, **headers}
    given = {name.replace("_", "-"): value for name, value in given.items() if value}
    try:
        connection.request(method, path, body, given)
        response = connection.getresponse()
        return response.status, response.read().decode(), dict(response.getheaders())
    finally:
        connection.close()


def call(host: Host, method: str, params: Any) -> Any:
    body = json.dumps({"method": method, "params": params})
    status, text, _ = ask(host, "POST", f"/{host.secret}/call", body)
    assert status == 200
    return json.loads(text)


def test_the_host_page_has_the_tools_and_no_markup_of_the_server(host: Host) -> None:
    status, page, headers = ask(host, "GET", f"/{host.secret}/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    listed = json.loads(data)
    assert (listed["server"], [tool["name"] for tool in listed["tools"]]) == (
        "sales</script>",
        ["sales"],
    )
    assert "alert(1)</script>" not in page
    content_policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in content_policy and "connect-src 'self'" in content_policy


def test_the_page_of_an_app_has_a_sandbox_and_its_own_policy(host: Host) -> None:
    status, page, headers = ask(host, "GET", f"/{host.frame_secret}?uri=ui%3A%2F%2Fsales%2Fchart")
    assert status == 200 and "<p>chart</p>" in page and "const app =" in page
    parts = headers["Content-Security-Policy"].split("; ")
    assert parts[:2] == ["sandbox allow-scripts", "default-src 'none'"]
    assert "connect-src https://api.example.com" in parts and "frame-src 'none'" in parts
    for uri, said in (
        ("file%3A%2F%2F%2Fplain.html", "is not a resource of the type text/html;profile=mcp-app"),
        ("ui%3A%2F%2Fnone", "not found"),
    ):
        status, text, headers = ask(host, "GET", f"/{host.frame_secret}?uri={uri}")
        assert status == 404 and said.lower() in text.lower()
        assert headers["Content-Type"].startswith("text/plain")


def test_calls_are_forwarded(host: Host) -> None:
    result = call(host, "tools/call", {"name": "sales", "arguments": {"month": "May"}})["result"]
    assert result["structuredContent"] == {"May": 56}
    assert call(host, "tools/call", {"name": "sales", "arguments": {"month": "Yule"}})["result"][
        "isError"
    ]
    assert call(host, "resources/read", {"uri": URI})["result"]["contents"][0]["uri"] == URI
    listed = call(host, "resources/list", {})["result"]["resources"]
    assert [each["uri"] for each in listed] == [URI, "file:///plain.html"]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "none"}, -32602),
        ("tools/call", {}, -32602),
        ("tools/call", [1], -32602),
        ("tools/call", {"name": 5}, -32602),
        ("resources/read", {"uri": "ui://none"}, -32602),
        ("logging/setLevel", {"level": "debug"}, -32601),
        (None, {}, -32601),
    ],
)
def test_a_call_that_cannot_be_forwarded_has_a_code(
    method: Any, params: Any, code: int, host: Host
) -> None:
    assert call(host, method, params)["error"]["code"] == code


@pytest.mark.parametrize("body", ["", "{", "[]", "5", '{"method": "tools/call"}', "\ud800"])
def test_a_body_that_is_not_a_call_is_an_error(body: str, host: Host) -> None:
    data = body.encode("utf-8", "surrogatepass")
    status, text, _ = ask(host, "POST", f"/{host.secret}/call", data)
    assert (status, json.loads(text)["error"]["code"]) == (200, -32602)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("call", {"Origin": ""}, 403),
        ("call", {"Origin": "null"}, 403),
        ("call", {"Origin": "https://example.com"}, 403),
        ("call", {"Host": "example.com"}, 403),
        ("other", {}, 403),
        ("call", {"Content_Length": str(MAX_BODY_BYTES + 1)}, 413),
        ("call", {"Content_Length": "-1"}, 413),
    ],
)
def test_only_the_host_page_may_call(
    path: str, headers: Dict[str, str], status: int, host: Host
) -> None:
    body = json.dumps({"method": "resources/list", "params": {}})
    assert ask(host, "POST", f"/{host.secret}/{path}", body, **headers)[0] == status


def test_without_the_secret_nothing_is_served(host: Host) -> None:
    for path in ("/", "/call", f"/{host.frame_secret}/", f"/{host.frame_secret}/call"):
        assert ask(host, "GET", path)[0] == 404
    assert ask(host, "GET", f"/{host.secret}/", Host="example.com")[0] == 403
    assert ask(host, "POST", f"/{host.frame_secret}/call", "{}")[0] == 403


@pytest.mark.parametrize(
    "origin", ["*", "'unsafe-eval'", "https://a.example; script-src *", "https://a b", 5, None, ""]
)
def test_an_origin_that_is_not_one_is_dropped(origin: Any) -> None:
    found = policy({"connectDomains": [origin, "https://b.example"], "resourceDomains": origin})
    assert "connect-src https://b.example; " in found
    assert "script-src 'unsafe-inline' ; " in found and "unsafe-eval" not in found


def test_the_command_prints_an_address_and_ends_with_ctrl_c() -> None:
    target = quoted(*command_line("run", str(CHAPTER)))
    command = command_line("apps", "--no-browser", target)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=str(ROOT)
    ) as process:
        watch = threading.Timer(WAIT, process.kill)
        watch.start()
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\S+/) \(Ctrl-C ends\)\n", line)
        assert found, line
        connection = HTTPConnection("127.0.0.1", int(found[1]), timeout=WAIT)
        connection.request("GET", found[2])
        assert b"Apps of a server" in connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT) == 0
        watch.cancel()


def test_a_server_without_pages_is_named(shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("apps", "--no-browser", shop)
    assert (done.code, done.out) == (2, "")
    assert "no tool of this server has a page" in done.err and "order, fail, slow" in done.err


def test_a_port_in_use_is_an_error(host: Host) -> None:
    target = quoted(*command_line("run", str(Path(CHAPTER))))
    done = run_process("apps", "--no-browser", "--port", str(host.server_port), target)
    assert done.code == 3 and "in use" in done.err and "Traceback" not in done.err
