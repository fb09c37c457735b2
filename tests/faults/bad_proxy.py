"""``python bad_proxy.py COMMAND...``: an HTTP server whose refusals a proxy turns into status 200. Standard library."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


def agree(data: bytes) -> bytes:
    return re.sub(rb"^HTTP/1.1 [45]\d\d [^\r]*", b"HTTP/1.1 200 OK", data)


def carry(source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes]) -> None:
    try:
        data = source.recv(1 << 18)
        while data:
            target.sendall(change(data))
            data = source.recv(1 << 18)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def main() -> None:
    server = subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE)
    assert server.stderr is not None
    found = None
    while found is None:
        found = re.search(rb"http://127\.0\.0\.1:(\d+)", server.stderr.readline())
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    while True:
        client = listener.accept()[0]
        behind = socket.create_connection(("127.0.0.1", int(found[1])))
        threading.Thread(target=carry, args=(client, behind, bytes), daemon=True).start()
        threading.Thread(target=carry, args=(behind, client, agree), daemon=True).start()


if __name__ == "__main__":
    main()
