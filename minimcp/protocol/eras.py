"""The two ways in which peers agree on what they speak, behind one small interface.

`HandshakeEra`: `initialize` once, then both sides may send requests. `PerRequestEra`: every request carries its
revision and the client's capabilities, and only clients send requests. No thread, no lock, no clock, no I/O in here.
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from ..errors import (
    CapabilityNotSupported,
    InvalidParams,
    InvalidRequest,
    ProtocolViolation,
    RpcError,
    UnsupportedRevision,
    one_line,
)
from .messages import Json, Request
from .versions import BY_NAME, NEWEST_HANDSHAKE, Revision

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = PREFIX + "protocolVersion"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
CLIENT_KEY = PREFIX + "clientInfo"
SERVER_KEY = PREFIX + "serverInfo"
LOG_LEVEL_KEY = PREFIX + "logLevel"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
"""The request that stays open, and what says first that it does."""

INPUT_REQUIRED = "input_required"
"""The ``resultType`` of a result that holds questions to the client."""

LOG_LEVELS = {
    level: rank
    for rank, level in enumerate(
        ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    )
}
"""The levels of the protocol and their rank, rising."""

LEVEL_ALIASES = {"warn": "warning"}
"""Taken in `logging/setLevel`, never sent: a widely read paraphrase of the specification has it."""


class Peer:
    """What the other side said about itself, for one session or for one request.

    ``log_rank`` is the lowest rank of log messages that it wants; None wants none. ``session`` is a dict that lives as
    long as a handshake session; None where there is no session. ``principal`` names who was authenticated; None where
    nobody is.
    """

    __slots__ = ("revision", "info", "capabilities", "log_rank", "session", "principal")

    def __init__(
        self,
        revision: Revision,
        *,
        info: Optional[Mapping[str, Json]] = None,
        capabilities: Optional[Mapping[str, Json]] = None,
        log_rank: Optional[int] = None,
    ) -> None:
        self.revision = revision
        self.info: Mapping[str, Json] = {} if info is None else info
        self.capabilities: Mapping[str, Json] = {} if capabilities is None else capabilities
        self.log_rank = log_rank
        self.session: Optional[dict[str, Any]] = {} if revision.handshake else None
        self.principal: Optional[str] = None

    def supports(self, name: str) -> bool:
        """Whether a capability was declared, by its dotted name: ``"elicitation.url"``, ``"ext:com.example/x"``.

        A capability is an object, maybe an empty one, and some parts of one are ``true``; other values declare nothing.
        Elicitation without any mode is elicitation by forms.
        """
        if name == "elicitation.form":
            modes = self.capabilities.get("elicitation")
            return isinstance(modes, dict) and (isinstance(modes.get("form"), dict) or "url" not in modes)
        if name.startswith("ext:"):
            extensions = self.capabilities.get("extensions")
            return isinstance(extensions, dict) and isinstance(extensions.get(name[4:]), dict)
        whole, _, part = name.rpartition(".")
        value: Any = self.capabilities
        for step in whole.split(".") if whole else ():
            value = value.get(step) if isinstance(value, dict) else None
        value = value.get(part) if isinstance(value, dict) else None
        return isinstance(value, dict) or (bool(whole) and value is True)

    def __repr__(self) -> str:
        return f"<Peer {self.info.get('name', 'unnamed')!r} {self.revision.name}>"


def lacks(name: str, who: str) -> CapabilityNotSupported:
    """The error that says which capability a client would have to declare."""
    needed: dict[str, Json] = {}
    inner = needed
    if name.startswith("ext:"):
        needed["extensions"] = {name[4:]: {}}
    else:
        for part in name.split("."):
            inner[part] = inner = {}
    return CapabilityNotSupported(f"{who} needs a client with {name}", {"requiredCapabilities": needed})


def log_rank(level: Json) -> int:
    """The rank of a level that a peer names.

    Raises:
        InvalidParams: It is none of the protocol's.
    """
    level = LEVEL_ALIASES.get(level, level) if isinstance(level, str) else level
    if not isinstance(level, str) or level not in LOG_LEVELS:
        raise InvalidParams(f"level is one of {', '.join(LOG_LEVELS)}")
    return LOG_LEVELS[level]


def _object(value: Json, name: str) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise InvalidParams(f"{name} is an object")
    return value


class HandshakeEra:
    """One session that `initialize` has opened.

    Args:
        revision: What was agreed on.
        peer: What the other side said about itself.
    """

    __slots__ = ("revision", "peer", "initialized", "instructions")

    def __init__(self, revision: Revision, peer: Peer, instructions: Optional[str] = None) -> None:
        self.revision, self.peer, self.instructions = revision, peer, instructions
        self.initialized = False

    @classmethod
    def opened_by(cls, params: Mapping[str, Json], served: Sequence[Revision], *, strict: bool) -> HandshakeEra:
        """The server's half of `initialize`: agree on a revision.

        Args:
            params: The request's.
            served: What this server speaks, oldest first.
            strict: Refuse an unknown revision instead of offering the newest one here.

        Raises:
            InvalidParams: A member is missing or of the wrong kind, or `strict` and the revision is not served.
            UnsupportedRevision: This server speaks no revision with a handshake.
        """
        wanted = params.get("protocolVersion")
        names = [revision.name for revision in reversed(served)]
        with_handshake = [revision for revision in served if revision.handshake]
        if not with_handshake:
            raise UnsupportedRevision(
                f"this server has no initialize: it speaks {', '.join(names)}",
                {"supported": names, "requested": wanted},
            )
        if not isinstance(wanted, str):
            raise InvalidParams("protocolVersion is a string")
        revision = next((revision for revision in with_handshake if revision.name == wanted), with_handshake[-1])
        if strict and revision.name != wanted:
            raise InvalidParams("Unsupported protocol version", {"supported": names, "requested": wanted})
        return cls(
            revision,
            Peer(
                revision,
                info=_object(params.get("clientInfo"), "clientInfo"),
                capabilities=_object(params.get("capabilities"), "capabilities"),
                log_rank=LOG_LEVELS["info"],  # until the client names a level, the server chooses
            ),
        )

    @staticmethod
    def opening(revision: Revision, info: Mapping[str, Json], capabilities: Mapping[str, Json]) -> dict[str, Json]:
        """The client's half: the params of `initialize`."""
        described = {name: value for name, value in info.items() if name in NEWEST_HANDSHAKE.implementation_members}
        return {"protocolVersion": revision.name, "capabilities": dict(capabilities), "clientInfo": described}

    @classmethod
    def from_result(cls, result: Mapping[str, Json], wanted: Sequence[Revision]) -> HandshakeEra:
        """The client's half: the session that a result of `initialize` opens.

        Raises:
            ProtocolViolation: The result lacks what it must have.
            UnsupportedRevision: The server answered a revision that is not wanted.
        """
        name, info, capabilities = (result.get(key) for key in ("protocolVersion", "serverInfo", "capabilities"))
        if not isinstance(name, str) or not isinstance(info, dict) or not isinstance(capabilities, dict):
            raise ProtocolViolation("initialize answers protocolVersion, capabilities and serverInfo", result)
        revision = BY_NAME.get(name)
        if revision is None or revision not in wanted or not revision.handshake:
            offered = [revision.name for revision in wanted]
            raise UnsupportedRevision(
                f"the server speaks {one_line(name)}, this client {', '.join(offered)}",
                {"supported": [name], "requested": offered},
            )
        instructions = result.get("instructions")
        peer = Peer(revision, info=info, capabilities=capabilities)
        return cls(revision, peer, instructions if isinstance(instructions, str) else None)

    def dress(self, params: Mapping[str, Json], meta: Mapping[str, Json]) -> dict[str, Json]:
        """The params as this era sends them (client); `meta` is what the call itself wants to carry."""
        return {**params, "_meta": {**params.get("_meta", {}), **meta}} if meta else dict(params)

    def undress(self, method: str, result: dict[str, Json]) -> dict[str, Json]:
        """A result as it came, checked for what this era demands (client)."""
        return result

    def is_asking(self, result: Mapping[str, Json]) -> bool:
        """Whether a result is no result but questions to the client (client)."""
        return False


class PerRequestEra:
    """Requests that stand alone.

    Args:
        revision: What this client speaks, or the newest that this server does.
        peer: The server, as it described itself (client).
        envelope: What every request carries in ``_meta`` (client).
    """

    __slots__ = ("revision", "peer", "instructions", "envelope")

    def __init__(
        self,
        revision: Revision,
        peer: Peer,
        *,
        envelope: Optional[Mapping[str, Json]] = None,
        instructions: Optional[str] = None,
    ) -> None:
        self.revision, self.peer, self.instructions = revision, peer, instructions
        self.envelope: dict[str, Json] = dict(envelope or {})

    @staticmethod
    def is_enveloped(request: Request) -> bool:
        """Whether a request carries its own revision; a bare ``_meta`` does not make one."""
        meta = request.params.get("_meta")
        return type(meta) is dict and VERSION_KEY in meta

    @staticmethod
    def admit(request: Request, served: Mapping[str, Revision]) -> Peer:
        """Who sends this request, by its own words only (server).

        Args:
            request: With or without what it must carry.
            served: The per-request revisions served here, by name.

        Raises:
            InvalidParams: What every request must carry is missing or of the wrong kind.
            UnsupportedRevision: Its revision is not served.
        """
        meta = request.params.get("_meta")
        if type(meta) is not dict or VERSION_KEY not in meta or CAPABILITIES_KEY not in meta:
            raise _incomplete(meta)
        version, capabilities, info = meta[VERSION_KEY], meta[CAPABILITIES_KEY], meta.get(CLIENT_KEY)
        if type(version) is not str:
            raise InvalidParams(f"{VERSION_KEY} is a string")
        if type(capabilities) is not dict:
            raise InvalidParams(f"{CAPABILITIES_KEY} is an object")
        revision = served.get(version)
        if revision is None:
            raise UnsupportedRevision(f"this server does not speak {version[:40]}", {"requested": version})
        rank = log_rank(meta[LOG_LEVEL_KEY]) if LOG_LEVEL_KEY in meta else None
        return Peer(revision, info=info if type(info) is dict else None, capabilities=capabilities, log_rank=rank)

    @staticmethod
    def envelope_for(
        revision: Revision, info: Optional[Mapping[str, Json]], capabilities: Mapping[str, Json]
    ) -> dict[str, Json]:
        """What every request of a client carries in ``_meta``."""
        envelope: dict[str, Json] = {VERSION_KEY: revision.name, CAPABILITIES_KEY: dict(capabilities)}
        if info is not None:
            envelope[CLIENT_KEY] = dict(info)
        return envelope

    def dress(self, params: Mapping[str, Json], meta: Mapping[str, Json]) -> dict[str, Json]:
        """The params as this era sends them (client); `meta` is what the call itself wants to carry."""
        return {**params, "_meta": {**params.get("_meta", {}), **meta, **self.envelope}}

    def adopt(self, error: UnsupportedRevision) -> bool:
        """Whether a request that was refused for its revision is worth sending once more (client).

        The newest revision that the server names and this library speaks is used from now on; it may be the one that
        was refused.
        """
        supported = error.data.get("supported") if isinstance(error.data, dict) else None
        names = supported if isinstance(supported, list) else []
        common = [revision for revision in BY_NAME.values() if revision.name in names and not revision.handshake]
        if not common:
            return False
        self.revision = common[-1]
        self.envelope = {**self.envelope, VERSION_KEY: self.revision.name}
        return True

    def undress(self, method: str, result: dict[str, Json]) -> dict[str, Json]:
        """A result as it came, checked for what this era demands (client).

        Raises:
            ProtocolViolation: It says it is a kind of result that this client does not know, or not from this method.
        """
        kind = result.get("resultType", "complete")
        if kind != "complete" and (kind != INPUT_REQUIRED or method not in self.revision.asking_methods):
            raise ProtocolViolation(f"a result of {method} is complete, not {one_line(kind)}", result)
        return result

    def is_asking(self, result: Mapping[str, Json]) -> bool:
        """Whether a result is no result but questions to the client (client)."""
        return result.get("resultType") == INPUT_REQUIRED


def _incomplete(meta: Json) -> InvalidParams:
    """Says what a request's ``_meta`` lacks."""
    present = meta if isinstance(meta, dict) else {}
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in present]
    return InvalidParams(f"every request carries {' and '.join(missing)} in params._meta")


def refusal_before_session(request: Request, *, per_request_served: bool) -> RpcError:
    """Why a request is refused that neither carries its revision nor follows an `initialize`.

    Args:
        request: What came.
        per_request_served: Whether this server takes requests that carry their revision.
    """
    if per_request_served:
        return _incomplete(request.params.get("_meta"))
    return InvalidRequest(f"{request.method} before initialize")
