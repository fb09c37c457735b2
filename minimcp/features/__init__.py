"""Everything that a server can offer beside tools, one file each. Each file is loaded on first use.

`minimcp.server.feature` describes the interface of a feature and lists the files.
"""
