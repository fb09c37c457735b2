"""Suggestions for the value of an argument."""

from __future__ import annotations

from typing import Any, Iterable, Optional

from .base import Wire, listed
from .kinds import FLAG, STRINGS, WHOLE, Json, json_type, needed


class Completion(Wire):
    """Suggestions, best first. On the wire they stand in the member ``completion`` of the result.

    Args:
        values: The suggestions. What is sent has at most 100; a completer may return more.
        total: How many there are in all; None when not known.
        has_more: Whether there are more; None says nothing.
        meta: The member ``_meta`` of the result.
    """

    FIELDS = {"values": needed(STRINGS), "total": WHOLE, "has_more": FLAG}
    LOCAL = ("meta",)
    __slots__ = (*FIELDS, *LOCAL)

    def __init__(
        self,
        values: Iterable[str],
        total: Optional[int] = None,
        has_more: Optional[bool] = None,
        *,
        meta: Optional[Json] = None,
    ) -> None:
        self.values = listed(values)
        self.total = total
        self.has_more = has_more
        self.meta = meta
        self._start()

    @classmethod
    def from_wire(cls, mapping: Any) -> Completion:
        """Read the result of ``completion/complete``.

        Raises:
            ValueError: It is no such result; one line says why.
        """
        if not isinstance(mapping, dict):
            raise ValueError(f"Completion: must be an object, not {json_type(mapping)}")
        made = super().from_wire(mapping.get("completion"))
        meta = mapping.get("_meta")
        made.meta = meta if isinstance(meta, dict) else None
        return made

    def to_wire(self) -> Json:
        """The result of ``completion/complete``."""
        result: Json = {"completion": super().to_wire()}
        if self.meta is not None:
            result["_meta"] = self.meta
        return result
