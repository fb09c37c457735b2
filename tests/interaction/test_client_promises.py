"""Promises of a client about its results and requests: one identity per cache, ``task`` only for
tools that declare it, and output schemas that are checked."""

from __future__ import annotations

import json
from typing import Any, Iterator, List

import pytest
from requests.auth import AuthBase, HTTPBasicAuth

import minimcp
from minimcp import Bearer, Context, HttpOptions, Server, Tasks

from ..answering import R4, R5, Answering, initialized, result
from ..inside import forget_servers
from ..support import WAIT

requirement = pytest.mark.requirement

LISTS = {
    "tools/list": lambda client: [each.name for each in client.list_tools()],
    "resources/list": lambda client: [each.uri for each in client.list_resources()],
    "prompts/list": lambda client: [each.name for each in client.list_prompts()],
    "resources/templates/list": lambda client: client.list_resource_templates(),
    "resources/read": lambda client: client.read_resource("notes://one").contents[0].text,
    "server/discover": lambda client: client.request("server/discover")["capabilities"],
}


class Who:
    """A server with lists that depend on the caller, and a record of its callers."""

    def __init__(self) -> None:
        forget_servers()
        self.asked: List[str] = []
        self.server = Server("who", list_ttl=3600)

        @self.server.tool
        def work() -> str:
            """Work."""
            return "done"

        @self.server.resource("notes://one", ttl=3600)
        def one(ctx: Context) -> str:
            """A note."""
            return str(ctx.headers.get("Authorization"))

        @self.server.resource("notes://{name}", ttl=3600)
        def named(name: str) -> str:
            """A note."""
            return name

        @self.server.prompt
        def hello() -> str:
            """Say hello."""
            return "hello"


@pytest.fixture
def who() -> Iterator[Who]:
    made = Who()
    yield made
    made.server.close()


class Named(AuthBase):
    """An auth object of a user's library."""

    def __init__(self) -> None:
        self.token = "ada"

    def __call__(self, request: Any) -> Any:
        request.headers["X-Key"] = self.token
        return request


# ------------------------------------------------------------ the cache of one identity


@requirement("M:CACHE-7")
@pytest.mark.parametrize("method", LISTS)
def test_a_new_token_begins_with_an_empty_cache(who: Who, method: str) -> None:
    token = ["ada"]
    seen: List[str] = []

    def trace(arrow: str, text: str) -> None:
        if arrow == "-->":
            seen.append(json.loads(text)["method"])

    with who.server.start_http() as running:
        options: Any = {"auth": lambda: token[0], "revision": R5, "timeout": WAIT, "trace": trace}
        with minimcp.connect(running.url, **options) as client:
            count = seen.count(method)
            for expected, name in ((1, "ada"), (1, "ada"), (2, "bob"), (2, "bob"), (3, "eve")):
                token[0] = name
                found = LISTS[method](client)
                assert seen.count(method) - count == expected
                if method == "resources/read":
                    assert found == f"Bearer {name}"


@requirement("M:CACHE-7")
def test_an_auth_object_with_another_identity(who: Who) -> None:
    named = Named()
    seen: List[str] = []
    with who.server.start_http() as running:
        with minimcp.connect(
            running.url, auth=named, revision=R5, trace=lambda arrow, text: seen.append(text)
        ) as client:
            for expected, name in ((1, "ada"), (1, "ada"), (2, "bob")):
                named.token = name
                client.list_tools()
                assert sum('-"' not in each and '"tools/list"' in each for each in seen) == expected
        basic = HTTPBasicAuth("ada", "secret")
        seen.clear()
        with minimcp.connect(
            running.url, auth=basic, revision=R5, trace=lambda arrow, text: seen.append(text)
        ) as client:
            for _ in range(2):
                client.list_tools()
            basic.password = "other"
            client.list_tools()
        assert sum('"tools/list"' in each for each in seen) == 2


@requirement("M:CACHE-7")
def test_a_token_that_changes_while_a_result_arrives(who: Who) -> None:
    """The result belongs to neither: it is not kept."""
    tokens = iter(["ada", "ada", "ada", "bob"] + ["bob"] * 20)
    current = [""]

    def token() -> str:
        current[0] = next(tokens)
        return current[0]

    seen: List[str] = []
    with who.server.start_http() as running:
        with minimcp.connect(
            running.url, auth=token, revision=R5, trace=lambda arrow, text: seen.append(text)
        ) as client:
            client.list_tools()
            client.list_tools()
            client.list_tools()
    assert sum('"tools/list"' in each for each in seen) == 2, "once for ada and bob, once for bob"


def test_the_function_that_returns_the_token_may_fail(who: Who) -> None:
    failing: List[Exception] = []

    def token() -> str:
        if failing:
            raise failing[0]
        return "ada"

    with who.server.start_http() as running:
        with minimcp.connect(running.url, auth=token, revision=R5) as client:
            client.list_tools()
            failing.append(ValueError("no token"))
            with pytest.raises(minimcp.AuthorizationError, match="no token"):
                client.list_tools()


@requirement("M:CACHE-7")
def test_a_principal_gets_only_permitted_results() -> None:
    forget_servers()
    tokens = {"a" * 20: {"sub": "ada"}, "b" * 20: {"sub": "bob"}}
    server = Server("scoped", auth=Bearer.static(tokens), http=HttpOptions())

    @server.resource("me://", ttl=3600)
    def me(ctx: Context) -> str:
        """The caller."""
        return str(ctx.auth.subject)

    token = ["a" * 20]
    with server.start_http() as running:
        with minimcp.connect(running.url, auth=lambda: token[0], revision=R5) as client:
            names = []
            for each in "aabba":
                token[0] = each * 20
                names.append(client.read_resource("me://").contents[0].text)
    assert names == ["ada", "ada", "bob", "bob", "ada"]
    server.close()


# ------------------------------------------------------------ tasks with a handshake


def jobs() -> Server:
    server = Server("jobs", extensions=[Tasks(poll_interval=0.02)])

    @server.tool(task="required")
    def must() -> str:
        """Run as a task."""
        return "must"

    @server.tool(task="optional")
    def may() -> str:
        """Run as a task or not."""
        return "may"

    @server.tool
    def plain() -> str:
        """Run as no task."""
        return "plain"

    return server


def calls_in(seen: List[str]) -> List[Any]:
    """Whether each call has ``task``, by tool."""
    found = [json.loads(each) for each in seen]
    calls = [each["params"] for each in found if each.get("method") == "tools/call"]
    return [(each["name"], "task" in each) for each in calls]


@requirement("TASK-05", "TASK-07")
def test_task_is_sent_only_to_a_tool_that_declares_it() -> None:
    seen: List[str] = []
    server = jobs()

    def trace(arrow: str, text: str) -> None:
        if arrow == "-->":
            seen.append(text)

    with minimcp.connect(
        server, revision=R4, extensions=[Tasks()], timeout=WAIT, trace=trace
    ) as client:
        client.list_tools()
        for _ in range(2):
            assert client.call_tool("must").text == "must"
        assert client.call_tool("may").text == "may" and client.call_tool("plain").text == "plain"
        assert [each.text for each in client.call_tools([("must", None), ("plain", None)])] == [
            "must", "plain"
        ]  # fmt: skip
        assert client.start_task("may").result(WAIT).text == "may"
        assert client.start_task("must").result(WAIT).text == "must"
        with pytest.raises(
            minimcp.MethodNotFound, match="'plain' as one that can run as a task.*call_tool"
        ):
            client.start_task("plain")
        with pytest.raises(minimcp.MethodNotFound, match="'nothing' as one that can run as a task"):
            client.start_task("nothing")
    assert calls_in(seen) == [
        ("must", True), ("must", True), ("may", False), ("plain", False), ("must", True),
        ("plain", False), ("may", True), ("must", True),
    ]  # fmt: skip
    server.close()


@requirement("TASK-05", "TASK-07")
def test_a_tool_that_was_never_listed() -> None:
    seen: List[str] = []
    server = jobs()
    for name, allowed in (("plain", False), ("may", True), ("must", True)):
        seen.clear()
        with minimcp.connect(
            server, revision=R4, extensions=[Tasks()], timeout=WAIT,
            trace=lambda arrow, text: seen.append(text) if arrow == "-->" else None,
        ) as client:  # fmt: skip
            if allowed:
                assert client.start_task(name).result(WAIT).text == name
            else:
                with pytest.raises(minimcp.MethodNotFound):
                    client.start_task(name)
        assert calls_in(seen) == ([(name, True)] if allowed else [])
    server.close()


def test_a_server_without_tasks_is_sent_no_task() -> None:
    tool = {
        "name": "odd", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}
    }  # fmt: skip
    script = Answering({
        "initialize": initialized(R4, tools={}), "tools/list": result(tools=[tool]),
        "tools/call": result(content=[]),
    })  # fmt: skip
    with minimcp.connect(script, revision=R4) as client:
        client.list_tools()
        client.call_tool("odd")
    sent = [each for each in script.pipe.messages if each.get("method") == "tools/call"]
    assert "task" not in sent[0]["params"]


# ------------------------------------------------------------ output schemas


def promising(shape: Any, structured: Any) -> Answering:
    tool = {"name": "odd", "inputSchema": {"type": "object"}, "outputSchema": shape}
    answer = {"content": [{"type": "text", "text": "kept"}], "structuredContent": structured}
    return Answering({
        "initialize": initialized(R4, tools={}), "tools/list": result(tools=[tool]),
        "tools/call": result(**answer),
    })  # fmt: skip


SHAPES = [
    {"type": "object", "$schema": "http://json-schema.org/draft-03/schema#"},
    {"type": "object", "$ref": "https://example.com/schema.json"},
    {"type": "object", "required": ["missing"]},
]


@requirement("M:SCH-2", "M:SCH-6")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_result_that_cannot_be_checked_is_not_lost(shape: Any) -> None:
    with minimcp.connect(promising(shape, {"a": 1}), revision=R4) as client:
        client.list_tools()
        with pytest.raises(minimcp.ProtocolViolation) as caught:
            client.call_tool("odd")
        kept = caught.value.result
        assert kept is not None and kept.text == "kept" and kept.value == {"a": 1}
        for found in (
            client.call_tool("odd", validate=False),
            client.call_tools([("odd", None)], validate=False)[0],
        ):
            assert found.value == {"a": 1}
        (failed,) = client.call_tools([("odd", None)], return_exceptions=True)
        assert isinstance(failed, minimcp.ProtocolViolation) and failed.result is not None
    with minimcp.connect(promising(shape, {"a": 1}), revision=R4, validate_results=False) as client:
        client.list_tools()
        assert client.call_tool("odd").value == {"a": 1}
        with pytest.raises(minimcp.ProtocolViolation):
            client.call_tool("odd", validate=True)


def test_through_a_group() -> None:
    servers = {"one": promising(SHAPES[1], {"a": 1})}
    with minimcp.connect_all(servers, revision=R4) as group:
        (name,) = [each.name for each in group.list_tools()]
        with pytest.raises(minimcp.ProtocolViolation):
            group.call_tool(name)
        assert group.call_tool(name, validate=False).value == {"a": 1}
        assert group.call_tools([(name, None)], validate=False)[0].value == {"a": 1}


@pytest.mark.parametrize("value", [1, "no", []])
def test_options_that_are_rejected(value: Any) -> None:
    with pytest.raises(TypeError, match="validate_results must be True or False"):
        minimcp.connect(Server("x"), validate_results=value)
    with minimcp.connect(promising({"type": "object"}, {}), revision=R4) as client:
        with pytest.raises(TypeError, match="validate must be True, False or None"):
            client.call_tool("odd", validate=value)
