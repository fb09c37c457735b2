"""The output schemas of the tools that a server has listed, and the check of results by them.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Callable, Iterable, Mapping, Optional, Union

from .. import schema
from ..errors import ProtocolViolation
from ..log import logger
from ..text import one_line
from ..types import ABSENT, CallToolResult, Text, Tool
from ..types.tool import FASTMCP_WRAPPED, WRAPPED

log = logger("minimcp.client")


class OutputCheck:
    """The output schema of one tool, and the check of results by it, made on first use."""

    def __init__(self, name: str, shape: dict[str, Any]) -> None:
        self._name = name
        self._shape = shape
        self.wraps = shape.get(WRAPPED) is True or shape.get(FASTMCP_WRAPPED) is True

    @cached_property
    def problem(self) -> Callable[[Any], Union[schema.Mismatch, str, None]]:
        """Return what is wrong with a value, or why its schema cannot be checked; None if it
        fits."""
        try:
            return schema.compile_peer_check(self._shape, where=f"{self._name} output")
        except ImportError as error:  # the schema may be fine: a package is missing here
            log.warning("results of %s are handed over unchecked: %s", self._name, error)
            return lambda value: None
        except ValueError as error:
            why = f"it cannot be checked: {error}"
            return lambda value: why


class OutputSchemas:
    """The output schemas of one server's tools, as they were last listed, and the checks of results
    by them.

    Thread-safe: replaced as a whole.
    https://modelcontextprotocol.io/specification/2026-07-28/server/tools
    """

    def __init__(self) -> None:
        self._checks: dict[str, Optional[OutputCheck]] = {}
        # Whether each listed tool runs as a task, as in `Tool.task`.
        self.task_support: Mapping[str, Optional[str]] = {}

    def remember(self, tools: Iterable[Tool]) -> None:
        """Take in a fresh list of tools."""
        tools = list(tools)
        self.task_support = {tool.name: tool.task for tool in tools}
        self._checks = {
            tool.name: None
            if tool.output_schema is None
            else OutputCheck(tool.name, tool.output_schema)
            for tool in tools
        }

    def fill_in(
        self, name: str, result: CallToolResult, *, wraps: bool, validate: bool = True
    ) -> bool:
        """Check a result against the tool's output schema and set its ``value``.

        Args:
            name: Of the tool.
            result: That is no error.
            wraps: Whether it may hold a wrapped value of a tool that no list has named: only its
                schema would tell.
            validate: Whether it is checked.

        Returns:
            False where it may, so that the tools have to be listed first.

        Raises:
            ProtocolViolation: The structured content does not fit, its schema cannot be checked, or
                it is missing though a schema was declared. ``result`` is the result.
        """
        checks, structured = (
            self._checks,
            vars(result)["structured_content"],
        )  # ABSENT where there is none
        check = checks.get(name)
        violation = None
        if check is not None:
            if validate:
                violation = _violation(name, check, structured)
            wrapped = check.wraps and isinstance(structured, dict) and "result" in structured
            if wrapped:
                structured = structured["result"]
        elif (
            wraps
            and name not in checks
            and isinstance(structured, dict)
            and structured.keys() == {"result"}
        ):
            return False
        elif not wraps:
            checks.setdefault(name, None)  # what a list does not tell is not asked for again
        if structured is not ABSENT:
            result.value = structured
        elif result.content and all(isinstance(block, Text) for block in result.content):
            result.value = result.text
        if violation is not None:
            violation.result = result
            raise violation
        return True


def _violation(name: str, check: OutputCheck, structured: Any) -> Optional[ProtocolViolation]:
    """Return what is wrong with the structured content of a result; None if it fits."""
    if structured is ABSENT:
        return ProtocolViolation(
            f"{name} declares an output schema, and its result has no structured content"
        )
    problem = check.problem(structured)
    if problem is None:
        return None
    if isinstance(problem, str):
        way = "call_tool(..., validate=False) returns the result without a check"
        text = f"the output schema of {one_line(name)}: {problem}. {way}"
        return ProtocolViolation(text, structured)
    return ProtocolViolation(
        f"the result of {name} breaks its output schema: {problem}", structured
    )
