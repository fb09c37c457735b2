"""Admission: find the sender of an HTTP message, and the part of the server that handles it.

`Admission` looks at the method, the headers and the message, and returns the session, the peer and
the route, or raises an `HttpError`. It has no endpoint, lock or socket. Three functions that are
passed to it find, make and keep sessions.

What a message of a POST means depends on the message and on its `VERSION_HEADER`:

========================  ======================================  =================================
The message               The header                              Result
========================  ======================================  =================================
request with metadata     same revision as the metadata           stateless; the headers must agree
request with metadata     another one, or none                    400, header mismatch
request, no metadata      stateless revision                      400, the metadata is missing
notification              stateless revision                      stateless
response                  stateless revision                      400
any                       unknown revision                        400, unsupported revision
any                       none, and the server has no handshake   400
``initialize``            none, or a handshake revision           opens a session, or opens the one
                                                                  that `SESSION_HEADER` names again
any other                 none, or a handshake revision           in the session that
                                                                  `SESSION_HEADER` names
any other                 the same, and no sessions are kept      sessionless
========================  ======================================  =================================

A request carries metadata if its ``_meta`` names its revision.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Callable, Mapping, NamedTuple, Optional, Sequence

from .. import errors
from ..engine.incoming import Route
from ..engine.shares import ShareExceeded
from ..errors import HeaderMismatch, InvalidRequest, RpcError
from ..protocol.lifecycle import VERSION_KEY, Negotiation, Peer, PerRequest, SupportedRevisions
from ..protocol.messages import Json, Message, Notification, Request
from ..protocol.versions import BY_NAME, REVISIONS, WITHOUT_HEADER, Revision
from ..schema.header_params import HeaderParam, from_header, plain_text
from ..text import one_line
from .headers import (
    JSON_TYPE,
    METHOD_HEADER,
    NAME_HEADER,
    PARAM_PREFIX,
    SESSION_HEADER,
    STATUS,
    VERSION_HEADER,
    Headers,
    HttpError,
    rejected,
    require,
)
from .sse import MEDIA_TYPE

if TYPE_CHECKING:
    from .sessions import Session

_SESSION_ID = re.compile(r"[\x21-\x7e]{1,256}")

# Returns the session with an id, if the principal may use it. The arguments are the id and the
# principal, which is None if clients are not authenticated.
FindSession = Callable[[str, Optional[str]], "Optional[Session]"]

# Makes a session for a principal. The session is not stored yet.
MakeSession = Callable[[Optional[str]], "Session"]

# Keeps a session whose `initialize` was admitted and arrived with these headers. Raises
# ShareExceeded or HttpError if there are too many.
KeepSession = Callable[["Session", Headers], None]


class Admitted(NamedTuple):
    """The result of `Admission.admit`.

    Args:
        session: The session of the message; None in stateless revisions, or if no sessions are
            kept.
        peer: The client that sent a request; None for another message.
        route: The route that serves a request; None for another message.
    """

    session: Optional[Session]
    peer: Optional[Peer] = None
    route: Optional[Route] = None


class Admission:
    """Decides what HTTP messages mean. Thread-safe if the functions that it calls are.

    Args:
        supported: The revisions that the server supports.
        keeps_sessions: Whether sessions are kept for revisions with a handshake.
        find_session: Returns a session.
        make_session: Makes a session.
        keep_session: Keeps a session.
        route: Returns the route of a request of a peer. May raise an `RpcError`.
        check_access: Checks that the caller may see and use the entry that a request names. May
            raise an `RpcError` or an `HttpError`.
        named_by: By method, the member of its params that `NAME_HEADER` repeats, and the client
            capability that this rule requires, or "".
        header_params: Returns the arguments of a tool call that headers repeat.

    Attributes:
        session_versions: The values of `VERSION_HEADER` in messages that belong to a session; None
            means a message without the header. Every other message is stateless.
    """

    def __init__(
        self,
        supported: SupportedRevisions,
        *,
        keeps_sessions: bool,
        find_session: FindSession,
        make_session: MakeSession,
        keep_session: KeepSession,
        route: Callable[[Request, Peer], Route],
        check_access: Callable[[Request, Peer, Headers], None],
        named_by: Mapping[str, tuple[str, str]],
        header_params: Callable[[Request], Sequence[HeaderParam]],
    ) -> None:
        self._supported = supported
        self._keeps_sessions = keeps_sessions
        self._find_session = find_session
        self._make_session = make_session
        self._keep_session = keep_session
        self._route = route
        self._check_access = check_access
        self._named_by = named_by
        self._header_params = header_params
        self._stateless = Negotiation(supported)
        self.session_versions: frozenset[Optional[str]] = frozenset()
        if supported.handshakes:
            named = [each.name for each in REVISIONS if each.handshake]
            self.session_versions = frozenset([None, *named])
        # The revision of a message in no session whose header does not name one.
        self._assumed: Optional[Revision] = None
        if supported.handshakes:
            is_supported = WITHOUT_HEADER in supported.handshakes
            self._assumed = WITHOUT_HEADER if is_supported else supported.handshakes[-1]

    def methods(self, headers: Headers, streams: bool) -> Mapping[str, tuple[str, ...]]:
        """Return the methods that a client may use, each with the types of its responses.

        Args:
            headers: The headers of the request.
            streams: Whether the response to a GET, if there are sessions, is an event stream.
        """
        wanted: dict[str, tuple[str, ...]] = {"POST": (JSON_TYPE, MEDIA_TYPE)}
        version = headers.get(VERSION_HEADER)
        if (
            self._keeps_sessions
            and self._supported.handshakes
            and version not in self._supported.per_request
        ):
            if streams:
                wanted["GET"] = (MEDIA_TYPE,)
            wanted["DELETE"] = ()
        return wanted

    def admit(self, message: Message, headers: Headers) -> Admitted:
        """Return what the message of a POST means.

        Raises:
            HttpError: The message is rejected.
        """
        is_request = isinstance(message, Request)
        id = message.id if isinstance(message, Request) else None
        is_stateless = True
        try:
            version = one_value(headers, VERSION_HEADER)
            if isinstance(message, Request) and PerRequest.carries_metadata(message):
                return self._with_metadata(message, headers, version)
            if version not in self.session_versions:
                return self._without_metadata(message, version)
            is_stateless = False
            if isinstance(message, Request):
                opens = message.method == "initialize"
                session, revision = self.sender(headers, opens)
                admitted = self.within(message, session, revision, headers)
                assert admitted.peer is not None
                self._check_access(message, admitted.peer, headers)
                return admitted
            session, _ = self.sender(headers)
            if session is None and not isinstance(message, Notification):
                raise InvalidRequest(
                    "unexpected response: this server sends no requests, because it has no sessions"
                )
            return Admitted(session)
        except ShareExceeded as error:
            raise rejected(error, id) from None
        except RpcError as error:
            status = 400
            if is_request:
                status = STATUS.get(error.code, 200) if is_stateless else 200
            reason = error.message
            raise HttpError(status, reason, code=error.code, id=id, data=error.data) from None
        except HttpError as error:
            error.id = id
            raise

    # ------------------------------------------------------------ stateless revisions

    def _with_metadata(
        self, request: Request, headers: Headers, version: Optional[str]
    ) -> Admitted:
        """Admit a stateless request. Its headers repeat some of its members."""
        unsupported: Optional[RpcError] = None
        peer: Optional[Peer] = None
        try:
            peer = self._stateless.admit_alone(request)
        except errors.UnsupportedRevision as error:
            unsupported = error
        if version != request.params["_meta"][VERSION_KEY]:
            said = "is missing"
            if version is not None:
                said = f"differs from the revision in the body, {one_line(version, 40)}"
            raise HeaderMismatch(f"the header {VERSION_HEADER} {said}")
        self._check_names(request, headers, peer)
        if unsupported is not None:
            raise unsupported
        assert peer is not None
        route = self._route(request, peer)
        self._check_access(request, peer, headers)
        if request.method == "tools/call":
            repeated = self._header_params(request)
            if repeated:
                _check_arguments(request.params.get("arguments"), headers, repeated)
        return Admitted(None, peer, route)

    def _check_names(self, request: Request, headers: Headers, peer: Optional[Peer]) -> None:
        """Check the headers that repeat the method and the name of its object.

        Raises:
            HeaderMismatch: One of them is missing, or differs from the body.
        """
        member, capability = self._named_by.get(request.method, ("", ""))
        is_named = not capability or (peer is not None and peer.supports(capability))
        named = request.params.get(member) if is_named else None
        if not isinstance(named, str):
            named = None
        repeated = (request.method, named)
        if headers.cache.get("repeated") == repeated:
            return
        for name, value in zip((METHOD_HEADER, NAME_HEADER), repeated):
            if value is not None and _decoded(headers, name) != value:
                raise HeaderMismatch(
                    f"the header {name} differs from the value in the body, {one_line(value)}"
                )
        headers.cache["repeated"] = repeated

    def _without_metadata(self, message: Message, version: Optional[str]) -> Admitted:
        """Admit a stateless message without metadata. Only notifications may lack them."""
        opens = isinstance(message, Request) and message.method == "initialize"
        if version is None and not opens:
            raise HeaderMismatch(f"the header {VERSION_HEADER} is missing")
        if version not in self._supported.per_request:
            names = self._supported.names
            said = "initialize" if version is None else one_line(version, 40)
            reason = f"this server supports {', '.join(names)}, not {said}"
            raise errors.UnsupportedRevision(reason, {"supported": names, "requested": version})
        if isinstance(message, Request):
            # Raises an error that names the members that are missing.
            self._stateless.admit_alone(message)
        if not isinstance(message, Notification):
            raise InvalidRequest("unexpected response: the server has sent no request")
        return Admitted(None)

    # ------------------------------------------------------------ sessions

    def session_of(self, headers: Headers) -> Session:
        """Return the session that the headers name.

        Raises:
            HttpError: There is none, or the server does not support the revision of the headers.
        """
        version = headers.get(VERSION_HEADER)
        id = one_value(headers, SESSION_HEADER) or ""
        if version is not None and version not in self._supported.names:
            names = ", ".join(self._supported.names)
            raise HttpError(
                400, f"this server does not support {one_line(version, 40)}: use {names}"
            )
        session = self._find_session(id, headers.principal)
        if session is None:
            require(
                _SESSION_ID.fullmatch(id),
                400,
                f"the header {SESSION_HEADER} has no valid session id: initialize opens one",
            )
            raise HttpError(
                404, "the session is unknown or has ended: open a new one with initialize"
            )
        return session

    def sender(self, headers: Headers, opens: bool = False) -> tuple[Optional[Session], Revision]:
        """Return the session of a message that is not stateless, and its revision.

        Args:
            headers: The headers of the message.
            opens: Whether it is an `initialize`, which may open a session.

        Raises:
            HttpError: The session is unknown or has ended.
        """
        # Some clients open a new session with the id of one that has ended. That id is ignored.
        opens_new = False
        if opens:
            id = headers.get(SESSION_HEADER)
            opens_new = id is None or self._find_session(id, headers.principal) is None
        if self._keeps_sessions and not opens_new:
            session = self.session_of(headers)
            assert session.peer is not None
            return session, session.peer.revision
        revision = BY_NAME.get(headers.get(VERSION_HEADER, "")) or self._assumed
        assert revision is not None
        if self._keeps_sessions:
            return self._make_session(headers.principal), revision
        if not opens and revision not in self._supported.revisions:
            raise HttpError(400, f"this server does not support {revision.name}")
        return None, revision

    def within(
        self, request: Request, session: Optional[Session], revision: Revision, headers: Headers
    ) -> Admitted:
        """Admit a request in its session, or in none if no sessions are kept.

        Raises:
            RpcError: The request is rejected.
            HttpError: There are too many sessions.
        """
        opens = request.method == "initialize"
        if session is None:
            peer = Negotiation(self._supported).admit(request) if opens else Peer(revision)
            peer.session_data = None
            return Admitted(None, peer, self._route(request, peer))
        admitted = session.role.admit(request)
        assert admitted is not None
        peer, route = admitted
        if opens:
            is_new = session.peer is None
            session.peer = peer
            if is_new:
                self._keep_session(session, headers)
        return Admitted(session, peer, route)


def one_value(headers: Headers, name: str) -> Optional[str]:
    """Return the value of a header; None if it is missing.

    Raises:
        HttpError: It has several values.
    """
    values = headers.lists.get(name.lower(), ())
    if len(values) > 1:
        raise HttpError(
            400, f"the header {name} occurs {len(values)} times", code=errors.HEADER_MISMATCH
        )
    return values[0] if values else None


def _decoded(headers: Headers, name: str) -> str:
    """Return the decoded value of a header that repeats a member of the body."""
    value = one_value(headers, name)
    if value is None:
        raise HeaderMismatch(f"the header {name} is missing")
    try:
        return from_header(value)
    except ValueError as error:
        raise HeaderMismatch(f"the header {name} cannot be read: {error}") from None


def _check_arguments(arguments: Json, headers: Headers, repeated: Sequence[HeaderParam]) -> None:
    """Check the headers that repeat arguments of a tool.

    Raises:
        HeaderMismatch: One of them is missing, differs from its argument, or has no argument.
    """
    for each in repeated:
        name = PARAM_PREFIX + each.name
        value = each.value(arguments)
        if value is None and name in headers:
            raise HeaderMismatch(f"the header {name} is present, but its argument is missing")
        if plain_text(value) is not None and not each.agrees(_decoded(headers, name), value):
            path = ".".join(each.path)
            raise HeaderMismatch(f"the header {name} differs from the argument {path}")
