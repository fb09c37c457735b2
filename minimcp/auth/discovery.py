"""Discovery of a server's authorization server: challenges, resource metadata and the metadata of
authorization servers.

A server's statements about itself are not trusted. A document must be short, arrive in time, use
https (or http on this machine) and name the server that it describes. It must not come from a
private network, unless the server itself is in one.
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

# Maximum size of a document, and time limit for fetching it.
DOCUMENT_BYTES = 64 * 1024
DOCUMENT_SECONDS = 5.0

# Time limit for requests that cannot be repeated, because a code or a refresh token can be used
# only once. Authorization servers that start on demand take several seconds.
TOKEN_SECONDS = 30.0

SERVER_METADATA = "/.well-known/oauth-authorization-server"
OPENID_METADATA = "/.well-known/openid-configuration"

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
# A scheme, a parameter or Base64 data (which is ignored), or a scheme followed by one of them.
_PART = re.compile(
    rf'(?:({_TOKEN})(?:\s+|$))?(?:({_TOKEN})\s*=\s*(?:"(.*)"|({_TOKEN}))|[A-Za-z0-9\-._~+/]+=*)?',
    re.DOTALL,
)


def challenges(header: str) -> dict[str, dict[str, str]]:
    """Return the parameters of each scheme in a ``WWW-Authenticate`` header.

    Schemes and names are in lower case. The first of several parameters with one name counts.
    Parsing stops at the first part that is invalid.
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


class ProtectedResource(NamedTuple):
    """A protected server and its authorization server."""

    resource: str
    """The server's identifier, exactly as in its metadata."""
    issuer: str
    """The authorization server's identifier, exactly as in its metadata."""
    server: Mapping[str, Any]
    """The metadata of the authorization server."""
    scopes: tuple[str, ...] = ()
    """All scopes of the server, if its metadata lists them."""
    takes_dpop_only: bool = False
    """Whether the server accepts only tokens that are bound to a key."""


class Exchange:
    """The HTTP requests that obtain one token. They are aborted with the request that needs it.

    ``verify`` and ``proxies`` apply to all requests, because they describe the network of this
    machine. ``headers``, ``cert`` and ``cookies`` are credentials, which are sent only to the
    server's own origin.

    Args:
        url: The URL of the protected server.
        verify, proxies, headers, cert: See `HttpServer`.
        request: The request that waits for the token.
        cookies: The cookie jar of the connection; None means no cookies.
        address: The IP address of the connection over which the server asked for a token. It
            determines which addresses the server may name; the server's name is not resolved
            again. If it is empty, the first connection to the server itself determines it, and
            until then only public addresses are allowed.

    Attributes:
        address: The current value of that address.
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
        """Return a copy whose requests are not aborted."""
        return Exchange(
            self.url,
            request=AbortableRequest(),
            headers=self._headers,
            address=self.address,
            **self._everywhere,
            **self._at_server,
        )

    def _fetcher(self, method: str, url: str) -> Fetcher:
        """Return the fetcher for a request. Only the server's origin gets the credentials.

        Raises:
            ValueError: The URL or a setting is invalid.
        """
        if not self._is_server(url):
            return Fetcher(url, redirects=False, **self._everywhere)
        headers = self._headers
        # At a token endpoint, this header would be taken for the client's own authentication.
        if method != "GET" and url != self.url:
            headers = {name: headers[name] for name in headers if name != "Authorization"}
        return Fetcher(url, redirects=False, headers=headers, **self._everywhere, **self._at_server)

    def _is_server(self, url: str) -> bool:
        """Return whether a URL has the server's own origin."""
        return parse_web_url(url, userinfo=True) == self._server

    def checked(self, url: Any, what: str) -> str:
        """Check a URL that the server or its authorization server has named, and return it.

        Args:
            url: The URL.
            what: The name of the URL, for the error message.

        Raises:
            AuthorizationError: The URL must not be used.
        """
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
        limit: int = DOCUMENT_BYTES,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and read its response. Redirects are not followed.

        Args:
            method: The method in capitals.
            url: An absolute URL that was `checked` or that the user named.
            headers: The headers of this request.
            body: The body; omitted if None.
            named: Whether the user named the URL, so that its address is not checked.
            seconds: Time limit for the response; None means `DOCUMENT_SECONDS`.
            limit: Maximum size of the body in bytes.

        Returns:
            The status, the headers and the body. If the status is an error, the secrets of the
            request are masked in the body.

        Raises:
            AuthorizationError: The request failed or timed out, or the response is longer than
                `limit`.
            ConnectionLost: The request that waits for the token was aborted.
        """
        seconds = DOCUMENT_SECONDS if seconds is None else seconds
        outer = self.request
        is_first = not self.address and self._is_server(url)
        http = AbortableRequest(allowed=None if named or is_first else self._allowed)
        try:
            fetcher = self._fetcher(method, url)
        except ValueError as error:
            raise AuthorizationError(str(error)) from None
        timeout = Timeout(seconds, http.abort)
        outer.first = http
        try:
            if outer.aborted.is_set():
                raise ConnectionLost("aborted")
            with closing(fetcher.send(http, method, headers, body)) as response:
                if is_first:
                    self.address = http.address
                answer = response.body(limit)
                if response.status >= 300:
                    answer = fetcher.masked_bytes(answer)
                return response.status, response.headers, answer
        except McpError as error:
            if outer.aborted.is_set():
                raise ConnectionLost(
                    f"{without_secrets(url)}: aborted before a token was obtained"
                ) from None
            timed_out = f" (no answer within {seconds:g} s)" if http.aborted.is_set() else ""
            raise AuthorizationError(f"{error}{timed_out}") from error
        finally:
            timeout.stop()
            outer.first = None
            fetcher.close()

    def document(self, url: str, *, named: bool = False) -> tuple[Optional[dict[str, Any]], str]:
        """Return the JSON object at a URL, or None and the reason.

        Raises:
            AuthorizationError: It is not known whether the document exists, because the request
                failed or the status is 408, 429 or 5xx.
            ConnectionLost: The request that waits for the token was aborted.
        """
        headers = {"Accept": "application/json", "MCP-Protocol-Version": REVISIONS[-1].name}
        status, _, body = self.ask("GET", url, headers, named=named)
        if is_passing(status):
            raise AuthorizationError(f"{without_secrets(url)}: HTTP {status}")
        found = json_object(body) if 200 <= status < 300 else None
        reason = f"HTTP {status}" if not 200 <= status < 300 else "not a JSON object"
        return found, f"{without_secrets(url)}: {reason}"

    def post(
        self,
        url: str,
        form: Mapping[str, str],
        headers: Mapping[str, str],
        *,
        named: bool = False,
        seconds: Optional[float] = None,
    ) -> tuple[int, Mapping[str, str], dict[str, Any]]:
        """Send a form. Return the status, the headers and the JSON object of the response.

        The object is empty if the response has none. See `ask` for the arguments and errors.
        """
        sent = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            **headers,
        }
        status, answered, body = self.ask(
            "POST", url, sent, urlencode(form).encode(), named=named, seconds=seconds
        )
        return status, answered, json_object(body) or {}


def _literal_address(host: str) -> str:
    """Return the address of a host that is an address or localhost; empty for other names."""
    if host == "localhost":
        return "127.0.0.1"
    with suppress(ValueError):
        return str(ip_address(host))
    return ""


def json_object(body: bytes) -> Optional[dict[str, Any]]:
    """Return a JSON object, or None if the bytes are not one."""
    with suppress(ValueError, RecursionError):
        found = json.loads(body)
        return found if isinstance(found, dict) else None
    return None


def is_passing(status: int) -> bool:
    """Return whether the same request may succeed later."""
    return status in (408, 429) or status >= 500


def refusal(status: int, answer: Mapping[str, Any], secrets: Iterable[str] = ()) -> str:
    """Return the error of an authorization server's response as text.

    Args:
        status: The status of the response.
        answer: The JSON object of the response; empty if there is none.
        secrets: Values of the request that must not be shown.
    """
    error: Any = answer.get("error")
    description: Any = answer.get("error_description")
    if isinstance(error, dict):  # some servers send an object instead of an OAuth code
        description = description or error.get("message")
        error = error.get("code")
    description = description or answer.get("message") or answer.get("detail")
    text = f"HTTP {status}"
    if isinstance(error, str) and error:
        text = one_line(mask(error, secrets), 100)
    if isinstance(description, str):
        text += f": {one_line(mask(description, secrets))}"
    return text


def issuer_key(issuer: str) -> str:
    """Return the key of an issuer in a store, which is the issuer without one final slash."""
    return issuer[:-1] if issuer.endswith("/") else issuer


def same_issuer(issuer: Any, other: str) -> bool:
    """Return whether two issuers are equal, except for one final slash."""
    return isinstance(issuer, str) and issuer_key(issuer) == issuer_key(other)


def words(value: Any) -> tuple[str, ...]:
    """Return the scopes in a str, or the str in a list; nothing for other values."""
    if isinstance(value, str):
        value = value.split(" ")
    if not isinstance(value, list):
        return ()
    return tuple(each for each in value if isinstance(each, str) and each)


# ------------------------------------------------------------ documents


def discover(
    exchange: Exchange, challenge: Optional[Mapping[str, str]], issuer: Optional[str] = None
) -> ProtectedResource:
    """Find the authorization server of a protected server.

    The resource metadata is fetched from the URL in the challenge, then from the well-known URLs of
    the server. A URL that must not be used is ignored. If the challenge has no URL and the
    well-known ones have no document, the server is its own authorization server.

    Args:
        exchange: Sends the requests.
        challenge: The parameters of the server's challenge; None if it has not asked for a token.
        issuer: The authorization server to choose if there are several; None means the first.

    Raises:
        AuthorizationError: No document is usable; the message lists the reason for each.
        ConnectionLost: The request that waits for the token was aborted.
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
    is_absent = named is None  # whether the document is known to be missing
    for each in urls:
        try:
            document, reason = exchange.document(each)
            found = None if document is None else _protected(exchange, each, document)
        except AuthorizationError as error:
            reason = str(error)
            is_absent = False
        if found is not None:
            break
        reasons.append(reason)
        if each == url:
            _ignored(shown, reason)
    if found is None and is_absent and challenge is None:
        raise AuthorizationError(f"{shown} does not require a token")
    if found is None and not is_absent:
        raise AuthorizationError(f"no resource metadata for {shown}: {'; '.join(reasons)}")
    if found is None:
        return _own_server(exchange, base, issuer)
    chosen = found.issuers[0]
    if issuer is not None:
        chosen = next((each for each in found.issuers if same_issuer(each, issuer)), "")
        if not chosen:
            _other_issuer(issuer, ", ".join(found.issuers))
    server = authorization_server(exchange, chosen)
    return ProtectedResource(
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
    """Check resource metadata and return the parts that are used.

    Raises:
        AuthorizationError: The document must not be used.
    """
    resource = document.get("resource")
    issuers = words(document.get("authorization_servers"))
    where = f"the resource metadata at {without_secrets(url)}"
    if not isinstance(resource, str) or not is_part_of(exchange.url, resource):
        raise AuthorizationError(
            f"{where} is for {one_line(resource, 100)}, not for {without_secrets(exchange.url)}"
        )
    if not issuers:
        raise AuthorizationError(f"{where} names no authorization server")
    return _Protected(resource, issuers, document)


def _ignored(shown: str, reason: str) -> None:
    log.warning("%s: the resource metadata that the server names is ignored: %s", shown, reason)


def _own_server(exchange: Exchange, base: str, issuer: Optional[str]) -> ProtectedResource:
    """Return a server without resource metadata, which issues its own tokens."""
    if issuer is not None and not same_issuer(base, issuer):
        _other_issuer(issuer, base)
    server: Optional[dict[str, Any]] = None
    reasons = []
    is_absent = True  # whether the document is known to be missing
    for url in (base + SERVER_METADATA, base + OPENID_METADATA):
        try:
            found, reason = exchange.document(url)
        except AuthorizationError as error:
            found = None
            reason = str(error)
            is_absent = False
        if found is not None and same_issuer(found.get("issuer"), base):
            server = found
            break
        if found is not None:
            reason = f"{without_secrets(url)}: {_mismatch(found, base)}"
            is_absent = False
        reasons.append(reason)
    if server is None and not is_absent:
        raise AuthorizationError(
            f"no metadata for the authorization server {one_line(base)}: {'; '.join(reasons)}"
        )
    if server is None:
        server = {
            "issuer": base,
            "authorization_endpoint": base + "/authorize",
            "token_endpoint": base + "/token",
            "registration_endpoint": base + "/register",
            "code_challenge_methods_supported": ["S256"],
        }
    return ProtectedResource(canonical(exchange.url), str(server["issuer"]), server)


def _other_issuer(issuer: str, named: str) -> None:
    raise AuthorizationError(
        f"the credentials are for {issuer}, but the server accepts tokens from {one_line(named)}"
    )


def authorization_server(exchange: Exchange, issuer: str) -> dict[str, Any]:
    """Return the metadata of an authorization server.

    Its ``issuer`` may differ by one final slash.

    Raises:
        AuthorizationError: No document is usable; the message lists the reason for each URL.
        ConnectionLost: The request that waits for the token was aborted.
    """
    base, path = split(exchange.checked(issuer, "the issuer"))
    urls = [base + SERVER_METADATA + path, base + OPENID_METADATA + path]
    reasons = []
    for url in [*urls, base + path + OPENID_METADATA] if path else urls:
        try:
            found, reason = exchange.document(url)
        except AuthorizationError as error:
            found = None
            reason = str(error)
        if found is not None:
            if same_issuer(found.get("issuer"), issuer):
                return found
            reason = f"{without_secrets(url)}: {_mismatch(found, issuer)}"
        reasons.append(reason)
    raise AuthorizationError(
        f"no metadata for the authorization server {one_line(issuer)}: {'; '.join(reasons)}"
    )


def _mismatch(document: Mapping[str, Any], issuer: str) -> str:
    named = one_line(document.get("issuer"), 100)
    return f"the metadata of the authorization server {one_line(issuer)} names the issuer {named}"


def canonical(url: str) -> str:
    """Return the identifier of a server with this URL.

    It has no userinfo and no fragment, and its scheme and host are in lower case.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return urlunsplit((parts.scheme.lower(), host, parts.path.rstrip("/"), parts.query, ""))


def is_part_of(url: str, resource: str) -> bool:
    """Return whether an identifier covers a URL.

    It must have the same origin, and a path that is the URL's path or a parent of it.
    """
    with suppress(ValueError):
        if "#" not in resource and parse_web_url(resource) == parse_web_url(canonical(url)):
            above, path = urlsplit(resource).path.rstrip("/"), urlsplit(url).path.rstrip("/")
            return path == above or path.startswith(above + "/")
    return False
