"""The npm package server-everything with everything that it offers: each tool, resource, template,
prompt and question.

It supports the revisions with a handshake, offers tools depending on the client's capabilities, and
sends its notifications when a tool enables them. Two of its tools are only offered to clients that
run tasks, which this client does not.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import minimcp
from minimcp import Answer

from .checking import R3, R4, ROOTS, SECONDS, UNICODE, Basics, expect, expect_raised, only, refuse

LONG = "trigger-long-running-operation"
TOOLS = {
    "echo",
    "get-annotated-message",
    "get-env",
    "get-resource-links",
    "get-resource-reference",
    "get-structured-content",
    "get-sum",
    "get-tiny-image",
    "gzip-file-as-resource",
    "toggle-simulated-logging",
    "toggle-subscriber-updates",
    LONG,
    "get-roots-list",
    "trigger-sampling-request",
    "simulate-research-query",
}
FORM, URL = "trigger-elicitation-request", "trigger-url-elicitation"
DOCUMENTS = {
    "architecture.md",
    "extension.md",
    "features.md",
    "how-it-works.md",
    "instructions.md",
    "startup.md",
    "structure.md",
}
DYNAMIC, STATIC = "demo://resource/dynamic", "demo://resource/static/document"


def logged(heard: list[Any], word: str = "") -> list[Any]:
    return [
        item for item in heard if isinstance(item, minimcp.LogMessage) and word in str(item.data)
    ]


class Everything(Basics):
    def _raw_result(self, tool: str, **arguments: Any) -> Any:
        return json.loads(self.call(tool, arguments).content[-1].text.split("Raw result: ", 1)[1])

    def list(self) -> None:
        wanted = (
            TOOLS | ({FORM} if self.since(R3) else set()) | ({URL} if self.since(R4) else set())
        )
        tools = {tool.name: tool for tool in self.client.list_tools()}
        expect(set(tools), wanted)
        expect(tools["get-sum"].input_schema["required"], ["a", "b"])
        expect(tools["echo"].annotations.read_only_hint, True)

    def echo(self) -> None:
        expect(self.text("echo", {"message": UNICODE}), f"Echo: {UNICODE}")

    def sum(self) -> None:
        expect(self.text("get-sum", {"a": 19, "b": 23}), "The sum of 19 and 23 is 42.")

    def env(self) -> None:
        expect(json.loads(self.text("get-env"))["MINIMCP_INTEROP"], "ja, å")

    def record(self) -> None:
        result = self.call("get-structured-content", {"location": "Chicago"})
        record = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
        expect(
            (json.loads(result.text), result.structured_content, result.value),
            (record, record, record),
        )

    def image(self) -> None:
        before, image, after = self.call("get-tiny-image").content
        expect(
            (before.type, image.type, image.mime_type, after.type),
            ("text", "image", "image/png", "text"),
        )
        expect(image.data[:4], b"\x89PNG")

    def links(self) -> None:
        _, blob, text = self.call("get-resource-links", {"count": 2}).content
        expect(
            (blob.type, blob.uri, text.uri),
            ("resource_link", f"{DYNAMIC}/blob/1", f"{DYNAMIC}/text/2"),
        )
        expect((text.name, text.mime_type), ("Text Resource 2", "text/plain"))
        expect(self.client.read_resource(text.uri).text.startswith("Resource 2: "), True)

    def embedded(self) -> None:
        for kind, mime_type in (("Text", "text/plain"), ("Blob", "text/plain")):
            result = self.call("get-resource-reference", {"resourceType": kind, "resourceId": 3})
            expect([block.type for block in result.content], ["text", "resource", "text"])
            resource = result.content[1].resource
            expect((resource.uri, resource.mime_type), (f"{DYNAMIC}/{kind.lower()}/3", mime_type))

    def annotated(self) -> None:
        for kind, priority in (("error", 1), ("success", 0.7), ("debug", 0.3)):
            text, image = self.call(
                "get-annotated-message", {"messageType": kind, "includeImage": True}
            ).content
            expect((text.type, text.annotations.priority, image.type), ("text", priority, "image"))
            expect(image.annotations.audience, ["user"])

    def progress(self) -> None:
        self.expect_count(LONG, {"duration": 0.2, "steps": 5}, 5)

    def bad_arguments(self) -> None:
        self.expect_refused("get-sum", {"a": "many", "b": 1})

    def parallel(self) -> None:
        self.expect_parallel("message", "Echo: {}")

    @only(R4)
    def task_only(self) -> None:
        """This tool runs as a task or not at all."""
        error = expect_raised(
            minimcp.MethodNotFound, lambda: self.call("simulate-research-query", {"topic": "x"})
        )
        expect("task" in str(error), True)

    def resources(self) -> None:
        resources = {resource.uri: resource for resource in self.client.list_resources()}
        expect({f"{STATIC}/{name}" for name in DOCUMENTS} <= set(resources), True)
        for name in DOCUMENTS:
            listed = resources[f"{STATIC}/{name}"]
            expect((listed.name, listed.mime_type), (name, "text/markdown"))
            (item,) = self.client.read_resource(f"{STATIC}/{name}").contents
            expect(
                (item.uri, item.mime_type, "#" in item.text),
                (f"{STATIC}/{name}", "text/markdown", True),
            )

    def templates(self) -> None:
        templates = {
            template.uri_template: template for template in self.client.list_resource_templates()
        }
        expect(set(templates), {f"{DYNAMIC}/text/{{resourceId}}", f"{DYNAMIC}/blob/{{resourceId}}"})
        text = self.client.read_resource(f"{DYNAMIC}/text/7")
        expect(
            (text.contents[0].mime_type, text.text[:39]),
            ("text/plain", "Resource 7: This is a plaintext resourc"),
        )
        blob = self.client.read_resource(f"{DYNAMIC}/blob/7")
        expect(blob.data[:32], b"Resource 7: This is a base64 blo")

    def no_resource(self) -> None:
        for uri in ("demo://resource/nothing", f"{DYNAMIC}/text/seven"):

            def read(uri: str = uri) -> Any:
                return self.client.read_resource(uri)

            expect(expect_raised(minimcp.RpcError, read).from_peer, True)

    def session_resource(self) -> None:
        """A tool makes a resource: the list changes, and the resource can be read."""
        data = "data:text/plain;base64," + base64.b64encode(b"some words").decode()
        (link,) = self.call("gzip-file-as-resource", {"name": "words.gz", "data": data}).content
        expect((link.type, link.mime_type), ("resource_link", "application/gzip"))
        self.host.wait_heard(lambda heard: "resources" in heard)
        expect(link.uri in {resource.uri for resource in self.client.list_resources()}, True)
        expect(gzip.decompress(self.client.read_resource(link.uri).data), b"some words")
        options = {"name": "words.gz", "data": data, "outputType": "resource"}
        (block,) = self.call("gzip-file-as-resource", options).content
        expect(gzip.decompress(block.resource.data), b"some words")

    def subscriptions(self) -> None:
        first, second = f"{DYNAMIC}/text/1", f"{STATIC}/features.md"

        def updates(heard: list[Any]) -> list[Any]:
            return [
                item for item in heard if item == ("updated", first) or item == ("updated", second)
            ]

        self.client.subscribe(first)
        self.client.subscribe(second)
        self.call("toggle-subscriber-updates")
        both = updates(self.host.wait_heard(lambda heard: len(updates(heard)) == 2))
        expect(both, [("updated", first), ("updated", second)])
        self.call("toggle-subscriber-updates")
        self.client.unsubscribe(first)
        self.host.forget()
        self.call("toggle-subscriber-updates")
        expect(updates(self.host.wait_heard(updates)), [("updated", second)])
        self.call("toggle-subscriber-updates")
        self.client.unsubscribe(second)

    def listen(self) -> None:
        uri = f"{DYNAMIC}/blob/4"
        with self.client.listen(resource_subscriptions=[uri], tools_list_changed=True) as changes:
            expect(
                (changes.honored.resource_subscriptions, changes.honored.tools_list_changed),
                ((uri,), True),
            )
            self.call("toggle-subscriber-updates")
            change = changes.next(timeout=SECONDS)
            expect((change.kind, change.uri), ("resource_updated", uri))
        self.call("toggle-subscriber-updates")

    def prompts(self) -> None:
        prompts = {prompt.name: prompt for prompt in self.client.list_prompts()}
        expect(
            set(prompts), {"simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"}
        )
        arguments = [(each.name, each.required) for each in prompts["args-prompt"].arguments]
        expect(arguments, [("city", True), ("state", False)])
        (message,) = self.client.get_prompt("simple-prompt").messages
        expect(
            (message.role, message.content.text),
            ("user", "This is a simple prompt without arguments."),
        )

    def prompt_arguments(self) -> None:
        for arguments, place in (
            ({"city": "Køge"}, "Køge"),
            ({"city": "Reno", "state": "NV"}, "Reno, NV"),
        ):
            (message,) = self.client.get_prompt("args-prompt", arguments).messages
            expect(message.content.text, f"What's weather in {place}?")
        (message,) = self.client.get_prompt(
            "completable-prompt", {"department": "Sales", "name": "Eve"}
        ).messages
        expect("Eve" in message.content.text, True)
        expect_raised(
            minimcp.InvalidParams, lambda: self.client.get_prompt("args-prompt", {"state": "NV"})
        )
        expect_raised(minimcp.InvalidParams, lambda: self.client.get_prompt("no-such-prompt"))

    def prompt_resource(self) -> None:
        for kind in ("Text", "Blob"):
            arguments = {"resourceType": kind, "resourceId": 5}
            _, message = self.client.get_prompt("resource-prompt", arguments).messages
            expect(
                (message.content.type, message.content.resource.uri),
                ("resource", f"{DYNAMIC}/{kind.lower()}/5"),
            )

    def completion(self) -> None:
        prompt = {"prompt": "completable-prompt"}
        expect(self.client.complete("department", "S", **prompt).values, ["Sales", "Support"])
        chosen = {"department": "Engineering"}
        # Before 2025-06-18 a request cannot name the chosen arguments.
        wanted = ["Alice"] if self.since(R3) else []
        expect(self.client.complete("name", "A", arguments=chosen, **prompt).values, wanted)
        expect(self.client.complete("resourceType", "B", prompt="resource-prompt").values, ["Blob"])
        for typed, values in (("5", ["5"]), ("five", [])):
            for kind in ("text", "blob"):
                template = f"{DYNAMIC}/{kind}/{{resourceId}}"
                expect(self.client.complete("resourceId", typed, template=template).values, values)

    def log(self) -> None:
        self.client.set_log_level("debug")
        self.call("toggle-simulated-logging")
        self.host.wait_heard(logged)
        self.call("toggle-simulated-logging")

    def log_levels(self) -> None:
        """The server reports a new subscription with a message of the level info, before its
        response."""
        self.client.set_log_level("warning")
        self.client.subscribe(f"{DYNAMIC}/text/8")
        self.client.set_log_level("info")
        self.client.unsubscribe(f"{DYNAMIC}/text/8")
        (message,) = logged(
            self.host.wait_heard(lambda heard: logged(heard, "Received")), "Received"
        )
        expect((message.level, "Unsubscribe" in message.data), ("info", True))
        expect_raised(ValueError, lambda: self.client.set_log_level("loud"))

    def sampling(self) -> None:
        said = self.text("trigger-sampling-request", {"prompt": "Hej", "maxTokens": 17})
        result = json.loads(said.split("\n", 1)[1])
        expect((result["model"], result["role"]), ("interop-model", "assistant"))
        expect(
            (result["content"]["type"], result["content"]["text"].endswith("Hej")), ("text", True)
        )
        (request,) = self.host.asked
        expect((request.max_tokens, request.temperature), (17, 0.7))
        expect(request.system_prompt, "You are a helpful test server.")
        expect(request.server.name, "mcp-servers/everything")

    def sampling_refused(self) -> None:
        self.host.sampled = refuse
        error = expect_raised(
            minimcp.ToolError, lambda: self.call("trigger-sampling-request", {"prompt": "Hej"})
        )
        expect("not today" in str(error), True)

    @only(R3)
    def form(self) -> None:
        """A form with every kind of field: fields that the user does not change have their
        defaults."""
        filled = {
            "name": "Ada",
            "check": True,
            "email": "ada@example.com",
            "integer": 7,
            "birthdate": "1815-12-10",
        }
        self.host.elicited = lambda request: filled
        result = self._raw_result(FORM)
        content = result["content"]
        expect((result["action"], {**content, **filled}), ("accept", content))
        expect((content["number"], content["titledSingleSelectEnum"]), (3.14, "hero-1"))
        expect(
            (content["legacyTitledEnum"], content["untitledMultipleSelectEnum"]),
            ("pet-1", ["Guitar"]),
        )
        (request,) = self.host.asked
        expect((request.mode, len(request.schema["properties"])), ("form", 13))

    @only(R3)
    def form_declined(self) -> None:
        for returned, action in ((None, "decline"), (Answer("cancel"), "cancel")):
            self.host.elicited = lambda request, returned=returned: returned
            expect(self._raw_result(FORM), {"action": action})

    @only(R3)
    def form_wrong(self) -> None:
        """A value that violates the form is never sent."""
        self.host.elicited = lambda request: {"name": "Ada", "integer": 1000}
        error = expect_raised(minimcp.HandlerFailed, lambda: self.call(FORM))
        expect("integer: expected a number of at most 100" in str(error), True)

    @only(R4)
    def url(self) -> None:
        url = {"url": "https://example.com/open?a=1", "message": "Open", "elicitationId": "e-1"}
        expect(self._raw_result(URL, **url), {"action": "accept"})
        (request,) = self.host.asked
        expect((request.mode, request.url, request.elicitation_id), ("url", url["url"], "e-1"))
        self.host.elicited = lambda request: None
        expect(self._raw_result(URL, **url), {"action": "decline"})

    @only(R4)
    def url_error(self) -> None:
        """The other way to ask for a URL: an error that names it, after which the call is made
        again."""
        arguments = {"url": "https://example.com/again", "errorPath": True}
        error = expect_raised(minimcp.UrlElicitationRequired, lambda: self.call(URL, arguments))
        (wanted,) = error.data["elicitations"]
        expect((wanted["mode"], wanted["url"]), ("url", "https://modelcontextprotocol.io"))
        expect(self._raw_result(URL, **arguments), {"action": "accept"})

    def roots(self) -> None:
        said = self.text("get-roots-list")
        expect([root in said for root in ROOTS], [True, True])
        self.client.set_roots(["file:///interop/three"])
        # The first list may be on its way as well: the server asks for it some time after the
        # handshake.
        self.host.wait_heard(lambda heard: logged(heard, "Roots updated: 1 root"))
        said = self.text("get-roots-list")
        expect(("file:///interop/three" in said, ROOTS[0] in said), (True, False))
        self.client.set_roots(ROOTS)
        self.host.wait_heard(lambda heard: logged(heard, "Roots updated: 2 root"))

    def cancel(self) -> None:
        token = minimcp.CancelToken()
        options = {"on_progress": lambda report: token.cancel("enough"), "cancel": token}
        expect_raised(
            minimcp.Cancelled, lambda: self.call(LONG, {"duration": 2, "steps": 20}, **options)
        )
        self.echo()

    def timeout(self) -> None:
        arguments = {"duration": 2, "steps": 2}
        expect_raised(minimcp.RequestTimeout, lambda: self.call(LONG, arguments, timeout=0.3))
        self.echo()

    alive_after = echo
