"""Programs that run during a check: hosts, the library's own server, nginx."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from tests.interop.environments import PythonEnvironment, debian_program
from tests.readme import TEXT, blocks
from tests.support import eventually

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0  # how long anything may take

ENVIRONMENT = PythonEnvironment(
    "hosts",
    [
        "gunicorn==27.0.1",
        "waitress==3.0.2",
        "cheroot==11.1.2",
        "flask==3.1.3",
        "django==5.2.19",
        "requests==2.34.2",
        "jsonschema==4.26.0",
        "redis==8.1.0",
    ],
)

SITE = "tests.hosts.site"

NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{}}
http {{
    log_format short '$request_method $http_mcp_session_id $status $upstream_addr';
    access_log {folder}/nginx.access short;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {more}
}}
"""
"""The text around the settings of a site, so that it runs for any user and from a folder of its
own."""


class Host(NamedTuple):
    """How a host is started."""

    module: str  # the module that runs the host, for ``python -m``
    arguments: Callable[[int], Sequence[str]]  # of that, for a port
    processes: int = 1  # how many serve
    page: str = ""  # the path of its root
    proxied: bool = False  # whether nginx is in front of it
    graceful: signal.Signals = (
        signal.SIGTERM
    )  # the signal that ends the host after its running requests


def gunicorn(*more: str, app: str = f"{SITE}:app") -> Callable[[int], Sequence[str]]:
    return lambda port: [
        "-k",
        "gthread",
        "--threads",
        "16",
        "--timeout",
        "4",
        "--graceful-timeout",
        "1",
        "--no-control-socket",
        *more,
        "-b",
        f"127.0.0.1:{port}",
        app,
    ]


BUNDLED = Host(SITE, lambda port: [str(port)])
SEVERAL = Host("gunicorn", gunicorn("-w", "2", "--keep-alive", "0"), processes=2)
"""No connection is kept, so that each request lands on any process."""

HOSTS = {
    "gunicorn": SEVERAL,
    "waitress": Host(
        "waitress",
        lambda port: [f"--listen=127.0.0.1:{port}", "--threads=16", f"{SITE}:app"],
        graceful=signal.SIGINT,
    ),
    "cheroot": Host(
        "cheroot", lambda port: [f"{SITE}:app", "--bind", f"127.0.0.1:{port}", "--threads", "16"]
    ),
    "flask": Host(
        "flask",
        lambda port: ["--app", f"{SITE}:flask()", "run", "--port", str(port)],
        page="a page",
    ),
    "django": Host(
        "waitress",
        lambda port: [
            f"--listen=127.0.0.1:{port}",
            "--threads=16",
            "--call",
            f"{SITE}:django",
        ],
        page="a page",
    ),
    "nginx": BUNDLED._replace(proxied=True),
    "nginx+gunicorn": Host("gunicorn", gunicorn(), proxied=True),
}

_given: dict[int, None] = {}


def free_port() -> int:
    """Return a port without a listener, below the range from which a kernel assigns free ports, so
    that it stays free. Thread-safe."""
    for port in random.sample(range(20_000, 30_000), 1_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in _given:  # no other process tries this port while it is bound
                _given[port] = None
                return port
    raise OSError("no free port")


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


class Place:
    """A folder for one scene: its processes log there, and end with it. A context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def serve(self, host: Host, port: int, **options: Any) -> subprocess.Popen[bytes]:
        """Run a host of our server; returns when it listens."""
        given = {"key": "k" * 32, "body_bytes": 100_000, "keepalive": 1, **options}
        variables = {
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MINIMCP_HOSTS_FOLDER": str(self.folder),
            "MINIMCP_HOSTS_OPTIONS": json.dumps(given),
        }
        return self.run([*ENVIRONMENT.command(host.module), *host.arguments(port)], port, variables)

    def serve_readme(self, command: Sequence[str], port: int) -> None:
        """Run a host of the ``wsgi.py`` of examples/deployment.rst by a command of that page, until
        it listens."""
        for name in ("server.py", "wsgi.py"):
            (self.folder / name).write_text(blocks("file")[name], "utf-8")
        option = "--listen" if command[0].startswith("waitress") else "--bind"
        script = str(Path(ENVIRONMENT.command("pip")[0]).with_name(command[0]))
        variables = {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.run([script, f"{option}=127.0.0.1:{port}", *command[1:]], port, variables)

    def proxy(self, site: str, **ports: int) -> int:
        """Run nginx, and return where it listens."""
        port = free_port()
        config = self.folder / f"nginx-{port}.conf"
        for name, value in {"port": port, **ports}.items():
            site = site.replace("{" + name + "}", str(value))
        config.write_text(NGINX.format(folder=self.folder, more=site))
        self.run([nginx(), "-c", str(config)], port, {})
        return port

    def run(
        self, command: Sequence[str], port: int, variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        return self._stack.enter_context(running(command, port, variables, self.log))

    def accesses(self) -> list[str]:
        return (self.folder / "nginx.access").read_text().splitlines()

    def logged(self) -> str:
        logs = [path for path in (self.log, self.folder / "nginx.log") if path.exists()]
        return "\n".join(path.read_text("utf-8", "replace")[-3000:] for path in logs)


@contextlib.contextmanager
def running(
    command: Sequence[str], port: int, variables: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process from when it answers until the block ends: some listen before they can."""

    def answers() -> bool:
        with contextlib.suppress(OSError, HTTPException):
            with contextlib.closing(
                HTTPConnection("127.0.0.1", port, timeout=SECONDS)
            ) as connection:
                connection.request("GET", "/")
                connection.getresponse().read()
                return True
        return False

    with open(log, "ab") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        up = (
            eventually(lambda: process.poll() is not None or answers(), SECONDS)
            and process.poll() is None
        )
        assert up, f"{' '.join(command)} does not answer"
        yield process
    finally:
        end(process, signal.SIGTERM)


def end(process: subprocess.Popen[bytes], how: signal.Signals) -> bool:
    """End a process, and return whether it exited without being killed."""
    if process.poll() is None:
        process.send_signal(how)
    try:
        process.wait(SECONDS)
        return True
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


def nginx() -> str:
    """Return the path of nginx, and install it if it is missing."""
    return debian_program("nginx", "nginx-light")


def readme_commands() -> list[list[str]]:
    """Return the README's commands of one process. Commands with several processes need a store."""
    found = re.findall(
        r"``((?:gunicorn|waitress-serve|cheroot) [^`]*wsgi:application[^`]*)``", TEXT
    )
    found = [command for command in found if "--workers" not in command]
    assert len(found) == 3, found
    return [command.split() for command in found]


def readme_site(*ports: int) -> str:
    """The settings that examples/deployment.rst has for nginx, at ports of our own."""
    text = blocks("nginx")["mcp.conf"].replace("listen 80;", "listen 127.0.0.1:{port};")
    for number, port in enumerate(ports, 1):
        text = text.replace(f"127.0.0.1:{8000 + number};", f"127.0.0.1:{port};")
    assert "listen 127.0.0.1:{port};" in text and ":8001" not in text and ":8002" not in text, text
    return text
