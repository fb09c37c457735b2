"""Who protects a server, and where tokens for it come from: challenges, resource metadata,
authorization servers.

What a server says about itself is not trusted: documents are short, come soon, from no other place
than where they belong, over https (http on this machine alone), and never from a private network
unless the server is in one.
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import json
import re
import socket
from contextlib import closing, suppress
from ipaddress import ip_address
from typing import Any, Mapping, NamedTuple, Optional
from urllib.parse import urlencode, urlsplit, urlunsplit
from urllib.request import parse_http_list

from ..engine.timer import Timeout
from ..errors import AuthorizationError, ConnectionLost, McpError, one_line
from ..http.fetch import AbortableRequest, Fetcher, same_origin, without_secrets
from ..protocol.uri_template import parse_web_url
from ..protocol.versions import REVISIONS
from .bearer import RESOURCE_METADATA, check_url

# Bytes of a document, and seconds until it is there.
DOCUMENT_BYTES, DOCUMENT_SECONDS = 64 * 1024, 5.0

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
    """The authorization server's."""
    server: Mapping[str, Any]
    """The metadata of the authorization server."""
    scopes: tuple[str, ...] = ()
    """All that there are, if it says so."""
    takes_dpop_only: bool = False


class Exchange:
    """The HTTP requests by which one token is got. They end when the request that waits for it is
    aborted.

    Args:
        url: Of the server that is protected.
        verify, proxies: As `HttpServer`.
        request: What waits for the token.
    """

    def __init__(self, url: str, verify: Any, proxies: Any, request: AbortableRequest) -> None:
        self.url, self.request = url, request
        self._settings = {"verify": verify, "proxies": proxies}
        self._server = parse_web_url(url, userinfo=True)

    def checked(self, url: Any, what: str) -> str:
        """A URL that may be asked or opened. Raises AuthorizationError: it may not."""
        try:
            check_url(url, local_http=self._server.is_local)
        except (TypeError, ValueError) as error:
            raise AuthorizationError(f"{what}: {error}") from None
        return str(url)

    def _allowed(self, address: str) -> bool:
        """Whether an address may be connected to: one of a private network only by a server that is
        in one."""
        asked = _ip(address)
        if asked.is_global and not asked.is_multicast:
            return True
        own = [_ip(str(found[4][0])) for found in socket.getaddrinfo(self._server.host, None)]
        return not any(each.is_global for each in own) and (
            not asked.is_link_local or any(each.is_link_local for each in own)
        )

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Optional[bytes] = None,
        *,
        named: bool = False,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request and read its response: status, headers and body. Redirects are not
        followed.

        Args:
            method: In capitals.
            url: Absolute; `checked`, or named by the user.
            headers: Of the request.
            body: None sends none.
            named: Whether the user named the URL, so that its address is not looked at.

        Raises:
            AuthorizationError: It failed, took longer than `DOCUMENT_SECONDS`, or is longer than
                `DOCUMENT_BYTES`.
            ConnectionLost: The request that waits was aborted.
        """
        outer, http = self.request, AbortableRequest(allowed=None if named else self._allowed)
        fetcher = Fetcher(url, redirects=False, **self._settings)
        timeout = Timeout(DOCUMENT_SECONDS, http.abort)
        outer.first = http
        try:
            if outer.aborted.is_set():
                raise ConnectionLost("given up")
            with closing(fetcher.send(http, method, headers, body)) as response:
                return response.status, response.headers, response.body(DOCUMENT_BYTES)
        except McpError as error:
            if outer.aborted.is_set():
                raise ConnectionLost(
                    f"{without_secrets(url)}: given up before there was a token"
                ) from None
            late = f" (no answer within {DOCUMENT_SECONDS:g} s)" if http.aborted.is_set() else ""
            raise AuthorizationError(f"{error}{late}") from error
        finally:
            timeout.stop()
            outer.first = None
            fetcher.close()

    def document(self, url: str, *, named: bool = False) -> tuple[Optional[dict[str, Any]], str]:
        """The JSON object at a URL, or None and why there is none. Raises AuthorizationError: as
        `ask`, and for 5xx."""
        headers = {"Accept": "application/json", "MCP-Protocol-Version": REVISIONS[-1].name}
        status, _, body = self.ask("GET", url, headers, named=named)
        if status >= 500:
            raise AuthorizationError(f"GET {without_secrets(url)}: HTTP {status}")
        found = json_object(body) if status == 200 else None
        why = f"HTTP {status}" if status != 200 else "no JSON object"
        return found, f"{without_secrets(url)}: {why}"

    def post(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str], *, named: bool = False
    ) -> tuple[int, Mapping[str, str], dict[str, Any]]:
        """Send a form; the status, the headers and the JSON object that came, empty when it was
        none. As `ask`."""
        given = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            **headers,
        }
        status, answered, body = self.ask("POST", url, given, urlencode(form).encode(), named=named)
        return status, answered, json_object(body) or {}


def _ip(address: str) -> Any:
    """An address without its zone; one of IPv4 in the form of IPv6 is one of IPv4."""
    found: Any = ip_address(address.partition("%")[0])
    return getattr(found, "ipv4_mapped", None) or found


def json_object(body: bytes) -> Optional[dict[str, Any]]:
    """The object that a document is; None where it is none."""
    with suppress(ValueError, RecursionError):
        found = json.loads(body)
        return found if isinstance(found, dict) else None
    return None


def refusal(status: int, answer: Mapping[str, Any]) -> str:
    """What the error response of an authorization server says."""
    error, told = answer.get("error"), answer.get("error_description")
    text = one_line(error, 100) if isinstance(error, str) else f"HTTP {status}"
    return text + (f": {one_line(told)}" if isinstance(told, str) else "")


def words(value: Any) -> tuple[str, ...]:
    """The scopes in a string, or the strings in a list; none in anything else."""
    found = value.split(" ") if isinstance(value, str) else value if isinstance(value, list) else ()
    return tuple(each for each in found if isinstance(each, str) and each)


# ------------------------------------------------------------ documents


def discover(
    exchange: Exchange, challenge: Optional[Mapping[str, str]], issuer: Optional[str] = None
) -> Place:
    """Find out who issues tokens for a server.

    Args:
        exchange: By which documents are asked for.
        challenge: The parameters of the server's challenge; None when it has not asked for a token.
        issuer: The one to choose of several; None takes the first.

    Raises:
        AuthorizationError: The documents are missing, wrong or somewhere they must not be.
        ConnectionLost: It was given up.
    """
    base, path = split(exchange.url)
    named = (challenge or {}).get("resource_metadata")
    if named is None:
        probed = (
            [base + RESOURCE_METADATA + path, base + RESOURCE_METADATA]
            if path
            else [base + RESOURCE_METADATA]
        )
    else:
        url = same_origin(exchange.url, named)
        if url is None:
            raise AuthorizationError(
                f"the server names resource metadata of another origin: '{one_line(named)}'"
            )
        probed = [url]
    for url in probed:
        found, why = exchange.document(url)
        if found is not None:
            return _protected(exchange, url, found, issuer)
        if named is not None:
            raise AuthorizationError(
                f"the resource metadata that the server names is not there: {why}"
            )
    if challenge is None:
        raise AuthorizationError(f"{without_secrets(exchange.url)} asks for no token")
    # the procedure of 2025-03-26: the server is its own authorization server
    server, _ = exchange.document(base + SERVER_METADATA)
    if server is None:
        server = {
            "authorization_endpoint": base + "/authorize",
            "token_endpoint": base + "/token",
            "registration_endpoint": base + "/register",
            "code_challenge_methods_supported": ["S256"],
        }
    elif server.get("issuer") != base:
        _mismatch(server, base)
    return Place(canonical(exchange.url), base, server)


def _protected(
    exchange: Exchange, url: str, document: Mapping[str, Any], issuer: Optional[str]
) -> Place:
    resource, issuers = document.get("resource"), words(document.get("authorization_servers"))
    if not isinstance(resource, str) or not is_part_of(exchange.url, resource):
        told = f"is for {one_line(resource, 100)}, not for {without_secrets(exchange.url)}"
        raise AuthorizationError(f"the resource metadata at {without_secrets(url)} {told}")
    if not issuers:
        raise AuthorizationError(
            f"the resource metadata at {without_secrets(url)} names no authorization server"
        )
    if issuer is not None and issuer not in issuers:
        named = one_line(", ".join(issuers))
        raise AuthorizationError(
            f"the credentials are for {issuer}, and the server takes tokens of {named}"
        )
    chosen = issuer or issuers[0]
    return Place(
        resource,
        chosen,
        authorization_server(exchange, chosen),
        words(document.get("scopes_supported")),
        document.get("dpop_bound_access_tokens_required") is True,
    )


def authorization_server(exchange: Exchange, issuer: str) -> dict[str, Any]:
    """The metadata of an authorization server. Raises AuthorizationError: there is none, or it is
    another one's."""
    base, path = split(exchange.checked(issuer, "the issuer"))
    urls = [base + SERVER_METADATA + path, base + OPENID_METADATA + path]
    reasons = []
    for url in [*urls, base + path + OPENID_METADATA] if path else urls:
        found, why = exchange.document(url)
        if found is not None:
            if found.get("issuer") != issuer:
                _mismatch(found, issuer)
            return found
        reasons.append(why)
    raise AuthorizationError(
        f"no metadata of the authorization server {one_line(issuer)}: {'; '.join(reasons)}"
    )


def _mismatch(document: Mapping[str, Any], issuer: str) -> None:
    told = f"says that it is {one_line(document.get('issuer'), 100)}"
    raise AuthorizationError(f"the metadata of the authorization server {one_line(issuer)} {told}")


def split(url: str) -> tuple[str, str]:
    """Origin and path of a URL, the path without a slash at its end."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.rstrip("/")


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
