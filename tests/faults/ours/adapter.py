"""The adapter for the client of minimcp. The docstring of tests.faults describes its commands and
answers."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import minimcp  # noqa: E402


class Adapter:
    """One client, and the commands that are given to it, each on a thread of its own."""

    def __init__(self) -> None:
        self.client: Optional[minimcp.Client] = None
        self.lock = threading.Lock()

    def say(self, answer: Dict[str, Any]) -> None:
        line = json.dumps(answer) + "\n"
        with self.lock:
            sys.stdout.write(line)
            sys.stdout.flush()

    def run(self, command: Dict[str, Any]) -> None:
        """Execute a command, and answer it."""
        try:
            found = getattr(self, "do_" + command["do"])(command)
        except minimcp.McpError as error:
            found = {"ok": False, "error": type(error).__name__, "message": str(error)}
        except Exception as error:
            found = {"ok": False, "error": f"untyped {type(error).__name__}", "message": str(error)}
        self.say({"n": command["n"], "ok": True, **found})

    def do_open(self, command: Dict[str, Any]) -> Dict[str, Any]:
        """Connect. The server's stderr is drained and dropped."""
        common = {
            "connect_timeout": command["timeout"],
            "on_log": self.callback(command["on_log"]) if "on_log" in command else None,
            "elicit": self.callback("wait", command["elicit"]) if "elicit" in command else None,
        }
        if "url" in command:
            self.client = minimcp.connect(command["url"], headers=command.get("headers"), **common)
            return {}
        self.client = minimcp.connect(
            command["command"],
            cwd=command.get("cwd"),
            env=command.get("env"),
            stderr=lambda line: None,
            **common,
        )
        return {}

    def callback(self, what: str, seconds: float = 10) -> Callable[[Any], Any]:
        """Return the callback for log messages, questions or progress, by its name."""
        return {
            "call": lambda message: self.connected().call_tool(
                "echo", {"text": "from a callback"}, timeout=5
            ),
            "raise": lambda message: 1 / 0,
            "block": lambda message: threading.Event().wait(10),
            "slow": lambda message: threading.Event().wait(0.01),
            "wait": lambda question: threading.Event().wait(seconds) or None,
            "close": lambda message: self.connected().close(),
        }[what]

    def connected(self) -> minimcp.Client:
        if self.client is None:
            raise minimcp.ConnectionLost("not open")
        return self.client

    def do_call(self, command: Dict[str, Any]) -> Dict[str, Any]:
        token = minimcp.CancelToken()
        if "cancel_after" in command:
            threading.Timer(command["cancel_after"], token.cancel).start()
        result = self.connected().call_tool(
            command["tool"], command["arguments"], timeout=command["timeout"], cancel=token,
            on_progress=self.callback("slow") if "progress" in command else None,
        )  # fmt: skip
        return {"text": result.text}

    def do_list(self, command: Dict[str, Any]) -> Dict[str, Any]:
        return {
            "count": len(self.connected().list_tools(timeout=command["timeout"], cache="refresh"))
        }

    def do_close(self, command: Dict[str, Any]) -> Dict[str, Any]:
        if self.client is not None:
            self.client.close()
        return {}


def main() -> None:
    """Take commands until there are no more."""
    adapter = Adapter()
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "leave":
            break
        threading.Thread(target=adapter.run, args=(command,), daemon=True).start()


if __name__ == "__main__":
    main()
