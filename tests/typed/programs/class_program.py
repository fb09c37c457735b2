"""Marked methods of a plain class keep their signatures."""

from typing import List

from typing_extensions import assert_type

import minimcp
from minimcp import Context, Server


class Notes:
    def __init__(self, path: str) -> None:
        self.path = path

    @minimcp.tool
    def add(self, text: str) -> int:
        return len(text)

    @minimcp.tool(title="Search")
    def search(self, word: str, ctx: Context, most: int = 10) -> List[str]:
        return [word] * most

    @minimcp.resource("notes://{number}")
    def read(self, number: int) -> str:
        return str(number)

    @minimcp.prompt
    def summary(self) -> str:
        return "Sum up."


notes = Notes("x")
assert_type(notes.add("milk"), int)
assert_type(notes.read(1), str)
assert_type(notes.summary(), str)
notes.add(5)  # wrong: a text
notes.search("x")  # wrong: without ctx
notes.read("1")  # wrong: a number


class Wrong:
    @minimcp.tool(titel="x")  # wrong: no such option
    def add(self) -> int:
        return 1


assert_type(Server.of(notes), Server)
assert_type(Server("x", notes), Server)
minimcp.serve(notes)
