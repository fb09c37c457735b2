"""What arrives without being asked for: progress, log messages, changes of a list or a resource."""

from __future__ import annotations

from typing import AbstractSet, Any, Optional, Union

from .base import Wire
from .kinds import ANY, NUMBER, OBJECT, TEXT, TOKEN, Json, needed

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""In rising order."""

LOG_ORDER = {level: place for place, level in enumerate(LOG_LEVELS)}
"""The place of each level, to compare two of them."""


def log_level(text: Any) -> str:
    """The name of a level; ``warn`` is taken for ``warning``.

    Raises:
        ValueError: There is no such level.
    """
    level = "warning" if text == "warn" else text
    if not isinstance(level, str) or level not in LOG_ORDER:
        raise ValueError(f"the level of a log message is one of {', '.join(LOG_LEVELS)}")
    return level


class Progress(Wire):
    """How far a request has got.

    Args:
        progress: Grows from report to report, in any unit.
        total: The value at the end, in the same unit; None when not known.
        message: What is being done, for people.
        progress_token: Which request it is about: what that request carried as its token.
        meta: The member ``_meta``.
    """

    FIELDS = {
        "progress_token": TOKEN,
        "progress": needed(NUMBER),
        "total": NUMBER,
        "message": TEXT,
        "meta": OBJECT,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        progress: float,
        total: Optional[float] = None,
        message: Optional[str] = None,
        *,
        progress_token: Union[str, int, None] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.progress_token = progress_token
        self.progress = progress
        self.total = total
        self.message = message
        self.meta = meta
        self._start()


class LogMessage(Wire):
    """A log message of the server.

    Args:
        level: One of `LOG_LEVELS`; from a peer it is kept as it came.
        data: Any JSON value.
        logger: The name of the logger; None says nothing.
        meta: The member ``_meta``.

    Raises:
        ValueError: There is no such level.
    """

    FIELDS = {"level": needed(TEXT), "logger": TEXT, "data": needed(ANY), "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(self, level: str, data: Any, logger: Optional[str] = None, *, meta: Optional[Json] = None) -> None:
        self.level = log_level(level)
        self.logger = logger
        self.data = data
        self.meta = meta
        self._start()


CHANGES = {
    "notifications/tools/list_changed": "tools_list_changed",
    "notifications/prompts/list_changed": "prompts_list_changed",
    "notifications/resources/list_changed": "resources_list_changed",
    "notifications/resources/updated": "resource_updated",
}
"""Method of the notification to the kind of `Change`."""


class Change(Wire):
    """Something on the server changed.

    Args:
        kind: One of the values of `CHANGES`.
        uri: Of the resource that was updated; None for a list.
        meta: The member ``_meta`` of the notification.
    """

    FIELDS = {"kind": needed(TEXT), "uri": TEXT, "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(self, kind: str, uri: Optional[str] = None, *, meta: Optional[Json] = None) -> None:
        self.kind = kind
        self.uri = uri
        self.meta = meta
        self._start()

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


def covering(subscribed: AbstractSet[str], uri: str) -> Optional[str]:
    """The subscription that a change of a resource is for: of the resource itself, or of a collection that it lies in.

    Args:
        subscribed: URIs of resources and collections.
        uri: Of the resource that changed.

    Returns:
        The closest of them; None when there is none.
    """
    if uri in subscribed:
        return uri
    place = uri.rfind("/")
    while place >= 0:
        for collection in (uri[: place + 1], uri[:place]):
            if collection in subscribed:
                return collection
        place = uri.rfind("/", 0, place)
    return None
