"""`record`, `replay` and `replay_against`: a session without its server, and without its client."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any, Dict, List

import pytest

from minimcp import Context, InvalidParams, MethodNotFound, RequestTimeout, Server, connect
from minimcp.protocol.versions import NEWEST_HANDSHAKE, REVISIONS
from minimcp.testing import (
    ScriptedClient,
    ScriptedPeer,
    ScriptedServer,
    Transcript,
    record,
    recording,
    replay,
    replay_against,
)

from ..support import WAIT, eventually

MODERN = REVISIONS[-1].name
for_eras = pytest.mark.parametrize("revision", [NEWEST_HANDSHAKE.name, MODERN])


def library(*, late: int = 0) -> Server:
    """A server of which every call differs from the one before."""
    server, times = (
        Server("library", capabilities={"resources": {"subscribe": True}}),
        iter(range(late, 1000)),
    )

    @server.tool
    def lend(title: str, ctx: Context) -> str:
        """Lend a book."""
        ctx.progress(1, 2, "looking")
        ctx.info({"looking": title})
        return f"{title}, number {next(times)}"

    @server.tool
    def ask(title: str, ctx: Context) -> Dict[str, Any]:
        """Ask for how long."""
        days = ctx.elicit(f"How long do you want {title}?", {"days": int}).require()["days"]
        return {"days": days, "at": f"{next(times)} o'clock"}

    @server.tool
    def shelve(title: str) -> str:
        """Put it back."""
        server.resource_updated("book://all")
        return title

    @server.resource("book://all")
    def books() -> str:
        """All."""
        return ", ".join(["Emma"] * 3)

    return server


def visit(target: Any, revision: str, **options: Any) -> List[Any]:
    """Return everything that a client receives from the target."""
    seen: List[Any] = []
    logs: List[Any] = []
    with connect(target, revision=revision, on_log=logs.append, timeout=WAIT, **options) as client:
        seen.append([tool.name for tool in client.list_tools()])
        for title in ("Emma", "Emma", "Persuasion"):
            on_progress = (lambda report: seen.append(report.progress)) if title == "Emma" else None
            seen.append(client.call_tool("lend", {"title": title}, on_progress=on_progress).text)
        seen.append(client.call_tool("ask", {"title": "Emma"}).value)
        seen.append(client.read_resource("book://all").text)
        with pytest.raises(InvalidParams):
            client.call_tool("burn")
        assert eventually(lambda: len(logs) == 3)
    return [*seen, [each.data for each in logs]]


def answer(request: Any) -> Dict[str, int]:
    return {"days": 7}


@for_eras
def test_a_replayed_client_needs_no_server(revision: str, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    seen = visit(library(), revision, elicit=answer, trace=record(file))
    assert "Emma, number 1" in seen and 1 in seen
    assert visit(replay(file), revision, elicit=answer) == seen
    assert visit(replay(file), revision, elicit=answer) == seen, "a connection begins it anew"


@for_eras
def test_a_replayed_server_needs_no_client(revision: str, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    visit(library(), revision, elicit=answer, trace=record(file))
    replay_against(library(), file, timeout=WAIT)
    with pytest.raises(AssertionError) as differing:
        replay_against(library(late=1), file, timeout=WAIT)
    lines = str(differing.value).splitlines()
    assert lines[:5] == [
        f"the server differs from {file}:",
        'the response to tools/call {"arguments": {"title": "Emma"}, "name": "lend"} differs:',
        "  result.content.0.text",
        "    - 'Emma, number 0'",
        "    + 'Emma, number 1'",
    ]
    replay_against(library(late=1), file, ignore=["content.0.text", "at"], timeout=WAIT)


@for_eras
def test_a_session_over_http_is_replayed_in_memory(revision: str, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    with library().start_http() as running:
        seen = visit(running.url, revision, elicit=answer, trace=record(file))
    assert "Unknown tool: burn" in file.read_text(), (
        "also what comes with a status of HTTP that is no success"
    )
    assert visit(replay(file), revision, elicit=answer) == seen
    replay_against(library(), file, timeout=WAIT)


def test_the_server_may_record_too(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    server = Server("recorded", trace=record(file))
    server.add_tool(lambda: "", name="nothing", description="Nothing.")
    for _ in range(2):
        with connect(server, revision=NEWEST_HANDSHAKE.name) as client:
            client.call_tool("nothing")
        with connect(replay(file)) as client:
            assert (client.revision, client.call_tool("nothing").text) == (
                NEWEST_HANDSHAKE.name,
                "",
            )


@for_eras
def test_the_error_for_an_unrecorded_request_names_similar_ones(
    revision: str, tmp_path: Path
) -> None:
    file = tmp_path / "session.jsonl"
    visit(library(), revision, elicit=answer, trace=record(file))
    with connect(replay(file), revision=revision) as client:
        with pytest.raises(InvalidParams) as wrong:
            client.call_tool("lend", {"title": "Persuasian"})
        assert wrong.value.message == (
            f'{file} has no response to tools/call {{"arguments": {{"title": "Persuasian"}}, "name": "lend"}}; '
            'the nearest is tools/call {"arguments": {"title": "Persuasion"}, "name": "lend"}'
        )
        with pytest.raises(
            MethodNotFound, match="has no response to vendor/thing {}; the nearest is "
        ):
            client.request("vendor/thing")
        client.notify("notifications/vendor")
        assert client.call_tool("lend", {"title": "Persuasion"}).text == "Persuasion, number 2"
        assert client.call_tool("lend", {"title": "Persuasion"}).text == "Persuasion, number 2", (
            "the last is for ever"
        )


@for_eras
def test_changes_are_replayed_in_their_place(revision: str, tmp_path: Path) -> None:
    def follow(target: Any, **options: Any) -> List[str]:
        changed = threading.Event()
        with connect(
            target, revision=revision, on_resource_updated=lambda uri: changed.set(), **options
        ) as client:
            client.subscribe("book://all")
            assert client.read_resource("book://all").text and not changed.is_set()
            client.call_tool("shelve", {"title": "Emma"})
            assert changed.wait(WAIT)
            return [client.call_tool("lend", {"title": "Emma"}).text]

    file = tmp_path / "session.jsonl"
    seen = follow(library(), trace=record(file))
    assert follow(replay(file)) == seen


def test_calls_at_the_same_time_get_their_own_answers(tmp_path: Path) -> None:
    calls = [("shelve", {"title": f"{number}"}) for number in range(20)]
    file = tmp_path / "session.jsonl"
    with connect(library(), trace=record(file)) as client:
        client.call_tools(calls)
    with connect(replay(file)) as client:
        assert [each.text for each in client.call_tools(calls[::-1])] == [
            f"{number}" for number in range(20)
        ][::-1]


SECRETS: Dict[str, Any] = {
    "password": "hunter2",
    "apiKey": "k-1",
    "X-Api-Key": "k-2",
    "client_secret": "s-1",
    "accessToken": "t-1",
    "GITHUB_TOKEN": "t-2",
    "credentials": {"user": "ada", "words": ["a-1", "a-2"]},
    "pin": 4711,
    "said": 'Authorization: Bearer b-1, token=t-3 and {"password": "p-1"} at https://ada:p-2@x.org sk-0123456789ab',
}
KEPT = {
    "progressToken": "kept-1",
    "nextPageToken": "kept-2",
    "maxTokens": 7,
    "tokens": 8,
    "key": "kept-3",
    "secret": True,
}


def test_secrets_are_scrubbed(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    write = record(file, scrub=["pin", "Mr. Knightley"])
    schema = {"properties": {"password": {"type": "string", "default": "Mr. Knightley"}}}
    write(
        "-->",
        json.dumps({"jsonrpc": "2.0", "id": "pin", "method": "pin", "params": {**SECRETS, **KEPT}}),
    )
    write("<--", json.dumps([{"jsonrpc": "2.0", "id": "pin", "result": {"schema": schema}}, 7]))
    write("<--", "password: p-3")
    asked, answered, *noise = [
        json.loads(line)["message"] for line in file.read_text().splitlines()
    ]
    assert noise == ["7", "password: [scrubbed]"]
    assert (asked["id"], asked["method"], answered["id"]) == ("pin", "pin", "pin")
    params = asked["params"]
    assert {name: params.pop(name) for name in KEPT} == KEPT
    assert params.pop("credentials") == {"user": "[scrubbed]", "words": ["[scrubbed]"] * 2}
    assert params.pop("said") == (
        'Authorization: Bearer [scrubbed], token=[scrubbed] and {"password": "[scrubbed]"} '
        "at https://ada:[scrubbed]@x.org [scrubbed]"
    )
    assert {*params.values()} == {"[scrubbed]"}
    assert answered["result"]["schema"] == {
        "properties": {"password": {"type": "string", "default": "[scrubbed]"}}
    }


def test_long_texts_are_scrubbed_in_linear_time(tmp_path: Path) -> None:
    write, spent = record(tmp_path / "session.jsonl"), []
    for text in (
        "ab-" * 10_000,
        "x" * 30_000,
        "eyJa." * 6_000,
        "https://a:" * 3_000,
        "token" * 6_000,
    ):
        begun = time.thread_time()
        write("-->", json.dumps({"method": "m", "params": {"text": text}}))
        spent.append(time.thread_time() - begun)
    assert max(spent) < 1.0


@for_eras
def test_a_scrubbed_recording_can_be_replayed(revision: str, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    server = Server("vault")

    @server.tool
    def unlock(password: str) -> str:
        """Unlock."""
        return "open"

    with connect(server, revision=revision, trace=record(file)) as client:
        client.call_tool("unlock", {"password": "hunter2"})
    assert "hunter2" not in file.read_text()
    with connect(replay(file), revision=revision) as client:
        assert client.call_tool("unlock", {"password": "hunter3"}).text == "open"
    replay_against(server, file, timeout=WAIT)


def test_a_missing_message_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client(ScriptedClient):
        def expect(self, *names: str) -> Any:
            self._aside.append(super().expect("result"))  # another message, however late it arrives
            self.timeout = 0.01
            return super().expect(*names)

    file = tmp_path / "session.jsonl"
    visit(library(), NEWEST_HANDSHAKE.name, elicit=answer, trace=record(file))
    lines = file.read_text().splitlines(True)
    file.write_text(
        "".join(
            line
            for line in lines
            if '"sure"' not in line and '"method":"notifications/' not in line
        )
    )
    replay_against(library(), file, timeout=WAIT)
    changed = file.read_text().replace('"name":"ask"', '"name":"lend"')
    file.write_text(changed)
    monkeypatch.setattr(recording, "ScriptedClient", Client)
    # The server sends no request before `notifications/initialized`, which is omitted here.
    monkeypatch.setattr("minimcp.engine.asking.INITIALIZED_SECONDS", 0.05)
    with pytest.raises(
        AssertionError, match=r"no elicitation/create within 0.01 s, but \{.*number 3"
    ):
        replay_against(library(), file, timeout=WAIT)


def test_a_call_that_was_given_up_has_no_answer(tmp_path: Path) -> None:
    def silent(peer: ScriptedPeer) -> None:
        peer.expect("server/discover")
        peer.expect("tools/call")
        peer.expect("never")

    file = tmp_path / "session.jsonl"
    with connect(ScriptedServer(silent), probe_timeout=0.01, trace=record(file)) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("lend", timeout=0.01)
    with connect(replay(file)) as client:  # at once, however long the probe may last
        assert client.revision == NEWEST_HANDSHAKE.name
        with pytest.raises(MethodNotFound, match='has no response to tools/call {"name": "lend"}'):
            client.call_tool("lend")


def test_an_invalid_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        record(tmp_path)
    with pytest.raises(OSError):
        replay(tmp_path / "nothing.jsonl")
    file = tmp_path / "session.jsonl"
    for text in ("rubbish", "{}"):
        file.write_text(text)
        with pytest.raises((ValueError, LookupError)):
            replay(file)


def test_the_lines_have_the_members_of_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    transcript = Transcript()
    with connect(library(), trace=record(file)), connect(library(), trace=transcript):
        pass
    transcript.save(tmp_path / "trace.jsonl")
    members = [
        list(json.loads(line)) for line in (tmp_path / "trace.jsonl").read_text().splitlines()
    ]
    assert [list(json.loads(line)) for line in file.read_text().splitlines()] == members
    assert Transcript.load(file).methods() == ["server/discover"]
