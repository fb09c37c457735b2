"""What a client of plain messages sees of handlers that ask: in all five revisions, and across
processes."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from minimcp import Server
from minimcp.engine.timer import timer

from ..answering import R1, R2, R3, R4, R5, REVISIONS
from ..inside import connections_of, feature_of
from ..support import ROOT, WAIT, MovedTime, eventually
from ..wire.harness import RawServer
from ..wire.messages import modern
from . import questions_server
from .questions_server import PAY, build
from .raw_client import ALL, RawClient

SAID = {
    "role": "assistant",
    "model": "m",
    "content": {"type": "text", "text": "short"},
    "stopReason": "endTurn",
}
ROOTS = {"roots": [{"uri": "file:///a/b", "name": "b"}, {"uri": "file:///c", "name": "c"}]}


def user(question: Dict[str, Any]) -> Dict[str, Any]:
    """What the user does: fills in every form, and says yes to every URL."""
    params = question["params"]
    if params.get("mode") == "url":
        return {"action": "accept"}
    values = {"string": "ab", "integer": 3, "boolean": True, "array": ["x"]}
    fields = params["requestedSchema"]["properties"]
    content = {
        name: field.get("enum", [values[field["type"]]])[0] for name, field in fields.items()
    }
    content.update(
        {name: field["oneOf"][0]["const"] for name, field in fields.items() if "oneOf" in field}
    )
    return {"action": "accept", "content": content}


REPLIES: Dict[str, Any] = {
    "elicitation/create": user,
    "sampling/createMessage": SAID,
    "roots/list": ROOTS,
}


@contextmanager
def serving(
    revision: str, replies: Any = None, *, capabilities: Any = None, **options: Any
) -> Iterator[Any]:
    server = build(**options)
    with RawClient(server, revision, {**REPLIES, **(replies or {})}, capabilities) as client:
        yield client
    server.close()


NEEDS_SAMPLING = "tool 'needs' needs a client with sampling, such as connect(..., sample=f)"


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def lacking(name: str, method: str, revision: str) -> Any:
    """How a call ends that needs what is not there."""
    way = {"elicitation": "elicit=f", "sampling": "sample=f", "roots": "roots=[...]"}[
        name.partition(".")[0]
    ]
    having = {
        "elicitation.form": (R3, R4, R5),
        "elicitation.url": (R4, R5),
        "sampling.tools": (R4, R5),
    }.get(name)
    there = having is None or revision in having
    told = (
        f", such as connect(..., {way})"
        if there
        else f": {revision} has none, {', '.join(having or ())} have"
    )
    return -32021 if revision == R5 else [f"{method} needs a client with {name}{told}"]


@pytest.mark.requirement(
    "SAMP-02",
    "ROOT-02",
    "ELIC-05",
    "ELIC-18",
    "ELIC-25",
    "M:MRTR-S15",
    "M:ELI-1",
    "M:SAM-1",
    "M:ROOT-1",
    "M:ELI-7",
)
@pytest.mark.parametrize("check", [False, True])
def test_the_same_handlers_give_the_same_in_every_revision(revision: str, check: bool) -> None:
    forms, urls = revision in (R3, R4, R5), revision in (R4, R5)
    no_form = lacking("elicitation.form", "elicitation/create", revision)
    no_url = lacking("elicitation.url", "elicitation/create", revision)
    with serving(revision, check_replay=check) as client:
        assert client.call("book", city="Oslo") == ("Oslo on ab for 3" if forms else no_form)
        assert client.call("decide") == ("accept {'sure': True}" if forms else no_form)
        assert client.call("pick") == ('{"size":"s","pattern":"ab"}' if forms else no_form)
        assert client.call("summarise", text="x") == "short (m, endTurn, 1)"
        assert client.call("look") == "b=/a/b, c=/c"
        assert client.call("pay") == ("accept" if urls else no_url)
        whole = '{"name":{"name":"ab"},"poem":"short","roots":["file:///a/b","file:///c"],"url":"accept"}'
        assert client.call("everything") == (whole if urls else no_url if forms else no_form)
        assert client.call("needs") == "short"
        assert client.call("careful") == "short"


@pytest.mark.requirement("ROOT-03", "M:ROOT-3")
def test_a_root_that_is_no_file_is_dropped(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    uris = ["https://example.com/a", "file:///a/b", "ftp://x\x1b[2J", "/c", "FILE:///d", ""]
    roots = {"roots": [{"uri": uri, "name": "r"} for uri in uris]}
    with serving(revision, {"roots/list": roots}) as client:
        assert client.call("look") == "r=/a/b, r=/d"
    dropped = [each.getMessage() for each in caplog.records if "dropped" in each.getMessage()]
    assert len(set(dropped)) == 4 and "https://example.com/a is not a file:// URI" in dropped[0]
    assert "\x1b" not in "".join(dropped)


@pytest.mark.requirement("X-03", "X-15")
def test_choices_by_revision(revision: str) -> None:
    with serving(revision) as client:
        client.call("pick")
        if revision in (R1, R2):
            assert client.asked == []
            return
        fields = client.asked[0]["params"]["requestedSchema"]["properties"]
        if revision == R3:
            assert fields["size"] == {
                "type": "string",
                "enum": ["s", "l"],
                "enumNames": ["Small", "Large"],
            }
            assert (
                fields["pattern"] == {"type": "string"} and "mode" not in client.asked[0]["params"]
            )
            assert client.call("pick", lists=True) == [
                "2025-06-18 does not have forms with lists of choices"
            ]
        else:
            assert fields == questions_server.PICKS["properties"]
            assert client.call("pick", lists=True) == '{"picks":["x"]}'


@pytest.mark.requirement("SAMP-13", "ROOT-05", "X-21")
def test_refusals_and_errors_of_the_client(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    rejected = {"error": {"code": -1, "message": "User rejected sampling request"}}
    broken = {"error": {"code": -32601, "message": "Roots not supported"}}
    with serving(revision, {"sampling/createMessage": rejected, "roots/list": broken}) as client:
        refused = "refused: User rejected sampling request"
        assert client.call("careful") == ("given up" if revision == R5 else refused)
        assert client.call("look") == (
            "given up" if revision == R5 else ["Roots not supported (-32601)"]
        )


@pytest.mark.requirement(
    "ROOT-07",
    "SAMP-18",
    "SAMP-29",
    "ELIC-03",
    "M:MRTR-S4",
    "M:ELI-2",
    "M:SAM-2",
    "M:ROOT-2",
    "M:META-15",
    "M:META-16",
)
def test_nothing_undeclared_is_asked(revision: str) -> None:
    with serving(revision, capabilities={"sampling": {}}) as client:
        for tool, name, method in (
            ("book", "elicitation.form", "elicitation/create"),
            ("look", "roots", "roots/list"),
            ("pay", "elicitation.url", "elicitation/create"),
            ("talk", "sampling.tools", "sampling/createMessage"),
        ):
            arguments = {"city": "x"} if tool == "book" else {}
            assert client.call(tool, **arguments) == lacking(name, method, revision)
        assert client.asked == []
    with serving(revision, capabilities={}) as client:
        assert client.call("needs") == (-32021 if revision == R5 else [NEEDS_SAMPLING])
        assert client.call("summarise", text="x") == lacking(
            "sampling", "sampling/createMessage", revision
        )
        if revision == R5:
            message = client.once("tools/call", name="pay", arguments={})
            assert message["error"]["data"] == {
                "requiredCapabilities": {"elicitation": {"url": {}}}
            }


@pytest.mark.requirement("SAMP-17", "SAMP-18", "SAMP-20", "M:SAM-2", "M:SAM-13")
def test_a_model_with_tools(revision: str) -> None:
    use = {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1}, "_meta": {"k": 1}}

    def model(question: Dict[str, Any]) -> Dict[str, Any]:
        return (
            SAID
            if "toolChoice" in question["params"]
            else {**SAID, "content": [use], "stopReason": "toolUse"}
        )

    with serving(revision, {"sampling/createMessage": model}) as client:
        if revision not in (R4, R5):
            assert client.call("talk") == lacking(
                "sampling.tools", "sampling/createMessage", revision
            )
            return
        assert client.call("talk") == "short"
        first, second = (question["params"] for question in client.asked)
        assert (
            first["tools"] == [{"name": "add", "inputSchema": {"type": "object"}}]
            and "toolChoice" not in first
        )
        assert second["toolChoice"] == {"mode": "none"} and second["messages"][1]["content"] == use


@pytest.mark.requirement("ELIC-23", "ELIC-26", "ELIC-27", "ELIC-31", "ELIC-32", "ELIC-33", "X-02")
@pytest.mark.requirement("M:ELI-9", "M:ELI-11", "M:ERR-4")
def test_urls_by_revision(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    with serving(revision) as client, serving(revision) as other:
        if revision in (R4, R5):
            assert client.call("pay") == "accept"
            params = client.asked[0]["params"]
            own = {"elicitationId": "pay-1"} if revision == R4 else {}
            assert params == {"mode": "url", "message": "Pay, please", "url": PAY, **own}
        done = [
            notice
            for notice in client.notices
            if notice["method"] == "notifications/elicitation/complete"
        ]
        assert [notice["params"] for notice in done] == [{"elicitationId": "pay-1"}] * (
            revision == R4
        )
        client.asked.clear()
        message = client.whole("tools/call", name="must_pay", arguments={})
        if revision == R5:
            assert (
                message["result"]["content"][0]["text"] == "paid in round 2"
                and len(client.asked) == 1
            )
        elif revision == R4:
            entry = {"mode": "url", "message": "Pay", "url": PAY, "elicitationId": "e1"}
            assert message["error"]["code"] == -32042 and message["error"]["data"] == {
                "elicitations": [entry]
            }
        else:
            assert (
                message["result"]["isError"]
                and message["result"]["content"][0]["text"] == "pay first"
            )
        assert other.call("look") == "b=/a/b, c=/c" and other.notices == []
    with serving(revision, {"elicitation/create": {"action": "decline"}}) as client:
        if revision == R5:
            assert client.call("must_pay", stubborn=True) == ["pay first"]
            client.replies["elicitation/create"] = {"action": "accept"}
            assert (
                client.call("must_pay", stubborn=True) == ["pay first"] and len(client.asked) == 9
            )


# ------------------------------------------------------------ requests that are questions to the client


def test_the_time_of_a_tool_stands_while_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = MovedTime()
    monkeypatch.setattr("minimcp.engine.timer.time", moved)
    server, looked = build(), threading.Event()
    with RawClient(server, R4, {**REPLIES, "elicitation/create": lambda question: None}) as client:
        call = client.begin("tools/call", name="hurried", arguments={})
        question = client.peer.expect()
        moved.ahead += 2 * questions_server.HURRY  # longer than the tool may run
        timer.after(0, looked.set)
        assert looked.wait(WAIT), "what is over by now has rung before"
        client.peer.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        assert client.answer(call)["result"]["content"][0]["text"] == "decline"
        client.replies["elicitation/create"] = {"action": "decline"}
        assert client.call("late", after=WAIT) == ["late did not finish within 0.05 s"]
    server.close()


@pytest.mark.requirement("CANC-04", "M:CAN-10")
def test_a_cancelled_call_withdraws_its_question() -> None:
    questions_server.ended.clear()
    with serving(R4) as client:
        call = client.begin("tools/call", name="wait", arguments={"name": "cancelled"})
        question = client.peer.expect()
        client.peer.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}
        )
        notice = client.peer.expect()
        assert (
            notice["method"] == "notifications/cancelled"
            and notice["params"]["requestId"] == question["id"]
        )
        client.reply(question)  # too late: nobody waits
        assert client.call("decide") == "accept {'sure': True}"
        assert eventually(lambda: questions_server.ended.get("cancelled") == ["Cancelled"])


# ------------------------------------------------------------ rounds


def ask_once(client: Any, **params: Any) -> Dict[str, Any]:
    message: Dict[str, Any] = client.once("tools/call", name="decide", arguments={}, **params)
    return message


@pytest.mark.requirement("M:MRTR-S5", "M:MRTR-S10", "M:MRTR-S18", "M:MRTR-S19", "M:MRTR-S21")
def test_a_state_that_was_changed_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with serving(R5) as client:
        result = ask_once(client)["result"]
        token, answers = (
            result["requestState"],
            {key: user(each) for key, each in result["inputRequests"].items()},
        )
        for bad in (token + "-TAMPERED", token[:-1], "v1.AAAA", "", 5, "A" * 2**20):
            error = ask_once(client, requestState=bad, inputResponses=answers)["error"]
            assert error == {
                "code": -32602,
                "message": "Invalid or expired requestState",
                "data": {"reason": "invalid_request_state"},
            }
        for bad in (5, [], {"k": None}, {"k": 5}):
            assert (
                ask_once(client, requestState=token, inputResponses=bad)["error"]["code"] == -32602
            )
        other = client.once(
            "tools/call", name="book", arguments={}, requestState=token, inputResponses=answers
        )
        assert other["error"]["data"] == {"reason": "invalid_request_state"}
        unasked = ask_once(client, requestState=None, inputResponses=answers)["result"]
        assert unasked["resultType"] == "complete", "as over HTTP, the key says what it answers"
        anew = ask_once(client, requestState=None)["result"]  # a call of its own
        assert anew["resultType"] == "input_required"
        assert (
            ask_once(client, requestState=token, inputResponses=answers)["result"]["resultType"]
            == "complete"
        )
        assert (
            ask_once(client, requestState=token, inputResponses=answers)["result"]["resultType"]
            == "complete"
        ), "a second copy runs again"
        assert (
            ask_once(client, requestState=anew["requestState"])["result"]["resultType"]
            == "input_required"
        )


@pytest.mark.requirement("M:MRTR-S11", "M:MRTR-S12", "M:BASE-12", "M:BASE-9")
@pytest.mark.parametrize("check", [False, True])
def test_three_processes_serve_one_call(tmp_path: Path, check: bool) -> None:
    path = tmp_path / "effects"
    keys = ["11" * 32, "22" * 32]
    servers = [
        RawServer(
            script=Path(questions_server.__file__),
            env={"PYTHONPATH": str(ROOT)},
            state_keys=order,
            check_replay=check,
        )
        for order in (keys, keys[::-1], keys)
    ]
    try:
        params: Dict[str, Any] = {"name": "effects", "arguments": {"path": str(path)}}
        more: Dict[str, Any] = {}
        seen: List[str] = []
        for number in range(10):
            server = servers[number % 3]
            server.write(
                {
                    "jsonrpc": "2.0",
                    "id": number,
                    "method": "tools/call",
                    "params": modern({**params, **more}, capabilities=ALL),
                }
            )
            result = server.answer(number)["result"]
            if result["resultType"] == "complete":
                break
            seen += result["inputRequests"]
            answers = {
                key: {"action": "accept", "content": {"n": len(seen)}}
                for key in result["inputRequests"]
            }
            more = {"requestState": result["requestState"], "inputResponses": answers}
        assert seen == ["one", "two", "three"] and number == 3
        assert result["content"][0]["text"] == f"1 2 3 {len('begin 1') + len('end 2')}"
        *steps, call_id = path.read_text().splitlines()
        assert steps == ["begin 1", "end 2"] and len(call_id) == 32
        assert json.dumps(result)
        for server in servers:
            assert server.finish() == []
    finally:
        for server in servers:
            server.dispose()


def test_a_server_keeps_nothing_of_a_client_that_never_comes_back() -> None:
    server = build(check_replay=True)
    assert feature_of(server, "rounds") is not feature_of(Server("quiet"), "rounds")
    with RawClient(server, R5, REPLIES) as client:
        before = set(threading.enumerate())
        for _ in range(100):
            assert ask_once(client)["result"]["resultType"] == "input_required"
        assert len(set(threading.enumerate()) - before) < 30, (
            "a few workers, as many as were busy at once"
        )
        channel = connections_of(server)[0]
        assert eventually(lambda: "0 running, 0 queued" in repr(channel.pool))
        assert len(channel.requests) == 0 and len(channel.calls) == 0
    server.close()
