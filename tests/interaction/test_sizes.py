"""Sizes: results that a tool limits, and tools that fill the context of a model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Optional

import pytest

from minimcp import CallToolResult, Context, Image, Server, Text, ToolError, connect

from ..answering import REVISIONS
from ..support import ROOT, WAIT

MOST = 40


def server_of(make: Any, **options: Any) -> Server:
    server = Server("sizes")
    server.add_tool(make, name="give", **{"max_result": MOST, **options})
    return server


def plain(size: int) -> str:
    return "x" * size


def paged(size: int, offset: int = 0, limit: int = 50) -> str:
    return "x" * size


def answer_of(make: Any, size: int, revision: Optional[str] = None, **options: Any) -> Any:
    with connect(server_of(make, **options), revision=revision or "auto") as client:
        return client.call_tool("give", {"size": size}, raise_on_error=False)


@pytest.mark.parametrize("revision", REVISIONS)
def test_text_is_truncated_and_a_sentence_says_how_to_get_the_rest(revision: str) -> None:
    for size in (0, 1, MOST - 1, MOST):
        result = answer_of(plain, size, revision)
        assert [block.text for block in result.content] == ["x" * size]
    result = answer_of(plain, MOST + 1500, revision)
    assert not result.is_error
    assert [block.text for block in result.content] == [
        "x" * MOST,
        "[1,500 more characters are not shown: to see them, call give with arguments that select "
        "less.]",
    ]
    result = answer_of(paged, MOST + 1, revision)
    assert result.content[1].text == (
        "[1 more characters are not shown: to see them, call give again with 'offset' or 'limit'.]"
    )


def test_all_text_blocks_count_together_and_no_other_blocks() -> None:
    picture = Image(b"x" * 1000, "image/png")

    def blocks(size: int) -> Any:
        return [Text("a" * size), picture, "b" * size, Text("c" * size)]

    assert len(answer_of(blocks, 10).content) == 4
    first, image, second, rest = answer_of(blocks, 30).content
    assert (first.text, image, second.text) == ("a" * 30, picture, "b" * 10)
    assert rest.text.startswith("[50 more characters are not shown")


def rows(size: int) -> Dict[str, str]:
    return {"rows": "x" * size}


def loose(size: int) -> Any:
    return {"rows": "x" * size}


def as_is(size: int) -> CallToolResult:
    return CallToolResult([Text("short")], structured_content={"rows": "x" * size})


@pytest.mark.parametrize("revision", REVISIONS[2:])
@pytest.mark.parametrize("make", [rows, loose, as_is])
def test_a_structured_result_that_is_too_large_is_an_error(make: Any, revision: str) -> None:
    fits = MOST - len('{"rows":""}')
    assert answer_of(make, fits, revision).structured_content == {"rows": "x" * fits}
    result = answer_of(make, fits + 5000, revision)
    assert result.is_error and not result.has_structured_content
    assert result.text == (
        f"the result has {MOST + 5000:,} characters of JSON, more than {MOST}: call give with "
        "arguments that select less"
    )


def test_errors_are_truncated_too_and_questions_are_not_touched() -> None:
    def fail(size: int) -> str:
        raise ToolError("x" * size)

    result = answer_of(fail, 100)
    assert result.is_error and result.content[0].text == "x" * MOST

    def ask(size: int, ctx: Context) -> str:
        return "yes" if ctx.confirm("x" * 100) else "no"

    for revision in ("2025-11-25", "2026-07-28"):
        with connect(server_of(ask), revision=revision, elicit=lambda _: {}) as client:
            assert client.call_tool("give", {"size": 1}).text == "yes"


@pytest.mark.parametrize("value, kind", [(0, ValueError), (-1, ValueError), ("9", TypeError)])
def test_wrong_limits_are_refused(value: Any, kind: Any) -> None:
    with pytest.raises(kind, match="tool 'give': max_result"):
        server_of(plain, max_result=value)
    assert len(answer_of(plain, 10_000, max_result=None).text) == 10_000


# ------------------------------------------------------------ list --size and check --budget

BIG = '''
from minimcp import Server

server = Server("big")

@server.tool
def small(a: int) -> int:
    """Small."""
    return a

@server.tool
def large(a: int) -> int:
    """{words}"""
    return a

server.run()
'''


def minimcp(*arguments: str) -> str:
    command = [sys.executable, "-m", "minimcp", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture
def big(tmp_path: Path) -> str:
    path = tmp_path / "big.py"
    path.write_text(BIG.format(words="Many words. " * 100), encoding="utf-8")
    return str(path)


def test_the_sizes_of_tools_are_listed(big: str) -> None:
    with connect(big) as client:
        tools = {tool.name: tool.to_wire() for tool in client.list_tools()}
    sizes = {
        name: len(json.dumps(tool, separators=(",", ":"), ensure_ascii=False))
        for name, tool in tools.items()
    }
    found = json.loads(minimcp("list", big, "--size", "--output", "json"))
    assert [each["name"] for each in found["tools"]] == ["large", "small"]
    for each in found["tools"]:
        assert each["bytes"] == sizes[each["name"]]
        assert each["tokens"] == -(-sizes[each["name"]] // 4)
    total = found["total"]
    assert total["bytes"] == sum(sizes.values())
    lines = minimcp("list", big, "--size").splitlines()
    assert lines[1].split() == ["bytes", "tokens", "(estimate)", "tool"]
    assert lines[2].split()[2] == "large" and lines[3].split()[2] == "small"
    assert lines[4].split()[0] == f"{total['bytes']:,}" and lines[4].endswith("total of 2 tools")


@pytest.mark.parametrize("budget, outcome", [("100", "warn"), ("10000", "pass")])
def test_check_warns_above_a_budget(big: str, budget: str, outcome: str) -> None:
    options = ["--only", "size", "--budget", budget, "--revision", "2025-11-25"]
    (verdict,) = json.loads(minimcp("check", big, "--output", "json", *options))
    assert (verdict["row"], verdict["outcome"]) == ("size", outcome)
    assert ("the largest is 'large'" in verdict["evidence"]) is (outcome == "warn")
    assert "tokens" in verdict["evidence"]
