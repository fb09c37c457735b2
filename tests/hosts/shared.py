"""`python -m tests.hosts.shared [NAME...]`: the processes of one server that share a store, Redis
or a file.

Each scene runs with each of its stores; the exit code is 1 if one fails. redis-server and nginx
come from the system's packages.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import minimcp

from ..redis_server import RedisServer, redis_server
from ..streams import read_events
from ..support import eventually, usual_signals
from .running import ENVIRONMENT, ROOT, SECONDS, Place, free_port, gunicorn

HEADERS = {
    "Host": "localhost",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
SESSIONS = 1000
AT_ONCE = 3  # scenes: much of the time is spent waiting
FOREIGN = ("python-sdk-1", "python-sdk-2", "typescript-sdk-2")
MAX_BYTES = 2048  # Redis commands for each of them

ROUND_ROBIN = """
upstream mcp { {servers} }
server {
    listen 127.0.0.1:{port};
    location / {
        proxy_pass http://mcp;
        proxy_set_header Host localhost;
        client_max_body_size 0;
        proxy_next_upstream error timeout http_503 non_idempotent;
    }
}
"""


class Fleet:
    """Processes of the server, each at a port; a context manager."""

    def __init__(self, folder: Path, store: str, number: int) -> None:
        self.folder, self.store = folder, store
        self.ports = [free_port() for _ in range(number)]
        self.processes: Dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Fleet:
        for port in self.ports:
            self.start(port, wait=False)
        for port in self.ports:
            self.wait_for(port)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def start(self, port: int, wait: bool = True) -> None:
        command = [sys.executable, "-m", "tests.hosts.shared_server", str(port)]
        with open(self.folder / "log", "ab") as log:
            self.processes[port] = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "MINIMCP_SHARED_STORE": self.store},
                stdout=log,
                stderr=log,
            )
        if wait:
            self.wait_for(port)

    def wait_for(self, port: int) -> None:
        assert eventually(lambda: self.health(port) == 200, SECONDS), (
            self.folder / "log"
        ).read_text()[-3000:]

    def health(self, port: int) -> int:
        with (
            contextlib.suppress(OSError, HTTPException),
            contextlib.closing(HTTPConnection("127.0.0.1", port)) as one,
        ):
            one.request("GET", "/healthz", headers={"Host": "10.0.0.1"})
            return one.getresponse().status
        return 0

    def restart(self, port: int) -> None:
        """Restart a process as a deployment does."""
        process = self.processes[port]
        process.send_signal(signal.SIGTERM)
        if not eventually(lambda: process.poll() is not None, SECONDS):
            process.send_signal(signal.SIGUSR1)  # the process prints its stacks
            eventually(lambda: False, 1.0)
            raise AssertionError("a process does not end")
        self.start(port)


def exchange(
    port: int, method: str, body: Any, headers: Dict[str, str]
) -> Tuple[int, Dict[str, str], List[Any]]:
    """One request on a connection of its own.

    Raises:
        ConnectionRefusedError: No server listens, so it was not sent.
        OSError, HTTPException: It may have been served.
    """
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
        connection.request(
            method, "/mcp", None if body is None else json.dumps(body), {**HEADERS, **headers}
        )
        response = connection.getresponse()
        data, kind = response.read(), response.headers.get("Content-Type", "")
        messages: List[Any] = []
        if kind.startswith("text/event-stream"):
            messages = [json.loads(event.data) for event in read_events(data) if event.data]
        elif data and kind.startswith("application/json"):
            messages = [json.loads(data)]
        return (
            response.status,
            {name.lower(): value for name, value in response.headers.items()},
            messages,
        )


class Wanderer:
    """A client in a session that sends each request to any process, and repeats it when the
    response says so."""

    def __init__(self, ports: List[int], seed: int) -> None:
        self._ports, self._random = ports, random.Random(seed)
        self.headers: Dict[str, str] = {}
        self.seen: Counter[str] = Counter()
        self.open()

    def open(self) -> None:
        info = {"name": "wanderer", "version": "1"}
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": info,
        }
        self.headers = {}
        self.headers = {"Mcp-Session-Id": self.send("initialize", params)[1]["mcp-session-id"]}
        status = self.send("notifications/initialized", None, id=None)[0]
        assert status == 202, status

    def send(
        self, method: str, params: Any, id: Optional[int] = 1
    ) -> Tuple[int, Dict[str, str], List[Any]]:
        message: Dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            message["id"] = id
        if params is not None:
            message["params"] = params
        until = time.monotonic() + SECONDS
        while True:
            try:
                answer = exchange(self._random.choice(self._ports), "POST", message, self.headers)
            except ConnectionRefusedError:
                answer = (503, {"retry-after": "0"}, [])
            if answer[0] != 503 or "retry-after" not in answer[1] or time.monotonic() > until:
                return answer
            self.seen["told to retry"] += 1
            time.sleep(0.05)

    def call(self, name: str, **arguments: Any) -> Any:
        status, _, messages = self.send("tools/call", {"name": name, "arguments": arguments})
        if status == 404:
            self.seen["begun anew"] += 1
            self.open()
            return self.call(name, **arguments)
        assert status == 200, (status, messages)
        result = messages[-1]["result"]
        return (
            result["structuredContent"]["result"]
            if "structuredContent" in result
            else result["content"][0]["text"]
        )

    def events(self, port: int, method: str, body: Any, **headers: str) -> Iterator[Any]:
        """Yield the id and the message of each event, until the stream ends."""
        with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
            given = {
                **HEADERS,
                **self.headers,
                **{name.replace("_", "-"): text for name, text in headers.items()},
            }
            connection.request(method, "/mcp", None if body is None else json.dumps(body), given)
            response = connection.getresponse()
            assert response.status == 200, (response.status, response.read())
            id = ""
            for raw in response:
                line = raw.decode().rstrip("\n")
                if line.startswith("id: "):
                    id = line[4:]
                elif line.startswith("data: {"):
                    yield id, json.loads(line[6:])


class Stage:
    """The arguments of a scene: the store's address, and Redis if that is the store."""

    def __init__(self, folder: Path, store: str, redis: Optional[RedisServer]) -> None:
        self.folder, self.store, self.redis = folder, store, redis

    def fleet(self, number: int) -> Fleet:
        return Fleet(self.folder, self.store, number)


def any_process(stage: Stage) -> str:
    """1,000 sessions over five processes, every request to any of them."""
    with stage.fleet(5) as fleet:

        def visit(seed: int) -> Tuple[List[int], int]:
            client = Wanderer(fleet.ports, seed)
            counted = [client.call("count") for _ in range(3)]
            return [each[0] for each in counted], len({each[1] for each in counted})

        with ThreadPoolExecutor(8) as pool:
            list(
                pool.map(visit, range(100))
            )  # all connections are open, because the first traffic allocates most of the memory
            before = 0 if stage.redis is None else int(stage.redis.numbers("memory")["used_memory"])
            visits = list(pool.map(visit, range(SESSIONS)))
        wrong = [counted for counted, _ in visits if counted != [1, 2, 3]]
        assert not wrong, wrong[:5]
        assert sum(places > 1 for _, places in visits) > SESSIONS / 2
        if stage.redis is None:
            return f"{SESSIONS} sessions"
        each = (int(stage.redis.numbers("memory")["used_memory"]) - before) / SESSIONS
        assert each < MAX_BYTES, each
        return f"{SESSIONS} sessions, {each:.0f} bytes each"


def answers(stage: Stage) -> str:
    """A response and a cancellation reach another process, and a listener there is notified of a
    change."""
    with stage.fleet(3) as fleet:
        first, second, third = fleet.ports
        client = Wanderer(fleet.ports, 1)
        body = {"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": {"name": "ask"}}
        for _, message in client.events(first, "POST", body):
            if message.get("method") == "elicitation/create":
                answer = {"action": "accept", "content": {"name": "Ada"}}
                told = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
                assert exchange(second, "POST", told, client.headers)[0] == 202
        assert message["result"]["content"][0]["text"] == "Ada", message
        params = {
            "name": "steps",
            "arguments": {"number": 1000, "seconds": 0.05},
            "_meta": {"progressToken": 1},
        }
        body = {"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params}
        begun = time.monotonic()
        for place, (_, message) in enumerate(client.events(first, "POST", body)):
            if place == 2:
                told = {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": "c"},
                }
                assert exchange(third, "POST", told, client.headers)[0] == 202
            assert message.get("method") == "notifications/progress", message
        assert time.monotonic() - begun < 20
        url = f"http://127.0.0.1:{second}/mcp"
        heard = threading.Event()
        with minimcp.connect(url, on_resource_updated=lambda uri: heard.set()) as modern:
            modern.subscribe("notes://one")
            assert client.send("tools/call", {"name": "touch"})[0] == 200
            assert heard.wait(SECONDS)
        return "an answer, a cancellation, a change"


def killed(stage: Stage) -> str:
    """A process is killed in the middle of calls: their streams end elsewhere, the sessions live
    on."""
    with stage.fleet(3) as fleet:
        first, second, _ = fleet.ports
        clients = [Wanderer(fleet.ports, seed) for seed in range(20)]
        assert [client.call("count")[0] for client in clients] == [1] * 20
        params = {
            "name": "steps",
            "arguments": {"number": 1000, "seconds": 0.05},
            "_meta": {"progressToken": 1},
        }
        body = {"jsonrpc": "2.0", "id": "k", "method": "tools/call", "params": params}
        seen: List[int] = []
        last = ""
        with contextlib.suppress(OSError, HTTPException):
            for id, message in clients[0].events(first, "POST", body):
                last = id
                seen.append(message["params"]["progress"])
                if len(seen) == 5:
                    fleet.processes[first].kill()
        fleet.processes[first].wait()
        ended = []
        for _, message in clients[0].events(second, "GET", None, Last_Event_ID=last):
            if message.get("method") == "notifications/progress":
                seen.append(message["params"]["progress"])
            else:
                ended.append(message)
        assert seen == list(range(1, len(seen) + 1)), "nothing lost, nothing twice"
        assert [each["id"] for each in ended] == ["k"] and "has ended" in ended[0]["error"][
            "message"
        ], ended
        assert [client.call("count")[0] for client in clients] == [2] * 20
        return f"{len(seen)} events, an error, 20 sessions"


def resumed(stage: Stage) -> str:
    """A call continues while its client reconnects to another process again and again."""
    with stage.fleet(3) as fleet:
        client = Wanderer(fleet.ports, 7)
        params = {
            "name": "steps",
            "arguments": {"number": 40, "seconds": 0.05},
            "_meta": {"progressToken": 1},
        }
        body = {"jsonrpc": "2.0", "id": "r", "method": "tools/call", "params": params}
        seen: List[Any] = []
        last, place, moves = "", 0, 0
        events = client.events(fleet.ports[0], "POST", body)
        while not seen or seen[-1] != "done":
            for id, message in events:
                last = id
                seen.append(message["params"]["progress"] if "params" in message else "done")
                if len(seen) % 7 == 0:
                    break
            if seen[-1] != "done":
                place, moves = (place + 1) % 3, moves + 1
                events = client.events(fleet.ports[place], "GET", None, Last_Event_ID=last)
        assert seen == [*range(1, 41), "done"], seen
        return f"{moves} moves"


def rolling(stage: Stage) -> str:
    """All five processes are restarted under load, one after the other; no call fails."""
    with stage.fleet(5) as fleet:
        stop, failed, done = threading.Event(), list[BaseException](), Counter[str]()

        def load(seed: int) -> None:
            try:
                client, number = Wanderer(fleet.ports, seed), 0
                while not stop.is_set():
                    number += 1
                    counted = client.call("count")[0]
                    assert counted == number, (counted, number)
                    done["calls"] += 1
                done.update(client.seen)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=load, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for port in fleet.ports:
            fleet.restart(port)
        stop.set()
        for thread in threads:
            thread.join(SECONDS)
        assert not failed, failed
        assert not done["begun anew"], done
        return f"{done['calls']} calls, {done['told to retry']} told to retry, 0 failed"


def away(stage: Stage, how: str) -> str:
    """Redis is stopped for 5 s, paused or flushed under load: sessions are rejected with a reason,
    and all other requests continue."""
    redis = stage.redis
    assert redis is not None
    with stage.fleet(3) as fleet:
        stop, failed, done = threading.Event(), list[BaseException](), Counter[str]()
        slowest: List[float] = []

        def load(seed: int) -> None:
            try:
                client = Wanderer(fleet.ports, seed)
                while not stop.is_set():
                    assert client.call("echo", text="x") == "x"
                    done["calls"] += 1
                done.update(client.seen)
            except BaseException as error:
                failed.append(error)

        def alone(port: int) -> None:
            try:
                with minimcp.connect(f"http://127.0.0.1:{port}/mcp") as client:
                    while not stop.is_set():
                        begun = time.monotonic()
                        assert client.call_tool("echo", {"text": "x"}).text == "x"
                        slowest.append(time.monotonic() - begun)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=load, args=(seed,)) for seed in range(4)]
        threads += [threading.Thread(target=alone, args=(fleet.ports[0],))]
        for thread in threads:
            thread.start()
        assert eventually(lambda: (done["calls"] > 50 and slowest) or failed, SECONDS)
        if how == "stopped":
            redis.stop()
            time.sleep(5)
            redis.start()
        elif how == "paused":
            redis.signal(signal.SIGSTOP)
            time.sleep(5)
            redis.signal(signal.SIGCONT)
        else:
            redis.say("FLUSHALL")
        back = done["calls"]
        assert eventually(lambda: done["calls"] > back + 50 or failed, SECONDS)
        stop.set()
        for thread in threads:
            thread.join(SECONDS)
        assert not failed, failed
        return (
            f"{done['calls']} calls, {done['told to retry']} told to retry, {done['begun anew']} sessions anew; "
            f"{len(slowest)} calls alone, the slowest {max(slowest) * 1000:.0f} ms"
        )


def proxied(stage: Stage) -> str:
    """Three gunicorn processes and two bundled servers behind nginx, by turns: our own client in
    both eras."""
    ENVIRONMENT.ready()
    with stage.fleet(2) as fleet, Place(stage.folder) as place:
        port = free_port()
        command = ["-w", "3", "--keep-alive", "0"]
        variables = {"PYTHONPATH": str(ROOT), "MINIMCP_SHARED_STORE": stage.store}
        host = ENVIRONMENT.command("gunicorn")
        place.run(
            [*host, *gunicorn(*command, app="tests.hosts.shared_server:app")(port)], port, variables
        )
        servers = " ".join(f"server 127.0.0.1:{each};" for each in (port, port, port, *fleet.ports))
        at = place.proxy(ROUND_ROBIN.replace("{servers}", servers))
        for revision in ("handshake", "auto"):
            places = set()
            answered = minimcp.connect(
                f"http://127.0.0.1:{at}/mcp",
                revision=revision,
                elicit=lambda request: {"name": "Ada"},
            )
            with answered as client:
                for number in range(1, 31):
                    if revision == "handshake":
                        counted, process = client.call_tool("count").value
                        assert counted == number, (counted, number)
                        places.add(process)
                    assert client.call_tool("ask").text == "Ada"
                told: List[Any] = []
                client.call_tool("steps", {"number": 5, "seconds": 0.01}, on_progress=told.append)
                assert [each.progress for each in told] == [1, 2, 3, 4, 5], told
            assert revision == "auto" or len(places) >= 3, places
        return "questions, progress and a count in both eras"


def foreign(stage: Stage) -> str:
    """Run all checks of the interop grid in three foreign clients, with each request at the next of
    three processes."""
    from ..interop import __main__ as grid
    from ..interop.our_server import OF_ONE
    from ..interop.roster import PEERS, R4, R5, Asked

    def hold(session: grid.Session, number: int) -> grid.Outcome:
        folder = stage.folder / str(number)
        folder.mkdir()
        with Place(folder) as place:
            ports = [free_port() for _ in range(3)]
            for port in ports:
                variables = {
                    "MINIMCP_SHARED_STORE": f"{stage.store[:-1]}{number}",
                    "PORT": str(port),
                }
                server = [
                    sys.executable,
                    "tests/interop/our_server.py",
                    str(folder / "life"),
                    "http",
                ]
                place.run(server, port, variables)
            at = place.proxy(
                ROUND_ROBIN.replace(
                    "{servers}", " ".join(f"server 127.0.0.1:{port};" for port in ports)
                )
            )
            client = grid.peer_script(session.peer, session.peer.client)
            said = grid.run([*client, session.asked.revision, f"http://127.0.0.1:{at}/mcp"], folder)
        return grid.judge(session, *said, folder / "life")

    peers = [peer for peer in PEERS if peer.name in FOREIGN]
    for peer in peers:
        peer.environment.ready()
    asked = [
        (peer, each)
        for peer in peers
        for each in (Asked(R4, R4), Asked(R5, R5))
        if each in peer.speaks
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(
            pool.map(
                hold, [grid.Session(peer, "client", each, "http") for peer, each in asked], range(9)
            )
        )
    failed = {
        f"{each.session.title}: {name}": said
        for each in outcomes
        for name, said in each.checks.items()
        if said is not True and OF_ONE not in str(said)
    }
    assert not failed, failed
    return f"{sum(each.passed for each in outcomes)} checks in {len(outcomes)} sessions"


def official(stage: Stage) -> str:
    """The official suite's scenarios for a server, each request at the next of five processes."""
    from ..conformance import suite
    from ..conformance.__main__ import SETS, required

    suite.ENVIRONMENT.ready()
    with Place(stage.folder) as place:
        ports, passed = [free_port() for _ in range(5)], []
        for port in ports:
            command = [
                sys.executable,
                "-m",
                "tests.conformance.server",
                "--port",
                str(port),
                "--redis",
                stage.store,
            ]
            place.run(command, port, {})
        servers = " ".join(f"server 127.0.0.1:{port};" for port in ports)
        at = place.proxy(
            ROUND_ROBIN.replace("{servers}", servers).replace("Host localhost", "Host $http_host")
        )
        for revision, count in SETS.items():
            found = suite.servers(f"http://localhost:{at}/mcp", "--requirements", revision)
            names = required(revision, count)
            failed = [name for name in names if name not in found or found[name].problem]
            assert not failed, (revision, [(name, found.get(name)) for name in failed])
            passed.append(f"{len(names)} of {revision}")
        return ", ".join(passed)


SCENES: Dict[str, Tuple[Callable[[Stage], str], Tuple[str, ...]]] = {
    "any process": (any_process, ("redis", "sqlite")),
    "answers": (answers, ("redis", "sqlite")),
    "killed": (killed, ("redis", "sqlite")),
    "resumed": (resumed, ("redis", "sqlite")),
    "rolling restart": (rolling, ("redis", "sqlite")),
    "proxied": (proxied, ("redis", "sqlite")),
    "foreign": (foreign, ("redis",)),
    "official": (official, ("redis",)),
    "stopped": (lambda stage: away(stage, "stopped"), ("redis",)),
    "paused": (lambda stage: away(stage, "paused"), ("redis",)),
    "flushed": (lambda stage: away(stage, "flushed"), ("redis",)),
}


# the suite allows a stream one second to open, so nothing else runs at the same time
ALONE = ("official",)


def play(name: str, kind: str) -> bool:
    """Play a scene with a store; whether all was as it should be."""
    scene, begun = SCENES[name][0], time.monotonic()
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        folder = Path(temporary)
        redis = stack.enter_context(redis_server(folder)) if kind == "redis" else None
        store = str(folder / "store.db") if redis is None else redis.url
        try:
            said, good = scene(Stage(folder, store, redis)), True
        except Exception:
            traceback.print_exc()
            log = folder / "log"
            said, good = f"FAILED {log.read_text()[-2000:] if log.exists() else ''}", False
    print(f"{name:<16} {kind:<7} {said} ({time.monotonic() - begun:.1f} s)", flush=True)
    return good


def main(names: List[str]) -> int:
    usual_signals()
    plays = [
        (name, kind)
        for name, (_, kinds) in SCENES.items()
        for kind in kinds
        if not names or name in names
    ]
    beside = [each for each in plays if each[0] not in ALONE]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        passed = list(pool.map(lambda each: play(*each), beside))
    passed += [play(*each) for each in plays if each[0] in ALONE]
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
