"""The server as a WSGI application in real hosts: `python -m tests.hosts`."""
