"""`Context`: the request that a handler serves, and the client behind it.

All methods block: they are not coroutines. Several threads of one handler can use a context.
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
    """The client of a request, as it describes itself. Nothing of this is verified."""

    info: Optional[Implementation]
    """The client's name and version; None if it sends none."""

    capabilities: Mapping[str, Json]
    """The capabilities that the client declares, as received."""

    supports: Callable[[str], bool]
    """Returns whether the client declares a capability, by dotted name: ``"elicitation.url"``, or
    ``"ext:com.example/x"`` for an extension.
    """


# Names that authors expect in a context because other libraries have them, with hints.
_ELSEWHERE = {
    **dict.fromkeys(("call_tool", "get_prompt"), "call the function directly"),
    "report_progress": "did you mean ctx.progress?",
    "request_context": "use the attributes of ctx itself: ctx.request_id, ctx.meta, ctx.session",
}


class Context:
    """The request that a handler serves, and the client behind it. Thread-safe.

    Handlers receive a context as the parameter that they annotate with `Context`.

    A question (`elicit`, `sample`, ...) blocks until the client answers, over stdio, in memory and
    in HTTP sessions. On a `Serial` or "main" executor, other handlers of that thread wait too.

    In stateless HTTP (2026-07-28), an unanswered question unwinds the handler. When the client
    sends the answer, the handler runs again from the top. In that revision, this also happens over
    stdio and in memory, to the handler that has waited longest, if more than
    ``Limits.waiting_handlers`` of one connection would wait. Therefore, ask first and act last:

    * Put actions that must not happen twice into a `step`, or send the `call_id` to your backend. A
      client may also return with an older state, until that state expires.
    * A question is identified by its ``key``, or by its order if it has none. A key must be the
    same
      in each run.
    * A question on a helper thread raises `questions.Suspend`, a BaseException, in that thread. Run
      helpers with ``concurrent.futures``, whose ``result()`` raises it again in the handler, or
      call `ask_all` on the handler's thread.

    Args:
        incoming: The request. Handlers receive their context and never create one.
        prefix: The beginning of the keys of questions and steps, in a handler that another handler
            calls.
    """

    def __init__(self, incoming: IncomingRequest, prefix: str = "") -> None:
        self._incoming = incoming
        self._prefix = prefix

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            near = nearest(name, [each for each in dir(Context) if not each.startswith("_")])
            hint = _ELSEWHERE.get(name) or (
                f"did you mean ctx.{near}?" if near else "see help(minimcp.Context)"
            )
            raise AttributeError(f"ctx has no {name!r}: {hint}")

    # ------------------------------------------------------------ progress and log messages

    def progress(
        self, done: float, total: Optional[float] = None, message: Optional[str] = None
    ) -> None:
        """Report progress to the client: ``ctx.progress(3, 10, "copying")``.

        Nothing is sent if the client did not ask for progress.

        Args:
            done: The amount done so far. A report that does not increase it is dropped.
            total: The total amount; None if it is not known.
            message: A short text for people; omitted if None.

        Raises:
            Cancelled: The request was cancelled.
            ConnectionLost: The client has disconnected.
        """
        self._incoming.progress(done, total, message)

    def log(self, level: str, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message to the client, if it wants messages of this level.

        Deprecated in the specification since 2026-07-28, but still supported.

        Args:
            level: "debug", "info", "notice", "warning", "error", "critical", "alert" or
                "emergency".
            data: Any JSON value. Never log a secret.
            logger: The name of the logger; omitted if None.

        Raises:
            ValueError: The level is unknown.
            Cancelled: The request was cancelled.
            ConnectionLost: The client has disconnected.
        """
        rank = LOG_LEVELS.get(level)
        if rank is None:
            raise ValueError(f"level must be one of {', '.join(LOG_LEVELS)}, not {level!r}")
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
        """Send a log message at the level "debug", see `log`."""
        self.log("debug", data, logger)

    def info(self, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message at the level "info", see `log`: ``ctx.info({'found': 5})``."""
        self.log("info", data, logger)

    def notice(self, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message at the level "notice", see `log`."""
        self.log("notice", data, logger)

    def warning(self, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message at the level "warning", see `log`."""
        self.log("warning", data, logger)

    def error(self, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message at the level "error", see `log`."""
        self.log("error", data, logger)

    def critical(self, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message at the level "critical", see `log`."""
        self.log("critical", data, logger)

    def alert(self, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message at the level "alert", see `log`."""
        self.log("alert", data, logger)

    def emergency(self, data: Json, logger: Optional[str] = None) -> None:
        """Send a log message at the level "emergency", see `log`."""
        self.log("emergency", data, logger)

    def close_stream(self, retry: float = 1.0) -> bool:
        """End the HTTP response of a long call early. The client reconnects for the rest.

        Until then, no connection is open, and the `EventStore` keeps messages for the client.

        Args:
            retry: Seconds that the client should wait before it reconnects.

        Returns:
            False if the client could not reconnect; nothing was done. Only 2025-11-25 over HTTP has
            this.

        Raises:
            Cancelled: The request was cancelled.
        """
        self._incoming.check()
        return self._incoming.sink.close_for_polling(retry)

    # ------------------------------------------------------------ questions to the client

    def elicit(self, message: str, schema: Schema, *, key: Optional[str] = None) -> Answer:
        """Ask the user to fill in a form: ``ctx.elicit("Your city?", {"city": str})``. In stateless
        HTTP (2026-07-28), the handler runs again from the top with the answer.

        For a yes or no, use `confirm`. For secrets, use `elicit_url`.

        Args:
            message: The question, for the user.
            schema: A JSON Schema of a flat object, a dataclass, or a mapping of required fields to
                types.
            key: A name for the question within this request; if None, its order identifies it.

        Returns:
            The user's action. ``content`` is a dict of the fields, or an instance of the dataclass.
            ``if answer`` tests whether the user accepted. This raises TypeError if the form has a
            boolean field.

        Raises:
            CapabilityNotSupported: The client does not support such questions.
            Refused: The client rejected this question.
            ProtocolViolation: The client's answer is invalid. In revisions without a handshake, the
                question is asked again instead.
            RequestTimeout: The answer did not arrive within ``Limits.ask_timeout``.
            ToolError: A question remains after the client has returned ``Limits.rounds`` times.
            RpcError: The client answered with an error; ``from_peer`` is true.
            RuntimeError: The key was used before, or this handler cannot ask questions. Handlers of
                tools, prompts and resources can.
            Cancelled: The request was cancelled.
            ConnectionLost: The client has disconnected.
            TypeError, ValueError: The message or the schema is invalid.
        """
        question = load("features.questions").Elicit(message, schema)
        answer: Answer = self._ask(question, key)
        return answer

    def confirm(self, message: str, *, key: Optional[str] = None) -> bool:
        """Ask the user to agree: ``if ctx.confirm("Delete 3 rows?"): ...``. Return True only if the
        user accepts. In stateless HTTP (2026-07-28), the handler runs again from the top.

        Args:
            message: The question, for the user. It is shown as a form without fields.
            key: See `elicit`.

        Raises: see `elicit`. If the client cannot ask anyone, this raises CapabilityNotSupported.
        """
        return self.elicit(message, {}, key=key).action == "accept"

    def elicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: Optional[str] = None,
        key: Optional[str] = None,
    ) -> Answer:
        """Ask the user to open a URL. In stateless HTTP (2026-07-28), the handler runs again from
        the top with the answer.

        If the answer accepts, the user has agreed to open the URL. The answer does not say what the
        user did on that page.

        Args:
            message: The reason, for the user.
            url: An http or https URL without private data. Your page must check that the same user
                opens it.
            elicitation_id: An id for `complete_elicitation`, unique on this server; if None, one is
                generated.
            key: See `elicit`.

        Raises: see `elicit`.
        """
        ask = load("features.questions").ElicitUrl
        question = ask(message, url, elicitation_id=elicitation_id)
        answer: Answer = self._ask(question, key)
        return answer

    def complete_elicitation(self, elicitation_id: str) -> None:
        """Notify the client that the interaction at a URL is complete.

        Nothing is sent if the revision has no such notification.

        Args:
            elicitation_id: The id given to `elicit_url`, or in an `UrlElicitationRequired`.

        Raises:
            ConnectionLost: The client has disconnected.
        """
        if self._incoming.peer.revision.elicitation_ids:
            params: dict[str, Json] = {"elicitationId": elicitation_id}
            notification = Notification("notifications/elicitation/complete", params)
            self._incoming.sink.send(encode(notification))

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
        """Ask the client's model. In stateless HTTP (2026-07-28), the handler runs again from the
        top with the answer.

        Deprecated in the specification since 2026-07-28, but still supported.

        Args:
            messages: The conversation. A str is one message of the user.
            max_tokens: Maximum length of the answer, in tokens.
            system: The system prompt; if None, the client decides.
            temperature: The sampling temperature; if None, the client decides.
            tools: Tools that the model may request; None means none.
            tool_choice: "auto", "required" or "none"; None means "auto".
            stop_sequences: Strings at which the model stops; None means none.
            model_preferences: Preferences, or names of models as hints; None has no preference.
            include_context: "none", "thisServer" or "allServers"; omitted if None.
            metadata: Data for the client's model provider; omitted if None.
            key: See `elicit`.

        Raises: see `elicit`.
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
        """Ask the client for the directories to work in. In stateless HTTP (2026-07-28), the
        handler runs again from the top with the answer.

        The answer is guidance, not access control. A root that is not a ``file://`` URI is logged
        and dropped. Deprecated in the specification since 2026-07-28, but still supported.

        Raises: see `elicit`.
        """
        roots: list[Root] = self._ask(load("features.questions").ListRoots(), key)
        return roots

    def ask_all(self, questions: Mapping[str, ClientQuestion]) -> dict[str, Any]:
        """Ask several questions at the same time. In stateless HTTP (2026-07-28), the handler runs
        again from the top with the answers.

        Args:
            questions: `Elicit`, `ElicitUrl`, `Sample` and `ListRoots` objects, by keys of your
                choice.

        Returns:
            The answers, by the same keys.

        Raises: see `elicit`. The first failure is raised.
        """
        if not isinstance(questions, Mapping):
            raise TypeError(
                f"questions must be a mapping of keys to questions, not {type(questions).__name__}"
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
        """Run a function once per call, even if the handler runs several times (2026-07-28).

        Args:
            key: The name of the step within this request.
            function: The action. Its result must have a JSON form. The client stores the result and
                can read it.

        Returns:
            The JSON form of the result, the same in every round.

        Raises:
            RuntimeError: A finished step used this key before.
            Exception: Any exception of the function; the step may be tried again.
            TypeError, ValueError: The result has no JSON form.
            Cancelled: The request was cancelled.
        """
        if self._prefix:
            key = f"{self._prefix}{key}"
        return self._channel().step(key, function)

    def become_task(self) -> None:
        """Continue this call as a task, if the tool has ``task="later"`` and the client supports
        tasks.

        The response is the task. The handler runs again from the top, and earlier questions and
        steps return their answers. Returns at once inside a task, and in revisions with a
        handshake.
        """
        load("extensions.tasks").become_task(self._incoming)

    @property
    def call_id(self) -> str:
        """A random id of this call, the same in each round. Backends can use it to act only
        once."""
        call_id: str = self._channel().call_id
        return call_id

    @property
    def round(self) -> int:
        """The number of times that the handler has started for this call: 1 in the first round."""
        number: int = self._channel().round
        return number

    # ------------------------------------------------------------ resources of this server

    def read_resource(self, uri: str) -> ReadResourceResult:
        """Read a resource of this server, as a client would. Its function runs on this thread.

        Args:
            uri: The URI of the resource.

        Raises:
            ResourceNotFound: The server has no such resource.
            Cancelled: The request was cancelled.
            Exception: Any exception of the resource's function, unchanged.
        """
        incoming = self._incoming
        incoming.check()
        # The resource's function may use the same keys for its own questions.
        prefix = self._channel().inner(self._prefix + uri)
        resources = incoming.server.feature("resources")
        result: ReadResourceResult = resources.read(incoming, uri, Context(incoming, prefix))
        return result

    # ------------------------------------------------------------ cancellation

    @property
    def cancelled(self) -> bool:
        """Whether the client has cancelled the request or has disconnected, or its time is over.

        Check this in loops. A WSGI host notices a disconnected client at the next write. In a
        session over HTTP, a client can come back for its response, so a lost connection does not
        cancel the request.
        """
        return self._incoming.token.cancelled

    def check(self) -> None:
        """Raise `Cancelled` if the request was cancelled or its time is over."""
        self._incoming.check()

    def sleep(self, seconds: float) -> None:
        """Wait for some seconds. The handler's worker may run other requests in the meantime.

        Raises:
            Cancelled: The request was cancelled, which also ends the wait.
        """
        self._incoming.sleep(seconds)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call a function when the request is cancelled, or at once if it was cancelled before.

        The function runs on its own thread, in a copy of the handler's `contextvars` context as it
        is at that moment.

        Raises:
            TypeError: `callback` is not callable.
        """
        if not callable(callback):
            raise TypeError(f"on_cancel takes a function without arguments, not {callback!r:.60}")
        self._incoming.on_cancel(callback)

    # ------------------------------------------------------------ the request

    @property
    def client(self) -> Caller:
        """The client's description of itself: ``info``, ``capabilities``,
        ``supports("elicitation.url")``. It is not verified.
        """
        peer = self._incoming.peer
        return Caller(Implementation.of_peer(peer.info), peer.capabilities, peer.supports)

    @property
    def revision(self) -> str:
        """The name of the protocol revision of this request, such as "2025-11-25"."""
        return self._incoming.peer.revision.name

    @property
    def request_id(self) -> Id:
        """The request's id, chosen by the client."""
        return self._incoming.request.id

    @property
    def method(self) -> str:
        """The request's method."""
        return self._incoming.request.method

    @property
    def params(self) -> Mapping[str, Json]:
        """The request's params, as received."""
        return self._incoming.request.params

    @property
    def meta(self) -> Mapping[str, Json]:
        """The ``_meta`` of the params; empty if there is none."""
        meta = self._incoming.request.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def trace_context(self) -> dict[str, str]:
        """The values of ``traceparent``, ``tracestate`` and ``baggage`` in the request's ``_meta``.

        If the handler calls a client, on its own thread or with `submit`, the client sends these
        values in ``_meta``, unless the call has other values. A handler or a middleware can change
        the values, so that its own span becomes the parent.
        """
        return self._incoming.trace_context()

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, with case-insensitive names; empty for other transports.

        Over HTTP+SSE, these are the headers of the request that opened the stream. The token is
        removed if the server verifies tokens.
        """
        return self._incoming.headers

    @property
    def auth(self) -> Optional[AccessToken]:
        """The verified token of the request. None over stdio, without ``Server(auth=...)``, and for
        a request without a token (``Bearer(optional=True)``).

        Over HTTP+SSE, this is the newest token that the client has sent.
        """
        return getattr(self._incoming.headers, "auth", None)

    @property
    def session(self) -> Optional[dict[str, Any]]:
        """A dict that is kept for the session. It is None in stateless revisions. There, a handler
        must store state under its own id.
        """
        return self._incoming.peer.session_data

    @property
    def server(self) -> Any:
        """The `Server` that serves this request."""
        return self._incoming.server.owner

    def __repr__(self) -> str:
        return f"<Context of {self._incoming!r}>"


def current_context() -> Context:
    """Return the `Context` of the handler that runs on this thread.

    Raises:
        LookupError: No handler runs on this thread. Pass ``ctx`` to threads that a handler starts.
    """
    incoming = current_request()
    if incoming is None:
        raise LookupError(
            "no handler runs on this thread: pass ctx to the threads that a handler starts"
        )
    return Context(incoming)
