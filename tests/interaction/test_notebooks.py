"""Results and exceptions as IPython asks for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import minimcp
from minimcp import (
    Audio,
    CallToolResult,
    EmbeddedResource,
    Image,
    McpError,
    ResourceLink,
    Server,
    Text,
    connect,
)
from minimcp.types import BlobResourceContents, PromptMessage

PNG = "cG5n"
PACKAGE = os.path.dirname(minimcp.__file__)


@pytest.mark.parametrize(
    "shown, mime_type, data",
    [
        (Image(b"png", "image/png"), "image/png", PNG),
        (Image(b"png", "image/jpeg"), "image/jpeg", PNG),
        # An SVG can have scripts, which do not run in img.
        (
            Image(b"png", "image/svg+xml"),
            "text/html",
            f'<img src="data:image/svg+xml;base64,{PNG}">',
        ),
        (
            Image(b"png", 'image/x"><script>'),
            "text/html",
            f'<img src="data:image/x&quot;&gt;&lt;script&gt;;base64,{PNG}">',
        ),
        (
            Audio(b"png", "audio/wav"),
            "text/html",
            f'<audio controls src="data:audio/wav;base64,{PNG}"></audio>',
        ),
        (
            EmbeddedResource(BlobResourceContents("a://b", b"png", mime_type="image/png")),
            "text/html",
            f'<img src="data:image/png;base64,{PNG}">',
        ),
        (PromptMessage("user", "<b>"), "text/html", "<pre>&lt;b&gt;</pre>"),
        (
            CallToolResult(
                [Text("a\n<script>"), Image(b"png", "image/png"), ResourceLink("u:1", "l")]
            ),
            "text/html",
            f'<pre>a\n&lt;script&gt;</pre>\n<img src="data:image/png;base64,{PNG}">\n'
            "<pre>l: u:1</pre>",
        ),
    ],
)
def test_content_is_drawn(shown: Any, mime_type: str, data: str) -> None:
    assert ask(shown, "repr_mimebundle", include=None, exclude=None) == {
        "text/plain": repr(shown),
        mime_type: data,
    }


def ask(thing: Any, name: str, **given: Any) -> Any:
    """Call a method as IPython does, whose names have an underscore at each end."""
    return getattr(thing, f"_{name}_")(**given)


def rejected(call: Any) -> McpError:
    try:
        call()
    except McpError as error:
        return error
    raise AssertionError("it was not rejected")


def test_the_traceback_of_a_rejected_call_has_only_frames_of_the_program(tmp_path: Path) -> None:
    server = Server("x")
    server.add_tool(lambda: None, name="add")

    def cell() -> None:
        with connect(server) as client:
            client.call_tool("ad")

    for call, kind, last in (
        (cell, "InvalidParams", "did you mean add? (-32602)"),
        (lambda: connect(str(tmp_path / "none.py")), "ConnectionFailed", ""),
    ):
        error = rejected(call)
        lines = ask(error, "render_traceback")
        files = [line for line in lines if line.startswith("  File ")]
        assert lines[0] == "Traceback (most recent call last):"
        assert files and all(__file__ in line for line in files), lines
        assert f"{kind}: " in "\n".join(lines) and lines[-1].endswith(last)
        assert PACKAGE not in "".join(files)


def test_causes_are_shown_and_an_exception_of_the_library_alone_keeps_a_frame() -> None:
    def fail() -> None:
        try:
            int("x")
        except ValueError as error:
            raise minimcp.ToolError("a bad number") from error

    text = "\n".join(ask(rejected(fail), "render_traceback"))
    assert "ValueError: invalid literal" in text and "direct cause" in text
    assert text.endswith("ToolError: a bad number")
    assert ask(minimcp.ToolError("never raised"), "render_traceback") == [
        "minimcp.errors.ToolError: never raised"
    ]
