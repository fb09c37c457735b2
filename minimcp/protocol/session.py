"""What each role knows about one connection, without threads, locks, clocks or I/O.

`ServerSession` says who sends a request and by which revision. `judge_probe` is the client's table of verdicts on the
first answer it gets. https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

from ..errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    InvalidRequest,
    RpcError,
    UnsupportedRevision,
    one_line,
)
from .eras import SERVER_KEY, HandshakeEra, Peer, PerRequestEra, refusal_before_session
from .messages import Json, Request
from .versions import Revision


class Offer:
    """What a server offers on every connection: its revisions and how strictly it takes them.

    Args:
        revisions: Oldest first.
        strict_version: Refuse an unknown revision at `initialize` instead of offering another.
        accept_batches: Take arrays of messages in every revision.
    """

    __slots__ = ("revisions", "strict_version", "accept_batches", "per_request", "has_handshake", "names")

    def __init__(
        self, revisions: Sequence[Revision], *, strict_version: bool = False, accept_batches: bool = False
    ) -> None:
        self.revisions = tuple(revisions)
        self.strict_version, self.accept_batches = strict_version, accept_batches
        self.per_request = {revision.name: revision for revision in revisions if not revision.handshake}
        self.has_handshake = any(revision.handshake for revision in revisions)
        self.names = [revision.name for revision in reversed(self.revisions)]


class ServerSession:
    """One connection, as its server sees it. Used by the reader's thread only.

    Both eras are served on one connection at once: each message says by itself which one it belongs to.
    """

    __slots__ = ("offer", "era")

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.era: Optional[HandshakeEra] = None

    def admit(self, request: Request) -> Peer:
        """Who sends this request.

        Raises:
            RpcError: It cannot be served at this point, or not in the revision that it names.
        """
        if request.method == "initialize" and self.offer.has_handshake:
            return self._open(request)
        if PerRequestEra.is_enveloped(request):
            return self.admit_alone(request)
        if self.era is not None:
            return self.era.peer
        if request.method == "ping" and self.offer.has_handshake:
            return Peer(next(revision for revision in self.offer.revisions if revision.handshake))
        if request.method == "initialize":
            HandshakeEra.opened_by(request.params, self.offer.revisions, strict=True)
        raise refusal_before_session(request, per_request_served=bool(self.offer.per_request))

    def _open(self, request: Request) -> Peer:
        if self.era is not None:
            raise InvalidRequest("this session is initialized already")
        self.era = HandshakeEra.opened_by(
            request.params, self.offer.revisions, strict=self.offer.strict_version
        )
        return self.era.peer

    def admit_alone(self, request: Request) -> Peer:
        """Who sends a request that carries its revision, whatever the session is.

        Raises:
            RpcError: It lacks what it must carry, or its revision is not served.
        """
        try:
            return PerRequestEra.admit(request, self.offer.per_request)
        except UnsupportedRevision as error:
            requested = error.data["requested"]
            supported = [name for name in self.offer.names if name != requested]
            error.data = {"supported": supported, "requested": requested}
            raise

    @property
    def takes_batches(self) -> bool:
        """Whether an array may arrive now."""
        if self.offer.accept_batches:
            return True
        return self.era is not None and self.era.revision.batches

    @property
    def error_without_id(self) -> bool:
        """How an error is written now whose request's id could not be read."""
        if self.era is not None:
            return self.era.revision.error_without_id
        return not self.offer.has_handshake


class Verdict(NamedTuple):
    """What a client does after its probe.

    ``next`` is "per-request" (go on with ``revision``), "again" (probe once more with ``revision``), "handshake" (send
    `initialize`), or "fail" (with ``error``).
    """

    next: str
    revision: Optional[Revision] = None
    error: Optional[Exception] = None


def _newest(names: Any, wanted: Sequence[Revision], *, handshake: bool) -> Optional[Revision]:
    names = names if isinstance(names, list) else []
    common = [revision for revision in wanted if revision.handshake is handshake and revision.name in names]
    return common[-1] if common else None


def judge_probe(
    answer: Union[Mapping[str, Json], BaseException, None], asked: Revision, wanted: Sequence[Revision]
) -> Verdict:
    """The client's verdict on the answer to `server/discover`.

    Args:
        answer: The result, the exception that came instead, or None for silence.
        asked: The revision that the probe was sent in.
        wanted: What this client may speak, oldest first.
    """
    if isinstance(answer, RpcError):
        return _judge_error(answer, asked, wanted)
    if isinstance(answer, BaseException) or answer is None:
        return _handshake_or(wanted, "it did not answer server/discover")
    versions = answer.get("supportedVersions")
    if not _names(versions) or not isinstance(answer.get("capabilities"), dict):
        return _handshake_or(wanted, "its answer to server/discover makes no sense")
    revision = _newest(versions, wanted, handshake=False)
    if revision is not None:
        return Verdict("per-request", revision)
    if _newest(versions, wanted, handshake=True) is not None:
        return Verdict("handshake")
    return Verdict("fail", error=_nothing_in_common(versions, wanted))


def _judge_error(error: RpcError, asked: Revision, wanted: Sequence[Revision]) -> Verdict:
    if error.code in (HEADER_MISMATCH, MISSING_CAPABILITY):
        return Verdict("fail", error=error)
    if error.code != UNSUPPORTED_VERSION:
        return _handshake_or(wanted, f"it answered server/discover with: {error}")
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    revision = _newest(supported, wanted, handshake=False)
    if revision is not None:
        return Verdict("again", revision)
    if _newest(supported, wanted, handshake=True) is not None:
        return Verdict("handshake")
    return Verdict("fail", error=_nothing_in_common(supported, wanted))


def _handshake_or(wanted: Sequence[Revision], what: str) -> Verdict:
    """The server does not look like one that takes requests alone: try the handshake, if that is wanted."""
    if any(revision.handshake for revision in wanted):
        return Verdict("handshake")
    ours = ", ".join(revision.name for revision in wanted)
    return Verdict("fail", error=UnsupportedRevision(f"the server does not seem to speak {ours}: {what}"))


def _names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(name, str) for name in value)


def _nothing_in_common(theirs: Any, wanted: Sequence[Revision]) -> UnsupportedRevision:
    ours = [revision.name for revision in wanted]
    spoken = ", ".join(map(str, theirs)) if isinstance(theirs, list) and theirs else "nothing that it would name"
    return UnsupportedRevision(
        f"the server speaks {one_line(spoken)}; this client {', '.join(ours)}", {"supported": theirs, "requested": ours}
    )


def server_info(result: Mapping[str, Json]) -> Optional[Mapping[str, Json]]:
    """How a result says who made it; None when it does not, or not in the right shape."""
    meta = result.get("_meta")
    info = meta.get(SERVER_KEY) if isinstance(meta, dict) else None
    return info if isinstance(info, dict) and isinstance(info.get("name"), str) else None
