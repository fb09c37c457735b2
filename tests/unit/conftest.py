"""The server of tests/transports, for the tests of the ways that it is served over HTTP."""

from __future__ import annotations

from ..transports.conftest import server, stage

__all__ = ["server", "stage"]
