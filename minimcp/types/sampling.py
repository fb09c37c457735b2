"""Sampling: the server asks the client's model."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Iterable, Literal, Optional, Sequence, Union

from .base import Wire, check_unit, check_word, listed, listed_or_none
from .common import Role
from .content import BLOCKS, Content, Text, block_type, content_from_wire
from .kinds import ABSENT, NUMBER, OBJECT, ROLE, ROLES, TEXT, Json, Kind, many, needed
from .tool import Outcome


class ToolUse(Wire):
    """The model wants to call a tool.

    Args:
        id: Of this use; the `ToolResult` names it.
        name: Of the tool.
        input: The arguments.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    FIELDS = {"id": needed(TEXT), "name": needed(TEXT), "input": needed(OBJECT), "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(self, id: str, name: str, input: Json, *, meta: Optional[Json] = None) -> None:
        self.id = id
        self.name = name
        self.input = input
        self.meta = meta
        self._start()


class ToolResult(Outcome):
    """What the tool gave that the model wanted to call.

    Args:
        tool_use_id: The id of the `ToolUse`.
        content: The blocks.
        structured_content: Any JSON value, None being null; `ABSENT` sends none.
        is_error: Whether the tool failed.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    FIELDS = {"tool_use_id": needed(TEXT), **Outcome.FIELDS}
    __slots__ = ("tool_use_id",)

    def __init__(
        self,
        tool_use_id: str,
        content: Iterable[Content] = (),
        *,
        structured_content: Any = ABSENT,
        is_error: bool = False,
        meta: Optional[Json] = None,
    ) -> None:
        self.tool_use_id = tool_use_id
        self.content = listed(content)
        self.structured_content_ = structured_content
        self.is_error = is_error
        self.meta = meta
        self._start()


SamplingContent = Union[Content, ToolUse, ToolResult]
"""A block of a message to or from a model."""

_READERS: dict[str, Callable[[Any], SamplingContent]] = {
    "tool_use": ToolUse.from_wire,
    "tool_result": ToolResult.from_wire,
}


def sampling_content_from_wire(mapping: Any) -> SamplingContent:
    """Read one block of a message to or from a model.

    Raises:
        ValueError: It has no type, or a known kind lacks a member or has a wrong one.
    """
    return _READERS.get(block_type(mapping), content_from_wire)(mapping)


def _read_blocks(value: Any) -> list[SamplingContent]:
    return [sampling_content_from_wire(item) for item in (value if isinstance(value, list) else [value])]


def _write_blocks(blocks: list[Wire]) -> Any:
    """One block stands alone: older revisions allow nothing else, newer ones allow it too."""
    written = [block.to_wire() for block in blocks]
    return written[0] if len(written) == 1 else written


_BLOCKS = needed(
    Kind(
        "content blocks",
        (dict, list),
        (list,),
        each=(*BLOCKS, ToolUse, ToolResult),
        read=_read_blocks,
        write=_write_blocks,
    )
)

Blocks = Union[str, SamplingContent, Iterable[SamplingContent]]
"""What an author may give as content: a str stands for a block of text, one block for a list of one."""


def _blocks(content: Blocks) -> list[SamplingContent]:
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, (*BLOCKS, ToolUse, ToolResult)):
        return [content]
    return listed(content)


def _text(blocks: Iterable[SamplingContent]) -> str:
    return "\n".join([block.text for block in blocks if isinstance(block, Text)])


class SamplingMessage(Wire):
    """One message of a conversation with a model.

    Args:
        role: "user" or "assistant".
        content: A block, several, or a str for a block of text; ``content`` is always a list.
        meta: The member ``_meta``.

    Raises:
        ValueError: A role that does not exist.
    """

    FIELDS = {"role": needed(ROLE), "content": _BLOCKS, "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(self, role: Role, content: Blocks, *, meta: Optional[Json] = None) -> None:
        self.role: str = role
        self.content = _blocks(content)
        self.meta = meta
        self._start()
        check_word("SamplingMessage", "role", role, ROLES)

    @property
    def text(self) -> str:
        """The text blocks, joined by line feeds; empty when there are none."""
        return _text(self.content)


class SampleResult(Wire):
    """What the model said.

    Args:
        content: A block, several, or a str for a block of text; ``content`` is always a list.
        model: The model's name.
        role: Who speaks.
        stop_reason: Why it stopped: "endTurn", "stopSequence", "maxTokens", "toolUse" or another word.
        meta: The member ``_meta``.

    Raises:
        ValueError: A role that does not exist.
    """

    FIELDS = {
        "role": needed(ROLE),
        "content": _BLOCKS,
        "model": needed(TEXT),
        "stop_reason": TEXT,
        "meta": OBJECT,
    }
    DROPPED = ("resultType",)
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        content: Blocks,
        model: str = "unknown",
        *,
        role: Role = "assistant",
        stop_reason: Optional[str] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.role: str = role
        self.content = _blocks(content)
        self.model = model
        self.stop_reason = stop_reason
        self.meta = meta
        self._start()
        check_word("SampleResult", "role", role, ROLES)

    @property
    def text(self) -> str:
        """The text blocks, joined by line feeds; empty when there are none."""
        return _text(self.content)

    @property
    def is_end_turn(self) -> bool:
        """Whether the model had said all it wanted; some peers write ``end_turn``."""
        return self.stop_reason in ("endTurn", "end_turn")


class ModelHint(Wire):
    """A part of the name of a model that would do.

    Args:
        name: The part; None says nothing.
    """

    FIELDS = {"name": TEXT}
    __slots__ = tuple(FIELDS)

    def __init__(self, name: Optional[str] = None) -> None:
        self.name = name
        self._start()


class ModelPreferences(Wire):
    """Which model a server would like. Each priority goes from 0 (not important) to 1; None says nothing.

    Args:
        hints: In order of preference; a str stands for a `ModelHint`.
        cost_priority: How much being cheap matters.
        speed_priority: How much being quick matters.
        intelligence_priority: How much being able matters.

    Raises:
        ValueError: A priority outside 0 to 1.
    """

    FIELDS = {
        "hints": many(ModelHint.from_wire, ModelHint),
        "cost_priority": NUMBER,
        "speed_priority": NUMBER,
        "intelligence_priority": NUMBER,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        hints: Optional[Iterable[Union[str, ModelHint]]] = None,
        *,
        cost_priority: Optional[float] = None,
        speed_priority: Optional[float] = None,
        intelligence_priority: Optional[float] = None,
    ) -> None:
        given: Any = listed_or_none(hints)
        if isinstance(given, list):
            given = [ModelHint(hint) if isinstance(hint, str) else hint for hint in given]
        self.hints: Optional[list[ModelHint]] = given
        self.cost_priority = cost_priority
        self.speed_priority = speed_priority
        self.intelligence_priority = intelligence_priority
        self._start()
        for name in ("cost_priority", "speed_priority", "intelligence_priority"):
            check_unit("ModelPreferences", name, getattr(self, name))

    def pick(self, models: Sequence[str]) -> Optional[str]:
        """The first model that contains the first hint which any of them contains; None when none does."""
        for hint in self.hints or ():
            for model in models:
                if hint.name and hint.name.lower() in model.lower():
                    return model
        return None
