"""What a handler may ask a client: how each question travels, what it needs, how its answer is read.

Not here: when it is sent, and who waits for it (see `asking`).
https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

import logging
import os
from typing import Any, ClassVar, Iterable, Literal, Mapping, Optional, Union

from ..errors import CapabilityNotSupported, one_line
from ..protocol.lifecycle import Peer, lacks
from ..protocol.messages import Json
from ..protocol.versions import Revision
from ..schema.forms import Schema, form_of
from ..schema.mismatch import quoted
from ..types import (
    ACTIONS,
    Answer,
    ModelPreferences,
    Root,
    SampleResult,
    SamplingMessage,
    Tool,
    ToolChoice,
    conversation_fault,
)

log = logging.getLogger("minimcp.questions")

CONTEXTS = ("none", "thisServer", "allServers")
_SAMPLED = ("text", "image", "audio", "tool_use", "tool_result")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Question:
    """One question, the same object however often it is asked. Immutable by convention, thread-safe."""

    kind: ClassVar[str]
    """The beginning of the key of one that was given none."""

    method: ClassVar[str]
    """Of the request."""

    def params(self, peer: Peer) -> dict[str, Json]:
        """The params, by the facts of the client's revision.

        Raises:
            CapabilityNotSupported: The client did not declare what this needs, or its revision does not have it.
        """
        raise NotImplementedError

    def sealed(self, params: dict[str, Json]) -> dict[str, Json]:
        """The params as they are sent: with what is new each time."""
        return params

    def read(self, result: dict[str, Json]) -> Any:
        """What the handler gets for a client's result.

        Raises:
            ValueError: It is no answer to this question.
        """
        raise NotImplementedError


class Elicit(Question):
    """Asks the user to fill in a form. Never for secrets: those are asked for by `ElicitUrl`.

    Args:
        message: What is asked, for the user.
        schema: A JSON Schema of a flat object, a dataclass, or a mapping of names to types, all to be filled in.

    Raises:
        TypeError, ValueError: The form has a field that the protocol's forms do not have.
    """

    kind, method = "elicit", "elicitation/create"

    def __init__(self, message: str, schema: Schema) -> None:
        self.message, self.form = _text("message", message), form_of(schema)

    def params(self, peer: Peer) -> dict[str, Json]:
        revision = peer.revision
        _need(peer, "elicitation.form", self, "form" in revision.elicitation_modes)
        if self.form.has_lists and not revision.full_forms:
            raise CapabilityNotSupported(f"{revision.name} has no forms with lists of choices")
        mode = {"mode": "form"} if revision.full_forms else {}
        return {**mode, "message": self.message, "requestedSchema": self.form.to_wire(full=revision.full_forms)}

    def read(self, result: dict[str, Json]) -> Answer:
        action = _action(result)
        if action != "accept":
            return Answer(action)
        content = result.get("content")
        return Answer(action, self.form.read({} if content is None else content))

    def __repr__(self) -> str:
        return f"<Elicit {quoted(self.message)} {', '.join(self.form.names)}>"


class ElicitUrl(Question):
    """Asks the user to open a URL, as for a login or a payment. An acceptance is consent, not completion.

    Args:
        message: Why, for the user.
        url: Where to; without anything private in it, and not a way in by itself. Check who opens it.
        elicitation_id: Names it in a `Context.complete_elicitation` later; None makes one up.

    Raises:
        TypeError, ValueError: The URL is no http or https URL.
    """

    kind, method = "url", "elicitation/create"

    def __init__(self, message: str, url: str, *, elicitation_id: Optional[str] = None) -> None:
        self.message, self.url = _text("message", message), _checked_url(url)
        self.elicitation_id = elicitation_id if elicitation_id is None else _text("elicitation_id", elicitation_id)

    def params(self, peer: Peer) -> dict[str, Json]:
        _need(peer, "elicitation.url", self, "url" in peer.revision.elicitation_modes)
        params = {"mode": "url", "message": self.message, "url": self.url}
        if peer.revision.elicitation_ids:
            params["elicitationId"] = self.elicitation_id or ""
        return params

    def sealed(self, params: dict[str, Json]) -> dict[str, Json]:
        if params.get("elicitationId") == "":
            return {**params, "elicitationId": os.urandom(16).hex()}
        return params

    def read(self, result: dict[str, Json]) -> Answer:
        return Answer(_action(result))

    def __repr__(self) -> str:
        return f"<ElicitUrl {quoted(self.message)} {self.url}>"


Message = Union[str, SamplingMessage, Mapping[str, Json]]
Messages = Union[Message, Iterable[Message]]
"""What may be said to a model: a str is one message of the user, a mapping one message in its form on the wire."""


class Sample(Question):
    """Asks the client's model.

    Args:
        messages: What was said so far; a str is one message of the user, a dict one in its form on the wire.
        max_tokens: How long the answer may be, in tokens.
        system: The system prompt; None leaves it to the client.
        temperature: None leaves it to the client.
        tools: What the model may call; the answer then asks for that. None gives it none.
        tool_choice: "auto", "required" or "none"; None is "auto".
        stop_sequences: Texts at which it stops; None adds none.
        model_preferences: Which model would do: preferences, or names as hints. None says nothing.
        include_context: "none", "thisServer" or "allServers", which is left out where the client does not know it.
        metadata: For the client's provider of models; None sends none.

    Raises:
        TypeError, ValueError: An argument is not what it should be, or a message leaves the use of a tool unanswered.
    """

    kind, method = "sample", "sampling/createMessage"

    def __init__(
        self,
        messages: Messages,
        max_tokens: int = 1000,
        *,
        system: Optional[str] = None,
        temperature: Optional[float] = None,
        tools: Optional[Iterable[Tool]] = None,
        tool_choice: Union[ToolChoice, Literal["auto", "required", "none"], None] = None,
        stop_sequences: Optional[Iterable[str]] = None,
        model_preferences: Union[ModelPreferences, str, Iterable[str], None] = None,
        include_context: Optional[Literal["none", "thisServer", "allServers"]] = None,
        metadata: Optional[Mapping[str, Json]] = None,
    ) -> None:
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int):
            raise TypeError(f"max_tokens is an int, not {max_tokens!r}")
        if max_tokens < 1:
            raise ValueError(f"max_tokens is at least 1, not {max_tokens}")
        self._messages = _conversation(messages)
        self._tools = None if tools is None else [_tool(each) for each in tools]
        self._choice = ToolChoice(tool_choice) if isinstance(tool_choice, str) else tool_choice
        self._context = include_context
        if include_context is not None and include_context not in CONTEXTS:
            raise ValueError(f"include_context is one of {', '.join(CONTEXTS)}, not {include_context!r}")
        self._max_tokens = max_tokens
        if isinstance(stop_sequences, str):
            raise TypeError(f"stop_sequences is a list of texts: did you mean [{stop_sequences!r}]?")
        stops = None if stop_sequences is None else [_text("a stop sequence", each) for each in stop_sequences]
        if isinstance(temperature, bool) or not isinstance(temperature, (int, float, type(None))):
            raise TypeError(f"temperature is a number, not {temperature!r}")
        self._options: dict[str, Json] = {
            "modelPreferences": _preferences(model_preferences),
            "systemPrompt": system if system is None else _text("system", system),
            "temperature": temperature,
            "stopSequences": stops,
            "metadata": None if metadata is None else dict(metadata),
        }

    def params(self, peer: Peer) -> dict[str, Json]:
        revision = peer.revision
        _need(peer, "sampling", self)
        params: dict[str, Json] = {"messages": self._said(revision), "maxTokens": self._max_tokens}
        params.update({name: value for name, value in self._options.items() if value is not None})
        if self._tools is not None or self._choice is not None:
            _need(peer, "sampling.tools", self, revision.sampling_tools)
            tools = [tool.to_wire() for tool in self._tools or ()]
            params["tools"] = [
                {name: value for name, value in tool.items() if name in revision.tool_members} for tool in tools
            ]
            if self._choice is not None:
                params["toolChoice"] = self._choice.to_wire()
        if self._context is not None and self._may_say_context(peer):
            params["includeContext"] = self._context
        return params

    def _may_say_context(self, peer: Peer) -> bool:
        """Whether the client knows the word; it may ignore it anyway, so it is left out rather than refused."""
        if self._context == "none" or not peer.revision.sampling_tools or peer.supports("sampling.context"):
            return True
        log.warning("includeContext %r is left out: the client declares no sampling.context", self._context)
        return False

    def _said(self, revision: Revision) -> list[Json]:
        wire = []
        for message in self._messages:
            for block in message.content:
                if block.type not in revision.sampling_kinds:
                    raise CapabilityNotSupported(f"{revision.name} has no {block.type} in messages to a model")
            if revision.sampling_tools:
                wire.append(message.to_wire())
            else:  # one block a message
                wire += [SamplingMessage(message.role, block).to_wire() for block in message.content]
        return wire

    def read(self, result: dict[str, Json]) -> SampleResult:
        return SampleResult.from_wire(result)

    def __repr__(self) -> str:
        said = "\n".join(message.text for message in self._messages)
        return f"<Sample {quoted(said)} {self._max_tokens} tokens>"


class ListRoots(Question):
    """Asks in which directories the server may work. Guidance, not access control."""

    kind, method = "roots", "roots/list"

    def params(self, peer: Peer) -> dict[str, Json]:
        _need(peer, "roots", self)
        return {}

    def read(self, result: dict[str, Json]) -> list[Root]:
        roots = result.get("roots")
        if not isinstance(roots, list):
            raise ValueError("roots is a list")
        return [Root.from_wire(root) for root in roots]

    def __repr__(self) -> str:
        return "<ListRoots>"


def _need(peer: Peer, name: str, question: Question, there: bool = True) -> None:
    """Return if the client may be asked.

    Args:
        peer: The client.
        name: The capability that it has to declare.
        question: What needs it.
        there: Whether its revision has such a thing at all.

    Raises:
        CapabilityNotSupported: It may not.
    """
    if not there or not peer.supports(name):
        raise lacks(name, question.method)


def _action(result: Mapping[str, Json]) -> str:
    action = result.get("action")
    if not isinstance(action, str) or action not in ACTIONS:
        raise ValueError(f"action is one of {', '.join(ACTIONS)}")
    return action


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a str, not {type(value).__name__}")
    return value


def _checked_url(url: Any) -> str:
    from urllib.parse import urlsplit

    if any(character <= " " or character == "\x7f" for character in _text("url", url)):
        raise ValueError("a URL has neither blanks nor control characters")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"a user opens http or https URLs, with a host, unlike {url!r:.80}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        log.warning("a user is to open %s: use https", one_line(url))
    return str(url)


def _conversation(given: Messages) -> list[SamplingMessage]:
    several: Iterable[Any] = [given] if isinstance(given, (str, SamplingMessage, Mapping)) else given
    messages = [SamplingMessage.of(each) for each in several]
    if not messages:
        raise ValueError("a model is told at least one message")
    for message in messages:
        if not isinstance(message, SamplingMessage):
            raise TypeError(f"messages are str, SamplingMessage or dict, not {type(message).__name__}")
        unfit = [block.type for block in message.content if block.type not in _SAMPLED]
        if unfit:
            raise TypeError(f"a message to a model has {', '.join(_SAMPLED)} blocks, not {unfit[0]}")
    fault = conversation_fault(messages)
    if fault is not None:
        raise ValueError(fault)
    return messages


def _tool(given: Any) -> Tool:
    if not isinstance(given, Tool):
        raise TypeError(f"tools are a list of Tool, not of {type(given).__name__}")
    return given


def _preferences(given: Union[ModelPreferences, str, Iterable[str], None]) -> Optional[dict[str, Json]]:
    if given is None:
        return None
    if not isinstance(given, ModelPreferences):
        given = ModelPreferences([given] if isinstance(given, str) else given)
    return given.to_wire()
