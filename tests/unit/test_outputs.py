"""The checks of a client on results, by the schemas that it has listed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from minimcp import CallToolResult, ProtocolViolation, Text, Tool, schema
from minimcp.client.outputs import OutputSchemas as OutputChecks

NUMBER = {"type": "object", "properties": {"result": {"type": "number"}}, "required": ["result"]}


def checks(schema: Any, name: str = "tool") -> OutputChecks:
    made = OutputChecks()
    made.remember(
        [Tool(name, {"type": "object"}, output_schema=schema), Tool("plain", {"type": "object"})]
    )
    return made


def filled(made: OutputChecks, name: str = "tool", **members: Any) -> CallToolResult:
    result = CallToolResult([Text("x")], **members)
    assert made.fill_in(name, result, wraps=False)
    return result


@pytest.mark.parametrize("more", [{}, {"isError": True}])
def test_without_structured_content_and_with_more_than_text_there_is_no_value(more: Any) -> None:
    image = {"type": "image", "data": "AAEC", "mimeType": "image/png"}
    result = CallToolResult.from_wire({"content": [{"type": "text", "text": "x"}, image], **more})
    assert result.value is None
    assert OutputChecks().fill_in("tool", result, wraps=True)
    assert result.value is None


@pytest.mark.parametrize("mark", ["x-minimcp-wrapped", "x-fastmcp-wrap-result"])
def test_our_wrapping_and_that_of_fastmcp_are_removed(mark: str) -> None:
    made = checks({**NUMBER, mark: True})
    assert filled(made, structured_content={"result": 3.5}).value == 3.5
    assert filled(checks({**NUMBER, mark: "yes"}), structured_content={"result": 3.5}).value == {
        "result": 3.5
    }


@pytest.mark.parametrize("error", [ImportError("no jsonschema")])
def test_without_a_checker_a_result_is_handed_over_with_one_warning(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: Any, **keywords: Any) -> Any:
        raise error

    monkeypatch.setattr(schema, "compile_peer_check", fail)
    caplog.set_level(logging.WARNING, "minimcp")
    made = checks(NUMBER, "od\nd")
    for _ in range(2):
        assert filled(made, "od\nd", structured_content={"result": "one"}).value == {
            "result": "one"
        }
    assert [record.getMessage() for record in caplog.records] == [
        f"results of od | d are not checked: {error}"
    ]


@pytest.mark.requirement("M:SCH-2", "M:SCH-6")
@pytest.mark.parametrize("shape", [
    {"$schema": "http://json-schema.org/draft-03/schema#"},
    {"$schema": "https://example.com/own"},
    {"$schema": 5},
    {"$ref": "https://example.com/schema.json"},
    {"$ref": "#/$defs/missing"},
    {"properties": {"result": {"$ref": "other.json#/x"}}},
    {"type": "nonsense"},
])  # fmt: skip
@pytest.mark.parametrize("wrapping", [{}, {"x-minimcp-wrapped": True}])
def test_a_schema_that_cannot_be_checked_is_a_violation_that_has_the_result(
    shape: Any, wrapping: Any
) -> None:
    made = checks({**shape, **wrapping})
    for _ in range(2):
        result = CallToolResult([], structured_content={"result": 3.5})
        with pytest.raises(
            ProtocolViolation, match="cannot be checked: .* validate=False"
        ) as caught:
            made.fill_in("tool", result, wraps=True)
        assert caught.value.result is result
        assert result.value == (3.5 if wrapping else {"result": 3.5})
        assert made.fill_in("tool", result, wraps=True, validate=False)


def test_a_result_that_does_not_match_is_kept() -> None:
    made = checks(NUMBER)
    for structured in ({"result": "one"}, {}, 5):
        result = CallToolResult([], structured_content=structured)
        with pytest.raises(ProtocolViolation, match="does not match its output schema") as caught:
            made.fill_in("tool", result, wraps=True)
        assert caught.value.result is result and result.value == structured
        unchecked = CallToolResult([], structured_content=structured)
        assert made.fill_in("tool", unchecked, wraps=True, validate=False)
        assert unchecked.value == structured
    missing = CallToolResult([])
    with pytest.raises(ProtocolViolation, match="no structured content") as caught:
        made.fill_in("tool", missing, wraps=True)
    assert caught.value.result is missing
    assert made.fill_in("tool", missing, wraps=True, validate=False)


def test_a_list_that_arrives_while_a_result_is_read_does_not_keep_the_wrapping() -> None:
    made = OutputChecks()

    class Meanwhile(dict):  # type: ignore[type-arg]
        """Another thread has listed the tools as soon as this one was looked at."""

        def get(self, name: str) -> None:  # type: ignore[override]
            made.remember(
                [
                    Tool(
                        name,
                        {"type": "object"},
                        output_schema={**NUMBER, "x-minimcp-wrapped": True},
                    )
                ]
            )

    made._checks = Meanwhile()
    result = CallToolResult([], structured_content={"result": 3.5})
    if not made.fill_in(
        "tool", result, wraps=True
    ):  # the tools have to be listed, which that thread has done
        made.fill_in("tool", result, wraps=False)
    assert result.value == 3.5
