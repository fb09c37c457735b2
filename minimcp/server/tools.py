"""Tools: functions that a client may call, and the results that their return values become.

A result is written as JSON text. Its value is encoded once, even if the result holds it twice.
https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import re
from collections import abc
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence

from .. import errors
from ..engine.incoming import IncomingRequest, Route
from ..engine.limits import check_number
from ..log import logger
from ..protocol.messages import (
    PARAPHRASE_INVALID_ARGUMENTS,
    PARAPHRASE_TOOL_FAILED,
    Json,
    to_json,
    wire_failure,
)
from ..protocol.versions import Revision
from ..schema.annotations import write_any
from ..schema.kinds import is_foreign
from ..schema.mismatch import NOTHING, Mismatch, cut, plain_json
from ..schema.values import mapped
from ..types.base import Wire
from ..types.content import (
    Audio,
    BlobResourceContents,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    UnknownContent,
    check_sendable,
)
from ..types.tool import FASTMCP_WRAPPED, WRAPPED, CallToolResult, Tool, ToolAnnotations
from .feature import Destination, Feature, HandOver, OptionSpec, load
from .options import NONE, OPTIONAL_FLAG, annotated
from .registered import RegisteredFunction, ServerConfig, Table, keep_members

if TYPE_CHECKING:
    from ..schema.checker import Check

log = logger("minimcp.tools")
hosts_log = logger("minimcp.hosts")

CONTENT = (Text, Image, Audio, ResourceLink, EmbeddedResource, UnknownContent)

# Names that every host accepts. `schema.hosts` judges all others.
PLAIN_NAME = re.compile("[A-Za-z0-9_-]{1,45}")
# Keywords that describe an object even if the root has no "type".
_OBJECT_KEYWORDS = frozenset(
    {"properties", "required", "patternProperties", "additionalProperties"}
)
# The keyword of a schema that names the HTTP header of an argument.
HEADER_KEYWORD = "x-mcp-header"
# Keywords that stay at the root when a schema is wrapped, because references lead there.
_ROOT_KEYWORDS = ("$defs", "definitions", "$schema")


JSON_SCHEMA = OptionSpec((abc.Mapping, NONE), "a JSON Schema, which is a dict, or None")


def fit(block: Any, revision: Revision) -> dict[str, Json]:
    """Return a content block in the form of a revision. An unsupported kind becomes a similar
    one."""
    if block.type not in revision.content_kinds and isinstance(block, Audio):
        contents = BlobResourceContents("audio:inline", block.data, mime_type=block.mime_type)
        block = EmbeddedResource(contents, annotations=block.annotations)
    elif block.type not in revision.content_kinds and not isinstance(block, UnknownContent):
        block = Text(f"{block.name}: {block.uri}", annotations=block.annotations)
    check_sendable(block)
    wire: dict[str, Json] = block.to_wire()
    return wire


def blocks_of(value: Any, *, promised: bool = False) -> Optional[list[Any]]:
    """Return the content blocks that a tool returned, alone or in a list; None for any other value.

    Other items of such a list become text blocks: a str unchanged, any other value as JSON.

    Args:
        value: The tool's return value.
        promised: Whether the return annotation names content blocks. Then None, an empty list and a
            list of str are content blocks, too.

    Raises:
        Mismatch: An item of the list has no JSON form.
    """
    if isinstance(value, CONTENT):
        return [value]
    if value is None and promised:
        return []
    if not isinstance(value, list) and type(value) is not tuple:
        return None
    has_blocks = any(isinstance(item, CONTENT) for item in value)
    if not has_blocks and not (promised and all(isinstance(item, str) for item in value)):
        return None
    return [item if isinstance(item, CONTENT) else Text(_as_text(item)) for item in value]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    written = write_any(value)
    return _table(value, written) or to_json(written)


def _table(value: Any, written: Json) -> Optional[str]:
    """Return a pandas `DataFrame` as a Markdown table, or None for any other value."""
    if not is_foreign(type(value)):
        return None
    from ..schema.tables import markdown  # few servers have such values

    return markdown(value, written)


def _stand_in(value: Any) -> Any:
    """Return the structured content for a content block: its JSON without the data."""
    if not isinstance(value, CONTENT):
        return value
    wire: dict[str, Json] = value.to_wire()
    if isinstance(wire.get("resource"), dict):
        wire["resource"] = {**wire["resource"]}
        wire["resource"].pop("blob", None)
    wire.pop("data", None)
    return wire


def wrapped_schema(schema: Mapping[str, Json], *, strict: bool = False) -> dict[str, Json]:
    """Return an output schema for revisions whose results must be objects.

    A value that is not an object becomes the member ``result`` of an object.

    Args:
        schema: The schema of the value. An object is not wrapped.
        strict: Whether the wrapping object rejects other members.
    """
    if schema.get("type") == "object":
        return dict(schema)
    inner = mapped(
        {name: word for name, word in schema.items() if name not in _ROOT_KEYWORDS}, _one_deeper
    )
    outer: dict[str, Json] = {
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
    }
    if strict:
        outer["additionalProperties"] = False
    return {**outer, WRAPPED: True, FASTMCP_WRAPPED: True, **keep_members(schema, _ROOT_KEYWORDS)}


def _one_deeper(schema: dict[str, Json]) -> dict[str, Json]:
    """Return a schema whose references still work after its root has become a property."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not re.match("#(/|$)", reference):
        return schema
    if reference.split("/")[1:2] in (["$defs"], ["definitions"]):
        return schema
    return {**schema, "$ref": f"#/properties/result{reference[1:]}"}


def object_root(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Return a schema of objects in the form that every client reads.

    Some clients require that the root's ``type`` is "object", and that each property is an object.
    """
    root: dict[str, Json] = {"type": "object", **schema} if "type" not in schema else {**schema}
    root["type"] = "object"
    if "properties" in root:
        as_objects: dict[Any, dict[str, Json]] = {True: {}, False: {"not": {}}}
        root["properties"] = {
            name: as_objects[each] if isinstance(each, bool) else each
            for name, each in root["properties"].items()
        }
    return root


def error_result(text: str, revision: Revision, config: ServerConfig) -> str:
    """Return the result of a failed tool call, with a text for the model."""
    content = f'{{"content":[{{"type":"text","text":{to_json(text)}}}],"isError":true'
    return content + config.result_suffix[revision.result_type]


class RegisteredTool(RegisteredFunction):
    """One tool of a server: how it is listed and called.

    Raises:
        TypeError: The function cannot be a tool; the message says what to write instead.
        ValueError: A schema is invalid, or an option has a value that is not accepted.
        ImportError: A schema needs ``jsonschema``, which is not installed.
    """

    kind = "tool"
    returned_as_is = (CallToolResult, *CONTENT)
    returned_alone = (CallToolResult,)

    # The member ``execution`` in lists, set by a feature; omitted if None.
    execution: Optional[Mapping[str, Json]] = None

    # The arguments that clients repeat in HTTP headers (`schema.header_params`).
    header_params: Sequence[Any] = ()

    def __init__(
        self, config: ServerConfig, function: Callable[..., Any], options: Mapping[str, Any]
    ) -> None:
        super().__init__(config, function, options)
        given_input, check_input = self._given("input_schema")
        given_output, check_output = self._given("output_schema")
        self._check_input = check_input
        self._check_output = check_output
        self.structured: Optional[bool] = options.get("structured")
        if self.structured is False and given_output is not None:
            raise ValueError(
                f"{self.owner}: structured=False contradicts output_schema; leave one of them out"
            )
        self.output_kind = kind = self.signature.output_kind
        output_schema = given_output
        if output_schema is None and kind is not None:
            # A str is sent as text, without a schema, unless the author wants it structured.
            is_structured = kind.writes is not str if self.structured is None else self.structured
            output_schema = (kind.schema or None) if is_structured else None
        input_schema = self.signature.input_schema if given_input is None else given_input
        if options.get("headers"):
            with_header_params = load("schema.header_params").with_header_params
            input_schema = with_header_params(input_schema, options["headers"])
        self.set_definition(
            Tool,
            input_schema=input_schema,
            output_schema=output_schema,
            annotations=annotated(
                options.get("annotations"), ToolAnnotations, '{"read_only_hint": True}', self.owner
            ),
        )
        if given_input is not None:
            self._refuse_uncallable(given_input)
        if HEADER_KEYWORD in to_json(self.definition.input_schema):
            self.header_params = load("schema.header_params").header_params(
                self.definition.input_schema
            )
        self._schema: Optional[Mapping[str, Json]] = self.definition.output_schema
        # Whether a str that the tool returns is sent unchanged.
        self._returns_text = (
            self._schema is None
            and self.structured is not True
            and (kind is None or str in kind.exact)
        )
        # Whether the return annotation names content blocks.
        self._promises_blocks = (
            self.signature.output_kind is None and self.signature.returns is not NOTHING
        )

    def _given(self, option: str) -> tuple[Optional[dict[str, Json]], Optional[Check]]:
        """Return the schema that the author gave, with the root that clients need, and its check.

        Returns None twice if the option is missing.

        Raises:
            TypeError: The schema is not JSON; the message names the place.
            ValueError: The schema is invalid, or an input schema accepts no object.
        """
        given = self.options.get(option)
        if given is None:
            return None, None
        from ..schema.checker import compile_check, types_of  # needed only for such a schema

        where = f"{self.owner}: {option}"
        schema: dict[str, Json] = plain_json(given, where)
        check = compile_check(schema, where=where)
        types = types_of(schema)
        if option == "input_schema" and "object" not in types:
            raise ValueError(
                f"{where} does not accept an object, but arguments are always an object: write "
                '"type": "object"'
            )
        has_members = "type" not in schema and not _OBJECT_KEYWORDS.isdisjoint(schema)
        if option == "input_schema" or types == {"object"} or has_members:
            schema = object_root(schema)
            check = compile_check(schema, where=where)
        return schema, check

    def _refuse_uncallable(self, schema: Mapping[str, Json]) -> None:
        """Reject a function that cannot be called with the arguments that its input schema accepts.

        Raises:
            TypeError: The schema excludes a required parameter; or a parameter has validators,
                which would not run, because only the schema checks the arguments.
        """
        if self.signature.validated:
            name = self.signature.validated[0]
            raise TypeError(
                f"{self.owner}: input_schema replaces the annotations, so the validators of"
                f" {name!r} would not run: call them in the function"
            )
        properties = schema.get("properties")
        is_closed = (
            schema.get("additionalProperties") is False and "patternProperties" not in schema
        )
        for each in self.signature.parameters if is_closed else ():
            if each.required and each.name not in (properties or ()):
                raise TypeError(
                    f"{self.owner}: input_schema does not allow {each.name!r}, which the function"
                    " requires"
                )

    def arguments_of(self, params: Mapping[str, Json]) -> dict[str, Any]:
        arguments = params.get("arguments") or {}
        if self._check_input is None:
            keywords = self.signature.read_arguments(arguments)
        else:
            problem = self._check_input(arguments)
            if problem is not None:
                raise problem
            keywords = dict(arguments)
        if self.signature.defaults:
            self.signature.completed(keywords)
        return keywords

    def call(self, incoming: IncomingRequest) -> Any:
        """Call the function.

        Raises:
            ToolError, InvalidParams: The arguments do not match the schema.
        """
        if self.requires:
            self.check_required(incoming)
        try:
            keywords = self.arguments_of(incoming.request.params)
        except Mismatch as error:
            if (
                incoming.server.strict_arguments
                and not incoming.peer.revision.argument_errors_are_results
            ):
                raise errors.InvalidParams(f"{self.key}: {error}") from None
            raise errors.ToolError(str(error)) from None
        if self.signature.context_parameter is not None:
            keywords[self.signature.context_parameter] = self.make_context(incoming)
        return self.function(**keywords)

    # ------------------------------------------------------------ results

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        """Return the result for a return value, as JSON text or an object.

        Raises:
            ValueError, TypeError: The value does not match the output schema, or has no JSON form.
        """
        revision = incoming.peer.revision
        config = incoming.server
        closing = config.result_suffix[revision.result_type]
        if type(value) is str and self._returns_text:
            return f'{{"content":[{{"type":"text","text":{to_json(value)}}}]{closing}'
        if isinstance(value, CallToolResult):
            return config.finalize_result(self._as_is(value, revision), revision)
        is_value = isinstance(value, (int, float, dict))
        blocks = None if is_value else blocks_of(value, promised=self._promises_blocks)
        if blocks is not None:
            content = to_json([fit(block, revision) for block in blocks])
            if self._schema is None:
                return f'{{"content":{content}{closing}'
            # The schema requires a value, as the schema of ``list`` does.
            value = _stand_in(value) if isinstance(value, CONTENT) else [*map(_stand_in, value)]
        elif isinstance(value, Wire):
            value = value.to_wire()
        written = write_any(value) if self.output_kind is None else self.output_kind.write(value)
        problem = None if self._check_output is None else self._check_output(written)
        if problem is not None:
            raise problem
        text = to_json(written)
        if blocks is None:
            table = _table(value, written) if is_foreign(type(value)) else None
            shown = text if type(written) is str else to_json(table or text)
            content = f'[{{"type":"text","text":{shown}}}]'
        if revision.structured == "none" or self.structured is False:
            return f'{{"content":{content}{closing}'
        is_object = (
            isinstance(written, dict)
            if self._schema is None
            else self._schema.get("type") == "object"
        )
        if revision.structured == "object" and not is_object:
            text = f'{{"result":{text}}}'
        return f'{{"content":{content},"structuredContent":{text}{closing}'

    def _as_is(self, result: CallToolResult, revision: Revision) -> dict[str, Json]:
        wire: dict[str, Json] = result.to_wire()
        wire["content"] = [fit(block, revision) for block in result.content]
        if result.has_structured_content:
            structured = wire["structuredContent"] = write_any(result.structured_content)
            if revision.structured == "none":
                del wire["structuredContent"]
            elif revision.structured == "object" and not isinstance(structured, dict):
                wire["structuredContent"] = {"result": structured}
        return wire

    # ------------------------------------------------------------ exceptions

    def failed(self, error: BaseException, incoming: IncomingRequest, returned: bool) -> Any:
        """Raise an exception that belongs to the protocol. Return a tool error for any other
        exception.

        The first branch that applies decides. Texts that are written for the model are returned as
        they are. ``mask_errors`` comes last, because it hides only the texts of bugs.
        """
        revision = incoming.peer.revision
        config = incoming.server
        from .advice import describe_with_advice

        text = describe_with_advice(error)
        if returned and isinstance(error, Exception):
            is_none = text.startswith("expected") and text.endswith("got null")
            text = f"{self.key} returned an invalid value: {text}"
            if self._check_output is None and self.signature.returns is not NOTHING:
                from inspect import formatannotation

                annotation = formatannotation(self.signature.returns, self.function.__module__)
                text += f". The return annotation is {cut(annotation, 80)}."
            if is_none:
                text += " (None: is a return missing in a branch?)"
        elif isinstance(error, errors.ToolError):
            if error.content is None:
                return error_result(str(error), revision, config)
            blocks = blocks_of(error.content, promised=True)
            if blocks is not None:
                return config.finalize_result(
                    {"content": [fit(each, revision) for each in blocks], "isError": True}, revision
                )
            text = "the content of a ToolError must be content blocks"
        elif isinstance(error, HandOver):
            raise error
        else:
            incoming.interrupted = isinstance(error, KeyboardInterrupt)
            if isinstance(error, errors.Cancelled) and incoming.token.cancelled:
                raise error
            if incoming.asker is not None and incoming.asker.pending:
                raise error  # the pending question goes to the client before this error
            is_ours = isinstance(error, errors.RpcError) and not error.from_peer
            if is_ours and _is_sent_as_error(error, revision):
                raise error
            if is_ours or isinstance(error, errors.Declined):
                # Not a bug, and the text is safe to send: it is not logged or masked.
                return error_result(str(error), revision, config)
        if config.mask_errors:
            masked = wire_failure(incoming.request.id, error, revision, self.key)
            return error_result(masked.message, revision, config)
        log.error("%s failed: %s", self.key, text, exc_info=error)
        return error_result(text, revision, config)

    def to_wire(self, revision: Revision) -> dict[str, Json]:
        """Return the tool's entry in a list, in the form of a revision."""
        wire: dict[str, Json] = self.definition.to_wire()
        if self.execution is not None:
            wire["execution"] = self.execution
        output = wire.get("outputSchema")
        if output is not None and revision.structured == "object":
            wire["outputSchema"] = wrapped_schema(output, strict=self.config.strict_schemas)
        if (
            "title" in wire
            and "title" not in revision.tool_members
            and "annotations" in revision.tool_members
        ):
            wire["annotations"] = {"title": wire["title"], **wire.get("annotations", {})}
        return keep_members(wire, revision.tool_members)


def _is_sent_as_error(error: Any, revision: Revision) -> bool:
    """Return whether a protocol error of an author is the response.

    Otherwise its message is a result, because the model should read it, or because clients of the
    revision do not know the error.
    """
    if isinstance(error, (errors.ResourceNotFound, errors.ResourceAccessDenied)):
        return False
    if isinstance(error, errors.UrlElicitationRequired):
        return revision.url_errors
    if error.code in (PARAPHRASE_TOOL_FAILED, PARAPHRASE_INVALID_ARGUMENTS):
        return revision.handshake
    return not (isinstance(error, errors.CapabilityNotSupported) and revision.handshake)


def _check_timeout(label: str, value: Any) -> None:
    check_number(label, value, whole=False)
    if value == 0:
        raise ValueError(f"{label} must be more than 0, not {value}")


class Tools(Feature):
    """The tools of one server, and the methods `tools/list` and `tools/call`.

    Args:
        offers: Returns whether a capability ("tools") is offered.
    """

    capability = "tools"
    makers = {"tool": RegisteredTool}
    options = {
        "annotations": OptionSpec(),
        "input_schema": JSON_SCHEMA,
        "output_schema": JSON_SCHEMA,
        "structured": OPTIONAL_FLAG,
        "timeout": OptionSpec(check=_check_timeout),
        "executor": OptionSpec(),
        "headers": OptionSpec(),
    }

    def __init__(self, offers: Callable[[str], bool]) -> None:
        self._offers = offers
        self.table: Table[RegisteredTool] = Table("tool", "tools", "tools", has_prefix=True)
        self.tables = (self.table,)
        self._has_odd_tools = False

    def added(self, entry: Any) -> None:
        """Log a warning about names and schemas that hosts drop or change without a message."""
        inputs = entry.definition.input_schema
        # Schemas from annotations are sent in a form that every host accepts.
        output = entry.definition.output_schema if entry.options.get("output_schema") else None
        is_plain = output is None or output.get("type") == "object"
        if is_plain and not self._has_odd_tools:
            names = (entry.key, *inputs.get("properties", ()))
            if all(map(PLAIN_NAME.fullmatch, names)):
                return
        self._has_odd_tools = True
        from ..schema.hosts import host_problems

        problem = host_problems(entry.key, inputs, output, list(self.table.items))
        if problem is not None:
            self.table.warn_once(entry.key, problem, hosts_log)

    def routes(self) -> Mapping[str, Destination]:
        """Return the routes of `tools/list` and `tools/call`."""
        return {
            "tools/list": Route(self.table.serve_page, immediate=True),
            "tools/call": self.table.route,
        }

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Declare tools if there are any."""
        if not self._offers("tools"):
            return {}
        return {"tools": {"listChanged": True}}
