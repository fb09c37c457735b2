"""What stands behind a client of the official Python SDK, 1.x or 2.x: a user, a model, roots, and ears.

Everything is in its form on the wire, which is the same in both versions.
"""

from __future__ import annotations

from typing import Any, Callable

import anyio

try:
    import mcp_types as types
except ImportError:
    from mcp import types

ROOTS = [{"uri": "file:///interop/one", "name": "one"}, {"uri": "file:///interop/tw%C3%B6"}]
USER_REJECTED = -1


def dump(model: Any) -> Any:
    """An object of the SDK in its form on the wire."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def answer_as_model(params: Any) -> Any:
    """Call the tool if there is one and it has not been called, else repeat what the user said last."""
    content = params["messages"][-1]["content"]
    last = content[-1] if isinstance(content, list) else content
    result = {"role": "assistant", "model": "interop-model", "stopReason": "endTurn"}
    if params.get("tools") and last["type"] != "tool_result":
        use = {"type": "tool_use", "id": "use-1", "name": params["tools"][0]["name"], "input": {"a": 1}}
        return {**result, "content": use, "stopReason": "toolUse"}
    text = last["content"][0]["text"] if last["type"] == "tool_result" else last["text"]
    return {**result, "content": {"type": "text", "text": f"You said: {text}"}}


def answer_as_user(params: Any) -> Any:
    return {"action": "accept"} if params.get("mode") == "url" else {"action": "accept", "content": {"name": "Ada"}}


class Host:
    """The callbacks: they answer as a check says, and remember what they were asked and told."""

    def __init__(self) -> None:
        self.changed = anyio.Event()
        self.forget()

    def forget(self) -> None:
        """Be friendly again, asked nothing and told nothing."""
        self.asked: list[Any] = []
        self.logged: list[Any] = []
        self.heard: list[tuple[str, Any]] = []
        self.sampled: Callable[[Any], Any] = answer_as_model
        self.elicited: Callable[[Any], Any] = answer_as_user

    def callbacks(self) -> dict[str, Any]:
        """The keywords of the SDK's client."""
        return {
            "sampling_callback": self.on_sampling, "elicitation_callback": self.on_elicitation,
            "list_roots_callback": self.on_roots, "logging_callback": self.on_log, "message_handler": self.on_message,
            "sampling_capabilities": types.SamplingCapability(tools=types.SamplingToolsCapability()),
        }

    async def on_sampling(self, context: Any, params: Any) -> Any:
        wire = dump(params)
        self.asked.append(wire)
        answer = self.sampled(wire)
        if isinstance(answer, types.ErrorData):
            return answer
        kind = types.CreateMessageResultWithTools if wire.get("tools") else types.CreateMessageResult
        return kind.model_validate(answer)

    async def on_elicitation(self, context: Any, params: Any) -> Any:
        wire = dump(params)
        self.asked.append(wire)
        return types.ElicitResult.model_validate(self.elicited(wire))

    async def on_roots(self, context: Any) -> Any:
        return types.ListRootsResult.model_validate({"roots": ROOTS})

    async def on_log(self, params: Any) -> None:
        self.logged.append(dump(params))
        self._wake()

    async def on_message(self, message: Any) -> None:
        """Remember notices; requests and faults of the connection come here too."""
        message = getattr(message, "root", message)
        if hasattr(message, "method"):
            params = getattr(message, "params", None)
            self.heard.append((message.method, {} if params is None else dump(params)))
            self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def wait(self, enough: Callable[[], Any]) -> None:
        """Return when it is enough; the check's own time bounds this."""
        while not enough():
            await self.changed.wait()

    def methods(self) -> list[str]:
        return [method for method, _ in self.heard]


def refused(message: str) -> Any:
    return types.ErrorData(code=USER_REJECTED, message=message)
