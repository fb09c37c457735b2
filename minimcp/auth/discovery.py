"""Who protects a server, and where tokens for it come from: challenges, resource metadata,
authorization servers.

What a server says about itself is not trusted. A document must be short, arrive soon, come over
https (or http on this machine), name what it is about, and never come from a private network unless
the connection to the server itself led into one.
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import json
import re
from contextlib import closing, suppress
from ipaddress import ip_address
from typing import Any, Iterable, Mapping, NamedTuple, Optional
from urllib.parse import urlencode, urlsplit, urlunsplit
from urllib.request import parse_http_list

from ..engine.timer import Timeout
from ..errors import AuthorizationError, ConnectionLost, McpError
from ..http.fetch import AbortableRequest, Fetcher, mask, same_origin, without_secrets
from ..log import logger
from ..protocol.urls import parse_web_url
from ..protocol.versions import REVISIONS
from ..text import one_line
from .addresses import may_lead_to
from .shared import RESOURCE_METADATA, check_url, split

log = logger("minimcp.auth")

# Bytes of a document, and seconds until it is there.
DOCUMENT_BYTES, DOCUMENT_SECONDS = 64 * 1024, 5.0

# Seconds for a request that cannot be repeated: a code or a refresh token can be used once, and
# authorization servers that start on demand take several seconds.
TOKEN_SECONDS = 30.0

SERVER_METADATA = "/.well-known/oauth-authorization-server"
OPENID_METADATA = "/.well-known/openid-configuration"

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
# A scheme, what it has, or both: a parameter, or Base64 that says nothing to us.
_PART = re.compile(
    rf'(?:({_TOKEN})(?:\s+|$))?(?:({_TOKEN})\s*=\s*(?:"(.*)"|({_TOKEN}))|[A-Za-z0-9\-._~+/]+=*)?',
    re.DOTALL,
)


def challenges(header: str) -> dict[str, dict[str, str]]:
    """What a ``WWW-Authenticate`` asks for: the parameters by scheme, names in lower case; the
    first of a name counts.

    What cannot be read ends it.
    """
    found: dict[str, dict[str, str]] = {}
    parameters: dict[str, str] = {}
    for part in parse_http_list(header[:DOCUMENT_BYTES]):
        match = _PART.fullmatch(part)
        if match is None:
            break
        scheme, name, quoted, plain = match.groups()
        if scheme:
            parameters = found.setdefault(scheme.lower(), {})
        if name:
            parameters.setdefault(name.lower(), plain if quoted is None else quoted)
    return found


class Place(NamedTuple):
    """What a server says about its authorization."""

    resource: str
    """The server's identifier, byte for byte as it says it."""
    issuer: str
    """The authorization server's identifier, byte for byte as its own metadata says it."""
    server: Mapping[str, Any]
    """The metadata of the authorization server."""
    scopes: tuple[str, ...] = ()
    """All that there are, if it says so."""
    takes_dpop_only: bool = False


class Exchange:
    """The HTTP requests by which one token is obtained. They end when the request that waits for it
    is aborted.

    ``verify`` and ``proxies`` apply to each of them, because they say how this machine reaches
    others. ``headers``, ``cert`` and ``cookies`` prove who asks: only the origin of the server gets
    them.

    Args:
        url: The URL of the server that is protected.
        verify, proxies, headers, cert: As `HttpServer`.
        request: The request that waits for the token.
        cookies: The cookie jar of the connection; None has none.
        address: IP address of the connection over which the server asked for a token. It decides
            which addresses the server may name; the server's name is never resolved for that. Empty
            if there was no direct connection yet: then the first one to the server itself decides,
            and until then only public addresses are allowed.

    Attributes:
        address: The address that decides, as above.
    """

    def __init__(
        self,
        url: str,
        verify: Any,
        proxies: Any,
        request: AbortableRequest,
        headers: Optional[Mapping[str, str]] = None,
        cert: Any = None,
        cookies: Any = None,
        address: str = "",
    ) -> None:
        self.url = url
        self.request = request
        self._everywhere = {"verify": verify, "proxies": proxies}
        self._headers = dict(headers or {})
        self._at_server = {"cert": cert, "cookies": cookies}
        self._server = parse_web_url(url, userinfo=True)
        self.address = address or _literal_address(self._server.host)

    def detached(self) -> Exchange:
        """Return the same for requests that nobody aborts."""
        return Exchange(
            self.url,
            request=AbortableRequest(),
            headers=self._headers,
            address=self.address,
            **self._everywhere,
            **self._at_server,
        )

    def _fetcher(self, method: str, url: str) -> Fetcher:
        """Return what sends a request: with all settings of the connection at the server's origin.

        Raises:
            ValueError: The URL, or a setting, cannot be used.
        """
        if not self._is_server(url):
            return Fetcher(url, redirects=False, **self._everywhere)
        headers = self._headers
        if method != "GET" and url != self.url:  # there, it would be the client's authentication
            headers = {name: headers[name] for name in headers if name != "Authorization"}
        return Fetcher(url, redirects=False, headers=headers, **self._everywhere, **self._at_server)

    def _is_server(self, url: str) -> bool:
        """Return whether a URL is of the server's own origin."""
        return parse_web_url(url, userinfo=True) == self._server

    def checked(self, url: Any, what: str) -> str:
        """A URL that may be asked or opened. Raises AuthorizationError: it may not."""
        try:
            check_url(url, local_http=self._server.is_local)
        except (TypeError, ValueError) as error:
            raise AuthorizationError(f"{what}: {error}") from None
        return str(url)

    def _allowed(self, address: str) -> bool:
        """Return whether the server may cause a connection to an address."""
        return may_lead_to(self.address, address)

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Optional[bytes] = None,
        *,
        named: bool = False,
        seconds: Optional[float] = None,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and read its response. Redirects are not followed.

        Args:
            method: In capitals.
            url: Absolute; `checked`, or named by the user.
            headers: Headers of this request.
            body: None sends none.
            named: Whether the user named the URL, so that its address is not checked.
            seconds: How long the response may take; None means `DOCUMENT_SECONDS`.

        Returns:
            The status, the headers and the body. If the status is an error, the secrets of the
            request are masked in the body.

        Raises:
            AuthorizationError: The request failed, took too long, or the response is longer than
                `DOCUMENT_BYTES`.
            ConnectionLost: The request that waits was aborted.
        """
        limit = DOCUMENT_SECONDS if seconds is None else seconds
        outer = self.request
        is_first = not self.address and self._is_server(url)
        http = AbortableRequest(allowed=None if named or is_first else self._allowed)
        try:
            fetcher = self._fetcher(method, url)
        except ValueError as error:
            raise AuthorizationError(str(error)) from None
        timeout = Timeout(limit, http.abort)
        outer.first = http
        try:
            if outer.aborted.is_set():
                raise ConnectionLost("given up")
            with closing(fetcher.send(http, method, headers, body)) as response:
                if is_first:
                    self.address = http.address
                answer = response.body(DOCUMENT_BYTES)
                if response.status >= 300:
                    answer = fetcher.masked_bytes(answer)
                return response.status, response.headers, answer
        except McpError as error:
            if outer.aborted.is_set():
                raise ConnectionLost(
                    f"{without_secrets(url)}: given up before there was a token"
                ) from None
            late = f" (no answer within {limit:g} s)" if http.aborted.is_set() else ""
            raise AuthorizationError(f"{error}{late}") from error
        finally:
            timeout.stop()
            outer.first = None
            fetcher.close()

    def document(self, url: str, *, named: bool = False) -> tuple[Optional[dict[str, Any]], str]:
        """Return the JSON object at a URL, or None and why there is none.

        Raises:
            AuthorizationError: It is not known whether there is a document: the request failed, or
                the status is 408, 429 or 5xx.
            ConnectionLost: The request that waits was aborted.
        """
        headers = {"Accept": "application/json", "MCP-Protocol-Version": REVISIONS[-1].name}
        status, _, body = self.ask("GET", url, headers, named=named)
        if is_passing(status):
            raise AuthorizationError(f"{without_secrets(url)}: HTTP {status}")
        found = json_object(body) if 200 <= status < 300 else None
        why = f"HTTP {status}" if not 200 <= status < 300 else "not a JSON object"
        return found, f"{without_secrets(url)}: {why}"

    def post(
        self,
        url: str,
        form: Mapping[str, str],
        headers: Mapping[str, str],
        *,
        named: bool = False,
        seconds: Optional[float] = None,
    ) -> tuple[int, Mapping[str, str], dict[str, Any]]:
        """Send a form, and return the status, the headers and the JSON object of the response,
        which is empty if there is none. Arguments and errors as `ask`."""
        given = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            **headers,
        }
        status, answered, body = self.ask(
            "POST", url, given, urlencode(form).encode(), named=named, seconds=seconds
        )
        return status, answered, json_object(body) or {}


def _literal_address(host: str) -> str:
    """Return the address that a host is without a look-up; empty if it is a name."""
    if host == "localhost":
        return "127.0.0.1"
    with suppress(ValueError):
        return str(ip_address(host))
    return ""


def json_object(body: bytes) -> Optional[dict[str, Any]]:
    """The object that a document is; None where it is none."""
    with suppress(ValueError, RecursionError):
        found = json.loads(body)
        return found if isinstance(found, dict) else None
    return None


def is_passing(status: int) -> bool:
    """Return whether the same request may get another response later."""
    return status in (408, 429) or status >= 500


def refusal(status: int, answer: Mapping[str, Any], secrets: Iterable[str] = ()) -> str:
    """Return what the error response of an authorization server says.

    Args:
        status: The status of the response.
        answer: Its JSON object, empty if there is none.
        secrets: What was sent and must not be shown.
    """
    error: Any = answer.get("error")
    told: Any = answer.get("error_description")
    if isinstance(error, dict):  # some servers have an object where OAuth has a code
        error, told = error.get("code"), told or error.get("message")
    told = told or answer.get("message") or answer.get("detail")
    text = f"HTTP {status}"
    if isinstance(error, str) and error:
        text = one_line(mask(error, secrets), 100)
    if isinstance(told, str):
        text += f": {one_line(mask(told, secrets))}"
    return text


def issuer_key(issuer: str) -> str:
    """Return what identifies an issuer in a store: the issuer without one slash at its end."""
    return issuer[:-1] if issuer.endswith("/") else issuer


def same_issuer(issuer: Any, other: str) -> bool:
    """Return whether two issuers are equal, except for one slash at the end."""
    return isinstance(issuer, str) and issuer_key(issuer) == issuer_key(other)


def words(value: Any) -> tuple[str, ...]:
    """The scopes in a string, or the strings in a list; none in anything else."""
    found = value.split(" ") if isinstance(value, str) else value if isinstance(value, list) else ()
    return tuple(each for each in found if isinstance(each, str) and each)


# ------------------------------------------------------------ documents


def discover(
    exchange: Exchange, challenge: Optional[Mapping[str, str]], issuer: Optional[str] = None
) -> Place:
    """Find out who issues tokens for a server.

    The resource metadata is looked for where the challenge says, then at the well-known places of
    the server. A place that is unusable or not allowed is ignored. Only if the challenge names no
    place and there is nothing at the well-known ones, the server is its own authorization server.

    Args:
        exchange: Sends the requests.
        challenge: The parameters of the server's challenge; None if it has not asked for a token.
        issuer: The authorization server to choose of several; None takes the first.

    Raises:
        AuthorizationError: No document can be used; the message lists the reason of each.
        ConnectionLost: The request that waits was aborted.
    """
    base, path = split(exchange.url)
    shown = without_secrets(exchange.url)
    urls = [base + RESOURCE_METADATA + path, base + RESOURCE_METADATA][: 2 if path else 1]
    named = None if challenge is None else challenge.get("resource_metadata")
    reasons: list[str] = []
    url = ""
    if named is not None:
        try:
            url = same_origin(exchange.url, named) or exchange.checked(named, "its URL")
            urls = [url, *[each for each in urls if each != url]]
        except AuthorizationError as error:
            _ignored(shown, str(error))
            reasons.append(str(error))
    found: Optional[_Protected] = None
    is_known = named is None  # whether it is known that there is no document
    for each in urls:
        try:
            document, why = exchange.document(each)
            found = None if document is None else _protected(exchange, each, document)
        except AuthorizationError as error:
            why, is_known = str(error), False
        if found is not None:
            break
        reasons.append(why)
        if each == url:
            _ignored(shown, why)
    if found is None and is_known and challenge is None:
        raise AuthorizationError(f"{shown} asks for no token")
    if found is None and not is_known:
        raise AuthorizationError(f"no resource metadata of {shown}: {'; '.join(reasons)}")
    if found is None:
        return _own_server(exchange, base, issuer)
    chosen = found.issuers[0]
    if issuer is not None:
        chosen = next((each for each in found.issuers if same_issuer(each, issuer)), "")
        if not chosen:
            _other_issuer(issuer, ", ".join(found.issuers))
    server = authorization_server(exchange, chosen)
    return Place(
        found.resource,
        str(server["issuer"]),
        server,
        words(found.document.get("scopes_supported")),
        found.document.get("dpop_bound_access_tokens_required") is True,
    )


class _Protected(NamedTuple):
    resource: str
    issuers: tuple[str, ...]
    document: Mapping[str, Any]


def _protected(exchange: Exchange, url: str, document: Mapping[str, Any]) -> _Protected:
    """Check the metadata of a resource. Raises AuthorizationError: it must not be used."""
    resource, issuers = document.get("resource"), words(document.get("authorization_servers"))
    where = f"the resource metadata at {without_secrets(url)}"
    if not isinstance(resource, str) or not is_part_of(exchange.url, resource):
        told = f"is for {one_line(resource, 100)}, not for {without_secrets(exchange.url)}"
        raise AuthorizationError(f"{where} {told}")
    if not issuers:
        raise AuthorizationError(f"{where} names no authorization server")
    return _Protected(resource, issuers, document)


def _ignored(shown: str, why: str) -> None:
    log.warning("%s: the resource metadata that the server names is ignored: %s", shown, why)


def _own_server(exchange: Exchange, base: str, issuer: Optional[str]) -> Place:
    """Follow the procedure of servers without resource metadata, which issue tokens themselves."""
    if issuer is not None and not same_issuer(base, issuer):
        _other_issuer(issuer, base)
    server: Optional[dict[str, Any]] = None
    reasons = []
    is_absent = True  # whether it is known that there is no document
    for url in (base + SERVER_METADATA, base + OPENID_METADATA):
        try:
            found, why = exchange.document(url)
        except AuthorizationError as error:
            found, why, is_absent = None, str(error), False
        if found is not None and same_issuer(found.get("issuer"), base):
            server = found
            break
        if found is not None:
            why, is_absent = f"{without_secrets(url)}: {_mismatch(found, base)}", False
        reasons.append(why)
    if server is None and not is_absent:
        raise AuthorizationError(
            f"no metadata of the authorization server {one_line(base)}: {'; '.join(reasons)}"
        )
    if server is None:
        server = {
            "issuer": base,
            "authorization_endpoint": base + "/authorize",
            "token_endpoint": base + "/token",
            "registration_endpoint": base + "/register",
            "code_challenge_methods_supported": ["S256"],
        }
    return Place(canonical(exchange.url), str(server["issuer"]), server)


def _other_issuer(issuer: str, named: str) -> None:
    told = f"the credentials are for {issuer}"
    raise AuthorizationError(f"{told}, and the server takes tokens of {one_line(named)}")


def authorization_server(exchange: Exchange, issuer: str) -> dict[str, Any]:
    """Return the metadata of an authorization server, whose ``issuer`` may differ by one final
    slash.

    Raises:
        AuthorizationError: There is none, or only that of others; the message lists the reason for
            each place.
        ConnectionLost: The request that waits was aborted.
    """
    base, path = split(exchange.checked(issuer, "the issuer"))
    urls = [base + SERVER_METADATA + path, base + OPENID_METADATA + path]
    reasons = []
    for url in [*urls, base + path + OPENID_METADATA] if path else urls:
        try:
            found, why = exchange.document(url)
        except AuthorizationError as error:
            found, why = None, str(error)
        if found is not None and same_issuer(found.get("issuer"), issuer):
            return found
        reasons.append(
            why if found is None else f"{without_secrets(url)}: {_mismatch(found, issuer)}"
        )
    raise AuthorizationError(
        f"no metadata of the authorization server {one_line(issuer)}: {'; '.join(reasons)}"
    )


def _mismatch(document: Mapping[str, Any], issuer: str) -> str:
    told = f"says that it is {one_line(document.get('issuer'), 100)}"
    return f"the metadata of the authorization server {one_line(issuer)} {told}"


def canonical(url: str) -> str:
    """A server's URL as its identifier: without a user's name and a fragment, scheme and host in
    lower case."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return urlunsplit((parts.scheme.lower(), host, parts.path.rstrip("/"), parts.query, ""))


def is_part_of(url: str, resource: str) -> bool:
    """Whether an identifier is a server's: it has the same origin, and its path is that of the URL
    or above it."""
    with suppress(ValueError):
        if "#" not in resource and parse_web_url(resource) == parse_web_url(canonical(url)):
            above, path = urlsplit(resource).path.rstrip("/"), urlsplit(url).path.rstrip("/")
            return path == above or path.startswith(above + "/")
    return False
