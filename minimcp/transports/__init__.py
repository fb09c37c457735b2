"""How messages get from one peer to the other: memory, a child process, the standard streams, HTTP. Floor 5.

`lines` is the folder's base for pipes, `http_common` for HTTP; the other files use these, and those that they were
split into.
"""
