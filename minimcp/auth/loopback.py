"""Functions that open the sign-in page and receive the answer: `open_browser`, `paste` and
`LoopbackListener`.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import hmac
import os
import queue
import re
import socket
import sys
import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Callable, Optional
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ..engine.timer import timer
from ..errors import AuthorizationError
from ..protocol.urls import parse_web_url
from ..text import describe, printable

# Browsers leave this port out of the header Host.
DEFAULT_PORT = 80

# How long a browser may take to start. After that, the program waits for the person.
OPEN_SECONDS = 2.0

# Maximum duration of a connection, even if it is active.
CONNECTION_SECONDS = 5.0

# Maximum number of open connections; browsers open some in advance. A new connection closes the
# oldest one, so that other programs of this machine cannot lock the browser out.
MAX_CONNECTIONS = 32

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""
DONE = PAGE.format(title="Sign-in finished", text="Return to the program. You can close this page.")
WRONG = PAGE.format(
    title="Not found", text="No program is waiting for this page. Start the sign-in again."
)

HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'",
    "Connection": "close",
}


def safe_to_open(url: str) -> str:
    """Return a normalized URL that may be opened in a browser.

    Raises:
        ValueError: The URL is not https (or http on this machine).
    """
    parts, found = parse_web_url(url), urlsplit(url)
    if parts.scheme != "https" and not parts.is_local:
        raise ValueError("the sign-in page must be an https URL")
    host = f"[{parts.host}]" if ":" in parts.host else parts.host
    path, query = (quote(each, safe="/%:@&+,=~-._?") for each in (found.path, found.query))
    port = f":{parts.port}" if found.port is not None else ""
    return f"{parts.scheme}://{host}{port}{path}" + (f"?{query}" if query else "")


def open_browser(url: str) -> None:
    """Print the address of a page to stderr, and open it in the person's browser.

    The address is printed because the browser may open where the person does not see it: over SSH,
    in a container, in WSL. A browser that runs in the foreground is left running after
    `OPEN_SECONDS`.

    Raises:
        ValueError: The URL is not https (or http on this machine).
        AuthorizationError: There is no browser.
    """
    import webbrowser

    page = safe_to_open(url)
    if sys.stderr is not None:
        sys.stderr.write(
            "Sign in with your browser. If it does not open, open this page yourself:\n\n"
            f"{printable(page)}\n\n"
        )
        sys.stderr.flush()
    opened: Future[bool] = Future()

    def run() -> None:
        try:
            opened.set_result(bool(webbrowser.open(page)))
        except Exception as error:
            opened.set_exception(error)

    threading.Thread(target=run, name="minimcp-browser", daemon=True).start()
    if not wait([opened], OPEN_SECONDS).done:
        return
    reason = "no browser was found"
    if opened.exception() is not None:
        reason = f"the browser cannot be opened: {describe(opened.exception() or Exception())}"
    elif opened.result():
        return
    raise AuthorizationError(f"{reason}: use --no-browser, or SignIn(no_browser=True)")


def paste(url: str) -> str:
    """Print the address of a page, and return the URL that the person pastes after signing in.

    Args:
        url: The URL of the page. It is written to stderr; the answer is read from stdin.

    Raises:
        ValueError: The URL is not https (or http on this machine).
        AuthorizationError: Nothing was pasted.
    """
    sys.stderr.write(
        f"Open this page in a browser, and sign in:\n\n{printable(safe_to_open(url))}\n\n"
        "At the end, the browser shows an error. Paste the address of that page here: "
    )
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if not answer:
        raise AuthorizationError("nothing was pasted")
    return answer if "?" in answer else f"?{answer}"


class LoopbackListener(ThreadingMixIn, TCPServer):
    """A server on this machine that receives the browser's redirect after a sign-in.

    Args:
        redirect_uri: The URI to listen on; None means a free port.

    Attributes:
        redirect_uri: The URI to redirect the browser to.

    Raises:
        ValueError: The URI is not http on this machine.
        OSError: The port is in use.
    """

    daemon_threads = True
    block_on_close = False
    # With the 5 of `TCPServer`, the system drops connections while this thread is busy; a browser
    # tries again only after a second.
    request_queue_size = 128
    allow_reuse_address = os.name != "nt"  # on Windows, two programs could listen on one port

    def __init__(self, redirect_uri: Optional[str] = None) -> None:
        uri = redirect_uri or "http://127.0.0.1/callback"
        parts, found = parse_web_url(uri), urlsplit(uri)
        if parts.scheme != "http" or not parts.is_local:
            raise ValueError(
                "without on_callback=, a redirect URI must be an http URL on this machine: for "
                "other URIs, pass on_callback="
            )
        if ":" in parts.host:
            self.address_family = socket.AF_INET6
        host = "127.0.0.1" if parts.host == "localhost" else parts.host
        super().__init__((host, 0 if redirect_uri is None else parts.port), _Handler)
        port = self.server_address[1]
        self.redirect_uri = redirect_uri or f"http://127.0.0.1:{port}/callback"
        name = f"[{parts.host}]" if ":" in parts.host else parts.host
        # The accepted values of the header Host.
        self.hosts = {f"{name}:{port}"}
        if port == DEFAULT_PORT:
            self.hosts.add(name)
        self.path = as_a_browser_requests(found.path)
        self._found: queue.Queue[str] = queue.Queue()
        self._lock = threading.Lock()
        # The sockets of the open connections, oldest first, with functions that stop their timers.
        self._open: dict[socket.socket, Callable[[], None]] = {}
        self.state = ""

    def wait(self, state: str, timeout: float) -> Optional[str]:
        """Wait for the browser. Return the URL of its redirect, or None after the timeout.

        Args:
            state: The state that the URL must have; other URLs are ignored.
            timeout: Seconds to wait.
        """
        self.state = state
        deadline = time.monotonic() + timeout
        while True:
            self.timeout = max(0.0, min(0.05, deadline - time.monotonic()))
            self.handle_request()
            try:
                return self._found.get_nowait()
            except queue.Empty:
                if time.monotonic() >= deadline:
                    return None

    def is_awaited(self, target: str) -> bool:
        """Return whether a request's target has the path and the state that are awaited."""
        parts = urlsplit(target)
        state = parse_qs(parts.query, max_num_fields=100).get("state", [""])[0]
        if not self.state or not hmac.compare_digest(state.encode(), self.state.encode()):
            return False
        return as_a_browser_requests(parts.path) == self.path

    def put(self, target: str) -> None:
        """Hand a request's target to the waiting thread."""
        self._found.put(f"{self.redirect_uri.partition('?')[0]}?{urlsplit(target).query}")

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on its own thread. If there are too many, close the oldest one."""
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                oldest = next(iter(self._open))
                stop_timer = self._open.pop(oldest)
                stop_timer()
                _shut_down(oldest)
            self._open[request] = timer.after(CONNECTION_SECONDS, lambda: self._expire(request))
        super().process_request(request, client_address)

    def _expire(self, request: socket.socket) -> None:
        with self._lock:
            if request in self._open:
                _shut_down(request)

    def shutdown_request(self, request: Any) -> None:
        """Stop the timer of a connection and close it."""
        # With the lock, so that the timer cannot close a new connection with the same descriptor.
        with self._lock:
            stop_timer = self._open.pop(request, None)
        if stop_timer is not None:
            stop_timer()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a lost connection."""


def _shut_down(request: socket.socket) -> None:
    """Wake the thread that reads from a connection or writes to it; it closes the socket."""
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


def as_a_browser_requests(path: str) -> str:
    """Return a path as a browser requests it: decoded, with a slash and without dot segments.

    https://url.spec.whatwg.org/#path-state
    """
    segments: list[str] = []
    parts = (path or "/").split("/")[1:]
    for number, part in enumerate(parts):
        plain = re.sub("(?i)%2e", ".", part)
        if plain == "..":
            del segments[-1:]
        elif plain != ".":
            segments.append(part)
        if plain in (".", "..") and number == len(parts) - 1:
            segments.append("")
    return unquote("/" + "/".join(segments))


class _Handler(BaseHTTPRequestHandler):
    timeout = CONNECTION_SECONDS
    server: LoopbackListener
    server_version = "minimcp"
    sys_version = ""

    def do_GET(self) -> None:
        try:
            host = self.headers.get("Host", "").lower()
            is_awaited = host in self.server.hosts and self.server.is_awaited(self.path)
        except ValueError:
            is_awaited = False
        page = (DONE if is_awaited else WRONG).encode()
        self.send_response(200 if is_awaited else 404)
        for name, value in {**HEADERS, "Content-Length": str(len(page))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page)
        if is_awaited:
            self.server.put(self.path)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because the target of the request has a code."""
