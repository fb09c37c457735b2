"""What verifies the tokens of a `Bearer`: fixed ones, JWTs with a key set, and introspection.

https://www.rfc-editor.org/rfc/rfc9068  https://www.rfc-editor.org/rfc/rfc7662
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional, Union

from ..protocol.messages import Json
from .bearer import Verify


def fixed(tokens: Union[str, Mapping[str, Mapping[str, Json]]], common: Mapping[str, Json]) -> Verify:
    """Takes the tokens that there are, and tells them in constant time from others.

    Args:
        tokens: One, or several with their claims.
        common: Claims of all; those of a token come first, but for ``aud``.

    Raises:
        ValueError: A token cannot stand in a header, or there is none.
        TypeError: They are something else.
    """
    from hmac import compare_digest  # brings OpenSSL in

    given = {tokens: {}} if isinstance(tokens, str) else tokens
    if not isinstance(given, Mapping) or not all(isinstance(claims, Mapping) for claims in given.values()):
        raise TypeError('a token, or a mapping of tokens to their claims: {"kW9...": {"sub": "ada"}}')
    if not given or not all(isinstance(token, str) and re.fullmatch(r"[\w\-.~+/]+=*", token, re.A) for token in given):
        raise ValueError("a token has letters, digits and -._~+/ and no others: make one by secrets.token_urlsafe(32)")
    known = [(token.encode(), {**common, **claims, "aud": common["aud"]}) for token, claims in given.items()]

    def verify(token: str) -> Optional[Mapping[str, Json]]:
        asked, found = token.encode(), None
        for each, claims in known:  # all of them, however early one is found
            if compare_digest(each, asked):
                found = claims
        return found

    return verify
