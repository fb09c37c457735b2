"""How two peers agree on what they speak: the two eras of the protocol, a server's session, a
client's probe.

`Handshake`: `initialize` once, then both sides may send requests. `PerRequest`: every request
carries its revision and the client's capabilities in its ``_meta``, and only clients send requests.
No thread, no lock, no clock, no I/O.
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from dataclasses import dataclass, field
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

LISTEN = "subscriptions/listen"
# The request that stays open, and the first notification on its stream.
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

# The ``resultType`` of a result that holds questions to the client.
INPUT_REQUIRED = "input_required"

# The levels of the protocol and their rank, rising.
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

# Bytes of memory that a server keeps of how a client describes itself, and as many of what it
# declares: the members that fit, these before others.
PEER_BYTES = 8 * 1024
_FIRST = ("name", "version", "title", "roots", "sampling", "elicitation", "extensions", "tasks")


def _bounded(members: Mapping[str, Json]) -> dict[str, Json]:
    """The members that fit into `PEER_BYTES` of memory together."""
    kept: dict[str, Json] = {}
    left = PEER_BYTES
    for name in dict.fromkeys((*(name for name in _FIRST if name in members), *members)):
        size = size_of(name) + size_of(members[name], left)
        if size <= left:
            kept[name], left = members[name], left - size
    return kept


class Peer:
    """What the other side said about itself, for one session or for one request.

    Args:
        revision: That is spoken with it.
        info: Its name and version; None where it gave none.
        capabilities: What it declared; None is nothing.
        log_rank: The lowest rank of log messages that it wants; None wants none.

    ``initialized`` is False while a client has still to send `notifications/initialized`.
    ``session`` is a dict that lives as long as a handshake session; None where there is no session.
    ``principal`` names who was authenticated; None where nobody is.
    """

    initialized = True

    def __init__(
        self, revision: Revision, *, info: Optional[Mapping[str, Json]] = None,
        capabilities: Optional[Mapping[str, Json]] = None, log_rank: Optional[int] = None,
    ) -> None:  # fmt: skip
        self.revision = revision
        self.log_rank = log_rank
        self.info: Mapping[str, Json] = info or {}
        self.capabilities: Mapping[str, Json] = capabilities or {}
        self.session: Optional[dict[str, Any]] = {} if revision.handshake else None
        self.principal: Optional[str] = None

    def supports(self, name: str) -> bool:
        """Whether a capability was declared, by its dotted name: ``"elicitation.url"``,
        ``"ext:com.example/x"``.

        A capability is an object, maybe an empty one, and some parts of one are ``true``; other
        values declare nothing. Elicitation without any mode is elicitation by forms.
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
    """Return what a peer declares, or None if it is not an object.

    PHP writes ``[]`` for an empty object, and some peers write ``true``. Both stand for an empty
    object in the place of the capabilities, of one of them, or of an extension.
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


# What a client that `connect` makes is given, to declare a capability and those below it.
DECLARING = {"elicitation": "elicit=f", "sampling": "sample=f", "roots": "roots=[...]"}


def lacks(name: str, who: str, revision: Revision) -> CapabilityNotSupported:
    """The error that says which capability a client would have to declare, or which revisions have
    it at all."""
    needed: dict[str, Json] = {}
    for step in reversed(_path(name)):
        needed = {step: needed}
    option = (
        "extensions=[...]" if name.startswith("ext:") else DECLARING.get(name.partition(".")[0])
    )
    way = f", such as connect(..., {option})" if option else ""
    having = [each.name for each in REVISIONS if each.has(name)]
    if having and not revision.has(name):
        way = f": {revision.name} has none, {', '.join(having)} have"
    told = f"the extension {name[4:]}" if name.startswith("ext:") else name
    return CapabilityNotSupported(
        f"{who} needs a client with {told}{way}", {"requiredCapabilities": needed}
    )


def log_rank(level: Json) -> int:
    """The rank of a level that a peer names.

    Raises:
        InvalidParams: It is none of the protocol's.
    """
    if isinstance(level, str):
        level = PARAPHRASE_LEVELS.get(level, level)
    if not isinstance(level, str) or level not in LOG_LEVELS:
        raise InvalidParams(f"level is one of {', '.join(LOG_LEVELS)}")
    return LOG_LEVELS[level]


# ---------------------------------------------------------------- the two eras


@dataclass(eq=False)
class Agreement:
    """What two peers speak.

    Args:
        revision: What was agreed on; the newest that a server speaks where each request says its
            own.
        peer: The other side, as it described itself.
        envelope: What every request carries in ``_meta`` (client).
        instructions: What the server says to the model (client); None where it says nothing.
    """

    revision: Revision
    peer: Peer
    envelope: dict[str, Json] = field(default_factory=dict)
    instructions: Optional[str] = None


class Handshake(Agreement):
    """One session that `initialize` has opened."""

    @classmethod
    def opened_by(cls, params: Mapping[str, Json], offer: Offer) -> Handshake:
        """The server's half of `initialize`: agree on a revision.

        Args:
            params: The request's.
            offer: What this server speaks.

        Raises:
            InvalidParams: A member is missing or of the wrong kind, or the revision is not served
                and must be.
            UnsupportedRevision: This server speaks no revision with a handshake.
        """
        wanted = params.get("protocolVersion")
        refused = {"supported": offer.names, "requested": wanted}
        if not offer.handshakes:
            raise UnsupportedRevision(
                f"this server has no initialize: it speaks {', '.join(offer.names)}", refused
            )
        if not isinstance(wanted, str):
            raise InvalidParams("protocolVersion is a string")
        revision = next(
            (revision for revision in offer.handshakes if revision.name == wanted),
            offer.handshakes[-1],
        )
        if offer.strict_version and revision.name != wanted:
            raise InvalidParams("Unsupported protocol version", refused)
        info = params.get("clientInfo")
        capabilities = read_capabilities(params.get("capabilities"))
        if not isinstance(info, dict) or not isinstance(capabilities, dict):
            raise InvalidParams(
                f"{'capabilities' if isinstance(info, dict) else 'clientInfo'} is an object"
            )
        info, capabilities = _bounded(info), _bounded(capabilities)
        rank = LOG_LEVELS["info"]  # until the client names a level, the server chooses
        peer = Peer(revision, info=info, capabilities=capabilities, log_rank=rank)
        peer.initialized = False
        return cls(revision, peer)

    @staticmethod
    def opening(
        revision: Revision, info: Mapping[str, Json], capabilities: Mapping[str, Json]
    ) -> dict[str, Json]:
        """The client's half: the params of `initialize`."""
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
        """The client's half: the session that a result of `initialize` opens.

        The name and the instructions of the server are for people: if they cannot be read, they
        count as absent, and a warning says so.

        Raises:
            ProtocolViolation: The result has no protocolVersion or no capabilities.
            UnsupportedRevision: The server answered a revision that is not wanted.
        """
        name, capabilities = result.get("protocolVersion"), result.get("capabilities")
        if not isinstance(name, str) or read_capabilities(capabilities) is None:
            raise ProtocolViolation(
                "initialize answers protocolVersion, capabilities and serverInfo", result
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
    """Return a server as it describes itself, and its instructions; log what cannot be read.

    Args:
        method: The request that it answered.
        revision: The revision that was agreed on.
        info: Its name and version, as they arrived.
        result: The answer, with ``capabilities`` that can be read, and maybe ``instructions``.
    """
    capabilities = read_capabilities(result.get("capabilities"))
    instructions = result.get("instructions")
    faults = []
    if revision.handshake and not _names_itself(info):
        faults.append(f"serverInfo must have a name, and is {one_line(info)}")
    if not isinstance(instructions, (str, type(None))):
        faults.append(f"instructions must be a string, not {one_line(instructions)}")
    for fault in faults:
        log.warning("<-- %s: %s: read as if it were absent", method, fault)
    peer = Peer(revision, info=info if isinstance(info, dict) else None, capabilities=capabilities)
    return peer, instructions if isinstance(instructions, str) else None


def _names_itself(info: Json) -> bool:
    return isinstance(info, dict) and isinstance(info.get("name"), str)


class PerRequest(Agreement):
    """Requests that stand alone."""

    @staticmethod
    def carries_metadata(request: Request) -> bool:
        """Return whether a request carries metadata: its ``_meta`` names the revision."""
        meta = request.params.get("_meta")
        return type(meta) is dict and VERSION_KEY in meta

    @staticmethod
    def envelope_for(
        revision: Revision, info: Optional[Mapping[str, Json]], capabilities: Mapping[str, Json]
    ) -> dict[str, Json]:
        """What every request of a client carries in ``_meta``."""
        envelope: dict[str, Json] = {
            VERSION_KEY: revision.name,
            CAPABILITIES_KEY: dict(capabilities),
        }
        if info is not None:
            envelope[CLIENT_KEY] = dict(info)
        return envelope

    def adopt(self, error: UnsupportedRevision) -> bool:
        """Whether a request that was refused for its revision is worth sending once more (client).

        The newest revision that the server names and this library speaks is used from now on; it
        may be the one that was refused.
        """
        revision = _newest(_supported(error), REVISIONS, handshake=False)
        if revision is not None:
            self.revision = revision
            self.envelope[VERSION_KEY] = (
                revision.name
            )  # no copy: another thread may set the log level now
        return revision is not None


# ---------------------------------------------------------------- a server's session


class Offer:
    """What a server offers on every connection: its revisions and how strictly it takes them.

    Args:
        revisions: Oldest first.
        strict_version: Refuse an unknown revision at `initialize` instead of offering another.
        accept_batches: Take arrays of messages in every revision.
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


class ServerSession:
    """What a server has agreed on with the client of one connection, or HTTP session: who may send
    what now.

    Both eras are served on one connection at once: each message says by itself which one it belongs
    to.

    Thread safety: used by the threads that take messages in, over HTTP several at once; only
    `initialize` changes it.
    """

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.era: Optional[Handshake] = None

    def admit(self, request: Request) -> Peer:
        """Who sends this request.

        A second `initialize` opens the session anew: bridges pass on those of several clients. What
        is in flight goes on for the peer that it came from.

        Raises:
            RpcError: It cannot be served at this point, or not in the revision that it names.
        """
        offer, meta = self.offer, request.params.get("_meta")
        has_metadata = type(meta) is dict and VERSION_KEY in meta
        if request.method == "initialize" and (offer.handshakes or not has_metadata):
            self.era = Handshake.opened_by(request.params, offer)
            return self.era.peer
        if has_metadata:
            return self.admit_alone(request)
        if self.era is not None:
            return self.era.peer
        if request.method == "ping" and offer.handshakes:
            return Peer(offer.handshakes[0])
        if offer.per_request:
            return self.admit_alone(request)  # which says what is missing
        raise InvalidRequest(f"{request.method} before initialize")

    def admit_alone(self, request: Request) -> Peer:
        """Who sends a request, by its own words only.

        Raises:
            InvalidParams: What every request must carry is missing or of the wrong kind.
            UnsupportedRevision: Its revision is not served.
        """
        meta = request.params.get("_meta")
        meta = meta if type(meta) is dict else {}
        if VERSION_KEY not in meta or CAPABILITIES_KEY not in meta:
            missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
            raise InvalidParams(f"every request carries {' and '.join(missing)} in params._meta")
        version, capabilities, info = (
            meta[VERSION_KEY],
            read_capabilities(meta[CAPABILITIES_KEY]),
            meta.get(CLIENT_KEY),
        )
        if type(version) is not str:
            raise InvalidParams(f"{VERSION_KEY} is a string")
        if type(capabilities) is not dict:
            raise InvalidParams(f"{CAPABILITIES_KEY} is an object")
        revision = self.offer.per_request.get(version)
        if revision is None:
            supported = [name for name in self.offer.names if name != version]
            data = {"supported": supported, "requested": version}
            raise UnsupportedRevision(f"this server does not speak {version[:40]}", data)
        level = meta.get(LOG_LEVEL_KEY)
        rank = None if level is None else log_rank(level)
        if request.method == LISTEN:  # which may stay open for ever
            info, capabilities = (
                _bounded(info) if type(info) is dict else None,
                _bounded(capabilities),
            )
        return Peer(
            revision,
            info=info if type(info) is dict else None,
            capabilities=capabilities,
            log_rank=rank,
        )

    @property
    def takes_batches(self) -> bool:
        """Whether an array may arrive now."""
        return self.offer.accept_batches or (self.era is not None and self.era.revision.batches)

    @property
    def error_without_id(self) -> bool:
        """How an error is written now whose request's id could not be read."""
        return not self.offer.handshakes if self.era is None else self.era.revision.error_without_id


# ---------------------------------------------------------------- a client's probe


class Verdict(NamedTuple):
    """What a client does after its probe.

    ``next`` is "per-request" (go on with ``revision``), "again" (probe once more with
    ``revision``), "handshake" (send `initialize`), or "fail" (with ``error``).
    """

    next: str
    revision: Optional[Revision] = None
    error: Optional[Exception] = None


def judge_probe(
    answer: Union[Mapping[str, Json], BaseException, None], wanted: Sequence[Revision]
) -> Verdict:
    """The client's verdict on the answer to `server/discover`.

    Args:
        answer: The result, the exception that came instead, or None for silence.
        wanted: What this client may speak, oldest first.
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
        names = (
            [each for each in versions if isinstance(each, str)] if type(versions) is list else []
        )
        if names and read_capabilities(answer.get("capabilities")) is not None:
            return _judge_versions(names, wanted, "per-request")
        reason = "its answer to server/discover makes no sense"
    if any(revision.handshake for revision in wanted):
        return Verdict("handshake")
    ours = ", ".join(revision.name for revision in wanted)
    return Verdict(
        "fail", error=UnsupportedRevision(f"the server does not seem to speak {ours}: {reason}")
    )


def _judge_versions(theirs: Json, wanted: Sequence[Revision], agreed: str) -> Verdict:
    """The verdict on the revisions that a server names; `agreed` is what comes next with one of the
    newer era."""
    revision = _newest(theirs, wanted, handshake=False)
    if revision is not None:
        return Verdict(agreed, revision)
    if _newest(theirs, wanted, handshake=True) is not None:
        return Verdict("handshake")
    return Verdict("fail", error=_nothing_in_common(theirs, wanted))


def _nothing_in_common(theirs: Json, wanted: Sequence[Revision]) -> UnsupportedRevision:
    ours = [revision.name for revision in wanted]
    spoken = (
        ", ".join(map(str, theirs))
        if isinstance(theirs, list) and theirs
        else "nothing that it would name"
    )
    text = f"the server speaks {one_line(spoken)}; this client {', '.join(ours)}"
    return UnsupportedRevision(text, {"supported": theirs, "requested": ours})


def _supported(error: RpcError) -> Json:
    return error.data.get("supported") if isinstance(error.data, dict) else None


def _newest(names: Json, wanted: Sequence[Revision], *, handshake: bool) -> Optional[Revision]:
    """The newest wanted revision of an era that a peer names."""
    names = names if isinstance(names, list) else []
    common = [
        revision
        for revision in wanted
        if revision.handshake is handshake and revision.name in names
    ]
    return common[-1] if common else None


def server_info(result: Mapping[str, Json]) -> Optional[Mapping[str, Json]]:
    """How a result says who made it; None when it does not, or not in the right shape."""
    meta = result.get("_meta")
    info = meta.get(SERVER_KEY) if isinstance(meta, dict) else None
    return info if _names_itself(info) else None
