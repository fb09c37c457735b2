"""The Model Context Protocol in plain, blocking Python: both roles, every revision, no event loop. Floor 7.

A server::

    from minimcp import Server

    server = Server("hello")

    @server.tool
    def greet(name: str) -> str:
        "Greet somebody."
        return f"Hello, {name}!"

    if __name__ == "__main__":
        server.run()

A client::

    import minimcp

    with minimcp.connect("server.py") as client:
        print(client.call_tool("greet", {"name": "Ada"}).text)

Importing this package starts nothing and imports neither third-party code nor an event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import (
    AuthorizationError,
    Cancelled,
    CapabilityNotSupported,
    ConnectionFailed,
    ConnectionLost,
    Declined,
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    McpError,
    MethodNotFound,
    ParseError,
    ProtocolViolation,
    Refused,
    RequestStateRejected,
    RequestTimeout,
    ResourceAccessDenied,
    ResourceNotFound,
    RpcError,
    ToolError,
    UnsupportedRevision,
    UrlElicitationRequired,
)
from .late import late_names
from .version import VERSION as __version__

_LATE = {
    "cancel": "CancelToken",
    "client": "Client",
    "connecting": "connect",
    "features.context": "Context current_context",
    "features.log_handler": "LogHandler",
    "features.questions": "Elicit ElicitUrl ListRoots Sample",
    "group": "Group connect_all",
    "marks": "prompt resource tool",
    "paths": "resolve_inside",
    "serial": "Serial",
    "server": "Server serve",
    "testing": "testing",
    "transports.child": "StdioServer",
    "transports.http_common": "HttpRequest HttpResponse",
    "transports.http_server_stream": "EventStore",
    "transports.posting": "HttpServer",
    "types": """
        Annotations Answer Audio BlobResourceContents CallToolResult Change Completion ElicitRequest EmbeddedResource
        GetPromptResult Icon Image Implementation LogMessage Message ModelPreferences Progress Prompt PromptArgument
        PromptMessage ReadResourceResult Resource ResourceLink ResourceTemplate Root SampleRequest SampleResult
        SamplingMessage Text TextResourceContents Tool ToolAnnotations ToolChoice ToolResult ToolUse
    """,
}
"""Names that are imported when somebody asks for them: a client does not pay for the server, nor a server for it."""

if TYPE_CHECKING:
    from . import testing as testing
    from .cancel import CancelToken
    from .client import Client
    from .connecting import connect
    from .features.context import Context, current_context
    from .features.log_handler import LogHandler
    from .features.questions import Elicit, ElicitUrl, ListRoots, Sample
    from .group import Group, connect_all
    from .marks import prompt, resource, tool
    from .paths import resolve_inside
    from .serial import Serial
    from .server import Server, serve
    from .transports.child import StdioServer
    from .transports.http_common import HttpRequest, HttpResponse
    from .transports.http_server_stream import EventStore
    from .transports.posting import HttpServer
    from .types import (
        Annotations,
        Answer,
        Audio,
        BlobResourceContents,
        CallToolResult,
        Change,
        Completion,
        ElicitRequest,
        EmbeddedResource,
        GetPromptResult,
        Icon,
        Image,
        Implementation,
        LogMessage,
        Message,
        ModelPreferences,
        Progress,
        Prompt,
        PromptArgument,
        PromptMessage,
        ReadResourceResult,
        Resource,
        ResourceLink,
        ResourceTemplate,
        Root,
        SampleRequest,
        SampleResult,
        SamplingMessage,
        Text,
        TextResourceContents,
        Tool,
        ToolAnnotations,
        ToolChoice,
        ToolResult,
        ToolUse,
    )
else:
    __getattr__, __dir__ = late_names(__name__, _LATE)

__all__ = [
    "Annotations", "Answer", "Audio", "AuthorizationError", "BlobResourceContents", "CallToolResult", "CancelToken",
    "Cancelled", "CapabilityNotSupported", "Change", "Client", "Completion", "ConnectionFailed", "ConnectionLost",
    "Context", "Declined", "Elicit", "ElicitRequest", "ElicitUrl", "EmbeddedResource", "EventStore", "GetPromptResult",
    "Group", "HeaderMismatch", "HttpRequest", "HttpResponse", "HttpServer", "Icon", "Image", "Implementation",
    "InternalError", "InvalidParams", "InvalidRequest",
    "ListRoots", "LogHandler", "LogMessage", "McpError", "Message", "MethodNotFound", "ModelPreferences",
    "ParseError", "Progress", "Prompt", "PromptArgument", "PromptMessage", "ProtocolViolation", "ReadResourceResult",
    "Refused", "RequestStateRejected", "RequestTimeout", "Resource", "ResourceAccessDenied", "ResourceLink",
    "ResourceNotFound", "ResourceTemplate", "Root", "RpcError", "Sample", "SampleRequest", "SampleResult",
    "SamplingMessage", "Serial", "Server", "StdioServer", "Text", "TextResourceContents", "Tool", "ToolAnnotations",
    "ToolChoice", "ToolError", "ToolResult", "ToolUse", "UnsupportedRevision", "UrlElicitationRequired",
    "__version__", "connect", "connect_all", "current_context", "prompt", "resolve_inside", "resource", "serve",
    "tool",
]
