"""The revisions that rows are dated by, and the form of a section."""

from __future__ import annotations

from typing import Tuple

R1 = "2024-11-05"
R2 = "2025-03-26"
R3 = "2025-06-18"
R4 = "2025-11-25"
R5 = "2026-07-28"

Row = Tuple[str, str, str]
"""Id, span of revisions (a key of `tests.requirements.SPANS`), summary."""

Section = Tuple[str, Tuple[Row, ...]]
"""Page of the specification, and its rows."""
