"""Text goes out as UTF-8: what a model reads is not escaped, and nothing is blown up on the wire."""

from __future__ import annotations

import json

import pytest

import minimcp
from minimcp import Server

CITY = "\u5317\u4eac"
SEPARATORS = "a\u0085b\u2028c\u2029d\r\ne"


def make() -> Server:
    server = Server("text")

    @server.tool
    def weather(city: str) -> dict[str, str]:
        """Say what the weather is."""
        return {"city": city}

    @server.resource("travel://cities", mime_type="application/json")
    def cities() -> dict[str, str]:
        """List cities."""
        return {"beijing": CITY}

    return server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_json_for_a_model_shows_its_text(revision: str) -> None:
    lines: list[str] = []
    with minimcp.connect(make(), revision=revision, trace=lambda *told: lines.append(told[-1])) as client:
        assert client.call_tool("weather", {"city": CITY}).text == f'{{"city":"{CITY}"}}'
        assert client.read_resource("travel://cities").text == f'{{"beijing":"{CITY}"}}'
        text = client.call_tool("weather", {"city": SEPARATORS}).text
        assert json.loads(text) == {"city": SEPARATORS}
        half = client.call_tool("weather", {"city": "\ud800 half"})
        assert half.structured_content == json.loads(half.text) == {"city": "\ufffd half"}
    assert any(CITY in line for line in lines)
    assert all(len(line.splitlines()) == 1 for line in lines), "some clients take U+2028 for a line end"


def test_a_megabyte_of_chinese_is_a_megabyte_on_the_wire() -> None:
    text = "\u6f22" * (1 << 20)
    sizes: list[int] = []
    with minimcp.connect(make(), trace=lambda *told: sizes.append(len(told[-1].encode()))) as client:
        assert client.call_tool("weather", {"city": text}).value == {"city": text}
    bytes_of_text = len(text.encode())
    assert bytes_of_text < max(sizes) < 2 * bytes_of_text + 1000, "once as text, once as structured content"
