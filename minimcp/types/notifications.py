"""Notifications: progress, log messages, and changes of a list or a resource."""

from __future__ import annotations

from typing import Any, Optional, Union

from ..protocol.lifecycle import LOG_LEVELS
from ..protocol.messages import PARAPHRASE_LEVELS
from ..protocol.versions import CHANGES
from .base import Json, Wire, member, one_of


class Progress(Wire):
    """The progress of a request.

    Args:
        progress: A number that grows with each notification, in any unit.
        total: The final number in the same unit; None if unknown.
        message: The current activity, for people.
        progress_token: The token of the request.
        meta: The member ``_meta``.
    """

    progress: float
    total: Optional[float] = None
    message: Optional[str] = None
    progress_token: Union[str, int, None] = None
    meta: Optional[Json] = None


class LogMessage(Wire):
    """A log message of the server.

    Args:
        level: One of `LOG_LEVELS`, or "warn". The level of a received message is kept unchanged.
        data: Any JSON value.
        logger: The name of the logger, or None.
        meta: The member ``_meta``.

    Attributes:
        connection: The server's name in the host's config, or None if it was not connected to by
            name.

    Raises:
        ValueError: The level does not exist.
    """

    level: str = member(
        convert=lambda level: (
            PARAPHRASE_LEVELS.get(level, level) if isinstance(level, str) else level
        ),
        check=one_of(tuple(LOG_LEVELS)),
    )
    data: Any
    logger: Optional[str] = None
    meta: Optional[Json] = None
    connection: Optional[str] = member(init=False, default=None)


class Change(Wire):
    """A change on the server.

    Args:
        kind: One of the values of `CHANGES`.
        uri: The URI of the resource that was updated; None for a list.
        meta: The member ``_meta`` of the notification.
    """

    kind: str
    uri: Optional[str] = None
    meta: Optional[Json] = None

    @classmethod
    def from_notice(cls, method: str, params: Optional[Json]) -> Change:
        """Read a notification.

        Raises:
            ValueError: The method does not report a change, or a member is missing or has a wrong
                type.
        """
        if method not in CHANGES:
            raise ValueError(f"{method} does not report a change")
        made = cls.from_wire({**(params or {}), "kind": CHANGES[method]})
        if made.kind == "resource_updated" and made.uri is None:
            raise ValueError("Change: uri is missing")
        return made

    def to_wire(self) -> Json:
        """Return the params of the notification; the method shows the kind."""
        made = super().to_wire()
        del made["kind"]
        return made
