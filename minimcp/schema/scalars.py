"""The kinds without parts: text, numbers, truth, dates, identifiers, paths.

Modules such as ``decimal`` are imported when an annotation names their class: then somebody has paid already.
The words of JSON Schema's ``format`` do not narrow what is read beyond what the Python class can hold.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, FrozenSet, Optional

from .kind import JSON_TYPES, NOTHING_TYPE, Kind
from .mismatch import Mismatch

_NUMBERS: FrozenSet[type] = frozenset({int, float})
_TEXT: FrozenSet[type] = frozenset({str})


def text() -> Kind:
    """``str``."""

    def read(value: Any) -> str:
        if isinstance(value, str):
            return value if type(value) is str else str.__str__(value)
        raise Mismatch("a string", value)

    return Kind({"type": "string"}, read, read, "a string", _TEXT, exact=str, is_plain=True)


def free_name() -> Kind:
    """A name in an object of anything: a string; on the way out an integer too, as the standard library has it."""
    base = text()

    def write(value: Any) -> str:
        return str(int(value)) if isinstance(value, int) and not isinstance(value, bool) else str(base.write(value))

    return base.changed(write=write)


def truth() -> Kind:
    """``bool``."""

    def read(value: Any) -> bool:
        if value is True or value is False:
            return bool(value)
        raise Mismatch("true or false", value)

    return Kind({"type": "boolean"}, read, read, "true or false", frozenset({bool}), exact=bool, is_plain=True)


def nothing() -> Kind:
    """``None``."""

    def read(value: Any) -> None:
        if value is not None:
            raise Mismatch("null", value)

    accepts = frozenset({NOTHING_TYPE})
    return Kind({"type": "null"}, read, read, "null", accepts, exact=NOTHING_TYPE, is_plain=True)


def integer() -> Kind:
    """``int``: JSON's integers, 1.0 among them; true and false are none."""

    def read(value: Any) -> int:
        if type(value) is int:
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, (bool, float)) and hasattr(value, "__index__"):
            return int(value)  # an IntEnum on its way out, or a number of a numeric library
        raise Mismatch("an integer", value)

    return Kind({"type": "integer"}, read, read, "an integer", _NUMBERS, exact=int, is_plain=True)


def number() -> Kind:
    """``float``: every finite number. An integer too large for a float stays an integer."""

    def read(value: Any) -> float:
        if isinstance(value, float) and value - value == 0.0:
            return float(value)
        if not isinstance(value, (bool, float)) and hasattr(value, "__index__"):
            try:
                return float(value)
            except OverflowError:
                return int(value)
        raise Mismatch("a number", value)

    return Kind({"type": "number"}, read, read, "a number", _NUMBERS, exact=float, is_plain=True)


def _written_as_text(
    cls: type,
    words: Dict[str, Any],
    label: str,
    read: Callable[[str], Any],
    write: Callable[[Any], str] = str,
) -> Kind:
    """A class whose instances travel as strings; `read` raises ValueError for a string that is none of them."""
    name = f"a {cls.__name__}"

    def read_text(value: Any) -> Any:
        if isinstance(value, str):
            try:
                return read(value)
            except (ValueError, OverflowError):
                pass
        raise Mismatch(label, value)

    def write_text(value: Any) -> str:
        if isinstance(value, cls):
            return write(value)
        raise Mismatch(name, value)

    return Kind({"type": "string", **words}, read_text, write_text, label, _TEXT, writes=cls)


_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_TIME = r"(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(Z|[+-]\d\d:?\d\d)?"


def _parts(pattern: str) -> Callable[[str], Any]:
    match = re.compile(pattern, re.IGNORECASE | re.ASCII).fullmatch

    def parts(value: str) -> Any:
        found = match(value)
        if not found:
            raise ValueError(value)
        return found.groups()

    return parts


def _clock(hour: str, minute: str, second: Optional[str], fraction: Optional[str], zone: Optional[str]) -> Any:
    """The arguments that ``time`` and ``datetime`` end with. ``fromisoformat`` of 3.9 reads too little."""
    import datetime

    offset = None
    if zone:
        offset = datetime.timezone.utc
        if zone not in "Zz":
            minutes = int(zone[1:3]) * 60 + int(zone[-2:])
            offset = datetime.timezone(datetime.timedelta(minutes=-minutes if zone[0] == "-" else minutes))
    return int(hour), int(minute), int(second or 0), int(f"{fraction or ''}000000"[:6]), offset


def date(cls: type) -> Kind:
    """``datetime.date`` as ``1969-07-20``."""
    parts = _parts(_DATE)

    def read(value: str) -> Any:
        return cls(*map(int, parts(value)))

    def write(value: Any) -> str:
        if hasattr(value, "hour"):  # a datetime is a date to isinstance, and would lose its time here
            raise Mismatch("a date", value)
        return _isoformat(value)

    return _written_as_text(cls, {"format": "date"}, "a date such as 1969-07-20", read, write)


def date_and_time(cls: type) -> Kind:
    """``datetime.datetime`` as ``1969-07-20T09:30:00Z``; without a zone it is read and written without one."""
    parts = _parts(f"{_DATE}[T ]{_TIME}")

    def read(value: str) -> Any:
        year, month, day, *clock = parts(value)
        return cls(int(year), int(month), int(day), *_clock(*clock))

    label = "a date and time such as 1969-07-20T09:30:00Z"
    return _written_as_text(cls, {"format": "date-time"}, label, read, _isoformat)


def time_of_day(cls: type) -> Kind:
    """``datetime.time`` as ``09:30:00``, with or without a zone."""
    parts = _parts(_TIME)

    def read(value: str) -> Any:
        return cls(*_clock(*parts(value)))

    return _written_as_text(cls, {"format": "time"}, "a time such as 09:30:00", read, _isoformat)


def _isoformat(value: Any) -> str:
    return str(value.isoformat())


def duration(cls: type) -> Kind:
    """``datetime.timedelta`` as a number of seconds."""
    lowest, highest = -86399999913600, 86399999913599
    label = "a number of seconds"
    base = number()

    def read(value: Any) -> Any:
        try:
            seconds = value if type(value) is int else base.read(value)
        except Mismatch:
            raise Mismatch(label, value) from None
        if lowest <= seconds <= highest:
            return cls(seconds=seconds)
        raise Mismatch(f"{label} between {lowest} and {highest}", value)

    def write(value: Any) -> Any:
        if not isinstance(value, cls):
            raise Mismatch(f"a {cls.__name__}", value)
        seconds = value.total_seconds()  # type: ignore[attr-defined]
        return int(seconds) if seconds.is_integer() else seconds

    words = {"type": "number", "minimum": lowest, "maximum": highest, "description": "seconds"}
    return Kind(words, read, write, label, _NUMBERS, writes=cls)


_UUID = r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def uuid(cls: type) -> Kind:
    """``uuid.UUID`` in its usual form with four hyphens."""

    def read(value: str) -> Any:
        if not re.fullmatch(_UUID, value):
            raise ValueError(value)
        return cls(value)

    label = "a UUID such as 123e4567-e89b-12d3-a456-426614174000"
    return _written_as_text(cls, {"format": "uuid"}, label, read)


DECIMAL_PATTERN = "^-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"


def decimal(cls: type, *, writing: bool) -> Kind:
    """``decimal.Decimal``: written as a string, which keeps every digit; read from a number as well."""
    match = re.compile(DECIMAL_PATTERN).search
    label = "a number, or a string of digits"

    def read(value: Any) -> Any:
        if isinstance(value, str) and match(value):
            return cls(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value - value == 0:
            return cls(value if isinstance(value, int) else repr(value))
        raise Mismatch(label, value)

    def write(value: Any) -> str:
        written = str(value)
        if isinstance(value, cls) and match(written):
            return written
        raise Mismatch("a finite Decimal", value)

    as_text: Dict[str, Any] = {"type": "string", "pattern": DECIMAL_PATTERN}
    if writing:
        return Kind(as_text, read, write, label, _TEXT, writes=cls)
    return Kind({"anyOf": [{"type": "number"}, as_text]}, read, write, label, _NUMBERS | _TEXT, writes=cls)


def path(cls: type) -> Kind:
    """``pathlib`` paths as strings. Nothing is checked about what a path points to."""

    def write(value: Any) -> str:
        return str(value)

    return _written_as_text(cls, {}, "a path", cls, write)


def anything(write: Callable[[Any], Any]) -> Kind:
    """``Any`` and ``object``: every JSON value, as it came.

    Args:
        write: The way out of a value of unknown type.
    """

    def read(value: Any) -> Any:
        return value

    return Kind({}, read, write, "any value", JSON_TYPES, hashable=False)
