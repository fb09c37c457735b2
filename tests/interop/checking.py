"""What the checks of a minimcp client need: the peer that they look at, the host behind it, and two comparisons."""

from __future__ import annotations

import threading
from typing import Any, Callable, NamedTuple

from minimcp import SampleResult, ToolUse

R1, R2, R3, R4, R5 = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
UNICODE = "Grüße, 世界 \U0001f600 \u2028 \x7f end"
ROOTS = ["file:///interop/one", "file:///interop/tw%C3%B6"]
PARALLEL = 20
SECONDS = 15.0  # how long one call may take


class Host:
    """The host's functions: answers as a check says, and remembers what it was asked and told."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.heard: list[Any] = []
        self.forget()

    def forget(self) -> None:
        """Be friendly again, asked nothing and told nothing."""
        with self._changed:
            self.heard.clear()
        self.asked: list[Any] = []
        self.elicited: Callable[[Any], Any] = lambda request: {} if request.mode == "url" else {"name": "Ada"}
        self.sampled: Callable[[Any], Any] = answer_as_model

    def elicit(self, request: Any) -> Any:
        self.asked.append(request)
        return self.elicited(request)

    def sample(self, request: Any) -> Any:
        self.asked.append(request)
        return self.sampled(request)

    def on_log(self, message: Any) -> None:
        self._tell(message)

    def on_tools_changed(self) -> None:
        self._tell("tools")

    def on_resources_changed(self) -> None:
        self._tell("resources")

    def on_prompts_changed(self) -> None:
        self._tell("prompts")

    def on_resource_updated(self, uri: str) -> None:
        self._tell(("updated", uri))

    def _tell(self, item: Any) -> None:
        with self._changed:
            self.heard.append(item)
            self._changed.notify_all()

    def wait_heard(self, enough: Callable[[list[Any]], Any]) -> list[Any]:
        """Return what was told as soon as it is enough."""
        with self._changed:
            if not self._changed.wait_for(lambda: enough(self.heard), SECONDS):
                raise AssertionError(f"heard only {self.heard!r:.300}")
            return list(self.heard)


def answer_as_model(request: Any) -> SampleResult:
    """Call the tool if there is one and it has not been called, else repeat what the user said last."""
    last = request.messages[-1]
    if request.tools and last.content[-1].type != "tool_result":
        return SampleResult(ToolUse("use-1", request.tools[0].name, {"a": 1}), "interop-model", stop_reason="toolUse")
    said = last.content[-1].content[0].text if last.content[-1].type == "tool_result" else last.text
    return SampleResult(f"You said: {said}", "interop-model", stop_reason="endTurn")


class Peer:
    """A connected client, the host behind it, and what its revision has."""

    def __init__(self, client: Any, host: Host) -> None:
        self.client, self.host = client, host
        self.revision = client.revision
        self.modern = self.since(R5)
        self.structured = self.since(R3)

    def since(self, revision: str) -> bool:
        """Return whether the revision in use is this one or a later one."""
        return bool(self.revision >= revision)

    def call(self, name: str, arguments: Any = None, **options: Any) -> Any:
        options.setdefault("timeout", SECONDS)
        return self.client.call_tool(name, arguments, **options)


class Check(NamedTuple):
    """One check, and the revisions in which there is something to check."""

    run: Callable[[Peer], None]
    since: str
    until: str


def checks(since: str = R1, until: str = R5, **functions: Callable[[Peer], None]) -> dict[str, Check]:
    """Return checks by their names, in which an underscore stands for a blank."""
    return {name.replace("_", " "): Check(function, since, until) for name, function in functions.items()}


def expect(got: Any, wanted: Any) -> None:
    if got != wanted:
        raise AssertionError(f"got {got!r:.300}, expected {wanted!r:.300}")


def expect_raised(kinds: Any, call: Callable[[], Any]) -> Any:
    """Return the exception of one of the kinds that the call raises."""
    try:
        result = call()
    except kinds as error:
        return error
    raise AssertionError(f"nothing raised, got {result!r:.200}")
