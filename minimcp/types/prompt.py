"""Prompts: how they are listed, and what getting one gives."""

from __future__ import annotations

from typing import Iterable, Optional, Union

from .base import Wire, check_word, listed, listed_or_none
from .common import ICONS, Icon, Role
from .content import BLOCKS, Content, Text, content_from_wire
from .kinds import FLAG, OBJECT, ROLE, ROLES, TEXT, Json, blank, many, needed, one


class PromptArgument(Wire):
    """One argument of a prompt; its value is always a string.

    Args:
        name: For programs.
        title: For people; None means the name.
        description: What it means.
        required: Whether it must be given.
    """

    FIELDS = {"name": needed(TEXT), "title": TEXT, "description": TEXT, "required": blank(FLAG, False)}
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        name: str,
        *,
        title: Optional[str] = None,
        description: Optional[str] = None,
        required: bool = False,
    ) -> None:
        self.name = name
        self.title = title
        self.description = description
        self.required = required
        self._start()

    def to_wire(self) -> Json:
        """As `Wire.to_wire`; ``required`` is always there."""
        return {**super().to_wire(), "required": self.required}

    @property
    def display_name(self) -> str:
        """What to show: the title, else the name."""
        return self.title or self.name


class Prompt(Wire):
    """A prompt as ``prompts/list`` shows it.

    Args:
        name: For programs.
        title: For people; None means the name.
        description: What it is for.
        arguments: What it takes; None when nothing is said.
        icons: Pictures of it.
        meta: The member ``_meta``.
    """

    FIELDS = {
        "name": needed(TEXT),
        "title": TEXT,
        "description": TEXT,
        "arguments": many(PromptArgument.from_wire, PromptArgument),
        "icons": ICONS,
        "meta": OBJECT,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        name: str,
        *,
        title: Optional[str] = None,
        description: Optional[str] = None,
        arguments: Optional[Iterable[PromptArgument]] = None,
        icons: Optional[Iterable[Icon]] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.name = name
        self.title = title
        self.description = description
        self.arguments = listed_or_none(arguments)
        self.icons = listed_or_none(icons)
        self.meta = meta
        self._start()

    @property
    def display_name(self) -> str:
        """What to show: the title, else the name."""
        return self.title or self.name


class PromptMessage(Wire):
    """One message of a prompt: who speaks, and one block.

    Args:
        role: "user" or "assistant".
        content: One block; a str stands for a block of text.
        meta: The member ``_meta``.

    Raises:
        ValueError: A role that does not exist.
    """

    FIELDS = {"role": needed(ROLE), "content": needed(one(content_from_wire, *BLOCKS)), "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(self, role: Role, content: Union[str, Content], *, meta: Optional[Json] = None) -> None:
        self.role: str = role
        self.content: Content = Text(content) if isinstance(content, str) else content
        self.meta = meta
        self._start()
        check_word("PromptMessage", "role", role, ROLES)

    @property
    def text(self) -> str:
        """The text of the block; empty when it is of another kind."""
        return self.content.text if isinstance(self.content, Text) else ""


Message = PromptMessage
"""The shorter name."""


class GetPromptResult(Wire):
    """What getting a prompt gives.

    Args:
        messages: The messages, in order.
        description: What the prompt is for.
        meta: The member ``_meta``.
    """

    FIELDS = {
        "description": TEXT,
        "messages": needed(many(PromptMessage.from_wire, PromptMessage)),
        "meta": OBJECT,
    }
    DROPPED = ("resultType",)
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        messages: Iterable[PromptMessage],
        description: Optional[str] = None,
        *,
        meta: Optional[Json] = None,
    ) -> None:
        self.description = description
        self.messages = listed(messages)
        self.meta = meta
        self._start()
