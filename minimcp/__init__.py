"""The Model Context Protocol in plain, blocking Python: both roles, every revision, no event loop.

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

Importing this package does not start threads, and does not import third-party code or `asyncio`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 9):
    raise ImportError(
        f"minimcp needs Python 3.9 or newer, and this is {sys.version.split()[0]} "
        f"({sys.executable})"
    )

# isort: off
from .errors import (
    AuthorizationError,
    Cancelled,
    CapabilityNotSupported,
    ConnectionFailed,
    ConnectionLost,
    Declined,
    HandlerFailed,
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

if TYPE_CHECKING:  # for type checkers; `__getattr__` imports each name on first use
    from . import terminal as terminal
    from . import testing as testing
    from .auth.bearer import AccessToken, Bearer
    from .auth.grants import ClientCredentials, EnterpriseManaged, WorkloadIdentity
    from .auth.signin import SignIn
    from .auth.store import TokenFile, TokenKeyring, TokenMemory
    from .client.client import Client
    from .client.connect import connect
    from .client.group import Group, connect_all
    from .extensions.client_skills import Skill, SkillError
    from .extensions.client_tasks import Task
    from .engine.limits import Limits
    from .engine.cancel import CancelToken
    from .stores.base import Entry, MemoryStore, Store
    from .extensions.apps import Apps
    from .extensions.cards import Card, CatalogEntry, ServerCard, read_card, read_catalog
    from .extensions.client_events import Occurrences
    from .extensions.event_inbox import EventInbox
    from .extensions.event_types import EventBatch, EventError, EventsEnded, EventType, Occurrence
    from .extensions.events import Events
    from .extensions.extension import Extension
    from .extensions.webhooks import Webhooks, verify_webhook
    from .extensions.skills import Skills
    from .extensions.tasks import Tasks
    from .http.client import HttpServer
    from .http.headers import HttpRequest, HttpResponse
    from .http.options import HttpOptions
    from .http.events import EventStore
    from .server.context import Context, current_context
    from .server.options import app, method, notification, prompt, resource, tool
    from .features.executors import Serial
    from .features.observers import FinishedRequest, LogFilter, LogHandler
    from .server.paths import resolve_inside
    from .features.questions import Elicit, ElicitUrl, ListRoots, Sample
    from .server.server import Server, serve
    from .stdio.child import StdioServer
    from .stores.redis import RedisStore
    from .stores.sqlite import SqliteStore
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
        UnknownContent,
    )
# isort: on

__version__ = "0.1.0"

__all__ = [
    "AccessToken",
    "Annotations",
    "Answer",
    "Apps",
    "Audio",
    "AuthorizationError",
    "Bearer",
    "BlobResourceContents",
    "CallToolResult",
    "CancelToken",
    "Cancelled",
    "CapabilityNotSupported",
    "Card",
    "CatalogEntry",
    "Change",
    "Client",
    "ClientCredentials",
    "Completion",
    "ConnectionFailed",
    "ConnectionLost",
    "Context",
    "Declined",
    "Elicit",
    "ElicitRequest",
    "ElicitUrl",
    "EmbeddedResource",
    "EnterpriseManaged",
    "Entry",
    "EventBatch",
    "EventError",
    "EventInbox",
    "EventStore",
    "EventType",
    "Events",
    "EventsEnded",
    "Extension",
    "FinishedRequest",
    "GetPromptResult",
    "Group",
    "HandlerFailed",
    "HeaderMismatch",
    "HttpOptions",
    "HttpRequest",
    "HttpResponse",
    "HttpServer",
    "Icon",
    "Image",
    "Implementation",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "Limits",
    "ListRoots",
    "LogFilter",
    "LogHandler",
    "LogMessage",
    "McpError",
    "MemoryStore",
    "Message",
    "MethodNotFound",
    "ModelPreferences",
    "Occurrence",
    "Occurrences",
    "ParseError",
    "Progress",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "ProtocolViolation",
    "ReadResourceResult",
    "RedisStore",
    "Refused",
    "RequestStateRejected",
    "RequestTimeout",
    "Resource",
    "ResourceAccessDenied",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceTemplate",
    "Root",
    "RpcError",
    "Sample",
    "SampleRequest",
    "SampleResult",
    "SamplingMessage",
    "Serial",
    "Server",
    "ServerCard",
    "SignIn",
    "Skill",
    "SkillError",
    "Skills",
    "SqliteStore",
    "StdioServer",
    "Store",
    "Task",
    "Tasks",
    "Text",
    "TextResourceContents",
    "TokenFile",
    "TokenKeyring",
    "TokenMemory",
    "Tool",
    "ToolAnnotations",
    "ToolChoice",
    "ToolError",
    "ToolResult",
    "ToolUse",
    "UnknownContent",
    "UnsupportedRevision",
    "UrlElicitationRequired",
    "Webhooks",
    "WorkloadIdentity",
    "__version__",
    "app",
    "connect",
    "connect_all",
    "current_context",
    "method",
    "notification",
    "prompt",
    "read_card",
    "read_catalog",
    "resolve_inside",
    "resource",
    "serve",
    "tool",
    "verify_webhook",
]

# The modules of names that are imported on first use, so that a client does not load the server and
# a server does not load the client. The other names of `__all__` are in `types`.
_MODULES = {
    "auth.bearer": "AccessToken Bearer",
    "auth.grants": "ClientCredentials EnterpriseManaged WorkloadIdentity",
    "auth.signin": "SignIn",
    "auth.store": "TokenFile TokenKeyring TokenMemory",
    "client.client": "Client",
    "client.connect": "connect",
    "client.group": "Group connect_all",
    "engine.limits": "Limits",
    "engine.cancel": "CancelToken",
    "extensions.apps": "Apps",
    "extensions.cards": "Card CatalogEntry ServerCard read_card read_catalog",
    "extensions.client_events": "Occurrences",
    "extensions.client_skills": "Skill SkillError",
    "extensions.client_tasks": "Task",
    "extensions.event_inbox": "EventInbox",
    "extensions.event_types": "EventBatch EventError EventsEnded EventType Occurrence",
    "extensions.events": "Events",
    "extensions.extension": "Extension",
    "extensions.skills": "Skills",
    "extensions.tasks": "Tasks",
    "extensions.webhooks": "Webhooks verify_webhook",
    "http.client": "HttpServer",
    "http.headers": "HttpRequest HttpResponse",
    "http.options": "HttpOptions",
    "http.events": "EventStore",
    "server.context": "Context current_context",
    "features.executors": "Serial",
    "features.observers": "FinishedRequest LogFilter LogHandler",
    "server.options": "app method notification prompt resource tool",
    "server.paths": "resolve_inside",
    "features.questions": "Elicit ElicitUrl ListRoots Sample",
    "server.server": "Server serve",
    "stdio.child": "StdioServer",
    "stores.base": "Entry MemoryStore Store",
    "stores.redis": "RedisStore",
    "stores.sqlite": "SqliteStore",
}

# Names of other libraries, with the name to use in this one. The error is an ImportError, because
# `from minimcp import ...` does not show the message of an AttributeError.
_ELSEWHERE = {
    "FastMCP": "Server",
    "MCPServer": "Server",
    "ClientSession": "connect",
    "StdioServerParameters": "StdioServer",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in ("terminal", "testing"):
            return import_module(f"{__name__}.{name}")
        if name in _ELSEWHERE:
            raise ImportError(
                f"{__name__} has no {name}: write {_ELSEWHERE[name]} (examples/migration.rst "
                "compares)"
            )
        if name not in __all__:
            from difflib import get_close_matches

            near = [] if name.startswith("_") else get_close_matches(name, __all__, 1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        module = next(
            (module for module, names in _MODULES.items() if name in names.split()), "types"
        )
        value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "terminal", "testing"})
