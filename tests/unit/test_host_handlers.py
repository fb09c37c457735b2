"""A host's own functions: how they are gathered, what they let a client declare, on which thread they run."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp import Root
from minimcp.client import host as module
from minimcp.client.host import Dispatcher, Host, as_roots
from minimcp.protocol.versions import REVISIONS

from ..answering import R4, Answering
from ..scripted import notice, wait_for
from ..support import eventually


class Functions:

    on_tools_changed = None

    def on_log(self, message: Any) -> None:
        raise NotImplementedError

    def sample(self, request: Any) -> str:
        raise NotImplementedError


class Late:
    """Nobody would wait for what this makes."""

    async def elicit(self, request: Any) -> None:
        raise NotImplementedError


def gathered(handlers: Any, **keywords: Any) -> Host:
    options = {name: keywords.pop(name) for name in ("roots", "sampling", "elicitation") if name in keywords}
    return Host(handlers, keywords, **options)


def test_an_object_and_keywords_are_one_set() -> None:
    host = Functions()
    both = Host(host, {"on_log": None, "on_tools_changed": print, "elicit": repr}).functions
    assert set(both) == {"sample", "elicit", "on_log", "on_tools_changed"} and both["on_tools_changed"] is print
    assert Host().functions == {}
    wrong: List[Any] = [
        (host, {"on_log": print}, "on_log is given twice"),
        (host, {"sample": print}, "sample is given twice"),
        (Functions, {}, "Functions is a class"),
        ({"elicit": repr}, {}, r"a mapping: say \*\*handlers"),
        (object(), {}, "handlers has none of sample, elicit, .*, on_resource_updated: it is <object object"),
        (Late(), {}, "^elicit is async: write a plain def; it runs on a thread and may block$"),
        (None, {"on_log": Late().elicit}, "^on_log is async"),
        (None, {"elicit": 5}, "int cannot"),
        (None, {"list_roots": list, "roots": []}, "two ways"),
        (None, {"roots": "/tmp"}, "a list of paths"),
        (None, {"roots": 5}, "a list of paths"),
        (None, {"roots": {"/tmp": "name"}}, "a list of paths"),
        (None, {"roots": [5]}, "a root is a path"),
        (None, {"sampling": ["tools"]}, "there is no sample"),
        (host, {"sampling": "tools"}, r"did you mean \('tools',\)"),
        (None, {"elicitation": repr}, "elicitation says what elicit can do, by names: did you mean elicit="),
        (None, {"sample": repr, "sampling": repr}, "did you mean sample="),
        (SimpleNamespace(on_log=print, on_logs=print), {}, "handlers has on_logs, .*: did you mean on_log"),
        (SimpleNamespace(on_tool_changed=print), {}, "did you mean on_tools_changed"),
    ]
    for handlers, keywords, text in wrong:
        with pytest.raises(TypeError, match=text):
            gathered(handlers, **keywords)
    for keywords in ({"sampling": ("form",)}, {"elicitation": ("x",)}, {"elicitation": ()}):
        with pytest.raises(ValueError, match="elicitation names|has the parts"):
            gathered(host, **keywords)


def test_a_callback_of_another_library_is_no_mistake() -> None:
    window = SimpleNamespace(on_mount=print, on_log=print)
    assert set(Host(window).functions) == {"on_log"}


@pytest.mark.requirement("ROOT-03", "ROOT-06", "M:ROOT-3")
def test_roots_are_named_in_three_ways(tmp_path: Path) -> None:
    root = Root("file:///a%20b", "mine")
    found = as_roots([tmp_path, str(tmp_path), "file:///x", root])
    assert [each.uri for each in found] == [tmp_path.as_uri(), tmp_path.as_uri(), "file:///x", "file:///a%20b"]
    assert found[3] is root and as_roots(()) == []
    for uri in ("https://x.y/", "file:///a/../b", "file:///a/%2e%2e/b"):
        with pytest.raises(ValueError, match="file://"):
            as_roots([uri])
    with pytest.raises(ValueError, match="file://"):
        as_roots([Root.from_wire({"uri": "http://x"})])


FULL: Dict[str, Any] = {"sample": repr, "elicit": repr, "list_roots": list}


@pytest.mark.requirement("ROOT-01", "SAMP-01", "SAMP-17", "ELIC-01", "ELIC-02")
@pytest.mark.requirement("M:ELI-1", "M:SAM-1", "M:ROOT-1", "M:ROOT-4")
def test_what_is_declared_is_what_is_given_and_the_revision_has() -> None:
    def declared(**options: Any) -> List[Any]:
        handlers = Host(None, FULL, **options)
        return [handlers.capabilities(revision) for revision in REVISIONS]

    early = {"sampling": {}, "roots": {"listChanged": True}}
    assert declared() == [
        early,
        early,
        {**early, "elicitation": {}},
        {**early, "elicitation": {"form": {}, "url": {}}},
        {"sampling": {}, "roots": {}, "elicitation": {"form": {}, "url": {}}},
    ]
    some = declared(sampling=("context", "tools"), elicitation=["url"])
    both: Dict[str, Any] = {"tools": {}, "context": {}}
    assert [each["sampling"] for each in some] == [{}, {}, {}, both, both]
    assert [each.get("elicitation") for each in some] == [None, None, None, {"url": {}}, {"url": {}}]
    assert all(Host().capabilities(revision) == {} for revision in REVISIONS)


@pytest.mark.requirement("ROOT-02", "ROOT-04", "M:ROOT-4")
def test_a_server_hears_of_other_roots_and_gets_them(tmp_path: Path) -> None:
    server = Answering()
    with minimcp.connect(server, revision=R4, roots=["file:///a"]) as client:
        server.pipe.ask("roots/list", id=1)
        server.pipe.heard(1)
        client.set_roots([Root("file:///b", "B")])
        assert eventually(lambda: server.pipe.methods()[-1] == "notifications/roots/list_changed")
        server.pipe.ask("roots/list", id=2)
        answers = server.pipe.heard(2)
        assert answers == {1: {"roots": [{"uri": "file:///a"}]}, 2: {"roots": [{"uri": "file:///b", "name": "B"}]}}
        with pytest.raises(ValueError, match="file://"):
            client.set_roots(["http://x"])
    server = Answering(modern=True)
    with minimcp.connect(server, list_roots=list) as client:
        client.roots_changed()
        with pytest.raises(RuntimeError, match="given as roots="):
            client.set_roots([])
        assert server.pipe.methods() == ["server/discover"]
    with minimcp.connect(Answering()) as client, pytest.raises(RuntimeError, match="has no roots"):
        client.roots_changed()


def test_callbacks_run_in_order_on_one_thread_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher, seen, done = Dispatcher(), [], threading.Event()  # type: ignore[var-annotated]

    def fail() -> None:
        raise SystemExit(3)

    dispatcher.put(fail)
    for number in range(100):
        dispatcher.put(lambda number=number: seen.append((number, threading.current_thread().name)))  # type: ignore[misc]
    dispatcher.put(done.set)
    wait_for(done)
    assert seen == [(number, "minimcp-callbacks") for number in range(100)]
    assert "a callback failed: SystemExit: 3" in caplog.text
    dispatcher.close()
    dispatcher.put(fail)
    dispatcher.close()
    assert eventually(lambda: not any(each.name == "minimcp-callbacks" for each in threading.enumerate()))
    assert caplog.text.count("a callback failed") == 1


def test_what_waits_is_run_after_close() -> None:
    dispatcher, gate, seen = Dispatcher(), threading.Event(), []  # type: ignore[var-annotated]
    dispatcher.put(lambda: wait_for(gate))
    dispatcher.put(lambda: seen.append(1))
    dispatcher.close()
    gate.set()
    assert eventually(lambda: seen == [1])


def test_a_slow_callback_loses_the_oldest(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "MOST_NOTIFICATIONS", 3)
    dispatcher, begun, gate, seen = Dispatcher(), threading.Event(), threading.Event(), []  # type: ignore[var-annotated]

    def slow() -> None:
        begun.set()
        wait_for(gate)

    dispatcher.put(slow)
    wait_for(begun)
    for number in range(6):
        dispatcher.put(lambda number=number: seen.append(number))  # type: ignore[misc]
    gate.set()
    dispatcher.close()
    assert eventually(lambda: seen == [3, 4, 5])
    assert caplog.text.count("the oldest are dropped") == 1


def test_notices_reach_their_callbacks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "minimcp.client")
    heard: List[Any] = []
    changed, server = threading.Event(), Answering()
    with minimcp.connect(server, on_log=heard.append, on_tools_changed=changed.set, revision=R4):
        server.pipe.give(
            notice("notifications/message", level=5, data="x"),
            notice("notifications/message", level="info", data={"a": 1}),
            notice("notifications/tools/list_changed"),
            notice("notifications/prompts/list_changed"),
        )
        wait_for(changed)
        assert [(message.level, message.data) for message in heard] == [("info", {"a": 1})]
        assert eventually(lambda: "prompts/list_changed: nobody listens" in caplog.text)
    assert "a notifications/message that makes no sense" in caplog.text
