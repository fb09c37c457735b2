"""The output schemas of the tools that a server listed, and the check of results against them.

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
    """The output schema of one tool, and a check that is compiled on first use."""

    def __init__(self, name: str, shape: dict[str, Any]) -> None:
        self._name = name
        self._shape = shape
        self.wraps = shape.get(WRAPPED) is True or shape.get(FASTMCP_WRAPPED) is True

    @cached_property
    def problem(self) -> Callable[[Any], Union[schema.Mismatch, str, None]]:
        """A function that returns what is wrong with a value, why the schema cannot be checked, or
        None."""
        try:
            return schema.compile_peer_check(self._shape, where=f"{self._name} output")
        except ImportError as error:  # a package is missing; the schema may be valid
            log.warning("results of %s are not checked: %s", self._name, error)
            return lambda value: None
        except ValueError as error:
            reason = f"it cannot be checked: {error}"
            return lambda value: reason


class OutputSchemas:
    """The output schemas of one server's tools, as last listed, and the checks of results.

    Thread-safe, because each list replaces the schemas as a whole.
    https://modelcontextprotocol.io/specification/2026-07-28/server/tools
    """

    def __init__(self) -> None:
        self._checks: dict[str, Optional[OutputCheck]] = {}
        # For each listed tool: whether it can run as a task, as in `Tool.task`.
        self.task_support: Mapping[str, Optional[str]] = {}

    def remember(self, tools: Iterable[Tool]) -> None:
        """Replace the schemas with those of a new list of tools."""
        tools = list(tools)
        self.task_support = {tool.name: tool.task for tool in tools}
        checks: dict[str, Optional[OutputCheck]] = {tool.name: None for tool in tools}
        for tool in tools:
            if tool.output_schema is not None:
                checks[tool.name] = OutputCheck(tool.name, tool.output_schema)
        self._checks = checks

    def fill_in(
        self, name: str, result: CallToolResult, *, wraps: bool, validate: bool = True
    ) -> bool:
        """Check a result against the tool's output schema and set its ``value``.

        Args:
            name: The tool's name.
            result: A result that is not an error.
            wraps: Whether the revision wraps values. If so, the schema of an unlisted tool is
                needed.
            validate: Whether to check the result.

        Returns:
            False if the value may be wrapped and the tool was never listed: list the tools first.

        Raises:
            ProtocolViolation: The structured content does not match the schema, the schema cannot
                be checked, or there is a schema but no structured content. ``result`` is the
                result.
        """
        checks = self._checks
        structured = vars(result)["structured_content"]  # ABSENT if there is none
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
            checks.setdefault(name, None)  # do not list the tools again for this one
        if structured is not ABSENT:
            result.value = structured
        elif result.content and all(isinstance(block, Text) for block in result.content):
            result.value = result.text
        if violation is not None:
            violation.result = result
            raise violation
        return True


def _violation(name: str, check: OutputCheck, structured: Any) -> Optional[ProtocolViolation]:
    """Return what is wrong with the structured content of a result, or None."""
    if structured is ABSENT:
        return ProtocolViolation(
            f"{name} declares an output schema, but its result has no structured content"
        )
    problem = check.problem(structured)
    if problem is None:
        return None
    if isinstance(problem, str):
        way = "call_tool(..., validate=False) returns the result without a check"
        text = f"the output schema of {one_line(name)}: {problem}. {way}"
        return ProtocolViolation(text, structured)
    return ProtocolViolation(
        f"the result of {name} does not match its output schema: {problem}", structured
    )
