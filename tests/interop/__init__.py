"""Other people's clients and servers against ours, over stdio, in environments of their own.

`python -m tests.interop` prints the grid. A peer is one entry of `roster.PEERS`; a session is one process
that prints its checks as one JSON object, `{"name": true or "why not"}`.
"""
