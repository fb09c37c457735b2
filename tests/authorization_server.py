"""An authorization server on this machine whose person agrees to everything, and a server that
accepts its tokens.

It records its requests. `faults` makes an endpoint misbehave: it maps a path to another answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from contextlib import closing, contextmanager
from html import escape
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from minimcp import Bearer, Context, Server

from .hosts.running import free_port

METADATA = "/.well-known/oauth-authorization-server"
Fault = Callable[[BaseHTTPRequestHandler], None]


class Asked(NamedTuple):
    """One request: its path, and the parameters of its query or body."""

    path: str
    values: Dict[str, Any]
    headers: Mapping[str, str]


class AuthorizationServer:
    """Issues tokens of random letters, and knows each of them.

    Args:
        lifetime: Seconds that a token is valid.
        asks: Whether the person gets a page with a button. Otherwise they have already agreed.
    """

    def __init__(self, lifetime: float = 3600.0, *, asks: bool = False) -> None:
        self.asks, self.lifetime, self.asked, self.faults = asks, lifetime, [], {}  # type: bool, float, List[Asked], Dict[str, Fault]
        self.tokens: Dict[str, Dict[str, Any]] = {}
        self.refresh: Dict[str, Dict[str, Any]] = {}
        self.codes: Dict[str, Dict[str, Any]] = {}
        self.clients: Dict[str, Optional[str]] = {"robot": "a robot's secret"}
        self.more: Dict[str, Any] = {}  # members of the metadata; None takes one away
        self._lock = threading.Lock()
        self.http = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self})
        )
        self.http.daemon_threads = False  # they are joined at the end
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self._thread = threading.Thread(target=self.http.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self._thread.join()
        self.http.server_close()

    def __enter__(self) -> "AuthorizationServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def count(self, path: str, **values: str) -> int:
        """How often it was asked at a path, with these values."""
        return sum(
            each.path == path and values.items() <= each.values.items() for each in self.asked
        )

    @property
    def metadata(self) -> Dict[str, Any]:
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "introspection_endpoint": f"{self.url}/introspect",
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": ["read", "write"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
            **self.more,
        }
        return {name: value for name, value in found.items() if value is not None}

    def verify(self, token: str) -> Optional[Dict[str, Any]]:
        """For `Bearer`."""
        return self.tokens.get(token)

    # ------------------------------------------------------------ its endpoints

    def register(self, asked: Dict[str, Any]) -> Tuple[int, Dict[str, Any]]:
        id, method = secrets.token_hex(8), asked["token_endpoint_auth_method"]
        self.clients[id] = None if method == "none" else secrets.token_hex(8)
        answer = {**asked, "client_id": id}
        if self.clients[id] is not None:
            answer["client_secret"] = self.clients[id]
        return 201, answer

    def authorize(self, asked: Dict[str, str]) -> str:
        code = secrets.token_hex(8)
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.metadata["issuer"]}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def token(
        self, asked: Dict[str, str], headers: Mapping[str, str]
    ) -> Tuple[int, Dict[str, Any]]:
        client = self._client(asked, headers)
        if client is None:
            return 401, {"error": "invalid_client"}
        with self._lock:
            grant = asked.get("grant_type")
            if grant == "authorization_code":
                begun = self.codes.pop(asked.get("code", ""), None)
                hashed = hashlib.sha256(asked["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(hashed).decode().rstrip("=")
                if (
                    begun is None
                    or begun["code_challenge"] != challenge
                    or begun["client_id"] != client
                ):
                    return 400, {"error": "invalid_grant"}
                if begun["redirect_uri"] != asked.get("redirect_uri") or begun[
                    "resource"
                ] != asked.get("resource"):
                    return 400, {
                        "error": "invalid_grant",
                        "error_description": "another redirect_uri or resource",
                    }
                return 200, self.issue(client, "ada", begun.get("scope", ""), asked["resource"])
            if grant == "refresh_token":
                claims = self.refresh.pop(asked.get("refresh_token", ""), None)
                if claims is None:
                    return 400, {"error": "invalid_grant"}
                return 200, self.issue(client, claims["sub"], claims["scope"], asked["resource"])
            if grant == "client_credentials":
                return 200, self.issue(
                    client, client, asked.get("scope", ""), asked["resource"], refreshes=False
                )
        return 400, {"error": "unsupported_grant_type"}

    def _client(self, asked: Dict[str, str], headers: Mapping[str, str]) -> Optional[str]:
        basic = headers.get("Authorization", "")
        id, secret = asked.get("client_id"), asked.get("client_secret")
        if basic.startswith("Basic "):
            id, secret = map(unquote, base64.b64decode(basic[6:]).decode().split(":"))
        return id if id in self.clients and self.clients[id] == secret else None

    def issue(
        self, client: str, subject: str, scope: str, resource: str, *, refreshes: bool = True
    ) -> Dict[str, Any]:
        """Return a token that is valid from now on, as the token endpoint would."""
        access, refresh = secrets.token_hex(16), secrets.token_hex(16)
        claims = {
            "sub": subject,
            "client_id": client,
            "scope": scope,
            "aud": resource,
            "iss": self.url,
            "exp": time.time() + self.lifetime,
        }
        self.tokens[access] = claims
        answer = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": int(self.lifetime),
            "scope": scope,
        }
        if refreshes:
            self.refresh[refresh] = claims
            answer["refresh_token"] = refresh
        return answer


class _Handler(BaseHTTPRequestHandler):
    owner: AuthorizationServer
    timeout = 20.0

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.serve(parts.path, dict(parse_qsl(parts.query)))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        is_json = self.headers.get("Content-Type") == "application/json"
        self.serve(self.path, json.loads(body) if is_json else dict(parse_qsl(body)))

    def serve(self, path: str, values: Dict[str, Any]) -> None:
        owner = self.owner
        owner.asked.append(Asked(path, values, self.headers))
        if path in owner.faults:
            owner.faults[path](self)
        elif path == METADATA:
            self.answer(200, owner.metadata)
        elif path == "/register":
            self.answer(*owner.register(values))
        elif path == "/authorize" and owner.asks and self.command == "GET":
            hidden = "".join(
                f'<input type="hidden" name="{name}" value="{escape(values[name])}">'
                for name in values
            )
            form = f'<form method="post" action="/authorize">{hidden}<button>Allow</button></form>'
            self.answer(
                200, f"<title>Sign in</title>{form}".encode(), **{"Content-Type": "text/html"}
            )
        elif path == "/authorize":
            self.answer(302, {}, Location=owner.authorize(values))
        elif path == "/token":
            self.answer(*owner.token(values, self.headers))
        elif path == "/introspect":
            claims = owner.verify(values.get("token", ""))
            self.answer(200, {"active": claims is not None, **(claims or {})})
        elif path == "/revoke":
            owner.refresh.pop(values.get("token", ""), None)
            self.answer(200, {})
        else:
            self.answer(404, {})

    def answer(self, status: int, body: Any, **headers: str) -> None:
        """A body of bytes, or JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class Browser:
    """A person at a page that opens it and is redirected at once. ``opened`` has the pages."""

    def __init__(self) -> None:
        self.opened: List[str] = []
        self._came = ""

    def open(self, url: str) -> None:
        self.opened.append(url)
        parts = urlsplit(url)
        with closing(HTTPConnection(parts.netloc, timeout=20)) as wire:
            wire.request("GET", f"{parts.path}?{parts.query}")
            location = wire.getresponse().headers["Location"]
        assert location is not None, url
        self._came = location

    def come(self, state: str, timeout: float) -> str:
        return self._came


@contextmanager
def protected(
    issuer: AuthorizationServer, *, scopes: Tuple[str, ...] = (), **options: Any
) -> Iterator[Any]:
    """A server that takes the tokens of an authorization server, while it runs: what
    `Server.start_http` gives."""
    port = free_port()

    def bearer_of(issuer: AuthorizationServer) -> Bearer:
        resource = f"http://127.0.0.1:{port}/mcp"
        return Bearer(
            issuer.verify, resource=resource, authorization_servers=[issuer.url], scopes=scopes
        )

    bearer = bearer_of(issuer)
    server = Server("protected", auth=bearer, **options)

    @server.tool
    def whoami(ctx: Context) -> str:
        """Return the subject of the token."""
        return "nobody" if ctx.auth is None else str(ctx.auth.subject)

    @server.tool(scopes=["write"])
    def write() -> str:
        """Needs more."""
        return "written"

    with server.start_http(port=port) as found:
        # takes the tokens of another authorization server from now on
        found.move_to = lambda other: vars(bearer).update(vars(bearer_of(other)))
        found.server = server
        yield found
    server.close()
