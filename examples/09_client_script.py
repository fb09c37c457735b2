"""A client sets a time limit for each call, makes many calls at once, and cancels calls that
it does not need.

You will see progress, a call that takes too long, calls at once and in the background, and two lost
connections.

The server is a file, which is started as a child process and stopped by the `with` block. Any other
server works too, in any language: pass its command to `connect`. Every call accepts `timeout=`, in
seconds for the whole call, and `cancel=`. Each kind of failure has its own exception.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import sys
from pathlib import Path

import minimcp

KITCHEN = [sys.executable, str(Path(__file__).with_name("07_progress_and_cancel.py")), "serve"]


def show(report: minimcp.Progress) -> None:
    """Print a report. The thread that waits for the call runs this, before the call returns."""
    print(f"  {report.progress} of {report.total}: {report.message}")


def brief(error: Exception) -> str:
    """Return the message without the server's command line at its beginning."""
    return str(error).partition(" serve: ")[2]


def main() -> None:
    with minimcp.connect(KITCHEN, timeout=30) as client:  # the default of every call, in seconds
        print("progress:")
        print(client.call_tool("cook", {"dishes": 3}, on_progress=show).text)

        print("timeout:")
        try:
            client.call_tool("cook", {"dishes": 1, "seconds_each": 600}, timeout=0.05)
        except minimcp.RequestTimeout as error:  # also a TimeoutError; the server is notified
            print(f"  {brief(error)}")

        print("many calls at once, results in the order of the calls:")
        for outcome in client.call_tools(
            [("cook", {"dishes": 1}), ("cook", {"dishes": "two"}), ("wash", {"plates": ["pan"]})],
            return_exceptions=True,
        ):
            print(f"  {outcome}" if isinstance(outcome, Exception) else f"  {outcome.text}")

        print("in the background:")
        quick = client.submit(client.call_tool, "cook", {"dishes": 4})
        slow = client.submit(client.call_tool, "cook", {"dishes": 1, "seconds_each": 600})
        print("  the quick one:", quick.result(timeout=10).text)
        print("  the slow one is cancelled:", slow.cancel(), slow.cancelled())  # on the server, too

    try:
        client.ping()
    except minimcp.ConnectionLost as error:
        print("after the end:", brief(error))
    try:
        minimcp.connect(
            [sys.executable, "-c", "raise SystemExit('the oven is cold')"], stderr=lambda line: None
        )
    except minimcp.ConnectionFailed as error:
        print(
            "a server that does not start:",
            type(error).__name__,
            error.exit_code,
            error.stderr_tail.splitlines(),
        )


if __name__ == "__main__":
    main()

# Exercise: write a function `first_report(client) -> str`. It calls `cook` with 3 dishes of 600
# seconds each, cancels the call at its first report, and returns the message of that report.
# `minimcp.CancelToken` cancels a call.
# Check it with  python3 examples/check.py 9
