"""`python -m tests.hosts [NAME...]`: our server under gunicorn, waitress, cheroot, Flask, Django
and nginx.

The Python packages are installed at the versions in `running`, into an environment of their own;
nginx comes from the system's packages. Prints one line per host and era, and one per scene; exit
code 1 when one cannot be installed or fails.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

from tests.interop.environments import InstallFailed
from tests.support import usual_signals

from .running import ENVIRONMENT, HOSTS, Host, Place, end, free_port, nginx
from .scenes import SCENES, Scene
from .visit import OpenCall, Visit

AT_ONCE = 3  # most of the time is spent waiting

PLAIN = """
server {
    listen 127.0.0.1:{port};
    location / {
        proxy_pass http://127.0.0.1:{behind};
    }
}
"""


class Outcome(NamedTuple):
    """The labels of steps that passed, and the faults of the others."""

    passed: list[str]
    failed: list[str]

    def do(self, word: str, step: Callable[[], object]) -> None:
        try:
            step()
            self.passed.append(word)
        except Exception:
            traceback.print_exc()
            self.failed.append(word)


def at_place(work: Callable[[Place, Outcome], None]) -> Outcome:
    """Run a job in a folder of its own, and print its logs if it fails."""
    outcome = Outcome([], [])
    with tempfile.TemporaryDirectory() as folder:
        with Place(Path(folder)) as place:
            try:
                work(place, outcome)
            except Exception as error:
                traceback.print_exc()
                outcome.failed.append(str(error))
        if outcome.failed:
            print(place.logged())
    return outcome


def visit_host(host: Host, revision: str) -> Outcome:
    """Start a host, do everything to it in one era, and end it in the middle of a call."""

    def stay(place: Place, outcome: Outcome) -> None:
        port, sessions = free_port(), host.processes == 1
        process = place.serve(host, port, sessions=sessions)
        at = place.proxy(PLAIN, behind=port) if host.proxied else port
        calls = 20 if host.processes > 1 else 5
        visit = Visit(
            f"http://127.0.0.1:{at}/mcp",
            revision,
            place.folder,
            sessions,
            host.processes,
            host.page,
            calls,
        )
        for word, check in visit.checks().items():
            outcome.do(word, check)
        if visit.modern:
            with OpenCall(visit):
                ended = end(process, host.graceful)
            (outcome.passed if ended else outcome.failed).append("ends in mid-call")

    return at_place(stay)


def play(scene: Scene) -> Outcome:

    def steps(place: Place, outcome: Outcome) -> None:
        for word, step in scene(place):
            outcome.do(word, step)

    return at_place(steps)


class Job(NamedTuple):
    """A host in one era, or a scene."""

    name: str
    what: str
    work: Callable[[], Outcome]


def jobs(names: Sequence[str]) -> list[Job]:
    """Return the jobs with these names; without names, all jobs."""
    found = [
        Job(name, era, partial(visit_host, host, revision))
        for name, host in HOSTS.items()
        for era, revision in (("2026-07-28", "auto"), ("handshake", "handshake"))
    ]
    found += [Job(name, "scene", partial(play, scene)) for name, scene in SCENES.items()]
    return [job for job in found if not names or job.name in names]


class Done(NamedTuple):
    """The line to print for a job, and whether all was as it should be."""

    line: str
    good: bool


def timed(job: Job) -> Done:
    begun = time.monotonic()
    passed, failed = job.work()
    said = f"FAILED: {', '.join(failed)}" if failed else ", ".join(passed)
    return Done(
        f"{job.name:<16} {job.what:<10} {said} ({time.monotonic() - begun:.1f} s)", not failed
    )


def main(names: Sequence[str]) -> int:
    """Install, visit every host in both eras, play every scene, and return the exit code."""
    usual_signals()
    try:
        ENVIRONMENT.ready()
        nginx()
    except InstallFailed as error:
        print(error)
        return 1
    passed: list[bool] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in pool.map(timed, jobs(names)):
            print(done.line, flush=True)
            passed.append(done.good)
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
