"""Tools on nested dataclasses, as minimcp and the SDK are given them; `limit_server` does it by hand."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Place:
    lat: float
    lon: float


@dataclass
class Record:
    id: int
    name: str
    tags: list[str]
    at: Place


def records(items: list[Record]) -> list[Record]:
    """Give the records back."""
    return items


def tally(items: list[Record]) -> int:
    """Count the records."""
    return len(items)
