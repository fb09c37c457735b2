"""`connect`: start or open the server that a target names, negotiate, and return a `Client`.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from copy import copy
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    Mapping,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Union,
)

from .. import __version__ as VERSION
from ..engine.limits import Limits, check_interval
from ..engine.timer import Deadline
from ..errors import (
    Busy,
    Cancelled,
    ConnectionFailed,
    ConnectionLost,
    ProtocolViolation,
    RequestTimeout,
    RpcError,
    UnsupportedRevision,
    error_from_peer,
)
from ..protocol.lifecycle import (
    Handshake,
    PerRequest,
    described_server,
    judge_probe,
    server_info,
)
from ..protocol.messages import Json, size_of
from ..protocol.versions import BY_NAME, REVISIONS, Revision
from ..schema.mismatch import keywords_shown, refuse_options
from ..stdio.child import CLOSE_SECONDS, TAIL, ChildTransport, StdioServer
from ..types import Implementation
from .calls import Sessions
from .client import Client
from .host import NAMES, NOTIFIED, Host, Rootlike
from .session import MAX_BUSY_TRIES, Cancel, ClientSession, check_token, deadline_of, require_type

if TYPE_CHECKING:
    from typing import Protocol

    from ..engine.transport import Transport
    from ..extensions.cards import ServerCard
    from ..http.client import HttpServer
    from ..types import ElicitRequest, LogMessage, SampleRequest, SampleResult
    from .config import Config, ConfigEntry

    class ServerObject(Protocol):
        """A server in this process, such as `Server`."""

        def open_pipe(self) -> Transport:
            """Return the client's end of a new connection."""

    Connectable = Union[str, Path, Sequence[str], StdioServer, HttpServer, ServerCard, ServerObject]

LATE = frozenset(
    {
        "extensions.client_events",
        "extensions.client_skills",
        "extensions.client_tasks",
        "http.client",
        "http.client_sse",
        "http.fetch",
    }
)
"""Modules outside the core that a module of client/ may import on first use. tests/test_layers.py
reports every other late import."""

GIVE_UP_SECONDS = 0.2
"""Grace period of a server process that failed to negotiate: seconds to exit, and again after
SIGTERM. It is short because the time for connecting is over."""

WEB_OPTIONS = ("headers", "auth", "verify", "cert", "proxies")
"""The options of `connect` that apply to a URL only."""

INTERPRETER = r"(?i)(python|pypy|node|bash|sh)[\d.]*(\.exe)?"
"""A program that, without arguments, would run the messages as a script."""

HINTS = {
    "No module named 'minimcp'": (
        "this Python has no minimcp: name a Python that has it, or install it there with pip"
    ),
    "can't open file": (
        "does the file exist? Write an absolute path: hosts start servers from a different folder"
    ),
}
"""Text in the stderr of a server that exited at once, and the hint for the error message."""

SERVES_HTTP = re.compile(r" serves at (https?://[\w.:/\[\]-]{1,200})")
"""The line that a server of this library writes to stderr when it serves over HTTP."""

MAX_DESCRIPTION_BYTES = 4 * 1024 * 1024
"""Maximum memory of a server's description of itself, in bytes."""

CALL_SECONDS = 60.0
START_SECONDS = 60.0
"""Defaults of ``timeout`` and ``connect_timeout``. `connect` compares them by identity, because a
config may replace a default but not a number that the program passed."""

RESTART = "connect again, or pass restart=True from the beginning"

MAX_SHOWN_SOURCES = 3
"""How many members of an entry a message names together with their source."""

MAX_PROBES = 3
"""How often `server/discover` is sent: once, and twice more if the server names other revisions. It
may name the one that it refused."""


@keywords_shown
def connect(
    target: Connectable,
    *,
    revision: str = "auto",
    timeout: Optional[float] = CALL_SECONDS,
    idle_timeout: Optional[float] = None,
    connect_timeout: Optional[float] = START_SECONDS,
    probe_timeout: float = 5.0,
    restart: bool = False,
    ping_interval: Optional[float] = None,
    cache: bool = True,
    validate_results: bool = True,
    middleware: Sequence[Callable[[Any, Callable[[], Any]], Any]] = (),
    handlers: Any = None,
    on_log: Optional[Callable[[LogMessage], Any]] = None,
    on_tools_changed: Optional[Callable[[], Any]] = None,
    on_resources_changed: Optional[Callable[[], Any]] = None,
    on_prompts_changed: Optional[Callable[[], Any]] = None,
    on_resource_updated: Optional[Callable[[str], Any]] = None,
    on_restart: Optional[Callable[[], Any]] = None,
    sample: Optional[Callable[[SampleRequest], Union[str, SampleResult]]] = None,
    elicit: Optional[Callable[[ElicitRequest], Any]] = None,
    list_roots: Optional[Callable[[], Iterable[Rootlike]]] = None,
    roots: Optional[Iterable[Rootlike]] = None,
    sampling: Sequence[str] = (),
    elicitation: Sequence[str] = ("form", "url"),
    client_info: Union[Implementation, Mapping[str, Any], None] = None,
    extensions: Union[Sequence[Any], Mapping[str, Json], None] = None,
    send_shutdown: bool = False,
    stderr: Any = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Union[str, os.PathLike[str]]] = None,
    headers: Optional[Mapping[str, str]] = None,
    auth: Any = None,
    verify: Union[bool, str, None] = None,
    cert: Any = None,
    proxies: Optional[Mapping[str, str]] = None,
    config: Optional[Config] = None,
    cancel: Cancel = None,
    trace: Any = None,
    limits: Optional[Limits] = None,
    **misspelled: NoReturn,
) -> Client:
    """Start or open a server, negotiate a revision, and return the `Client`, a context manager.

    Args:
        target: A command or argument list (run without a shell), a ``.py``, ``.js`` or other file,
            a URL, a `Server` object in this process, a `StdioServer`, an `HttpServer`, a
            `ServerCard`, or a name in ``config``.
        config: A host's file, such as "mcp.json", or a mapping of the same form.
        revision: "auto" asks the server first, "handshake" starts an older revision at once, and
            a name such as "2025-06-18" permits only that revision.
        timeout: Seconds for one call (60; None means no limit). The clock stops during questions.
        idle_timeout: Seconds of a call without progress or a result (None: no limit). Calls then
            request progress by themselves. The clock stops during questions.
        connect_timeout: Seconds to start and negotiate (60; None means no limit).
        probe_timeout: Seconds of ``connect_timeout`` to wait for a silent process before the
            handshake is tried (5).
        restart: Whether the next call after a loss starts the server again and renews the
            subscriptions. Lost calls are never sent again.
        ping_interval: Seconds between pings of an idle connection; None means no pings. After three
            pings without a response the connection is lost.
        cache: Whether lists and reads are cached for as long as the server permits (True).
        validate_results: Whether results are checked against listed output schemas (True).
        middleware: Functions such as ``def log(call, call_next): return call_next()``, the first
            outermost. They run around each call, on its thread; examples/by_hand.rst explains them.
        handlers: An object with methods that are named as the callbacks below.
        on_log: Called with each `LogMessage`, from "info" on (see `Client.set_log_level`). All
            ``on_`` functions run on one thread, in order.
        on_tools_changed, on_prompts_changed, on_resources_changed: Called without arguments.
        on_resource_updated: Called with the URI of a changed resource; see `Client.subscribe`.
        on_restart: Called without arguments after the server or its session was started again.
        sample: Takes a `SampleRequest`; returns a str or `SampleResult`, or raises `Refused`.
            ``sample``, ``elicit`` and ``list_roots`` run on worker threads, several at the same
            time.
        elicit: Takes an `ElicitRequest`; returns a dict or dataclass to accept (in url mode an
            empty dict), None to decline, or an `Answer`.
        list_roots, roots: A function that returns paths, URIs or `Root` objects, or a list of them.
        sampling: What else ``sample`` supports: "tools", "context".
        elicitation: What ``elicit`` supports: "form", "url" (default: both).
        client_info: ``name``, ``version``, ... of this client; None means the name of the script.
        extensions: `Extension` objects, such as `Tasks()`, or settings by identifier.
        send_shutdown: Whether `Client.close` sends ``shutdown``, which is not in the specification.
        stderr: Where a process's stderr goes: a file, logger or callable. None means our stderr.
        env, cwd: Variables to add to our environment for a process, and its working directory.
        headers, verify, cert, proxies: For a URL, as in `requests`.
        auth: For a URL: a token, a callable, an ``AuthBase``, or a `SignIn`, `ClientCredentials`,
            `EnterpriseManaged` or `WorkloadIdentity`. None means the token of
            ``minimcp login URL``.
        cancel: A `CancelToken` with which another thread can stop connecting.
        trace: A text file, or a callable that takes ("-->" or "<--", message).
        limits: `Limits` on the resources that the server may use.

    Raises:
        ConnectionFailed: The server did not start, exited or refused; the message shows how.
        RequestTimeout, UnsupportedRevision, Cancelled: The server did not respond in time or
            supports other revisions only, or ``cancel`` was cancelled. A started process was ended.
        OSError, TypeError, ValueError: The config cannot be read, or an argument is invalid.
    """
    given = dict(locals())
    for name in misspelled:
        field = name.replace("max_", "", 1)
        if field in Limits.__match_args__:
            raise TypeError(
                f"connect(...) no longer has an option {name}=: write limits=Limits({field}=...)"
            )
        refuse_options("connect(...)", [name], connect)
    for name in ("restart", "cache", "send_shutdown", "validate_results"):
        require_type(given[name], bool, f"{name} must be True or False")
    require_type(
        extensions,
        (list, tuple, Mapping, type(None)),
        "extensions must be a list of extensions, a mapping or None",
    )
    limits = require_type(
        Limits() if limits is None else limits, Limits, "limits must be Limits(...) or None"
    )
    for name in ("timeout", "idle_timeout", "probe_timeout", "connect_timeout"):
        deadline_of(name, given[name])
    check_interval("ping_interval", ping_interval)
    check_token(cancel)
    wanted = wanted_revisions(revision)
    web = {name: given[name] for name in WEB_OPTIONS if given[name] is not None}
    found = read_target(target, env=env, cwd=cwd, config=config, web=web)
    # With a config, one `stderr=` may be meant for several servers, also for those with a URL.
    takes_stderr = isinstance(found.object, StdioServer) or (config is not None and found.is_web)
    if stderr is not None and not takes_stderr:
        raise TypeError(f"stderr does not apply to {found.what}")
    host = Host(
        handlers,
        {name: given[name] for name in NAMES},
        roots=roots,
        sampling=sampling,
        elicitation=elicitation,
        extensions=extensions,
        limits=limits,
        cache=cache,
        connection=str(target) if config is not None else None,
    )
    if middleware != ():
        from .middleware import ClientMiddleware

        host.middleware = ClientMiddleware(middleware)
    if found.entry is not None:
        host.offers = found.entry.offers
        if timeout is CALL_SECONDS and found.entry.timeout is not None:
            timeout = found.entry.timeout
        if connect_timeout is START_SECONDS and found.entry.connect_timeout is not None:
            connect_timeout = found.entry.connect_timeout
    if client_info is None:
        client_info = Implementation(_program_name() or "minimcp", VERSION)
    elif not isinstance(client_info, Implementation):
        info = require_type(
            client_info, Mapping, "client_info must be an Implementation, a mapping or None"
        )
        client_info = Implementation(**info)
    if found.is_web and not getattr(found.object, "has_auth", True):
        found = found._replace(object=with_stored_token(found.object))
    if trace is not None:
        from ..engine.output import tracer

        trace = tracer(trace)
    options = ConnectOptions(
        found,
        wanted,
        client_info.to_wire(),
        host,
        limits,
        trace,
        stderr,
        connect_timeout,
        probe_timeout,
        ping_interval,
    )
    renew = options.open if restart or found.is_web else None
    try:
        first = options.open(cancel)
        if renew is None:
            sessions = Sessions(first, host, timeout)
        else:
            from .reconnect import Reconnector

            sessions = Reconnector(first, renew, host, timeout, always=restart)
    except BaseException:
        host.close()
        raise
    sessions.idle_timeout = idle_timeout
    client = Client(sessions, send_shutdown=send_shutdown, validate_results=validate_results)
    if host.middleware is not None:
        host.middleware.attach(client)
    if not restart and isinstance(sessions.newest.transport, ChildTransport):
        sessions.newest.transport.advice = RESTART
    return client


def _program_name() -> str:
    """Return the name of the script, or of the package that ``python -m`` runs."""
    script = sys.argv[0] if sys.argv else ""
    if os.path.basename(script) == "__main__.py":
        script = os.path.dirname(script)
    return os.path.basename(script)


# ------------------------------------------------------------ connecting


class ConnectOptions(NamedTuple):
    """The options with which a client connects, the first time and after each loss."""

    target: Target
    wanted: tuple[Revision, ...]
    """The permitted revisions, oldest first."""
    info: Mapping[str, Json]
    """The client's description of itself, as sent."""
    host: Host
    limits: Limits
    trace: Optional[Callable[[str, bytes], None]]
    stderr: Any
    connect_timeout: Optional[float]
    probe_timeout: Optional[float]
    """Seconds after which a silent server gets the older handshake; None if silence means
    nothing."""
    ping_interval: Optional[float] = None
    """Seconds between pings of an idle connection; None means no pings."""

    @property
    def per_request(self) -> Optional[Revision]:
        """The newest permitted stateless revision, or None."""
        return next(
            (revision for revision in reversed(self.wanted) if not revision.handshake), None
        )

    @property
    def handshake(self) -> Optional[Revision]:
        """The newest permitted revision with a handshake, or None."""
        return next((revision for revision in reversed(self.wanted) if revision.handshake), None)

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """Return the capabilities to declare: those of the newest permitted revision of the same
        era."""
        newest = self.handshake if revision.handshake else self.per_request
        return self.host.capabilities(newest or revision)

    def without_probe(self) -> ConnectOptions:
        """Return the same options for a server that fails when it is probed."""
        return self._replace(
            wanted=tuple(revision for revision in self.wanted if revision.handshake)
        )

    def open(self, cancel: Cancel, before: Optional[ClientSession] = None) -> ClientSession:
        """Connect and negotiate.

        Args:
            cancel: A token that another thread can cancel, or None.
            before: The session that the new one replaces; None for the first one.

        Raises what `connect` raises.
        """
        what = self.target.what
        if self.target.entry is None:
            what = f"connect interpreted the target as {what}"
        try:
            return self.open_session(
                partial(self._begin_session, Deadline(self.connect_timeout), cancel, before)
            )
        except (ConnectionFailed, RequestTimeout) as error:
            error.args = (f"{what}: {error}",)
            raise
        except RuntimeError as error:  # since 3.12 no thread can start while the interpreter exits
            raise ConnectionFailed(f"{what}: {error}") from error

    def open_session(self, begin: BeginSession) -> ClientSession:
        """Connect and start a session in each way that the server may support, until one succeeds.

        Raises what `connect` raises.
        """
        if not self.target.is_web:
            return self._open_local_session(begin)
        from ..http.client_sse import open_over_http

        return open_over_http(self, begin)

    def _open_local_session(self, begin: BeginSession) -> ClientSession:
        """Connect, and once more without a probe if the server read the probe and then exited."""
        first = self._open_pipe()
        is_probed = self.per_request is not None and self.handshake is not None
        try:
            try:
                return begin(first, self)
            except ConnectionLost:
                if not (
                    isinstance(self.target.object, StdioServer)
                    and is_probed
                    and first.transport.peer_has_read()
                ):
                    raise
                return begin(self._open_pipe(), self.without_probe())
        except ConnectionLost as lost:  # the new exception carries everything that `lost` says
            said, tail, lines = str(lost).partition(TAIL)
            if len(self.wanted) == 1:
                said += f" (only {self.wanted[0].name} was permitted)"
            hint = next((hint for text, hint in HINTS.items() if text in lost.stderr_tail), "")
            if lost.exit_code == 0:
                hint = (
                    "a server runs until its stdin ends; this program probably never calls "
                    "server.run(). Add the call, or use the target "
                    "'python3 -m minimcp run FILE', in quotes"
                )
            elif lost.exit_code and not lost.stderr_tail:
                hint = "it wrote nothing to stderr: run the command in a terminal to see why"
            raise ConnectionFailed(
                f"{said}{tail}{lines}\n{hint}".rstrip("\n"),
                exit_code=lost.exit_code,
                signal=lost.signal,
                stderr_tail=lost.stderr_tail,
            ) from None

    def _open_pipe(self) -> ClientSession:
        target = self.target.object
        command = getattr(target, "command", ("", ""))
        if len(command) == 1 and re.fullmatch(INTERPRETER, os.path.basename(command[0])):
            way = 'add the server\'s file after it, in a config as "args": ["server.py"]'
            raise ConnectionFailed(f"{command[0]!r} starts an interpreter without a program: {way}")
        pipe: Transport
        if isinstance(target, StdioServer):
            limit = self.limits.message_bytes
            pipe = ChildTransport(target, stderr=self.stderr, limit=limit, grace=GIVE_UP_SECONDS)
        else:
            pipe = self.host.context.copy().run(target.open_pipe)
        return ClientSession.over(pipe, self.host, self.limits, self.trace)

    @staticmethod
    def _begin_session(
        deadline: Deadline,
        cancel: Cancel,
        before: Optional[ClientSession],
        session: ClientSession,
        options: ConnectOptions,
    ) -> ClientSession:
        """Negotiate with the server of a new session, and close the session if that fails.

        Raises what `negotiate` raises.
        """
        try:
            with ExitStack() as afterwards:
                if cancel is not None:
                    afterwards.callback(
                        cancel.on_cancel(
                            lambda: session.stop(Cancelled(cancel.reason or "cancelled"))
                        )
                    )
                negotiate(session, options, deadline)
                session.ready(deadline)
                _begin_subscriptions(session, before, deadline)
            check_token(cancel)  # from here on the token has no effect
            session.keep_alive(options.ping_interval)
        except BaseException:
            session.close()
            raise
        if isinstance(session.transport, ChildTransport):
            session.transport.grace = CLOSE_SECONDS
        return session


def _begin_subscriptions(
    session: ClientSession, before: Optional[ClientSession], deadline: Deadline
) -> None:
    """Subscribe a new session to what the host has callbacks for and its predecessor was subscribed
    to."""
    if before is None and NOTIFIED.isdisjoint(session.host.functions):
        return
    from . import subscriptions

    earlier = None if before is None else subscriptions.of(before)
    subscriptions.of(session).begin(deadline, earlier)


BeginSession = Callable[[ClientSession, ConnectOptions], ClientSession]
"""Negotiates with the server of a new session and returns the session, or closes it if that
fails."""

# ------------------------------------------------------------ negotiating


def wanted_revisions(revision: str) -> tuple[Revision, ...]:
    """Return the revisions that ``revision="auto"``, ``"handshake"`` or a name permits.

    Raises:
        ValueError: The revision does not exist.
    """
    if revision in ("auto", "handshake"):
        return tuple(one for one in REVISIONS if one.handshake or revision == "auto")
    if revision not in BY_NAME:
        raise ValueError(
            f'revision must be "auto", "handshake" or one of {", ".join(BY_NAME)}, not {revision!r}'
        )
    return (BY_NAME[revision],)


def negotiate(session: ClientSession, options: ConnectOptions, deadline: Deadline) -> None:
    """Negotiate the revision of a new session, and set its era.

    The decisions are a table in `lifecycle.judge_probe`; this function sends the requests.

    Args:
        session: The session.
        options: The permitted revisions.
        deadline: When to give up.

    Raises:
        UnsupportedRevision: The two sides have no common revision.
        RequestTimeout: The server did not respond in time.
        ConnectionLost: The server exited or closed the connection.
        ConnectionFailed: The server refused.
        ProtocolViolation: The response is invalid.
    """
    verdict = "refused"
    if options.per_request is not None:
        verdict = _probe(session, options, options.per_request, deadline)
    if verdict == "agreed":
        return
    try:
        _initialize(session, options, deadline)
    except UnsupportedRevision as error:
        if verdict != "silent" or options.per_request is None or not error.from_peer:
            raise
        # The server was slow: it has read the probe by now and may respond to another one.
        if _probe(session, options, options.per_request, deadline) != "agreed":
            raise


def _probe(
    session: ClientSession, options: ConnectOptions, revision: Revision, deadline: Deadline
) -> str:
    """Send `server/discover`. Return "agreed", or "silent" or "refused" if `initialize` is next."""
    limited = options.handshake is not None and options.probe_timeout is not None
    for _ in range(MAX_PROBES):
        answer: Union[dict[str, Json], Exception, None] = None
        envelope = PerRequest.envelope_for(revision, options.info, options.capabilities(revision))
        try:
            seconds = options.probe_timeout if limited else None
            answer = _described(session, "server/discover", {"_meta": envelope}, deadline, seconds)
        except RequestTimeout:
            if options.handshake is None or options.probe_timeout is None:
                raise
        except (RpcError, ProtocolViolation) as error:
            answer = error
        verdict = judge_probe(answer, options.wanted)
        if verdict.error is not None:
            raise verdict.error
        if verdict.revision is None:
            return "silent" if answer is None else "refused"
        revision = verdict.revision
        if isinstance(answer, dict):
            peer, instructions = described_server(
                "server/discover", revision, server_info(answer), answer
            )
            envelope = PerRequest.envelope_for(
                revision, options.info, options.capabilities(revision)
            )
            session.agree(PerRequest(revision, peer, envelope, instructions))
            return "agreed"
    raise UnsupportedRevision(f"{session.name}: the server rejects the revisions that it offers")


def _described(
    session: ClientSession,
    method: str,
    params: dict[str, Json],
    deadline: Deadline,
    seconds: Optional[float] = None,
) -> dict[str, Json]:
    """Return the server's description of itself.

    Args:
        session: The session.
        method: `server/discover` or `initialize`.
        params: The params of the request.
        deadline: When to give up, however often the server is busy.
        seconds: Maximum seconds for one request; None means until the deadline.

    Raises:
        ProtocolViolation: The description is too large.
        McpError: As `negotiate`.
    """
    try:
        result = _requested(session, method, params, deadline, seconds)
    except RequestTimeout:
        tail = getattr(session.transport, "stderr_tail", "")
        served = SERVES_HTTP.search(tail)
        if served is None:
            raise
        way = f'it serves over HTTP: connect to {served[1]}, or call run() without "http"'
        message = f"{session.name} does not respond: {way}"
        raise ConnectionFailed(message, stderr_tail=tail) from None
    if size_of(result, MAX_DESCRIPTION_BYTES) > MAX_DESCRIPTION_BYTES:
        raise ProtocolViolation(
            f"the result of {method} must use at most {MAX_DESCRIPTION_BYTES} bytes of memory"
        )
    return result


def _requested(
    session: ClientSession,
    method: str,
    params: dict[str, Json],
    deadline: Deadline,
    seconds: Optional[float],
) -> dict[str, Json]:
    """Send a request of the negotiation, and retry while the server is busy.

    Arguments are those of `_described`.
    """
    for _ in range(MAX_BUSY_TRIES):
        try:
            within = deadline if seconds is None else deadline.within(seconds)
            return session.request(method, params, within)
        except Busy as error:
            busy = error
        if not session.wait_while_busy(busy, deadline):
            break
    if busy.answer is None:
        raise busy
    return session.result_of(method, busy.answer)


def _initialize(session: ClientSession, options: ConnectOptions, deadline: Deadline) -> None:
    revision = options.handshake
    assert revision is not None  # `judge_probe` asks for a handshake only if one is permitted
    try:
        params = Handshake.opening(revision, options.info, options.capabilities(revision))
        result = _described(session, "initialize", params, deadline)
    except UnsupportedRevision:
        raise
    except RpcError as error:
        if isinstance(error.data, dict) and "supported" in error.data:
            text = f"{error.message}: the server supports {error.data['supported']}"
            raise error_from_peer(error.code, text, error.data, kind=UnsupportedRevision) from None
        raise ConnectionFailed(f"{session.name}: the server refused initialize: {error}") from None
    session.agree(Handshake.from_result(result, options.wanted))
    session.notify("notifications/initialized", {}, deadline)


# ------------------------------------------------------------ interpreting the target


_WEB = "headers, auth, verify, cert and proxies"


class Target(NamedTuple):
    """The server that `connect` takes its argument for."""

    what: str
    """A description for messages."""
    object: Any
    """A `StdioServer`, an `HttpServer` or a server object in this process."""
    is_web: bool = False
    """Whether `object` is an `HttpServer`."""
    entry: Optional[ConfigEntry] = None
    """The entry of a config, or None if the target is not a name in one."""


def read_target(
    target: Any,
    *,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Union[str, os.PathLike[str]]] = None,
    config: Optional[Config] = None,
    web: Optional[Mapping[str, Any]] = None,
) -> Target:
    """Interpret a target in the documented order.

    Args:
        target: As for `connect`, like the next three.
        env: None means none.
        cwd: None means the current directory.
        config: None if the target is not a name in a config.
        web: The options that apply to a URL only, by name; None means none.

    Raises:
        TypeError: The target does not name a server, or an option does not apply to it.
        ValueError: The target is an empty command or an invalid URL, or is not in the config.
        ConnectionFailed: The target is a file that does not exist.
        OSError: The config cannot be read.
    """
    local = env is not None or cwd is not None
    if config is not None:
        _refuse(local, "env and cwd belong in the config")
        _refuse(web, f"{_WEB} belong in the config")
        require_type(target, str, "with config= the target must be the server's name, a str")
        from .config import read_servers

        servers = read_servers(config)
        entry = servers.entry(target)
        what = f"the server {target!r}" + (f" in {servers.where}" if servers.where else "")
        if entry.sources:
            what += f": {', '.join(entry.sources[:MAX_SHOWN_SOURCES])}"
        return read_target(entry.target)._replace(what=what, entry=entry)
    if isinstance(target, str) and target.lower().startswith(("http://", "https://")):
        from ..http.client import HttpServer

        _refuse(local, "env and cwd do not apply to a server with a URL")
        return Target("a URL", HttpServer(target, **(web or {})), is_web=True)
    if callable(getattr(target, "remote", None)):  # a ServerCard
        target = target.remote()
    is_web = callable(getattr(target, "fetcher", None)) and not isinstance(target, type)
    if web and isinstance(target, str):
        from .command import refuse_address

        refuse_address(target)
    if is_web:
        _refuse(web, f"{_WEB} belong in the HttpServer")
        _refuse(local, "env and cwd do not apply to a server with a URL")
        return Target("an HttpServer", target, is_web)
    _refuse(web, f"{_WEB} apply only to a server with a URL")
    if callable(getattr(target, "open_pipe", None)) and not isinstance(target, type):
        _refuse(local, "env and cwd do not apply to a server in this process")
        return Target(f"a server in this process ({target!r})", target)
    if isinstance(target, StdioServer):
        _refuse(local, "env and cwd belong in the StdioServer")
        return Target("a StdioServer", target)
    what, command = _command(target, "" if cwd is None else os.fspath(cwd))
    if not command:
        raise ValueError("the command must not be empty")
    return Target(what, StdioServer(command, env=env, cwd=cwd))


def with_stored_token(server: Any) -> Any:
    """Return a copy of an `HttpServer` that uses the token stored by ``minimcp login``.

    The token is looked up when the server returns 401. A server that is reached without TLS has no
    stored token.
    """
    from ..http.fetch import StoredAuth
    from ..protocol.urls import parse_web_url

    parts = parse_web_url(server.url, userinfo=True)
    if parts.scheme != "https" and not parts.is_local:
        return server
    server = copy(server)
    server.fetcher = partial(server.fetcher, stored=StoredAuth())
    return server


def _refuse(given: object, reason: str) -> None:
    """Raise TypeError if any of these options was given."""
    if given:
        raise TypeError(reason)


def _command(target: Any, cwd: str) -> tuple[str, Sequence[str]]:
    """Return a description of the target, and the command that it means."""
    if isinstance(target, (list, tuple)):
        return "an argument list", [os.fspath(part) for part in target]
    from . import command

    if isinstance(target, os.PathLike):
        return "a file", command.run_file(target, cwd)
    if isinstance(target, str):
        return command.of_text(target, cwd)
    cls = target if isinstance(target, type) else type(target)
    # Without the module of the decorators, no method can be marked.
    decorators = sys.modules.get(f"{__package__.rpartition('.')[0]}.server.options")
    has_marks = decorators is not None and decorators.has_marks(cls)
    if cls is target:
        way = f"connect(Server.of({cls.__name__}()))" if has_marks else "give an instance of it"
        raise TypeError(f"{cls.__name__} is a class: {way}")
    way = (
        ": to serve an object with marked methods, write connect(Server.of(...))"
        if has_marks
        else ""
    )
    raise TypeError(
        f"a target must be a command, a file, a URL or a Server object, not {cls.__name__}{way}"
    )
