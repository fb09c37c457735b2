"""Questions to a user: what was asked, and what came back.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

from __future__ import annotations

from typing import Any

from ..errors import Declined

ACTIONS = ("accept", "decline", "cancel")


class Answer:
    """What a user did with a question. True when it was accepted.

    Args:
        action: "accept", "decline" (said no) or "cancel" (made no choice).
        content: What the user filled in: a dict, or an instance of the class that was asked for; None unless accepted.

    Raises:
        ValueError: Another action, or content without acceptance.
    """

    __slots__ = ("action", "content")

    def __init__(self, action: str, content: Any = None) -> None:
        if action not in ACTIONS:
            raise ValueError(f"action is one of {', '.join(ACTIONS)}, not {action!r}")
        if content is not None and action != "accept":
            raise ValueError(f"an answer that is no acceptance ({action}) has no content")
        self.action, self.content = action, content

    def __bool__(self) -> bool:
        return self.action == "accept"

    def require(self) -> Any:
        """The content.

        Raises:
            Declined: The user declined or made no choice.
        """
        if self.action != "accept":
            raise Declined("the user declined" if self.action == "decline" else "the user made no choice")
        return self.content

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answer):
            return NotImplemented
        return (self.action, self.content) == (other.action, other.content)

    def __repr__(self) -> str:
        return f"Answer({self.action!r}, {self.content!r})" if self.content is not None else f"Answer({self.action!r})"
