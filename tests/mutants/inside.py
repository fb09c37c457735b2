"""The kinds that are given to parts of the library in this process: a corpus each, and a judge that
raises."""

from __future__ import annotations

import json
import logging
import math
import random
import re
import tempfile
from contextlib import suppress
from ipaddress import ip_address
from threading import Event as Flag
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, NamedTuple
from urllib.parse import urlsplit

from urllib3.util import parse_url

from minimcp import McpError, errors, types
from minimcp.client.config import read_servers
from minimcp.client.host import Host
from minimcp.engine.cancel import CancelToken
from minimcp.http.client_sse import SseSession
from minimcp.http.fetch import Fetcher
from minimcp.http.framing import READY, RequestParser
from minimcp.http.headers import HostPolicy, HttpError, accepts, is_json
from minimcp.http.sse import EventReader, SseEvent
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import InvalidMessage, decode, encode, guess_from_ends
from minimcp.protocol.uri_template import UriTemplate
from minimcp.protocol.urls import check_uri, has_parent_segment
from minimcp.protocol.versions import REVISIONS
from minimcp.schema import compile_peer_check
from minimcp.schema.forms import Form
from minimcp.schema.header_params import from_header, header_params, header_value
from minimcp.schema.mismatch import Mismatch

from ..inside import pools_of
from ..interaction.types_table import ROWS, complete
from ..unit.test_checker import DRAFT_7, WORDS
from ..unit.test_http_framing import BODIES, BODY_BYTES, GET
from ..unit.test_types_base import FULL
from ..unit.test_uri_template import MATCHES
from .lines import CORPORA

LONGEST_MESSAGE = 20_000  # characters that an error message may have


class Wrong(Exception):
    """The library handled a mutant incorrectly."""


class Inside(NamedTuple):
    corpus: List[bytes]
    judge: Callable[[bytes], Any]


def say(value: Any) -> bytes:
    return json.dumps(value).encode()


def read(data: bytes) -> Any:
    """Return the value of a JSON mutant, or None if it is not JSON, which `messages` and `lines`
    test."""
    with suppress(ValueError, RecursionError):
        return json.loads(
            data.decode("utf-8", "replace"), parse_float=finite, parse_constant=finite
        )


def finite(text: str) -> float:
    """A number. Raises ValueError: it is beyond floats, which no message holds."""
    if math.isinf(float(text)) or math.isnan(float(text)):
        raise ValueError(text)
    return float(text)


def same(left: Any, right: Any, what: str) -> None:
    if left != right:
        raise Wrong(f"{what}: {left!r:.200} and {right!r:.200}")


def short(told: Any) -> None:
    """Check that the message about a value is one line, and not much longer than the value can be."""
    if told is not None and ("\n" in str(told) or len(str(told)) > LONGEST_MESSAGE):
        raise Wrong(f"a message of {len(str(told))} characters: {str(told)!r:.200}")


class Reading(logging.Handler):
    """Keeps log messages that would fill two lines or move the cursor of a terminal."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: List[str] = []
        logging.getLogger("minimcp").addHandler(self)
        logging.getLogger("minimcp").setLevel(logging.DEBUG)

    def emit(self, record: logging.LogRecord) -> None:
        if _CONTROLS.search(record.getMessage()):
            self.found.append(f"a control character in the log: {record.getMessage()!r:.200}")

    def taken(self) -> List[str]:
        found, self.found = self.found, []
        return found


_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def pieces(data: bytes) -> List[bytes]:
    """Return the same bytes in pieces. The bytes themselves determine the cuts."""
    dice = random.Random(data)
    cuts = sorted({0, *(dice.randrange(len(data) + 1) for _ in range(6)), len(data)})
    return [data[first:last] for first, last in zip(cuts, cuts[1:])]


# ------------------------------------------------------------ streams and messages


def events(data: bytes) -> None:
    """Check that the result does not depend on the pieces, and follows the standard."""
    found = []
    for chunks in ([data], pieces(data)):
        reader = EventReader(4096)
        try:
            heard = [event for chunk in chunks for event in reader.feed(chunk)]
            found.append(
                (
                    [each._replace(id=_whole(each.id)) for each in heard],
                    _whole(reader.last_id),
                    reader.retry,
                )
            )
        except errors.ProtocolViolation as error:
            short(error)
            return
    same(*found, "in pieces")
    same(found[0], standard(data), "by the standard")


def _whole(id: str) -> str:
    """Replace the bytes of an id that are not UTF-8. The reader may keep them unchanged, to send
    them back."""
    return id.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def standard(stream: bytes) -> Any:
    """The events of a stream, its last id and the time to wait, as the steps of the standard have
    it."""
    text = stream[3:] if stream.startswith(b"\xef\xbb\xbf") else stream
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]
    found, data, kind, id, last, retry = [], b"", "", "", "", None
    for line in lines:
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if not line:
            last = id
            found += (
                [SseEvent(data[:-1].decode("utf-8", "replace"), kind or "message", id)]
                if data
                else []
            )
            data, kind = b"", ""
        elif name == b"data":
            data += value + b"\n"
        elif name == b"event":
            kind = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 16:
            retry = int(value)
    return found, last, retry


EVENTS = [
    b"event: endpoint\ndata: /messages?session=1\n\n", b"id: 7\nretry: 500\ndata:\n\n", b": keep-alive\n\n",
    b"\xef\xbb\xbfid: a-1\r\nevent: message\r\ndata: {\"jsonrpc\":\r\ndata: \"2.0\", \"id\": 1}\r\n\r\n",
    b"data: one\rdata:two\r\rid\revent\rdata\r\r", b"data: \xe6\x97\xa5\xe2\x80\xa8\n\nid: \xc3\xa9\n\ndata\n\n",
]  # fmt: skip


def messages(data: bytes) -> None:
    """Check that every line is read, and that a message is written and read again as the same."""
    for line in data.split(b"\n"):
        found = decode(line)
        for one in found if isinstance(found, list) else [found]:
            if isinstance(one, InvalidMessage):
                short(one.reason)
            else:
                with suppress(ValueError):  # now nested too deep
                    again = decode(encode(one)[:-1])  # half a character has become a whole one
                    same(decode(encode(again)[:-1]), again, "written and read")
                    same(type(again), type(one), "written and read")
        guess_from_ends(line[:200], line[-200:], "too long")


CLASSES = {cls.__name__: cls for cls, _ in FULL}


def objects(data: bytes) -> None:
    """Check that a class can write what it has read, and reads the same again."""
    found = read(data)
    cls = CLASSES.get(str(found[0])) if isinstance(found, list) and len(found) == 2 else None
    if cls is None:
        return
    try:
        made = cls.from_wire(found[1])
    except ValueError as error:
        short(error)
        return
    short(repr(made))
    wire = json.loads(json.dumps(made.to_wire()))
    same(cls.from_wire(wire).to_wire(), made.to_wire(), "written and read")
    if isinstance(made, types.SampleRequest):
        short(types.conversation_fault(made.messages))


# ------------------------------------------------------------ schemas and forms


def schemas(data: bytes) -> None:
    """A peer's schema is refused or checks any value, twice alike."""
    found = read(data)
    schema, *values = found if isinstance(found, list) and found else [found]
    if isinstance(schema, dict):
        try:
            header_params(schema)
        except ValueError as error:
            short(error)
    try:
        check = compile_peer_check(schema, where="outputSchema")
    except ValueError as error:
        short(error)
        return
    for value in (*values, values, schema):
        told = check(value)
        short(told)
        same(str(told), str(check(value)), "a second time")


def _shapes() -> List[bytes]:
    found = []
    for row in ROWS:
        schema, definitions = complete(row, leaving=False)
        values = [*(fit[0] for fit in row.fits), *(no[0] for no in row.refused)]
        found.append(say([{**schema, "$defs": definitions}, *values]))
    return found


PATTERNS = [
    r"^[a-z]+$", r"^-?[0-9]+(\.[0-9]+)?$", r"(?:a|b)?c{1,3}", r"^\w+@\w+$", r"a?a?a?aaa", r"^(a+)+$", r"(x|x)*y",
    r"[^\]]*\1",
]  # fmt: skip
FOREIGN = [
    {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 2}},
    {"contains": {"const": 1}, "minContains": 2},
    {"properties": {"a": {}}, "unevaluatedProperties": False, "dependentRequired": {"a": ["b"]}},
    {"$schema": DRAFT_7, "dependencies": {"a": ["b"]}, "definitions": {"a": {"$ref": "#"}}},
    {"$dynamicAnchor": "a", "items": {"$dynamicRef": "#a"}, "unevaluatedItems": False},
]  # fmt: skip
SCHEMAS = [
    *(say([schema, *fits, *(value for value, _ in refused)]) for schema, fits, refused in WORDS), *_shapes(),
    *(say([{"type": "string", "pattern": pattern}, "a" * 40, "aaa@b", "12.5"]) for pattern in PATTERNS),
    *(say([{**schema, "patternProperties": {PATTERNS[0]: True}}, [1, 1, 2], {"a": 1}, "x"]) for schema in FOREIGN),
    *(say([schema, [1, 1, 2], {"a": 1, "c": [[]]}, "x", 1]) for schema in FOREIGN),
    say([{"properties": {"r": {"type": "string", "x-mcp-header": "Region"}, "n": {"properties": {
        "x": {"type": "integer", "x-mcp-header": "X"}}}}}, {"r": "eu", "n": {"x": 2**60}}]),
]  # fmt: skip


def forms(data: bytes) -> None:
    """Check that a question is rejected or answered, and that an invalid answer has a reason. Also
    reads the form of a server."""
    found = read(data)
    params, returned = found if isinstance(found, list) and len(found) == 2 else (found, {})
    if not isinstance(params, dict):
        return
    handlers = {
        "elicit": lambda request: (short(request), request.host, request.looks_odd, returned)[-1]
    }
    host = Host(None, handlers)
    for revision in REVISIONS[-2:]:
        with suppress(McpError):
            answer = host.read("elicitation/create", params, Peer(revision), CancelToken())
            json.dumps(answer())
    with suppress(TypeError, ValueError):
        form = Form(params.get("requestedSchema", {}))
        json.dumps([form.to_wire(full=full) for full in (True, False)])
        with suppress(Mismatch):
            form.read(returned)


FIELDS: Dict[str, Any] = {
    "name": {"type": "string", "title": "Your name", "minLength": 1, "maxLength": 40, "pattern": "^[A-Z][a-z]+$"},
    "mail": {"type": "string", "format": "email", "default": "a@example.com"},
    "on": {"type": "string", "format": "date"}, "sure": {"type": "boolean", "default": False},
    "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 7},
    "one": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}, "half": {"type": "number", "default": 0.5},
    "two": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
    "many": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "default": ["a"]},
    "more": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}, "maxItems": 2},
    "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
}  # fmt: skip
FORMS = [
    *(say([{"message": "?", "requestedSchema": {"properties": {name: field}, "required": [name]}},
           {name: field.get("default", "Anna")}]) for name, field in FIELDS.items()),
    say([{"mode": "form", "message": "?", "requestedSchema": {"properties": FIELDS}}, {"name": "Bo"}]),
    say([{"mode": "url", "message": "?", "elicitationId": "e", "url": "https://bank.example:8443/a?b#c"}, {}]),
]  # fmt: skip


# ------------------------------------------------------------ URLs, templates, headers


BASE = "http://127.0.0.1:8000/sse"
WHERE = Fetcher(BASE)


def urls(data: bytes) -> None:
    """Check that the accepted URL, the connected address and the URL shown to a user agree."""
    text = data.decode("utf-8", "replace")
    session: Any = SimpleNamespace(_endpoint="", _url=BASE, _named=Flag())
    with suppress(errors.ProtocolViolation):
        SseSession._take_event(session, SseEvent(text, "endpoint"), None)
        try:
            pool, _ = WHERE._pool(session._endpoint)
        except Exception as error:
            raise Wrong(
                f"an endpoint that cannot be asked: {type(error).__name__}: {error}"
            ) from None
        finally:
            pools_of(WHERE).clear()
        same(
            (pool.scheme, pool.host, pool.port),
            ("http", "127.0.0.1", 8000),
            "messages go elsewhere",
        )
    host = Host(None, {"elicit": lambda request: request.host})
    with suppress(McpError):
        asked: List[Any] = []
        host.functions["elicit"] = asked.append
        asking = {"message": "?", "mode": "url", "url": text}
        host.read("elicitation/create", asking, Peer(REVISIONS[-1]), CancelToken())()
        shown = parse_url(text)
        for other in (shown.host, urlsplit(text).hostname):
            same(
                _address(asked[0].host),
                _address((other or "").strip("[]").lower()),
                "another host is shown",
            )
        same(shown.scheme in ("http", "https"), True, f"a URL of {shown.scheme}")


def _address(host: str) -> str:
    with suppress(ValueError):
        return str(ip_address(host))
    return host


URLS = [
    b"http://127.0.0.1:8000/messages?session=1", b"/messages", b"?session=1", b"//127.0.0.1:8000/m", b"messages",
    b"https://bank.example/login?next=%2F#top", b"https://user:word@bank.example:8443/", b"http://[::1]:80/a;b",
    b"http://evil.example\\@127.0.0.1:8000/", b"HTTP://EXAMPLE.com.:080/../a/./b", b"http://xn--bcher-kva.example/",
    "https://b\u00fccher.example/\u00fc".encode(), b"javascript:alert(1)", b"file:///etc/passwd", b"data:,x",
]  # fmt: skip


def templates(data: bytes) -> None:
    """Check that a template is rejected, or matches only URIs of its own."""
    found = read(data)
    if not (
        isinstance(found, list) and len(found) == 2 and all(isinstance(each, str) for each in found)
    ):
        return
    text, uri = found
    with suppress(ValueError):
        check_uri(uri)
    try:
        template = UriTemplate(text)
    except ValueError as error:
        short(error)
        return
    values = template.match(uri)
    if values is not None:
        same(
            has_parent_segment(uri) or any("\0" in value for value in values.values()),
            False,
            "a value that climbs",
        )
        same(sorted(set(values) - set(template.variables)), [], "unknown values")
    template.match(template.example)


TEMPLATES = [say([template, uri]) for template, uri, _ in MATCHES]


def heads(data: bytes) -> None:
    """Check that the requests do not depend on the pieces, and that a rejection is valid HTTP
    without text of the peer."""

    def outcome(chunks: List[bytes]) -> Any:
        parser, found = RequestParser(body_bytes=BODY_BYTES), []
        try:
            for chunk in chunks:
                awaited = parser.feed(chunk)
                while awaited == READY:
                    found.append(parser.take())
                    awaited = parser.feed(b"")
        except HttpError as error:
            short(error.message)
            same(
                400 <= error.status < 500 or error.status in (501, 505),
                True,
                f"the status {error.status}",
            )
            return found, "refused"
        return found, "open"

    found, state = outcome([data])
    same((found, state), outcome(pieces(data)), "in pieces")
    for head, _ in found:
        with suppress(HttpError):
            HostPolicy().check(head.headers)
        (
            accepts(head.headers, "application/json"),
            is_json(head.headers.get("content-type")),
        )
        for value in (each for name in head.headers for each in head.headers.all(name)):
            with suppress(ValueError):
                same(
                    from_header(header_value(from_header(value)) or ""),
                    from_header(value),
                    "a header's value",
                )


HEADS = [
    GET, *(body + GET for body, _ in BODIES),
    b"POST http://127.0.0.1:80/mcp?a=b HTTP/1.1\r\nHost: 127.0.0.1:80\r\nOrigin: http://localhost:80\r\n"
    b"Content-Length: 2\r\nContent-Type: application/json; charset=\"utf-8\"\r\nMcp-Name: =?base64?YQ==?=\r\n"
    b"Accept: text/*;q=0.5, application/json\r\nExpect: 100-continue\r\n\r\n{}" + GET,
    b"DELETE /mcp HTTP/1.0\r\nHost: [::1]:1\r\nConnection: keep-alive\r\nMcp-Session-Id: a-1\r\n\r\n" + GET,
]  # fmt: skip


def configs(data: bytes) -> None:
    """A config is refused, or each of its servers is refused or named, in words."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(data)
        file.flush()
        try:
            servers = read_servers(file.name)
        except ValueError as error:
            short(error)
            return
    for name in servers.names:
        try:
            servers.target(name)
        except ValueError as error:
            short(error)


ENTRIES: Dict[str, Any] = {
    "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${HOME}"}},
    "own": {"command": "python", "args": ["-m", "${env:PATH}", "${NO_SUCH_NAME:-a b}"], "env": {"A": "b"}, "cwd": "x"},
    "off": {"command": "python", "disabled": True, "type": "stdio"},
}  # fmt: skip
CONFIGS = [
    say({"mcpServers": ENTRIES}), *(say({"servers": {name: entry}}) for name, entry in ENTRIES.items()),
    b'\xef\xbb\xbf{"servers": { /* none */\n "a": {"command": "x", "args": ["//", "/*",],}, // last\n},}\n',
]  # fmt: skip

KINDS: Dict[str, Inside] = {
    "events": Inside(EVENTS, events),
    "messages": Inside([line for each in CORPORA.values() for line in each], messages),
    "objects": Inside([say([cls.__name__, wire]) for cls, wire in FULL], objects), "schemas": Inside(SCHEMAS, schemas),
    "forms": Inside(FORMS, forms), "urls": Inside(URLS, urls), "templates": Inside(TEMPLATES, templates),
    "heads": Inside(HEADS, heads), "configs": Inside(CONFIGS, configs),
}  # fmt: skip
