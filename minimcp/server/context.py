"""`Context`: what a handler sees of the request that it serves, and what it may ask its client;
`LogHandler`.

Everything here blocks and may be used by several threads of one handler; nothing is a coroutine.
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
https://modelcontextprotocol.io/specification/2026-07-28/client
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Union,
)

from ..engine.incoming import IncomingRequest, current_request
from ..protocol.lifecycle import LOG_LEVELS
from ..protocol.messages import Id, Json, Notification, encode
from ..schema.mismatch import nearest
from ..types.content import Implementation
from .feature import load

if TYPE_CHECKING:
    from ..auth.bearer import AccessToken
    from ..features.questions import ClientQuestion, Messages
    from ..schema.forms import Schema
    from ..types import (
        Answer,
        ModelPreferences,
        ReadResourceResult,
        Root,
        SampleResult,
        Tool,
        ToolChoice,
    )


class Caller(NamedTuple):
    """Who asks, by its own words: trust none of them."""

    info: Optional[Implementation]
    """How it describes itself; None when it does not."""

    capabilities: Mapping[str, Json]
    """What it declares, as it came."""

    supports: Callable[[str], bool]
    """Whether it declares a capability, by its dotted name: ``"elicitation.url"``,
    ``"ext:com.example/x"``."""


# What authors look for in a context, and do not find: what to write instead.
_ELSEWHERE = {
    **dict.fromkeys(("call_tool", "get_prompt"), "call the function itself, as any other"),
    "report_progress": "did you mean ctx.progress?",
    "request_context": "what it has is in ctx itself: ctx.request_id, ctx.meta, ctx.session",
}


class Context:
    """The request that a handler serves, and the client behind it. Thread-safe.

    Over stdio and in memory, and in sessions over HTTP, a handler waits where it asks; on a
    `Serial` or "main" (see ``executor``) it holds that one thread meanwhile.

    Over HTTP where requests stand alone (2026-07-28) a question without an answer unwinds the
    handler, and it runs again from the top when the client comes back with the answer. Over stdio
    and in memory that happens in the same revision to the handler that has waited longest, if more
    than ``Limits.waiting_handlers`` of one connection would wait. So: ask
    first, act last. What must not happen twice goes into a `step`, or carries the `call_id`. Runs
    are repeated at least once: a client may come back with an old state until that expires.
    Questions are told apart by ``key``, which must not depend on chance; without one, by their
    order. A helper thread that asks is unwound too, by `questions.Suspend`, a BaseException: have
    it run by ``concurrent.futures``, whose ``result()`` hands that on to the handler, or use
    `ask_all` on the handler's thread.

    Args:
        incoming: The request; handlers are given their Context and never make one.
        prefix: What the keys of questions and steps begin with, in a handler that another one
            calls.
    """

    def __init__(self, incoming: IncomingRequest, prefix: str = "") -> None:
        self._incoming = incoming
        self._prefix = prefix

    if not TYPE_CHECKING:  # which would take any attribute then

        def __getattr__(self, name: str) -> Any:
            near = nearest(name, [each for each in dir(Context) if not each.startswith("_")])
            hint = _ELSEWHERE.get(name) or (
                f"did you mean ctx.{near}?" if near else "see help(minimcp.Context)"
            )
            raise AttributeError(f"ctx has no {name!r}: {hint}")

    # ------------------------------------------------------------ telling

    def progress(
        self, done: float, total: Optional[float] = None, message: Optional[str] = None
    ) -> None:
        """Tell the client how far this is. Nothing is sent if it did not ask.

        Args:
            done: How much is done; a report that does not increase is dropped.
            total: How much there is in all; None when that is not known.
            message: A short text for people; None sends none.

        Raises:
            Cancelled: The request was cancelled.
            ConnectionLost: The client is gone.
        """
        self._incoming.progress(done, total, message)

    def log(self, level: str, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message to the client, if it wants messages of this level.

        Deprecated by the specification since 2026-07-28, and still served.

        Args:
            level: "debug", "info", "notice", "warning", "error", "critical", "alert" or
                "emergency".
            data: Any JSON value; never a secret.
            logger: The name of what speaks; None sends none.

        Raises:
            ValueError: The level is none of these.
            Cancelled: The request was cancelled.
            ConnectionLost: The client is gone.
        """
        rank = LOG_LEVELS.get(level)
        if rank is None:
            raise ValueError(f"level is one of {', '.join(LOG_LEVELS)}, not {level!r}")
        incoming = self._incoming
        incoming.check()
        wanted = incoming.peer.log_rank
        if wanted is None or rank < wanted or not incoming.server.logging:
            return
        params = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        incoming.send("notifications/message", params)

    def debug(self, data: Json, logger: Optional[str] = None) -> None:
        """`log` at the level "debug"."""
        self.log("debug", data, logger)

    def info(self, data: Json, logger: Optional[str] = None) -> None:
        """`log` at the level "info": ``ctx.info({'found': 5})``."""
        self.log("info", data, logger)

    def notice(self, data: Json, logger: Optional[str] = None) -> None:
        """`log` at the level "notice"."""
        self.log("notice", data, logger)

    def warning(self, data: Json, logger: Optional[str] = None) -> None:
        """`log` at the level "warning"."""
        self.log("warning", data, logger)

    def error(self, data: Json, logger: Optional[str] = None) -> None:
        """`log` at the level "error"."""
        self.log("error", data, logger)

    def critical(self, data: Json, logger: Optional[str] = None) -> None:
        """`log` at the level "critical"."""
        self.log("critical", data, logger)

    def alert(self, data: Json, logger: Optional[str] = None) -> None:
        """`log` at the level "alert"."""
        self.log("alert", data, logger)

    def emergency(self, data: Json, logger: Optional[str] = None) -> None:
        """`log` at the level "emergency"."""
        self.log("emergency", data, logger)

    def close_stream(self, retry: float = 1.0) -> bool:
        """Let a client over HTTP go in the middle of a long call: it comes back for what is sent
        from now on.

        Its connection, and whatever stands between, is free meanwhile. What it missed is kept in
        the `EventStore`.

        Args:
            retry: Seconds that it shall wait before it comes back.

        Returns:
            False, and nothing was done, where the client could not come back: only 2025-11-25 over
            HTTP has this.

        Raises:
            Cancelled: The request was cancelled.
        """
        self._incoming.check()
        return self._incoming.sink.close_for_polling(retry)

    # ------------------------------------------------------------ asking

    def elicit(self, message: str, schema: Schema, *, key: Optional[str] = None) -> Answer:
        """Ask the user to fill in a form; over HTTP (2026-07-28) the handler runs again from the
        top with the answer.

        Never for secrets: use `elicit_url` for those. For yes or no ask with an empty form, which
        the user accepts or
        declines: ``if ctx.elicit("Delete all?", {}):``. What a field such as ``{"ok": bool}`` holds
        is in ``content``.

        Args:
            message: What is asked, for the user.
            schema: A JSON Schema of a flat object, a dataclass, or a mapping of names to types, all
                to be filled in.
            key: Names the question within this request; None names it by its order.

        Returns:
            What the user did. ``content`` is a dict, or an instance of the dataclass.

        Raises:
            CapabilityNotSupported: The client declared no such questions.
            Refused: It refuses this one.
            ProtocolViolation: What came is no answer (only with a handshake; else the question is
                asked again).
            RequestTimeout: The answer did not come within ``Limits.ask_timeout``.
            ToolError: The client came back ``Limits.rounds`` times, and there still is a question.
            RpcError: The client answered with an error; ``from_peer`` is true.
            RuntimeError: The key was used before, or this handler cannot ask; those of tools,
                prompts and resources can.
            Cancelled: The request was cancelled.
            ConnectionLost: The client is gone.
            TypeError, ValueError: A question is none.
        """
        question = load("features.questions").Elicit(message, schema)
        answer: Answer = self._ask(question, key)
        return answer

    def elicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: Optional[str] = None,
        key: Optional[str] = None,
    ) -> Answer:
        """Ask the user to open a URL; over HTTP (2026-07-28) the handler runs again from the top
        with the answer.

        That it was accepted is consent, and says nothing about what happened there.

        Args:
            message: Why, for the user.
            url: An http or https URL with nothing private in it. Check that who opens it is who was
                asked.
            elicitation_id: For `complete_elicitation`, unique on this server; None makes one up.
            key: As for `elicit`.

        Raises: as `elicit`.
        """
        ask = load("features.questions").ElicitUrl
        question = ask(message, url, elicitation_id=elicitation_id)
        answer: Answer = self._ask(question, key)
        return answer

    def complete_elicitation(self, elicitation_id: str) -> None:
        """Tell the client that what a URL was for is done; nothing where the revision has no such
        notification.

        Args:
            elicitation_id: As given to `elicit_url`, or in an `UrlElicitationRequired` of this
                client.

        Raises:
            ConnectionLost: The client is gone.
        """
        if self._incoming.peer.revision.elicitation_ids:
            told = Notification(
                "notifications/elicitation/complete", {"elicitationId": elicitation_id}
            )
            self._incoming.sink.send(encode(told))

    def sample(
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
        key: Optional[str] = None,
    ) -> SampleResult:
        """Ask the client's model; over HTTP (2026-07-28) the handler runs again from the top with
        the answer.

        Deprecated by the specification since 2026-07-28, and still served.

        Args:
            messages: What was said so far; a str is one message of the user.
            max_tokens: How long the answer may be, in tokens.
            system: The system prompt; None leaves it to the client.
            temperature: None leaves it to the client.
            tools: What the model may call; the answer then asks for that. None gives it none.
            tool_choice: "auto", "required" or "none"; None is "auto".
            stop_sequences: Texts at which it stops; None adds none.
            model_preferences: Which model would do: preferences, or names as hints. None says
                nothing.
            include_context: "none", "thisServer" or "allServers"; None says nothing.
            metadata: For the client's provider of models; None sends none.
            key: As for `elicit`.

        Raises: as `elicit`.
        """
        question = load("features.questions").Sample(
            messages,
            max_tokens,
            system=system,
            temperature=temperature,
            tools=tools,
            tool_choice=tool_choice,
            stop_sequences=stop_sequences,
            model_preferences=model_preferences,
            include_context=include_context,
            metadata=metadata,
        )
        answer: SampleResult = self._ask(question, key)
        return answer

    def list_roots(self, *, key: Optional[str] = None) -> list[Root]:
        """Ask in which directories to work; over HTTP (2026-07-28) the handler runs again from the
        top with the answer.

        The answer is guidance, no access control. A root that is not a ``file://`` URI is dropped
        and logged. Deprecated by the specification since 2026-07-28,
        and still served.

        Raises: as `elicit`.
        """
        roots: list[Root] = self._ask(load("features.questions").ListRoots(), key)
        return roots

    def ask_all(self, questions: Mapping[str, ClientQuestion]) -> dict[str, Any]:
        """Ask several questions at once; over HTTP (2026-07-28) the handler runs again from the top
        with the answers.

        Args:
            questions: `Elicit`, `ElicitUrl`, `Sample` and `ListRoots`, by keys of your own.

        Returns:
            The answers, by the same keys.

        Raises: as `elicit`; the first failure ends all of them.
        """
        if not isinstance(questions, Mapping):
            raise TypeError(
                f"what is asked is a mapping of keys to questions, not {type(questions).__name__}"
            )
        asked = questions
        if self._prefix:
            asked = {f"{self._prefix}{key}": each for key, each in questions.items()}
        answers = self._channel().ask_all(asked)
        return dict(zip(questions, answers.values()))

    def _ask(self, question: ClientQuestion, key: Optional[str]) -> Any:
        if key is None:
            key = self._channel().new_key(question)
        return self.ask_all({key: question})[key]

    def _channel(self) -> Any:
        return load("features.input_rounds").channel_of(self._incoming)

    def step(self, key: str, function: Callable[[], Any]) -> Json:
        """Do something once for this request, though the handler may run several times
        (2026-07-28).

        Args:
            key: Names the step within this request.
            function: Does it; what it returns has a JSON form, which the client can read in the
                state it carries.

        Returns:
            That JSON form, in every round.

        Raises:
            RuntimeError: The key was used before, for a step that was done.
            Exception: Whatever the function raises; the step may be tried again.
            TypeError, ValueError: What came out has no JSON form.
            Cancelled: The request was cancelled.
        """
        if self._prefix:
            key = f"{self._prefix}{key}"
        return self._channel().step(key, function)

    def become_task(self) -> None:
        """Go on as a task, where requests stand alone and the client knows tasks; the tool has
        ``task="later"``.

        The request is answered with the task, and the handler runs again from the top, where its
        earlier questions and steps find their answers. Elsewhere, and in a task, this returns at
        once.
        """
        load("extensions.tasks").become_task(self._incoming)

    @property
    def call_id(self) -> str:
        """A random name of this call, the same in each of its rounds: for backends that do a thing
        once by its name."""
        call_id: str = self._channel().call_id
        return call_id

    @property
    def round(self) -> int:
        """How often the handler has begun for this call: 1, and 1 more each time that it has run
        again."""
        number: int = self._channel().round
        return number

    # ------------------------------------------------------------ the server's own

    def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource of this server, as a client would; its function runs on this thread.

        Args:
            uri: Of the resource.

        Raises:
            ResourceNotFound: The server has no such resource.
            Cancelled: The request was cancelled.
            Exception: What the resource's function raises, as it is.
        """
        incoming = self._incoming
        incoming.check()
        prefix = self._channel().inner(self._prefix + uri)  # its questions are not this handler's
        resources = incoming.server.feature("resources")
        result: ReadResourceResult = resources.read(incoming, uri, Context(incoming, prefix))
        return result

    # ------------------------------------------------------------ being cancelled

    @property
    def cancelled(self) -> bool:
        """Whether the client no longer waits, or the time is over. Check it in loops."""
        return self._incoming.token.cancelled

    def check(self) -> None:
        """Return if the request still runs.

        Raises:
            Cancelled: It was cancelled, or its time is over.
        """
        self._incoming.check()

    def sleep(self, seconds: float) -> None:
        """Wait, without keeping a worker from others; wakes when the request is cancelled.

        Raises:
            Cancelled: The request was cancelled.
        """
        self._incoming.sleep(seconds)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, on a thread of its own, when the request is cancelled; at once if
        it is already.

        It runs in a copy of the handler's context (`contextvars`) as it is at that moment.

        Raises:
            TypeError: It cannot be called.
        """
        if not callable(callback):
            raise TypeError(
                f"what is called on cancel is a function without arguments, not {callback!r:.60}"
            )
        self._incoming.on_cancel(callback)

    # ------------------------------------------------------------ the request

    @property
    def client(self) -> Caller:
        """Who asks: ``info``, ``capabilities``, ``supports("elicitation.url")``. Its own words:
        trust none of them."""
        peer = self._incoming.peer
        return Caller(Implementation.of_peer(peer.info), peer.capabilities, peer.supports)

    @property
    def revision(self) -> str:
        """The name of the revision of the protocol that this request is served by."""
        return self._incoming.peer.revision.name

    @property
    def request_id(self) -> Id:
        """The request's id, as the client chose it."""
        return self._incoming.request.id

    @property
    def method(self) -> str:
        """The request's method."""
        return self._incoming.request.method

    @property
    def params(self) -> Mapping[str, Json]:
        """The request's params, as they came."""
        return self._incoming.request.params

    @property
    def meta(self) -> Mapping[str, Json]:
        """The ``_meta`` of the params; empty when there is none."""
        meta = self._incoming.request.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def trace_context(self) -> dict[str, str]:
        """``traceparent``, ``tracestate`` and ``baggage`` of the request's ``_meta``, as far as
        they came.

        Clients that the handler calls, on its thread or by `submit`, send these in ``_meta``,
        unless the call has its own. A handler or a middleware may change them, so that what is
        called sees its span as the parent.
        """
        return self._incoming.trace_context()

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request that it came by, names without regard to case; empty
        where it was none.

        Over HTTP+SSE those of the request that opened the stream. Without the token, where the
        server verifies one.
        """
        return self._incoming.headers

    @property
    def auth(self) -> Optional[AccessToken]:
        """What is known by the token that came with the request, which was verified; None without
        ``Server(auth=)``.

        Over HTTP+SSE by the newest that the client has sent.
        """
        return getattr(self._incoming.headers, "auth", None)

    @property
    def session(self) -> Optional[dict[str, Any]]:
        """A dict that is kept for the session; None where requests stand alone: keep state under an
        id of your own."""
        return self._incoming.peer.session

    @property
    def server(self) -> Any:
        """The `Server` that serves."""
        return self._incoming.server.owner

    def __repr__(self) -> str:
        return f"<Context of {self._incoming!r}>"


def current_context() -> Context:
    """The Context of the handler that runs on this thread.

    Raises:
        LookupError: No handler runs on this thread. A thread that a handler starts is handed its
            ``ctx``.
    """
    incoming = current_request()
    if incoming is None:
        raise LookupError(
            "no handler runs on this thread: hand ctx to the threads that a handler starts"
        )
    return Context(incoming)
