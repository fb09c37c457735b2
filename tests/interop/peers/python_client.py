"""The shared checks by a client of the official Python SDK, 1.x or 2.x.

Usage: python_client.py REVISION COMMAND... where REVISION is a revision or "auto" (2.x only).
Prints one JSON
object: the revision in use and, for each check, true or what went wrong.
"""

from __future__ import annotations

import base64
import json
import sys
import warnings
from typing import Any

import anyio
from checking import UNICODE, Checks, expect, expect_parallel, expect_raised, only, told
from python_adapters import MEMBERS, ROOTS, Adapter, PeerError, dump, refused, types

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
    "ask_choices",
}
TEXT = "alle: å"
URL = "https://example.com/open?a=1"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
SEAL = 20  # the position of the signature in a state of our server
CHANGES = {f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}
UPDATED = "notifications/resources/updated"


async def code_of(awaitable: Any) -> Any:
    """The code of the error that comes of it."""
    return (await expect_raised(PeerError, awaitable)).error.code


class Peer(Checks):
    """The methods that the checks need."""

    def __init__(self, peer: Any) -> None:
        self.peer, self.revision = peer, peer.revision

    def structured(self) -> bool:
        return self.revision not in ("2024-11-05", "2025-03-26")

    async def text(self, tool: str, arguments: Any = None) -> str:
        result = await self.peer.call(tool, arguments)
        if self.peer.is_error(result):
            raise AssertionError(f"{tool}: {result.content[0].text}")
        return result.content[0].text

    async def everything(self, kind: str) -> list[Any]:
        """All items of a list, page after page."""
        found: list[Any] = []
        page = await self.peer.page(kind)
        while True:
            found += page[MEMBERS[kind]]
            if "nextCursor" not in page:
                return found
            page = await self.peer.page(kind, page["nextCursor"])


class Shared(Peer):
    """The cache is checked before changes, because the SDK may discard cached lists after a change.

    The longest message is last, because a client that cannot read it loses its connection.
    """

    async def list(self) -> None:
        tools = {tool["name"]: tool["inputSchema"] for tool in await self.everything("tools")}
        expect(set(tools), TOOLS)
        expect(tools["echo"]["properties"]["text"]["type"], "string")
        expect(tools["echo"]["required"], ["text"])
        expect("ctx" in tools["count"]["properties"], False)

    async def echo(self) -> None:
        expect((await self.peer.call("echo", {"text": UNICODE})).content[0].text, UNICODE)

    async def add(self) -> None:
        result = await self.peer.call("add", {"a": 19, "b": 23})
        expect(result.content[0].text, "42")
        if self.peer.modern:
            expect(self.peer.structured(result), 42)
        elif self.structured():
            expect(self.peer.structured(result), {"result": 42})
        else:
            expect(self.peer.structured(result), None)

    async def record(self) -> None:
        result = await self.peer.call("weather", {"city": "Tromsø"})
        record = {"place": {"city": "Tromsø", "tags": ["å", "b"]}, "degrees": 21.5}
        expect(json.loads(result.content[0].text), record)
        expect(self.peer.structured(result), record if self.structured() else None)

    async def progress(self) -> None:
        seen: list[Any] = []

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            seen.append((done, total))

        expect(
            (await self.peer.call("count", {"n": 25}, progress=on_progress)).content[0].text, "25"
        )
        await anyio.wait_all_tasks_blocked()
        expect(seen, [(i, 25) for i in range(1, 26)])

    async def held_progress(self) -> None:
        seen: list[Any] = []

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            seen.append((done, total, message))
            if done == 3:
                group.start_soon(self.peer.call, "release")

        async with anyio.create_task_group() as group:
            result = await self.peer.call("count", {"n": 3, "hold": True}, progress=on_progress)
        expect(result.content[0].text, "3")
        expect(
            seen,
            [(i, 3, None if self.revision == "2024-11-05" else f"step {i}") for i in (1, 2, 3)],
        )

    async def image(self) -> None:
        block = (await self.peer.call("image")).content[0]
        expect((block.type, self.peer.media(block)), ("image", "image/png"))
        expect(base64.b64decode(block.data)[:4], b"\x89PNG")

    async def tool_error(self) -> None:
        result = await self.peer.call("fail")
        expect(self.peer.is_error(result), True)
        expect("this tool fails" in result.content[0].text, True)

    async def bad_arguments(self) -> None:
        result = await self.peer.call("add", {"a": "many", "b": 1})
        expect(self.peer.is_error(result), True)
        expect("a" in result.content[0].text, True)

    async def unknown_tool(self) -> None:
        expect((await expect_raised(PeerError, self.peer.call("no-such-tool"))).error.code, -32602)

    async def unknown_method(self) -> None:
        expect((await expect_raised(PeerError, self.peer.unknown_method())).error.code, -32601)

    async def parallel(self) -> None:
        async def say(text: str) -> str:
            return (await self.peer.call("echo", {"text": text})).content[0].text

        await expect_parallel(say)

    async def cancel(self) -> None:
        started = anyio.Event()

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            started.set()

        await self.peer.abandon("slow", {"seconds": 60}, started, on_progress)
        expect((await self.peer.call("cancellations", {"expected": 1})).content[0].text, "1")

    async def timeout(self) -> None:
        await expect_raised(
            (PeerError, TimeoutError), self.peer.call("slow", {"seconds": 60}, timeout=1.5)
        )
        expect((await self.peer.call("cancellations", {"expected": 2})).content[0].text, "2")

    async def alive_after(self) -> None:
        expect((await self.peer.call("echo", {"text": "still"})).content[0].text, "still")

    @only("2024-11-05", "2025-11-25")
    async def ping(self) -> None:
        await self.peer.ping()

    async def log(self) -> None:
        await self.peer.all_logs()
        expect((await self.peer.call("note", {"text": "hør"})).content[0].text, "noted")
        await anyio.wait_all_tasks_blocked()
        expect(
            [(message["level"], message["data"]) for message in self.peer.host.logged],
            [("info", "hør")],
        )

    async def contents(self) -> None:
        kinds = ["text", "image", "resource"]
        kinds += ["audio"] * (self.revision >= "2025-03-26") + ["resource_link"] * (
            self.revision >= "2025-06-18"
        )
        blocks = [
            dump(block) for block in (await self.peer.call("mixed", {"kinds": kinds})).content
        ]
        expect([block["type"] for block in blocks], kinds)
        expect(blocks[2]["resource"], {"uri": "note://all", "mimeType": "text/plain", "text": TEXT})
        if "audio" in kinds:
            expect(
                (base64.b64decode(blocks[3]["data"]), blocks[3]["mimeType"]), (b"RIFF", "audio/wav")
            )
        if "resource_link" in kinds:
            expect((blocks[4]["uri"], blocks[4]["name"]), ("note://all", "all"))

    async def resources(self) -> None:
        resources = {each["uri"]: each for each in await self.everything("resources")}
        expect(set(resources), {"note://all", "note://pixel"})
        expect(
            (resources["note://all"]["name"], resources["note://all"]["mimeType"]),
            ("all", "text/plain"),
        )
        (item,) = (await self.peer.read("note://all"))["contents"]
        expect(item, {"uri": "note://all", "mimeType": "text/plain", "text": TEXT})
        (item,) = (await self.peer.read("note://pixel"))["contents"]
        expect((item["mimeType"], base64.b64decode(item["blob"])[:4]), ("image/png", b"\x89PNG"))

    async def templates(self) -> None:
        templates = {
            each["uriTemplate"]: each for each in await self.everything("resource_templates")
        }
        expect(set(templates), {"note://by-id/{number}", "note://secret/{number}"})
        expect(templates["note://by-id/{number}"]["name"], "by_id")
        expect((await self.peer.read("note://by-id/7"))["contents"][0]["text"], "note 7")

    async def no_resource(self) -> None:
        expect(
            await code_of(self.peer.read("note://nowhere")), -32602 if self.peer.modern else -32002
        )
        expect(
            await code_of(self.peer.read("note://by-id/seven")),
            -32602 if self.peer.modern else -32002,
        )

    async def pages(self) -> None:
        first = await self.peer.page("prompts")
        expect((len(first["prompts"]), "nextCursor" in first), (2, True))
        expect(len(await self.everything("prompts")), 3)
        expect(await code_of(self.peer.page("prompts", "?")), -32602)

    async def prompts(self) -> None:
        prompts = {each["name"]: each for each in await self.everything("prompts")}
        expect(set(prompts), {"greet", "picture", "survey"})
        arguments = [
            (each["name"], bool(each.get("required"))) for each in prompts["greet"]["arguments"]
        ]
        expect(arguments, [("name", True), ("tone", False)])
        expect(prompts["greet"]["arguments"][0]["description"], "Who.")
        for given, tone in (
            ({"name": "Åse"}, "plain"),
            ({"name": "Åse", "tone": "formal"}, "formal"),
        ):
            (message,) = (await self.peer.prompt("greet", given))["messages"]
            expect(
                (message["role"], message["content"]["text"]),
                ("user", f"Greet Åse in a {tone} tone"),
            )
        first, second, third = (await self.peer.prompt("picture"))["messages"]
        expect((first["content"]["text"], second["content"]["type"]), ("Look:", "image"))
        expect((third["role"], third["content"]["resource"]["text"]), ("assistant", TEXT))

    async def prompt_errors(self) -> None:
        expect(await code_of(self.peer.prompt("no-such-prompt")), -32602)
        expect(await code_of(self.peer.prompt("greet", {"tone": "plain"})), -32602)

    async def completion(self) -> None:
        prompt = types.PromptReference.model_validate({"type": "ref/prompt", "name": "greet"})
        template = types.ResourceTemplateReference.model_validate(
            {"type": "ref/resource", "uri": "note://by-id/{number}"}
        )

        async def values(ref: Any, name: str, typed: str, chosen: Any = None) -> Any:
            return (
                await self.peer.complete(ref, {"name": name, "value": typed}, chosen)
            ).completion.values

        expect(await values(prompt, "tone", "f"), ["formal", "friendly"])
        expect(await values(prompt, "name", ""), ["Alice", "Bob"])
        expect(await values(prompt, "name", "D", {"tone": "formal"}), ["Dame B"])
        expect(await values(template, "number", "1"), ["1", "10", "100"])

    async def log_levels(self) -> None:
        for level in ("warning", "debug"):
            self.peer.host.forget()
            await self.peer.logs(level)
            await self.peer.host.wait(
                lambda: any(each["level"] == "emergency" for each in self.peer.host.logged)
            )
            wanted = LEVELS[LEVELS.index(level) :]
            expect([each["level"] for each in self.peer.host.logged], wanted)
            expect(
                self.peer.host.logged[0],
                {"level": wanted[0], "data": {"level": wanted[0]}, "logger": "interop"},
            )

    @only("2024-11-05", "2025-11-25")
    async def list_changes(self) -> None:
        for tool, there in (("grow", True), ("shrink", False)):
            self.peer.host.forget()
            await self.text(tool)
            await self.peer.host.wait(lambda: set(self.peer.host.methods()) >= CHANGES)
            expect("grown" in [each["name"] for each in await self.everything("tools")], there)
            expect("grown" in [each["name"] for each in await self.everything("prompts")], there)
            expect(
                "note://grown" in [each["uri"] for each in await self.everything("resources")],
                there,
            )

    @only("2024-11-05", "2025-11-25")
    async def subscriptions(self) -> None:
        first, second = (UPDATED, {"uri": "note://all"}), (UPDATED, {"uri": "note://pixel"})
        await self.peer.subscribe("note://all")
        await self.peer.subscribe("note://pixel")
        await self.text("touch", {"uri": "note://all"})
        await self.peer.host.wait(lambda: first in self.peer.host.heard)
        await self.peer.unsubscribe("note://all")
        self.peer.host.forget()
        for uri in ("note://all", "note://pixel"):
            await self.text("touch", {"uri": uri})
        await self.peer.host.wait(lambda: second in self.peer.host.heard)
        expect(first in self.peer.host.heard, False)
        await self.peer.unsubscribe("note://pixel")

    @only("2026-07-28")
    async def cache(self) -> None:
        fresh = await self.peer.page("resources")
        expect((fresh["ttlMs"], fresh["cacheScope"]), (30_000, "public"))
        read = await self.peer.read("note://all")
        expect((read["ttlMs"], read["cacheScope"]), (5_000, "private"))
        await self.text("grow")
        expect(await self.peer.page("resources", cache_mode="use"), fresh)
        expect("nextCursor" in await self.peer.page("resources"), True)
        await self.text("shrink")

    @only("2026-07-28")
    async def listen(self) -> None:
        """What came is fresh when the event is there, though the client keeps lists for a while."""
        options = {"tools_list_changed": True, "resource_subscriptions": ["note://pixel"]}
        async with self.peer.api.listen(**options) as stream:
            honored = dump(stream.honored)
            expect(honored, {"toolsListChanged": True, "resourceSubscriptions": ["note://pixel"]})
            for uri in ("note://all", "note://pixel"):
                await self.text("touch", {"uri": uri})
            event = await stream.__anext__()
            expect((type(event).__name__, event.uri), ("ResourceUpdated", "note://pixel"))
            before = len(await self.everything("tools"))
            await self.text("grow")
            expect(type(await stream.__anext__()).__name__, "ToolsListChanged")
            expect(len(await self.everything("tools")), before + 1)
        async with self.peer.api.listen(
            prompts_list_changed=True, resources_list_changed=True
        ) as stream:
            await self.text("shrink")
            kinds = {
                type(await stream.__anext__()).__name__,
                type(await stream.__anext__()).__name__,
            }
            expect(kinds, {"PromptsListChanged", "ResourcesListChanged"})

    @only("2025-06-18")
    async def form(self) -> None:
        expect(await self.text("ask_form"), "accept Ada 36")
        (asked,) = self.peer.host.asked
        expect(
            (asked["message"], set(asked["requestedSchema"]["properties"])),
            ("Who are you?", {"name", "age"}),
        )
        for action in ("decline", "cancel"):
            self.peer.host.elicited = lambda params, action=action: {"action": action}
            expect(await self.text("ask_form"), action)

    @only("2025-06-18")
    async def form_wrong(self) -> None:
        """A client that does not look at the form: with a handshake the call fails, else the
        question comes again."""
        answers = [{"age": "many"}, {"name": "Ada", "age": 1}]
        self.peer.host.elicited = lambda params: {"action": "accept", "content": answers.pop(0)}
        result = await self.peer.call("ask_form")
        expect(self.peer.is_error(result), not self.peer.modern)
        if self.peer.modern:
            expect(result.content[0].text, "accept Ada 1")

    @only("2025-11-25")
    async def url(self) -> None:
        expect(await self.text("ask_url"), "accept")
        (asked,) = self.peer.host.asked
        expect((asked["mode"], asked["url"]), ("url", URL))
        if not self.peer.modern:
            expect(asked["elicitationId"], "interop-1")
            complete = ("notifications/elicitation/complete", {"elicitationId": "interop-1"})
            await self.peer.host.wait(lambda: complete in self.peer.host.heard)
        self.peer.host.elicited = lambda params: {"action": "decline"}
        expect(await self.text("ask_url"), "decline")

    @only("2025-11-25")
    async def url_error(self) -> None:
        """Before 2026-07-28 an error names the URL; from then on the client is asked to open it."""
        if self.peer.modern:
            expect(await self.text("need_url"), "opened")
            expect([asked["url"] for asked in self.peer.host.asked], [URL])
            return
        error = (await expect_raised(PeerError, self.peer.call("need_url"))).error
        (wanted,) = error.data["elicitations"]
        expect((error.code, wanted["url"], wanted["elicitationId"]), (-32042, URL, "interop-2"))
        expect(await self.text("need_url"), "opened")

    async def sampling(self) -> None:
        expect(
            await self.text("ask_model", {"text": "Hej"}), "interop-model: You said: Hej (endTurn)"
        )
        (asked,) = self.peer.host.asked
        expect((asked["maxTokens"], asked["systemPrompt"]), (50, "Be short."))
        expect((asked["temperature"], asked["stopSequences"]), (0.5, ["."]))

    @only("2025-11-25")
    async def sampling_tools(self) -> None:
        expect(await self.text("ask_tools"), "You said: 2")
        first, second = self.peer.host.asked
        expect((first["tools"][0]["name"], first["toolChoice"]), ("twice", {"mode": "required"}))
        expect(len(second["messages"]), 3)

    async def refused(self) -> None:
        self.peer.host.sampled = lambda params: refused("not today")
        if self.peer.modern:
            expect(await code_of(self.peer.call("ask_model", {"text": "Hej"})), -1)
            return
        result = await self.peer.call("ask_model", {"text": "Hej"})
        expect((self.peer.is_error(result), "not today" in result.content[0].text), (True, True))

    async def roots(self) -> None:
        expect(await self.text("ask_roots"), ", ".join(root["uri"] for root in ROOTS))

    @only("2025-06-18")
    async def many(self) -> None:
        expect(await self.text("ask_many"), "Ada | You said: Hi | 2")
        expect(len(self.peer.host.asked), 2)

    @only("2025-06-18")
    async def twice(self) -> None:
        """The second question is about the answer to the first; what stands between them is done
        once."""
        self.peer.host.elicited = lambda params: {
            "action": "accept",
            "content": {"name": "Ada"} if "Who" in params["message"] else {"age": 40},
        }
        expect(await self.text("ask_twice"), "Ada is 40, 1 step")
        expect(
            [asked["message"] for asked in self.peer.host.asked],
            ["Who are you?", "How old is Ada?"],
        )

    @only("2025-06-18")
    async def choices(self) -> None:
        """A form with every kind of field that the revision has."""
        lists = self.revision >= "2025-11-25"
        filled: dict[str, Any] = {
            "mail": "ada@example.com",
            "word": "abc",
            "count": 3,
            "share": 0.5,
            "sure": False,
        }
        filled.update(
            {
                "colour": "red",
                "size": "l",
                **({"days": ["mon"], "fish": ["f1", "f2"]} if lists else {}),
            }
        )
        self.peer.host.elicited = lambda params: {"action": "accept", "content": filled}
        expect(json.loads(await self.text("ask_choices", {"lists": lists})), filled)
        fields = self.peer.host.asked[0]["requestedSchema"]["properties"]
        expect(set(fields), set(filled))
        titled: dict[str, Any] = {
            "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
        }
        if not lists:
            titled = {"enum": ["s", "l"], "enumNames": ["Small", "Large"]}
        expect({**fields["size"], **titled}, fields["size"])

    async def many_askers(self) -> None:
        """Questions of calls that run at once do not get each other's answers."""
        answers: dict[int, str] = {}

        async def one(i: int) -> None:
            answers[i] = await self.text("ask_model", {"text": f"text {i}"})

        async with anyio.create_task_group() as group:
            for i in range(20):
                group.start_soon(one, i)
        expect(answers, {i: f"interop-model: You said: text {i} (endTurn)" for i in range(20)})

    async def descriptions(self) -> None:
        """What the revision has words for, and no word more."""
        (touch,) = [tool for tool in await self.everything("tools") if tool["name"] == "touch"]
        wanted: dict[str, Any] = {"description": "Say that a resource has changed."}
        if self.revision >= "2025-03-26":
            wanted["annotations"] = {"idempotentHint": True, "readOnlyHint": False}
        if self.revision == "2025-03-26":
            wanted["annotations"]["title"] = "Touch it"
        if self.revision >= "2025-06-18":
            wanted.update(title="Touch it", _meta={"example.com/colour": "blue"})
        if self.revision >= "2025-11-25":
            wanted["icons"] = [{"src": "https://example.com/i.png", "mimeType": "image/png"}]
        found = {
            name: value
            for name, value in touch.items()
            if name not in ("name", "inputSchema", "outputSchema")
        }
        expect(found, wanted)

    @only("2025-06-18")
    async def asking_prompt(self) -> None:
        (message,) = (await self.peer.prompt("survey"))["messages"]
        expect(message["content"]["text"], "survey by Ada")

    @only("2025-06-18")
    async def asking_resource(self) -> None:
        expect((await self.peer.read("note://secret/3"))["contents"][0]["text"], "secret 3 for Ada")

    @only("2026-07-28")
    async def rounds_by_hand(self) -> None:
        """Drive the rounds without the SDK's loop; a state that somebody has touched is not taken."""
        first = await self.peer.api.session.call_tool("ask_twice", {}, allow_input_required=True)
        ((key, question),) = first.input_requests.items()
        expect((key, question.method), ("who", "elicitation/create"))
        answer = types.ElicitResult(action="accept", content={"name": "Bo"})
        state = first.request_state
        touched = f"{state[:SEAL]}{'B' if state[SEAL] == 'A' else 'A'}{state[SEAL + 1 :]}"
        again = {"input_responses": {key: answer}, "allow_input_required": True}
        expect(
            await code_of(
                self.peer.api.session.call_tool("ask_twice", {}, request_state=touched, **again)
            ),
            -32602,
        )
        second = await self.peer.api.session.call_tool(
            "ask_twice", {}, request_state=first.request_state, **again
        )
        expect(dump(second.input_requests["age"].params)["message"], "How old is Bo?")

    async def large(self) -> None:
        text = "påfugl " * 150_000
        expect((await self.peer.call("echo", {"text": text})).content[0].text == text, True)


async def session(revision: str, command: list[str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    report = {"revision": None, "checks": results}
    try:
        async with Adapter.open(revision, command) as peer:
            report["revision"] = peer.revision
            # A client that starts with 2026-07-28 never receives the server's name.
            known = peer.server_name in (
                "interop",
                None if peer.modern and revision != "auto" else "interop",
            )
            results["connect"] = known or f"name {peer.server_name!r}"
            await Shared(peer).run(results, peer.host.forget)
    except Exception as error:
        results["connect" if "connect" not in results else "close"] = told(error)
    return report


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(anyio.run(session, sys.argv[1], sys.argv[2:])), flush=True)
