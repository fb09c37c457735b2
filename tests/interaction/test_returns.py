"""Results as the type that a program asks for: ``call_tool(..., returns=...)``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from datetime import date
from typing import Annotated, Any, Dict, List, Optional, TypedDict, Union

import pytest

from minimcp import (
    CallToolResult,
    Image,
    ProtocolViolation,
    Server,
    Text,
    ToolError,
    connect,
    connect_all,
)
from minimcp.schema import Bounds

from ..answering import REVISIONS
from ..support import ROOT


@dataclass
class Day:
    day: date
    high: float
    rain: Optional[int] = None


class Place(TypedDict):
    city: str


DAYS = [Day(date(2026, 1, 2), 3.5), Day(date(2026, 1, 3), -1.0, 4)]


def weather() -> Server:
    server = Server("weather")

    @server.tool
    def forecast(city: str) -> List[Day]:
        if city == "Atlantis":
            raise ToolError("no such city")
        return DAYS

    @server.tool
    def best() -> Day:
        return DAYS[0]

    @server.tool
    def loose() -> Any:
        return {"city": "Oslo"}

    @server.tool
    def number() -> int:
        return 7

    @server.tool
    def text() -> str:
        return "7"

    @server.tool
    def words() -> str:
        return "seven"

    @server.tool
    def picture() -> Image:
        return Image(b"", "image/png")

    return server


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "name, returns, value",
    [
        ("forecast", List[Day], DAYS),
        ("forecast", "List[Any]", None),
        ("forecast", List[Dict[str, Any]], None),
        ("best", Day, DAYS[0]),
        ("loose", Place, {"city": "Oslo"}),
        ("number", int, 7),
        ("number", float, 7.0),
        ("number", Annotated[int, Bounds(ge=7)], 7),
        ("number", Union[str, int], 7),
        ("text", str, "7"),
        ("text", int, 7),  # as older servers send a number
    ],
)
def test_the_value_has_the_type(revision: str, name: str, returns: Any, value: Any) -> None:
    if revision < "2025-06-18" and returns == Union[str, int]:
        value = "7"  # only the text is sent
    if revision in REVISIONS[2:4] and name == "loose":
        returns, value = Dict[str, Any], {"city": "Oslo"}  # an object is not wrapped
    with connect(weather(), revision=revision) as client:
        result = client.call_tool(
            name, {"city": "Oslo"} if name == "forecast" else {}, returns=returns
        )
    assert type(result) is CallToolResult
    if value is None:
        assert [each["high"] for each in result.value] == [3.5, -1.0]
    else:
        assert result.value == value and type(result.value) is type(value)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "name, returns, text",
    [
        ("best", List[Day], "the result of best is not a list: expected a list, got "),
        ("best", Place, "unknown field 'day'"),
        ("number", Annotated[int, Bounds(ge=8)], "of at least 8"),
        ("words", int, "expected an integer, got the string 'seven'"),
        ("picture", str, "the result of picture is not a string: expected a string, got null"),
    ],
)
def test_a_value_that_does_not_fit_is_a_violation_with_the_result(
    revision: str, name: str, returns: Any, text: str
) -> None:
    with connect(weather(), revision=revision) as client:
        with pytest.raises(ProtocolViolation) as caught:
            client.call_tool(name, returns=returns)
    assert text in str(caught.value)
    result = caught.value.result
    assert result is not None and len(result.content) == 1


def test_a_failed_tool_has_no_value_to_convert() -> None:
    with connect(weather()) as client:
        call = ("forecast", {"city": "Atlantis"})
        with pytest.raises(ToolError, match="no such city"):
            client.call_tool(*call, returns=List[Day])
        result = client.call_tool(*call, returns=List[Day], raise_on_error=False)
    assert result.is_error and result.text == "no such city"


def test_a_type_without_json_form_is_refused_before_anything_is_sent() -> None:
    sent: List[Any] = []
    with connect(weather(), trace=lambda *message: sent.append(message)) as client:
        before = len(sent)
        with pytest.raises(TypeError, match="returns: .*bytes have no JSON form"):
            client.call_tool("number", returns=bytes)
        with pytest.raises(TypeError, match="returns: "):
            client.call_tool("number", returns=3)
        assert len(sent) == before


def test_equal_unions_of_another_order_and_types_without_a_hash() -> None:
    server = Server("dates")
    server.add_tool(lambda: {"day": "2026-01-02"}, name="day")
    with connect(server) as client:
        for returns, day in (
            (Union[date, str], date(2026, 1, 2)),
            (Union[str, date], "2026-01-02"),
            (Annotated[Union[date, str], []], date(2026, 1, 2)),
        ):
            result = client.call_tool("day", returns=dict[str, returns])  # type: ignore[valid-type]
            assert result.value == {"day": day}


def test_a_value_is_converted_without_a_check_and_on_another_thread() -> None:
    server = Server("wrong")
    server.add_tool(
        lambda: CallToolResult([Text("")], structured_content={"day": "2026-01-02", "high": 1}),
        name="best",
        output_schema={"type": "object", "properties": {"high": {"type": "string"}}},
    )
    with connect(server) as client:
        client.list_tools()
        with pytest.raises(ProtocolViolation, match="does not match its output schema"):
            client.call_tool("best", returns=Day)
        future = client.submit(client.call_tool, "best", returns=Day, validate=False)
        assert future.result().value == Day(date(2026, 1, 2), 1.0)


def test_a_group_converts_too(tmp_path: Any) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        "from minimcp import Server\n"
        "server = Server('s')\n"
        "@server.tool\n"
        "def best() -> dict[str, object]:\n"
        f"    return {asdict(DAYS[0]) | {'day': '2026-01-02'}!r}\n"
        "server.run()\n"
    )
    config = tmp_path / "mcp.json"
    entry = {"command": sys.executable, "args": [str(server)], "env": {"PYTHONPATH": str(ROOT)}}
    config.write_text(json.dumps({"mcpServers": {"w": entry}}))
    with connect_all(str(config)) as group:
        assert group.call_tool("w__best", returns=Day).value == DAYS[0]
