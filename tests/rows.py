"""Tables of pure data as one test each: a row costs only its own check, and every failing row is
reported."""

from __future__ import annotations

import functools
import inspect
import traceback
from typing import Any, Callable, Dict, Iterable, Sequence, Union

import pytest

SHOWN = 100
"""Characters of a row that name it in a report."""


def for_each(
    names: Union[str, Sequence[str]], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Any]:
    """Run a test once for each row. If rows fail, fail at the end with the name and the traceback of
    each.

    It is written like ``pytest.mark.parametrize`` and may be stacked like it, for independent rows.
    All rows get the same fixtures (a monkeypatch, a log), and leaks of a row are found after the
    last row.

    Args:
        names: The parameters that a row fills; with one name alone the row is its value.
        rows: At least one.

    Raises:
        ValueError: There is no row, or one has more or fewer values than there are names.
    """
    parameters = (
        [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    )
    cases = [row if len(parameters) > 1 else (row,) for row in rows]
    if not cases or any(len(case) != len(parameters) for case in cases):
        raise ValueError(f"each row of one or more has {len(parameters)} values")

    def over_all(test: Callable[..., None]) -> Any:
        def all_rows(**fixtures: Any) -> None:
            failed = []
            for case in cases:
                given: Dict[str, Any] = dict(zip(parameters, case))
                try:
                    test(**fixtures, **given)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{_named(given)}\n{_told(error)}")
            if failed:
                pytest.fail(
                    f"{len(failed)} of {len(cases)} rows failed\n\n" + "\n".join(failed),
                    pytrace=False,
                )

        signature = inspect.signature(test)
        fixtures = [one for one in signature.parameters.values() if one.name not in parameters]
        # Not the rest of its attributes: by them hypothesis would take this function for one of its
        # own.
        functools.update_wrapper(all_rows, test, updated=())
        all_rows.__dict__["__signature__"] = signature.replace(parameters=fixtures)
        all_rows.__dict__["pytestmark"] = list(getattr(test, "pytestmark", []))
        return all_rows

    return over_all


def _named(row: Dict[str, Any]) -> str:
    try:
        return ", ".join(f"{name}={value!r}" for name, value in row.items())[:SHOWN]
    except Exception as error:  # a row may be odd on purpose
        return f"a row that cannot be shown: {type(error).__name__}"


def _told(error: BaseException) -> str:
    """The error from the test's own frame on; of a stacked table its report."""
    if isinstance(error, pytest.fail.Exception) and not error.pytrace:
        return str(error)
    own = error.__traceback__ and error.__traceback__.tb_next
    return "".join(traceback.format_exception(type(error), error, own))
