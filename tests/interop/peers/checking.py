"""Helpers for the checks by foreign clients in Python."""

from __future__ import annotations

import sys
from typing import Any, Awaitable, Callable

import anyio

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

UNICODE = "Grüße, 世界 \U0001f600 \u2028 \x7f end"
PARALLEL = 20
SECONDS = 20.0  # how long a check may take
Check = Callable[..., Awaitable[None]]


def expect(got: Any, wanted: Any) -> None:
    if got != wanted:
        raise AssertionError(f"got {got!r:.300}, expected {wanted!r:.300}")


async def expect_raised(kinds: Any, call: Awaitable[Any]) -> Any:
    """The exception of one of the kinds that comes of it."""
    try:
        await call
    except kinds as error:
        return error
    raise AssertionError("nothing raised")


async def expect_parallel(say: Callable[[str], Awaitable[str]]) -> None:
    """Many calls at once, each of which has its own answer."""
    said: dict[str, str] = {}

    async def one(text: str) -> None:
        said[text] = await say(text)

    async with anyio.create_task_group() as group:
        for i in range(PARALLEL):
            group.start_soon(one, f"text {i}")
    expect(said, {f"text {i}": f"text {i}" for i in range(PARALLEL)})


def only(since: str, until: str = "2026-07-28") -> Callable[[Check], Check]:
    """Limit a check to these revisions."""

    def mark(check: Check) -> Check:
        check.span = since, until  # type: ignore[attr-defined]
        return check

    return mark


class Checks:
    """The checks are the methods of the last subclass, in order, by their names with blanks for
    underscores."""

    revision = ""

    async def run(self, results: dict[str, Any], forget: Callable[[], None]) -> None:
        """Put into the results of each True, or what went wrong; before each the host forgets."""
        for name, check in vars(type(self)).items():
            since, until = getattr(check, "span", ("", "~"))
            if name.startswith("_") or not since <= self.revision <= until:
                continue
            forget()
            try:
                with anyio.fail_after(SECONDS):
                    await check(self)
                results[name.replace("_", " ")] = True
            except Exception as error:
                results[name.replace("_", " ")] = told(error)


def told(error: BaseException) -> str:
    """Return the message of an error; a group uses its first member."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:600]
