"""For tests of servers and clients; nothing of it is imported before its first use.

A whole server is tested through ``minimcp.connect(server)``, which runs the real codec, validation
and threads; in pytest through the fixture ``mcp_connect`` of `minimcp.testing.plugin`. A single
handler is called with a `context`. A `Transcript` shows and checks what went over the wire.
`record` keeps a session in a file; `replay` stands for its server, and `replay_against` for its
client. `ScriptedServer` and `ScriptedClient` misbehave as a test wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers read; `__getattr__` does the same when a name is first used
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
