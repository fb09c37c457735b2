"""From what a tool returned to the result that goes over the wire, by the facts of each revision.

A result leaves as JSON text: the value is serialized once, however often it stands in the result.
https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

from copy import copy
from typing import Any, Callable, Mapping, Optional

from ..errors import ToolError
from ..protocol.messages import Json, to_json
from ..protocol.versions import Revision
from ..schema.annotations import write_any
from ..schema.kinds import Kind
from ..types import (
    Audio,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    Image,
    ResourceLink,
    Text,
    UnknownContent,
    Wire,
)
from ..types.tool import WRAPPED
from .facts import Facts

CONTENT = (Text, Image, Audio, ResourceLink, EmbeddedResource, UnknownContent)


def fit(block: Any, revision: Revision) -> dict[str, Json]:
    """A content block as a revision knows it: a kind that it lacks becomes the nearest that it has."""
    wire: dict[str, Json] = block.to_wire()
    if block.type in revision.content_kinds or isinstance(block, UnknownContent):
        return wire
    if isinstance(block, Audio):
        contents = BlobResourceContents("audio:inline", block.data, mime_type=block.mime_type)
        return EmbeddedResource(contents, annotations=block.annotations).to_wire()
    return Text(f"{block.name}: {block.uri}", annotations=block.annotations).to_wire()


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


def is_object_schema(schema: Mapping[str, Json]) -> bool:
    """Whether every value that fits is an object, as far as the schema says so at its root."""
    return schema.get("type") == "object"


_AT_THE_ROOT = ("$defs", "definitions", "$schema")
"""Words that stay where references from inside look for them."""


def wrapped_schema(schema: Mapping[str, Json]) -> dict[str, Json]:
    """An output schema for revisions that only know objects: the value becomes the member ``result``."""
    if is_object_schema(schema):
        return dict(schema)
    inner = {name: word for name, word in schema.items() if name not in _AT_THE_ROOT}
    outer: dict[str, Json] = {"type": "object", "properties": {"result": inner}, "required": ["result"], WRAPPED: True}
    outer.update({name: schema[name] for name in _AT_THE_ROOT if name in schema})
    return outer


class ResultMaker:
    """Makes the results of one tool.

    Args:
        facts: Of the server.
        kind: What the tool's return annotation says; None when it says nothing.
        schema: The tool's output schema; None when there is none.
        check: Tells what is wrong with a value that leaves under a hand-written schema; None checks nothing.
        structured: None lets the annotation decide, True and False force it.
        blocks: Whether the annotation says content blocks.
    """

    def __init__(
        self,
        facts: Facts,
        kind: Optional[Kind],
        schema: Optional[Mapping[str, Json]],
        check: Optional[Callable[[Any], Optional[str]]],
        structured: Optional[bool],
        *,
        blocks: bool = False,
    ) -> None:
        self._facts, self._kind, self._schema, self._check = facts, kind, schema, check
        self._structured, self._blocks = structured, blocks

    def under(self, facts: Facts) -> ResultMaker:
        """The same for the server of these facts."""
        twin = copy(self)
        twin._facts = facts
        return twin

    def make(self, value: Any, revision: Revision) -> Any:
        """The result for what the tool returned.

        Returns:
            JSON text, or an object.

        Raises:
            ValueError, TypeError: The value does not fit what the tool promised, or is no JSON.
        """
        if type(value) is str and self._structured is not True and self._schema is None:
            return f'{{"content":[{{"type":"text","text":{to_json(value)}}}]{self._facts.closing(revision)}}}'
        if isinstance(value, CallToolResult):
            return self._as_is(value, revision)
        blocks = blocks_of(value, promised=self._blocks)
        if blocks is None:
            return self._from_value(value, revision)
        if self._schema is not None:
            raise TypeError(
                "content blocks do not fit the output schema: annotate the tool with their classes, as in "
                "list[Union[str, Image]]"
            )
        return self._facts.closed({"content": [fit(block, revision) for block in blocks]}, revision)

    def failed(self, error: ToolError, revision: Revision) -> Any:
        """The result for a tool that raised ToolError."""
        if error.content is None:
            return error_result(self._facts, str(error), revision)
        blocks = blocks_of(error.content, promised=True)
        if blocks is None:
            raise TypeError("ToolError takes content blocks as its content")
        return self._facts.closed({"content": [fit(block, revision) for block in blocks], "isError": True}, revision)

    def _as_is(self, result: CallToolResult, revision: Revision) -> dict[str, Json]:
        wire: dict[str, Json] = result.to_wire()
        wire["content"] = [fit(block, revision) for block in result.content]
        if result.has_structured_content:
            structured = result.structured_content
            if revision.structured == "none":
                del wire["structuredContent"]
            elif revision.structured == "object" and not isinstance(structured, dict):
                wire["structuredContent"] = {"result": structured}
        return self._facts.closed(wire, revision)

    def _from_value(self, value: Any, revision: Revision) -> str:
        written = self._written(value)
        value_json = to_json(written)
        text_json = value_json if type(written) is str else to_json(value_json)
        content = f'{{"content":[{{"type":"text","text":{text_json}}}]'
        closing = f"{self._facts.closing(revision)}}}"
        if revision.structured == "none" or self._structured is False:
            return content + closing
        if revision.structured == "object" and not self._is_object(written):
            value_json = f'{{"result":{value_json}}}'
        return f'{content},"structuredContent":{value_json}{closing}'

    def _is_object(self, written: Json) -> bool:
        return isinstance(written, dict) if self._schema is None else is_object_schema(self._schema)

    def _written(self, value: Any) -> Json:
        if isinstance(value, Wire):
            value = value.to_wire()
        written = write_any(value) if self._kind is None else self._kind.write(value)
        problem = None if self._check is None else self._check(written)
        if problem is not None:
            raise ValueError(problem)
        return written


def error_result(facts: Facts, text: str, revision: Revision) -> str:
    """The result that says a tool failed, in words for the model."""
    return f'{{"content":[{{"type":"text","text":{to_json(text)}}}],"isError":true{facts.closing(revision)}}}'
