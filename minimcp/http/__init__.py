"""MCP over HTTP, both roles: Streamable HTTP and the older HTTP+SSE."""
