"""Networks with their own certificates, proxies and tokens: options of the commands, members of
configurations, the trust store of the operating system, and the keyring."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Set

import pytest

import minimcp as package
from minimcp import AuthorizationError, Server, TokenKeyring
from minimcp.cli import COMMANDS as ALL_COMMANDS
from minimcp.cli.commands import TASK_COMMANDS
from minimcp.cli.events import COMMANDS as EVENT_COMMANDS
from minimcp.cli.gateway import Gateway
from minimcp.client.config import read_servers

from ..support import WAIT
from ..web import Heard, Peer, Wire
from .conftest import Done, run_process

PEM = str(Path(__file__).parent.parent / "transports" / "localhost.pem")


@pytest.fixture
def peer() -> Iterator[Peer]:
    """A server with a certificate that no store trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    with Peer(tls=context) as peer:
        yield peer


def test_a_command_checks_the_certificate_with_the_given_file(
    peer: Peer, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("ping", peer.url)
    assert done.code == 3 and "certificate verify failed" in done.err and "--cacert" in done.err
    for command in (["ping", peer.url], ["list", peer.url], ["tasks", "list", peer.url]):
        done = minimcp(*command, "--cacert", PEM)
        assert "certificate verify failed" not in done.err, done
    for command in (("card", peer.url), ("list", peer.url, "--card")):
        assert "certificate verify failed" in minimcp(*command).err
        done = minimcp(*command, "--cacert", PEM)
        assert "certificate verify failed" not in done.err, done
    domain = peer.url.partition("://")[2].partition("/")[0]
    done = minimcp("list", domain, "--card", "--cacert", PEM)  # http, because it is this machine
    assert done.err.count("unrecognized") == 0 and "/.well-known/ai-catalog.json" in done.err
    assert minimcp("ping", peer.url, "--cacert", PEM).code == 0
    assert minimcp("check", peer.url, "--cacert", PEM, "--only", "BASE-01").code in (0, 1)
    done = minimcp("ping", peer.url, "--cacert", "/no/such/ca.pem")
    assert done.code == 2 and "/no/such/ca.pem" in done.err
    done = minimcp("login", peer.url, "--cacert", PEM, "--no-browser", "--timeout", "5")
    assert "certificate verify failed" not in done.err, done


# For each command that takes a server with a URL: its arguments, where "URL" is the server's.
COMMANDS: Dict[str, List[str]] = {
    "list": ["URL"],
    "call": ["URL", "t"],
    "tasks list": ["URL"],
    "tasks get": ["URL", "1"],
    "tasks cancel": ["URL", "1"],
    "events list": ["URL"],
    "events poll": ["URL", "e"],
    "events follow": ["URL", "e"],
    "read": ["URL", "file:///a"],
    "prompt": ["URL", "p"],
    "ping": ["URL"],
    "login": ["URL", "--no-browser", "--timeout", "5"],
    "logout": ["URL"],
    "trace": ["URL"],
    "check": ["URL", "--only", "BASE-01"],
    "apps": ["URL", "--no-browser"],
    "install": ["URL", "--client", "cursor", "--dry-run"],
    "bridge": ["URL"],
    "card": ["URL"],
}

# `whoami` sends no request, and `doctor` reads the options from the config file.
WITHOUT_REQUEST = {"whoami"}
# These commands send no token: it is not known yet, or is not needed.
WITHOUT_TOKEN = {"login", "logout", "card"}
# Without a stored token, `logout` sends no request.
SILENT = {"logout"}
# These serve a host, so each runs as a process with a message of a host.
SERVING = {"trace", "bridge"}
OPENING = json.dumps({
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
})  # fmt: skip


def commands_with_a_url(minimcp: Callable[..., Done]) -> Iterator[str]:
    """Yield the commands whose help has a server with a URL."""
    for name in ALL_COMMANDS:
        actions = {"tasks": TASK_COMMANDS, "events": EVENT_COMMANDS}.get(name, {"": None})
        for words in [[name, action] if action else [name] for action in actions]:
            shown = minimcp(*words, "--help").out
            positional = shown.partition("positional arguments:")[2]
            positional = re.split(r"\n(?:options|optional arguments):", positional)[0]
            if re.search(r"\b(TARGET|URL)\b", positional):
                yield " ".join(words)


def test_every_command_with_a_target_is_in_the_table(minimcp: Callable[..., Done]) -> None:
    """A new command with a TARGET must have the options for networks."""
    assert {*commands_with_a_url(minimcp)} == {*COMMANDS, *WITHOUT_REQUEST}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_a_target_has_the_options_for_networks(
    command: str,
    peer: Peer,
    tmp_path: Path,
    minimcp: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("MINIMCP_TOKEN", "secret-3")
    monkeypatch.setenv("MINIMCP_TOKENS", str(tmp_path / "tokens.json"))

    def expected(value: Any) -> Set[Any]:
        return set() if command in SILENT else {value}

    def run(url: str, *options: str) -> str:
        words = [*command.split(), *(url if each == "URL" else each for each in COMMANDS[command])]
        if command in SERVING:
            done = run_process(*words, *options, input=OPENING + "\n")
        else:
            done = minimcp(*words, *options)
        assert "unrecognized" not in done.err, done
        return done.out + done.err

    with Peer() as proxy:
        shown = run("https://mcp.invalid/mcp", "--proxy", proxy.url)
        assert {each.path for each in proxy.heard} == expected("mcp.invalid:443"), shown
    if command not in SILENT:
        assert "certificate verify failed" in run(peer.url)
    shown = run(peer.url, "--cacert", PEM)
    assert "certificate verify failed" not in shown
    sent = {each.headers.get("authorization") for each in peer.heard}
    assert sent == expected(None if command in WITHOUT_TOKEN else "Bearer secret-3"), shown


def proxied(heard: List[str]) -> Peer:
    """Return a proxy that answers every request itself, and notes their heads."""

    def note(request: Heard, wire: Wire) -> None:
        heard.append(request.headers.get("host", ""))
        wire.whole(404, b"no")

    return Peer({"server/discover": note, "initialize": note})


def test_a_command_uses_the_given_proxy(
    tmp_path: Path, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    heard: List[str] = []
    with proxied(heard) as proxy:
        done = minimcp("ping", "http://mcp.invalid/mcp", "--proxy", proxy.url)
        assert done.code == 3 and "404" in done.err, done
        config = {"far": {"url": "http://mcp.invalid/mcp", "proxy": proxy.url}}
        Path("mcp.json").write_text(json.dumps({"mcpServers": config}), "utf-8")
        done = minimcp("ping", "far", "--config", "mcp.json")
        assert done.code == 3 and "404" in done.err, done
    assert len(heard) >= 2 and set(heard) == {"mcp.invalid"}


def test_a_configuration_names_a_certificate_a_proxy_and_a_token(
    peer: Peer, tmp_path: Path, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text(Path(PEM).read_text("utf-8"), "utf-8")
    path = tmp_path / "mcp.json"
    entry: Dict[str, Any] = {"url": peer.url, "bearer_token_env_var": "MINIMCP_TOKEN"}

    def write(**more: Any) -> None:
        path.write_text(json.dumps({"mcpServers": {"it": {**entry, **more}}}), "utf-8")

    monkeypatch.setenv("MINIMCP_TOKEN", "secret-1")
    write(cacert="ca.pem")
    assert minimcp("ping", "it", "--config", str(path)).code == 0
    assert peer.heard[-1].headers["authorization"] == "Bearer secret-1"
    write()
    assert "certificate verify failed" in minimcp("ping", "it", "--config", str(path)).err
    write(cacert="none.pem")
    done = minimcp("ping", "it", "--config", str(path))
    assert done.code == 2 and str(tmp_path / "none.pem") in done.err, done
    write(proxy="not a url")
    assert "the proxy must be a URL" in minimcp("ping", "it", "--config", str(path)).err
    entry = {"command": "x"}
    for member in ("cacert", "proxy"):
        write(**{member: "x"})
        done = minimcp("ping", "it", "--config", str(path))
        assert done.code == 2 and f"{member}: applies to a server with a URL only" in done.err


def test_a_token_of_the_environment_is_sent_to_a_url_that_was_typed(
    peer: Peer, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIMCP_TOKEN", "secret-2")
    for command in (["list"], ["ping"], ["check", "--only", "BASE-01"]):
        before = len(peer.heard)
        done = minimcp(command[0], peer.url, *command[1:], "--cacert", PEM)
        assert done.code in (0, 1), done
        sent = [each.headers.get("authorization") for each in peer.heard[before:]]
        assert sent and set(sent) == {"Bearer secret-2"}, command


@pytest.mark.parametrize(
    ("option", "said"),
    [("--proxy", "the proxy must be a URL"), ("--cacert", "invalid path: not a url")],
)
def test_a_bridge_rejects_a_wrong_network_before_a_host_connects(
    option: str,
    said: str,
    tmp_path: Path,
    minimcp: Callable[..., Done],
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = "https://127.0.0.1:9/mcp"
    done = minimcp("bridge", url, option, "not a url")
    assert done.code == 2 and said in done.err and "Traceback" not in done.err, done
    config = {"mcpServers": {"far": {"url": url, option[2:]: "not a url"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(config), "utf-8")
    gateway = Gateway(Server("front"), read_servers(str(tmp_path / "mcp.json")))
    assert gateway.servers == {} and "far is left out: " in caplog.text
    gateway.end()


@pytest.mark.parametrize("option", ["--cacert", "--proxy"])
def test_a_bridge_to_a_command_has_no_network(option: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("bridge", "--http", "0", option, "x", "--", "x")
    assert done.code == 2 and "--cacert and --proxy are only for a URL" in done.err


# ------------------------------------------------------------ the operating system's certificates

needs_truststore = pytest.mark.skipif(
    sys.version_info < (3, 10), reason="truststore needs Python 3.10"
)


@needs_truststore
def test_the_certificates_of_the_system_count_with_truststore(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Linux, OpenSSL finds the system's certificates by the variable SSL_CERT_FILE."""
    monkeypatch.setenv("SSL_CERT_FILE", PEM)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with package.connect(peer.url, connect_timeout=WAIT) as client:
        client.ping()
    with package.connect(package.HttpServer(peer.url), connect_timeout=WAIT) as client:
        client.ping()
    with pytest.raises(package.ConnectionFailed, match="certificate verify failed"):
        package.connect(peer.url, verify=True, connect_timeout=WAIT)
    monkeypatch.setitem(sys.modules, "truststore", None)
    with pytest.raises(package.ConnectionFailed, match="install truststore"):
        package.connect(peer.url, connect_timeout=WAIT)


@needs_truststore
def test_other_settings_count_more_than_the_system(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", PEM)
    import requests

    monkeypatch.setenv("REQUESTS_CA_BUNDLE", requests.certs.where())
    with pytest.raises(package.ConnectionFailed, match="certificate verify failed"):
        package.connect(peer.url, connect_timeout=WAIT)


# ------------------------------------------------------------ the keyring

KEYRING = """
import json, pathlib, sys
import keyring
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

class Backend(KeyringBackend):
    priority = 9
    path = pathlib.Path(sys.argv[1])
    def _all(self):
        return json.loads(self.path.read_text()) if self.path.exists() else {}
    def get_password(self, service, username):
        if self.path.name == "locked":
            raise KeyringLocked("locked")
        return self._all().get(f"{service}/{username}")
    def set_password(self, service, username, password):
        self.path.write_text(json.dumps({**self._all(), f"{service}/{username}": password}))
    def delete_password(self, service, username):
        rest = self._all()
        del rest[f"{service}/{username}"]
        self.path.write_text(json.dumps(rest))

keyring.set_keyring(Backend())
"""

STORING = """
from minimcp import AuthorizationError, SignIn, TokenKeyring
store = TokenKeyring()
assert store.get("a") is None
store.put("a", {"access_token": "x" * 2000})
store.put("b", {"access_token": "y"})
assert store.get("a") == {"access_token": "x" * 2000}
store.put("a", None)
store.put("a", None)
assert store.get("a") is None
assert TokenKeyring("other").get("b") is None
with store.lock("b", 5):
    assert store.get("b") == {"access_token": "y"}
assert repr(store) == "TokenKeyring('minimcp')"
keyring.set_password("minimcp", "c", "no json")
try:
    store.get("c")
except AuthorizationError as error:
    assert "invalid token" in str(error)
else:
    raise SystemExit("a damaged token was returned")
SignIn(store=store)
"""


def run_with_keyring(code: str, path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process whose keyring is a file."""
    return subprocess.run(
        [sys.executable, "-c", KEYRING + code, str(path)],
        env={"PATH": "", "MINIMCP_TOKENS": str(path.parent / "tokens.json"), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=3 * WAIT,
        check=False,
        text=True,
    )


def test_tokens_are_kept_in_the_keyring(tmp_path: Path) -> None:
    path = tmp_path / "keyring"
    done = run_with_keyring(STORING, path)
    assert done.returncode == 0, done.stdout
    kept = json.loads(path.read_text("utf-8"))
    assert kept == {"minimcp/b": '{"access_token": "y"}', "minimcp/c": "no json"}
    assert not (tmp_path / "tokens.json").exists(), "no token is written to a file"


def test_a_locked_keyring_is_an_authorization_error(tmp_path: Path) -> None:
    code = "from minimcp import TokenKeyring\nTokenKeyring().get('a')"
    done = run_with_keyring(code, tmp_path / "locked")
    assert done.returncode == 1 and "AuthorizationError: the keyring cannot be read: locked" in (
        done.stdout
    )


def test_the_package_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ImportError, match="TokenKeyring needs the package keyring: pip install"):
        TokenKeyring()
    assert issubclass(AuthorizationError, package.McpError)
