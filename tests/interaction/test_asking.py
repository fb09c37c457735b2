"""Handlers that ask, as a client of plain messages sees them: in every revision, and across
processes."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Literal

import pytest

from minimcp import (
    Context,
    Elicit,
    InvalidParams,
    Limits,
    ListRoots,
    MethodNotFound,
    ProtocolViolation,
    Refused,
    RpcError,
    Server,
    UrlElicitationRequired,
)
from minimcp.engine.timer import timer
from minimcp.features import input_rounds

from ..answering import R1, R2, R3, R4, R5, REVISIONS
from ..rows import for_each
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
    """Answer like a user who fills in every form and accepts every URL."""
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


NEEDS_SAMPLING = (
    "tool 'needs' needs a client with sampling, such as connect(..., sample=f); if the server can "
    "work without it, test ctx.client.supports('sampling') first"
)


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def lacking(name: str, method: str, revision: str) -> Any:
    """Return the result of a call that needs a missing capability."""
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
        f", such as connect(..., {way}); if the server can work without it, test "
        f"ctx.client.supports({name!r}) first"
        if there
        else f": {revision} does not have it; these revisions do: {', '.join(having or ())}"
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
def test_the_same_handlers_return_the_same_in_every_revision(revision: str, check: bool) -> None:
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
def test_a_root_that_is_not_a_file_is_dropped(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
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
                "2025-06-18 does not support forms with lists of choices"
            ]
        else:
            assert fields == questions_server.PICKS["properties"]
            assert client.call("pick", lists=True) == '{"picks":["x"]}'


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
            assert client.call("must_pay", stubborn=True) == ["pay first"]
            assert len(client.asked) == 9 and "asked 8 times" in caplog.text


@pytest.mark.requirement("M:ERR-4")
@pytest.mark.parametrize("revision", [R4, R5])
@pytest.mark.parametrize(
    ("url", "warning"),
    [
        (PAY, ""),
        ("javascript:alert(1)", "must begin with http:// or https://"),
        (None, ""),
    ],
)
def test_a_prompt_or_a_resource_may_need_a_url(
    url: Any, warning: str, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("payments")
    entry = {"mode": "url", "message": "Pay", "url": url, "elicitationId": "e1"}
    data = {"elicitations": [entry]} if url else None

    @server.prompt
    def asks(ctx: Context) -> str:
        """Refuse until a URL was opened."""
        if ctx.round == 1:
            raise UrlElicitationRequired("pay first", data)
        return "paid"

    server.add_resource(asks, "pay://first")
    with RawClient(server, revision, REPLIES) as client:
        for method, params in (
            ("prompts/get", {"name": "asks"}),
            ("resources/read", {"uri": "pay://first"}),
        ):
            message = client.whole(method, **params)
            if revision == R5 and url == PAY:
                assert '"paid"' in json.dumps(message["result"])
            else:
                assert message["error"]["code"] == (-32603 if revision == R5 else -32042)
    assert warning in caplog.text or revision == R4
    server.close()


# ------------------------------------------------------------ one handler


YES = {"action": "accept", "content": {"n": 1}}


@contextmanager
def tool(
    handler: Any, revision: str = R5, replies: Any = None, **options: Any
) -> Iterator[RawClient]:
    """Serve a handler as the tool ``t``, to a client that accepts every form."""
    server = Server("asks", **{"limits": Limits(waiting_handlers=0), **options})
    server.add_tool(handler, name="t")
    answers = {"elicitation/create": YES, "roots/list": {"roots": []}, **(replies or {})}
    with RawClient(server, revision, answers) as client:
        yield client
    server.close()


def ask(ctx: Context, key: str = "k", message: str = "How many?") -> int:
    found: int = ctx.elicit(message, {"n": int}, key=key).content["n"]
    return found


@pytest.mark.requirement("M:MRTR-S2", "M:MRTR-S14", "M:MRTR-S16", "M:META-7", "M:BASE-6")
def test_a_question_is_a_result_that_contains_a_request() -> None:
    def two(ctx: Context) -> str:
        return f"{ask(ctx)} {ctx.list_roots()}"

    def roots(ctx: Context) -> str:
        return str(ctx.list_roots())

    params = {
        "mode": "form",
        "message": "How many?",
        "requestedSchema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        },
    }
    for handler, asked in (
        (two, {"k": {"method": "elicitation/create", "params": params}}),
        (roots, {"roots-1": {"method": "roots/list"}}),
    ):
        with tool(handler) as client:
            result = client.once("tools/call", name="t", arguments={})["result"]
        stamp = result.pop("_meta")["io.modelcontextprotocol/serverInfo"]
        assert stamp["name"] == "asks" and isinstance(result.pop("requestState"), str)
        assert result == {"resultType": "input_required", "inputRequests": asked}


@pytest.mark.requirement("M:MRTR-S1", "M:VER-S16", "M:CMP-6")
@pytest.mark.parametrize("revision", [R4, R5])
def test_only_calls_prompts_and_resources_may_ask(revision: str) -> None:
    server, problems = Server("asks"), []

    @server.prompt
    def plain(tone: Literal["a", "b"]) -> str:
        """A prompt with a completion."""
        return tone

    @server.middleware
    def asks(ctx: Context, call_next: Any) -> Any:
        if ctx.method == "completion/complete":
            with pytest.raises(RuntimeError, match="cannot ask") as caught:
                ask(ctx)
            problems.append(str(caught.value))
            assert ctx.step("s", lambda: 1) == 1
        return call_next()

    with RawClient(server, revision, {}) as client:
        ref = {"type": "ref/prompt", "name": "plain"}
        more = {"requestState": "x", "inputResponses": 5}  # not members of these requests
        found = client.result(
            "completion/complete", ref=ref, argument={"name": "tone", "value": ""}, **more
        )
        assert found["completion"]["values"] == ["a", "b"]
        assert client.asked == [] and len(problems) == 1
        assert "prompts/get, resources/read, tools/call" in problems[0]
    server.close()


def test_members_of_a_retry_mean_nothing_where_requests_have_no_rounds() -> None:
    def works(ctx: Context) -> str:
        return "done"

    with tool(works, R4) as client:
        params = {"name": "t", "arguments": {}, "requestState": "x", "inputResponses": 5}
        assert client.result("tools/call", **params)["content"][0]["text"] == "done"


def test_wrong_questions_and_keys_are_rejected(revision: str) -> None:
    def wrong(ctx: Context) -> str:
        questions: List[Any] = [{5: Elicit("?", {"n": int})}, {"a": "What?"}, {None: ListRoots()}]
        for each in questions:
            with pytest.raises(TypeError, match="with keys that are str"):
                ctx.ask_all(each)
        with pytest.raises(TypeError, match="the key of a step"):
            ctx.step(5, int)  # type: ignore[arg-type]
        return "checked"

    with tool(wrong, revision) as client:
        assert client.call("t") == "checked" and client.asked == []


@pytest.mark.parametrize("revision", [R4, R5])
def test_a_step_runs_once_and_a_failed_step_may_be_tried_again(revision: str) -> None:
    ran: List[str] = []

    def fail() -> None:
        raise OSError("flaky")

    def pays(ctx: Context) -> str:
        made = ctx.step("one", lambda: ran.append("one") or {"made": [len(ran)]})
        assert made == {"made": [1]}
        made["made"].append("changed by the handler")
        function: Any
        for function, error in ((fail, OSError), (object, ValueError)):
            if "pay" not in ran:
                with pytest.raises(error):
                    ctx.step("pay", function)
        ask(ctx)
        assert ctx.step("pay", lambda: ran.append("pay") or 0) == 0
        with pytest.raises(RuntimeError, match="'pay' is the key of two steps"):
            ctx.step("pay", int)
        ask(ctx, "again")
        return f"{ran}"

    with tool(pays, revision) as client:
        assert client.call("t") == "['one', 'pay']"


REFUSAL = "User rejected sampling request"


@pytest.mark.requirement("SAMP-13", "ROOT-05", "X-21", "ELIC-19", "M:ELI-18")
@pytest.mark.parametrize("check", [False, True])
@for_each(
    "answer, kind, words",
    [
        ({"error": {"code": -1, "message": REFUSAL}}, Refused, REFUSAL),
        ({"error": {"code": -1, "message": ""}}, Refused, ""),
        ({"error": {"code": -32603, "message": "the user declined"}}, Refused, "declined"),
        ({"error": {"code": 4, "message": "Request denied"}}, Refused, "denied"),
        ({"error": {"code": -32603, "message": "it broke"}}, RpcError, "it broke"),
        ({"error": {"code": -32602, "message": "was rejected"}}, InvalidParams, "rejected"),
        ({"error": {"code": -32601, "message": "no"}}, MethodNotFound, "no"),
        ({"action": "perhaps"}, ProtocolViolation, "elicitation/create: action"),
        ({"action": "accept", "content": {"n": "x"}}, ProtocolViolation, "expected an integer"),
    ],
)
def test_an_answer_that_is_an_error_is_raised_where_the_handler_asks(
    answer: Any, kind: Any, words: str, check: bool
) -> None:
    caught: List[Exception] = []

    def catches(ctx: Context) -> str:
        try:
            return str(ask(ctx))
        except Exception as error:
            caught.append(error)
            return f"{ask(ctx, 'after')}"

    def asked(question: Dict[str, Any]) -> Any:
        return YES if caught or client.asked[:-1] else answer

    with tool(catches, R4, {"elicitation/create": asked}, check_replay=check) as client:
        assert client.call("t") == "1" and len(client.asked) == 2
    assert isinstance(caught[-1], kind) and words in str(caught[-1])
    assert getattr(caught[-1], "from_peer", True)


@pytest.mark.requirement("SAMP-13", "ROOT-05", "X-21")
def test_a_client_that_refuses_answers_no_retry(revision: str) -> None:
    refused = {"error": {"code": -1, "message": REFUSAL}}
    broken = {"error": {"code": -32601, "message": "Roots not supported"}}
    with serving(revision, {"sampling/createMessage": refused, "roots/list": broken}) as client:
        found = [client.call("careful"), client.call("look")]
    if revision == R5:
        assert found == ["given up", "given up"]
    else:
        assert found == [f"refused: {REFUSAL}", ["Roots not supported (-32601)"]]


@pytest.mark.requirement("M:MRTR-S3")
def test_a_pending_question_wins_over_the_outcome_of_the_handler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def swallows(ctx: Context) -> str:
        try:
            return str(ask(ctx))
        except:  # noqa: E722
            return "guessed"

    def fails(ctx: Context) -> str:
        try:
            return str(ask(ctx))
        finally:
            raise ValueError("in the finally")

    def continues(ctx: Context) -> str:
        for key in ("a", "b"):
            try:
                ask(ctx, key)
            except BaseException:
                pass
        return "guessed"

    for handler, keys, did in (
        (ask, {"k"}, ""),
        (swallows, {"k"}, "continued"),
        (fails, {"k"}, "raised ValueError('in the finally')"),
        (continues, {"a", "b"}, "continued"),
    ):
        caplog.clear()
        with tool(handler) as client:
            result = client.once("tools/call", name="t", arguments={})["result"]
            assert set(result["inputRequests"]) == keys
            assert handler is not swallows or client.call("t") == "1"
        warned = (
            f"tools/call t {did} although a question is pending: let Suspend propagate, and catch"
        )
        assert (warned in caplog.text) == bool(did)


def test_a_tool_that_runs_again_is_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_rounds, "replayed", set())
    caplog.set_level("INFO", "minimcp.rounds")
    with tool(ask) as client:
        for _ in range(2):
            assert client.call("t") == "1"
    assert caplog.text.count("runs again from the top") == 1


# ------------------------------------------------------------ handlers that are checked


@pytest.mark.parametrize("revision", [R4, R5])
def test_check_replay_finds_a_handler_that_asks_something_else_the_second_time(
    revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs: List[int] = []

    def rewords(ctx: Context) -> str:
        runs.append(1)
        return f"{ask(ctx, 'a', f'message {len(runs)}')} {ask(ctx, 'b')}"

    def renames(ctx: Context) -> str:
        runs.append(1)
        return f"{ask(ctx, f'k{len(runs)}')}"

    def forgets(ctx: Context) -> str:
        runs.append(1)
        return f"{ask(ctx)}" if len(runs) == 1 else "enough"

    def swallows(ctx: Context) -> str:
        try:
            return rewords(ctx)
        except Exception:
            return "nothing happened"

    for handler, words in (
        (rewords, "store the values that it depends on with ctx.step"),
        (renames, "but not in this run"),
        (forgets, "but not in this run"),
        (swallows, "a different question"),
    ):
        runs.clear()
        with tool(handler, revision, check_replay=True) as client:
            error = client.whole("tools/call", name="t", arguments={})["error"]
        assert error["code"] == -32603
        assert "check_replay: " in error["message"] and words in error["message"]
    assert "although a question is pending" not in caplog.text, "that would be another fault"


# ------------------------------------------------------------ requests that are questions to the client


def test_the_timeout_of_a_tool_is_paused_while_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
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
        client.reply(question)  # too late: no handler waits
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
        for other in ({"name": "book"}, {"arguments": {"more": 1}}):
            call = {"name": "decide", "arguments": {}, "requestState": token, **other}
            refused = client.once("tools/call", **call, inputResponses=answers)["error"]
            assert refused["data"] == {"reason": "invalid_request_state"}
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
