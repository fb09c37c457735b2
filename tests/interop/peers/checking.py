"""What the checks by foreign clients in Python share. A check is a coroutine function named ``check_...``."""

from __future__ import annotations

import sys
from typing import Any, Awaitable, Callable, Mapping

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


def checks_of(module: Mapping[str, Any]) -> dict[str, Check]:
    """The checks of a module by their names, in which an underscore stands for a blank, in order."""
    return {name[6:].replace("_", " "): each for name, each in module.items() if name.startswith("check_")}


async def run(check: Check, *arguments: Any) -> Any:
    """True, or what went wrong."""
    try:
        with anyio.fail_after(SECONDS):
            await check(*arguments)
    except Exception as error:
        return told(error)
    return True


def told(error: BaseException) -> str:
    """Say what went wrong; a group is named by its first member."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:600]
