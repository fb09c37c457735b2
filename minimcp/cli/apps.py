"""``minimcp apps``: a small host, in the browser, for the pages that a server's tools show.

An HTTP server on this machine serves two kinds of pages. The host page, apps.html, lists the tools,
shows the messages, and forwards calls to the MCP server. The pages of the MCP server are not
trusted: each is in a sandboxed frame without an origin, with a policy made of what it declares. The
address of the host page contains a secret, so that no other page can send calls.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

import json
import pkgutil
import secrets
import threading
from argparse import Namespace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Mapping, Optional
from urllib.parse import parse_qs, urlsplit

from .. import __version__ as VERSION
from ..client.client import Client
from ..errors import McpError, MethodNotFound
from ..extensions.apps import MIME_TYPE, ORIGIN
from . import UsageError, one_line, print_stderr

MAX_BODY_BYTES = 16 * 1024 * 1024

# Methods that a page may call, in addition to tools/call and resources/read.
FORWARDED = ("resources/list", "resources/templates/list", "prompts/list")

HOST_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'; frame-src 'self'"
)


def serve_apps(client: Client, options: Namespace) -> None:
    """Serve the host page until Ctrl-C.

    Args:
        client: The connection to the server.
        options: The parsed options ``port`` and ``no_browser``.

    Raises:
        UsageError: No tool of the server has a page.
        OSError: The port is in use.
    """
    tools = [tool.to_wire() for tool in client.list_tools()]
    if not any(_page_of(tool) for tool in tools):
        names = ", ".join(str(tool["name"]) for tool in tools) or "none"
        raise UsageError(
            "no tool of this server has a page (_meta.ui.resourceUri); "
            f"its tools are: {one_line(names)}"
        )
    with Host(client, tools, options.port) as host:
        print(f"{host.url} (Ctrl-C ends)", flush=True)
        if not options.no_browser:
            import webbrowser

            # On a thread, because a browser in the terminal runs until the user ends it.
            threading.Thread(target=webbrowser.open, args=(host.url,), daemon=True).start()
        try:
            host.serve_forever()
        except KeyboardInterrupt:
            print_stderr("")


def _page_of(tool: Mapping[str, Any]) -> Optional[str]:
    """Return the URI of the page that a tool shows, or None."""
    meta = tool.get("_meta")
    ui = meta.get("ui") if isinstance(meta, dict) else None
    uri = ui.get("resourceUri") if isinstance(ui, dict) else None
    return uri if isinstance(uri, str) else None


class Host(ThreadingHTTPServer):
    """The HTTP server of the host page; for a ``with`` block.

    Args:
        client: The connection to the MCP server.
        tools: The server's tools in wire form.
        port: The port on 127.0.0.1; 0 selects a free one.

    Attributes:
        url: The address of the host page.
    """

    daemon_threads = True

    def __init__(self, client: Client, tools: list[Any], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.client = client
        self.origin = f"http://127.0.0.1:{self.server_port}"
        # The page of an app can see the address of its frame, so that address contains a different
        # secret.
        self.secret = secrets.token_urlsafe(16)
        self.frame_secret = secrets.token_urlsafe(16)
        self.url = f"{self.origin}/{self.secret}/"
        info = client.server_info
        data = {
            "server": "a server" if info is None else info.name,
            "revision": client.revision,
            "version": VERSION,
            "frames": f"/{self.frame_secret}?uri=",
            "tools": tools,
        }
        page = (pkgutil.get_data(__package__, "apps.html") or b"").decode()
        # Without "<", no text of the server can end the script element.
        self.page = page.replace("{data}", json.dumps(data).replace("<", r"\u003c"))

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Call a method of the MCP server for a page and return the result in wire form.

        Raises:
            McpError: The call failed.
            KeyError: A parameter is missing.
        """
        if method == "tools/call":
            arguments = params.get("arguments") or {}
            result = self.client.call_tool(params["name"], arguments, raise_on_error=False)
            return result.to_wire()
        if method == "resources/read":
            return self.client.read_resource(params["uri"]).to_wire()
        if method in FORWARDED:
            return self.client.request(method, params)
        raise MethodNotFound(f"Method not found: {method}")

    def frame(self, uri: str) -> tuple[str, str]:
        """Return a page of the MCP server and the Content Security Policy for it.

        Raises:
            McpError: The page cannot be read.
            ValueError: The resource is not a page.
        """
        contents = self.client.read_resource(uri).contents
        content = next((each for each in contents if each.mime_type == MIME_TYPE), None)
        if content is None:
            raise ValueError(f"{uri} is not a resource of the type {MIME_TYPE}")
        text = getattr(content, "text", None)
        if text is None:
            text = (content.data or b"").decode("utf-8", "replace")
        ui = (content.meta or {}).get("ui")
        csp = ui.get("csp") if isinstance(ui, dict) else None
        return text, policy(csp if isinstance(csp, dict) else {})


def policy(csp: Mapping[str, Any]) -> str:
    """Return the Content Security Policy for a page that declares these origins.

    Args:
        csp: The member ``csp`` of the page's metadata. Invalid origins are dropped.
    """

    def origins(name: str) -> str:
        listed = csp.get(name)
        found = listed if isinstance(listed, list) else []
        return " ".join(each for each in found if isinstance(each, str) and ORIGIN.fullmatch(each))

    resources = origins("resourceDomains")
    return "; ".join(
        [
            "sandbox allow-scripts",
            "default-src 'none'",
            f"script-src 'unsafe-inline' {resources}",
            f"style-src 'unsafe-inline' {resources}",
            f"img-src data: {resources}",
            f"media-src data: {resources}",
            f"font-src data: {resources}",
            f"connect-src {origins('connectDomains') or repr('none')}",
            f"frame-src {origins('frameDomains') or repr('none')}",
            f"base-uri {origins('baseUriDomains') or repr('none')}",
        ]
    )


class _Handler(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        if not self._is_for_us():
            self._send(403, "this address is not served", "text/plain", HOST_POLICY)
        elif path.path == f"/{self.server.secret}/":
            self._send(200, self.server.page, "text/html", HOST_POLICY)
        elif path.path == f"/{self.server.frame_secret}":
            try:
                uri = parse_qs(path.query).get("uri", [""])[0]
                self._send(200, *_with_type(*self.server.frame(uri)))
            except (McpError, ValueError) as error:
                self._send(404, str(error), "text/plain", HOST_POLICY)
        else:
            self._send(404, "there is no such page", "text/plain", HOST_POLICY)

    def do_POST(self) -> None:
        """Forward a call: {"method": ..., "params": ...}. A page without an origin cannot do it."""
        is_ours = self._is_for_us() and self.headers.get("Origin") == self.server.origin
        length = self.headers.get("Content-Length", "")
        if not is_ours or self.path != f"/{self.server.secret}/call":
            self._send(403, "this address is not served", "text/plain", HOST_POLICY)
            return
        if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
            self._send(413, "the body is too long", "text/plain", HOST_POLICY)
            return
        try:
            asked = json.loads(self.rfile.read(int(length)))
            answer = {"result": self.server.call(str(asked["method"]), dict(asked["params"]))}
        except McpError as error:
            answer = {"error": {"code": getattr(error, "code", -32603), "message": str(error)}}
        except (ValueError, TypeError, LookupError) as error:
            answer = {"error": {"code": -32602, "message": f"{type(error).__name__}: {error}"}}
        self._send(200, json.dumps(answer), "application/json", HOST_POLICY)

    def _is_for_us(self) -> bool:
        """Return whether the request names this host. A page of another site could have a name
        that resolves to this machine."""
        return self.headers.get("Host") == urlsplit(self.server.origin).netloc

    def _send(self, status: int, text: str, content_type: str, content_policy: str) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", content_policy)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the host page shows the messages."""


def _with_type(text: str, content_policy: str) -> tuple[str, str, str]:
    return text, "text/html", content_policy
