"""``minimcp bridge``, and its gateway: the servers of a config, served as one server.

A `Gateway` is a `Bridge` with several servers behind. Each client has a `Switch`, which has a
`Part`, a connection of its own, for each server. Tools and prompts are called ``server__name``, and
the URIs of resources begin with ``gateway:server/``. Tasks and extensions are not passed on.
"""

from __future__ import annotations

import os
from argparse import Namespace
from concurrent.futures import wait
from functools import partial
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence
from urllib.parse import quote

from .. import __version__ as VERSION, errors
from ..client.client import spawn
from ..client.config import Servers, read_servers
from ..client.connect import Target, read_target, with_stored_token
from ..engine.cancel import CancelToken
from ..engine.incoming import DEFERRED, IncomingRequest
from ..engine.pool import waiting
from ..engine.timer import Deadline
from ..errors import InternalError, InvalidParams, McpError, MethodNotFound
from ..http.headers import LOOPBACK
from ..http.options import HttpOptions
from ..protocol import lifecycle
from ..protocol.lifecycle import LISTEN
from ..protocol.messages import Failure, Json, Notification, Result, size_of
from ..protocol.versions import BY_NAME, NEWEST_HANDSHAKE
from ..schema.mismatch import nearest
from ..server.registry import unknown_method
from ..server.server import Server
from . import (
    TOKEN_VARIABLE,
    Parser,
    UsageError,
    clean,
    is_url,
    one_line,
    print_error,
    print_stderr,
    split_command,
)
from .bridge import (
    CONNECT_SECONDS,
    MAX_LINKS,
    PER_REQUEST,
    Bridge,
    Front,
    Link,
    Unreachable,
    respond,
    with_meta,
)
from .commands import add_web, web_of
from .run import add_verbose, address, log_requests

log = errors.logger("minimcp.bridge")

# The text between the name of a server and the name of its tool or prompt.
SEPARATOR = "__"

# The beginning of the URIs of resources, before the name of the server.
SCHEME = "gateway:"

# How long a list waits for the servers. A server that responds later is left out, and the client is
# notified of a changed list when the server has responded. Hosts wait for 30 s or more.
LIST_SECONDS = 10.0

# Maximum number of pages of one list of one server, and of bytes of memory for its items.
MAX_PAGES = 100
MAX_LIST_BYTES = 16 * 1024 * 1024

# The capabilities of a client that are passed on to the servers.
PASSED_ON = ("roots", "sampling", "elicitation")

CAPABILITIES: Mapping[str, Json] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}

# For each list: the member with the items, and the kind of the notification of its changes.
MERGED = {
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resourceTemplates", "resources"),
}

INFO: Result = {"name": "minimcp-gateway", "version": VERSION}


class Part(Link):
    """A client's connection to one of the servers.

    Args:
        switch: The connections of this client.
        name: The server's name in the config.
        target: The server.
        opening: The params of the client's `initialize`; see `Link`.
        shakes_hands: Whether the client has sent an `initialize`.
    """

    def __init__(
        self, switch: Switch, name: str, target: Target, opening: Result, shakes_hands: bool
    ) -> None:
        super().__init__(switch.gateway, opening, shakes_hands, target)
        self.name = name
        self.start = f"{SCHEME}{quote(name, safe='')}/"
        self.fronts = switch.fronts
        self._switch = switch
        self._changes = switch._changes
        self._subscribes = True
        self.stderr = lambda line: print_stderr(f"[{name}] {clean(line)}")

    def shows(self, method: str, item: Mapping[str, Json]) -> bool:
        """Return whether the config offers an item of a list."""
        entry = self.target.entry
        if method != "tools/list" or entry is None or entry.offers is None:
            return True
        return entry.offers(str(item.get("name")))

    def report(self, method: str, error: McpError) -> None:
        if method in MERGED:
            self._switch.gateway.leave_out(self.name, error)
        else:
            log.warning("%s: %s: %s", self.name, method, error)

    def describe(self) -> Optional[str]:
        """Connect, and return the server's instructions."""
        return self._open().session.era.instructions

    def subscribe(self, uris: Iterable[str]) -> None:
        """Connect, and subscribe to resources of the server."""
        opened = self._open()
        for uri in uris:
            opened.change(uri, True, Deadline(CONNECT_SECONDS))

    def items(
        self, front: Optional[Front], incoming: IncomingRequest, params: Result
    ) -> list[Result]:
        """Return all pages of a list, with names and URIs as the client sees them.

        Raises:
            McpError: The server does not respond, or responds with an error.
        """
        method = incoming.request.method
        member, _ = MERGED[method]
        params = {name: value for name, value in params.items() if name != "cursor"}
        found: list[Result] = []
        size = 0
        for _ in range(MAX_PAGES):
            answer = self.forward(front, incoming, params)
            if isinstance(answer, Failure):
                if answer.code == errors.METHOD_NOT_FOUND:
                    return []
                raise errors.error_from_peer(*answer[1:])
            listed = answer.get(member)
            for item in listed if isinstance(listed, list) else ():
                if not isinstance(item, dict) or not self.shows(method, item):
                    continue
                size += size_of(item)
                if size > MAX_LIST_BYTES:
                    raise InternalError(f"{method} uses more than {MAX_LIST_BYTES} bytes")
                made = self.outward(item)
                if self._switch.leads_to(self, method, made):
                    found.append(made)
            if not isinstance(answer.get("nextCursor"), str):
                return found
            params = {**params, "cursor": answer["nextCursor"]}
        raise InternalError(f"{method} has more than {MAX_PAGES} pages")

    def outward(self, item: Result) -> Result:
        """Return an item of a list, or a link to a resource, as the client sees it."""
        made = dict(item)
        if "name" in made:
            made["name"] = f"{self.name}{SEPARATOR}{made['name']}"
        for member in ("uri", "uriTemplate"):
            if isinstance(made.get(member), str):
                made[member] = self.start + made[member]
        return made

    def as_seen(self, answer: Result) -> Result:
        """Return a result with the URIs that the client can use, and with the server's name in its
        questions."""
        made = dict(answer)
        asked = made.get("inputRequests")
        if isinstance(asked, dict):
            made["inputRequests"] = {name: self._question(each) for name, each in asked.items()}
        for member in ("content", "contents", "messages"):
            if isinstance(made.get(member), list):
                made[member] = [self._block(each) for each in made[member]]
        return made

    def as_asked(self, method: str, params: Result) -> Result:
        """Begin the text of a question with the name of the server, so that the user knows which
        server gets the answer."""
        if method != "elicitation/create" or not isinstance(params, dict):
            return params
        return {**params, "message": f"{self.name}: {params.get('message')}"}

    def _question(self, question: Json) -> Json:
        if not isinstance(question, dict):
            return question
        params = self.as_asked(str(question.get("method")), question.get("params", {}))
        return {**question, "params": params}

    def _block(self, block: Json) -> Json:
        if not isinstance(block, dict):
            return block
        made = dict(block)
        if isinstance(made.get("content"), (dict, list)):  # a message
            content = made["content"]
            is_list = isinstance(content, list)
            made["content"] = [*map(self._block, content)] if is_list else self._block(content)
        if isinstance(made.get("resource"), dict):
            made["resource"] = self._block(made["resource"])
        if isinstance(made.get("uri"), str):
            made["uri"] = self.start + made["uri"]
        return made

    def queue_callback(self, notification: Notification) -> None:
        method, params = notification
        if method == "notifications/resources/updated":
            params = {**params, "uri": f"{self.start}{params.get('uri')}"}
        elif method == "notifications/message":
            logger = params.get("logger")
            params = {**params, "logger": f"{self.name}.{logger}" if logger else self.name}
        super().queue_callback(Notification(method, params))

    def _close_if_idle(self) -> None:
        with self._lock:
            if self._opened is not None and not self.running and not self._switch.running:
                self._opened.session.close()


class Switch(Link):
    """The connections of one client to all servers of the gateway.

    Args:
        gateway: The gateway.
        opening: The params of the client's `initialize`; see `Link`.
        shakes_hands: Whether the client has sent an `initialize`.
    """

    def __init__(self, gateway: Gateway, opening: Result, shakes_hands: bool) -> None:
        super().__init__(gateway, opening, shakes_hands)
        self.gateway = gateway
        declared = opening.get("capabilities")
        opening = {**opening, "capabilities": _passed_on(declared)}
        self.connections = {
            name: Part(self, name, target, opening, shakes_hands)
            for name, target in gateway.servers.items()
        }

    def close(self) -> None:
        self._each(lambda part: part.close(), CONNECT_SECONDS)
        super().close()

    def is_idle(self) -> bool:
        return super().is_idle() and not any(part.running for part in self.connections.values())

    def stop_waiting(self, sink: Any) -> None:
        for part in self.connections.values():
            part.stop_waiting(sink)

    def notify(self, notification: Notification) -> None:
        for part in self.connections.values():
            part.notify(notification)

    # ------------------------------------------------------------ requests

    def serve_front(self, front: Optional[Front], incoming: IncomingRequest) -> Any:
        """Serve a request of the client: with one server, or with all of them."""
        method, params = incoming.request.method, incoming.request.params
        if not incoming.peer.revision.handshake:
            meta = params["_meta"]
            declared = _passed_on(meta.get(lifecycle.CAPABILITIES_KEY))
            params = with_meta(params, add={lifecycle.CAPABILITIES_KEY: declared})
        if method in MERGED:
            return self._merged(front, incoming, params)
        if method in ("tools/call", "prompts/get"):
            part, own = self._named(method, params.get("name"))
            return self._forward_to(part, front, incoming, {**params, "name": own})
        if method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
            part, own = self._located(params.get("uri"))
            return self._forward_to(part, front, incoming, {**params, "uri": own})
        if method == "completion/complete":
            ref = params.get("ref")
            ref = ref if isinstance(ref, dict) else {}
            if "uri" in ref:
                part, own = self._located(ref["uri"])
                ref = {**ref, "uri": own}
            else:
                part, own = self._named(method, ref.get("name"))
                ref = {**ref, "name": own}
            return self._forward_to(part, front, incoming, {**params, "ref": ref})
        if method == LISTEN:
            return self._listen(incoming)
        if method == "logging/setLevel":
            lifecycle.log_rank(params.get("level"))
            self._each(lambda part: part.forward(front, incoming, params), LIST_SECONDS)
            return {}
        if method == "ping":
            return {}
        if method in ("initialize", "server/discover"):
            return self._description(incoming)
        known = incoming.peer.revision.requests_to_server
        raise MethodNotFound(unknown_method(method, known))

    def _forward_to(
        self, part: Part, front: Optional[Front], incoming: IncomingRequest, params: Result
    ) -> Any:
        try:
            answer = part.forward(front, incoming, params)
        except InternalError as error:
            raise InternalError(f"{part.name}: {error}") from None
        if isinstance(answer, dict):
            answer = part.as_seen(answer)
        return respond(incoming, answer)

    def leads_to(self, part: Part, method: str, item: Result) -> bool:
        """Return whether a request for an item of a list would reach its server.

        The names of two servers may make the same name: "a" with "b__c", and "a__b" with "c". A
        server must not describe the tools of another one.
        """
        if method.startswith("resources/") or self._part_of(item.get("name")) is part:
            return True  # in the URI of a resource, the server's name ends at the first slash
        log.warning("%s: an item is left out: its name leads elsewhere", part.name)
        return False

    def _part_of(self, name: Json) -> Optional[Part]:
        """Return the server that the name of a tool or prompt belongs to, or None."""
        fitting = [
            each
            for each in self.connections
            if isinstance(name, str) and name.startswith(each + SEPARATOR)
        ]
        return self.connections[max(fitting, key=len)] if fitting else None

    def _named(self, method: str, name: Json) -> tuple[Part, str]:
        """Return the server that a name belongs to, and the server's own name.

        Raises:
            InvalidParams: No server has such a name, or the config does not offer the tool.
        """
        part = self._part_of(name)
        if part is not None:
            own = str(name)[len(part.name) + len(SEPARATOR) :]
            if method != "tools/call" or part.shows("tools/list", {"name": own}):
                return part, own
        kind = "tool" if method == "tools/call" else "prompt"
        shown = one_line(str(name))[:200]
        hint = "" if part is not None else self._prefix_hint(shown)
        raise InvalidParams(f"Unknown {kind}: {shown}{hint}")

    def _prefix_hint(self, name: str) -> str:
        """Return the end of the message for a name that does not begin with a server's name."""
        server, separator, own = name.partition(SEPARATOR)
        near = nearest(server, self.connections)
        if separator and near is not None:
            return f", did you mean {near}{SEPARATOR}{own}?"
        return f": names begin with the name of a server, {' or '.join(self.connections)}"

    def _located(self, uri: Json) -> tuple[Part, str]:
        """Return the server that a URI belongs to, and the server's own URI. Raise
        ResourceNotFound."""
        for part in self.connections.values():
            if isinstance(uri, str) and uri.startswith(part.start):
                return part, uri[len(part.start) :]
        raise errors.ResourceNotFound(f"no server has the resource {one_line(str(uri))[:200]}")

    def _merged(self, front: Optional[Front], incoming: IncomingRequest, params: Result) -> Result:
        """Return the lists of all servers as one page."""
        method = incoming.request.method
        member, kind = MERGED[method]
        change = Notification(f"notifications/{kind}/list_changed", {})
        found = self._each(
            lambda part: part.items(front, incoming, params),
            LIST_SECONDS,
            late=lambda part: Link.queue_callback(part, change),
        )
        incoming.check()
        items = [item for listed in found.values() for item in listed or ()]
        return self._completed(incoming, {member: items})

    def _listen(self, incoming: IncomingRequest) -> Any:
        """Open a client's stream of changes. Every server's changes are passed on to it."""
        filters = incoming.request.params.get("notifications")
        uris = filters.get("resourceSubscriptions") if isinstance(filters, dict) else None
        wanted = [self._located(uri) for uri in uris or ()]
        self._each(
            lambda part: part.subscribe([uri for each, uri in wanted if each is part]), LIST_SECONDS
        )
        self.running[incoming] = None
        incoming.on_cancel(lambda: self.running.pop(incoming, None))
        answer = self._changes.listen(incoming)
        if answer is not DEFERRED:
            self.running.pop(incoming, None)
        return answer

    def _description(self, incoming: IncomingRequest) -> Result:
        """Connect to all servers, and return the description of the gateway."""
        texts = self._each(lambda part: part.describe(), LIST_SECONDS)
        instructions = "\n\n".join(f"{name}: {text}" for name, text in texts.items() if text)
        described: Result = {"capabilities": {**CAPABILITIES}}
        if instructions:
            described["instructions"] = instructions
        if incoming.request.method == "server/discover":
            described["supportedVersions"] = [each.name for each in PER_REQUEST]
            return self._completed(incoming, described)
        revision = BY_NAME.get(
            str(incoming.request.params.get("protocolVersion")), NEWEST_HANDSHAKE
        )
        if not revision.handshake:
            revision = NEWEST_HANDSHAKE
        incoming.peer.revision = revision
        return {**described, "protocolVersion": revision.name, "serverInfo": INFO}

    def _completed(self, incoming: IncomingRequest, result: Result) -> Result:
        """Add what results of stateless revisions have."""
        if incoming.peer.revision.handshake:
            return result
        hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return {**hints, **result, "_meta": {lifecycle.SERVER_KEY: INFO}}

    def _each(
        self,
        work: Callable[[Part], Any],
        seconds: float,
        late: Callable[[Part], object] = id,
    ) -> dict[str, Any]:
        """Run a function for each server on its own thread.

        Args:
            work: The function. If it fails, that is logged.
            seconds: How long to wait for all of them.
            late: Called for each function that ends later without an exception.

        Returns:
            The results by the server's name, without those of functions that failed or are late.
        """
        token = CancelToken()
        futures = {
            name: spawn(self.pool, partial(work, part), token)
            for name, part in self.connections.items()
        }
        with waiting():
            wait(futures.values(), seconds)
        return dict(self._done(futures, seconds, late))

    def _done(
        self, futures: Mapping[str, Any], seconds: float, late: Callable[[Part], object]
    ) -> Iterator[tuple[str, Any]]:
        for name, future in futures.items():
            if not future.done():
                log.warning("%s: no response within %g s, so it is left out", name, seconds)
                part = self.connections[name]
                future.add_done_callback(
                    lambda done, part=part: None if done.exception() else late(part)
                )
                continue
            error = future.exception()
            if error is None:
                self.gateway.reasons.pop(name, None)
                yield name, future.result()
            elif isinstance(error, Unreachable):
                pass  # `report` has logged the reason
            else:  # any other error, because a server must not affect the others
                self.gateway.leave_out(name, error)


class Gateway(Bridge):
    """The registry of the server in front of all servers of a config. Thread-safe.

    Args:
        front: The server in front; it must have no methods of its own.
        config: The servers behind. One whose entry is invalid is left out with a warning.
        options: Those of `Bridge`.
    """

    def __init__(self, front: Server, config: Servers, **options: Any) -> None:
        super().__init__(front, None, **options)
        # For each server that is left out: the reason that was logged.
        self.reasons: dict[str, str] = {}
        self.servers: dict[str, Target] = {}
        for name in config.names:
            try:
                target = read_target(name, config=config)
                if target.is_web:
                    target.object.fetcher().close()  # reject a wrong proxy or cacert
            except (ValueError, McpError) as error:
                log.error("%s is left out: %s", name, error)
                continue
            if target.is_web and not target.object.has_auth:
                target = target._replace(object=with_stored_token(target.object))
            self.servers[name] = target

    def leave_out(self, name: str, error: Exception) -> None:
        """Log why a server is left out of a list, once for each reason."""
        reason = str(error)
        if self.reasons.get(name) != reason:
            self.reasons[name] = reason
            is_known = isinstance(error, (McpError, OSError))
            log.warning("%s is left out: %s", name, reason, exc_info=None if is_known else error)

    def new_link(self, opening: Result, shakes_hands: bool) -> Link:
        return Switch(self, opening, shakes_hands)


def _passed_on(declared: Json) -> Result:
    """Return the capabilities of a client that are passed on."""
    declared = declared if isinstance(declared, dict) else {}
    return {name: value for name, value in declared.items() if name in PASSED_ON}


# ------------------------------------------------------------ the command


def bridge_command(arguments: Sequence[str], prog: str) -> int:
    """Serve a stdio server over HTTP, a server with a URL over stdio, or several as one."""
    parser = Parser(
        prog,
        "Serve a stdio server over Streamable HTTP (--http 8000 -- COMMAND ...), or serve a "
        "server with a URL over stdin and stdout to the program that started this command (URL). "
        "Or serve all servers of a host's file as one (mcp.json): tools and prompts are called "
        "SERVER__NAME. All messages are forwarded in both directions.",
    )
    parser.add_argument(
        "words",
        metavar="URL|FILE",
        nargs="*",
        help="the URL of the server, or the file with the servers, to serve over stdin and stdout",
    )
    parser.add_argument(
        "--http",
        type=address,
        metavar="[HOST:]PORT",
        help="serve COMMAND or FILE at this address, at /mcp; port 0 selects a free port (default "
        "host: 127.0.0.1)",
    )
    parser.add_argument(
        "--shared",
        action="store_true",
        help="start one process for all clients (default: one per session)",
    )
    parser.add_argument(
        "--idle",
        type=float,
        metavar="SECONDS",
        help="end a process after this time without a call; the next call starts a new one",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        metavar="NAME",
        help="a name that other machines use for this one, if they can reach HOST; may be repeated",
    )
    add_verbose(parser)
    add_web(
        parser,
        "send this bearer token with every request to URL (default: the token stored by minimcp "
        "login); with --http, serve only clients that send it",
    )
    own, command = split_command(arguments)
    options = parser.parse_args(own)
    where: dict[str, Any] = {}
    bridge: Bridge
    try:
        config = _config(options, command, prog)
        if options.http is None:
            _refuse_http_options(options, prog)
            server = Server("minimcp-bridge", version=VERSION)
            if config is not None:
                bridge = Gateway(server, config, is_local=True)
            else:
                bridge = Bridge(server, _url(options, command, prog), is_local=True)
        else:
            host, port = options.http
            where = {"transport": "http", "host": host, "port": port}
            if config is None:
                _check_command(options, command, prog)
            http, auth = _http(options)
            server = Server("minimcp-bridge", version=VERSION, http=http, auth=auth)
            settings: dict[str, Any] = {"shared": options.shared, "idle": options.idle}
            if config is not None:
                bridge = Gateway(server, config, **settings)
            else:
                bridge = Bridge(server, _command(command, prog), **settings)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if options.verbose:
        log_requests(server)
    try:
        server.run(**where)
    except OSError as error:
        print_error(prog, error.strerror or str(error))
        return 3
    finally:
        bridge.end()
    return 0


def _config(options: Namespace, command: Sequence[str], prog: str) -> Optional[Servers]:
    """Return the servers of the file that the command names, or None if it names no file."""
    path = options.words[0] if len(options.words) == 1 else ""
    if command or not path.endswith((".json", ".toml")) or "://" in path:
        return None
    if options.header is not None:
        raise UsageError(f"--header is only for a URL: write headers into {path}")
    if options.cacert or options.proxy:
        raise UsageError(f"--cacert and --proxy are only for a URL: write them into {path}")
    try:
        config = read_servers(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not config.names:
        raise UsageError(f"{path} has no servers")
    return config


def _refuse_http_options(options: Namespace, prog: str) -> None:
    if options.shared or options.idle is not None or options.allow_host:
        raise UsageError(
            f"--shared, --idle and --allow-host need --http, as in {prog} --http 8000 -- COMMAND"
        )


def _url(options: Namespace, command: Sequence[str], prog: str) -> Target:
    url = " ".join(options.words)
    if not url or command:
        raise UsageError(
            f"write {prog} --http 8000 -- {' '.join(command) or 'COMMAND'}, or {prog} URL"
        )
    if len(options.words) > 1 or not is_url(url):
        raise UsageError(f"{url!r} is not a URL: to serve a command: {prog} --http 8000 -- {url}")
    found = read_target(url, web=web_of(options, url))
    found.object.fetcher().close()  # reject a wrong --proxy or --cacert before a host connects
    if found.object.has_auth:
        return found
    return found._replace(object=with_stored_token(found.object))


def _check_command(options: Namespace, command: Sequence[str], prog: str) -> None:
    if options.cacert or options.proxy:
        raise UsageError("--cacert and --proxy are only for a URL")
    if options.words or options.header is not None or not command:
        hint = "--header is only for a URL: " if options.header else ""
        words = " ".join([*options.words, *command]) or "COMMAND"
        raise UsageError(f"{hint}write {prog} --http 8000 -- {words}")


def _command(command: Sequence[str], prog: str) -> Target:
    target = read_target(command[0] if len(command) == 1 else list(command))
    if target.is_web:
        raise UsageError(
            f"--http serves a command, and {command[0]} is a URL: write {prog} {command[0]}"
        )
    return target


def _http(options: Namespace) -> tuple[HttpOptions, Any]:
    """Return the options of the HTTP server and its authentication."""
    # The servers that this command starts do not get the token, with which they could call others.
    token = os.environ.pop(TOKEN_VARIABLE, "") or None
    if options.token is not None:
        token = options.token
    if options.http[0] not in LOOPBACK and not (token and options.allow_host):
        raise UsageError(
            f"other machines can reach {options.http[0]}: set {TOKEN_VARIABLE} or write --token "
            "TOKEN, which clients must send, and --allow-host NAME, their name for this machine"
        )
    if options.idle is not None and not 0 < options.idle < float("inf"):
        raise UsageError("--idle must be a number of seconds above 0, as in --idle 600")
    from .. import Bearer

    http = HttpOptions(allowed_hosts=options.allow_host, max_sessions=MAX_LINKS)
    return http, None if token is None else Bearer.static(token)
