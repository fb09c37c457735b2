"""The headers of one request to a server that takes each alone: what of the body stands in them too.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import logging
from typing import Any, Iterable, Mapping

from ..errors import one_line
from ..protocol.lifecycle import VERSION_KEY
from ..protocol.messages import Json
from ..schema.header_params import Mirrored, header_value, mirrored
from ..types import Tool
from .headers import METHOD_HEADER, NAME_HEADER, PARAM_PREFIX, VERSION_HEADER

log = logging.getLogger("minimcp.client")

NAMED_BY = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
    "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
}
"""Methods, and the member of their params that the name header repeats."""


class Mirror:
    """Knows which arguments of a server's tools travel in headers too. Thread-safe: replaced as a whole.

    Args:
        name: Of the connection, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tools: dict[str, list[Mirrored]] = {}
        self._warned: set[str] = set()

    def admitted(self, tools: Iterable[Tool]) -> list[Tool]:
        """Take in a fresh list of tools; those of it that can be called, for one with wrong annotations cannot."""
        known: dict[str, list[Mirrored]] = {}
        admitted = []
        for tool in tools:
            try:
                known[tool.name] = mirrored(tool.input_schema)
            except ValueError as error:
                if tool.name not in self._warned:
                    self._warned.add(tool.name)
                    log.warning("%s: the tool %s is left out: %s", self._name, one_line(tool.name), error)
                continue
            admitted.append(tool)
        self._tools = known
        return admitted

    def headers(self, message: Mapping[str, Json]) -> dict[str, str]:
        """The headers of a request or notification that carries its revision; none for another.

        Raises:
            ValueError: A value cannot stand in a header.
        """
        params: Any = message.get("params") or {}
        revision = (params.get("_meta") or {}).get(VERSION_KEY)
        if revision is None:
            return {}
        method = message["method"]
        headers = {VERSION_HEADER: revision, METHOD_HEADER: header_value(method) or ""}
        name = params.get(NAMED_BY.get(method, ""))
        if isinstance(name, str):
            headers[NAME_HEADER] = header_value(name) or ""
        if method == "tools/call":
            for each in self._tools.get(str(name), ()):
                value = header_value(each.value(params.get("arguments")))
                if value is not None:
                    headers[PARAM_PREFIX + each.name] = value
        return headers
