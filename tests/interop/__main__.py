"""`python -m tests.interop [--only PEER]`: install the peers, hold every session, print the grid.

Exit code 1 when a peer cannot be installed or a check failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Sequence

from .environments import InstallFailed
from .roster import PEERS, WAYS, Peer
from .sessions import Outcome, hold, sessions_of

INSTALLERS = 4


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("--only", metavar="PEER", action="append", choices=[peer.name for peer in PEERS],
                        help="this peer alone; may be given several times")
    parser.add_argument("--role", choices=["server", "client"], help="the role of the foreign side")
    parser.add_argument("--way", choices=WAYS, help="over this alone")
    parser.add_argument("--revision", help="these sessions alone: a revision, auto or handshake")
    parser.add_argument("--jobs", type=int, default=max(2, os.cpu_count() or 2), help="sessions at a time")
    parser.add_argument("--verbose", action="store_true", help="show each failed session's stderr")
    return parser.parse_args(arguments)


def install(peers: Sequence[Peer]) -> bool:
    with ThreadPoolExecutor(INSTALLERS) as pool:  # they wait for the network, mostly
        return all(list(pool.map(_install, peers)))


def _install(peer: Peer) -> bool:
    begun = time.monotonic()
    try:
        peer.environment.ready()
    except InstallFailed as error:
        print(f"{peer.name} {peer.version} CANNOT BE INSTALLED:\n{error}\n", flush=True)
        return False
    print(f"{peer.name} {peer.version} ready ({time.monotonic() - begun:.1f} s)", flush=True)
    return True


def show_grid(outcomes: Sequence[Outcome]) -> None:
    row = "{:<20}{:<12}{:<8}{:<7}{:<11}{:<12}{:>7}{:>13}  {}"
    print("\n" + row.format("peer", "version", "role", "way", "asked", "revision", "checks", "peer's fault", "failed"))
    for outcome in outcomes:
        peer, role, asked, way = outcome.session
        failed = ", ".join(name for name, result in outcome.checks.items() if result is not True)
        tally = f"{outcome.passed}/{len(outcome.checks)}"
        print(row.format(peer.name, peer.version, role, way, asked.revision, outcome.revision, tally,
                         len(outcome.known) or "", failed))


def show_faults(outcomes: Sequence[Outcome]) -> None:
    """Show each fault of a peer once, with what the first session with it saw."""
    shown = set()
    for outcome in outcomes:
        for fault, result in outcome.known.values():
            if (outcome.session.peer.name, fault) not in shown:
                shown.add((outcome.session.peer.name, fault))
                print(f"\n{outcome.session.title}: {fault.check}: the peer's fault: {fault.reason}\n  seen: {result}")


def show_failures(outcomes: Sequence[Outcome], verbose: bool) -> None:
    for outcome in outcomes:
        for name, result in outcome.checks.items():
            if result is not True:
                print(f"\n{outcome.session.title}: {name}: {result}")
        if verbose and outcome.failed and outcome.stderr:
            print(f"--- stderr of {outcome.session.title}\n{outcome.stderr}")


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    begun = time.monotonic()
    peers = [peer for peer in PEERS if not options.only or peer.name in options.only]
    if not install(peers):
        return 1
    wanted = [session for peer in peers for session in sessions_of(peer)
              if options.role in (None, session.role) and options.way in (None, session.way)
              and options.revision in (None, session.asked.revision)]
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(hold, session) for session in wanted]
        for future in as_completed(futures):
            print("F" if future.result().failed else ".", end="", flush=True)
    outcomes = [future.result() for future in futures]
    show_grid(outcomes)
    show_faults(outcomes)
    show_failures(outcomes, options.verbose)
    failed = sum(outcome.failed for outcome in outcomes)
    checks = sum(len(outcome.checks) for outcome in outcomes)
    passed = sum(outcome.passed for outcome in outcomes)
    known = sum(len(outcome.known) for outcome in outcomes)
    print(f"\n{len(outcomes)} sessions, {passed} of {checks} checks passed, {known} more fail by the peers' faults, "
          f"{failed} sessions failed, "
          f"{time.monotonic() - begun:.0f} s")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
