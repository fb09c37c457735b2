"""A cursor that the server did not issue is refused, in each list of each feature."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import pytest

import minimcp
from minimcp import Bearer, Client, InvalidParams, Server, Skills, Tasks
from minimcp.extensions import task_runner as tasks

from ..support import WAIT

Params = Dict[str, Any]

# Methods with their params, and the member that holds the list.
LISTS: List[Tuple[str, Params, str]] = [
    ("tools/list", {}, "tools"),
    ("prompts/list", {}, "prompts"),
    ("resources/list", {}, "resources"),
    ("resources/templates/list", {}, "resourceTemplates"),
    ("tasks/list", {}, "tasks"),
    ("skills/list", {}, "skills"),
    ("resources/directory/read", {"uri": "skill://a"}, "resources"),
    ("resources/directory/read", {"uri": "skill://b"}, "resources"),
]


def named(name: str = "x") -> str:
    """One of many."""
    return name


def text() -> str:
    """One of many."""
    return "x"


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Client]]:
    """Connect to a server whose lists all have several pages."""
    monkeypatch.setattr(tasks, "PAGE_SIZE", 2)
    for folder in "abcde":
        (tmp_path / folder / "files").mkdir(parents=True)
        for file in ("1.txt", "2.txt", "3.txt"):
            (tmp_path / folder / file).write_text("text", "utf-8")
        front = f"---\nname: {folder}\ndescription: One.\n---\n"
        (tmp_path / folder / "SKILL.md").write_text(front, "utf-8")
    server = Server(
        "many",
        page_size=2,
        extensions=[Skills(tmp_path), Tasks()],
        auth=Bearer.static({"a": {"sub": "ada"}, "b": {"sub": "bob"}}),
    )
    for number in range(5):
        server.add_tool(named, name=f"t{number}", task="optional")
        server.add_prompt(named, name=f"p{number}")
        server.add_resource(text, f"r://{number}", name=f"r{number}")
        server.add_resource(named, f"t{number}://{{name}}", name=f"t{number}")
    stack = ExitStack()
    running = stack.enter_context(server.start_http())

    def connect(revision: str, token: str = "a") -> Client:
        client = minimcp.connect(
            running.url, revision=revision, auth=token, extensions=[Tasks()], timeout=WAIT
        )
        return stack.enter_context(client)

    with stack:
        yield connect


def issued(client: Client, method: str, params: Params, member: str) -> List[str]:
    """The cursors of all pages."""
    cursors: List[str] = []
    more: Params = {}
    while True:
        page = client.request(method, {**params, **more})
        assert page[member]
        if "nextCursor" not in page:
            return cursors
        cursors.append(page["nextCursor"])
        more = {"cursor": page["nextCursor"]}


@pytest.mark.requirement("TASK-36", "PAGE-08", "M:PAG-3")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_an_invented_cursor_is_refused(pages: Callable[..., Client], revision: str) -> None:
    ada, bob = pages(revision), pages(revision, "b")
    lists = (
        LISTS if revision == "2025-11-25" else [each for each in LISTS if "tasks" not in each[0]]
    )
    if revision == "2025-11-25":
        for client in (ada, bob):
            for _ in range(5):
                client.start_task("t0", {"name": "x"})
    found = {
        (method, str(params)): issued(ada, method, params, member)
        for method, params, member in lists
    }
    foreign = issued(bob, "tasks/list", {}, "tasks") if revision == "2025-11-25" else []
    for method, params, _ in lists:
        own = found[method, str(params)]
        assert own
        others = [cursor for each in found.values() if each is not own for cursor in each]
        first = own[0]
        position = first.partition(".")[2] or first
        invented: List[Any] = [
            "", "x", "0", "2", "tools:1", "tools:99", position, position[:-1], position + "x", "." + position,
            first + "0", first[:-1], "0" + first, first.upper() + "X", first + "\n", " " + first, "\ud800", "." * 65,
            "x" * 10_000, "skill://a/SKILL.md", "skill://", "skill://zzz", "f" * 32, "../", "\0", 5, 0, True, 2.5, [], [first],
            {}, {"cursor": first},
        ]  # fmt: skip
        for cursor in [*others, *foreign, *invented]:
            if cursor in own:
                continue
            with pytest.raises(InvalidParams, match="cursor"):
                ada.request(method, {**params, "cursor": cursor})
        begun = ada.request(method, {**params, "cursor": None})
        assert begun["nextCursor"] == first
        for cursor in own:
            ada.request(method, {**params, "cursor": cursor})


def test_a_cursor_outlives_its_item(pages: Callable[..., Client], tmp_path: Path) -> None:
    client = pages("2026-07-28")
    first = client.request("skills/list")
    for file in (tmp_path / "b").iterdir():
        if file.is_file():
            file.unlink()
    page = client.request("skills/list", {"cursor": first["nextCursor"]})
    assert [each["frontmatter"]["name"] for each in page["skills"]] == ["c", "d"]
