"""`Apps`: pages of HTML that a host shows in the conversation, beside the results of tools that
name them.

A page is a resource under a ``ui://`` URI. It talks to the host by JSON-RPC between windows: a page
that says ``<script src="minimcp-app.js"></script>`` gets apps.js in that place, which does so.

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

# What an author writes; on the wire in camelCase.
CSP = ("connect_domains", "resource_domains", "frame_domains", "base_uri_domains")
PERMISSIONS = ("camera", "microphone", "geolocation", "clipboard_write")

_SCRIPT = re.compile(r'<script src="minimcp-app\.js">\s*</script>', re.IGNORECASE)
# A source of a Content Security Policy that names a host; nothing that ends the directive or begins
# another source.
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9*._:\[\]-]+", re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=None)
def script() -> str:
    """The script that a page includes: it defines ``app``."""
    found = pkgutil.get_data(__package__, "apps.js")
    assert found is not None
    return found.decode()


class App(Readable):
    """A resource that is a page: the script is put into it, and what it asks of the host stands
    beside it.

    Raises:
        TypeError: The function cannot be one, or an option is of another type.
        ValueError: The URI is no ``ui://``, or an option has a value that it cannot have.
    """

    def __init__(
        self,
        config: ServerConfig,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        uri: str,
    ) -> None:
        if not re.fullmatch("ui://[^{}]+", uri):
            way = (
                "the URI of an app begins with ui:// and has no variables, as in 'ui://sales/chart'"
            )
            raise ValueError(f"app {uri!r}: {way}")
        super().__init__(config, function, {**options, "mime_type": MIME_TYPE}, uri)

    def made(self, value: Any, uri: str) -> ReadResourceResult:
        """The result for a page.

        Raises:
            TypeError: It is no text.
        """
        if not isinstance(value, str):
            raise TypeError(
                f"the app {uri!r} returned {type(value).__name__}: return the page as str"
            )
        page = _SCRIPT.sub(lambda found: f"<script>\n{script()}</script>", value)
        ui = (self.listing.meta or {}).get("ui")
        return ReadResourceResult(
            [TextResourceContents(uri, page, MIME_TYPE, {"ui": ui} if ui else None)]
        )


class Apps(Extension):
    """Lets tools show pages: ``Server("x", extensions=[Apps()])``, `Server.app` and
    ``@server.tool(ui="ui://...")``.

    A host says ``connect(..., extensions=[Apps()])`` and finds the URI of a tool's page in
    ``tool.meta["ui"]``; showing it, and keeping tools whose "visibility" lacks "model" from the
    model, is the host's own work. Thread-safe.
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
        """As `Extension.install`; pages are resources."""
        super().install(server)
        self._config.feature("resources")

    def listing(self, kind: str, name: str, options: Mapping[str, Any]) -> dict[str, Json]:
        """As `Extension.listing`: ``ui``, for tools and pages."""
        owner = f"{kind} {name!r}"
        said = self._of_tool(owner, options) if kind == "tool" else _of_page(owner, options)
        ui = {member: value for member, value in said.items() if value is not None}
        return {"ui": ui} if ui else {}

    def _of_tool(self, owner: str, options: Mapping[str, Any]) -> dict[str, Json]:
        """What is said of a tool: the page that there is under this URI, and who may call it."""
        uri = options.get("ui")
        visibility = options.get("visibility")
        if uri is not None:
            table = self._config.feature("resources").table
            page = table.get(uri) if isinstance(uri, str) else None
            if isinstance(page, App):
                uri = page.key  # hosts compare texts
            else:
                pages = [each.key for each in table.items.values() if isinstance(each, App)]
                check_names(
                    [uri], pages, f"{owner}: no app is registered before it as", error=ValueError
                )
        if visibility is not None:
            visibility = [visibility] if isinstance(visibility, str) else list(visibility)
            if not visibility:
                raise ValueError(f"{owner}: visibility names nobody: write 'model', 'app' or both")
            check_names(
                visibility, ("model", "app"), f"{owner}: visibility knows no", error=ValueError
            )
        return {"resourceUri": uri, "visibility": visibility}


def _of_page(owner: str, options: Mapping[str, Any]) -> dict[str, Json]:
    """What a page asks of the host; nothing for other resources."""
    csp = options.get("csp") or {}
    permissions = options.get("permissions", ())
    check_names(csp, CSP, f"{owner}: csp has no", error=ValueError)
    for name, origins in csp.items():
        is_list = isinstance(origins, (list, tuple))
        if not is_list or not all(
            isinstance(each, str) and _ORIGIN.fullmatch(each) for each in origins
        ):
            way = "is a list of origins such as 'https://api.example.com'"
            raise ValueError(f"{owner}: csp: {name} {way}, not {origins!r:.60}")
    check_names(permissions, PERMISSIONS, f"{owner}: no permission is called", error=ValueError)
    return {
        "csp": {member_name(name): list(origins) for name, origins in csp.items()} or None,
        "permissions": {member_name(name): {} for name in permissions} or None,
        "domain": options.get("domain"),
        "prefersBorder": options.get("border"),
    }
