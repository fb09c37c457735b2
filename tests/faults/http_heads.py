"""C42 to C44: hosts, origins, media types, and heads that are too long."""

from __future__ import annotations

import gzip
import json
from typing import Dict, Optional, Tuple

from ..wire.messages import MODERN, modern, request
from .http_bodies import MB, ping_of
from .http_raw import Response, Site
from .raw import shown
from .trial import Trial, on_site

FOREIGN: Tuple[Tuple[str, str], ...] = (
    ("host", "evil.example"), ("host", "localhost:80:evil.example"), ("host", "localhost.evil.example"),
    ("host", "127.0.0.1.evil.example"), ("host", "localhost@evil.example"), ("host", "127.1"), ("host", "0.0.0.0"),
    ("origin", "http://evil.example"), ("origin", "http://127.0.0.1:1@evil.example"),
    ("origin", "http://localhost.evil.example"), ("origin", "http://localhost:80:evil.example"), ("origin", "null"),
    ("origin", "https://localhost:x"), ("origin", "file://"),
)  # fmt: skip


MANY = 4  # after so many hangs a case does not try the rest


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
            unsupported(t, site.exchange(session.request(method, content_type=kind)), f"Content-Type {kind}")
        params = modern() if session.revision == MODERN else None
        body = json.dumps(request("z", method, params)).encode()
        mirrored: Dict[str, Optional[str]] = {}
        if session.revision == MODERN:
            mirrored = {"mcp_protocol_version": MODERN, "mcp_method": method}
        for coding in ("gzip", "br", "identity, gzip"):
            found = site.exchange(session.post(gzip.compress(body), content_encoding=coding, **mirrored))
            unsupported(t, found, f"Content-Encoding {coding}")
        for kind in ("application/json; charset=utf-8", "Application/JSON", 'application/json;charset="UTF-8"'):
            status = site.exchange(session.request(method, content_type=kind)).status
            t.expect(status == 200, f"Content-Type {kind} was refused with {status}")


def unsupported(t: Trial, response: Response, what: str) -> None:
    """It is refused, and rightly with status 415."""
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
        "a header of 64 KB": (plain.replace(b"\r\n", b"\r\nX-A: " + b"a" * 65536 + b"\r\n", 1), 431),
        "a header of 1 MB": (plain.replace(b"\r\n", b"\r\nX-A: " + b"a" * MB + b"\r\n", 1), 431),
        "a header of 1 MB that does not end": (plain.partition(b"\r\n")[0] + b"\r\nX-A: " + b"a" * MB, 431),
        "1,000 headers": (plain.replace(b"\r\n", b"\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(1000)), 1), 431),
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
