"""How the scripted server begins and ends. Part of peer.py. Stdlib only."""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from .peer import Peer

    Json = Dict[str, Any]

HANG = 60
"""Seconds after which a peer that hangs ends by itself, should nobody end it."""


def hang(peer: Peer) -> None:
    """Do nothing and see nothing, until a signal that is not ignored."""
    signal.setitimer(signal.ITIMER_REAL, HANG)
    while True:
        signal.pause()


def stop(peer: Peer) -> None:
    """Read nothing any more, and exit when the client lets go of the input."""
    watch = select.poll()
    watch.register(peer.stdin, 0)  # hanging up is always told
    watch.poll(HANG * 1000)
    peer.note("eof")
    os._exit(0)


def leave(code: int) -> Callable[..., None]:
    """Exit at once with a code."""

    def leave_now(peer: Peer, *_: Any) -> None:
        os._exit(code)

    return leave_now


def nothing(peer: Peer, *_: Any) -> None:
    """Leave it unanswered."""


def dies_at_start(peer: Peer) -> None:
    """Say why on stderr, and exit."""
    os.write(2, b"first words\nno database: giving up\n")
    os._exit(3)


def dies_by_signal(peer: Peer) -> None:
    """End by a signal."""
    os.kill(os.getpid(), signal.SIGKILL)


def banner(peer: Peer) -> None:
    """Talk on stdout before there is any JSON."""
    peer.write(b'Welcome to the server!\n\n   \r\nListening on stdio {not json}\n"text"\n17\n')


def bom(peer: Peer) -> None:
    """Begin with a byte order mark and a line of text."""
    peer.write(b"\xef\xbb\xbfhello\n")


def only_banner(peer: Peer) -> None:
    """Print a usage text on stdout and exit, as a command does that is no server."""
    peer.write(b"usage: peer [options]\n")
    os._exit(2)


def ignore_signals(peer: Peer) -> None:
    """Take note of SIGTERM, SIGINT and SIGHUP, and go on."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, frame: peer.note("signal", number=got))


def note_signals(peer: Peer) -> None:
    """Take note of SIGTERM and end by it."""

    def end(number: int, frame: Any) -> None:
        peer.note("signal", number=number)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)


def grandchild(peer: Peer) -> None:
    """Start a process of the same group that holds all pipes and ignores what this one is told."""
    pid = os.fork()
    if pid == 0:
        hang(peer)
        os._exit(0)
    peer.note("grandchild", child=pid)


def escaped(peer: Peer) -> None:
    """The same in a session of its own, as a daemon is: a signal to the group does not reach it."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        peer.note("escaped")
        hang(peer)
        os._exit(0)
    peer.note("grandchild", child=pid)


def stderr_flood(peer: Peer) -> None:
    """Write 20 MB to stderr before reading anything."""
    block = b"".join(
        b"line %07d of a very talkative server, up to 64 bytes in all..\n" % n for n in range(16384)
    )
    for _ in range(20):
        view = memoryview(block)
        while view:
            view = view[os.write(2, view) :]
    os.write(2, b"the last words\n")


def deaf(peer: Peer) -> None:
    """Answer the first requests and never read again."""
    for line in peer.lines():
        peer.take(line)
        if b'"tools/list"' in line:
            break
    stop(peer)


STARTS: Dict[str, Callable[[Peer], None]] = {
    "plain": nothing,
    "silent": stop,
    "dies-at-start": dies_at_start,
    "dies-by-signal": dies_by_signal,
    "banner": banner,
    "bom": bom,
    "only-banner": only_banner,
    "ignore-signals": ignore_signals,
    "note-signals": note_signals,
    "grandchild": grandchild,
    "escaped": escaped,
    "stderr-flood": stderr_flood,
    "deaf": deaf,
    "duplex": nothing,
}

ENDS: Dict[str, Callable[[Peer], None]] = {
    "exit": leave(0),
    "hang": hang,
    "fail": leave(9),
}
