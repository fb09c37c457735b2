"""Resources: what a client may read, by its URI or by one of a family of URIs.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Optional, Union

from .. import types
from ..engine.requests import IncomingRequest, Route
from ..errors import InvalidParams, ResourceAccessDenied, ResourceNotFound, one_line
from ..protocol.messages import ACCESS_DENIED, Json, to_json
from ..protocol.uri_template import UriTemplate, check_uri, has_parent_segment
from ..protocol.versions import Revision
from ..schema.annotations import write_any
from ..schema.mismatch import NOTHING, Mismatch
from .completion import TextHandler, read_texts
from .context import Context
from .executors import route_to
from .options import ResourceOptions, annotated, check_options, listing, name_of, where
from .registered import ServerConfig, Table, only

CONTENTS = (types.TextResourceContents, types.BlobResourceContents)
BYTES = (bytes, bytearray, memoryview)
AS_THEY_ARE = (types.ReadResourceResult, *CONTENTS, *BYTES)
"""Classes whose instances are no JSON values: what a function returns of them is sent as it is."""

PLAIN_TEXT, ANY_BYTES, JSON_TEXT = "text/plain", "application/octet-stream", "application/json"
"""The MIME types of text, bytes and other values, where nobody says another."""

LONGEST_MATCHED = 64 * 1024
"""Characters of a URI that templates are tried on: each of them takes time for each character."""


Unreadable = (ResourceNotFound, ResourceAccessDenied)


@dataclass(eq=False, repr=False)
class Readable(TextHandler):
    """A resource, or a template of resources."""

    hints: Mapping[str, Json]
    """How long, and for whom, a result stays true."""
    template: Optional[UriTemplate]
    """Of its URIs; None for a single resource."""

    @property
    def kind(self) -> str:  # type: ignore[override]
        """What it is, for messages and as the name of its table."""
        return "resource" if self.template is None else "resource template"

    def values(self, uri: str) -> Optional[dict[str, Any]]:
        """The arguments for a URI of this family; None where it is none, as "notes://x" where a number is wanted."""
        texts = {} if self.template is None else self.template.match(uri)
        try:
            return None if texts is None else self.arguments(texts)
        except Mismatch:
            return None

    def call(self, incoming: IncomingRequest) -> Any:
        uri = incoming.request.params["uri"]
        return self.invoke(incoming, self.values(uri) or {})

    def read(self, incoming: IncomingRequest, uri: str, context: Context) -> types.ReadResourceResult:
        """Read it for a handler of the same server.

        Args:
            incoming: What that handler serves.
            uri: What is read.
            context: What the function is given.

        Raises:
            Exception: What the function raises, as it is; or it returned what cannot be sent.
        """
        try:
            return self._made(self.invoke(incoming, self.values(uri) or {}, context), uri)
        except Unreadable as error:
            raise _about(uri, error)

    def failed(self, error: BaseException, incoming: IncomingRequest, returned: bool) -> Any:
        raise _about(incoming.request.params["uri"], error)

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        revision = incoming.peer.revision
        wire: dict[str, Json] = self._made(value, incoming.request.params["uri"]).to_wire()
        wire["contents"] = [only(item, revision.contents_members) for item in wire["contents"]]
        if revision.cache_hints:
            wire = {**self.hints, **wire}
        else:
            wire = {name: value for name, value in wire.items() if name not in self.hints}
        return incoming.server.closed(wire, revision)

    def _made(self, value: Any, uri: str) -> types.ReadResourceResult:
        """The result for what the function returned; each item has a MIME type."""
        kind, mime_type = self.texts.signature.output_kind, self.shown.mime_type
        promised = kind is None and self.texts.signature.returns is not NOTHING
        is_list = type(value) in (list, tuple) and all(isinstance(item, CONTENTS) for item in value)
        if isinstance(value, types.ReadResourceResult):
            made = copy(value)
        elif isinstance(value, CONTENTS):
            made = types.ReadResourceResult([value])
        elif is_list and (value or promised):
            made = types.ReadResourceResult(list(value))
        elif isinstance(value, BYTES):
            made = types.ReadResourceResult([types.BlobResourceContents(uri, value, mime_type or ANY_BYTES)])
        else:
            written: Json = value
            if type(value) is not str:
                written = write_any(value) if kind is None else kind.write(value)
            text, usual = (written, PLAIN_TEXT) if type(written) is str else (to_json(written), JSON_TEXT)
            made = types.ReadResourceResult([types.TextResourceContents(uri, text, mime_type or usual)])
        made.contents = [item if item.mime_type is not None else with_type(item, mime_type) for item in made.contents]
        return made

    def listed(self, revision: Revision) -> dict[str, Json]:
        """As it stands in a list of a revision."""
        members = revision.resource_members if self.template is None else revision.template_members
        wire = only(self.shown.to_wire(), members)
        if "annotations" in wire:
            wire["annotations"] = only(wire["annotations"], revision.annotation_members)
        return wire

    def takes_all_of(self, other: Readable) -> bool:
        """Whether this template takes every URI that the other one does: any text, or the same types."""
        if self.template is None or other.template is None or self.template.shape != other.template.shape:
            return False
        pairs = zip(*([each.rule(name) for name in each.template.variables] for each in (self, other) if each.template))
        return all(mine in ({}, {"type": "string"}, theirs) for mine, theirs in pairs)

    def rule(self, name: str) -> dict[str, Json]:
        """What a text for this variable has to be, as a JSON Schema."""
        schema = self.texts.signature.input_schema["properties"][name]
        return {word: value for word, value in schema.items() if word not in ("title", "description", "default")}


def with_type(item: types.ResourceContents, mime_type: Optional[str] = None) -> types.ResourceContents:
    """A copy of the item with a MIME type; None takes the one of its kind."""
    made = copy(item)
    made.mime_type = mime_type or (ANY_BYTES if isinstance(item, types.BlobResourceContents) else PLAIN_TEXT)
    return made


def _about(uri: str, error: BaseException) -> BaseException:
    """An author's error, so that the client can tell which it is, and of which resource; others as they are."""
    if not isinstance(error, Unreadable) or error.from_peer:
        return error
    message = error.message
    if isinstance(error, ResourceAccessDenied) and not ACCESS_DENIED.search(message):
        message = f"Access denied: {message}"
    data = {} if error.data is None else error.data
    made = type(error)(message, {"uri": uri, **data} if isinstance(data, dict) else data)
    made.__cause__ = error
    return made


class Resources:
    """All resources and templates of one server. Thread-safe.

    Args:
        config: Of the server.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.table: Table[Readable] = Table("resource", "resources")
        self.templates: Table[Readable] = Table("resource template", "resources")
        self._matching = route_to(self._match, config.executor)

    def check_reached(self, readable: Readable) -> None:
        """Refuse a template when one that comes first takes all that it would match.

        Raises:
            ValueError: One does.
        """
        for other in self.templates.items.values():
            if other.key != readable.key and other.takes_all_of(readable):
                raise ValueError(
                    f"the resource template {readable.key!r} matches nothing that {other.key!r} does not match"
                    f" before: {where(other.function)}; now {where(readable.function)}"
                )

    def route(self, params: Mapping[str, Json]) -> Route:
        """Where a `resources/read` goes.

        Templates are matched where the handler runs, not on the thread that reads: there may be many of them.

        Raises:
            InvalidParams: It names no URI.
        """
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise InvalidParams("uri is a string")
        readable = self.table.items.get(uri)
        if readable is not None:
            return readable.route
        family = self.template(uri) if self.templates.mounts else None  # it may run where its own server says
        return self._matching if family is None else route_to(self._match, family.executor)

    def _match(self, incoming: IncomingRequest) -> Any:
        return self._find(incoming.request.params["uri"]).route.handle(incoming)

    def _find(self, uri: str) -> Readable:
        """What answers for a URI: a resource of exactly this URI, else the first template.

        Raises:
            ResourceNotFound: Nothing does.
        """
        readable = self.table.items.get(uri)
        if readable is None:
            readable = next((each for each in self._families(uri) if each.values(uri) is not None), None)
        if readable is None:
            raise ResourceNotFound(f"Resource not found: {one_line(uri)}", {"uri": uri})
        return readable

    def _families(self, uri: str) -> Iterator[Readable]:
        """The templates that match a URI, whatever its values."""
        for readable in list(self.templates.items.values()) if len(uri) <= LONGEST_MATCHED else ():
            if readable.template is not None and readable.template.match(uri) is not None:
                yield readable

    def read(self, incoming: IncomingRequest, uri: str, context: Context) -> types.ReadResourceResult:
        """Read a resource for a handler of the same server. Arguments and errors as `Readable.read`.

        Raises:
            ResourceNotFound: Nothing answers for this URI.
        """
        return self._find(uri).read(incoming, uri, context)

    def template(self, uri: str) -> Optional[Readable]:
        """A template, named by itself or by a URI of its family; None when there is none."""
        return self.templates.items.get(uri) or next(self._families(uri), None)


def make_resource(config: ServerConfig, function: Callable[..., Any], options: ResourceOptions, uri: str) -> Readable:
    """A function as a resource, or as a template of them, which is not registered yet.

    Raises:
        TypeError: The function cannot be one; the message says what to write instead.
        ValueError: The URI is none, or an option has a value that it cannot have.
    """
    template = _template(uri)
    kind = "resource" if template is None else "resource template"
    owner = f"{kind} {uri!r}"
    check_options(options, f"{owner}: ")
    read = read_texts(function, owner, options, AS_THEY_ARE)
    _check_parameters(owner, [each.name for each in read.signature.parameters], template)
    given = listing(options, read.signature.description)
    given["mime_type"], size = options.get("mime_type"), options.get("size")
    given["annotations"] = annotated(options.get("annotations"), types.Annotations, '{"audience": ["user"]}', owner)
    name = name_of(function, options.get("name"), kind)
    shown: Union[types.Resource, types.ResourceTemplate]
    if template is None:
        shown = types.Resource(uri, name, size=size, **given)
    elif size is None:
        shown = types.ResourceTemplate(uri, name, **given)
    else:
        raise TypeError(f"{owner}: a template has no size: leave it out")
    hints = {"ttlMs": int(options.get("ttl", 0) * 1000), "cacheScope": options.get("cache_scope", "private")}
    return Readable(config, function, uri, shown, None, None, read, hints, template)


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
        check_uri(template.example)
    if has_parent_segment(uri):
        raise ValueError(f"{uri!r} has a '..' segment, which nobody can read")
    return template if template.variables else None


def _check_parameters(owner: str, names: list[str], template: Optional[UriTemplate]) -> None:
    variables = () if template is None else template.variables
    for name in names:
        if name not in variables:
            raise TypeError(f"{owner} has no variable for the parameter {name!r}: write {{{name}}} into it")
    for name in variables:
        if name not in names:
            raise TypeError(f"{owner} has the variable {name!r}, and its function no parameter of that name")
