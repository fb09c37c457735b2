"""``minimcp new``: write a folder with a server, its test, the entry for a host and a README."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Sequence

from ..stdio.child import this_python
from . import Parser, UsageError, one_line

# Hosts accept such names of servers and of folders.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,44}")

SERVER = '''\
"""The server {name}."""

from minimcp import Server

server = Server("{name}", version="0.1.0")


@server.tool
def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: The text; words are separated by white space.
    """
    return len(text.split())


if __name__ == "__main__":
    server.run()
'''

TEST = '''\
"""Tests of the server, in this process and without a network.

Run them with: python3 -m pip install pytest, then python3 -m pytest
"""

import minimcp
from server import server


def test_count_words():
    with minimcp.connect(server) as client:
        assert client.call_tool("count_words", {"text": "to be or not"}).value == 4


def test_tools_have_descriptions():
    with minimcp.connect(server) as client:
        assert all(tool.description for tool in client.list_tools())
'''

README = """\
# {name}

A server of the Model Context Protocol.

- `server.py` has the tools. Call one:
  `python3 -m minimcp call server.py count_words text="to be or not"`
- `test_server.py` tests them: `python3 -m pip install pytest`, then `python3 -m pytest`
- `mcp.json` is the entry for a host, with absolute paths. Add it to the file of your host with
  `python3 -m minimcp install server.py --client claude`, or another name after `--client`.
- `python3 -m minimcp check server.py` checks the server against the specification.
- `python3 -m minimcp bundle server.py` packs it into one file for Claude Desktop.
"""


def new_command(arguments: Sequence[str], prog: str) -> int:
    """Write the folder of a new server."""
    parser = Parser(
        prog, "Write a folder with a server, its test, the entry for a host and a README."
    )
    parser.add_argument("name", metavar="NAME", help="the server's name, and the new folder")
    options = parser.parse_args(arguments)
    folder = Path(options.name)
    name = folder.name
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be the name of a server: use 1 to 45 of A-Za-z0-9_-")
    if os.path.lexists(folder):
        raise UsageError(f"{options.name} exists, and this command never overwrites anything")
    python = this_python("run this command with the Python interpreter that a host should start")
    entry = {"command": python, "args": [os.path.abspath(folder / "server.py")]}
    files = {
        "server.py": SERVER.format(name=name),
        "test_server.py": TEST,
        "mcp.json": json.dumps({"mcpServers": {name: entry}}, indent=2) + "\n",
        "README.md": README.format(name=name),
    }
    folder.mkdir()
    for file, text in files.items():
        (folder / file).write_text(text, "utf-8")
    print(one_line(f"{options.name}: {', '.join(files)}"))
    print(
        one_line(
            f"next: cd {options.name}, then python3 -m pip install pytest, then python3 -m pytest"
        )
    )
    return 0
