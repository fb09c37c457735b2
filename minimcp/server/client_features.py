"""`ClientFeatures`: what a handler may ask the client for, as methods of its Context.

What questions and their answers are is imported with the first of them: most handlers ask nothing.
https://modelcontextprotocol.io/specification/2026-07-28/client
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional

from ..engine.requests import IncomingRequest
from ..protocol.messages import Json, Notification, encode

if TYPE_CHECKING:
    from ..schema.forms import Schema
    from ..types import Answer, Root, SampleResult, Tool
    from .asking import Asker
    from .questions import Messages, Question


class ClientFeatures:
    """The part of a `Context` that asks. All of it blocks; several threads of one handler may use it.

    With a handshake, a handler on a `Serial` or "main" (see ``executor``) that asks holds that one thread meanwhile.

    Where requests stand alone (2026-07-28) the first question without an answer unwinds the handler, and it runs again
    from the top when the client comes back with the answer. So: ask first, act last. What must not happen twice goes
    into a `step`, or carries the `call_id`. Runs are repeated at least once: a client may come back with an old state
    until that expires. Questions are told apart by ``key``, which must not depend on chance; without one, by their
    order. A helper thread that asks is unwound too, by `asking.Suspend`, a BaseException: have it run by
    ``concurrent.futures``, whose ``result()`` hands that on to the handler, or use `ask_all` on the handler's thread.
    """

    __slots__ = ("_exchange", "_prefix")

    _exchange: IncomingRequest
    _prefix: str
    """What the keys of a handler that another one calls begin with."""

    def elicit(self, message: str, schema: Schema, *, key: Optional[str] = None) -> Answer:
        """Ask the user to fill in a form. Never for secrets: use `elicit_url` for those.

        Args:
            message: What is asked, for the user.
            schema: A JSON Schema of a flat object, a dataclass, or a mapping of names to types, all to be filled in.
            key: Names the question within this request; None names it by its order.

        Returns:
            What the user did. ``content`` is a dict, or an instance of the dataclass.

        Raises:
            CapabilityNotSupported: The client declared no such questions.
            Refused: It refuses this one.
            ProtocolViolation: What came is no answer (only with a handshake; else the question is asked again).
            RequestTimeout: The answer did not come within the server's ``ask_timeout``.
            ToolError: The client came back ``max_rounds`` times, and there still is a question.
            RpcError: The client answered with an error; ``from_peer`` is true.
            RuntimeError: The key was used before, or this handler cannot ask; those of tools, prompts and resources
                can.
            Cancelled: The request was cancelled.
            ConnectionLost: The client is gone.
            TypeError, ValueError: A question is none.
        """
        from .questions import Elicit

        answer: Answer = self._ask(Elicit(message, schema), key)
        return answer

    def elicit_url(
        self, message: str, url: str, *, elicitation_id: Optional[str] = None, key: Optional[str] = None
    ) -> Answer:
        """Ask the user to open a URL. That it was accepted is consent, and says nothing about what happened there.

        Args:
            message: Why, for the user.
            url: An http or https URL with nothing private in it. Check that who opens it is who was asked.
            elicitation_id: For `complete_elicitation`, unique on this server; None makes one up.
            key: As for `elicit`.

        Raises: as `elicit`.
        """
        from .questions import ElicitUrl

        answer: Answer = self._ask(ElicitUrl(message, url, elicitation_id=elicitation_id), key)
        return answer

    def complete_elicitation(self, elicitation_id: str) -> None:
        """Tell the client that what a URL was for is done; nothing where the revision has no such notice.

        Args:
            elicitation_id: As given to `elicit_url`, or in an `UrlElicitationRequired` of this client.

        Raises:
            ConnectionLost: The client is gone.
        """
        if self._exchange.peer.revision.elicitation_ids:
            notice = Notification("notifications/elicitation/complete", {"elicitationId": elicitation_id})
            self._exchange.sink.send(encode(notice))

    def sample(
        self,
        messages: Messages,
        max_tokens: int = 1000,
        *,
        system: Optional[str] = None,
        temperature: Optional[float] = None,
        tools: Optional[Iterable[Tool]] = None,
        key: Optional[str] = None,
        **options: Any,
    ) -> SampleResult:
        """Ask the client's model. Deprecated by the specification since 2026-07-28, and still served.

        Args:
            messages: What was said so far: `SamplingMessage`, a dict of its form on the wire, or a str for one message
                of the user; one of them, or several.
            max_tokens: How long the answer may be, in tokens.
            system: The system prompt; None leaves it to the client.
            temperature: None leaves it to the client.
            tools: What the model may call; the answer then asks for that. None gives it none.
            key: As for `elicit`.
            options: ``tool_choice, stop_sequences, model_preferences, include_context, metadata`` as for `Sample`.

        Raises: as `elicit`.
        """
        from .questions import Sample

        question = Sample(messages, max_tokens, system=system, temperature=temperature, tools=tools, **options)
        result: SampleResult = self._ask(question, key)
        return result

    def list_roots(self, *, key: Optional[str] = None) -> list[Root]:
        """Ask in which directories this server may work: guidance, not access control.

        Deprecated by the specification since 2026-07-28, and still served.

        Raises: as `elicit`.
        """
        from .questions import ListRoots

        roots: list[Root] = self._ask(ListRoots(), key)
        return roots

    def ask_all(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Ask several questions at once.

        Args:
            questions: `Elicit`, `ElicitUrl`, `Sample` and `ListRoots`, by keys of your own.

        Returns:
            The answers, by the same keys.

        Raises: as `elicit`; the first failure ends all of them.
        """
        if not isinstance(questions, Mapping):
            raise TypeError(f"what is asked is a mapping of keys to questions, not {type(questions).__name__}")
        prefix = self._prefix
        if not prefix:
            return self._asker().ask_all(questions)
        found = self._asker().ask_all({f"{prefix}{key}": question for key, question in questions.items()})
        return {key: found[f"{prefix}{key}"] for key in questions}

    def _asker(self) -> Asker:
        from .asking import asker_of

        return asker_of(self._exchange)

    def _ask(self, question: Question, key: Optional[str]) -> Any:
        if key is None:
            key = self._asker().new_key(question)
        return self.ask_all({key: question})[key]

    def step(self, key: str, function: Callable[[], Any]) -> Json:
        """Do something once for this request, though the handler may run several times.

        Args:
            key: Names the step within this request.
            function: Does it; what it returns has a JSON form, which the client can read in the state it carries.

        Returns:
            That JSON form, in every round.

        Raises:
            RuntimeError: The key was used before, for a step that was done.
            Exception: Whatever the function raises; the step may be tried again.
            TypeError, ValueError: What came out has no JSON form.
            Cancelled: The request was cancelled.
        """
        return self._asker().step(f"{self._prefix}{key}" if self._prefix else key, function)

    @property
    def call_id(self) -> str:
        """A random name of this call, the same in each of its rounds: for backends that do a thing once by its name."""
        return self._asker().call_id

    @property
    def round(self) -> int:
        """How often the handler has begun for this call: 1, and 1 more each time that the client came back."""
        return self._asker().round
