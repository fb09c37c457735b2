"""Resources: content that a client may read, by URI or by URI template.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional

from .. import types
from ..engine.incoming import IncomingRequest, Route
from ..errors import InvalidParams, ResourceAccessDenied, ResourceNotFound, RpcError
from ..protocol.lifecycle import Peer
from ..protocol.messages import ACCESS_DENIED, Json, to_json
from ..protocol.uri_template import UriTemplate
from ..protocol.urls import check_uri, has_parent_segment, normalize_uri
from ..protocol.versions import Revision
from ..schema.annotations import write_any
from ..schema.mismatch import NOTHING, Mismatch, nearest
from ..server.context import Context
from ..server.feature import Destination, Feature, OptionSpec
from ..server.options import CACHE_SCOPE, TTL, annotated, source_location
from ..server.registered import ServerConfig, Table, keep_members, route_to
from ..text import one_line
from ..types.content import ANY_BYTES, PLAIN_TEXT, with_type
from .completion import COMPLETE, TextHandler

if TYPE_CHECKING:
    from ..server.registry import Registry

CONTENTS = (types.TextResourceContents, types.BlobResourceContents)
BYTES = (bytes, bytearray, memoryview)

# The default MIME type of values that are neither str nor bytes.
JSON_TEXT = "application/json"

# Maximum length of a URI that is matched with templates. Longer ones are not found, because each
# template takes time for each character.
MAX_MATCHED_CHARACTERS = 64 * 1024


UNREADABLE = (ResourceNotFound, ResourceAccessDenied)


class Readable(TextHandler):
    """A resource, or a template of resources.

    Raises:
        TypeError: The function cannot be a resource; the message says what to write instead.
        ValueError: The URI is invalid, or an option has a value that is not accepted.
    """

    returned_as_is = (types.ReadResourceResult, *CONTENTS, *BYTES)
    returned_alone = (types.ReadResourceResult, *BYTES)

    def __init__(
        self,
        config: ServerConfig,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        uri: str,
    ) -> None:
        self.template = _template(uri)
        self.kind = "resource" if self.template is None else "resource template"
        super().__init__(config, function, options, uri)
        variables = () if self.template is None else self.template.variables
        for name in self.completers:
            if name not in variables:
                raise TypeError(
                    f"{source_location(function)}: {self.owner} has no variable for the parameter"
                    f" {name!r}: add {{{name}}} to it"
                )
        for name in variables:
            if name not in self.completers:
                raise TypeError(
                    f"{source_location(function)}: {self.owner} has the variable {name!r}, but its"
                    f" function has no parameter of that name: add {name}: str"
                )
        hints = annotated(
            options.get("annotations"), types.Annotations, '{"audience": ["user"]}', self.owner
        )
        members = {"mime_type": options.get("mime_type"), "annotations": hints}
        if self.template is None:
            self.set_definition(types.Resource, uri=uri, size=options.get("size"), **members)
        elif options.get("size") is None:
            self.set_definition(types.ResourceTemplate, uri_template=uri, **members)
        else:
            raise TypeError(f"{self.owner}: a template cannot have a size: remove size=")
        ttl = options.get("ttl", 0)
        scope = options.get("cache_scope", "private")
        self.hints = {"ttlMs": int(ttl * 1000), "cacheScope": scope}

    def unknown(self, incoming: IncomingRequest) -> RpcError:
        error: RpcError = incoming.server.feature("resources").not_found(
            incoming.request.params["uri"]
        )
        return error

    def arguments_of(self, params: Mapping[str, Json]) -> dict[str, Any]:
        uri = params.get("uri")
        if uri is None:  # a completion has only some of the values
            return super().arguments_of(params)
        texts = {} if self.template is None else self.template.match(uri)
        if texts is None:
            raise Mismatch("a URI that matches the template", uri)
        return self.arguments(texts)

    def values(self, uri: str) -> Optional[dict[str, Any]]:
        """Return the arguments for a URI.

        Returns None if the URI does not match the template, or if a value does not match its
        parameter, as "notes://x" if the parameter is an int.
        """
        try:
            return self.arguments_of({"uri": uri})
        except Mismatch:
            return None

    def call(self, incoming: IncomingRequest) -> Any:
        uri = incoming.request.params["uri"]
        return self.invoke(incoming, self.values(uri) or {})

    def failed(self, error: BaseException, incoming: IncomingRequest, returned: bool) -> Any:
        raise _about(incoming.request.params["uri"], error)

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        revision = incoming.peer.revision
        wire: dict[str, Json] = self.made(value, incoming.request.params["uri"]).to_wire()
        wire["contents"] = [
            keep_members(item, revision.contents_members) for item in wire["contents"]
        ]
        if revision.cache_hints:
            wire = {**self.hints, **wire}
        else:
            wire = {name: value for name, value in wire.items() if name not in self.hints}
        return incoming.server.finalize_result(wire, revision)

    def made(self, value: Any, uri: str) -> types.ReadResourceResult:
        """Return the result for a return value. Each item has a MIME type."""
        kind = self.signature.output_kind
        mime_type = self.definition.mime_type
        promised = kind is None and self.signature.returns is not NOTHING
        is_list = type(value) in (list, tuple) and all(isinstance(item, CONTENTS) for item in value)
        if isinstance(value, types.ReadResourceResult):
            made = copy(value)
        elif isinstance(value, CONTENTS):
            made = types.ReadResourceResult([value])
        elif is_list and (value or promised):
            made = types.ReadResourceResult(list(value))
        elif isinstance(value, BYTES):
            made = types.ReadResourceResult(
                [types.BlobResourceContents(uri, value, mime_type or ANY_BYTES)]
            )
        else:
            written: Json = value
            if type(value) is not str:
                written = write_any(value) if kind is None else kind.write(value)
            text = written
            default_type = PLAIN_TEXT
            if type(written) is not str:
                text = to_json(written)
                default_type = JSON_TEXT
            made = types.ReadResourceResult(
                [types.TextResourceContents(uri, text, mime_type or default_type)]
            )
        made.contents = [
            item if item.mime_type is not None else with_type(item, mime_type)
            for item in made.contents
        ]
        return made

    def to_wire(self, revision: Revision) -> dict[str, Json]:
        """Return the entry in a list, in the form of a revision."""
        members = revision.resource_members if self.template is None else revision.template_members
        wire = keep_members(self.definition.to_wire(), members)
        if "annotations" in wire:
            wire["annotations"] = keep_members(wire["annotations"], revision.annotation_members)
        return wire


def _about(uri: str, error: BaseException) -> BaseException:
    """Return an author's exception with the URI of its resource, or any other exception
    unchanged."""
    if not isinstance(error, UNREADABLE) or error.from_peer:
        return error
    message = error.message
    if isinstance(error, ResourceAccessDenied) and not re.search(ACCESS_DENIED, message):
        message = f"Access denied: {message}"
    data = {} if error.data is None else error.data
    made = type(error)(message, {"uri": uri, **data} if isinstance(data, dict) else data)
    made.__cause__ = error
    return made


class Resources(Feature):
    """The resources and templates of one server, and the methods of resources. Thread-safe.

    Args:
        registry: The server's registry.
    """

    capability = "resources"
    makers = {"resource": Readable}
    options = {
        "complete": COMPLETE,
        "mime_type": OptionSpec(),
        "size": OptionSpec(),
        "annotations": OptionSpec(),
        "ttl": TTL,
        "cache_scope": CACHE_SCOPE,
    }

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.table: Table[Readable] = Table(
            "resource", "resources", "resources", normalize=normalize_uri
        )
        self.templates: Table[Readable] = Table(
            "resource template", "resources", "resourceTemplates", normalize=_normalized_template
        )
        self.tables = (self.table, self.templates)

    def routes(self) -> Mapping[str, Destination]:
        """Return the routes of the methods of resources."""
        return {
            "resources/list": Route(self.table.serve_page, immediate=True),
            "resources/templates/list": Route(self.templates.serve_page, immediate=True),
            "resources/read": self.route,
            "resources/subscribe": Route(self._subscribe, immediate=True),
            "resources/unsubscribe": Route(self._unsubscribe, immediate=True),
        }

    def _subscribe(self, incoming: IncomingRequest) -> Any:
        return self._registry.feature("subscriptions").subscribe(incoming)

    def _unsubscribe(self, incoming: IncomingRequest) -> Any:
        return self._registry.feature("subscriptions").unsubscribe(incoming)

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Declare resources if there are any."""
        if not self._registry.offers("resources"):
            return {}
        return {"resources": {"subscribe": True, "listChanged": True}}

    def route(self, params: Mapping[str, Json], peer: Peer) -> Route:
        """Return the route of a `resources/read`.

        Templates are matched on the handler's thread and not on the reader thread, because there
        may be many of them.

        Raises:
            InvalidParams: The request has no URI.
        """
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise InvalidParams("uri must be a string")
        readable = self.table.get(uri)
        if readable is not None and not readable.hidden_by:
            return readable.route
        executor = self._registry.config.executor
        if self.templates.mounts:
            family = self.template(uri)  # a mounted one may have another executor
            if family is not None:
                executor = family.executor
        return route_to(self._match, executor)

    def _match(self, incoming: IncomingRequest) -> Any:
        uri = incoming.request.params["uri"]
        readable = self.find(uri, incoming)
        if readable is None:
            raise self.not_found(uri)
        return readable.serve(incoming)

    def find(self, uri: str, incoming: IncomingRequest) -> Optional[Readable]:
        """Return the resource of a URI, or else the first template that matches; None if there is
        neither. Those that are hidden from the caller of a request are left out."""
        readable = self.table.get(uri)
        if readable is not None and not readable.is_hidden(incoming):
            return readable
        for readable in self._families(uri):
            if readable.values(uri) is not None and not readable.is_hidden(incoming):
                return readable
        return None

    def hiding(self, uri: str) -> Optional[Callable[[IncomingRequest], bool]]:
        """Return a function that determines whether a URI is hidden from the caller of a request.
        None means that it is hidden from nobody."""
        if not (self.table.is_filtered or self.templates.is_filtered):
            return None
        readable = self.table.get(uri)
        families = [each for each in self._families(uri) if each.values(uri) is not None]
        if readable is None and not families:
            return None
        return lambda incoming: self.find(uri, incoming) is None

    def not_found(self, uri: str) -> ResourceNotFound:
        """Return the error for a URI that the caller cannot read."""
        near = nearest(uri, self.table.public_names())
        hint = f", did you mean {one_line(near)}?" if near else ""
        return ResourceNotFound(f"Resource not found: {one_line(uri)}{hint}", {"uri": uri})

    def _families(self, uri: str) -> Iterator[Readable]:
        """Yield the templates that match a URI, before its values are converted."""
        if len(uri) > MAX_MATCHED_CHARACTERS:
            return
        for readable in list(self.templates.items.values()):
            if readable.template is not None and readable.template.match(uri) is not None:
                yield readable

    def read(
        self, incoming: IncomingRequest, uri: str, context: Context
    ) -> types.ReadResourceResult:
        """Read a resource for a handler of the same server.

        Args:
            incoming: The request of that handler.
            uri: The URI to read.
            context: The context for the resource's function.

        Raises:
            ResourceNotFound: The caller can see no resource for this URI.
            InvalidRequest: The token of the request lacks a scope that the resource needs.
            Exception: The function's exception, or the error of a return value that cannot be sent.
        """
        readable = self.find(uri, incoming)
        if readable is None:
            raise self.not_found(uri)
        access = self._registry.loaded("access")
        if access is not None:
            access.require(readable, incoming, {"uri": uri})
        try:
            return readable.made(
                readable.invoke(incoming, readable.values(uri) or {}, context), uri
            )
        except UNREADABLE as error:
            raise _about(uri, error)

    def template(self, uri: str, incoming: Optional[IncomingRequest] = None) -> Optional[Readable]:
        """Return a template by its text or by a URI that it matches; None if there is none.

        With a request, templates that are hidden from its caller are left out.
        """
        named = self.templates.get(uri)
        for each in self._families(uri) if named is None else (named,):
            if incoming is None or not each.is_hidden(incoming):
                return each
        return None


def _normalized_template(text: str) -> str:
    """Return the normalized form of a template, which equivalent templates share.

    Text that is not a template is returned unchanged.
    """
    try:
        return UriTemplate(text).normalized if len(text) <= MAX_MATCHED_CHARACTERS else text
    except ValueError:
        return text


def _template(uri: str) -> Optional[UriTemplate]:
    """Return the template of a URI; None if it has no variables.

    Raises:
        TypeError: The URI is not a str.
        ValueError: It is neither a URI nor a template, or has a ".." segment.
    """
    if not isinstance(uri, str):
        raise TypeError(
            f"the URI of a resource must be a str, not {type(uri).__name__}: write "
            '@server.resource("notes://all")'
        )
    template = UriTemplate(uri)
    if re.match("[^:]*(/|$)", uri) and not uri.startswith("{"):
        example = f"notes://{uri}"
        if "/" in uri.strip("/"):
            example = uri.strip("/").replace("/", "://", 1)
        raise ValueError(
            f"{uri!r} is not a URI: it must begin with a scheme and a colon, as {example!r} does"
        )
    if not uri.startswith("{"):
        check_uri(template.example if template.variables else uri)
    if has_parent_segment(uri):
        raise ValueError(f"{uri!r} has a '..' segment, which clients cannot read")
    return template if template.variables else None
