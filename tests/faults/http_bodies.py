"""C39 and C40: what bodies say, and how long they are."""

from __future__ import annotations

import time
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

from ..wire.messages import MODERN, PARSE, REQUEST
from . import server_lines
from .http_raw import Response, Session, Site, Visitor, messages
from .raw import shown
from .trial import CASES, Missing, Trial, on_site

MB = 1 << 20

# ------------------------------------------------------------ C39: the lines of C01 to C10, as bodies

HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
"""What a server may say first of a request that stands alone: headers and the envelope come before the rest."""


class Posted:
    """Takes the place of a `raw.Server` in the cases of `server_lines`: each line is the body of a POST."""

    def __init__(self, trial: Trial, session: Session, tools: FrozenSet[str]) -> None:
        self.trial, self.session, self.tools = trial, session, tools
        self.revision = session.revision

    def replies(self, line: bytes, settle: Optional[float] = None) -> List[Any]:
        response = self.session.site.exchange(self.session.post(line, **self._mirrored(line)))
        found = messages(response)
        self._judge(line, response, found)
        return [one for one in found if not (isinstance(one, dict) and "method" in one)]

    def _mirrored(self, line: bytes) -> Dict[str, Optional[str]]:
        """The headers that repeat what a body says, as far as it can be read."""
        if self.revision != MODERN:
            return {}
        method, name = "server/discover", None
        if b'"tools/call"' in line:
            method, name = "tools/call", "add" if b'"add"' in line else "echo"
        return {"mcp_protocol_version": MODERN, "mcp_method": method, "mcp_name": name}

    def _judge(self, line: bytes, response: Response, found: List[Any]) -> None:
        status = response.status
        self.trial.expect(status < 500, f"status {status} for {shown(line)}")
        codes = [one["error"].get("code") for one in found if isinstance(one, dict) and "error" in one]
        if status != 400 and set(codes) & {PARSE, REQUEST}:
            self.trial.warn(f"status {status} with the code {codes[0]}")

    def ask(self, method: str, params: Any = None) -> Dict[str, Any]:
        return self.session.ask(method, params)

    def alive(self, bound: float) -> None:
        self.session.site.alive(bound)

    def result_of(self, found: List[Any], id: Any) -> Any:
        return next((one for one in found if isinstance(one, dict) and one.get("id") == id), None)


class BodyTrial(Trial):
    """A trial whose servers are `Posted`."""

    def __init__(self, trial: Trial, site: Site) -> None:
        subject = trial.subject._replace(revisions=trial.subject.http_revisions, tools=trial.subject.http_tools)
        super().__init__(trial.id, subject, trial.options)
        self._site = site

    def server(self, revision: Optional[str] = "2025-06-18", *needed: str, **others: Any) -> Any:
        if revision not in self.subject.revisions:
            raise Missing(f"does not speak {revision}")
        return Posted(self, self._site.session(str(revision)), self.subject.tools)

    def refused(self, server: Any, line: bytes, codes: Tuple[int, ...], id: Any = None, name: str = "") -> None:
        """As `Trial.refused`; a request that stands alone may be refused for its headers first."""
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


# ------------------------------------------------------------ C40: size

SIZE, CHUNKS = 50_000_000, 1_000_000


CHUNKED = "Transfer-Encoding: chunked"


def ping_of(session: Session) -> str:
    return "server/discover" if session.revision == MODERN else "ping"


def headless(session: Session, framing: str, body: bytes = b"") -> bytes:
    """A call of `echo`, or a ping, with another framing: these header lines take the place of Content-Length."""
    whole = session.call("echo", {"text": "smuggled"}) if "echo" in session.site.tools else session.request("ping")
    head, _, payload = whole.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")]
    return b"\r\n".join([*lines, framing.encode("latin-1"), b"", b""]) + (body or payload)


def payload_of(session: Session) -> bytes:
    return headless(session, "x: y").partition(b"\r\n\r\n")[2]


def chunked(body: bytes, size: int) -> bytes:
    """A body in chunks of this size."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def too_long(t: Trial, site: Site, what: str, data: bytes, statuses: Tuple[int, ...] = (413,)) -> int:
    """Send what must be refused while it is on its way; how much of it the server took."""
    with site.visitor() as visitor:
        taken = visitor.push(data)
        try:
            status = visitor.answer().status
        except AssertionError as error:
            # A server that closes with bytes unread may destroy its own last words: then there is nothing to read.
            t.expect(taken < len(data), f"{what}: {error}")
            return taken
        t.expect(400 <= status < 500, f"{what}: status {status}")
        if status not in statuses:
            t.warn(f"{what}: status {status}")
    return taken


@on_site("C40", body=1.5)
def sizes(t: Trial, site: Site) -> None:
    session = site.session()
    site.alive(t.options.slack)
    base = site.memory("VmHWM")
    with site.visitor() as visitor:
        begun = time.monotonic()
        status = visitor.send(headless(session, f"Content-Length: {SIZE}").partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        found = status.answer().status
        t.expect(found == 413, f"50 MB announced: status {found}")
        t.below("413 of an announced body", time.monotonic() - begun, 1)
    too_long(t, site, "50 MB at once", headless(session, f"Content-Length: {SIZE}", b"z" * SIZE))
    too_long(t, site, "50 MB in chunks", headless(session, CHUNKED, chunked(b"z" * SIZE, 65536)))
    small = headless(session, CHUNKED, b"1\r\nz\r\n" * CHUNKS)
    too_long(t, site, "a million chunks of 1 byte", small, (413, 400, 408))
    t.below("growth", max(0.0, site.memory("VmHWM") - base), 2 * site.terms.body_bytes / MB, "MB")
    if "echo" in site.tools:
        large = "y" * (site.terms.body_bytes * 3 // 4)
        t.expect(session.text("echo", {"text": large}) == large, "3/4 of the longest body did not come back")
    short_bodies(t, site, session)


def short_bodies(t: Trial, site: Site, session: Session) -> None:
    """Bodies that end before their length, or never."""
    cut = headless(session, "Content-Length: 4000")
    for what, leave in (("ended", Visitor.finish_quietly), ("reset", Visitor.reset)):
        with site.visitor() as visitor:
            visitor.send(cut)
            leave(visitor)
            if what == "ended":
                came = visitor.closes()
                t.expect(not came or b" 400 " in came.split(b"\r\n")[0], f"a body that {what} early: {shown(came)}")
    with site.visitor(site.terms.body + t.options.patience) as visitor:
        begun = time.monotonic()
        status = visitor.send(cut).answer().status
        t.below("408 beyond its deadline", time.monotonic() - begun - site.terms.body, 2)
        t.expect(status == 408, f"a body that does not come: status {status}")
        visitor.closes()
