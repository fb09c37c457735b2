"""Over HTTP a server can require a token with each request: it identifies the caller and what they
may do.

You will see a client without a token rejected, two scripts with a token, and a tool that only one
of them may use.

`Bearer` checks the token before anything else. `Bearer.static` is its simplest form: a fixed token
for each script, which you give to its author, and which a real program reads from the environment.
If people sign in, an authorization server issues the tokens, and the server only verifies them:
`Bearer.jwt("https://login.example.com", resource="https://example.com/mcp")`. Its rejection says
where to sign in. Then `minimcp login https://example.com/mcp` opens the browser, or prints the page
with `--no-browser`. It stores the token, which `connect` and all commands use and refresh. `minimcp
whoami` shows its user, and `minimcp logout` deletes it. A program does the same with `connect(url,
auth=minimcp.SignIn())`, and a program without a person with `auth=minimcp.ClientCredentials(id,
secret, issuer="https://login.example.com")`.

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
    """Return the user of the token. Over stdio and in memory there is no token, because whoever
    starts a server may use it."""
    return "nobody" if ctx.auth is None else str(ctx.auth.subject)


@server.tool
def find(title: str, ctx: Context) -> str:
    """Find the person who has a book."""
    return f"{who(ctx)}: {title} is with {lent.get(title, 'nobody')}"


@server.tool(scopes=["write"])
def borrow(title: str, ctx: Context) -> str:
    """Borrow a book. Requires a token with the scope "write"."""
    lent[title] = who(ctx)
    return f"{title} is with {who(ctx)} now"


def refusal(error: minimcp.AuthorizationError) -> str:
    """Return what the server answered, from a message that also says what to do."""
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

# Exercise: add a tool `mine(ctx: Context) -> list[str]` that returns the titles that the caller has
# borrowed. Check it with  python3 examples/check.py 15
