"""Register a number of tools and list them in memory. Prints the CPU seconds for each tool."""

from __future__ import annotations

import json
import sys
import time

from minimcp import Server, connect


def forecast(city: str, days: int = 3, units: str = "metric") -> str:
    """Forecast it."""
    return city


count = int(sys.argv[1])
server = Server("tools")
before = time.process_time()
for number in range(count):
    server.add_tool(forecast, name=f"tool_{number}")
registered = time.process_time()
with connect(server) as client:
    connected = time.process_time()
    assert len(client.list_tools()) == count
    listed = time.process_time()
print(json.dumps({"register": (registered - before) / count, "list": (listed - connected) / count}))
