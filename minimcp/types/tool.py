"""Tools: their listing and the result of a call.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from .base import ABSENT, Faults, Items, Json, OptionalItems, Wire, member
from .content import Content, Icon, Named, WithContent

WRAPPED = "x-minimcp-wrapped"
"""Marks an output schema that wraps the real one, for revisions in which structured content must be
an object."""

FASTMCP_WRAPPED = "x-fastmcp-wrap-result"
"""The mark that FastMCP's client uses for the same purpose."""


class ToolAnnotations(Wire):
    """Hints about what a tool does. They come from the server, so trust them only as much as the
    server.

    Args:
        title: The name for people.
        read_only_hint: Whether the tool changes nothing; None means False.
        destructive_hint: Whether it may delete or overwrite; None means True.
        idempotent_hint: Whether a second call with the same arguments has no effect; None means
            False.
        open_world_hint: Whether it interacts with the outside world; None means True.
    """

    title: Optional[str] = None
    read_only_hint: Optional[bool] = None
    destructive_hint: Optional[bool] = None
    idempotent_hint: Optional[bool] = None
    open_world_hint: Optional[bool] = None

    @property
    def read_only(self) -> bool:
        """Whether the tool claims to change nothing."""
        return self.read_only_hint is True

    @property
    def destructive(self) -> bool:
        """Whether the tool may destroy something: true unless it says otherwise or is read-only."""
        return not self.read_only and self.destructive_hint is not False

    @property
    def idempotent(self) -> bool:
        """Whether a second call has no effect: only if the tool says so or is read-only."""
        return self.read_only or self.idempotent_hint is True

    @property
    def open_world(self) -> bool:
        """Whether the tool interacts with the outside world: true unless it says otherwise."""
        return self.open_world_hint is not False


class Tool(Named):
    """A tool in ``tools/list``.

    Args:
        name: The name for programs.
        input_schema: JSON Schema of the arguments.
        title: The name for people; None means another title, see `display_name`.
        description: A description for the model.
        output_schema: JSON Schema of the structured content, or None.
        annotations: Hints about what the tool does.
        icons: Pictures of it.
        meta: The member ``_meta``.
        execution: Execution properties, with ``taskSupport`` (2025-11-25).
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
        """Read as `Wire.salvage`. A missing or null input schema is read as one that allows any
        arguments."""
        if isinstance(mapping, dict) and mapping.get("inputSchema") in (None, []):
            faults.at("inputSchema").add('is missing or empty: read as {"type": "object"}')
            mapping = {**mapping, "inputSchema": {"type": "object"}}
        return super().salvage(mapping, faults)

    @property
    def task(self) -> Optional[str]:
        """Whether the tool runs as a task: "optional", "required", or None if the server does not
        say."""
        support = self.execution.get("taskSupport") if isinstance(self.execution, dict) else None
        return support if support in ("optional", "required") else None

    @property
    def display_name(self) -> str:
        """The title, or the title in the annotations, or the name."""
        return self.title or self.hints.title or self.name

    @property
    def hints(self) -> ToolAnnotations:
        """The annotations, or empty ones, whose properties return the defaults."""
        return self.annotations or ToolAnnotations()

    def as_openai(self, name: Optional[str] = None) -> Json:
        """Return the tool for ``tools`` of OpenAI's chat completions API, which many other APIs
        accept too.

        Args:
            name: The name for the model; None means the tool's name. The APIs of most models only
                accept up to 64 letters, digits, "_" and "-": give tools with other names a new one,
                and keep the mapping.
        """
        from .display import model_tool

        return {"type": "function", "function": model_tool(self, name, "parameters")}

    def as_anthropic(self, name: Optional[str] = None) -> Json:
        """Return the tool for ``tools`` of Anthropic's messages API.

        Args:
            name: As for `as_openai`.
        """
        from .display import model_tool

        return model_tool(self, name, "input_schema")


class ToolOutcome(WithContent):
    """The base class of `CallToolResult` and `ToolResult`."""

    @property
    def structured_content(self) -> Any:
        """The structured content. None if it is null or absent; see `has_structured_content`."""
        return self.__dict__["structured_content"] if self.has_structured_content else None

    @structured_content.setter
    def structured_content(self, value: Any) -> None:
        self.__dict__["structured_content"] = value

    @property
    def has_structured_content(self) -> bool:
        """Whether there is structured content, even if it is null."""
        return self.__dict__["structured_content"] is not ABSENT


class CallToolResult(ToolOutcome):
    """The result of a tool call.

    ``value`` is the structured content without the library's own wrapping. It is not sent: the
    client sets it when it knows the tool's output schema. Until then it is None.

    Args:
        content: The blocks.
        structured_content: Any JSON value (None is null); `ABSENT` sends none.
        is_error: Whether the tool failed. If so, the content describes the error.
        meta: The member ``_meta``.

    https://modelcontextprotocol.io/specification/2026-07-28/server/tools
    """

    _instead = "the returned value is in .value (for a dict, .value[...]), and its text is in .text"

    content: Items[Content] = member(default=(), required=True)
    structured_content: Any = ABSENT
    is_error: bool = False
    meta: Optional[Json] = None
    value: Any = member(init=False, default=None)

    def as_anthropic(self) -> list[Json]:
        """Return the list for ``content`` of a tool_result block of Anthropic's messages API.

        Text and images are as they are, a link is its name and URI, and other blocks are described.
        """
        from .display import for_anthropic

        return for_anthropic(self)

    def as_openai(self) -> list[Json]:
        """Return the list for ``content`` of a tool message of OpenAI's chat completions API.

        As `as_anthropic`. An image is a data URL.
        """
        from .display import for_openai

        return for_openai(self)

    if not TYPE_CHECKING:  # a type checker would then accept any subscript

        def __getitem__(self, key: Any) -> Any:
            raise TypeError(f"a CallToolResult is not subscriptable: {self._instead}")
