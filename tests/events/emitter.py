"""A process with the server of `tickets`, which serves HTTP and emits until it is killed.

Arguments: the store (a path or a URL of Redis), the prefix of the ids, and the pause between two
events in seconds (0 emits one for each line of stdin). It prints its port, and each id once it is
logged.
"""

from __future__ import annotations

import sys
import time
from itertools import count

from minimcp import Bearer, Events, Webhooks

from ..redis_server import store_at
from .tickets import NAME, Ticket, tickets


def main() -> None:
    place, prefix, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
    auth = Bearer.static({"a": {"sub": "ada"}, "b": {"sub": "bob"}})
    hooks = Webhooks(private_addresses=True, retries=(1,) * 30)
    made = Events(webhooks=hooks, keep=100_000, heartbeat=1)
    events = tickets(events=made, store=store_at(place), auth=auth)
    with events.server.start_http(port=0) as running:
        print(running.port, flush=True)
        for number in count():
            if pause:
                time.sleep(pause)
            elif not sys.stdin.readline():
                return
            id = f"{prefix}-{number}"
            priority = "high" if number % 2 else "low"
            events.emit(NAME, Ticket(id, priority), id=id)
            print(id, flush=True)


if __name__ == "__main__":
    main()
