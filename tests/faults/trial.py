"""One case against one subject: the processes that it may start, the messages that it sends, and
the verdict."""

from __future__ import annotations

import random
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from ..wire.messages import EVERY, MODERN, encode, modern, notification, request, same
from .catalogue import ROWS
from .client import Client
from .http_raw import Session, Site, Terms
from .raw import Server, shown, signs

PASS, ABSENT, WARN, FAIL = "pass", "n/a", "warn", "FAIL"
BADNESS = (PASS, ABSENT, WARN, FAIL)
"""From good to bad. A warning means that the subject survives and misleads no peer, but deviates
from the row."""

START = 30.0  # seconds that any start may take, independent of the patience


class Subject(NamedTuple):
    """The program under test."""

    server: Tuple[str, ...]  # a command that serves over stdin and stdout
    adapter: Tuple[str, ...]  # a command that is a client
    revisions: Tuple[
        str, ...
    ] = ()  # the server's revisions; `find` fills in this field and the next
    tools: FrozenSet[str] = frozenset()  # its tools
    http: Tuple[str, ...] = ()  # a command that serves over HTTP
    http_revisions: Tuple[
        str, ...
    ] = ()  # the HTTP server's revisions; `find_http` fills in this field and the next
    http_tools: FrozenSet[str] = frozenset()  # its tools
    tunable: bool = False  # whether the server follows the terms in its environment; otherwise the usual terms apply


class Options(NamedTuple):
    """How it is tried."""

    seed: int = 1  # the seed of every random choice
    patience: float = 10.0  # seconds after which a wait is a hang
    slack: float = 1.0  # what every bound of a row is multiplied by, for a busy machine
    full: bool = False  # use the numbers of the catalogue, where the usual run takes fewer
    mutations: int = 10_000  # how many mutated messages C20 sends


class Outcome(NamedTuple):
    """The report of a case. `metrics` maps a name to a value and its unit."""

    id: str
    verdict: str
    observed: str
    metrics: Dict[str, Tuple[float, str]]
    seconds: float


class Missing(Exception):
    """The subject lacks something that the case needs."""


def needs(needed: Tuple[str, ...], tools: FrozenSet[str]) -> None:
    missing = [tool for tool in needed if tool not in tools]
    if missing:
        raise Missing(f"no tool {', '.join(missing)}")


def one_of_each(older: str, spoken: Tuple[str, ...]) -> List[str]:
    return [revision for revision in (older, MODERN) if revision in spoken] or list(spoken[:1])


class Trial:
    def __init__(self, id: str, subject: Subject, options: Options) -> None:
        self.id, self.subject, self.options = id, subject, options
        self.dice = random.Random(f"{options.seed} {id}")
        self.verdict = PASS
        self.said: List[str] = []
        self.metrics: Dict[str, Tuple[float, str]] = {}
        self._started: List[Any] = []

    # Findings of the case.

    def fail(self, text: str) -> None:
        """Record that the subject crashed, hung, deceived a peer or leaked something."""
        self._worse(FAIL, text)

    def warn(self, text: str) -> None:
        """Record a harmless deviation from the row."""
        self._worse(WARN, text)

    def _worse(self, verdict: str, text: str) -> None:
        self.verdict = max(self.verdict, verdict, key=BADNESS.index)
        self.said.append(text)

    def expect(self, condition: object, text: str) -> None:
        """Fail with this text unless the condition holds."""
        if not condition:
            self.fail(text)

    def below(self, what: str, value: float, bound: float, unit: str = "s") -> None:
        """Measure, and fail when it is more than the bound; bounds in seconds are stretched by the
        slack."""
        self.metrics[what] = (round(value, 3), unit)
        stretched = bound * self.options.slack if unit == "s" else bound
        self.expect(value <= stretched, f"{what}: {value:.3g} {unit}, not {stretched:g}")

    def note(self, what: str, value: float, unit: str) -> None:
        self.metrics[what] = (round(value, 3), unit)

    def count(self, usual: int, full: int) -> int:
        found = full if self.options.full else usual
        self.note("tried", found, "")
        return found

    def at_once(self, *works: Callable[[], None]) -> None:
        with ThreadPoolExecutor(len(works)) as pool:
            for found in [pool.submit(work) for work in works]:
                found.result()

    # Processes of the case.

    def server(self, revision: Optional[str] = "2025-06-18", *needed: str, **others: Any) -> Server:
        """Start the server, and open the session; `needed` are tools without which there is no
        case.

        `others` are as for `Server`, and may name another command.
        """
        needs(needed, self.subject.tools)
        if revision is not None and revision not in self.subject.revisions:
            raise Missing(f"does not speak {revision}")
        command = others.pop("command", self.subject.server)
        # starting the server is not part of the case
        server: Server = self.keep(
            Server(command, None, max(START, 3 * self.options.patience), **others)
        )
        server.tools = self.subject.tools
        if revision == MODERN:
            server.revision = MODERN
            server.ping()
        elif revision is not None:
            server.initialize(revision)
        server.patience = self.options.patience
        return server

    def eras(self) -> List[str]:
        """One revision of each era that the subject speaks."""
        return one_of_each("2025-06-18", self.subject.revisions)

    def http_eras(self) -> List[str]:
        return one_of_each("2025-11-25", self.subject.http_revisions)

    def site(self, *needed: str, **terms: float) -> Site:
        """Start the HTTP server, with these terms if it accepts terms and --full is not given."""
        if not self.subject.http:
            raise Missing("no HTTP server")
        needs(needed, self.subject.http_tools)
        told = terms if self.subject.tunable and not self.options.full else {}
        site: Site = self.keep(start_http(self.subject, self.options, told))
        return site

    def hasty(self, **terms: float) -> Site:
        """The same with --full too: what would be waited for takes half an hour."""
        if not self.subject.tunable:
            raise Missing("terms that cannot be changed")
        site: Site = self.keep(start_http(self.subject, self.options, terms))
        return site

    def sessions(self, site: Site) -> List[Session]:
        return [site.session(revision) for revision in self.http_eras()]

    def probed(self, site: Site, bound: float = 0.2, what: str = "a probe meanwhile") -> None:
        """Check that another connection is served at the same time: usually within the bound, and
        never slower than five times the bound."""
        usual, worst = site.probes()
        self.below(what, max(usual, self.metrics.get(what, (0.0, ""))[0]), bound)
        self.note(
            f"{what}, slowest", max(worst, self.metrics.get(f"{what}, slowest", (0.0, ""))[0]), "s"
        )
        self.expect(worst <= 5 * bound * self.options.slack, f"{what}: {worst:.2f} s once")

    def calm(self, site: Site) -> None:
        log = site.stderr()
        self.expect(
            "Traceback" not in log,
            f"a traceback in the log: {log.rpartition('Traceback')[2][-200:]!r}",
        )

    def freed(self, site: Site, files: float, what: str, wait: Optional[float] = None) -> None:
        """Check that the subject has no more open descriptors than these, at once or after a while."""
        left = site.settled(site.descriptors, files, wait) - files
        self.expect(left <= 0, f"{left:g} descriptors are left of {what}")

    def client(self, **others: Any) -> Client:
        """Start the client adapter; `others` as for `Client`."""
        if not self.subject.adapter:
            raise Missing("no client adapter")
        client: Client = self.keep(Client(self.subject.adapter, self.options.patience, **others))
        return client

    def keep(self, started: Any) -> Any:
        self._started.append(started)
        return started

    # Judging one line.

    def refused(
        self, server: Server, line: bytes, codes: Tuple[int, ...], id: Any = None, name: str = ""
    ) -> None:
        """Send a line that must be answered with one error, with one of these codes and this id
        (None: none or null).

        Silence is a failure if the id can be read, because a client waits for it; otherwise a
        warning.
        """
        name = name or shown(line)
        got = server.replies(line)
        if not got:
            (self.warn if id is None else self.fail)(f"no answer to {name}")
        elif len(got) > 1 or not isinstance(got[0], dict):
            self.fail(f"{len(got)} answers to {name}")
        elif "error" not in got[0]:
            self.fail(f"{name} was served: {shown(got[0])}")
        elif not same(got[0].get("id"), id):
            self.fail(f"answered under the id {got[0].get('id')!r}: {name}")
        elif got[0]["error"].get("code") not in codes:
            self.warn(f"code {got[0]['error'].get('code')} for {name}")

    def served(
        self, server: Server, line: bytes, id: Any, name: str = ""
    ) -> Optional[Dict[str, Any]]:
        """Send a line that must have one result with this id; the result."""
        name = name or shown(line)
        got = server.replies(line)
        if (
            len(got) != 1
            or not isinstance(got[0], dict)
            or "result" not in got[0]
            or not same(got[0].get("id"), id)
        ):
            self.fail(f"{name} was not served: {shown(got)}")
            return None
        found: Dict[str, Any] = got[0]["result"]
        return found

    # Its end.

    def close(self) -> None:
        """End all started processes, and check their stderr."""
        for started in self._started:
            for sign in signs(started.stderr()):
                self.fail(f"stderr: {sign}")
            started.dispose()

    def outcome(self, seconds: float) -> Outcome:
        said = [text for index, text in enumerate(self.said) if text not in self.said[:index]]
        more = f"; and {len(said) - 3} more" if len(said) > 3 else ""
        return Outcome(
            self.id, self.verdict, "; ".join(said[:3]) + more, self.metrics, round(seconds, 2)
        )


Case = Callable[[Trial], None]
CASES: Dict[str, Case] = {}  # every case by the name of its row


def case(id: str) -> Callable[[Case], Case]:
    """Register a function as the case of a row."""
    assert id in ROWS and id not in CASES, id

    def register(function: Case) -> Case:
        CASES[id] = function
        return function

    return register


def each_era(id: str, *needed: str) -> Callable[[Callable[[Trial, Server], None]], Case]:
    """Register the case of a row that is tried on a server of each era, which lives at its end."""

    def register(function: Callable[[Trial, Server], None]) -> Case:
        @case(id)
        def whole(t: Trial) -> None:
            for revision in t.eras():
                server = t.server(revision, *needed)
                function(t, server)
                server.alive(t.options.slack)

        return whole

    return register


def on_site(
    id: str, *needed: str, **terms: float
) -> Callable[[Callable[[Trial, Site], None]], Case]:
    """Register the case of a row tried on an HTTP server, which lives at its end and has logged no
    traceback."""

    def register(function: Callable[[Trial, Site], None]) -> Case:
        @case(id)
        def whole(t: Trial) -> None:
            site = t.site(*needed, **terms)
            function(t, site)
            site.alive(t.options.slack)
            t.calm(site)

        return whole

    return register


def run(id: str, subject: Subject, options: Options) -> Outcome:
    """Try one row on a subject, and catch every exception."""
    trial, begun = Trial(id, subject, options), time.monotonic()
    try:
        try:
            CASES[id](trial)
        finally:
            trial.close()
    except Missing as missing:
        trial._worse(ABSENT, str(missing))
    except AssertionError as error:
        trial.fail(str(error).strip().replace("\n", " ")[-300:] or "an assertion of the runner")
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        trial.fail(f"{type(error).__name__}: {error}")
    return trial.outcome(time.monotonic() - begun)


def find(subject: Subject, options: Options) -> Subject:
    """Ask a server which revisions it speaks and which tools it has."""

    def speaks(revision: str) -> Optional[FrozenSet[str]]:
        """The tools that it shows in a revision with a handshake; None when it does not speak the
        revision."""
        server = Server(subject.server, None, max(START, 3 * options.patience))  # all start at once
        try:
            if revision == MODERN:
                server.write(request("d", "server/discover", modern()))
                versions = server.answer("d").get("result", {}).get("supportedVersions", ())
                return frozenset() if MODERN in versions else None
            server.initialize(revision)
            return tools_of(server) if server.revision == revision else None
        except AssertionError:
            return None
        finally:
            server.dispose()

    with ThreadPoolExecutor(len(EVERY)) as pool:  # most of it is the start of processes
        found = list(pool.map(speaks, EVERY))
    spoken = tuple(revision for revision, tools in zip(EVERY, found) if tools is not None)
    assert spoken, f"{' '.join(subject.server)} speaks no revision that the runner knows"
    return subject._replace(revisions=spoken, tools=frozenset().union(*filter(None, found)))


def tools_of(peer: Any) -> FrozenSet[str]:
    return frozenset(
        tool["name"] for tool in peer.ask("tools/list").get("result", {}).get("tools", ())
    )


def start_http(
    subject: Subject, options: Options, told: Optional[Dict[str, float]] = None, **others: Any
) -> Site:  # `others` as for `Site`
    terms = Terms(**(told or {}))  # type: ignore[arg-type]
    site = Site(subject.http, options.patience, terms, told=told, **others)
    site.revisions, site.tools = subject.http_revisions, subject.http_tools
    return site


def find_http(subject: Subject, options: Options) -> Subject:
    """Ask an HTTP server which revisions it speaks and which tools it has."""
    spoken: Dict[str, FrozenSet[str]] = {}
    site = start_http(subject, options)
    try:
        for revision in EVERY:
            try:
                session = site.session(revision)
                if session.revision == revision:
                    session.ping()
                    spoken[revision] = tools_of(session)
                session.end()
            except AssertionError:
                continue
    finally:
        site.dispose()
    assert spoken, f"{' '.join(subject.http)} speaks no revision that the runner knows"
    return subject._replace(
        http_revisions=tuple(spoken), http_tools=frozenset().union(*spoken.values())
    )


def say(method: str, params: Any = None) -> bytes:
    return encode(notification(method, params))
