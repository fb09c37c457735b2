"""A client of the official Python SDK 2.x signs in to a protected server, calls a tool, and steps
up for another.

Usage: python_auth_client.py URL. Prints one JSON object: for each check, true or what went wrong.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata


class Kept:
    """The SDK's token storage, and the page where the person agrees."""

    tokens: Any = None
    client: Any = None
    came = ""

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as browser:
            self.came = (await browser.get(url, follow_redirects=False)).headers["Location"]

    async def come(self) -> AuthorizationCodeResult:
        found = {name: values[0] for name, values in parse_qs(urlsplit(self.came).query).items()}
        return AuthorizationCodeResult(
            code=found["code"], state=found["state"], iss=found.get("iss")
        )


async def main(url: str) -> None:
    kept, told = Kept(), {}
    metadata = OAuthClientMetadata(
        redirect_uris=["http://127.0.0.1:1/callback"], token_endpoint_auth_method="none"
    )
    provider = OAuthClientProvider(url, metadata, kept, kept.open, kept.come)
    async with httpx2.AsyncClient(auth=provider) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            said = await client.call_tool("whoami", {})
            told["signs in"] = said.content[0].text == "ada" or str(said)
            first = kept.tokens.access_token
            said = await client.call_tool("write", {})
            told["steps up"] = said.content[0].text == "written" or str(said)
            told["by a token with more scopes"] = (
                kept.tokens.access_token != first or "the token is the same"
            )
    print(json.dumps(told))


anyio.run(main, sys.argv[1])
