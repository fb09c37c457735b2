"""Who sends what comes by HTTP, and where it goes: the table of eras, sessions and mirrored headers.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional, Union

from ..engine.exchange import Route
from ..errors import HeaderMismatch, InternalError, InvalidRequest, RpcError, UnsupportedRevision, one_line
from ..protocol.eras import VERSION_KEY, Peer, PerRequestEra
from ..protocol.messages import Failure, Notification, Request, Response
from ..protocol.session import ServerSession
from ..protocol.versions import BY_NAME, WITHOUT_HEADER, Revision
from ..schema.mirrored import from_header, plain_text
from ..server.registry import Registry
from .headers import METHOD_HEADER, NAME_HEADER, PARAM_PREFIX, SESSION_HEADER, VERSION_HEADER, Headers
from .http_server_reply import STATUS
from .http_server_settings import Refusal
from .sessions import MakeRole, Session, Sessions

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods to the member of their params that the header Mcp-Name mirrors."""

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,256}")


class Sender(NamedTuple):
    """Who a message comes from: the session, None where there is none, the revision, and who was authenticated."""

    session: Optional[Session]
    revision: Revision
    principal: Optional[str]


class Admitted(NamedTuple):
    """What was found out about a message: who sends it, and if it is a request where it goes; what to answer with."""

    sender: Sender
    peer: Optional[Peer] = None
    route: Optional[Route] = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def session(self) -> Optional[Session]:
        """The session; None where there is none."""
        return self.sender.session


Sent = Union[Request, Notification, Response, Failure]


class Gate:
    """Decides what a message is before anything is done about it. Thread-safe.

    Args:
        registry: What the server can do.
        make_role: Of new sessions.
        sessions: Where they are kept; None keeps none, and each message stands for itself.
    """

    def __init__(self, registry: Registry, make_role: MakeRole, sessions: Optional[Sessions]) -> None:
        self._registry, self._offer = registry, registry.offer
        self._make_role, self._sessions = make_role, sessions
        self._alone = ServerSession(registry.offer)

    def admit(self, message: Sent, headers: Headers, principal: Optional[str]) -> Admitted:
        """Who sends a message, and where it goes.

        Raises:
            Refusal: It is answered with an error, or not at all.
        """
        id = message.id if isinstance(message, Request) else None
        try:
            version = _said(headers, VERSION_HEADER)
            revision = BY_NAME.get(version or "")
            if isinstance(message, Request) and PerRequestEra.is_enveloped(message):
                return self._stands_alone(message, headers, version, principal)
            if version is not None and (revision is None or not revision.handshake):
                return self._lacks_envelope(message, version, revision, principal)
            if not self._offer.has_handshake:
                raise self._no_handshake(message, version)
        except RpcError as error:
            raise Refusal.of(error, STATUS.get(error.code, 200) if id is not None else 400, id) from None
        opening = isinstance(message, Request) and message.method == "initialize"
        try:
            return self.within(message, self._sender(headers, principal, revision, opening=opening))
        except RpcError as error:
            raise Refusal.of(error, 200 if id is not None else 400, id) from None
        except Refusal as refusal:
            refusal.failure = Failure(id, *refusal.failure[1:])
            raise

    # ------------------------------------------------------------ requests that stand alone

    def _stands_alone(
        self, request: Request, headers: Headers, version: Optional[str], principal: Optional[str]
    ) -> Admitted:
        unsupported = None
        try:
            peer = self._alone.admit_alone(request)
        except UnsupportedRevision as error:
            unsupported = error
        _check_version(version, request.params["_meta"][VERSION_KEY])
        if _mirror(headers, METHOD_HEADER) != request.method:
            raise HeaderMismatch(f"the header {METHOD_HEADER} is the method of the body, {one_line(request.method)}")
        named = request.params.get(NAMED_BY.get(request.method, ""))
        if isinstance(named, str) and _mirror(headers, NAME_HEADER) != named:
            raise HeaderMismatch(f"the header {NAME_HEADER} is what the body names, {one_line(named)}")
        if unsupported is not None:
            raise unsupported
        peer.principal = principal
        route = self._registry.route(request, peer)
        if request.method == "tools/call":
            self._check_mirrored(request, headers)
        return Admitted(Sender(None, peer.revision, principal), peer, route)

    def _check_mirrored(self, request: Request, headers: Headers) -> None:
        arguments = request.params.get("arguments")
        for each in self._registry.tools.get(str(request.params["name"])).mirrored:
            name, value = PARAM_PREFIX + each.name, each.value(arguments)
            if value is None and name in headers:
                raise HeaderMismatch(f"the header {name} is there, and its argument is not")
            if plain_text(value) is not None and not each.agrees(_mirror(headers, name), value):
                raise HeaderMismatch(f"the header {name} is not what the argument {'.'.join(each.path)} is")

    def _lacks_envelope(
        self, message: Sent, version: str, revision: Optional[Revision], principal: Optional[str]
    ) -> Admitted:
        """The header names a revision without a handshake, or none that there is."""
        if revision is None or revision not in self._offer.revisions:
            supported = {"supported": self._offer.names, "requested": version}
            raise UnsupportedRevision(f"this server does not speak {one_line(version, 40)}", supported)
        if isinstance(message, Request):
            self._alone.admit_alone(message)  # it says what is missing
        if not isinstance(message, Notification):
            raise InvalidRequest("nothing was asked that this could be the answer to")
        return Admitted(Sender(None, revision, principal))

    def _no_handshake(self, message: Sent, version: Optional[str]) -> RpcError:
        if version is None and not (isinstance(message, Request) and message.method == "initialize"):
            return HeaderMismatch(f"the header {VERSION_HEADER} is missing")
        names = self._offer.names
        return UnsupportedRevision(
            f"this server speaks {', '.join(names)}, without initialize", {"supported": names, "requested": version}
        )

    # ------------------------------------------------------------ sessions

    def is_alone(self, headers: Headers) -> bool:
        """Whether a request without a body comes from a client that knows no sessions."""
        revision = BY_NAME.get(headers.get(VERSION_HEADER, ""))
        return not self._offer.has_handshake or (revision is not None and not revision.handshake)

    def session(self, headers: Headers, principal: Optional[str]) -> Session:
        """The session that a request names.

        Raises:
            Refusal: It names none that there is, or its revision is none that is served.
        """
        id = self._session_id(headers)
        session = None if self._sessions is None else self._sessions.find(id, principal)
        if session is None:
            raise Refusal(404, "there is no such session, or not any more: initialize opens a new one")
        return session

    def _session_id(self, headers: Headers) -> str:
        version, ids = headers.get(VERSION_HEADER), headers.all(SESSION_HEADER)
        if version is not None and version not in self._offer.names:
            names = ", ".join(self._offer.names)
            raise Refusal(400, f"this server does not speak {one_line(version, 40)}, but {names}")
        if not ids:
            raise Refusal(400, f"the header {SESSION_HEADER} is missing: initialize opens a session")
        if len(ids) > 1 or not _SESSION_ID.fullmatch(ids[0]):
            raise Refusal(400, f"the header {SESSION_HEADER} is no id of a session")
        return ids[0]

    def sender_of_array(self, headers: Headers, principal: Optional[str]) -> Sender:
        """Who sends an array of messages.

        Raises:
            Refusal: Arrays are not taken from there, or there is no such session.
        """
        revision = BY_NAME.get(headers.get(VERSION_HEADER, ""))
        if self.is_alone(headers):
            raise Refusal(400, "a message is one object, not an array")
        return self._sender(headers, principal, revision, opening=False)

    def _sender(
        self, headers: Headers, principal: Optional[str], revision: Optional[Revision], *, opening: bool
    ) -> Sender:
        """Who sends a message that does not stand alone.

        Args:
            headers: That it came with.
            principal: Who was authenticated.
            revision: What the headers say.
            opening: Whether it may open a session.

        Raises:
            Refusal: There is no such session.
        """
        opens = opening and SESSION_HEADER not in headers
        if self._sessions is not None and not opens:
            session = self.session(headers, principal)
            return Sender(session, session.revision, principal)
        assumed = WITHOUT_HEADER if WITHOUT_HEADER in self._offer.revisions else self._newest()
        if self._sessions is None:
            if revision is not None and not opening and revision not in self._offer.revisions:
                raise Refusal(400, f"this server does not speak {revision.name}")
            return Sender(None, revision or assumed, principal)
        return Sender(Session(self._make_role, self._end, principal), revision or assumed, principal)

    def _newest(self) -> Revision:
        return [revision for revision in self._offer.revisions if revision.handshake][-1]

    def _end(self, session: Session) -> None:
        """It ends with its last response."""
        session.shut = True
        if self._sessions is not None and not session.replies:
            self._sessions.end(session, "it was shut down")

    def within(self, message: Sent, sender: Sender) -> Admitted:
        """What a message means in a session, or without any.

        Raises:
            RpcError: It is refused.
            Refusal: There are too many sessions.
        """
        session = sender.session
        if not isinstance(message, Request):
            if session is None and not isinstance(message, Notification):
                raise InvalidRequest("nothing was asked that this could be the answer to: no sessions are kept here")
            return Admitted(sender)
        if session is None:
            return self._without_session(message, sender)
        admitted = session.role.admit(message)
        assert admitted is not None
        if session.peer is None:
            return self._opened(session, message, admitted, sender.principal)
        return Admitted(sender, *admitted)

    def _opened(
        self, session: Session, request: Request, admitted: tuple[Peer, Route], principal: Optional[str]
    ) -> Admitted:
        assert self._sessions is not None
        session.peer = peer = admitted[0]
        session.revision = peer.revision
        peer.principal = principal
        try:
            self._sessions.add(session)
        except InternalError as error:
            session.end("there are too many")
            raise Refusal.of(error, 503, request.id) from None
        headers = ((SESSION_HEADER, session.id),)
        return Admitted(Sender(session, peer.revision, principal), *admitted, headers)

    def _without_session(self, request: Request, sender: Sender) -> Admitted:
        if request.method == "initialize":
            peer = ServerSession(self._offer).admit(request)
        else:
            peer = Peer(sender.revision)
        peer.session, peer.principal = None, sender.principal
        return Admitted(sender._replace(revision=peer.revision), peer, self._registry.route(request, peer))


def _said(headers: Headers, name: str) -> Optional[str]:
    """The one value of a header; None where it is missing."""
    if name not in headers.cache:
        values = headers.all(name)
        if len(values) > 1:
            raise HeaderMismatch(f"the header {name} is there {len(values)} times")
        headers.cache[name] = values[0] if values else None
    value: Optional[str] = headers.cache[name]
    return value


def _mirror(headers: Headers, name: str) -> str:
    """What a header says that mirrors something."""
    value = _said(headers, name)
    if value is None:
        raise HeaderMismatch(f"the header {name} is missing")
    try:
        return from_header(value)
    except ValueError as error:
        raise HeaderMismatch(f"the header {name} cannot be read: {error}") from None


def _check_version(header: Optional[str], body: str) -> None:
    if header is None:
        raise HeaderMismatch(f"the header {VERSION_HEADER} is missing")
    if header != body:
        said = f"{one_line(header, 40)}, and the body says {one_line(body, 40)}"
        raise HeaderMismatch(f"the header {VERSION_HEADER} is {said}")
