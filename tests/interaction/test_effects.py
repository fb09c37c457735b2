"""The effects of a tool before its question happen once, in memory in every revision, and over
stdio in one revision of each era."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Iterator, List

import pytest

import minimcp
from minimcp import CallToolResult

from ..answering import R1, R2, R5, REVISIONS
from ..scripted import Task, wait_for
from ..support import WAIT, eventually
from . import effects_server
from .links import LINKS, served


class Scene:
    """A server, how it is reached, and a user."""

    def __init__(self, transport: str, revision: str, ledger: Path) -> None:
        self.transport, self.revision, self.ledger = transport, revision, ledger
        self.forms = revision not in (R1, R2)
        self.asked: List[str] = []
        self.holds, self.go = threading.Event(), threading.Event()
        self.hold = False

    def connect(self, target: Any = None, **options: Any) -> minimcp.Client:
        return minimcp.connect(
            target or served(self.transport, "effects_server", **options),
            revision=self.revision,
            elicit=self.elicit,
            sample=self.sample,
            timeout=WAIT,
        )

    def act(
        self, client: minimcp.Client, name: str, questions: int = 1, **options: Any
    ) -> CallToolResult:
        arguments = {"ledger": str(self.ledger), "name": name, "questions": questions}
        return client.call_tool("act", arguments, **options)

    def done(self) -> List[str]:
        return self.ledger.read_text("utf-8").split() if self.ledger.exists() else []

    def _hear(self, text: str) -> None:
        self.asked.append(text)
        if self.hold:
            self.holds.set()
            self.go.wait(WAIT)

    def elicit(self, request: Any) -> Any:
        self._hear(request.message)
        return None if request.message == "1?" else {"n": 1}

    def sample(self, request: Any) -> str:
        self._hear(request.text)
        return "decline" if request.text == "1?" else "accept"


@pytest.fixture(params=LINKS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(*request.param, tmp_path / "ledger")
    yield scene
    scene.go.set()


def test_a_tool_runs_once_for_every_kind_of_answer(scene: Scene) -> None:
    with scene.connect() as client:
        assert scene.act(client, "one").text == "accept"
        assert scene.act(client, "two", 2).text == "accept decline"
        assert scene.asked == ["0?", "0?", "1?"] and scene.done() == ["one", "two"]


def test_a_tool_whose_question_is_answered_too_late_ran_once(scene: Scene) -> None:
    scene.hold = True
    with scene.connect(ask_timeout=0.05) as client:
        call = Task(lambda: scene.act(client, "late"))
        assert eventually(lambda: scene.done() == ["late", "timeout"])
        scene.go.set()
        with pytest.raises((minimcp.ToolError, minimcp.RequestStateRejected)):
            call.result()
        assert scene.done() == ["late", "timeout"]


def test_a_tool_whose_client_dies_before_it_answers_ran_once(scene: Scene) -> None:
    scene.hold = True
    with scene.connect() as client:
        call = Task(lambda: scene.act(client, "lost"))
        wait_for(scene.holds)
        client.close()
        with pytest.raises(minimcp.ConnectionLost):
            call.result()
    assert scene.done() == ["lost"]
    scene.hold = False
    with scene.connect() as client:
        assert scene.act(client, "again").text == "accept" and scene.done() == ["lost", "again"]


def test_fifty_calls_at_once_run_once_each(scene: Scene) -> None:
    names = [f"call-{number}" for number in range(50)]
    calls = [("act", {"ledger": str(scene.ledger), "name": name, "questions": 2}) for name in names]
    with scene.connect(waiting_handlers=None) as client:
        assert [result.text for result in client.call_tools(calls)] == ["accept decline"] * 50
    assert sorted(scene.done()) == sorted(names)


def test_calls_among_fifty_that_give_way_run_again(scene: Scene) -> None:
    names = [f"call-{number}" for number in range(50)]
    calls = [("act", {"ledger": str(scene.ledger), "name": name, "questions": 2}) for name in names]
    with scene.connect() as client:
        assert [result.text for result in client.call_tools(calls)] == ["accept decline"] * 50
    assert set(scene.done()) == set(names)
    if scene.revision != R5:
        assert len(scene.done()) == 50


@pytest.mark.parametrize("revision", REVISIONS[1:])
def test_over_stateless_http_it_runs_again_for_each_answer(revision: str, tmp_path: Path) -> None:
    scene, server = Scene("http", revision, tmp_path / "ledger"), effects_server.build()
    with server.start_http() as running, scene.connect(running.url) as client:
        assert scene.act(client, "run", 2).text == "accept decline"
        assert scene.asked == ["0?", "1?"] and scene.done() == ["run"] * (
            3 if revision == R5 else 1
        )
