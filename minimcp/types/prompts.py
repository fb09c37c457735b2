"""Prompts and completions. Servers and clients use the same classes.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
"""

from __future__ import annotations

from typing import Any, Optional, Union

from . import base
from .base import Converted, Faults, Items, Json, OptionalItems, Wire, member
from .content import Content, Icon, Named, Role, Text, WithContent


class PromptArgument(Named):
    """One argument of a prompt; its value is always a string.

    Args:
        name: The name for programs.
        title: The name for people; None means `name`.
        description: What it means.
        required: Whether it must be passed.
    """

    name: str
    title: Optional[str] = None
    description: Optional[str] = None
    required: bool = False

    def to_wire(self) -> Json:
        """Return the JSON object, which always has ``required``."""
        return {**super().to_wire(), "required": self.required}


class Prompt(Named):
    """A prompt in ``prompts/list``.

    Args:
        name: The name for programs.
        title: The name for people; None means `name`.
        description: What it is for.
        arguments: Its arguments; None if unknown.
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
    """One message of a prompt: a role and one block.

    Args:
        role: "user" or "assistant".
        content: One block; a str becomes a block of text.
        meta: The member ``_meta``.

    Raises:
        ValueError: The role does not exist.
    """

    role: Role
    content: Converted[Content, Union[str, Content]] = member(convert=_as_block)
    meta: Optional[Json] = None


Message = PromptMessage
"""A shorter name for `PromptMessage`."""


class GetPromptResult(Wire):
    """The result of getting a prompt.

    Args:
        messages: The messages, in order.
        description: What the prompt is for.
        meta: The member ``_meta``.
    """

    messages: Items[PromptMessage]
    description: Optional[str] = None
    meta: Optional[Json] = None


class Completion(Wire):
    """Suggestions for an argument, best first.

    Args:
        values: The suggestions. At most 100 are sent; a completer may return more.
        total: The number of all suggestions; None if unknown.
        has_more: Whether there are more; None if unknown.
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
            ValueError: The result is malformed; one line says why.
        """
        if not isinstance(mapping, dict):
            raise ValueError(f"Completion: must be an object, not {base.json_type(mapping)}")
        made = super().from_wire(mapping.get("completion"))
        meta = mapping.get("_meta")
        made.meta = meta if isinstance(meta, dict) else None
        return made

    @classmethod
    def salvage(cls, mapping: Any, faults: Faults) -> Completion:
        """Read the result of ``completion/complete`` as `Wire.salvage`."""
        about = mapping.get("completion") if isinstance(mapping, dict) else None
        if not isinstance(about, dict):
            faults.at("completion").add(f"must be an object, not {base.json_type(about)}")
            about = {}
        made = super().salvage(about, faults.at("completion"))
        meta = mapping.get("_meta") if isinstance(mapping, dict) else None
        made.meta = meta if isinstance(meta, dict) else None
        return made

    def to_wire(self) -> Json:
        """Return the result of ``completion/complete``."""
        result: Json = {"completion": super().to_wire()}
        return result if self.meta is None else {**result, "_meta": self.meta}
