"""`Registration`: the part of a server in which its author says what it offers.

https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Mapping, NoReturn, Optional, Sequence, TypeVar, Union, overload

from ..protocol.messages import Json
from .middleware import Middleware, check_middleware
from .places import ExecutorOption, Executors
from .registered import check_names, where
from .registry import Registry

if TYPE_CHECKING:
    from ..types import Annotations, Icon, ToolAnnotations
    from .completers import Given

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)

_mounting = threading.Lock()
"""Held while servers are mounted: two that mount each other at the same time would go in circles."""


class Registration:
    """What an author registers on a server. Thread-safe; also while connections are open, which are told."""

    _registry: Registry
    _executors: Executors

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        *,
        name: Optional[str] = None,
        title: Optional[str] = None,
        description: Optional[str] = None,
        annotations: Optional[Union[ToolAnnotations, Mapping[str, Json]]] = None,
        input_schema: Optional[Mapping[str, Json]] = None,
        output_schema: Optional[Mapping[str, Json]] = None,
        icons: Optional[Sequence[Icon]] = None,
        meta: Optional[Mapping[str, Json]] = None,
        structured: Optional[bool] = None,
        timeout: Optional[float] = None,
        executor: ExecutorOption = None,
        requires: Sequence[str] = (),
        headers: Optional[Mapping[str, str]] = None,
        replace: bool = False,
    ) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, /, *misplaced: Any, **options: Any) -> Any:  # type: ignore[misc]
        """Register a function as a tool: ``@server.tool``, ``@server.tool(...)`` or ``server.tool(function)``.

        The parameters' annotations become the input schema, the return annotation the output schema, the docstring
        the description. A parameter annotated `Context` receives the request's.

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
            structured: Whether results are sent as structured content too; None lets the annotation decide.
            timeout: Seconds it may run, not counting the time in which it waits for the client; None sets no limit.
            executor: Where it runs; None takes the server's. "pool": each call on a worker of its own. "main": where
                `Server.pump` is called. A `Serial`: on one thread, with all that name the object. A callable: where
                that runs the function without arguments that it is given. For all but "pool", ``timeout`` also bounds
                how long a call waits until it begins.
            requires: Client capabilities that it needs, checked before it starts: "sampling", "elicitation.url".
            headers: Parameters that clients mirror in an HTTP header, each with its name: ``{"region": "Region"}`` is
                ``Mcp-Param-Region``. Never a secret. None mirrors none.
            replace: Take the place of a tool of the same name.

        Raises:
            TypeError: This cannot be a tool; the message says what to write instead.
            ValueError: The name is taken or empty, a schema is invalid, or no client can declare what it requires.
            ImportError: A schema needs ``jsonschema``, which is not installed.
        """
        if function is None:
            return lambda decorated: self.tool(decorated, **options)
        if isinstance(function, str):
            raise TypeError(f"server.tool({function!r}): did you mean name={function!r}?")
        if misplaced:
            raise TypeError(f"server.tool(function, {misplaced[0]!r:.60}): did you mean name={misplaced[0]!r:.60}?")
        self.add_tool(function, **options)
        return function

    def add_tool(self, function: Callable[..., Any], **options: Any) -> None:
        """`tool` as a plain call, also while connections are open: they are told that the list has changed."""
        check_names(options, self._registry.tools.add, where(function), "tool")
        options["executor"] = self._executors.place(options.get("executor"), self._registry.facts.place)
        self._registry.tools.add(function, **options)

    def remove_tool(self, name: str) -> None:
        """Take a tool away; open connections are told.

        Raises:
            KeyError: There is none of this name.
        """
        self._registry.tools.remove(name)

    # ------------------------------------------------------------ plain objects

    def add(self, *handlers: Any) -> None:
        """Register the marked methods of plain objects: those under ``@minimcp.tool``, ``resource`` and ``prompt``.

        Their names become those of the tools and prompts, without a prefix. Handlers of one object run on several
        threads at once: guard its state with a lock, or give the server ``executor=Serial()``.

        Args:
            handlers: Objects of any classes.

        Raises:
            TypeError: One is a class, or a method cannot be what it is marked as.
            ValueError: No method of one is marked, or a name is taken. What of these objects was registered is taken
                back.
        """
        if not handlers:
            return
        from .decorators import marked

        ways: dict[str, tuple[Callable[..., None], Callable[[str], None]]] = {
            "tool": (self.add_tool, self.remove_tool),
            "resource": (self.add_resource, self.remove_resource),
            "prompt": (self.add_prompt, self.remove_prompt),
        }
        take_back: list[Callable[[], None]] = []
        try:
            for function, mark in (found for each in handlers for found in marked(each)):
                add, remove = ways[mark.kind]
                add(function, *mark.arguments, **mark.options)
                name = mark.arguments[0] if mark.arguments else mark.options.get("name") or function.__name__
                take_back.append(partial(remove, name))
        except BaseException:
            for undo in reversed(take_back):
                undo()
            raise

    # ------------------------------------------------------------ resources

    def resource(
        self,
        uri: str,
        *misplaced: NoReturn,
        name: Optional[str] = None,
        title: Optional[str] = None,
        description: Optional[str] = None,
        mime_type: Optional[str] = None,
        size: Optional[int] = None,
        annotations: Optional[Union[Annotations, Mapping[str, Json]]] = None,
        icons: Optional[Sequence[Icon]] = None,
        meta: Optional[Mapping[str, Json]] = None,
        ttl: float = 0,
        cache_scope: str = "private",
        complete: Optional[Mapping[str, Given]] = None,
        requires: Union[str, Sequence[str]] = (),
        replace: bool = False,
        **misspelt: NoReturn,
    ) -> Callable[[F], F]:
        """Register a function as a resource: ``@server.resource("notes://all")``, ``("notes://{number}")``.

        A URI with variables in braces (RFC 6570) is a template: each variable is a parameter of the function, given as
        the parameter's type; a URI whose values do not fit is not found. A resource of exactly the URI that is read
        comes first, then the first template that matches. ``{x}`` never takes "/" or "..", ``{+x}`` takes slashes.

        What the function returns is the content: str is text, bytes (bytearray, memoryview) are binary, contents and
        results stay as they are, everything else becomes JSON text.

        Args:
            uri: The URI, or the template.
            name: For programs; None takes the function's.
            title: For people; None sends none.
            description: For the model; None takes the docstring.
            mime_type: Of the content; None says nothing in lists, and takes the content's own on reading.
            size: Of the content in bytes, for resources only; None when it is not known.
            annotations: For whom it is meant, as in ``{"audience": ["user"], "priority": 1}``; None sends none.
            icons: Pictures of it; None sends none.
            meta: The resource's ``_meta``; None sends none.
            ttl: Seconds that clients may keep what they read.
            cache_scope: Who may keep it: "private" (one user) or "public".
            complete: For variables, what completes them: a list of values, or a function that takes the text typed so
                far, and the arguments chosen already if it has a second parameter. None: only what types say.
            requires: Client capabilities that it needs, checked before it starts.
            replace: Take the place of one of the same URI.

        Raises:
            TypeError: This cannot be a resource; the message says what to write instead.
            ValueError: The URI is taken or is none, or an option has a value that it cannot have.
        """
        if not isinstance(uri, str):
            raise TypeError('the URI comes first: @server.resource("notes://all")')
        if misplaced:
            extra: Any = misplaced[0]
            meant = f"server.add_resource(function, {uri!r})" if callable(extra) else f"name={extra!r}"
            raise TypeError(f"server.resource({uri!r}, {extra!r:.60}): did you mean {meant}?")
        check_names(misspelt, self._registry.resources.add, f"resource {uri!r}", "resource")

        def register(function: F) -> F:
            self._registry.resources.add(
                function, uri, name=name, title=title, description=description, mime_type=mime_type, size=size,
                annotations=annotations, icons=icons, meta=meta, ttl=ttl, cache_scope=cache_scope, complete=complete,
                requires=requires, replace=replace,
            )
            return function

        return register

    def add_resource(self, function: Callable[..., Any], uri: str, **options: Any) -> None:
        """`resource` as a plain call, for templates too; open connections are told that the list has changed."""
        if not callable(function) or not isinstance(uri, str):
            raise TypeError("the function comes first: server.add_resource(function, uri)")
        check_names(options, self._registry.resources.add, where(function), "resource")
        self.resource(uri, **options)(function)

    def remove_resource(self, uri: str) -> None:
        """Take a resource or a template away, by what it was registered with; open connections are told.

        Raises:
            KeyError: There is none.
        """
        self._registry.resources.remove(uri)

    add_resource_template = add_resource
    remove_resource_template = remove_resource

    # ------------------------------------------------------------ prompts

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self,
        *,
        name: Optional[str] = None,
        title: Optional[str] = None,
        description: Optional[str] = None,
        icons: Optional[Sequence[Icon]] = None,
        meta: Optional[Mapping[str, Json]] = None,
        complete: Optional[Mapping[str, Given]] = None,
        requires: Union[str, Sequence[str]] = (),
        replace: bool = False,
    ) -> Callable[[F], F]: ...
    def prompt(self, function: Any = None, /, *misplaced: Any, **options: Any) -> Any:  # type: ignore[misc]
        """Register a function as a prompt: ``@server.prompt``, ``@server.prompt(...)`` or ``server.prompt(function)``.

        Its parameters become the prompt's arguments, those without a default required, described by the docstring. On
        the wire their values are strings; the function gets them as the parameters' types.

        It returns one message or a list of them: a str or a content block is a message of the user, a `PromptMessage`
        says who speaks; or it returns a whole `GetPromptResult`.

        Args:
            function: The function or bound method; it is returned as it is.
            name: None takes the function's.
            title: For people; None sends none.
            description: What it is for; None takes the docstring.
            icons: Pictures of it; None sends none.
            meta: The prompt's ``_meta``; None sends none.
            complete: For arguments, what completes them, as for `resource`; None: only what types say.
            requires: Client capabilities that it needs, checked before it starts.
            replace: Take the place of a prompt of the same name.

        Raises:
            TypeError: This cannot be a prompt; the message says what to write instead.
            ValueError: The name is taken or empty, ``complete`` names no argument, or ``requires`` no capability.
        """
        if function is None:
            return lambda decorated: self.prompt(decorated, **options)
        if isinstance(function, str):
            raise TypeError(f"server.prompt({function!r}): did you mean name={function!r}?")
        if misplaced:
            raise TypeError(f"server.prompt(function, {misplaced[0]!r:.60}): did you mean name={misplaced[0]!r:.60}?")
        self.add_prompt(function, **options)
        return function

    def add_prompt(self, function: Callable[..., Any], **options: Any) -> None:
        """`prompt` as a plain call; open connections are told that the list has changed."""
        check_names(options, self._registry.prompts.add, where(function), "prompt")
        self._registry.prompts.add(function, **options)

    def remove_prompt(self, name: str) -> None:
        """Take a prompt away; open connections are told.

        Raises:
            KeyError: There is none of this name.
        """
        self._registry.prompts.remove(name)

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource, or to a collection that it lies in, that it has changed.

        Returns at once: notices go out in the background, and one that waits for a slow client is not sent twice.

        Args:
            uri: Of the resource; there need be none registered under it.
        """
        self._registry.mounts.resource_updated(uri)

    # ------------------------------------------------------------ the rest

    def middleware(self, function: M) -> M:
        """Run a function round every handler: ``def timing(ctx, call_next): return call_next()``.

        The first that is registered is the outermost. It runs on the handler's thread round `tools/call`,
        `prompts/get`, `resources/read`, `completion/complete` and the server's own methods, once per round where a
        request has several; ``ctx.method`` and ``ctx.params`` say what is asked. A request that names nothing that
        there is does not get here, nor does ``ctx.read_resource``. One that is registered while requests run counts
        for those that come later.

        ``call_next()`` runs the rest. It returns what the handler returned, before that is converted (for completion a
        `Completion`), and raises what the handler raised; arguments that do not fit a tool are a `ToolError`. What the
        function returns or raises counts as the handler's own. It must let `BaseException` pass: an unanswered
        question of the handler unwinds it that way.

        Raises:
            TypeError: The function does not take these two arguments, or is async or a generator.
        """
        check_middleware(function)
        self._registry.facts.middleware.append(function)
        return function

    def method(self, name: str, *, replace: bool = False) -> Callable[[F], F]:
        """Serve a method of your own, in every revision: ``@server.method("vendor/thing")``.

        The function takes the params, a dict with the ``_meta`` of the request in it, and if it likes the `Context`:
        ``def thing(params, ctx)``. It returns what JSON writes as an object, or None for an empty one; a client asks by
        ``client.request("vendor/thing", {...})``.

        Args:
            name: The method. None of the specification, in whatever revision.
            replace: Take the place of one of the same name.

        Raises:
            TypeError: This cannot serve a method; the message says what to write instead.
            ValueError: The name is taken, or belongs to the protocol.
        """
        if not isinstance(name, str):
            raise TypeError('the name comes first: @server.method("vendor/thing")')

        def register(function: F) -> F:
            self._registry.methods.add(function, name, replace=replace)
            return function

        return register

    def mount(self, other: Registration, *, prefix: str) -> None:
        """Offer what another server has, and follow its changes; it may also be served by itself.

        Its tools and prompts have names ``<prefix>__<name>`` here; resources keep their URIs, methods of its own their
        names. All options that hold are those of this server, and ``ctx.server`` is this server. Only the executors are
        its own (a `Serial` serves until both servers are closed; "main" is where this one is pumped), and its
        middleware runs inside that of this server. `resource_updated` of either reaches the subscribers here.

        Something that is registered there later under a name that is taken here is not offered here: what this server
        has itself comes first, then what was mounted first; the log says so.

        Args:
            other: The server. It may mount others; prefixes are put together then.
            prefix: What the names begin with.

        Raises:
            ValueError: A name is taken, or the servers would mount each other, or the prefix is empty.
            TypeError: This is no server, or the prefix no text.
        """
        if not isinstance(other, Registration) or not isinstance(prefix, str):
            raise TypeError('mount takes a server, and what its names begin with: server.mount(other, prefix="x")')
        if not prefix:
            raise ValueError("the prefix of a mounted server is not empty")
        with _mounting:
            self._registry.mounts.mount(other._registry, prefix)
