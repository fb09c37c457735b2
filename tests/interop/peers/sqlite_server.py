"""The package mcp-server-sqlite as it came: it has a command, and no module that runs."""

from __future__ import annotations

from mcp_server_sqlite import main

if __name__ == "__main__":
    main()
