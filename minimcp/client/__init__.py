"""The client role: `Client`, `connect`, and what answers the server's requests."""
