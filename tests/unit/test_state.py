"""The state that a client carries between rounds is accepted only from this server, for this
request, this user and this time."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from minimcp import InvalidParams, Limits, Server
from minimcp.features.input_rounds import States

from ..answering import R5
from ..inside import feature_of
from .requests import exchange

MORE = ("asked", "ans", "steps")
CLAIMS = {
    "r": 1,
    "cid": "c",
    "asked": {"k": "d"},
    "ans": {"a": ["d", {"action": "cancel"}]},
    "steps": {"s": [1]},
}
KEY, OTHER = b"k" * 32, bytearray(b"o" * 40)


class Clock:
    now = 1_000_000.5

    def __call__(self) -> float:
        return self.now


def states(*keys: Any, audience: str = "here", **options: Any) -> States:
    return States(audience, keys or [KEY], **options)


def of(method: str = "tools/call", principal: Any = None, **params: Any) -> Any:
    made = exchange(method, {"name": "t", "arguments": {"a": 1}, **params}, revision=R5)
    made.peer.principal = principal
    return made


REFUSALS = "Invalid or expired requestState", {"reason": "invalid_request_state"}


def refused(taking: States, token: Any, by: Any = None) -> None:
    with pytest.raises(InvalidParams) as caught:
        taking.unseal(token, by or of())
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32602, *REFUSALS)


@pytest.mark.requirement("M:MRTR-S5", "M:MRTR-S6", "M:MRTR-S7")
def test_a_sealed_state_may_be_sent_any_number_of_times() -> None:
    clock = Clock()
    one = states(clock=clock)
    token = one.seal(CLAIMS, of())
    assert token.startswith("v1.") and one.unseal(token, of(), *MORE) == CLAIMS
    again = of(_meta={"x": 1}, requestState="other", inputResponses={})
    assert states(clock=clock).unseal(token, again, *MORE) == CLAIMS
    clock.now += 600 - 1
    assert one.unseal(token, of(), *MORE) == CLAIMS
    assert one.unseal(one.seal(CLAIMS, of(arguments=None)), of(arguments={}), *MORE) == CLAIMS


@pytest.mark.requirement(
    "M:MRTR-S5", "M:MRTR-S6", "M:MRTR-S19", "M:ELI-17", "M:ELI-22", "ELIC-40", "ELIC-46"
)
def test_a_state_is_good_for_one_request_of_one_user_for_a_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    one = states(clock=clock)
    token = one.seal(CLAIMS, of(principal="ada"))
    others = [
        of(),
        of(principal="bob"),
        of("prompts/get", principal="ada"),
        of(name="u", principal="ada"),
        of(uri="a:b", principal="ada"),
        of(arguments={"a": 2}, principal="ada"),
        of(arguments={}, principal="ada"),
    ]
    for other in others:
        refused(one, token, other)
    assert caplog.text.count("for another request or another user") == len(others)
    for foreign, reason in (
        (states(clock=clock, audience="there"), "from another server"),
        (states(OTHER, clock=clock), "an unknown key"),
    ):
        refused(foreign, token, of(principal="ada"))
        assert reason in caplog.text
    clock.now += 600
    refused(one, token, of(principal="ada"))
    assert "expired" in caplog.text


def test_a_state_is_valid_as_long_as_a_client_may_take() -> None:
    for lifetime, good, over in ((0.5, 0.4, 0.6), (3600, 3599, 3601), (None, 10**9, None)):
        clock = Clock()
        clock.now += 0.9  # a part of a second is not lost
        one = states(clock=clock, lifetime=lifetime)
        token, begun = one.seal(CLAIMS, of()), clock.now
        clock.now = begun + good
        assert one.unseal(token, of(), *MORE) == CLAIMS
        if over is not None:
            clock.now = begun + over
            refused(one, token)
    for seconds in (3600, None):
        made = Server("slow", limits=Limits(ask_timeout=seconds))
        assert feature_of(made, "rounds").states.lifetime == seconds


@pytest.mark.requirement("M:MRTR-S5", "M:MRTR-S19")
def test_a_thousand_changes_of_a_token_are_refused() -> None:
    one, mine, chance = states(), of(), random.Random(5)
    tokens = [one.seal({**CLAIMS, "r": number}, mine) for number in range(10)]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=.\n \u00e9"
    changed = [
        first[:-64] + second[-64:] for first, second in zip(tokens, tokens[1:])
    ]  # the signature of another one
    for token in tokens:
        _, payload, signature = token.split(".")
        raw = base64.urlsafe_b64decode(payload) + bytes.fromhex(signature)
        for _ in range(60):  # one bit
            flipped = bytearray(raw)
            flipped[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
            changed.append(
                f"v1.{base64.urlsafe_b64encode(flipped[:-32]).decode()}.{flipped[-32:].hex()}"
            )
        for _ in range(20):  # cut off at either end, another character, two swapped
            at = chance.randrange(len(token))
            first, second = sorted(chance.sample(range(len(token)), 2))
            swapped = list(token)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            other = chance.choice(alphabet)
            changed += [
                token[:at],
                token[at + 1 :],
                token[:at] + other + token[at + 1 :],
                "".join(swapped),
            ]
    assert len(set(changed) - {*tokens}) >= 1000
    for token in {*changed} - {*tokens}:
        refused(one, token, mine)
    assert [one.unseal(token, of())["r"] for token in tokens] == list(range(10))


def test_the_first_key_signs_and_all_verify() -> None:
    old, both, new = states(KEY), states(OTHER, KEY), states(OTHER)
    assert both.unseal(old.seal(CLAIMS, of()), of(), *MORE) == CLAIMS
    assert new.unseal(both.seal(CLAIMS, of()), of(), *MORE) == CLAIMS
    refused(old, both.seal(CLAIMS, of()))
    refused(new, old.seal(CLAIMS, of()))


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ([], ValueError),
        (KEY, TypeError),
        ("k" * 32, TypeError),
        (["k" * 32], TypeError),
        ([32], TypeError),
        ([b"k" * 31], ValueError),
        ([KEY, b""], ValueError),
    ],
)
def test_invalid_keys(keys: Any, error: Any) -> None:
    for make in (lambda: States("here", keys), lambda: Server("here", state_keys=keys)):
        with pytest.raises(error):
            make()
