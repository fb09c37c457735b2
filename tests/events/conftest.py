"""Fixtures of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import Bearer, Events, HttpServer, SqliteStore, Webhooks

from ..support import WAIT
from .receiver import PEM, SECRET, Receiver
from .tickets import NAME, Clock, Ticket, tickets


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[[], SqliteStore]]:
    """Open the same file any number of times; all are closed at the end."""
    opened: List[SqliteStore] = []

    def make() -> SqliteStore:
        opened.append(SqliteStore(tmp_path / "store.db"))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver on this machine, whose certificate is trusted."""
    monkeypatch.setenv("SSL_CERT_FILE", PEM)
    made = Receiver()
    yield made
    made.close()


class Service:
    """A server with webhooks, a fake clock and two clients, "ada" and "bob"."""

    def __init__(self, *, delivers: bool = False, **options: Any) -> None:
        webhooks = options.pop("webhooks", {})
        hooks = {"private_addresses": True, "timeout": 3.0, **webhooks}
        auth = Bearer.static({"a": {"sub": "ada"}, "b": {"sub": "bob"}})
        server = {each: options.pop(each) for each in ("store", "wants") if each in options}
        made = Events(webhooks=Webhooks(**hooks), **options)
        if not delivers:
            made.close()  # only `deliver_now` delivers
        self.events = tickets(events=made, auth=auth, **server)
        self.clock = Clock()
        self.events.clock = self.clock
        self.running = self.events.server.start_http(port=0)
        self.clients = [
            minimcp.connect(
                HttpServer(self.running.url, auth=token), timeout=WAIT, revision="2026-07-28"
            )
            for token in "ab"
        ]
        self.ada = self.clients[0]
        self.bob = self.clients[1]

    def subscribe(self, url: str, client: Any = None, **more: Any) -> Dict[str, Any]:
        """Subscribe with the usual secret; ``delivery`` replaces members of the delivery."""
        delivery = {"mode": "webhook", "url": url, "secret": SECRET, **more.pop("delivery", {})}
        params = {"name": NAME, "arguments": {}, "delivery": delivery, **more}
        return (client or self.ada).request("events/subscribe", params)

    def unsubscribe(self, url: str, client: Any = None, **more: Any) -> Dict[str, Any]:
        """End a subscription."""
        params = {"name": NAME, "arguments": {}, "delivery": {"url": url}, **more}
        return (client or self.ada).request("events/unsubscribe", params)

    def emit(self, *ids: str, priority: str = "low") -> None:
        for id in ids:
            self.events.emit(NAME, Ticket(id, priority), id=id)

    def deliver(self, seconds: float = 0) -> None:
        """Deliver what is due after some time."""
        self.clock.seconds += seconds
        self.events.deliver_now()

    def close(self) -> None:
        for each in self.clients:
            each.close()
        self.running.close()


@pytest.fixture
def serve(open_store: Any) -> Iterator[Callable[..., Service]]:
    """Start services, which end with the test."""
    made: List[Service] = []

    def start(**options: Any) -> Service:
        made.append(Service(**options))
        return made[-1]

    yield start
    for each in made:
        each.close()
