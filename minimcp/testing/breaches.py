"""`Judge`: what in the messages of one connection breaks the specification, found by the readers that the engine uses.

Each breach names a row of tests/manifest.txt, as "LIFE-03"; rows of revisions without a handshake begin with "M:". What
cannot be told from the messages alone is not marked: a message that crosses another one, a revision that is not known
here, anything that depends on a line that was not read.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from ..client.cache import CACHEABLE
from ..client.host import QUESTIONS
from ..errors import (
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    URL_ELICITATION_REQUIRED,
    ProtocolViolation,
    RpcError,
    UnsupportedRevision,
)
from ..protocol.lifecycle import (
    ACKNOWLEDGED,
    INPUT_REQUIRED,
    LISTEN,
    LOG_LEVEL_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
    Handshake,
    Offer,
    Peer,
    PerRequest,
    ServerSession,
    judge_probe,
    log_rank,
)
from ..protocol.messages import Decoded, Failure, Id, InvalidMessage, Json, Notification, Request, Response, is_id
from ..protocol.versions import LISTS, REVISIONS, Revision
from ..types import (
    CHANGES,
    Answer,
    CallToolResult,
    Completion,
    GetPromptResult,
    Progress,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Root,
    SampleResult,
    Tool,
)


class Breach(NamedTuple):
    """Something that breaks the specification."""

    row: str
    """Of the requirement: an id of tests/manifest.txt."""

    sentence: str
    """What is wrong."""


# Rows with a handshake and without one.
Rows = tuple[str, str]

FROM_CLIENT = frozenset().union(*(revision.requests_to_server for revision in REVISIONS))
FROM_SERVER = frozenset().union(*(revision.requests_to_client for revision in REVISIONS))

# Why `decode` refuses an object: what it says, and the rows. Other reasons are limits of this library, not breaches.
REASONS: dict[str, Rows] = {
    'a message has "jsonrpc": "2.0"': ("BASE-01", "M:BASE-1"),
    "a method is a non-empty string": ("BASE-01", "M:BASE-1"),
    "params is an object": ("BASE-12", "M:BASE-1"),
    "an id is a string or an integer": ("BASE-02", "M:BASE-2"),
    "a message has a method, a result or an error, and one of them only": ("BASE-06", "M:BASE-1"),
    "a result is an object and names its request's id": ("BASE-11", "M:BASE-6"),
    "an error has an integer code, a message and its request's id": ("BASE-07", "M:BASE-7"),
}
NO_MESSAGE = {"client": ("STDIO-05", "M:STD-3"), "server": ("STDIO-04", "M:STD-2")}

# Notifications that only one side sends.
SENDERS = {
    "notifications/initialized": "client", "notifications/roots/list_changed": "client", ACKNOWLEDGED: "server",
    "notifications/message": "server", "notifications/elicitation/complete": "server",
    **dict.fromkeys(CHANGES, "server"),
}

# What the sender of a notification must have declared in a session, and the row.
NEEDED = {
    "notifications/message": ("logging", "LOG-01"), "notifications/resources/updated": ("resources.subscribe", "RES-14"),
    **{f"notifications/{name}/list_changed": (f"{name}.listChanged", "LIFE-15") for name in (*LISTS, "roots")},
}

# A member that the params of a request must have, its type, and the rows.
PARAMS: dict[str, tuple[str, type, Rows]] = {
    "tools/call": ("name", str, ("TOOL-16", "M:TOOL-10")), "prompts/get": ("name", str, ("PRM-04", "M:PRM-2")),
    "resources/read": ("uri", str, ("RES-05", "M:RES-3")), "resources/subscribe": ("uri", str, ("RES-13", "M:RES-12")),
    "resources/unsubscribe": ("uri", str, ("RES-13", "M:RES-12")), LISTEN: ("notifications", dict, ("", "M:SUB-1")),
}


def _items(member: str, read: Callable[[Any], object]) -> Callable[[Json], None]:
    """What reads a list: ValueError says that it is none."""
    def check(result: Json) -> None:
        items, cursor = result.get(member), result.get("nextCursor")
        if not isinstance(items, list) or not isinstance(cursor, (str, type(None))):
            raise ValueError(f"it has a list of {member}, and nextCursor is a string")
        for item in items:
            read(item)

    return check


# How a client or a server reads a result (ValueError says that it is none), and the rows.
READERS: dict[str, tuple[Callable[[Any], object], Rows]] = {
    "tools/list": (_items("tools", Tool.from_wire), ("TOOL-03", "M:TOOL-1")),
    "tools/call": (CallToolResult.from_wire, ("TOOL-17", "M:TOOL-20")),
    "resources/list": (_items("resources", Resource.from_wire), ("RES-03", "M:RES-1")),
    "resources/templates/list": (_items("resourceTemplates", ResourceTemplate.from_wire), ("RES-10", "M:RES-9")),
    "resources/read": (ReadResourceResult.from_wire, ("RES-05", "M:RES-5")),
    "prompts/list": (_items("prompts", Prompt.from_wire), ("PRM-02", "M:PRM-1")),
    "prompts/get": (GetPromptResult.from_wire, ("PRM-05", "M:PRM-4")),
    "completion/complete": (Completion.from_wire, ("COMP-05", "M:CMP-2")),
    "sampling/createMessage": (SampleResult.from_wire, ("SAMP-05", "M:SAM-8")),
    "elicitation/create": (lambda result: Answer(result.get("action")), ("ELIC-17", "M:ELI-7")),
    "roots/list": (_items("roots", Root.from_wire), ("ROOT-02", "M:ROOT-1")),
}


class _Asked(NamedTuple):
    """A request that waits for its answer."""

    method: str
    params: Mapping[str, Json]
    # That it was sent in; None where that is not known.
    revision: Optional[Revision]


class _Token:
    """How far a request is, for which its sender wants to hear that."""

    last = float("-inf")
    is_open = True


class Judge:
    """What two sides of one connection have agreed on and asked for, and what in their messages is against it.

    For one thread at a time, which hands over each line before the other side has seen it.
    """

    def __init__(self) -> None:
        self._client = ""  # its arrow, when that is known
        self._gate = ServerSession(Offer(REVISIONS))
        self._session: Optional[Handshake] = None
        self._opening = self._initialized = self._stateless = self._foreign = False
        self._asked: dict[str, dict[Id, _Asked]] = {"client": {}, "server": {}}
        self._used: dict[str, set[Id]] = {"client": set(), "server": set()}
        self._tokens: dict[str, dict[Id, _Token]] = {"client": {}, "server": {}}
        self._listens: dict[Id, bool] = {}  # whether the server has acknowledged it
        self._unread: set[str] = set()  # who has sent what could not be read
        self._found: list[Breach] = []

    def miss(self) -> None:
        """Messages of both sides were not recorded."""
        self._unread |= {"client", "server"}
        self._foreign = self._foreign or not self._initialized

    def judge(self, arrow: str, decoded: Decoded) -> list[tuple[Breach, ...]]:
        """The breaches in one line, by its messages.

        Args:
            arrow: "-->" or "<--": who sent it.
            decoded: The line, as `decode` reads it.
        """
        messages = decoded if isinstance(decoded, list) else [decoded]
        if not self._client and any(isinstance(each, Request) and each.method in FROM_CLIENT for each in messages):
            self._client = arrow
        side = "client" if arrow == (self._client or "-->") else "server"
        found = []
        for message in messages or [InvalidMessage(0, "an array of messages holds some")]:
            self._found = []
            if isinstance(decoded, list) and not found:
                self._batch(messages)
            if isinstance(message, InvalidMessage):
                self._invalid(side, message)
            elif isinstance(message, Request):
                self._request(side, message)
            elif isinstance(message, Notification):
                self._notification(side, message)
            else:
                self._answer(side, message)
            found.append(tuple(self._found))
        return found

    def _mark(self, rows: Union[Rows, str], sentence: str) -> None:
        row = rows if isinstance(rows, str) else rows[self._session is None and self._stateless]
        if row and not self._foreign:
            self._found.append(Breach(row, sentence))

    # ------------------------------------------------------------ what is no message

    def _batch(self, messages: list[Any]) -> None:
        if any(isinstance(each, Request) and each.method == "initialize" for each in messages):
            self._mark("BATCH-08", "initialize stands in no array")
        if not messages:
            self._mark("BATCH-06", "an array of messages holds at least one")
        if self._session is not None and not self._session.revision.batches:
            self._mark("BATCH-15", f"{self._session.revision.name} has no arrays of messages")
        elif self._session is None and self._stateless:
            self._mark("M:BASE-21", "an array is no message in this revision")

    def _invalid(self, side: str, message: InvalidMessage) -> None:
        other = "server" if side == "client" else "client"
        if message.id is not None and message.kind == "response":
            self._asked[other].pop(message.id, None)
        elif message.kind != "unknown" or message.code != PARSE_ERROR:
            self._unread.add(side)
        if message.reason in REASONS:
            self._mark(REASONS[message.reason], message.reason)
        elif message.reason.startswith(("this is no JSON", "a message is UTF-8", "a message is an object")):
            self._mark(NO_MESSAGE[side], f"the {side} writes what is no message: {message.reason}")

    # ------------------------------------------------------------ requests

    def _request(self, side: str, request: Request) -> None:
        id, method, params = request
        if side == "client":
            revision = self._client_request(request)
        else:
            revision = self._server_request(request)
        alone = side == "client" and PerRequest.is_enveloped(request)
        if id in self._asked[side] if alone or self._session is None else id in self._used[side]:
            self._mark("M:BASE-4" if alone else "BASE-04", f"the id {id!r} was used before")
        self._used[side].add(id)
        self._asked[side][id] = _Asked(method, params, revision)
        if method == LISTEN:
            self._listens[id] = False
        needed = PARAMS.get(method)
        if needed is not None and revision is not None and not isinstance(params.get(needed[0]), needed[1]):
            self._mark(needed[2], f"{method} has the member {needed[0]}, {'an object' if needed[1] is dict else 'a string'}")
        meta = params.get("_meta")
        if isinstance(meta, dict) and "progressToken" in meta:
            self._add_token(side, meta["progressToken"])

    def _add_token(self, side: str, token: Json) -> None:
        if not is_id(token):
            self._mark(("PROG-01", "M:PROG-1"), "a progressToken is a string or an integer")
            return
        before = self._tokens[side].get(token)
        if before is not None and before.is_open and any(
            asked.params["_meta"]["progressToken"] == token for id, asked in [*self._asked[side].items()][:-1]
            if isinstance(asked.params.get("_meta"), dict) and "progressToken" in asked.params["_meta"]
        ):
            self._mark(("PROG-02", "M:PROG-1"), f"the progressToken {token!r} is that of another request that runs")
        self._tokens[side][token] = _Token()

    def _client_request(self, request: Request) -> Optional[Revision]:
        """Mark what the client may not ask now; returns the revision that it asks in."""
        method, meta = request.method, request.params.get("_meta")
        alone = PerRequest.is_enveloped(request)
        if method == "initialize":
            self._session, self._opening, self._initialized = None, True, False
            self._used = {"client": set(), "server": set()}
        elif not alone and self._opening and method != "ping":
            self._mark("LIFE-04", f"{method} before the answer to initialize")
        elif not alone and self._session is not None and not self._initialized and method != "ping":
            self._mark("LIFE-03", f"{method} before notifications/initialized")
        try:
            peer = self._gate.admit(request)
        except UnsupportedRevision:
            return None  # which may be the server's all the same
        except RpcError as error:
            if method == "initialize":
                self._mark("LIFE-01", error.message)
            elif not alone and not self._stateless:
                self._mark("LIFE-04", f"{method} before initialize")
            else:
                version = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
                self._mark("M:META-2" if isinstance(version, str) else "M:META-1", error.message)
            return None
        if method == "initialize":
            return peer.revision
        if alone:
            self._check_direction("client", method, peer.revision)
            return peer.revision
        if self._session is None:
            return None
        self._check_direction("client", method, self._session.revision)
        self._check_declared(method)
        if method == "logging/setLevel":
            try:
                log_rank(request.params.get("level"))
            except RpcError as error:
                self._mark("LOG-02", error.message)
        return self._session.revision

    def _check_declared(self, method: str) -> None:
        """Mark a request of the client for what the server does not declare."""
        assert self._session is not None
        area, _, rest = method.partition("/")
        area = {"completion": "completions"}.get(area, area)
        if rest in ("subscribe", "unsubscribe"):
            area = "resources.subscribe"
        known = ("tools", "prompts", "resources", "resources.subscribe", "logging", "completions")
        undeclarable = area == "completions" and not self._session.revision.completions_capability
        if method in FROM_CLIENT and area in known and not undeclarable and not self._session.peer.supports(area):
            self._mark("LIFE-13", f"{method}, but the server has not declared {area}")

    def _server_request(self, request: Request) -> Optional[Revision]:
        """Mark what the server may not ask now; returns the revision that it asks in."""
        method, session = request.method, self._session
        if session is None or not self._initialized:
            if session is None and not self._opening and self._stateless:
                self._mark("M:BASE-9", f"the server sends no requests in this revision, as {method}")
            elif method != "ping":
                self._mark("LIFE-05", f"{method} before notifications/initialized")
        if session is None:
            return None
        self._check_direction("server", method, session.revision)
        kind = QUESTIONS.get(method)
        if kind is None or method not in session.revision.requests_to_client or self._gate.era is None:
            return session.revision
        parts = self._gate.era.peer.capabilities.get(kind.capability)
        if not isinstance(parts, dict):
            self._mark("LIFE-13", f"{method}, but the client has not declared {kind.capability}")
            return session.revision
        try:
            kind.read(request.params, parts, session.revision)
        except ValueError as error:
            rows = ("ELIC-05", "ELIC-03") if kind.capability == "elicitation" else ("SAMP-02", "SAMP-18")
            self._mark(rows["does not declare" in str(error)], f"{method}: {error}")
        return session.revision

    def _check_direction(self, side: str, method: str, revision: Revision) -> None:
        own, others = revision.requests_to_server, revision.requests_to_client
        if side == "server":
            own, others = others, own
        if method in own or method not in FROM_CLIENT | FROM_SERVER:
            return
        if method in others or method not in (FROM_CLIENT if side == "client" else FROM_SERVER):
            self._mark(("BASE-18", "M:ERR-8"), f"{method} is no method that a {side} calls")
        else:
            self._mark(("BASE-17", "M:ERR-8"), f"{revision.name} has no method {method}")

    # ------------------------------------------------------------ notifications

    def _notification(self, side: str, notice: Notification) -> None:
        method, params = notice
        meta = params.get("_meta")
        stream = meta.get(SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
        if SENDERS.get(method, side) != side:
            self._mark(("BASE-18", "M:ERR-8"), f"{method} is nothing that a {side} sends")
        elif method == "notifications/initialized":
            self._initialized = True
        elif method == "notifications/progress":
            self._progress(side, params)
        elif method == "notifications/cancelled":
            self._cancelled(side, params)
        elif stream is not None and is_id(stream):
            self._streamed(method, stream)
        elif self._session is not None:
            sender = self._session.peer if side == "server" else getattr(self._gate.era, "peer", None)
            capability, row = NEEDED.get(method, ("", ""))
            if capability and isinstance(sender, Peer) and not sender.supports(capability):
                self._mark(row, f"{method}, but the {side} has not declared {capability}")
        elif self._stateless and method in CHANGES:
            self._mark("M:SUB-4", f"{method} names no {LISTEN} that it belongs to")
        elif self._stateless and method == "notifications/message":
            wanted = (asked.params.get("_meta") for asked in self._asked["client"].values())
            if not self._unread and not any(isinstance(each, dict) and LOG_LEVEL_KEY in each for each in wanted):
                self._mark("M:LOG-1", "a log message, though no request that runs asks for any")

    def _streamed(self, method: str, stream: Id) -> None:
        if stream not in self._asked["client"] or stream not in self._listens:
            if "client" not in self._unread:
                self._mark("M:SUB-4", f"{method} for {stream!r}, which is no {LISTEN} that is open")
        elif method == ACKNOWLEDGED:
            self._listens[stream] = True
        elif not self._listens[stream]:
            self._mark("M:SUB-2", f"{method} before {ACKNOWLEDGED}")

    def _progress(self, side: str, params: Mapping[str, Json]) -> None:
        try:
            report = Progress.from_wire(params)
        except ValueError as error:
            self._mark(("PROG-03", "M:PROG-2"), str(error))
            return
        other = "server" if side == "client" else "client"
        token = None if report.progress_token is None else self._tokens[other].get(report.progress_token)
        if token is None:
            if other not in self._unread:
                name = report.progress_token
                self._mark(("PROG-07", "M:PROG-2"), f"progress for the token {name!r}, which no request has")
            return
        if not token.is_open:
            self._mark(("PROG-11", "M:PROG-4"), "progress after the answer")
        if report.progress <= token.last:
            self._mark(("PROG-04", "M:PROG-3"), f"progress {report.progress:g} after {token.last:g}: it has to grow")
        token.last = report.progress

    def _cancelled(self, side: str, params: Mapping[str, Json]) -> None:
        id = params.get("requestId")
        if not is_id(id):
            if "requestId" in params or self._session is None or self._session.revision.tasks != "core":
                self._mark(("CANC-01", "M:CAN-2"), "requestId is that of a request")
            return
        asked = self._asked[side].get(id)
        if asked is not None and asked.method == "initialize":
            self._mark("CANC-03", "initialize is never cancelled")
        if id in self._used[side] or asked is not None or self._unread or (side == "server" and id in self._listens):
            return  # it may have been answered meanwhile
        if side == "server" and self._session is None:
            self._mark(("CANC-02", "M:CAN-6"), f"the server cancels {id!r}, which is no {LISTEN}")
        else:
            self._mark(("CANC-02", "M:CAN-2"), f"the {side} cancels {id!r}, which it has not asked")

    # ------------------------------------------------------------ answers

    def _answer(self, side: str, answer: Union[Response, Failure]) -> None:
        other = "server" if side == "client" else "client"
        if side == "client" and self._stateless and self._session is None:
            self._mark("M:BASE-10", "a client sends no answers in this revision")
        if answer.id is None:
            return
        asked = self._asked[other].pop(answer.id, None)
        if asked is None:
            if other not in self._unread:
                again = "a second answer to" if answer.id in self._used[other] else "an answer to"
                never = "" if answer.id in self._used[other] else ", which nobody has asked"
                self._mark(("BASE-05", "M:BASE-5"), f"{again} {answer.id!r}{never}")
            return
        result = answer.result if isinstance(answer, Response) else {}
        meta = asked.params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if is_id(token) and token in self._tokens[other] and "task" not in (result.get("resultType"), *result):
            self._tokens[other][token].is_open = False
        if asked.method == "initialize":
            self._opened(answer)
        elif isinstance(answer, Failure):
            if asked.revision is not None and not asked.revision.handshake and answer.code in (
                RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED
            ):
                self._mark("M:ERR-4", f"no error of {asked.revision.name} has the code {answer.code}")
        elif asked.revision is not None:
            self._result(asked, asked.revision, result)

    def _opened(self, answer: Union[Response, Failure]) -> None:
        """Take the answer to initialize."""
        self._opening = False
        if isinstance(answer, Failure):
            self._gate.era = None
            return
        try:
            self._session = Handshake.from_result(answer.result, REVISIONS)
        except ProtocolViolation as error:
            self._mark("LIFE-02", str(error))
            self._foreign = True
        except UnsupportedRevision:
            self._foreign = True  # what the two speak then is not known here

    def _result(self, asked: _Asked, revision: Revision, result: Json) -> None:
        method = asked.method
        if revision.result_type:
            if method == "server/discover" and "supportedVersions" not in result:
                return  # a server of the older era says what it likes
            self._stateless = True
            kind = result.get("resultType")
            if kind is None:
                self._mark("M:BASE-6", f"a result of {method} has a resultType")
            elif kind == INPUT_REQUIRED:
                if method not in revision.asking_methods:
                    self._mark("M:MRTR-S1", f"a result of {method} asks for no input")
                elif not result.get("inputRequests") and result.get("requestState") is None:
                    self._mark("M:MRTR-S2", "it asks for input, but has neither inputRequests nor requestState")
            if kind != "complete":
                return
            ttl = result.get("ttlMs")
            if method in CACHEABLE and not (type(ttl) is int and ttl >= 0 and isinstance(result.get("cacheScope"), str)):
                self._mark("M:CACHE-1", f"a result of {method} has ttlMs, a number from 0, and cacheScope")
            verdict = judge_probe(result, [revision]) if method == "server/discover" else None
            if verdict is not None and verdict.next == "fail":
                self._mark("M:DISC-1", str(verdict.error))
        elif revision.tasks == "core" and "task" in asked.params and "task" in result:
            return
        read, rows = READERS.get(method, (dict, ("", "")))
        try:
            read(result)
        except (ValueError, TypeError) as error:
            self._mark(rows, f"a result of {method}: {error}")
