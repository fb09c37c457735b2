"""The npm package server-everything, all that it offers: every tool, resource, template, prompt and question.

It speaks the revisions with a handshake, offers tools by what the client declares, and sends its notices when a
tool switches them on. Two of its tools come only to clients that run tasks, which this one does not.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import minimcp
from minimcp import Answer, Refused

from .checking import PARALLEL, R3, R4, ROOTS, SECONDS, UNICODE, Peer, checks, expect, expect_raised
from .tool_checks import check_count, check_ping, check_refused, check_unknown_method, check_unknown_tool

LONG = "trigger-long-running-operation"
TOOLS = {
    "echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference",
    "get-structured-content", "get-sum", "get-tiny-image", "gzip-file-as-resource", "toggle-simulated-logging",
    "toggle-subscriber-updates", LONG, "get-roots-list", "trigger-sampling-request", "simulate-research-query",
}
FORM, URL = "trigger-elicitation-request", "trigger-url-elicitation"
DOCUMENTS = {
    "architecture.md", "extension.md", "features.md", "how-it-works.md", "instructions.md", "startup.md",
    "structure.md",
}
DYNAMIC, STATIC = "demo://resource/dynamic", "demo://resource/static/document"


def check_list(peer: Peer) -> None:
    wanted = TOOLS | ({FORM} if peer.since(R3) else set()) | ({URL} if peer.since(R4) else set())
    tools = {tool.name: tool for tool in peer.client.list_tools()}
    expect(set(tools), wanted)
    expect(tools["get-sum"].input_schema["required"], ["a", "b"])
    expect(tools["echo"].annotations.read_only_hint, True)


# ------------------------------------------------------------ tools


def check_echo(peer: Peer) -> None:
    expect(peer.call("echo", {"message": UNICODE}).text, f"Echo: {UNICODE}")


def check_sum(peer: Peer) -> None:
    expect(peer.call("get-sum", {"a": 19, "b": 23}).text, "The sum of 19 and 23 is 42.")


def check_env(peer: Peer) -> None:
    expect(json.loads(peer.call("get-env").text)["MINIMCP_INTEROP"], "ja, å")


def check_record(peer: Peer) -> None:
    result = peer.call("get-structured-content", {"location": "Chicago"})
    record = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    expect((json.loads(result.text), result.structured_content, result.value), (record, record, record))


def check_image(peer: Peer) -> None:
    before, image, after = peer.call("get-tiny-image").content
    expect((before.type, image.type, image.mime_type, after.type), ("text", "image", "image/png", "text"))
    expect(image.data[:4], b"\x89PNG")


def check_links(peer: Peer) -> None:
    _, blob, text = peer.call("get-resource-links", {"count": 2}).content
    expect((blob.type, blob.uri, text.uri), ("resource_link", f"{DYNAMIC}/blob/1", f"{DYNAMIC}/text/2"))
    expect((text.name, text.mime_type), ("Text Resource 2", "text/plain"))
    expect(peer.client.read_resource(text.uri).text.startswith("Resource 2: "), True)


def check_embedded(peer: Peer) -> None:
    for kind, mime_type in (("Text", "text/plain"), ("Blob", "text/plain")):
        result = peer.call("get-resource-reference", {"resourceType": kind, "resourceId": 3})
        expect([block.type for block in result.content], ["text", "resource", "text"])
        resource = result.content[1].resource
        expect((resource.uri, resource.mime_type), (f"{DYNAMIC}/{kind.lower()}/3", mime_type))


def check_annotated(peer: Peer) -> None:
    for kind, priority in (("error", 1), ("success", 0.7), ("debug", 0.3)):
        text, image = peer.call("get-annotated-message", {"messageType": kind, "includeImage": True}).content
        expect((text.type, text.annotations.priority, image.type), ("text", priority, "image"))
        expect(image.annotations.audience, ["user"])


def check_progress(peer: Peer) -> None:
    check_count(peer, LONG, {"duration": 0.2, "steps": 5}, 5)


def check_bad_arguments(peer: Peer) -> None:
    check_refused(peer, "get-sum", {"a": "many", "b": 1})


def check_parallel(peer: Peer) -> None:
    texts = [f"text {i}" for i in range(PARALLEL)]
    results = peer.client.call_tools([("echo", {"message": text}) for text in texts], timeout=SECONDS)
    expect([result.text for result in results], [f"Echo: {text}" for text in texts])


def check_cancel(peer: Peer) -> None:
    token = minimcp.CancelToken()
    options = {"on_progress": lambda report: token.cancel("enough"), "cancel": token}
    expect_raised(minimcp.Cancelled, lambda: peer.call(LONG, {"duration": 2, "steps": 20}, **options))
    check_echo(peer)


def check_timeout(peer: Peer) -> None:
    arguments = {"duration": 2, "steps": 2}
    expect_raised(minimcp.RequestTimeout, lambda: peer.call(LONG, arguments, timeout=0.3))
    check_echo(peer)


def check_task_only(peer: Peer) -> None:
    """This tool runs as a task or not at all."""
    error = expect_raised(minimcp.MethodNotFound, lambda: peer.call("simulate-research-query", {"topic": "x"}))
    expect("task" in str(error), True)


# ------------------------------------------------------------ resources


def check_resources(peer: Peer) -> None:
    resources = {resource.uri: resource for resource in peer.client.list_resources()}
    expect({f"{STATIC}/{name}" for name in DOCUMENTS} <= set(resources), True)
    for name in DOCUMENTS:
        expect((resources[f"{STATIC}/{name}"].name, resources[f"{STATIC}/{name}"].mime_type), (name, "text/markdown"))
        (item,) = peer.client.read_resource(f"{STATIC}/{name}").contents
        expect((item.uri, item.mime_type, "#" in item.text), (f"{STATIC}/{name}", "text/markdown", True))


def check_templates(peer: Peer) -> None:
    templates = {template.uri_template: template for template in peer.client.list_resource_templates()}
    expect(set(templates), {f"{DYNAMIC}/text/{{resourceId}}", f"{DYNAMIC}/blob/{{resourceId}}"})
    text = peer.client.read_resource(f"{DYNAMIC}/text/7")
    expect((text.contents[0].mime_type, text.text[:39]), ("text/plain", "Resource 7: This is a plaintext resourc"))
    blob = peer.client.read_resource(f"{DYNAMIC}/blob/7")
    expect(blob.data[:32], b"Resource 7: This is a base64 blo")


def check_no_resource(peer: Peer) -> None:
    for uri in ("demo://resource/nothing", f"{DYNAMIC}/text/seven"):
        def read(uri: str = uri) -> Any:
            return peer.client.read_resource(uri)

        expect(expect_raised(minimcp.RpcError, read).from_peer, True)


def check_session_resource(peer: Peer) -> None:
    """A tool makes a resource: the list changes, and the resource can be read."""
    data = "data:text/plain;base64," + base64.b64encode(b"some words").decode()
    (link,) = peer.call("gzip-file-as-resource", {"name": "words.gz", "data": data}).content
    expect((link.type, link.mime_type), ("resource_link", "application/gzip"))
    peer.host.wait_heard(lambda heard: "resources" in heard)
    expect(link.uri in {resource.uri for resource in peer.client.list_resources()}, True)
    expect(gzip.decompress(peer.client.read_resource(link.uri).data), b"some words")
    options = {"name": "words.gz", "data": data, "outputType": "resource"}
    (block,) = peer.call("gzip-file-as-resource", options).content
    expect(gzip.decompress(block.resource.data), b"some words")


def check_subscriptions(peer: Peer) -> None:
    first, second = f"{DYNAMIC}/text/1", f"{STATIC}/features.md"

    def updates(heard: list[Any]) -> list[Any]:
        return [item for item in heard if item == ("updated", first) or item == ("updated", second)]

    peer.client.subscribe(first)
    peer.client.subscribe(second)
    peer.call("toggle-subscriber-updates")
    both = updates(peer.host.wait_heard(lambda heard: len(updates(heard)) == 2))
    expect(both, [("updated", first), ("updated", second)])
    peer.call("toggle-subscriber-updates")
    peer.client.unsubscribe(first)
    peer.host.forget()
    peer.call("toggle-subscriber-updates")
    expect(updates(peer.host.wait_heard(updates)), [("updated", second)])
    peer.call("toggle-subscriber-updates")
    peer.client.unsubscribe(second)


def check_listen(peer: Peer) -> None:
    uri = f"{DYNAMIC}/blob/4"
    with peer.client.listen(resource_subscriptions=[uri], tools_list_changed=True) as changes:
        expect((changes.honored.resource_subscriptions, changes.honored.tools_list_changed), ((uri,), True))
        peer.call("toggle-subscriber-updates")
        change = changes.next(timeout=SECONDS)
        expect((change.kind, change.uri), ("resource_updated", uri))
    peer.call("toggle-subscriber-updates")


# ------------------------------------------------------------ prompts and completion


def check_prompts(peer: Peer) -> None:
    prompts = {prompt.name: prompt for prompt in peer.client.list_prompts()}
    expect(set(prompts), {"simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"})
    arguments = [(each.name, each.required) for each in prompts["args-prompt"].arguments]
    expect(arguments, [("city", True), ("state", False)])
    (message,) = peer.client.get_prompt("simple-prompt").messages
    expect((message.role, message.content.text), ("user", "This is a simple prompt without arguments."))


def check_prompt_arguments(peer: Peer) -> None:
    for arguments, place in (({"city": "Køge"}, "Køge"), ({"city": "Reno", "state": "NV"}, "Reno, NV")):
        (message,) = peer.client.get_prompt("args-prompt", arguments).messages
        expect(message.content.text, f"What's weather in {place}?")
    (message,) = peer.client.get_prompt("completable-prompt", {"department": "Sales", "name": "Eve"}).messages
    expect("Eve" in message.content.text, True)
    expect_raised(minimcp.InvalidParams, lambda: peer.client.get_prompt("args-prompt", {"state": "NV"}))
    expect_raised(minimcp.InvalidParams, lambda: peer.client.get_prompt("no-such-prompt"))


def check_prompt_resource(peer: Peer) -> None:
    for kind in ("Text", "Blob"):
        arguments = {"resourceType": kind, "resourceId": 5}
        _, message = peer.client.get_prompt("resource-prompt", arguments).messages
        expect((message.content.type, message.content.resource.uri), ("resource", f"{DYNAMIC}/{kind.lower()}/5"))


def check_completion(peer: Peer) -> None:
    prompt = {"prompt": "completable-prompt"}
    expect(peer.client.complete("department", "S", **prompt).values, ["Sales", "Support"])
    chosen = {"department": "Engineering"}
    # Before 2025-06-18 a request cannot say what is chosen.
    wanted = ["Alice"] if peer.since(R3) else []
    expect(peer.client.complete("name", "A", arguments=chosen, **prompt).values, wanted)
    expect(peer.client.complete("resourceType", "B", prompt="resource-prompt").values, ["Blob"])
    for typed, values in (("5", ["5"]), ("five", [])):
        for kind in ("text", "blob"):
            template = f"{DYNAMIC}/{kind}/{{resourceId}}"
            expect(peer.client.complete("resourceId", typed, template=template).values, values)


# ------------------------------------------------------------ logging


def check_log(peer: Peer) -> None:
    peer.client.set_log_level("debug")
    peer.call("toggle-simulated-logging")
    peer.host.wait_heard(logged)
    peer.call("toggle-simulated-logging")


def logged(heard: list[Any], word: str = "") -> list[Any]:
    return [item for item in heard if isinstance(item, minimcp.LogMessage) and word in str(item.data)]


def check_log_levels(peer: Peer) -> None:
    """The server tells by a message of the level info that it took a subscription, before it answers."""
    peer.client.set_log_level("warning")
    peer.client.subscribe(f"{DYNAMIC}/text/8")
    peer.client.set_log_level("info")
    peer.client.unsubscribe(f"{DYNAMIC}/text/8")
    (message,) = logged(peer.host.wait_heard(lambda heard: logged(heard, "Received")), "Received")
    expect((message.level, "Unsubscribe" in message.data), ("info", True))
    expect_raised(ValueError, lambda: peer.client.set_log_level("loud"))


# ------------------------------------------------------------ questions


def check_sampling(peer: Peer) -> None:
    said = peer.call("trigger-sampling-request", {"prompt": "Hej", "maxTokens": 17}).text
    result = json.loads(said.split("\n", 1)[1])
    expect((result["model"], result["role"]), ("interop-model", "assistant"))
    expect((result["content"]["type"], result["content"]["text"].endswith("Hej")), ("text", True))
    (request,) = peer.host.asked
    expect((request.max_tokens, request.temperature), (17, 0.7))
    expect((request.system_prompt, request.server.name), ("You are a helpful test server.", "mcp-servers/everything"))


def check_sampling_refused(peer: Peer) -> None:
    peer.host.sampled = refuse
    error = expect_raised(minimcp.ToolError, lambda: peer.call("trigger-sampling-request", {"prompt": "Hej"}))
    expect("not today" in str(error), True)


def refuse(request: Any) -> Any:
    raise Refused("not today")


def check_form(peer: Peer) -> None:
    """A form with every kind of field: what the user leaves alone has its default."""
    filled = {"name": "Ada", "check": True, "email": "ada@example.com", "integer": 7, "birthdate": "1815-12-10"}
    peer.host.elicited = lambda request: filled
    result = raw_result(peer, FORM)
    content = result["content"]
    expect((result["action"], {**content, **filled}), ("accept", content))
    expect((content["number"], content["titledSingleSelectEnum"]), (3.14, "hero-1"))
    expect((content["legacyTitledEnum"], content["untitledMultipleSelectEnum"]), ("pet-1", ["Guitar"]))
    (request,) = peer.host.asked
    expect((request.mode, len(request.schema["properties"])), ("form", 13))


def raw_result(peer: Peer, tool: str, **arguments: Any) -> Any:
    """What the server says it got from the client."""
    return json.loads(peer.call(tool, arguments).content[-1].text.split("Raw result: ", 1)[1])


def check_form_declined(peer: Peer) -> None:
    for returned, action in ((None, "decline"), (Answer("cancel"), "cancel")):
        peer.host.elicited = lambda request, returned=returned: returned
        expect(raw_result(peer, FORM), {"action": action})


def check_form_wrong(peer: Peer) -> None:
    """What does not fit the form never leaves the client."""
    peer.host.elicited = lambda request: {"name": "Ada", "integer": 1000}
    error = expect_raised(minimcp.ToolError, lambda: peer.call(FORM))
    expect("-32603" in str(error), True)


def check_url(peer: Peer) -> None:
    url = {"url": "https://example.com/open?a=1", "message": "Open", "elicitationId": "e-1"}
    expect(raw_result(peer, URL, **url), {"action": "accept"})
    (request,) = peer.host.asked
    expect((request.mode, request.url, request.elicitation_id), ("url", url["url"], "e-1"))
    peer.host.elicited = lambda request: None
    expect(raw_result(peer, URL, **url), {"action": "decline"})


def check_url_error(peer: Peer) -> None:
    """The other way to ask for a URL: an error that names it, after which the call is made again."""
    arguments = {"url": "https://example.com/again", "errorPath": True}
    error = expect_raised(minimcp.UrlElicitationRequired, lambda: peer.call(URL, arguments))
    (wanted,) = error.data["elicitations"]
    expect((wanted["mode"], wanted["url"]), ("url", "https://modelcontextprotocol.io"))
    expect(raw_result(peer, URL, **arguments), {"action": "accept"})


def check_roots(peer: Peer) -> None:
    said = peer.call("get-roots-list").text
    expect([root in said for root in ROOTS], [True, True])
    peer.client.set_roots(["file:///interop/three"])
    # The first list may be on its way as well: the server asks for it some time after the handshake.
    peer.host.wait_heard(lambda heard: logged(heard, "Roots updated: 1 root"))
    said = peer.call("get-roots-list").text
    expect(("file:///interop/three" in said, ROOTS[0] in said), (True, False))
    peer.client.set_roots(ROOTS)
    peer.host.wait_heard(lambda heard: logged(heard, "Roots updated: 2 root"))


EVERYTHING = {
    **checks(
        list=check_list, echo=check_echo, sum=check_sum, env=check_env, record=check_record, image=check_image,
        links=check_links, embedded=check_embedded, annotated=check_annotated, progress=check_progress,
        bad_arguments=check_bad_arguments, unknown_tool=check_unknown_tool, unknown_method=check_unknown_method,
        parallel=check_parallel, ping=check_ping, resources=check_resources, templates=check_templates,
        no_resource=check_no_resource, session_resource=check_session_resource,
        subscriptions=check_subscriptions, listen=check_listen, prompts=check_prompts,
        prompt_arguments=check_prompt_arguments, prompt_resource=check_prompt_resource,
        completion=check_completion, log=check_log, log_levels=check_log_levels, sampling=check_sampling,
        sampling_refused=check_sampling_refused, roots=check_roots,
    ),
    **checks(R3, form=check_form, form_declined=check_form_declined, form_wrong=check_form_wrong),
    **checks(R4, url=check_url, url_error=check_url_error, task_only=check_task_only),
    **checks(cancel=check_cancel, timeout=check_timeout, alive_after=check_echo),
}
