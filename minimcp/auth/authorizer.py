"""The token of one server: kept, renewed, stepped up and sent by `Authorizer`, however it is got.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, Iterator, Mapping, Optional

from ..engine.pool import renewed_in_fork
from ..engine.timer import Deadline
from ..errors import AuthorizationError, ConnectionLost, McpError, describe, logger, one_line
from ..http.client import POST_HEADERS
from ..http.fetch import AbortableRequest, without_secrets
from ..protocol.messages import Request, encode
from .discovery import Exchange, Place, authorization_server, canonical, challenges, discover, words
from .dpop import ProofKey
from .store import Store
from .tokens import Token, TokenRefused, refreshed

log = logger("minimcp.auth")

# How often who waits for another thread's token looks whether it is given up.
LOOK_SECONDS = 0.2

# What another process gets to renew a token, where no person is asked.
RENEW_SECONDS = 60.0


class Grant:
    """A way to get tokens; `connect` takes one as ``auth``. Thread-safe: one for any number of
    connections.

    Args:
        store: Where tokens are kept.
        scopes: What to ask for beside what the server names.
        issuer: The authorization server that the credentials are for; None takes the one that the
            server names.
    """

    # Seconds that a person gets, while the clock of a call stands; None where no person is asked.
    seconds: Optional[float] = None
    # Whether there may be a token where none is stored.
    can_obtain = True
    # Whether the credentials are those of one authorization server.
    has_fixed_credentials = True

    def __init__(self, store: Store, scopes: Any = (), issuer: Optional[str] = None) -> None:
        if isinstance(scopes, str) or not all(isinstance(each, str) for each in scopes):
            raise TypeError("scopes is a sequence of str")
        self.store, self.scopes, self.issuer = store, tuple(scopes), issuer
        self._authorizers: dict[str, Authorizer] = {}

    def for_server(self, url: str, *, verify: Any = True, proxies: Any = None) -> Authorizer:
        """What gets tokens for one server: the same for all of its connections."""
        key = f"{url} {verify} {sorted((proxies or {}).items())}"
        return self._authorizers.setdefault(key, Authorizer(self, url, verify, proxies))

    def obtain(
        self, exchange: Exchange, place: Place, scopes: tuple[str, ...], key: Optional[ProofKey]
    ) -> Token:
        """Get a token. Raises AuthorizationError: none is to be had."""
        raise NotImplementedError


class Authorizer:
    """Sends the token of one server with each request, and gets another one when the server wants
    that.

    One thread gets it, and the others wait; so do other processes where the store has a lock.

    Args:
        grant: The way to get one.
        url: Of the server.
        verify, proxies: As `HttpServer`.
    """

    def __init__(self, grant: Grant, url: str, verify: Any = True, proxies: Any = None) -> None:
        self._grant, self._url, self._verify, self._proxies = grant, url, verify, proxies
        self._key = canonical(url)
        self._token: Optional[Token] = None
        self._proof: Optional[ProofKey] = None
        # The token that was just got, until the server has taken it; it is not renewed when it is
        # refused.
        self._untried: Optional[str] = None
        # Scopes that were asked for in vain.
        self._asked: set[str] = set()
        self._is_loaded = False
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Who holds the lock is in another process."""
        self._lock = threading.RLock()

    # ------------------------------------------------------------ for each request

    def authorize(self, method: str, url: str, request: AbortableRequest) -> dict[str, str]:
        """The headers that prove who asks, of one request.

        Args:
            method: Of the request.
            url: Where it goes.
            request: By which it is aborted.

        Raises:
            AuthorizationError: The store cannot be read.
            ConnectionLost: The request was aborted while another thread got the token.
        """
        is_loaded, token = self._is_loaded, self._token  # once: another thread may replace it
        if not is_loaded or (token is not None and token.is_old):
            with self._alone(request):
                self._load()
                if self._token is not None and self._token.is_old and self._token.refresh_token:
                    with suppress(
                        AuthorizationError
                    ):  # the server's answer is asked for; then it is got anew
                        self._refresh(self._exchange(request))
                token = self._token
        if token is None:
            return {}
        if token.proof_key is None:
            return {"Authorization": f"Bearer {token.access_token}"}
        proof = self._proof_of(token)
        return {
            "Authorization": f"DPoP {token.access_token}",
            "DPoP": proof.proof(method, url, token.access_token),
        }

    def answered(
        self,
        status: int,
        headers: Mapping[str, str],
        sent: Mapping[str, str],
        request: AbortableRequest,
    ) -> bool:
        """Look at the head of a response; whether the request is to be sent again, because there is
        another token.

        Args:
            status: Of the response.
            headers: Of the response.
            sent: What `authorize` gave for the request.
            request: By which the request is aborted.

        Raises:
            AuthorizationError: The server wants a token, and none is to be had.
            ConnectionLost: The request was aborted.
        """
        token, proof = sent.get("Authorization", " ").split(" ", 1)[1], self._proof
        has_nonce = proof is not None and proof.note(self._url, headers)
        if status not in (401, 403):
            if token and token == self._untried:
                self._untried = None
            return False
        asked, challenge, dpop_only = _asked(headers)
        error = asked.get("dpop", {}).get("error") or challenge.get("error")
        if status == 401 and error == "use_dpop_nonce":
            return has_nonce
        if status == 401 and (self._grant.can_obtain or self._token is not None):
            return token != self._untried and self._renew(
                challenge, token, request, dpop_only=dpop_only
            )
        more = words(challenge.get("scope")) if error == "insufficient_scope" else ()
        return bool(more) and self._renew(challenge, token, request, more=more)

    # ------------------------------------------------------------ getting a token

    def _renew(
        self,
        challenge: Optional[Mapping[str, str]],
        sent: str,
        request: AbortableRequest,
        *,
        dpop_only: bool = False,
        anew: bool = False,
        more: tuple[str, ...] = (),
    ) -> bool:
        """Get another token than the one that was refused; whether there is one.

        Args:
            challenge: Of the response; None where it was none that wants a token.
            sent: The token that was refused.
            request: By which the request is aborted.
            dpop_only: Whether the server takes only tokens that are bound to a key.
            anew: Leave out what may be there or refreshed.
            more: Scopes that the token lacks; they are asked for once.
        """
        with self._alone(request):
            self._load()
            token, before = self._token, tuple[str, ...]()
            if token is not None and token.access_token != sent and not anew:
                return True  # another thread or process got it
            if more and self._asked.issuperset(more):
                return False
            exchange = self._exchange(request)
            place = discover(exchange, challenge, self._grant.issuer)
            self._asked.update(more)
            if token is not None and token.issuer == place.issuer:
                before, dpop_only = token.scopes, dpop_only or token.proof_key is not None
                is_renewable = (
                    token.refresh_token and token.resource == place.resource and not (anew or more)
                )
                if is_renewable and self._refresh(exchange, place):
                    return True
            elif token is not None:
                if self._grant.has_fixed_credentials:
                    told = f"the server takes tokens of {one_line(place.issuer)} now"
                    raise AuthorizationError(
                        f"{told}, and the credentials are for {one_line(token.issuer)}"
                    )
                self._keep(None)
            scopes = (
                more or words((challenge or {}).get("scope")) or self._grant.scopes or place.scopes
            )
            wanted = (*before, *scopes, *self._grant.scopes)
            try:
                self._obtain(exchange, place, wanted, dpop_only or place.takes_dpop_only)
            except BaseException as error:
                if not isinstance(error, AuthorizationError):  # it was given up, and not in vain
                    self._asked.difference_update(more)
                raise
            return True

    def _obtain(
        self, exchange: Exchange, place: Place, scopes: tuple[str, ...], is_bound: bool
    ) -> None:
        grant = self._grant
        try:
            with self._clock_stands(exchange.request):
                key = ProofKey() if is_bound else None
                token = grant.obtain(exchange, place, tuple(dict.fromkeys(scopes)), key)
        except McpError:
            raise
        except Exception as error:  # of a hook, or of an object of the user's
            raise AuthorizationError(f"{without_secrets(self._url)}: {describe(error)}") from error
        self._untried = token.access_token
        self._keep(token, key)

    def _refresh(self, exchange: Exchange, place: Optional[Place] = None) -> bool:
        """Get a token by the refresh token; whether there is one. Raises AuthorizationError: nobody
        knows."""
        token = self._token
        assert token is not None
        place = place or Place(
            token.resource, token.issuer, authorization_server(exchange, token.issuer)
        )
        key = None if token.proof_key is None else self._proof_of(token)
        try:
            self._keep(refreshed(exchange, place, token, key), key)
        except TokenRefused as refusal:
            if not refusal.error:  # its server has a fault: it may take the refresh token later
                raise
            log.debug("%s: the refresh token is not taken: %s", without_secrets(self._url), refusal)
            self._keep(replace(token, refresh_token=None))
            return False
        return True

    # ------------------------------------------------------------ keeping it

    def _proof_of(self, token: Token) -> ProofKey:
        proof = self._proof
        if proof is None or proof.pem != token.proof_key:
            proof = self._proof = ProofKey(token.proof_key)
        return proof

    def _exchange(self, request: AbortableRequest) -> Exchange:
        return Exchange(self._url, self._verify, self._proxies, request)

    def _load(self) -> None:
        """Take what another process may have got since."""
        pointer = self._grant.store.get(f"server {self._key}")
        record = None
        if isinstance(pointer, dict):
            record = self._grant.store.get(
                f"token {pointer.get('issuer')} {pointer.get('resource')}"
            )
        self._token, self._is_loaded = Token.from_record(record), True

    def _keep(self, token: Optional[Token], proof: Optional[ProofKey] = None) -> None:
        before, store = self._token, self._grant.store
        if token is None and before is not None:
            store.put(f"token {before.issuer} {before.resource}", None)
        elif token is not None:
            store.put(f"token {token.issuer} {token.resource}", token.to_record())
            store.put(f"server {self._key}", {"issuer": token.issuer, "resource": token.resource})
            self._proof = proof or self._proof
        self._token = token

    @contextmanager
    def _alone(self, request: AbortableRequest) -> Iterator[None]:
        """No other thread, and no other process with this store, gets a token for this server
        meanwhile."""
        with self._clock_stands(request):
            while not self._lock.acquire(timeout=LOOK_SECONDS):
                if request.aborted.is_set():
                    raise ConnectionLost(
                        f"{without_secrets(self._url)}: given up while another thread got a token"
                    )
        try:
            with self._alone_among_processes(request):
                yield
        finally:
            self._lock.release()

    def _alone_among_processes(self, request: AbortableRequest) -> Any:
        """The lock of the store, held; a context manager.

        Raises:
            AuthorizationError: There can be no lock, or another process has it for too long.
            ConnectionLost: The request was aborted meanwhile.

        Blocks: until no other process has it; whether the request was aborted is looked at every
        `LOOK_SECONDS`.
        """
        lock, limit = (
            getattr(self._grant.store, "lock", None),
            Deadline(self._grant.seconds or RENEW_SECONDS),
        )
        held = ExitStack()
        while lock is not None:
            look = limit.within(LOOK_SECONDS)
            try:
                held.enter_context(lock(f"server {self._key}", look.seconds))
                break
            except AuthorizationError as error:
                if not look.expired:  # there can be no lock
                    raise
                if request.aborted.is_set():
                    told = (
                        f"{without_secrets(self._url)}: given up while another process got a token"
                    )
                    raise ConnectionLost(told) from None
                if limit.expired:
                    told = f"another process has been getting a token for {limit.seconds:g} s"
                    raise AuthorizationError(f"{without_secrets(self._url)}: {told}") from error
        return held

    @contextmanager
    def _clock_stands(self, request: AbortableRequest) -> Iterator[None]:
        """While a person may be asked, the deadline of who waits for the token is paused."""
        if self._grant.seconds is None:
            yield
            return
        request.deadline.pause()
        try:
            yield
        finally:
            request.deadline.resume()

    # ------------------------------------------------------------ for the command line

    def sign_in(self) -> dict[str, Any]:
        """Get a token though no call has asked for one; as `known`. Errors as `answered`."""
        request = AbortableRequest()
        body = encode(Request(1, "ping", {}))
        status, headers, _ = self._exchange(request).ask(
            "POST", self._url, POST_HEADERS, body, named=True
        )
        _, challenge, dpop_only = _asked(headers if status == 401 else {})
        self._renew(
            challenge if status == 401 else None, "", request, dpop_only=dpop_only, anew=True
        )
        return self.known() or {}

    def known(self) -> Optional[dict[str, Any]]:
        """What is known of the token in the store, without secrets; None where there is none."""
        self._load()
        token = self._token
        if token is None:
            return None
        shown = {
            name: getattr(token, name) for name in ("issuer", "resource", "client_id", "expires_at")
        }
        return {
            **shown,
            "scopes": list(token.scopes),
            "can_be_refreshed": token.refresh_token is not None,
        }

    def sign_out(self) -> bool:
        """Forget the token, and have it revoked if the authorization server can; whether there was
        one."""
        request = AbortableRequest()
        with self._alone(request):
            self._load()
            token = self._token
            if token is None:
                return False
            self._keep(None)
            self._grant.store.put(f"server {self._key}", None)
        with suppress(McpError):  # it ends by itself, too
            exchange = self._exchange(request)
            place = Place(
                token.resource, token.issuer, authorization_server(exchange, token.issuer)
            )
            url = place.server.get("revocation_endpoint")
            if url is not None:
                headers, proof = token.credentials.prove(place.server)
                form = {"token": token.refresh_token or token.access_token, **proof}
                exchange.post(exchange.checked(url, "the revocation endpoint"), form, headers)
        return True


def _asked(
    headers: Mapping[str, str],
) -> tuple[Mapping[str, Mapping[str, str]], Mapping[str, str], bool]:
    """The challenges of a response, the one that counts, and whether only tokens that are bound to
    a key are taken."""
    asked = challenges(headers.get("WWW-Authenticate", ""))
    return (
        asked,
        asked.get("bearer") or asked.get("dpop") or {},
        "dpop" in asked and "bearer" not in asked,
    )
