"""Popular servers, with every feature used by a minimcp client: files, a graph, time, git, fetch, a
database.

Each session has a working folder of its own, in which its checks create the files that the server
needs.
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

from .checking import R3, UNICODE, Basics, expect, expect_raised

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d4944415478da6364f8cf500f00038601805a34da6b0000000049454e44ae426082"
)


class Reference(Basics):
    tools: tuple[str, ...] = ()

    def list(self) -> None:
        tools = self.client.list_tools()
        expect(sorted(tool.name for tool in tools), sorted(self.tools))
        expect({tool.input_schema["type"] for tool in tools}, {"object"})


def here(*parts: str) -> str:
    return os.path.join(os.getcwd(), *parts)


class Filesystem(Reference):
    tools = (
        "read_file", "read_text_file", "read_media_file", "read_multiple_files", "write_file", "edit_file",
        "create_directory", "list_directory", "list_directory_with_sizes", "directory_tree", "move_file",
        "search_files", "get_file_info", "list_allowed_directories",
    )  # fmt: skip

    def write_and_read(self) -> None:
        self.call("write_file", {"path": here("a.txt"), "content": f"one\n{UNICODE}\nthree\n"})
        expect(Path("a.txt").read_text("utf-8").split("\n")[1], UNICODE)
        expect(UNICODE in self.text("read_text_file", {"path": here("a.txt")}), True)
        expect(self.text("read_text_file", {"path": here("a.txt"), "head": 1}).strip(), "one")
        expect("three" in self.text("read_file", {"path": here("a.txt"), "tail": 2}), True)
        both = self.text("read_multiple_files", {"paths": [here("a.txt"), here("none.txt")]})
        expect(UNICODE in both and "none.txt" in both, True)

    def media(self) -> None:
        Path("dot.png").write_bytes(PIXEL)
        (block,) = self.call("read_media_file", {"path": here("dot.png")}).content
        expect((block.type, block.mime_type, block.data), ("image", "image/png", PIXEL))

    def edit(self) -> None:
        Path("b.txt").write_text("one\ntwo\n", "utf-8")
        edits = [{"oldText": "two", "newText": "zwei"}]
        expect(
            "+zwei"
            in self.text("edit_file", {"path": here("b.txt"), "edits": edits, "dryRun": True}),
            True,
        )
        expect(Path("b.txt").read_text("utf-8"), "one\ntwo\n")
        self.call("edit_file", {"path": here("b.txt"), "edits": edits})
        expect(Path("b.txt").read_text("utf-8"), "one\nzwei\n")

    def folders(self) -> None:
        self.call("create_directory", {"path": here("d", "e")})
        Path("d/e/f.txt").write_text("f", "utf-8")
        expect("[DIR] e" in self.text("list_directory", {"path": here("d")}), True)
        expect("f.txt" in self.text("list_directory_with_sizes", {"path": here("d", "e")}), True)
        tree = self.json("directory_tree", {"path": here("d")})
        expect((tree[0]["name"], tree[0]["children"][0]["name"]), ("e", "f.txt"))
        self.call(
            "move_file", {"source": here("d", "e", "f.txt"), "destination": here("d", "g.txt")}
        )
        expect(Path("d/g.txt").read_text("utf-8"), "f")
        expect("g.txt" in self.text("search_files", {"path": here(), "pattern": "**/g.txt"}), True)
        expect("size: 1" in self.text("get_file_info", {"path": here("d", "g.txt")}), True)

    def roots(self) -> None:
        expect(os.path.realpath(os.getcwd()) in self.text("list_allowed_directories"), True)

    def outside(self) -> None:
        self.expect_refused("read_text_file", {"path": "/etc/hostname"})
        self.expect_refused("read_text_file", {"path": here("..", "..", "etc", "hostname")})
        self.expect_refused("read_text_file", {"path": 5})


ADA = {"name": "Ada", "entityType": "person", "observations": ["counts å"]}
ENGINE = {"name": "Engine", "entityType": "machine", "observations": []}
BUILDS = {"from": "Ada", "to": "Engine", "relationType": "describes"}


class Memory(Reference):
    tools = (
        "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
        "delete_relations", "read_graph", "search_nodes", "open_nodes",
    )  # fmt: skip

    def graph(self) -> None:
        self.call("create_entities", {"entities": [ADA, ENGINE]})
        self.call("create_relations", {"relations": [BUILDS]})
        self.call(
            "add_observations", {"observations": [{"entityName": "Engine", "contents": [UNICODE]}]}
        )
        graph = self.json("read_graph")
        expect([each["name"] for each in graph["entities"]], ["Ada", "Engine"])
        expect(graph["entities"][1]["observations"], [UNICODE])
        expect(graph["relations"], [BUILDS])
        expect(
            [each["name"] for each in self.json("search_nodes", {"query": "å"})["entities"]],
            ["Ada"],
        )
        expect(
            self.json("open_nodes", {"names": ["Engine"]})["entities"][0]["entityType"], "machine"
        )

    def structured(self) -> None:
        if self.since(R3):
            found = self.call("open_nodes", {"names": ["Ada"]}).structured_content
            expect([each["name"] for each in found["entities"]], ["Ada"])

    def resource(self) -> None:
        (resource,) = self.client.list_resources()
        expect(resource.uri, "memory://knowledge-graph")
        read = self.client.read_resource(resource.uri)
        expect([each["name"] for each in json.loads(read.text)["entities"]], ["Ada", "Engine"])

    def forget(self) -> None:
        self.call(
            "delete_observations",
            {"deletions": [{"entityName": "Ada", "observations": ["counts å"]}]},
        )
        self.call("delete_relations", {"relations": [BUILDS]})
        graph = self.json("read_graph")
        expect((graph["entities"][0]["observations"], graph["relations"]), ([], []))
        self.call("delete_entities", {"entityNames": ["Ada", "Engine"]})
        expect(self.json("read_graph")["entities"], [])
        self.expect_refused("create_entities", {"entities": "none"})


class Time(Reference):
    tools = ("get_current_time", "convert_time")

    def now(self) -> None:
        now = self.json("get_current_time", {"timezone": "Asia/Tokyo"})
        expect(
            (now["timezone"], now["datetime"][-6:], now["is_dst"]), ("Asia/Tokyo", "+09:00", False)
        )

    def convert(self) -> None:
        asked = {"source_timezone": "UTC", "time": "16:30", "target_timezone": "Asia/Tokyo"}
        found = self.json("convert_time", asked)
        expect((found["target"]["datetime"][11:16], found["time_difference"]), ("01:30", "+9.0h"))

    def no_zone(self) -> None:
        self.expect_refused("get_current_time", {"timezone": "Moon/Tycho"})
        self.expect_refused("get_current_time", {})


def repository() -> dict[str, str]:
    """A repository with one commit and one file of the next, made when it is not there; as an
    argument."""
    folder = Path("repository")
    if not folder.is_dir():
        folder.mkdir()
        settings = [
            "-c",
            "user.name=Ada",
            "-c",
            "user.email=ada@example.com",
            "-c",
            "init.defaultBranch=main",
        ]
        (folder / "a.txt").write_text("one\n", "utf-8")
        for command in (["init"], ["add", "a.txt"], ["commit", "-m", "Begin å"]):
            subprocess.run(
                ["git", *settings, *command],
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=30,
            )
        for name, value in (("user.name", "Ada"), ("user.email", "ada@example.com")):
            subprocess.run(["git", "config", name, value], cwd=folder, check=True, timeout=30)
    return {"repo_path": str(folder.resolve())}


class Git(Reference):
    tools = (
        "git_status", "git_diff_unstaged", "git_diff_staged", "git_diff", "git_commit", "git_add", "git_reset",
        "git_log", "git_create_branch", "git_checkout", "git_show", "git_branch",
    )  # fmt: skip

    def status(self) -> None:
        expect("nothing to commit" in self.text("git_status", repository()), True)
        expect("Begin å" in self.text("git_log", {**repository(), "max_count": 1}), True)
        expect("Begin å" in self.text("git_show", {**repository(), "revision": "HEAD"}), True)

    def commit(self) -> None:
        where = repository()
        Path("repository/a.txt").write_text("one\nzwei\n", "utf-8")
        expect("+zwei" in self.text("git_diff_unstaged", where), True)
        self.call("git_add", {**where, "files": ["a.txt"]})
        expect("+zwei" in self.text("git_diff_staged", where), True)
        self.call("git_reset", where)
        self.call("git_add", {**where, "files": ["a.txt"]})
        self.call("git_commit", {**where, "message": f"Go on, {UNICODE[:5]}"})
        expect("+zwei" in self.text("git_diff", {**where, "target": "HEAD~1"}), True)

    def branches(self) -> None:
        where = repository()
        self.call("git_create_branch", {**where, "branch_name": "side"})
        self.call("git_checkout", {**where, "branch_name": "side"})
        expect("side" in self.text("git_branch", {**where, "branch_type": "local"}), True)

    def no_repository(self) -> None:
        self.expect_refused("git_status", {"repo_path": str(Path("nowhere").resolve())})
        self.expect_refused("git_show", {**repository(), "revision": "--output=x"})


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


class Fetch(Reference):
    tools = ("fetch",)

    def fetch(self) -> None:
        with site() as address:
            found = self.text("fetch", {"url": f"{address}/page"})
            expect((UNICODE[:5] in found, "bold" in found, "<b>" in found), (True, True, False))
            raw = self.text(
                "fetch", {"url": f"{address}/page", "raw": True, "max_length": 40, "start_index": 6}
            )
            expect(PAGE[6:46] in raw and PAGE[6:50] not in raw, True)
            self.expect_refused("fetch", {"url": f"{address}/none"})
        self.expect_refused("fetch", {"url": f"{address}/page"})
        self.expect_refused("fetch", {"url": "no URL"})

    def prompt(self) -> None:
        (prompt,) = self.client.list_prompts()
        expect([(each.name, each.required) for each in prompt.arguments], [("url", True)])
        with site() as address:
            got = self.client.get_prompt("fetch", {"url": f"{address}/page"})
            expect("Head" in got.messages[0].content.text, True)
        expect_raised(minimcp.RpcError, lambda: self.client.get_prompt("fetch"))


class Sqlite(Reference):
    tools = (
        "read_query",
        "write_query",
        "create_table",
        "list_tables",
        "describe_table",
        "append_insight",
    )
    unknown_tool: Any = None  # it reports that as a success

    def tables(self) -> None:
        self.call(
            "create_table", {"query": "CREATE TABLE notes (id INTEGER PRIMARY KEY, said TEXT)"}
        )
        self.call("write_query", {"query": f"INSERT INTO notes (said) VALUES ('{UNICODE[:5]}')"})
        expect(UNICODE[:5] in self.text("read_query", {"query": "SELECT said FROM notes"}), True)
        expect("notes" in self.text("list_tables"), True)
        expect("said" in self.text("describe_table", {"table_name": "notes"}), True)

    def wrong_query(self) -> None:
        found = self.call(
            "read_query", {"query": "SELECT nothing FROM nowhere"}, raise_on_error=False
        )
        expect("rror" in found.text, True)

    def insight(self) -> None:
        self.call("append_insight", {"insight": UNICODE[:5]})
        expect(("updated", "memo://insights") in self.host.wait_heard(lambda heard: heard), True)
        (resource,) = self.client.list_resources()
        expect(UNICODE[:5] in self.client.read_resource(resource.uri).text, True)

    def prompt(self) -> None:
        (prompt,) = self.client.list_prompts()
        expect(prompt.name, "mcp-demo")
        got = self.client.get_prompt("mcp-demo", {"topic": UNICODE[:5]})
        expect(UNICODE[:5] in got.messages[0].content.text, True)
