"""Checks of the features that the servers of the grid share: requests, notifications and questions,
with a minimcp client."""

from __future__ import annotations

import functools
import json
import threading
from typing import Any

import minimcp
from minimcp import Answer, Refused

from .checking import PARALLEL, ROOTS, SECONDS, UNICODE, Basics, expect, expect_raised, only, refuse
from .roster import R2, R3, R4, R5

TOOLS = {
    "echo",
    "add",
    "weather",
    "count",
    "fail",
    "slow",
    "cancellations",
    "image",
    "note",
    "release",
    "mixed",
    "logs",
    "touch",
    "grow",
    "shrink",
    "ask_form",
    "ask_url",
    "ask_model",
    "ask_tools",
    "ask_roots",
    "ask_many",
    "ask_twice",
    "need_url",
}
TEXT = "alle: å"
URL = "https://example.com/open?a=1"
PNG = b"\x89PNG"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Tools(Basics):
    """The tools that every server of the grid has: called, cancelled and broken."""

    def list(self) -> None:
        tools = {tool.name: tool for tool in self.client.list_tools()}
        expect(set(tools), TOOLS)
        expect(tools["echo"].input_schema["required"], ["text"])
        expect(bool(tools["echo"].description), True)

    def echo(self) -> None:
        expect(self.text("echo", {"text": UNICODE}), UNICODE)

    def add(self) -> None:
        result = self.call("add", {"a": 19, "b": 23})
        expect(result.text, "42")
        expect(result.structured_content in (42, {"result": 42}, None), True)
        expect(result.is_error, False)

    def record(self) -> None:
        result = self.call("weather", {"city": "Tromsø"})
        record = {"place": {"city": "Tromsø", "tags": ["å", "b"]}, "degrees": 21.5}
        expect(json.loads(result.text), record)
        if self.since(R3):
            expect(result.structured_content, record)
            expect(result.value, record)

    def progress(self) -> None:
        self.expect_count("count", {"n": 25}, 25)

    def held_progress(self) -> None:
        messages: list[Any] = []

        def on_progress(report: Any) -> None:
            messages.append(report.message)
            if report.progress == 3:
                expect(self.text("release"), "released")

        expect(self.text("count", {"n": 3, "hold": True}, on_progress=on_progress), "3")
        expect(messages, ["step 1", "step 2", "step 3"])

    def image(self) -> None:
        block = self.call("image").content[0]
        expect((block.type, block.mime_type, block.data[:4]), ("image", "image/png", b"\x89PNG"))

    def tool_error(self) -> None:
        error = expect_raised(minimcp.ToolError, lambda: self.call("fail"))
        expect("this tool fails" in str(error), True)
        expect(error.result.is_error, True)
        expect(self.call("fail", raise_on_error=False).is_error, True)

    def bad_arguments(self) -> None:
        self.expect_refused("add", {"a": "many", "b": 1})

    def parallel(self) -> None:
        self.expect_parallel("text")

    def parallel_errors(self) -> None:
        calls = [("echo", {"text": "a"}), ("fail", {}), ("echo", {"text": "b"})]
        first, second, third = self.client.call_tools(
            calls, return_exceptions=True, timeout=SECONDS
        )
        expect((first.text, type(second), third.text), ("a", minimcp.ToolError, "b"))

    def large(self) -> None:
        text = "påfugl " * 150_000
        expect(self.call("echo", {"text": text}).text == text, True)

    def log(self) -> None:
        """Servers of the Python SDK may send log messages without the capability: no level can be
        asked for then."""
        declared = "logging" in self.client.capabilities
        if declared:
            self.client.set_log_level("debug")
        expect(self.text("note", {"text": "hør"}), "noted")
        if self.modern and not declared:
            # Only clients that request a level receive messages.
            expect(self.host.heard, [])
            return
        (message,) = self.host.wait_heard(len)
        expect((message.level, message.data), ("info", "hør"))

    def cancel(self) -> None:
        token = minimcp.CancelToken()

        def on_progress(report: Any) -> None:
            token.cancel("enough")

        options = {"on_progress": on_progress, "cancel": token}
        expect_raised(minimcp.Cancelled, lambda: self.call("slow", {"seconds": 60}, **options))
        expect(self.text("cancellations", {"expected": 1}), "1")

    def timeout(self) -> None:
        error = expect_raised(
            minimcp.RequestTimeout, lambda: self.call("slow", {"seconds": 60}, timeout=1.5)
        )
        expect(isinstance(error, TimeoutError), True)
        expect(self.text("cancellations", {"expected": 2}), "2")

    def future(self) -> None:
        started = threading.Event()
        future = self.client.submit(
            self.client.call_tool,
            "slow",
            {"seconds": 60},
            timeout=SECONDS,
            on_progress=lambda report: started.set(),
        )
        expect(started.wait(SECONDS), True)
        expect((future.cancel(), future.cancelled()), (True, True))
        expect(self.text("cancellations", {"expected": 3}), "3")
        quick = self.client.submit(
            self.client.call_tool, "echo", {"text": "later"}, timeout=SECONDS
        )
        expect(quick.result(SECONDS).text, "later")

    def alive_after(self) -> None:
        expect(self.text("echo", {"text": "still"}), "still")


class Shared(Tools):
    """Checks beyond plain tools. Cancelling a call that asks is last, because it may end the
    server."""

    def descriptions(self) -> None:
        """The server's description of itself and of a tool, as far as the revision can express it."""
        expect(self.client.instructions, "Tools of the interop grid.")
        (touch,) = [tool for tool in self.client.list_tools() if tool.name == "touch"]
        expect(touch.description, "Say that a resource has changed.")
        if self.since(R2):
            expect(
                (touch.annotations.idempotent_hint, touch.annotations.read_only_hint), (True, False)
            )
        if self.since(R3):
            expect((touch.title, touch.meta), ("Touch it", {"example.com/colour": "blue"}))

    @only(R4)
    def icons(self) -> None:
        (touch,) = [tool for tool in self.client.list_tools() if tool.name == "touch"]
        expect([icon.src for icon in touch.icons or ()], ["https://example.com/i.png"])

    def contents(self) -> None:
        kinds = (
            ["text", "image", "resource"]
            + ["audio"] * self.since(R2)
            + ["resource_link"] * self.since(R3)
        )
        blocks = {block.type: block for block in self.call("mixed", {"kinds": kinds}).content}
        expect(list(blocks), kinds)
        resource = blocks["resource"].resource
        expect(
            (resource.uri, resource.mime_type, resource.text), ("note://all", "text/plain", TEXT)
        )
        if "audio" in blocks:
            expect((blocks["audio"].data, blocks["audio"].mime_type), (b"RIFF", "audio/wav"))
        if "resource_link" in blocks:
            expect(
                (blocks["resource_link"].uri, blocks["resource_link"].name), ("note://all", "all")
            )

    def resources(self) -> None:
        resources = {resource.uri: resource for resource in self.client.list_resources()}
        expect(set(resources), {"note://all", "note://pixel"})
        expect(
            (resources["note://all"].name, resources["note://all"].mime_type), ("all", "text/plain")
        )
        (item,) = self.client.read_resource("note://all").contents
        expect((item.uri, item.mime_type, item.text), ("note://all", "text/plain", TEXT))
        (item,) = self.client.read_resource("note://pixel").contents
        expect((item.mime_type, item.data[:4]), ("image/png", PNG))

    def templates(self) -> None:
        templates = {
            template.uri_template: template for template in self.client.list_resource_templates()
        }
        expect(set(templates), {"note://by-id/{number}", "note://secret/{number}"})
        expect(templates["note://by-id/{number}"].name, "by_id")
        expect(self.client.read_resource("note://by-id/7").text, "note 7")

    def no_resource(self) -> None:
        expect_raised(minimcp.ResourceNotFound, lambda: self.client.read_resource("note://nowhere"))

    def code_of_no_resource(self) -> None:
        """The same by its code: our client also understands servers that answer another revision's."""
        error = expect_raised(minimcp.RpcError, lambda: self.client.read_resource("note://nowhere"))
        expect(error.code, -32602 if self.modern else -32002)

    def pages(self) -> None:
        """The list of prompts has several pages, and a client fetches all of them."""
        first = self.client.request("prompts/list", timeout=SECONDS)
        expect((len(first["prompts"]), bool(first.get("nextCursor"))), (2, True))
        expect(len(self.client.list_prompts()), 3)
        expect_raised(
            minimcp.RpcError,
            lambda: self.client.request("prompts/list", {"cursor": "?"}, timeout=SECONDS),
        )

    @only(R5)
    def cache_hints(self) -> None:
        listed = self.client.request("resources/list", timeout=SECONDS)
        expect((listed["ttlMs"], listed["cacheScope"]), (30_000, "public"))
        read = self.client.request("resources/read", {"uri": "note://all"}, timeout=SECONDS)
        expect((read["ttlMs"], read["cacheScope"]), (5_000, "private"))

    def list_changes(self) -> None:
        """Callbacks are notified of added items, which appear in the lists, and then of removed
        ones."""
        for tool, there in (("grow", True), ("shrink", False)):
            self.host.forget()
            self.call(tool)
            self.host.wait_heard(
                lambda heard: {"tools", "prompts", "resources"} <= set(map(str, heard))
            )
            expect("grown" in {each.name for each in self.client.list_tools()}, there)
            expect("grown" in {each.name for each in self.client.list_prompts()}, there)
            expect("note://grown" in {each.uri for each in self.client.list_resources()}, there)

    def subscriptions(self) -> None:
        self.client.subscribe("note://all")
        self.client.subscribe("note://pixel")
        self.call("touch", {"uri": "note://all"})
        self.host.wait_heard(lambda heard: ("updated", "note://all") in heard)
        self.client.unsubscribe("note://all")
        self.call("touch", {"uri": "note://pixel"})
        self.host.wait_heard(
            lambda heard: ("updated", "note://pixel") in heard
        )  # earlier notifications have arrived, too
        self.host.forget()
        self.call("touch", {"uri": "note://all"})
        self.call("touch", {"uri": "note://pixel"})
        heard = self.host.wait_heard(lambda heard: ("updated", "note://pixel") in heard)
        expect(("updated", "note://all") in heard, False)
        self.client.unsubscribe("note://pixel")

    def listen(self) -> None:
        options = {"resource_subscriptions": ["note://pixel"], "tools_list_changed": True}
        with self.client.listen(**options, timeout=SECONDS) as changes:
            honored = changes.honored
            expect(
                (honored.resource_subscriptions, honored.tools_list_changed),
                (("note://pixel",), True),
            )
            expect(honored.prompts_list_changed, False)
            self.call("touch", {"uri": "note://all"})
            self.call("touch", {"uri": "note://pixel"})
            change = changes.next(timeout=SECONDS)
            expect((change.kind, change.uri), ("resource_updated", "note://pixel"))
            self.call("grow")
            expect(changes.next(timeout=SECONDS).kind, "tools_list_changed")
        self.call("shrink")

    def prompts(self) -> None:
        prompts = {prompt.name: prompt for prompt in self.client.list_prompts()}
        expect(set(prompts), {"greet", "picture", "survey"})
        arguments = [(each.name, bool(each.required)) for each in prompts["greet"].arguments]
        expect(arguments, [("name", True), ("tone", False)])
        (message,) = self.client.get_prompt("greet", {"name": "Åse"}).messages
        expect((message.role, message.content.text), ("user", "Greet Åse in a plain tone"))
        (message,) = self.client.get_prompt("greet", {"name": "Åse", "tone": "formal"}).messages
        expect(message.content.text, "Greet Åse in a formal tone")

    def prompt_contents(self) -> None:
        first, second, third = self.client.get_prompt("picture").messages
        expect((first.role, first.content.text, second.content.data[:4]), ("user", "Look:", PNG))
        expect(
            (third.role, third.content.resource.uri, third.content.resource.text),
            ("assistant", "note://all", TEXT),
        )

    def prompt_errors(self) -> None:
        for asked in (("no-such-prompt",), ("greet", {"tone": "plain"})):
            error = expect_raised(
                minimcp.RpcError, functools.partial(self.client.get_prompt, *asked)
            )
            expect(error.from_peer, True)

    def completion(self) -> None:
        expect(self.client.complete("tone", "f", prompt="greet").values, ["formal", "friendly"])
        expect(self.client.complete("name", "", prompt="greet").values, ["Alice", "Bob"])
        expect(
            self.client.complete("number", "1", template="note://by-id/{number}").values,
            ["1", "10", "100"],
        )
        # Before 2025-06-18 a request cannot name the chosen arguments.
        chosen = self.client.complete(
            "name", "", prompt="greet", arguments={"tone": "formal"}
        ).values
        expect(chosen, ["Sir Å", "Dame B"] if self.since(R3) else ["Alice", "Bob"])

    def log_levels(self) -> None:
        for level in ("warning", "debug"):
            self.host.forget()
            self.client.set_log_level(level)
            self.call("logs")
            wanted = LEVELS[LEVELS.index(level) :]
            self.host.wait_heard(
                lambda heard: "emergency" in [getattr(item, "level", "") for item in heard]
            )
            heard = [item for item in self.host.heard if isinstance(item, minimcp.LogMessage)]
            expect([message.level for message in heard], wanted)
            expect((heard[0].logger, heard[0].data), ("interop", {"level": wanted[0]}))

    @only(R3)
    def form(self) -> None:
        expect(self.text("ask_form"), "accept Ada 36")
        (request,) = self.host.asked
        expect(
            (request.mode, request.message, request.server.name),
            ("form", "Who are you?", "interop"),
        )
        expect(set(request.schema["properties"]), {"name", "age"})
        for returned, action in ((None, "decline"), (Answer("cancel"), "cancel")):
            self.host.elicited = lambda request, returned=returned: returned
            expect(self.text("ask_form"), action)

    @only(R4)
    def url(self) -> None:
        expect(self.text("ask_url"), "accept")
        (request,) = self.host.asked
        expect((request.mode, request.url, request.host), ("url", URL, "example.com"))
        expect(bool(request.elicitation_id), not self.modern)
        self.host.elicited = lambda request: None
        expect(self.text("ask_url"), "decline")

    @only(R4, R4)
    def url_error(self) -> None:
        error = expect_raised(minimcp.UrlElicitationRequired, lambda: self.call("need_url"))
        (wanted,) = error.data["elicitations"]
        expect((wanted["url"], wanted["elicitationId"]), (URL, "interop-2"))
        expect(self.text("need_url"), "opened")

    def sampling(self) -> None:
        expect(self.text("ask_model", {"text": "Hej"}), "interop-model: You said: Hej (endTurn)")
        (request,) = self.host.asked
        expect((request.max_tokens, request.system_prompt), (50, "Be short."))
        expect(
            (request.temperature, request.stop_sequences, request.server.name),
            (0.5, ["."], "interop"),
        )

    @only(R4)
    def sampling_tools(self) -> None:
        expect(self.text("ask_tools"), "You said: 2")
        first, second = self.host.asked
        expect(
            (first.tools[0].name, first.tool_choice.mode, len(second.messages)),
            ("twice", "required", 3),
        )

    def refused(self) -> None:
        """With a handshake, the server receives the refusal, and reports it in its own way.
        Otherwise the call ends here."""
        self.host.sampled = refuse
        kinds = Refused if self.modern else (minimcp.ToolError, minimcp.RpcError)
        error = expect_raised(kinds, lambda: self.call("ask_model", {"text": "Hej"}))
        expect("not today" in str(error), True)

    def roots(self) -> None:
        expect(self.text("ask_roots"), ", ".join(ROOTS))
        self.client.set_roots(ROOTS[:1])
        expect(self.text("ask_roots"), ROOTS[0])
        self.client.set_roots(ROOTS)

    @only(R3)
    def many(self) -> None:
        expect(self.text("ask_many"), "Ada | You said: Hi | 2")
        expect(len(self.host.asked), 2)

    @only(R3)
    def twice(self) -> None:
        """The second question is about the answer to the first."""
        self.host.elicited = lambda request: (
            {"name": "Ada"} if "Who" in request.message else {"age": 40}
        )
        expect(self.text("ask_twice").split(",")[0], "Ada is 40")
        expect(
            [request.message for request in self.host.asked], ["Who are you?", "How old is Ada?"]
        )

    def many_askers(self) -> None:
        """Questions of concurrent calls do not receive each other's answers."""
        calls: list[Any] = [("ask_model", {"text": f"text {i}"}) for i in range(PARALLEL)]
        results = self.client.call_tools(calls, timeout=SECONDS)
        wanted = [f"interop-model: You said: text {i} (endTurn)" for i in range(PARALLEL)]
        expect([result.text for result in results], wanted)

    @only(R3)
    def asking_prompt(self) -> None:
        (message,) = self.client.get_prompt("survey").messages
        expect(message.content.text, "survey by Ada")

    @only(R3)
    def asking_resource(self) -> None:
        expect(self.client.read_resource("note://secret/3").text, "secret 3 for Ada")

    @only(R5)
    def rounds_by_hand(self) -> None:
        """A host that controls the rounds itself: it receives the question, and sends the answer
        with the state."""
        params = {"name": "ask_form", "arguments": {}}
        first = self.client.request("tools/call", params, timeout=SECONDS, raw=True)
        expect(first["resultType"], "input_required")
        ((key, question),) = first["inputRequests"].items()
        expect(question["method"], "elicitation/create")
        answers = {key: {"action": "accept", "content": {"name": "Bo", "age": 5}}}
        again = {**params, "inputResponses": answers}
        if "requestState" in first:
            again["requestState"] = first["requestState"]
        last = self.client.request("tools/call", again, timeout=SECONDS, raw=True)
        expect((last["resultType"], last["content"][0]["text"]), ("complete", "accept Bo 5"))

    def cancel_asking(self) -> None:
        """The call is given up while its question is being answered."""
        token = minimcp.CancelToken()

        def give_up(request: Any) -> Any:
            token.cancel("enough")
            return "too late"

        self.host.sampled = give_up
        expect_raised(
            minimcp.Cancelled, lambda: self.call("ask_model", {"text": "Hej"}, cancel=token)
        )
        self.host.forget()
        expect(self.text("ask_model", {"text": "Hej"}), "interop-model: You said: Hej (endTurn)")


class Plain(Shared):
    """Checks for a server whose package has fewer features. An unknown method ends the server of
    2024."""

    takes = frozenset({
        "list", "echo", "add", "record", "image", "tool_error", "unknown_tool", "parallel", "parallel_errors", "large",
        "ping", "log", "alive_after", "resources", "prompt_contents", "prompt_errors", "template", "prompts",
        "no_such_resource", "completion",
    })  # fmt: skip

    def list(self) -> None:
        tools = {tool.name: tool for tool in self.client.list_tools()}
        expect({"echo", "add", "weather", "count", "fail", "image", "note"} - set(tools), set())
        expect(
            (tools["echo"].input_schema["required"], bool(tools["echo"].description)),
            (["text"], True),
        )

    def template(self) -> None:
        (template,) = self.client.list_resource_templates()
        expect((template.uri_template, template.name), ("note://by-id/{number}", "by_id"))
        expect(self.client.read_resource("note://by-id/7").text, "note 7")

    def prompts(self) -> None:
        prompts = {prompt.name: prompt for prompt in self.client.list_prompts()}
        expect(set(prompts), {"greet", "picture"})
        arguments = [(each.name, bool(each.required)) for each in prompts["greet"].arguments]
        expect(arguments, [("name", True), ("tone", False)])
        (message,) = self.client.get_prompt("greet", {"name": "Åse", "tone": "formal"}).messages
        expect((message.role, message.content.text), ("user", "Greet Åse in a formal tone"))

    def no_such_resource(self) -> None:
        """Servers report a missing resource in different ways."""
        expect(
            expect_raised(Exception, lambda: self.client.read_resource("note://nowhere")).from_peer,
            True,
        )

    def completion(self) -> None:
        expect(self.client.complete("tone", "f", prompt="greet").values, ["formal", "friendly"])


class FastMcp(Plain):
    takes = Plain.takes | {
        "unknown_method",
        "progress",
        "bad_arguments",
        "cancel",
        "timeout",
        "future",
        "form",
    }

    @only(R3, R4)
    def form(self) -> None:
        super().form()

    def log(self) -> None:
        """FastMCP puts the text into an object of its own."""
        self.client.set_log_level("debug")
        expect(self.text("note", {"text": "hør"}), "noted")
        (message,) = self.host.wait_heard(len)
        expect((message.level, message.data["msg"]), ("info", "hør"))
