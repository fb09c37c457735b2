"""What a server asks a client: its user (elicitation), its model (sampling), the directories it may
work in (roots).

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Iterable,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Union,
    get_args,
)

from ..errors import Declined
from ..protocol.urls import parse_web_url
from .base import (
    ABSENT,
    MEMBER_TYPES,
    Converted,
    Items,
    Json,
    MemberType,
    OptionalItems,
    Wire,
    listed,
    member,
    unit,
)
from .content import READERS, Content, Implementation, Role, Text, WithContent, content_from_wire
from .tool import Tool, ToolOutcome

if TYPE_CHECKING:
    from pathlib import Path

ACTIONS = ("accept", "decline", "cancel")


@dataclass(repr=False)
class Answer:
    """What a user did with a question. True when it was accepted, whatever the fields of the form
    hold.

    Args:
        action: "accept", "decline" (said no) or "cancel" (made no choice).
        content: What the user filled in: a dict, or an instance of the class that was asked for;
            None unless accepted.

    Raises:
        ValueError: Another action, or content without acceptance.
    """

    action: str
    content: Any = None

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"action is one of {', '.join(ACTIONS)}, not {self.action!r}")
        if self.content is not None and self.action != "accept":
            raise ValueError(f"an answer that is no acceptance ({self.action}) has no content")

    def __bool__(self) -> bool:
        return self.action == "accept"

    def require(self) -> Any:
        """The content.

        Raises:
            Declined: The user declined or made no choice.
        """
        if self.action != "accept":
            raise Declined(
                "the user declined" if self.action == "decline" else "the user made no choice"
            )
        return self.content

    if not TYPE_CHECKING:  # which would take any subscript then

        def __getitem__(self, key: Any) -> Any:
            raise TypeError(
                "an Answer is not subscriptable: what was filled in is .require(), or .content"
            )

    def __repr__(self) -> str:
        return (
            f"Answer({self.action!r}, {self.content!r})"
            if self.content is not None
            else f"Answer({self.action!r})"
        )


class HostRequest(Wire):
    """What `ElicitRequest` and `SampleRequest` have in common.

    ``server`` says who asks, as far as the server describes itself. ``connection`` is the name by
    which the host knows it in its config, None where it was connected to by another target: show
    the user this one, no other can claim it.
    """

    server: Optional[Implementation] = member(init=False, default=None)
    connection: Optional[str] = member(init=False, default=None)
    asked: Any = member(init=False, default=None)

    def __getstate__(self) -> Json:
        """Nobody waits for the answer to a copy."""
        return {**self.__dict__, "asked": None}

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more: it turns true once, and any thread may
        look."""
        return self.asked is not None and bool(self.asked.cancelled)


class ElicitRequest(HostRequest):
    """A server asks the user.

    In form mode the user fills in what ``schema`` describes; before it is sent, the user sees it
    and can decline. In url mode the user is asked to open ``url``: show it whole, and ``host`` by
    itself; open it only when the user agrees, in a browser that neither this program nor a model
    can look into; fetch nothing before.

    Args:
        message: What the user is asked.
        schema: A JSON Schema of a flat object; None in url mode.
        mode: "form" or "url"; a question that does not say is one for a form.
        url: What to open; None in form mode.
        elicitation_id: By which the server names the outcome later, in revisions that do so; else
            None.
        meta: The member ``_meta``.

    Raises:
        ValueError: Another mode.
    """

    message: str
    schema: Optional[Json] = member(default=None, name="requestedSchema")
    mode: Literal["form", "url"] = member(default="form", strict=False)
    url: Optional[str] = None
    elicitation_id: Optional[str] = None
    meta: Optional[Json] = None

    @property
    def defaults(self) -> Json:
        """What a form shows before the user has changed anything: the defaults of the schema, by
        name."""
        properties = (self.schema or {}).get("properties")
        fields = properties.items() if isinstance(properties, dict) else ()
        return {
            name: field["default"]
            for name, field in fields
            if isinstance(field, dict) and "default" in field
        }

    @property
    def host(self) -> Optional[str]:
        """The host that a browser opens for ``url``, in lower case; None when it is no http or
        https URL, or one whose host programs read in different ways."""
        try:
            return parse_web_url(self.url or "").host
        except ValueError:
            return None

    @property
    def looks_odd(self) -> bool:
        """Whether the host may pretend to be another one: there is none, or it has letters beyond
        ASCII (``xn--``)."""
        return self.url is not None and any(
            label[:4] in ("", "xn--") for label in (self.host or "").split(".")
        )


def _check_file_uri(what: str, uri: str) -> None:
    if uri[:7].lower() != "file://":
        raise ValueError(
            f"{what} must start with file://, unlike {uri!r}; for a path use from_path"
        )


class Root(Wire):
    """A directory or file in which a server may work.

    Args:
        uri: A ``file://`` URI.
        name: For people; None says nothing.
        meta: The member ``_meta``.

    Raises:
        ValueError: The URI does not start with ``file://``. (`Context.list_roots` drops such a root
            of a client and logs it.)
    """

    uri: str = member(check=_check_file_uri)
    name: Optional[str] = None
    meta: Optional[Json] = None

    @classmethod
    def from_path(cls, path: Union[str, os.PathLike[str]], name: Optional[str] = None) -> Root:
        """The root of a path of this machine; a relative one is taken from the working
        directory."""
        from pathlib import Path

        return cls(Path(os.path.abspath(path)).as_uri(), name)

    @property
    def path(self) -> Optional[Path]:
        """The path on this machine; None when the URI is of another kind or machine, or no path has
        its characters."""
        from pathlib import Path
        from urllib.parse import unquote, urlsplit

        try:
            parts = urlsplit(self.uri)
        except ValueError:
            return None
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            return None
        path = unquote(parts.path)
        if os.name == "nt":  # pragma: no cover - "/C:/x" is "C:/x" there
            path = path.lstrip("/")
        return None if "\0" in path else Path(path)


class ToolUse(Wire):
    """The model wants to call a tool.

    Args:
        id: Of this use; the `ToolResult` names it.
        name: Of the tool.
        input: The arguments.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["tool_use"]] = "tool_use"

    id: str
    name: str
    input: Json
    meta: Optional[Json] = None


class ToolResult(ToolOutcome):
    """What the tool gave that the model wanted to call.

    Args:
        tool_use_id: The id of the `ToolUse`.
        content: The blocks.
        structured_content: Any JSON value, None being null; `ABSENT` sends none.
        is_error: Whether the tool failed.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["tool_result"]] = "tool_result"

    tool_use_id: str
    content: Items[Content] = member(default=(), required=True)
    structured_content: Any = ABSENT
    is_error: bool = False
    meta: Optional[Json] = None


SamplingContent = Union[Content, ToolUse, ToolResult]
"""A block of a message to or from a model."""

_CLASSES = get_args(SamplingContent)
_READERS = {**READERS, "tool_use": ToolUse.from_wire, "tool_result": ToolResult.from_wire}

Blocks = Union[str, SamplingContent, Iterable[SamplingContent]]
"""What an author may give as content: a str stands for a block of text, one block for a list of
one."""


def _read_blocks(value: Any) -> list[SamplingContent]:
    return [
        content_from_wire(item, _READERS)
        for item in (value if isinstance(value, list) else [value])
    ]


def _write_blocks(blocks: list[Wire]) -> Any:
    """One block stands alone: older revisions allow nothing else, newer ones allow it too."""
    written = [block.to_wire() for block in blocks]
    return written[0] if len(written) == 1 else written


def _as_blocks(content: Any) -> Any:
    if isinstance(content, str):
        return [Text(content)]
    return [content] if isinstance(content, _CLASSES) else listed(content)


MEMBER_TYPES[list[SamplingContent]] = MemberType(
    "content blocks", (dict, list), (list,), _CLASSES, _read_blocks, _write_blocks, _as_blocks
)


class SamplingMessage(WithContent):
    """One message of a conversation with a model.

    Args:
        role: "user" or "assistant".
        content: A block, several, or a str for a block of text; ``content`` is always a list.
        meta: The member ``_meta``.

    Raises:
        ValueError: A role that does not exist.
    """

    role: Role
    content: Converted[list[SamplingContent], Blocks]
    meta: Optional[Json] = None

    @classmethod
    def of(cls, given: Any) -> Any:
        """What an author may give for a message: a str is one of the user, a mapping one in its
        form on the wire.

        Raises:
            ValueError: The mapping is no message.
        """
        if isinstance(given, Mapping):
            return cls.from_wire(dict(given))
        return cls("user", given) if isinstance(given, str) else given


def conversation_fault(messages: Sequence[SamplingMessage]) -> Optional[str]:
    """What is wrong with the use of tools in a conversation, in one line; None when nothing is.

    A message with results of tools holds nothing else, and follows at once on the uses that it
    answers, all of them.
    """
    open_uses: set[str] = set()
    for message in messages:
        results = [block.tool_use_id for block in message.content if isinstance(block, ToolResult)]
        if results and (len(results) < len(message.content) or message.role != "user"):
            return "a message with results of tools is the user's and holds nothing else"
        if open_uses != set(results):
            return "the message after uses of tools has the result of each of them"
        uses = [block.id for block in message.content if isinstance(block, ToolUse)]
        open_uses = set(uses) if message.role == "assistant" else set()
    return "a use of a tool has no result" if open_uses else None


class SampleResult(WithContent):
    """What the model said.

    Args:
        content: A block, several, or a str for a block of text; ``content`` is always a list.
        model: The model's name.
        role: Who speaks.
        stop_reason: Why it stopped: "endTurn", "stopSequence", "maxTokens", "toolUse" or another
            word.
        meta: The member ``_meta``.

    Raises:
        ValueError: A role that does not exist.
    """

    content: Converted[list[SamplingContent], Blocks]
    model: str = member(default="unknown", required=True)
    role: Role = member(default="assistant", required=True)
    stop_reason: Optional[str] = None
    meta: Optional[Json] = None

    @property
    def is_end_turn(self) -> bool:
        """Whether the model had said all it wanted; some peers write ``end_turn``."""
        return self.stop_reason in ("endTurn", "end_turn")


class ModelHint(Wire):
    """A part of the name of a model that would do.

    Args:
        name: The part; None says nothing.
    """

    name: Optional[str] = None


def _as_hints(hints: Any) -> Any:
    given = listed(hints)
    return (
        [ModelHint(hint) if isinstance(hint, str) else hint for hint in given]
        if isinstance(given, list)
        else given
    )


class ModelPreferences(Wire):
    """Which model a server would like. Each priority goes from 0 (not important) to 1; None says
    nothing.

    Args:
        hints: In order of preference; a str stands for a `ModelHint`.
        cost_priority: How much being cheap matters.
        speed_priority: How much being quick matters.
        intelligence_priority: How much being able matters.

    Raises:
        ValueError: A priority outside 0 to 1.
    """

    hints: Converted[Optional[list[ModelHint]], Optional[Iterable[Union[str, ModelHint]]]] = member(
        default=None, convert=_as_hints
    )
    cost_priority: Optional[float] = member(default=None, check=unit)
    speed_priority: Optional[float] = member(default=None, check=unit)
    intelligence_priority: Optional[float] = member(default=None, check=unit)

    def pick(self, models: Sequence[str]) -> Optional[str]:
        """The first model that contains the first hint which any of them contains; None when none
        does."""
        names = [hint.name.lower() for hint in self.hints or () if hint.name]
        return next((model for name in names for model in models if name in model.lower()), None)


class ToolChoice(Wire):
    """Whether the model has to use a tool.

    Args:
        mode: "auto", "required" or "none".

    Raises:
        ValueError: Another mode.
    """

    mode: Literal["auto", "required", "none"] = "auto"


class SampleRequest(HostRequest):
    """A server asks the host's model.

    The host decides about everything but ``max_tokens``, which it honours: it may choose another
    model, change the system prompt or leave out context. Show the user what is asked before the
    model sees it.

    Args:
        messages: The conversation.
        max_tokens: The most that the model may say.
        model_preferences: Which model the server would like; None says nothing. See
            `ModelPreferences.pick`.
        system_prompt: What the server would tell the model first; None says nothing.
        include_context: "none", "thisServer" or "allServers": which context the server would like
            to be added.
        temperature: In the model's own scale; None says nothing.
        stop_sequences: Texts that end the answer; None says nothing.
        metadata: For the model's provider, in its own form; None says nothing.
        tools: What the model may call: asked for only where the host said that it takes tools.
        tool_choice: Whether it has to; None is "auto".
        meta: The member ``_meta``.

    Raises:
        ValueError: A word that the protocol does not have.
    """

    messages: Items[SamplingMessage]
    max_tokens: int
    model_preferences: Optional[ModelPreferences] = None
    system_prompt: Optional[str] = None
    include_context: Optional[Literal["none", "thisServer", "allServers"]] = None
    temperature: Optional[float] = None
    stop_sequences: OptionalItems[str] = member(default=None)
    metadata: Optional[Json] = None
    tools: OptionalItems[Tool] = member(default=None)
    tool_choice: Optional[ToolChoice] = None
    meta: Optional[Json] = None

    @property
    def text(self) -> str:
        """The text of all messages, joined by line feeds."""
        return "\n".join(message.text for message in self.messages)
