"""What arrives without being asked for: progress, log messages, changes of a list or a resource."""

from __future__ import annotations

from typing import Any, Optional, Union

from ..protocol.lifecycle import LOG_LEVELS
from ..protocol.messages import PARAPHRASE_LEVELS
from ..protocol.versions import LISTS
from .base import Json, Wire, member, one_of


class Progress(Wire):
    """How far a request has got.

    Args:
        progress: Grows from report to report, in any unit.
        total: The value at the end, in the same unit; None when not known.
        message: What is being done, for people.
        progress_token: Which request it is about: what that request carried as its token.
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
        level: One of `LOG_LEVELS`, or "warn"; from a peer it is kept as it came.
        data: Any JSON value.
        logger: The name of the logger; None says nothing.
        meta: The member ``_meta``.

    Raises:
        ValueError: There is no such level.
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


CHANGES = {
    **{f"notifications/{name}/list_changed": f"{name}_list_changed" for name in LISTS},
    "notifications/resources/updated": "resource_updated",
}
"""Method of the notification to the kind of `Change`. What a new one needs elsewhere: "Adding a
notification" in examples/design.rst."""


class Change(Wire):
    """Something on the server changed.

    Args:
        kind: One of the values of `CHANGES`.
        uri: Of the resource that was updated; None for a list.
        meta: The member ``_meta`` of the notification.
    """

    kind: str
    uri: Optional[str] = None
    meta: Optional[Json] = None

    @classmethod
    def from_notice(cls, method: str, params: Optional[Json]) -> Change:
        """Read a notification.

        Raises:
            ValueError: The method tells of no change, or a member is missing or of a wrong type.
        """
        if method not in CHANGES:
            raise ValueError(f"{method} tells of no change")
        made = cls.from_wire({**(params or {}), "kind": CHANGES[method]})
        if made.kind == "resource_updated" and made.uri is None:
            raise ValueError("Change: uri is missing")
        return made

    def to_wire(self) -> Json:
        """The params of the notification; the kind stands in its method."""
        made = super().to_wire()
        del made["kind"]
        return made
