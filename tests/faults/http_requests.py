"""C39 to C44, C51 and C52: single requests, their bodies, heads, framing, methods and connections."""

from __future__ import annotations

import gzip
import re
import time
from functools import partial
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..wire.messages import MODERN, PARSE, REQUEST
from . import server_lines
from .http_raw import Response, Session, Site, Visitor, last, messages, text_of
from .raw import shown
from .trial import CASES, Missing, Trial, on_site

MB = 1 << 20

HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
"""Errors that a server may report first for a stateless request, because it checks the headers and
the envelope before the rest."""


class Posted:
    """Takes the place of a `raw.Server` in the cases of `server_lines`: each line is the body of a
    POST."""

    def __init__(self, trial: Trial, session: Session) -> None:
        self.trial, self.session, self.tools = trial, session, session.site.tools
        self.revision, self.ask, self.alive = session.revision, session.ask, session.site.alive

    def replies(self, line: bytes, settle: Optional[float] = None) -> List[Any]:
        mirrored: Dict[str, Optional[str]] = {}
        if (
            self.revision == MODERN
        ):  # the headers that repeat values of the body, as far as it can be read
            called = b'"tools/call"' in line
            name = ("add" if b'"add"' in line else "echo") if called else None
            method = "tools/call" if called else "server/discover"
            mirrored = {"mcp_protocol_version": MODERN, "mcp_method": method, "mcp_name": name}
        response = self.session.site.exchange(self.session.post(line, **mirrored))
        found = messages(response)
        self.trial.expect(response.status < 500, f"status {response.status} for {shown(line)}")
        codes = [
            one["error"].get("code") for one in found if isinstance(one, dict) and "error" in one
        ]
        if response.status not in (400, 413) and set(codes) & {
            PARSE,
            REQUEST,
        }:  # 413: of too many values
            self.trial.warn(f"status {response.status} with the code {codes[0]}")
        return [one for one in found if not (isinstance(one, dict) and "method" in one)]

    def result_of(self, found: List[Any], id: Any) -> Any:
        return next((one for one in found if isinstance(one, dict) and one.get("id") == id), None)


class BodyTrial(Trial):
    """A trial with `Posted` servers."""

    def __init__(self, trial: Trial, site: Site) -> None:
        subject = trial.subject._replace(
            revisions=trial.subject.http_revisions, tools=trial.subject.http_tools
        )
        super().__init__(trial.id, subject, trial.options)
        self._site = site

    def server(self, revision: Optional[str] = "2025-06-18", *needed: str, **others: Any) -> Any:
        if revision not in self.subject.revisions:
            raise Missing(f"does not speak {revision}")
        return Posted(self, self._site.session(str(revision)))

    def refused(
        self, server: Any, line: bytes, codes: Tuple[int, ...], id: Any = None, name: str = ""
    ) -> None:
        """Check a rejection like `Trial.refused`. A stateless request may be rejected for its
        headers first."""
        if server.revision == MODERN:
            codes = (*codes, HEADER_MISMATCH, UNSUPPORTED_VERSION)
        super().refused(server, line, codes, id, name)


@on_site("C39")
def bodies(t: Trial, site: Site) -> None:
    for number in range(1, 11):
        name = f"C{number:02}"
        trial = BodyTrial(t, site)
        try:
            CASES[name](trial)
        except Missing as missing:
            t.note(f"{name} not tried: {missing}", 0, "")
        for text in trial.said:
            t._worse(trial.verdict, f"{name}: {text}")
    for empty in (b"", b" ", b"\r\n"):
        status = site.exchange(site.session().post(empty)).status
        t.expect(status == 400, f"status {status} for {empty!r}")


assert server_lines  # its cases are run above


SIZE, CHUNKS = 50_000_000, 1_000_000
CHUNKED = "Transfer-Encoding: chunked"


def ping_of(session: Session) -> str:
    return "server/discover" if session.revision == MODERN else "ping"


def headless(session: Session, framing: str, body: bytes = b"") -> bytes:
    """A call of `echo`, or a ping, with another framing: these header lines take the place of
    Content-Length."""
    whole = (
        session.call("echo", {"text": "smuggled"})
        if "echo" in session.site.tools
        else session.request("ping")
    )
    head, _, payload = whole.partition(b"\r\n\r\n")
    lines = [
        line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")
    ]
    return b"\r\n".join([*lines, framing.encode("latin-1"), b"", b""]) + (body or payload)


def payload_of(session: Session) -> bytes:
    return headless(session, "x: y").partition(b"\r\n\r\n")[2]


def chunked(body: bytes, size: int = 1000) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def too_long(
    t: Trial, site: Site, what: str, data: bytes, statuses: Tuple[int, ...] = (413,)
) -> None:
    """Send what must be refused while it is on its way."""
    with site.visitor() as visitor:
        taken = visitor.push(data)
        try:
            status = visitor.answer().status
        except AssertionError as error:
            # A server that closes with bytes unread may destroy its own last words: then there is
            # nothing to read.
            t.expect(taken < len(data), f"{what}: {error}")
            return
    t.expect(400 <= status < 500, f"{what}: status {status}")
    if status not in statuses:
        t.warn(f"{what}: status {status}")


@on_site("C40", body=1.5)
def sizes(t: Trial, site: Site) -> None:
    session = site.session()
    site.alive(t.options.slack)
    base = site.memory("VmHWM")
    with site.visitor() as visitor:
        begun = time.monotonic()
        announced = headless(session, f"Content-Length: {SIZE}").partition(b"\r\n\r\n")[0]
        found = visitor.send(announced + b"\r\n\r\n").answer().status
        t.expect(found == 413, f"50 MB announced: status {found}")
        t.below("413 of an announced body", time.monotonic() - begun, 1)
    too_long(t, site, "50 MB at once", headless(session, f"Content-Length: {SIZE}", b"z" * SIZE))
    too_long(t, site, "50 MB in chunks", headless(session, CHUNKED, chunked(b"z" * SIZE, 65536)))
    small = headless(session, CHUNKED, b"1\r\nz\r\n" * CHUNKS)
    too_long(t, site, "a million chunks of 1 byte", small, (413, 400, 408))
    t.below("growth", max(0.0, site.memory("VmHWM") - base), 2 * site.terms.body_bytes / MB, "MB")
    if "echo" in site.tools:
        large = "y" * (site.terms.body_bytes * 3 // 4)
        t.expect(
            session.text("echo", {"text": large}) == large,
            "3/4 of the longest body did not come back",
        )
    cut = headless(session, "Content-Length: 4000")  # bodies that end before their length, or never
    for what, leave in (("ended", Visitor.finish_quietly), ("reset", Visitor.reset)):
        with site.visitor() as visitor:
            visitor.send(cut)
            leave(visitor)
            if what == "ended":
                came = visitor.closes()
                t.expect(
                    not came or b" 400 " in came.split(b"\r\n")[0],
                    f"a body that {what} early: {shown(came)}",
                )
    with site.visitor(site.terms.body + t.options.patience) as visitor:
        begun = time.monotonic()
        status = visitor.send(cut).answer().status
        t.below("408 beyond its deadline", time.monotonic() - begun - site.terms.body, 2)
        t.expect(status == 408, f"a body that does not come: status {status}")
        visitor.closes()


FOREIGN: Tuple[Tuple[str, str], ...] = (
    ("host", "evil.example"), ("host", "localhost:80:evil.example"), ("host", "localhost.evil.example"),
    ("host", "127.0.0.1.evil.example"), ("host", "localhost@evil.example"), ("host", "127.1"), ("host", "0.0.0.0"),
    ("origin", "http://evil.example"), ("origin", "http://127.0.0.1:1@evil.example"),
    ("origin", "http://localhost.evil.example"), ("origin", "http://localhost:80:evil.example"), ("origin", "null"),
    ("origin", "https://localhost:x"), ("origin", "file://"),
)  # fmt: skip
MANY = 4  # after this many hangs, a case skips the rest


@on_site("C42")
def foreign_names(t: Trial, site: Site) -> None:
    tried = 0
    for name, value in FOREIGN:
        for path in (site.path, "/sse", "/messages", "/"):
            for method in ("POST", "GET", "DELETE", "OPTIONS", "PUT"):
                tried += 1
                data = site.wire(method, path=path, **{"content_length": "1000", name: value})
                with site.visitor(min(t.options.patience, 2 * t.options.slack)) as visitor:
                    try:
                        status = visitor.send(data).answer(method).status
                    except AssertionError as error:
                        t.fail(f"{method} {path} with {name} {value}: {error}")
                        assert len(t.said) < MANY, "and so on"
                        continue
                what = f"{method} {path} with {name} {value}: status {status}"
                if status not in ((400, 421) if name == "host" else (403,)):
                    (t.warn if status in (400, 403, 404, 405, 421) else t.fail)(what)
    t.note("tried", tried, "")
    session = site.session()
    for name, value in (("host", "localhost"), ("origin", "http://localhost")):
        for port in ("", f":{site.port}"):
            status = site.exchange(session.request(ping_of(session), **{name: value + port})).status
            t.expect(status == 200, f"{name} {value}{port} was refused with {status}")


TYPES: Tuple[Optional[str], ...] = (
    "text/plain", "application/jsonevil", "application/json-patch+json", "application/json; charset=utf-16",
    "application/json; charset=latin-1", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded",
    "text/plain; application/json", "application", "", None,
)  # fmt: skip


@on_site("C43")
def media_types(t: Trial, site: Site) -> None:
    for session in t.sessions(site):
        method = ping_of(session)
        for kind in TYPES:
            unsupported(
                t, site.exchange(session.request(method, content_type=kind)), f"Content-Type {kind}"
            )
        head, end, body = session.request(method).partition(b"\r\n\r\n")
        zipped = gzip.compress(body)
        for coding in (b"gzip", b"br", b"identity, gzip"):
            instead = rb"\g<1>%d\r\nContent-Encoding: %b" % (len(zipped), coding)
            coded = re.sub(rb"(?i)(content-length: )\d+", instead, head)
            unsupported(t, site.exchange(coded + end + zipped), f"Content-Encoding {coding!r}")
        for kind in (
            "application/json; charset=utf-8",
            "Application/JSON",
            'application/json;charset="UTF-8"',
        ):
            status = site.exchange(session.request(method, content_type=kind)).status
            t.expect(status == 200, f"Content-Type {kind} was refused with {status}")


def unsupported(t: Trial, response: Response, what: str) -> None:
    t.expect(400 <= response.status < 500, f"{what}: status {response.status}")
    if response.status != 415 and 400 <= response.status < 500:
        t.warn(f"{what}: status {response.status}")


@on_site("C44")
def long_heads(t: Trial, site: Site) -> None:
    session = site.session()
    site.alive(t.options.slack)
    base = site.memory("VmHWM")
    plain = session.request(ping_of(session))
    wrong = {
        "a header of 64 KB": (
            plain.replace(b"\r\n", b"\r\nX-A: " + b"a" * 65536 + b"\r\n", 1),
            431,
        ),
        "a header of 1 MB": (plain.replace(b"\r\n", b"\r\nX-A: " + b"a" * MB + b"\r\n", 1), 431),
        "a header of 1 MB that does not end": (
            plain.partition(b"\r\n")[0] + b"\r\nX-A: " + b"a" * MB,
            431,
        ),
        "1,000 headers": (
            plain.replace(b"\r\n", b"\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(1000)), 1),
            431,
        ),
        "a URL of 1 MB": (plain.replace(b" HTTP", b"?" + b"a" * MB + b" HTTP", 1), 414),
        "a URL of 64 KB": (plain.replace(b" HTTP", b"?" + b"a" * 65536 + b" HTTP", 1), 414),
        "a method of 64 KB": (b"X" * 65536, 414),
    }
    for what, (data, status) in wrong.items():
        with site.visitor() as visitor:
            taken = visitor.push(data)
            came = visitor.closes()
        found = int(came[9:12]) if came.startswith(b"HTTP/1.") else None
        if found is None:
            # Closing with bytes unread may destroy the last words.
            t.expect(came == b"", f"{what}: {shown(came)}")
        elif found != status:
            t.expect(400 <= found < 500 or found == 501, f"{what}: status {found}")
            t.warn(f"{what}: status {found}, and {taken} bytes of {len(data)} taken")
        t.expect(came.count(b"HTTP/1.1 ") <= 1, f"{what}: {came.count(b'HTTP/1.1 ')} answers")
    t.below("growth", max(0.0, site.memory("VmHWM") - base), 8, "MB")


VERBS: Tuple[str, ...] = (
    "HEAD",
    "OPTIONS",
    "PUT",
    "PATCH",
    "TRACE",
    "CONNECT",
    "BREW",
    "post",
    "PROPFIND",
)
UNKNOWN = ("BREW", "post", "PROPFIND")


@on_site("C51")
def verbs(t: Trial, site: Site) -> None:
    session = site.session()
    for verb in VERBS:
        target = f"127.0.0.1:{site.port}" if verb == "CONNECT" else site.path
        for body in (b"", b'{"secret": "word"}'):
            data = site.wire(
                verb, body, path=target, content_type="application/json", x_secret="word"
            )
            with site.visitor() as visitor:
                response = visitor.send(data).answer(verb)
                status = response.status
                # CONNECT names another target, which does not exist
                known = (
                    (400, 404, 405, 501)
                    if verb == "CONNECT"
                    else (405, 501)
                    if verb in UNKNOWN
                    else (405,)
                )
                if status not in known:
                    (t.warn if 400 <= status < 500 or status == 501 else t.fail)(
                        f"{verb}: status {status}"
                    )
                elif status == 405 and "POST" not in response.headers.get("allow", ""):
                    t.warn(f"{verb}: 405 without Allow")
                t.expect(b"word" not in response.body, f"{verb} shows the request")
                goes_on(t, session, visitor, response.headers, verb)
    for verb in ("GET", "DELETE"):
        status = site.exchange(site.wire(verb, accept="text/event-stream"), verb).status
        t.expect(400 <= status < 500, f"{verb} without a session: status {status}")


def goes_on(
    t: Trial, session: Session, visitor: Visitor, headers: Dict[str, str], what: str
) -> None:
    """Check that the connection serves the next request, or has closed without further output."""
    data = session.request(ping_of(session), id="next")
    if headers.get("connection", "").lower() == "close" or visitor.push(data) < len(data):
        came = visitor.closes()
        t.expect(came == b"", f"after {what}: {shown(came)} and the end")
        return
    try:
        found = last(visitor.answer())
    except AssertionError as error:
        t.expect("closed without a response: " in str(error), f"after {what}: {error}")
        return
    t.expect(found.get("id") == "next" and "result" in found, f"after {what}: {shown(found)}")


@on_site("C52")
def connections(t: Trial, site: Site) -> None:
    for session in t.sessions(site):
        older_peers(t, session)
        pipelined(t, session)
        expecting(t, session)
        after_refusals(t, session)


def older_peers(t: Trial, session: Session) -> None:
    """HTTP/1.0, which closes unless both want more."""
    data = session.request(ping_of(session)).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    with session.site.visitor() as visitor:
        response = visitor.send(data).answer()
        t.expect("result" in last(response), f"HTTP/1.0: {shown(response.body)}")
        t.expect("transfer-encoding" not in response.headers, "HTTP/1.0 was answered in chunks")
        t.expect(visitor.closes() == b"", "HTTP/1.0: more than one answer")
    kept = data.replace(b"\r\n", b"\r\nConnection: keep-alive\r\n", 1)
    with session.site.visitor() as visitor:
        for _ in range(3):
            response = visitor.send(kept).answer()
            t.expect(
                "result" in last(response), f"HTTP/1.0 with keep-alive: {shown(response.body)}"
            )
            if response.headers.get("connection", "").lower() != "keep-alive":
                t.expect(visitor.closes() == b"", "HTTP/1.0: more than one answer")
                break


def pipelined(t: Trial, session: Session) -> None:
    """Ten requests in one piece, and then byte by byte."""
    if "echo" not in session.site.tools:
        raise Missing("no tool echo")
    requests = [session.call("echo", {"text": f"text {n}"}, id=n) for n in range(10)]
    for size in (1 << 20, 1):
        with session.site.visitor() as visitor:
            data = b"".join(requests if size > 1 else requests[:2])
            for at in range(0, len(data), size):
                visitor.send(data[at : at + size])
            found = [text_of(visitor.answer()) for _ in (requests if size > 1 else requests[:2])]
            t.expect(found == [f"text {n}" for n in range(len(found))], f"pipelined: {found}")


def expecting(t: Trial, session: Session) -> None:
    """Send the header Expect with supported and unsupported values."""
    data = session.request(ping_of(session))
    head, _, body = data.partition(b"\r\n\r\n")
    with session.site.visitor() as visitor:
        visitor.send(head + b"\r\nExpect: 100-continue\r\n\r\n")
        visitor.wait()
        first = visitor.until(b"\r\n\r\n")
        t.expect(first.startswith(b"HTTP/1.1 100 "), f"Expect: 100-continue: {shown(first)}")
        t.expect("result" in last(visitor.send(body).answer()), "the body after 100 Continue")
    with session.site.visitor() as visitor:
        visitor.send(head + b"\r\nExpect: 200-ok\r\n\r\n" + body)
        response = visitor.answer()
        t.expect(response.status in (417, 200), f"Expect: 200-ok: status {response.status}")
        goes_on(t, session, visitor, response.headers, "Expect: 200-ok")


def after_refusals(t: Trial, session: Session) -> None:
    """After a rejection, a connection stays usable or is closed."""
    site, ping = session.site, partial(session.request, ping_of(session))
    for what, data in (
        ("400", session.post(b"{")), ("403", ping(origin="http://evil.example")),
        ("404", site.wire("POST", b"{}", path="/nothing-is-here")),
        ("404 of a session", session.post(b"{}", mcp_session_id="unknown")), ("405", site.wire("PUT", b"xyz")),
        ("406", ping(accept="text/plain")), ("413", session.post(b"x" * (site.terms.body_bytes + 1))),
        ("415", ping(content_type="text/plain")),
    ):  # fmt: skip
        with site.visitor() as visitor:
            whole = visitor.push(data) == len(data)
            try:
                response = visitor.answer()
            except AssertionError as error:
                # Closing with bytes unread may destroy the last words.
                t.expect(not whole and "closed without" in str(error), f"after {what}: {error}")
                continue
            t.expect(400 <= response.status < 500, f"{what}: status {response.status}")
            goes_on(t, session, visitor, response.headers, what)


MANY_FAULTS = 20  # after this many faults, no slow case is tried


class Vector(NamedTuple):
    """A request that must not be served."""

    name: str  # in words
    make: Callable[[Session], bytes]  # its bytes, from a session
    grave: bool = (
        True  # whether two programs could read it differently; otherwise serving it is merely lax
    )


def _lines(*lines: str, body: Callable[[bytes], bytes] = bytes) -> Callable[[Session], bytes]:
    """Return these header lines, in which N becomes the true length, with the true body or a
    changed one."""

    def make(session: Session) -> bytes:
        true = payload_of(session)
        return headless(session, "\r\n".join(lines).replace("N", str(len(true))), body(true))

    return make


def _length(*values: str) -> Callable[[Session], bytes]:
    return _lines(*("Content-Length: " + value for value in values))


def _chunks(body: Callable[[bytes], bytes]) -> Callable[[Session], bytes]:
    return _lines("Transfer-Encoding: chunked", body=body)


def _sized(pattern: bytes, end: bytes = b"\r\n") -> Callable[[Session], bytes]:
    return _chunks(
        lambda true: pattern.replace(b"H", b"%x" % len(true)) + end + true + b"\r\n0\r\n\r\n"
    )


def _whole(change: Callable[[bytes], bytes]) -> Callable[[Session], bytes]:
    return lambda session: change(_length("N")(session))


def _first_line(line: bytes) -> Callable[[Session], bytes]:
    """Another request line; PATH becomes the true path."""
    return lambda session: (
        line.replace(b"PATH", session.site.path.encode())
        + b"\r\n"
        + (_length("N")(session).partition(b"\r\n")[2])
    )


def _host(*values: bytes) -> Callable[[Session], bytes]:
    """Other Host headers; TRUE becomes the right one."""

    def change(data: bytes) -> bytes:
        first, _, rest = data.partition(b"\r\n")
        found, _, rest = rest.partition(b"\r\n")
        assert found.lower().startswith(b"host: "), found
        hosts = [b"Host: " + value.replace(b"TRUE", found[6:]) for value in values]
        return b"\r\n".join([first, *hosts, rest])

    return _whole(change)


VECTORS: Tuple[Vector, ...] = (
    Vector("a length and chunks", _lines("Content-Length: N", CHUNKED, body=chunked)),
    Vector("chunks and a length", _lines(CHUNKED, "Content-Length: 5", body=chunked)),
    Vector("two lengths", _length("N", "5")),
    Vector("two lengths, the second right", _length("5", "N")),
    Vector("one length twice", _length("N", "N"), grave=False),
    Vector("a list of lengths", _length("N, N"), grave=False),
    Vector("+N", _length("+N")),
    Vector("-1", _length("-1")),
    Vector("0xN", _length("0xN")),
    Vector("N.0", _length("N.0")),
    Vector("N_0", _length("1_0")),
    Vector("two numbers", _length("N N")),
    Vector("an empty length", _length("")),
    Vector("digits that are not ASCII", _length("\xb2\xb3")),
    Vector("a length of 400 digits", _length("9" * 400)),
    Vector("a form feed before the length", _length("\x0cN")),
    Vector("a coding that is none", _lines("Transfer-Encoding: xchunked", body=chunked)),
    Vector("chunked, identity", _lines("Transfer-Encoding: chunked, identity", body=chunked)),
    Vector("identity, chunked", _lines("Transfer-Encoding: identity, chunked", body=chunked)),
    Vector("chunked twice", _lines(CHUNKED, CHUNKED, body=chunked)),
    Vector("chunked, and identity in a second header", _lines(CHUNKED, "Transfer-Encoding: identity", body=chunked)),
    Vector("an empty coding", _lines("Transfer-Encoding:", "Content-Length: N")),
    Vector("a vertical tab before the coding", _lines("Transfer-Encoding: \x0bchunked", body=chunked)),
    Vector("a quoted coding", _lines('Transfer-Encoding: "chunked"', body=chunked)),
    Vector("a coding with a parameter", _lines("Transfer-Encoding: chunked;q=1", body=chunked)),
    Vector("a space before the colon of the coding", _lines("Transfer-Encoding : chunked", body=chunked)),
    Vector("a space before the colon of the length", _lines("Content-Length : N")),
    Vector("a folded coding", _lines("Transfer-Encoding:", " chunked", body=chunked)),
    Vector("a folded header", _lines("X-Long: a", " b", "Content-Length: N"), grave=False),
    Vector("a line that ends in LF", _lines("X-A: b\nContent-Length: N"), grave=False),
    Vector("lines that all end in LF", _whole(lambda data: data.replace(b"\r\n", b"\n")), grave=False),
    Vector("a CR inside a header", _lines("X-A: b\rContent-Length: N")),
    Vector("NUL inside a header", _lines("X-A: b\0c", "Content-Length: N")),
    Vector("NUL in the length", _length("N\0")),
    Vector("an underscore for the dash", _lines("Content_Length: 5", "Content-Length: N"), grave=False),
    Vector("a header without a colon", _lines("X-A", "Content-Length: N")),
    Vector("a header without a name", _lines(": x", "Content-Length: N")),
    Vector("a name with a space", _lines("X A: b", "Content-Length: N")),
    Vector("a space before the first header", _whole(lambda data: data.replace(b"\r\n", b"\r\n X-A: b\r\n", 1))),
    Vector("chunks for HTTP/1.0", _whole(lambda data: data.replace(b"HTTP/1.1", b"HTTP/1.0", 1).replace(
        b"Content-Length: ", b"Transfer-Encoding: chunked\r\nX-Length: ", 1)), grave=False),
    Vector("a chunk of size +N", _sized(b"+H")),
    Vector("a chunk of size -N", _sized(b"-H")),
    Vector("a chunk of size 0xN", _sized(b"0xH")),
    Vector("a chunk of size N_0", _sized(b"0_H")),
    Vector("a space before the size of a chunk", _sized(b" H")),
    Vector("a size that is missing", _sized(b"")),
    Vector("a size of 40 digits", _sized(b"f" * 40)),
    Vector("a size with NUL", _sized(b"H\0")),
    Vector("a size that ends in LF", _sized(b"H", b"\n")),
    Vector("LF in the extension of a chunk", _sized(b"H;a\nb")),
    Vector("a chunk longer than its size", _chunks(lambda true: b"%x\r\n%sxx\r\n0\r\n\r\n" % (len(true), true))),
    Vector("a chunk that ends in LF", _chunks(lambda true: b"%x\r\n%s\n0\r\n\r\n" % (len(true), true))),
    Vector("a length in the trailer", _chunks(lambda true: chunked(true)[:-2] + b"Content-Length: 5\r\n\r\n"),
           grave=False),
    Vector("a trailer that is none", _chunks(lambda true: chunked(true)[:-2] + b"x y\r\n\r\n"), grave=False),
    Vector("no host", _host()),
    Vector("two hosts", _host(b"TRUE", b"evil.example")),
    Vector("a list of hosts", _host(b"TRUE, evil.example")),
    Vector("a host with a path", _host(b"TRUE/x")),
    Vector("a target on another host", _first_line(b"POST http://evil.example/mcp HTTP/1.1")),
    Vector("two spaces in the request line", _first_line(b"POST  PATH HTTP/1.1")),
    Vector("a tab in the request line", _first_line(b"POST\tPATH HTTP/1.1")),
    Vector("more behind the version", _first_line(b"POST PATH HTTP/1.1 x")),
    Vector("no version", _first_line(b"POST PATH")),
    Vector("a version in small letters", _first_line(b"POST PATH http/1.1")),
    Vector("another version", _first_line(b"POST PATH HTTP/1.10")),
    Vector("a control character in the target", _first_line(b"POST PATH\x01 HTTP/1.1")),
    Vector("a line feed before the request", _whole(lambda data: b"\n" + data), grave=False),
    Vector("a BOM before the request", _whole(lambda data: b"\xef\xbb\xbf" + data)),
)  # fmt: skip


@on_site("C41")
def smuggled(t: Trial, site: Site) -> None:
    session = site.session()
    served = 0
    follower = site.wire("GET", path="/nothing-is-here")
    for right in (_length("N"), _chunks(chunked)):
        with site.visitor() as visitor:
            visitor.send(right(session) + follower)
            statuses = [visitor.answer().status, visitor.answer("GET").status]
            t.expect(
                statuses[0] == 200 and 400 <= statuses[1] < 500, f"a right request: {statuses}"
            )
    for vector in VECTORS:
        served += not refuses(t, site, vector, vector.make(session) + follower)
    t.note("vectors", len(VECTORS), "")
    t.note("served", served, "")


def refuses(t: Trial, site: Site, vector: Vector, data: bytes) -> bool:
    """Whether a vector, and another request behind it, get nothing but a refusal and the end of the
    connection."""
    worse = t.fail if vector.grave else t.warn
    with site.visitor(min(t.options.patience, 2 * t.options.slack)) as visitor:
        visitor.push(data)
        try:
            came = visitor.closes()
        except AssertionError:
            worse(f"{vector.name}: the connection is left open")
            assert len(t.said) < MANY_FAULTS, "and so on"
            return False
    statuses = [int(found) for found in re.findall(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) ", came)]
    if any(status < 400 for status in statuses):
        worse(f"{vector.name}: served")
    elif len(statuses) > 1:
        worse(f"{vector.name}: {len(statuses)} answers, {statuses}")
    else:
        t.expect(
            not statuses or statuses[0] in (501, 505) or statuses[0] < 500,
            f"{vector.name}: status {statuses}",
        )
        return True
    return False
