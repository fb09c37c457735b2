"""Tools: how they are listed, and what calling one gives."""

from __future__ import annotations

from typing import Any, Iterable, Optional

from .base import Wire, check_word, listed, listed_or_none
from .common import ICONS, Icon
from .content import CONTENT, Content, Text
from .kinds import ABSENT, ANY, FLAG, OBJECT, TEXT, Json, blank, needed, one

WRAPPED = "x-minimcp-wrapped"
"""Marks an output schema that only holds the real one, for revisions whose structured content is an object."""


class ToolAnnotations(Wire):
    """Hints about what a tool does. They come from the server: trust them as far as you trust it.

    Args:
        title: For people.
        read_only_hint: It changes nothing; None says nothing, which reads as False.
        destructive_hint: It may delete or overwrite; None reads as True.
        idempotent_hint: Calling it again with the same arguments changes nothing more; None reads as False.
        open_world_hint: It deals with the outside world; None reads as True.
    """

    FIELDS = {
        "title": TEXT,
        "read_only_hint": FLAG,
        "destructive_hint": FLAG,
        "idempotent_hint": FLAG,
        "open_world_hint": FLAG,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        title: Optional[str] = None,
        read_only_hint: Optional[bool] = None,
        destructive_hint: Optional[bool] = None,
        idempotent_hint: Optional[bool] = None,
        open_world_hint: Optional[bool] = None,
    ) -> None:
        self.title = title
        self.read_only_hint = read_only_hint
        self.destructive_hint = destructive_hint
        self.idempotent_hint = idempotent_hint
        self.open_world_hint = open_world_hint
        self._start()

    @property
    def read_only(self) -> bool:
        """Whether it claims to change nothing."""
        return self.read_only_hint is True

    @property
    def destructive(self) -> bool:
        """Whether it may destroy something: so unless it says otherwise, never when it is read-only."""
        return not self.read_only and self.destructive_hint is not False

    @property
    def idempotent(self) -> bool:
        """Whether a second call changes nothing more: only if it says so, always when it is read-only."""
        return self.read_only or self.idempotent_hint is True

    @property
    def open_world(self) -> bool:
        """Whether it deals with the outside world: so unless it says otherwise."""
        return self.open_world_hint is not False


class ToolExecution(Wire):
    """How a tool may be run.

    Args:
        task_support: "forbidden", "optional" or "required"; None reads as "forbidden".

    Raises:
        ValueError: Another word.
    """

    FIELDS = {"task_support": TEXT}
    __slots__ = tuple(FIELDS)

    def __init__(self, task_support: Optional[str] = None) -> None:
        self.task_support = task_support
        self._start()
        check_word("ToolExecution", "task_support", task_support, ("forbidden", "optional", "required"))


class Tool(Wire):
    """A tool as ``tools/list`` shows it.

    Args:
        name: For programs.
        input_schema: JSON Schema of the arguments.
        title: For people; None lets `display_name` look further.
        description: What it does, for a model.
        output_schema: JSON Schema of the structured content; None when there is none.
        annotations: Hints about what it does.
        icons: Pictures of it.
        execution: How it may be run.
        meta: The member ``_meta``.
    """

    FIELDS = {
        "name": needed(TEXT),
        "title": TEXT,
        "description": TEXT,
        "input_schema": needed(OBJECT),
        "output_schema": OBJECT,
        "annotations": one(ToolAnnotations.from_wire, ToolAnnotations),
        "icons": ICONS,
        "execution": one(ToolExecution.from_wire, ToolExecution),
        "meta": OBJECT,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        name: str,
        input_schema: Json,
        *,
        title: Optional[str] = None,
        description: Optional[str] = None,
        output_schema: Optional[Json] = None,
        annotations: Optional[ToolAnnotations] = None,
        icons: Optional[Iterable[Icon]] = None,
        execution: Optional[ToolExecution] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.name = name
        self.title = title
        self.description = description
        self.input_schema = input_schema
        self.output_schema = output_schema
        self.annotations = annotations
        self.icons = listed_or_none(icons)
        self.execution = execution
        self.meta = meta
        self._start()

    @property
    def display_name(self) -> str:
        """What to show: the title, else the title among the annotations, else the name."""
        return self.title or self.hints.title or self.name

    @property
    def hints(self) -> ToolAnnotations:
        """The annotations; without any, those that say nothing, whose properties give the defaults."""
        return self.annotations or ToolAnnotations()

    @property
    def task_support(self) -> str:
        """Whether it may run as a task: "forbidden" unless it says otherwise."""
        return (self.execution.task_support if self.execution else None) or "forbidden"


class Outcome(Wire):
    """What a call of a tool gave: the members that `CallToolResult` and `ToolResult` have in common."""

    FIELDS = {
        "content": CONTENT,
        "structured_content_": blank(ANY, ABSENT),
        "is_error": blank(FLAG, False),
        "meta": OBJECT,
    }
    __slots__ = tuple(FIELDS)

    content: list[Content]
    structured_content_: Any
    """As `structured_content`, but `ABSENT` when there is none."""
    is_error: bool
    meta: Optional[Json]

    @property
    def structured_content(self) -> Any:
        """What came; None when nothing came and when null came (`has_structured_content` tells which)."""
        return None if self.structured_content_ is ABSENT else self.structured_content_

    @structured_content.setter
    def structured_content(self, value: Any) -> None:
        self.structured_content_ = value

    @property
    def has_structured_content(self) -> bool:
        """Whether there is structured content, were it null."""
        return self.structured_content_ is not ABSENT

    @property
    def text(self) -> str:
        """The text blocks, joined by line feeds; empty when there are none."""
        return "\n".join([block.text for block in self.content if isinstance(block, Text)])


class CallToolResult(Outcome):
    """What calling a tool gave.

    ``value`` is the structured content with the library's own wrapping taken off. It does not travel: the
    client that knows the tool's output schema fills it in; until then it is None.

    Args:
        content: The blocks.
        structured_content: Any JSON value, None being null; `ABSENT` sends none.
        is_error: Whether the tool failed; the content then says how.
        meta: The member ``_meta``.
    """

    DROPPED = ("resultType",)
    LOCAL = ("value",)
    __slots__ = LOCAL

    def __init__(
        self,
        content: Iterable[Content] = (),
        *,
        structured_content: Any = ABSENT,
        is_error: bool = False,
        meta: Optional[Json] = None,
    ) -> None:
        self.content = listed(content)
        self.structured_content_ = structured_content
        self.is_error = is_error
        self.meta = meta
        self.value: Any = None
        self._start()
