"""The official conformance suite against a server and a client of ours: `python -m
tests.conformance`."""
