"""A host's functions: how they are collected and declared, their arguments, and the responses to
the server."""

from __future__ import annotations

import dataclasses
import logging
import pickle
import re
import threading
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import pytest

import minimcp
from minimcp import Answer, Audio, Image, Refused, Root, SampleResult, Text, ToolUse
from minimcp.client import host as module
from minimcp.client.host import CallbackThread, Host
from minimcp.client.questions import as_roots
from minimcp.engine import timer as deadlines
from minimcp.protocol.versions import REVISIONS

from .. import answering
from ..answering import R1, R2, R3, R4, Answering, initialized, later, result
from ..scripted import Task, cancelled, no_threads, notice, request, wait_for
from ..support import WAIT, MovedTime, eventually

HI = [{"role": "user", "content": {"type": "text", "text": "hi"}}]

FORM: Dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "default": 7},
    },
    "required": ["name"],
}


def ask(method: str, params: Dict[str, Any], *, revision: str = R4, **host: Any) -> Any:
    """Return the client's response to one request of the server."""
    server = Answering({"initialize": initialized(revision)})
    with minimcp.connect(server, revision=revision, **host):
        server.pipe.ask(method, **params)
        return server.pipe.heard(1)["s1"]


def elicited(returned: Any, *, revision: str = R4, schema: Any = FORM, **params: Any) -> Any:
    """Return the client's response if `elicit` returns this value, or raises it."""

    def elicit(request: Any) -> Any:
        if isinstance(returned, BaseException):
            raise returned
        return returned

    asked = {"message": "?", **({} if schema is None else {"requestedSchema": schema}), **params}
    return ask("elicitation/create", asked, revision=revision, elicit=elicit)


def sampled(returned: Any, *, revision: str = R4, sampling: Any = (), **params: Any) -> Any:
    """Return the client's response if `sample` returns this value, or raises it."""

    def sample(request: Any) -> Any:
        if isinstance(returned, BaseException):
            raise returned
        return returned

    asked = {"messages": HI, "maxTokens": 5, **params}
    return ask("sampling/createMessage", asked, revision=revision, sample=sample, sampling=sampling)


@dataclasses.dataclass
class Person:
    name: str
    age: Optional[int] = None


class Odd:
    """Has no JSON form."""


@pytest.mark.requirement("ELIC-16", "ELIC-17", "ELIC-18", "ELIC-19", "M:ELI-5", "M:ELI-7")
def test_results_of_elicit(caplog: pytest.LogCaptureFixture) -> None:
    good: List[Any] = [
        ({"name": "Ada"}, {"action": "accept", "content": {"age": 7, "name": "Ada"}}),
        ({"name": "Ada", "age": 3}, {"action": "accept", "content": {"age": 3, "name": "Ada"}}),
        (Person("Ada"), {"action": "accept", "content": {"age": 7, "name": "Ada"}}),
        (
            Answer("accept", Person("Ada", 1)),
            {"action": "accept", "content": {"age": 1, "name": "Ada"}},
        ),
        ({"name": "Ada", "age": None}, {"action": "accept", "content": {"age": 7, "name": "Ada"}}),
        (None, {"action": "decline"}),
        (Answer("decline"), {"action": "decline"}),
        (Answer("cancel"), {"action": "cancel"}),
    ]
    for returned, heard in good:
        assert elicited(returned) == heard, returned
    assert not caplog.records
    bad: List[Any] = [
        {},
        {"name": 5},
        {"name": "Ada", "age": -1},
        {"name": None},
        Answer("accept"),
        "Ada",
        5,
        Odd(),
    ]
    for returned in bad:
        assert elicited(returned) == (-32603, "the host's handler failed"), returned
    assert caplog.text.count("the handler for elicitation/create failed") == len(bad)
    assert elicited({}, schema={"type": "object"}) == {"action": "accept", "content": {}}
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    fields = {
        "note": {"type": "string"},
        "null": nullable,
        "none": {"type": "string", "default": None},
    }
    for returned, content in (
        ({"note": None}, {"null": None}),
        ({"null": "x"}, {"null": "x"}),
        ({"null": None}, {"null": None}),
        ({"none": None}, {"null": None}),
        ({}, {"null": None}),
    ):
        heard = elicited(returned, schema={"type": "object", "properties": fields})
        assert heard == {"action": "accept", "content": content}, returned
    assert elicited(Answer("accept"), schema={"type": "object"}) == {
        "action": "accept",
        "content": {},
    }


CHECKED: List[Any] = [
    ({"name": "Ada"}, {"name": "Ada", "age": 7}),
    (Person("Ada", 3), {"name": "Ada", "age": 3}),
    ({"name": 5}, "^name: expected a string, got .*5$"),
    ({"name": "Ada", "age": -1}, "^age: expected"),
    ({"nam": "Ada"}, "nam"),
    ("Ada", "elicit must return a dict"),
]


@pytest.mark.parametrize(("content", "expected"), CHECKED)
def test_a_host_can_check_an_answer_before_it_returns_it(content: Any, expected: Any) -> None:
    found: List[Any] = []

    def elicit(request: minimcp.ElicitRequest) -> None:
        try:
            found.append(request.check(content))
        except (ValueError, TypeError) as error:
            found.append(str(error))
        assert pickle.loads(pickle.dumps(request)) == request

    asked = {"message": "?", "requestedSchema": FORM}
    assert ask("elicitation/create", asked, elicit=elicit) == {"action": "decline"}
    assert found == [expected] if isinstance(expected, dict) else re.search(expected, found[0])


def test_an_answer_to_a_url_or_to_no_server_is_checked_too() -> None:
    found: List[Any] = []
    url = {"mode": "url", "message": "?", "url": "https://a.example/", "elicitationId": "1"}
    ask("elicitation/create", url, elicit=lambda request: found.append(request.check({})))
    assert found == [{}]
    with pytest.raises(RuntimeError, match="was not sent by a server"):
        minimcp.ElicitRequest("?", FORM).check({})
    assert minimcp.ElicitRequest("?", FORM).on_cancel(print)() is None  # type: ignore[func-returns-value]


@pytest.mark.requirement("ELIC-06", "ELIC-22", "M:ELI-15")
def test_arguments_of_elicit() -> None:
    seen: List[Any] = []

    def elicit(request: Any) -> None:
        seen.append(
            (
                request.mode,
                request.message,
                request.schema,
                request.url,
                request.defaults,
                request.server.name,
            )
        )
        with pytest.raises(LookupError):
            minimcp.current_context()

    ask("elicitation/create", {"message": "?", "requestedSchema": FORM}, elicit=elicit)
    assert seen == [("form", "?", FORM, None, {"age": 7}, "scripted")]


@pytest.mark.requirement("ELIC-25", "ELIC-34", "ELIC-35", "M:ELI-7", "M:ELI-12")
def test_a_url_is_shown_whole_and_answered_without_content() -> None:
    url = "https://x.y/a?b=c#d"
    for returned, action in (
        ({}, "accept"),
        ({"a": 1}, "accept"),
        (Answer("accept"), "accept"),
        (None, "decline"),
    ):
        assert elicited(returned, schema=None, mode="url", url=url, elicitationId="e") == {
            "action": action
        }
    assert elicited(False, schema=None, mode="url", url=url)[0] == -32603
    seen: List[Any] = []
    ask(
        "elicitation/create",
        {"message": "?", "mode": "url", "url": url, "elicitationId": "e"},
        elicit=seen.append,
    )
    assert [(each.url, each.host, each.elicitation_id) for each in seen] == [(url, "x.y", "e")]


@pytest.mark.requirement("ELIC-04", "SEC-09")
def test_invalid_questions_are_rejected(caplog: pytest.LogCaptureFixture) -> None:
    form = {"message": "?", "requestedSchema": FORM}
    wrong: List[Any] = [
        ({}, "message is missing"),
        ({"message": "?"}, "requestedSchema is missing"),
        ({**form, "mode": "telepathy"}, "does not declare elicitation by telepathy"),
        ({"message": "?", "requestedSchema": {"type": 5}}, "requestedSchema"),
        (
            {"message": "?", "requestedSchema": {"type": "string"}},
            "requestedSchema must have the type 'object', not",
        ),
        (
            {"message": "?", "requestedSchema": {"type": "object", "properties": []}},
            "requestedSchema",
        ),
        (
            {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": 5}}},
            "requestedSchema",
        ),
        ({"message": "?", "mode": "url"}, "a URL must begin with http:// or https://"),
        *(
            (
                {"message": "?", "mode": "url", "url": url},
                "a URL must begin with http:// or https://",
            )
            for url in (
                "nowhere",
                "javascript://bank.example/%0aalert(1)",
                "https://bank.example@evil.example/",
            )
        ),
    ]
    for params, said in wrong:
        code, text = ask("elicitation/create", params, elicit=repr)
        assert code == -32602 and said in text
    url = {"message": "?", "mode": "url", "url": "https://x.y/"}
    assert ask("elicitation/create", url, elicit=repr, elicitation=("form",))[0] == -32602
    assert ask("elicitation/create", form, elicit=repr, elicitation=("url",))[0] == -32602
    assert ask("elicitation/create", url, elicit=repr, revision=R3)[0] == -32602
    assert ask("sampling/createMessage", {"messages": HI}, sample=repr)[0] == -32602
    assert not caplog.records


@pytest.mark.requirement("X-30", "ELIC-16")
def test_a_default_that_does_not_fit_is_left_out_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fields = {
        "a": {"type": "integer", "default": "x\n", "title": "A"},
        "b": {"type": "string", "enum": ["s", "l"], "default": "m"},
        "c": {"type": "string", "default": "kept"},
    }
    seen: List[Any] = []

    def elicit(request: Any) -> Any:
        seen.append((request.defaults, request.schema["properties"]))
        return {"a": 1}

    schema = {"type": "object", "properties": fields}
    heard = ask("elicitation/create", {"message": "?", "requestedSchema": schema}, elicit=elicit)
    assert heard == {"action": "accept", "content": {"a": 1, "c": "kept"}}
    shown = {
        "a": {"type": "integer", "title": "A"},
        "b": {"type": "string", "enum": ["s", "l"]},
        "c": fields["c"],
    }
    assert seen == [({"c": "kept"}, shown)]
    (record,) = caplog.records
    assert (
        record.levelname == "WARNING" and "of a form: a: expected an integer" in record.getMessage()
    )
    assert (
        "b: expected one of 's' or 'l'" in record.getMessage() and "\n" not in record.getMessage()
    )


def test_the_defaults_of_a_form_are_checked_in_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Limit the total time, because each of many checks may take the longest allowed time."""
    monkeypatch.setattr("minimcp.client.questions.thread_time", count(0, 0.3).__next__)
    slow = {"type": "string", "pattern": "(?:a|a)" * 40 + "$", "default": "a" * 40 + "b"}
    schema = {"type": "object", "properties": {f"f{number}": slow for number in range(9)}}
    seen: List[Any] = []

    def elicit(request: Any) -> Any:
        seen.append(request.defaults)
        return {}

    ask("elicitation/create", {"message": "?", "requestedSchema": schema}, elicit=elicit)
    assert list(seen[0]) == ["f0", "f1", "f2"], "the others are left out: their time is over"


def test_without_a_checker_an_answer_is_sent_unchecked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(schema: Any, where: str) -> Any:
        raise ImportError("pip install jsonschema")

    monkeypatch.setattr("minimcp.schema.compile_peer_check", missing)
    assert elicited({"name": 5}) == {"action": "accept", "content": {"age": 7, "name": 5}}
    assert "an answer to elicitation is not checked: pip install jsonschema" in caplog.text


@pytest.mark.requirement("SAMP-05", "SAMP-07", "SAMP-08", "SAMP-12", "M:SAM-8")
def test_results_of_sample() -> None:
    text, other = {"type": "text", "text": "ho"}, {"type": "text", "text": "x"}
    said = {"role": "assistant", "content": text, "model": "unknown", "stopReason": "endTurn"}
    own = SampleResult("ho", "m", stop_reason="bored")
    two = SampleResult([Text("ho"), Text("x")], "m")
    for revision in (R1, R2, R3, R4):
        assert sampled("ho", revision=revision) == said
        assert sampled(own, revision=revision) == {**said, "model": "m", "stopReason": "bored"}
        content = [text, other] if revision == R4 else {"type": "text", "text": "ho\nx"}
        assert sampled(two, revision=revision)["content"] == content
        image, sound, use = (
            Image(b"x", "image/png"),
            Audio(b"x", "audio/wav"),
            ToolUse("1", "t", {}),
        )
        fits = [
            not isinstance(sampled(SampleResult(each), revision=revision), tuple)
            for each in (image, sound, use)
        ]
        assert fits == [True, revision != R1, revision == R4]
        both = sampled(SampleResult([Text("a"), image]), revision=revision)
        assert isinstance(both, tuple) == (revision != R4)
    for bad in (None, 5, {"content": "x"}):
        assert sampled(bad)[0] == -32603


@pytest.mark.requirement("SAMP-19", "SAMP-21", "SAMP-22", "SAMP-25", "SAMP-27", "M:SAM-14")
def test_tools_for_a_model() -> None:
    tools = [{"name": "t", "inputSchema": {"type": "object"}}]
    for more in ({"tools": tools}, {"toolChoice": {}}, {"tools": []}):
        assert sampled("ho", **more)[0] == -32602
        assert sampled("ho", sampling=("tools",), **more)["model"] == "unknown"
        assert sampled("ho", sampling=("tools",), revision=R3, **more)[0] == -32602
    assert sampled("ho", task={"ttl": 1})["model"] == "unknown", (
        "an ordinary answer, as we declare no tasks"
    )
    use = {"type": "tool_use", "id": "1", "name": "t", "input": {}, "_meta": {"k": 1}}
    answer = {"type": "tool_result", "toolUseId": "1", "content": [], "_meta": {"k": 2}}
    asked = {"role": "assistant", "content": [use]}
    for last in ([], [{"role": "user", "content": [answer, HI[0]["content"]]}], HI):
        code, text = sampled("ho", sampling=("tools",), messages=[asked, *last])
        assert code == -32602 and "tool" in text
    seen: List[Any] = []

    def sample(request: Any) -> Any:
        seen.extend(message.to_wire() for message in request.messages)
        return SampleResult(request.messages[0].content[0])

    params = {"messages": [asked, {"role": "user", "content": [answer]}], "maxTokens": 1}
    assert ask("sampling/createMessage", params, sample=sample)["content"] == use
    assert seen == [{"role": "assistant", "content": use}, {"role": "user", "content": answer}]


@pytest.mark.requirement("SAMP-13", "ROOT-05", "BASE-21")
def test_refusals_and_failures_are_two_things(caplog: pytest.LogCaptureFixture) -> None:
    assert sampled(Refused("not today")) == (-1, "not today")
    assert sampled(Refused()) == (-1, "the user rejected sampling/createMessage")
    assert elicited(Refused("no")) == (-1, "no")
    assert not caplog.records
    failures: List[BaseException] = [
        KeyError("x"),
        minimcp.RpcError(5, "x"),
        SystemExit(3),
        minimcp.Cancelled("x"),
    ]
    for error in failures:
        assert sampled(error) == (-32603, "the host's handler failed")

    def list_roots() -> Any:
        return ["https://x.y/"]

    assert ask("roots/list", {}, list_roots=list_roots)[0] == -32603
    assert ask("roots/list", {}, list_roots=lambda: "/tmp")[0] == -32603
    assert caplog.text.count("failed:") == len(failures) + 2


@pytest.mark.requirement(
    "ROOT-05", "SAMP-01", "SAMP-14", "ELIC-01", "BASE-18", "M:SAM-10", "SEC-04"
)
def test_undeclared_methods_are_unknown() -> None:
    for method in ("sampling/createMessage", "elicitation/create", "roots/list", "tools/list"):
        assert ask(method, {"message": "?"})[0] == -32601
    assert (
        ask(
            "elicitation/create",
            {"message": "?", "requestedSchema": FORM},
            revision=R2,
            elicit=repr,
        )[0]
        == -32601
    )
    url_only = ask(
        "elicitation/create", {"message": "?"}, revision=R3, elicit=repr, elicitation=("url",)
    )
    assert url_only[0] == -32601


def test_a_question_right_after_the_handshake_is_answered() -> None:
    """A server may ask as soon as it has received `initialized`, before `connect` has returned."""
    asked = threading.Event()

    class Eager(answering.AnsweringPipe):
        __slots__ = ()

        def hear(self, message: Any) -> None:
            super().hear(message)
            if message.get("method") == "notifications/initialized":
                self.ask("roots/list")
                wait_for(asked)

    class Server(Answering):
        def open_pipe(self) -> Any:
            self.pipe = Eager(self.answers)
            return self.pipe

    def list_roots() -> List[str]:
        asked.set()
        return []

    server = Server()
    with minimcp.connect(server, revision=R4, list_roots=list_roots):
        assert server.pipe.heard(1) == {"s1": {"roots": []}}


@pytest.mark.requirement("ELIC-30")
def test_a_question_that_the_server_takes_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "minimcp")
    begun, gate, seen = threading.Event(), threading.Event(), []  # type: ignore[var-annotated]

    def elicit(request: Any) -> Any:
        begun.set()
        wait_for(gate)
        seen.append(request.cancelled)
        return {"name": "late"}

    server = Answering({"x": answering.silence})
    with minimcp.connect(server, revision=R4, elicit=elicit) as client:
        server.pipe.ask("elicitation/create", message="?", requestedSchema=FORM)
        wait_for(begun)
        task = Task(lambda: client.request("x", timeout=0.05))
        server.pipe.give(cancelled("s1"))
        with pytest.raises(minimcp.RequestTimeout):
            task.result()
        assert not gate.is_set(), "the clock goes on though the handler has not returned"
        gate.set()
        assert eventually(lambda: seen == [True])
        server.pipe.ask("roots/list", id="s2")
        assert list(server.pipe.heard(1)) == ["s2"]


CALL = ("tools/call", {"name": "t"})

# The requests of a client, the steps around a question that the server never takes back, and whether
# it is still open at the end. "+1" sends request 1, "?" waits until the host is asked, "!1" answers
# request 1 and waits for its return, and "-1" cancels it.
COURSES: Dict[str, Any] = {
    "its call is answered": ([CALL], "+1 ? !1", False),
    "its call is answered in the same write": ([CALL], "+1 !1", False),
    "another call may have asked it": ([CALL, CALL], "+1 +2 ? !1", True),
    "both are answered": ([CALL, CALL], "+1 +2 ? !1 !2", False),
    "the other one is given up": ([CALL, CALL], "+1 +2 ? !1 -2", False),
    "a later call cannot have asked it": ([CALL, CALL], "+1 ? +2 !1", False),
    "a list does not ask": ([("tools/list", {})], "+1 ? !1", True),
    "nobody was asked": ([CALL], "? +1 !1", True),
    "a method of an extension may ask": ([("x/y", {})], "+1 ? !1", False),
}


@pytest.mark.parametrize("course", COURSES)
def test_a_question_ends_with_the_last_call_that_may_have_asked_it(course: str) -> None:
    requests, steps, stays_open = COURSES[course]
    begun, void, gate = threading.Event(), threading.Event(), threading.Event()
    ids: List[Any] = []
    tasks: List[Any] = []
    tokens = [minimcp.CancelToken() for _ in requests]
    asks = steps.partition("?")[0].count("+")

    def elicit(request: Any) -> Any:
        request.on_cancel(void.set)
        begun.set()
        wait_for(gate)
        return {"name": "Ada"}

    def take(message: Any) -> None:
        ids.append(message["id"])
        question = request("s1", "elicitation/create", message="?", requestedSchema=FORM)
        if len(ids) == asks and "?" in steps:
            server.pipe.give(question)
        elif "?" not in steps:
            server.pipe.give(question, {"jsonrpc": "2.0", "id": ids[0], "result": {"content": []}})

    server = Answering({method: take for method, _ in requests})
    with minimcp.connect(server, revision=R4, elicit=elicit, timeout=WAIT) as client:
        for step in steps.split():
            number = int(step[1:] or 0) - 1
            if step == "?":
                if not asks:
                    server.pipe.ask("elicitation/create", message="?", requestedSchema=FORM)
                wait_for(begun)
            elif step[0] == "+":
                method, params = requests[number]
                call = partial(client.request, method, params, cancel=tokens[number])
                tasks.append(Task(call))
                assert eventually(lambda: len(ids) == len(tasks))
            elif step[0] == "!":
                if "?" in steps:
                    content = {"content": [], "tools": []}
                    server.pipe.give({"jsonrpc": "2.0", "id": ids[number], "result": content})
                tasks[number].result()
            else:
                tokens[number].cancel()
                assert isinstance(tasks[number].ended(), minimcp.Cancelled)
        wait_for(begun)
        assert void.is_set() is not stays_open
        for token in tokens:
            token.cancel()
        gate.set()
        assert server.pipe.heard(1)["s1"]["action"] == "accept"


@pytest.mark.requirement("M:CAN-7")
def test_the_timeout_is_paused_while_a_handler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate, moved = threading.Event(), threading.Event(), MovedTime()
    monkeypatch.setattr(deadlines, "time", moved)

    def elicit(request: Any) -> Any:
        begun.set()
        wait_for(gate)
        return {"name": "Ada"}

    def work(message: Any) -> None:
        server.pipe.ask("elicitation/create", message="?", requestedSchema=FORM)

    def answer(message: Any) -> Any:
        server.pipe.give({"jsonrpc": "2.0", "id": message["id"] - 1, "result": {"a": 1}})
        return {"result": {}}

    server = Answering({"x": work, "y": answer, "z": answering.silence})
    with minimcp.connect(server, revision=R4, elicit=elicit) as client:
        late = Task(lambda: client.request("z", timeout=WAIT))
        assert eventually(lambda: "z" in server.pipe.methods())
        task = Task(lambda: client.request("x", timeout=WAIT))
        wait_for(begun)
        later(client, moved)
        assert not threading.Event().wait(0.1) and task.thread.is_alive() and late.thread.is_alive()
        gate.set()
        server.pipe.heard(1)
        later(client, moved)
        with pytest.raises(minimcp.RequestTimeout):
            late.result()
        with pytest.raises(minimcp.RequestTimeout):
            task.result()
    assert server.pipe.methods().count("notifications/cancelled") == 2


def test_a_handler_calls_back_and_its_own_calls_have_an_end() -> None:
    outcomes: List[Any] = []

    def elicit(request: Any) -> Any:
        for call in (
            lambda: client.request("x", timeout=0.05),
            lambda: client.submit(client.request, "x", timeout=0.05).result(WAIT),
            lambda: client.request("y"),
        ):
            try:
                outcomes.append(call())
            except minimcp.RequestTimeout:
                outcomes.append("timeout")
        return {"name": "Ada"}

    server = Answering({"x": answering.silence, "y": result(a=1)})
    with minimcp.connect(server, revision=R4, elicit=elicit) as client:
        server.pipe.ask("elicitation/create", message="?", requestedSchema=FORM)
        assert server.pipe.heard(1)["s1"]["action"] == "accept"
    assert outcomes == ["timeout", "timeout", {"a": 1}]


@pytest.mark.requirement("SAMP-16", "M:SAM-15")
def test_questions_and_answers_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "minimcp")
    sampled("hush", messages=[{"role": "user", "content": {"type": "text", "text": "hush"}}])
    sampled(Refused("hush"))
    elicited({"name": "hush"}, message="hush")
    assert "hush" not in caplog.text


class Functions:
    on_tools_changed = None

    def on_log(self, message: Any) -> None:
        raise NotImplementedError

    def sample(self, request: Any) -> str:
        raise NotImplementedError


class Late:
    """A handler whose coroutine no caller would await."""

    async def elicit(self, request: Any) -> None:
        raise NotImplementedError


def gathered(handlers: Any, **keywords: Any) -> Host:
    options = {
        name: keywords.pop(name)
        for name in ("roots", "sampling", "elicitation")
        if name in keywords
    }
    return Host(handlers, keywords, **options)


def test_an_object_and_keywords_are_one_set() -> None:
    host = Functions()
    both = Host(host, {"on_log": None, "on_tools_changed": print, "elicit": repr}).functions
    assert (
        set(both) == {"sample", "elicit", "on_log", "on_tools_changed"}
        and both["on_tools_changed"] is print
    )
    assert Host().functions == {}
    wrong: List[Any] = [
        (host, {"on_log": print}, "on_log is passed twice"),
        (host, {"sample": print}, "sample is passed twice"),
        (Functions, {}, "Functions is a class"),
        ({"elicit": repr}, {}, r"a mapping: write \*\*handlers"),
        (
            object(),
            {},
            "handlers has none of sample, elicit, .*, on_restart: it is <object object",
        ),
        (Late(), {}, "^elicit is async: write a plain def; it runs on a thread and may block$"),
        (None, {"on_log": Late().elicit}, "^on_log is async"),
        (None, {"elicit": 5}, "must be callable, not int"),
        (None, {"list_roots": list, "roots": []}, "cannot be combined"),
        (None, {"roots": "/tmp"}, "a list of paths"),
        (None, {"roots": 5}, "a list of paths"),
        (None, {"roots": {"/tmp": "name"}}, "a list of paths"),
        (None, {"roots": [5]}, "a root must be a path"),
        (None, {"sampling": ["tools"]}, "applies only together with sample=, which is missing"),
        (host, {"sampling": "tools"}, r"did you mean \('tools',\)"),
        (
            None,
            {"elicitation": repr},
            "elicitation must list the features that elicit supports: did you mean elicit=",
        ),
        (None, {"sample": repr, "sampling": repr}, "did you mean sample="),
        (
            SimpleNamespace(on_log=print, on_logs=print),
            {},
            "handlers has on_logs, .*: did you mean on_log",
        ),
        (SimpleNamespace(on_tool_changed=print), {}, "did you mean on_tools_changed"),
    ]
    for handlers, keywords, text in wrong:
        with pytest.raises(TypeError, match=text):
            gathered(handlers, **keywords)
    for keywords in ({"sampling": ("form",)}, {"elicitation": ("x",)}, {"elicitation": ()}):
        with pytest.raises(ValueError, match="elicitation must name|can contain"):
            gathered(host, **keywords)


@pytest.mark.requirement("ROOT-03", "ROOT-06", "M:ROOT-3")
def test_roots_are_named_in_three_ways(tmp_path: Path) -> None:
    root = Root("file:///a%20b", "mine")
    found = as_roots([tmp_path, str(tmp_path), "file:///x", root])
    assert [each.uri for each in found] == [
        tmp_path.as_uri(),
        tmp_path.as_uri(),
        "file:///x",
        "file:///a%20b",
    ]
    assert found[3] is root and as_roots(()) == []
    for uri in ("https://x.y/", "file:///a/../b", "file:///a/%2e%2e/b"):
        with pytest.raises(ValueError, match="file://"):
            as_roots([uri])
    with pytest.raises(ValueError, match="file://"):
        as_roots([Root.from_wire({"uri": "http://x"})])


FULL: Dict[str, Any] = {"sample": repr, "elicit": repr, "list_roots": list}


@pytest.mark.requirement("ROOT-01", "SAMP-01", "SAMP-17", "ELIC-01", "ELIC-02")
@pytest.mark.requirement("M:ELI-1", "M:SAM-1", "M:ROOT-1", "M:ROOT-4", "M:META-19")
def test_declared_capabilities_follow_the_options_and_the_revision() -> None:
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
    assert [each.get("elicitation") for each in some] == [
        None,
        None,
        None,
        {"url": {}},
        {"url": {}},
    ]
    assert all(Host().capabilities(revision) == {} for revision in REVISIONS)


@pytest.mark.requirement("ROOT-02", "ROOT-04", "M:ROOT-4")
def test_a_server_is_notified_of_changed_roots_and_can_list_them(tmp_path: Path) -> None:
    server = Answering()
    with minimcp.connect(server, revision=R4, roots=["file:///a"]) as client:
        server.pipe.ask("roots/list", id=1)
        server.pipe.heard(1)
        client.set_roots([Root("file:///b", "B")])
        assert eventually(lambda: server.pipe.methods()[-1] == "notifications/roots/list_changed")
        server.pipe.ask("roots/list", id=2)
        answers = server.pipe.heard(2)
        assert answers == {
            1: {"roots": [{"uri": "file:///a"}]},
            2: {"roots": [{"uri": "file:///b", "name": "B"}]},
        }
        with pytest.raises(ValueError, match="file://"):
            client.set_roots(["http://x"])
    server = Answering(modern=True)
    with minimcp.connect(server, list_roots=list) as client:
        client.roots_changed()
        with pytest.raises(RuntimeError, match="without roots"):
            client.set_roots([])
        assert server.pipe.methods() == ["server/discover"]
    with minimcp.connect(Answering()) as client, pytest.raises(RuntimeError, match="has no roots"):
        client.roots_changed()


def test_callbacks_run_in_order_on_one_thread_and_may_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dispatcher, seen, done = CallbackThread(), [], threading.Event()  # type: ignore[var-annotated]

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
    assert eventually(
        lambda: not any(each.name == "minimcp-callbacks" for each in threading.enumerate())
    )
    assert caplog.text.count("a callback failed") == 1


def test_a_slow_callback_loses_the_oldest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_NOTIFICATIONS", 3)
    dispatcher, begun, gate, seen = CallbackThread(), threading.Event(), threading.Event(), []  # type: ignore[var-annotated]

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


@pytest.mark.requirement("ELIC-28", "X-28")
def test_notices_reach_their_callbacks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "minimcp.client")
    heard: List[Any] = []
    changed, server = threading.Event(), Answering()
    with minimcp.connect(server, on_log=heard.append, on_tools_changed=changed.set, revision=R4):
        server.pipe.give(
            notice(
                "notifications/elicitation/complete", elicitationId="none of ours", _meta={"a": 1}
            ),
            notice("notifications/message", level=5, data="x"),
            notice("notifications/message", level="info", data={"a": 1}),
            notice("notifications/tools/list_changed"),
            notice("notifications/prompts/list_changed"),
        )
        wait_for(changed)
        assert [(message.level, message.data) for message in heard] == [("info", {"a": 1})]
        assert eventually(
            lambda: "prompts/list_changed ignored: there is no callback" in caplog.text
        )
    assert "invalid notifications/message" in caplog.text


def test_without_a_thread_a_callback_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher, seen, done = CallbackThread(), [], threading.Event()  # type: ignore[var-annotated]
    with no_threads(monkeypatch):
        dispatcher.put(lambda: seen.append(1))
    dispatcher.put(done.set)
    wait_for(done)
    dispatcher.close()
    assert seen == [1]
