"""`python -m tests.bench.stores [--calls N]`: the cost of a store that processes share, and of many
sessions.

First one process: calls a second over one connection, in each era, as a ratio to `MemoryStore`, and
Redis operations a call. Then calls a second of 1, 2 and 4 processes with clients of their own. At
last the sum on paper of examples/deployment.rst, from these figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Dict, List, Optional

from ..hosts.shared import HEADERS, Fleet, Wanderer
from ..redis_server import RedisServer, redis_server

NEWEST = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": NEWEST,
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL = {"name": "echo", "arguments": {"text": "x"}}


def request_of(port: int, modern: bool) -> "tuple[bytes, Dict[str, str]]":
    """The body and headers of a call."""
    if modern:
        more = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
        params: Dict[str, Any] = {**CALL, "_meta": META}
    else:
        more, params = dict(Wanderer([port], 1).headers), CALL
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(body).encode(), {**HEADERS, **more}


def seconds_of(port: int, modern: bool, calls: int) -> float:
    """Return the seconds of this many calls, one after the other."""
    body, headers = request_of(port, modern)
    with closing(HTTPConnection("127.0.0.1", port)) as connection:
        begun = 0.0
        for number in range(calls + 50):
            if number == 50:  # all is warm
                begun = time.perf_counter()
            connection.request("POST", "/mcp", body, headers)
            response = connection.getresponse()
            text = response.read()
            assert response.status == 200 and b'"text":"x"' in text, text
        return time.perf_counter() - begun


def operations(redis: Optional[RedisServer]) -> int:
    return (
        0
        if redis is None
        else sum(
            int(value.partition("calls=")[2].partition(",")[0])
            for name, value in redis.numbers("commandstats").items()
            if name == "cmdstat_evalsha"
        )
    )


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    calls = parser.parse_args(arguments).calls
    with tempfile.TemporaryDirectory() as temporary, redis_server(Path(temporary)) as redis:
        folder = Path(temporary)
        stores = {"memory": "memory", "sqlite": str(folder / "store.db"), "redis": redis.url}
        fleets = {name: Fleet(folder, place, 1) for name, place in stores.items()}
        try:
            for fleet in fleets.values():
                fleet.__enter__()
            for modern in (True, False):
                best = dict.fromkeys(stores, float("inf"))
                before = operations(redis)
                for _ in range(3):  # by turns, for the machine is not the same all the time
                    for name, fleet in fleets.items():
                        best[name] = min(best[name], seconds_of(fleet.ports[0], modern, calls))
                scripts = (operations(redis) - before) / (3 * (calls + 50))
                era = NEWEST if modern else "a session"
                for name, seconds in best.items():
                    ratio = seconds / best["memory"]
                    more = f", {scripts:.2f} scripts a call" if name == "redis" else ""
                    print(
                        f"{era:<12} {name:<8} {calls / seconds:>6.0f} calls/s, ratio {ratio:.2f}{more}"
                    )
        finally:
            for fleet in fleets.values():
                fleet.__exit__()
        for number in (1, 2, 4):
            with Fleet(folder, redis.url, number) as fleet:
                threads = [
                    threading.Thread(target=seconds_of, args=(port, False, calls))
                    for port in fleet.ports
                ]
                begun = time.perf_counter()
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                print(
                    f"{number} processes  {number * calls / (time.perf_counter() - begun):>6.0f} calls/s with redis"
                )
        with Fleet(folder, redis.url, 1) as fleet:
            seconds_of(fleet.ports[0], False, 1)
            before = int(redis.numbers("memory")["used_memory"])
            for seed in range(300):
                Wanderer(fleet.ports, seed).call("count")
            each = (int(redis.numbers("memory")["used_memory"]) - before) / 300
    print(f"a session takes {each:.0f} bytes of Redis")
    for sessions in (10_000, 1_000_000):
        megabytes, calls_a_second = sessions * each / 1e6, sessions / 60
        print(
            f"{sessions:>9,} sessions, a call a minute each: {megabytes:,.0f} MB, {calls_a_second:,.0f} calls/s"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
