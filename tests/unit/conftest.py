"""The server of tests/transports, for the tests of the ways that it is served over HTTP."""

from __future__ import annotations

from ..streams import every_stream_is_read
from ..transports.conftest import server, stage

__all__ = ["every_stream_is_read", "server", "stage"]
