"""The kinds of standard library classes that are sent as strings or numbers: dates, times, UUIDs,
decimals and paths.

Imported with the first such class.
"""

from __future__ import annotations

import datetime
import re
import sys
from decimal import Decimal
from functools import partial
from typing import Any, Callable, Optional, cast
from uuid import UUID

from .kinds import NUMBER, TEXT, Kind, class_of, matched
from .mismatch import Mismatch

# These are also published, so they must be valid in ECMA 262. They limit each number separately;
# ``fromisoformat`` rejects days that a month does not have.
_DATE = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_HOUR = r"(?:[01]\d|2[0-3])"
_OFFSET = rf"[Zz]|[+-]{_HOUR}:?[0-5]\d(?::[0-5]\d(?:\.\d+)?)?"
_TIME = rf"{_HOUR}:[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?(?:{_OFFSET})?"
_MOMENT = f"{_DATE}[Tt ]{_TIME}"
# RFC 3339, section 5.6, which defines the format ``date-time``.
_RFC_3339 = rf"{_DATE}T{_HOUR}:[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-]{_HOUR}:[0-5]\d)"
_PARTS = r"(.*?)(\d\d:\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?:(Z)|([+-]\d\d):?(\d\d)(:.*)?)?"


def _iso(pattern: str, text: str) -> str:
    """Return a time in the one form that ``fromisoformat`` of every Python version accepts."""
    date, clock, second, fraction, utc, hours, minutes, rest = matched(
        _PARTS, matched(pattern, text)[0]
    ).groups()
    zone = "+00:00" if utc else f"{hours}:{minutes}{rest or ''}" if hours else ""
    return f"{date}{clock}:{second or '00'}.{(fraction or '') + '000000':.6}{zone}"


# The whole seconds of `timedelta.min` and `timedelta.max`.
_MIN_SECONDS = -86399999913600
_MAX_SECONDS = 86399999999999


def _duration(cls: Any, seconds: float) -> datetime.timedelta:
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        raise ValueError(seconds)
    return cast(datetime.timedelta, cls(seconds=seconds))


def _seconds(duration: datetime.timedelta) -> float:
    if duration != duration:  # pandas.NaT
        raise ValueError(duration)
    seconds = min(duration.total_seconds(), float(_MAX_SECONDS))
    return int(seconds) if seconds.is_integer() else seconds


def _date(value: datetime.date) -> str:
    if isinstance(value, datetime.datetime):  # a subclass of date; its time would be lost
        raise Mismatch("a value of type date", value)
    return datetime.date.isoformat(value)


def _moment(value: datetime.datetime) -> str:
    if value != value:  # pandas.NaT
        raise ValueError(value)
    return datetime.datetime.isoformat(value)


# The schemas of datetime and time have no format, because the formats of JSON Schema require an
# offset, which a value may lack.
_KINDS: dict[type, Callable[[Any], Kind]] = {
    datetime.datetime: lambda cls: class_of(
        cls,
        "a date and time such as 1969-07-20T09:30:00Z",
        lambda text: cls.fromisoformat(_iso(_MOMENT, text)),
        _moment,
        pattern=f"^{_MOMENT}$",
    ),
    datetime.date: lambda cls: class_of(
        cls,
        "a date such as 1969-07-20",
        lambda text: cls.fromisoformat(matched(_DATE, text)[0]),
        _date,
        format="date",
    ),
    datetime.time: lambda cls: class_of(
        cls,
        "a time such as 09:30:00",
        lambda text: cls.fromisoformat(_iso(_TIME, text)),
        datetime.time.isoformat,
        pattern=f"^{_TIME}$",
    ),
    datetime.timedelta: lambda cls: class_of(
        cls,
        "a number of seconds",
        partial(_duration, cls),
        _seconds,
        NUMBER.accepts,
        type="number",
        minimum=_MIN_SECONDS,
        maximum=_MAX_SECONDS,
        description="seconds",
    ),
    UUID: lambda cls: class_of(
        cls,
        "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
        lambda text: cls(matched("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)[0]),
        UUID.__str__,
        format="uuid",
    ),
}
CLASSES: dict[type, Kind] = {cls: make(cls) for cls, make in _KINDS.items()}

# The formats of strings in forms.
FORMATS: dict[str, Kind] = {
    "email": class_of(str, "an email address", partial(matched, r"[^@\s]+@[^@\s]+")),
    "uri": class_of(str, "a URI with its scheme", partial(matched, r"[A-Za-z][A-Za-z0-9+.-]*:\S+")),
    "date": CLASSES[datetime.date],
    "date-time": CLASSES[datetime.datetime],
}


def is_rfc_3339(text: str) -> bool:
    """Return whether a string has the format ``date-time``, which requires seconds and an
    offset."""
    return re.fullmatch(_RFC_3339, text, re.ASCII | re.IGNORECASE) is not None


_DECIMAL = "^-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"


def of_standard_class(cls: Any, *, writing: bool) -> Optional[Kind]:
    """Return the kind of such a class or of a subclass, or None for any other class."""
    if cls in CLASSES:
        return CLASSES[cls]
    for base, make in _KINDS.items():  # datetime before date, which is its base
        if issubclass(cls, base):
            return make(cls)
    pathlib = sys.modules.get("pathlib")  # not imported here: a path class has imported it
    if pathlib is not None and issubclass(cls, pathlib.PurePath):
        return class_of(cls, "a path", cls)
    if not issubclass(cls, Decimal):
        return None
    label = "a number, or a string of digits"
    types = TEXT.accepts if writing else TEXT.accepts | NUMBER.accepts

    def digits(value: Any) -> str:  # a string keeps every digit
        return matched(_DECIMAL, str(value))[0]

    kind = class_of(cls, label, lambda value: cls(digits(value)), digits, types, pattern=_DECIMAL)
    return kind if writing else kind._replace(schema={"anyOf": [NUMBER.schema, kind.schema]})
