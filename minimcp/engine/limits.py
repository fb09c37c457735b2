"""`Limits`: what peers may cost a server or a client, as numbers with units."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Optional


@dataclass(frozen=True)
class Limits:
    """What peers may cost. None means no limit. One object may serve many servers and clients; immutable.

    Raises:
        TypeError: A value is no number.
        ValueError: A number is too small, infinite, or none.
    """

    message_bytes: Optional[int] = 64 * 1024 * 1024
    """Bytes of the longest message, either way."""

    depth: Optional[int] = 256
    """How deep arrays and objects of a message may nest."""

    batch: Optional[int] = 100
    """Messages in one array."""

    workers: Optional[int] = 64
    """Handlers of a server, or of a client, that run at the same time; those that wait in the library do not count."""

    requests: Optional[int] = 1000
    """Requests of a server's clients that are begun and unfinished, waiting ones included."""

    backlog_bytes: Optional[int] = 64 * 1024 * 1024
    """Bytes per connection or session that wait: requests not begun, and messages that the peer does not take."""

    streams: Optional[int] = 256
    """Streams of change notifications open at once: `subscriptions/listen`, and GET over HTTP. 0 serves none."""

    rounds: Optional[int] = 8
    """How often one request may come back with more answers (2026-07-28)."""

    ask_timeout: Optional[float] = 600.0
    """Seconds that a client gets for an answer, and that a request state between rounds is good for."""

    drain_grace: float = 5.0
    """Seconds that running requests get when a connection ends or the server closes."""

    write_timeout: Optional[float] = 30.0
    """Seconds after which a peer that takes no byte is lost."""

    cache_bytes: Optional[int] = 16 * 1024 * 1024
    """Bytes of results that a client keeps; those that were not used for longest go first."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check_number(field.name, getattr(self, field.name), least=_LEAST.get(field.name, 0),
                         whole=field.name not in _SECONDS, optional=field.name != "drain_grace")
        if self.ask_timeout == 0:
            raise ValueError("ask_timeout is more than 0 seconds")


_SECONDS = ("ask_timeout", "drain_grace", "write_timeout")
_LEAST = {"depth": 1, "batch": 1, "workers": 1, "requests": 1, "rounds": 1}


def check_number(name: str, value: object, *, least: float = 0, whole: bool = True, optional: bool = True) -> None:
    """Refuse what is no such number.

    Args:
        name: Of the option, for the message.
        value: What was given.
        least: The smallest number that is allowed.
        whole: Whether it is a count; False for seconds.
        optional: Whether None is allowed.

    Raises:
        TypeError: It is no number.
        ValueError: It is too small, infinite, or none.
    """
    if value is None and optional:
        return
    number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    what = ("a whole number" if whole else "a number of seconds") + (" or None" if optional else "")
    if not number:
        raise TypeError(f"{name} is {what}, not {repr(value):.60}")
    assert isinstance(value, (int, float))
    if value - value != 0.0:
        raise ValueError(f"{name} is {what}, not {value}")
    if value < least:
        raise ValueError(f"{name} is at least {least}, not {value}")
