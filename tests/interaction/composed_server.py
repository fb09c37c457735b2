"""The server of tests/interaction/test_composition.py: middleware, methods, a mounted server, log records, extensions.

``python -m tests.interaction.composed_server`` serves it over stdio; `build` makes it for memory.
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Dict, List

from minimcp import Context, LogHandler, Server, ToolError

logger = logging.getLogger("composed")

EXTENSIONS: Dict[str, Dict[str, Any]] = {"com.example/x": {"deep": {"a": 1}}, "io.modelcontextprotocol/ui": {}}

runs: List[str] = []


def count(ctx: Context, call_next: Callable[[], Any]) -> Any:
    """Outermost: notes each run, and answers some calls itself."""
    runs.append(f"{ctx.method} {ctx.round}")
    wanted = ctx.meta.get("com.example/answer")
    return call_next() if wanted is None else wanted


def limit(ctx: Context, call_next: Callable[[], Any]) -> Any:
    """A limit of rate that is always over for some."""
    if ctx.meta.get("com.example/greedy"):
        raise ToolError("too many requests")
    return call_next()


def told(clear: bool = False) -> List[str]:
    """What the middleware has noted."""
    found = list(runs)
    if clear:
        runs.clear()
    return found


def ask(ctx: Context) -> str:
    """Ask the user once."""
    answer = ctx.elicit("Your name?", {"name": str})
    return f"hello {answer.content['name']}"


def meta(ctx: Context) -> Dict[str, Any]:
    """The request's _meta, but for the envelope and the token."""
    return {
        key: value
        for key, value in ctx.meta.items()
        if key != "progressToken" and not key.startswith("io.modelcontextprotocol/")
    }


def extended(ctx: Context) -> str:
    """Use an extension, where the client has it."""
    return "extended" if ctx.client.supports("ext:com.example/x") else "plain"


def needs() -> str:
    """Needs an extension."""
    return "needed"


def page() -> str:
    """Has a page that some hosts show."""
    return "in words"


def talk() -> str:
    """Log by `logging`, as any library does."""
    logger.debug("quiet")
    logger.info("%d is %s", 5, "five")
    logger.log(25, "noticed", extra={"city": "Oslo"})
    logger.critical("burning")
    return "said"


def echo(params: Dict[str, Any], ctx: Context) -> Dict[str, Any]:
    return {"method": ctx.method, "got": {key: value for key, value in params.items() if key != "_meta"}}


def grown() -> str:
    """Came later."""
    return "grown"


def build() -> Server:
    """The server."""
    runs.clear()
    server, library = Server("composed", extensions=EXTENSIONS), Server("library")
    server.middleware(count)
    server.middleware(limit)
    for tool in (told, ask, meta, extended, talk):
        server.add_tool(tool)
    server.add_tool(needs, requires=("ext:com.example/x",))
    server.add_tool(page, meta={"ui": {"resourceUri": "ui://page"}, "com.example/note": 1})
    server.method("vendor/echo")(echo)

    @library.tool
    def text() -> str:
        """Some text."""
        return "text"

    @library.prompt(complete={"tone": ["plain", "formal"]})
    def brief(tone: str) -> str:
        """Brief."""
        return tone

    @library.resource("lib://text")
    def read() -> str:
        """Some text."""
        return "text"

    server.mount(library, prefix="lib")

    @server.tool
    def grow() -> str:
        """Add to the mounted server."""
        library.add_tool(grown)
        return "grown"

    @server.tool
    def shrink() -> str:
        """Take it away again, and change a resource of it."""
        library.remove_tool("grown")
        library.resource_updated("lib://text")
        return "shrunk"

    if not any(isinstance(handler, LogHandler) for handler in logger.handlers):
        logger.addHandler(LogHandler())
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    return server


if __name__ == "__main__":
    logging.getLogger("minimcp").setLevel(logging.CRITICAL)  # what is refused on purpose is no news
    build().run()
