"""How a person gets to a page and the answer gets back: `open_browser`, `LoopbackListener`,
`paste`.

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

# The port that a browser leaves out of the header Host.
USUAL_PORT = 80

# How long a browser may take to start before the program goes on and waits for the person.
OPEN_SECONDS = 2.0

# Seconds of a connection from its first moment to its last, however often it sends a byte.
CONNECTION_SECONDS = 5.0

# Connections at once: a browser opens some that it may need. One more closes the oldest one, so
# that other programs of this machine cannot keep the browser away.
MOST_CONNECTIONS = 32

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""
DONE = PAGE.format(
    title="Back to the program", text="The program has the answer: this page may be closed."
)
WRONG = PAGE.format(
    title="Nothing here", text="No program waits for this page: begin the sign-in anew."
)

HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'",
    "Connection": "close",
}


def safe_to_open(url: str) -> str:
    """A URL that may be given to a browser, written anew. Raises ValueError: it may not."""
    parts, found = parse_web_url(url), urlsplit(url)
    if parts.scheme != "https" and not parts.is_local:
        raise ValueError("a browser is sent to https only")
    host = f"[{parts.host}]" if ":" in parts.host else parts.host
    path, query = (quote(each, safe="/%:@&+,=~-._?") for each in (found.path, found.query))
    port = f":{parts.port}" if found.port is not None else ""
    return f"{parts.scheme}://{host}{port}{path}" + (f"?{query}" if query else "")


def open_browser(url: str) -> None:
    """Print the address of a page to stderr, and open it in the person's browser.

    The address is printed because nobody may see the browser: over SSH, in a container, in WSL.
    A browser that runs in the foreground is left running after `OPEN_SECONDS`.

    Raises:
        ValueError: The URL is not https (or http on this machine).
        AuthorizationError: There is no browser.
    """
    import webbrowser

    page = safe_to_open(url)
    if sys.stderr is not None:
        told = "Sign in with your browser. If it does not open, open this page yourself:"
        sys.stderr.write(f"{told}\n\n{printable(page)}\n\n")
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
    why = "there is no browser here"
    if opened.exception() is not None:
        why = f"the browser cannot be opened: {describe(opened.exception() or Exception())}"
    elif opened.result():
        return
    raise AuthorizationError(f"{why}: use --no-browser, or SignIn(no_browser=True)")


def paste(url: str) -> str:
    """Have a person open a page somewhere else, and paste where their browser was sent to in the
    end; that URL.

    Args:
        url: Of the page. It is written to stderr, and the answer read from stdin.

    Raises:
        ValueError: The URL is none with https (or http on this machine).
        AuthorizationError: Nothing was pasted.
    """
    sys.stderr.write(
        f"Open this page in a browser, and sign in:\n\n{printable(safe_to_open(url))}\n\n"
    )
    sys.stderr.write(
        "The browser is sent to a page that it cannot show. Paste the address of that page here: "
    )
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if not answer:
        raise AuthorizationError("nothing was pasted")
    return answer if "?" in answer else f"?{answer}"


class LoopbackListener(ThreadingMixIn, TCPServer):
    """Listens on this machine for the browser that comes back from a sign-in.

    Args:
        redirect_uri: Where; None takes a free port.

    Attributes:
        redirect_uri: Where the browser has to be sent.

    Raises:
        ValueError: The URI is none with http on this machine.
        OSError: Another program has the port.
    """

    daemon_threads, block_on_close = True, False
    allow_reuse_address = os.name != "nt"  # there, two programs could have one port

    def __init__(self, redirect_uri: Optional[str] = None) -> None:
        uri = redirect_uri or "http://127.0.0.1/callback"
        parts, found = parse_web_url(uri), urlsplit(uri)
        if parts.scheme != "http" or not parts.is_local:
            raise ValueError(
                "a redirect URI that is listened on is http on this machine: for others give "
                "on_callback"
            )
        if ":" in parts.host:
            self.address_family = socket.AF_INET6
        host = "127.0.0.1" if parts.host == "localhost" else parts.host
        super().__init__((host, 0 if redirect_uri is None else parts.port), _Handler)
        port = self.server_address[1]
        self.redirect_uri = redirect_uri or f"http://127.0.0.1:{port}/callback"
        name = f"[{parts.host}]" if ":" in parts.host else parts.host
        # What a browser has in the header Host: the usual port is left out.
        self.hosts = {f"{name}:{port}", name} if port == USUAL_PORT else {f"{name}:{port}"}
        self.path = as_a_browser_requests(found.path)
        self._found: queue.Queue[str] = queue.Queue()
        self._lock = threading.Lock()
        # The sockets of the open connections, the oldest first, and what stops the timer of each.
        self._open: dict[socket.socket, Callable[[], None]] = {}
        self.state = ""

    def wait(self, state: str, timeout: float) -> Optional[str]:
        """Wait for the browser; the URL that it was sent to, or None when it has not come.

        Args:
            state: That the URL has to carry; others are ignored.
            timeout: In seconds.
        """
        self.state = state
        ends = time.monotonic() + timeout
        while True:
            self.timeout = max(0.0, min(0.05, ends - time.monotonic()))
            self.handle_request()
            try:
                return self._found.get_nowait()
            except queue.Empty:
                if time.monotonic() >= ends:
                    return None

    def is_awaited(self, target: str) -> bool:
        """Whether a request's target is the one that is waited for."""
        parts = urlsplit(target)
        given = parse_qs(parts.query, max_num_fields=100).get("state", [""])[0]
        is_it = bool(self.state) and hmac.compare_digest(given.encode(), self.state.encode())
        return is_it and as_a_browser_requests(parts.path) == self.path

    def put(self, target: str) -> None:
        """Hand the request's target to the thread that waits."""
        self._found.put(f"{self.redirect_uri.partition('?')[0]}?{urlsplit(target).query}")

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own; if there are too many, end the oldest one."""
        with self._lock:
            oldest = next(iter(self._open)) if len(self._open) >= MOST_CONNECTIONS else None
            if oldest is not None:
                self._open.pop(oldest)()
                _cut(oldest)
            self._open[request] = timer.after(CONNECTION_SECONDS, lambda: self._expire(request))
        super().process_request(request, client_address)

    def _expire(self, request: socket.socket) -> None:
        with self._lock:
            if request in self._open:
                _cut(request)

    def shutdown_request(self, request: Any) -> None:
        """As in the standard library."""
        with self._lock:  # the timer does not end another connection that gets this descriptor
            stop = self._open.pop(request, None)
        if stop is not None:
            stop()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is no news."""


def _cut(request: socket.socket) -> None:
    """Wake the thread that reads from a connection, or writes to it; it closes the socket."""
    with suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


def as_a_browser_requests(path: str) -> str:
    """Return a path as a browser requests it, with a slash and without dot segments, and decoded.

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
    server_version, sys_version = "minimcp", ""

    def do_GET(self) -> None:
        try:
            host = self.headers.get("Host", "").lower()
            is_it = host in self.server.hosts and self.server.is_awaited(self.path)
        except ValueError:
            is_it = False
        page = (DONE if is_it else WRONG).encode()
        self.send_response(200 if is_it else 404)
        for name, value in {**HEADERS, "Content-Length": str(len(page))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page)
        if is_it:
            self.server.put(self.path)

    def log_message(self, format: str, *args: Any) -> None:
        """The address carries a code: it is not logged."""
