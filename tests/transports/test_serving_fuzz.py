"""Requests with seeded damage at a running HTTP server: no hang, no fault of ours, nothing left behind.

A failure names its seed: MINIMCP_FUZZ_SEEDS="17,18" runs others, MINIMCP_FUZZ_COUNT another number of requests.
"""

from __future__ import annotations

import os
import random
import re
import socket
import threading
from contextlib import ExitStack
from typing import List

import pytest

from minimcp.http.common import HttpRequest, ResponseWriter
from minimcp.http.serving import HttpServing
from tests.support import eventually, open_descriptors
from tests.transports.http_peer import Peer

SEEDS = [int(seed) for seed in os.environ.get("MINIMCP_FUZZ_SEEDS", "1").split(",")]
COUNT = int(os.environ.get("MINIMCP_FUZZ_COUNT", "1000"))
BATCH = 50

REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"id\":\"ab\"}",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x\r\n world\r\n0\r\nT: u\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"DELETE http://a/mcp HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
]
WORDS = [
    b"\r\n", b"\n", b"\r", b" ", b":", b"\x00", b"\xff", b"0", b"-1", b"chunked", b"Content-Length: 5\r\n", b"HTTP/1.1",
    b"Transfer-Encoding: chunked\r\n", b"Host: b\r\n", b"\r\n\r\n", b"A" * 300, b"Expect: 100-continue\r\n",
    b"Connection: close\r\n", b"ffffffff\r\n", b"0\r\n\r\n",
]  # fmt: skip
STATUSES = re.compile(rb"HTTP/1\.1 ([0-9]{3}) [A-Z]")
EXPECTED = {b"100", b"200", b"400", b"413", b"414", b"417", b"431", b"501", b"505"}


class Application:
    def __init__(self) -> None:
        self.faults: List[str] = []

    def serve(self, request: HttpRequest, writer: ResponseWriter) -> None:
        if not re.fullmatch(r"[!-~]+", request.path) or len(request.headers.all("host")) > 1:
            self.faults.append(repr(request))
        body = request.body if isinstance(request.body, bytes) else request.body.read()
        if request.path == "/stream":
            writer.begin(200, [])
            writer.write(b"one")
            writer.end()
        else:
            writer.send(200, [("Content-Type", "text/plain")], b"%d" % len(body))


def damaged(rng: random.Random) -> bytes:
    """One request or a few, with some damage or none."""
    data = bytearray(b"".join(rng.choice(REQUESTS) for _ in range(rng.choice((1, 1, 2, 3)))))
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
        at, other = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
        data[at : at + rng.choice((0, 0, 1, 10))] = rng.choice(
            (b"", rng.choice(WORDS), rng.choice(WORDS), bytes([rng.randrange(256)]), data[other : other + 30])
        )
    return bytes(data)


def exchange(peer: Peer, data: bytes, rng: random.Random) -> None:
    """Send it, whole or in pieces; the server may have closed in the middle."""
    size = rng.choice((len(data), len(data) // 3 + 1, 40))
    try:
        for at in range(0, len(data), size):
            peer.send(data[at : at + size])
        if rng.random() < 0.8:
            peer.finish()
    except OSError:
        pass


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_requests(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    rng, application = random.Random(seed), Application()
    with HttpServing(application) as serving:
        files, threads = len(open_descriptors()), threading.active_count()
        for _ in range(0, COUNT, BATCH):
            with ExitStack() as stack:
                peers = [stack.enter_context(Peer(serving.port)) for _ in range(BATCH)]
                sent = [damaged(rng) for _ in peers]
                for peer, data in zip(peers, sent):
                    exchange(peer, data, rng)
                for peer, data in zip(peers, sent):
                    peer.finish_quietly()
                    try:
                        answer = peer.rest()
                    except socket.timeout:
                        pytest.fail(f"seed {seed}: no end after {data!r}")
                    assert set(STATUSES.findall(answer)) <= EXPECTED and b"Trace" not in answer, (seed, data, answer)
        assert eventually(lambda: "0 requests, 0 waiting" in repr(serving))
        assert eventually(lambda: len(open_descriptors()) == files)
        assert eventually(lambda: threading.active_count() <= threads + BATCH)  # idle workers
    assert not application.faults and [record for record in caplog.records if record.levelname != "DEBUG"] == []
