"""Resources are text or files under a URI: a client reads them, and is notified when they change.

You will see one listed resource, two templates, their content, what is not found, and a
notification of a change.

A resource has one URI, and is listed. A URI with variables in braces is a template: it describes
many resources, is listed as it is, and its variables arrive as the types of the parameters. A host
reads resources without asking its model.

https://modelcontextprotocol.io/specification/2026-07-28/server/resources
"""

from __future__ import annotations

import threading

import minimcp

server = minimcp.Server("greenhouse")
degrees = {"tomato": 21, "basil": 19, "cactus": 30}
lock = threading.Lock()


@server.resource("plants://all", mime_type="application/json")
def plants() -> dict[str, int]:
    """List all plants with their temperatures. A value that is not text or bytes becomes JSON."""
    with lock:
        return dict(degrees)


@server.resource("plants://pictures/{size}.pgm", mime_type="image/x-portable-graymap")
def picture(size: int) -> bytes:
    """Draw a gray square. Bytes are binary content; the library encodes them as base64."""
    return b"P5 %d %d 255\n" % (size, size) + b"\x80" * (size * size)


def names(value: str) -> list[str]:
    """Complete the text that a person has typed so far."""
    return [name for name in degrees if name.startswith(value)]


@server.resource("plants://{name}", complete={"name": names})
def plant(name: str) -> str:
    """Return the temperature of one plant."""
    with lock:
        if name not in degrees:
            raise minimcp.ResourceNotFound(f"There is no plant {name}.")
        return f"{name}: {degrees[name]} degrees"


@server.tool
def heat(name: str, by: int) -> None:
    """Raise the temperature of a plant."""
    with lock:
        degrees[name] += by
    server.resource_updated(f"plants://{name}")  # notifies clients that listen to this URI


if __name__ == "__main__":
    with minimcp.connect(server) as client:
        print("resources:", [resource.uri for resource in client.list_resources()])
        print(
            "templates:", [template.uri_template for template in client.list_resource_templates()]
        )
        print(client.read_resource("plants://all").text)
        print(client.read_resource("plants://pictures/2.pgm").data)
        print("completed:", client.complete("name", "t", template="plants://{name}").values)
        for uri in ("plants://rose", "plants://pictures/big.pgm"):
            try:
                client.read_resource(uri)
            except minimcp.ResourceNotFound as error:
                print("not found:", error.message)

        with client.listen(resource_subscriptions=["plants://basil"]) as changes:
            client.call_tool("heat", {"name": "basil", "by": 2})
            change = changes.next(timeout=10)
            print("changed:", change.uri)
            print(client.read_resource("plants://basil").text)

# Exercise: add a tool `sow(name: str, warmth: int) -> None` that adds a plant and notifies clients
# that listen to plants://all, because the content that they have read is out of date.
# Check it with  python3 examples/check.py 5
# file_server.py serves files under {+path}, which can contain slashes, and stays in its directory.
