"""Servers that people really run, driven whole by a minimcp client: files, a graph, time, git, fetch, a database.

Each session has the working folder of its client to itself; what a server needs to be there, its checks make there.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any, Iterator

import minimcp

from .checking import UNICODE, Peer, checks, expect, expect_raised
from .tool_checks import check_ping, check_refused, check_unknown_method, check_unknown_tool

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d4944415478da6364f8cf500f0003860180 5a34da6b0000000049454e44ae426082".replace(" ", "")
)
BASICS = {"ping": check_ping, "unknown_tool": check_unknown_tool, "unknown_method": check_unknown_method}


def listed(*names: str) -> Any:
    """A check that a server has these tools, each with a schema, and no others."""

    def check_list(peer: Peer) -> None:
        tools = peer.client.list_tools()
        expect(sorted(tool.name for tool in tools), sorted(names))
        expect({tool.input_schema["type"] for tool in tools}, {"object"})

    return check_list


def text_of(peer: Peer, name: str, arguments: Any = None) -> str:
    text: str = peer.call(name, arguments).text
    return text


def json_of(peer: Peer, name: str, arguments: Any = None) -> Any:
    return json.loads(text_of(peer, name, arguments))


# ------------------------------------------------------------ server-filesystem


def here(*parts: str) -> str:
    return os.path.join(os.getcwd(), *parts)


def check_write_and_read(peer: Peer) -> None:
    peer.call("write_file", {"path": here("a.txt"), "content": f"one\n{UNICODE}\nthree\n"})
    expect(Path("a.txt").read_text("utf-8").split("\n")[1], UNICODE)
    expect(UNICODE in text_of(peer, "read_text_file", {"path": here("a.txt")}), True)
    expect(text_of(peer, "read_text_file", {"path": here("a.txt"), "head": 1}).strip(), "one")
    expect("three" in text_of(peer, "read_file", {"path": here("a.txt"), "tail": 2}), True)
    both = text_of(peer, "read_multiple_files", {"paths": [here("a.txt"), here("none.txt")]})
    expect(UNICODE in both and "none.txt" in both, True)


def check_media(peer: Peer) -> None:
    Path("dot.png").write_bytes(PIXEL)
    (block,) = peer.call("read_media_file", {"path": here("dot.png")}).content
    expect((block.type, block.mime_type, block.data), ("image", "image/png", PIXEL))


def check_edit(peer: Peer) -> None:
    Path("b.txt").write_text("one\ntwo\n", "utf-8")
    edits = [{"oldText": "two", "newText": "zwei"}]
    expect("+zwei" in text_of(peer, "edit_file", {"path": here("b.txt"), "edits": edits, "dryRun": True}), True)
    expect(Path("b.txt").read_text("utf-8"), "one\ntwo\n")
    peer.call("edit_file", {"path": here("b.txt"), "edits": edits})
    expect(Path("b.txt").read_text("utf-8"), "one\nzwei\n")


def check_folders(peer: Peer) -> None:
    peer.call("create_directory", {"path": here("d", "e")})
    Path("d/e/f.txt").write_text("f", "utf-8")
    expect("[DIR] e" in text_of(peer, "list_directory", {"path": here("d")}), True)
    expect("f.txt" in text_of(peer, "list_directory_with_sizes", {"path": here("d", "e")}), True)
    tree = json_of(peer, "directory_tree", {"path": here("d")})
    expect((tree[0]["name"], tree[0]["children"][0]["name"]), ("e", "f.txt"))
    peer.call("move_file", {"source": here("d", "e", "f.txt"), "destination": here("d", "g.txt")})
    expect(Path("d/g.txt").read_text("utf-8"), "f")
    expect("g.txt" in text_of(peer, "search_files", {"path": here(), "pattern": "**/g.txt"}), True)
    expect("size: 1" in text_of(peer, "get_file_info", {"path": here("d", "g.txt")}), True)


def check_roots(peer: Peer) -> None:
    expect(os.path.realpath(os.getcwd()) in text_of(peer, "list_allowed_directories"), True)


def check_outside(peer: Peer) -> None:
    check_refused(peer, "read_text_file", {"path": "/etc/hostname"})
    check_refused(peer, "read_text_file", {"path": here("..", "..", "etc", "hostname")})
    check_refused(peer, "read_text_file", {"path": 5})


FILESYSTEM = checks(
    list=listed(
        "read_file", "read_text_file", "read_media_file", "read_multiple_files", "write_file", "edit_file",
        "create_directory", "list_directory", "list_directory_with_sizes", "directory_tree", "move_file",
        "search_files", "get_file_info", "list_allowed_directories",
    ),
    write_and_read=check_write_and_read, media=check_media, edit=check_edit, folders=check_folders,
    roots=check_roots, outside=check_outside, **BASICS,
)


# ------------------------------------------------------------ server-memory

ADA = {"name": "Ada", "entityType": "person", "observations": ["counts å"]}
ENGINE = {"name": "Engine", "entityType": "machine", "observations": []}
BUILDS = {"from": "Ada", "to": "Engine", "relationType": "describes"}


def check_graph(peer: Peer) -> None:
    peer.call("create_entities", {"entities": [ADA, ENGINE]})
    peer.call("create_relations", {"relations": [BUILDS]})
    peer.call("add_observations", {"observations": [{"entityName": "Engine", "contents": [UNICODE]}]})
    graph = json_of(peer, "read_graph")
    expect([each["name"] for each in graph["entities"]], ["Ada", "Engine"])
    expect(graph["entities"][1]["observations"], [UNICODE])
    expect(graph["relations"], [BUILDS])
    expect([each["name"] for each in json_of(peer, "search_nodes", {"query": "å"})["entities"]], ["Ada"])
    expect(json_of(peer, "open_nodes", {"names": ["Engine"]})["entities"][0]["entityType"], "machine")


def check_structured(peer: Peer) -> None:
    if peer.structured:
        found = peer.call("open_nodes", {"names": ["Ada"]}).structured_content
        expect([each["name"] for each in found["entities"]], ["Ada"])


def check_graph_resource(peer: Peer) -> None:
    (resource,) = peer.client.list_resources()
    expect(resource.uri, "memory://knowledge-graph")
    read = peer.client.read_resource(resource.uri)
    expect([each["name"] for each in json.loads(read.text)["entities"]], ["Ada", "Engine"])


def check_forget(peer: Peer) -> None:
    peer.call("delete_observations", {"deletions": [{"entityName": "Ada", "observations": ["counts å"]}]})
    peer.call("delete_relations", {"relations": [BUILDS]})
    graph = json_of(peer, "read_graph")
    expect((graph["entities"][0]["observations"], graph["relations"]), ([], []))
    peer.call("delete_entities", {"entityNames": ["Ada", "Engine"]})
    expect(json_of(peer, "read_graph")["entities"], [])
    check_refused(peer, "create_entities", {"entities": "none"})


MEMORY = checks(
    list=listed(
        "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
        "delete_relations", "read_graph", "search_nodes", "open_nodes",
    ),
    graph=check_graph, structured=check_structured, resource=check_graph_resource, forget=check_forget, **BASICS,
)


# ------------------------------------------------------------ mcp-server-time


def check_now(peer: Peer) -> None:
    now = json_of(peer, "get_current_time", {"timezone": "Asia/Tokyo"})
    expect((now["timezone"], now["datetime"][-6:], now["is_dst"]), ("Asia/Tokyo", "+09:00", False))


def check_convert(peer: Peer) -> None:
    asked = {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"}
    found = json_of(peer, "convert_time", asked)
    expect((found["target"]["datetime"][11:16], found["time_difference"]), ("01:30", "+9.0h"))


def check_no_zone(peer: Peer) -> None:
    check_refused(peer, "get_current_time", {"timezone": "Moon/Tycho"})
    check_refused(peer, "get_current_time", {})


TIME = checks(
    list=listed("get_current_time", "convert_time"), now=check_now, convert=check_convert, no_zone=check_no_zone,
    **BASICS,
)


# ------------------------------------------------------------ mcp-server-git


def repository() -> dict[str, str]:
    """A repository with one commit and one file of the next, made when it is not there; as an argument."""
    folder = Path("repository")
    if not folder.is_dir():
        folder.mkdir()
        settings = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "init.defaultBranch=main"]
        (folder / "a.txt").write_text("one\n", "utf-8")
        for command in (["init"], ["add", "a.txt"], ["commit", "-m", "Begin å"]):
            subprocess.run(["git", *settings, *command], cwd=folder, check=True, capture_output=True, timeout=30)
        for name, value in (("user.name", "Ada"), ("user.email", "ada@example.com")):
            subprocess.run(["git", "config", name, value], cwd=folder, check=True, timeout=30)
    return {"repo_path": str(folder.resolve())}


def check_status(peer: Peer) -> None:
    expect("nothing to commit" in text_of(peer, "git_status", repository()), True)
    expect("Begin å" in text_of(peer, "git_log", {**repository(), "max_count": 1}), True)
    expect("Begin å" in text_of(peer, "git_show", {**repository(), "revision": "HEAD"}), True)


def check_commit(peer: Peer) -> None:
    where = repository()
    Path("repository/a.txt").write_text("one\nzwei\n", "utf-8")
    expect("+zwei" in text_of(peer, "git_diff_unstaged", where), True)
    peer.call("git_add", {**where, "files": ["a.txt"]})
    expect("+zwei" in text_of(peer, "git_diff_staged", where), True)
    peer.call("git_reset", where)
    peer.call("git_add", {**where, "files": ["a.txt"]})
    peer.call("git_commit", {**where, "message": f"Go on, {UNICODE[:5]}"})
    expect("+zwei" in text_of(peer, "git_diff", {**where, "target": "HEAD~1"}), True)


def check_branches(peer: Peer) -> None:
    where = repository()
    peer.call("git_create_branch", {**where, "branch_name": "side"})
    peer.call("git_checkout", {**where, "branch_name": "side"})
    expect("side" in text_of(peer, "git_branch", {**where, "branch_type": "local"}), True)


def check_no_repository(peer: Peer) -> None:
    check_refused(peer, "git_status", {"repo_path": str(Path("nowhere").resolve())})
    check_refused(peer, "git_show", {**repository(), "revision": "--output=x"})


GIT = checks(
    list=listed(
        "git_status", "git_diff_unstaged", "git_diff_staged", "git_diff", "git_commit", "git_add", "git_reset",
        "git_log", "git_create_branch", "git_checkout", "git_show", "git_branch",
    ),
    status=check_status, commit=check_commit, branches=check_branches, no_repository=check_no_repository, **BASICS,
)


# ------------------------------------------------------------ mcp-server-fetch

PAGE = f"<html><head><title>T</title></head><body><h1>Head</h1><p>{UNICODE[:5]} <b>bold</b></p></body></html>"


@contextlib.contextmanager
def site() -> Iterator[str]:
    """A web site on this machine, for as long as the block runs; its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = PAGE.encode() if self.path == "/page" else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def check_fetch(peer: Peer) -> None:
    with site() as address:
        found = text_of(peer, "fetch", {"url": f"{address}/page"})
        expect((UNICODE[:5] in found, "bold" in found, "<b>" in found), (True, True, False))
        raw = text_of(peer, "fetch", {"url": f"{address}/page", "raw": True, "max_length": 40, "start_index": 6})
        expect(PAGE[6:46] in raw and PAGE[6:50] not in raw, True)
        check_refused(peer, "fetch", {"url": f"{address}/none"})
    check_refused(peer, "fetch", {"url": f"{address}/page"})
    check_refused(peer, "fetch", {"url": "no URL"})


def check_fetch_prompt(peer: Peer) -> None:
    (prompt,) = peer.client.list_prompts()
    expect([(each.name, each.required) for each in prompt.arguments], [("url", True)])
    with site() as address:
        got = peer.client.get_prompt("fetch", {"url": f"{address}/page"})
        expect("Head" in got.messages[0].content.text, True)
    expect_raised(minimcp.RpcError, lambda: peer.client.get_prompt("fetch"))


FETCH = checks(list=listed("fetch"), fetch=check_fetch, prompt=check_fetch_prompt, **BASICS)


# ------------------------------------------------------------ mcp-server-sqlite


def check_tables(peer: Peer) -> None:
    peer.call("create_table", {"query": "CREATE TABLE notes (id INTEGER PRIMARY KEY, said TEXT)"})
    peer.call("write_query", {"query": f"INSERT INTO notes (said) VALUES ('{UNICODE[:5]}')"})
    expect(UNICODE[:5] in text_of(peer, "read_query", {"query": "SELECT said FROM notes"}), True)
    expect("notes" in text_of(peer, "list_tables"), True)
    expect("said" in text_of(peer, "describe_table", {"table_name": "notes"}), True)


def check_wrong_query(peer: Peer) -> None:
    found = peer.call("read_query", {"query": "SELECT nothing FROM nowhere"}, raise_on_error=False)
    expect("rror" in found.text, True)


def check_insight(peer: Peer) -> None:
    peer.call("append_insight", {"insight": UNICODE[:5]})
    expect(("updated", "memo://insights") in peer.host.wait_heard(lambda heard: heard), True)
    (resource,) = peer.client.list_resources()
    expect(UNICODE[:5] in peer.client.read_resource(resource.uri).text, True)


def check_demo_prompt(peer: Peer) -> None:
    (prompt,) = peer.client.list_prompts()
    expect(prompt.name, "mcp-demo")
    got = peer.client.get_prompt("mcp-demo", {"topic": UNICODE[:5]})
    expect(UNICODE[:5] in got.messages[0].content.text, True)


SQLITE = checks(
    list=listed("read_query", "write_query", "create_table", "list_tables", "describe_table", "append_insight"),
    tables=check_tables, wrong_query=check_wrong_query, insight=check_insight, prompt=check_demo_prompt,
    ping=check_ping, unknown_method=check_unknown_method,
)
