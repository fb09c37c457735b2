"""Our own subjects: an adapter for our client. Our server is tests/wire/servers/plain.py."""
