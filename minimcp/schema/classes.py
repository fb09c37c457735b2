"""The kinds of classes of the standard library that travel as strings or numbers: dates, times,
UUIDs, decimals, paths.

Imported when such a class is first met.
"""

from __future__ import annotations

import datetime
import sys
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, Optional
from uuid import UUID

from .kinds import NUMBER, TEXT, Kind, class_of, matched
from .mismatch import Mismatch

_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"((?:[01]\d|2[0-3]):\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?:(Z)|([+-]\d\d):?(\d\d))?"


def _iso(pattern: str, text: str) -> str:
    """A time in the one form that ``fromisoformat`` of every Python takes."""
    *date, clock, second, fraction, utc, hours, minutes = matched(pattern, text).groups()
    zone = "+00:00" if utc else f"{hours}:{minutes}" if hours else ""
    return f"{''.join(date)}{clock}:{second or '00'}.{(fraction or '') + '000000':.6}{zone}"


_SECONDS = range(-86399999913600, 86399999913600)


def _duration(seconds: float) -> datetime.timedelta:
    if not _SECONDS[0] <= seconds <= _SECONDS[-1]:
        raise ValueError(seconds)
    return datetime.timedelta(seconds=seconds)


def _seconds(duration: datetime.timedelta) -> float:
    seconds = duration.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def _date(value: datetime.date) -> str:
    if isinstance(value, datetime.datetime):  # it is a date to isinstance, and would lose its time
        raise Mismatch("a value of type date", value)
    return str(value)


CLASSES: dict[type, Kind] = {
    datetime.date: class_of(
        datetime.date, "a date such as 1969-07-20",
        lambda text: datetime.date.fromisoformat(matched(_DATE, text)[0]), _date, format="date",
    ),
    datetime.datetime: class_of(
        datetime.datetime, "a date and time such as 1969-07-20T09:30:00Z",
        lambda text: datetime.datetime.fromisoformat(_iso(f"({_DATE}[T ]){_TIME}", text)),
        datetime.datetime.isoformat, format="date-time",
    ),
    datetime.time: class_of(
        datetime.time, "a time such as 09:30:00",
        lambda text: datetime.time.fromisoformat(_iso(_TIME, text)), format="time",
    ),
    datetime.timedelta: class_of(
        datetime.timedelta, "a number of seconds", _duration, _seconds, NUMBER.accepts,
        type="number", minimum=_SECONDS[0], maximum=_SECONDS[-1], description="seconds",
    ),
    UUID: class_of(
        UUID, "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
        lambda text: UUID(matched("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)[0]), format="uuid",
    ),
}  # fmt: skip

# The formats of strings in a form.
FORMATS: dict[str, Kind] = {
    "email": class_of(str, "an email address", partial(matched, r"[^@\s]+@[^@\s]+")),
    "uri": class_of(str, "a URI with its scheme", partial(matched, r"[A-Za-z][A-Za-z0-9+.-]*:\S+")),
    "date": CLASSES[datetime.date],
    "date-time": CLASSES[datetime.datetime],
}

_DECIMAL = "^-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"


def of_standard_class(cls: Any, *, writing: bool) -> Optional[Kind]:
    """The kind of such a class; None for any other."""
    if cls in CLASSES:
        return CLASSES[cls]
    pathlib = sys.modules.get("pathlib")  # who has a class of it has imported it
    if pathlib is not None and issubclass(cls, pathlib.PurePath):
        return class_of(cls, "a path", cls)
    if not issubclass(cls, Decimal):
        return None
    label, types = (
        "a number, or a string of digits",
        TEXT.accepts if writing else TEXT.accepts | NUMBER.accepts,
    )

    def digits(value: Any) -> str:  # as a string every one is kept
        return matched(_DECIMAL, str(value))[0]

    kind = class_of(cls, label, lambda value: cls(digits(value)), digits, types, pattern=_DECIMAL)
    return kind if writing else replace(kind, schema={"anyOf": [NUMBER.schema, kind.schema]})
