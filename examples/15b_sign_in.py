"""A person signs in from a terminal; the client keeps the token, sends it, and gets another one in
time.

You will see which page a person is sent to, where that sends them back to, a call by the token that
this brings, and that nobody is asked when the server takes that token no more: the client refreshes
it.

A server says who issues tokens for it, and only verifies them; `SignIn` does the rest. Here it gets
two functions, as on a machine without a browser: `on_redirect` shows the page, and `on_callback`
returns the address where the person's browser ended. `SignIn(no_browser=True)` and `minimcp login
URL --no-browser` print the page and read that address from the terminal; `SignIn()` and `minimcp
login URL` open the browser, and it comes back by itself.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import socket
from urllib.parse import parse_qs, urlsplit

import requests
from issuer import Issuer  # beside this file; in earnest a product

import minimcp
from minimcp import Bearer, Context, SignIn, TokenMemory

with socket.create_server(("127.0.0.1", 0)) as free:
    PORT = free.getsockname()[1]  # a token is for a URL, which is known before the server runs

issuer = Issuer()
bearer = Bearer(
    issuer.tokens.get, resource=f"http://127.0.0.1:{PORT}/mcp", authorization_servers=[issuer.url]
)
server = minimcp.Server("library", auth=bearer)


@server.tool
def card(ctx: Context) -> str:
    """Say whose card this is."""
    return f"the card of {ctx.auth.subject if ctx.auth else 'nobody'}"


def parts(url: str) -> str:
    """The path of a URL, and what goes with it."""
    return f"{urlsplit(url).path} with {', '.join(parse_qs(urlsplit(url).query))}"


class Terminal:
    """Shows the page; and plays the person who opens it, agrees, and pastes the address where the
    browser ended."""

    def show(self, page: str) -> None:
        print("open", parts(page))
        self.pasted = requests.get(page, allow_redirects=False, timeout=10).headers["Location"]

    def paste(self, state: str, timeout: float) -> str:
        print(
            "pasted", parts(self.pasted)
        )  # without this person: return input("Paste the address: ")
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
        issuer.tokens.clear()  # as when their time is over
        print(client.call_tool("card").text)
    print("tokens by", ", ".join(issuer.grants))
    server.close()
    issuer.close()


if __name__ == "__main__":
    main()

# Exercise: write a function `until(auth: SignIn, url: str) -> float` that returns the time, in
# seconds since 1970, when the token for a server ends; `auth.whoami(url)` is what `minimcp whoami
# URL` prints.
# Check it with  python3 examples/check.py 15b
