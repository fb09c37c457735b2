"""A server can be a plain class: its marked methods are the tools.

You will see an object that is used without a server, and then an object of a subclass that is
served.

There is no base class, and importing the file registers nothing: the decorator only marks the
method. The class can be created, called and tested like any other. It becomes a server when one of
its objects is served. Handlers run on several threads at the same time, so a lock protects what
they share.

https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import sys
import threading

import minimcp


class Notes:
    """Notes with numbers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.lock = threading.Lock()

    @minimcp.tool
    def add(self, text: str) -> int:
        """Add a note and return its number."""
        with self.lock:
            self.texts.append(text)
            return len(self.texts)

    @minimcp.tool(annotations={"read_only_hint": True})
    def find(self, word: str) -> list[str]:
        """Find the notes that contain a word."""
        with self.lock:
            return [text for text in self.texts if word in text]

    @minimcp.resource("notes://{number}")
    def read(self, number: int) -> str:
        """Read one note."""
        with self.lock:
            if not 0 < number <= len(self.texts):
                raise minimcp.ResourceNotFound(f"There is no note {number}.")
            return self.texts[number - 1]


class DatedNotes(Notes):
    """A subclass, which inherits the marks of its base class."""

    def add(self, text: str) -> int:
        """Add a note with today's date, which is always the same here."""
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

# Exercise: add a tool `count() -> int` to `Notes` that returns the number of notes. Mark it as
# read-only, and hold the lock while you count. The subclass inherits it.
# Check it with  python3 examples/check.py 3
