"""`Judge`: finds violations of the specification in the messages of one connection.

Each violation names a row of tests/manifest.txt, such as "LIFE-03"; rows of stateless revisions
begin with "M:". A violation is reported only if the messages prove it. If two messages cross, if
the revision is unknown, or if a line was not read, nothing that depends on it is reported.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from .. import types
from ..client.host import QUESTIONS
from ..client.questions import read_question
from ..errors import ProtocolViolation, RpcError, UnsupportedRevision
from ..protocol import lifecycle
from ..protocol.messages import (
    Decoded,
    Failure,
    Id,
    InvalidMessage,
    Json,
    Notification,
    Request,
    Response,
    is_id,
)
from ..protocol.versions import LISTS, REVISIONS, Revision


class Breach(NamedTuple):
    """A violation of the specification."""

    row: str
    """The id of the requirement in tests/manifest.txt."""

    sentence: str
    """A description of the violation."""


OTHER = {"client": "server", "server": "client"}

# Maximum number of requests of one side to remember. Above this, the requests are forgotten, and
# messages that depend on them are no longer judged.
MAX_REQUESTS = 20_000

# The requests that a side can send in some revision.
SENT = {
    "client": frozenset().union(*(revision.requests_to_server for revision in REVISIONS)),
    "server": frozenset().union(*(revision.requests_to_client for revision in REVISIONS)),
}

# In these tables and in calls of `_mark`, the first row is for revisions with a handshake, and the
# last one for stateless revisions.

# Reasons for which `decode` rejects an object. Its other reasons are limits of this library.
REASONS = {
    'a message must have "jsonrpc": "2.0"': "BASE-01 M:BASE-1",
    "a method must be a non-empty string": "BASE-01 M:BASE-1",
    "params must be an object": "BASE-12 M:BASE-21",
    "an id must be a string or an integer": "BASE-02 M:BASE-2",
    "a message must have a method, a result or an error, and only one of them": "BASE-06 M:BASE-21",
    "a result must be an object and have its request's id": "BASE-11 M:BASE-6",
    "an error must have an integer code, a message and its request's id": "BASE-07 M:BASE-7",
}
NO_MESSAGES = {"client": "STDIO-05 M:STD-3", "server": "STDIO-04 M:STD-2"}

# Notifications that only one side may send: the side, the capability that it must declare in
# revisions with a handshake, and the row.
NOTICES = {
    "notifications/initialized": ("client", "", ""),
    "notifications/roots/list_changed": ("client", "roots.listChanged", "LIFE-15"),
    "notifications/message": ("server", "logging", "LOG-01"),
    "notifications/resources/updated": ("server", "resources.subscribe", "RES-14"),
    **{
        f"notifications/{name}/list_changed": ("server", f"{name}.listChanged", "LIFE-15")
        for name in LISTS
    },
    "notifications/elicitation/complete": ("server", "", ""),
    lifecycle.ACKNOWLEDGED: ("server", "", ""),
}

# The capability that the server must declare for requests with this prefix.
AREAS = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "logging": "logging",
    "completion": "completions",
    "resources/subscribe": "resources.subscribe",
    "resources/unsubscribe": "resources.subscribe",
}


def _list(member: str, read: Callable[[Any], object]) -> Callable[[Json], object]:
    """Return a function that reads a result that is a list."""

    def check(result: Json) -> None:
        items = result.get(member)
        if not isinstance(items, list):
            raise ValueError(f"it must have a list of {member}")
        for item in items:
            read(item)

    return check


# The reader of a result, which raises ValueError, and the rows.
READERS: dict[str, tuple[Callable[[Any], object], str]] = {
    "tools/list": (_list("tools", types.Tool.from_wire), "TOOL-03 M:TOOL-1"),
    "tools/call": (types.CallToolResult.from_wire, "TOOL-17 M:TOOL-20"),
    "resources/list": (_list("resources", types.Resource.from_wire), "RES-03 M:RES-1"),
    "resources/templates/list": (
        _list("resourceTemplates", types.ResourceTemplate.from_wire),
        "RES-10 M:RES-9",
    ),
    "resources/read": (types.ReadResourceResult.from_wire, "RES-05 M:RES-5"),
    "prompts/list": (_list("prompts", types.Prompt.from_wire), "PRM-02 M:PRM-1"),
    "prompts/get": (types.GetPromptResult.from_wire, "PRM-05 M:PRM-4"),
    "completion/complete": (types.Completion.from_wire, "COMP-05 M:CMP-2"),
    "sampling/createMessage": (types.SampleResult.from_wire, "SAMP-05"),
    "elicitation/create": (lambda result: types.Answer(result.get("action")), "ELIC-17"),
    "roots/list": (_list("roots", types.Root.from_wire), "ROOT-02"),
}


class _Asked:
    """A request and its state.

    Args:
        request: The request.
        revision: The revision of the request; None if unknown.
    """

    last_progress = float("-inf")
    is_over = False
    is_cancelled = False

    def __init__(self, request: Request, revision: Optional[Revision]) -> None:
        self.request = request
        self.revision = revision
        meta = request.params.get("_meta")
        self.meta: dict[str, Json] = meta if isinstance(meta, dict) else {}


class Judge:
    """Follows a connection and reports violations of the specification.

    For one thread at a time, which passes each line before the other side can respond to it.
    """

    def __init__(self) -> None:
        self._client = ""  # the arrow of the client; empty until it is known
        self._gate = lifecycle.Negotiation(lifecycle.SupportedRevisions(REVISIONS))
        self._session: Optional[lifecycle.Handshake] = None
        self._opening = False  # after `initialize`, before its response
        self._initialized = False
        self._stateless = False
        self._is_unknown = False  # the state of the connection cannot be determined
        # By side: requests without a response, all ids, and requests with a progress token.
        self._asked: dict[str, dict[Id, _Asked]] = {"client": {}, "server": {}}
        self._used: dict[str, set[Id]] = {"client": set(), "server": set()}
        self._reported: dict[str, dict[Json, _Asked]] = {"client": {}, "server": {}}
        self._unread: set[str] = set()  # the sides that sent an unreadable message
        self._found: list[Breach] = []

    def miss(self) -> None:
        """Record that messages of both sides are missing."""
        self._unread |= {"client", "server"}
        self._is_unknown = self._is_unknown or not self._initialized

    def judge(self, arrow: str, decoded: Decoded) -> list[tuple[Breach, ...]]:
        """Return the violations in a line, for each message in it.

        Args:
            arrow: The direction: "-->" or "<--".
            decoded: The line, as `decode` returns it.
        """
        messages = decoded if isinstance(decoded, list) else [decoded]
        if not self._client and any(
            isinstance(each, Request) and each.method in SENT["client"] for each in messages
        ):
            self._client = arrow
        side = "client" if arrow == (self._client or "-->") else "server"
        found: list[tuple[Breach, ...]] = []
        for message in messages or [InvalidMessage(0, "a message must be an object")]:
            self._found = []
            if messages is decoded and not found and self._has_no_arrays:
                self._mark(
                    "BATCH-15 M:BASE-21", "an array of messages is not allowed in this revision"
                )
            if isinstance(message, Request):
                self._request(side, message)
            elif isinstance(message, Notification):
                self._notification(side, message)
            elif isinstance(message, InvalidMessage):
                self._invalid(side, message)
            else:
                self._answer(side, message)
            found.append(tuple(self._found))
        return found

    @property
    def _has_no_arrays(self) -> bool:
        return self._stateless if self._session is None else not self._session.revision.batches

    def _mark(self, rows: str, sentence: str) -> None:
        if not self._is_unknown:
            row = rows.split()[-1 if self._stateless and self._session is None else 0]
            self._found.append(Breach(row, sentence))

    def _invalid(self, side: str, message: InvalidMessage) -> None:
        if message.id is not None and message.kind == "response":
            self._asked[OTHER[side]].pop(message.id, None)
        elif not message.reason.startswith("this is not JSON: Expecting value: line 1 column 1"):
            self._unread.add(side)
        if message.reason in REASONS:
            self._mark(REASONS[message.reason], message.reason)
        elif message.reason.startswith(("this is not JSON", "a message must be")):
            self._mark(
                NO_MESSAGES[side],
                f"the {side} sent an invalid message: {message.reason}",
            )

    # ------------------------------------------------------------ requests

    def _request(self, side: str, request: Request) -> None:
        is_alone = lifecycle.PerRequest.carries_metadata(request)
        if side == "client":
            revision = self._asked_by_client(request, is_alone)
        else:
            revision = self._asked_by_server(request)
        if len(self._used[side]) > MAX_REQUESTS:
            self.miss()
            for known in (self._asked, self._used, self._reported):
                known[side].clear()
        before = self._asked[side].get(request.id)
        if before is not None and before.is_cancelled:
            before = None
        if before is not None or (
            not is_alone and self._session is not None and request.id in self._used[side]
        ):
            self._mark("BASE-04 M:BASE-4", f"the id {request.id!r} was used before")
        self._used[side].add(request.id)
        self._asked[side][request.id] = asked = _Asked(request, revision)
        token = asked.meta.get("progressToken")
        if is_id(token):
            self._reported[side][token] = asked
        elif token is not None:
            self._mark("PROG-01 M:PROG-1", "a progressToken must be a string or an integer")

    def _asked_by_client(self, request: Request, is_alone: bool) -> Optional[Revision]:
        """Report a request that the client may not send now. Return its revision, or None if
        unknown."""
        method = request.method
        session = self._session
        if method == "initialize":
            self._session = None
            self._opening = True
            self._initialized = False
            self._used = {"client": set(), "server": set()}
        elif (
            not is_alone
            and method != "ping"
            and (self._opening or (session and not self._initialized))
        ):
            if self._opening:
                self._mark("LIFE-04", f"{method} after initialize, but before its response")
            else:
                self._mark(
                    "LIFE-03", f"{method} after initialize, but before notifications/initialized"
                )
        try:
            peer = self._gate.admit(request)
        except UnsupportedRevision:
            return None  # the server may support it
        except RpcError as error:
            if method == "initialize":
                self._mark("LIFE-01", error.message)
            elif not is_alone and not self._stateless:
                self._mark("LIFE-04", f"{method} before initialize")
            else:
                meta = request.params.get("_meta")
                version = meta.get(lifecycle.VERSION_KEY) if isinstance(meta, dict) else None
                self._mark("M:META-2" if isinstance(version, str) else "M:META-1", error.message)
            return None
        if method == "initialize" or (session is None and not is_alone):
            return None
        revision = peer.revision if is_alone or session is None else session.revision
        self._check_direction("client", method, revision)
        area = AREAS.get(method, AREAS.get(method.partition("/")[0], ""))
        has_area = area and (area != "completions" or revision.completions_capability)
        if (
            session
            and not is_alone
            and has_area
            and method in SENT["client"]
            and not session.peer.supports(area)
        ):
            self._mark("LIFE-13", f"{method}, but the server did not declare {area}")
        return revision

    def _asked_by_server(self, request: Request) -> Optional[Revision]:
        """Report a request that the server may not send now. Return its revision, or None if
        unknown."""
        method = request.method
        session = self._session
        if session is None and self._stateless:
            self._mark("M:BASE-9", f"a server must not send requests in this revision: {method}")
        elif method != "ping" and not self._initialized:
            self._mark("LIFE-05", f"{method} before notifications/initialized")
        if session is None or self._gate.era is None:
            return None
        self._check_direction("server", method, session.revision)
        kind = QUESTIONS.get(method)
        if kind is not None and method in session.revision.requests_to_client:
            parts = self._gate.era.peer.capabilities.get(kind.capability)
            try:
                if not isinstance(parts, dict):
                    raise ValueError(f"the client does not declare {kind.capability}")
                read_question(method, request.params, parts, session.revision)
            except ValueError as error:
                row = "ELIC-05" if kind.capability == "elicitation" else "SAMP-02"
                self._mark("LIFE-13" if "not declare" in str(error) else row, f"{method}: {error}")
        return session.revision

    def _check_direction(self, side: str, method: str, revision: Revision) -> None:
        known = revision.requests_to_server if side == "client" else revision.requests_to_client
        if method in SENT["client"] | SENT["server"] and method not in known:
            self._mark(
                "BASE-18 M:ERR-8", f"{method} is not a request of a {side} in {revision.name}"
            )

    # ------------------------------------------------------------ notifications

    def _notification(self, side: str, notice: Notification) -> None:
        method, params = notice
        sender, capability, row = NOTICES.get(method, (side, "", ""))
        meta = params.get("_meta")
        streamed = isinstance(meta, dict) and lifecycle.SUBSCRIPTION_KEY in meta
        if sender != side:
            self._mark("BASE-18 M:ERR-8", f"{method} is not a notification of a {side}")
        elif method == "notifications/initialized":
            self._initialized = True
        elif method == "notifications/progress":
            self._progress(side, params)
        elif method == "notifications/cancelled":
            self._cancelled(side, params)
        elif self._session is not None and self._gate.era is not None:
            peer = self._gate.era.peer if side == "client" else self._session.peer
            if capability and not streamed and not peer.supports(capability):
                self._mark(row, f"{method}, but the {side} did not declare {capability}")
        elif self._stateless and method in types.CHANGES and not streamed:
            self._mark("M:SUB-4", f"{method} does not name its {lifecycle.LISTEN}")

    def _progress(self, side: str, params: Mapping[str, Json]) -> None:
        try:
            report = types.Progress.from_wire(params)
        except ValueError as error:
            self._mark("PROG-03 M:PROG-2", str(error))
            return
        asked = self._reported[OTHER[side]].get(report.progress_token)
        if asked is None:
            if OTHER[side] not in self._unread:
                self._mark(
                    "PROG-07 M:PROG-2",
                    f"no request has the progressToken {report.progress_token!r}",
                )
            return
        if asked.is_over:
            self._mark("PROG-11 M:PROG-4", "progress for a request that has ended")
        if report.progress <= asked.last_progress:
            self._mark(
                "PROG-04 M:PROG-3",
                f"progress must grow, but {report.progress:g} follows {asked.last_progress:g}",
            )
        asked.last_progress = report.progress

    def _cancelled(self, side: str, params: Mapping[str, Json]) -> None:
        id: Any = params.get("requestId")
        if not is_id(id):
            if id is not None or self._session is None or self._session.revision.tasks != "core":
                self._mark("CANC-01 M:CAN-1", "requestId must be the id of a request")
            return
        asked = self._asked[side].get(id)
        if asked is not None:
            asked.is_cancelled = True
            if asked.request.method == "initialize":
                self._mark("CANC-03", "initialize must not be cancelled")
        # In stateless revisions the server may also end streams, which are the client's requests.
        ended_by = {side, "client"} if self._stateless else {side}
        if not self._unread and not any(
            id in self._used[each] or id in self._asked[each] for each in ended_by
        ):
            self._mark(
                "CANC-02 M:CAN-2", f"the {side} cancelled {id!r}, which is not one of its requests"
            )

    # ------------------------------------------------------------ answers

    def _answer(self, side: str, answer: Union[Response, Failure]) -> None:
        other = OTHER[side]
        if side == "client" and self._stateless and self._session is None:
            self._mark("M:BASE-10", "a client must not send responses in this revision")
        if answer.id is None:
            return
        if answer.id not in self._asked[other]:
            if other not in self._unread:
                reason = "was never sent"
                if answer.id in self._used[other]:
                    reason = "already has one"
                self._mark(
                    "BASE-05 M:BASE-5", f"a response to the request {answer.id!r}, which {reason}"
                )
            return
        asked = self._asked[other].pop(answer.id)
        result: dict[str, Json] = answer.result if isinstance(answer, Response) else {}
        # Progress of a task continues after the response.
        asked.is_over = "task" not in result and result.get("resultType") != "task"
        if asked.request.method == "initialize":
            self._opened(answer)
        elif asked.revision is not None and isinstance(answer, Response):
            self._result(asked.request, asked.revision, result)

    def _opened(self, answer: Union[Response, Failure]) -> None:
        self._opening = False
        if isinstance(answer, Failure):
            self._gate.era = None
            return
        try:
            self._session = lifecycle.Handshake.from_result(answer.result, REVISIONS)
        except (ProtocolViolation, UnsupportedRevision) as error:
            if isinstance(error, ProtocolViolation):
                self._mark("LIFE-02", str(error))
            self._is_unknown = True  # the two sides may have agreed on something unknown

    def _result(self, request: Request, revision: Revision, result: dict[str, Json]) -> None:
        method = request.method
        kind = result.get("resultType", "complete")
        if revision.result_type:
            if method == "server/discover" and "supportedVersions" not in result:
                return  # a server with a handshake, which may return anything
            self._stateless = True
            if "resultType" not in result:
                self._mark("M:BASE-6", f"a result of {method} must have a resultType")
            if kind == lifecycle.INPUT_REQUIRED and method not in revision.asking_methods:
                self._mark("M:MRTR-S1", f"a result of {method} must not request input")
        if kind == "complete" and not ("task" in request.params and "task" in result):
            read, rows = READERS.get(method, (dict, ""))
            try:
                read(result)
            except ValueError as error:
                self._mark(rows, f"a result of {method}: {error}")
