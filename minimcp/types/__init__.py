"""Typed, snake_case objects for what goes over the wire. All camelCase of the protocol lives here.

Each class reads with ``from_wire(mapping)`` (ValueError when a peer sent something else) and writes with
``to_wire()``. What this library does not know is kept in ``extra``. Which revision knows which member is no
matter of this package: whoever writes for an older one drops what it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.late import late_names

_LATE = {
    "base": "Wire member_name",
    "common": "Annotations Icon Implementation Role",
    "completion": "Completion",
    "content": "Audio Content EmbeddedResource Image ResourceLink Text UnknownContent content_from_wire",
    "elicitation": "ACTIONS Answer",
    "kinds": "ABSENT Absent Json decode_base64 encode_base64",
    "notices": "CHANGES Change LOG_LEVELS LOG_ORDER LogMessage Progress covering log_level",
    "prompt": "GetPromptResult Message Prompt PromptArgument PromptMessage",
    "questions": "ElicitRequest SampleRequest ToolChoice conversation_fault",
    "resource": """
        BlobResourceContents ReadResourceResult Resource ResourceContents ResourceTemplate TextResourceContents
        contents_from_wire
    """,
    "root": "Root",
    "sampling": """
        ModelHint ModelPreferences SampleResult SamplingContent SamplingMessage ToolResult ToolUse
        sampling_content_from_wire
    """,
    "tool": "CallToolResult Tool ToolAnnotations ToolExecution",
}
"""Names that are imported when somebody asks for them: a server of tools has no use for most of them."""

if TYPE_CHECKING:
    from .base import Wire, member_name
    from .common import Annotations, Icon, Implementation, Role
    from .completion import Completion
    from .content import (
        Audio,
        Content,
        EmbeddedResource,
        Image,
        ResourceLink,
        Text,
        UnknownContent,
        content_from_wire,
    )
    from .elicitation import ACTIONS, Answer
    from .kinds import ABSENT, Absent, Json, decode_base64, encode_base64
    from .notices import CHANGES, LOG_LEVELS, LOG_ORDER, Change, LogMessage, Progress, covering, log_level
    from .prompt import GetPromptResult, Message, Prompt, PromptArgument, PromptMessage
    from .questions import ElicitRequest, SampleRequest, ToolChoice, conversation_fault
    from .resource import (
        BlobResourceContents,
        ReadResourceResult,
        Resource,
        ResourceContents,
        ResourceTemplate,
        TextResourceContents,
        contents_from_wire,
    )
    from .root import Root
    from .sampling import (
        ModelHint,
        ModelPreferences,
        SampleResult,
        SamplingContent,
        SamplingMessage,
        ToolResult,
        ToolUse,
        sampling_content_from_wire,
    )
    from .tool import CallToolResult, Tool, ToolAnnotations, ToolExecution
else:
    __getattr__, __dir__ = late_names(__name__, _LATE)

__all__ = [
    "ABSENT",
    "ACTIONS",
    "Absent",
    "Annotations",
    "Answer",
    "Audio",
    "BlobResourceContents",
    "CHANGES",
    "CallToolResult",
    "Change",
    "Completion",
    "Content",
    "ElicitRequest",
    "EmbeddedResource",
    "GetPromptResult",
    "Icon",
    "Image",
    "Implementation",
    "Json",
    "LOG_LEVELS",
    "LOG_ORDER",
    "LogMessage",
    "Message",
    "ModelHint",
    "ModelPreferences",
    "Progress",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "ReadResourceResult",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceTemplate",
    "Role",
    "Root",
    "SampleRequest",
    "SampleResult",
    "SamplingContent",
    "SamplingMessage",
    "Text",
    "TextResourceContents",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolExecution",
    "ToolResult",
    "ToolUse",
    "UnknownContent",
    "Wire",
    "content_from_wire",
    "contents_from_wire",
    "conversation_fault",
    "covering",
    "decode_base64",
    "encode_base64",
    "log_level",
    "member_name",
    "sampling_content_from_wire",
]
