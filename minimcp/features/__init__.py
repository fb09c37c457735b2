"""Everything that a server can offer in addition to tools, one file for each feature.

Each file is loaded on first use. `minimcp.server.feature` describes the interface of a feature and
lists the files.
"""
