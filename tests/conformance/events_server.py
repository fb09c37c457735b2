"""The fixture server for the scenarios of the official suite about events, which are not released
yet.

``python -m tests.conformance.events_server --port N`` serves ``http://localhost:N/mcp``. The suite
calls its tools ``events_conformance_...`` to cause what no request of the protocol can cause. It
sends no token, so every request without one has the principal "runner".
"""

from __future__ import annotations

import argparse
import json
import threading
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any, Callable, Dict, Iterable, List, Optional
from wsgiref.simple_server import WSGIServer, make_server

from minimcp import Bearer, Events, HttpRequest, Server, SqliteStore, Webhooks

from ..inside import allow_private_callbacks, webhook_rows

PREFIX = "events_conformance_"
RUNNER = "token-of-the-runner"

# The type for most checks, one without polls and webhooks, and one with a required argument.
MESSAGE = "a.message"
BUILD = "b.build"
ALERT = "c.alert"

KEEP = 50
PER_CLIENT = 6
SECRET = "whsec_" + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


@dataclass
class Message:
    number: int
    kind: str = "usual"


class Fixture:
    """The server, its events, and the state that its tools change.

    Args:
        path: The file of the store.
        options: Arguments of `Events`.
    """

    def __init__(self, path: str, **options: Any) -> None:
        self._path = path
        self._options = options
        self._origins: List[str] = ["https://conformance.invalid"]
        self._made: List[Any] = []
        self._number = 0
        self._entered = threading.Event()
        self._released = threading.Event()
        self.generation = 0
        self.closed = threading.Event()
        self.build()
        threading.Thread(target=self._tick, daemon=True).start()

    def build(self) -> None:
        """Make the server, with the same store as before."""
        tokens = {RUNNER: {"sub": "runner"}, **{f"as-{each}": {"sub": each} for each in TENANTS}}
        hooks = Webhooks(allow_origins=self._origins, endless=True, retries=(1, 1, 1), timeout=2)
        store = SqliteStore(self._path)
        events = Events(webhooks=hooks, keep=KEEP, per_client=PER_CLIENT, **self._options)
        self.server = Server(
            "events-fixture",
            version="1.0.0",
            extensions=[events],
            store=store,
            auth=Bearer.static(tokens),
            page_size=2,
        )
        self._made += [self.server, store]
        self._add_types(events)
        self._add_controls()
        self.events = events  # events are emitted to it from now on
        self._app = self.server.wsgi("/mcp", max_streams=None)

    def _add_types(self, events: Events) -> None:
        @events.type(MESSAGE)
        def messages(message: Message, channel: Optional[str] = None) -> bool:
            """A message was sent."""
            if message.kind == "fails":
                raise OSError("the upstream is away")
            if message.kind == "blocks":
                self._entered.set()
                self._released.wait(10)
            return True

        @events.type(BUILD, delivery=["push"])
        def builds(message: Message) -> bool:
            """A build is done."""
            return True

        @events.type(ALERT, delivery=["poll", "webhook"], meta={"com.example/level": 1})
        def alerts(message: Message, level: int) -> bool:
            """An alert."""
            return True

    def emit(self, kind: str = "usual") -> str:
        self._number += 1
        number = self._number
        id = f"upstream-{self.generation}-{number}"
        return self.events.emit(MESSAGE, Message(number, kind), id=id)

    def _tick(self) -> None:
        while not self.closed.wait(0.3):
            if self._released.is_set() or not self._entered.is_set():
                self.emit()

    # ------------------------------------------------------------ tools of the suite

    def _add_controls(self) -> None:
        for control in (
            self.yield_error,
            self.yield_gap,
            self.terminate,
            self.subscribe_as,
            self.subscription_exists,
            self.subscription_state,
            self.allow_callback_origin,
            self.quota,
            self.webhook_gap,
            self.webhook_terminate,
            self.restart,
            self.tell_generation,
        ):
            name = control.__name__.replace("tell_", "")
            self.server.add_tool(control, name=PREFIX + name)

    def yield_error(self, name: str) -> str:
        """Let the upstream of a type fail once."""
        self.emit("fails")
        return f"ok: {name}"

    def yield_gap(self, name: str) -> str:
        """Lose events of a type, while a stream reads."""
        self._entered.clear()
        self._released.clear()
        self.emit("blocks")
        self._entered.wait(5)
        for _ in range(KEEP + 2):
            self.emit()
        self._released.set()
        return f"ok: {name}"

    def terminate(self, name: str) -> str:
        """End the subscriptions to a type."""
        self.events.terminate(name)
        return f"ok: {name}"

    def subscribe_as(self, principal: str, name: str, url: str) -> str:
        """Subscribe as another principal."""
        delivery = {"mode": "webhook", "url": url, "secret": SECRET}
        params = {"name": name, "arguments": {}, "delivery": delivery}
        return str(self.request("events/subscribe", params, f"as-{principal}")["result"]["id"])

    def request(self, method: str, params: Dict[str, Any], token: str) -> Dict[str, Any]:
        """Return the answer to a request of the newest revision."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            "Host": "localhost",
        }
        request = HttpRequest("POST", "/mcp", headers, json.dumps(message).encode())
        found: Dict[str, Any] = json.loads(self.server.handle_http(request).body)
        return found

    def subscription_exists(self, principal: str, name: str, url: str) -> str:
        """Return whether another principal is still subscribed."""
        rows = webhook_rows(self.events).values()
        wanted = (principal, name, url)
        found = [(row["claims"]["sub"], row["name"], row["url"]) for row in rows]
        return json.dumps(wanted in found)

    def subscription_state(self, id: str) -> str:
        """Return "active" or "absent": no subscription is suspended."""
        return "active" if id in webhook_rows(self.events) else "absent"

    def allow_callback_origin(self, origin: str) -> str:
        """Permit callbacks under an origin of this machine."""
        allow_private_callbacks(self.events)
        return origin

    def quota(self) -> str:
        """Return the cap of the streams of one principal."""
        return json.dumps({"name": MESSAGE, "max": PER_CLIENT})

    def webhook_gap(self, id: str) -> str:
        """Lose events of a subscription, which gets the envelope of a gap."""
        return self.yield_gap(webhook_rows(self.events)[id]["name"])

    def webhook_terminate(self, id: str) -> str:
        """End one webhook subscription."""
        self.events.terminate(id)
        return "ok"

    def restart(self) -> str:
        """Build the server again, over the same store."""
        self.events.close()
        self.generation += 1
        self.build()
        return str(self.generation)

    def tell_generation(self) -> str:
        """Return how often the server was restarted."""
        return str(self.generation)

    def close(self) -> None:
        self.closed.set()
        self.events.close()
        for each in self._made:
            each.close()

    # ------------------------------------------------------------ serving

    def app(self, environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve a WSGI request with the newest server."""
        environ.setdefault("HTTP_AUTHORIZATION", f"Bearer {RUNNER}")
        return self._app(environ, start_response)


TENANTS = ("tenant-a", "tenant-b", "other")


class ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=3002)
    parser.add_argument("--store", default="events-fixture.db")
    arguments = parser.parse_args()
    fixture = Fixture(arguments.store)
    make_server(
        "127.0.0.1", arguments.port, fixture.app, server_class=ThreadingServer
    ).serve_forever()


if __name__ == "__main__":
    main()
