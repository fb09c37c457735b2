"""Typed objects of the protocol with snake_case names. All camelCase names of the protocol are
here.

Each class reads JSON with ``from_wire(mapping)``, which raises ValueError for malformed JSON, and
writes it with ``to_wire()``. Members that this library does not know are kept in ``extra``. This
package does not know which revision has which member: the layer that sends removes the members that
an older revision does not have.

Each name is imported on first use, so a server without questions does not load their classes.
"""
# ruff: noqa: F403, F405

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; `__getattr__` does the same at run time
    from ..protocol.lifecycle import LOG_LEVELS as LOG_LEVELS
    from ..protocol.urls import covering as covering
    from ..protocol.versions import CHANGES as CHANGES
    from .base import *
    from .content import *
    from .notifications import *
    from .prompts import *
    from .questions import *
    from .tool import *

_MODULES = {
    ".base": "ABSENT Absent Json Wire",
    ".content": (
        "Annotations Audio BlobResourceContents Content EmbeddedResource Icon Image Implementation "
        "ReadResourceResult Resource ResourceContents ResourceLink ResourceTemplate Role Text "
        "TextResourceContents UnknownContent"
    ),
    ".notifications": "Change LogMessage Progress",
    ".prompts": "Completion GetPromptResult Message Prompt PromptArgument PromptMessage",
    ".questions": (
        "ACTIONS Answer ElicitRequest ModelHint ModelPreferences Root SampleRequest SampleResult "
        "SamplingContent SamplingMessage ToolChoice ToolResult ToolUse conversation_fault"
    ),
    ".tool": "CallToolResult Tool ToolAnnotations",
    "..protocol.lifecycle": "LOG_LEVELS",
    "..protocol.urls": "covering",
    "..protocol.versions": "CHANGES",
}

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULE_OF[name], __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
