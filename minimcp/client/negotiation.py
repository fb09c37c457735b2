"""How a client finds out which revision to speak on a new connection.

The verdicts are a table in `session.judge_probe`; here is what is sent and waited for.
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Union

from ..engine.timer import Deadline
from ..errors import (
    ConnectionFailed,
    ProtocolViolation,
    RequestTimeout,
    RpcError,
    UnsupportedRevision,
    error_from_peer,
)
from ..protocol.lifecycle import Handshake, Peer, PerRequest, Verdict, judge_probe, server_info
from ..protocol.messages import Json
from ..protocol.versions import BY_NAME, REVISIONS, Revision
from .session import ClientSession

MOST_PROBES = 3
"""The first, and twice more for a server that names another revision; it may name the one that it refused."""


class Plan(NamedTuple):
    """What a client may speak and how it describes itself."""

    wanted: tuple[Revision, ...]
    """Oldest first."""
    info: Mapping[str, Json]
    capabilities: Mapping[str, Json]
    """For `initialize`."""
    request_capabilities: Mapping[str, Json]
    """For every request that stands alone."""
    probe_timeout: Optional[float]
    """Seconds that a silent server gets before the older handshake is tried; None where silence says nothing."""

    @property
    def per_request(self) -> Optional[Revision]:
        """The newest revision without a handshake; None when none is wanted."""
        return next((revision for revision in reversed(self.wanted) if not revision.handshake), None)

    @property
    def handshake(self) -> Optional[Revision]:
        """The newest revision with a handshake; None when none is wanted."""
        return next((revision for revision in reversed(self.wanted) if revision.handshake), None)

    def without_probe(self) -> Plan:
        """The same for a server that cannot bear to be probed."""
        return self._replace(wanted=tuple(revision for revision in self.wanted if revision.handshake))


def wanted_revisions(revision: str) -> tuple[Revision, ...]:
    """What ``revision="auto"``, ``"handshake"`` or one name stands for.

    Raises:
        ValueError: There is no such revision.
    """
    if revision == "auto":
        return REVISIONS
    if revision == "handshake":
        return tuple(one for one in REVISIONS if one.handshake)
    if revision not in BY_NAME:
        raise ValueError(f'revision is "auto", "handshake" or one of {", ".join(BY_NAME)}, not {revision!r}')
    return (BY_NAME[revision],)


def negotiate(session: ClientSession, plan: Plan, deadline: Deadline) -> None:
    """Agree with the server on a new connection, which knows the era afterwards.

    Args:
        session: The connection.
        plan: What this client may speak.
        deadline: For all of it.

    Raises:
        UnsupportedRevision: There is nothing in common.
        RequestTimeout: The server did not answer in time.
        ConnectionLost: It went away.
        ConnectionFailed: It refused.
        ProtocolViolation: Its answer was none.
    """
    if plan.per_request is None:
        return _initialize(session, plan, deadline)
    verdict = _probe(session, plan, plan.per_request, deadline)
    if verdict == "agreed":
        return None
    try:
        return _initialize(session, plan, deadline)
    except UnsupportedRevision as error:
        if verdict != "silent" or not error.from_peer:
            raise
        if _probe(session, plan, plan.per_request, deadline) != "agreed":  # it was slow, and knows of the probe now
            raise
        return None


def _probe(session: ClientSession, plan: Plan, revision: Revision, deadline: Deadline) -> str:
    """Ask `server/discover`: "agreed", or else "silent" or "refused", and `initialize` is to be tried."""
    for _ in range(MOST_PROBES):
        answer = _discover(session, plan, revision, deadline)
        verdict = judge_probe(answer, plan.wanted)
        if verdict.next == "handshake":
            return "silent" if answer is None else "refused"
        if verdict.next == "per-request" and isinstance(answer, dict):
            session.agree(_opened(verdict, plan, answer))
            return "agreed"
        if verdict.error is not None:
            raise verdict.error
        assert verdict.revision is not None
        revision = verdict.revision
    raise UnsupportedRevision(f"{session.name}: the server refuses the revisions that it names itself")


def _discover(
    session: ClientSession, plan: Plan, revision: Revision, deadline: Deadline
) -> Union[dict[str, Json], BaseException, None]:
    envelope = PerRequest.envelope_for(revision, plan.info, plan.request_capabilities)
    try:
        within = deadline if plan.handshake is None else deadline.within(plan.probe_timeout)
        return session.request("server/discover", {"_meta": envelope}, within)
    except RequestTimeout:
        if plan.handshake is None or plan.probe_timeout is None:
            raise
        return None
    except (RpcError, ProtocolViolation) as error:
        return error


def _opened(verdict: Verdict, plan: Plan, answer: Mapping[str, Json]) -> PerRequest:
    assert verdict.revision is not None
    peer = Peer(verdict.revision, info=server_info(answer), capabilities=answer["capabilities"])
    instructions = answer.get("instructions")
    return PerRequest(
        verdict.revision,
        peer,
        envelope=PerRequest.envelope_for(verdict.revision, plan.info, plan.request_capabilities),
        instructions=instructions if isinstance(instructions, str) else None,
    )


def _initialize(session: ClientSession, plan: Plan, deadline: Deadline) -> None:
    assert plan.handshake is not None  # the verdict is "handshake" only where one is wanted
    params = Handshake.opening(plan.handshake, plan.info, plan.capabilities)
    try:
        result = session.request("initialize", params, deadline)
    except UnsupportedRevision:
        raise
    except RpcError as error:
        if isinstance(error.data, dict) and "supported" in error.data:
            text = f"{error.message}: the server speaks {error.data['supported']}"
            raise error_from_peer(error.code, text, error.data, kind=UnsupportedRevision) from None
        raise ConnectionFailed(f"{session.name}: the server refused initialize: {error}") from None
    session.agree(Handshake.from_result(result, plan.wanted))
    session.notify("notifications/initialized", {}, deadline)
