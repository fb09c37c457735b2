"""Tools: functions that a client may call, and the results that their return values become.

A result leaves as JSON text: the value is serialized once, however often it stands in the result.
https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..engine.requests import IncomingRequest, Route
from ..engine.timer import Timeout
from ..errors import (
    OLD_TOOL_CODES,
    Cancelled,
    CapabilityNotSupported,
    Declined,
    InvalidParams,
    RpcError,
    ToolError,
    UrlElicitationRequired,
    describe,
    one_line,
)
from ..protocol.messages import Json, Request, encode_result, to_json
from ..protocol.versions import Revision
from ..schema.annotations import write_any
from ..schema.checker import compile_check
from ..schema.header_params import in_headers, mirrored
from ..schema.kinds import Kind
from ..schema.mismatch import NOTHING, Mismatch, described
from ..schema.signature import Signature, read_signature
from ..types import (
    Audio,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    Icon,
    Image,
    ResourceLink,
    Text,
    Tool,
    ToolAnnotations,
    UnknownContent,
    Wire,
)
from ..types.tool import WRAPPED
from .context import Context
from .executors import Executor, route_to
from .input_rounds import serve_rounds, url_required
from .registered import (
    Pages,
    Registered,
    ServerConfig,
    Table,
    annotated,
    check_options,
    check_required,
    name_of,
    only,
    required,
    where,
)

log = logging.getLogger("minimcp.tools")

CONTENT = (Text, Image, Audio, ResourceLink, EmbeddedResource, UnknownContent)
FASTMCP_WRAPPED = "x-fastmcp-wrap-result"
"""The mark by which FastMCP's client knows a wrapped output schema; ours is `types.tool.WRAPPED`."""

_GOOD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ODD_NAME = "has a name that not every client takes: use 1 to 128 of A-Z a-z 0-9 _ . -"
_AT_THE_ROOT = ("$defs", "definitions", "$schema")
"""Words that stay where references from inside look for them."""

Check = Callable[[Any], Optional[str]]
"""Tells what is wrong with a value; None when nothing is."""


# ------------------------------------------------------------ results


def fit(block: Any, revision: Revision) -> dict[str, Json]:
    """A content block as a revision knows it: a kind that it lacks becomes the nearest that it has."""
    if block.type not in revision.content_kinds and isinstance(block, Audio):
        contents = BlobResourceContents("audio:inline", block.data, mime_type=block.mime_type)
        block = EmbeddedResource(contents, annotations=block.annotations)
    elif block.type not in revision.content_kinds and not isinstance(block, UnknownContent):
        block = Text(f"{block.name}: {block.uri}", annotations=block.annotations)
    wire: dict[str, Json] = block.to_wire()
    return wire


def blocks_of(value: Any, *, promised: bool = False) -> Optional[list[Any]]:
    """The content blocks that a tool returned, alone or in a list, with texts between them; None for a value.

    Args:
        value: What it returned.
        promised: Whether its annotation says blocks: then an empty list, None and a list of texts are blocks as well.
    """
    if isinstance(value, CONTENT):
        return [value]
    if value is None and promised:
        return []
    if type(value) not in (list, tuple) or not all(isinstance(item, (*CONTENT, str)) for item in value):
        return None
    if not promised and not any(isinstance(item, CONTENT) for item in value):
        return None
    return [Text(item) if isinstance(item, str) else item for item in value]


def wrapped_schema(schema: Mapping[str, Json]) -> dict[str, Json]:
    """An output schema for revisions that only know objects: the value becomes the member ``result``."""
    if schema.get("type") == "object":
        return dict(schema)
    inner = {name: word for name, word in schema.items() if name not in _AT_THE_ROOT}
    outer: dict[str, Json] = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return {**outer, WRAPPED: True, FASTMCP_WRAPPED: True, **only(schema, _AT_THE_ROOT)}


@dataclass(eq=False, repr=False)
class Results:
    """Makes the results of one tool."""

    kind: Optional[Kind] = None
    """What the tool's return annotation says; None when it says nothing."""
    schema: Optional[Mapping[str, Json]] = None
    """The tool's output schema; None when there is none."""
    check: Optional[Check] = None
    """Checks a value that leaves under a hand-written schema; None checks nothing."""
    structured: Optional[bool] = None
    """None lets the annotation decide, True and False force it."""
    blocks: bool = False
    """Whether the annotation says content blocks."""

    def make(self, value: Any, revision: Revision, config: ServerConfig) -> Any:
        """The result for what the tool returned: JSON text, or an object.

        Raises:
            ValueError, TypeError: The value does not fit what the tool promised, or is no JSON.
        """
        if type(value) is str and self.schema is None and self.structured is not True:
            return f'{{"content":[{{"type":"text","text":{to_json(value)}}}]{config.closing(revision)}}}'
        if isinstance(value, CallToolResult):
            return config.closed(self._as_is(value, revision), revision)
        blocks = blocks_of(value, promised=self.blocks)
        if blocks is None:
            written = self._written(value)
            written_json = to_json(written)
            content = f'[{{"type":"text","text":{written_json if type(written) is str else to_json(written_json)}}}]'
        else:
            content = to_json([fit(block, revision) for block in blocks])
            if self.schema is None:
                return f'{{"content":{content}{config.closing(revision)}}}'
            written = self._written_blocks(value)
            written_json = to_json(written)
        if revision.structured == "none" or self.structured is False:
            return f'{{"content":{content}{config.closing(revision)}}}'
        if revision.structured == "object" and not self._is_object(written):
            written_json = f'{{"result":{written_json}}}'
        return f'{{"content":{content},"structuredContent":{written_json}{config.closing(revision)}}}'

    def _is_object(self, written: Json) -> bool:
        return isinstance(written, dict) if self.schema is None else self.schema.get("type") == "object"

    def _written(self, value: Any) -> Json:
        if isinstance(value, Wire):
            value = value.to_wire()
        written = write_any(value) if self.kind is None else self.kind.write(value)
        problem = None if self.check is None else self.check(written)
        if problem is not None:
            raise ValueError(problem)
        return written

    def _written_blocks(self, value: Any) -> Json:
        """Content blocks under an output schema that takes any object, as that of ``list[Any]``."""
        items = value if isinstance(value, (list, tuple)) else [value]
        wires = [item.to_wire() if isinstance(item, Wire) else item for item in items]
        try:
            return self._written(wires if items is value else wires[0])
        except ValueError:
            raise TypeError(
                "content blocks do not fit the output schema: annotate the tool with their classes, as in "
                "list[Union[str, Image]]"
            ) from None

    def _as_is(self, result: CallToolResult, revision: Revision) -> dict[str, Json]:
        wire: dict[str, Json] = result.to_wire()
        wire["content"] = [fit(block, revision) for block in result.content]
        if result.has_structured_content:
            structured = result.structured_content
            if revision.structured == "none":
                del wire["structuredContent"]
            elif revision.structured == "object" and not isinstance(structured, dict):
                wire["structuredContent"] = {"result": structured}
        return wire


def error_result(text: str, revision: Revision, config: ServerConfig) -> str:
    """The result that says a tool failed, in words for the model."""
    return f'{{"content":[{{"type":"text","text":{to_json(text)}}}],"isError":true{config.closing(revision)}}}'


# ------------------------------------------------------------ one tool


@dataclass(eq=False, repr=False)
class RegisteredTool(Registered):
    """One tool of a server: how it is listed, and how it is called."""

    signature: Signature
    """How arguments become parameters."""
    results: Results
    check_input: Optional[Check]
    """Checks arguments against a hand-written schema; None when the signature makes the schema."""
    timeout: Optional[float]
    """Seconds it may run; None sets no limit."""
    requires: tuple[str, ...]
    """Client capabilities that it needs, by dotted name."""

    def __post_init__(self) -> None:
        self.mirrored = mirrored(self.shown.input_schema)
        super().__post_init__()

    def make_route(self) -> Route:
        return route_to(self.handle, self.executor, None if self.timeout is None else self._watch)

    def _watch(self, exchange: IncomingRequest) -> Callable[[], None]:
        """A queue that nobody takes the request out of does not keep the client waiting either."""
        return self._countdown("begin", exchange).stop

    def _countdown(self, what: str, exchange: IncomingRequest) -> Timeout:
        """Answers with an error result when the time is over, unless it is stopped."""
        assert self.timeout is not None
        text = f"{self.shown.name} did not {what} within {self.timeout:g} s"

        def ring() -> None:
            result = error_result(text, exchange.peer.revision, exchange.server)
            exchange.expire(encode_result(exchange.request.id, result), text)

        return Timeout(self.timeout, ring)

    def handle(self, exchange: IncomingRequest) -> Any:
        return serve_rounds(self.serve, exchange)

    def serve(self, exchange: IncomingRequest) -> Any:
        """Call the tool for a request.

        Raises:
            RpcError: The author raised one of his own, the client lacks a capability, or arguments do not fit.
            Cancelled: The request was cancelled.
        """
        if self.timeout is not None:
            exchange.timeout = self._countdown("finish", exchange)
        try:
            if any(self.middleware):
                value = self.run(Context(exchange), partial(self.call, exchange))
            else:
                value = self.call(exchange)
        except BaseException as error:
            return self._failed(error, exchange)
        finally:
            if exchange.timeout is not None:
                exchange.timeout.stop()
        try:
            return self.results.make(value, exchange.peer.revision, exchange.server)
        except Exception as error:
            return self._wrong_value(error, exchange)

    def call(self, exchange: IncomingRequest) -> Any:
        """Call the function; arguments that do not fit are told to the model, or are an error of the protocol."""
        if self.requires:
            check_required(exchange.peer, self.requires, self.shown.name)
        arguments = exchange.request.params.get("arguments") or {}
        try:
            if self.check_input is None:
                keywords = self.signature.read_arguments(arguments)
            else:
                problem = self.check_input(arguments)
                if problem is not None:
                    raise Mismatch("", instead=problem)
                keywords = dict(arguments)
        except Mismatch as error:
            if exchange.server.strict_arguments and not exchange.peer.revision.argument_errors_are_results:
                raise InvalidParams(f"{self.shown.name}: {error}") from None
            raise ToolError(str(error)) from None
        if self.signature.context_parameter is not None:
            keywords[self.signature.context_parameter] = Context(exchange)
        return self.function(**keywords)

    def _failed(self, error: BaseException, exchange: IncomingRequest) -> Any:
        """Every exception: passed on, or told to the model in the tool's own words."""
        revision, config = exchange.peer.revision, exchange.server
        if isinstance(error, ToolError):
            return self._told(error, exchange)
        exchange.interrupted = isinstance(error, KeyboardInterrupt)
        if isinstance(error, Cancelled) and exchange.cancelled:
            raise error
        if exchange.asker is not None and exchange.asker.pending:
            raise error  # it has a question to ask: that comes first
        if isinstance(error, RpcError) and not error.from_peer:
            if isinstance(error, UrlElicitationRequired) and not revision.handshake:
                url_required(exchange, error)
            if _is_known(error, revision):
                raise error
            return error_result(str(error), revision, config)
        if isinstance(error, Declined):
            return error_result(str(error), revision, config)  # no fault, and no words but ours
        return self._unexpected(error, describe(error), exchange)

    def _told(self, error: ToolError, exchange: IncomingRequest) -> Any:
        """The result for a tool that raised ToolError."""
        revision, config = exchange.peer.revision, exchange.server
        try:
            if error.content is None:
                return error_result(str(error), revision, config)
            blocks = blocks_of(error.content, promised=True)
            if blocks is None:
                raise TypeError("ToolError takes content blocks as its content")
            return config.closed({"content": [fit(each, revision) for each in blocks], "isError": True}, revision)
        except Exception as wrong:
            return self._wrong_value(wrong, exchange)

    def _wrong_value(self, error: Exception, exchange: IncomingRequest) -> str:
        return self._unexpected(error, f"{self.shown.name} returned a wrong value: {describe(error)}", exchange)

    def _unexpected(self, error: BaseException, text: str, exchange: IncomingRequest) -> str:
        """What the model is told of a fault: these words, or where they are masked a reference that the log has."""
        name = one_line(self.shown.name)
        if exchange.server.mask_errors:
            reference = os.urandom(4).hex()
            log.error("%s failed, reference %s: %s", name, reference, one_line(text), exc_info=error)
            text = f"Internal error (reference {reference})"
        else:
            log.error("%s failed: %s", name, one_line(text), exc_info=error)
        return error_result(text, exchange.peer.revision, exchange.server)

    def listed(self, revision: Revision) -> dict[str, Json]:
        """The tool as a revision lists it."""
        wire: dict[str, Json] = self.shown.to_wire()
        output = wire.get("outputSchema")
        if output is not None and revision.structured == "object":
            wire["outputSchema"] = wrapped_schema(output)
        if "title" in wire and "title" not in revision.tool_members and "annotations" in revision.tool_members:
            wire["annotations"] = {"title": wire["title"], **wire.get("annotations", {})}
        return only(wire, revision.tool_members)


def _is_known(error: RpcError, revision: Revision) -> bool:
    """Whether clients of a revision know what to make of an author's error of the protocol."""
    if isinstance(error, UrlElicitationRequired):
        return revision.url_errors
    if error.code in OLD_TOOL_CODES:
        return revision.handshake
    return not (isinstance(error, CapabilityNotSupported) and revision.handshake)


class Tools:
    """All tools of one server. Thread-safe.

    Args:
        config: Of the server.
        changed: Told that there are more or fewer of them now.
    """

    def __init__(self, config: ServerConfig, changed: Callable[[], None]) -> None:
        self._config, self._changed = config, changed
        self.table: Table[RegisteredTool] = Table("tool")
        self.pages = Pages("tools", self.table)

    def add(
        self,
        function: Callable[..., Any],
        *,
        name: Optional[str] = None,
        title: Optional[str] = None,
        description: Optional[str] = None,
        annotations: Optional[Union[ToolAnnotations, Mapping[str, Json]]] = None,
        input_schema: Optional[Mapping[str, Json]] = None,
        output_schema: Optional[Mapping[str, Json]] = None,
        icons: Optional[Sequence[Icon]] = None,
        meta: Optional[Mapping[str, Json]] = None,
        structured: Optional[bool] = None,
        timeout: Optional[float] = None,
        executor: Optional[Executor] = None,
        requires: Sequence[str] = (),
        headers: Optional[Mapping[str, str]] = None,
        replace: bool = False,
    ) -> None:
        """Register a function as a tool. The arguments are those of `Server.tool`.

        Raises:
            TypeError: The function cannot be a tool; the message says what to write instead.
            ValueError: The name is taken, or a schema is invalid.
            ImportError: A schema needs ``jsonschema``, which is not installed.
        """
        signature = read_signature(
            function, context_type=Context, owner=where(function), content_types=(CallToolResult, *CONTENT)
        )
        name = name_of(function, name, "tool")
        owner = f"tool {name!r}"
        check_options(locals(), f"{owner}: ")
        if input_schema is not None and input_schema.get("type", "object") != "object":
            raise ValueError(f"{owner}: the arguments are an object: input_schema has no type {input_schema['type']!r}")
        if structured is False and output_schema is not None:
            raise ValueError(f"{owner}: structured=False and an output_schema contradict each other")
        kind = None if structured is False else signature.output_kind
        if kind is not None and kind.writes is str and structured is not True:
            kind = None  # text is sent as text
        schema = None if kind is None else kind.schema or None
        schema = schema if output_schema is None else dict(output_schema)
        shown = Tool(
            name,
            in_headers(signature.input_schema if input_schema is None else input_schema, headers or {}),
            title=title,
            description=description if description is not None else signature.description or None,
            output_schema=schema,
            annotations=annotated(annotations, ToolAnnotations, '{"read_only_hint": True}', owner),
            icons=icons,
            meta=None if meta is None else dict(meta),
        )
        check_input = None if input_schema is None else compile_check(dict(shown.input_schema), where=f"{name} input")
        check_output = None if output_schema is None else compile_check(dict(output_schema), where=f"{name} output")
        says_blocks = signature.output_kind is None and signature.returns is not NOTHING
        results = Results(kind, schema, check_output, structured, says_blocks)
        needs = required(requires, owner)
        tool = RegisteredTool(self._config, function, shown, executor, signature, results, check_input, timeout, needs)
        self.table.add(name, tool, replace=replace)
        self.table.advise(name, shown.description, None if _GOOD_NAME.fullmatch(name) else _ODD_NAME)
        self._changed()

    def remove(self, name: str) -> None:
        """Take a tool away.

        Raises:
            KeyError: There is none of this name.
        """
        self.table.remove(name)
        self._changed()

    def get(self, name: str) -> RegisteredTool:
        """The tool of this name.

        Raises:
            KeyError: There is none.
        """
        return self.table.items[name]

    def route_of_call(self, request: Request) -> Route:
        """Where a `tools/call` goes.

        Raises:
            InvalidParams: It names no tool of this server, or its arguments are no object.
        """
        name, arguments = request.params.get("name"), request.params.get("arguments")
        tool = self.table.get(name)
        if tool is None:
            raise InvalidParams(self.table.unknown(name) if isinstance(name, str) else "name is a string")
        if arguments is not None and type(arguments) is not dict:
            raise InvalidParams(f"arguments is an object, not {described(arguments)}")
        return tool.route
