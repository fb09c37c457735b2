"""Agreement on a revision and on capabilities: sessions of servers and the probe of clients.

The protocol has two eras. In the older one (`Handshake`), the client sends `initialize` once, and
then both sides may send requests. In the newer one (`PerRequest`), every request has its revision
and the client's capabilities in ``_meta``, and only clients send requests.

This module has no threads, locks, clocks or I/O.

https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

from ..errors import (
    CapabilityNotSupported,
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    ProtocolViolation,
    RpcError,
    UnsupportedRevision,
)
from ..log import logger
from ..record import Record, declare
from ..text import one_line
from .messages import PARAPHRASE_LEVELS, Json, Request, size_of
from .versions import BY_NAME, NEWEST_HANDSHAKE, REVISIONS, Revision

log = logger("minimcp.protocol")

_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = _PREFIX + "protocolVersion"
CAPABILITIES_KEY = _PREFIX + "clientCapabilities"
CLIENT_KEY = _PREFIX + "clientInfo"
SERVER_KEY = _PREFIX + "serverInfo"
LOG_LEVEL_KEY = _PREFIX + "logLevel"
SUBSCRIPTION_KEY = _PREFIX + "subscriptionId"

# The request that opens a stream of change notifications.
LISTEN = "subscriptions/listen"

# The method of the events extension that opens a stream.
EVENT_STREAM = "events/stream"

# The requests that stay open and are answered by notifications.
STREAMS = (LISTEN, EVENT_STREAM)
# The first notification on a stream of `subscriptions/listen`.
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

# The ``resultType`` of a result with questions to the client.
INPUT_REQUIRED = "input_required"

# The levels of log messages with their rank.
LOG_LEVELS = {
    "debug": 0,
    "info": 1,
    "notice": 2,
    "warning": 3,
    "error": 4,
    "critical": 5,
    "alert": 6,
    "emergency": 7,
}

# Maximum memory of a client's info in a server, and of its capabilities, in bytes.
PEER_BYTES = 8 * 1024

# The members that a server keeps first.
_FIRST = ("name", "version", "title", "roots", "sampling", "elicitation", "extensions", "tasks")


def _bounded(members: Mapping[str, Json]) -> dict[str, Json]:
    """Return the members that fit into `PEER_BYTES` together."""
    kept: dict[str, Json] = {}
    left = PEER_BYTES
    for name in dict.fromkeys((*(name for name in _FIRST if name in members), *members)):
        size = size_of(name) + size_of(members[name], left)
        if size <= left:
            kept[name] = members[name]
            left -= size
    return kept


class Peer:
    """The other side of a session or the sender of a request, as it described itself.

    Args:
        revision: The revision in use.
        info: Its name and version; None if it sent none.
        capabilities: The capabilities that it declared; None if it declared none.
        log_rank: The minimum rank of log messages that it wants; None means no log messages.

    Attributes:
        initialized: False until a client has sent `notifications/initialized`.
        session_data: A dict that lives as long as a handshake session; None without a session.
        principal: The authenticated principal; None without authentication.
        headers: The headers of its newest HTTP request, without the token. Empty without HTTP, and
            in a server that shows all clients the same.
    """

    initialized = True
    headers: Mapping[str, str] = {}

    def __init__(
        self, revision: Revision, *, info: Optional[Mapping[str, Json]] = None,
        capabilities: Optional[Mapping[str, Json]] = None, log_rank: Optional[int] = None,
    ) -> None:  # fmt: skip
        self.revision = revision
        self.log_rank = log_rank
        self.info: Mapping[str, Json] = info or {}
        self.capabilities: Mapping[str, Json] = capabilities or {}
        self.session_data: Optional[dict[str, Any]] = {} if revision.handshake else None
        self.principal: Optional[str] = None

    def supports(self, name: str) -> bool:
        """Return whether the peer declared a capability.

        Only an object, or ``true`` for some parts, declares a capability. Elicitation without a
        mode means forms.

        Args:
            name: The dotted name, such as ``"elicitation.url"`` or ``"ext:com.example/x"``.
        """
        if name == "elicitation.form":
            modes = self.capabilities.get("elicitation")
            return isinstance(modes, dict) and (
                isinstance(modes.get("form"), dict) or modes.get("url") is None
            )
        path = _path(name)
        value: Any = self.capabilities
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return isinstance(value, dict) or (
            value is True and len(path) > 1 and path[0] != "extensions"
        )

    def __repr__(self) -> str:
        return f"<Peer {self.info.get('name', 'unnamed')!r} {self.revision.name}>"


def read_capabilities(declared: Json) -> Optional[dict[str, Json]]:
    """Return the capabilities that a peer declares, or None if they are not an object.

    Some peers send ``[]`` (as PHP does) or ``true`` instead of an empty object. Both are accepted
    for the capabilities, for one capability and for an extension.
    """
    if declared == [] or declared is True:
        return {}
    if type(declared) is not dict:
        return None
    read = {name: _empty_object(value) for name, value in declared.items()}
    extensions = read.get("extensions")
    if type(extensions) is dict:
        read["extensions"] = {name: _empty_object(value) for name, value in extensions.items()}
    return read


def _empty_object(value: Json) -> Json:
    if value is True or value == []:
        return {}
    if type(value) is dict:  # flags such as ``listChanged`` stay true
        return {name: {} if each == [] else each for name, each in value.items()}
    return value


def _path(capability: str) -> list[str]:
    return (
        ["extensions", capability[4:]] if capability.startswith("ext:") else capability.split(".")
    )


# The option of `connect` that declares each capability.
DECLARING = {"elicitation": "elicit=f", "sampling": "sample=f", "roots": "roots=[...]"}


def lacks(name: str, who: str, revision: Revision) -> CapabilityNotSupported:
    """Return the error for a capability that the client did not declare.

    Args:
        name: The dotted name of the capability.
        who: The subject of the message, such as "tool 'x'".
        revision: The revision in use. If it does not have the capability, the message says which
            revisions have it.
    """
    needed: dict[str, Json] = {}
    for step in reversed(_path(name)):
        needed = {step: needed}
    if name.startswith("ext:"):
        described = f"the extension {name[4:]}"
        option: Optional[str] = "extensions=[...]"
    else:
        described = name
        option = DECLARING.get(name.partition(".")[0])
    advice = f"; if the server can work without it, test ctx.client.supports({name!r}) first"
    if option:
        advice = f", such as connect(..., {option}){advice}"
    having = [each.name for each in REVISIONS if each.has(name)]
    if having and not revision.has(name):
        advice = f": {revision.name} does not have it; these revisions do: {', '.join(having)}"
    return CapabilityNotSupported(
        f"{who} needs a client with {described}{advice}", {"requiredCapabilities": needed}
    )


def log_rank(level: Json) -> int:
    """Return the rank of a log level.

    Raises:
        InvalidParams: The protocol does not have this level.
    """
    if isinstance(level, str):
        level = PARAPHRASE_LEVELS.get(level, level)
    if not isinstance(level, str) or level not in LOG_LEVELS:
        raise InvalidParams(f"level must be one of {', '.join(LOG_LEVELS)}")
    return LOG_LEVELS[level]


# ---------------------------------------------------------------- the two eras


class Agreement(Record):
    """The agreement of two peers on a revision and on capabilities.

    Args:
        revision: The revision in use. In a server without a handshake, it is the newest revision
            that the server supports.
        peer: The other side, as it described itself.
        envelope: In a client, the members of ``_meta`` in every request.
        instructions: In a client, the server's instructions for the model; None without them.
    """

    revision: Revision
    peer: Peer
    envelope: dict[str, Json] = declare(factory=dict)
    instructions: Optional[str] = None


class Handshake(Agreement):
    """A session that `initialize` has opened."""

    @classmethod
    def opened_by(cls, params: Mapping[str, Json], supported: SupportedRevisions) -> Handshake:
        """Open a session in a server, given the params of `initialize`.

        Args:
            params: The params of the request.
            supported: The revisions of the server.

        Raises:
            InvalidParams: A member is missing or invalid, or the server is strict and does not
                support the revision.
            UnsupportedRevision: The server does not support any revision with a handshake.
        """
        wanted = params.get("protocolVersion")
        refused = {"supported": supported.names, "requested": wanted}
        if not supported.handshakes:
            names = ", ".join(supported.names)
            raise UnsupportedRevision(
                f"this server does not support initialize: it supports {names}", refused
            )
        if not isinstance(wanted, str):
            raise InvalidParams("protocolVersion must be a string")
        revision = next(
            (revision for revision in supported.handshakes if revision.name == wanted),
            supported.handshakes[-1],
        )
        if supported.strict_version and revision.name != wanted:
            raise InvalidParams("Unsupported protocol version", refused)
        info = params.get("clientInfo")
        capabilities = read_capabilities(params.get("capabilities"))
        if not isinstance(info, dict) or not isinstance(capabilities, dict):
            invalid = "capabilities" if isinstance(info, dict) else "clientInfo"
            raise InvalidParams(f"{invalid} must be an object")
        peer = Peer(
            revision,
            info=_bounded(info),
            capabilities=_bounded(capabilities),
            log_rank=LOG_LEVELS["info"],  # until the client sets a level
        )
        peer.initialized = False
        return cls(revision, peer)

    @staticmethod
    def opening(
        revision: Revision, info: Mapping[str, Json], capabilities: Mapping[str, Json]
    ) -> dict[str, Json]:
        """Return the params of `initialize` for a client."""
        described = {
            name: value
            for name, value in info.items()
            if name in NEWEST_HANDSHAKE.implementation_members
        }
        return {
            "protocolVersion": revision.name,
            "capabilities": dict(capabilities),
            "clientInfo": described,
        }

    @classmethod
    def from_result(cls, result: Mapping[str, Json], wanted: Sequence[Revision]) -> Handshake:
        """Open a session in a client, given the result of `initialize`.

        The name and the instructions of the server are not essential. If they are invalid, they are
        ignored and a warning is logged.

        Args:
            result: The result.
            wanted: The revisions that the client may use.

        Raises:
            ProtocolViolation: The result has no protocolVersion or no capabilities.
            UnsupportedRevision: The server chose a revision that is not in `wanted`.
        """
        name = result.get("protocolVersion")
        capabilities = result.get("capabilities")
        if not isinstance(name, str) or read_capabilities(capabilities) is None:
            raise ProtocolViolation(
                "the result of initialize must have protocolVersion, capabilities and serverInfo",
                result,
            )
        revision = BY_NAME.get(name)
        if revision is None or revision not in wanted or not revision.handshake:
            raise _nothing_in_common([name], wanted)
        peer, instructions = described_server(
            "initialize", revision, result.get("serverInfo"), result
        )
        return cls(revision, peer, instructions=instructions)


def described_server(
    method: str, revision: Revision, info: Json, result: Mapping[str, Json]
) -> tuple[Peer, Optional[str]]:
    """Return the `Peer` of a server and its instructions. Log a warning for invalid members.

    Args:
        method: The method of the request.
        revision: The revision in use.
        info: The server's name and version. They may be invalid.
        result: The result, with valid ``capabilities``. Its ``instructions`` may be invalid.
    """
    capabilities = read_capabilities(result.get("capabilities"))
    instructions = result.get("instructions")
    faults = []
    if revision.handshake and not _names_itself(info):
        faults.append(f"serverInfo must have a name, not be {one_line(info)}")
    if not isinstance(instructions, (str, type(None))):
        faults.append(f"instructions must be a string, not {one_line(instructions)}")
    for fault in faults:
        log.warning("<-- %s: %s: it is ignored", method, fault)
    peer = Peer(revision, info=info if isinstance(info, dict) else None, capabilities=capabilities)
    return peer, instructions if isinstance(instructions, str) else None


def _names_itself(info: Json) -> bool:
    return isinstance(info, dict) and isinstance(info.get("name"), str)


class PerRequest(Agreement):
    """Requests without a session, each with its own revision and capabilities."""

    @staticmethod
    def carries_metadata(request: Request) -> bool:
        """Return whether the ``_meta`` of a request names its revision."""
        meta = request.params.get("_meta")
        return type(meta) is dict and VERSION_KEY in meta

    @staticmethod
    def envelope_for(
        revision: Revision, info: Optional[Mapping[str, Json]], capabilities: Mapping[str, Json]
    ) -> dict[str, Json]:
        """Return the members of ``_meta`` in every request of a client."""
        envelope: dict[str, Json] = {
            VERSION_KEY: revision.name,
            CAPABILITIES_KEY: dict(capabilities),
        }
        if info is not None:
            envelope[CLIENT_KEY] = dict(info)
        return envelope

    def adopt(self, error: UnsupportedRevision) -> bool:
        """Use the newest revision that the server supports, after it rejected a request.

        Return whether the client should send the request again. The revision may be the one that
        was rejected.
        """
        revision = _newest(_supported(error), REVISIONS, handshake=False)
        if revision is not None:
            self.revision = revision
            # Changed in place, because another thread may set the log level now.
            self.envelope[VERSION_KEY] = revision.name
        return revision is not None


# ---------------------------------------------------------------- a server's session


class SupportedRevisions:
    """The revisions that a server supports on every connection.

    Args:
        revisions: The revisions, oldest first.
        strict_version: Whether to reject `initialize` with an unknown revision instead of offering
            another one.
        accept_batches: Whether to accept arrays of messages in every revision.
    """

    def __init__(
        self,
        revisions: Sequence[Revision],
        *,
        strict_version: bool = False,
        accept_batches: bool = False,
    ) -> None:
        self.revisions = tuple(revisions)
        self.strict_version = strict_version
        self.accept_batches = accept_batches
        self.per_request = {
            revision.name: revision for revision in revisions if not revision.handshake
        }
        self.handshakes = [revision for revision in revisions if revision.handshake]
        self.names = [revision.name for revision in reversed(self.revisions)]


class Negotiation:
    """The state of a server's connection or HTTP session: the revision that was agreed on.

    One connection can use both eras at the same time, because every message shows to which era it
    belongs.

    Thread-safe. Only `initialize` changes the state.

    Attributes:
        supported: The revisions that the server supports.
        era: The newest handshake; None before `initialize`, and for clients without sessions.
    """

    def __init__(self, supported: SupportedRevisions) -> None:
        self.supported = supported
        self.era: Optional[Handshake] = None

    def admit(self, request: Request) -> Peer:
        """Return the sender of a request.

        A second `initialize` opens a new session, because a bridge may forward the requests of
        several clients. Running requests keep their peer.

        Raises:
            RpcError: The request is not possible at this point, or its revision is not supported.
        """
        supported = self.supported
        meta = request.params.get("_meta")
        has_metadata = type(meta) is dict and VERSION_KEY in meta
        # If the server supports no handshake, `initialize` with metadata is rejected like any other
        # unknown method. `initialize` without metadata goes to `opened_by`, whose error names the
        # supported revisions.
        if request.method == "initialize" and (supported.handshakes or not has_metadata):
            self.era = Handshake.opened_by(request.params, supported)
            return self.era.peer
        if has_metadata:
            return self.admit_alone(request)
        if self.era is not None:
            return self.era.peer
        if request.method == "ping" and supported.handshakes:
            return Peer(supported.handshakes[0])
        if supported.per_request:
            return self.admit_alone(request)  # raises an error that names the missing members
        raise InvalidRequest(f"{request.method} before initialize")

    def admit_alone(self, request: Request) -> Peer:
        """Return the sender of a request without a session, from its ``_meta``.

        Raises:
            InvalidParams: A required member of ``_meta`` is missing or invalid.
            UnsupportedRevision: The server does not support its revision.
        """
        meta = request.params.get("_meta")
        meta = meta if type(meta) is dict else {}
        if VERSION_KEY not in meta or CAPABILITIES_KEY not in meta:
            missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
            raise InvalidParams(
                f"every request must have {' and '.join(missing)} in params._meta, "
                "or come after initialize"
            )
        version = meta[VERSION_KEY]
        capabilities = read_capabilities(meta[CAPABILITIES_KEY])
        info = meta.get(CLIENT_KEY)
        if type(version) is not str:
            raise InvalidParams(f"{VERSION_KEY} must be a string")
        if type(capabilities) is not dict:
            raise InvalidParams(f"{CAPABILITIES_KEY} must be an object")
        revision = self.supported.per_request.get(version)
        if revision is None:
            supported = [name for name in self.supported.names if name != version]
            data = {"supported": supported, "requested": version}
            raise UnsupportedRevision(f"this server does not support {version[:40]}", data)
        level = meta.get(LOG_LEVEL_KEY)
        rank = None if level is None else log_rank(level)
        if type(info) is not dict:
            info = {}
        if request.method in STREAMS:  # the stream keeps the peer in memory
            info = _bounded(info)
            capabilities = _bounded(capabilities)
        return Peer(revision, info=info, capabilities=capabilities, log_rank=rank)

    @property
    def takes_batches(self) -> bool:
        """Whether the client may send an array of messages now."""
        return self.supported.accept_batches or (self.era is not None and self.era.revision.batches)

    @property
    def error_without_id(self) -> bool:
        """Whether an error omits the id if the id of the request is unreadable."""
        if self.era is None:
            return not self.supported.handshakes
        return self.era.revision.error_without_id


# ---------------------------------------------------------------- a client's probe


class Verdict(NamedTuple):
    """The next step of a client after its probe.

    Args:
        next: "per-request" (use ``revision``), "again" (probe again with ``revision``), "handshake"
            (send `initialize`) or "fail" (raise ``error``).
        revision: The revision, or None.
        error: The exception, or None.
    """

    next: str
    revision: Optional[Revision] = None
    error: Optional[Exception] = None


def judge_probe(
    answer: Union[Mapping[str, Json], BaseException, None], wanted: Sequence[Revision]
) -> Verdict:
    """Return the next step of a client after the response to `server/discover`.

    Args:
        answer: The result, the exception that was raised, or None if no response arrived.
        wanted: The revisions that the client may use, oldest first.
    """
    if isinstance(answer, (HeaderMismatch, CapabilityNotSupported)):
        return Verdict("fail", error=answer)
    if isinstance(answer, UnsupportedRevision):
        return _judge_versions(_supported(answer), wanted, "again")
    if isinstance(answer, RpcError):
        reason = f"it answered server/discover with: {answer}"
    elif answer is None or isinstance(answer, BaseException):
        reason = "it did not answer server/discover"
    else:
        versions = answer.get("supportedVersions")
        names = []
        if type(versions) is list:
            names = [each for each in versions if isinstance(each, str)]
        if names and read_capabilities(answer.get("capabilities")) is not None:
            return _judge_versions(names, wanted, "per-request")
        reason = "its answer to server/discover is invalid"
    if any(revision.handshake for revision in wanted):
        return Verdict("handshake")
    ours = ", ".join(revision.name for revision in wanted)
    return Verdict(
        "fail", error=UnsupportedRevision(f"the server does not seem to support {ours}: {reason}")
    )


def _judge_versions(theirs: Json, wanted: Sequence[Revision], agreed: str) -> Verdict:
    """Return the verdict on the revisions of a server; `agreed` is for one of the newer era."""
    revision = _newest(theirs, wanted, handshake=False)
    if revision is not None:
        return Verdict(agreed, revision)
    if _newest(theirs, wanted, handshake=True) is not None:
        return Verdict("handshake")
    return Verdict("fail", error=_nothing_in_common(theirs, wanted))


def _nothing_in_common(theirs: Json, wanted: Sequence[Revision]) -> UnsupportedRevision:
    ours = [revision.name for revision in wanted]
    supported = "unknown revisions"
    if isinstance(theirs, list) and theirs:
        supported = ", ".join(map(str, theirs))
    text = f"the server supports {one_line(supported)}; this client supports {', '.join(ours)}"
    return UnsupportedRevision(text, {"supported": theirs, "requested": ours})


def _supported(error: RpcError) -> Json:
    return error.data.get("supported") if isinstance(error.data, dict) else None


def _newest(names: Json, wanted: Sequence[Revision], *, handshake: bool) -> Optional[Revision]:
    """Return the newest wanted revision of an era that is in a peer's list, or None."""
    names = names if isinstance(names, list) else []
    common = [
        revision
        for revision in wanted
        if revision.handshake is handshake and revision.name in names
    ]
    return common[-1] if common else None


def server_info(result: Mapping[str, Json]) -> Optional[Mapping[str, Json]]:
    """Return the server's name and version from the ``_meta`` of a result, or None."""
    meta = result.get("_meta")
    info = meta.get(SERVER_KEY) if isinstance(meta, dict) else None
    return info if _names_itself(info) else None
