"""Who sends a message that came by POST, and who serves it: eras, sessions, and headers that repeat the body.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Optional, Union

from ..engine.requests import Route
from ..errors import (
    INVALID_REQUEST,
    HeaderMismatch,
    InternalError,
    InvalidRequest,
    RpcError,
    UnsupportedRevision,
    one_line,
)
from ..protocol.lifecycle import VERSION_KEY, Peer, PerRequest, ServerSession
from ..protocol.messages import Failure, Id, Json, Notification, Request, Response, encode
from ..protocol.versions import BY_NAME, WITHOUT_HEADER, Revision
from ..schema.header_params import from_header, plain_text
from .headers import (
    JSON_TYPE,
    METHOD_HEADER,
    NAME_HEADER,
    PARAM_PREFIX,
    SESSION_HEADER,
    VERSION_HEADER,
    Headers,
    HttpResponse,
    ResponseWriter,
)
from .sessions import STATUS, MakeHandler, Session, Sessions

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods to the member of their params that the name header repeats."""

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,256}")

Sent = Union[Request, Notification, Response, Failure]


class HttpError(Exception):
    """A request gets an error instead of being served.

    Args:
        status: Of the response.
        message: One sentence, which names the setting to change where there is one.
        headers: To send along.
        code: Of the error in the body; None sends the words alone: nothing of the protocol is there.
        id: Of the request; None where it is not known.
        data: Of the error.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        code: Optional[int] = INVALID_REQUEST,
        id: Optional[Id] = None,
        data: Json = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers
        self.code, self.id, self.data = code, id, data

    @classmethod
    def of(cls, error: RpcError, status: int, id: Optional[Id]) -> HttpError:
        """The same for an error of the protocol."""
        return cls(status, error.message, code=error.code, id=id, data=error.data)

    def response(self) -> HttpResponse:
        """The response that says so."""
        kind = "text/plain; charset=utf-8" if self.code is None else JSON_TYPE
        body = f"{self.message}\n".encode()
        if self.code is not None:
            body = encode(Failure(self.id, self.code, self.message, self.data))
        return HttpResponse(self.status, [("Content-Type", kind), *self.headers], body)

    def send(self, writer: ResponseWriter) -> None:
        """Send it. Raises ConnectionLost."""
        response = self.response()
        writer.send(response.status, response.headers, response.body)


class Admitted(NamedTuple):
    """What was found out about a message."""

    session: Optional[Session]
    """Whose it is; None where there is none."""
    revision: Revision
    peer: Optional[Peer] = None
    """Who sends a request."""
    route: Optional[Route] = None
    """Who serves it."""
    headers: tuple[tuple[str, str], ...] = ()
    """To send with the response."""


class Admission:
    """Decides what a message is before anything is done about it. Thread-safe.

    Args:
        registry: What the server can do.
        make_handler: Of new sessions.
        sessions: Where they are kept; None keeps none, and each message stands for itself.
    """

    def __init__(self, registry: Any, make_handler: MakeHandler, sessions: Optional[Sessions]) -> None:
        self._registry, self._offer = registry, registry.offer
        self._make_handler, self._sessions = make_handler, sessions
        self._alone = ServerSession(registry.offer)

    def admit(self, message: Sent, headers: Headers) -> Admitted:
        """Who sends a message, and where it goes.

        Raises:
            HttpError: It is answered with an error, or not at all.
        """
        request = message if isinstance(message, Request) else None
        id = None if request is None else request.id
        alone = True
        try:
            version = _one(headers, VERSION_HEADER)
            revision = BY_NAME.get(version or "")
            if request is not None and PerRequest.is_enveloped(request):
                return self._admit_alone(request, headers, version)
            if version is not None and (revision is None or not revision.handshake):
                return self._without_envelope(message, version, revision)
            if not self._offer.has_handshake:
                raise self._no_handshake(message, version)
            alone = False
            opening = request is not None and request.method == "initialize"
            return self.within(message, self.sender(headers, revision, opening=opening))
        except RpcError as error:
            status = 400 if id is None else STATUS.get(error.code, 200) if alone else 200
            raise HttpError.of(error, status, id) from None
        except HttpError as error:
            error.id = id
            raise

    # ------------------------------------------------------------ requests that stand alone

    def _admit_alone(self, request: Request, headers: Headers, version: Optional[str]) -> Admitted:
        unsupported = None
        try:
            peer = self._alone.admit_alone(request)
        except UnsupportedRevision as error:
            unsupported = error
        body_version = request.params["_meta"][VERSION_KEY]
        if version is None:
            raise HeaderMismatch(f"the header {VERSION_HEADER} is missing")
        if version != body_version:
            said = f"{one_line(version, 40)}, and the body says {one_line(body_version, 40)}"
            raise HeaderMismatch(f"the header {VERSION_HEADER} is {said}")
        if _decoded(headers, METHOD_HEADER) != request.method:
            raise HeaderMismatch(f"the header {METHOD_HEADER} is the method of the body, {one_line(request.method)}")
        named = request.params.get(NAMED_BY.get(request.method, ""))
        if isinstance(named, str) and _decoded(headers, NAME_HEADER) != named:
            raise HeaderMismatch(f"the header {NAME_HEADER} is what the body names, {one_line(named)}")
        if unsupported is not None:
            raise unsupported
        route = self._registry.route(request, peer)
        if request.method == "tools/call":
            self._check_arguments(request, headers)
        return Admitted(None, peer.revision, peer, route)

    def _check_arguments(self, request: Request, headers: Headers) -> None:
        """Compare the arguments that travel in headers too."""
        arguments = request.params.get("arguments")
        for each in self._registry.tools.items[str(request.params["name"])].mirrored:
            name, value = PARAM_PREFIX + each.name, each.value(arguments)
            if value is None and name in headers:
                raise HeaderMismatch(f"the header {name} is there, and its argument is not")
            if plain_text(value) is not None and not each.agrees(_decoded(headers, name), value):
                raise HeaderMismatch(f"the header {name} is not what the argument {'.'.join(each.path)} is")

    def _without_envelope(self, message: Sent, version: str, revision: Optional[Revision]) -> Admitted:
        """The header names a revision without a handshake, or none that there is."""
        if revision is None or revision not in self._offer.revisions:
            supported = {"supported": self._offer.names, "requested": version}
            raise UnsupportedRevision(f"this server does not speak {one_line(version, 40)}", supported)
        if isinstance(message, Request):
            self._alone.admit_alone(message)  # it says what is missing
        if not isinstance(message, Notification):
            raise InvalidRequest("nothing was asked that this could be the answer to")
        return Admitted(None, revision)

    def _no_handshake(self, message: Sent, version: Optional[str]) -> RpcError:
        if version is None and not (isinstance(message, Request) and message.method == "initialize"):
            return HeaderMismatch(f"the header {VERSION_HEADER} is missing")
        names = self._offer.names
        return UnsupportedRevision(
            f"this server speaks {', '.join(names)}, without initialize", {"supported": names, "requested": version}
        )

    # ------------------------------------------------------------ messages of a session

    def has_no_session(self, headers: Headers) -> bool:
        """Whether the headers name a revision in which each request stands alone."""
        revision = BY_NAME.get(headers.get(VERSION_HEADER, ""))
        return not self._offer.has_handshake or (revision is not None and not revision.handshake)

    def session(self, headers: Headers) -> Session:
        """The session that the headers name.

        Raises:
            HttpError: There is none.
        """
        version, ids = headers.get(VERSION_HEADER), headers.all(SESSION_HEADER)
        if version is not None and version not in self._offer.names:
            names = ", ".join(self._offer.names)
            raise HttpError(400, f"this server does not speak {one_line(version, 40)}, but {names}")
        if not ids:
            raise HttpError(400, f"the header {SESSION_HEADER} is missing: initialize opens a session")
        if len(ids) > 1 or not _SESSION_ID.fullmatch(ids[0]):
            raise HttpError(400, f"the header {SESSION_HEADER} is no id of a session")
        session = None if self._sessions is None else self._sessions.find(ids[0])
        if session is None:
            raise HttpError(404, "there is no such session, or not any more: initialize opens a new one")
        return session

    def sender_of_array(self, headers: Headers) -> Admitted:
        """Who sends an array of messages.

        Raises:
            HttpError: Arrays are not taken from there, or there is no such session.
        """
        if self.has_no_session(headers):
            raise HttpError(400, "a message is one object, not an array")
        return self.sender(headers, BY_NAME.get(headers.get(VERSION_HEADER, "")), opening=False)

    def sender(self, headers: Headers, revision: Optional[Revision], *, opening: bool) -> Admitted:
        """Who sends a message that does not stand alone.

        Args:
            headers: That it came with.
            revision: What they say.
            opening: Whether it may open a session.

        Raises:
            HttpError: There is no such session.
        """
        opens = opening and SESSION_HEADER not in headers
        if self._sessions is not None and not opens:
            session = self.session(headers)
            return Admitted(session, session.revision)
        handshakes = [each for each in self._offer.revisions if each.handshake]
        assumed = WITHOUT_HEADER if WITHOUT_HEADER in handshakes else handshakes[-1]
        if self._sessions is None:
            if revision is not None and not opening and revision not in self._offer.revisions:
                raise HttpError(400, f"this server does not speak {revision.name}")
            return Admitted(None, revision or assumed)
        return Admitted(Session(self._make_handler, self._end), revision or assumed)

    def _end(self, session: Session) -> None:
        """It ends with its last response."""
        session.shut = True
        if self._sessions is not None and not session.responses:
            self._sessions.end(session, "it was shut down")

    def within(self, message: Sent, sender: Admitted) -> Admitted:
        """What a message means in a session, or without any.

        Raises:
            RpcError: It is refused.
            HttpError: There are too many sessions.
        """
        session = sender.session
        if not isinstance(message, Request):
            if session is None and not isinstance(message, Notification):
                raise InvalidRequest("nothing was asked that this could be the answer to: no sessions are kept here")
            return sender
        if session is None:
            opens = message.method == "initialize"
            peer = ServerSession(self._offer).admit(message) if opens else Peer(sender.revision)
            peer.session = None
            return Admitted(None, peer.revision, peer, self._registry.route(message, peer))
        admitted = session.handler.admit(message)
        assert admitted is not None
        is_open = session.peer is not None
        if not is_open or message.method == "initialize":
            session.peer, session.revision = admitted[0], admitted[0].revision
        if is_open:
            return Admitted(session, session.revision, *admitted)
        assert self._sessions is not None
        try:
            self._sessions.add(session)
        except InternalError as error:
            session.end("there are too many")
            raise HttpError.of(error, 503, message.id) from None
        return Admitted(session, session.revision, *admitted, ((SESSION_HEADER, session.id),))


def _one(headers: Headers, name: str) -> Optional[str]:
    """The one value of a header; None where it is missing."""
    if name not in headers.cache:
        values = headers.all(name)
        if len(values) > 1:
            raise HeaderMismatch(f"the header {name} is there {len(values)} times")
        headers.cache[name] = values[0] if values else None
    value: Optional[str] = headers.cache[name]
    return value


def _decoded(headers: Headers, name: str) -> str:
    """What a header says that repeats something of the body."""
    value = _one(headers, name)
    if value is None:
        raise HeaderMismatch(f"the header {name} is missing")
    try:
        return from_header(value)
    except ValueError as error:
        raise HeaderMismatch(f"the header {name} cannot be read: {error}") from None
