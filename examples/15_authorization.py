"""Over HTTP a server can want a token with each request: it tells who asks, and what they may do.

You will see a client without a token refused, two scripts with one, and a tool that is for one of
them alone.

`Bearer` looks at the token before anything else is done. `Bearer.static` is its simplest form: a
fixed token for each script, which its author is told, and which comes from the environment in
earnest. Where people sign in, an authorization server issues the tokens, and the server only
verifies them:
`Bearer.jwt("https://login.example.com", resource="https://example.com/mcp")`. Its refusal says
where to sign in. Then `minimcp login https://example.com/mcp` opens the browser, or prints the page
with `--no-browser`; it keeps the token, which `connect` and all commands use from then on, and
refresh; `minimcp whoami` shows whose it is, `minimcp logout` forgets it. A program does the same by
`connect(url, auth=minimcp.SignIn())`, and one without a person by
`auth=minimcp.ClientCredentials(id, secret, issuer="https://login.example.com")`.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import secrets

import minimcp
from minimcp import Bearer, Context

ADA, BEN = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
server = minimcp.Server("library", auth=Bearer.static({
    ADA: {"sub": "ada", "scope": "read write"},
    BEN: {"sub": "ben", "scope": "read"},
}))  # fmt: skip
lent: dict[str, str] = {"Emma": "ben", "Persuasion": "ada"}


def who(ctx: Context) -> str:
    """Whom the token speaks for. Over stdio and in memory there is none: whoever starts a server
    may use it."""
    return "nobody" if ctx.auth is None else str(ctx.auth.subject)


@server.tool
def find(title: str, ctx: Context) -> str:
    """Say who has a book."""
    return f"{who(ctx)}: {title} is with {lent.get(title, 'nobody')}"


@server.tool(scopes=["write"])
def borrow(title: str, ctx: Context) -> str:
    """Borrow a book: for tokens with the scope "write"."""
    lent[title] = who(ctx)
    return f"{title} is with {who(ctx)} now"


def refusal(error: minimcp.AuthorizationError) -> str:
    """What the server answered, out of a message that says also what to do."""
    return str(error).partition("WWW-Authenticate: ")[2].partition(")")[0]


def main() -> None:
    with server.start_http() as running:
        for guess in (None, "a-guess"):
            try:
                minimcp.connect(running.url, auth=guess)
            except minimcp.AuthorizationError as error:
                print("refused:", refusal(error))
        for token in (ADA, BEN):
            with minimcp.connect(running.url, auth=token) as client:
                print(client.call_tool("find", {"title": "Emma"}).text)
                try:
                    print(client.call_tool("borrow", {"title": "Sanditon"}).text)
                except minimcp.AuthorizationError as error:
                    print("refused:", refusal(error))
    server.close()


if __name__ == "__main__":
    main()

# Exercise: add a tool `mine(ctx: Context) -> list[str]` that returns the titles which the one who
# asks has borrowed. Check it with  python3 examples/check.py 15
