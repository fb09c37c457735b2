"""`Apps`: HTML pages that a host shows in the conversation, next to the results of tools.

A page is a resource with a ``ui://`` URI. It exchanges JSON-RPC messages with the host's window.
The script apps.js does that; it replaces ``<script src="minimcp-app.js"></script>`` in a page.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

import pkgutil
import re
from collections import abc
from functools import lru_cache
from typing import Any, Callable, Mapping

from ..features.resources import Readable
from ..protocol.messages import Json
from ..server.feature import OptionSpec
from ..server.options import NONE, OPTIONAL_FLAG, OPTIONAL_TEXT, check_names
from ..server.registered import ServerConfig
from ..types import ReadResourceResult, TextResourceContents
from ..types.base import member_name
from .extension import Extension

MIME_TYPE = "text/html;profile=mcp-app"

# The names for authors. On the wire they are in camelCase.
CSP = ("connect_domains", "resource_domains", "frame_domains", "base_uri_domains")
PERMISSIONS = ("camera", "microphone", "geolocation", "clipboard_write")

_SCRIPT = re.compile(r'<script src="minimcp-app\.js">\s*</script>', re.IGNORECASE)
# A source of a Content Security Policy that names a host. It cannot end the directive or start
# another source.
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9*._:\[\]-]+", re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=None)
def script() -> str:
    """Return the script that a page includes. It defines ``app``."""
    found = pkgutil.get_data(__package__, "apps.js")
    assert found is not None
    return found.decode()


class App(Readable):
    """A resource that is a page. The script is inserted into it, and its ``_meta`` lists what the
    page needs.

    Raises:
        TypeError: The function cannot be a page, or an option has the wrong type.
        ValueError: The URI does not begin with ``ui://``, or an option has a value that is not
            accepted.
    """

    def __init__(
        self,
        config: ServerConfig,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        uri: str,
    ) -> None:
        if not re.fullmatch("ui://[^{}]+", uri):
            raise ValueError(
                f"app {uri!r}: the URI of an app must begin with ui:// and have no variables, such"
                " as 'ui://sales/chart'"
            )
        super().__init__(config, function, {**options, "mime_type": MIME_TYPE}, uri)

    def made(self, value: Any, uri: str) -> ReadResourceResult:
        """Return the result for a page.

        Raises:
            TypeError: The page is not a str.
        """
        if not isinstance(value, str):
            raise TypeError(
                f"the app {uri!r} returned {type(value).__name__}: return the page as a str"
            )
        page = _SCRIPT.sub(lambda found: f"<script>\n{script()}</script>", value)
        ui = (self.definition.meta or {}).get("ui")
        return ReadResourceResult(
            [TextResourceContents(uri, page, MIME_TYPE, {"ui": ui} if ui else None)]
        )


class Apps(Extension):
    """Lets tools show pages: ``Server("x", extensions=[Apps()])``, `Server.app` and
    ``@server.tool(ui="ui://...")``.

    A host connects with ``connect(..., extensions=[Apps()])`` and finds the URI of a tool's page in
    ``tool.meta["ui"]``. The host itself shows the page, and hides tools from the model whose
    "visibility" lacks "model". Thread-safe.
    """

    identifier = "io.modelcontextprotocol/ui"
    settings: Mapping[str, Json] = {"mimeTypes": [MIME_TYPE]}
    makers = {"app": App}
    options = {
        "ui": OptionSpec((str, NONE), "the URI of an app, or None"),
        "visibility": OptionSpec(
            (str, list, tuple, NONE), '"model", "app", a list of them, or None'
        ),
        "csp": OptionSpec(
            (abc.Mapping, NONE),
            'a mapping such as {"connect_domains": ["https://api.example.com"]} or None',
        ),
        "permissions": OptionSpec((list, tuple), "a list of permissions"),
        "border": OPTIONAL_FLAG,
        "domain": OPTIONAL_TEXT,
    }

    def install(self, server: Any) -> None:
        """Join a server; see `Extension.install`. Pages are resources."""
        super().install(server)
        self._config.feature("resources")

    def entry_meta(self, kind: str, name: str, options: Mapping[str, Any]) -> dict[str, Json]:
        """Return ``ui`` for the ``_meta`` of a tool or a page."""
        owner = f"{kind} {name!r}"
        members = self._of_tool(owner, options) if kind == "tool" else _of_page(owner, options)
        ui = {member: value for member, value in members.items() if value is not None}
        return {"ui": ui} if ui else {}

    def _of_tool(self, owner: str, options: Mapping[str, Any]) -> dict[str, Json]:
        """Return the members for a tool: the URI of its page, and who may call it."""
        uri = options.get("ui")
        visibility = options.get("visibility")
        if uri is not None:
            table = self._config.feature("resources").table
            page = table.get(uri) if isinstance(uri, str) else None
            if isinstance(page, App):
                uri = page.key  # because hosts compare URIs as text
            else:
                pages = [each.key for each in table.items.values() if isinstance(each, App)]
                check_names(
                    [uri], pages, f"{owner}: no earlier app is registered as", error=ValueError
                )
        if visibility is not None:
            visibility = [visibility] if isinstance(visibility, str) else list(visibility)
            if not visibility:
                raise ValueError(f"{owner}: visibility is empty: write 'model', 'app' or both")
            check_names(
                visibility, ("model", "app"), f"{owner}: visibility cannot be", error=ValueError
            )
        return {"resourceUri": uri, "visibility": visibility}


def _of_page(owner: str, options: Mapping[str, Any]) -> dict[str, Json]:
    """Return the members for a page: its needs; empty for other resources."""
    csp = options.get("csp") or {}
    permissions = options.get("permissions", ())
    check_names(csp, CSP, f"{owner}: csp does not have", error=ValueError)
    for name, origins in csp.items():
        is_list = isinstance(origins, (list, tuple))
        if not is_list or not all(
            isinstance(each, str) and ORIGIN.fullmatch(each) for each in origins
        ):
            raise ValueError(
                f"{owner}: csp: {name} must be a list of origins such as"
                f" 'https://api.example.com', not {origins!r:.60}"
            )
    check_names(permissions, PERMISSIONS, f"{owner}: no permission is called", error=ValueError)
    return {
        "csp": {member_name(name): list(origins) for name, origins in csp.items()} or None,
        "permissions": {member_name(name): {} for name in permissions} or None,
        "domain": options.get("domain"),
        "prefersBorder": options.get("border"),
    }
