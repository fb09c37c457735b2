"""`Server`: what an author makes, says what it offers, and serves on every transport.

https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Optional, TypeVar, Union, overload
from weakref import WeakSet

from ..engine.connection import Connection
from ..engine.incoming import current_request
from ..engine.limits import Limits
from ..engine.output import never_blocking
from ..engine.pool import Pool, renewed_in_fork
from ..engine.timer import Deadline
from ..engine.transport import Transport, memory_pair, tracer
from ..protocol.lifecycle import Offer
from ..protocol.messages import Json
from ..protocol.versions import choose
from ..schema.mismatch import keywords_shown, plain_json, refuse_options
from ..types.content import Icon, Implementation
from ..types.meta import check_extensions
from .feature import load
from .options import (
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
from .run import FOR_A_PERSON, Run, RunningServer, log

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..auth.bearer import Bearer
    from ..features.executors import ExecutorOption, Main
    from ..features.observers import FinishedRequest
    from ..http.endpoint import Endpoint
    from ..http.headers import HttpRequest, HttpResponse
    from ..http.options import HttpOptions
    from ..http.server import RunningHttp
    from ..http.wsgi import WsgiApp
    from ..stores.base import Store
    from .options import AppOptions, PromptOptions, ResourceOptions, ToolOptions

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)


class Server:
    """A server of the Model Context Protocol. Thread-safe; no connection, so it may be built before
    a fork.

    Args:
        name: For programs; clients see it.
        handlers: Plain objects whose marked methods are registered, as by `add`.
        version: Of the server, as clients see it.
        title: For people; None sends none.
        description: What it is for; None sends none.
        website_url: Where to read more; None sends none.
        icons: Pictures of it; None sends none.
        instructions: For the client's model: what the server is good for; None sends none.
        capabilities: Kinds that count as registered before anything of them is, as in
            ``{"tools"}``; a mapping also says what else to declare, of them or beside them:
            ``{"experimental": {"x": {}}}``. None adds none.
        extensions: `Extension` objects to serve, such as `Tasks()`, in a list; or what to declare
            only, by identifier (``"com.example/x"``), each with an object of settings. None
            declares none.
        revisions: Names of the revisions to speak; None speaks all five.
        strict_version: Refuse an unknown revision at `initialize` instead of offering another.
        strict_arguments: Answer wrong arguments of a tool with -32602 where the revision is older
            than 2025-11-25.
        strict_schemas: Publish ``"additionalProperties": false`` at every level of the schemas that
            are made from annotations, as some models' APIs want it. Some hosts cannot read it, so
            without this option only a tool without parameters has it. Unknown arguments are
            rejected either way.
        accept_batches: Take arrays of messages in every revision, not only where they exist.
        page_size: Items on a page of a list; None puts all on one.
        list_ttl: Seconds that clients may keep lists.
        list_cache_scope: Who may keep them: "private" (one user) or "public".
        mask_errors: Keep the words of unexpected errors in tools from the client; a reference names
            them in the log.
        logging: Whether handlers may send log messages; False makes ``ctx.log`` do nothing.
        executor: Where handlers run: None (a pool of ``Limits.workers`` threads), "main" (where
            `pump` is called), an object with ``submit()`` such as a `Serial`, or a callable that is
            given a function to run. A tool may say otherwise.
        on_pump_needed: Called on another thread when there is something to pump; None calls
            nothing.
        check_replay: For tests: answer what a handler asks by running it again from the top, as
            over HTTP, with a handshake and over stdio too, and fail when it then asks something
            else.
        state_keys: Secrets of 32 bytes or more, which sign what clients carry between rounds; the
            first signs, all verify. Processes that serve the same clients share them. None makes
            one up, for this process and its forks, or for all that share the store.
        store: Where tasks are kept, and the events that lost streams go on with, if nothing else is
            said there: a `MemoryStore`; or a `SqliteStore` or `RedisStore`, which also keeps the
            sessions of HTTP, so that any process with the same store takes any request. None keeps
            each in memory.
        trace: A text file, or a callable that gets ("-->" or "<--", text) for every message; None
            for no trace.
        on_request: Called with a `FinishedRequest` for each request when it ends, also lists, pings
            and those that are refused, before the answer is sent, by the thread that ends it. Be
            quick: for pings, lists and refusals that is the one that reads; for a timeout the
            timer; over HTTP, for a client that has left, the one that accepts connections. None
            calls nothing.
        ping_interval: Seconds between two pings of an idle client; None sends none. Clients are
            pinged over stdio and in HTTP sessions that have an open GET stream, in revisions with a
            handshake. Each ping without a response is logged; after three in a row the connection
            or session ends.
        limits: What clients may cost, in bytes, seconds and numbers; None takes the defaults of
            `Limits`.
        http: How it is served over HTTP; None takes the defaults of `HttpOptions`.
        auth: Who may send requests over HTTP, a `Bearer`; None lets everybody. Over stdio nobody is
            asked.

    Raises:
        TypeError: The name is no text, or an option is of another type or unknown; the message says
            what to write.
        ValueError: The name is empty, a revision is unknown, or an option has a value that it
            cannot have.
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
        self._http = http
        self._auth = auth
        self._trace = tracer(trace)
        if not isinstance(capabilities, Mapping):
            capabilities = dict.fromkeys(capabilities or (), {})
        declared = plain_json(capabilities, "capabilities")
        for kind, members in declared.items():
            if not isinstance(members, dict):
                raise TypeError(f"capabilities: {kind!r:.60} is an object: write {{}} for none")
        if isinstance(extensions, Mapping):
            declared["extensions"] = plain_json(check_extensions(extensions), "extensions")
            extensions = None
        given.update(limits=limits, capabilities=declared)
        options = {
            option: value
            for option, value in given.items()
            if option in ServerConfig.__dataclass_fields__
        }
        audience = () if auth is None else auth.audience
        processes = None
        if store is not None and store.shared:
            processes = load("stores.processes").Processes(store, name, audience)
        elif state_keys is None:
            # Made here and not on first use, so that forked processes have the same.
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
        offer = Offer(
            choose(revisions), strict_version=strict_version, accept_batches=accept_batches
        )
        self.renew_in_fork()
        self._registry = Registry(self._config, offer)
        if state_keys is not None:
            self._registry.feature("rounds")  # it checks them
        if on_request is not None:
            observers = load("features.observers")
            self._config.on_finished = observers.observer(on_request, self._registry.has_method)
        self._endpoints: dict[str, Endpoint] = {}
        self._wsgi_endpoints: WeakSet[Endpoint] = WeakSet()
        self._pool = Pool(limits.workers, f"minimcp-{name}")
        renewed_in_fork.add(self)
        for extension in extensions or ():
            if not hasattr(extension, "install") or isinstance(extension, type):
                raise TypeError(f"extensions holds objects such as Tasks(), not {extension!r:.60}")
            extension.install(self)
        self.add(*handlers)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse an option that is set later, which nothing would read; other attributes are the
        author's."""
        options = Server.__init__.__kwdefaults__ or {}
        if name == "name" or name in options:
            way = "..." if name == "name" else f"{self.name!r:.60}, {name}=..."
            raise AttributeError(f"{name} is given when the server is made: Server({way})")
        super().__setattr__(name, value)

    def renew_in_fork(self) -> None:
        """Begin without a connection, as at first: in a forked process they are the parent's.
        Python calls this."""
        for running in self.__dict__.get("_listening", ()):
            running.renew()
        self._listening: set[RunningHttp] = set()
        self._state_lock = threading.Lock()
        most = self._limits.requests
        self._cap = None if most is None else [None] * most
        self._closing_http = threading.Lock()
        self._connections: dict[ServerRole, Connection] = {}
        self._config.renew_shares()
        self._runs: list[Run] = []

    @classmethod
    def of(
        cls, handlers: Any, *, name: Optional[str] = None, version: Optional[str] = None
    ) -> Server:
        """A server of one plain object, whose marked methods it serves.

        Args:
            handlers: The object.
            name: None takes the name of its class in lower case.
            version: None says "0".

        Raises:
            TypeError, ValueError: As `add`.
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
        """Register a function as a tool: ``@server.tool``, ``@server.tool(...)`` or
        ``server.tool(function)``.

        The parameters' annotations become the input schema, the return annotation the output
        schema, the docstring the description. A parameter annotated `Context` receives the
        request's.

        Args:
            function: The function or bound method; it is returned as it is.
            name: None takes the function's.
            title: For people; None sends none.
            description: For the model; None takes the docstring.
            annotations: Hints such as ``{"read_only_hint": True}``; None sends none.
            input_schema: JSON Schema of the arguments; None makes it from the annotations.
            output_schema: JSON Schema of the result; None makes it from the return annotation.
            icons: Pictures of it; None sends none.
            meta: The tool's ``_meta``; None sends none.
            structured: Whether results are sent as structured content too; None lets the annotation
                decide.
            timeout: Seconds it may run, not counting the time in which it waits for the client;
                None sets no limit. With an executor it also bounds how long a call waits until it
                begins.
            executor: Where it runs; None takes the server's. "main": where `Server.pump` is called.
                A `Serial`: on one thread, with all that name the object. Anything else with
                ``submit()``, or a callable: where that runs the function without arguments that it
                is given.
            requires: Client capabilities that it needs, checked before it starts: "sampling",
                "elicitation.url".
            headers: Parameters that clients mirror in an HTTP header, each with its name:
                ``{"region": "Region"}`` is ``Mcp-Param-Region``. Never a secret. None mirrors none.
            scopes: What the token of a call over HTTP has to allow, beside the scopes of
                ``Server(auth=...)``.
            task: Whether calls may go on after their request was answered, with
                ``extensions=[Tasks()]``: "optional", "required", or "later", when the handler calls
                ``ctx.become_task()``; None never lets them.
            ui: URI of the page that shows its results, which `app` registered before, with
                ``extensions=[Apps()]``; None shows none. Clients without pages get the result
                alone.
            visibility: Who may call it where there are pages: "model", "app" (the page) or both;
                None says nothing, which is both.
            replace: Take the place of a tool of the same name.

        Raises:
            TypeError: This cannot be a tool; the message says what to write instead.
            ValueError: The name is taken or empty, a schema is invalid, or no client can declare
                what it requires.
            ImportError: A schema needs ``jsonschema``, which is not installed.
        """
        return decorated(_adding(self, "tool"), "server.tool", given, options)

    @with_option_signature("tool")
    def add_tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> None:
        """`tool` as a plain call, also while connections are open: they are told that the list has
        changed."""
        self._registry.add("tool", function, options)

    def remove_tool(self, name: str) -> None:
        """Take a tool away; open connections are told.

        Raises:
            KeyError: There is none of this name.
        """
        self._registry.remove("tool", name)

    # ------------------------------------------------------------ resources

    @with_option_signature("resource")
    def resource(
        self, uri: str, *given: NoReturn, **options: Unpack[ResourceOptions]
    ) -> Callable[[F], F]:
        """Register a function as a resource: ``@server.resource("notes://all")``,
        ``("notes://{number}")``.

        A URI with variables in braces (RFC 6570) is a template: each variable is a parameter of the
        function, given as the parameter's type; a URI whose values do not fit is not found. A
        resource of the URI that is read comes first, then the first template that matches. URIs are
        compared as in RFC 3986, 6.2.2 and 6.2.3: "KB://notes" is "kb://notes". Values keep their
        case.
        ``{x}`` never takes "/" or "..", ``{+x}`` takes slashes.

        What the function returns is the content: str is text, bytes (bytearray, memoryview) are
        binary, contents and results stay as they are, everything else becomes JSON text.

        Args:
            uri: The URI, or the template.
            name: For programs; None takes the function's.
            title: For people; None sends none.
            description: For the model; None takes the docstring.
            mime_type: Of the content; None says nothing in lists, and takes the content's own on
                reading.
            size: Of the content in bytes, for resources only; None when it is not known.
            annotations: For whom it is meant, as in ``{"audience": ["user"], "priority": 1}``; None
                sends none.
            icons: Pictures of it; None sends none.
            meta: The resource's ``_meta``; None sends none.
            ttl: Seconds that clients may keep what they read.
            cache_scope: Who may keep it: "private" (one user) or "public".
            complete: For variables, what completes them: a list of values, or a function that takes
                the text typed so far, and the arguments chosen already if it has a second
                parameter. None: only what types say.
            requires: Client capabilities that it needs, checked before it starts.
            replace: Take the place of one of the same URI.

        Raises:
            TypeError: This cannot be a resource; the message says what to write instead.
            ValueError: The URI is taken or is none, or an option has a value that it cannot have.
        """
        return named("server.resource", uri, partial(self.add_resource, uri=uri), given, options)

    @with_option_signature("resource")
    def add_resource(
        self, function: Callable[..., Any], uri: str, **options: Unpack[ResourceOptions]
    ) -> None:
        """`resource` as a plain call, also for templates; open connections are told that the list
        has changed."""
        self._registry.add("resource", function, options, uri)

    def remove_resource(self, uri: str) -> None:
        """Take a resource or a template away, by what it was registered with; open connections are
        told.

        Raises:
            KeyError: There is none.
        """
        self._registry.remove("resource", uri)

    @with_option_signature("app")
    def app(self, uri: str, *given: NoReturn, **options: Unpack[AppOptions]) -> Callable[[F], F]:
        """Register a function as a page of HTML that hosts show, for ``@server.tool(ui=...)``, with
        `Apps`.

        The function returns the whole page, as text. Where it says ``<script
        src="minimcp-app.js"></script>`` it gets a script that defines ``app``, which
        examples/apps.rst explains: ``app.callTool(name, arguments)`` and others.

        https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx

        Args:
            uri: Under ``ui://``, without variables: "ui://sales/chart".
            name: For programs; None takes the function's.
            title: For people; None sends none.
            description: What it shows; None takes the docstring.
            icons: Pictures of it; None sends none.
            meta: The resource's ``_meta``; None sends none.
            csp: Origins that the page may use, in lists: "connect_domains" (to send requests to),
                "resource_domains" (scripts, styles, pictures, fonts), "frame_domains" and
                "base_uri_domains". None: no other origin.
            permissions: What it asks the browser for: "camera", "microphone", "geolocation",
                "clipboard_write".
            border: Whether the host draws a border round it; None lets the host decide.
            domain: Origin that it is to have, in the form that a host prescribes; None lets the
                host decide.
            ttl: Seconds that clients may keep the page.
            cache_scope: Who may keep it: "private" (one user) or "public".
            requires: Client capabilities that it needs, checked before it is read.
            replace: Take the place of a resource of the same URI.

        Raises:
            TypeError: This cannot be an app, or the server was made without `Apps`; the message
                says what to write.
            ValueError: The URI is taken or no ``ui://``, or an option has a value that it cannot
                have.
        """
        return named("server.app", uri, partial(self.add_app, uri=uri), given, options)

    @with_option_signature("app")
    def add_app(
        self, function: Callable[..., Any], uri: str, **options: Unpack[AppOptions]
    ) -> None:
        """`app` as a plain call. Clients are notified that the list of resources has changed."""
        self._registry.add("app", function, options, uri)

    add_resource_template = add_resource
    remove_resource_template = remove_resource

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource, or to a collection that it lies in, that
        it has changed.

        Returns at once: notifications go out in the background, and one that waits for a slow
        client is not sent twice.

        Args:
            uri: Of the resource; there need be none registered under it.
        """
        self._registry.resource_updated(uri)

    # ------------------------------------------------------------ prompts

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
    @with_option_signature("prompt")
    def prompt(self, *given: Any, **options: Any) -> Any:
        """Register a function as a prompt: ``@server.prompt``, ``@server.prompt(...)`` or
        ``server.prompt(function)``.

        Its parameters become the prompt's arguments, those without a default required, described by
        the docstring. On the wire their values are strings; the function gets them as the
        parameters' types.

        It returns one message or a list of them: a str or a content block is a message of the user,
        a `PromptMessage` says who speaks; or it returns a whole `GetPromptResult`.

        Args:
            function: The function or bound method; it is returned as it is.
            name: None takes the function's.
            title: For people; None sends none.
            description: What it is for; None takes the docstring.
            icons: Pictures of it; None sends none.
            meta: The prompt's ``_meta``; None sends none.
            complete: For arguments, what completes them, as for `resource`; None: only what types
                say.
            requires: Client capabilities that it needs, checked before it starts.
            replace: Take the place of a prompt of the same name.

        Raises:
            TypeError: This cannot be a prompt; the message says what to write instead.
            ValueError: The name is taken or empty, ``complete`` names no argument, or ``requires``
                no capability.
        """
        return decorated(_adding(self, "prompt"), "server.prompt", given, options)

    @with_option_signature("prompt")
    def add_prompt(self, function: Callable[..., Any], **options: Unpack[PromptOptions]) -> None:
        """`prompt` as a plain call; open connections are told that the list has changed."""
        self._registry.add("prompt", function, options)

    def remove_prompt(self, name: str) -> None:
        """Take a prompt away; open connections are told.

        Raises:
            KeyError: There is none of this name.
        """
        self._registry.remove("prompt", name)

    # ------------------------------------------------------------ objects, methods, other servers

    def add(self, *handlers: Any) -> None:
        """Register the marked methods of plain objects: those under ``@minimcp.tool``,
        ``resource``, ``prompt`` ...

        Their names become those of the tools and prompts, without a prefix. Handlers of one object
        run on several threads at once: guard its state with a lock, or give the server
        ``executor=Serial()``.

        Args:
            handlers: Objects of any classes.

        Raises:
            TypeError: One is a class, or a method cannot be what it is marked as.
            ValueError: No method of one is marked, or a name is taken. What of these objects was
                registered is taken back.
        """
        with ExitStack() as take_back:
            for function, mark in (found for each in handlers for found in marked(each)):
                added = self._registry.add(mark.kind, function, mark.options, *mark.arguments)
                take_back.callback(self._registry.remove, *added)
            take_back.pop_all()

    def method(self, name: str, *, replace: bool = False) -> Callable[[F], F]:
        """Serve a method of your own, in every revision: ``@server.method("vendor/thing")``.

        The function takes the params, a dict with the ``_meta`` of the request in it, and if it
        likes the `Context`: ``def thing(params, ctx)``. It returns what JSON writes as an object,
        or None for an empty one; a client asks by ``client.request("vendor/thing", {...})``.

        Args:
            name: The method. None of the specification, in whatever revision.
            replace: Take the place of one of the same name.

        Raises:
            TypeError: This cannot serve a method; the message says what to write instead.
            ValueError: The name is taken, or belongs to the protocol.
        """
        options = {"replace": replace}
        return named(
            "server.method",
            name,
            lambda function: self._registry.add("method", function, options, name),
        )

    def middleware(self, function: M) -> M:
        """Run a function round every handler: ``def timing(ctx, call_next): return call_next()``.

        The first that is registered is the outermost. It runs on the handler's thread round
        `tools/call`, `prompts/get`, `resources/read`, `completion/complete` and the server's own
        methods, once per round where a request has several; ``ctx.method`` and ``ctx.params`` say
        what is asked. A request that names nothing that there is does not get here, nor does
        ``ctx.read_resource``. One that is registered while requests run counts for those that come
        later.

        ``call_next()`` runs the rest. It returns what the handler returned, before that is
        converted (for completion a `Completion`), and raises what the handler raised; arguments
        that do not fit a tool are a `ToolError`. What the function returns or raises counts as the
        handler's own. It must let `BaseException` pass: an unanswered question of the handler
        unwinds it that way.

        Raises:
            TypeError: The function does not take these two arguments, or is async or a generator.
        """
        count_positional(function, "middleware", ("ctx", "call_next"), least=2)
        self._config.middleware.append(function)
        return function

    def mount(self, other: Server, *, prefix: str) -> None:
        """Offer what another server has, and follow its changes; it may also be served by itself.

        Its tools and prompts have names ``<prefix>__<name>`` here; resources keep their URIs,
        methods of its own their names. All options that hold are those of this server, and
        ``ctx.server`` is this server. Only the executors are its own (a `Serial` serves until both
        servers are closed; "main" is where this one is pumped), and its middleware runs inside that
        of this server. `resource_updated` of either reaches the subscribers here.

        Something that is registered there later under a name that is taken here is not offered
        here: what this server has itself comes first, then what was mounted first; the log says so.

        Args:
            other: The server. It may mount others; prefixes are put together then.
            prefix: What the names begin with.

        Raises:
            ValueError: A name is taken, or the servers would mount each other, or the prefix is
                empty.
            TypeError: This is no server, or the prefix no text.
        """
        if not isinstance(other, Server) or not isinstance(prefix, str):
            raise TypeError(
                "mount takes a server, and what its names begin with: server.mount(other, "
                'prefix="x")'
            )
        if not prefix:
            raise ValueError("the prefix of a mounted server is not empty")
        self._registry.feature("mounting").mount(other._registry, prefix)

    # ------------------------------------------------------------ serving

    def run(
        self,
        transport: str = "stdio",
        *,
        host: Optional[str] = None,
        port: Optional[int] = None,
        path: Optional[str] = None,
        legacy_sse: bool = False,
    ) -> None:
        """Serve until the input ends, a signal comes or `close` is called; then put everything back
        as it was.

        Each request runs in its own copy of the `contextvars` context of this call. The middleware,
        the handler and the callbacks of ``ctx.on_cancel`` find what the others have set there.

        In the main thread SIGINT, SIGTERM and SIGHUP end it within 1.2 seconds: running requests
        are cancelled at once, and a second signal does not wait for them. In any other thread
        signals are left alone. The main thread also pumps; a handler there, or in an executor of
        your own, that does not return in that time ends the process with exit code 1. At the end of
        the input and after `close` running requests get ``Limits.drain_grace`` seconds.

        Nothing waits for the reader of stderr (over HTTP also of stdout): `sys.stderr` and handlers
        of `logging` on it drop what is not read, and count it. A forked child has the signal
        handlers from before `run`. When the interpreter exits after `run`, processes of
        `multiprocessing` that do not end within a second are terminated.

        Args:
            transport: "stdio", "http" (Streamable HTTP, every revision) or "sse" (the HTTP+SSE of
                2024-11-05).
            host: Where HTTP listens; None is 127.0.0.1. What other machines reach needs
                ``HttpOptions.allowed_hosts``.
            port: 0 takes a free one; None is 8000.
            path: Where "http" answers, exactly; None is ``/mcp``.
            legacy_sse: Whether "http" serves HTTP+SSE too, at ``/sse`` and ``/messages`` of the
                same port.

        Raises:
            TypeError: One of these four is given, and "stdio" has none.
            ValueError: There is no such transport, or other machines reach the host and
                ``allowed_hosts`` is not given.
            OSError: It cannot listen there.
        """
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
                    f'run({given[0]}): "stdio" has none; did you mean run("http", '
                    f"{', '.join(given)})?"
                )
            from ..stdio.streams import StandardStreams

            if os.isatty(0):
                log.warning(FOR_A_PERSON)
            self._registry.warn_if_empty()
            streams = StandardStreams.take(self._limits.message_bytes)
            connections: list[Connection] = []

            def open_connection(run: Run) -> Connection:
                connections.append(self.connect(streams, name=self.name, on_lost=run.wake))
                return connections[0]

            try:
                self._run(open_connection, with_parent=True)
            finally:
                # A handler that still runs would print between the messages.
                is_busy = any(each.requests.running for each in connections)
                streams.restore(stdout=not is_busy)
        elif transport in ("http", "streamable-http", "sse"):
            newer = transport != "sse"
            older = legacy_sse or transport == "sse"
            # Here only, for the process is the server's own.
            load("http.server").return_freed_memory()
            self._registry.warn_if_empty()

            def start(run: Run) -> RunningHttp:
                at = "/mcp" if path is None else path
                number = 8000 if port is None else port
                running = self._start_http(
                    host or "127.0.0.1", number, at, newer=newer, older=older
                )
                more = f" and {running.url[: -len(at)]}/sse" if newer and older else ""
                if sys.stderr is not None:
                    print(f"{self.name} serves at {running.url}{more}", file=sys.stderr, flush=True)
                return running

            self._run(start, with_parent=False)
        else:
            raise ValueError(
                f"unknown transport {transport!r}: there are 'stdio', 'http' and 'sse'"
            )

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
            run.look()

    def _is_busy(self) -> bool:
        executors = self._registry.loaded("executors")
        return executors is not None and executors.is_busy()

    def open_pipe(self) -> Transport:
        """A client's end of a new connection in memory, through the real codec; both ends have this
        server's limits."""
        ours, theirs = memory_pair(self._limits.message_bytes)
        self.connect(ours, name=f"{self.name}-memory")
        return theirs

    def connect(
        self, pipe: Transport, *, name: str = "", on_lost: Optional[Callable[[], None]] = None
    ) -> Connection:
        """Serve one more connection, on threads of its own.

        Args:
            pipe: The connection; it is closed when it ends.
            name: For logs and thread names; empty takes the pipe's.
            on_lost: Called when the connection has ended, on its reader's thread; None calls
                nothing.
        """

        def ended(role: ServerRole) -> None:
            self._registry.drain(channel)  # handlers that have asked since it began to end
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
        # Its thread waits `IDLE_SECONDS` for a request: none can start any more when the
        # interpreter ends.
        self._pool.spawn(bool)
        channel.open()
        channel.keep_alive(self._config.ping_interval)
        return channel

    def pump(self, timeout: Optional[float] = 0) -> int:
        """Run what waits for ``executor="main"``, on this thread; returns how many requests that
        were.

        What comes meanwhile is for the next call. Any thread may pump, and not always the same one.

        Args:
            timeout: Seconds to wait for the first request; None waits until there is one, or until
                `close`.

        Raises:
            RuntimeError: This thread is pumping already: a handler that is pumped cannot pump.
            KeyboardInterrupt: Ctrl-C struck while a handler ran; its request is answered with an
                error.
        """
        count: int = self._registry.feature("executors").main.pump(timeout)
        return count

    # ------------------------------------------------------------ serving HTTP

    def wsgi(
        self,
        path: str = "/mcp",
        *,
        max_streams: Optional[int] = 0,
        allowed_hosts: Optional[Iterable[str]] = None,
        allowed_origins: Optional[Iterable[str]] = None,
    ) -> WsgiApp:
        """This server as an application of PEP 3333, to be mounted anywhere; each call makes one
        with its own sessions.

        Args:
            path: Where it answers, with or without a slash at its end. Below a prefix that the
                application is mounted at, either with that prefix or without it.
            max_streams: Streams of notifications that may be open at once; each holds a thread of
                the host. With 0 there are none: GET is answered 405 unless it asks for the rest of
                a call's stream, `subscriptions/listen` with an error. None sets no limit.
            allowed_hosts: Names that the server is known by; None takes the server's own option.
            allowed_origins: Other pages that may send requests; None takes the server's own option.

        Raises:
            ValueError: A host or an origin is none.
        """
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
        """Serve one HTTP request that somebody else has received. Any thread.

        Args:
            request: Its body is read only after Host, Origin and size were looked at.
            stream: Whether the body of the response may be an iterator of bytes, whose ``close()``
                has to be called. Without, it is one body: progress is dropped, and a handler that
                asks a client which shook hands gets `CapabilityNotSupported`.
            path: Where the server answers, exactly.
        """
        with self._state_lock:
            endpoint = self._endpoints.get(path)
            if endpoint is None:
                endpoint = self._endpoints[path] = self._endpoint(path, self._limits.streams)
        patience = self._limits.write_timeout
        respond = load("http.wsgi").respond
        response: HttpResponse = respond(endpoint, request, stream=stream, patience=patience)
        return response

    def start_http(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        path: str = "/mcp",
        legacy_sse: bool = False,
    ) -> RunningHttp:
        """Serve over HTTP in the background, with the library's own server.

        Args:
            host: The name or address to listen at. One that other machines reach needs
                ``HttpOptions.allowed_hosts``.
            port: 0 takes a free one.
            path: Where it answers, exactly.
            legacy_sse: Serve clients of 2024-11-05 too, at ``/sse`` and ``/messages``.

        Returns:
            What runs: ``url``, ``port``, ``close()``; a context manager.

        Raises:
            ValueError: Other machines reach the host, and ``allowed_hosts`` does not say by which
                names.
            OSError: It cannot listen there.
        """
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
        self._listening.add(running)
        self._listening.difference_update([each for each in list(self._listening) if each.ended])
        return running

    def _endpoint(self, path: str, max_streams: Optional[int], **changes: Any) -> Endpoint:
        """What serves one path, with sessions of its own; a change that is None takes the server's
        own option."""
        if not path.startswith("/"):
            raise ValueError(f"a path begins with /, unlike {path!r}")
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
            options=replace(self._http or load("http.options").HttpOptions(), **given),
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
        """End every connection: running requests get ``Limits.drain_grace`` seconds together. `run`
        returns.

        Idempotent, any thread. Requests that wait for `pump` are not run any more. A closed server
        may serve again. In a handler of this server it returns at once: the handler that runs is
        among those that get this time.
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
            closing += [partial(each.close, grace) for each in list(self._listening)]
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
        """End what it serves; the next request begins anew."""
        with self._closing_http:  # one after the other, in the time that all have together
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
    """Serve the marked methods of a plain object: `Server.of`, and then `Server.run`.

    Args:
        handlers: The object.
        transport: "stdio", "http" or "sse", as for `Server.run`, and so the next four.
        host: Where HTTP listens; None is 127.0.0.1.
        port: 0 takes a free one; None is 8000.
        path: Where "http" answers, exactly; None is ``/mcp``.
        legacy_sse: Whether "http" serves HTTP+SSE too.

    Raises:
        TypeError, ValueError, OSError: As `Server.of` and `Server.run`; or an option is unknown.
    """
    if unknown:
        refuse_options("serve(...)", unknown, serve)
    Server.of(handlers).run(transport, host=host, port=port, path=path, legacy_sse=legacy_sse)


def _adding(server: Any, kind: str) -> Callable[..., None]:
    """``server.add_tool`` and the like. Raises TypeError: the decorator is that of the class."""
    if not isinstance(server, Server):
        raise TypeError(
            f'write @server.{kind} of an object, server = Server("name"), not @Server.{kind}'
        )
    found: Callable[..., None] = getattr(server, f"add_{kind}")
    return found


def _check_given(given: Mapping[str, Any]) -> None:
    """Refuse what `Server` was given, if a name or a value is wrong; say where an option is now
    that it once had."""
    name = given["name"]
    http = given["http"]
    auth = given["auth"]
    for option in given["unknown"]:
        for cls, keyword in ((Limits, "limits"), (load("http.options").HttpOptions, "http")):
            now = option if option in cls.__dataclass_fields__ else option.removeprefix("max_")
            if now in cls.__dataclass_fields__:
                raise TypeError(
                    f"Server(...): {option}= is now {keyword}={cls.__name__}({now}=...)"
                )
        refuse_options("Server(...)", [option], Server.__init__)
    if not isinstance(name, str):
        way = (
            ": Server.of(...) takes the name of the object's class" if has_marks(type(name)) else ""
        )
        raise TypeError(f"a server's name is text, not {name!r:.60}{way}")
    if not name:
        raise ValueError("the name of a server is not empty")
    check_options(given, SERVER_OPTIONS)
    if not isinstance(given["capabilities"], Mapping):
        check_names(
            given["capabilities"] or (),
            CAPABILITIES,
            "capabilities: no server declares",
            error=ValueError,
        )
    if (
        http is not None and type(http).__name__ != "HttpOptions"
    ):  # which is not imported where nothing serves HTTP
        raise TypeError(f"http is an HttpOptions(...) or None, not {http!r:.60}")
    if auth is not None and type(auth).__name__ != "Bearer":
        raise TypeError(
            f"auth is a minimcp.Bearer(...) or None, not {type(auth).__name__}"
        )  # it may be a token
