"""Which session, peer and route an HTTP message has: one test for each row of the table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest

from minimcp.engine.incoming import Route
from minimcp.engine.shares import ShareExceeded
from minimcp.errors import InvalidRequest, MethodNotFound
from minimcp.http.admission import Admission, Admitted
from minimcp.http.headers import NAMED_BY, Headers, HttpError
from minimcp.protocol.lifecycle import CAPABILITIES_KEY, VERSION_KEY, Peer, SupportedRevisions
from minimcp.protocol.messages import Notification, Request, Response
from minimcp.protocol.versions import REVISIONS, WITHOUT_HEADER
from minimcp.schema.header_params import HeaderParam

HANDSHAKES = [each for each in REVISIONS if each.handshake]
STATELESS = [each for each in REVISIONS if not each.handshake]
OLD, NEW = HANDSHAKES[-1].name, STATELESS[-1].name

REQUEST = Request(7, "tools/list", {})
INITIALIZE = Request(
    7,
    "initialize",
    {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
)
NOTIFICATION = Notification("notifications/initialized", {})
RESPONSE = Response(3, {})

ROUTE = Route(lambda incoming: {})


class Sessions:
    """The sessions of a server without sockets. Those of ``ada`` are not for others."""

    def __init__(self) -> None:
        self.owners: Dict[str, Tuple[Any, Optional[str]]] = {}
        self.made: List[Any] = []
        self.kept: List[Any] = []
        self.is_full = False

    def find(self, id: str, principal: Optional[str]) -> Any:
        session, owner = self.owners.get(id, (None, None))
        return session if owner == principal else None

    def make(self, principal: Optional[str] = None) -> Any:
        session = SimpleNamespace(peer=None, role=SimpleNamespace(admit=self.admit))
        self.made.append(session)
        return session

    def keep(self, session: Any, headers: Headers) -> None:
        if self.is_full:
            raise ShareExceeded("too many sessions")
        self.kept.append(session)

    def admit(self, request: Request) -> Tuple[Peer, Route]:
        """Admit a request like a role."""
        if request.method == "shutdown":
            raise InvalidRequest("this session was shut down")
        return Peer(HANDSHAKES[-1]), ROUTE

    def add(self, id: str, owner: Optional[str] = None) -> Any:
        """Open a session before the test."""
        session = SimpleNamespace(peer=Peer(HANDSHAKES[-1]), role=SimpleNamespace(admit=self.admit))
        self.owners[id] = (session, owner)
        return session


def route(request: Request, peer: Peer) -> Route:
    if request.method == "missing":
        raise MethodNotFound("Method not found: missing")
    return ROUTE


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


Make = Callable[..., Admission]


@pytest.fixture
def admission(sessions: Sessions) -> Make:
    def make(revisions: Any = REVISIONS, keeps_sessions: bool = True) -> Admission:
        return Admission(
            SupportedRevisions(revisions),
            keeps_sessions=keeps_sessions,
            find_session=sessions.find,
            make_session=sessions.make,
            keep_session=sessions.keep,
            route=route,
            named_by={
                **{method: (member, "") for method, member in NAMED_BY.items()},
                "things/get": ("thing", "ext:example/things"),
            },
            check_access=lambda request, peer, headers: None,
            header_params=lambda call: [HeaderParam("Region", ("where",), "string")],
        )

    return make


def headers(**given: str) -> Headers:
    names = {
        "version": "MCP-Protocol-Version",
        "session": "Mcp-Session-Id",
        "method": "Mcp-Method",
        "name": "Mcp-Name",
        "region": "Mcp-Param-Region",
    }
    return Headers({names[key]: value for key, value in given.items()})


def stateless(method: str = "tools/list", version: str = NEW, **params: Any) -> Request:
    """A request that carries metadata."""
    capabilities = params.pop("capabilities", {})
    meta = {VERSION_KEY: version, CAPABILITIES_KEY: capabilities}
    return Request(7, method, {**params, "_meta": meta})


def rejection(admission: Admission, message: Any, given: Headers) -> HttpError:
    with pytest.raises(HttpError) as caught:
        admission.admit(message, given)
    return caught.value


# ------------------------------------------------------------ stateless revisions


def test_a_request_with_metadata_is_stateless(admission: Make, sessions: Sessions) -> None:
    found = admission().admit(stateless(), headers(version=NEW, method="tools/list", session="s"))
    assert found.session is None and found.route is ROUTE
    assert found.peer is not None and found.peer.revision.name == NEW
    assert not sessions.made


@pytest.mark.parametrize(
    ("request_", "given", "said"),
    [
        (stateless(), {"method": "tools/list"}, "MCP-Protocol-Version is missing"),
        (
            stateless(),
            {"version": OLD, "method": "tools/list"},
            "differs from the revision in the body",
        ),
        (stateless(), {"version": NEW}, "Mcp-Method is missing"),
        (
            stateless(),
            {"version": NEW, "method": "ping"},
            "Mcp-Method differs from the value in the body",
        ),
        (
            stateless("prompts/get", name="brief"),
            {"version": NEW, "method": "prompts/get"},
            "Mcp-Name is missing",
        ),
        (
            stateless("prompts/get", name="brief"),
            {"version": NEW, "method": "prompts/get", "name": "=?base64?%?="},
            "Mcp-Name cannot be read",
        ),
        (
            stateless("tools/call", name="add", arguments={"where": "eu"}),
            {"version": NEW, "method": "tools/call", "name": "add"},
            "Mcp-Param-Region is missing",
        ),
        (
            stateless("tools/call", name="add", arguments={"where": "eu"}),
            {"version": NEW, "method": "tools/call", "name": "add", "region": "us"},
            "differs from the argument where",
        ),
        (
            stateless("tools/call", name="add", arguments={}),
            {"version": NEW, "method": "tools/call", "name": "add", "region": "us"},
            "its argument is missing",
        ),
    ],
)
def test_headers_that_do_not_agree_with_the_body_are_rejected(
    admission: Make, request_: Request, given: Dict[str, str], said: str
) -> None:
    error = rejection(admission(), request_, headers(**given))
    assert (error.status, error.code, error.id) == (400, -32020, 7)
    assert said in error.message


def test_a_header_that_is_there_twice_is_rejected(admission: Make) -> None:
    twice = Headers([("MCP-Protocol-Version", NEW), ("MCP-Protocol-Version", NEW)])
    error = rejection(admission(), stateless(), twice)
    assert (error.status, error.code, error.id) == (400, -32020, 7)


@pytest.mark.parametrize(("able", "is_named"), [({}, False), ({"example/things": {}}, True)])
def test_an_extension_names_its_object_for_clients_that_have_it(
    admission: Make, able: Dict[str, Any], is_named: bool
) -> None:
    asked = stateless("things/get", thing="x", capabilities={"extensions": able})
    given = headers(version=NEW, method="things/get")
    if is_named:
        assert "Mcp-Name is missing" in rejection(admission(), asked, given).message
    else:
        assert admission().admit(asked, given).route is ROUTE


def test_a_revision_that_is_not_offered_is_unsupported(admission: Make) -> None:
    asked = stateless(version="1999-01-01")
    error = rejection(admission(), asked, headers(version="1999-01-01", method="tools/list"))
    assert (error.status, error.code) == (400, -32022)
    assert error.data["requested"] == "1999-01-01"  # type: ignore[index,call-overload]


def test_a_missing_method_is_404_if_it_is_stateless(admission: Make) -> None:
    error = rejection(admission(), stateless("missing"), headers(version=NEW, method="missing"))
    assert (error.status, error.code, error.id) == (404, -32601, 7)


def test_a_request_without_metadata_needs_it_in_a_stateless_revision(admission: Make) -> None:
    error = rejection(admission(), REQUEST, headers(version=NEW, session="s"))
    assert (error.status, error.code, error.id) == (400, -32602, 7)
    assert VERSION_KEY in error.message


def test_a_notification_needs_no_metadata(admission: Make) -> None:
    assert admission().admit(NOTIFICATION, headers(version=NEW)) == Admitted(None)


def test_a_response_is_unexpected_in_a_stateless_revision(admission: Make) -> None:
    error = rejection(admission(), RESPONSE, headers(version=NEW))
    assert (error.status, error.code, error.id) == (400, -32600, None)


@pytest.mark.parametrize("message", [REQUEST, INITIALIZE, NOTIFICATION, RESPONSE])
def test_an_unknown_revision_is_unsupported(admission: Make, message: Any) -> None:
    error = rejection(admission(), message, headers(version="1999-01-01", session="s"))
    assert (error.status, error.code) == (400, -32022)


@pytest.mark.parametrize(
    ("message", "given", "code"),
    [
        (REQUEST, {}, -32020),
        (NOTIFICATION, {}, -32020),
        (INITIALIZE, {}, -32022),
        (REQUEST, {"version": OLD}, -32022),
    ],
)
def test_a_server_without_a_handshake_is_always_stateless(
    admission: Make, message: Any, given: Dict[str, str], code: int
) -> None:
    error = rejection(admission(STATELESS), message, headers(**given))
    assert (error.status, error.code) == (400, code)


# ------------------------------------------------------------ sessions


@pytest.mark.parametrize("id", [None, "unknown", "of-ada"])
def test_initialize_opens_a_session(admission: Make, sessions: Sessions, id: Optional[str]) -> None:
    """Also if the client sends the id of a session that has ended, or of another principal."""
    sessions.add("of-ada", "ada")
    found = admission().admit(INITIALIZE, headers() if id is None else headers(session=id))
    assert sessions.made == sessions.kept == [found.session]
    assert found.peer is found.session.peer and found.route is ROUTE  # type: ignore[union-attr]


def test_initialize_in_a_session_opens_it_again(admission: Make, sessions: Sessions) -> None:
    session = sessions.add("s")
    before = session.peer
    found = admission().admit(INITIALIZE, headers(session="s"))
    assert found.session is session and session.peer is found.peer is not before
    assert not sessions.made and not sessions.kept


def test_a_session_too_many_is_rejected(admission: Make, sessions: Sessions) -> None:
    sessions.is_full = True
    error = rejection(admission(), INITIALIZE, headers())
    assert (error.status, error.id) == (429, 7) and "Retry-After" in dict(error.headers)


@pytest.mark.parametrize("version", [None, OLD])
def test_a_request_is_admitted_in_its_session(
    admission: Make, sessions: Sessions, version: Optional[str]
) -> None:
    session = sessions.add("s")
    given = {"session": "s"} if version is None else {"session": "s", "version": version}
    found = admission().admit(REQUEST, headers(**given))
    assert found.session is session and found.route is ROUTE and found.peer is not None


@pytest.mark.parametrize("message", [NOTIFICATION, RESPONSE])
def test_a_message_that_is_not_a_request_belongs_to_its_session(
    admission: Make, sessions: Sessions, message: Any
) -> None:
    session = sessions.add("s")
    assert admission().admit(message, headers(session="s")) == Admitted(session)


def test_an_error_in_a_session_has_status_200(admission: Make, sessions: Sessions) -> None:
    sessions.add("s")
    error = rejection(admission(), Request(7, "shutdown", {}), headers(session="s"))
    assert (error.status, error.code, error.id) == (200, -32600, 7)


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({}, 400, "has no valid session id"),
        ({"session": "not an id"}, 400, "has no valid session id"),
        ({"session": "unknown"}, 404, "the session is unknown or has ended"),
        ({"session": "of-ada"}, 404, "the session is unknown or has ended"),
    ],
)
@pytest.mark.parametrize("message", [REQUEST, NOTIFICATION, RESPONSE])
def test_a_message_without_a_session_is_rejected(
    admission: Make, sessions: Sessions, message: Any, given: Dict[str, str], status: int, said: str
) -> None:
    sessions.add("of-ada", "ada")
    error = rejection(admission(), message, headers(**given))
    assert error.status == status and said in error.message
    assert error.id == getattr(message, "id", None) or message is RESPONSE


def test_a_session_is_for_its_principal(admission: Make, sessions: Sessions) -> None:
    session = sessions.add("of-ada", "ada")
    given = headers(session="of-ada")
    given.principal = "ada"
    assert admission().admit(REQUEST, given).session is session
    assert admission().session_of(given) is session


def test_the_revision_of_the_header_must_be_offered(admission: Make, sessions: Sessions) -> None:
    sessions.add("s")
    given = headers(session="s", version=HANDSHAKES[0].name)
    error = rejection(admission(REVISIONS[1:]), REQUEST, given)
    assert error.status == 400 and "does not support" in error.message


# ------------------------------------------------------------ no sessions are kept


def test_without_sessions_the_header_says_the_revision(admission: Make) -> None:
    found = admission(keeps_sessions=False).admit(REQUEST, headers(version=OLD))
    assert found.session is None and found.route is ROUTE
    assert found.peer is not None and found.peer.revision.name == OLD


@pytest.mark.parametrize(
    ("revisions", "assumed"),
    [(REVISIONS, WITHOUT_HEADER), (HANDSHAKES[-1:], HANDSHAKES[-1])],
)
def test_without_the_header_a_revision_is_assumed(
    admission: Make, revisions: Any, assumed: Any
) -> None:
    found = admission(revisions, keeps_sessions=False).admit(REQUEST, headers())
    assert found.peer is not None and found.peer.revision is assumed


def test_without_sessions_initialize_agrees_on_a_revision(
    admission: Make, sessions: Sessions
) -> None:
    found = admission(keeps_sessions=False).admit(INITIALIZE, headers())
    assert found.session is None and found.peer is not None
    assert found.peer.revision.name == OLD and not sessions.made


def test_without_sessions_a_revision_must_be_offered(admission: Make) -> None:
    given = headers(version=HANDSHAKES[0].name)
    error = rejection(admission(REVISIONS[1:], keeps_sessions=False), REQUEST, given)
    assert (error.status, error.id) == (400, 7) and "does not support" in error.message


def test_without_sessions_a_notification_is_accepted_and_a_response_is_not(admission: Make) -> None:
    sessionless = admission(keeps_sessions=False)
    assert sessionless.admit(NOTIFICATION, headers(version=OLD)) == Admitted(None)
    error = rejection(sessionless, RESPONSE, headers(version=OLD))
    assert (error.status, error.code, error.id) == (400, -32600, None)


# ------------------------------------------------------------ methods


@pytest.mark.parametrize(
    ("revisions", "keeps_sessions", "version", "streams", "methods"),
    [
        (REVISIONS, True, None, True, ["POST", "GET", "DELETE"]),
        (REVISIONS, True, OLD, True, ["POST", "GET", "DELETE"]),
        (REVISIONS, True, None, False, ["POST", "DELETE"]),
        (REVISIONS, True, NEW, True, ["POST"]),
        (REVISIONS, False, None, True, ["POST"]),
        (STATELESS, True, None, True, ["POST"]),
    ],
)
def test_get_and_delete_are_for_sessions(
    admission: Make,
    revisions: Any,
    keeps_sessions: bool,
    version: Optional[str],
    streams: bool,
    methods: List[str],
) -> None:
    given = headers() if version is None else headers(version=version)
    assert list(admission(revisions, keeps_sessions).methods(given, streams)) == methods
