"""A loop over the package ``requests``: what a client over HTTP costs that only posts and decodes.

Argument: the URL of the server.
"""

from __future__ import annotations

import itertools
import sys

import requests
from client_loop import obey
from limit_client import INITIALIZE, INITIALIZED, encode, request

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2025-06-18",
}

if __name__ == "__main__":
    session = requests.Session()
    session.headers.update(HEADERS)
    ids = itertools.count(1)

    def post(message: object) -> requests.Response:
        return session.post(sys.argv[1], data=encode(message))

    def call(text: str) -> str:
        reply = post(request(next(ids), text)).json()
        return str(reply["result"]["content"][0]["text"])

    post(INITIALIZE)
    post(INITIALIZED)
    obey(call, call)
