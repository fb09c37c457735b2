"""A connection with its threads: transport, reader, writer, calls, requests, worker pool, timer."""
