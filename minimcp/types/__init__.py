"""Typed, snake_case objects for what goes over the wire. All camelCase of the protocol lives here.

Each class reads with ``from_wire(mapping)`` (ValueError when a peer sent something else) and writes
with ``to_wire()``. What this library does not know is kept in ``extra``. Which revision knows which
member is no matter of this package: the layer that writes for an older one drops what that does not
know.
"""
# ruff: noqa: F403, F405

from __future__ import annotations

from ..protocol.lifecycle import LOG_LEVELS
from .base import *
from .content import *
from .notifications import *
from .questions import *
from .tool import *

__all__ = [
    "ABSENT", "ACTIONS", "Absent", "Annotations", "Answer", "Audio", "BlobResourceContents", "CHANGES",
    "CallToolResult", "Change", "Completion", "Content", "ElicitRequest", "EmbeddedResource", "GetPromptResult",
    "Icon", "Image", "Implementation", "Json", "LOG_LEVELS", "LogMessage", "Message", "ModelHint",
    "ModelPreferences", "Progress", "Prompt", "PromptArgument", "PromptMessage", "ReadResourceResult", "Resource",
    "ResourceContents", "ResourceLink", "ResourceTemplate", "Role", "Root", "SampleRequest", "SampleResult",
    "SamplingContent", "SamplingMessage", "Text", "TextResourceContents", "Tool", "ToolAnnotations", "ToolChoice",
    "ToolResult", "ToolUse", "UnknownContent", "Wire", "conversation_fault", "covering",
]  # fmt: skip
