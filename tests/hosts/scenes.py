"""Scenes with more than one process, or with nginx in front, one function for each scene.

A scene receives a place, starts its processes there, and yields its steps with the text to print
for each.
"""

from __future__ import annotations

import threading
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Callable, Iterator

import minimcp

from ..interop.checking import expect, expect_raised
from ..support import children_of, eventually
from .running import (
    BUNDLED,
    SECONDS,
    SEVERAL,
    Host,
    Place,
    end,
    free_port,
    gunicorn,
    readme_commands,
    readme_site,
)
from .visit import OpenCall, Visit, text_of

Step = tuple[str, Callable[[], object]]
Scene = Callable[[Place], Iterator[Step]]
ONE = Host("gunicorn", gunicorn())


def stay(place: Place, port: int, revision: str, **more: Any) -> Visit:
    return Visit(f"http://127.0.0.1:{port}/mcp", revision, place.folder, True, 1, **more)


def keys(place: Place) -> Iterator[Step]:
    """Two processes have different keys: a retry at the other process is rejected, without a
    reason."""
    port = free_port()
    place.serve(SEVERAL, port, sessions=False, key=None)
    visit = stay(place, port, "auto")

    def ask() -> None:
        refused = served = 0
        until = time.monotonic() + SECONDS
        with visit.connect() as client:
            while not (refused and served) and time.monotonic() < until:
                name = uuid.uuid4().hex
                try:
                    expect(client.call_tool("choose", {"name": name}).text, "the red one")
                    served += 1
                except minimcp.InvalidParams as error:
                    expect(error.message, "Invalid or expired requestState")
                    expect(
                        len(text_of(place.folder / name).split()), 1
                    )  # the handler was not run again
                    refused += 1
        expect((bool(refused), bool(served)), (True, True))

    yield "another process's answer is refused", ask


def pair(place: Place, host: Host, **options: Any) -> tuple[list[Any], list[int]]:
    ports = [free_port(), free_port()]
    return [place.serve(host, port, **options) for port in ports], ports


def home(client: minimcp.Client) -> Any:
    return client.call_tool("where").value


def connected(visit: Visit) -> list[minimcp.Client]:
    """Clients with a token each, served by two processes."""
    clients: list[minimcp.Client] = []
    while len(clients) < 6 or len(set(map(home, clients))) < 2:
        clients.append(visit.connect(auth=f"token-{len(clients)}"))
        expect(len(clients) < 50, True)
    return clients


def sticky(host: Host) -> Scene:
    """Sessions over two processes, behind nginx as examples/deployment.rst sets it up."""

    def scene(place: Place) -> Iterator[Step]:
        processes, ports = pair(place, host, allowed_hosts=["127.0.0.1"])
        at = place.proxy(readme_site(*ports))
        older, newer = stay(place, at, "handshake"), stay(place, at, "auto")
        clients = connected(older)

        def sessions() -> None:
            homes = {number: home(client) for number, client in enumerate(clients)}
            for step in range(5):
                for number, client in enumerate(clients):
                    expect(
                        client.call_tool("note", {"text": f"{number}.{step}"}).value,
                        [f"{number}.{each}" for each in range(step + 1)],
                    )
                    expect(home(client), homes[number])

        yield f"{len(clients)} sessions on two processes", sessions
        for each in ("call", "progress", "question", "crowd"):
            yield each, lambda each=each: [getattr(visit, each)() for visit in (older, newer)]

        def lose_one() -> None:
            ended = home(clients[0])
            lost = [client for client in clients if home(client) == ended]
            kept = [client for client in clients if client not in lost]
            which = next(each for each in processes if ended in (each.pid, *children_of(each.pid)))
            expect(end(which, host.graceful), True)
            for client in lost:
                expect(client.call_tool("note", {"text": "new"}).value, ["new"])
            for client in kept:
                expect(len(client.call_tool("note", {"text": "one more"}).value), 6)

        yield "those of a process that ends go on at the other", lose_one
        for client in clients:
            client.close()

    return scene


def served(client: minimcp.Client) -> bool:
    try:
        client.call_tool("where")
        return True
    except minimcp.ConnectionLost:  # the proxy has not noticed yet, and responds with 502
        return False


SCATTERED = """
map $http_mcp_session_id $to {
    ""      127.0.0.1:{one};
    default 127.0.0.1:{other};
}
server {
    listen 127.0.0.1:{port};
    location / {
        proxy_pass http://$to;
    }
}
"""
"""No routing is worse: no request of a session reaches the process that has it."""


def scattered(place: Place) -> Iterator[Step]:
    """Sessions over two processes, and what names one never reaches the one that knows it."""
    _, ports = pair(place, BUNDLED)
    visit = stay(place, place.proxy(SCATTERED, one=ports[0], other=ports[1]), "handshake")

    def opened() -> int:
        return sum(line.startswith("POST - 200") for line in place.accesses())

    def call() -> None:
        with visit.connect() as client:
            expect(opened(), 1)
            error = expect_raised(
                minimcp.McpError, lambda: client.call_tool("add", {"a": 1, "b": 1})
            )
            expect(
                (isinstance(error, minimcp.ConnectionLost), "sessions=False" in str(error)),
                (True, True),
            )
            expect(opened(), 2)

    yield "one new session, then ConnectionLost", call


def readme(place: Place) -> Iterator[Step]:

    def visit(command: list[str]) -> None:
        port = free_port()
        place.serve_readme(command, port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=SECONDS) as response:
            expect(response.read(), b"Hello")
        for revision in ("auto", "handshake"):
            with minimcp.connect(
                f"http://127.0.0.1:{port}/mcp", revision=revision, timeout=SECONDS
            ) as client:
                expect(client.call_tool("forecast", {"city": "Oslo", "days": 1}).is_error, False)

    for command in readme_commands():
        yield command[0], partial(visit, command)


def notices(place: Place) -> Iterator[Step]:
    """Open two streams of notices in a WSGI host that is configured to allow two."""
    port = free_port()
    process = place.serve(ONE, port, streams=2)
    visits = [stay(place, port, "handshake"), stay(place, port, "auto")]
    heard = [threading.Event(), threading.Event()]
    clients = [visit.connect(on_tools_changed=event.set) for visit, event in zip(visits, heard)]

    def grow() -> None:
        expect(clients[0].call_tool("grow", {"name": "more"}).text, "more")
        for event in heard:
            expect(event.wait(SECONDS), True)

    yield "told in either era", grow

    def one_more() -> None:
        with visits[1].connect() as client:
            error = expect_raised(minimcp.McpError, lambda: client.listen(tools_list_changed=True))
            expect("Limits.streams" in str(error), True)
            expect(client.call_tool("more").text, "more")

    yield "no third stream", one_more
    yield "ends with both open", lambda: expect(end(process, ONE.graceful), True)
    for client in clients:
        client.close()


IMPATIENT = """
server {
    listen 127.0.0.1:{port};
    location / {
        proxy_pass http://127.0.0.1:{behind};
        proxy_buffering on;
        proxy_read_timeout 6s;
    }
}
"""


def proxied(host: Host) -> Scene:
    """nginx gives up after 6 s of silence, or finds no server."""

    def scene(place: Place) -> Iterator[Step]:
        port = free_port()
        process = place.serve(host, port)
        at = place.proxy(IMPATIENT, behind=port)
        visits = [stay(place, at, "auto"), stay(place, at, "handshake")]

        def silence(visit: Visit) -> None:
            with visit.connect() as client:
                expect(
                    client.call_tool("silent", {"name": uuid.uuid4().hex, "seconds": 9}).text,
                    "done",
                )

        def silences() -> None:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(silence, visits))

        yield "9 s of silence in either era", silences
        clients = [visit.connect() for visit in visits]

        def restart() -> None:
            with OpenCall(visits[0]) as open_call:
                end(process, host.graceful)
            expect(open_call.ending.split(":")[0] in ("ConnectionLost", "InternalError"), True)
            for client in clients:
                error = expect_raised(
                    minimcp.McpError, partial(client.call_tool, "add", {"a": 1, "b": 1})
                )
                expect((type(error), "HTTP 502" in str(error)), (minimcp.ConnectionLost, True))
            place.serve(host, port)
            for client in clients:
                expect(eventually(partial(served, client), SECONDS), True)
                expect(client.call_tool("add", {"a": 1, "b": 1}).value, 2)
                client.close()
            begun = (place.folder / f"{open_call.name}.begun").read_text()
            expect(begun, "once\n")  # a request that may have run is not sent again

        yield "502 while it restarts, then served", restart

    return scene


def mute(place: Place) -> Iterator[Step]:
    """Run the same scene without comments: only comments keep the proxy from giving up."""
    port = free_port()
    place.serve(BUNDLED, port, keepalive=None)
    visit = stay(place, place.proxy(IMPATIENT, behind=port), "auto")

    def silence() -> None:
        with visit.connect() as client:
            arguments = {"name": uuid.uuid4().hex, "seconds": 14}
            error = expect_raised(minimcp.McpError, lambda: client.call_tool("silent", arguments))
            expect((type(error), "HTTP 504" in str(error)), (minimcp.ConnectionLost, True))

    yield "504 without comments", silence


SCENES: dict[str, Scene] = {
    "keys": keys,
    "sticky": sticky(BUNDLED),
    "sticky gunicorn": sticky(ONE),
    "scattered": scattered,
    "notices": notices,
    "readme": readme,
    "proxied": proxied(BUNDLED),
    "proxied gunicorn": proxied(ONE),
    "mute": mute,
}
