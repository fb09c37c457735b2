"""Everything but plain tools that the servers of the grid have: asked, heard and answered by a minimcp client."""

from __future__ import annotations

from typing import Any

import minimcp
from minimcp import Answer, Refused

from .checking import PARALLEL, R2, R3, R4, R5, ROOTS, SECONDS, Peer, checks, expect, expect_raised

TEXT = "alle: å"
URL = "https://example.com/open?a=1"
PNG = b"\x89PNG"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


# ------------------------------------------------------------ content


def check_descriptions(peer: Peer) -> None:
    """What a server says of itself and of a tool, as far as the revision has words for it."""
    expect(peer.client.instructions, "Tools of the interop grid.")
    (touch,) = [tool for tool in peer.client.list_tools() if tool.name == "touch"]
    expect(touch.description, "Say that a resource has changed.")
    if peer.since(R2):
        expect((touch.annotations.idempotent_hint, touch.annotations.read_only_hint), (True, False))
    if peer.since(R3):
        expect((touch.title, touch.meta), ("Touch it", {"example.com/colour": "blue"}))


def check_icons(peer: Peer) -> None:
    (touch,) = [tool for tool in peer.client.list_tools() if tool.name == "touch"]
    expect([icon.src for icon in touch.icons or ()], ["https://example.com/i.png"])


def check_contents(peer: Peer) -> None:
    kinds = ["text", "image", "resource"] + ["audio"] * peer.since(R2) + ["resource_link"] * peer.since(R3)
    blocks = {block.type: block for block in peer.call("mixed", {"kinds": kinds}).content}
    expect(list(blocks), kinds)
    resource = blocks["resource"].resource
    expect((resource.uri, resource.mime_type, resource.text), ("note://all", "text/plain", TEXT))
    if "audio" in blocks:
        expect((blocks["audio"].data, blocks["audio"].mime_type), (b"RIFF", "audio/wav"))
    if "resource_link" in blocks:
        expect((blocks["resource_link"].uri, blocks["resource_link"].name), ("note://all", "all"))


# ------------------------------------------------------------ resources


def check_resources(peer: Peer) -> None:
    resources = {resource.uri: resource for resource in peer.client.list_resources()}
    expect(set(resources), {"note://all", "note://pixel"})
    expect((resources["note://all"].name, resources["note://all"].mime_type), ("all", "text/plain"))
    (item,) = peer.client.read_resource("note://all").contents
    expect((item.uri, item.mime_type, item.text), ("note://all", "text/plain", TEXT))
    (item,) = peer.client.read_resource("note://pixel").contents
    expect((item.mime_type, item.data[:4]), ("image/png", PNG))


def check_templates(peer: Peer) -> None:
    templates = {template.uri_template: template for template in peer.client.list_resource_templates()}
    expect(set(templates), {"note://by-id/{number}", "note://secret/{number}"})
    expect(templates["note://by-id/{number}"].name, "by_id")
    expect(peer.client.read_resource("note://by-id/7").text, "note 7")


def check_no_resource(peer: Peer) -> None:
    expect_raised(minimcp.ResourceNotFound, lambda: peer.client.read_resource("note://nowhere"))


def check_code_of_no_resource(peer: Peer) -> None:
    """The same by its code: our client also understands servers that answer another revision's."""
    error = expect_raised(minimcp.RpcError, lambda: peer.client.read_resource("note://nowhere"))
    expect(error.code, -32602 if peer.modern else -32002)


def check_pages(peer: Peer) -> None:
    """The list of prompts comes in pages, and a client has all of them."""
    first = peer.client.request("prompts/list", timeout=SECONDS)
    expect((len(first["prompts"]), bool(first.get("nextCursor"))), (2, True))
    expect(len(peer.client.list_prompts()), 3)
    expect_raised(minimcp.RpcError, lambda: peer.client.request("prompts/list", {"cursor": "?"}, timeout=SECONDS))


def check_cache_hints(peer: Peer) -> None:
    listed = peer.client.request("resources/list", timeout=SECONDS)
    expect((listed["ttlMs"], listed["cacheScope"]), (30_000, "public"))
    read = peer.client.request("resources/read", {"uri": "note://all"}, timeout=SECONDS)
    expect((read["ttlMs"], read["cacheScope"]), (5_000, "private"))


# ------------------------------------------------------------ changes


def check_list_changes(peer: Peer) -> None:
    """Callbacks hear of what was added, and the lists have it; then of what was taken away."""
    for tool, there in (("grow", True), ("shrink", False)):
        peer.host.forget()
        peer.call(tool)
        peer.host.wait_heard(lambda heard: {"tools", "prompts", "resources"} <= set(map(str, heard)))
        expect("grown" in {each.name for each in peer.client.list_tools()}, there)
        expect("grown" in {each.name for each in peer.client.list_prompts()}, there)
        expect("note://grown" in {each.uri for each in peer.client.list_resources()}, there)


def check_subscriptions(peer: Peer) -> None:
    peer.client.subscribe("note://all")
    peer.client.subscribe("note://pixel")
    peer.call("touch", {"uri": "note://all"})
    peer.host.wait_heard(lambda heard: ("updated", "note://all") in heard)
    peer.client.unsubscribe("note://all")
    peer.host.forget()
    peer.call("touch", {"uri": "note://all"})
    peer.call("touch", {"uri": "note://pixel"})
    heard = peer.host.wait_heard(lambda heard: ("updated", "note://pixel") in heard)
    expect(("updated", "note://all") in heard, False)
    peer.client.unsubscribe("note://pixel")


def check_listen(peer: Peer) -> None:
    options = {"resource_subscriptions": ["note://pixel"], "tools_list_changed": True}
    with peer.client.listen(**options, timeout=SECONDS) as changes:
        expect((changes.honored.resource_subscriptions, changes.honored.tools_list_changed), (("note://pixel",), True))
        expect(changes.honored.prompts_list_changed, False)
        peer.call("touch", {"uri": "note://all"})
        peer.call("touch", {"uri": "note://pixel"})
        change = changes.next(timeout=SECONDS)
        expect((change.kind, change.uri), ("resource_updated", "note://pixel"))
        peer.call("grow")
        expect(changes.next(timeout=SECONDS).kind, "tools_list_changed")
    peer.call("shrink")


# ------------------------------------------------------------ prompts and completion


def check_prompts(peer: Peer) -> None:
    prompts = {prompt.name: prompt for prompt in peer.client.list_prompts()}
    expect(set(prompts), {"greet", "picture", "survey"})
    expect([(each.name, bool(each.required)) for each in prompts["greet"].arguments], [("name", True), ("tone", False)])
    (message,) = peer.client.get_prompt("greet", {"name": "Åse"}).messages
    expect((message.role, message.content.text), ("user", "Greet Åse in a plain tone"))
    (message,) = peer.client.get_prompt("greet", {"name": "Åse", "tone": "formal"}).messages
    expect(message.content.text, "Greet Åse in a formal tone")


def check_prompt_contents(peer: Peer) -> None:
    first, second, third = peer.client.get_prompt("picture").messages
    expect((first.role, first.content.text, second.content.data[:4]), ("user", "Look:", PNG))
    expect((third.role, third.content.resource.uri, third.content.resource.text), ("assistant", "note://all", TEXT))


def check_prompt_errors(peer: Peer) -> None:
    expect(expect_raised(minimcp.RpcError, lambda: peer.client.get_prompt("no-such-prompt")).from_peer, True)
    expect(expect_raised(minimcp.RpcError, lambda: peer.client.get_prompt("greet", {"tone": "plain"})).from_peer, True)


def check_completion(peer: Peer) -> None:
    expect(peer.client.complete("tone", "f", prompt="greet").values, ["formal", "friendly"])
    expect(peer.client.complete("name", "", prompt="greet").values, ["Alice", "Bob"])
    expect(peer.client.complete("number", "1", template="note://by-id/{number}").values, ["1", "10", "100"])
    # Before 2025-06-18 a request cannot say what is chosen.
    chosen = peer.client.complete("name", "", prompt="greet", arguments={"tone": "formal"}).values
    expect(chosen, ["Sir Å", "Dame B"] if peer.since(R3) else ["Alice", "Bob"])


# ------------------------------------------------------------ logging


def check_log_levels(peer: Peer) -> None:
    for level in ("warning", "debug"):
        peer.host.forget()
        peer.client.set_log_level(level)
        peer.call("logs")
        wanted = LEVELS[LEVELS.index(level):]
        heard = [item for item in peer.host.wait_heard(heard_all) if isinstance(item, minimcp.LogMessage)]
        expect([message.level for message in heard], wanted)
        expect((heard[0].logger, heard[0].data), ("interop", {"level": wanted[0]}))


def heard_all(heard: list[Any]) -> bool:
    return any(getattr(item, "level", None) == "emergency" for item in heard)


# ------------------------------------------------------------ questions


def check_form(peer: Peer) -> None:
    expect(peer.call("ask_form").text, "accept Ada 36")
    (request,) = peer.host.asked
    expect((request.mode, request.message, request.server.name), ("form", "Who are you?", "interop"))
    expect(set(request.schema["properties"]), {"name", "age"})
    for returned, action in ((None, "decline"), (Answer("cancel"), "cancel")):
        peer.host.elicited = lambda request, returned=returned: returned
        expect(peer.call("ask_form").text, action)


def check_url(peer: Peer) -> None:
    expect(peer.call("ask_url").text, "accept")
    (request,) = peer.host.asked
    expect((request.mode, request.url, request.host), ("url", URL, "example.com"))
    expect(bool(request.elicitation_id), not peer.modern)
    peer.host.elicited = lambda request: None
    expect(peer.call("ask_url").text, "decline")


def check_url_error(peer: Peer) -> None:
    error = expect_raised(minimcp.UrlElicitationRequired, lambda: peer.call("need_url"))
    (wanted,) = error.data["elicitations"]
    expect((wanted["url"], wanted["elicitationId"]), (URL, "interop-2"))
    expect(peer.call("need_url").text, "opened")


def check_sampling(peer: Peer) -> None:
    expect(peer.call("ask_model", {"text": "Hej"}).text, "interop-model: You said: Hej (endTurn)")
    (request,) = peer.host.asked
    expect((request.max_tokens, request.system_prompt), (50, "Be short."))
    expect((request.temperature, request.stop_sequences, request.server.name), (0.5, ["."], "interop"))


def check_sampling_tools(peer: Peer) -> None:
    expect(peer.call("ask_tools").text, "You said: 2")
    first, second = peer.host.asked
    expect((first.tools[0].name, first.tool_choice.mode, len(second.messages)), ("twice", "required", 3))


def check_refused(peer: Peer) -> None:
    """With a handshake the server hears of a refusal, and says it in its own way; else the call ends here."""
    peer.host.sampled = refuse
    kinds = Refused if peer.modern else (minimcp.ToolError, minimcp.RpcError)
    error = expect_raised(kinds, lambda: peer.call("ask_model", {"text": "Hej"}))
    expect("not today" in str(error), True)


def refuse(request: Any) -> Any:
    raise Refused("not today")


def check_roots(peer: Peer) -> None:
    expect(peer.call("ask_roots").text, ", ".join(ROOTS))
    peer.client.set_roots(ROOTS[:1])
    expect(peer.call("ask_roots").text, ROOTS[0])
    peer.client.set_roots(ROOTS)


def check_many(peer: Peer) -> None:
    expect(peer.call("ask_many").text, "Ada | You said: Hi | 2")
    expect(len(peer.host.asked), 2)


def check_twice(peer: Peer) -> None:
    """The second question is about the answer to the first."""
    peer.host.elicited = lambda request: {"name": "Ada"} if "Who" in request.message else {"age": 40}
    expect(peer.call("ask_twice").text.split(",")[0], "Ada is 40")
    expect([request.message for request in peer.host.asked], ["Who are you?", "How old is Ada?"])


def check_many_askers(peer: Peer) -> None:
    """Questions of calls that run at once do not get each other's answers."""
    calls: list[Any] = [("ask_model", {"text": f"text {i}"}) for i in range(PARALLEL)]
    results = peer.client.call_tools(calls, timeout=SECONDS)
    wanted = [f"interop-model: You said: text {i} (endTurn)" for i in range(PARALLEL)]
    expect([result.text for result in results], wanted)


def check_cancel_asking(peer: Peer) -> None:
    """The call is given up while its question is being answered."""
    token = minimcp.CancelToken()

    def give_up(request: Any) -> Any:
        token.cancel("enough")
        return "too late"

    peer.host.sampled = give_up
    expect_raised(minimcp.Cancelled, lambda: peer.call("ask_model", {"text": "Hej"}, cancel=token))
    peer.host.forget()
    expect(peer.call("ask_model", {"text": "Hej"}).text, "interop-model: You said: Hej (endTurn)")


def check_asking_prompt(peer: Peer) -> None:
    (message,) = peer.client.get_prompt("survey").messages
    expect(message.content.text, "survey by Ada")


def check_asking_resource(peer: Peer) -> None:
    expect(peer.client.read_resource("note://secret/3").text, "secret 3 for Ada")


def check_rounds_by_hand(peer: Peer) -> None:
    """A host that drives the rounds itself: the question comes out, the answer goes in with the state."""
    params = {"name": "ask_form", "arguments": {}}
    first = peer.client.request("tools/call", params, timeout=SECONDS, raw=True)
    expect(first["resultType"], "input_required")
    ((key, question),) = first["inputRequests"].items()
    expect(question["method"], "elicitation/create")
    answers = {key: {"action": "accept", "content": {"name": "Bo", "age": 5}}}
    again = {**params, "inputResponses": answers}
    if "requestState" in first:
        again["requestState"] = first["requestState"]
    last = peer.client.request("tools/call", again, timeout=SECONDS, raw=True)
    expect((last["resultType"], last["content"][0]["text"]), ("complete", "accept Bo 5"))


FEATURES = {
    **checks(
        contents=check_contents, resources=check_resources, templates=check_templates, no_resource=check_no_resource,
        code_of_no_resource=check_code_of_no_resource, pages=check_pages, prompts=check_prompts,
        prompt_contents=check_prompt_contents, prompt_errors=check_prompt_errors, completion=check_completion,
        log_levels=check_log_levels, list_changes=check_list_changes, subscriptions=check_subscriptions,
        listen=check_listen, sampling=check_sampling, refused=check_refused, roots=check_roots,
        many_askers=check_many_askers, descriptions=check_descriptions,
    ),
    **checks(R3, form=check_form, many=check_many, twice=check_twice, asking_prompt=check_asking_prompt,
             asking_resource=check_asking_resource),
    **checks(R4, icons=check_icons, url=check_url, sampling_tools=check_sampling_tools),
    **checks(R4, R4, url_error=check_url_error),
    **checks(R5, cache_hints=check_cache_hints, rounds_by_hand=check_rounds_by_hand),
    **checks(cancel_asking=check_cancel_asking),  # the last: a server may end over it
}
