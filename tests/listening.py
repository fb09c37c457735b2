"""A server that accepts listens by a test's script, for the tests of streams."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from minimcp.protocol.lifecycle import SUBSCRIPTION_KEY

from .answering import R4, R5, Answer, Answering, initialized, result
from .scripted import notice
from .support import eventually

LISTS = {kind: {"listChanged": True} for kind in ("tools", "prompts")}
CAPABILITIES = {**LISTS, "resources": {"listChanged": True, "subscribe": True}}
LISTEN, ACKNOWLEDGED = "subscriptions/listen", "notifications/subscriptions/acknowledged"
TOOLS, PROMPTS, RESOURCES = (
    f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
)
UPDATED = "notifications/resources/updated"


def about(id: Any, method: str, **params: Any) -> Dict[str, Any]:
    return notice(method, **params, _meta={SUBSCRIPTION_KEY: id})


def agree(id: Any, **honored: Any) -> Dict[str, Any]:
    return about(id, ACKNOWLEDGED, notifications=honored)


class Host(Answering):
    """A target for `connect` whose server takes listens.

    Args:
        answers: Its answers to listens, one after the other; the last one repeats. None agrees to
            everything requested; anything else is an `Answer`.
        capabilities: The declared capabilities.
        session: Whether it speaks with a handshake.
    """

    def __init__(
        self,
        *answers: Optional[Answer],
        capabilities: Any = CAPABILITIES,
        session: bool = False,
        **more: Any,
    ) -> None:
        begin: Dict[str, Any] = {
            "server/discover": result(supportedVersions=[R5], capabilities=capabilities),
            LISTEN: [each or self.agree for each in answers or (None,)],
        }
        if session:
            begin = {
                "initialize": initialized(R4, **capabilities),
                "ping": result(),
                "resources/subscribe": result(),
                "resources/unsubscribe": result(),
            }
        super().__init__({**begin, **more})

    def agree(self, message: Any) -> None:
        self.pipe.give(agree(message["id"], **message["params"]["notifications"]))

    def gives(self, make: Callable[[Any], List[Any]]) -> Answer:
        """An answer that is any messages, made from the id of the listen."""
        return lambda message: self.pipe.give(*make(message["id"]))

    def calls(self, *methods: str) -> List[Any]:
        """Return the received requests and notifications with these methods, in order."""
        return [message for message in list(self.pipe.messages) if message.get("method") in methods]

    def listens(self, count: int = 1) -> List[Any]:
        """Wait for this many listens, and return their ids."""
        assert eventually(lambda: len(self.calls(LISTEN)) >= count), self.pipe.messages
        return [message["id"] for message in self.calls(LISTEN)]

    def closed(self, count: int = 1) -> List[Any]:
        """Wait for this many cancelled requests, and return their ids."""
        assert eventually(lambda: len(self.calls("notifications/cancelled")) >= count), (
            self.pipe.messages
        )
        return [message["params"]["requestId"] for message in self.calls("notifications/cancelled")]

    def subscriptions(self) -> List[Any]:
        """Return the subscriptions and cancelled subscriptions of a session, in order."""
        return [
            (message["method"].partition("/")[2], message["params"]["uri"])
            for message in self.calls("resources/subscribe", "resources/unsubscribe")
        ]
