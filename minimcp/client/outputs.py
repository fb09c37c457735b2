"""What a client knows of the tools it listed: their output schemas, and what results of theirs must look like.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Iterable, Optional

from .. import schema
from ..errors import ProtocolViolation, one_line
from ..types import CallToolResult, Tool
from ..types.tool import WRAPPED

log = logging.getLogger("minimcp.client")

Check = Callable[[Any], Optional[str]]


class _Output:
    """One tool's output schema; its check is made when it is first needed."""

    __slots__ = ("_name", "_schema", "_check", "wrapped")

    def __init__(self, name: str, shape: dict[str, Any]) -> None:
        self._name, self._schema = name, shape
        self._check: Optional[Check] = None
        self.wrapped = shape.get(WRAPPED) is True

    def problem(self, value: Any) -> Optional[str]:
        """What is wrong with a value; None when it fits, or when its schema cannot be checked here."""
        if self._check is None:
            try:
                self._check = schema.compile_peer_check(self._schema, where=f"{self._name} output")
            except (ImportError, ValueError) as error:
                log.warning("results of %s are handed over unchecked: %s", one_line(self._name), error)
                self._check = _accept
        return self._check(value)


def _accept(value: Any) -> Optional[str]:
    return None


class OutputChecks:
    """The output schemas of one server's tools, as they were last listed. Thread-safe: replaced as a whole."""

    def __init__(self) -> None:
        self._outputs: dict[str, Optional[_Output]] = {}

    def remember(self, tools: Iterable[Tool]) -> None:
        """Take in a fresh list of tools."""
        self._outputs = {
            tool.name: None if tool.output_schema is None else _Output(tool.name, tool.output_schema) for tool in tools
        }

    def needs_list(self, name: str, result: CallToolResult) -> bool:
        """Whether a result of a tool that no list has named may hold a wrapped value: only its schema would tell."""
        structured = result.structured_content
        may_be = isinstance(structured, dict) and structured.keys() == {"result"} and not result.is_error
        return may_be and name not in self._outputs

    def give_up(self, name: str) -> None:
        """Take it that nothing more can be learned of this tool, until the next list."""
        self._outputs.setdefault(name, None)

    def fill_in(self, name: str, result: CallToolResult) -> None:
        """Check a result against the tool's output schema and set its ``value``.

        Raises:
            ProtocolViolation: The structured content does not fit, or is missing though a schema was declared.
        """
        output = self._outputs.get(name)
        if result.is_error:
            return
        structured = result.structured_content
        if output is not None:
            if not result.has_structured_content:
                raise ProtocolViolation(f"{name} declares an output schema, and its result has no structured content")
            problem = output.problem(structured)
            if problem is not None:
                raise ProtocolViolation(f"the result of {name} breaks its output schema: {problem}", structured)
        wrapped = output is not None and output.wrapped and isinstance(structured, dict)
        result.value = structured["result"] if wrapped else structured
