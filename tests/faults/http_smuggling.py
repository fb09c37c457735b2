"""C41: requests that two programs could read in two ways."""

from __future__ import annotations

import re
from typing import Callable, NamedTuple, Optional, Tuple

from .http_bodies import CHUNKED, chunked, headless, payload_of
from .http_raw import Session, Site
from .trial import Trial, on_site

MANY = 20  # after so many faults nothing that waits is tried any more

_ANSWER = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) ")


class Vector(NamedTuple):
    """A request that must not be served."""

    name: str  # in words
    make: Callable[[Session], bytes]  # its bytes, from a session
    grave: bool = True  # whether two programs could read it in two ways; else serving it is merely lax


def _length(*values: str) -> Callable[[Session], bytes]:
    """Content-Length with these values; N becomes the true one."""

    def make(session: Session) -> bytes:
        size = str(len(payload_of(session)))
        return headless(session, "\r\n".join("Content-Length: " + value.replace("N", size) for value in values))

    return make


def _lines(*lines: str, body: Optional[Callable[[bytes], bytes]] = None) -> Callable[[Session], bytes]:
    """These header lines, N as above, and the true body or what is made of it."""

    def make(session: Session) -> bytes:
        true = payload_of(session)
        framing = "\r\n".join(lines).replace("N", str(len(true)))
        return headless(session, framing, true if body is None else body(true))

    return make


def _chunks(body: Callable[[bytes], bytes]) -> Callable[[Session], bytes]:
    return _lines("Transfer-Encoding: chunked", body=body)


def _sized(pattern: bytes, end: bytes = b"\r\n") -> Callable[[Session], bytes]:
    """One chunk whose size is written so; H becomes the true one."""
    return _chunks(lambda true: pattern.replace(b"H", b"%x" % len(true)) + end + true + b"\r\n0\r\n\r\n")


def _whole(change: Callable[[bytes], bytes]) -> Callable[[Session], bytes]:
    return lambda session: change(_length("N")(session))


def _in_chunks(true: bytes) -> bytes:
    return chunked(true, 1000)


def _first_line(line: bytes) -> Callable[[Session], bytes]:
    """Another request line; PATH becomes the true path."""

    def make(session: Session) -> bytes:
        rest = _length("N")(session).partition(b"\r\n")[2]
        return line.replace(b"PATH", session.site.path.encode()) + b"\r\n" + rest

    return make


def _after_first(addition: bytes) -> Callable[[Session], bytes]:
    return _whole(lambda data: data.replace(b"\r\n", b"\r\n" + addition, 1))


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
    Vector("a length and chunks", _lines("Content-Length: N", CHUNKED, body=_in_chunks)),
    Vector("chunks and a length", _lines(CHUNKED, "Content-Length: 5", body=_in_chunks)),
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
    Vector("a coding that is none", _lines("Transfer-Encoding: xchunked", body=_in_chunks)),
    Vector("chunked, identity", _lines("Transfer-Encoding: chunked, identity", body=_in_chunks)),
    Vector("identity, chunked", _lines("Transfer-Encoding: identity, chunked", body=_in_chunks)),
    Vector("chunked twice", _lines(CHUNKED, CHUNKED, body=_in_chunks)),
    Vector("chunked, and identity in a second header", _lines(CHUNKED, "Transfer-Encoding: identity", body=_in_chunks)),
    Vector("an empty coding", _lines("Transfer-Encoding:", "Content-Length: N")),
    Vector("a vertical tab before the coding", _lines("Transfer-Encoding: \x0bchunked", body=_in_chunks)),
    Vector("a quoted coding", _lines('Transfer-Encoding: "chunked"', body=_in_chunks)),
    Vector("a coding with a parameter", _lines("Transfer-Encoding: chunked;q=1", body=_in_chunks)),
    Vector("a space before the colon of the coding", _lines("Transfer-Encoding : chunked", body=_in_chunks)),
    Vector("a space before the colon of the length", _lines("Content-Length : N")),
    Vector("a folded coding", _lines("Transfer-Encoding:", " chunked", body=_in_chunks)),
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
    Vector("a space before the first header", _after_first(b" X-A: b\r\n")),
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
    Vector("a length in the trailer", _chunks(lambda true: _in_chunks(true)[:-2] + b"Content-Length: 5\r\n\r\n"),
           grave=False),
    Vector("a trailer that is none", _chunks(lambda true: _in_chunks(true)[:-2] + b"x y\r\n\r\n"), grave=False),
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
    for right in (_length("N"), _chunks(_in_chunks)):
        with site.visitor() as visitor:
            visitor.send(right(session) + follower)
            statuses = [visitor.answer().status, visitor.answer("GET").status]
            t.expect(statuses[0] == 200 and 400 <= statuses[1] < 500, f"a right request: {statuses}")
    for vector in VECTORS:
        served += not refuses(t, site, vector, vector.make(session) + follower)
    t.note("vectors", len(VECTORS), "")
    t.note("served", served, "")


def refuses(t: Trial, site: Site, vector: Vector, data: bytes) -> bool:
    """Whether a vector, and another request behind it, get nothing but a refusal and the end of the connection."""
    worse = t.fail if vector.grave else t.warn
    with site.visitor(min(t.options.patience, 2 * t.options.slack)) as visitor:
        visitor.push(data)
        try:
            came = visitor.closes()
        except AssertionError:
            worse(f"{vector.name}: the connection is left open")
            assert len(t.said) < MANY, "and so on"
            return False
    statuses = list(map(int, _ANSWER.findall(came)))
    if any(status < 400 for status in statuses):
        worse(f"{vector.name}: served")
        return False
    if len(statuses) > 1:
        worse(f"{vector.name}: {len(statuses)} answers, {statuses}")
        return False
    t.expect(not statuses or statuses[0] in (501, 505) or statuses[0] < 500, f"{vector.name}: status {statuses[:1]}")
    return True
