"""Resources: what a client may read, by its URI or by one of a family of URIs.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from ..engine.requests import IncomingRequest, Route
from ..errors import InvalidParams, ResourceAccessDenied, ResourceNotFound, one_line
from ..protocol.lifecycle import Peer
from ..protocol.messages import ACCESS_DENIED, Json, Request
from ..protocol.options import FLAG, ICONS, MAPPING, TEXT, check_options, never_none, seconds
from ..protocol.uri_template import UriTemplate, check_uri, has_parent_segment
from ..protocol.versions import Revision
from ..schema.mismatch import NOTHING, Mismatch
from ..types import Annotations, Icon, ReadResourceResult, Resource, ResourceTemplate
from .carried import carried
from .completers import Completers, Given, read_completers
from .contents import AS_THEY_ARE, ContentsMaker
from .context import Context
from .facts import Facts
from .feature import Destination, Feature
from .middleware import Layers, run_through
from .paging import Pages
from .places import route_to
from .registered import TextHandler, annotated, listed_in, name_of, only, where
from .tables import Registered, Table

LONGEST_MATCHED = 64 * 1024
"""Characters of a URI that templates are tried on: each of them takes time for each character."""


class Readable(Registered):
    """A resource, or a template of resources.

    Args:
        facts: Of the server.
        handler: What the author wrote.
        shown: How it is listed.
        contents: Makes results.
        hints: How long, and for whom, a result stays true.
        template: Of its URIs; None for a single resource.
        completers: By variable.
    """

    def __init__(
        self,
        facts: Facts,
        handler: TextHandler,
        shown: Union[Resource, ResourceTemplate],
        *,
        contents: ContentsMaker,
        hints: Mapping[str, Json],
        template: Optional[UriTemplate],
        completers: Completers,
    ) -> None:
        super().__init__(facts)
        self.handler, self.shown, self.hints = handler, shown, hints
        self.template, self.completers, self._contents = template, completers, contents

    def read(
        self, context: Context, peer: Peer, uri: str, arguments: Mapping[str, Any], layers: Layers = ()
    ) -> ReadResourceResult:
        """Call the function, which may raise anything, and make the result.

        Args:
            context: What the function is given.
            peer: The client.
            uri: What is read.
            arguments: The values of the template's variables.
            layers: What runs round the function.

        Raises:
            ResourceNotFound, ResourceAccessDenied: The function says so; the error names the URI.
            CapabilityNotSupported: The client lacks a capability that the function needs.
            TypeError, ValueError: The function returned what cannot be sent.
        """
        try:
            call = partial(self.handler.call, context, peer, arguments)
            value = run_through(layers, context, call) if any(layers) else call()
        except (ResourceNotFound, ResourceAccessDenied) as error:
            if error.from_peer:
                raise
            raise _about(uri, error) from error
        return self._contents.make(value, uri)

    def listed(self, revision: Revision) -> dict[str, Json]:
        """It as a revision lists it."""
        members = revision.resource_members if self.template is None else revision.template_members
        return listed_in(self.shown.to_wire(), members, revision)

    def __repr__(self) -> str:
        return f"<Readable {self.handler.owner} = {where(self.handler.function)}>"


Unreadable = Union[ResourceNotFound, ResourceAccessDenied]


def _about(uri: str, error: Unreadable) -> Unreadable:
    """The author's error, so that the client can tell which of the two it is, and of which resource."""
    message = error.message
    if isinstance(error, ResourceAccessDenied) and not ACCESS_DENIED.search(message):
        message = f"Access denied: {message}"
    data = {} if error.data is None else error.data
    return type(error)(message, {"uri": uri, **data} if isinstance(data, dict) else data)


def _missing(uri: str) -> ResourceNotFound:
    return ResourceNotFound(f"Resource not found: {one_line(uri)}", {"uri": uri})


def _takes_all(first: Readable, second: Readable) -> bool:
    """Whether a template takes every URI that another one of the same shape does: any text, or the same types."""
    if first.template is None or second.template is None or first.template.shape != second.template.shape:
        return False
    kinds = [[each.handler.kind(name) for name in each.template.variables] for each in (first, second) if each.template]
    return all(mine in (None, theirs) for mine, theirs in zip(*kinds))


def _place(readable: Readable) -> str:
    return where(readable.handler.function)


class Resources(Feature):
    """All resources and templates of one server. Thread-safe.

    Args:
        facts: Of the server.
    """

    kind = "resources"

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._resources: Table[Readable] = Table("resource", _place)
        self._templates: Table[Readable] = Table("resource template", _place)
        self._resource_pages = Pages("resources", facts.page_size, self._describe(self._resources))
        self._template_pages = Pages("resourceTemplates", facts.page_size, self._describe(self._templates))
        self._matching = route_to(carried(self._match, facts), facts.place)
        self.completes = False

    @staticmethod
    def _describe(table: Table[Readable]) -> Callable[[Revision], list[dict[str, Json]]]:
        return lambda revision: [readable.listed(revision) for readable in table.all()]

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
        handler = TextHandler(function, f"{kind} {uri!r}", content_types=AS_THEY_ARE, requires=requires)
        check_options(_OPTIONS, locals(), f"{handler.owner}: ")
        _check_parameters(handler, () if template is None else template.variables)
        options: dict[str, Any] = {
            "title": title,
            "description": description or handler.signature.description or None,
            "mime_type": mime_type,
            "annotations": annotated(annotations, Annotations, '{"audience": ["user"]}', handler.owner),
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
            raise TypeError(f"{handler.owner}: a template has no size: leave it out")
        signature = handler.signature
        promised = signature.output_kind is None and signature.returns is not NOTHING
        readable = Readable(
            self._facts,
            handler,
            shown,
            contents=ContentsMaker(mime_type, signature.output_kind, promised=promised),
            hints=_hints(handler.owner, ttl, cache_scope),
            template=template,
            completers=read_completers(handler, complete),
        )
        table = self._resources if template is None else self._templates
        if template is not None and not replace:
            self._check_reached(uri, readable)
        table.add(uri, readable, replace=replace)
        table.advise(uri, shown.description)
        self.offered, self.completes = True, self.completes or any(readable.completers.values())
        self._changed()

    def _check_reached(self, uri: str, readable: Readable) -> None:
        """Return if a template that comes first does not take all that this one would match."""
        for other in self._templates.all():
            if other.shown.uri_template != uri and _takes_all(other, readable):
                raise ValueError(
                    f"the resource template {uri!r} matches nothing that {other.shown.uri_template!r} does not match"
                    f" before: {_place(other)}; now {_place(readable)}"
                )

    def remove(self, uri: str) -> None:
        """Take a resource or a template away, by exactly what it was registered with. Reads that run go on.

        Raises:
            KeyError: There is none.
        """
        (self._templates if uri in self._templates else self._resources).remove(uri)
        self._changed()

    def tables(self) -> Sequence[Table[Any]]:
        return self._resources, self._templates

    def follow(self, other: Resources) -> None:
        super().follow(other)
        self.completes = self.completes or other.completes

    def forget(self) -> None:
        self._resource_pages.forget()
        self._template_pages.forget()

    def _changed(self) -> None:
        self.forget()
        self._facts.changed(self.kind)

    def __len__(self) -> int:
        return len(self._resources) + len(self._templates)

    # ------------------------------------------------------------ methods

    def routes(self) -> Mapping[str, Destination]:
        return {
            "resources/list": Route(partial(self._resource_pages.serve, self._facts), immediate=True),
            "resources/templates/list": Route(partial(self._template_pages.serve, self._facts), immediate=True),
            "resources/read": self.route_of_read,
        }

    def declared(self, revision: Revision) -> Mapping[str, Json]:
        return {"subscribe": True, "listChanged": True}

    def route_of_read(self, request: Request) -> Route:
        """Where a `resources/read` goes.

        Raises:
            InvalidParams: It names no URI.
        """
        uri = request.params.get("uri")
        if not isinstance(uri, str):
            raise InvalidParams("uri is a string")
        readable = self._resources.get(uri)
        if readable is not None:
            served = carried(partial(self._serve, readable, {}), self._facts)
            return route_to(served, readable.place)
        if not self._templates.mounts:
            return self._matching
        family = next((readable for readable, _ in self._families(uri)), None)  # it may run where its own server says
        return self._matching if family is None else route_to(carried(self._match, self._facts), family.place)

    def _match(self, exchange: IncomingRequest) -> dict[str, Json]:
        """Serve what no resource has the URI of; not on the thread that reads, for there may be many templates."""
        return self._serve(*self._find(exchange.request.params["uri"]), exchange)

    def _serve(self, readable: Readable, arguments: Mapping[str, Any], exchange: IncomingRequest) -> dict[str, Json]:
        context, uri = Context(exchange), exchange.request.params["uri"]
        result = readable.read(context, exchange.peer, uri, arguments, readable.layers)
        return self._sent(result, readable.hints, exchange.peer.revision)

    def _sent(self, result: ReadResourceResult, hints: Mapping[str, Json], revision: Revision) -> dict[str, Json]:
        wire: dict[str, Json] = result.to_wire()
        wire["contents"] = [only(item, revision.contents_members) for item in wire["contents"]]
        if revision.cache_hints:
            return self._facts.closed({**hints, **wire}, revision)
        return self._facts.closed({name: value for name, value in wire.items() if name not in hints}, revision)

    def _find(self, uri: str) -> tuple[Readable, Mapping[str, Any]]:
        """What answers for a URI, and its arguments: a resource of exactly this URI, else the first template.

        Raises:
            ResourceNotFound: Nothing does.
        """
        readable = self._resources.get(uri)
        if readable is not None:
            return readable, {}
        for readable, texts in self._families(uri):
            try:
                return readable, readable.handler.arguments(texts)
            except Mismatch:
                pass  # "notes://x" where a number is wanted: none of this family
        raise _missing(uri)

    def _families(self, uri: str) -> Iterator[tuple[Readable, Mapping[str, str]]]:
        """The templates that match a URI, each with the values of its variables."""
        for readable in self._templates.all() if len(uri) <= LONGEST_MATCHED else ():
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
        named = self._templates.get(uri)
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
    unfilled = [name for name in names if name not in variables]
    unused = [name for name in variables if name not in names]
    if unfilled:
        name = unfilled[0]
        raise TypeError(f"{handler.owner} has no variable for the parameter {name!r}: write {{{name}}} into it")
    if unused:
        raise TypeError(f"{handler.owner} has the variable {unused[0]!r}, and its function no parameter of that name")


def _hints(owner: str, ttl: float, cache_scope: str) -> dict[str, Json]:
    if cache_scope not in ("private", "public"):
        raise ValueError(f'{owner}: cache_scope is "private" or "public", not {cache_scope!r}')
    return {"ttlMs": int(ttl * 1000), "cacheScope": cache_scope}


_OPTIONS = {
    "title": TEXT, "description": TEXT, "mime_type": TEXT, "icons": ICONS, "meta": MAPPING, "replace": FLAG,
    "ttl": never_none(seconds()), "complete": MAPPING._replace(what='a mapping such as {"city": ["Oslo"]} or None'),
}  # fmt: skip
