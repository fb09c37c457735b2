"""What a handler may ask its client: how each question travels, what it needs, how its answer is
read, and who asks.

In revisions with a handshake a question is a request of the server, and the handler's thread waits
for the answer (see `QuestionChannel`). In stateless revisions the result of the request asks it
(see `input_rounds`). https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import contextmanager
from copy import copy, deepcopy
from itertools import count
from typing import (
    Any,
    Callable,
    ClassVar,
    Iterable,
    Iterator,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Union,
)

from .. import errors, types
from ..engine.incoming import IncomingRequest
from ..engine.limits import check_number
from ..log import logger
from ..protocol.lifecycle import Peer, lacks
from ..protocol.messages import Failure, Json, to_json
from ..protocol.urls import parse_web_url
from ..protocol.versions import Revision
from ..schema.annotations import write_any
from ..schema.forms import Schema, form_of
from ..text import one_line

log = logger("minimcp.questions")

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_KEEP = "keep what it depends on with ctx.step"
_REFUSED = r"(?i)\b(refus|reject|declin|denied)"


class ClientQuestion:
    """One question, the same object however often it is asked. Immutable by convention,
    thread-safe."""

    # The beginning of the key of one that was given none.
    kind: ClassVar[str]

    # Of the request.
    method: ClassVar[str]

    def params(self, peer: Peer) -> dict[str, Json]:
        """The params, as the client's revision has them.

        Raises:
            CapabilityNotSupported: The client did not declare what this needs, or its revision does
                not have it.
        """
        raise NotImplementedError

    def read(self, result: dict[str, Json]) -> Any:
        """What the handler gets for a client's result.

        Raises:
            ValueError: It is no answer to this question.
        """
        raise NotImplementedError

    def _need(self, peer: Peer, name: str) -> None:
        """Refuse to ask a client that lacks a capability, or whose revision does not have the thing
        at all."""
        if not peer.revision.has(name) or not peer.supports(name):
            raise lacks(name, self.method, peer.revision)


class Elicit(ClientQuestion):
    """Asks the user to fill in a form. Never for secrets: those are asked for by `ElicitUrl`.

    Args:
        message: What is asked, for the user.
        schema: A JSON Schema of a flat object, a dataclass, or a mapping of names to types, all to
            be filled in.

    Raises:
        TypeError, ValueError: The form has a field that the protocol's forms do not have.
    """

    kind = "elicit"
    method = "elicitation/create"

    def __init__(self, message: str, schema: Schema) -> None:
        self.message = types.ElicitRequest(message).message
        self.form = form_of(schema)

    def params(self, peer: Peer) -> dict[str, Json]:
        revision = peer.revision
        self._need(peer, "elicitation.form")
        if self.form.has_lists and not revision.full_forms:
            raise errors.CapabilityNotSupported(
                f"{revision.name} has no forms with lists of choices"
            )
        mode = {"mode": "form"} if revision.full_forms else {}
        return {
            **mode,
            "message": self.message,
            "requestedSchema": self.form.to_wire(full=revision.full_forms),
        }

    def read(self, result: dict[str, Json]) -> types.Answer:
        answer = _answer(result)
        content = result.get("content")
        if answer:
            answer.content = self.form.read({} if content is None else content)
        return answer


class ElicitUrl(ClientQuestion):
    """Asks the user to open a URL, as for a login or a payment. An acceptance is consent, not
    completion.

    Args:
        message: Why, for the user.
        url: Where to; without anything private in it, and not a way in by itself. Check who opens
            it.
        elicitation_id: Names it in a `Context.complete_elicitation` later; None makes one up.

    Raises:
        TypeError, ValueError: The URL is no http or https URL.
    """

    kind = "url"
    method = "elicitation/create"

    def __init__(self, message: str, url: str, *, elicitation_id: Optional[str] = None) -> None:
        self._request = types.ElicitRequest(
            message, mode="url", url=url, elicitation_id=elicitation_id
        )
        where = parse_web_url(url)
        if where.scheme == "http" and where.host not in _LOOPBACK:
            log.warning("a user is to open %s: use https", url)

    def params(self, peer: Peer) -> dict[str, Json]:
        self._need(peer, "elicitation.url")
        params = self._request.to_wire()
        id = params.pop("elicitationId", None) or os.urandom(16).hex()
        return {**params, "elicitationId": id} if peer.revision.elicitation_ids else params

    def read(self, result: dict[str, Json]) -> types.Answer:
        return _answer(result)


Message = Union[str, types.SamplingMessage, Mapping[str, Json]]
# What may be said to a model: a str is one message of the user, a mapping one message in its form
# on the wire.
Messages = Union[Message, Iterable[Message]]


class Sample(ClientQuestion):
    """Asks the client's model.

    Args:
        messages: What was said so far; a str is one message of the user, a dict one in its form on
            the wire.
        max_tokens: How long the answer may be, in tokens.
        system: The system prompt; None leaves it to the client.
        temperature: None leaves it to the client.
        tools: What the model may call; the answer then asks for that. None gives it none.
        tool_choice: "auto", "required" or "none"; None is "auto".
        stop_sequences: Texts at which it stops; None adds none.
        model_preferences: Which model would do: preferences, or names as hints. None says nothing.
        include_context: "none", "thisServer" or "allServers", which is left out where the client
            does not know it.
        metadata: For the client's provider of models; None sends none.

    Raises:
        TypeError, ValueError: An argument is not what it should be, or a message leaves the use of
            a tool unanswered.
    """

    kind = "sample"
    method = "sampling/createMessage"

    def __init__(
        self,
        messages: Messages,
        max_tokens: int = 1000,
        *,
        system: Optional[str] = None,
        temperature: Optional[float] = None,
        tools: Optional[Iterable[types.Tool]] = None,
        tool_choice: Union[types.ToolChoice, Literal["auto", "required", "none"], None] = None,
        stop_sequences: Optional[Iterable[str]] = None,
        model_preferences: Union[types.ModelPreferences, str, Iterable[str], None] = None,
        include_context: Optional[Literal["none", "thisServer", "allServers"]] = None,
        metadata: Optional[Mapping[str, Json]] = None,
    ) -> None:
        check_number("max_tokens", max_tokens, least=1, optional=False)
        if isinstance(tool_choice, str):
            tool_choice = types.ToolChoice(tool_choice)
        if isinstance(model_preferences, str):
            model_preferences = [model_preferences]
        if not isinstance(model_preferences, (types.ModelPreferences, type(None))):
            model_preferences = types.ModelPreferences(model_preferences)
        several: Iterable[Any] = (
            [messages] if isinstance(messages, (str, types.SamplingMessage, Mapping)) else messages
        )
        self._request = request = types.SampleRequest(
            [types.SamplingMessage.of(each) for each in several],
            max_tokens,
            model_preferences,
            system,
            include_context,
            temperature,
            stop_sequences,
            None if metadata is None else dict(metadata),
            tools,
            tool_choice,
        )
        fault = (
            types.conversation_fault(request.messages)
            if request.messages
            else "a model is told something"
        )
        if fault is not None:
            raise ValueError(fault)

    def params(self, peer: Peer) -> dict[str, Json]:
        revision = peer.revision
        self._need(peer, "sampling")
        params = {**self._request.to_wire(), "messages": self._said(revision)}
        if "tools" in params or "toolChoice" in params:
            self._need(peer, "sampling.tools")
            wires = params.get("tools", [])
            params["tools"] = [
                {name: wire[name] for name in wire if name in revision.tool_members}
                for wire in wires
            ]
        context = params.get("includeContext", "none")
        if context != "none" and revision.sampling_tools and not peer.supports("sampling.context"):
            # it may ignore the word anyway, so that is left out rather than refused
            log.warning(
                "includeContext %r is left out: the client declares no sampling.context", context
            )
            del params["includeContext"]
        return params

    def _said(self, revision: Revision) -> list[Json]:
        wire = []
        for message in self._request.messages:
            for block in message.content:
                if block.type not in revision.sampling_kinds:
                    raise errors.CapabilityNotSupported(
                        f"{revision.name} has no {block.type} in messages to a model"
                    )
            if revision.sampling_tools:
                wire.append(message.to_wire())
            else:  # one block a message
                wire += [
                    types.SamplingMessage(message.role, block).to_wire()
                    for block in message.content
                ]
        return wire

    def read(self, result: dict[str, Json]) -> types.SampleResult:
        return types.SampleResult.from_wire(result)


class ListRoots(ClientQuestion):
    """Asks in which directories the server may work. Guidance, not access control."""

    kind = "roots"
    method = "roots/list"

    def params(self, peer: Peer) -> dict[str, Json]:
        self._need(peer, "roots")
        return {}

    def read(self, result: dict[str, Json]) -> list[types.Root]:
        roots = result.get("roots")
        if not isinstance(roots, list):
            raise ValueError("roots is a list")
        found = []
        for index, item in enumerate(roots):
            try:
                root = types.Root.from_wire(item)
            except ValueError as error:
                log.warning("<-- roots/list: roots[%d] is left out: %s", index, error)
                continue
            # The scheme has no case (RFC 3986, 3.1).
            if root.uri[:7].lower() == "file://":
                found.append(root)
            else:
                log.warning(
                    "a root of the client is dropped: %s is not a file:// URI", one_line(root.uri)
                )
        return found


def _answer(result: Mapping[str, Json]) -> types.Answer:
    return types.Answer(result.get("action"))  # type: ignore[arg-type]


# ------------------------------------------------------------ who asks


class Suspend(BaseException):
    """Unwinds a handler that runs again from the top. It passes ``except Exception``; let it pass
    yours."""


class SentQuestion(NamedTuple):
    """A question that a handler asks: by its key, with its params."""

    key: str
    question: ClientQuestion
    params: dict[str, Json]

    @property
    def digest(self) -> str:
        """A short name for the question: a later run that asks the same has the same digest."""
        said = {
            name: value for name, value in self.params.items() if name != "elicitationId"
        }  # new each time
        return digest([self.question.method, said])


class QuestionChannel:
    """Answers the questions of one run of one handler: sends each as a request and waits.
    Thread-safe.

    Args:
        incoming: The request.
        before: The channel of an earlier run of this call's handler, whose answers and steps
            count; None for the first run.

    Attributes:
        pending: Questions that wait for another round.
        fault: What a checked run did wrong; empty when it did nothing.
    """

    # Whether a run has to ask what the runs before it asked.
    strict = False

    def __init__(self, incoming: IncomingRequest, before: Optional[QuestionChannel] = None) -> None:
        self._incoming = incoming
        self._lock = (
            threading.Lock()
        )  # guards what this remembers; never held while anything of an author's runs
        self._used: set[str] = set()
        self._stepped: set[str] = set()
        self._steps: dict[str, Json] = {}
        self._unnamed = count(1)
        self._called = count(1)
        self.pending: dict[str, SentQuestion] = {}
        self.fault = ""
        self.round = 1
        self.call_id = os.urandom(16).hex()
        # By key: the digest of the question that was asked, None when it is not known, and the
        # answer, as it came.
        self._answered: dict[str, Any] = {}
        if before is not None:
            self.call_id = before.call_id
            self.round = before.round + 1
            self._answered = dict(before._answered)
            self._steps = dict(before._steps)

    def new_key(self, question: ClientQuestion) -> str:
        """The key of a question that was given none: its place among those without one."""
        return f"{question.kind}-{next(self._unnamed)}"

    def inner(self, name: str) -> str:
        """What the keys of a handler begin with that this one calls: its name, and how many were
        called before it."""
        return f"{name}#{next(self._called)}/"

    def ask_all(self, questions: Mapping[str, ClientQuestion]) -> dict[str, Any]:
        """What the client says to several questions, by the same keys; all are asked at once.

        Raises: as `Context.ask_all`.
        """
        self._incoming.check()
        if self._incoming.latest is None:
            raise RuntimeError(
                f"{self._incoming.request.method} is answered already: nothing can be asked for it"
            )
        for key, question in questions.items():
            if not isinstance(key, str) or not isinstance(question, ClientQuestion):
                raise TypeError(
                    "questions are Elicit, ElicitUrl, Sample or ListRoots, each by a key of text"
                )
        peer = self._incoming.peer
        asked = [
            SentQuestion(key, question, question.params(peer))
            for key, question in questions.items()
        ]
        self._claim(
            self._used, [*questions], "asked twice in one run: give each question its own key"
        )
        found = self._known(asked)
        missing = [each for each in asked if each.key not in found]
        if missing:
            found.update(self._answers(missing))
        return {key: found[key] for key in questions}

    def _claim(self, taken: set[str], keys: list[str], problem: str) -> None:
        with self._lock:
            twice = [key for key in keys if key in taken]
            taken.update(keys)
        if twice:
            raise RuntimeError(f"{twice[0]!r} is {problem}")

    def _known(self, asked: list[SentQuestion]) -> dict[str, Any]:
        """What the client said to these in an earlier round; what does not fit any more is
        forgotten."""
        found = {}
        for each in asked if self._answered else ():
            pinned, answer = self._answered.pop(each.key, (None, None))
            if answer is not None and pinned not in (None, each.digest):
                problem = f"{each.key!r} was asked in other words when the handler ran before"
                if self.strict:
                    self.fault = f"check_replay: {problem}: {_KEEP}"
                    raise RuntimeError(self.fault)
                log.warning(
                    "%s: %s, and is asked again: %s", request_label(self._incoming), problem, _KEEP
                )
            elif isinstance(answer, Exception):
                self._answered[each.key] = (pinned, answer)
                raise copy(answer)
            elif answer is not None:
                with asked_again(each):
                    found[each.key] = each.question.read(
                        deepcopy(answer)
                    )  # the handler's own, no part of the state
                    self._answered[each.key] = (each.digest, answer)
        return found

    def _answers(self, asked: list[SentQuestion]) -> dict[str, Any]:
        """What the client says to questions that it has not answered yet, by key."""
        method = self._incoming.request.method
        able = self._incoming.peer.revision.asking_methods
        if method not in able:
            raise RuntimeError(
                f"a handler of {method} cannot ask the client: those of "
                f"{', '.join(sorted(able))} can"
            )
        return {
            each.key: read_result(each, result)
            for each, result in zip(asked, ask_now(self._incoming, asked))
        }

    def ask_for_urls(self, wanted: Iterable[Mapping[str, str]]) -> None:
        """Ask to open URLs, whatever was answered before; returns if one of the answers was no.

        Raises:
            Suspend: The handler is to run again, when the answers are there.
        """
        answers = [self._answered.pop(each["elicitationId"], (None, {}))[1] for each in wanted]
        if any(answer.get("action") in ("decline", "cancel") for answer in answers):
            return
        questions = {
            each["elicitationId"]: ElicitUrl(each["message"], each["url"]) for each in wanted
        }
        if all(self.ask_all(questions).values()):
            raise Suspend

    def step(self, key: str, function: Callable[[], Any]) -> Any:
        """What the function returns, as JSON; in a later round what it returned then."""
        self._incoming.check()
        if not isinstance(key, str):
            raise TypeError(f"the key of a step is a str, not {type(key).__name__}")
        self._claim(self._stepped, [key], "the key of two steps: give each its own")
        try:
            if key not in self._steps:  # the same in the first round, and in every revision
                self._steps[key] = json.loads(to_json(write_any(function())))
        except BaseException:  # it was not done: the handler may try again
            with self._lock:
                self._stepped.discard(key)
            raise
        return deepcopy(self._steps[key])  # what the handler does with it is no part of the state


@contextmanager
def asked_again(asked: SentQuestion) -> Iterator[None]:
    """A question whose answer does not fit is asked again."""
    try:
        yield
    except ValueError as error:
        log.info("%s is asked again, its answer does not fit: %s", asked.key, error)


def ask_now(incoming: IncomingRequest, asked: list[SentQuestion]) -> list[dict[str, Json]]:
    """Send questions as requests and wait for all the answers.

    Raises:
        Refused: The user or the client refuses one.
        RpcError: The client answered one with another error; ``from_peer`` is true.
        Exception: As `IncomingRequest.ask`.
    """
    questions = [(each.question.method, each.params) for each in asked]
    outcome = incoming.ask(questions, incoming.server.limits.ask_timeout)
    if not isinstance(outcome, Failure):
        return outcome
    code = outcome.code
    message = outcome.message
    ours = code in errors.RESERVED_CODES and code != errors.INTERNAL_ERROR
    if code == errors.USER_REJECTED or (not ours and re.search(_REFUSED, message)):
        raise errors.Refused(
            message
        )  # an error that says no is a refusal; one about the protocol is an error
    raise errors.error_from_peer(code, message, outcome.data)


def read_result(asked: SentQuestion, result: dict[str, Json]) -> Any:
    """What the handler gets for what a client answered.

    Raises:
        ProtocolViolation: The result is no answer to the question.
    """
    try:
        return asked.question.read(result)
    except ValueError as error:
        raise errors.ProtocolViolation(
            f"the answer to {asked.question.method}: {error}", result
        ) from None


def request_label(incoming: IncomingRequest) -> str:
    """What a request is about, for messages."""
    target = incoming.request.params.get("name", incoming.request.params.get("uri"))
    return f"{incoming.request.method} {target}"


def canonical(value: Json) -> bytes:
    """The same bytes for the same JSON, whatever the order of its members."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(value: Json) -> str:
    """A short name for a JSON value, which no other value has."""
    from hashlib import sha256  # brings OpenSSL in, which few servers need

    return sha256(canonical(value)).hexdigest()[:32]
