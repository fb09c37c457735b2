"""Events across processes that are killed: nothing is lost, and nothing goes to the wrong
subscriber."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator, List, Set

import pytest

import minimcp
from minimcp import HttpServer

from ..redis_server import RedisServer, redis_server
from ..support import ROOT, WAIT, eventually
from .receiver import PEM, SECRET, Received, Receiver, echo
from .tickets import NAME


class Emitter:
    """One process of `emitter`; `ids` has the ids that it has logged."""

    def __init__(self, place: str, prefix: str, pause: float = 0) -> None:
        command = [sys.executable, "-m", "tests.events.emitter", place, prefix, str(pause)]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "SSL_CERT_FILE": PEM},
            text=True,
        )
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/mcp"
        self.ids: List[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.ids.append(line.strip())

    def emit(self) -> None:
        assert self.process.stdin is not None
        count = len(self.ids)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert eventually(lambda: len(self.ids) > count)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(WAIT)
        self._thread.join(WAIT)
        for each in (self.process.stdin, self.process.stdout):
            assert each is not None
            each.close()

    def client(self, token: str = "a") -> minimcp.Client:
        return minimcp.connect(HttpServer(self.url, auth=token), timeout=WAIT)


def subscribe(client: minimcp.Client, url: str, priority: str) -> None:
    delivery = {"mode": "webhook", "url": url, "secret": SECRET}
    params = {"name": NAME, "arguments": {"priority": priority}, "delivery": delivery}
    client.request("events/subscribe", params)


@pytest.mark.requirement("EV-52", "EV-88")
@pytest.mark.parametrize("is_tried", [True, False], ids=["after an attempt", "at once"])
def test_an_event_survives_the_process_that_emitted_it(tmp_path: Path, is_tried: bool) -> None:
    receiver = Receiver()
    first = Emitter(str(tmp_path / "events.db"), "first")
    try:
        with first.client() as client:
            subscribe(client, receiver.url, "low")
        receiver.answer = lambda each: (500, b"")
        first.emit()
        assert not is_tried or eventually(lambda: receiver.named("first-0") != [])
    finally:
        first.kill()
    attempts = len(receiver.named("first-0"))
    receiver.answer = echo
    second = Emitter(str(tmp_path / "events.db"), "second")
    try:
        assert eventually(lambda: len(receiver.named("first-0")) > attempts)
        again = receiver.named("first-0")
        assert {each.headers["webhook-id"] for each in again} == {"first-0"}
    finally:
        second.kill()
        receiver.close()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@pytest.mark.redis
@pytest.mark.limit(180, "processes are killed, and their leases have to end")
@pytest.mark.requirement("EV-52", "EV-84")
def test_five_processes_on_redis_with_kills(redis: RedisServer) -> None:
    randomly = random.Random(20261129)
    receiver = Receiver()

    def unreliable(each: Received) -> Any:
        is_challenge = each.kind == "verification"
        return (503, b"") if not is_challenge and randomly.random() < 0.05 else echo(each)

    receiver.answer = unreliable
    emitters = [Emitter(redis.url, f"p{number}", 0.02) for number in range(5)]
    dead: List[Emitter] = []
    polled: List[str] = []
    try:
        for token, priority in (("a", "high"), ("b", "low")):
            with emitters[0].client(token) as client:
                subscribe(client, f"{receiver.url}/{token}", priority)
                if token == "a":
                    cursor = client.poll_events(NAME).cursor
        before = {id for each in emitters for id in each.ids}
        end = time.monotonic() + 20
        number = 5
        while time.monotonic() < end:
            time.sleep(randomly.uniform(0.5, 2.0))
            victim = emitters.pop(randomly.randrange(5))
            victim.kill()
            dead.append(victim)
            emitters.append(Emitter(redis.url, f"p{number}", 0.02))
            number += 1
            with randomly.choice(emitters).client() as client:
                batch = client.poll_events(NAME, cursor=cursor)
                assert not batch.truncated
                cursor = batch.cursor
                polled += [str(each.id) for each in batch]
        # One process remains, which must deliver for all.
        for each in emitters:
            each.kill()
        dead += emitters
        emitters = [Emitter(redis.url, "last")]
        emitted = {id for each in dead for id in each.ids} - before
        highs = {each for each in emitted if int(each.rpartition("-")[2]) % 2}

        def acknowledged(token: str) -> Set[str]:
            found = list(receiver.received)
            return {each.kind for each in found if each.path.endswith(f"/{token}")}

        assert eventually(lambda: highs <= acknowledged("a"), 60), len(highs - acknowledged("a"))
        lows = emitted - highs
        assert eventually(lambda: lows <= acknowledged("b"), 60), len(lows - acknowledged("b"))
        with emitters[0].client() as client:
            polled += [str(each.id) for each in client.poll_events(NAME, cursor=cursor)]
        assert emitted <= set(polled)
        assert len(polled) == len(set(polled))
        for received in receiver.received:
            if "data" in received.body:
                wanted = "high" if received.path.endswith("/a") else "low"
                assert received.body["data"]["priority"] == wanted
        assert len(emitted) > 1000
        print(f"{len(emitted)} events, {len(dead) - 5} kills, {len(receiver.received)} requests")
    finally:
        for each in emitters:
            each.kill()
        receiver.close()
