"""`Apps`: pages of HTML that a host shows in the conversation, beside the results of tools that name them.

A page is a resource under a ``ui://`` URI. It talks to the host by JSON-RPC between windows: a page that says
``<script src="minimcp-app.js"></script>`` gets apps.js in that place, which does so. A client that did not declare the
extension sees tools and resources without a word of it.

https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
"""

from __future__ import annotations

import pkgutil
import re
from functools import lru_cache
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..engine.requests import IncomingRequest
from ..protocol.lifecycle import Peer
from ..protocol.messages import Json
from ..protocol.versions import Revision
from ..server.options import check_names
from ..server.registered import Registered, ServerConfig
from ..server.registry import Registry
from ..server.resources import Readable
from ..types import ReadResourceResult, TextResourceContents

IDENTIFIER = "io.modelcontextprotocol/ui"
MIME_TYPE = "text/html;profile=mcp-app"

# What an author writes, and its name on the wire.
CSP = {
    "connect_domains": "connectDomains", "resource_domains": "resourceDomains",
    "frame_domains": "frameDomains", "base_uri_domains": "baseUriDomains",
}  # fmt: skip
PERMISSIONS = {
    "camera": "camera", "microphone": "microphone", "geolocation": "geolocation", "clipboard_write": "clipboardWrite"
}  # fmt: skip
VISIBILITY = ("model", "app")

_SCRIPT = re.compile(r'<script src="minimcp-app\.js">\s*</script>', re.IGNORECASE)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/;,'\"]+", re.IGNORECASE)


@lru_cache(maxsize=None)
def script() -> str:
    """The script that a page includes: it defines ``app``."""
    found = pkgutil.get_data(__package__, "apps.js")
    assert found is not None
    return found.decode()


class App(Readable):
    """A resource that is a page: the script is put into it, and ``_meta.ui`` says what it asks of the host.

    Raises:
        TypeError: The function cannot be one, or an option is of another type.
        ValueError: The URI is no ``ui://``, or the host knows no such domains or permission.
    """

    def __init__(
        self, config: ServerConfig, function: Callable[..., Any], options: Mapping[str, Any], uri: str
    ) -> None:
        owner = f"app {uri!r}"
        if not re.match("ui://[^{}]+$", uri):
            raise ValueError(f"{owner}: the URI of an app begins with ui:// and has no variables, as in 'ui://sales/chart'")
        super().__init__(config, function, {**options, "mime_type": MIME_TYPE}, uri)
        self.ui = _page_meta(owner, options)

    def made(self, value: Any, uri: str) -> ReadResourceResult:
        """As `Readable.made`, with the script in the pages that name it."""
        result = super().made(value, uri)
        for item in result.contents:
            if isinstance(item, TextResourceContents):
                item.text = _SCRIPT.sub(lambda found: f"<script>\n{script()}</script>", item.text)
        return result

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        """As `Readable.result`, with ``_meta.ui`` for a client that knows it."""
        wire = super().result(value, incoming)
        if self.ui and incoming.peer.supports(f"ext:{IDENTIFIER}"):
            for item in wire["contents"]:
                item["_meta"] = {"ui": self.ui, **item.get("_meta", {})}
        return wire


def _page_meta(owner: str, options: Mapping[str, Any]) -> dict[str, Json]:
    """``_meta.ui`` of a page, for what its author said of it."""
    csp, permissions = options.get("csp"), options.get("permissions")
    border, domain = options.get("border"), options.get("domain")
    if not isinstance(csp or {}, Mapping):
        raise TypeError(f'{owner}: csp is a mapping such as {{"connect_domains": ["https://api.example.com"]}}')
    check_names(csp or (), CSP, f"{owner}: csp has no", error=ValueError)
    for name, origins in (csp or {}).items():
        for origin in [origins] if isinstance(origins, str) else origins:
            if isinstance(origins, str) or not isinstance(origin, str) or not _ORIGIN.fullmatch(origin):
                way = "is a list of origins such as 'https://api.example.com'"
                raise ValueError(f"{owner}: csp: {name} {way}, not {origins!r:.60}")
    if isinstance(permissions, str):
        raise TypeError(f"{owner}: permissions is a list such as {[permissions]!r}")
    check_names(permissions or (), PERMISSIONS, f"{owner}: no permission is called", error=ValueError)
    if border not in (None, True, False):
        raise TypeError(f"{owner}: border is True, False or None, not {border!r:.60}")
    if not isinstance(domain, (str, type(None))):
        raise TypeError(f"{owner}: domain is text or None, not {domain!r:.60}")
    said: dict[str, Json] = {
        "csp": {CSP[name]: list(origins) for name, origins in (csp or {}).items()} or None,
        "permissions": {PERMISSIONS[name]: {} for name in permissions or ()} or None,
        "domain": domain,
        "prefersBorder": border,
    }
    return {name: value for name, value in said.items() if value is not None}


class Apps:
    """Lets tools show pages: ``Server("x", extensions=[Apps()])``, `Server.app` and ``@server.tool(ui="ui://...")``.

    A host says ``connect(..., extensions=[Apps()])`` and finds the URI of a tool's page in ``tool.meta["ui"]``; showing
    it is the host's own work. Thread-safe.
    """

    identifier = IDENTIFIER
    settings: Mapping[str, Json] = {"mimeTypes": [MIME_TYPE]}

    def install(self, registry: Registry) -> None:
        """Become the apps of a server.

        Raises:
            ValueError: They are another's.
        """
        if hasattr(self, "_registry"):
            raise ValueError("Apps() serves one server: make one for each")
        self._registry = registry
        registry.config.apps = self
        registry.classes["app"] = App
        registry.config.listing.append(self)
        registry.extensions.append(self)

    def declare(self, declared: dict[str, Json], revision: Revision, principal: Optional[str]) -> None:
        """Add what a client is told to the capabilities."""
        declared["extensions"] = {**declared.get("extensions", {}), IDENTIFIER: dict(self.settings)}

    def route(self, method: str, peer: Peer) -> None:
        """There are no methods: pages are read as resources."""

    def listing(self, kind: str, item: Registered) -> Optional[dict[str, Json]]:
        """What is added to ``_meta`` where a tool or a resource is listed."""
        ui = getattr(item, "ui", None)
        return {"ui": ui} if ui else None

    def tool_meta(self, owner: str, uri: Optional[str], visibility: Union[str, Sequence[str], None]) -> dict[str, Json]:
        """``_meta.ui`` of a tool.

        Raises:
            ValueError: No app is served under this URI, or nobody is called as visibility says.
        """
        found: dict[str, Json] = {}
        if uri is not None:
            pages = [each.key for each in self._registry.resources.table.items.values() if isinstance(each, App)]
            if not str(uri).startswith("ui://"):
                raise ValueError(f"{owner}: ui is the URI of an app, which begins with ui://, unlike {uri!r:.60}")
            check_names([uri], pages, f"{owner}: no app is registered before it as", error=ValueError)
            found["resourceUri"] = uri
        if visibility is not None:
            names = [visibility] if isinstance(visibility, str) else list(visibility)
            if not names:
                raise ValueError(f"{owner}: visibility names nobody: write 'model', 'app' or both")
            check_names(names, VISIBILITY, f"{owner}: visibility knows no", error=ValueError)
            found["visibility"] = names
        return found
