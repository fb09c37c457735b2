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

from typing import TYPE_CHECKING, Any

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
from .version import VERSION as __version__

if TYPE_CHECKING:
    from .cancel import CancelToken
    from .client import Client
    from .connecting import connect
    from .features.context import Context, current_context
    from .server import Server
    from .transports.child import StdioServer
    from .types import (
        Annotations,
        Audio,
        BlobResourceContents,
        CallToolResult,
        Completion,
        EmbeddedResource,
        GetPromptResult,
        Icon,
        Image,
        LogMessage,
        Message,
        Progress,
        Prompt,
        PromptArgument,
        PromptMessage,
        ReadResourceResult,
        Resource,
        ResourceLink,
        ResourceTemplate,
        Text,
        TextResourceContents,
        Tool,
        ToolAnnotations,
    )

_LATE = {
    "CancelToken": "cancel",
    "Client": "client",
    "connect": "connecting",
    "Context": "features.context",
    "current_context": "features.context",
    "Server": "server",
    "StdioServer": "transports.child",
    **dict.fromkeys(
        (
            "Annotations", "Audio", "BlobResourceContents", "CallToolResult", "Completion", "EmbeddedResource",
            "GetPromptResult", "Icon", "Image", "LogMessage", "Message", "Progress", "Prompt", "PromptArgument",
            "PromptMessage", "ReadResourceResult", "Resource", "ResourceLink", "ResourceTemplate", "Text",
            "TextResourceContents", "Tool", "ToolAnnotations",
        ),
        "types",
    ),
}
"""Names that are imported when somebody asks for them: a client does not pay for the server, nor a server for it."""


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


__all__ = [
    "Annotations", "Audio", "AuthorizationError", "BlobResourceContents", "CallToolResult", "CancelToken",
    "Cancelled", "CapabilityNotSupported", "Client", "Completion", "ConnectionFailed", "ConnectionLost", "Context",
    "Declined", "EmbeddedResource", "GetPromptResult", "HeaderMismatch", "Icon", "Image", "InternalError",
    "InvalidParams", "InvalidRequest", "LogMessage", "McpError", "Message", "MethodNotFound", "ParseError",
    "Progress", "Prompt", "PromptArgument", "PromptMessage", "ProtocolViolation", "ReadResourceResult", "Refused",
    "RequestStateRejected", "RequestTimeout", "Resource", "ResourceAccessDenied", "ResourceLink", "ResourceNotFound",
    "ResourceTemplate", "RpcError", "Server", "StdioServer", "Text", "TextResourceContents", "Tool",
    "ToolAnnotations", "ToolError", "UnsupportedRevision", "UrlElicitationRequired", "__version__", "connect",
    "current_context",
]
