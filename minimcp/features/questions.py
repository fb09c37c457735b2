"""Questions that a handler may ask its client: their params, what they need, and their answers.

In revisions with a handshake, a question is a request of the server, and the handler's thread waits
for the answer (`QuestionChannel`). In stateless revisions, the result of the request asks the
question (see `input_rounds`).
https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
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
    Sequence,
    Union,
)

from .. import errors, types
from ..engine.asking import ask_peer
from ..engine.incoming import IncomingRequest
from ..engine.limits import check_number
from ..log import logger
from ..protocol.lifecycle import Peer, lacks
from ..protocol.messages import Failure, Json, Result, to_json
from ..protocol.urls import parse_web_url
from ..protocol.versions import Revision
from ..schema.annotations import write_any
from ..schema.forms import Schema, form_of
from ..text import one_line

log = logger("minimcp.questions")

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_KEEP = "store the values that it depends on with ctx.step"
# Error messages of clients that reject a question.
_REJECTION = r"(?i)\b(refus|reject|declin|denied)"


class ClientQuestion:
    """A question to the client. It may be asked several times. Immutable by convention,
    thread-safe."""

    # The beginning of generated keys.
    kind: ClassVar[str]

    # The method of the request.
    method: ClassVar[str]

    def params(self, peer: Peer) -> dict[str, Json]:
        """Return the params in the form of the client's revision.

        Raises:
            CapabilityNotSupported: The client or its revision lacks a capability that the question
                needs.
        """
        raise NotImplementedError

    def read(self, result: dict[str, Json]) -> Any:
        """Return the answer for the handler.

        Raises:
            ValueError: The client's result is not an answer to this question.
        """
        raise NotImplementedError

    def _need(self, peer: Peer, name: str) -> None:
        """Raise CapabilityNotSupported if the client or its revision lacks a capability."""
        if not peer.revision.has(name) or not peer.supports(name):
            raise lacks(name, self.method, peer.revision)


class Elicit(ClientQuestion):
    """Asks the user to fill in a form. Never for secrets: use `ElicitUrl` for those.

    Args:
        message: The question, for the user.
        schema: A JSON Schema of a flat object, a dataclass, or a mapping of required fields to
            types.

    Raises:
        TypeError, ValueError: The form has a field that the protocol does not support.
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
                f"{revision.name} does not support forms with lists of choices"
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
        if answer.action == "accept":
            answer.content = self.form.read({} if content is None else content)
        answer.has_booleans = self.form.has_booleans
        return answer


class ElicitUrl(ClientQuestion):
    """Asks the user to open a URL, for example to log in or to pay.

    An answer that accepts is consent to open the URL. It does not mean that the user has finished.

    Args:
        message: The reason, for the user.
        url: The URL, without private data. It must not grant access by itself: your page must check
            that the same user opens it.
        elicitation_id: An id for `Context.complete_elicitation`; if None, one is generated.

    Raises:
        TypeError, ValueError: The URL is not an http or https URL.
    """

    kind = "url"
    method = "elicitation/create"

    def __init__(self, message: str, url: str, *, elicitation_id: Optional[str] = None) -> None:
        self._request = types.ElicitRequest(
            message, mode="url", url=url, elicitation_id=elicitation_id
        )
        where = parse_web_url(url)
        if where.scheme == "http" and where.host not in _LOOPBACK:
            log.warning("elicit_url asks the user to open %s: use https", url)

    def params(self, peer: Peer) -> dict[str, Json]:
        self._need(peer, "elicitation.url")
        params = self._request.to_wire()
        id = params.pop("elicitationId", None) or os.urandom(16).hex()
        return {**params, "elicitationId": id} if peer.revision.elicitation_ids else params

    def read(self, result: dict[str, Json]) -> types.Answer:
        return _answer(result)


Message = Union[str, types.SamplingMessage, Mapping[str, Json]]
# Messages to a model. A str is one message of the user, a mapping one message in its form on the
# wire.
Messages = Union[Message, Iterable[Message]]


class Sample(ClientQuestion):
    """Asks the client's model.

    Args:
        messages: The conversation. A str is one message of the user; a dict is a message in its
            form on the wire.
        max_tokens: Maximum length of the answer, in tokens.
        system: The system prompt; if None, the client decides.
        temperature: The sampling temperature; if None, the client decides.
        tools: Tools that the model may request; None means none.
        tool_choice: "auto", "required" or "none"; None means "auto".
        stop_sequences: Strings at which the model stops; None means none.
        model_preferences: Preferences, or names of models as hints; None has no preference.
        include_context: "none", "thisServer" or "allServers". It is omitted if the client does not
            support it. Omitted if None.
        metadata: Data for the client's model provider; omitted if None.

    Raises:
        TypeError, ValueError: An argument is invalid, or the use of a tool in the messages has no
            result.
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
        several: Any = messages
        if isinstance(messages, (str, types.SamplingMessage, Mapping)):
            several = [messages]
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
        if not request.messages:
            raise ValueError("messages must not be empty")
        fault = types.conversation_fault(request.messages)
        if fault is not None:
            raise ValueError(fault)

    def params(self, peer: Peer) -> dict[str, Json]:
        revision = peer.revision
        self._need(peer, "sampling")
        params = {**self._request.to_wire(), "messages": self._messages(revision)}
        if "tools" in params or "toolChoice" in params:
            self._need(peer, "sampling.tools")
            wires = params.get("tools", [])
            params["tools"] = [
                {name: wire[name] for name in wire if name in revision.tool_members}
                for wire in wires
            ]
        context = params.get("includeContext", "none")
        if context != "none" and revision.sampling_tools and not peer.supports("sampling.context"):
            # Clients may ignore this member anyway, so it is omitted rather than rejected.
            log.warning(
                "includeContext %r is omitted: the client does not declare sampling.context",
                context,
            )
            del params["includeContext"]
        return params

    def _messages(self, revision: Revision) -> list[Json]:
        wire = []
        for message in self._request.messages:
            for block in message.content:
                if block.type not in revision.sampling_kinds:
                    raise errors.CapabilityNotSupported(
                        f"{revision.name} does not allow {block.type} in messages to a model"
                    )
            if revision.sampling_tools:
                wire.append(message.to_wire())
            else:  # one block for each message
                wire += [
                    types.SamplingMessage(message.role, block).to_wire()
                    for block in message.content
                ]
        return wire

    def read(self, result: dict[str, Json]) -> types.SampleResult:
        return types.SampleResult.from_wire(result)


class ListRoots(ClientQuestion):
    """Asks for the directories in which the server may work. They are guidance, not access
    control."""

    kind = "roots"
    method = "roots/list"

    def params(self, peer: Peer) -> dict[str, Json]:
        self._need(peer, "roots")
        return {}

    def read(self, result: dict[str, Json]) -> list[types.Root]:
        roots = result.get("roots")
        if not isinstance(roots, list):
            raise ValueError("roots must be a list")
        found = []
        for index, item in enumerate(roots):
            try:
                root = types.Root.from_wire(item)
            except ValueError as error:
                log.warning("<-- roots/list: roots[%d] is dropped: %s", index, error)
                continue
            # The scheme is case-insensitive (RFC 3986, 3.1).
            if root.uri[:7].lower() == "file://":
                found.append(root)
            else:
                log.warning(
                    "a root of the client is dropped: %s is not a file:// URI", one_line(root.uri)
                )
        return found


def _answer(result: Mapping[str, Json]) -> types.Answer:
    return types.Answer(result.get("action"))  # type: ignore[arg-type]


# ------------------------------------------------------------ the channel of a handler


class Suspend(BaseException):
    """Unwinds a handler that runs again from the top.

    Do not catch it: ``except Exception`` lets it pass.
    """


class SentQuestion(NamedTuple):
    """A question that a handler asks, with its key and its params."""

    key: str
    question: ClientQuestion
    params: dict[str, Json]

    @property
    def digest(self) -> str:
        """A short text that is equal for equal questions of different runs."""
        # Without elicitationId, which is generated for each run.
        same = {name: value for name, value in self.params.items() if name != "elicitationId"}
        return digest([self.question.method, same])


class QuestionChannel:
    """Asks the questions of one run of one handler: sends each as a request and waits. Thread-safe.

    Args:
        incoming: The request.
        before: The channel of an earlier run of this handler, whose answers and steps are reused;
            None for the first run.

    Attributes:
        pending: Questions that wait for another round.
        fault: The mistake of a run under ``check_replay``; empty if there is none.
    """

    # Whether a run must ask the same questions as the runs before it.
    strict = False

    def __init__(self, incoming: IncomingRequest, before: Optional[QuestionChannel] = None) -> None:
        self._incoming = incoming
        # Never held while code of the author runs.
        self._lock = threading.Lock()
        self._used: set[str] = set()
        self._stepped: set[str] = set()
        self._steps: dict[str, Json] = {}
        self._unnamed = count(1)
        self._called = count(1)
        self.pending: dict[str, SentQuestion] = {}
        self.fault = ""
        self.round = 1
        self.call_id = os.urandom(16).hex()
        # By key: the digest of the question (None if it is unknown) and the answer as received.
        self._answered: dict[str, Any] = {}
        if before is not None:
            self.call_id = before.call_id
            self.round = before.round + 1
            self._answered = dict(before._answered)
            self._steps = dict(before._steps)

    def new_key(self, question: ClientQuestion) -> str:
        """Return the key of a question without one: its number among those without a key."""
        return f"{question.kind}-{next(self._unnamed)}"

    def inner(self, name: str) -> str:
        """Return the prefix of keys for a handler that this handler calls."""
        return f"{name}#{next(self._called)}/"

    def ask_all(self, questions: Mapping[str, ClientQuestion]) -> dict[str, Any]:
        """Ask several questions at the same time, and return the answers by key.

        Raises: see `Context.ask_all`.
        """
        self._incoming.check()
        if self._incoming.answering is None:
            raise RuntimeError(
                f"{self._incoming.request.method} has been answered, so its handler cannot ask"
                " questions"
            )
        for key, question in questions.items():
            if not isinstance(key, str) or not isinstance(question, ClientQuestion):
                raise TypeError(
                    "questions must be Elicit, ElicitUrl, Sample or ListRoots objects, with keys"
                    " that are str"
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
        """Return the answers of earlier rounds by key. Invalid ones are forgotten."""
        found = {}
        for each in asked if self._answered else ():
            pinned, answer = self._answered.pop(each.key, (None, None))
            if answer is not None and pinned not in (None, each.digest):
                problem = f"{each.key!r} was a different question in an earlier run"
                if self.strict:
                    self.fault = f"check_replay: {problem}: {_KEEP}"
                    raise RuntimeError(self.fault)
                log.warning(
                    "%s: %s, so it is asked again: %s",
                    request_label(self._incoming),
                    problem,
                    _KEEP,
                )
            elif isinstance(answer, Exception):
                self._answered[each.key] = (pinned, answer)
                raise copy(answer)
            elif answer is not None:
                with log_invalid_answer(each):
                    # A copy, so that the handler cannot change the state.
                    found[each.key] = each.question.read(deepcopy(answer))
                    self._answered[each.key] = (each.digest, answer)
        return found

    def _answers(self, asked: list[SentQuestion]) -> dict[str, Any]:
        """Ask the client, and return its answers by key."""
        method = self._incoming.request.method
        able = self._incoming.peer.revision.asking_methods
        if method not in able:
            raise RuntimeError(
                f"a handler of {method} cannot ask the client: only handlers of"
                f" {', '.join(sorted(able))} can"
            )
        return {
            each.key: read_result(each, result)
            for each, result in zip(asked, ask_now(asked, self.send))
        }

    def send(self, questions: Sequence[tuple[str, Result]]) -> Union[list[Result], Failure]:
        """Send questions to the client, and wait for all answers; see `ask_peer`."""
        incoming = self._incoming
        return ask_peer(incoming, questions, incoming.server.limits.ask_timeout)

    def ask_for_urls(self, wanted: Iterable[Mapping[str, str]]) -> None:
        """Ask the user to open URLs, unless the client has answered before. Return normally if the
        user declined one.

        Raises:
            Suspend: The handler must run again when the answers have arrived.
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
        """Run a function and return the JSON form of its result, or the result of an earlier
        round."""
        self._incoming.check()
        if not isinstance(key, str):
            raise TypeError(f"the key of a step must be a str, not {type(key).__name__}")
        self._claim(self._stepped, [key], "the key of two steps: give each its own")
        try:
            # The JSON form even in the first round, so that every round has the same value.
            if key not in self._steps:
                self._steps[key] = json.loads(to_json(write_any(function())))
        except BaseException:  # the step is not finished, so the handler may try again
            with self._lock:
                self._stepped.discard(key)
            raise
        return deepcopy(self._steps[key])  # the handler cannot change the state


@contextmanager
def log_invalid_answer(asked: SentQuestion) -> Iterator[None]:
    """Log a ValueError of an invalid answer. The question is then asked again."""
    try:
        yield
    except ValueError as error:
        log.info("%s is asked again because its answer is invalid: %s", asked.key, error)


def ask_now(
    asked: list[SentQuestion],
    send: Callable[[Sequence[tuple[str, Result]]], Union[list[Result], Failure]],
) -> list[Result]:
    """Send questions as requests, and wait for all answers.

    Args:
        asked: The questions.
        send: The `QuestionChannel.send` of the handler's channel.

    Raises:
        Refused: The user or the client rejected a question.
        RpcError: The client answered with another error; ``from_peer`` is true.
        Exception: See `ask_peer`.
    """
    outcome = send([(each.question.method, each.params) for each in asked])
    if not isinstance(outcome, Failure):
        return outcome
    code = outcome.code
    message = outcome.message
    # An error of the protocol is not a rejection, whatever its message says.
    is_protocol = code in errors.RESERVED_CODES and code != errors.INTERNAL_ERROR
    if code == errors.USER_REJECTED or (not is_protocol and re.search(_REJECTION, message)):
        raise errors.Refused(message)
    raise errors.error_from_peer(code, message, outcome.data)


def read_result(asked: SentQuestion, result: dict[str, Json]) -> Any:
    """Return the answer for the handler.

    Raises:
        ProtocolViolation: The result is not an answer to the question.
    """
    try:
        return asked.question.read(result)
    except ValueError as error:
        raise errors.ProtocolViolation(
            f"the answer to {asked.question.method}: {error}", result
        ) from None


def request_label(incoming: IncomingRequest) -> str:
    """Return the method and target of a request, for messages."""
    target = incoming.request.params.get("name", incoming.request.params.get("uri"))
    return f"{incoming.request.method} {target}"


def canonical(value: Json) -> bytes:
    """Return JSON as bytes that do not depend on the order of members."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(value: Json) -> str:
    """Return a short text that identifies a JSON value."""
    from hashlib import sha256  # not at the top: it loads OpenSSL, which few servers need

    return sha256(canonical(value)).hexdigest()[:32]
