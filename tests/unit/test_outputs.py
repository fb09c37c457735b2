"""What a client checks of results, by the schemas that it listed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from minimcp import CallToolResult, Text, Tool, schema
from minimcp.client.cache import OutputSchemas as OutputChecks

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
def test_our_wrapping_and_that_of_fastmcp_are_taken_off(mark: str) -> None:
    made = checks({**NUMBER, mark: True})
    assert filled(made, structured_content={"result": 3.5}).value == 3.5
    assert filled(checks({**NUMBER, mark: "yes"}), structured_content={"result": 3.5}).value == {
        "result": 3.5
    }


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
        assert filled(made, "od\nd", structured_content={"result": "one"}).value == {
            "result": "one"
        }
    assert [record.getMessage() for record in caplog.records] == [
        f"results of od\\nd are handed over unchecked: {error}"
    ]


def test_a_list_that_comes_while_a_result_is_read_does_not_leave_the_wrapping_on() -> None:
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
