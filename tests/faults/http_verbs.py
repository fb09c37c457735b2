"""C51 and C52: methods, older peers, and connections that go on."""

from __future__ import annotations

from typing import Dict, Tuple

from .http_bodies import ping_of
from .http_raw import Response, Session, Site, Visitor, last, text_of
from .raw import shown
from .trial import Missing, Trial, on_site

VERBS: Tuple[str, ...] = ("HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "BREW", "post", "PROPFIND")
UNKNOWN = ("BREW", "post", "PROPFIND")


@on_site("C51")
def verbs(t: Trial, site: Site) -> None:
    session = site.session()
    for verb in VERBS:
        target = f"127.0.0.1:{site.port}" if verb == "CONNECT" else site.path
        for body in (b"", b'{"secret": "word"}'):
            data = site.wire(verb, body, path=target, content_type="application/json", x_secret="word")
            with site.visitor() as visitor:
                response = visitor.send(data).answer(verb)
                verdict(t, verb, response)
                t.expect(b"word" not in response.body, f"{verb} shows the request")
                goes_on(t, session, visitor, response.headers, verb)
    for verb in ("GET", "DELETE"):
        status = site.exchange(site.wire(verb, accept="text/event-stream"), verb).status
        t.expect(400 <= status < 500, f"{verb} without a session: status {status}")


def verdict(t: Trial, verb: str, response: Response) -> None:
    """Whether a method was refused as it should be: CONNECT asks for another place, which is not there."""
    status = response.status
    known = (400, 404, 405, 501) if verb == "CONNECT" else (405, 501) if verb in UNKNOWN else (405,)
    if status not in known:
        (t.warn if 400 <= status < 500 or status == 501 else t.fail)(f"{verb}: status {status}")
    elif status == 405 and "POST" not in response.headers.get("allow", ""):
        t.warn(f"{verb}: 405 without Allow")


def goes_on(t: Trial, session: Session, visitor: Visitor, headers: Dict[str, str], what: str) -> None:
    """The connection serves the next request, or has closed with nothing more to say."""
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
            t.expect("result" in last(response), f"HTTP/1.0 with keep-alive: {shown(response.body)}")
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
    """Expect, with what is known and what is not."""
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


def refusals(session: Session) -> Tuple[Tuple[str, bytes], ...]:
    """Requests that are refused, each with its body."""
    site: Site = session.site
    big = b"x" * (site.terms.body_bytes + 1)
    return (
        ("400", session.post(b"{")),
        ("403", session.request(ping_of(session), origin="http://evil.example")),
        ("404", site.wire("POST", b"{}", path="/nothing-is-here")),
        ("404 of a session", session.post(b"{}", mcp_session_id="unknown")),
        ("405", site.wire("PUT", b"xyz")),
        ("406", session.request(ping_of(session), accept="text/plain")),
        ("413", session.post(big)),
        ("415", session.request(ping_of(session), content_type="text/plain")),
    )


def after_refusals(t: Trial, session: Session) -> None:
    """A connection goes on after a refusal, or ends."""
    for what, data in refusals(session):
        with session.site.visitor() as visitor:
            whole = visitor.push(data) == len(data)
            try:
                response = visitor.answer()
            except AssertionError as error:
                # Closing with bytes unread may destroy the last words.
                t.expect(not whole and "closed without" in str(error), f"after {what}: {error}")
                continue
            t.expect(400 <= response.status < 500, f"{what}: status {response.status}")
            goes_on(t, session, visitor, response.headers, what)
