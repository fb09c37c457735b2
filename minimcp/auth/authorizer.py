"""The access token of a server: an `Authorizer` loads, sends, renews and stores it, and a `Grant`
obtains it.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, Iterator, Mapping, Optional

from ..engine.timer import Deadline
from ..errors import AuthorizationError, ConnectionLost, McpError
from ..http.client import POST_HEADERS
from ..http.fetch import AbortableRequest, without_secrets
from ..log import logger
from ..protocol.messages import Request, encode
from ..protocol.urls import parse_web_url
from ..text import describe, one_line
from .discovery import (
    TOKEN_SECONDS,
    Exchange,
    ProtectedResource,
    authorization_server,
    canonical,
    challenges,
    discover,
    issuer_key,
    same_issuer,
    words,
)
from .dpop import ProofKey
from .shared import check_url
from .store import TokenMemory, TokenStore
from .tokens import Token, TokenRefused, refreshed

log = logger("minimcp.auth")

# Interval at which a thread that waits for another one checks whether its own call was aborted.
POLL_SECONDS = 0.2

# How long another process may take to renew a token without asking a person.
RENEW_SECONDS = 60.0

# The default settings of a connection; see `Fetcher.settings`.
NO_SETTINGS: Mapping[str, Any] = {"verify": None, "proxies": None}


class Grant:
    """A way to obtain tokens, for ``connect(auth=)``.

    One object may be used for any number of connections. Thread-safe.

    Args:
        store: The token store; None means a new `TokenMemory`.
        scopes: Scopes to request in addition to the ones in the challenge.
        issuer: The URL of the authorization server that the credentials are for; None means the one
            that the server names.

    Raises:
        TypeError: ``scopes`` is not a sequence of str, or the issuer is not a str.
        ValueError: The issuer is not an https URL (or http on this machine).
    """

    # Seconds that a person has to sign in, while the call's deadline is paused. None if no person
    # is asked.
    seconds: Optional[float] = None
    # Whether a token can be obtained if none is stored.
    can_obtain = True
    # Whether a stored token is sent with the first request. Otherwise the store is not read before
    # the server returns 401.
    loads_early = True
    # Whether the credentials are those of one authorization server.
    has_fixed_credentials = True

    def __init__(
        self, store: Optional[TokenStore], scopes: Any = (), issuer: Optional[str] = None
    ) -> None:
        if isinstance(scopes, str) or not all(isinstance(each, str) for each in scopes):
            raise TypeError("scopes must be a sequence of str")
        if issuer is not None:
            check_url(issuer)
        self.store: TokenStore = TokenMemory() if store is None else store
        self.scopes = tuple(scopes)
        self.issuer = issuer
        self._authorizers: dict[str, Authorizer] = {}

    def for_server(self, url: str) -> Authorizer:
        """Return the object that authorizes requests to a server; all connections share it.

        Raises:
            ValueError: The URL is neither https nor on this machine, so others could read the token
                on the network.
        """
        parts = parse_web_url(url, userinfo=True)
        if parts.scheme != "https" and not parts.is_local:
            raise ValueError(
                "tokens are sent only over https, or to this machine: write https:// instead of "
                f"{without_secrets(url)}"
            )
        return self._authorizers.setdefault(url, Authorizer(self, url))

    def obtain(
        self,
        exchange: Exchange,
        target: ProtectedResource,
        scopes: tuple[str, ...],
        key: Optional[ProofKey],
    ) -> Token:
        """Obtain a token.

        Raises:
            AuthorizationError: No token could be obtained.
        """
        raise NotImplementedError

    def forget_client(self, issuer: str, client_id: Optional[str] = None) -> bool:
        """Delete the stored registrations of this program at an authorization server.

        Args:
            issuer: The authorization server.
            client_id: The id of the registration to delete; if None, all are deleted.

        Returns:
            Whether there was a registration. Only `SignIn` registers clients.
        """
        return False


class Authorizer:
    """The token of one server, which is added to each request and renewed when necessary.

    Only one thread at a time renews the token, and only one process if the store has a lock.
    Thread-safe.

    Args:
        grant: The way to obtain a token.
        url: The URL of the server.
    """

    def __init__(self, grant: Grant, url: str) -> None:
        self._grant = grant
        self._url = url
        self._shown = without_secrets(url)
        self._key = canonical(url)
        self._token: Optional[Token] = None
        self._proof: Optional[ProofKey] = None
        # The token that was obtained last, until the server accepts it. If the server rejects it,
        # it is not renewed once more for the same request.
        self._untried: Optional[str] = None
        # Scopes that were requested because a token lacked them. They are not requested again.
        self._requested: set[str] = set()
        self.is_loaded = False
        # Address of the connection over which the server asked for a token; empty before that.
        self._address = ""
        # The error of the store if it could not store the newest token, which is kept in memory.
        self._store_error: Optional[Exception] = None
        # Not an RLock, because a refresh whose caller was aborted releases it on another thread.
        self._lock = threading.Lock()
        self._owner: Optional[int] = None

    @property
    def access_token(self) -> str:
        """The current token; empty if there is none."""
        token = self._token
        return "" if token is None else token.access_token

    # ------------------------------------------------------------ for each request

    def authorize(
        self,
        method: str,
        url: str,
        request: AbortableRequest,
        settings: Mapping[str, Any] = NO_SETTINGS,
    ) -> dict[str, str]:
        """Return the headers that authorize one request.

        Args:
            method: The method of the request.
            url: The URL of the request.
            request: The request, which another thread may abort.
            settings: The settings of its connection; see `Fetcher.settings`.

        Raises:
            ConnectionLost: The request was aborted while another thread renewed the token.
        """
        # Read the attributes once, because another thread may replace them.
        is_loaded, token = self.is_loaded, self._token
        if not is_loaded and self._grant.loads_early:
            token = self._loaded(request)
        if token is not None and token.is_old and token.refresh_token:
            token = self._renewed_early(request, settings)
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
        settings: Mapping[str, Any] = NO_SETTINGS,
    ) -> bool:
        """Process the head of a response. If the server requires another token, obtain one.

        Args:
            status: The status of the response.
            headers: The headers of the response.
            sent: The headers that `authorize` returned for the request.
            request: The request, which another thread may abort.
            settings: The settings of its connection; see `Fetcher.settings`.

        Returns:
            Whether to send the request again with another token.

        Raises:
            AuthorizationError: The server requires a token and none could be obtained, or the
                stored tokens cannot be read.
            ConnectionLost: The request was aborted.
        """
        token = sent.get("Authorization", " ").split(" ", 1)[1]
        proof = self._proof
        has_nonce = proof is not None and proof.note(self._url, headers)
        if status not in (401, 403):
            if token and token == self._untried:
                self._untried = None
            return False
        by_scheme, challenge, dpop_only = _challenges(headers)
        error = by_scheme.get("dpop", {}).get("error") or challenge.get("error")
        if status == 401 and error == "use_dpop_nonce":
            return has_nonce
        if status == 401 and token == self._untried:
            self._untried = None  # this request fails, and the next one may obtain another token
            return False
        if status == 401:
            return self._renew(challenge, token, request, settings, dpop_only=dpop_only)
        more = words(challenge.get("scope")) if error == "insufficient_scope" else ()
        return bool(more) and self._renew(challenge, token, request, settings, more=more)

    # ------------------------------------------------------------ obtaining a token

    def _loaded(self, request: AbortableRequest) -> Optional[Token]:
        """Return the stored token, before the server has required one."""
        with self._alone(request):
            try:
                if not self.is_loaded:
                    self._load()
            except AuthorizationError as error:  # reported if the server requires a token
                log.debug("%s: %s", self._shown, error)
            return self._token

    def _renewed_early(
        self, request: AbortableRequest, settings: Mapping[str, Any]
    ) -> Optional[Token]:
        """Renew a token that expires soon. Return the old token if it cannot be renewed."""
        try:
            with self._alone(request) as held:
                held.enter_context(self._alone_among_processes(request))
                self._load()
                token = self._token
                if token is not None and token.is_old and token.refresh_token:
                    self._refresh(held, self._exchange(request, settings, self._address))
        except AuthorizationError as error:  # raised again if the server rejects the old token
            log.debug("%s: the token could not be refreshed: %s", self._shown, error)
        return self._token

    def _renew(
        self,
        challenge: Optional[Mapping[str, str]],
        sent: str,
        request: AbortableRequest,
        settings: Mapping[str, Any],
        *,
        dpop_only: bool = False,
        start_over: bool = False,
        more: tuple[str, ...] = (),
    ) -> bool:
        """Obtain a token other than the one that was rejected.

        Args:
            challenge: The challenge of the response; None if the server has not required a token.
            sent: The token that was rejected.
            request: The request, which another thread may abort.
            settings: The settings of its connection.
            dpop_only: Whether the server accepts only tokens that are bound to a key.
            start_over: Whether to use no stored token, no refresh token and no registration.
            more: Scopes that the token lacks; they are requested once.

        Returns:
            Whether there is another token.
        """
        with self._alone(request) as held:
            try:
                # Reading needs no lock between processes, so the folder may be read-only.
                self._load()
            except AuthorizationError as error:
                raise AuthorizationError(
                    f"{self._shown}: the server requires a token, and the stored tokens cannot "
                    f"be used: {error}"
                ) from error
            if self._has_other(sent) and not start_over:
                return True  # the token is a stored one, or another thread has obtained it
            if self._token is None and not self._grant.can_obtain:
                return False
            held.enter_context(self._alone_among_processes(request))
            self._load()
            if self._has_other(sent) and not start_over:
                return True  # another process has obtained the token
            if more and self._requested.issuperset(more):
                return False
            exchange = self._exchange(request, settings, request.address)
            target = discover(exchange, challenge, self._grant.issuer)
            self._requested.update(more)
            self._address = request.address
            token = self._token
            old_scopes = tuple[str, ...]()
            if token is not None and same_issuer(token.issuer, target.issuer):
                old_scopes = token.scopes
                dpop_only = dpop_only or token.proof_key is not None
                is_renewable = token.refresh_token and token.resource == target.resource
                is_renewable = is_renewable and not start_over and not more
                if is_renewable and self._refresh(held, exchange, target):
                    return True
            elif token is not None:
                if self._grant.has_fixed_credentials:
                    raise AuthorizationError(
                        f"the server now accepts tokens from {one_line(target.issuer)}, but the "
                        f"credentials are for {one_line(token.issuer)}"
                    )
                self._keep(None)
            named = words((challenge or {}).get("scope"))
            scopes = more or named or self._grant.scopes or target.scopes
            if start_over:
                self._forget_client(target.issuer)
            # Stored before the person signs in, so that `sign_out` always finds the registration.
            self._put(f"server {self._key}", {"issuer": target.issuer, "resource": target.resource})
            if start_over:
                self._check_stored()  # before a person signs in
            try:
                self._obtain(
                    exchange,
                    target,
                    (*old_scopes, *scopes, *self._grant.scopes),
                    dpop_only or target.takes_dpop_only,
                )
            except BaseException as error:
                if not isinstance(error, AuthorizationError):
                    # The request was aborted, so the scopes may be requested again.
                    self._requested.difference_update(more)
                raise
            return True

    def _has_other(self, sent: str) -> bool:
        return self._token is not None and self._token.access_token != sent

    def _obtain(
        self, exchange: Exchange, target: ProtectedResource, scopes: tuple[str, ...], is_bound: bool
    ) -> None:
        grant = self._grant
        try:
            with self._deadline_paused(exchange.request):
                key = ProofKey() if is_bound else None
                token = grant.obtain(exchange, target, tuple(dict.fromkeys(scopes)), key)
        except McpError:
            raise
        except Exception as error:  # raised by a callback of the user
            raise AuthorizationError(f"{self._shown}: {describe(error)}") from error
        self._untried = token.access_token
        self._keep(token, key)

    def _refresh(
        self, held: ExitStack, exchange: Exchange, target: Optional[ProtectedResource] = None
    ) -> bool:
        """Exchange the refresh token for a new token.

        The server may replace the refresh token, and then only the response has the new one. So a
        separate thread sends the request and stores the response, even if the caller is aborted.

        Args:
            held: The locks, which are released when the response is stored.
            exchange: The requests of the caller.
            target: The server and its authorization server; None means the token's own issuer.

        Returns:
            False if the authorization server rejected the refresh token, which is then deleted.

        Raises:
            AuthorizationError: There was no response, or the server failed. The refresh token may
                be accepted later.
            ConnectionLost: The caller was aborted.
        """
        token = self._token
        assert token is not None
        found = target or ProtectedResource(
            token.resource, token.issuer, authorization_server(exchange, token.issuer)
        )
        key = None if token.proof_key is None else self._proof_of(token)
        outcome: Future[bool] = Future()

        def send() -> None:
            try:
                outcome.set_result(self._exchange_refresh_token(exchange, found, token, key))
            except BaseException as error:
                outcome.set_exception(error)

        if exchange.request.aborted.is_set():
            raise ConnectionLost(f"{self._shown}: aborted before the token was refreshed")
        # Not a daemon thread, so that the process does not exit before the response is stored. That
        # takes at most `TOKEN_SECONDS`.
        sender = threading.Thread(target=send, name="minimcp-refresh", daemon=False)
        try:
            try:
                sender.start()
            except RuntimeError:  # the system cannot start a thread
                send()
            while not wait([outcome], POLL_SECONDS).done:
                if exchange.request.aborted.is_set():
                    raise ConnectionLost(f"{self._shown}: aborted while the token was refreshed")
        except BaseException:
            if sender.is_alive():
                rest = held.pop_all()
                outcome.add_done_callback(lambda _: rest.close())
            raise
        return outcome.result()

    def _exchange_refresh_token(
        self, exchange: Exchange, target: ProtectedResource, token: Token, key: Optional[ProofKey]
    ) -> bool:
        try:
            self._keep(refreshed(exchange.detached(), target, token, key), key)
            return True
        except TokenRefused as refusal:
            if not refusal.is_final:
                raise
            log.debug("%s: the refresh token was rejected: %s", self._shown, refusal)
            if refusal.error == "invalid_client":
                self._forget_client(token.issuer, token.client_id)
            self._keep(replace(token, refresh_token=None))
            return False

    # ------------------------------------------------------------ storing it

    def _proof_of(self, token: Token) -> ProofKey:
        proof = self._proof
        if proof is None or proof.pem != token.proof_key:
            proof = self._proof = ProofKey(token.proof_key)
        return proof

    def _exchange(
        self, request: AbortableRequest, settings: Mapping[str, Any], address: str = ""
    ) -> Exchange:
        return Exchange(self._url, request=request, address=address, **settings)

    def _get(self, key: str) -> Any:
        try:
            return self._grant.store.get(key)
        except AuthorizationError:
            raise
        except Exception as error:  # raised by a store of the user
            raise AuthorizationError(f"the token store failed: {describe(error)}") from error

    def _load(self) -> None:
        """Load the stored token, which another process may have renewed."""
        if self._store_error is None or self._token is None:
            pointer = self._get(f"server {self._key}")
            record = None
            if isinstance(pointer, dict):
                record = self._get(_token_key(pointer.get("issuer"), pointer.get("resource")))
            self._token = Token.from_record(record)
        self.is_loaded = True

    def _keep(self, token: Optional[Token], proof: Optional[ProofKey] = None) -> None:
        """Use this token from now on, and store it. If it is None, delete the current one.

        A token that cannot be stored, for example because the disk is full, is still used, because
        the previous refresh token may no longer be valid.
        """
        before = self._token
        self._token = token
        self._store_error = None
        if token is None and before is not None:
            self._put(_token_key(before.issuer, before.resource), None)
        elif token is not None:
            self._proof = proof or self._proof
            self._put(_token_key(token.issuer, token.resource), token.to_record())
            self._put(f"server {self._key}", {"issuer": token.issuer, "resource": token.resource})

    def _put(self, key: str, value: Optional[dict[str, Any]]) -> None:
        try:
            self._grant.store.put(key, value)
        except Exception as error:  # a store of the user may raise anything
            self._store_error = error
            log.warning(
                "%s: the token could not be stored, and is lost when this process exits: %s",
                self._shown,
                describe(error),
            )

    def _forget_client(self, issuer: str, client_id: Optional[str] = None) -> bool:
        try:
            return self._grant.forget_client(issuer, client_id)
        except Exception as error:  # a store of the user may raise anything
            self._store_error = error
            log.warning(
                "%s: the registration could not be deleted: %s", self._shown, describe(error)
            )
            return False

    @contextmanager
    def _alone(self, request: AbortableRequest) -> Iterator[ExitStack]:
        """Exclude other threads from changing the token of this server.

        Yields:
            The locks that are held. The caller can add locks, and `_refresh` may take them over.
        """
        if self._owner == threading.get_ident():  # a callback or signal handler calls the server
            with ExitStack() as held:
                yield held
            return
        with ExitStack() as held:
            with self._deadline_paused(request):
                while not self._lock.acquire(timeout=POLL_SECONDS):
                    if request.aborted.is_set():
                        raise ConnectionLost(
                            f"{self._shown}: aborted while another thread obtained a token"
                        )
            held.callback(self._lock.release)
            self._owner = threading.get_ident()
            try:
                yield held
            finally:
                self._owner = None

    @contextmanager
    def _alone_among_processes(self, request: AbortableRequest) -> Iterator[None]:
        """Hold the lock of the store, if it has one. Blocks while another process holds it.

        Raises:
            AuthorizationError: The lock cannot be created, or another process holds it too long.
            ConnectionLost: The request was aborted.
        """
        lock = getattr(self._grant.store, "lock", None)
        limit = Deadline(self._grant.seconds or RENEW_SECONDS)
        with ExitStack() as held:
            with self._deadline_paused(request):
                while lock is not None:
                    attempt = limit.within(POLL_SECONDS)
                    try:
                        held.enter_context(lock(f"server {self._key}", attempt.seconds))
                        break
                    except AuthorizationError as error:
                        if not attempt.expired:  # the lock cannot be created
                            raise
                        if request.aborted.is_set():
                            raise ConnectionLost(
                                f"{self._shown}: aborted while another process obtained a token"
                            ) from None
                        if limit.expired:
                            raise AuthorizationError(
                                f"{self._shown}: another process has been obtaining a token for "
                                f"{limit.seconds:g} s"
                            ) from error
            yield

    @contextmanager
    def _deadline_paused(self, request: AbortableRequest) -> Iterator[None]:
        """Pause the call's deadline while a person may be asked."""
        if self._grant.seconds is None:
            yield
            return
        request.deadline.pause()
        try:
            yield
        finally:
            request.deadline.resume()

    # ------------------------------------------------------------ for the command line

    def sign_in(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Obtain a token without a call, and return the result of `known`.

        Raises:
            AuthorizationError: The token could not be obtained or stored.
        """
        request = AbortableRequest()
        exchange = self._exchange(request, settings)
        status, headers = self._ping(exchange)
        request.address = exchange.address
        challenge: Optional[Mapping[str, str]] = None
        dpop_only = False
        if status == 401:
            _, challenge, dpop_only = _challenges(headers)
        self._renew(challenge, "", request, settings, dpop_only=dpop_only, start_over=True)
        self._check_stored()
        return self.known() or {}

    def _ping(self, exchange: Exchange) -> tuple[int, Mapping[str, str]]:
        """Send a ping without a token, which yields a challenge and the server's address.

        Returns:
            The status and the headers of the response.

        Raises:
            AuthorizationError: There was no response.
        """
        body = encode(Request(1, "ping", {}))
        status, headers, _ = exchange.ask(
            "POST", self._url, POST_HEADERS, body, named=True, seconds=TOKEN_SECONDS
        )
        return status, headers

    def known(self) -> Optional[dict[str, Any]]:
        """Return a description of the stored token without secrets, or None if there is none."""
        self._load()
        token = self._token
        if token is None:
            return None
        return {
            "issuer": token.issuer,
            "resource": token.resource,
            "client_id": token.client_id,
            "expires_at": token.expires_at,
            "scopes": list(token.scopes),
            "can_be_refreshed": token.refresh_token is not None,
        }

    def sign_out(self, settings: Mapping[str, Any]) -> bool:
        """Delete the token and the registration, and revoke the token if possible.

        Returns:
            Whether there was anything to delete.

        Raises:
            AuthorizationError: The store cannot be read or written.
        """
        request = AbortableRequest()
        with self._alone(request) as held:
            held.enter_context(self._alone_among_processes(request))
            self._load()
            token = self._token
            pointer = self._get(f"server {self._key}")
            issuer = pointer.get("issuer") if isinstance(pointer, dict) else None
            had_client = isinstance(issuer, str) and self._forget_client(issuer)
            self._keep(None)
            if pointer is not None:
                self._put(f"server {self._key}", None)
            self._check_stored()
        if token is None:
            return had_client
        with suppress(McpError):  # a token that is not revoked expires later
            exchange = self._exchange(request, settings, self._address)
            if not exchange.address:
                # If this fails, the token is revoked only if the issuer has a public address.
                with suppress(AuthorizationError):
                    self._ping(exchange)
            target = ProtectedResource(
                token.resource, token.issuer, authorization_server(exchange, token.issuer)
            )
            url = target.server.get("revocation_endpoint")
            if url is not None:
                headers, proof = token.credentials.prove(target.server)
                form = {"token": token.refresh_token or token.access_token, **proof}
                url = exchange.checked(url, "the revocation endpoint")
                exchange.post(url, form, headers, seconds=TOKEN_SECONDS)
        return True

    def _check_stored(self) -> None:
        """Raise AuthorizationError if the last value could not be stored."""
        error = self._store_error
        if error is not None:
            raise AuthorizationError(f"{self._shown}: {describe(error)}") from error


def _token_key(issuer: Any, resource: Any) -> str:
    return f"token {issuer_key(str(issuer))} {resource}"


def _challenges(
    headers: Mapping[str, str],
) -> tuple[Mapping[str, Mapping[str, str]], Mapping[str, str], bool]:
    """Return the challenges of a response by scheme, and the one for tokens.

    The third value is whether the server accepts only tokens that are bound to a key.
    """
    by_scheme = challenges(headers.get("WWW-Authenticate", ""))
    challenge = by_scheme.get("bearer") or by_scheme.get("dpop") or {}
    return by_scheme, challenge, "dpop" in by_scheme and "bearer" not in by_scheme
