"""A hostile HTTP server for one case: raw sockets, and the tools of `web_tools`. It keeps what it hears."""

from __future__ import annotations

import ssl
import threading
from functools import lru_cache
from typing import Any, Dict, List, Optional

from ..support import WAIT
from ..web import Heard, Peer, Say, Wire
from . import web_tools


@lru_cache(maxsize=None)
def one_gigabyte() -> bytes:
    return web_tools.bomb(1024)


class Hostile(Peer):
    """One server, from its making until `dispose`."""

    def __init__(
        self,
        said: Optional[Dict[str, Say]] = None,
        *,
        handshake: bool = False,
        session: Any = "s-1",
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        usual: Dict[str, Say] = {"tools/call": self.tool, "tools/list": _list}
        super().__init__({**usual, **(said or {})}, handshake=handshake, session=session, tls=tls)
        self.handshake = handshake
        self._waiting: List[Any] = []
        self._met = threading.Condition()
        self.__enter__()

    def tool(self, heard: Heard, wire: Wire) -> None:
        name = heard.message["params"]["name"]
        if name in web_tools.TOOLS:
            web_tools.TOOLS[name](self, heard, wire)
        else:
            wire.error(-32602, "no such tool")

    @property
    def bomb(self) -> bytes:
        return one_gigabyte()

    def meet(self, heard: Heard) -> List[Any]:
        """Wait until two calls are here; the ids of both."""
        with self._met:
            self._waiting.append(heard.message["id"])
            self._met.notify_all()
            self._met.wait_for(lambda: len(self._waiting) >= 2, WAIT)
            return list(self._waiting)

    def calls(self, tool: str) -> int:
        return sum(heard.message["params"]["name"] == tool for heard in self.all("tools/call"))

    def drop_all(self) -> None:
        """Cut every connection, as the end of a process does."""
        for sock in list(self._socks):
            try:
                sock.shutdown(2)
            except OSError:
                pass

    def stderr(self) -> str:
        return ""

    def dispose(self) -> None:
        self.__exit__()


def _list(heard: Heard, wire: Wire) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in web_tools.TOOLS]
    wire.result({"resultType": "complete", "tools": tools, "ttlMs": 60_000, "cacheScope": "private"})
