"""Resources: what a client may read, by its URI or by one of a family of URIs.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from ..engine.requests import IncomingRequest, Route
from ..errors import InvalidParams, ResourceAccessDenied, ResourceNotFound, one_line
from ..protocol.lifecycle import Peer
from ..protocol.messages import ACCESS_DENIED, Json, Request, to_json
from ..protocol.uri_template import UriTemplate, check_uri, has_parent_segment
from ..protocol.versions import Revision
from ..schema.annotations import write_any
from ..schema.mismatch import NOTHING, Mismatch
from ..types import (
    Annotations,
    BlobResourceContents,
    Icon,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    TextResourceContents,
)
from .completion import Given, TextHandler
from .context import Context
from .executors import route_to
from .input_rounds import serve_rounds
from .registered import CallNext, Pages, Registered, ServerConfig, Table, annotated, check_options, name_of, only, where

CONTENTS = (TextResourceContents, BlobResourceContents)
BYTES = (bytes, bytearray, memoryview)
AS_THEY_ARE = (ReadResourceResult, *CONTENTS, *BYTES)
"""Classes whose instances are no JSON values: what a function returns of them is sent as it is."""

PLAIN_TEXT, ANY_BYTES, JSON_TEXT = "text/plain", "application/octet-stream", "application/json"
"""The MIME types of text, bytes and other values, where nobody says another."""

LONGEST_MATCHED = 64 * 1024
"""Characters of a URI that templates are tried on: each of them takes time for each character."""


@dataclass(eq=False, repr=False)
class Readable(Registered):
    """A resource, or a template of resources."""

    handler: TextHandler
    hints: Mapping[str, Json]
    """How long, and for whom, a result stays true."""
    template: Optional[UriTemplate]
    """Of its URIs; None for a single resource."""

    def handle(self, exchange: IncomingRequest) -> Any:
        return serve_rounds(partial(self.serve, {}), exchange)

    def serve(self, arguments: Mapping[str, Any], exchange: IncomingRequest) -> dict[str, Json]:
        """Read it for a request.

        Args:
            arguments: The values of the template's variables.
            exchange: The request.
        """
        context, uri, revision = Context(exchange), exchange.request.params["uri"], exchange.peer.revision
        result = self.read(context, exchange.peer, uri, arguments, self.run)
        wire: dict[str, Json] = result.to_wire()
        wire["contents"] = [only(item, revision.contents_members) for item in wire["contents"]]
        if revision.cache_hints:
            wire = {**self.hints, **wire}
        else:
            wire = {name: value for name, value in wire.items() if name not in self.hints}
        closed: dict[str, Json] = exchange.server.closed(wire, revision)
        return closed

    def read(
        self,
        context: Context,
        peer: Peer,
        uri: str,
        arguments: Mapping[str, Any],
        run: Callable[[Context, CallNext], Any] = lambda context, call: call(),
    ) -> ReadResourceResult:
        """Call the function, which may raise anything, and make the result.

        Args:
            context: What the function is given.
            peer: The client.
            uri: What is read.
            arguments: The values of the template's variables.
            run: Runs the middleware round it.

        Raises:
            ResourceNotFound, ResourceAccessDenied: The function says so; the error names the URI.
            CapabilityNotSupported: The client lacks a capability that the function needs.
            TypeError, ValueError: The function returned what cannot be sent.
        """
        try:
            value = run(context, partial(self.handler.call, context, peer, arguments))
        except (ResourceNotFound, ResourceAccessDenied) as error:
            if error.from_peer:
                raise
            raise _about(uri, error) from error
        return self._result(value, uri)

    def _result(self, value: Any, uri: str) -> ReadResourceResult:
        """The result for what the function returned; each item has a MIME type."""
        if isinstance(value, ReadResourceResult):
            made = copy(value)
            made.contents = [self._typed(item) for item in value.contents]
            return made
        if isinstance(value, CONTENTS):
            return ReadResourceResult([self._typed(value)])
        is_list = type(value) in (list, tuple) and all(isinstance(item, CONTENTS) for item in value)
        signature = self.handler.signature
        promised = signature.output_kind is None and signature.returns is not NOTHING
        if is_list and (value or promised):
            return ReadResourceResult([self._typed(item) for item in value])
        return ReadResourceResult([self._from_value(value, uri)])

    def _from_value(self, value: Any, uri: str) -> ResourceContents:
        mime_type, kind = self.shown.mime_type, self.handler.signature.output_kind
        if isinstance(value, BYTES):
            return BlobResourceContents(uri, value, mime_type or ANY_BYTES)
        written: Json = value
        if type(value) is not str:
            written = write_any(value) if kind is None else kind.write(value)
        if type(written) is str:
            return TextResourceContents(uri, written, mime_type or PLAIN_TEXT)
        return TextResourceContents(uri, to_json(written), mime_type or JSON_TEXT)

    def _typed(self, item: ResourceContents) -> ResourceContents:
        return item if item.mime_type is not None else with_type(item, self.shown.mime_type)

    def listed(self, revision: Revision) -> dict[str, Json]:
        """It as a revision lists it."""
        members = revision.resource_members if self.template is None else revision.template_members
        wire = only(self.shown.to_wire(), members)
        if "annotations" in wire:
            wire["annotations"] = only(wire["annotations"], revision.annotation_members)
        return wire


def with_type(item: ResourceContents, mime_type: Optional[str] = None) -> ResourceContents:
    """A copy of the item with a MIME type; None takes the one of its kind."""
    made = copy(item)
    made.mime_type = mime_type or (ANY_BYTES if isinstance(item, BlobResourceContents) else PLAIN_TEXT)
    return made


Unreadable = Union[ResourceNotFound, ResourceAccessDenied]


def _about(uri: str, error: Unreadable) -> Unreadable:
    """The author's error, so that the client can tell which of the two it is, and of which resource."""
    message = error.message
    if isinstance(error, ResourceAccessDenied) and not ACCESS_DENIED.search(message):
        message = f"Access denied: {message}"
    data = {} if error.data is None else error.data
    return type(error)(message, {"uri": uri, **data} if isinstance(data, dict) else data)


def _takes_all(first: Readable, second: Readable) -> bool:
    """Whether a template takes every URI that another one of the same shape does: any text, or the same types."""
    if first.template is None or second.template is None or first.template.shape != second.template.shape:
        return False
    kinds = [[each.handler.kind(name) for name in each.template.variables] for each in (first, second) if each.template]
    return all(mine in (None, theirs) for mine, theirs in zip(*kinds))


class Resources:
    """All resources and templates of one server. Thread-safe.

    Args:
        config: Of the server.
        changed: Told that there are more or fewer of them now, and whether any variable of a new one completes.
    """

    def __init__(self, config: ServerConfig, changed: Callable[[bool], None]) -> None:
        self._config, self._changed = config, changed
        self.table: Table[Readable] = Table("resource")
        self.templates: Table[Readable] = Table("resource template")
        self.pages = Pages("resources", self.table)
        self.template_pages = Pages("resourceTemplates", self.templates)
        self._matching = self._route_of_match(None)

    def add(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
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
    ) -> None:
        """Register a function as a resource, or as a template of them. The arguments are those of `Server.resource`.

        Raises:
            TypeError: The function cannot be one; the message says what to write instead.
            ValueError: The URI is taken or is none, another template takes all that it matches, or an option has a
                value that it cannot have.
        """
        template = _template(uri)
        kind = "resource" if template is None else "resource template"
        owner = f"{kind} {uri!r}"
        check_options(locals(), f"{owner}: ")
        if cache_scope not in ("private", "public"):
            raise ValueError(f'{owner}: cache_scope is "private" or "public", not {cache_scope!r}')
        handler = TextHandler(function, owner, content_types=AS_THEY_ARE, requires=requires, complete=complete)
        _check_parameters(handler, () if template is None else template.variables)
        options: dict[str, Any] = {
            "title": title,
            "description": description or handler.signature.description or None,
            "mime_type": mime_type,
            "annotations": annotated(annotations, Annotations, '{"audience": ["user"]}', owner),
            "icons": icons,
            "meta": None if meta is None else dict(meta),
        }
        name = name_of(function, name, kind)
        shown: Union[Resource, ResourceTemplate]
        if template is None:
            shown = Resource(uri, name, size=size, **options)
        elif size is None:
            shown = ResourceTemplate(uri, name, **options)
        else:
            raise TypeError(f"{owner}: a template has no size: leave it out")
        hints = {"ttlMs": int(ttl * 1000), "cacheScope": cache_scope}
        readable = Readable(self._config, function, shown, None, handler, hints, template)
        table = self.table if template is None else self.templates
        if template is not None and not replace:
            self._check_reached(uri, readable)
        table.add(uri, readable, replace=replace)
        table.advise(uri, shown.description)
        self._changed(any(handler.completers.values()))

    def _check_reached(self, uri: str, readable: Readable) -> None:
        """Refuse a template when one that comes first takes all that it would match."""
        for other in self.templates.all():
            if other.shown.uri_template != uri and _takes_all(other, readable):
                raise ValueError(
                    f"the resource template {uri!r} matches nothing that {other.shown.uri_template!r} does not match"
                    f" before: {where(other.function)}; now {where(readable.function)}"
                )

    def remove(self, uri: str) -> None:
        """Take a resource or a template away, by exactly what it was registered with. Reads that run go on.

        Raises:
            KeyError: There is none.
        """
        (self.templates if self.templates.get(uri) is not None else self.table).remove(uri)
        self._changed(False)

    def route_of_read(self, request: Request) -> Route:
        """Where a `resources/read` goes.

        Raises:
            InvalidParams: It names no URI.
        """
        uri = request.params.get("uri")
        if not isinstance(uri, str):
            raise InvalidParams("uri is a string")
        readable = self.table.get(uri)
        if readable is not None:
            return readable.route
        family = self.template(uri) if self.templates.mounts else None  # it may run where its own server says
        return self._matching if family is None else self._route_of_match(family)

    def _route_of_match(self, family: Optional[Readable]) -> Route:
        """Templates are matched where the handler runs, not on the thread that reads: there may be many of them."""
        executor = self._config.executor if family is None else family.executor
        return route_to(partial(serve_rounds, self._match), executor)

    def _match(self, exchange: IncomingRequest) -> dict[str, Json]:
        readable, arguments = self._find(exchange.request.params["uri"])
        return readable.serve(arguments, exchange)

    def _find(self, uri: str) -> tuple[Readable, Mapping[str, Any]]:
        """What answers for a URI, and its arguments: a resource of exactly this URI, else the first template.

        Raises:
            ResourceNotFound: Nothing does.
        """
        readable = self.table.get(uri)
        if readable is not None:
            return readable, {}
        for readable, texts in self._families(uri):
            try:
                return readable, readable.handler.arguments(texts)
            except Mismatch:
                pass  # "notes://x" where a number is wanted: none of this family
        raise ResourceNotFound(f"Resource not found: {one_line(uri)}", {"uri": uri})

    def _families(self, uri: str) -> Iterator[tuple[Readable, Mapping[str, str]]]:
        """The templates that match a URI, each with the values of its variables."""
        for readable in self.templates.all() if len(uri) <= LONGEST_MATCHED else ():
            texts = None if readable.template is None else readable.template.match(uri)
            if texts is not None:
                yield readable, texts

    def read(self, context: Context, peer: Peer, uri: str) -> ReadResourceResult:
        """Read a resource for a handler of the same server.

        Args:
            context: What the function is given; its questions will be told apart from those of the handler that reads.
            peer: The client that is served.
            uri: Of the resource.

        Raises:
            ResourceNotFound: Nothing answers for this URI.
            Exception: What the resource's function raises, as it is.
        """
        readable, arguments = self._find(uri)
        return readable.read(context, peer, uri, arguments)

    def template(self, uri: str) -> Optional[Readable]:
        """A template, named by itself or by a URI of its family; None when there is none."""
        named = self.templates.get(uri)
        return next((readable for readable, _ in self._families(uri)), None) if named is None else named


def _template(uri: str) -> Optional[UriTemplate]:
    """The template that this is; None when it is the URI of one resource.

    Raises:
        TypeError: It is no text.
        ValueError: It is neither, or has a ".." segment.
    """
    if not isinstance(uri, str):
        raise TypeError(f"the URI of a resource is a str, not {type(uri).__name__}: write @server.resource(\"notes://all\")")
    template = UriTemplate(uri)
    if not template.variables:
        check_uri(uri)
    elif not uri.startswith("{"):
        check_uri(template.expand(dict.fromkeys(template.variables, "x")))
    if has_parent_segment(uri):
        raise ValueError(f"{uri!r} has a '..' segment, which nobody can read")
    return template if template.variables else None


def _check_parameters(handler: TextHandler, variables: Sequence[str]) -> None:
    names = [each.name for each in handler.signature.parameters]
    for name in names:
        if name not in variables:
            raise TypeError(f"{handler.owner} has no variable for the parameter {name!r}: write {{{name}}} into it")
    for name in variables:
        if name not in names:
            raise TypeError(f"{handler.owner} has the variable {name!r}, and its function no parameter of that name")
