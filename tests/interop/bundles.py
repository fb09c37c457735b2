"""``python -m tests.interop.bundles``: a bundle, judged by the official packer.

The npm package ``@anthropic-ai/mcpb`` validates the manifest that ``minimcp bundle`` writes,
unpacks the file, and packs the folder again. The server in the unpacked folder is started as the
manifest says. The exit code is 1 if a step fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from struct import pack

import minimcp
from minimcp.stdio.child import StdioServer

from ..support import ROOT
from .environments import InstallFailed, NodeEnvironment

ENVIRONMENT = NodeEnvironment("mcpb", ["@anthropic-ai/mcpb@2.1.2"])
SECONDS = 120


def _mcpb(*arguments: str, folder: Path) -> str:
    """Run the official program, and return what it prints."""
    command = [*ENVIRONMENT.command("@anthropic-ai/mcpb/dist/cli/cli.js"), *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
        text=True,
    )
    if done.returncode:
        raise AssertionError(f"mcpb {' '.join(arguments)} failed:\n{done.stdout}")
    return done.stdout


def _png(size: int) -> bytes:
    """Return a plain PNG image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x10\x80\xf0" * size) * size
    header = chunk(b"IHDR", pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _cli(*arguments: str, folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "minimcp", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=SECONDS,
        check=True,
    )


def main() -> int:
    """Write a new server, pack it, and have the official program judge it."""
    try:
        ENVIRONMENT.ready()
    except InstallFailed as error:
        print(error)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _cli("new", "words", folder=folder)
        (folder / "icon.png").write_bytes(_png(512))
        words = ["bundle", "words/server.py", "--icon", "icon.png", "--author", "Ada"]
        _cli(*words, folder=folder)
        _mcpb("unpack", "words.mcpb", "installed", folder=folder)
        said = _mcpb("validate", "installed", folder=folder)
        assert "Manifest schema validation passes!" in said, said
        said = _mcpb("pack", "installed", "again.mcpb", folder=folder)
        assert (folder / "again.mcpb").stat().st_size > 100_000, said
        installed = folder / "installed"
        manifest = json.loads((installed / "manifest.json").read_text("utf-8"))
        started = manifest["server"]["mcp_config"]
        arguments = [word.replace("${__dirname}", str(installed)) for word in started["args"]]
        # A host starts the system's Python, which has no packages.
        command = [sys.executable, "-E", "-s", "-S", *arguments]
        with minimcp.connect(StdioServer(command, cwd=os.sep)) as client:
            names = [
                {"name": each.name, "description": each.description} for each in client.list_tools()
            ]
            assert manifest["tools"] == names
            assert client.call_tool("count_words", {"text": "to be or not"}).value == 4
    print("mcpb unpack, validate and pack accept the bundle, and its server answers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
