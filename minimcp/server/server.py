"""`Server`: registers tools, resources and prompts, and serves them on every transport.

https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Optional, TypeVar, Union, overload
from weakref import WeakSet

from ..engine.connection import Connection
from ..engine.incoming import current_request
from ..engine.limits import Limits, check_number
from ..engine.output import never_blocking, tracer
from ..engine.pool import Pool, renewed_in_fork
from ..engine.timer import Deadline
from ..engine.transport import Transport, memory_pair
from ..protocol.lifecycle import SupportedRevisions
from ..protocol.messages import Json
from ..protocol.versions import LISTS, choose
from ..schema.mismatch import keywords_shown, plain_json, refuse_options
from ..types.content import Icon, Implementation
from .feature import load
from .options import (
    FLAG,
    SERVER_OPTIONS,
    check_names,
    check_options,
    count_positional,
    decorated,
    has_marks,
    marked,
    named,
    with_option_signature,
)
from .registered import Middleware, ServerConfig
from .registry import CAPABILITIES, Registry, ServerRole
from .run import TERMINAL_HINT, Run, RunningServer, log

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..auth.bearer import Bearer
    from ..extensions.cards import Card
    from ..features.executors import ExecutorOption, Main
    from ..features.observers import FinishedRequest
    from ..http.endpoint import Endpoint
    from ..http.headers import HttpRequest, HttpResponse
    from ..http.options import HttpOptions
    from ..http.server import RunningHttp
    from ..http.wsgi import WsgiApp
    from ..stores.base import Store
    from .context import Context
    from .options import AppOptions, PromptOptions, ResourceOptions, ToolOptions

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)


class Server:
    """A server of the Model Context Protocol. Thread-safe; it may be created before a fork.

    Args:
        name: The server's name for programs. Clients see it.
        handlers: Plain objects whose marked methods are registered, as by `add`.
        version: The server's version. Clients see it.
        title: A name for people; omitted if None.
        description: What the server is for; omitted if None.
        website_url: A page about the server; omitted if None.
        icons: Icons of the server; omitted if None.
        instructions: How the client's model should use the server; omitted if None.
        capabilities: Kinds to declare from the start (``{"tools"}``), or a mapping with members.
        extensions: `Extension` objects such as `Tasks()`; or a mapping of identifiers to settings.
        revisions: Names of the supported revisions; None means all five.
        strict_version: Reject an unknown revision at `initialize`. Otherwise offer another one.
        strict_arguments: Reject wrong tool arguments with -32602 in revisions before 2025-11-25.
        strict_schemas: Publish ``"additionalProperties": false`` at every level of generated
            schemas.
        accept_batches: Accept arrays of messages in every revision.
        page_size: Items on a page of a list; if None, all items are on one page.
        list_ttl: Seconds for which clients may cache lists.
        list_cache_scope: Who may share a cached list: "private" (one user) or "public".
        mask_errors: Replace the text of unexpected errors with a reference to the log.
        logging: Whether handlers can send log messages. If False, ``ctx.log`` does nothing.
        executor: None (``Limits.workers`` threads), "main" (see `pump`), a `Serial`, or a callable.
        on_pump_needed: Called on another thread when a request waits for `pump`; None means no
            callback.
        check_replay: For tests: rerun a handler for each answer, and fail if its questions change.
        state_keys: Secrets of 32 bytes or more that sign request states; the first one signs new
            ones.
        store: A `SqliteStore` or `RedisStore` that processes share, or a `MemoryStore` (as for
            None).
        trace: A text file, or a callable that receives ("-->" or "<--", text); None for no trace.
        on_request: Called with a `FinishedRequest` when a request finishes. It must not block.
        ping_interval: Seconds between pings of an idle client; None means no pings.
        limits: Bounds in bytes, seconds and numbers; None means the defaults of `Limits`.
        http: How to serve over HTTP; None means the defaults of `HttpOptions`.
        auth: A `Bearer` that authorizes HTTP requests; if None, all are accepted. Stdio is never
            authorized.
        card: A `Card` to serve over HTTP; None means no card.
        visible: ``f(ctx, kind, name)`` returns whether a caller may see an entry; None means all.
        lists: "usable" lists only what the token's scopes allow; "all" lists everything.

    Raises:
        TypeError: The name is not a str, or an option is unknown or has the wrong type.
        ValueError: The name is empty, or an option has a value that is not accepted.

    A page of the documentation explains these options: examples/deployment.rst.
    https://modelcontextprotocol.io/specification/2026-07-28/server
    """

    name: str
    version: str

    @keywords_shown
    def __init__(
        self,
        name: str,
        *handlers: Any,
        version: str = "0",
        title: Optional[str] = None,
        description: Optional[str] = None,
        website_url: Optional[str] = None,
        icons: Optional[Sequence[Icon]] = None,
        instructions: Optional[str] = None,
        capabilities: Union[Iterable[str], Mapping[str, Json], None] = None,
        extensions: Union[Sequence[Any], Mapping[str, Mapping[str, Json]], None] = None,
        revisions: Optional[Sequence[str]] = None,
        strict_version: bool = False,
        strict_arguments: bool = False,
        strict_schemas: bool = False,
        accept_batches: bool = False,
        page_size: Optional[int] = None,
        list_ttl: float = 0,
        list_cache_scope: str = "private",
        mask_errors: bool = False,
        logging: bool = True,
        executor: ExecutorOption = None,
        on_pump_needed: Optional[Callable[[], object]] = None,
        check_replay: bool = False,
        state_keys: Optional[Sequence[bytes]] = None,
        store: Optional[Store] = None,
        trace: Any = None,
        on_request: Optional[Callable[[FinishedRequest], object]] = None,
        ping_interval: Optional[float] = None,
        limits: Optional[Limits] = None,
        http: Optional[HttpOptions] = None,
        auth: Optional[Bearer] = None,
        card: Optional[Card] = None,
        visible: Optional[Callable[[Context, str, str], bool]] = None,
        lists: str = "all",
        **unknown: NoReturn,
    ) -> None:
        given = dict(locals())
        _check_given(given)
        info = Implementation(
            name,
            version,
            title=title,
            description=description,
            website_url=website_url,
            icons=icons,
        )
        self.__dict__.update(name=name, version=version)
        self._limits = limits = limits or Limits()
        self._cap: Optional[list[None]] = None if limits.requests is None else []
        self._http = http
        self._auth = auth
        self._trace = tracer(trace)
        if not isinstance(capabilities, Mapping):
            capabilities = dict.fromkeys(capabilities or (), {})
        declared = plain_json(capabilities, "capabilities")
        for kind, members in declared.items():
            if not isinstance(members, dict):
                raise TypeError(f"capabilities: {kind!r:.60} must be an object, such as {{}}")
        if isinstance(extensions, Mapping):
            from ..types.meta import check_extensions

            declared["extensions"] = plain_json(check_extensions(extensions), "extensions")
            extensions = None
        given.update(limits=limits, capabilities=declared)
        options = {
            option: value
            for option, value in given.items()
            if option in ServerConfig.__match_args__
        }
        audience = () if auth is None else auth.audience
        processes = None
        if store is not None and store.shared:
            processes = load("stores.processes").Processes(store, name, audience)
        elif state_keys is None:
            # Generated here and not on first use, so that forked processes share it.
            options["state_keys"] = [os.urandom(32)]
        self._config = ServerConfig(
            info.to_wire(),
            owner=self,
            wake_main=self._wake_main,
            processes=processes,
            trusted_proxies=() if http is None else http.trusted_proxies,
            audience=audience,
            **options,
        )
        supported = SupportedRevisions(
            choose(revisions), strict_version=strict_version, accept_batches=accept_batches
        )
        if card is not None:
            self._config.card = card.serve(info.to_wire(), supported.names, auth)
        self.renew_in_fork()
        self._registry = Registry(self._config, supported)
        if state_keys is not None:
            self._registry.feature("rounds")  # checks the keys
        if on_request is not None:
            observers = load("features.observers")
            self._config.on_finished = observers.observer(on_request, self._registry.has_method)
        self._endpoints: dict[str, Endpoint] = {}
        self._wsgi_endpoints: WeakSet[Endpoint] = WeakSet()
        self._pool = Pool(limits.workers, f"minimcp-{name}")
        renewed_in_fork.add(self)
        for extension in extensions or ():
            if not hasattr(extension, "install") or isinstance(extension, type):
                raise TypeError(
                    f"extensions must contain objects such as Tasks(), not {extension!r:.60}"
                )
            extension.install(self)
        self.add(*handlers)

    def __setattr__(self, name: str, value: object) -> None:
        """Reject an assignment to an option, which would have no effect. Accept other
        attributes."""
        options = Server.__init__.__kwdefaults__ or {}
        if name == "name" or name in options:
            way = "..." if name == "name" else f"{self.name!r:.60}, {name}=..."
            raise AttributeError(f"{name} cannot be changed later: write Server({way})")
        super().__setattr__(name, value)

    def renew_in_fork(self) -> None:
        """Reset to a server without connections. The hook for forks calls this in the child
        process."""
        for running in self.__dict__.get("listening", ()):
            running.renew()
        self.listening: set[RunningHttp] = set()
        self._state_lock = threading.Lock()
        if self._cap is not None:  # the same list, because endpoints have it, too
            self._cap[:] = [None] * (self._limits.requests or 0)
        self._closing_http = threading.Lock()
        self._connections: dict[ServerRole, Connection] = {}
        self._config.renew_shares()
        self._runs: list[Run] = []

    @classmethod
    def of(
        cls, handlers: Any, *, name: Optional[str] = None, version: Optional[str] = None
    ) -> Server:
        """Create a server that serves the marked methods of one plain object.

        Args:
            handlers: The object.
            name: The server's name; None means the lowercase name of the object's class.
            version: The server's version; None means "0".

        Raises:
            TypeError, ValueError: See `add`.
        """
        return cls(
            type(handlers).__name__.lower() if name is None else name,
            handlers,
            version=version or "0",
        )

    # ------------------------------------------------------------ what it offers: tools

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    @with_option_signature("tool")
    def tool(self, *given: Any, **options: Any) -> Any:
        """Register a function as a tool: ``@server.tool`` or ``@server.tool(...)``.

        Args:
            function: Its annotations become schemas. A `Context` parameter receives the context.
            name, description: For the model; None means the function's name and its docstring.
            title, icons, meta, annotations: Omitted if None. Example: ``{"read_only_hint": True}``.
            input_schema, output_schema: JSON Schemas; None means the function's annotations.
            structured: Whether to send structured content; None: only if there is an output schema.
            timeout: Maximum seconds, not counting waits for the client's answers; None: no limit.
            executor: Where calls run, as for `Server`; None means the server's executor.
            requires: Client capabilities that calls need: "sampling", "elicitation.url".
            headers: Parameters to repeat in HTTP headers: ``{"region": "Region"}``. Never secrets.
            scopes: Scopes that a token needs: a list, or a function of arguments that returns one.
            visible: A function of `Context`. If it returns False, the caller does not see the tool.
            heartbeat: Seconds of silence after which progress is sent; None means never.
            max_result: Maximum characters of a result; None means no limit.
            task: With `Tasks()`: "optional", "required" or "later" (``ctx.become_task()``).
            ui, visibility: With `Apps()`: an `app` for the result; who may call: "model", "app".
            replace: Replace a tool of the same name.

        Raises:
            TypeError, ValueError, ImportError: An argument is not accepted. The message says why.
        """
        return decorated(_adding(self, "tool"), "server.tool", given, options)

    @with_option_signature("tool")
    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        """Register a tool, as `tool` does, and notify open connections that the list has
        changed."""
        self._registry.add("tool", function, options)

    def remove_tool(self, name: str) -> None:
        """Remove a tool, and notify open connections that the list has changed.

        Raises:
            KeyError: No tool has this name.
        """
        self._registry.remove("tool", name)

    # ------------------------------------------------------------ resources

    @with_option_signature("resource")
    def resource(
        self, uri: str, *given: NoReturn, **options: Unpack[ResourceOptions]
    ) -> Callable[[F], F]:
        """Register a function as a resource: ``@server.resource("notes://all")``. A URI with
        variables, such as "notes://{number}", is a template; each variable is a parameter of the
        function.

        The function returns str (text), bytes (binary), contents, or another value that is sent as
        JSON. A URI matches a registered URI first, then the first template whose variables fit.
        ``{x}`` never matches "/" or "..", but ``{+x}`` matches slashes. Case matters, except in
        scheme and host.

        Args:
            uri: The URI, or a URI template (RFC 6570).
            name: A name for programs; None means the function's name.
            title, icons, meta: A name for people, icons, and ``_meta``; omitted if None.
            description: What the resource is, for the model; None means the docstring.
            mime_type: The MIME type; if None, lists have no type, and each content has its own.
            size: The content's size in bytes, if it is known. Templates have none.
            annotations: Hints such as ``{"audience": ["user"], "priority": 1}``; omitted if None.
            ttl: Seconds for which clients may cache the content.
            cache_scope: Who may share cached content: "private" (one user) or "public".
            complete: For each variable, a list of values, or a function of the text typed so far. A
                second parameter of the function receives the arguments that are already chosen.
            scopes, visible: As for `tool`. A function for ``scopes`` can take variables of the
                template.
            requires: Client capabilities that are needed, such as "sampling".
            replace: Replace a resource of the same URI.

        Raises:
            TypeError, ValueError: The function, the URI or an option is not accepted, or is taken.
        """
        return named("server.resource", uri, partial(self.add_resource, uri=uri), given, options)

    @with_option_signature("resource")
    def add_resource(
        self, function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]
    ) -> None:
        """Register a resource or a template, as `resource` does, and notify open connections."""
        self._registry.add("resource", function, options, uri)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a template, and notify open connections that the list has changed.

        Args:
            uri: The URI or template with which it was registered.

        Raises:
            KeyError: No resource or template has this URI.
        """
        self._registry.remove("resource", uri)

    @with_option_signature("app")
    def app(self, uri: str, *given: NoReturn, **options: Unpack[AppOptions]) -> Callable[[F], F]:
        """Register a function that returns an HTML page, which hosts show for
        ``@server.tool(ui=...)``.

        The server needs ``extensions=[Apps()]``. The function returns the whole page as a str. In
        it, ``<script src="minimcp-app.js"></script>`` is replaced by a script that defines ``app``,
        with ``app.callTool(name, arguments)`` and others; examples/apps.rst explains them.

        https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx

        Args:
            uri: A URI that begins with ``ui://`` and has no variables: "ui://sales/chart".
            name: A name for programs; None means the function's name.
            title: A name for people; omitted if None.
            description: What the page shows; None means the docstring.
            icons: Icons of the page; omitted if None.
            meta: The resource's ``_meta``; omitted if None.
            csp: Origins that the page may use, in lists: "connect_domains" (to send requests to),
                "resource_domains" (scripts, styles, images, fonts), "frame_domains" and
                "base_uri_domains". If None, no other origin is allowed.
            permissions: Browser features that the page needs: "camera", "microphone",
                "geolocation", "clipboard_write".
            border: Whether the host draws a border around the page; if None, the host decides.
            domain: The page's origin, in the form that a host prescribes; if None, the host
                decides.
            ttl: Seconds for which clients may cache the page.
            cache_scope: Who may share a cached page: "private" (one user) or "public".
            requires: Client capabilities that are needed to read the page.
            replace: Replace a resource of the same URI.

        Raises:
            TypeError: The function or an option is not accepted, or the server has no `Apps`.
            ValueError: The URI is taken or does not begin with ``ui://``, or an option has a value
                that is not accepted.
        """
        return named("server.app", uri, partial(self.add_app, uri=uri), given, options)

    @with_option_signature("app")
    def add_app(
        self, function: Callable[..., Any], uri: str, **options: Unpack[AppOptions]
    ) -> None:
        """Register a page, as `app` does, and notify open connections that the list of resources
        has changed."""
        self._registry.add("app", function, options, uri)

    add_resource_template = add_resource
    remove_resource_template = remove_resource

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource, or to a collection that contains it.

        Returns at once; notifications are sent in the background. If one is still waiting for a
        slow client, a second one is not added.

        Args:
            uri: The URI that has changed. It does not need to be registered.
        """
        self._registry.resource_updated(uri)

    def list_changed(self, kind: str) -> None:
        """Notify clients that a list has changed for some callers, because their rights have.

        Args:
            kind: "tools", "resources" or "prompts".

        Raises:
            ValueError: The kind is none of these.
        """
        check_names([kind], LISTS, "list_changed: the server has no list", error=ValueError)
        self._registry.announce_change(kind)

    # ------------------------------------------------------------ prompts

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    @with_option_signature("prompt")
    def prompt(self, *given: Any, **options: Any) -> Any:
        """Register a function as a prompt: ``@server.prompt``, ``@server.prompt(...)`` or
        ``server.prompt(function)``. Its parameters become the prompt's arguments.

        Parameters without a default are required. Clients send strings, which are converted to the
        parameters' types. The docstring describes the prompt and its arguments.

        The function returns one message or a list of messages. A str or a content block is a
        message of the user; a `PromptMessage` names its role. It may also return a whole
        `GetPromptResult`.

        Args:
            function: The function or bound method. It is returned unchanged.
            name: The prompt's name; None means the function's name.
            title: A name for people; omitted if None.
            description: What the prompt is for; None means the docstring.
            icons: Icons of the prompt; omitted if None.
            meta: The prompt's ``_meta``; omitted if None.
            complete: Completions of arguments, as for `resource`; if None, only enumerations are
                completed.
            scopes, visible: As for `tool`.
            requires: Client capabilities that are needed, such as "sampling".
            replace: Replace a prompt of the same name.

        Raises:
            TypeError: The function cannot be a prompt; the message says what to write instead.
            ValueError: The name is taken or empty, ``complete`` names an unknown argument, or
                ``requires`` names an unknown capability.
        """
        return decorated(_adding(self, "prompt"), "server.prompt", given, options)

    @with_option_signature("prompt")
    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        """Register a prompt, as `prompt` does, and notify open connections that the list has
        changed."""
        self._registry.add("prompt", function, options)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt, and notify open connections that the list has changed.

        Raises:
            KeyError: No prompt has this name.
        """
        self._registry.remove("prompt", name)

    # ------------------------------------------------------------ objects, methods, other servers

    def add(self, *handlers: Any) -> None:
        """Register the methods of plain objects that are marked with ``@minimcp.tool`` and the
        like.

        Tools and prompts are named after their methods, without a prefix. Methods of one object run
        on several threads at the same time. Protect its state with a lock, or set
        ``executor=Serial()``.

        Args:
            handlers: Objects of any class.

        Raises:
            TypeError: A handler is a class, or a method cannot be what it is marked as.
            ValueError: An object has no marked methods, or a name is taken. Nothing is registered.
        """
        with ExitStack() as take_back:
            for function, mark in (found for each in handlers for found in marked(each)):
                added = self._registry.add(mark.kind, function, mark.options, *mark.arguments)
                take_back.callback(self._registry.remove, *added)
            take_back.pop_all()

    def method(self, name: str, *, replace: bool = False) -> Callable[[F], F]:
        """Serve a custom method in every revision: ``@server.method("vendor/thing")``.

        The function receives the params as a dict, including the request's ``_meta``, and the
        `Context` if it has a second parameter: ``def thing(params, ctx)``. It returns a dict, or
        None for an empty one. A client sends ``client.request("vendor/thing", {...})``.

        Args:
            name: The method's name. Names in any revision of the specification are not accepted.
            replace: Replace a method of the same name.

        Raises:
            TypeError: The function cannot serve a method; the message says what to write instead.
            ValueError: The name is taken, or belongs to the protocol.
        """
        options = {"replace": replace}
        return named(
            "server.method",
            name,
            lambda function: self._registry.add("method", function, options, name),
        )

    @overload
    def middleware(self, function: M) -> M: ...
    @overload
    def middleware(self, *, lists: bool = False) -> Callable[[M], M]: ...
    def middleware(self, function: Any = None, *, lists: bool = False) -> Any:
        """Run a function around every handler: ``def timing(ctx, call_next): return call_next()``.

        The function that is registered first is the outermost. It runs on the handler's thread,
        around `tools/call`, `prompts/get`, `resources/read`, `completion/complete` and custom
        methods. It runs once for each round of a request; ``ctx.method`` and ``ctx.params`` say
        what is requested. Requests for unknown names do not reach it, and neither does
        ``ctx.read_resource``. A request that is already running is not affected by a later
        registration.

        ``call_next()`` runs the inner middleware and the handler. It returns the handler's value
        before conversion (for completion, a `Completion`), and raises the handler's exception.
        Wrong arguments of a tool raise `ToolError`. What the function returns or raises replaces
        the handler's outcome. It must not catch `BaseException`, because an unanswered question
        unwinds the handler that way.

        With ``@server.middleware(lists=True)``, the function also runs around `tools/list`,
        `prompts/list`, `resources/list` and `resources/templates/list`. There, ``call_next()``
        returns the result of one page, a dict. If the function changes it, caches do not share it
        between users. A question to the client raises RuntimeError there.

        Raises:
            TypeError: The function does not accept these two arguments, is async, or is a
                generator.
        """
        given = () if function is None else (function,)
        options = {"lists": lists}
        return decorated(self._add_middleware, "server.middleware", given, options)

    def _add_middleware(self, function: Middleware, lists: bool) -> None:
        count_positional(function, "middleware", ("ctx", "call_next"), least=2)
        check_options({"lists": lists}, {"lists": FLAG}, "middleware: ")
        self._config.middleware.append(function)
        if lists:
            self._registry.feature("lists").middleware.append(function)
            self._registry.refresh_routes()

    def mount(self, other: Server, *, prefix: str) -> None:
        """Offer everything that another server offers, and follow its changes.

        Tools and prompts are named ``<prefix>__<name>`` here; resources keep their URIs, and custom
        methods keep their names. The options of this server apply, and ``ctx.server`` is this
        server. Only the other server's executors are kept: a `Serial` runs until both servers are
        closed, and "main" runs where this server is pumped. The other server's middleware runs
        inside that of this server. `resource_updated` of either server reaches the subscribers
        here. The other server may also be served by itself.

        If a name is taken here when the other server registers it later, that entry is not offered
        here, and a warning is logged. Entries of this server come first, then servers in order of
        mounting.

        Args:
            other: The server. It may mount others; their prefixes are then joined.
            prefix: The beginning of the names.

        Raises:
            ValueError: A name is taken, the servers would mount each other, or the prefix is empty.
            TypeError: `other` is not a server, or the prefix is not a str.
        """
        if not isinstance(other, Server) or not isinstance(prefix, str):
            raise TypeError('mount takes a server and a prefix: server.mount(other, prefix="x")')
        if not prefix:
            raise ValueError("the prefix of a mounted server must not be empty")
        self._registry.feature("mounting").mount(other._registry, prefix)

    # ------------------------------------------------------------ serving

    @keywords_shown
    def run(
        self,
        transport: str = "stdio",
        *,
        host: Optional[str] = None,
        port: Optional[int] = None,
        path: Optional[str] = None,
        legacy_sse: bool = False,
        **unknown: NoReturn,
    ) -> None:
        """Serve until the input ends, a signal arrives or `close` is called: ``server.run()`` for
        stdio, ``server.run("http", port=8000)`` for HTTP. Restores signal handlers and streams
        before it returns.

        In the main thread, SIGINT, SIGTERM and SIGHUP end `run` within 1.2 seconds. Running
        requests are cancelled at once, and a second signal does not wait for them. If a handler on
        the main thread, or on your own executor, does not return in that time, the process exits
        with code 1. In other threads, `run` does not handle signals. At the end of the input and
        after `close`, running requests get ``Limits.drain_grace`` seconds. The main thread also
        pumps; see `pump`.

        Each request runs in its own copy of the `contextvars` context of this call.

        Writing to stderr never blocks (over HTTP, neither does stdout): lines that nobody reads are
        dropped. A forked child process has the signal handlers from before `run`. Processes of
        `multiprocessing` are terminated one second after the interpreter exits.

        Args:
            transport: "stdio", "http" (Streamable HTTP, every revision) or "sse" (HTTP+SSE,
                2024-11-05).
            host: The address to listen on; None means 127.0.0.1. An address that other machines can
                reach needs ``HttpOptions.allowed_hosts``.
            port: The port to listen on. 0 chooses a free port; None means 8000.
            path: The exact path of the "http" endpoint; None means ``/mcp``.
            legacy_sse: Whether "http" also serves HTTP+SSE, at ``/sse`` and ``/messages``.

        Raises:
            TypeError: An option is unknown, or one of the last four is given for "stdio".
            ValueError: The transport is unknown, or ``allowed_hosts`` is needed.
            OSError: The address cannot be listened on.
        """
        if unknown:
            _refuse_options("run(...)", unknown, Server.run)
        names = ("stderr",) if transport == "stdio" else ("stdout", "stderr")
        with never_blocking(*names):
            self._serve_until_ended(transport, host, port, path, legacy_sse)

    def _serve_until_ended(
        self,
        transport: str,
        host: Optional[str],
        port: Optional[int],
        path: Optional[str],
        legacy_sse: bool,
    ) -> None:
        web = {"host": host, "port": port, "path": path, "legacy_sse": legacy_sse or None}
        given = [f"{name}={value!r}" for name, value in web.items() if value is not None]
        if transport == "stdio":
            if given:
                raise TypeError(
                    f'run({given[0]}): "stdio" does not accept it; did you mean run("http", '
                    f"{', '.join(given)})?"
                )
            from ..stdio.streams import StandardStreams

            if os.isatty(0):
                log.warning(TERMINAL_HINT)
            self._registry.warn_if_empty()
            streams = StandardStreams.take(self._limits.message_bytes)
            connections: list[Connection] = []

            def open_connection(run: Run) -> Connection:
                connections.append(self.connect(streams, name=self.name, on_lost=run.wake))
                return connections[0]

            try:
                self._run(open_connection, with_parent=True)
            finally:
                # A handler that is still running would print between the messages.
                is_busy = any(each.requests.running for each in connections)
                streams.restore(stdout=not is_busy)
        elif transport in ("http", "streamable-http", "sse"):
            newer = transport != "sse"
            older = legacy_sse or transport == "sse"
            # Only here, where the process belongs to the server.
            load("http.server").return_freed_memory()
            self._registry.warn_if_empty()

            def start(run: Run) -> RunningHttp:
                at = "/mcp" if path is None else path
                number = 8000 if port is None else port
                running = self._start_http(
                    host or "127.0.0.1", number, at, newer=newer, older=older
                )
                more = ""
                if newer and older:
                    more = f" and {running.url[: -len(at)]}/sse"
                if sys.stderr is not None:
                    print(f"{self.name} serves at {running.url}{more}", file=sys.stderr, flush=True)
                return running

            self._run(start, with_parent=False)
        else:
            raise ValueError(f"unknown transport {transport!r}: write 'stdio', 'http' or 'sse'")

    def _run(self, start: Callable[[Run], RunningServer], *, with_parent: bool) -> None:
        run = Run(
            self._main,
            self._limits.drain_grace,
            with_parent=with_parent,
            is_busy=self._is_busy,
        )
        self._runs.append(run)
        try:
            run.serve(lambda: start(run))
        finally:
            if run in self._runs:  # not in a forked process
                self._runs.remove(run)

    def _main(self) -> Optional[Main]:
        executors = self._registry.loaded("executors")
        return None if executors is None else executors.main

    def _wake_main(self) -> None:
        for run in list(self._runs):
            run.look_for_main()

    def _is_busy(self) -> bool:
        executors = self._registry.loaded("executors")
        return executors is not None and executors.is_busy()

    def open_pipe(self) -> Transport:
        """Return the client's end of a new in-memory connection to this server.

        Messages are encoded and decoded as for other transports. This server's limits apply to both
        ends.
        """
        ours, theirs = memory_pair(self._limits.message_bytes)
        self.connect(ours, name=f"{self.name}-memory")
        return theirs

    def connect(
        self, pipe: Transport, *, name: str = "", on_lost: Optional[Callable[[], None]] = None
    ) -> Connection:
        """Serve another connection in the background, on its own threads.

        Args:
            pipe: The transport. It is closed when the connection ends.
            name: A name for logs and threads; empty uses the transport's name.
            on_lost: Called on the reader thread when the connection has ended; None means no
                callback.
        """

        def ended(role: ServerRole) -> None:
            self._registry.drain(channel)  # handlers that asked after draining began
            with self._state_lock:
                self._connections.pop(role, None)
                if not self._connections:
                    self._pool.close()
            if on_lost is not None:
                on_lost()

        role = self._registry.role(on_lost=ended)
        channel = Connection(
            pipe,
            role,
            limits=self._limits,
            pool=self._pool,
            cap=self._cap,
            name=name,
            trace=self._trace,
        )
        role.later = channel.post
        role.end = partial(channel.close, self._limits.drain_grace)
        with self._state_lock:
            self._connections[role] = channel
        # Keep one idle thread: no thread can be started while the interpreter shuts down.
        self._pool.spawn(bool)
        channel.open()
        channel.keep_alive(self._config.ping_interval)
        return channel

    def pump(self, timeout: Optional[float] = 0) -> int:
        """Run the requests that wait for ``executor="main"`` on this thread, and return their
        number.

        Requests that arrive in the meantime wait for the next call. Any thread may pump.

        Args:
            timeout: Seconds to wait for the first request. None means until a request arrives or
                `close` is called.

        Raises:
            RuntimeError: This thread is already pumping. A pumped handler cannot pump.
            KeyboardInterrupt: Ctrl-C was pressed while a handler ran. An error response is sent for
                it.
        """
        count: int = self._registry.feature("executors").main.pump(timeout)
        return count

    # ------------------------------------------------------------ serving HTTP

    @keywords_shown
    def wsgi(
        self,
        path: str = "/mcp",
        *,
        max_streams: Optional[int] = 0,
        allowed_hosts: Optional[Iterable[str]] = None,
        allowed_origins: Optional[Iterable[str]] = None,
        **unknown: NoReturn,
    ) -> WsgiApp:
        """Return a WSGI application (PEP 3333) that serves this server. It has its own sessions.

        Args:
            path: The path of the endpoint, with or without a trailing slash. If the application is
                mounted below a prefix, the path may include that prefix or not.
            max_streams: Maximum number of open notification streams; each occupies a thread of the
                host. With 0, GET is answered with 405, unless it resumes the stream of a call, and
                `subscriptions/listen` is answered with an error. None means no limit.
            allowed_hosts: Host names of the server; None means the server's ``HttpOptions``.
            allowed_origins: Origins that may send requests; None means the server's
                ``HttpOptions``.

        Raises:
            TypeError: An option is unknown, or is not a number or a list.
            ValueError: A host or an origin is invalid, or the number is below 0.
        """
        if unknown:
            _refuse_options("wsgi(...)", unknown, Server.wsgi)
        check_number("max_streams", max_streams)
        endpoint = self._endpoint(
            path, max_streams, allowed_hosts=allowed_hosts, allowed_origins=allowed_origins
        )
        with self._state_lock:
            self._wsgi_endpoints.add(endpoint)
        patience = self._limits.write_timeout
        made: WsgiApp = load("http.wsgi").WsgiApp(endpoint, patience=patience)
        return made

    def handle_http(
        self, request: HttpRequest, *, stream: bool = False, path: str = "/mcp"
    ) -> HttpResponse:
        """Serve one HTTP request that another HTTP server has received. Any thread may call this.

        Args:
            request: The request. Its body is read only after its host, origin and size were
                accepted.
            stream: Whether the body of the response may be an iterator of bytes, whose ``close()``
                must be called. If False, the body is bytes: progress is dropped, and in revisions
                with a handshake a handler that asks its client raises `CapabilityNotSupported`.
            path: The exact path of the endpoint.
        """
        with self._state_lock:
            endpoint = self._endpoints.get(path)
            if endpoint is None:
                endpoint = self._endpoints[path] = self._endpoint(path, self._limits.streams)
        patience = self._limits.write_timeout
        respond = load("http.wsgi").respond
        response: HttpResponse = respond(endpoint, request, stream=stream, patience=patience)
        return response

    @keywords_shown
    def start_http(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        path: str = "/mcp",
        legacy_sse: bool = False,
        **unknown: NoReturn,
    ) -> RunningHttp:
        """Start the bundled HTTP server in the background.

        Args:
            host: The name or address to listen on. One that other machines can reach needs
                ``HttpOptions.allowed_hosts``.
            port: The port to listen on; 0 chooses a free port.
            path: The exact path of the endpoint.
            legacy_sse: Whether to serve clients of 2024-11-05 too, at ``/sse`` and ``/messages``.

        Returns:
            The running server, with ``url``, ``port`` and ``close()``. It is a context manager.

        Raises:
            TypeError: An option is unknown.
            ValueError: Other machines can reach the host, but ``allowed_hosts`` is not set.
            OSError: The address cannot be listened on.
        """
        if unknown:
            _refuse_options("start_http(...)", unknown, Server.start_http)
        return self._start_http(host, port, path, newer=True, older=legacy_sse)

    def _start_http(
        self, host: str, port: int, path: str, *, newer: bool, older: bool
    ) -> RunningHttp:
        options = self._http or load("http.options").HttpOptions()
        limits = self._limits
        endpoint = legacy = None
        if newer:
            endpoint = self._endpoint(path, limits.streams)
        if older:
            serve_sse = load("http.legacy_sse").SseServer
            legacy = serve_sse(self.connect, self._registry, options, limits.streams, self._auth)
        running: RunningHttp = load("http.server").RunningHttp(
            endpoint,
            legacy,
            options,
            path=path,
            host=host,
            port=port,
            write_timeout=limits.write_timeout,
            drain_grace=limits.drain_grace,
            shares=self._config.shares,
        )
        self.listening.add(running)
        self.listening.difference_update([each for each in list(self.listening) if each.ended])
        return running

    def _endpoint(self, path: str, max_streams: Optional[int], **changes: Any) -> Endpoint:
        """Create an endpoint with its own sessions. If a change is None, the server's option
        applies."""
        if not isinstance(path, str) or not path.startswith("/"):
            raise ValueError(f"path must begin with /, not {path!r}")
        given = {name: value for name, value in changes.items() if value is not None}
        session_store = None
        if self._config.processes is not None:
            session_store = partial(
                load("stores.sessions").SharedSessions,
                self._config.processes,
                self._registry.feature("subscriptions"),
            )
        endpoint: Endpoint = load("http.endpoint").Endpoint(
            self._registry,
            self._registry.role,
            path=path,
            options=(self._http or load("http.options").HttpOptions()).replace(**given),
            limits=self._limits,
            pool=self._pool,
            cap=self._cap,
            max_streams=max_streams,
            trace=self._trace,
            bearer=self._auth,
            session_store=session_store,
        )
        return endpoint

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """End every connection, within ``Limits.drain_grace`` seconds for all running requests;
        `run` returns.

        Idempotent and thread-safe. Requests that wait for `pump` do not run. A closed server may
        serve again. In a handler of this server, this returns at once, because that handler itself
        is one of the running requests.
        """
        config = self._config
        grace = self._limits.drain_grace
        deadline = Deadline(grace)
        executors = self._registry.loaded("executors")
        if executors is not None:
            executors.main.clear("the server is closing")
        for run in list(self._runs):
            run.wake()
        with self._state_lock:
            closing = [partial(each.close, grace) for each in self._connections.values()]
            closing += [partial(each.close, grace) for each in list(self.listening)]
            endpoints = (*self._endpoints.values(), *self._wsgi_endpoints)
            closing += [partial(self._close_endpoint, each, deadline) for each in endpoints]
        incoming = current_request()
        threads = [
            threading.Thread(target=each, name="minimcp-close", daemon=True) for each in closing
        ]
        for thread in threads:
            thread.start()
        if incoming is None or incoming.server is not config:
            for thread in threads:
                thread.join()
            self._pool.close()
        if executors is not None:
            executors.leave(config)
        if config.processes is not None:
            config.processes.stop()

    def _close_endpoint(self, endpoint: Endpoint, deadline: Deadline) -> None:
        """Close the sessions and streams of an endpoint, which may then serve again."""
        with self._closing_http:  # one at a time; they share the deadline
            endpoint.close(deadline.to_wait())
            endpoint.renew_in_fork()

    def __repr__(self) -> str:
        tools = len(self._registry.tools.items)
        return f"<Server {self.name!r} {tools} tools, {len(self._connections)} connections>"


@keywords_shown
def serve(
    handlers: Any,
    transport: str = "stdio",
    *,
    host: Optional[str] = None,
    port: Optional[int] = None,
    path: Optional[str] = None,
    legacy_sse: bool = False,
    **unknown: NoReturn,
) -> None:
    """Serve the marked methods of a plain object: ``serve(Calculator())``.

    Creates a server with `Server.of` and calls `Server.run`, whose page explains the options.

    Args:
        handlers: The object.
        transport: "stdio", "http" or "sse".
        host: The address to listen on; None means 127.0.0.1.
        port: The port to listen on. 0 chooses a free port; None means 8000.
        path: The exact path of the "http" endpoint; None means ``/mcp``.
        legacy_sse: Whether "http" also serves HTTP+SSE.

    Raises:
        TypeError, ValueError, OSError: See `Server.of` and `Server.run`; or an option is unknown.
    """
    if unknown:
        _refuse_options("serve(...)", unknown, serve, '"name", object')
    Server.of(handlers).run(transport, host=host, port=port, path=path, legacy_sse=legacy_sse)


def _adding(server: Any, kind: str) -> Callable[..., None]:
    """Return ``server.add_tool`` and the like. Raise TypeError if the decorator is used on the
    class."""
    if not isinstance(server, Server):
        raise TypeError(
            f'write @server.{kind}, with server = Server("name"), instead of @Server.{kind}'
        )
    found: Callable[..., None] = getattr(server, f"add_{kind}")
    return found


def _new_place(option: str) -> Optional[str]:
    """Return how to write an option of `Limits` or `HttpOptions` for `Server`. None if neither has
    it."""
    for cls, keyword in ((Limits, "limits"), (load("http.options").HttpOptions, "http")):
        name = option if option in cls.__match_args__ else option.removeprefix("max_")
        if name in cls.__match_args__:
            return f"{keyword}={cls.__name__}({name}=...)"
    return None


def _refuse_options(
    owner: str, unknown: Mapping[str, Any], function: Any, arguments: str = "..."
) -> NoReturn:
    """Raise TypeError for an unknown option of a function that serves.

    If it is an option of the server, the message says where to write it.
    """
    name = next(iter(unknown))
    is_own = name in (Server.__init__.__kwdefaults__ or ())
    place = f"{name}=..." if is_own else _new_place(name)
    if place is not None:
        raise TypeError(f"{owner} has no option {name}=: write Server({arguments}, {place})")
    refuse_options(owner, unknown, function)


def _check_given(given: Mapping[str, Any]) -> None:
    """Reject a wrong name or value of `Server`. Name the new place of options that were moved."""
    name = given["name"]
    http = given["http"]
    auth = given["auth"]
    for option in given["unknown"]:
        now = _new_place(option)
        if now is not None:
            raise TypeError(f"Server(...): {option}= is now {now}")
        refuse_options("Server(...)", [option], Server.__init__)
    if not isinstance(name, str):
        hint = ""
        if has_marks(type(name)):
            hint = ": Server.of(...) uses the name of the object's class"
        raise TypeError(f"a server's name must be a str, not {name!r:.60}{hint}")
    if not name:
        raise ValueError("a server's name must not be empty")
    check_options(given, SERVER_OPTIONS)
    if not isinstance(given["capabilities"], Mapping):
        check_names(
            given["capabilities"] or (),
            CAPABILITIES,
            "capabilities: servers cannot declare",
            error=ValueError,
        )
    # By name, because the module of the class is loaded only by a server that uses it.
    if http is not None and type(http).__name__ != "HttpOptions":
        raise TypeError(f"http must be an HttpOptions(...) or None, not {http!r:.60}")
    if given["card"] is not None and type(given["card"]).__name__ != "Card":
        raise TypeError(f"card must be a minimcp.Card(...) or None, not {given['card']!r:.60}")
    if auth is not None and type(auth).__name__ != "Bearer":
        # Without the value: it may be a token.
        raise TypeError(f"auth must be a minimcp.Bearer(...) or None, not {type(auth).__name__}")
