"""Prompts are messages for a model that a person chooses; their arguments are completed while the
person types.

You will see two prompts with their arguments, completions of three arguments, and the messages of
one prompt.

The arguments of a prompt are text on the wire; the function receives the annotated types.
Completions come from a list, or from a function that receives the text so far and, if it has a
second parameter, the other arguments. A Literal completes by itself.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts and
.../server/utilities/completion
"""

from __future__ import annotations

from typing import Literal

import minimcp
from minimcp import Message

server = minimcp.Server("letters")
STREETS = {"Oslo": ["Aker brygge", "Karl Johans gate"], "Bergen": ["Strandgaten"]}


def streets(value: str, arguments: dict[str, str]) -> list[str]:
    """Complete a street of the chosen city."""
    return [
        street for street in STREETS.get(arguments.get("city", ""), []) if street.startswith(value)
    ]


@server.prompt(title="Write a letter", complete={"city": list(STREETS), "street": streets})
def letter(
    city: str, street: str, tone: Literal["plain", "formal"] = "plain", lines: int = 5
) -> list[Message]:
    """Write a letter.

    Args:
        city: City of the recipients.
        street: Their street.
        tone: Tone of the letter.
        lines: Number of lines.
    """
    return [
        Message("user", f"Write {lines} lines in a {tone} tone to the people of {street}, {city}."),
        Message("assistant", "Dear neighbours,"),
    ]


@server.prompt
def shorter() -> str:
    """Ask for a shorter answer. A str is one message of the user."""
    return "Say that in half as many words."


if __name__ == "__main__":
    with minimcp.connect(server) as client:
        for prompt in client.list_prompts():
            arguments = [
                each.name if each.required else f"[{each.name}]" for each in prompt.arguments or []
            ]
            print(prompt.display_name + ":", *arguments)

        print("city, B:", client.complete("city", "B", prompt="letter").values)
        chosen = {"city": "Oslo"}
        print(
            "street in Oslo:",
            client.complete("street", "", prompt="letter", arguments=chosen).values,
        )
        print("tone, f:", client.complete("tone", "f", prompt="letter").values)

        result = client.get_prompt("letter", {"city": "Oslo", "street": "Aker brygge", "lines": 3})
        for message in result.messages:
            if isinstance(message.content, minimcp.Text):  # it could be an image, a file, ...
                print(f"{message.role}: {message.content.text}")
        try:
            client.get_prompt("letter", {"city": "Oslo"})
        except minimcp.InvalidParams as error:
            print("refused:", error.message)

# Exercise: add a prompt `translate(text: str, language: ...)` whose message asks for the text in
# that language, which is "Finnish" or "Norwegian". Choose an annotation that completes the language
# by itself.
# Check it with  python3 examples/check.py 6
