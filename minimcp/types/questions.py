"""Requests from a server to the host: for its user (elicitation), its model (sampling) and its
directories (roots).

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

import os
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
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
from ..record import Record, declare
from .base import (
    ABSENT,
    MEMBER_TYPES,
    Converted,
    Items,
    Json,
    MemberType,
    OptionalItems,
    Wire,
    as_list,
    member,
    unit,
)
from .content import READERS, Content, Implementation, Role, Text, WithContent, content_from_wire
from .tool import Tool, ToolOutcome

if TYPE_CHECKING:
    from pathlib import Path

ACTIONS = ("accept", "decline", "cancel")


class Answer(Record):
    """The user's answer to an elicitation. It is true if the user accepted.

    The answer to a form with a boolean field has no truth value, because a user can accept the form
    without ticking the box.

    Args:
        action: "accept", "decline" (the user refused) or "cancel" (the user did not choose).
        content: The content of the form: a dict, or an instance of the requested class. None unless
            accepted.

    Attributes:
        has_booleans: Whether the form has a boolean field. The library sets it.

    Raises:
        ValueError: The action does not exist, or there is content without acceptance.
    """

    action: str
    content: Any = None
    has_booleans: bool = declare(False, init=False)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"action must be one of {', '.join(ACTIONS)}, not {self.action!r}")
        if self.content is not None and self.action != "accept":
            raise ValueError(f"content requires the action 'accept', not {self.action}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answer):
            return NotImplemented
        return self.action == other.action and self.content == other.content

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        if self.has_booleans:
            raise TypeError(
                "this answer has no truth value, because the form has a boolean field, which the "
                "user can leave unticked: for a yes or no, write ctx.confirm(message); to test "
                'whether the user accepted, write answer.action == "accept"'
            )
        return self.action == "accept"

    def require(self) -> Any:
        """Return the content.

        Raises:
            Declined: The user declined or did not choose.
        """
        if self.action != "accept":
            raise Declined(
                "the user declined" if self.action == "decline" else "the user made no choice"
            )
        return self.content

    if not TYPE_CHECKING:  # a type checker would then accept any subscript

        def __getitem__(self, key: Any) -> Any:
            raise TypeError(
                "an Answer is not subscriptable: use .require() or .content for the form's content"
            )

    def __repr__(self) -> str:
        if self.content is None:
            return f"Answer({self.action!r})"
        return f"Answer({self.action!r}, {self.content!r})"


class HostRequest(Wire):
    """The base class of `ElicitRequest` and `SampleRequest`.

    Attributes:
        server: The server's description of itself. Another server can claim the same name.
        connection: The server's name in the host's config. Show this name to the user, because no
            other server can claim it. None if the connection was not made by name.
        asked: The `CancelToken` of the question, or None if nothing waits for the answer.
    """

    server: Optional[Implementation] = member(init=False, default=None)
    connection: Optional[str] = member(init=False, default=None)
    asked: Any = member(init=False, default=None)

    def __getstate__(self) -> Json:
        """Drop the token: nothing waits for the answer to a copy."""
        return {**self.__dict__, "asked": None}

    @property
    def cancelled(self) -> bool:
        """Whether the answer is no longer needed.

        The call was cancelled, timed out or has its result, or the server was lost. Once true, it
        stays true. Any thread may read it.
        """
        return self.asked is not None and bool(self.asked.cancelled)

    def on_cancel(self, function: Callable[[], object]) -> Callable[[], None]:
        """Call a function when the answer is no longer needed; see `cancelled`.

        Args:
            function: Called at once if the answer is already not needed. Otherwise it is called on
                the thread that ends the question, so it must not block: set an event, or put an
                item into a queue.

        Returns:
            A function that removes the callback.
        """
        if self.asked is None:
            return lambda: None
        forget: Callable[[], None] = self.asked.on_cancel(function)
        return forget


class ElicitRequest(HostRequest):
    """A server's question to the user.

    In form mode the user fills in a form with the fields in ``schema``. Before the answer is sent,
    let the user review it and decline. In url mode the user is asked to open ``url``. Show the
    whole URL, and ``host`` separately. Open it only if the user agrees, in a browser that neither
    this program nor a model can observe. Do not fetch anything before.

    Args:
        message: The question.
        schema: A JSON Schema of a flat object; None in url mode.
        mode: "form" or "url"; a question without a mode is in form mode.
        url: The URL to open; None in form mode.
        elicitation_id: The id by which the server reports the outcome later, in some revisions;
            otherwise None.
        meta: The member ``_meta``.

    Raises:
        ValueError: The mode does not exist.

    https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
    """

    message: str
    schema: Optional[Json] = member(default=None, name="requestedSchema")
    mode: Literal["form", "url"] = member(default="form", strict=False)
    url: Optional[str] = None
    elicitation_id: Optional[str] = None
    meta: Optional[Json] = None
    checker: Any = member(init=False, default=None)

    def __getstate__(self) -> Json:
        return {**super().__getstate__(), "checker": None}

    def check(self, content: Any) -> Json:
        """Check an answer before it is returned, so that the user can correct it.

        Args:
            content: The content of the form: a dict, or an instance of a dataclass.

        Returns:
            The content as it will be sent, with the defaults of fields that are absent.

        Raises:
            ValueError: The content does not match the form. The message names the field.
            TypeError: The content is not a dict or a dataclass.
            RuntimeError: The request does not come from a server.
        """
        if self.checker is None:
            raise RuntimeError(
                "this request was not sent by a server, so it cannot check an answer"
            )
        checked: Json = self.checker(content)
        return checked

    @property
    def defaults(self) -> Json:
        """The initial values of the form: the defaults in the schema, by name."""
        properties = (self.schema or {}).get("properties")
        fields = properties.items() if isinstance(properties, dict) else ()
        return {
            name: field["default"]
            for name, field in fields
            if isinstance(field, dict) and "default" in field
        }

    @property
    def host(self) -> Optional[str]:
        """The host of ``url`` in lower case. None if it is not an http or https URL, or if programs
        parse its host differently."""
        try:
            return parse_web_url(self.url or "").host
        except ValueError:
            return None

    @property
    def looks_odd(self) -> bool:
        """Whether the host may imitate another one: it is missing, or has characters outside ASCII
        (``xn--``)."""
        return self.url is not None and any(
            label[:4] in ("", "xn--") for label in (self.host or "").split(".")
        )


def _check_file_uri(what: str, uri: str) -> None:
    if uri[:7].lower() != "file://":
        raise ValueError(
            f"{what} must start with file://, not {uri!r}: use Root.from_path for a path"
        )


class Root(Wire):
    """A directory or file in which a server may work.

    Args:
        uri: A ``file://`` URI.
        name: The name for people, or None.
        meta: The member ``_meta``.

    Raises:
        ValueError: The URI does not start with ``file://``. (`Context.list_roots` drops such a root
            of a client and logs it.)

    https://modelcontextprotocol.io/specification/2026-07-28/client/roots
    """

    uri: str = member(check=_check_file_uri)
    name: Optional[str] = None
    meta: Optional[Json] = None

    @classmethod
    def from_path(cls, path: Union[str, os.PathLike[str]], name: Optional[str] = None) -> Root:
        """Return the root for a local path. A relative path refers to the working directory."""
        from pathlib import Path

        return cls(Path(os.path.abspath(path)).as_uri(), name)

    @property
    def path(self) -> Optional[Path]:
        """The local path. None if the URI has a different scheme or host, or characters that a path
        cannot have."""
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
    """A model's request to call a tool.

    Args:
        id: The id, which the `ToolResult` repeats.
        name: The tool's name.
        input: The arguments.
        meta: The member ``_meta``.
    """

    type: ClassVar[Literal["tool_use"]] = "tool_use"

    id: str
    name: str
    input: Json
    meta: Optional[Json] = None


class ToolResult(ToolOutcome):
    """The result of a tool that a model requested.

    Args:
        tool_use_id: The id of the `ToolUse`.
        content: The blocks.
        structured_content: Any JSON value (None is null); `ABSENT` sends none.
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
"""Content as an author may write it: a str for a block of text, one block, or several blocks."""


def _read_blocks(value: Any) -> list[SamplingContent]:
    return [
        content_from_wire(item, _READERS)
        for item in (value if isinstance(value, list) else [value])
    ]


def _write_blocks(blocks: list[Wire]) -> Any:
    """Write one block without a list, because older revisions allow only that."""
    written = [block.to_wire() for block in blocks]
    return written[0] if len(written) == 1 else written


def _as_blocks(content: Any) -> Any:
    if isinstance(content, str):
        return [Text(content)]
    return [content] if isinstance(content, _CLASSES) else as_list(content)


MEMBER_TYPES[list[SamplingContent]] = MemberType(
    "content blocks", (dict, list), (list,), _CLASSES, _read_blocks, _write_blocks, _as_blocks
)


class SamplingMessage(WithContent):
    """One message of a conversation with a model.

    Args:
        role: "user" or "assistant".
        content: One block, several, or a str for a block of text. The attribute is always a list.
        meta: The member ``_meta``.

    Raises:
        ValueError: The role does not exist.
    """

    role: Role
    content: Converted[list[SamplingContent], Blocks]
    meta: Optional[Json] = None

    @classmethod
    def of(cls, given: Any) -> Any:
        """Convert what an author may write for a message: a str is a user's message, and a mapping
        is one in wire form.

        Raises:
            ValueError: The mapping is not a message.
        """
        if isinstance(given, Mapping):
            return cls.from_wire(dict(given))
        return cls("user", given) if isinstance(given, str) else given


def conversation_fault(messages: Sequence[SamplingMessage]) -> Optional[str]:
    """Return what is wrong with the use of tools in a conversation, in one line, or None.

    A message with tool results must not contain anything else. It must directly follow the message
    with the tool uses and have a result for each of them.
    """
    open_uses: set[str] = set()
    for message in messages:
        results = [block.tool_use_id for block in message.content if isinstance(block, ToolResult)]
        if results and (len(results) < len(message.content) or message.role != "user"):
            return "a message with tool results must be the user's and contain nothing else"
        if open_uses != set(results):
            return "the message after tool uses must have the result of each of them"
        uses = [block.id for block in message.content if isinstance(block, ToolUse)]
        open_uses = set(uses) if message.role == "assistant" else set()
    return "a tool use has no result" if open_uses else None


class SampleResult(WithContent):
    """The answer of a model.

    Args:
        content: One block, several, or a str for a block of text. The attribute is always a list.
        model: The model's name.
        role: "assistant" or "user".
        stop_reason: Why the model stopped: "endTurn", "stopSequence", "maxTokens", "toolUse" or
            another word.
        meta: The member ``_meta``.

    Raises:
        ValueError: The role does not exist.

    https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
    """

    content: Converted[list[SamplingContent], Blocks]
    model: str = member(default="unknown", required=True)
    role: Role = member(default="assistant", required=True)
    stop_reason: Optional[str] = None
    meta: Optional[Json] = None

    @property
    def is_end_turn(self) -> bool:
        """Whether the model finished its answer. Some peers write ``end_turn``."""
        return self.stop_reason in ("endTurn", "end_turn")


class ModelHint(Wire):
    """A part of the name of a suitable model.

    Args:
        name: The part, or None.
    """

    name: Optional[str] = None


def _as_hints(hints: Any) -> Any:
    given = as_list(hints)
    if not isinstance(given, list):
        return given
    return [ModelHint(hint) if isinstance(hint, str) else hint for hint in given]


class ModelPreferences(Wire):
    """The model that a server prefers. Each priority is from 0 (not important) to 1, or None if
    unspecified.

    Args:
        hints: Hints in order of preference; a str becomes a `ModelHint`.
        cost_priority: The importance of low cost.
        speed_priority: The importance of speed.
        intelligence_priority: The importance of capability.

    Raises:
        ValueError: A priority is outside 0 to 1.
    """

    hints: Converted[Optional[list[ModelHint]], Optional[Iterable[Union[str, ModelHint]]]] = member(
        default=None, convert=_as_hints
    )
    cost_priority: Optional[float] = member(default=None, check=unit)
    speed_priority: Optional[float] = member(default=None, check=unit)
    intelligence_priority: Optional[float] = member(default=None, check=unit)

    def pick(self, models: Sequence[str]) -> Optional[str]:
        """Return the first model that contains the first hint with any match, or None."""
        names = [hint.name.lower() for hint in self.hints or () if hint.name]
        return next((model for name in names for model in models if name in model.lower()), None)


class ToolChoice(Wire):
    """Whether the model must use a tool.

    Args:
        mode: "auto", "required" or "none".

    Raises:
        ValueError: The mode does not exist.
    """

    mode: Literal["auto", "required", "none"] = "auto"


class SampleRequest(HostRequest):
    """A server's request to the host's model.

    The host must respect ``max_tokens`` and decides about everything else: it may choose another
    model, change the system prompt or omit context. Show the user the request before the model
    receives it.

    Args:
        messages: The conversation.
        max_tokens: The maximum number of tokens in the answer.
        model_preferences: The preferred model, or None. See `ModelPreferences.pick`.
        system_prompt: The preferred system prompt, or None.
        include_context: "none", "thisServer" or "allServers": the context to add.
        temperature: The temperature in the model's own scale, or None.
        stop_sequences: Strings that end the answer, or None.
        metadata: Options for the model's provider, or None.
        tools: Tools that the model may call. Only sent if the host declared support for tools.
        tool_choice: Whether the model must call a tool; None means "auto".
        meta: The member ``_meta``.

    Raises:
        ValueError: A word does not exist in the protocol.

    https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
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
        """The text of all messages, joined by newlines."""
        return "\n".join(message.text for message in self.messages)
