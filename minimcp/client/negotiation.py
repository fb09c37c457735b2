"""How a client finds out which revision to speak on a new connection.

The verdicts are a table in `session.judge_probe`; here is what is sent and waited for.
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from ..engine.connection import Connection
from ..engine.timer import Deadline
from ..errors import (
    ConnectionFailed,
    ProtocolViolation,
    RequestTimeout,
    RpcError,
    UnsupportedRevision,
    error_from_peer,
)
from ..protocol.lifecycle import Handshake, Peer, PerRequest
from ..protocol.messages import Failure, Json, Notification, encode
from ..protocol.lifecycle import Verdict, judge_probe, server_info
from ..protocol.versions import BY_NAME, REVISIONS, Revision

Era = Union[Handshake, PerRequest]

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


def negotiate(
    channel: Connection, plan: Plan, deadline: Deadline, agreed: Callable[[Era], object] = lambda era: None
) -> Era:
    """Agree with the server on a new connection.

    Args:
        channel: The connection.
        plan: What this client may speak.
        deadline: For all of it.
        agreed: Called with what is returned, before the server hears that all is well and may ask questions.

    Raises:
        UnsupportedRevision: There is nothing in common.
        RequestTimeout: The server did not answer in time.
        ConnectionLost: It went away.
        ConnectionFailed: It refused.
        ProtocolViolation: Its answer was none.
    """
    if plan.per_request is None:
        return _initialize(channel, plan, deadline, agreed)
    era, silent = _probe(channel, plan, plan.per_request, deadline)
    if era is not None:
        agreed(era)
        return era
    try:
        return _initialize(channel, plan, deadline, agreed)
    except UnsupportedRevision as error:
        if not silent or not error.from_peer:
            raise
        era, _ = _probe(channel, plan, plan.per_request, deadline)  # it was slow, and has taken the probe meanwhile
        if era is None:
            raise
        agreed(era)
        return era


def _probe(
    channel: Connection, plan: Plan, revision: Revision, deadline: Deadline
) -> tuple[Optional[PerRequest], bool]:
    """Ask `server/discover`; the era it opens, None when `initialize` is to be tried, and whether it was silent."""
    for _ in range(MOST_PROBES):
        answer = _discover(channel, plan, revision, deadline)
        verdict = judge_probe(answer, revision, plan.wanted)
        if verdict.next == "handshake":
            return None, answer is None
        if verdict.next == "per-request" and isinstance(answer, dict):
            return _opened(verdict, plan, answer), False
        if verdict.error is not None:
            raise verdict.error
        assert verdict.revision is not None
        revision = verdict.revision
    raise UnsupportedRevision(f"{channel.name}: the server refuses the revisions that it names itself")


def _discover(
    channel: Connection, plan: Plan, revision: Revision, deadline: Deadline
) -> Union[dict[str, Json], BaseException, None]:
    envelope = PerRequest.envelope_for(revision, plan.info, plan.request_capabilities)
    try:
        within = deadline if plan.handshake is None else deadline.within(plan.probe_timeout)
        return _ask(channel, "server/discover", {"_meta": envelope}, within)
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


def _initialize(
    channel: Connection, plan: Plan, deadline: Deadline, agreed: Callable[[Era], object]
) -> Handshake:
    assert plan.handshake is not None  # the verdict is "handshake" only where one is wanted
    params = Handshake.opening(plan.handshake, plan.info, plan.capabilities)
    try:
        result = _ask(channel, "initialize", params, deadline)
    except RpcError as error:
        raise _refusal(channel, error) from None
    era = Handshake.from_result(result, plan.wanted)
    agreed(era)
    channel.send(encode(Notification("notifications/initialized")), deadline)
    return era


def _refusal(channel: Connection, error: RpcError) -> Exception:
    if isinstance(error, UnsupportedRevision):
        return error
    if isinstance(error.data, dict) and "supported" in error.data:
        text = f"{error.message}: the server speaks {error.data['supported']}"
        return error_from_peer(error.code, text, error.data, kind=UnsupportedRevision)
    return ConnectionFailed(f"{channel.name}: the server refused initialize: {error}")


def _ask(channel: Connection, method: str, params: dict[str, Json], deadline: Deadline) -> dict[str, Json]:
    """One opening call; it is never cancelled, whatever happens."""
    call = channel.calls.start(method, lambda id: params)
    ending: Any = channel.calls.wait(call, deadline, tell=False)
    if isinstance(ending, Failure):
        raise error_from_peer(ending.code, ending.message, ending.data)
    return ending  # type: ignore[no-any-return]

