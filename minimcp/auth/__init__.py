"""Authorization over HTTP: how a client gets a token, and how a server verifies one."""
