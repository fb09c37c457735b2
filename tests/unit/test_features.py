"""The interface of features: what one may do to entries, and which are loaded when."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional

import pytest

import minimcp
from minimcp import InvalidParams, MethodNotFound, ResourceNotFound, Server
from minimcp.server.feature import FEATURES, load
from minimcp.server.registry import CAPABILITIES, Logging
from minimcp.server.tools import Tools

from ..answering import R4, R5, REVISIONS
from ..support import ROOT, WAIT


class Guard(minimcp.Extension):
    """Hides the feature named secret, rejects the argument "stop", and marks the requests that it
    has seen."""

    identifier = "com.example/guard"

    def __init__(self) -> None:
        self.seen: List[str] = []

    def uses(self, entry: Any) -> bool:
        return entry.kind != "method"

    def is_listed(self, entry: Any, request: Any) -> bool:
        info: Dict[str, Any] = request.peer.info
        return "secret" not in entry.key or info.get("name") == "admin"

    def before_call(self, entry: Any, request: Any) -> Optional[Any]:
        if (request.request.params.get("arguments") or {}).get("text") == "stop":
            raise InvalidParams("stopped before the call")
        return None

    def around_call(self, entry: Any, request: Any, call_next: Callable[[], Any]) -> Any:
        self.seen.append(f"{entry.key} begins")
        try:
            return call_next()
        finally:
            self.seen.append(f"{entry.key} ends")


def guarded(guard: Guard) -> Server:
    server = Server("guarded", extensions=[guard])

    @server.tool
    def echo(text: str) -> str:
        """Echo."""
        return text

    @server.tool
    def secret_echo(text: str) -> str:
        """Echo."""
        return text

    @server.resource("secret://{name}")
    def secret(name: str) -> str:
        """A secret."""
        return name

    @server.resource("notes://all")
    def notes() -> str:
        """Notes."""
        return "none"

    @server.prompt
    def secret_prompt() -> str:
        """Ask."""
        return "?"

    return server


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_feature_hides_rejects_and_surrounds(revision: str) -> None:
    guard = Guard()
    server = guarded(guard)
    with minimcp.connect(server, revision=revision, timeout=WAIT) as client:
        assert [tool.name for tool in client.list_tools()] == ["echo"]
        assert client.list_prompts() == [] and client.list_resource_templates() == []
        assert client.call_tool("echo", {"text": "a"}).text == "a"
        assert client.read_resource("notes://all").text == "none"
        assert guard.seen == ["echo begins", "echo ends", "notes://all begins", "notes://all ends"]
        with pytest.raises(InvalidParams, match="stopped before the call"):
            client.call_tool("echo", {"text": "stop"})
        with pytest.raises(InvalidParams, match="Unknown tool: secret_echo"):
            client.call_tool("secret_echo", {"text": "a"})
        with pytest.raises(InvalidParams, match="Unknown prompt: secret_prompt"):
            client.get_prompt("secret_prompt")
        with pytest.raises(ResourceNotFound):
            client.read_resource("secret://x")
        assert len(guard.seen) == 4
    admin = {"client_info": minimcp.Implementation("admin", "1")}
    with minimcp.connect(server, revision=revision, timeout=WAIT, **admin) as client:
        assert [tool.name for tool in client.list_tools()] == ["echo", "secret_echo"]
        assert client.call_tool("secret_echo", {"text": "a"}).text == "a"
        assert client.read_resource("secret://x").text == "x"


def test_a_mounted_entry_passes_the_features_of_the_server_that_mounts_it() -> None:
    guard = Guard()
    outer = Server("outer", extensions=[guard])
    inner = guarded(Guard())
    outer.mount(inner, prefix="in")
    with minimcp.connect(outer, timeout=WAIT) as client:
        assert [tool.name for tool in client.list_tools()] == ["in__echo"]
        assert client.call_tool("in__echo", {"text": "a"}).text == "a"
    assert guard.seen == ["in__echo begins", "in__echo ends"]


@pytest.mark.parametrize("revision", [R4, R5])
def test_features_that_are_not_offered_are_not_served(revision: str) -> None:
    server = Server("bare")
    methods = {"prompts/list": "prompts", "resources/read": "resources", "tools/list": "tools"}
    with minimcp.connect(server, revision=revision, timeout=WAIT) as client:
        for method, kind in methods.items():
            with pytest.raises(
                MethodNotFound, match=f"{method}: this server does not declare {kind}"
            ):
                client.request(method, {"uri": "a:b"})
        server.add_prompt(lambda: "?", name="late")
        assert client.request("prompts/list")["prompts"][0]["name"] == "late"


def test_the_capabilities_are_those_of_the_features() -> None:
    features = [getattr(load(place.module), place.name) for place in FEATURES.values()]
    found = {each.capability for each in features} - {None}
    always_loaded = {Logging.capability, Tools.capability}
    assert found | always_loaded == {*CAPABILITIES} and not found & always_loaded


def test_only_modules_of_the_table_are_loaded_late() -> None:
    assert load("features.prompts").Prompts.capability == "prompts"
    with pytest.raises(KeyError, match="cli.bridge is not in the table"):
        load("cli.bridge")


HELLO = """
import json, sys
sys.path.insert(0, {root!r})
import minimcp
server = minimcp.Server("hello")
@server.tool
def greet(name: str) -> str:
    "Greet somebody."
    return f"Hello, {{name}}!"
with minimcp.connect(server, revision={revision!r}) as client:
    client.list_tools()
    assert client.call_tool("greet", {{"name": "Ada"}}).text == "Hello, Ada!"
print(json.dumps([name for name in sys.modules if name.startswith("minimcp.")]))
"""

LATE = "access completion executors input_rounds methods mounting observers prompts questions rates resources subscriptions"


@pytest.mark.parametrize("revision", [R4, R5])
def test_a_server_with_tools_loads_no_other_feature(revision: str) -> None:
    program = HELLO.format(root=str(ROOT), revision=revision)
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, timeout=WAIT
    )
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert not loaded & {f"minimcp.features.{name}" for name in LATE.split()}
    assert not {name for name in loaded if name.startswith(("minimcp.stores", "minimcp.http"))}


@pytest.mark.parametrize(("members", "declared"), [
    (None, {"extensions": {"com.example/notes": {"x": 1}}}),
    ({}, {}),
    ({"notes": {}}, {"notes": {}, "extensions": {"com.example/notes": {"x": 1}}}),
    ({"notes": {}, "extensions": None}, {"notes": {}}),
    ({"extensions": {"com.example/notes": {"y": 2}}}, {"extensions": {"com.example/notes": {"y": 2}}}),
    ({"tools": {"y": 2}}, {"tools": {"listChanged": True, "y": 2}, "extensions": {"com.example/notes": {"x": 1}}}),
])  # fmt: skip
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_extension_declares_itself_beside_other_members(
    revision: str, members: Any, declared: Any
) -> None:
    class Notes(minimcp.Extension):
        identifier = "com.example/notes"
        settings = {"x": 1}

        def declare(self, revision: Any, principal: Any) -> Any:
            return super().declare(revision, principal) if members is None else members

    server = Server("notes", extensions=[Notes()], capabilities={"tools"})
    with minimcp.connect(server, revision=revision, timeout=WAIT) as client:
        found = dict(client.capabilities)
    found.pop("logging", None)
    assert found == {"tools": {"listChanged": True}, **declared}
