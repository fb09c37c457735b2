"""One connection with its threads: transport, reader, writer, requests, worker pool, timer."""
