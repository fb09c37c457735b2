"""A server of the official Python SDK, 1.x or 2.x, that accepts the tokens of an authorization
server.

Usage: python_auth_server.py ISSUER INTROSPECTION: the issuer of the tokens, and its introspection
endpoint. It listens on the port in the variable PORT.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Optional
from urllib.parse import urlencode
from urllib.request import urlopen

import anyio.to_thread
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from python_tools import Server, way_and_port

ISSUER, INTROSPECTION = sys.argv[1:]
PORT = way_and_port()[1]


class Introspection:
    """Asks the authorization server about each token."""

    async def verify_token(self, token: str) -> Optional[AccessToken]:
        said: dict[str, Any] = await anyio.to_thread.run_sync(self._ask, token)
        if not said["active"]:
            return None
        return AccessToken(
            token=token,
            client_id=said["client_id"],
            scopes=said["scope"].split(),
            expires_at=int(said["exp"]),
            resource=said["aud"],
            subject=said["sub"],
        )

    def _ask(self, token: str) -> Any:
        with urlopen(INTROSPECTION, urlencode({"token": token}).encode(), timeout=20) as answer:
            return json.load(answer)


server = Server("interop", token_verifier=Introspection(), auth=AuthSettings(
    issuer_url=ISSUER, resource_server_url=f"http://127.0.0.1:{PORT}/mcp", required_scopes=["read"],
    validate_token_resource=True,
))  # fmt: skip


@server.tool()
def whoami() -> str:
    """Return the subject of the token."""
    token = get_access_token()
    return "nobody" if token is None else str(token.subject)


uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=PORT, log_level="warning")
