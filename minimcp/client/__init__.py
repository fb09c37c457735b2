"""The client role: `connect`, `Client`, and the host's functions that answer the server's
requests."""
