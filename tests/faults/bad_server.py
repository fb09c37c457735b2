"""``python bad_server.py FAULT``: a small server with one fault, for the tests of the runner. It
needs only the standard library.

Without a fault ("none") it passes the tested cases, so any finding is due to the fault.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

FAULT = sys.argv[1]
KNOWN = ("initialize", "ping", "tools/list", "tools/call")
hoard: List[Any] = []
asked: List[Any] = []


def say(message: Any) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def refuse(code: int, id: Any = None) -> None:
    """Return an error, with the id that the fault allows."""
    if FAULT == "silent":
        return
    id = None if FAULT == "nameless" else id
    say({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})


def constant(name: str) -> float:
    if FAULT != "lenient":
        raise ValueError(name)
    return 0.0


def members(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """An object; one with doubled members is marked."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else {**found, "doubled": True}


def read(line: bytes) -> Any:
    """The message of a line; None when it was refused."""
    try:
        text = line.lstrip(b"\xef\xbb\xbf").decode(
            "utf-8", "replace" if FAULT == "mangles" else "strict"
        )
        return json.loads(text, parse_constant=constant, object_pairs_hook=members)
    except (ValueError, RecursionError):
        if FAULT == "dies":
            os._exit(3)
        while FAULT == "hangs":
            time.sleep(60)
        refuse(-32700)
        return None


def result_of(method: str, params: Dict[str, Any]) -> Dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "serverInfo": {"name": "bad", "version": "0"},
        }
    if method == "tools/call":
        text = params.get("arguments", {}).get("text", "")
        asked.append(text)
        if FAULT == "prints":
            os.write(1, b"stray words\n")
        if FAULT == "swaps" and len(asked) > 1:
            text = asked[-2]
        return {"content": [{"type": "text", "text": text}]}
    return {}


def right(message: Dict[str, Any]) -> Optional[int]:
    """Return the error code of a request, or None if the request is valid."""
    params = message.get("params", {})
    if (
        message.get("jsonrpc") != "2.0"
        or not isinstance(message.get("method"), str)
        or "doubled" in message
    ):
        return -32600
    if not isinstance(params, dict) or not isinstance(params.get("arguments", {}), dict):
        return -32602
    if message["method"] == "tools/call" and params.get("name") != "echo":
        return -32602
    return None if message["method"] in KNOWN else -32601


def answer(message: Any) -> None:
    if isinstance(message, dict) and "method" not in message and {"result", "error"} & set(message):
        if FAULT == "answers":
            refuse(-32600, message.get("id"))
        return
    if not isinstance(message, dict) or ("id" in message and type(message["id"]) not in (int, str)):
        refuse(-32600)
    elif "id" not in message:
        note(message)
    elif right(message) is not None:
        refuse(right(message) or 0, message["id"])
    else:
        id = str(message["id"]) if FAULT == "texts" else message["id"]
        if FAULT == "slow" and message["method"] == "ping":
            time.sleep(0.2)
        times = (
            {"twice": 2, "forgets": 0}.get(FAULT, 1) if str(message["id"]).startswith("m") else 1
        )
        for _ in range(times):  # these are mutants
            say(
                {
                    "jsonrpc": "2.0",
                    "id": id,
                    "result": result_of(message["method"], message.get("params", {})),
                }
            )


def note(message: Any) -> None:
    if FAULT == "hoards":
        hoard.append(bytes(10_000))
    if "method" not in message:
        refuse(-32600)


def boom() -> None:
    raise RuntimeError("a thread of the server died")


def main() -> None:
    """Serve until the end of the input."""
    if FAULT == "dying":
        threading.Thread(target=boom).start()
    if FAULT == "stubborn":
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    buffer = b""
    while True:
        chunk = os.read(0, 1 << 20)
        if not chunk:
            break
        *lines, buffer = (buffer + chunk).split(b"\n")
        for line in lines:
            pieces = (
                line.replace(b"\xe2\x80\xa8", b"\n").split(b"\n") if FAULT == "splits" else [line]
            )
            for piece in filter(bytes.strip, pieces):
                message = read(piece)
                if (
                    FAULT == "impatient"
                    and isinstance(message, dict)
                    and message["method"] == "tools/call"
                ):
                    threading.Timer(
                        60, answer, (message,)
                    ).start()  # the end of the input is processed first
                elif message is not None or piece.strip() == b"null":
                    answer(message)
    if FAULT == "impatient":
        os._exit(0)
    while FAULT in ("stays", "stubborn"):
        time.sleep(60)
    sys.exit(4 if FAULT == "fails" else 0)


if __name__ == "__main__":
    main()
