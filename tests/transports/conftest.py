"""Connected ends of every kind."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Iterator

import pytest

from .ends import KINDS, Connector


@pytest.fixture(params=sorted(KINDS))
def connect(request: pytest.FixtureRequest) -> Iterator[Connector]:
    """Makes an end of ours and a peer's, over each kind of pipe in turn."""
    with ExitStack() as undo:
        yield Connector(request.param, undo)
