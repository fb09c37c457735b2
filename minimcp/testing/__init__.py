"""Tools for tests of servers and clients. Nothing is imported before its first use.

Test a whole server through ``minimcp.connect(server)``, which uses the real codec, validation and
threads; in pytest through the fixture ``mcp_connect`` of `minimcp.testing.plugin`. Call a single
handler with a `context`. A `Transcript` records and checks the messages of a connection. `record`
writes a session to a file; `replay` acts as its server, and `replay_against` as its client.
`ScriptedServer` and `ScriptedClient` misbehave as a test requires.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; `__getattr__` does the same at run time
    from .breaches import Breach
    from .recording import record, replay, replay_against
    from .scripted import ScriptedClient, ScriptedPeer, ScriptedServer
    from .transcript import Entry, Transcript
    from .unit_context import Question, UnitContext, context

__all__ = [
    "Breach",
    "Entry",
    "Question",
    "ScriptedClient",
    "ScriptedPeer",
    "ScriptedServer",
    "Transcript",
    "UnitContext",
    "context",
    "record",
    "replay",
    "replay_against",
]

_MODULES = {
    "breaches": "Breach",
    "recording": "record replay replay_against",
    "scripted": "ScriptedClient ScriptedPeer ScriptedServer",
    "transcript": "Entry Transcript",
    "unit_context": "Question UnitContext context",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        for module, names in _MODULES.items():
            if name in names.split():
                value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
