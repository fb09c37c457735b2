"""Tools: how they are listed, and what calling one gives.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from .base import ABSENT, Faults, Items, Json, OptionalItems, Wire, member
from .content import Content, Icon, Named, WithContent

WRAPPED = "x-minimcp-wrapped"
"""Marks an output schema that only holds the real one, for revisions whose structured content is an
object."""

FASTMCP_WRAPPED = "x-fastmcp-wrap-result"
"""The mark that FastMCP's client knows instead."""


class ToolAnnotations(Wire):
    """Hints about what a tool does. They come from the server: trust them as far as you trust it.

    Args:
        title: For people.
        read_only_hint: It changes nothing; None says nothing, which reads as False.
        destructive_hint: It may delete or overwrite; None reads as True.
        idempotent_hint: Calling it again with the same arguments changes nothing more; None reads
            as False.
        open_world_hint: It deals with the outside world; None reads as True.
    """

    title: Optional[str] = None
    read_only_hint: Optional[bool] = None
    destructive_hint: Optional[bool] = None
    idempotent_hint: Optional[bool] = None
    open_world_hint: Optional[bool] = None

    @property
    def read_only(self) -> bool:
        """Whether it claims to change nothing."""
        return self.read_only_hint is True

    @property
    def destructive(self) -> bool:
        """Whether it may destroy something: so unless it says otherwise, never when it is
        read-only."""
        return not self.read_only and self.destructive_hint is not False

    @property
    def idempotent(self) -> bool:
        """Whether a second call changes nothing more: only if it says so, always when it is
        read-only."""
        return self.read_only or self.idempotent_hint is True

    @property
    def open_world(self) -> bool:
        """Whether it deals with the outside world: so unless it says otherwise."""
        return self.open_world_hint is not False


class Tool(Named):
    """A tool as ``tools/list`` shows it.

    Args:
        name: For programs.
        input_schema: JSON Schema of the arguments.
        title: For people; None lets `display_name` look further.
        description: What it does, for a model.
        output_schema: JSON Schema of the structured content; None when there is none.
        annotations: Hints about what it does.
        icons: Pictures of it.
        meta: The member ``_meta``.
        execution: How it runs, with ``taskSupport`` (2025-11-25).
    """

    name: str
    input_schema: Json
    title: Optional[str] = None
    description: Optional[str] = None
    output_schema: Optional[Json] = None
    annotations: Optional[ToolAnnotations] = None
    icons: OptionalItems[Icon] = member(default=None)
    meta: Optional[Json] = None
    execution: Optional[Json] = None

    @classmethod
    def salvage(cls, mapping: Any, faults: Faults) -> Tool:
        """As `Wire.salvage`; an input schema that is missing or null allows any arguments."""
        if isinstance(mapping, dict) and mapping.get("inputSchema") in (None, []):
            faults.at("inputSchema").add('is missing or empty: read as {"type": "object"}')
            mapping = {**mapping, "inputSchema": {"type": "object"}}
        return super().salvage(mapping, faults)

    @property
    def task(self) -> Optional[str]:
        """Whether it runs as a task: "optional" or "required"; None where the server does not say
        so."""
        support = self.execution.get("taskSupport") if isinstance(self.execution, dict) else None
        return support if support in ("optional", "required") else None

    @property
    def display_name(self) -> str:
        """What to show: the title, else the title among the annotations, else the name."""
        return self.title or self.hints.title or self.name

    @property
    def hints(self) -> ToolAnnotations:
        """The annotations; without any, those that say nothing, whose properties give the
        defaults."""
        return self.annotations or ToolAnnotations()

    def as_openai(self, name: Optional[str] = None) -> Json:
        """This tool as one of ``tools`` of OpenAI's chat completions, which many other APIs take
        too.

        Args:
            name: What the model calls it; None takes its own. Most models' APIs take letters,
                digits, "_" and "-" alone, and 64 of them: give tools with other names one, and keep
                which is which.
        """
        function: Json = {"name": name or self.name, "parameters": self._parameters()}
        if self.description is not None:
            function["description"] = self.description
        return {"type": "function", "function": function}

    def as_anthropic(self, name: Optional[str] = None) -> Json:
        """This tool as one of ``tools`` of Anthropic's messages.

        Args:
            name: As for `as_openai`.
        """
        tool: Json = {"name": name or self.name, "input_schema": self._parameters()}
        if self.description is not None:
            tool["description"] = self.description
        return tool

    def _parameters(self) -> Json:
        """The input schema, with what some APIs want to see in it."""
        return {"type": "object", "properties": {}, **self.input_schema}


class ToolOutcome(WithContent):
    """What `CallToolResult` and `ToolResult` have in common."""

    @property
    def structured_content(self) -> Any:
        """What came; None when nothing came and when null came (`has_structured_content` tells
        which)."""
        return self.__dict__["structured_content"] if self.has_structured_content else None

    @structured_content.setter
    def structured_content(self, value: Any) -> None:
        self.__dict__["structured_content"] = value

    @property
    def has_structured_content(self) -> bool:
        """Whether there is structured content, were it null."""
        return self.__dict__["structured_content"] is not ABSENT


class CallToolResult(ToolOutcome):
    """What calling a tool gave.

    ``value`` is the structured content with the library's own wrapping taken off. It does not
    travel: the client that knows the tool's output schema fills it in; until then it is None.

    Args:
        content: The blocks.
        structured_content: Any JSON value, None being null; `ABSENT` sends none.
        is_error: Whether the tool failed; the content then says how.
        meta: The member ``_meta``.
    """

    _instead = "what the tool returned is in .value (.value[...] of a dict), its text in .text"

    content: Items[Content] = member(default=(), required=True)
    structured_content: Any = ABSENT
    is_error: bool = False
    meta: Optional[Json] = None
    value: Any = member(init=False, default=None)

    if not TYPE_CHECKING:  # which would take any subscript then

        def __getitem__(self, key: Any) -> Any:
            raise TypeError(f"a CallToolResult is not subscriptable: {self._instead}")
