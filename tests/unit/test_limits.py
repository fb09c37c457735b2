"""`Limits`: numbers that are refused."""

from __future__ import annotations

import math
import threading
from dataclasses import fields
from typing import Any, List

import pytest

from minimcp import Limits
from minimcp.engine.limits import BoundedQueue, check_number

from ..support import WAIT


@pytest.mark.parametrize(("name", "value", "error", "words"), [
    ("workers", 0, ValueError, "workers must be at least 1, not 0"),
    ("batch", "5", TypeError, "batch must be a whole number or None, not '5'"),
    ("depth", True, TypeError, "depth must be a whole number or None, not True"),
    ("streams", 1.5, TypeError, "streams must be a whole number or None, not 1.5"),
    ("requests", -1, ValueError, "requests must be at least 1, not -1"),
    ("write_timeout", math.nan, ValueError, "write_timeout must be a number of seconds or None, not nan"),
    ("write_timeout", math.inf, ValueError, "write_timeout must be a number of seconds or None, not inf"),
    ("waiting_handlers", -1, ValueError, "waiting_handlers must be at least 0, not -1"),
    ("waiting_handlers", "16", TypeError, "waiting_handlers must be a whole number or None, not '16'"),
    ("drain_grace", None, TypeError, "drain_grace must be a number of seconds, not None"),
    ("drain_grace", -0.1, ValueError, "drain_grace must be at least 0, not -0.1"),
    ("ask_timeout", 0, ValueError, "ask_timeout must be more than 0 seconds, not 0"),
    ("call_rate", "5", TypeError, "call_rate must be a number per second or None, not '5'"),
    ("call_rate", True, TypeError, "call_rate must be a number per second or None, not True"),
    ("call_rate", math.inf, ValueError, "call_rate must be a number per second or None, not inf"),
    ("call_rate", -1, ValueError, "call_rate must be at least 0, not -1"),
    ("call_rate", 0, ValueError, "call_rate must be more than 0 per second, not 0: write None for no limit"),
    ("notification_rate", 0.0, ValueError, "notification_rate must be more than 0 per second, .*"),
    ("notification_rate", [], TypeError, "notification_rate must be a number per second or None, .*"),
])  # fmt: skip
def test_invalid_limits(name: str, value: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"^{words}$"):
        Limits(**{name: value})


def test_valid_limits() -> None:
    nothing: Any = {each.name: None for each in fields(Limits) if each.name != "drain_grace"}
    assert (
        Limits(**nothing).workers is None
        and Limits(streams=0, drain_grace=0, write_timeout=0.5).streams == 0
    )
    with pytest.raises(TypeError, match="port must be a whole number, not None"):
        check_number("port", None, optional=False)


@pytest.mark.parametrize("most_bytes", [math.inf, 5], ids=["by number", "by size"])
@pytest.mark.parametrize("place", range(4))
def test_a_queue_drops_what_was_offered_and_keeps_what_was_put(
    place: int, most_bytes: float
) -> None:
    queue = BoundedQueue("items", 2, most_bytes)
    for number in range(6):
        if number == place:
            queue.put("END")
            queue.put("TOO")
        queue.add(number, 2)
    queue.add("large", 6)
    signals = [queue.get(block=False) for _ in range(queue.qsize())]
    assert [each for each in signals if isinstance(each, str)] == ["END", "TOO"]
    assert list(iter(queue.take, None)) == ([5, "large"] if most_bytes == math.inf else [4, 5])
    assert queue.bytes == 0


def test_one_signal_wakes_the_thread_for_a_whole_batch() -> None:
    queue = BoundedQueue("items", 100, math.inf)
    for number in range(10):
        queue.add(number, 1)
    assert queue.qsize() == 1 and queue.get(block=False) is BoundedQueue.SIGNAL
    assert list(iter(queue.take, None)) == list(range(10))
    queue.add("next", 1)
    assert queue.qsize() == 1


def test_a_thread_that_takes_items_misses_none_and_drops_none() -> None:
    queue = BoundedQueue("items", 50_000, math.inf)
    found: List[int] = []

    def take() -> None:
        for _ in iter(queue.get, None):
            found.extend(iter(queue.take, None))

    thread = threading.Thread(target=take)
    thread.start()
    for number in range(50_000):
        queue.add(number, 1)
    queue.put(None)
    thread.join(WAIT)
    assert found == list(range(50_000))
