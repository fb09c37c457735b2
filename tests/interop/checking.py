"""Helpers for the checks of a minimcp client: the peer under test, its host, and two comparisons."""

from __future__ import annotations

import functools
import json
import threading
from typing import Any, Callable

import minimcp
from minimcp import Refused, SampleResult, ToolUse

R1, R2, R3, R4, R5 = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
UNICODE = "Grüße, 世界 \U0001f600 \u2028 \x7f end"
ROOTS = ["file:///interop/one", "file:///interop/tw%C3%B6"]
PARALLEL = 20
SECONDS = 15.0  # how long one call may take


class Host:
    """The host's functions. They answer as a check configures them, and record questions and
    notifications."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.heard: list[Any] = []
        self.forget()

    def forget(self) -> None:
        """Reset the answers to friendly ones, and the records to empty."""
        with self._changed:
            self.heard.clear()
        self.asked: list[Any] = []
        self.elicited: Callable[[Any], Any] = lambda request: (
            {} if request.mode == "url" else {"name": "Ada"}
        )
        self.sampled: Callable[[Any], Any] = answer_as_model

    def elicit(self, request: Any) -> Any:
        self.asked.append(request)
        return self.elicited(request)

    def sample(self, request: Any) -> Any:
        self.asked.append(request)
        return self.sampled(request)

    def _tell(self, item: Any) -> None:
        with self._changed:
            self.heard.append(item)
            self._changed.notify_all()

    on_log = _tell
    on_tools_changed = functools.partialmethod(_tell, "tools")
    on_resources_changed = functools.partialmethod(_tell, "resources")
    on_prompts_changed = functools.partialmethod(_tell, "prompts")

    def on_resource_updated(self, uri: str) -> None:
        self._tell(("updated", uri))

    def wait_heard(self, enough: Callable[[list[Any]], Any]) -> list[Any]:
        """Wait until the received notifications are enough, and return them."""
        with self._changed:
            if not self._changed.wait_for(lambda: enough(self.heard), SECONDS):
                raise AssertionError(f"heard only {self.heard!r:.300}")
            return list(self.heard)


def answer_as_model(request: Any) -> SampleResult:
    """Call the tool if there is one and it has not been called. Otherwise repeat the last message
    of the user."""
    last = request.messages[-1]
    if request.tools and last.content[-1].type != "tool_result":
        return SampleResult(
            ToolUse("use-1", request.tools[0].name, {"a": 1}),
            "interop-model",
            stop_reason="toolUse",
        )
    said = last.content[-1].content[0].text if last.content[-1].type == "tool_result" else last.text
    return SampleResult(f"You said: {said}", "interop-model", stop_reason="endTurn")


def refuse(request: Any) -> Any:
    raise Refused("not today")


def only(since: str, until: str = R5) -> Callable[[Any], Any]:
    """Limit a check to these revisions."""

    def mark(check: Any) -> Any:
        check.span = since, until
        return check

    return mark


class Checks:
    """The checks of a server, one method of a subclass for each. They inspect a client and the host
    behind it."""

    takes: frozenset[str] = frozenset()  # only these; all if there are none

    def __init__(self, client: Any, host: Host) -> None:
        self.client, self.host, self.revision = client, host, client.revision
        self.modern = self.since(R5)

    def since(self, revision: str) -> bool:
        return bool(self.revision >= revision)

    def all(self) -> dict[str, Callable[[], None]]:
        """The checks for the revision in use, by their names, in which an underscore stands for a
        blank."""
        classes = [
            each
            for each in reversed(type(self).__mro__)
            if issubclass(each, Checks) and each is not Checks
        ]
        names = dict.fromkeys(
            name for each in classes for name in vars(each) if not name.startswith("_")
        )
        found = {
            name: getattr(self, name) for name in names if not self.takes or name in self.takes
        }
        spans = {
            name: getattr(check, "span", (R1, R5))
            for name, check in found.items()
            if callable(check)
        }
        return {
            name.replace("_", " "): found[name]
            for name, (first, last) in spans.items()
            if first <= self.revision <= last
        }

    def call(self, name: str, arguments: Any = None, **options: Any) -> Any:
        options.setdefault("timeout", SECONDS)
        return self.client.call_tool(name, arguments, **options)

    def text(self, name: str, arguments: Any = None, **options: Any) -> str:
        return str(self.call(name, arguments, **options).text)

    def json(self, name: str, arguments: Any = None) -> Any:
        return json.loads(self.text(name, arguments))

    def expect_refused(self, name: str, arguments: Any) -> None:
        """Servers differ in whether this is the tool's error or the protocol's: we take both."""
        error = expect_raised(
            (minimcp.ToolError, minimcp.InvalidParams), lambda: self.call(name, arguments)
        )
        expect(bool(str(error)), True)

    def expect_count(self, tool: str, arguments: Any, n: int) -> None:
        """All progress arrives, in order, on the caller's thread."""
        seen: list[Any] = []
        self.call(
            tool,
            arguments,
            on_progress=lambda report: seen.append(
                (report.progress, report.total, threading.current_thread())
            ),
        )
        expect(seen, [(i, n, threading.current_thread()) for i in range(1, n + 1)])

    def expect_parallel(self, argument: str, said: str = "{}") -> None:
        texts = [f"text {i}" for i in range(PARALLEL)]
        results = self.client.call_tools(
            [("echo", {argument: text}) for text in texts], timeout=SECONDS
        )
        expect([result.text for result in results], [said.format(text) for text in texts])


class Basics(Checks):
    """Checks for every server."""

    def ping(self) -> None:
        expect(self.client.ping(timeout=SECONDS) >= 0, True)

    def unknown_tool(self) -> None:
        self.expect_refused("no-such-tool", {})

    def unknown_method(self) -> None:
        error = expect_raised(
            minimcp.RpcError, lambda: self.client.request("vendor/nothing", timeout=SECONDS)
        )
        expect(error.from_peer, True)


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
