"""The access token of one server: `Authorizer` loads, sends, renews and stores it; a `Grant`
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
    Place,
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
from .store import TokenStore
from .tokens import Token, TokenRefused, refreshed

log = logger("minimcp.auth")

# How often a thread that waits for another thread's token checks whether its call was given up.
LOOK_SECONDS = 0.2

# How long another process may take to renew a token if no person is asked.
RENEW_SECONDS = 60.0

# The settings of a connection (`Fetcher.settings`) that has none.
NO_SETTINGS: Mapping[str, Any] = {"verify": True, "proxies": None}


class Grant:
    """A way to obtain tokens; `connect` takes one as ``auth``. Thread-safe: one object serves any
    number of connections.

    Args:
        store: Where tokens are kept.
        scopes: Scopes to request in addition to those that the server names.
        issuer: URL of the authorization server that the credentials are for. None takes the one
            that the server names.

    Raises:
        TypeError: ``scopes`` is not a sequence of str, or the issuer is not a str.
        ValueError: The issuer is not an https URL (or http on this machine).
    """

    # Seconds that a person has to sign in, during which the deadline of the call is paused. None if
    # no person is asked.
    seconds: Optional[float] = None
    # Whether a token can be obtained if none is stored.
    can_obtain = True
    # Whether a stored token is sent with the first request. Otherwise the store is not read before
    # the server returns 401.
    loads_early = True
    # Whether the credentials are those of one authorization server.
    has_fixed_credentials = True

    def __init__(self, store: TokenStore, scopes: Any = (), issuer: Optional[str] = None) -> None:
        if isinstance(scopes, str) or not all(isinstance(each, str) for each in scopes):
            raise TypeError("scopes is a sequence of str")
        if issuer is not None:
            check_url(issuer)
        self.store = store
        self.scopes = tuple(scopes)
        self.issuer = issuer
        self._authorizers: dict[str, Authorizer] = {}

    def for_server(self, url: str) -> Authorizer:
        """Return the object that authorizes requests to a server; all connections share it.

        Raises:
            ValueError: The URL is neither https nor on this machine, so that anybody could read the
                token on its way.
        """
        parts = parse_web_url(url, userinfo=True)
        if parts.scheme != "https" and not parts.is_local:
            what = "tokens are only sent over https, or to this machine"
            raise ValueError(f"{what}: write https:// instead of {without_secrets(url)}")
        return self._authorizers.setdefault(url, Authorizer(self, url))

    def obtain(
        self, exchange: Exchange, place: Place, scopes: tuple[str, ...], key: Optional[ProofKey]
    ) -> Token:
        """Obtain a token.

        Raises:
            AuthorizationError: No token could be obtained.
        """
        raise NotImplementedError

    def forget_client(self, issuer: str, client_id: Optional[str] = None) -> bool:
        """Delete what an authorization server has registered for this program.

        Args:
            issuer: The authorization server.
            client_id: Only a registration with this id; None deletes all of them.

        Returns:
            Whether there was any. Only `SignIn` registers clients.
        """
        return False


class Authorizer:
    """Sends the token of one server with each request, and renews it when the server asks for that.

    One thread renews the token while the others wait. So do other processes, if the store has a
    lock. Thread-safe.

    Args:
        grant: The way to obtain a token.
        url: URL of the server.
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
        # Scopes that were requested in vain.
        self._asked: set[str] = set()
        self._is_loaded = False
        # Of the connection over which the server asked for the token; empty if it has not yet.
        self._address = ""
        # Why the store does not have the newest token, which is kept in memory then. None if it
        # has.
        self._unkept: Optional[Exception] = None
        # Not an RLock: a refresh whose caller has given up releases it from a thread of its own.
        self._lock = threading.Lock()
        self._owner: Optional[int] = None

    @property
    def access_token(self) -> str:
        """The token that is sent now; empty without one."""
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
            url: Where it goes.
            request: The request, which another thread may abort.
            settings: The settings of its connection, `Fetcher.settings`.

        Raises:
            ConnectionLost: The request was aborted while another thread renewed the token.
        """
        is_loaded, token = self._is_loaded, self._token  # once: another thread may replace it
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
        """Look at the head of a response, and renew the token if the server asks for that.

        Args:
            status: The status of the response.
            headers: The headers of the response.
            sent: What `authorize` returned for the request.
            request: The request, which another thread may abort.
            settings: The settings of its connection, `Fetcher.settings`.

        Returns:
            Whether to send the request again, because there is another token.

        Raises:
            AuthorizationError: The server wants a token and none could be obtained, or the stored
                tokens cannot be read.
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
        if status == 401 and token == self._untried:
            self._untried = None  # this request ends, and the next one may obtain another token
            return False
        if status == 401:
            return self._renew(challenge, token, request, settings, dpop_only=dpop_only)
        more = words(challenge.get("scope")) if error == "insufficient_scope" else ()
        return bool(more) and self._renew(challenge, token, request, settings, more=more)

    # ------------------------------------------------------------ obtaining a token

    def _loaded(self, request: AbortableRequest) -> Optional[Token]:
        """Return the stored token before a server has asked for one."""
        with self._alone(request):
            try:
                if not self._is_loaded:
                    self._load()
            except AuthorizationError as error:  # reported if the server asks for a token
                log.debug("%s: %s", self._shown, error)
            return self._token

    def _renewed_early(
        self, request: AbortableRequest, settings: Mapping[str, Any]
    ) -> Optional[Token]:
        """Return a new token in place of one that ends soon, or that one if it cannot be
        renewed."""
        try:
            with self._alone(request) as held:
                held.enter_context(self._alone_among_processes(request))
                self._load()
                token = self._token
                if token is not None and token.is_old and token.refresh_token:
                    self._refresh(held, self._exchange(request, settings, self._address))
        except AuthorizationError as error:  # raised again if the server rejects the old token
            log.debug("%s: the token could not be renewed: %s", self._shown, error)
        return self._token

    def _renew(
        self,
        challenge: Optional[Mapping[str, str]],
        sent: str,
        request: AbortableRequest,
        settings: Mapping[str, Any],
        *,
        dpop_only: bool = False,
        anew: bool = False,
        more: tuple[str, ...] = (),
    ) -> bool:
        """Get another token than the one that was rejected.

        Args:
            challenge: The challenge of the response; None if the server has not asked for a token.
            sent: The token that was rejected.
            request: The request, which another thread may abort.
            settings: The settings of its connection.
            dpop_only: Whether the server accepts only tokens that are bound to a key.
            anew: Use neither a stored token nor a refresh token nor a registration.
            more: Scopes that the token lacks; they are requested once.

        Returns:
            Whether there is one.
        """
        with self._alone(request) as held:
            try:  # reading needs no lock among processes, and so no folder that is writable
                self._load()
            except AuthorizationError as error:
                told = (
                    f"{self._shown}: the server wants a token, and the stored ones cannot be used"
                )
                raise AuthorizationError(f"{told}: {error}") from error
            if self._has_other(sent) and not anew:
                return True  # a stored one, or one that another thread has obtained
            if self._token is None and not self._grant.can_obtain:
                return False
            held.enter_context(self._alone_among_processes(request))
            self._load()
            if self._has_other(sent) and not anew:
                return True  # another process has obtained it
            if more and self._asked.issuperset(more):
                return False
            exchange = self._exchange(request, settings, request.address)
            place = discover(exchange, challenge, self._grant.issuer)
            self._asked.update(more)
            self._address = request.address
            token, before = self._token, tuple[str, ...]()
            if token is not None and same_issuer(token.issuer, place.issuer):
                before, dpop_only = token.scopes, dpop_only or token.proof_key is not None
                is_renewable = (
                    token.refresh_token and token.resource == place.resource and not (anew or more)
                )
                if is_renewable and self._refresh(held, exchange, place):
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
            if anew:
                self._forget_client(place.issuer)
            # so that `sign_out` finds the registration, even if nobody signs in
            self._put(f"server {self._key}", {"issuer": place.issuer, "resource": place.resource})
            if anew:
                self._check_kept()  # before a person signs in for nothing
            try:
                self._obtain(exchange, place, wanted, dpop_only or place.takes_dpop_only)
            except BaseException as error:
                if not isinstance(error, AuthorizationError):  # it was given up, and not in vain
                    self._asked.difference_update(more)
                raise
            return True

    def _has_other(self, sent: str) -> bool:
        return self._token is not None and self._token.access_token != sent

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
            raise AuthorizationError(f"{self._shown}: {describe(error)}") from error
        self._untried = token.access_token
        self._keep(token, key)

    def _refresh(self, held: ExitStack, exchange: Exchange, place: Optional[Place] = None) -> bool:
        """Exchange the refresh token for a new token.

        The server may rotate the refresh token: then the response is the only place where the new
        one is. So a thread of its own sends the request, waits for the response and stores it, even
        if the caller gives up.

        Args:
            held: The locks, which are released when the response has been stored.
            exchange: The requests of the caller.
            place: Where the token comes from; None takes the token's own issuer.

        Returns:
            False if the authorization server rejected the refresh token, which is dropped then.

        Raises:
            AuthorizationError: There was no response, or the server has a fault: the refresh token
                may be accepted later.
            ConnectionLost: The caller has given up.
        """
        token = self._token
        assert token is not None
        found = place or Place(
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
            raise ConnectionLost(f"{self._shown}: given up before the token was refreshed")
        # Not a daemon: the process does not end before the response is stored, which takes
        # `TOKEN_SECONDS` at most.
        sender = threading.Thread(target=send, name="minimcp-refresh", daemon=False)
        try:
            try:
                sender.start()
            except RuntimeError:  # the system has no thread left
                send()
            while not wait([outcome], LOOK_SECONDS).done:
                if exchange.request.aborted.is_set():
                    raise ConnectionLost(f"{self._shown}: given up while the token was refreshed")
        except BaseException:
            if sender.is_alive():
                rest = held.pop_all()
                outcome.add_done_callback(lambda _: rest.close())
            raise
        return outcome.result()

    def _exchange_refresh_token(
        self, exchange: Exchange, place: Place, token: Token, key: Optional[ProofKey]
    ) -> bool:
        try:
            self._keep(refreshed(exchange.detached(), place, token, key), key)
            return True
        except TokenRefused as refusal:
            if not refusal.is_final:
                raise
            log.debug("%s: the refresh token is rejected: %s", self._shown, refusal)
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
        except Exception as error:  # of a store of the user's
            raise AuthorizationError(f"the token store failed: {describe(error)}") from error

    def _load(self) -> None:
        """Take the token that is stored: another process may have obtained it."""
        if self._unkept is None or self._token is None:
            pointer = self._get(f"server {self._key}")
            record = None
            if isinstance(pointer, dict):
                record = self._get(_token_key(pointer.get("issuer"), pointer.get("resource")))
            self._token = Token.from_record(record)
        self._is_loaded = True

    def _keep(self, token: Optional[Token], proof: Optional[ProofKey] = None) -> None:
        """Use this token from now on, and store it; None forgets the one there is.

        A token that cannot be stored, for example because the disk is full, is still used: the
        refresh token before it may no longer be valid.
        """
        before = self._token
        self._token = token
        self._unkept = None
        if token is None and before is not None:
            self._put(_token_key(before.issuer, before.resource), None)
        elif token is not None:
            self._proof = proof or self._proof
            self._put(_token_key(token.issuer, token.resource), token.to_record())
            self._put(f"server {self._key}", {"issuer": token.issuer, "resource": token.resource})

    def _put(self, key: str, value: Optional[dict[str, Any]]) -> None:
        try:
            self._grant.store.put(key, value)
        except Exception as error:  # also of a store of the user's
            self._unkept = error
            log.warning(
                "%s: what is known of the token is not stored, and is lost when this process "
                "ends: %s",
                self._shown,
                describe(error),
            )

    def _forget_client(self, issuer: str, client_id: Optional[str] = None) -> bool:
        try:
            return self._grant.forget_client(issuer, client_id)
        except Exception as error:  # also of a store of the user's
            self._unkept = error
            log.warning("%s: the registration is not deleted: %s", self._shown, describe(error))
            return False

    @contextmanager
    def _alone(self, request: AbortableRequest) -> Iterator[ExitStack]:
        """Let no other thread change the token of this server.

        Yields:
            The locks that are held; more can be added, and `_refresh` may take them over.
        """
        if self._owner == threading.get_ident():  # a hook, or a signal handler, calls the server
            with ExitStack() as held:
                yield held
            return
        with ExitStack() as held:
            with self._clock_stands(request):
                while not self._lock.acquire(timeout=LOOK_SECONDS):
                    if request.aborted.is_set():
                        raise ConnectionLost(
                            f"{self._shown}: given up while another thread got a token"
                        )
            held.callback(self._lock.release)
            self._owner = threading.get_ident()
            try:
                yield held
            finally:
                self._owner = None

    @contextmanager
    def _alone_among_processes(self, request: AbortableRequest) -> Iterator[None]:
        """Hold the lock of the store, if it has one.

        Raises:
            AuthorizationError: The lock cannot be made, or another process holds it for too long.
            ConnectionLost: The request was aborted.

        Blocks until no other process holds it.
        """
        lock = getattr(self._grant.store, "lock", None)
        limit = Deadline(self._grant.seconds or RENEW_SECONDS)
        with ExitStack() as held:
            with self._clock_stands(request):
                while lock is not None:
                    look = limit.within(LOOK_SECONDS)
                    try:
                        held.enter_context(lock(f"server {self._key}", look.seconds))
                        break
                    except AuthorizationError as error:
                        if not look.expired:  # there can be no lock
                            raise
                        if request.aborted.is_set():
                            told = "given up while another process got a token"
                            raise ConnectionLost(f"{self._shown}: {told}") from None
                        if limit.expired:
                            told = (
                                f"another process has been getting a token for {limit.seconds:g} s"
                            )
                            raise AuthorizationError(f"{self._shown}: {told}") from error
            yield

    @contextmanager
    def _clock_stands(self, request: AbortableRequest) -> Iterator[None]:
        """Pause the deadline of the call while a person may be asked."""
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
        """Obtain a token although no call has asked for one, and return what `known` does.

        Raises:
            AuthorizationError: No token could be obtained, or it could not be stored.
        """
        request = AbortableRequest()
        exchange = self._exchange(request, settings)
        status, headers = self._ping(exchange)
        request.address = exchange.address
        _, challenge, dpop_only = _asked(headers if status == 401 else {})
        self._renew(
            challenge if status == 401 else None,
            "",
            request,
            settings,
            dpop_only=dpop_only,
            anew=True,
        )
        self._check_kept()
        return self.known() or {}

    def _ping(self, exchange: Exchange) -> tuple[int, Mapping[str, str]]:
        """Send a ping without a token, so that the server asks for one, and its address is known.

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
        """Return what is known of the stored token, without secrets; None if there is none."""
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

    def sign_out(self, settings: Mapping[str, Any]) -> bool:
        """Forget the token and the registration, and have the token revoked if that is possible.

        Returns:
            Whether there was anything to forget.

        Raises:
            AuthorizationError: The store cannot be read or written.
        """
        request = AbortableRequest()
        with self._alone(request) as held:
            held.enter_context(self._alone_among_processes(request))
            self._load()
            token, pointer = self._token, self._get(f"server {self._key}")
            issuer = pointer.get("issuer") if isinstance(pointer, dict) else None
            had_client = isinstance(issuer, str) and self._forget_client(issuer)
            self._keep(None)
            if pointer is not None:
                self._put(f"server {self._key}", None)
            self._check_kept()
        if token is None:
            return had_client
        with suppress(McpError):  # it ends by itself, too
            exchange = self._exchange(request, settings, self._address)
            if not exchange.address:
                with suppress(AuthorizationError):  # then only a public issuer is asked
                    self._ping(exchange)
            place = Place(
                token.resource, token.issuer, authorization_server(exchange, token.issuer)
            )
            url = place.server.get("revocation_endpoint")
            if url is not None:
                headers, proof = token.credentials.prove(place.server)
                form = {"token": token.refresh_token or token.access_token, **proof}
                url = exchange.checked(url, "the revocation endpoint")
                exchange.post(url, form, headers, seconds=TOKEN_SECONDS)
        return True

    def _check_kept(self) -> None:
        """Raise an AuthorizationError if the store does not have what it should have."""
        error = self._unkept
        if error is not None:
            raise AuthorizationError(f"{self._shown}: {describe(error)}") from error


def _token_key(issuer: Any, resource: Any) -> str:
    return f"token {issuer_key(str(issuer))} {resource}"


def _asked(
    headers: Mapping[str, str],
) -> tuple[Mapping[str, Mapping[str, str]], Mapping[str, str], bool]:
    """Return the challenges of a response, the one that counts, and whether the server accepts only
    tokens that are bound to a key."""
    asked = challenges(headers.get("WWW-Authenticate", ""))
    return (
        asked,
        asked.get("bearer") or asked.get("dpop") or {},
        "dpop" in asked and "bearer" not in asked,
    )
