"""Subjects for other people's libraries, run in environments that have these; they are no part of CI.

In an environment with the official SDK, 1.x or 2.x, on a machine that does nothing else::

    python -m tests.faults --name "mcp 2.3.0" --server "PYTHON tests/faults/peers/sdk_server.py" \\
        --client "PYTHON tests/faults/peers/sdk_adapter.py" \\
        --http "PYTHON tests/faults/peers/sdk_server.py {port}" --json sdk.json
    python -m tests.faults --table ours.json sdk.json

where PYTHON is that environment's, and the runner's own may be any. On a busy machine a library that starts slowly
is blamed for what the machine does.
"""
