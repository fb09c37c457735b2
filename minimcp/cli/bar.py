"""A progress bar for a call, on stderr: redrawn on a terminal, a line per step elsewhere."""

from __future__ import annotations

import sys

from .. import Progress
from .screen import one_line, say

CELLS = 20
"""How long the bar is."""

WIDTH = 79


class ProgressBar:
    """Given to a call as ``on_progress``. For one thread.

    Args:
        quiet: True draws nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet or sys.stderr is None
        self._redraws = not self._quiet and sys.stderr.isatty()
        self._drawn = ""

    def __call__(self, progress: Progress) -> None:
        drawn = self._draw(progress)
        if self._quiet or drawn == self._drawn:
            return
        if self._redraws:
            sys.stderr.write("\r" + drawn.ljust(len(self._drawn)))
            sys.stderr.flush()
        else:
            say(drawn, file=sys.stderr)
        self._drawn = drawn

    def _draw(self, progress: Progress) -> str:
        message = one_line(progress.message or "")
        if progress.total is None or progress.total <= 0:
            return f"{progress.progress:g} {message}".rstrip()[:WIDTH]
        share = min(1.0, max(0.0, progress.progress / progress.total))
        full = int(share * CELLS)
        return f"[{'#' * full}{'.' * (CELLS - full)}] {share:4.0%} {message}".rstrip()[:WIDTH]

    def end(self) -> None:
        """Leave the line that was redrawn. Idempotent."""
        if self._redraws and self._drawn:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._drawn = ""
