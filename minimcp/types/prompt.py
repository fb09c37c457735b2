"""Prompts: how they are listed, what getting one gives, and suggestions for the value of an argument.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

from typing import Any, Optional, Union

from .base import Converted, Items, Json, OptionalItems, Wire, json_type, member
from .content import Content, Icon, Named, Role, Text, WithContent


class PromptArgument(Named):
    """One argument of a prompt; its value is always a string.

    Args:
        name: For programs.
        title: For people; None means the name.
        description: What it means.
        required: Whether it must be given.
    """

    name: str
    title: Optional[str] = None
    description: Optional[str] = None
    required: bool = False

    def to_wire(self) -> Json:
        """As `Wire.to_wire`; ``required`` is always there."""
        return {**super().to_wire(), "required": self.required}


class Prompt(Named):
    """A prompt as ``prompts/list`` shows it.

    Args:
        name: For programs.
        title: For people; None means the name.
        description: What it is for.
        arguments: What it takes; None when nothing is said.
        icons: Pictures of it.
        meta: The member ``_meta``.
    """

    name: str
    title: Optional[str] = None
    description: Optional[str] = None
    arguments: OptionalItems[PromptArgument] = member(default=None)
    icons: OptionalItems[Icon] = member(default=None)
    meta: Optional[Json] = None


def _as_block(content: Any) -> Any:
    return Text(content) if isinstance(content, str) else content


class PromptMessage(WithContent):
    """One message of a prompt: who speaks, and one block.

    Args:
        role: "user" or "assistant".
        content: One block; a str stands for a block of text.
        meta: The member ``_meta``.

    Raises:
        ValueError: A role that does not exist.
    """

    role: Role
    content: Converted[Content, Union[str, Content]] = member(convert=_as_block)
    meta: Optional[Json] = None


Message = PromptMessage
"""The shorter name."""


class GetPromptResult(Wire):
    """What getting a prompt gives.

    Args:
        messages: The messages, in order.
        description: What the prompt is for.
        meta: The member ``_meta``.
    """

    messages: Items[PromptMessage]
    description: Optional[str] = None
    meta: Optional[Json] = None


class Completion(Wire):
    """Suggestions, best first. On the wire they stand in the member ``completion`` of the result.

    Args:
        values: The suggestions. What is sent has at most 100; a completer may return more.
        total: How many there are in all; None when not known.
        has_more: Whether there are more; None says nothing.
        meta: The member ``_meta`` of the result.
    """

    values: Items[str]
    total: Optional[int] = None
    has_more: Optional[bool] = None
    meta: Optional[Json] = member(default=None, local=True)

    @classmethod
    def from_wire(cls, mapping: Any) -> Completion:
        """Read the result of ``completion/complete``.

        Raises:
            ValueError: It is no such result; one line says why.
        """
        if not isinstance(mapping, dict):
            raise ValueError(f"Completion: must be an object, not {json_type(mapping)}")
        made = super().from_wire(mapping.get("completion"))
        meta = mapping.get("_meta")
        made.meta = meta if isinstance(meta, dict) else None
        return made

    def to_wire(self) -> Json:
        """The result of ``completion/complete``."""
        result: Json = {"completion": super().to_wire()}
        return result if self.meta is None else {**result, "_meta": self.meta}
