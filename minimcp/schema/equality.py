"""When two JSON values are the same: 1 and 1.0 are, 1 and true are not, whatever their order of members."""

from __future__ import annotations

from typing import Any, Hashable, Sequence


def frozen(value: Any) -> Hashable:
    """Something hashable that is equal for equal JSON values only."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, list):
        return (list, *map(frozen, value))
    if isinstance(value, dict):
        return (dict, frozenset((name, frozen(part)) for name, part in value.items()))
    return value  # type: ignore[no-any-return]


def has_twins(values: Sequence[Any]) -> bool:
    """Whether two values of a list are the same; in linear time."""
    if set(map(type, values)) <= {str}:
        return len(set(values)) < len(values)
    return len(set(map(frozen, values))) < len(values)
