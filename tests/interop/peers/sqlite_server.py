"""The unchanged package mcp-server-sqlite, which has a command but no module to run."""

from __future__ import annotations

from mcp_server_sqlite import main

if __name__ == "__main__":
    main()
