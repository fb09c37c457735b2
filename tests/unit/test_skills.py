"""`Skills`: how a folder is served, which files are left out, and changes while it is served."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import Client, InvalidParams, ResourceNotFound, Server, Skills
from minimcp.extensions import skills

from ..rows import for_each
from ..scripted import Task
from ..support import WAIT

SECRET = "the secret outside"


def write(
    folder: Path, name: str = "", more: str = "description: x", body: str = "Do it.\n"
) -> Path:
    """A skill in a folder of its name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {name or folder.name}\n{more}\n---\n{body}", "utf-8"
    )
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text(SECRET, "utf-8")
    made = tmp_path / "skills"
    made.mkdir()
    return made


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    with minimcp.connect(Server("s", extensions=[Skills(folder)]), timeout=WAIT) as opened:
        yield opened


def listed(client: Client) -> Dict[str, Any]:
    return {each["uri"]: each for each in client.request("skills/list")["skills"]}


def files(client: Client, uri: str) -> List[str]:
    """The files of a skill, from its folder."""
    found = client.request("skills/get", {"uri": uri})["skill"]["resources"]
    return [each["uri"][len(uri) - len("SKILL.md") :] for each in found]


def children(client: Client, uri: str) -> List[Any]:
    return [
        each["name"]
        for each in client.request("resources/directory/read", {"uri": uri})["resources"]
    ]


def problems(caplog: pytest.LogCaptureFixture) -> List[str]:
    return [record.getMessage() for record in caplog.records if record.name == "minimcp.skills"]


# ---------------------------------------------------------------- served files


def before_open(monkeypatch: pytest.MonkeyPatch, look: Callable[[str], object]) -> None:
    """Have `look` see the name of each file and folder before it is opened, or raise instead."""
    really_open = os.open

    def opening(path: Any, *options: Any, **more: Any) -> int:
        look(str(path))
        return really_open(path, *options, **more)

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, opening})


def test_an_entry_says_everything(folder: Path, client: Client) -> None:
    made = write(
        folder / "acme" / "refunds",
        more="description: >-\n  Refund\n  it.\nmetadata: {v: 1.5, to: [a, b]}",
    )
    (made / "two words.txt").write_bytes(b"x\r\n\xef\xbb\xbf")
    (made / "data").mkdir()
    (made / "data" / "raw.bin").write_bytes(b"\xff\x00")
    uri = "skill://acme/refunds/SKILL.md"
    entry = {
        "uri": uri,
        "frontmatter": {"name": "refunds", "description": "Refund it.", "metadata": {"v": 1.5, "to": ["a", "b"]}},
        "resources": [
            {"uri": f"skill://acme/refunds/{name.replace(' ', '%20')}", "size": len(data),
             "digest": "sha256:" + hashlib.sha256(data).hexdigest()}
            for name in ("SKILL.md", "data/raw.bin", "two words.txt") for data in [(made / name).read_bytes()]
        ],
    }  # fmt: skip
    assert listed(client) == {uri: entry}
    assert client.request("skills/get", {"uri": uri})["skill"] == entry
    for each in entry["resources"]:
        content = client.read_resource(each["uri"]).contents[0]
        data = content.data if content.text is None else content.text.encode()
        assert (content.uri, f"sha256:{hashlib.sha256(data).hexdigest()}") == (
            each["uri"],
            each["digest"],
        )


def test_skills_inside_skills(folder: Path, client: Client) -> None:
    write(write(folder / "Outer" / "a") / "b")
    assert list(listed(client)) == ["skill://Outer/a/SKILL.md", "skill://Outer/a/b/SKILL.md"]
    assert files(client, "skill://Outer/a/SKILL.md") == ["SKILL.md", "b/SKILL.md"]
    assert files(client, "skill://Outer/a/b/SKILL.md") == ["SKILL.md"]


def test_neighbours_whose_names_begin_alike(folder: Path, client: Client) -> None:
    for name in ("a", "a-b", "a0"):
        write(folder / name)
        (folder / name / "\U0001f600.txt").write_text("x", "utf-8")
    (folder / "a.txt").write_text("of nobody", "utf-8")
    assert [files(client, uri) for uri in listed(client)] == [["SKILL.md", "%F0%9F%98%80.txt"]] * 3
    assert children(client, "skill://a") == ["\U0001f600.txt", "a"]
    with pytest.raises(ResourceNotFound):
        client.read_resource("skill://a.txt")


def test_folders_are_read(folder: Path, client: Client) -> None:
    made = write(folder / "acme" / "a", more="description: d")
    (made / "empty").mkdir()
    (made / "x.unknown").write_text("x", "utf-8")
    (folder / "acme" / "of-nobody").mkdir()
    found = client.request("resources/directory/read", {"uri": "skill://acme/a"})["resources"]
    base = "skill://acme/a/"
    size = (made / "SKILL.md").stat().st_size
    assert found == [
        {
            "uri": base + "SKILL.md",
            "name": "a",
            "description": "d",
            "mimeType": "text/markdown",
            "size": size,
        },
        {"uri": base + "empty", "name": "empty", "mimeType": "inode/directory"},
        {"uri": base + "x.unknown", "name": "x.unknown", "size": 1},
    ]
    assert children(client, "skill://acme") == ["a"]
    assert children(client, "skill://acme/a/empty") == []
    ours = (
        "skill://",
        "skill://acme/a/",
        "skill://acme/a/SKILL.md",
        "skill://acme/of-nobody",
        "skill://x",
    )
    for uri in (*ours, "x", None, 1):
        with pytest.raises(InvalidParams, match="folder"):
            client.request("resources/directory/read", {"uri": uri})


@pytest.mark.parametrize("uri", [
    None, 1, "", "skill://", "skill://a", "skill://a/", "skill://a/skill.md", "skill:///SKILL.md",
    "skill://b/../a/SKILL.md", "skill://a/SKILL.md/", "skill://\ud800",
])  # fmt: skip
def test_a_skill_has_one_uri(folder: Path, client: Client, uri: Any) -> None:
    write(folder / "a")
    with pytest.raises(InvalidParams, match="SKILL.md"):
        client.request("skills/get", {"uri": uri})


@for_each("uri", ["skill://a/./SKILL.md", "skill://a/b/../SKILL%2Emd", "SKILL://A/SKILL.md"])
def test_equivalent_uris_name_the_same_skill(folder: Path, client: Client, uri: str) -> None:
    write(folder / "a")
    assert client.read_skill(uri).uri == "skill://a/SKILL.md"
    assert client.read_resource(uri).text is not None
    assert children(client, uri[: uri.rindex("/")]) == ["a"]


def test_one_of_two_skills_with_equivalent_uris_is_left_out(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder / "x" / "a")
    if (folder / "X").exists():
        return  # this file system has one folder for both
    write(folder / "X" / "a")
    with minimcp.connect(Server("s", extensions=[Skills(folder)]), timeout=WAIT) as client:
        (skill,) = client.list_skills()
    assert skill.uri == "skill://X/a/SKILL.md"
    assert "its URI is equivalent to that of X/a/SKILL.md" in caplog.text


def test_pages(folder: Path) -> None:
    for name in "abcde":
        write(folder / name)
    with minimcp.connect(
        Server("s", extensions=[Skills(folder)], page_size=2), timeout=WAIT
    ) as client:
        first = client.request("skills/list")
        assert [each["frontmatter"]["name"] for each in first["skills"]] == ["a", "b"]
        (folder / "a" / "SKILL.md").unlink()  # the other page does not change
        second = client.request("skills/list", {"cursor": first["nextCursor"]})
        assert [each["frontmatter"]["name"] for each in second["skills"]] == ["c", "d"]
        assert [each.name for each in client.list_skills()] == ["b", "c", "d", "e"]
        (folder / "b" / "f").mkdir()
        (folder / "b" / "g").mkdir()
        found = client.request("resources/directory/read", {"uri": "skill://b"})
        assert "nextCursor" in found
        for cursor in ("b", 2, ["skill://b"]):
            with pytest.raises(InvalidParams, match="cursor"):
                client.request("skills/list", {"cursor": cursor})


def test_a_page_ends_by_its_size(
    folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skills, "PAGE_BYTES", 1)
    for name in "ab":
        write(folder / name)
    assert len(client.request("skills/list")["skills"]) == 1
    assert [each.name for each in client.list_skills()] == ["a", "b"]


# ---------------------------------------------------------------- what changes


def test_changes_are_noticed(folder: Path, client: Client) -> None:
    assert listed(client) == {}
    made = write(folder / "a")
    assert [each.uri for each in client.list_resources(cache="refresh")] == ["skill://a/SKILL.md"]
    write(folder / "a", more="description: another")
    [found] = client.list_resources(cache="refresh")
    assert (found.name, found.description, found.mime_type) == ("a", "another", "text/markdown")
    assert client.read_resource(found.uri).contents[0].mime_type == "text/markdown"
    (made / "x.md").write_text("x", "utf-8")
    [content] = client.read_resource("skill://a/x.md").contents
    assert (content.text, content.mime_type) == ("x", "text/markdown")
    (made / "SKILL.md").unlink()
    assert client.list_resources(cache="refresh") == []
    for name in ("SKILL.md", "x.md"):  # files of a folder that is no longer a skill
        with pytest.raises(ResourceNotFound):
            client.read_resource(f"skill://a/{name}")
    client.close()


def test_clients_are_notified_of_other_skills(folder: Path, client: Client) -> None:
    write(folder / "a")
    with client.listen(resources_list_changed=True) as changes:
        client.request("skills/list")
        assert next(iter(changes)).kind == "resources_list_changed"


def test_a_change_that_leaves_size_and_times_is_noticed(folder: Path) -> None:
    path, served = write(folder / "a") / "x.txt", Skills(folder)
    path.write_text("one", "utf-8")
    status = path.stat()  # the clock of a file system may not advance for some milliseconds
    read = served._file
    first = read("a/x.txt", status, None)
    path.write_text("two", "utf-8")
    assert read("a/x.txt", status, first).listed["digest"] != first.listed["digest"]


def test_files_that_have_not_changed_are_read_once(
    folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, read = write(folder / "a"), list[str]()

    class Later:
        time = staticmethod(lambda: time.time() + 3600)

    monkeypatch.setattr(skills, "time", Later)
    before_open(monkeypatch, lambda name: read.append(name) if name == "SKILL.md" else None)
    assert listed(client) == listed(client)
    assert read == ["SKILL.md"]
    (made / "SKILL.md").write_text("no skill any more", "utf-8")
    assert listed(client) == {}
    assert read == ["SKILL.md"] * 2


def test_waiting_requests_share_one_scan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that arrives during a scan may need newer data, so all of them share one more scan."""
    served, looks = Skills(folder), []
    first, go_on, waiting = threading.Event(), threading.Event(), threading.Semaphore(0)
    scandir = os.scandir

    class Lock:
        def __init__(self, lock: Any) -> None:
            self.lock = lock

        def __enter__(self) -> None:
            waiting.release()
            self.lock.acquire()

        def __exit__(self, *error: Any) -> None:
            self.lock.release()

    def slow(where: Any) -> Any:  # the folder is empty: one look scans one folder
        looks.append(1)
        first.set()
        assert go_on.wait(WAIT)
        return scandir(where)

    monkeypatch.setattr(os, "scandir", slow)
    served._lock = Lock(served._lock)  # type: ignore[assignment]
    Server("s", extensions=[served])
    tasks = [Task(served.refresh)]
    assert first.wait(WAIT)
    tasks += [Task(served.refresh) for _ in range(5)]
    for _ in tasks:
        assert waiting.acquire(timeout=WAIT)
    go_on.set()
    for task in tasks:
        task.result()
    assert len(looks) == 2


def test_an_author_may_remove_a_listed_skill(folder: Path) -> None:
    server = Server("s", extensions=[Skills(folder)])
    made = write(folder / "a")
    with minimcp.connect(server, timeout=WAIT) as client:
        assert len(listed(client)) == 1
        server.remove_resource("skill://a/SKILL.md")
        (made / "SKILL.md").unlink()
        assert listed(client) == {}


# ---------------------------------------------------------------- files that are left out


@pytest.mark.parametrize(("text", "why"), [
    ("no front matter", "line 1"),
    ("---\nname: a\ndescription: b: c\n---\n", "line 3"),
    ("---\nname: b\ndescription: x\n---\n", "the name must be the name of the folder"),
    ("---\nname: a\n---\n", "description"),
    ("---\nname: a\ndescription: x\nmore: &a [*a]\n---\n", "line 4"),
    (b"---\nname: a\ndescription: \xff\n---\n", "utf-8"),
])  # fmt: skip
def test_folders_that_are_not_skills(
    folder: Path, client: Client, caplog: pytest.LogCaptureFixture, text: Any, why: str
) -> None:
    path = write(folder / "a") / "SKILL.md"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    write(folder / "good")
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        assert list(listed(client)) == ["skill://good/SKILL.md"]
    [said] = problems(caplog)
    assert str(path) in said and why in said
    with pytest.raises(ResourceNotFound):
        client.read_resource("skill://a/SKILL.md")
    write(folder / "a")
    assert len(listed(client)) == 2


def test_a_file_or_folder_with_the_wrong_kind_is_not_a_skill(folder: Path, client: Client) -> None:
    write(folder / "a")
    write(folder / "b" / "SKILL.md")
    (folder / "SKILL.md").write_text("---\nname: skills\ndescription: x\n---\n", "utf-8")
    assert list(listed(client)) == ["skill://a/SKILL.md"]
    write(folder / "b" / "SKILL.md" / "c")
    assert list(listed(client)) == ["skill://a/SKILL.md", "skill://b/SKILL.md/c/SKILL.md"]


ODD: Dict[str, Callable[[Path], object]] = {
    "a link outside": lambda made: (made / "x").symlink_to(made.parents[1] / "secret.txt"),
    "a link inside": lambda made: (made / "x").symlink_to(made / "SKILL.md"),
    "a link to a folder": lambda made: (made / "x").symlink_to(made.parents[1]),
    "a link in a circle": lambda made: (made / "x").symlink_to(made),
    "a link to nothing": lambda made: (made / "x").symlink_to("nothing"),
    "a queue": lambda made: os.mkfifo(made / "x"),
    "a backslash": lambda made: (made / "x\\..\\y").write_text("x", "utf-8"),
    "a device": lambda made: (made / "con.txt").write_text("x", "utf-8"),
    "no Unicode": lambda made: open(os.fsencode(made) + b"/\xff.txt", "w").close(),
}


@pytest.mark.parametrize("odd", ODD)
def test_files_that_are_left_out_of_a_skill(
    folder: Path, client: Client, caplog: pytest.LogCaptureFixture, odd: str
) -> None:
    ODD[odd](write(folder / "a"))
    for _ in range(2):
        assert files(client, "skill://a/SKILL.md") == ["SKILL.md"]
    assert children(client, "skill://a") == ["a"]
    assert len(problems(caplog)) == 1
    with pytest.raises(ResourceNotFound):
        client.read_resource("skill://a/x")


def test_names_with_a_leading_dot_are_left_out_silently(
    folder: Path, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    made = write(folder / "a")
    write(folder / ".git" / "b")
    (made / ".env").write_text(SECRET, "utf-8")
    assert files(client, "skill://a/SKILL.md") == ["SKILL.md"]
    assert (len(listed(client)), problems(caplog)) == (1, [])
    with pytest.raises(ResourceNotFound):
        client.read_resource("skill://a/.env")


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 2), ("MAX_BYTES", 100)])
def test_a_skill_that_is_too_large(
    folder: Path,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    limit: str,
    value: int,
) -> None:
    monkeypatch.setattr(skills, limit, value)
    made = write(folder / "a")
    write(folder / "b")
    for name in ("x", "y"):
        (made / name).write_text("x" * 40, "utf-8")
    assert list(listed(client)) == ["skill://b/SKILL.md"]
    assert [str(value) in said for said in problems(caplog)] == [True]


def test_a_folder_that_is_too_large(
    folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(skills, "MAX_ENTRIES", 5)
    for number in range(10):
        write(folder / f"s{number}")
    assert listed(client) == {}
    assert "first 5" in problems(caplog)[0]


def test_a_folder_that_goes_away(
    folder: Path, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    made = write(folder / "a")
    assert len(listed(client)) == 1
    (made / "SKILL.md").unlink()
    made.rmdir()
    folder.rmdir()
    assert (listed(client), client.list_resources(cache="refresh")) == ({}, [])
    assert len(problems(caplog)) == 1
    write(folder / "a")
    assert len(listed(client)) == 1


# ---------------------------------------------------------------- files that are replaced after they were checked


def test_nothing_leads_outside_that_is_exchanged(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time between the look and the opening of the file."""
    made, outside, served = write(folder / "a"), folder.parent / "outside", Skills(folder)
    path = made / "sub" / "x.txt"
    path.parent.mkdir()
    path.write_text("inside", "utf-8")
    outside.mkdir()
    (outside / "x.txt").write_text(SECRET, "utf-8")
    with minimcp.connect(Server("s", extensions=[served]), timeout=WAIT) as client:
        assert client.read_resource("skill://a/sub/x.txt").contents[0].text == "inside"
        served._scan = lambda seen=served._seen: seen  # type: ignore[method-assign,misc]

        def refused() -> None:
            with pytest.raises(ResourceNotFound):
                client.read_resource("skill://a/sub/x.txt")

        path.unlink()
        refused()
        path.symlink_to(outside / "x.txt")
        refused()
        (made / "sub").rename(made / "old")
        (made / "sub").symlink_to(outside)
        refused()
        (made / "sub").unlink()
        (made / "sub").mkdir()
        os.mkfifo(path)  # it has no writer, so opening it must not block
        refused()
        path.unlink()
        path.mkdir()
        refused()
        path.rmdir()
        path.write_text("x" * 1001, "utf-8")
        monkeypatch.setattr(skills, "MAX_BYTES", 1000)
        refused()


def test_a_file_that_goes_between_the_look_and_its_digest(
    folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder / "a")
    write(folder / "b")
    opened = [""]

    def gone(name: str) -> None:
        opened.append(name)
        if opened[-2:] == ["a", "SKILL.md"]:
            raise FileNotFoundError(name)

    before_open(monkeypatch, gone)
    assert list(listed(client)) == ["skill://b/SKILL.md"]
    assert len(problems(caplog)) == 1


def test_a_file_that_goes_while_the_folder_is_read(
    folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (write(folder / "a") / "x.txt").write_text("x", "utf-8")
    scandir = os.scandir

    class Gone:
        name = "gone.txt"

        def stat(self, follow_symlinks: bool) -> Any:
            raise FileNotFoundError(self.name)

    @contextmanager
    def with_one_more(where: Any) -> Iterator[Any]:
        with scandir(where) as found:
            yield iter([Gone(), *found])

    monkeypatch.setattr(os, "scandir", with_one_more)
    assert files(client, "skill://a/SKILL.md") == ["SKILL.md", "x.txt"]
    assert problems(caplog) == []


def test_a_folder_that_may_not_be_read(
    folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (write(folder / "a") / "closed").mkdir()

    def refused(name: str) -> None:
        if name == "closed":
            raise PermissionError(name)

    before_open(monkeypatch, refused)
    assert files(client, "skill://a/SKILL.md") == ["SKILL.md"]
    assert ["closed" in said for said in problems(caplog)] == [True]


def test_skills_without_descriptors_of_folders(
    folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Skills work without these functions of the system, which Windows lacks."""
    monkeypatch.setattr(os, "supports_dir_fd", set())
    (write(folder / "a") / "x.txt").write_text("x", "utf-8")
    assert files(client, "skill://a/SKILL.md") == ["SKILL.md", "x.txt"]
    assert client.read_resource("skill://a/x.txt").contents[0].text == "x"


# ---------------------------------------------------------------- the object


def test_arguments_of_skills(folder: Path) -> None:
    with pytest.raises(ValueError, match="is not one"):
        Skills(folder / "nothing")
    with pytest.raises(ValueError, match="is not one"):
        Skills(folder.parent / "secret.txt")
    with pytest.raises(ValueError, match="folder that contains it"):
        Skills(write(folder / "a"))
    with pytest.raises(TypeError):
        Skills(5)  # type: ignore[arg-type]
    assert str(folder) in repr(Skills(str(folder)))


def test_a_relative_folder_stays_where_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    server = Server("s", extensions=[Skills("skills")])
    monkeypatch.chdir("/")
    write(folder / "a")
    with minimcp.connect(server, timeout=WAIT) as client:
        assert len(listed(client)) == 1


def test_nothing_is_read_before_the_first_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise AssertionError("the folder is looked at")

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        with minimcp.connect(Server("s", extensions=[Skills(folder)]), timeout=WAIT) as client:
            client.list_resource_templates()
