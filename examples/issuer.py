"""A toy authorization server for chapter 15b, which agrees to everything.

In production this is a product of your organization: it knows people, asks them, and checks every
code and key.
"""

from __future__ import annotations

import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional
from urllib.parse import parse_qs, urlsplit


class Issuer:
    """A server that runs at `url` until `close`.

    `tokens` has the claims of each token, and `grants` the grant types that they were issued for.
    """

    def __init__(self) -> None:
        self.tokens: dict[str, dict[str, Any]] = {}
        self.grants: list[str] = []
        self._http = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"issuer": self})
        )
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    issuer: Issuer

    def do_GET(self) -> None:
        """Return the metadata; or redirect a person back to the client, with a code."""
        url, asked = self.issuer.url, parse_qs(urlsplit(self.path).query)
        if asked:
            self.answer(
                {},
                f"{asked['redirect_uri'][0]}?code={secrets.token_hex(8)}&state={asked['state'][0]}",
            )
        else:
            self.answer(
                {
                    "issuer": url,
                    "authorization_endpoint": f"{url}/authorize",
                    "token_endpoint": f"{url}/token",
                    "code_challenge_methods_supported": ["S256"],
                }
            )

    def do_POST(self) -> None:
        """Issue a token for a code or a refresh token."""
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        token = secrets.token_urlsafe(32)
        self.issuer.grants += form["grant_type"]
        self.issuer.tokens[token] = {"sub": "ada", "aud": form["resource"]}
        self.answer(
            {
                "access_token": token,
                "token_type": "Bearer",
                "expires_in": 3600,
                "refresh_token": secrets.token_urlsafe(32),
            }
        )

    def answer(self, body: dict[str, Any], location: Optional[str] = None) -> None:
        self.send_response(200 if location is None else 302)
        if location is not None:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log addresses, because they contain codes."""
