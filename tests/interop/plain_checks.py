"""What every server of the grid can do: a few tools, resources and prompts, as far as a server's package goes."""

from __future__ import annotations

from .checking import R3, R4, Peer, checks, expect, expect_raised
from .feature_checks import FEATURES
from .tool_checks import SHARED

TOOLS = {"echo", "add", "weather", "count", "fail", "image", "note"}


def check_list(peer: Peer) -> None:
    tools = {tool.name: tool for tool in peer.client.list_tools()}
    expect(TOOLS - set(tools), set())
    expect((tools["echo"].input_schema["required"], bool(tools["echo"].description)), (["text"], True))


def check_template(peer: Peer) -> None:
    (template,) = peer.client.list_resource_templates()
    expect((template.uri_template, template.name), ("note://by-id/{number}", "by_id"))
    expect(peer.client.read_resource("note://by-id/7").text, "note 7")


def check_prompts(peer: Peer) -> None:
    prompts = {prompt.name: prompt for prompt in peer.client.list_prompts()}
    expect(set(prompts), {"greet", "picture"})
    expect([(each.name, bool(each.required)) for each in prompts["greet"].arguments], [("name", True), ("tone", False)])
    (message,) = peer.client.get_prompt("greet", {"name": "Åse", "tone": "formal"}).messages
    expect((message.role, message.content.text), ("user", "Greet Åse in a formal tone"))


def check_no_resource(peer: Peer) -> None:
    """That there is none is said in many ways."""
    expect(expect_raised(Exception, lambda: peer.client.read_resource("note://nowhere")).from_peer, True)


def check_completion(peer: Peer) -> None:
    expect(peer.client.complete("tone", "f", prompt="greet").values, ["formal", "friendly"])


# What is not asked: a method that it does not know ends the server of the SDK of 2024.
PLAIN = {
    **checks(list=check_list, template=check_template, prompts=check_prompts, no_such_resource=check_no_resource,
             completion=check_completion),
    **{name: SHARED[name] for name in (
        "echo", "add", "record", "image", "tool error", "unknown tool", "parallel", "parallel errors", "large", "ping",
        "log", "alive after",
    )},
    **{name: FEATURES[name] for name in ("resources", "prompt contents", "prompt errors")},
}

def check_log(peer: Peer) -> None:
    """FastMCP puts the text into an object of its own."""
    peer.client.set_log_level("debug")
    expect(peer.call("note", {"text": "hør"}).text, "noted")
    (message,) = peer.host.wait_heard(len)
    expect((message.level, message.data["msg"]), ("info", "hør"))


FASTMCP = {
    **PLAIN,
    **checks(log=check_log),
    **{name: SHARED[name] for name in (
        "unknown method", "progress", "bad arguments", "cancel", "timeout", "future",
    )},
    **checks(R3, R4, form=FEATURES["form"].run),
}
