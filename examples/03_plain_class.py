"""A server can be a plain class: its marked methods are the tools.

You will see an object that is used without any server, and then an object of a subclass that is
served.

There is no base class, and nothing is registered when the file is imported: a mark is a note on the
function. The class can be made, called and tested like any other; it becomes a server when one of
its objects is served. Handlers run on several threads at once, so what they share is guarded by a
lock.

https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import sys
import threading

import minimcp


class Notes:
    """Short texts with numbers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.lock = threading.Lock()

    @minimcp.tool
    def add(self, text: str) -> int:
        """Keep a note; returns its number."""
        with self.lock:
            self.texts.append(text)
            return len(self.texts)

    @minimcp.tool(annotations={"read_only_hint": True})
    def find(self, word: str) -> list[str]:
        """The notes in which a word stands."""
        with self.lock:
            return [text for text in self.texts if word in text]

    @minimcp.resource("notes://{number}")
    def read(self, number: int) -> str:
        """One note."""
        with self.lock:
            if not 0 < number <= len(self.texts):
                raise minimcp.ResourceNotFound(f"There is no note {number}.")
            return self.texts[number - 1]


class DatedNotes(Notes):
    """A class that inherits from a marked one inherits its marks."""

    def add(self, text: str) -> int:
        """Keep a note under today's date, which is always the same here; returns its number."""
        return super().add(f"2026-07-28: {text}")


def main() -> None:
    print("A plain object:", Notes().add("buy milk"))

    server = minimcp.Server.of(DatedNotes())
    print("A server:", server)
    with minimcp.connect(server) as client:
        print("tools:", [tool.name for tool in client.list_tools()])
        print("number", client.call_tool("add", {"text": "buy milk"}).value)
        print("number", client.call_tool("add", {"text": "sell bread"}).value)
        print(client.call_tool("find", {"word": "milk"}).value)
        print(client.read_resource("notes://2").text)


if __name__ == "__main__":
    minimcp.serve(Notes()) if sys.argv[1:] == ["serve"] else main()

# Exercise: give `Notes` a tool `count() -> int` that says how many notes there are. Mark it as one
# that only reads, and hold the lock while you look. The subclass has it too, without a line of its
# own.
# Check it with  python3 examples/check.py 3
