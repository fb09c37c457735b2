"""Stands between a client and a server over stdio and writes down every line: `wire.py LOG COMMAND...`.

For looking at a failure (`python -m tests.interop --wire FOLDER`); the grid is not made through it.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from typing import IO


def pump(source: IO[bytes], sink: IO[bytes], log: IO[bytes], arrow: bytes) -> None:
    """Pass lines on until the source ends, then close the sink."""
    for line in iter(source.readline, b""):
        log.write(arrow + line[:4000].rstrip(b"\n") + b"\n")
        log.flush()
        try:
            sink.write(line)
            sink.flush()
        except OSError:
            break
    log.write(arrow + b"(end)\n")
    log.flush()
    with contextlib.suppress(OSError):
        sink.close()


def main() -> int:
    with open(sys.argv[1], "ab") as log:
        server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert server.stdin is not None
        assert server.stdout is not None
        inward = (sys.stdin.buffer, server.stdin, log, b"--> ")
        threading.Thread(target=pump, args=inward, daemon=True).start()
        pump(server.stdout, sys.stdout.buffer, log, b"<-- ")
        code = server.wait()
        log.write(f"ended with {code}\n".encode())
        return code if code >= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
