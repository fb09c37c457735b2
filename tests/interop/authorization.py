"""`python -m tests.interop.authorization`: the way of a token, with third-party software.

Clients of the official SDKs sign in to our protected server, and our client to protected servers of
theirs, at `tests.authorization_server`, to ours by a click in Chromium, and to ours at
oidc-provider, of npm, whose tokens it verifies by their signature and by introspection. Prints a
line for each; exit code 1 when one cannot be installed, or a check failed.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import tempfile
import webbrowser
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional
from urllib.parse import urljoin

import minimcp
from minimcp import Bearer, Context, Server

from ..authorization_server import AuthorizationServer, Browser, protected
from ..hosts.running import free_port, running
from .browser import Chromium
from .environments import InstallFailed, NodeEnvironment
from .roster import PEERS, R4, R5

SECONDS = 60.0
SCRIPTS = {
    "python-sdk-2": "python_auth_client.py",
    "typescript-sdk-1": "typescript_auth_client.mjs",
    "typescript-sdk-2": "typescript_auth_client.mjs",
}
ENVIRONMENT = NodeEnvironment("oidc-provider", ["oidc-provider@9.13.3"])
ROBOT = ("robot", "a secret of the robot")
FOLDER = Path(__file__).parent / "peers"

SERVERS = {
    "python-sdk-1": "python_auth_server.py",
    "python-sdk-2": "python_auth_server.py",
    "typescript-sdk-1": "typescript_auth_server.mjs",
    "typescript-sdk-2": "typescript_auth_server.mjs",
}
ERAS = {"python-sdk-2": (R4, R5), "typescript-sdk-2": (R4, R5)}
STEPS_UP = {"typescript-sdk-2"}  # the others know no scopes of a single tool
NAMES_A_SLASH = {"python-sdk-1"}  # it writes one behind an issuer that has no path

Checks = Mapping[str, Any]


def foreign_client(name: str) -> Checks:
    """Have a client sign in; its checks, each true or what went wrong."""
    environment = next(peer.environment for peer in PEERS if peer.name == name)
    environment.ready()
    with AuthorizationServer() as issuer, protected(issuer, scopes=("read",)) as running:
        issuer.more["response_types_supported"] = ["code"]
        command = [*environment.command(str(FOLDER / SCRIPTS[name])), running.url]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        return {"ends": f"exit code {done.returncode}: {done.stderr[-2000:]}"}
    found: Checks = json.loads(done.stdout)
    return found


def foreign_server(name: str, revision: str) -> Checks:
    """Have our client sign in at a protected server; its checks."""
    environment = next(peer.environment for peer in PEERS if peer.name == name)
    environment.ready()
    port, checks = free_port(), {}  # type: int, Dict[str, Any]
    url = f"http://127.0.0.1:{port}/mcp"
    with tempfile.TemporaryDirectory() as folder, AuthorizationServer() as issuer:
        os.environ["MINIMCP_TOKENS"] = str(
            Path(folder) / "tokens.json"
        )  # not those of the user who runs this
        if name in NAMES_A_SLASH:
            issuer.more["issuer"] = f"{issuer.url}/"
        command = environment.command(str(FOLDER / SERVERS[name]))
        command += [issuer.metadata["issuer"], f"{issuer.url}/introspect"]
        with running(command, port, {"PORT": str(port)}, Path(folder) / "log"):
            another = issuer.issue("robot", "ada", "read", "http://127.0.0.1:1/mcp")["access_token"]
            for what, token in (
                ("no token", None),
                ("a wrong token", "a-guess"),
                ("another's token", another),
            ):
                checks[f"{what} is refused"] = _refused(url, token, revision)
            _sign_in(url, revision, issuer, checks, steps_up=name in STEPS_UP)
    return checks


def _refused(url: str, token: Optional[str], revision: str) -> Any:
    try:
        with minimcp.connect(url, auth=token, revision=revision) as client:
            return f"connected: {client.call_tool('whoami').text}"
    except minimcp.AuthorizationError:
        return True


def _sign_in(
    url: str, revision: str, issuer: AuthorizationServer, checks: Dict[str, Any], *, steps_up: bool
) -> None:
    browser = Browser()
    auth = minimcp.SignIn(
        store=minimcp.TokenMemory(),
        redirect_uri="http://127.0.0.1:1/",
        on_redirect=browser.open,
        on_callback=browser.come,
    )

    def call(check: str, tool: str, expected: str) -> None:
        said = client.call_tool(tool).text
        checks[check] = said == expected or said

    with minimcp.connect(url, auth=auth, revision=revision) as client:
        checks["the revision"] = client.revision == revision or client.revision
        call("signs in", "whoami", "ada")
        issuer.tokens.clear()
        call("refreshes", "whoami", "ada")
        checks["without the person"] = len(browser.opened) == 1 or f"{len(browser.opened)} pages"
        if steps_up:
            call("steps up", "write", "written")
            checks["with the person"] = len(browser.opened) == 2 or f"{len(browser.opened)} pages"


def real_browser() -> Checks:
    """A person signs in with a browser: the page of the authorization server, a click, the page of
    the loopback."""
    with (
        AuthorizationServer(asks=True) as issuer,
        protected(issuer) as served,
        Chromium() as browser,
    ):
        webbrowser.register("chromium-of-the-test", None, browser, preferred=True)
        with minimcp.connect(
            served.url, auth=minimcp.SignIn(store=minimcp.TokenMemory(), timeout=SECONDS)
        ) as client:
            said = client.call_tool("whoami").text
        browser.join()
        (page, agreed) = (asked for asked in issuer.asked if asked.path == "/authorize")
        agent = str(page.headers["User-Agent"])
        redirect_uri = agreed.values["redirect_uri"]
        return {
            "the tool is called": said == "ada" or said,
            "by a browser": "HeadlessChrome" in agent or agent,
            "it ends at the loopback": browser.address.startswith(f"{redirect_uri}?")
            or browser.address,
            "which says so": "You can close this page" in browser.text or browser.text,
        }


# ------------------------------------------------------------ an authorization server


class Person:
    """Signs in and agrees, on the pages that the provider shows."""

    came = ""

    def open(self, page: str) -> None:
        import requests  # `python -m tests.interop --install` runs without it

        session = requests.Session()
        response = session.get(page, allow_redirects=False, timeout=SECONDS)
        for _ in range(20):
            target = response.headers.get("Location")
            if target is not None and target.startswith("http://127.0.0.1:1/"):
                self.came = target
                return
            if target is not None:
                response = session.get(
                    urljoin(response.url, target), allow_redirects=False, timeout=SECONDS
                )
                continue
            form = re.search(r'<form[^>]*action="([^"]+)"', response.text)
            assert form is not None, response.text
            fields = dict(re.findall(r'<input[^>]*name="(\w+)" value="([^"]*)"', response.text))
            if 'name="login"' in response.text:
                fields.update(login="ada", password="x")
            to = urljoin(response.url, html.unescape(form[1]))
            response = session.post(to, data=fields, allow_redirects=False, timeout=SECONDS)
        raise AssertionError(f"no end of pages: {response.url}")

    def come(self, state: str, timeout: float) -> str:
        return self.came


def real_issuer(format: str) -> Checks:
    """Our client and our server, with tokens of this format."""
    ENVIRONMENT.ready()
    issuer, port = f"http://127.0.0.1:{free_port()}", free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    bearer = Bearer.jwt(issuer, resource=url, scopes=["read"])
    if format == "opaque":
        endpoint = f"{issuer}/token/introspection"
        bearer = Bearer.introspection(
            endpoint, *ROBOT, resource=url, authorization_servers=[issuer], scopes=["read"]
        )
    server = Server("protected", auth=bearer)

    @server.tool
    def whoami(ctx: Context) -> List[str]:
        """Return the subject of the token, and its scopes."""
        assert ctx.auth is not None
        return [str(ctx.auth.subject or ctx.auth.client_id), *sorted(ctx.auth.scopes)]

    @server.tool(scopes=["write"])
    def write() -> str:
        """Needs more."""
        return "written"

    checks: Dict[str, Any] = {}

    def use(name: str, auth: Any, subject: str) -> None:
        with minimcp.connect(url, auth=auth) as client:
            said = client.call_tool("whoami").value
            checks[f"{name} signs in"] = said == [subject, "read"] or str(said)
            said = client.call_tool("write").text
            checks[f"{name} steps up"] = said == "written" or said

    command = [
        *ENVIRONMENT.command(str(FOLDER / "oidc_provider.mjs")),
        issuer.rpartition(":")[2],
        url,
        format,
    ]
    provider = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert provider.stdout is not None
        assert "listens" in provider.stdout.readline()
        with server.start_http(port=port):
            use("a program", minimcp.ClientCredentials(*ROBOT, issuer=issuer), "robot")
            if (
                format == "jwt"
            ):  # a token may be introspected only by the client that it was issued to
                person, store = Person(), minimcp.TokenMemory()
                use(
                    "a person",
                    minimcp.SignIn(
                        store=store,
                        redirect_uri="http://127.0.0.1:1/",
                        on_redirect=person.open,
                        on_callback=person.come,
                    ),
                    "ada",
                )
    finally:
        provider.kill()
        provider.communicate()
        server.close()
    return checks


def main() -> int:
    failed = 0
    runs: Dict[str, Callable[[], Checks]] = {
        f"{name} as client": partial(foreign_client, name) for name in SCRIPTS
    }
    for name in SERVERS:
        for revision in ERAS.get(name, (R4,)):
            runs[f"{name} as server, {revision}"] = partial(foreign_server, name, revision)
    runs["Chromium"] = real_browser
    runs["oidc-provider, signed tokens"] = partial(real_issuer, "jwt")
    runs["oidc-provider, introspection"] = partial(real_issuer, "opaque")
    for title, run in runs.items():
        try:
            checks = run()
        except (
            InstallFailed,
            subprocess.TimeoutExpired,
            ValueError,
            AssertionError,
            minimcp.McpError,
        ) as error:
            checks = {"runs": f"{type(error).__name__}: {error}"}
        wrong = {name: what for name, what in checks.items() if what is not True}
        failed += bool(wrong)
        print(f"{title}: {len(checks) - len(wrong)} of {len(checks)}", flush=True)
        for name, what in wrong.items():
            print(f"  {name}: {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
