"""`connect`: from whatever names a server to a `Client` that has agreed with it.

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
from ..engine.transport import tracer
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
from ..stdio.child import (
    CLOSE_SECONDS,
    ChildTransport,
    StdioServer,
)
from ..types import Implementation
from .calls import Sessions
from .client import Client
from .host import NAMES, NOTIFIED, Host, Rootlike
from .session import MOST_BUSY, Cancel, ClientSession, check_token, deadline_of, require_type

if TYPE_CHECKING:
    from typing import Protocol

    from ..engine.transport import Transport
    from ..http.client import HttpServer
    from ..types import ElicitRequest, LogMessage, SampleRequest, SampleResult
    from .config import Config, ConfigEntry

    class ServerObject(Protocol):
        """A server of this process, as `Server` is."""

        def open_pipe(self) -> Transport:
            """A client's end of a new connection."""

    Connectable = Union[str, Path, Sequence[str], StdioServer, HttpServer, ServerObject]

LATE = frozenset(
    {
        "extensions.client_skills",
        "extensions.client_tasks",
        "http.client",
        "http.client_sse",
        "http.fetch",
    }
)
"""Every module outside the core that a module of client/ may import, on first use. An import
anywhere else is a mistake, which tests/test_layers.py reports."""

GIVE_UP_SECONDS = 0.2
"""What a server that has not agreed gets to exit, and again after SIGTERM: the time to connect is
over then."""

WEB_OPTIONS = ("headers", "auth", "verify", "cert", "proxies")
"""Those of `connect` that go with a URL."""

INTERPRETER = r"(?i)(python|pypy|node|bash|sh)[\d.]*(\.exe)?"
"""A program that alone would take the messages for a program."""

LIKELY = {
    "No module named "
    "'minimcp'": "this Python has no minimcp: name the one that has it, or install it there with "
    "pip",
    "can't open "
    "file": "is it there? Name it by its whole path: hosts start servers from a folder of their "
    "own",
}
"""What to mend where a server ended at once, by words of its stderr."""

SERVES_HTTP = re.compile(r" serves at (https?://[\w.:/\[\]-]{1,200})")
"""What a server of this library writes to stderr when it serves over HTTP."""

DESCRIPTION_BYTES = 4 * 1024 * 1024
"""Bytes of memory that a server may take to describe itself."""

CALL_SECONDS = 60.0
START_SECONDS = 60.0
"""The defaults of ``timeout`` and ``connect_timeout``. `connect` compares by identity: a config may
replace a default, and not a number that the program gave."""

RESTART = "connect(..., restart=True) starts the server again at the next call"

SHOWN_SOURCES = 3
"""Members of an entry whose source a message names."""

MOST_PROBES = 3
"""The first, and twice more for a server that names another revision; it may name the one that it
refused."""


@keywords_shown
def connect(
    target: Connectable,
    *,
    revision: str = "auto",
    timeout: Optional[float] = CALL_SECONDS,
    connect_timeout: Optional[float] = START_SECONDS,
    probe_timeout: float = 5.0,
    restart: bool = False,
    ping_interval: Optional[float] = None,
    cache: bool = True,
    validate_results: bool = True,
    handlers: Any = None,
    on_log: Optional[Callable[[LogMessage], Any]] = None,
    on_tools_changed: Optional[Callable[[], Any]] = None,
    on_resources_changed: Optional[Callable[[], Any]] = None,
    on_prompts_changed: Optional[Callable[[], Any]] = None,
    on_resource_updated: Optional[Callable[[str], Any]] = None,
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
    **misspelt: NoReturn,
) -> Client:
    """Start or open a server, agree with it on a revision, and return the client. Use it as a
    context manager.

    Args:
        target: A `Server` object (in memory), a `StdioServer` or `HttpServer`, an argument list, a
            URL (Streamable HTTP, or the older HTTP+SSE), a file (.py runs by this Python, .js and
            .mjs by node; others as a `Path` or as "./file"), or a command line, which no shell
            sees. With ``config``, a name in it.
        revision: "auto" finds out; "handshake" never probes; a name asks for exactly that revision.
        timeout: Seconds the server may take for one call, all rounds of questions together; None
            waits for ever. The clock stands while ``sample``, ``elicit`` or ``list_roots`` answers.
        connect_timeout: Seconds for the start of the process and for agreeing, together; None waits
            for ever.
        probe_timeout: How many of these seconds a silent process gets before the older handshake is
            tried.
        restart: True: after a loss the next call starts or opens the server anew, agrees with it
            again within ``connect_timeout`` and subscribes again to what was subscribed to. Lost
            calls are never sent again.
        ping_interval: Seconds between two pings of the server while the connection is idle; None
            sends none. Each ping without a response is logged. After three in a row the connection
            is lost, and with ``restart=True`` the next call begins another one. A server in memory
            is not pinged.
        cache: Whether lists, reads and `server/discover` are kept as long as the server says that
            they stay true.
        validate_results: Whether structured results are checked against the output schemas of tools
            that were listed. A call can say otherwise by ``validate=``.
        handlers: An object with any of the functions that follow, by the same names; None has none.
            Each call of them runs in its own copy of the `contextvars` context of this call.
        on_log: Called with each log message of the server, one at a time, on one thread, as all
            ``on_...``: from "info" on, until `Client.set_log_level` says otherwise.
        on_tools_changed: Called when the list of tools has changed.
        on_resources_changed: Called when the list of resources has changed.
        on_prompts_changed: Called when the list of prompts has changed.
        on_resource_updated: Called with the URI of a resource that has changed.
        sample: Gets a `SampleRequest` and returns a str or a `SampleResult`. Having it declares
            sampling. This and the next two run on worker threads, several at once; raising
            `Refused` refuses.
        elicit: Gets an `ElicitRequest` and returns a dict or a dataclass (accept), None (decline)
            or an `Answer`; in url mode an empty dict accepts.
        list_roots: Returns the paths, URIs or `Root` objects that the server may work in.
        roots: These, instead of a function; None gives none. See `Client.set_roots`.
        sampling: What else ``sample`` can do and this client declares: "tools", "context".
        elicitation: What ``elicit`` can do and this client declares: "form", "url".
        client_info: How this client describes itself (``name``, ``version``, ...), as a mapping or
            an `Implementation`; None describes the running script.
        extensions: `Extension` objects, such as `Tasks()`, in a list; or what to declare only, by
            identifier, each with an object of settings; None declares none.
        send_shutdown: Whether `Client.close` sends a `shutdown` request first, which some servers
            expect though the specification has none; in 2026-07-28 never.
        stderr: Where the server's stderr goes: None to ours, or a file, a logger or a callable that
            gets lines.
        env: Laid over the environment of this process; None adds nothing.
        cwd: The server's working directory; None takes ours.
        headers: Sent with every request to a URL; None adds none. So the next four, too.
        auth: A bearer token, a callable that returns one for each request, an AuthBase of
            `requests`, or how to get tokens: `SignIn`, `ClientCredentials`, `EnterpriseManaged` or
            `WorkloadIdentity`. None uses the token that ``minimcp login URL`` has stored, if the
            server wants one.
        verify: Whether the server's certificate is checked (None: it is); a path names a bundle of
            CAs to check it by.
        cert: A client certificate: the path of a file with key and certificate, or a pair of paths.
        proxies: By scheme, as `requests` takes them; None leaves it to the environment.
        config: A file such as ``"mcp.json"`` in which ``target`` is the name of a server (see
            `minimcp.client.config.read_servers`), or a mapping like it; None when the target is no
            such name.
        cancel: Gives the attempt up, from another thread; None for one that nobody cancels.
        trace: A text file, or a callable that gets ("-->" or "<--", message); None for no trace.
        limits: What the server may cost, as a `Limits`: bytes and depth of messages, questions
            answered at the same time, bytes of kept results; None takes the defaults.

    Raises:
        ConnectionFailed: It did not start, went away, or refused; the message says what was run and
            how it ended.
        RequestTimeout: It did not answer in time.
        UnsupportedRevision: There is no revision in common.
        Cancelled: The token was cancelled; the server is ended.
        OSError: The config cannot be read.
        TypeError, ValueError: An argument cannot be what it is.
    """
    given = dict(locals())
    for name in misspelt:
        field = name.replace("max_", "", 1)
        if field in Limits.__dataclass_fields__:
            raise TypeError(
                f"connect(...) has no option {name}= any more: say limits=Limits({field}=...)"
            )
        refuse_options("connect(...)", [name], connect)
    for name in ("restart", "cache", "send_shutdown", "validate_results"):
        require_type(given[name], bool, f"{name} is True or False")
    require_type(
        extensions,
        (list, tuple, Mapping, type(None)),
        "extensions is a list of extensions, a mapping or None",
    )
    limits = require_type(
        Limits() if limits is None else limits, Limits, "limits is Limits(...) or None"
    )
    for name in ("timeout", "probe_timeout", "connect_timeout"):
        deadline_of(name, given[name])
    check_interval("ping_interval", ping_interval)
    check_token(cancel)
    wanted = wanted_revisions(revision)
    web = {name: given[name] for name in WEB_OPTIONS if given[name] is not None}
    found = read_target(target, env=env, cwd=cwd, config=config, web=web)
    takes_stderr = isinstance(found.object, StdioServer) or (
        config is not None and found.is_web
    )  # one for many, there
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
    if found.entry is not None:
        host.offers = found.entry.offers
        if timeout is CALL_SECONDS and found.entry.timeout is not None:
            timeout = found.entry.timeout
        if connect_timeout is START_SECONDS and found.entry.connect_timeout is not None:
            connect_timeout = found.entry.connect_timeout
    if client_info is None:
        client_info = Implementation(
            os.path.basename(sys.argv[0] if sys.argv else "") or "minimcp", VERSION
        )
    elif not isinstance(client_info, Implementation):
        info = require_type(
            client_info, Mapping, "client_info is an Implementation, a mapping or None"
        )
        client_info = Implementation(**info)
    if found.is_web and not getattr(found.object, "has_auth", True):
        found = found._replace(object=with_stored_token(found.object))
    described, traced = client_info.to_wire(), tracer(trace)
    options = ConnectOptions(
        found,
        wanted,
        described,
        host,
        limits,
        traced,
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
    if not restart and isinstance(sessions.newest.transport, ChildTransport):
        sessions.newest.transport.advice = RESTART
    return Client(sessions, send_shutdown=send_shutdown, validate_results=validate_results)


# ------------------------------------------------------------ connecting


class ConnectOptions(NamedTuple):
    """The options with which a client connects, for the first time and after each loss."""

    target: Target
    wanted: tuple[Revision, ...]
    """What it may speak, oldest first."""
    info: Mapping[str, Json]
    """How it describes itself."""
    host: Host
    limits: Limits
    trace: Optional[Callable[[str, bytes], None]]
    stderr: Any
    connect_timeout: Optional[float]
    probe_timeout: Optional[float]
    """Seconds that a silent server gets before the older handshake is tried; None where silence
    says nothing."""
    ping_interval: Optional[float] = None
    """Seconds between two pings of an idle connection; None sends none."""

    @property
    def per_request(self) -> Optional[Revision]:
        """The newest revision without a handshake; None when none is wanted."""
        return next(
            (revision for revision in reversed(self.wanted) if not revision.handshake), None
        )

    @property
    def handshake(self) -> Optional[Revision]:
        """The newest revision with a handshake; None when none is wanted."""
        return next((revision for revision in reversed(self.wanted) if revision.handshake), None)

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """What is declared; the newest revision of an era says what there is to declare in it."""
        newest = self.handshake if revision.handshake else self.per_request
        return self.host.capabilities(newest or revision)

    def without_probe(self) -> ConnectOptions:
        """The same for a server that cannot bear to be probed."""
        return self._replace(
            wanted=tuple(revision for revision in self.wanted if revision.handshake)
        )

    def open(self, cancel: Cancel, before: Optional[ClientSession] = None) -> ClientSession:
        """Connect and agree.

        Args:
            cancel: Gives the attempt up; None for one that nobody cancels.
            before: The session whose place this one takes; None for the first.

        Raises: as `connect`.
        """
        what = f"connect took the target for {self.target.what}"
        try:
            return self.open_session(
                partial(self._begin_session, Deadline(self.connect_timeout), cancel, before)
            )
        except (ConnectionFailed, RequestTimeout) as error:
            error.args = (f"{what}: {error}",)
            raise
        except RuntimeError as error:  # from 3.12 on no thread starts at the end of an interpreter
            raise ConnectionFailed(f"{what}: {error}") from error

    def open_session(self, begin: BeginSession) -> ClientSession:
        """Connect, and begin a session in each way that the server may want, until one succeeds.

        Errors as `connect`.
        """
        if not self.target.is_web:
            return self._open_local_session(begin)
        from ..http.client_sse import open_over_http

        return open_over_http(self, begin)

    def _open_local_session(self, begin: BeginSession) -> ClientSession:
        """Connect, and once more without a probe if the server may have died of it: it has read of
        it, then."""
        first, is_probed = (
            self._open_pipe(),
            self.per_request is not None and self.handshake is not None,
        )
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
        except ConnectionLost as lost:  # the message of what is raised says all that the loss does
            only = f" (only {self.wanted[0].name} was wanted)" if len(self.wanted) == 1 else ""
            hint = next((way for words, way in LIKELY.items() if words in lost.stderr_tail), "")
            if lost.exit_code == 0:
                hint = "a server runs until its stdin ends: does this program call server.run()?"
            elif lost.exit_code and not lost.stderr_tail:
                hint = (
                    "it wrote nothing to stderr: run this command in a terminal to see what it does"
                )
            raise ConnectionFailed(
                f"{lost}{only}\n{hint}".rstrip("\n"),
                exit_code=lost.exit_code,
                signal=lost.signal,
                stderr_tail=lost.stderr_tail,
            ) from None

    def _open_pipe(self) -> ClientSession:
        target = self.target.object
        command = getattr(target, "command", ("", ""))
        if len(command) == 1 and re.fullmatch(INTERPRETER, os.path.basename(command[0])):
            way = 'write the file of the server behind it, in a config as "args": ["server.py"]'
            raise ConnectionFailed(f"{command[0]!r} starts an interpreter without a program: {way}")
        pipe = (
            self.host.context.copy().run(target.open_pipe)
            if not isinstance(target, StdioServer)
            else ChildTransport(
                target, stderr=self.stderr, limit=self.limits.message_bytes, grace=GIVE_UP_SECONDS
            )
        )
        return ClientSession.over(pipe, self.host, self.limits, self.trace)

    @staticmethod
    def _begin_session(
        deadline: Deadline,
        cancel: Cancel,
        before: Optional[ClientSession],
        session: ClientSession,
        options: ConnectOptions,
    ) -> ClientSession:
        """Negotiate with the server of a new session, which is closed if that fails.

        Errors as `negotiate`.
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
            check_token(cancel)  # which ends nothing from here on
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
    """Have a new session tell what the host has callbacks for, and what the one before told."""
    if before is None and NOTIFIED.isdisjoint(session.host.functions):
        return
    from . import subscriptions

    earlier = None if before is None else subscriptions.of(before)
    subscriptions.of(session).begin(deadline, earlier)


BeginSession = Callable[[ClientSession, ConnectOptions], ClientSession]
"""Negotiates with the server of a new session and returns the session; closes it if that fails."""

# ------------------------------------------------------------ agreeing


def wanted_revisions(revision: str) -> tuple[Revision, ...]:
    """What ``revision="auto"``, ``"handshake"`` or one name stands for.

    Raises:
        ValueError: There is no such revision.
    """
    if revision in ("auto", "handshake"):
        return tuple(one for one in REVISIONS if one.handshake or revision == "auto")
    if revision not in BY_NAME:
        raise ValueError(
            f'revision is "auto", "handshake" or one of {", ".join(BY_NAME)}, not {revision!r}'
        )
    return (BY_NAME[revision],)


def negotiate(session: ClientSession, options: ConnectOptions, deadline: Deadline) -> None:
    """Agree with the server on a new connection, which knows the era afterwards.

    The verdicts are a table in `lifecycle.judge_probe`; here is what is sent and waited for.

    Args:
        session: The connection.
        options: What this client may speak.
        deadline: For all of it.

    Raises:
        UnsupportedRevision: There is nothing in common.
        RequestTimeout: The server did not answer in time.
        ConnectionLost: It went away.
        ConnectionFailed: It refused.
        ProtocolViolation: Its answer was none.
    """
    verdict = (
        "refused"
        if options.per_request is None
        else _probe(session, options, options.per_request, deadline)
    )
    if verdict == "agreed":
        return
    try:
        _initialize(session, options, deadline)
    except UnsupportedRevision as error:
        if verdict != "silent" or options.per_request is None or not error.from_peer:
            raise
        if (
            _probe(session, options, options.per_request, deadline) != "agreed"
        ):  # it was slow, and knows of the probe now
            raise


def _probe(
    session: ClientSession, options: ConnectOptions, revision: Revision, deadline: Deadline
) -> str:
    """Ask `server/discover`: "agreed", or else "silent" or "refused", and `initialize` is to be
    tried."""
    limited = options.handshake is not None and options.probe_timeout is not None
    for _ in range(MOST_PROBES):
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
    raise UnsupportedRevision(
        f"{session.name}: the server refuses the revisions that it names itself"
    )


def _described(
    session: ClientSession,
    method: str,
    params: dict[str, Json],
    deadline: Deadline,
    seconds: Optional[float] = None,
) -> dict[str, Json]:
    """Return how a server describes itself.

    Args:
        session: The connection.
        method: `server/discover` or `initialize`.
        params: Its params.
        deadline: When to give up, however often the server was busy.
        seconds: How long one request may take; None leaves that to the deadline.

    Raises:
        ProtocolViolation: The description is too long.
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
        raise ConnectionFailed(f"{session.name} does not answer: {way}", stderr_tail=tail) from None
    if size_of(result, DESCRIPTION_BYTES) > DESCRIPTION_BYTES:
        raise ProtocolViolation(
            f"{method} is answered by at most {DESCRIPTION_BYTES} bytes of memory"
        )
    return result


def _requested(
    session: ClientSession,
    method: str,
    params: dict[str, Json],
    deadline: Deadline,
    seconds: Optional[float],
) -> dict[str, Json]:
    """Send a request of the handshake, again while the server is busy. Arguments as
    `_described`."""
    for _ in range(MOST_BUSY):
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
    assert revision is not None  # the verdict is "handshake" only where one is wanted
    try:
        params = Handshake.opening(revision, options.info, options.capabilities(revision))
        result = _described(session, "initialize", params, deadline)
    except UnsupportedRevision:
        raise
    except RpcError as error:
        if isinstance(error.data, dict) and "supported" in error.data:
            text = f"{error.message}: the server speaks {error.data['supported']}"
            raise error_from_peer(error.code, text, error.data, kind=UnsupportedRevision) from None
        raise ConnectionFailed(f"{session.name}: the server refused initialize: {error}") from None
    session.agree(Handshake.from_result(result, options.wanted))
    session.notify("notifications/initialized", {}, deadline)


# ------------------------------------------------------------ what the target names


_WEB = "headers, auth, verify, cert and proxies"


class Target(NamedTuple):
    """What `connect` took its argument for."""

    what: str
    """In words, for messages."""
    object: Any
    """A `StdioServer`, an `HttpServer`, or the server itself, when it is an object in this
    process."""
    is_web: bool = False
    """Whether it is an `HttpServer`."""
    entry: Optional[ConfigEntry] = None
    """What a config says about it; None if it was not named in one."""


def read_target(
    target: Any,
    *,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Union[str, os.PathLike[str]]] = None,
    config: Optional[Config] = None,
    web: Optional[Mapping[str, Any]] = None,
) -> Target:
    """Decide what a target is, in the documented order.

    Args:
        target: As `connect` takes it, and so the next three.
        env: None adds nothing.
        cwd: None takes ours.
        config: None when the target is no name in a config.
        web: What was given of the options that go with a URL; None for nothing.

    Raises:
        TypeError: It is nothing that names a server, or an option does not apply to it.
        ValueError: It is an empty command, no URL of a server, or not in the config.
        ConnectionFailed: It is a file that is not there.
        OSError: The config cannot be read.
    """
    local = env is not None or cwd is not None
    if config is not None:
        _refuse(local, "env and cwd are part of the config")
        _refuse(web, f"{_WEB} are part of the config")
        require_type(target, str, "with config= a server is given by its name, a str")
        from .config import read_servers

        servers = read_servers(config)
        entry = servers.entry(target)
        what = f"the server {target!r}" + (f" of {servers.where}" if servers.where else "")
        if entry.sources:
            what += f": {', '.join(entry.sources[:SHOWN_SOURCES])}"
        return read_target(entry.target)._replace(what=what, entry=entry)
    if isinstance(target, str) and target.lower().startswith(("http://", "https://")):
        from ..http.client import HttpServer

        _refuse(local, "env and cwd do not apply to a server with a URL")
        return Target("a URL", HttpServer(target, **(web or {})), is_web=True)
    is_web = callable(getattr(target, "fetcher", None)) and not isinstance(target, type)
    if web and isinstance(target, str):
        from .command import refuse_address

        refuse_address(target)
    _refuse(
        web,
        f"{_WEB} are part of the HttpServer"
        if is_web
        else f"{_WEB} apply to a server with a URL only",
    )
    if is_web:
        _refuse(local, "env and cwd do not apply to a server with a URL")
        return Target("an HttpServer", target, is_web)
    if callable(getattr(target, "open_pipe", None)) and not isinstance(target, type):
        _refuse(local, "env and cwd do not apply to a server in this process")
        return Target(f"a server in this process ({target!r})", target)
    if isinstance(target, StdioServer):
        _refuse(local, "env and cwd are part of the StdioServer")
        return Target("a StdioServer", target)
    what, command = _command(target, "" if cwd is None else os.fspath(cwd))
    if not command:
        raise ValueError("an empty command starts nothing")
    return Target(what, StdioServer(command, env=env, cwd=cwd))


def with_stored_token(server: Any) -> Any:
    """Return the same `HttpServer` with the token that ``minimcp login`` has stored for it.

    The token is looked up when the server returns 401. None is stored for a server that is reached
    in the clear.
    """
    from ..http.fetch import StoredAuth
    from ..protocol.urls import parse_web_url

    parts = parse_web_url(server.url, userinfo=True)
    if parts.scheme != "https" and not parts.is_local:
        return server
    server = copy(server)
    server.fetcher = partial(server.fetcher, stored=StoredAuth())
    return server


def _refuse(given: object, why: str) -> None:
    """Refuse options that cannot be, if they were given."""
    if given:
        raise TypeError(why)


def _command(target: Any, cwd: str) -> tuple[str, Sequence[str]]:
    """Return the command for a target, and what the target was taken for."""
    if isinstance(target, (list, tuple)):
        return "an argument list", [os.fspath(part) for part in target]
    from . import command

    if isinstance(target, os.PathLike):
        return "a file", command.run_file(target, cwd)
    if isinstance(target, str):
        return command.of_text(target, cwd)
    cls = target if isinstance(target, type) else type(target)
    # Methods can be marked only if the module of the decorators was imported.
    decorators = sys.modules.get(f"{__package__.rpartition('.')[0]}.server.options")
    has_marks = decorators is not None and decorators.has_marks(cls)
    if cls is target:
        way = f"connect(Server.of({cls.__name__}()))" if has_marks else "give an instance of it"
        raise TypeError(f"{cls.__name__} is a class: {way}")
    way = ": connect(Server.of(...)) serves an object with marked methods" if has_marks else ""
    raise TypeError(
        "a server is named by a command, a file, a URL or a Server object, not by "
        f"{cls.__name__}{way}"
    )
