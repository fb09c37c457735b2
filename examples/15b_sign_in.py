"""A person signs in from a terminal; the client stores the token, sends it, and refreshes it in
time.

You will see the page that a person opens, the address that the page leads back to, and a call with
the resulting token. When the server no longer accepts that token, the client refreshes it without
asking anyone.

A server names the issuer of its tokens, and only verifies them; `SignIn` does the rest. Here it gets
two functions, as on a machine without a browser: `on_redirect` shows the page, and `on_callback`
returns the address at which the person's browser ended. `SignIn(no_browser=True)` and `minimcp
login URL --no-browser` print the page and read that address from the terminal. `SignIn()` and
`minimcp login URL` open the browser, and the address arrives by itself.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import socket
from urllib.parse import parse_qs, urlsplit

import requests
from issuer import Issuer  # issuer.py in this folder; in production, a product

import minimcp
from minimcp import Bearer, Context, SignIn, TokenMemory

with socket.create_server(("127.0.0.1", 0)) as free:
    PORT = free.getsockname()[
        1
    ]  # a token is for a URL, so the URL is needed before the server runs

issuer = Issuer()
bearer = Bearer(
    issuer.tokens.get, resource=f"http://127.0.0.1:{PORT}/mcp", authorization_servers=[issuer.url]
)
server = minimcp.Server("library", auth=bearer)


@server.tool
def card(ctx: Context) -> str:
    """Name the owner of the card."""
    return f"the card of {ctx.auth.subject if ctx.auth else 'nobody'}"


def parts(url: str) -> str:
    """Return the path of a URL and the names of its parameters."""
    return f"{urlsplit(url).path} with {', '.join(parse_qs(urlsplit(url).query))}"


class Terminal:
    """A terminal, and the person who opens the page, agrees, and pastes the final address."""

    def show(self, page: str) -> None:
        print("open", parts(page))
        self.pasted = requests.get(page, allow_redirects=False, timeout=10).headers["Location"]

    def paste(self, state: str, timeout: float) -> str:
        print("pasted", parts(self.pasted))  # for a real person: input("Paste the address: ")
        return str(self.pasted)


def main() -> None:
    terminal = Terminal()
    auth = SignIn(
        client_id="terminal",
        on_redirect=terminal.show,
        on_callback=terminal.paste,
        store=TokenMemory(),
    )
    with server.start_http(port=PORT) as running, minimcp.connect(running.url, auth=auth) as client:
        print(client.call_tool("card").text)
        issuer.tokens.clear()  # as if they had expired
        print(client.call_tool("card").text)
    print("tokens by", ", ".join(issuer.grants))
    server.close()
    issuer.close()


if __name__ == "__main__":
    main()

# Exercise: write a function `until(auth: SignIn, url: str) -> float` that returns the time, in
# seconds since 1970, when the token for a server expires. `auth.whoami(url)` returns what `minimcp
# whoami URL` prints.
# Check it with  python3 examples/check.py 15b
