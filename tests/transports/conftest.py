"""A server for tests that inspect its HTTP side from within."""

from __future__ import annotations

from typing import Iterator

import pytest

from minimcp import Server
from minimcp.http.endpoint import Endpoint

from .http_app import Stage, core_of, stage_server


@pytest.fixture
def stage() -> Stage:
    """The events on which the tools of `server` wait."""
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Iterator[Server]:
    """A server with a tool for everything that a response can be."""
    server = stage_server(stage)
    yield server
    stage.go.set()
    server.close()


@pytest.fixture
def core(server: Server) -> Endpoint:
    return core_of(server)
