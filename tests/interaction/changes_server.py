"""The server of test_changes.py: tools that change its features, and that end it.

``python -m tests.interaction.changes_server`` serves it over stdio; `build` makes it for memory.
"""

from __future__ import annotations

from minimcp import Server


def build() -> Server:
    server = Server("changes", capabilities=["tools", "prompts", "resources"])

    def later() -> str:
        """Comes and goes."""
        return "later"

    there = set()

    @server.tool
    def change(kind: str) -> str:
        """Have a list change once."""
        come, go = {
            "tools": (lambda: server.add_tool(later), lambda: server.remove_tool("later")),
            "prompts": (lambda: server.add_prompt(later), lambda: server.remove_prompt("later")),
            "resources": (
                lambda: server.add_resource(later, "later://x"),
                lambda: server.remove_resource("later://x"),
            ),
        }[kind]
        if kind in there:
            there.remove(kind)
            go()
        else:
            there.add(kind)
            come()
        return kind

    @server.tool
    def touch(uri: str, times: int = 1) -> str:
        """Say that a resource was updated."""
        for _ in range(times):
            server.resource_updated(uri)
        return uri

    @server.tool
    def bye() -> str:
        """End."""
        server.close()
        return "bye"

    return server


if __name__ == "__main__":
    build().run()
