"""What a server asks a host: for a sample of its model, or for something that only its user knows.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
"""

from __future__ import annotations

from typing import Any, Iterable, Literal, Optional, Sequence

from .base import Wire, check_word, listed, listed_or_none
from .common import Implementation
from .kinds import NUMBER, OBJECT, STRINGS, TEXT, WHOLE, Json, Kind, blank, many, needed, one
from .sampling import ModelPreferences, SamplingMessage, ToolResult, ToolUse
from .tool import Tool

CONTEXTS = ("none", "thisServer", "allServers")
CHOICES = ("auto", "required", "none")
MODES = ("form", "url")


def _word(*words: str) -> Kind:
    """A string that is one of these."""

    def read(value: str) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return value

    return Kind("a string", (str,), (str,), read=read)


class Question(Wire):
    """What both kinds of question have.

    ``server`` says who asks, as far as the server describes itself: show it to the user.
    """

    LOCAL = ("server", "asked")
    __slots__ = LOCAL
    server: Optional[Implementation]

    def _start(self) -> None:
        self.server = self.asked = None
        super()._start()

    def __getstate__(self) -> tuple[None, Json]:
        """A copy is nobody's question any more."""
        return None, {**{name: getattr(self, name) for name in ("extra", "server", *self.FIELDS)}, "asked": None}

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more: it turns true once, and any thread may look."""
        return self.asked is not None and bool(self.asked.cancelled)


class ToolChoice(Wire):
    """Whether the model has to use a tool.

    Args:
        mode: "auto", "required" or "none".

    Raises:
        ValueError: Another mode.
    """

    FIELDS = {"mode": blank(_word(*CHOICES), "auto")}
    __slots__ = tuple(FIELDS)

    def __init__(self, mode: Literal["auto", "required", "none"] = "auto") -> None:
        self.mode: str = mode
        self._start()
        check_word("ToolChoice", "mode", mode, CHOICES)


class SampleRequest(Question):
    """A server asks the host's model.

    The host decides about everything but ``max_tokens``, which it honours: it may choose another model, change the
    system prompt or leave out context. Show the user what is asked before the model sees it.

    Args:
        messages: The conversation.
        max_tokens: The most that the model may say.
        model_preferences: Which model the server would like; None says nothing. See `ModelPreferences.pick`.
        system_prompt: What the server would tell the model first; None says nothing.
        include_context: "none", "thisServer" or "allServers": which context the server would like to be added.
        temperature: In the model's own scale; None says nothing.
        stop_sequences: Texts that end the answer; None says nothing.
        metadata: For the model's provider, in its own form; None says nothing.
        tools: What the model may call: asked for only where the host said that it takes tools.
        tool_choice: Whether it has to; None is "auto".
        meta: The member ``_meta``.

    Raises:
        ValueError: A word that the protocol does not have.
    """

    FIELDS = {
        "messages": needed(many(SamplingMessage.from_wire, SamplingMessage)),
        "model_preferences": one(ModelPreferences.from_wire, ModelPreferences),
        "system_prompt": TEXT,
        "include_context": _word(*CONTEXTS),
        "temperature": NUMBER,
        "max_tokens": needed(WHOLE),
        "stop_sequences": STRINGS,
        "metadata": OBJECT,
        "tools": many(Tool.from_wire, Tool),
        "tool_choice": one(ToolChoice.from_wire, ToolChoice),
        "meta": OBJECT,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        messages: Iterable[SamplingMessage],
        max_tokens: int,
        *,
        model_preferences: Optional[ModelPreferences] = None,
        system_prompt: Optional[str] = None,
        include_context: Optional[Literal["none", "thisServer", "allServers"]] = None,
        temperature: Optional[float] = None,
        stop_sequences: Optional[Iterable[str]] = None,
        metadata: Optional[Json] = None,
        tools: Optional[Iterable[Tool]] = None,
        tool_choice: Optional[ToolChoice] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.messages = listed(messages)
        self.max_tokens = max_tokens
        self.model_preferences = model_preferences
        self.system_prompt = system_prompt
        self.include_context: Optional[str] = include_context
        self.temperature = temperature
        self.stop_sequences = listed_or_none(stop_sequences)
        self.metadata = metadata
        self.tools = listed_or_none(tools)
        self.tool_choice = tool_choice
        self.meta = meta
        self._start()
        check_word("SampleRequest", "include_context", include_context, CONTEXTS)

    @property
    def text(self) -> str:
        """The text of all messages, joined by line feeds."""
        return "\n".join(message.text for message in self.messages)


class ElicitRequest(Question):
    """A server asks the user.

    In form mode the user fills in what ``schema`` describes; before it is sent, the user sees it and can decline. In
    url mode the user is asked to open ``url``: show it whole, and ``host`` by itself; open it only when the user
    agrees, in a browser that neither this program nor a model can look into; fetch nothing before.

    Args:
        message: What the user is asked.
        schema: A JSON Schema of a flat object; None in url mode.
        mode: "form" or "url"; a question that does not say is one for a form.
        url: What to open; None in form mode.
        elicitation_id: By which the server names the outcome later, in revisions that do so; else None.
        meta: The member ``_meta``.

    Raises:
        ValueError: Another mode.
    """

    FIELDS = {
        "mode": blank(TEXT, "form"),
        "message": needed(TEXT),
        "requested_schema": OBJECT,
        "url": TEXT,
        "elicitation_id": TEXT,
        "meta": OBJECT,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        message: str,
        schema: Optional[Json] = None,
        *,
        mode: Literal["form", "url"] = "form",
        url: Optional[str] = None,
        elicitation_id: Optional[str] = None,
        meta: Optional[Json] = None,
    ) -> None:
        self.message = message
        self.requested_schema = schema
        self.mode: str = mode
        self.url = url
        self.elicitation_id = elicitation_id
        self.meta = meta
        self._start()
        check_word("ElicitRequest", "mode", mode, MODES)

    @property
    def schema(self) -> Optional[Json]:
        """What the answer has to look like: a JSON Schema of a flat object; None in url mode."""
        return self.requested_schema

    @property
    def defaults(self) -> Json:
        """What a form shows before the user has changed anything: the defaults of the schema, by name."""
        properties = (self.requested_schema or {}).get("properties")
        fields = properties.items() if isinstance(properties, dict) else ()
        return {name: field["default"] for name, field in fields if isinstance(field, dict) and "default" in field}

    @property
    def host(self) -> Optional[str]:
        """The host that ``url`` leads to, in lower case; None when there is none."""
        from urllib.parse import urlsplit

        try:
            return urlsplit(self.url or "").hostname
        except ValueError:
            return None

    @property
    def looks_odd(self) -> bool:
        """Whether the host may pretend to be another one: letters beyond ASCII, as they are or as ``xn--``."""
        host = self.host or ""
        return not host.isascii() or any(label.startswith("xn--") for label in host.split("."))


def conversation_fault(messages: Sequence[SamplingMessage]) -> Optional[str]:
    """What is wrong with the use of tools in a conversation, in one line; None when nothing is.

    A message with results of tools holds nothing else, and follows at once on the uses that it answers, all of them.
    """
    open_uses: set[str] = set()
    for message in messages:
        results = [block.tool_use_id for block in message.content if isinstance(block, ToolResult)]
        if results and (len(results) < len(message.content) or message.role != "user"):
            return "a message with results of tools is the user's and holds nothing else"
        if open_uses != set(results):
            return "the message after uses of tools has the result of each of them"
        uses: list[Any] = [block.id for block in message.content if isinstance(block, ToolUse)]
        open_uses = set(uses) if message.role == "assistant" else set()
    return "a use of a tool has no result" if open_uses else None
