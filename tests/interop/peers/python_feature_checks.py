"""Everything but plain tools that our server has: asked, heard and answered by a client of the Python SDK."""

from __future__ import annotations

import base64
import json
from typing import Any

import anyio
from checking import checks_of, expect, expect_raised
from python_adapters import PeerError, everything
from python_host import ROOTS, dump, refused, types

TEXT = "alle: å"
URL = "https://example.com/open?a=1"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
SEAL = 20  # where in a state of our server its signature stands

CHANGES = {f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")}
UPDATED = "notifications/resources/updated"
Peer = Any


async def code_of(awaitable: Any) -> Any:
    """The code of the error that comes of it."""
    return (await expect_raised(PeerError, awaitable)).error.code


async def text_of(peer: Peer, tool: str, arguments: Any = None) -> str:
    result = await peer.call(tool, arguments)
    if peer.is_error(result):
        raise AssertionError(f"{tool}: {result.content[0].text}")
    return result.content[0].text


async def check_contents(peer: Peer) -> None:
    kinds = ["text", "image", "resource"]
    kinds += ["audio"] * (peer.revision >= "2025-03-26") + ["resource_link"] * (peer.revision >= "2025-06-18")
    blocks = [dump(block) for block in (await peer.call("mixed", {"kinds": kinds})).content]
    expect([block["type"] for block in blocks], kinds)
    expect(blocks[2]["resource"], {"uri": "note://all", "mimeType": "text/plain", "text": TEXT})
    if "audio" in kinds:
        expect((base64.b64decode(blocks[3]["data"]), blocks[3]["mimeType"]), (b"RIFF", "audio/wav"))
    if "resource_link" in kinds:
        expect((blocks[4]["uri"], blocks[4]["name"]), ("note://all", "all"))


async def check_resources(peer: Peer) -> None:
    resources = {each["uri"]: each for each in await everything(peer, "resources")}
    expect(set(resources), {"note://all", "note://pixel"})
    expect((resources["note://all"]["name"], resources["note://all"]["mimeType"]), ("all", "text/plain"))
    (item,) = (await peer.read("note://all"))["contents"]
    expect(item, {"uri": "note://all", "mimeType": "text/plain", "text": TEXT})
    (item,) = (await peer.read("note://pixel"))["contents"]
    expect((item["mimeType"], base64.b64decode(item["blob"])[:4]), ("image/png", b"\x89PNG"))


async def check_templates(peer: Peer) -> None:
    templates = {each["uriTemplate"]: each for each in await everything(peer, "resource_templates")}
    expect(set(templates), {"note://by-id/{number}", "note://secret/{number}"})
    expect(templates["note://by-id/{number}"]["name"], "by_id")
    expect((await peer.read("note://by-id/7"))["contents"][0]["text"], "note 7")


async def check_no_resource(peer: Peer) -> None:
    expect(await code_of(peer.read("note://nowhere")), -32602 if peer.modern else -32002)
    expect(await code_of(peer.read("note://by-id/seven")), -32602 if peer.modern else -32002)


async def check_pages(peer: Peer) -> None:
    first = await peer.page("prompts")
    expect((len(first["prompts"]), "nextCursor" in first), (2, True))
    expect(len(await everything(peer, "prompts")), 3)
    expect(await code_of(peer.page("prompts", "?")), -32602)


async def check_prompts(peer: Peer) -> None:
    prompts = {each["name"]: each for each in await everything(peer, "prompts")}
    expect(set(prompts), {"greet", "picture", "survey"})
    arguments = [(each["name"], bool(each.get("required"))) for each in prompts["greet"]["arguments"]]
    expect((arguments, prompts["greet"]["arguments"][0]["description"]), ([("name", True), ("tone", False)], "Who."))
    for given, tone in (({"name": "Åse"}, "plain"), ({"name": "Åse", "tone": "formal"}, "formal")):
        (message,) = (await peer.prompt("greet", given))["messages"]
        expect((message["role"], message["content"]["text"]), ("user", f"Greet Åse in a {tone} tone"))
    first, second, third = (await peer.prompt("picture"))["messages"]
    expect((first["content"]["text"], second["content"]["type"]), ("Look:", "image"))
    expect((third["role"], third["content"]["resource"]["text"]), ("assistant", TEXT))


async def check_prompt_errors(peer: Peer) -> None:
    expect(await code_of(peer.prompt("no-such-prompt")), -32602)
    expect(await code_of(peer.prompt("greet", {"tone": "plain"})), -32602)


async def check_completion(peer: Peer) -> None:
    prompt = types.PromptReference.model_validate({"type": "ref/prompt", "name": "greet"})
    template = types.ResourceTemplateReference.model_validate({"type": "ref/resource", "uri": "note://by-id/{number}"})

    async def values(ref: Any, name: str, typed: str, chosen: Any = None) -> Any:
        return (await peer.complete(ref, {"name": name, "value": typed}, chosen)).completion.values

    expect(await values(prompt, "tone", "f"), ["formal", "friendly"])
    expect(await values(prompt, "name", ""), ["Alice", "Bob"])
    expect(await values(prompt, "name", "D", {"tone": "formal"}), ["Dame B"])
    expect(await values(template, "number", "1"), ["1", "10", "100"])


async def check_log_levels(peer: Peer) -> None:
    for level in ("warning", "debug"):
        peer.host.forget()
        await peer.logs(level)
        await peer.host.wait(lambda: any(each["level"] == "emergency" for each in peer.host.logged))
        wanted = LEVELS[LEVELS.index(level):]
        expect([each["level"] for each in peer.host.logged], wanted)
        expect(peer.host.logged[0], {"level": wanted[0], "data": {"level": wanted[0]}, "logger": "interop"})


async def check_list_changes(peer: Peer) -> None:
    for tool, there in (("grow", True), ("shrink", False)):
        peer.host.forget()
        await text_of(peer, tool)
        await peer.host.wait(lambda: set(peer.host.methods()) >= CHANGES)
        expect("grown" in [each["name"] for each in await everything(peer, "tools")], there)
        expect("grown" in [each["name"] for each in await everything(peer, "prompts")], there)
        expect("note://grown" in [each["uri"] for each in await everything(peer, "resources")], there)


async def check_subscriptions(peer: Peer) -> None:
    first, second = (UPDATED, {"uri": "note://all"}), (UPDATED, {"uri": "note://pixel"})
    await peer.subscribe("note://all")
    await peer.subscribe("note://pixel")
    await text_of(peer, "touch", {"uri": "note://all"})
    await peer.host.wait(lambda: first in peer.host.heard)
    await peer.unsubscribe("note://all")
    peer.host.forget()
    for uri in ("note://all", "note://pixel"):
        await text_of(peer, "touch", {"uri": uri})
    await peer.host.wait(lambda: second in peer.host.heard)
    expect(first in peer.host.heard, False)
    await peer.unsubscribe("note://pixel")


async def check_cache(peer: Peer) -> None:
    fresh = await peer.page("resources")
    expect((fresh["ttlMs"], fresh["cacheScope"]), (30_000, "public"))
    read = await peer.read("note://all")
    expect((read["ttlMs"], read["cacheScope"]), (5_000, "private"))
    await text_of(peer, "grow")
    expect(await peer.page("resources", cache_mode="use"), fresh)
    expect("nextCursor" in await peer.page("resources"), True)
    await text_of(peer, "shrink")


async def check_listen(peer: Peer) -> None:
    """What came is fresh when the event is there, though the client keeps lists for a while."""
    options = {"tools_list_changed": True, "resource_subscriptions": ["note://pixel"]}
    async with peer.api.listen(**options) as stream:
        honored = dump(stream.honored)
        expect(honored, {"toolsListChanged": True, "resourceSubscriptions": ["note://pixel"]})
        for uri in ("note://all", "note://pixel"):
            await text_of(peer, "touch", {"uri": uri})
        event = await stream.__anext__()
        expect((type(event).__name__, event.uri), ("ResourceUpdated", "note://pixel"))
        before = len(await everything(peer, "tools"))
        await text_of(peer, "grow")
        expect(type(await stream.__anext__()).__name__, "ToolsListChanged")
        expect(len(await everything(peer, "tools")), before + 1)
    async with peer.api.listen(prompts_list_changed=True, resources_list_changed=True) as stream:
        await text_of(peer, "shrink")
        kinds = {type(await stream.__anext__()).__name__, type(await stream.__anext__()).__name__}
        expect(kinds, {"PromptsListChanged", "ResourcesListChanged"})


async def check_form(peer: Peer) -> None:
    expect(await text_of(peer, "ask_form"), "accept Ada 36")
    (asked,) = peer.host.asked
    expect((asked["message"], set(asked["requestedSchema"]["properties"])), ("Who are you?", {"name", "age"}))
    for action in ("decline", "cancel"):
        peer.host.elicited = lambda params, action=action: {"action": action}
        expect(await text_of(peer, "ask_form"), action)


async def check_form_wrong(peer: Peer) -> None:
    """A client that does not look at the form: with a handshake the call fails, else the question comes again."""
    answers = [{"age": "many"}, {"name": "Ada", "age": 1}]
    peer.host.elicited = lambda params: {"action": "accept", "content": answers.pop(0)}
    result = await peer.call("ask_form")
    expect(peer.is_error(result), not peer.modern)
    if peer.modern:
        expect(result.content[0].text, "accept Ada 1")


async def check_url(peer: Peer) -> None:
    expect(await text_of(peer, "ask_url"), "accept")
    (asked,) = peer.host.asked
    expect((asked["mode"], asked["url"]), ("url", URL))
    if not peer.modern:
        expect(asked["elicitationId"], "interop-1")
        complete = ("notifications/elicitation/complete", {"elicitationId": "interop-1"})
        await peer.host.wait(lambda: complete in peer.host.heard)
    peer.host.elicited = lambda params: {"action": "decline"}
    expect(await text_of(peer, "ask_url"), "decline")


async def check_url_error(peer: Peer) -> None:
    """Before 2026-07-28 an error names the URL; from then on the client is asked to open it."""
    if peer.modern:
        expect(await text_of(peer, "need_url"), "opened")
        expect([asked["url"] for asked in peer.host.asked], [URL])
        return
    error = (await expect_raised(PeerError, peer.call("need_url"))).error
    (wanted,) = error.data["elicitations"]
    expect((error.code, wanted["url"], wanted["elicitationId"]), (-32042, URL, "interop-2"))
    expect(await text_of(peer, "need_url"), "opened")


async def check_sampling(peer: Peer) -> None:
    expect(await text_of(peer, "ask_model", {"text": "Hej"}), "interop-model: You said: Hej (endTurn)")
    (asked,) = peer.host.asked
    expect((asked["maxTokens"], asked["systemPrompt"]), (50, "Be short."))
    expect((asked["temperature"], asked["stopSequences"]), (0.5, ["."]))


async def check_sampling_tools(peer: Peer) -> None:
    expect(await text_of(peer, "ask_tools"), "You said: 2")
    first, second = peer.host.asked
    expect((first["tools"][0]["name"], first["toolChoice"]), ("twice", {"mode": "required"}))
    expect(len(second["messages"]), 3)


async def check_refused(peer: Peer) -> None:
    peer.host.sampled = lambda params: refused("not today")
    if peer.modern:
        expect(await code_of(peer.call("ask_model", {"text": "Hej"})), -1)
        return
    result = await peer.call("ask_model", {"text": "Hej"})
    expect((peer.is_error(result), "not today" in result.content[0].text), (True, True))


async def check_roots(peer: Peer) -> None:
    expect(await text_of(peer, "ask_roots"), ", ".join(root["uri"] for root in ROOTS))


async def check_many(peer: Peer) -> None:
    expect(await text_of(peer, "ask_many"), "Ada | You said: Hi | 2")
    expect(len(peer.host.asked), 2)


async def check_twice(peer: Peer) -> None:
    """The second question is about the answer to the first; what stands between them is done once."""
    peer.host.elicited = lambda params: {
        "action": "accept", "content": {"name": "Ada"} if "Who" in params["message"] else {"age": 40},
    }
    expect(await text_of(peer, "ask_twice"), "Ada is 40, 1 step")
    expect([asked["message"] for asked in peer.host.asked], ["Who are you?", "How old is Ada?"])


async def check_choices(peer: Peer) -> None:
    """A form with every kind of field that the revision has."""
    lists = peer.revision >= "2025-11-25"
    filled: dict[str, Any] = {"mail": "ada@example.com", "word": "abc", "count": 3, "share": 0.5, "sure": False}
    filled.update({"colour": "red", "size": "l", **({"days": ["mon"], "fish": ["f1", "f2"]} if lists else {})})
    peer.host.elicited = lambda params: {"action": "accept", "content": filled}
    expect(json.loads(await text_of(peer, "ask_choices", {"lists": lists})), filled)
    fields = peer.host.asked[0]["requestedSchema"]["properties"]
    expect(set(fields), set(filled))
    titled: dict[str, Any] = {"oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]}
    if not lists:
        titled = {"enum": ["s", "l"], "enumNames": ["Small", "Large"]}
    expect({**fields["size"], **titled}, fields["size"])


async def check_many_askers(peer: Peer) -> None:
    """Questions of calls that run at once do not get each other's answers."""
    answers: dict[int, str] = {}

    async def one(i: int) -> None:
        answers[i] = await text_of(peer, "ask_model", {"text": f"text {i}"})

    async with anyio.create_task_group() as group:
        for i in range(20):
            group.start_soon(one, i)
    expect(answers, {i: f"interop-model: You said: text {i} (endTurn)" for i in range(20)})


async def check_descriptions(peer: Peer) -> None:
    """What the revision has words for, and no word more."""
    (touch,) = [tool for tool in await everything(peer, "tools") if tool["name"] == "touch"]
    wanted: dict[str, Any] = {"description": "Say that a resource has changed."}
    if peer.revision >= "2025-03-26":
        wanted["annotations"] = {"idempotentHint": True, "readOnlyHint": False}
    if peer.revision == "2025-03-26":
        wanted["annotations"]["title"] = "Touch it"
    if peer.revision >= "2025-06-18":
        wanted.update(title="Touch it", _meta={"example.com/colour": "blue"})
    if peer.revision >= "2025-11-25":
        wanted["icons"] = [{"src": "https://example.com/i.png", "mimeType": "image/png"}]
    found = {name: value for name, value in touch.items() if name not in ("name", "inputSchema", "outputSchema")}
    expect(found, wanted)


async def check_asking_prompt(peer: Peer) -> None:
    (message,) = (await peer.prompt("survey"))["messages"]
    expect(message["content"]["text"], "survey by Ada")


async def check_asking_resource(peer: Peer) -> None:
    expect((await peer.read("note://secret/3"))["contents"][0]["text"], "secret 3 for Ada")


async def check_rounds_by_hand(peer: Peer) -> None:
    """Drive the rounds without the SDK's loop; a state that somebody has touched is not taken."""
    first = await peer.api.session.call_tool("ask_twice", {}, allow_input_required=True)
    ((key, question),) = first.input_requests.items()
    expect((key, question.method), ("who", "elicitation/create"))
    answer = types.ElicitResult(action="accept", content={"name": "Bo"})
    state = first.request_state
    touched = f"{state[:SEAL]}{'B' if state[SEAL] == 'A' else 'A'}{state[SEAL + 1:]}"
    again = {"input_responses": {key: answer}, "allow_input_required": True}
    expect(await code_of(peer.api.session.call_tool("ask_twice", {}, request_state=touched, **again)), -32602)
    second = await peer.api.session.call_tool("ask_twice", {}, request_state=first.request_state, **again)
    expect(dump(second.input_requests["age"].params)["message"], "How old is Bo?")


HANDSHAKE, MODERN = ("2024-11-05", "2025-11-25"), ("2026-07-28", "2026-07-28")
FORMS, URLS = ("2025-06-18", "2026-07-28"), ("2025-11-25", "2026-07-28")
SPANS = {  # the first revision and the last one of checks that not every revision has something for
    **dict.fromkeys(("list changes", "subscriptions"), HANDSHAKE),
    **dict.fromkeys(("cache", "listen", "rounds by hand"), MODERN),
    **dict.fromkeys(("form", "form wrong", "many", "twice", "asking prompt", "choices", "asking resource"), FORMS),
    **dict.fromkeys(("url", "url error", "sampling tools"), URLS),
}

FEATURES = {name: (each, SPANS.get(name, ("2024-11-05", "2026-07-28"))) for name, each in checks_of(globals()).items()}
"""The checks in order, in which the cache comes before changes: the SDK may throw kept lists away after those."""
