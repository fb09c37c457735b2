"""The results of a client have types."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Union

from typing_extensions import assert_type

import minimcp
from minimcp import (
    Answer,
    CallToolResult,
    CancelToken,
    Client,
    ElicitRequest,
    Group,
    LogMessage,
    Progress,
    Prompt,
    Resource,
    Tool,
)


def elicit(request: ElicitRequest) -> Optional[Dict[str, Any]]:
    assert_type(request.message, str)
    return {"days": 7}


def on_log(message: LogMessage) -> None:
    assert_type(message.level, str)


def on_progress(report: Progress) -> None:
    assert_type(report.progress, float)
    assert_type(report.message, Optional[str])


with minimcp.connect("server.py", elicit=elicit, on_log=on_log, timeout=5) as client:
    assert_type(client, Client)
    for tool in client.list_tools():
        assert_type(tool, Tool)
        assert_type(tool.name, str)
        assert_type(tool.description, Optional[str])
        assert_type(tool.hints.read_only, bool)
        assert_type(tool.as_openai(), Dict[str, Any])
    result = client.call_tool("forecast", {"city": "Oslo"}, timeout=30, on_progress=on_progress)
    assert_type(result, CallToolResult)
    assert_type(result.text, str)
    assert_type(result.is_error, bool)
    for block in result.content:
        if isinstance(block, minimcp.Image):
            assert_type(block.data, bytes)
    assert_type(client.list_resources(), List[Resource])
    assert_type(client.list_prompts(), List[Prompt])
    assert_type(client.read_resource("notes://1").text, Optional[str])
    assert_type(client.ping(), float)
    assert_type(client.complete("tone", "f", prompt="review").values, List[str])
    assert_type(client.request("resources/list"), Dict[str, Any])
    with client.listen(tools_list_changed=True) as changes:
        change = changes.next(timeout=5)
        assert_type(change.kind, str)
    results = client.call_tools([("a", {}), ("b", None)])
    assert_type(results, List[CallToolResult])
    both = client.call_tools([("a", {})], return_exceptions=True)
    assert_type(both, List[Union[CallToolResult, Exception]])
    future = client.submit(client.call_tool, "forecast", {"city": "Oslo"}, cancel=CancelToken())
    assert_type(future.result(), CallToolResult)
    client.submit(client.call_tool, 5)  # wrong: a name is text
    client.call_tool(5)  # wrong: a name is text
    client.call_tool("x", ["Oslo"])  # wrong: arguments have names
    client.call_tool("x", timeout="5")  # wrong: seconds
    client.list_tool()  # wrong: no such method
    client.read_resource(uri=Path("x"))  # wrong: a URI is text
    client.call_tool("x", on_progress=on_log)  # wrong: takes a Progress

minimcp.connect("server.py", timeout="5")  # wrong: seconds
minimcp.connect("server.py", elicit=on_progress)  # wrong: takes a question
minimcp.connect(5)  # wrong: no target
with minimcp.connect_all("mcp.json") as group:
    assert_type(group, Group)
    assert_type(group.clients["x"], Client)
    assert_type(group.call_tool("x__y", {}).text, str)
try:
    pass
except minimcp.ToolError as error:
    assert_type(error.result, Optional[CallToolResult])
except minimcp.RpcError as error:
    assert_type(error.code, int)
assert_type(Answer("accept", {"a": 1}).action, str)
