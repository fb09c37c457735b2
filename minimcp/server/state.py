"""`States`: what a server has a client carry from one round of a request to the next, signed.

A token is ``v1.`` and base64url of key id, HMAC-SHA256 and JSON. It is signed, not encrypted: the client can read what
it carries, the results of ``ctx.step`` included; a codec of the author's may encrypt it, or keep it in a store. A
signature is no single use: a token may come back as often as it likes until it expires.
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any, Callable, Mapping, Optional, Sequence

from ..engine.requests import IncomingRequest
from ..errors import STATE_REJECTED, InternalError, InvalidParams, one_line
from ..protocol.messages import Json

log = logging.getLogger("minimcp.state")

LONGEST = 256 * 1024
"""Characters of a token; longer ones are refused before anything is decoded."""

LIFETIME = 600
"""Seconds that a token is good for, where the author says nothing: how long a user may take to answer."""

SHORTEST_KEY = 32

_PREFIX = "v1."
_LABEL = b"minimcp requestState v1"
_ID, _MAC = 4, 32


class StateCodec:
    """How a state becomes text that only this server can have made; `seal` and `unseal` are all that is needed of one.

    A codec of the author's may encrypt, or keep the state and hand out a random name. It must be thread-safe.
    """

    def seal(self, state: bytes) -> str:
        """The text for a state."""
        raise NotImplementedError

    def unseal(self, token: str) -> bytes:
        """The state of a text.

        Raises:
            ValueError: This server did not make it. Any other exception counts as that too.
        """
        raise NotImplementedError


class Signed(StateCodec):
    """The codec of the standard library: readable, and signed.

    Args:
        keys: Secrets of 32 bytes or more; the first signs, all of them verify.

    Raises:
        TypeError: A key is not bytes.
        ValueError: A key is too short, or there is none.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        if isinstance(keys, (bytes, bytearray, str)):
            raise TypeError("state_keys is a list of keys: put the one into a list")
        self._secrets = [_checked_key(key) for key in keys]
        if not self._secrets:
            raise ValueError("state_keys has at least one key")
        self._derived: list[tuple[bytes, bytes]] = []

    def _keys(self) -> list[tuple[bytes, bytes]]:
        """The keys made of the secrets, each after its id; worked out when the first token is made."""
        if not self._derived:
            keys = [_mac(secret, _LABEL) for secret in self._secrets]
            self._derived = [(_mac(key, b"id")[:_ID], key) for key in keys]
        return self._derived

    def seal(self, state: bytes) -> str:
        return _PREFIX + _to_base64(_signed(*self._keys()[0], state))

    def unseal(self, token: str) -> bytes:
        if not token.startswith(_PREFIX):
            raise ValueError("no token of this kind")
        raw = _from_base64(token[len(_PREFIX):])
        key, state = dict(self._keys()).get(raw[:_ID]), raw[_ID + _MAC:]
        if key is None:
            raise ValueError("an unknown key")
        from hmac import compare_digest

        if not compare_digest(_signed(raw[:_ID], key, state), raw):
            raise ValueError("a wrong signature")
        return state

    def __repr__(self) -> str:
        return f"<Signed with {len(self._secrets)} keys>"


class States:
    """Makes and takes back the tokens of one server. Thread-safe.

    Args:
        audience: Whose tokens these are: another server's are refused.
        codec: Makes states into text.
        lifetime: Seconds that a token is good for; None means for ever.
        clock: The time in seconds, the same in every process that shares the keys.
    """

    def __init__(
        self,
        audience: str,
        codec: Any,
        *,
        lifetime: Optional[float] = LIFETIME,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._audience, self._codec, self._lifetime, self._clock = audience, codec, lifetime, clock

    def seal(self, claims: Mapping[str, Json], exchange: IncomingRequest) -> str:
        """The token for what has to come back with the next round of this request.

        Raises:
            InternalError: It would be too long.
        """
        now = self._clock()
        exp = None if self._lifetime is None else now + self._lifetime
        state = {"iat": int(now), "exp": exp, "aud": self._audience, "bind": binding(exchange), **claims}
        token: str = self._codec.seal(canonical(state))
        if len(token) > LONGEST:
            what = f"the answers and steps of {exchange.request.method} are too much for a requestState"
            raise InternalError(f"{what}: {len(token)} characters, and {LONGEST} is the most")
        return token

    def unseal(self, token: Json, exchange: IncomingRequest) -> dict[str, Json]:
        """The claims of a token that came back.

        Raises:
            InvalidParams: It is not one that this server made for this request, or its time is over. Which of these
                it is stands in the log only.
        """
        try:
            if not isinstance(token, str):
                raise ValueError("no text")
            if len(token) > LONGEST:
                raise ValueError("too long")
            return self._checked(json.loads(self._codec.unseal(token)), exchange)
        except Exception as error:  # whatever a codec raises
            log.warning("the requestState of %s is refused: %s", exchange.request.method, one_line(str(error)))
        raise InvalidParams("Invalid or expired requestState", {"reason": STATE_REJECTED})

    def _checked(self, claims: Any, exchange: IncomingRequest) -> dict[str, Json]:
        if claims["aud"] != self._audience:
            raise ValueError("another server's")
        if claims["bind"] != binding(exchange):
            raise ValueError("another request's, or another user's")
        if claims["exp"] is not None and not self._clock() < claims["exp"]:
            raise ValueError("expired")
        return {"r": int(claims["r"]), "cid": str(claims["cid"]), **{name: dict(claims[name]) for name in _MAPS}}


_MAPS = ("asked", "ans", "steps")


def states_of(
    audience: str, keys: Optional[Sequence[bytes]], codec: Any, *, lifetime: Optional[float] = LIFETIME
) -> States:
    """The states of a server, by what its author says.

    Args:
        audience: The server's name.
        keys: Secrets to share among processes; None makes one up, for this process and its forks.
        codec: Instead of signing; None signs.
        lifetime: Seconds that a token is good for; None means for ever.

    Raises:
        TypeError, ValueError: A key is none, or both are given.
    """
    if codec is None:
        return States(audience, Signed([os.urandom(SHORTEST_KEY)] if keys is None else keys), lifetime=lifetime)
    if keys is not None:
        raise ValueError("state_keys and state_codec exclude each other: keys are for signing")
    if not callable(getattr(codec, "seal", None)) or not callable(getattr(codec, "unseal", None)):
        raise TypeError("a state_codec has seal(bytes) -> str and unseal(str) -> bytes")
    return States(audience, codec, lifetime=lifetime)


def canonical(value: Json) -> bytes:
    """The same bytes for the same JSON, whatever the order of its members."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(value: Json) -> str:
    """A short name for a JSON value, which no other value has."""
    from hashlib import sha256

    return sha256(canonical(value)).hexdigest()[:32]


def binding(exchange: IncomingRequest) -> str:
    """What ties a token to its request: the method, its target, its arguments, and who asks."""
    params = exchange.request.params
    target = params.get("name"), params.get("uri")
    return digest([exchange.request.method, *target, params.get("arguments") or {}, exchange.peer.principal])


def _checked_key(key: Any) -> bytes:
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError(f"a state key is bytes, such as os.urandom(32), not {type(key).__name__}")
    if len(key) < SHORTEST_KEY:
        raise ValueError(f"a state key has {SHORTEST_KEY} bytes or more, not {len(key)}")
    return bytes(key)


def _mac(key: bytes, message: bytes) -> bytes:
    import hmac  # brings OpenSSL in, which few servers need

    return hmac.new(key, message, "sha256").digest()


def _signed(name: bytes, key: bytes, state: bytes) -> bytes:
    return name + _mac(key, _PREFIX.encode() + name + state) + state


def _to_base64(raw: bytes) -> str:
    from binascii import b2a_base64

    return b2a_base64(raw, newline=False).decode().rstrip("=").translate(_URL_SAFE)


def _from_base64(text: str) -> bytes:
    """Strict: exactly what `_to_base64` makes, so that each token has one spelling.

    Raises:
        ValueError: It is not.
    """
    from binascii import a2b_base64

    raw = a2b_base64(text.translate(_STANDARD) + "=" * (-len(text) % 4))
    if _to_base64(raw) != text:
        raise ValueError("no base64url")
    return raw


_URL_SAFE, _STANDARD = str.maketrans("+/", "-_"), str.maketrans("-_", "+/")
