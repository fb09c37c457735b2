"""Values of NumPy, pandas and `sqlite3` as plain Python objects. No such package is imported here.

Imported with the first such value.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Optional

from .mismatch import Mismatch


def plain(value: Any) -> Any:
    """Return a scalar, an array, a table or a row as plain Python objects; other values unchanged.

    An array becomes a list. A `DataFrame` becomes a list of records; its index is included if it
    has a name. In both, missing values (NaN, NaT and NA) become None.

    Raises:
        Mismatch: Two columns of a `DataFrame` have the same name.
    """
    numpy = sys.modules.get("numpy")
    pandas = sys.modules.get("pandas")
    sqlite = sys.modules.get("sqlite3")
    if numpy is not None and isinstance(value, numpy.generic):
        return _scalar(value)
    if pandas is not None and (value is pandas.NA or value is pandas.NaT):
        return None
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return _records(value)
    if sqlite is not None and isinstance(value, sqlite.Row):
        return dict(zip(value.keys(), value))
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "mM":
        return _without_missing(list(value) if value.ndim else value[()])
    if hasattr(value, "tolist"):  # also an Index or a Categorical
        return _without_missing(value.tolist())
    return value


def _scalar(value: Any) -> Any:
    """Return a NumPy scalar as the equivalent Python object."""
    item = value.item()
    kind = value.dtype.kind
    if kind == "f" and isinstance(item, type(value)):  # a long double
        return float(value)
    if kind in "mM" and isinstance(item, int):  # Python does not have this unit of time
        item = value.astype(f"{kind}8[us]").item()
        return str(value) if isinstance(item, int) else item
    return item


def _without_missing(value: Any) -> Any:
    """Return a value of an array or a column, in which missing values become None."""
    if isinstance(value, list):
        return [_without_missing(each) for each in value]
    value = plain(value)
    if isinstance(value, float) and value != value:
        return None
    return value


def _names(frame: Any) -> list[str]:
    """Return the names of the columns. Raise Mismatch if two of them are equal."""
    names = [
        " ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in frame.columns
    ]
    if len(set(names)) < len(names):
        raise Mismatch("", frame, instead="two columns of the DataFrame have the same name")
    return names


def _records(frame: Any) -> list[dict[str, Any]]:
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    names = _names(frame)
    columns = [_without_missing(frame.iloc[:, at].tolist()) for at in range(len(names))]
    return [dict(zip(names, row)) for row in zip(*columns)]


def markdown(value: Any, records: Any) -> Optional[str]:
    """Return a `DataFrame` as a Markdown table, or None for any other value.

    Args:
        value: The value.
        records: Its JSON form.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, pandas.DataFrame):
        return None
    names = list(records[0]) if records else _names(value)
    rows = [names, ["---"] * len(names), *([each[name] for name in names] for each in records)]
    return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "" if value is None else " ".join(text.replace("|", "\\|").splitlines())
