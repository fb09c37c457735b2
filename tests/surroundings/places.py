"""``python -m tests.surroundings.places``: odd places in which programs with this library run, each
tried for real.

A proxy that asks for a password (``tinyproxy``, which apt installs where it is missing), with a CA
of one's own; a zip application; one file made by PyInstaller; a file system that is read-only; a
process without stdin, stdout and stderr. Exit code 1 when something is not so, and nothing is
skipped.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import zipapp
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import minimcp
from minimcp import Server

from ..interop.environments import InstallFailed, PythonEnvironment, debian_program
from ..proxying import Proxy
from ..support import ROOT, WAIT, eventually

PYINSTALLER = PythonEnvironment("pyinstaller", ["pyinstaller==6.22.3"])

PROGRAM = """
import sys
import minimcp
from minimcp import Server

server = Server("everywhere")

@server.tool
def double(number: int) -> int:
    "Double a number."
    return 2 * number

def main():
    if sys.argv[1:] == ["serve"]:
        server.run()
        return
    command = [sys.executable, "serve"] if getattr(sys, "frozen", False) else [sys.executable, sys.argv[0], "serve"]
    with minimcp.connect(command) as client:
        print("stdio:", client.call_tool("double", {"number": 21}).value)
    with minimcp.connect(server) as client:
        print("memory:", client.call_tool("double", {"number": 21}).value)
    with server.start_http() as running:
        print("http:", running.url.startswith("http://127.0.0.1:"))

if __name__ == "__main__":
    main()
"""

SAID = "stdio: 42\nmemory: 42\nhttp: True\n"


def printed(command: List[str], **options: Any) -> str:
    """Return the output of a program. Raises AssertionError: The program failed."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=300,
        **options,
    )
    said = (done.stdout + done.stderr).decode("utf-8", "replace")[-3000:]
    assert done.returncode == 0, (command, done.returncode, said)
    return done.stdout.decode()


# ---------------------------------------------------------------- proxies


@contextmanager
def proxy(folder: Path, password: str = "") -> Iterator[str]:
    """A tinyproxy at a free port, and where it listens."""
    program = debian_program("tinyproxy", "tinyproxy")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lines = [
        f"Port {port}",
        "Listen 127.0.0.1",
        "Timeout 60",
        f'LogFile "{folder / "log"}"',
        "LogLevel Connect",
        "Allow 127.0.0.1",
        "MaxClients 50",
    ]
    if password:
        lines.append(f"BasicAuth ada {password}")
    config = folder / "tinyproxy.conf"
    config.write_text("\n".join(lines) + "\n", "utf-8")
    process = subprocess.Popen(
        [program, "-d", "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        assert eventually(listens), "tinyproxy does not listen"
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(WAIT)


CLIENT = """
import sys
import minimcp
try:
    with minimcp.connect(sys.argv[1], timeout=20) as client:
        print(client.call_tool("double", {"number": 21}).value)
except minimcp.McpError as error:
    print(type(error).__name__, error)
"""


def call(url: str, **variables: str) -> str:
    """Return the output about a server from a client in a process of its own, with this environment
    and no other proxy."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith(("_proxy", "_ca_bundle"))
    }
    return printed(
        [sys.executable, "-c", CLIENT, url], env={**kept, "PYTHONPATH": str(ROOT), **variables}
    ).strip()


class BehindTls(Proxy):
    """Speaks TLS, and hands on to another port."""

    def __init__(self, context: ssl.SSLContext, port: int) -> None:
        super().__init__()
        self._context, self._server = context, port

    def serve(self, client: socket.socket) -> None:
        server, secure = (
            self.connect(self._server),
            self.keep(self._context.wrap_socket(client, server_side=True)),
        )
        try:
            self.begin(self.pump, secure, server)
            self.pump(server, secure)
        finally:
            self.drop(secure)
            self.drop(server)


@contextmanager
def behind_tls(folder: Path, port: int) -> Iterator[int]:
    """A port that speaks TLS, with a certificate of its own CA, and hands on to another port."""
    key, certificate = folder / "key.pem", folder / "ca.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(certificate), str(key))
    with BehindTls(context, port) as front:
        yield front.port


def through_proxies(folder: Path) -> None:
    """HTTP_PROXY, HTTPS_PROXY, NO_PROXY, REQUESTS_CA_BUNDLE, and a password that is right, wrong or
    missing."""
    server = Server("behind", http=minimcp.HttpOptions(allowed_hosts=["localhost", "127.0.0.1"]))

    @server.tool
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    (folder / "open").mkdir()
    (folder / "locked").mkdir()
    with server.start_http() as running, behind_tls(folder, running.port) as tls:
        secure, ca = f"https://localhost:{tls}/mcp", str(folder / "ca.pem")
        with proxy(folder / "open") as way:
            log = folder / "open" / "log"
            assert call(running.url, HTTP_PROXY=f"http://{way}") == "42"
            used = log.read_text("utf-8").count("Request (file descriptor")
            assert used, "the proxy saw nothing"
            print(f"  HTTP_PROXY: 42, by {used} requests through tinyproxy")
            assert call(running.url, HTTP_PROXY=f"http://{way}", NO_PROXY="127.0.0.1") == "42"
            assert log.read_text("utf-8").count("Request (file descriptor") == used
            print("  NO_PROXY: 42, and the proxy saw nothing")
            said = call(secure, HTTPS_PROXY=f"http://{way}")
            assert said.startswith("ConnectionFailed") and "certificate" in said.lower(), said
            print(f"  HTTPS_PROXY, an unknown CA: {said[:150]}")
            assert call(secure, HTTPS_PROXY=f"http://{way}", REQUESTS_CA_BUNDLE=ca) == "42"
            assert "CONNECT localhost" in log.read_text("utf-8")
            print("  HTTPS_PROXY and REQUESTS_CA_BUNDLE: 42, by CONNECT")
        with proxy(folder / "locked", "secret") as way:
            trusted = {"REQUESTS_CA_BUNDLE": ca}
            assert call(secure, HTTPS_PROXY=f"http://ada:secret@{way}", **trusted) == "42"
            assert call(running.url, HTTP_PROXY=f"http://ada:secret@{way}") == "42"
            print("  a password, over TLS and plain: 42")
            for user in ("", "ada:wrong@"):
                for url, name in ((secure, "HTTPS_PROXY"), (running.url, "HTTP_PROXY")):
                    said = call(url, **{name: f"http://{user}{way}"}, **trusted)
                    assert said.startswith(
                        ("ConnectionFailed", "ConnectionLost", "AuthorizationError")
                    ), said
                    assert "wrong@" not in said and "secret" not in said, said
                    print(
                        f"  {name}, {'a wrong password' if user else 'no password'}: {said[:170]}"
                    )


# ---------------------------------------------------------------- other places


def package_in(folder: Path) -> Path:
    """A folder with the package and the program."""
    folder.mkdir()
    shutil.copytree(
        ROOT / "minimcp", folder / "minimcp", ignore=shutil.ignore_patterns("__pycache__")
    )
    (folder / "__main__.py").write_text(PROGRAM, "utf-8")
    return folder


def in_a_zip_application(folder: Path) -> None:
    """`python -m zipapp`, on a Python without site-packages."""
    archive = folder / "program.pyz"
    zipapp.create_archive(package_in(folder / "tree"), archive)
    assert printed([sys.executable, "-I", str(archive)], cwd=folder) == SAID
    print("  " + SAID.replace("\n", "; "))


def in_one_file_of_pyinstaller(folder: Path) -> None:
    """`pyinstaller --onefile`, which has to find modules that are imported by their names on first
    use."""
    PYINSTALLER.ready()
    tree = package_in(folder / "tree")
    (tree / "program.py").write_text(PROGRAM, "utf-8")
    command = PYINSTALLER.command("PyInstaller")
    options = [
        "--onefile",
        "--log-level",
        "ERROR",
        "--collect-submodules",
        "minimcp",
        "--collect-data",
        "minimcp",
    ]
    printed([*command, *options, "program.py"], cwd=tree)
    assert printed([str(tree / "dist" / "program")], cwd=folder) == SAID
    print("  " + SAID.replace("\n", "; "))


def on_a_read_only_file_system(folder: Path) -> None:
    """A file system that is mounted read-only, home, working directory and temporary files among
    it."""
    tree = package_in(folder / "tree")
    read_only = f"mount --bind {tree} {tree} && mount -o remount,bind,ro {tree} && ! touch {tree}/x 2>/dev/null"
    variables = {**os.environ, "HOME": str(tree), "TMPDIR": str(tree), "PYTHONPATH": ""}
    command = [
        "unshare",
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        f"{read_only} && cd {tree} && exec {sys.executable} {tree}/__main__.py",
    ]
    assert printed(command, env=variables) == SAID
    assert not list(tree.rglob("__pycache__"))
    print("  " + SAID.replace("\n", "; "))


WITHOUT = """
import os, sys
for number in (0, 1, 2):
    os.close(number)
sys.stdin = sys.stdout = sys.stderr = None
sys.path.insert(0, sys.argv[1])
sys.argv[1:] = []
import minimcp
with minimcp.connect([sys.executable, os.environ["PROGRAM"], "serve"]) as client:
    value = client.call_tool("double", {"number": 21}).value
    try:
        client.call_tool("double", {"number": "x"})
    except minimcp.McpError as error:
        value = f"{value} {type(error).__name__}"
with open(os.environ["RESULT"], "w") as file:
    file.write(str(value))
"""


def without_descriptors(folder: Path) -> None:
    """Run a client in a process with closed stdin, stdout and stderr, as in a service or a
    notebook."""
    tree = package_in(folder / "tree")
    result = folder / "result"
    variables = {
        **os.environ,
        "PROGRAM": str(tree / "__main__.py"),
        "RESULT": str(result),
        "PYTHONPATH": str(tree),
    }
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(tree)], env=variables, timeout=120)
    assert done.returncode == 0, done.returncode
    assert result.read_text("utf-8") == "42 ToolError", result.read_text("utf-8")
    print("  a call over stdio: 42; a wrong one: ToolError")


PLACES: Dict[str, Callable[[Path], None]] = {
    "proxies": through_proxies,
    "a zip application": in_a_zip_application,
    "one file of PyInstaller": in_one_file_of_pyinstaller,
    "a read-only file system": on_a_read_only_file_system,
    "no stdin, stdout and stderr": without_descriptors,
}


def main() -> int:
    """Try all places, or those whose names contain an argument, and return the exit code."""
    failed = 0
    for name, attempt in PLACES.items():
        if sys.argv[1:] and not any(each in name for each in sys.argv[1:]):
            continue
        print(f"{name}:", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                attempt(Path(folder))
            except (AssertionError, InstallFailed, OSError, subprocess.SubprocessError) as error:
                print(f"  FAILED: {error}")
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
