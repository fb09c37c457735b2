"""`connect`: from whatever names a server to a `Client` that has agreed with it.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NoReturn, Optional, Sequence, Union

from .. import __version__ as VERSION
from ..engine.connection import Connection
from ..engine.limits import Limits
from ..engine.requests import CancelToken
from ..engine.timer import Deadline
from ..engine.transport import Transport, tracer
from ..errors import Cancelled, ConnectionFailed, ConnectionLost, RequestTimeout
from ..protocol.messages import Json
from ..protocol.options import FLAG, MAPPING, check_options, count
from ..protocol.versions import Revision
from ..stdio import child
from ..stdio.child import ChildTransport
from ..types import Implementation
from ..types.meta import check_extensions
from .answering import Answerer
from .arguments import check_token, moment
from .cache import Cache
from .cacheable import CacheableCalls
from .callbacks import ClientRole, Dispatcher
from .client import Client
from .handlers import Handlers, Rootlike
from .link import Link, Links
from .negotiation import Era, Plan, negotiate, wanted_revisions
from .targets import Target, read_target

if TYPE_CHECKING:
    from ..types import ElicitRequest, SampleRequest, SampleResult
    from .config import Config

MAX_MESSAGE_BYTES = 64 * 1024 * 1024

GIVE_UP_SECONDS = 0.2
"""What a server that has not agreed gets to exit, and again after SIGTERM: the time to connect is over then."""


def connect(
    target: Any,
    *,
    revision: str = "auto",
    timeout: Optional[float] = 60.0,
    connect_timeout: Optional[float] = 60.0,
    probe_timeout: float = 5.0,
    restart: bool = False,
    cache: bool = True,
    handlers: Any = None,
    on_log: Optional[Callable[[Any], Any]] = None,
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
    extensions: Optional[Mapping[str, Json]] = None,
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
    cancel: Optional[CancelToken] = None,
    trace: Any = None,
    max_message_bytes: Optional[int] = MAX_MESSAGE_BYTES,
    max_depth: Optional[int] = 256,
    max_workers: Optional[int] = 64,
    max_backlog_bytes: Optional[int] = 64 * 1024 * 1024,
    write_timeout: Optional[float] = 30.0,
    max_cache_bytes: Optional[int] = 16 * 1024 * 1024,
    **misspelt: NoReturn,
) -> Client:
    """Start or open a server, agree with it on a revision, and return the client. Use it as a context manager.

    Args:
        target: A `Server` object (in memory), a `StdioServer` or `HttpServer`, an argument list, a URL (Streamable
            HTTP, or the older HTTP+SSE), a path or name of a file (.py runs by this Python, .js and .mjs by node), or
            a command line, which no shell sees. With ``config``, a name in it.
        revision: "auto" finds out; "handshake" never probes; a name asks for exactly that revision.
        timeout: Seconds the server may take for one call, all rounds of questions together; None waits for ever. The
            clock stands while ``sample``, ``elicit`` or ``list_roots`` answers.
        connect_timeout: Seconds for the start of the process and for agreeing, together; None waits for ever.
        probe_timeout: How many of these seconds a silent process gets before the older handshake is tried.
        restart: True: after a loss the next call starts or opens the server anew, agrees with it again within
            ``connect_timeout`` and subscribes again to what was subscribed to. Lost calls are never sent again.
        cache: Whether lists, reads and `server/discover` are kept as long as the server says that they stay true.
        handlers: An object with any of the functions that follow, by the same names; None has none.
        on_log: Called with each log message of the server, one at a time, on one thread, as all ``on_...``: from "info"
            on, until `Client.set_log_level` says otherwise.
        on_tools_changed: Called when the list of tools has changed.
        on_resources_changed: Called when the list of resources has changed.
        on_prompts_changed: Called when the list of prompts has changed.
        on_resource_updated: Called with the URI of a resource that has changed.
        sample: Gets a `SampleRequest` and returns a str or a `SampleResult`. Having it declares sampling. This and the
            next two run on worker threads, several at once; raising `Refused` refuses.
        elicit: Gets an `ElicitRequest` and returns a dict or a dataclass (accept), None (decline) or an `Answer`; in
            url mode an empty dict accepts.
        list_roots: Returns the paths, URIs or `Root` objects that the server may work in.
        roots: These, instead of a function; None gives none. See `Client.set_roots`.
        sampling: What else ``sample`` can do and this client declares: "tools", "context".
        elicitation: What ``elicit`` can do and this client declares: "form", "url".
        client_info: How this client describes itself (``name``, ``version``, ...), as a mapping or an
            `Implementation`; None describes the running script.
        extensions: Extensions to declare, by identifier; None declares none.
        send_shutdown: Whether `Client.close` sends a `shutdown` request first, which some servers expect though the
            specification has none; in 2026-07-28 never.
        stderr: Where the server's stderr goes: None to ours, or a file, a logger or a callable that gets lines.
        env: Laid over the environment of this process; None adds nothing.
        cwd: The server's working directory; None takes ours.
        headers: Sent with every request to a URL; None adds none. So the next four, too.
        auth: A bearer token, a callable that returns one for each request, or an AuthBase of `requests`.
        verify: Whether the server's certificate is checked (None: it is); a path names a bundle of CAs to check it by.
        cert: A client certificate: the path of a file with key and certificate, or a pair of paths.
        proxies: By scheme, as `requests` takes them; None leaves it to the environment.
        config: A file such as ``"mcp.json"`` in which ``target`` is the name of a server (see
            `minimcp.config.read_servers`), or a mapping like it; None when the target is no such name.
        cancel: Gives the attempt up, from another thread; None for one that nobody cancels.
        trace: A text file, or a callable that gets ("-->" or "<--", message); None for no trace.
        max_message_bytes: The longest message; None means no limit, here and below.
        max_depth: How deep arrays and objects of a message may nest.
        max_workers: Handlers that run at the same time.
        max_backlog_bytes: Bytes that the server has not taken before reading stops.
        write_timeout: Seconds after which a server that takes no byte is lost.
        max_cache_bytes: Bytes of results that are kept; those that were not used for longest go first.

    Raises:
        ConnectionFailed: It did not start, went away, or refused; the message says what was run and how it ended.
        RequestTimeout: It did not answer in time.
        UnsupportedRevision: There is no revision in common.
        Cancelled: The token was cancelled; the server is ended.
        OSError: The config cannot be read.
        TypeError, ValueError: An argument cannot be what it is.
    """
    if misspelt:
        from ..schema.remedies import refuse_options

        refuse_options("connect(...)", misspelt, connect)
    check_token(cancel)
    wanted = wanted_revisions(revision)
    web = {"headers": headers, "auth": auth, "verify": verify, "cert": cert, "proxies": proxies}
    given_web = {name: value for name, value in web.items() if value is not None}
    found = read_target(target, env=env, cwd=cwd, config=config, web=given_web)
    if stderr is not None and found.server is None and (config is None or found.web is None):  # one for many, there
        raise TypeError(f"stderr does not apply to {found.what}")
    check_options(_OPTIONS, locals())
    info = _own_info(client_info)
    given = Handlers.gather(
        handlers,
        roots=roots,
        sampling=sampling,
        elicitation=elicitation,
        sample=sample,
        elicit=elicit,
        list_roots=list_roots,
        on_log=on_log,
        on_tools_changed=on_tools_changed,
        on_resources_changed=on_resources_changed,
        on_prompts_changed=on_prompts_changed,
        on_resource_updated=on_resource_updated,
    )
    plan = _plan(wanted, info, given, extensions, probe_timeout)
    limits = Limits(
        message_bytes=max_message_bytes, depth=max_depth, workers=max_workers,
        backlog_bytes=max_backlog_bytes, write_timeout=write_timeout,
    )
    record = tracer(trace)
    for name, seconds in (("timeout", timeout), ("probe_timeout", probe_timeout)):
        moment(name, seconds)
    moment("connect_timeout", connect_timeout)
    answerer, dispatcher = Answerer(given), Dispatcher()
    kept = Cache(max_cache_bytes) if cache else None

    def start() -> Transport:
        return _open_pipe(found, stderr, max_message_bytes)

    def begin(cancel: Optional[CancelToken], before: Optional[Link] = None) -> Link:
        deadline = Deadline(connect_timeout)

        def agree(pipe: Transport, plan: Plan) -> Link:
            role = ClientRole(answerer, dispatcher, kept)
            channel = Connection(pipe, role, limits=limits, trace=record)
            getattr(pipe, "attach", _ignore)(channel)
            channel.open()
            answerer.clock.resumed = channel.calls.wake_all

            def agree_and_hear() -> Link:
                def agreed(era: Era) -> None:
                    role.agree(era)
                    pipe.agreed(era.revision)

                era = negotiate(channel, plan, deadline, agreed)
                getattr(pipe, "ready", _ignore)(deadline)
                if isinstance(pipe, ChildTransport):
                    pipe.grace = child.CLOSE_SECONDS
                calls = CacheableCalls(channel, era, timeout, answerer, kept, getattr(pipe, "mirror", None))
                link = Link(calls, role, lambda: getattr(pipe, "stderr_tail", ""))
                link.hear(deadline, before)
                return link

            try:
                return _unless(cancel, channel, agree_and_hear)
            except BaseException:
                channel.close()
                raise

        try:
            if found.web is not None:
                from ..http.recognition import agree_over_http

                return agree_over_http(found.web, agree, plan, max_message_bytes)
            return _agree(start, agree, plan, found)
        except (ConnectionFailed, RequestTimeout) as error:
            error.args = (f"{found.what}: {error}",)
            raise
        except RuntimeError as error:  # the system gives no more threads; at the end of an interpreter that is so
            raise ConnectionFailed(f"{found.what}: {error}") from error

    renew = begin if restart or found.web is not None else None
    return Client(Links(begin(cancel), renew, always=restart), answerer, send_shutdown=send_shutdown)


def _plan(
    wanted: tuple[Revision, ...],
    info: Mapping[str, Json],
    given: Handlers,
    extensions: Optional[Mapping[str, Json]],
    probe_timeout: float,
) -> Plan:
    """What to speak and to declare; each era's newest revision says what there is to declare."""
    more: dict[str, Json] = {} if extensions is None else {"extensions": check_extensions(extensions)}
    plan = Plan(wanted, info, more, more, probe_timeout)
    if plan.handshake is not None:
        plan = plan._replace(capabilities={**given.capabilities(plan.handshake), **more})
    if plan.per_request is not None:
        plan = plan._replace(request_capabilities={**given.capabilities(plan.per_request), **more})
    return plan


def _agree(
    start: Callable[[], Transport], agree: Callable[[Transport, Plan], Link], plan: Plan, found: Target
) -> Link:
    """Connect, and once more without a probe if the server may have died of it: it has read of it, then."""
    pipe = start()
    try:
        return agree(pipe, plan)
    except ConnectionLost as lost:
        if found.server is None or plan.per_request is None or plan.handshake is None or not pipe.was_read():
            raise _failed(lost, str(lost) + _pinned(plan)) from None  # which says all that the loss does
        try:
            return agree(start(), plan.without_probe())
        except ConnectionLost as again:
            raise _failed(again, _both(lost, again)) from None


def _unless(cancel: Optional[CancelToken], channel: Connection, agree: Callable[[], Link]) -> Link:
    """Agree with the server; a token that is cancelled ends what is waited for, and all that would follow."""
    if cancel is None:
        return agree()
    token = cancel

    def stop() -> None:
        channel.calls.close(Cancelled(token.reason or "cancelled"))

    forget = token.on_cancel(stop)
    try:
        link = agree()
    finally:
        forget()
    check_token(token)
    return link


def _pinned(plan: Plan) -> str:
    """What is to be known about the end of a server that was given no second chance."""
    wanted = plan.per_request
    return f" (only {wanted.name} was wanted)" if wanted is not None and plan.handshake is None else ""


def _failed(lost: ConnectionLost, message: str) -> ConnectionFailed:
    if lost.exit_code == 0:
        message += "\na server runs until its stdin ends: does this program call server.run()?"
    return ConnectionFailed(message, exit_code=lost.exit_code, signal=lost.signal, stderr_tail=lost.stderr_tail)


def _both(lost: ConnectionLost, again: ConnectionLost) -> str:
    """How a server ended that was started twice; once if that was the same."""
    ends = [(each.exit_code, each.signal, each.stderr_tail) for each in (lost, again)]
    return str(again) if ends[0] == ends[1] else f"{again}\nbefore that, asked for server/discover, {lost}"


def _open_pipe(found: Target, stderr: Any, max_message_bytes: Optional[int]) -> Transport:
    if found.server is None:
        pipe: Transport = found.object.open_pipe()
        return pipe
    return ChildTransport(found.server, stderr=stderr, limit=max_message_bytes, grace=GIVE_UP_SECONDS)


def _ignore(_: object) -> None:
    """What only some transports have to do."""


def _own_info(given: Union[Implementation, Mapping[str, Any], None]) -> dict[str, Json]:
    if given is None:
        return {"name": os.path.basename(sys.argv[0] if sys.argv else "") or "minimcp", "version": VERSION}
    info = given if isinstance(given, Implementation) else Implementation(**given)
    wire: dict[str, Json] = info.to_wire()
    return wire


_OPTIONS = {
    **dict.fromkeys(("restart", "cache", "send_shutdown"), FLAG), "extensions": MAPPING, "max_cache_bytes": count(0),
    "client_info": MAPPING._replace(
        what="an Implementation, a mapping or None", fits=lambda info: isinstance(info, (Implementation, Mapping))
    ),
}  # fmt: skip
