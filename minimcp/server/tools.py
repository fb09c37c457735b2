"""Tools: functions that a client may call.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..engine.requests import IncomingRequest, Route
from ..engine.timer import Timeout
from ..errors import (
    OLD_TOOL_CODES,
    Cancelled,
    CapabilityNotSupported,
    Declined,
    InvalidParams,
    RpcError,
    ToolError,
    UrlElicitationRequired,
    describe,
    one_line,
)
from ..protocol.lifecycle import lacks
from ..protocol.messages import Json, Request, encode_result
from ..protocol.options import FLAG, ICONS, MAPPING, TEXT, check_options, seconds
from ..protocol.versions import Revision
from ..schema.header_params import in_headers, mirrored
from ..schema.mismatch import NOTHING, Mismatch, described
from ..schema.signature import Signature, read_signature
from ..types import CallToolResult, Icon, Tool, ToolAnnotations
from .carried import carried
from .context import Context
from .facts import Facts
from .feature import Destination, Feature
from .middleware import run_through
from .paging import Pages
from .places import Place, route_to
from .registered import annotated, name_of, required, where
from .results import CONTENT, ResultMaker, error_result, wrapped_schema
from .tables import Registered, Table

log = logging.getLogger("minimcp.tools")

GOOD_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
ODD_NAME = "has a name that not every client takes: use 1 to 128 of A-Z a-z 0-9 _ . -"


class RegisteredTool(Registered):
    """One tool of a server: what it says about itself, and how it is called.

    Args:
        function: What the author wrote.
        shown: How it is listed.
        signature: How arguments become parameters.
        facts: Of the server.
        check_input: Checks arguments against a hand-written schema; None when the signature makes the schema.
        results: Makes results.
        timeout: Seconds it may run; None sets no limit.
        requires: Client capabilities that it needs, by dotted name.
        place: Where it runs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        shown: Tool,
        signature: Signature,
        facts: Facts,
        *,
        check_input: Optional[Callable[[Any], Optional[str]]],
        results: ResultMaker,
        timeout: Optional[float],
        requires: tuple[str, ...],
        place: Place,
    ) -> None:
        super().__init__(facts)
        self.function, self.shown, self.signature = function, shown, signature
        self._facts, self._check_input, self._results = facts, check_input, results
        self._timeout, self._requires = timeout, requires
        self._read = signature.read_arguments
        self._context_parameter = signature.context_parameter
        self.place = place
        self.mirrored = mirrored(shown.input_schema)
        self._set_route()

    def _set_route(self) -> None:
        watch = None if self._timeout is None else partial(self._watch, self._timeout)
        self.route = route_to(carried(self.serve, self._facts), self.place, watch=watch)

    def offered_by(self, facts: Facts, name: Optional[str]) -> RegisteredTool:
        twin = super().offered_by(facts, name)
        twin._facts, twin._results = facts, self._results.under(facts)
        twin._set_route()
        return twin

    def serve(self, exchange: IncomingRequest) -> Any:
        """Call the tool for a request.

        Raises:
            RpcError: The author raised one of his own, the client lacks a capability, or arguments do not fit.
            Cancelled: The request was cancelled.
        """
        if self._timeout is None:
            return self._run(exchange)
        exchange.timeout = self._countdown(self._timeout, "finish", exchange)
        try:
            return self._run(exchange)
        finally:
            exchange.timeout.stop()

    def _call(self, exchange: IncomingRequest) -> Any:
        """Call the function; arguments that do not fit are told to the model, or are an error of the protocol."""
        for name in self._requires:
            if not exchange.peer.supports(name):
                raise lacks(name, self.shown.name)
        arguments = exchange.request.params.get("arguments")
        try:
            keywords = self._keywords({} if arguments is None else arguments)
        except Mismatch as error:
            if self._facts.strict_arguments and not exchange.peer.revision.argument_errors_are_results:
                raise InvalidParams(f"{self.shown.name}: {error}") from None
            raise ToolError(str(error)) from None
        if self._context_parameter is not None:
            keywords[self._context_parameter] = Context(exchange)
        return self.function(**keywords)

    def _keywords(self, arguments: dict[str, Json]) -> dict[str, Any]:
        """The parameters for the function. Raises Mismatch for arguments that do not fit."""
        if self._check_input is None:
            return self._read(arguments)
        problem = self._check_input(arguments)
        if problem is not None:
            raise Mismatch("", instead=problem)
        return dict(arguments)

    def _watch(self, timeout: float, exchange: IncomingRequest) -> Callable[[], None]:
        """A queue that nobody takes the request out of does not keep the client waiting either."""
        return self._countdown(timeout, "begin", exchange).stop

    def _countdown(self, timeout: float, what: str, exchange: IncomingRequest) -> Timeout:
        """Answers with a failure when the time is over, unless it is stopped."""
        text = f"{self.shown.name} did not {what} within {timeout:g} s"

        def ring() -> None:
            result = error_result(self._facts, text, exchange.peer.revision)
            exchange.expire(encode_result(exchange.request.id, result), text)

        return Timeout(timeout, ring)

    def _run(self, exchange: IncomingRequest) -> Any:
        revision = exchange.peer.revision
        make: Callable[[Any, Revision], Any] = self._results.make
        try:
            if any(self.layers):
                value = run_through(self.layers, Context(exchange), partial(self._call, exchange))
            else:
                value = self._call(exchange)
        except ToolError as error:
            make, value = self._results.failed, error
        except BaseException as error:
            return self._failed(error, exchange, revision)
        try:
            return make(value, revision)
        except Exception as error:
            return self._unexpected(error, f"{self.shown.name} returned a wrong value: {describe(error)}", revision)

    def _failed(self, error: BaseException, exchange: IncomingRequest, revision: Revision) -> Any:
        """Every exception but ToolError: passed on, or told to the model in the tool's own words."""
        exchange.interrupted = isinstance(error, KeyboardInterrupt)
        if isinstance(error, Cancelled) and exchange.cancelled:
            raise error
        if exchange.asker is not None and exchange.asker.pending:
            raise error  # it has a question to ask: that comes first
        if isinstance(error, RpcError) and not error.from_peer:
            return self._of_the_author(error, exchange)
        if isinstance(error, Declined):
            return error_result(self._facts, str(error), revision)  # no fault, and no words but ours
        return self._unexpected(error, describe(error), revision)

    def _of_the_author(self, error: RpcError, exchange: IncomingRequest) -> Any:
        """An error of the protocol, if clients of this revision know what to make of it; else words for the model."""
        revision = exchange.peer.revision
        if isinstance(error, UrlElicitationRequired):
            known = revision.url_errors
            if not revision.handshake:
                from .input_rounds import url_required

                url_required(exchange, error)
        elif error.code in OLD_TOOL_CODES:
            known = revision.handshake
        else:
            known = not (isinstance(error, CapabilityNotSupported) and revision.handshake)
        if known:
            raise error
        return error_result(self._facts, str(error), revision)

    def _unexpected(self, error: BaseException, text: str, revision: Revision) -> Any:
        """What the model is told of a fault: these words, or where they are masked a reference that the log has."""
        name = one_line(self.shown.name)
        if not self._facts.mask_errors:
            log.error("%s failed: %s", name, one_line(text), exc_info=error)
            return error_result(self._facts, text, revision)
        reference = os.urandom(4).hex()
        log.error("%s failed, reference %s: %s", name, reference, one_line(text), exc_info=error)
        return error_result(self._facts, f"Internal error (reference {reference})", revision)

    def listed(self, revision: Revision) -> dict[str, Json]:
        """The tool as a revision lists it."""
        wire: dict[str, Json] = self.shown.to_wire()
        output = wire.get("outputSchema")
        if output is not None and revision.structured == "object":
            wire["outputSchema"] = wrapped_schema(output)
        if "title" in wire and "title" not in revision.tool_members and "annotations" in revision.tool_members:
            wire["annotations"] = {"title": wire["title"], **wire.get("annotations", {})}
        return {name: member for name, member in wire.items() if name in revision.tool_members}

    def __repr__(self) -> str:
        return f"<RegisteredTool {self.shown.name!r} = {where(self.function)}>"


class Tools(Feature):
    """All tools of one server. Thread-safe.

    Args:
        facts: Of the server.
    """

    kind = "tools"

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._tools: Table[RegisteredTool] = Table("tool", lambda tool: where(tool.function))
        self._pages = Pages("tools", facts.page_size, self._describe)

    def add(
        self,
        function: Callable[..., Any],
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
        executor: Place = None,
        requires: Sequence[str] = (),
        headers: Optional[Mapping[str, str]] = None,
        replace: bool = False,
    ) -> None:
        """Register a function as a tool. The arguments are those of `Server.tool`.

        Raises:
            TypeError: The function cannot be a tool; the message says what to write instead.
            ValueError: The name is taken, or a schema is invalid.
            ImportError: A schema needs ``jsonschema``, which is not installed.
        """
        signature = read_signature(
            function, context_type=Context, owner=where(function), content_types=(CallToolResult, *CONTENT)
        )
        name = name_of(function, name, "tool")
        owner = f"tool {name!r}"
        check_options(_OPTIONS, locals(), f"{owner}: ")
        if input_schema is not None and input_schema.get("type", "object") != "object":
            raise ValueError(f"{owner}: the arguments are an object: input_schema has no type {input_schema['type']!r}")
        if structured is False and output_schema is not None:
            raise ValueError(f"{owner}: structured=False and an output_schema contradict each other")
        kind = None if structured is False else signature.output_kind
        if kind is not None and kind.writes is str and structured is not True:
            kind = None  # text is sent as text
        made_schema = None if kind is None else kind.schema or None
        schema = made_schema if output_schema is None else dict(output_schema)
        shown = Tool(
            name,
            in_headers(signature.input_schema if input_schema is None else input_schema, headers or {}),
            title=title,
            description=description if description is not None else signature.description or None,
            output_schema=schema,
            annotations=annotated(annotations, ToolAnnotations, '{"read_only_hint": True}', owner),
            icons=icons,
            meta=None if meta is None else dict(meta),
        )
        tool = RegisteredTool(
            function,
            shown,
            signature,
            self._facts,
            check_input=_check(None if input_schema is None else shown.input_schema, f"{name} input"),
            results=ResultMaker(
                self._facts, kind, schema, _check(output_schema, f"{name} output"), structured,
                blocks=_says_blocks(signature),
            ),
            timeout=timeout,
            requires=required(requires, owner),
            place=executor,
        )
        self._tools.add(name, tool, replace=replace)
        self._tools.advise(name, shown.description, None if _is_good(name) else ODD_NAME)
        self.offered = True
        self._changed()

    def remove(self, name: str) -> None:
        """Take a tool away.

        Raises:
            KeyError: There is none of this name.
        """
        self._tools.remove(name)
        self._changed()

    def tables(self) -> Sequence[Table[Any]]:
        return (self._tools,)

    def forget(self) -> None:
        self._pages.forget()

    def _changed(self) -> None:
        self.forget()
        self._facts.changed("tools")

    def __len__(self) -> int:
        return len(self._tools)

    def get(self, name: str) -> RegisteredTool:
        """The tool of this name.

        Raises:
            KeyError: There is none.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise KeyError(name)
        return tool

    # ------------------------------------------------------------ methods

    def routes(self) -> Mapping[str, Destination]:
        listing = Route(partial(self._pages.serve, self._facts), immediate=True)
        return {"tools/list": listing, "tools/call": self.route_of_call}

    def declared(self, revision: Revision) -> Mapping[str, Json]:
        return {"listChanged": True}

    def _describe(self, revision: Revision) -> list[dict[str, Json]]:
        return [tool.listed(revision) for tool in self._tools.all()]

    def route_of_call(self, request: Request) -> Route:
        """Where a `tools/call` goes.

        Raises:
            InvalidParams: It names no tool of this server, or its arguments are no object.
        """
        params = request.params
        name, arguments = params.get("name"), params.get("arguments")
        tool = self._tools.get(name)
        if tool is None:
            raise InvalidParams(self._tools.unknown(name) if isinstance(name, str) else "name is a string")
        if arguments is not None and type(arguments) is not dict:
            raise InvalidParams(f"arguments is an object, not {described(arguments)}")
        return tool.route


def _check(schema: Optional[Mapping[str, Json]], where: str) -> Optional[Callable[[Any], Optional[str]]]:
    """What checks values against a hand-written schema; None where there is none."""
    if schema is None:
        return None
    from ..schema.checker import compile_check

    return compile_check(dict(schema), where=where)


def _is_good(name: str) -> bool:
    return len(name) <= 128 and GOOD_LETTERS.issuperset(name)


def _says_blocks(signature: Signature) -> bool:
    """Whether the return annotation is there and made of content classes."""
    return signature.output_kind is None and signature.returns is not NOTHING


_SCHEMA = MAPPING._replace(what="a JSON Schema, which is a dict, or None")
_OPTIONS = {
    "title": TEXT, "description": TEXT, "input_schema": _SCHEMA, "output_schema": _SCHEMA, "icons": ICONS,
    "meta": MAPPING, "structured": FLAG._replace(what="True, False or None", optional=True), "replace": FLAG,
    "timeout": seconds(above=True),
}  # fmt: skip
