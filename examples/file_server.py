"""A server for the files of one directory.

$ python3 -m minimcp call "python3 file_server.py pantry" find name=*.txt
[resource_link, files:///recipes/bread.txt]
[resource_link, files:///shopping.txt]
$ python3 -m minimcp read "python3 file_server.py pantry" files:///recipes/bread.txt
Flour, water, salt, time.
"""

from __future__ import annotations

import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Union
from urllib.parse import quote

from minimcp import (
    Context,
    ResourceAccessDenied,
    ResourceLink,
    ResourceNotFound,
    Server,
    ToolError,
    resolve_inside,
)

MAX_BYTES = 1_000_000

server = Server(
    "files", version="1.0", instructions="Find files with the tools, then read them as resources."
)
root = Path(sys.argv[1] if __name__ == "__main__" else ".")


@server.resource("files:///{+path}")
def read(path: str) -> Union[str, bytes]:
    """Read a file: text, or bytes if it is not text."""
    file = resolve_inside(root, path)  # raises ResourceAccessDenied for paths that lead outside
    if not file.is_file():
        raise ResourceNotFound("there is no such file")
    with file.open("rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ResourceAccessDenied(f"the file has more than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


@server.tool
def find(ctx: Context, name: str = "*") -> list[ResourceLink]:
    """Find files.

    Args:
        name: Name of the file, with * for any characters.
    """
    found = []
    for number, path in enumerate(sorted(root.rglob("*")), 1):
        ctx.progress(number)
        if fnmatch(path.name, name) and path.is_file():
            place = path.relative_to(root).as_posix()
            found.append(ResourceLink(f"files:///{quote(place)}", place))
    return found


@server.tool
def show(path: str) -> str:
    """Show a text file to the model."""
    text = read(path)  # the model reads why a path is refused
    if isinstance(text, bytes):
        raise ToolError("this file is not text")
    return text


if __name__ == "__main__":
    server.run()
