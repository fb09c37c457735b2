"""The commands about who asks: ``login``, ``logout`` and ``whoami``; `connect` uses the token that they keep."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Sequence

from ..auth.signin import SignIn
from . import Parser, UsageError, complain, one_line
from .terminal import as_json

ENDINGS = "Exit codes: 0 done, 1 there is no token, 2 wrong usage, 3 no token could be had."

SECRET = "MINIMCP_CLIENT_SECRET"


def _run(
    about: str, arguments: Sequence[str], prog: str, act: Callable[[SignIn, str], Any],
    more: Sequence[tuple[str, dict[str, Any]]] = (),
) -> int:
    """Run a command about the token of one server, and print what it gives."""
    parser = Parser(prog, about, ENDINGS)
    parser.add_argument("url", metavar="URL", help="of the server, as it is given to connect and to other commands")
    for name, settings in more:
        parser.add_argument(name, **settings)
    parser.add_argument("--output", choices=("text", "json"), default="text", help="what to print (default: text)")
    options = parser.parse_args(arguments)
    given = {name: value for name, value in vars(options).items() if name not in ("url", "output")}
    if given.get("client_id"):
        given["client_secret"] = os.environ.get(SECRET)
    try:
        known = act(SignIn(**given), options.url)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if options.output == "json":
        print(as_json(known))
    elif known:
        print(known if isinstance(known, str) else _told(known))
    else:
        complain(prog, f"there is no token for {options.url}")
    return 0 if known else 1


def _told(known: dict[str, Any]) -> str:
    ends = known["expires_at"]
    until = "no end is known" if ends is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ends))
    lines = {
        "server": known["resource"], "token of": known["issuer"], "as client": known["client_id"],
        "scopes": " ".join(known["scopes"]) or "none named", "until": until,
        "refreshed": "by itself" if known["can_be_refreshed"] else "no: log in again then",
    }
    return "\n".join(f"{name + ':':<11}{one_line(value)}" for name, value in lines.items())


def login_command(arguments: Sequence[str], prog: str) -> int:
    """Sign in at a server."""
    about = "Sign in at a server with your browser, and keep the token: programs and commands use and refresh it."
    return _run(about, arguments, prog, SignIn.sign_in, (
        ("--no-browser", {"action": "store_true",
                          "help": "print the address of the page, and take by paste where the browser was sent to"}),
        ("--scope", {"action": "append", "default": [], "dest": "scopes", "metavar": "NAME",
                     "help": "ask for this too; may be given several times"}),
        ("--client-id", {"metavar": "ID", "help": "of a client that the server's operator has registered; its secret, "
                                                  f"if it has one, is read from the environment variable {SECRET}"}),
        ("--issuer", {"metavar": "URL", "help": "of the authorization server that this client is registered with"}),
        ("--redirect-uri", {"metavar": "URL", "help": "where the browser is sent to (default: a free port here)"}),
        ("--client-metadata-url", {"metavar": "URL", "help": "of a metadata document that describes the client"}),
        ("--timeout", {"type": float, "default": 300.0, "metavar": "SECONDS",
                       "help": "that you get to sign in (default: 300)"}),
    ))


def logout_command(arguments: Sequence[str], prog: str) -> int:
    """Forget a token."""
    about = "Forget the token of a server, and have it revoked where that can be."
    return _run(about, arguments, prog, lambda auth, url: auth.sign_out(url) and f"logged out of {one_line(url)}")


def whoami_command(arguments: Sequence[str], prog: str) -> int:
    """Show what is known of a token."""
    about = "Show which token is kept for a server: where it came from, until when, and for what. Never the token."
    return _run(about, arguments, prog, SignIn.whoami)
