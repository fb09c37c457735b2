"""What a client checks of results, by the schemas that it listed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from minimcp import CallToolResult, ProtocolViolation, ResourceLink, Text, Tool, schema
from minimcp.client.cache import OutputSchemas as OutputChecks

NUMBER = {"type": "object", "properties": {"result": {"type": "number"}}, "required": ["result"]}


def checks(schema: Any, name: str = "tool") -> OutputChecks:
    made = OutputChecks()
    made.remember([Tool(name, {"type": "object"}, output_schema=schema), Tool("plain", {"type": "object"})])
    return made


def filled(made: OutputChecks, name: str = "tool", **members: Any) -> CallToolResult:
    result = CallToolResult([Text("x")], **members)
    assert made.fill_in(name, result, wraps=False)
    return result


def test_a_wrapping_is_taken_off_where_the_schema_says_that_it_is_one() -> None:
    assert filled(checks(NUMBER), structured_content={"result": 1}).value == {"result": 1}
    for word in ("x-minimcp-wrapped", "x-fastmcp-wrap-result"):
        assert filled(checks({**NUMBER, word: True}), structured_content={"result": 1}).value == 1
        assert filled(checks({**NUMBER, word: "yes"}), structured_content={"result": 1}).value == {"result": 1}


def test_the_value_of_what_is_nothing_but_text_is_that_text() -> None:
    for content, value in (([Text("a"), Text("b")], "a\nb"), ([Text("a"), ResourceLink("a:b", "c")], None), ([], None)):
        result = CallToolResult(content)
        checks(None).fill_in("tool", result, wraps=True)
        assert result.value == value
    assert filled(checks(None), structured_content=None).value is None, "null is a value"


def test_what_breaks_the_schema() -> None:
    made = checks({**NUMBER, "x-minimcp-wrapped": True})
    for structured in ({"result": "one"}, {}, [1], None):
        with pytest.raises(ProtocolViolation, match="breaks its output schema"):
            filled(made, structured_content=structured)
    with pytest.raises(ProtocolViolation, match="no structured content"):
        filled(made)


def test_the_check_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, compiled = checks(NUMBER), []
    compile_check = schema.compile_peer_check

    def count(*arguments: Any, **keywords: Any) -> Any:
        compiled.append(arguments)
        return compile_check(*arguments, **keywords)

    monkeypatch.setattr(schema, "compile_peer_check", count)
    for _ in range(3):
        filled(made, structured_content={"result": 1})
    assert len(compiled) == 1


@pytest.mark.parametrize("error", [ImportError("no jsonschema"), ValueError("no schema")])
def test_what_cannot_be_checked_is_handed_over_with_one_warning(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any, **keywords: Any) -> Any:
        raise error

    monkeypatch.setattr(schema, "compile_peer_check", fail)
    caplog.set_level(logging.WARNING, "minimcp")
    made = checks(NUMBER, "od\nd")
    for _ in range(2):
        assert filled(made, "od\nd", structured_content={"result": "one"}).value == {"result": "one"}
    assert [record.getMessage() for record in caplog.records] == [
        f"results of od\\nd are handed over unchecked: {error}"
    ]


def test_when_only_a_list_can_tell_whether_a_value_is_wrapped() -> None:
    def asks(made: OutputChecks, structured: Any) -> bool:
        return not made.fill_in("tool", CallToolResult([], structured_content=structured), wraps=True)

    unknown = OutputChecks()
    assert asks(unknown, {"result": 1}) and asks(unknown, {"result": 1})
    for other in ({}, {"result": 1, "more": 2}, {"other": 1}, [1], None, "result"):
        assert not asks(unknown, other)
    filled(unknown, structured_content={"result": 1})
    assert not asks(unknown, {"result": 1})
    assert not asks(checks(NUMBER), {"result": 1}) and not asks(checks(None), {"result": 1})


@pytest.mark.parametrize("schema", [
    {"$ref": "http://127.0.0.1:1/schema.json"}, {"properties": {"a": {"pattern": "(a+)+$"}}},
    {"properties": {"a": {"pattern": "^(a|a?)+$"}}}, {"patternProperties": {"^(a+)+$": {}}},
])
def test_k25_a_hostile_schema_keeps_nobody(schema: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="minimcp.schema")
    structured = {"a": "a" * 100 + "!", "a" * 100 + "!": 1}
    made = checks({"type": "object", **schema})
    assert filled(made, structured_content=structured).value == structured
    assert ("are handed over unchecked" if "$ref" in schema else "is not run on a text of 101") in caplog.text
