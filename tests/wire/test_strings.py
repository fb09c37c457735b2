"""C22 of the fault catalogue: hostile text in every string field comes back as it went, and moves nothing."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .messages import METHOD, MODERN, PARAMS

STRINGS = [
    "", " ", "  leading and trailing  ", "\t", "\n", "\r\n", "\r", "\x00", "a\x00b",
    "\x01\x02\x1b[31mred\x1b[0m", "\x7f", "\x80\x85\x9f", "\u00a0\u2000\u3000", "\u200b\u200c\u200d\ufeff",
    "\u2028\u2029", "\u202etxt.exe", "\ufffd\ufffe\uffff", "\U0010ffff",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467", "e\u0301 \u00e9", "Z\u0351\u036b",
    "\u0130stanbul \u0131", "\u00df\u1e9e SS", "\ufb01", "\u212a\u017f", "\u4e16\u754c",
    "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "\U0001d573\U0001d58a", "null", "None", "nil", "undefined", "true", "false", "NaN", "Infinity", "-0",
    "0", "1", "1.0", "1e999", "0x10", "007", "9" * 400, "2.0", "jsonrpc", "__proto__", "constructor",
    "__class__", "self", "ctx", "{}", "[]", "{{7*7}}", "${7*7}", "%s%s%s%n", "{0}{1!r}", "%d", "%", "\\",
    "\\\\", "\\u0000", "\\n", '"', "'", "`", '"},"id":9,{"', "</script>", "<!--", "]]>",
    "<script>alert(1)</script>", "&lt;&#0;", "'; DROP TABLE tools; --", "1 OR 1=1", "$(id)", "`id`",
    "; id", "| id", "&& id", "../../etc/passwd", "/dev/null", "C:\\con\\con", "file:///etc/passwd",
    "~root", "-rf", "--help", "http://[::1]:80/", "javascript:alert(1)", "data: x\n\nevent: y",
    "a: b\r\nSet-Cookie: c", "Content-Length: 0\r\n\r\n", "tools/call", "notifications/cancelled",
    "io.modelcontextprotocol/protocolVersion", "progressToken", "x" * 70_000, "\u00e9" * 40_000,
    "\U0001f600" * 20_000, "a" * 200 + "\n" + "b" * 200,
]  # fmt: skip


def brief(text: str) -> str:
    return ascii(text)[:24]


@pytest.mark.requirement("BASE-13", "STDIO-03", "M:BASE-1", "M:STD-1")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_c22_as_an_argument(shared: Serve, revision: str) -> None:
    server = shared(revision)
    wrong = [brief(text) for text in STRINGS if server.text("echo", {"text": text}) != text]
    assert wrong == []


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c22_as_a_member_and_deep_inside(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for text in STRINGS:
        value: Any = {text: [text, {text: text}]}
        assert server.call("take", {"value": value})["structuredContent"]["value"] == value, brief(text)


@pytest.mark.requirement("BASE-05", "M:BASE-5")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c22_as_an_id(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for text in STRINGS:
        assert server.call("echo", {"text": "x"}, id=text)["content"][0]["text"] == "x", brief(text)


@pytest.mark.requirement("BASE-17", "TOOL-18", "M:ERR-8", "M:TOOL-10")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c22_as_a_name_of_a_tool_or_method(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for text in STRINGS:
        reply = server.ask("tools/call", {"name": text, "arguments": {}})
        assert (reply["error"]["code"], len(reply["error"]["message"]) < 1000) == (PARAMS, True), brief(text)
        if text not in ("tools/call", "", "notifications/cancelled"):
            reply = server.ask(text)
            assert (reply["error"]["code"], len(reply["error"]["message"]) < 1000) == (METHOD, True), brief(text)
    server.lives()


@pytest.mark.requirement("BASE-13")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c22_as_a_progress_token(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for text in STRINGS:
        server.call("report", {"values": [1]}, token=text)
        assert [message["params"]["progressToken"] for message in server.fence()] == [text], brief(text)


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c22_as_the_text_of_an_error(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for text in STRINGS:
        found = server.call("fail", {"message": text})
        assert (found["isError"], found["content"][0]["text"]) == (True, text), brief(text)


@pytest.mark.requirement("BASE-16", "M:BASE-19")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c22_as_an_unknown_member(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for text in STRINGS:
        if text != "jsonrpc":
            server.result("tools/list", {"x-" + text: text})
    server.lives()


@pytest.mark.requirement("BASE-13")
def test_c22_under_another_locale(serve: Serve) -> None:
    server = serve("2025-06-18", env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"})
    for text in STRINGS[:60]:
        assert server.text("echo", {"text": text}) == text
