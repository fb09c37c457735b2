"""A receiver of webhooks with TLS on this machine, which does what a test says."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, Callable, Dict, List, Tuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

PEM = str(Path(__file__).resolve().parent.parent / "transports" / "localhost.pem")

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Clients of these tests close connections as they like."""


class _Handler(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class Received:
    """One request."""

    def __init__(self, environ: Dict[str, Any]) -> None:
        self.path = environ["PATH_INFO"]
        self.method = environ["REQUEST_METHOD"]
        self.headers = {
            name[5:].replace("_", "-").lower(): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        self.headers["content-type"] = environ.get("CONTENT_TYPE", "")
        self.raw = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        self.body = json.loads(self.raw)

    @property
    def kind(self) -> str:
        """The type of an envelope, or the id of an event."""
        return str(self.body.get("type") or self.body["eventId"])


Answer = Callable[[Received], Tuple[int, bytes]]


def echo(received: Received) -> Tuple[int, bytes]:
    """Consent to a challenge, and acknowledge everything else."""
    if received.body.get("type") == "verification":
        return 200, json.dumps({"challenge": received.body["challenge"]}).encode()
    return 204, b""


class Receiver:
    """A server at `url`. Requests are in `received`; `answer` decides about each.

    Args:
        app: A WSGI app that serves instead; None for `answer`.
    """

    def __init__(self, app: Any = None) -> None:
        self.received: List[Received] = []
        self.answer: Answer = echo
        self.headers: List[Tuple[str, str]] = []
        self._server = make_server(
            "127.0.0.1", 0, app or self._app, server_class=_Server, handler_class=_Handler
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(PEM)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://localhost:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def _app(self, environ: Dict[str, Any], start_response: Any) -> List[bytes]:
        received = Received(environ)
        self.received.append(received)
        status, body = self.answer(received)
        headers = [("Content-Length", str(len(body))), *self.headers]
        start_response(f"{status} x", headers)
        return [body]

    def kinds(self) -> List[str]:
        return [each.kind for each in list(self.received)]

    def named(self, kind: str) -> List[Received]:
        return [each for each in list(self.received) if each.kind == kind]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
