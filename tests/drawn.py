"""How hypothesis draws in this suite: the same examples every time, nothing kept, no clock."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings


def drawn(examples: int) -> Any:
    """Return settings for a test with this many examples."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
