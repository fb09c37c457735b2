"""The server role: `Server`, its registry and what handlers use."""
