"""Other people's clients and servers against ours, over stdio and HTTP, in environments of their
own.

`python -m tests.interop` prints the grid. A peer is one entry of `roster.PEERS`; a session is one
process that prints its checks as one JSON object, `{"name": true or "why not"}`. Over HTTP the
variable PORT holds the server's port, and the server must exit on SIGTERM.
"""
