"""`Registration`: the part of a server in which its author says what it offers. Floor 6.

https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence, TypeVar, Union, overload

from .features.registry import Registry
from .jsonrpc import Json
from .types import Icon, ToolAnnotations

F = TypeVar("F", bound=Callable[..., Any])


class Registration:
    """What an author registers on a server. Thread-safe; also while connections are open, which are told."""

    _registry: Registry
    _executor: Optional[str]

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
        executor: Optional[str] = None,
        requires: Sequence[str] = (),
        replace: bool = False,
    ) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
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
            executor: "pool" gives every call a worker of its own; None takes the server's.
            requires: Client capabilities that it needs, checked before it starts: "sampling", "elicitation.url".
            replace: Take the place of a tool of the same name.

        Raises:
            TypeError: This cannot be a tool; the message says what to write instead.
            ValueError: The name is taken, or a schema is invalid.
            ImportError: A schema needs ``jsonschema``, which is not installed.
        """
        if function is None:
            return lambda decorated: self.tool(decorated, **options)
        if isinstance(function, str):
            raise TypeError(f"server.tool({function!r}): did you mean name={function!r}?")
        self.add_tool(function, **options)
        return function

    def add_tool(self, function: Callable[..., Any], **options: Any) -> None:
        """`tool` as a plain call, also while connections are open: they are told that the list has changed."""
        options["executor"] = executor_of(options.get("executor")) or self._executor
        self._registry.tools.add(function, **options)

    def remove_tool(self, name: str) -> None:
        """Take a tool away; open connections are told.

        Raises:
            KeyError: There is none of this name.
        """
        self._registry.tools.remove(name)

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to a resource, or to a collection that it lies in, that it has changed.

        Returns at once: notices go out in the background, and one that waits for a slow client is not sent twice.

        Args:
            uri: Of the resource; there need be none registered under it.
        """
        self._registry.subscriptions.resource_updated(uri)


def executor_of(given: Optional[str]) -> Optional[str]:
    """What ``executor=`` says.

    Raises:
        ValueError: There is no such executor.
    """
    if given not in (None, "pool"):
        raise ValueError(f"executor is None or 'pool', not {given!r}")
    return given
