"""`Answer`: what a user did with a question."""

from __future__ import annotations

import pytest

from minimcp.errors import Declined
from minimcp.types import Answer


def test_an_answer_is_true_when_accepted_and_gives_its_content() -> None:
    answer = Answer("accept", {"name": "Ada"})
    assert answer and answer.require() == {"name": "Ada"} == answer.content
    assert repr(answer) == "Answer('accept', {'name': 'Ada'})"
    assert answer == Answer("accept", {"name": "Ada"}) != Answer("accept")
    assert answer != "accept"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_another_answer_has_nothing_to_give(action: str) -> None:
    answer = Answer(action)
    assert not answer and answer.content is None and repr(answer) == f"Answer({action!r})"
    with pytest.raises(Declined):
        answer.require()
    with pytest.raises(ValueError, match="no content"):
        Answer(action, {})


def test_there_are_three_actions() -> None:
    with pytest.raises(ValueError, match="accept, decline, cancel"):
        Answer("maybe")
