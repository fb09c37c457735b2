"""An extension is a plain class: it adds methods and notifications, which both sides must declare.

You will see a vote in which two clients take part, the notifications that they receive, and the
response to a client that lacks the extension.

The identifier of an extension begins with a name that belongs to its author. The server declares it
with its settings, and the client declares it too; only then can they use what it adds. Here one
class has both sides: `cast` runs in the server, `counted` in the clients. `names` names
the argument that is repeated in the HTTP header Mcp-Name, where proxies can read it. `filters` lists
what a client can listen to.

https://modelcontextprotocol.io/seps/2133-extensions
"""

from queue import SimpleQueue
from typing import Any

import minimcp


class Votes(minimcp.Extension):
    identifier = "com.example/votes"
    settings = {"options": ["tea", "coffee"]}
    names = {"votes/cast": "option"}
    filters = ["votes"]

    def __init__(self) -> None:
        self.counts = {"tea": 0, "coffee": 0}
        self.heard: SimpleQueue[Any] = SimpleQueue()

    @minimcp.method("votes/cast")
    def cast(self, params: dict[str, Any], ctx: minimcp.Context) -> dict[str, Any]:
        option = params.get("option")
        if option not in ("tea", "coffee"):  # a peer can send anything
            raise minimcp.InvalidParams("option is tea or coffee")
        self.counts[option] += 1
        self.tell("notifications/votes", self.counts, "votes")
        return {"counts": self.counts}

    @minimcp.notification("notifications/votes")
    def counted(self, params: dict[str, Any]) -> None:
        params.pop("_meta", None)  # names the stream
        self.heard.put(params)

    def entry_meta(self, kind: str, name: str, options: Any) -> dict[str, Any]:
        """Return members of `_meta` for each listed item."""
        return {"com.example/votes": "this server holds a vote"} if kind == "tool" else {}


def serve() -> minimcp.Server:
    server = minimcp.Server("kitchen", extensions=[Votes()])

    @server.tool
    def menu() -> str:
        """List the drinks."""
        return "tea, coffee"

    return server


if __name__ == "__main__":
    server, mine = serve(), Votes()
    with (
        minimcp.connect(server, extensions=[mine]) as client,
        minimcp.connect(server, extensions=[Votes()]) as other,
    ):
        print("declared:", client.capabilities["extensions"])
        print("listed:", client.list_tools()[0].meta)
        with client.listen(filters={"votes": True}) as changes:
            print("listens to:", changes.honored)
            print(
                "the other client votes:", other.request("votes/cast", {"option": "tea"})["counts"]
            )
            print("this client is notified:", mine.heard.get(timeout=10))
        try:
            client.request("votes/cast", {"option": "gin"})
        except minimcp.InvalidParams as error:
            print("a wrong vote:", error)
    with minimcp.connect(server) as stranger:
        try:
            stranger.request("votes/cast", {"option": "tea"})
        except minimcp.CapabilityNotSupported as error:
            print("a client without it:", error)

# Exercise: add the request `votes/open`: it sets both counts to 0, notifies all listening clients,
# and returns the counts as above.
# Check it with  python3 examples/check.py 18
