"""`python -m tests.hosts [HOST...]`: our server under gunicorn, waitress, cheroot, Flask, Django and nginx.

The Python packages are installed at the versions below, into an environment of their own; nginx comes from the
system's packages. Prints one line per host and era; exit code 1 when one cannot be installed or fails.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Callable, Iterator, NamedTuple, Sequence

from tests.interop.environments import InstallFailed, PythonEnvironment, install

from .visit import SECONDS, Visit, checks

ROOT = Path(__file__).resolve().parents[2]

ENVIRONMENT = PythonEnvironment("hosts", [
    "gunicorn==27.0.1", "waitress==3.0.2", "cheroot==11.1.2", "flask==3.1.3", "django==5.2.19", "requests==2.34.2",
    "jsonschema==4.26.0",
])

NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{behind};
            proxy_buffering on;
        }}
    }}
}}
"""

SITE = "tests.hosts.site"


class Host(NamedTuple):
    """How a host is started.

    Args:
        module: What runs it, as of ``python -m``.
        arguments: Of that, for a port.
        processes: How many serve.
        page: What it has at its root.
        proxied: Whether nginx stands before it.
    """

    module: str
    arguments: Callable[[int], Sequence[str]]
    processes: int = 1
    page: str = ""
    proxied: bool = False


HOSTS = {
    "gunicorn": Host("gunicorn", lambda port: [  # no connection is kept: each request lands on any process
        "-k", "gthread", "-w", "2", "--threads", "8", "--keep-alive", "0", "--no-control-socket",
        "-b", f"127.0.0.1:{port}", f"{SITE}:app",
    ], processes=2),
    "waitress": Host("waitress", lambda port: [f"--listen=127.0.0.1:{port}", "--threads=16", f"{SITE}:app"]),
    "cheroot": Host("cheroot", lambda port: [f"{SITE}:app", "--bind", f"127.0.0.1:{port}", "--threads", "16"]),
    "flask": Host("flask", lambda port: ["--app", f"{SITE}:flask()", "run", "--port", str(port)], page="a page"),
    "django": Host("waitress", lambda port: [
        f"--listen=127.0.0.1:{port}", "--threads=16", "--call", f"{SITE}:django",
    ], page="a page"),
    "nginx": Host(SITE, lambda port: [str(port)], proxied=True),
}


def free_port() -> int:
    """A port where nobody listens, below those that a kernel gives to who asks for any: it stays free."""
    for port in random.sample(range(20_000, 30_000), 1_000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no free port")


@contextlib.contextmanager
def running(command: Sequence[str], port: int, variables: dict[str, str], log: Path) -> Iterator[None]:
    """Run a process from when it listens until the block ends.

    Raises:
        AssertionError: It does not come to listen.
    """
    with open(log, "ab") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        until = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), SECONDS):
                break
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{' '.join(command)} does not listen")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def nginx() -> str:
    """The path of nginx, which is installed when it is not there.

    Raises:
        InstallFailed: It cannot be.
    """
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which("nginx", path=places)
    if found is None:
        install(["apt-get", "update"])
        install(["apt-get", "install", "-y", "nginx-light"])
        found = shutil.which("nginx", path=places)
    if found is None:
        raise InstallFailed("nginx is not there, though it is installed")
    return found


def visit(host: Host, revision: str) -> tuple[list[str], list[str]]:
    """Start a host and do everything to it in one era; what was as it should be, and what failed."""
    passed: list[str] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder, log, port = Path(place), Path(place) / "log", free_port()
        sessions = host.processes == 1
        variables = {
            "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "MINIMCP_HOSTS_FOLDER": place,
            "MINIMCP_HOSTS_SESSIONS": "yes" if sessions else "no", "MINIMCP_HOSTS_KEY": secrets.token_hex(32),
        }
        try:
            command = [*ENVIRONMENT.command(host.module), *host.arguments(port)]
            stack.enter_context(running(command, port, variables, log))
            if host.proxied:
                behind, port = port, free_port()
                config = folder / "nginx.conf"
                config.write_text(NGINX.format(folder=folder, port=port, behind=behind))
                stack.enter_context(running([nginx(), "-c", str(config)], port, {}, log))
            url = f"http://127.0.0.1:{port}/mcp"
            stay = Visit(url, revision, folder, sessions, host.processes, host.page)
            for word, check in checks(stay).items():
                try:
                    check(stay)
                    passed.append(word)
                except Exception:
                    traceback.print_exc()
                    failed.append(word)
        except AssertionError as error:
            failed.append(str(error))
        if failed:
            print(log.read_text("utf-8", "replace")[-3000:])
    return passed, failed


def main(names: Sequence[str]) -> int:
    """Install, visit every host in both eras, and return the exit code."""
    try:
        ENVIRONMENT.ready()
        nginx()
    except InstallFailed as error:
        print(error)
        return 1
    total = good = 0
    for name in names or HOSTS:
        for era, revision in (("2026-07-28", "auto"), ("handshake", "handshake")):
            begun = time.monotonic()
            passed, failed = visit(HOSTS[name], revision)
            said = f"FAILED: {', '.join(failed)}" if failed else ", ".join(passed)
            print(f"{name:<9} {era:<10} {said} ({time.monotonic() - begun:.1f} s)", flush=True)
            total, good = total + 1, good + (not failed)
    print(f"{good} passed, {total - good} failed")
    return 0 if good == total else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
