"""A call that takes long can be a task: it is answered at once, and the client follows it until it
has ended.

You will see a loaf baked in two revisions, one task that is cancelled, and one that another process
finds with nothing but its id.

The tool is a plain function. In 2025-11-25 the client requests a task. Since 2026-07-28 the server
decides, for clients that declare the extension. In both cases `call_tool` hides the task, and
`start_task` returns an object for it. A question changes the status of the task to
"input_required", and progress reports become its status message. A `SqliteStore` keeps finished
tasks across a restart, and reports that the process of the others has ended.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks (up to then)
https://modelcontextprotocol.io/seps/2663-tasks-extension (since 2026-07-28)
"""

from __future__ import annotations

import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import minimcp
from minimcp import Context, SqliteStore, Tasks

oven_is_hot = threading.Event()


def bakery(store: minimcp.Store) -> minimcp.Server:
    server = minimcp.Server("bakery", extensions=[Tasks(store, poll_interval=0.05)])

    @server.tool(task="optional")  # "required": only as a task
    def bake(loaves: int, ctx: Context) -> str:
        """Bake bread. The user chooses the seeds."""
        ctx.progress(1, 2, "kneaded")
        while not oven_is_hot.wait(0.05):
            ctx.check()  # raises Cancelled if the task is cancelled
        seeds = ctx.elicit("Which seeds?", {"seeds": str}).require()["seeds"]
        return f"{loaves} loaves with {seeds}"

    return server


server = bakery(minimcp.MemoryStore())  # the default of Tasks()


def show(client: minimcp.Client) -> None:
    oven_is_hot.clear()
    task = client.start_task("bake", {"loaves": 3})
    print("  started:", task.status)
    while task.status_message != "kneaded":
        task.refresh()
    print("  later:", task.status, "-", task.status_message)
    oven_is_hot.set()
    print("  ended:", task.result().text)


if __name__ == "__main__":
    user: dict[str, Any] = {"elicit": lambda request: {"seeds": "poppy"}, "extensions": [Tasks()]}
    for revision in ("2025-11-25", "2026-07-28"):
        print(revision)
        with minimcp.connect(server, revision=revision, **user) as client:
            show(client)
            print("  call_tool waits:", client.call_tool("bake", {"loaves": 1}).text)
            oven_is_hot.clear()
            (task := client.start_task("bake", {"loaves": 1000})).cancel()
            print("  cancelled:", task.wait())
            oven_is_hot.set()

    with tempfile.TemporaryDirectory() as folder:
        path, id = Path(folder) / "tasks.db", ""
        for _ in range(2):  # as if in two processes, one after the other
            with (
                closing(SqliteStore(path)) as store,
                minimcp.connect(bakery(store), **user) as client,
            ):
                task = client.task(id) if id else client.start_task("bake", {"loaves": 12})
                print("Found again:" if id else "Stored:", task.result().text)
                id = task.id

# Exercise: add a tool `knead(minutes: int, ctx: Context) -> str` to the bakery, which runs only as a
# task. It reports progress for each minute, with the message "minute 1" and so on (do not sleep),
# and returns "kneaded".
# Check it with  python3 examples/check.py 17
