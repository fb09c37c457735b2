"""Server cards: where a server is and which revisions it supports, before a client connects.

`Card` describes a server of this library, which then serves it. `read_card` and `read_catalog` read
the cards of other servers. Everything in a card is the server's own statement: it grants nothing,
and the values of the connection take precedence. The names on the wire follow a draft of the
extension.

https://github.com/modelcontextprotocol/experimental-ext-server-card
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Optional, Union
from urllib.parse import quote, urljoin

from ..auth.shared import check_url
from ..engine.timer import Deadline
from ..errors import AuthorizationError, ConnectionFailed, ProtocolViolation, RequestTimeout
from ..http.headers import HttpError, HttpRequest, HttpResponse
from ..log import logger
from ..protocol.messages import Json, to_json
from ..protocol.urls import parse_web_url
from ..schema.checker import Check, compile_check
from ..text import one_line

if TYPE_CHECKING:
    from ..auth.bearer import Bearer
    from ..auth.discovery import Exchange
    from ..http.client import HttpServer

log = logger("minimcp.cards")

SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
CARD_TYPE = "application/mcp-server-card+json"
CATALOG_TYPE = "application/ai-catalog+json"
CATALOG_VERSION = "0.9"
CARD_PATH = "/server-card"
CATALOG_PATH = "/.well-known/ai-catalog.json"

# Limits for documents of other servers.
MAX_BYTES = 256 * 1024
MAX_REDIRECTS = 3
MAX_KEPT = 100

# The rules for a card, as a JSON Schema.
_RULES = r"""{
  "type": "object",
  "required": ["name", "version", "description"],
  "properties": {
    "name": {
      "type": "string", "minLength": 3, "maxLength": 200,
      "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+(?!\\n)$"
    },
    "version": {
      "type": "string", "minLength": 1, "maxLength": 255,
      "not": {"pattern": "[\\^~<>=*| ]|(^|\\.)[xX](\\.|$)"}
    },
    "description": {"$ref": "#/$defs/short"},
    "title": {"$ref": "#/$defs/short"},
    "websiteUrl": {"type": "string"},
    "repository": {
      "type": "object",
      "required": ["url", "source"],
      "additionalProperties": {"type": "string"}
    },
    "icons": {"type": "array", "items": {"type": "object", "required": ["src"]}},
    "remotes": {
      "type": "array",
      "items": {
        "type": "object",
        "required": ["type", "url"],
        "properties": {
          "type": {"enum": ["streamable-http", "sse"]},
          "url": {
            "type": "string",
            "pattern": "^(https?://[^\\s]+|\\{[a-zA-Z_][a-zA-Z0-9_]*\\}[^\\s]*)$"
          },
          "headers": {"type": "array", "items": {"$ref": "#/$defs/header"}},
          "variables": {"$ref": "#/$defs/inputs"},
          "supportedProtocolVersions": {"type": "array", "items": {"type": "string"}}
        }
      }
    },
    "_meta": {"type": "object"}
  },
  "$defs": {
    "short": {"type": "string", "minLength": 1, "maxLength": 100},
    "inputs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/input"}},
    "input": {
      "type": "object",
      "properties": {
        "description": {"type": "string"},
        "isRequired": {"type": "boolean"},
        "isSecret": {"type": "boolean"},
        "format": {"enum": ["string", "number", "boolean", "filepath"]},
        "default": {"type": "string"},
        "placeholder": {"type": "string"},
        "value": {"type": "string"},
        "choices": {"type": "array", "items": {"type": "string"}},
        "variables": {"$ref": "#/$defs/inputs"}
      }
    },
    "header": {
      "allOf": [
        {"$ref": "#/$defs/input"},
        {"required": ["name"], "properties": {"name": {"type": "string"}}}
      ]
    }
  }
}"""
_VARIABLE = r"\{([a-zA-Z_][a-zA-Z0-9_]*)\}"
# The names of headers that a card may set. Others belong to the transport.
_HEADER = (
    r"(?i)(?!(host|content-.*|transfer-encoding|connection|accept|cookie|last-event-id|mcp-.*)$)"
    r"[!#$%&'*+\-.^_`|~0-9A-Z]+"
)
_FORMATS = {"number": r"-?[0-9]+(\.[0-9]+)?", "boolean": r"true|false"}

CORS = [
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Methods", "GET"),
    ("Access-Control-Allow-Headers", "Content-Type, If-None-Match"),
    ("Access-Control-Expose-Headers", "ETag"),
]


@lru_cache(None)
def _rules() -> Check:
    return compile_check(json.loads(_RULES), where="the rules for cards")


class ServerCard:
    """The card of a server. It is the server's own statement: do not base security on it.

    Args:
        wire: The card as JSON data.

    Attributes:
        wire: The card as JSON data.
        name: A reverse-DNS name with a slash: "com.example/tickets".
        version: The version of the server.
        description: One sentence about the server.
        title: A name for people; None if there is none.
        website_url: A page about the server; None if there is none.
        repository: The location of its source; None if the card does not name it.
        icons: Icons as mappings; None if there are none.
        remotes: Where it is: mappings with "type", "url", "headers", "variables" and
            "supportedProtocolVersions".
        meta: The card's ``_meta``; None if there is none.

    Raises:
        ValueError: A member is not what the schema requires, or a header belongs to the transport.
    """

    def __init__(self, wire: Mapping[str, Json]) -> None:
        problem = _rules()(wire)
        if problem is not None:
            raise ValueError(str(problem))
        self.wire = wire
        self.name = str(wire["name"])
        self.version = str(wire["version"])
        self.description = str(wire["description"])
        self.title: Optional[str] = wire.get("title")
        self.website_url: Optional[str] = wire.get("websiteUrl")
        self.repository: Optional[Mapping[str, str]] = wire.get("repository")
        self.icons: Optional[Sequence[Mapping[str, Any]]] = wire.get("icons")
        self.remotes: Sequence[Mapping[str, Any]] = wire.get("remotes", [])
        self.meta: Optional[Mapping[str, Any]] = wire.get("_meta")
        for name in [each["name"] for remote in self.remotes for each in remote.get("headers", ())]:
            if not re.fullmatch(_HEADER, name):
                raise ValueError(f"a card must not set the header {name!r:.60}")

    def remote(self, variables: Optional[Mapping[str, str]] = None) -> HttpServer:
        """Return the server that the card describes, for `connect`.

        Args:
            variables: Values that the user gave, by the name of a variable or a header; None means
                none. A variable with a fixed value cannot be given.

        Raises:
            ValueError: The card has no remote, a value is missing, unknown or not accepted, or the
                URL is not an https URL (or http on this machine) without a user name.
        """
        from ..http.client import HttpServer

        remotes = sorted(self.remotes, key=lambda each: str(each["type"]), reverse=True)
        if not remotes:
            raise ValueError(f"the card of {self.name} does not say where the server is")
        remote = remotes[0]
        template = _Template(dict(variables or {}))
        url = template.fill(remote["url"], remote.get("variables", {}), in_url=True)
        headers = {each["name"]: template.header(each) for each in remote.get("headers", ())}
        if template.unused:
            name = min(template.unused)
            raise ValueError(f"the card of {self.name} has no variable {name!r:.60}")
        check_url(url)
        given = {name: value for name, value in headers.items() if value is not None}
        return HttpServer(url, headers=given)

    def __repr__(self) -> str:
        return f"<ServerCard {self.name} {one_line(self.version)}>"


class _Template:
    """Fills the templates of a card.

    Args:
        given: The values that the user gave, by name.

    Attributes:
        unused: The names that no template has asked for.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self.unused = set(given)

    def fill(self, text: str, inputs: Mapping[str, Any], *, in_url: bool = False) -> str:
        """Return a text with the values of its variables, which are escaped in a URL.

        Raises:
            ValueError: A value is missing or not accepted.
        """

        def value_of(found: re.Match[str]) -> str:
            about = inputs.get(found[1], {})
            value = str(about.get("value") or self._value(found[1], {**about, "isRequired": True}))
            # A variable at the beginning is the start of the URL, which is checked at the end.
            return quote(value, safe="") if in_url and found.start() else value

        return re.sub(_VARIABLE, value_of, text)

    def header(self, about: Mapping[str, Any]) -> Optional[str]:
        """Return the value of a header; None if it has none. Raises ValueError as `fill`."""
        if "value" in about:
            return self.fill(about["value"], about.get("variables", {}))
        return self._value(about["name"], about)

    def _value(self, name: str, about: Mapping[str, Any]) -> Optional[str]:
        self.unused.discard(name)
        value: Any = self._given.get(name, about.get("default"))
        if value is None and not about.get("isRequired"):
            return None
        label = (
            f"{name!r:.60} ({one_line(about.get('description', 'a variable of the card'), 100)})"
        )
        if value is None:
            raise ValueError(f"a value for {label} is missing: add it to variables=")
        pattern = _FORMATS.get(about.get("format", ""), ".*")
        is_text = isinstance(value, str) and value.isprintable() and re.fullmatch(pattern, value)
        if not is_text or value not in about.get("choices", [value]):
            raise ValueError(f"the card does not accept the value for {label}")
        return str(value)


# ------------------------------------------------------------ the card of a server


class Card:
    """The public description of a server: ``Server("tickets", card=Card(name, url))``. Immutable.

    The title, version, description, icons and revisions are those of the server. The card is
    public: it is served without a token at the path of the endpoint plus ``/server-card``.

    Args:
        name: A reverse-DNS name with a slash: "com.example/tickets".
        url: The public URL of the endpoint. It may have variables: "https://{region}.example.com".
            None means ``Bearer(resource=)``.
        repository: Where the source is: a mapping with "url" and "source"; omitted if None.
        headers: Headers that clients need, as mappings in the form of the specification: ``{"name":
            "X-Key", "isRequired": True, "isSecret": True}``.
        variables: The variables of the URL, by name: the same kind of mappings, without names.
        catalog: Whether to serve ``/.well-known/ai-catalog.json``, too.
        max_age: Seconds for which clients may cache the documents.

    Raises:
        TypeError, ValueError: The schema forbids a value, a URL is not https (or http on this
            machine), or a secret input has a value.
    """

    def __init__(
        self,
        name: str,
        url: Optional[str] = None,
        *,
        repository: Optional[Mapping[str, str]] = None,
        headers: Sequence[Mapping[str, Json]] = (),
        variables: Optional[Mapping[str, Mapping[str, Json]]] = None,
        catalog: bool = False,
        max_age: int = 3600,
    ) -> None:
        if not isinstance(catalog, bool) or type(max_age) is not int or max_age < 0:
            raise TypeError("catalog must be True or False, and max_age a number of seconds")
        self.name = name
        self.url = url
        self.catalog = catalog
        self.max_age = max_age
        self._given = {"headers": list(headers), "variables": dict(variables or {})}
        self._repository = None if repository is None else dict(repository)
        self.document(
            {"version": "1", "description": "-"}, (), "https://localhost" if url is None else url
        )

    def document(
        self, info: Mapping[str, Json], revisions: Iterable[str], url: Optional[str] = None
    ) -> dict[str, Json]:
        """Return the card as JSON data.

        Args:
            info: The server's description of itself.
            revisions: The names of the revisions that it supports.
            url: The URL of the endpoint; None means that of the card.

        Raises:
            ValueError: The schema forbids a value.
        """
        remote: dict[str, Json] = {"type": "streamable-http", "url": url or self.url}
        remote.update({label: value for label, value in self._given.items() if value})
        remote["supportedProtocolVersions"] = list(revisions)
        names = ("version", "title", "description", "websiteUrl", "icons")
        about = {label: info[label] for label in names if label in info}
        repository = {} if self._repository is None else {"repository": self._repository}
        wire = {"$schema": SCHEMA, "name": self.name, **about, **repository, "remotes": [remote]}
        if not about.get("description"):
            raise ValueError('a card needs a description: write Server(..., description="...")')
        ServerCard(wire)
        known = remote.get("variables", {})
        inputs = [*remote.get("headers", ()), *known.values()]
        inputs += [inner for each in inputs for inner in each.get("variables", {}).values()]
        for each in inputs:
            if each.get("isSecret") and {"value", "default", "choices"}.intersection(each):
                name = each.get("name", "of a variable")  # never the value
                raise ValueError(f"a card is public: remove the value of the secret {name!r:.60}")
        unknown = set(re.findall(_VARIABLE, remote["url"])).difference(known)
        if unknown:
            raise ValueError(f"variables= must describe {min(unknown)!r:.60} of the URL")
        if not remote["url"].startswith("{"):
            check_url(re.sub(_VARIABLE, "x", remote["url"]))
        return wire

    def serve(
        self, info: Mapping[str, Json], revisions: Sequence[str], bearer: Optional[Bearer]
    ) -> ServedCard:
        """Return the documents to serve. Raises ValueError: no URL, or as `document`."""
        url = self.url or (None if bearer is None else bearer.resource)
        if url is None:
            raise ValueError("a card needs the public URL of the server: write Card(name, url)")
        return ServedCard(self.document(info, revisions, url), self)


def catalog_of(document: Mapping[str, Any]) -> dict[str, Json]:
    """Return a catalog with one card."""
    url = document["remotes"][0]["url"]
    place = re.sub(r"[?#].*", "", url).rstrip("/") + CARD_PATH
    domain, _, name = str(document["name"]).partition("/")
    publisher = ".".join(reversed(domain.split(".")))
    entry: dict[str, Json] = {"identifier": f"urn:air:{publisher}:mcp:{name}", "type": CARD_TYPE}
    entry.update({"data": document} if "{" in url else {"url": place})
    return {"specVersion": CATALOG_VERSION, "entries": [entry]}


class ServedCard:
    """The documents of a card, which are the same in all processes. Immutable.

    Args:
        document: The card.
        card: Its options.
    """

    def __init__(self, document: Mapping[str, Json], card: Card) -> None:
        self.documents = {CARD_PATH: (CARD_TYPE, to_json(document).encode())}
        if card.catalog:
            text = to_json(catalog_of(document)).encode()
            self.documents[CATALOG_PATH] = (CATALOG_TYPE, text)
        self.card = card

    def paths(self, endpoint: str) -> dict[str, str]:
        """Return the names of the documents by their paths, given the path of the endpoint."""
        root = endpoint.rstrip("/")
        return {(root if name == CARD_PATH else "") + name: name for name in self.documents}

    def answer(self, request: HttpRequest, endpoint: str) -> Optional[HttpResponse]:
        """Return the response to a request for a document; None for any other path.

        Raises:
            HttpError: The method is not GET, HEAD or OPTIONS.
        """
        name = self.paths(endpoint).get(request.path.partition("?")[0])
        if name is None:
            return None
        if request.method == "OPTIONS":
            return HttpResponse(204, list(CORS))
        if request.method not in ("GET", "HEAD"):
            allow = (("Allow", "GET, HEAD, OPTIONS"),)
            raise HttpError(405, "use GET for this path", allow, code=None)
        kind, body = self.documents[name]
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        headers = [*CORS, ("Cache-Control", f"public, max-age={self.card.max_age}"), ("ETag", tag)]
        wanted = ",".join(request.headers.all("If-None-Match"))
        if wanted.strip() == "*" or tag in re.findall(r'"[^"]*"', wanted):
            return HttpResponse(304, headers)
        return HttpResponse(200, [("Content-Type", kind), *headers], body)


# ------------------------------------------------------------ reading


class CatalogEntry:
    """One server card in the catalog of a domain.

    Attributes:
        identifier: The name of the entry, such as "urn:air:example.com:mcp:weather".
        type: The media type of a server card.
        url: Where the card is, maybe on another domain; None if the catalog contains it.
    """

    def __init__(self, wire: Mapping[str, Any], reader: _Reader) -> None:
        self.identifier = str(wire.get("identifier") or "")
        self.type = CARD_TYPE
        self.url: Optional[str] = wire.get("url")
        self._data = wire.get("data")
        self._reader = reader

    def card(self) -> ServerCard:
        """Return the card; fetch it if necessary. Raises what `read_card` raises."""
        if self.url is not None:
            return self._reader.card(self.url)
        return _card_of(self._data, one_line(self.identifier, 100))

    def __repr__(self) -> str:
        return f"<CatalogEntry {self.identifier!r}>"


def read_card(
    url: str,
    *,
    timeout: Optional[float] = 10,
    verify: Union[bool, str, None] = None,
    proxies: Optional[Mapping[str, str]] = None,
) -> ServerCard:
    """Read the card of a server. No token and no cookie is sent.

    Args:
        url: The URL of the server, below which the card is at ``/server-card``; or of the card
            itself, which ends in ``/server-card`` or ``.json``. https, or http on this machine.
        timeout: Seconds for everything; None means no limit.
        verify, proxies: As for `connect`.

    Raises:
        ConnectionFailed: The URL must not be used, or the server has no card there.
        RequestTimeout: The card did not arrive in time.
        ProtocolViolation: The document is not a card, or is longer than 256 KiB.
    """
    if not re.search(r"(/server-card|\.json)$", url):
        url = re.sub(r"[?#].*", "", url).rstrip("/") + CARD_PATH
    return _Reader(timeout, verify, proxies).card(url)


def read_catalog(
    domain: str,
    *,
    timeout: Optional[float] = 10,
    verify: Union[bool, str, None] = None,
    proxies: Optional[Mapping[str, str]] = None,
) -> list[CatalogEntry]:
    """Return the server cards in the catalog of a domain. Entries of other types are left out.

    Args:
        domain: A host, with a port if necessary: "example.com".
        timeout, verify, proxies: As for `read_card`. They apply to each card, too.

    Raises:
        ConnectionFailed, RequestTimeout, ProtocolViolation: As for `read_card`.
        ValueError: The text is not a domain.
    """
    if not isinstance(domain, str) or not re.fullmatch(r"[A-Za-z0-9.\-\[\]:]+", domain):
        raise ValueError(f"a domain must be a host such as example.com, not {domain!r:.60}")
    scheme = "http" if parse_web_url(f"http://{domain}").is_local else "https"
    reader = _Reader(timeout, verify, proxies)
    url = f"{scheme}://{domain}{CATALOG_PATH}"
    found = reader.document(url, CATALOG_TYPE)
    entries = found.get("entries")
    if not isinstance(entries, list):
        raise ProtocolViolation(f"{url}: a catalog must have a list of entries", found)
    cards = []
    for each in entries:
        if not isinstance(each, dict) or each.get("type") != CARD_TYPE:
            continue
        if isinstance(each.get("url"), str) == isinstance(each.get("data"), dict):
            log.warning("%s: an entry was left out, because it has neither url nor data", url)
            continue
        cards.append(CatalogEntry(each, reader))
    return cards


# The documents that were read, by URL and by how certificates were verified: when each becomes
# stale, its ETag and its bytes.
kept: dict[tuple[str, str], tuple[float, str, bytes]] = {}
_keeping = threading.Lock()


class _Reader:
    """Reads documents. All connections after the first must lead to public addresses, or to
    addresses no closer to this machine than the first one."""

    def __init__(self, timeout: Optional[float], verify: Any, proxies: Any) -> None:
        self._timeout = timeout
        self._verify = True if verify is None else verify
        self._proxies = proxies
        self.exchange: Optional[Exchange] = None

    def card(self, url: str) -> ServerCard:
        return _card_of(self.document(url, CARD_TYPE), url)

    def document(self, url: str, kind: str) -> dict[str, Any]:
        """Return the JSON object at a URL. See `read_card` for the exceptions."""
        from ..auth.discovery import json_object

        key = (url, str(self._verify))
        with _keeping:
            stale_at, tag, body = kept.get(key, (0.0, "", b""))
        if not body or time.monotonic() >= stale_at:
            status, headers, answer = self._fetch(url, kind, tag)
            if status != 304 or not body:
                body = answer
            control = headers.get("Cache-Control", "")
            found = re.search(r"max-age=([0-9]{1,9})", control)
            with _keeping:
                kept.pop(key, None)
                if found is not None and "no-store" not in control:
                    stale_at = time.monotonic() + int(found[1])
                    kept[key] = (stale_at, headers.get("ETag", ""), body)
                while len(kept) > MAX_KEPT:
                    del kept[next(iter(kept))]
        document = json_object(body)
        if document is None:
            raise ProtocolViolation(f"{url}: not a JSON object")
        return document

    def _fetch(self, url: str, kind: str, tag: str) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request, and follow its redirects."""
        from ..auth.discovery import Exchange
        from ..http.fetch import AbortableRequest, without_secrets

        deadline = Deadline(self._timeout)
        sent = {"Accept": kind, **({"If-None-Match": tag} if tag else {})}
        for _ in range(MAX_REDIRECTS + 1):
            shown = without_secrets(url)
            try:
                check_url(url)
                if self.exchange is None:
                    request = AbortableRequest()
                    self.exchange = Exchange(url, self._verify, self._proxies, request)
                status, headers, body = self.exchange.ask(
                    "GET", url, sent, seconds=deadline.to_wait(), limit=MAX_BYTES
                )
            except (TypeError, ValueError, AuthorizationError) as error:
                if deadline.expired:
                    raise RequestTimeout(f"{shown}: {deadline.reason}") from None
                if isinstance(error.__cause__, ProtocolViolation):
                    raise error.__cause__ from None
                raise ConnectionFailed(str(error)) from None
            if status in (200, 304):
                return status, headers, body
            if status not in (301, 302, 303, 307, 308):
                raise ConnectionFailed(f"{shown}: HTTP {status}")
            url = urljoin(url, headers.get("Location", ""))
        raise ConnectionFailed(f"{shown}: more than {MAX_REDIRECTS} redirects")


def _card_of(wire: Any, where: str) -> ServerCard:
    try:
        return ServerCard(wire)
    except ValueError as error:
        raise ProtocolViolation(f"{where}: {error}", wire) from None
