"""Skills between a client and a server, in all revisions, and servers that send something else than
they have listed."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

import minimcp
from minimcp import (
    CapabilityNotSupported,
    Client,
    InvalidParams,
    McpError,
    ProtocolViolation,
    ResourceNotFound,
    Server,
    Skill,
    SkillError,
    Skills,
)

from ..answering import R4, R5, REVISIONS, Answering, discovered, error, initialized, result
from ..support import WAIT

ID = "io.modelcontextprotocol/skills"
ROOT = "skill://pdf/"
URI, FORMS, RAW = ROOT + "SKILL.md", ROOT + "references/FORMS.md", ROOT + "two%20words.bin"
FRONT = {"name": "pdf", "description": "Fill in forms", "metadata": {"version": "1.0", "pages": 2}}
TEXT = '---\nname: pdf\ndescription: Fill in forms\nmetadata:\n  version: "1.0"\n  pages: 2\n---\n\nDo it.\n'
CONTENTS: Dict[str, Any] = {URI: TEXT, FORMS: "# Forms\n", RAW: b"\xff\x00"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "pdf"
    (made / "references").mkdir(parents=True)
    (made / "SKILL.md").write_bytes(TEXT.encode())
    (made / "references" / "FORMS.md").write_bytes(CONTENTS[FORMS].encode())
    (made / "two words.bin").write_bytes(CONTENTS[RAW])
    return tmp_path


# ---------------------------------------------------------------- both sides are ours


@pytest.mark.requirement("M:EXT-1", "M:EXT-5")
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_revision(folder: Path, revision: str) -> None:
    with minimcp.connect(
        Server("s", extensions=[Skills(folder)]), revision=revision, timeout=WAIT
    ) as client:
        assert client.capabilities["extensions"] == {ID: {"directoryRead": True}}
        assert "resources" in client.capabilities
        [skill] = client.list_skills()
        assert (skill.uri, skill.name, skill.description, skill.text) == (
            URI,
            "pdf",
            "Fill in forms",
            None,
        )
        assert (skill.frontmatter, list(skill.digests or ())) == (FRONT, [URI, FORMS, RAW])
        assert client.read_skill(skill) is skill and skill.text == TEXT
        assert skill.read("references/FORMS.md") == CONTENTS[FORMS]
        assert skill.read("two words.bin") == CONTENTS[RAW]
        assert client.read_skill(URI).digests == skill.digests
        for method, params in (("skills/list", {}), ("skills/get", {"uri": URI})):
            assert ("ttlMs" in client.request(method, params)) == (revision == R5)


def test_over_http(folder: Path) -> None:
    with Server("s", extensions=[Skills(folder)]).start_http() as running:
        with minimcp.connect(running.url, timeout=WAIT) as client:
            assert client.read_skill(client.list_skills()[0]).read("two words.bin") == CONTENTS[RAW]


@pytest.mark.requirement("M:EXT-4")
@pytest.mark.parametrize("revision", [R4, R5])
def test_skills_exist_only_with_the_extension(revision: str) -> None:
    with minimcp.connect(
        Server("s", capabilities=["resources"]), revision=revision, timeout=WAIT
    ) as client:
        for call in (client.list_skills, lambda: client.read_skill(URI)):
            with pytest.raises(CapabilityNotSupported, match="skills"):
                call()
        for method in ("skills/list", "skills/get", "resources/directory/read"):
            with pytest.raises(minimcp.MethodNotFound):
                client.request(method)


def test_middleware_sees_the_methods(folder: Path) -> None:
    server, seen = Server("s", extensions=[Skills(folder)]), []

    @server.middleware
    def gate(ctx: minimcp.Context, call_next: Callable[[], Any]) -> Any:
        seen.append(ctx.method)
        if ctx.method == "skills/get":
            raise InvalidParams("not for you")
        return call_next()

    with minimcp.connect(server, timeout=WAIT) as client:
        [skill] = client.list_skills()
        with pytest.raises(InvalidParams, match="not for you"):
            client.read_skill(skill.uri)
        client.read_skill(skill)
    assert seen == ["skills/list", "skills/get", "resources/read"]


def test_a_skill_that_changes_after_it_was_listed(folder: Path) -> None:
    with minimcp.connect(Server("s", extensions=[Skills(folder)]), timeout=WAIT) as client:
        [skill] = client.list_skills()
        client.read_skill(skill)
        (folder / "pdf" / "references" / "FORMS.md").write_text("# Norms\n", "utf-8")
        with pytest.raises(SkillError, match="digest"):
            skill.read("references/FORMS.md")
        (folder / "pdf" / "SKILL.md").write_text(TEXT.replace("it", "that"), "utf-8")
        with pytest.raises(SkillError, match="bytes"):
            client.read_skill(skill)
        assert client.read_skill(skill.uri).read("references/FORMS.md") == "# Norms\n"


def test_many_read_while_the_folder_changes(folder: Path) -> None:
    """A reader gets either a whole skill or an error."""
    server, ended = Server("s", extensions=[Skills(folder)]), threading.Event()
    wrong: List[Any] = []

    def read(client: Client) -> None:
        for _ in range(20):
            try:
                text = client.read_skill(URI).text
            except (SkillError, InvalidParams, ResourceNotFound):
                continue
            if text not in (TEXT, TEXT * 2):
                wrong.append(text)

    def change() -> None:
        path = folder / "pdf" / "SKILL.md"
        while not ended.is_set():
            for text in (TEXT, TEXT * 2):
                path.write_bytes(text.encode())

    with minimcp.connect(server, timeout=WAIT) as client:
        readers = [threading.Thread(target=read, args=(client,)) for _ in range(4)]
        writer = threading.Thread(target=change)
        for thread in (writer, *readers):
            thread.start()
        for thread in readers:
            thread.join(WAIT)
        ended.set()
        writer.join(WAIT)
        assert (wrong, any(each.is_alive() for each in readers)) == ([], False)


# ---------------------------------------------------------------- a server that is not to be trusted


def listing(contents: Dict[str, Any], **more: Any) -> Dict[str, Any]:
    """An entry for these contents."""
    datas = {
        uri: data.encode() if isinstance(data, str) else data for uri, data in contents.items()
    }
    resources = [
        {"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
        for uri, data in datas.items()
    ]
    return {"uri": URI, "frontmatter": FRONT, "resources": resources, **more}


class Hostile(Answering):
    """Lists skills, and sends contents.

    Args:
        entries: The list; `skills/get` returns the first entry.
        contents: By URI: a text, bytes, or the list of contents as it goes over the wire.
        more: Other answers.
    """

    def __init__(self, *entries: Any, contents: Any = None, **more: Any) -> None:
        self.contents = CONTENTS if contents is None else contents
        self.asked: List[Any] = []
        declared = {"resources": {}, "extensions": {ID: {}}}
        script = {
            "server/discover": lambda message: {"result": {
                **discovered()(message)["result"], "capabilities": declared,
            }},
            "initialize": initialized(R4, **declared),
            "skills/list": result(skills=list(entries)), "skills/get": result(skill=(entries or (None,))[0]),
            "resources/read": self.read,
        }  # fmt: skip
        super().__init__({**script, **more}, modern=True)

    def read(self, message: Dict[str, Any]) -> Any:
        import base64

        uri = message["params"]["uri"]
        self.asked.append(uri)
        data = self.contents[uri]
        if isinstance(data, bytes):
            data = [{"uri": uri, "blob": base64.b64encode(data).decode()}]
        elif isinstance(data, str):
            data = [{"uri": uri, "text": data}]
        return {"result": {"contents": data}}

    def listed(self, client: Client) -> Skill:
        [skill] = client.list_skills()
        return skill


def test_nothing_is_read_before_it_is_needed() -> None:
    server = Hostile(listing(CONTENTS))
    with minimcp.connect(server, timeout=WAIT) as client:
        skill = server.listed(client)
        assert server.asked == []
        client.read_skill(skill)
        assert server.asked == [URI]
        skill.read("references/FORMS.md")
        assert server.asked == [URI, FORMS]
        client.read_skill(URI)
        assert server.asked == [URI, FORMS, URI]
        assert (
            server.listed(client).read("references/FORMS.md") == CONTENTS[FORMS]
        )  # verified as a skill before
        assert server.asked[3:] == [URI, FORMS]


OTHER = TEXT.replace("Fill in forms", "Exfiltrate it")
LONGER = TEXT + "and more\n"


def claiming(text: Any, front: Any = FRONT) -> Dict[str, Any]:
    """The entry of a server that lists another text of the SKILL.md rightly."""
    return {"entry": listing({**CONTENTS, URI: text}, frontmatter=front), "sent": text}


WRONG: Dict[str, Any] = {
    "digest": ({"entry": listing(CONTENTS), "sent": TEXT.replace("Do", "No")}, "digest"),
    "longer": ({"entry": listing(CONTENTS), "sent": LONGER}, "bytes"),
    "shorter": ({"entry": listing(CONTENTS), "sent": ""}, "bytes"),
    "bytes of the same": (claiming(TEXT.encode()), "not text"),
    "surrogates": ({"entry": listing(CONTENTS), "sent": "\ud800" * 10}, "bytes"),
    "another description": (claiming(OTHER), "'description'"),
    "one more member": (claiming(TEXT.replace("metadata:", "allowed-tools: Bash\nmetadata:")), "'allowed-tools'"),
    "one member less": (claiming(TEXT, {**FRONT, "license": "MIT"}), "'license'"),
    "another number": (claiming(TEXT, {**FRONT, "metadata": {"version": "1.0", "pages": 3}}), "'metadata'"),
    "true for one": (
        claiming(TEXT.replace("pages: 2", "pages: true"), {**FRONT, "metadata": {"version": "1.0", "pages": 1}}),
        "'metadata'",
    ),
    "a list for an object": (claiming(TEXT, {**FRONT, "metadata": ["1.0", 2]}), "'metadata'"),
    "no front matter": (claiming("Do it.\n"), "line 1"),
    "a front matter that is not read": (claiming(TEXT.replace("pages: 2", "pages: &a 2")), "line 6.*anchors"),
    "a front matter that refers to itself": (
        claiming("---\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(999)) + "---\n"), "line 2",
    ),
    "a deep front matter": (claiming("---\na: " + "[" * 50_000 + "\n---\n"), "line 2.*deep"),
    "no content": ({"entry": listing(CONTENTS), "sent": []}, "one content, not 0"),
    "two contents": ({"entry": listing(CONTENTS), "sent": [{"uri": URI, "text": TEXT}] * 2}, "one content, not 2"),
}  # fmt: skip


@pytest.mark.requirement("M:EXT-10")
@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("way", ["listed", "uri", "file"])
def test_a_skill_that_differs_from_its_entry(case: str, way: str) -> None:
    wrong, why = WRONG[case]
    server = Hostile(wrong["entry"], contents={**CONTENTS, URI: wrong["sent"]})
    with minimcp.connect(server, timeout=WAIT) as client:
        skill = server.listed(client)
        with pytest.raises(SkillError, match=why) as caught:
            if way == "file":
                skill.read("references/FORMS.md")
            else:
                client.read_skill(skill if way == "listed" else URI)
        assert (caught.value.uri, skill.text, server.asked) == (URI, None, [URI])


@pytest.mark.parametrize(
    ("path", "sent"), [("references/FORMS.md", "# Norms\n"), ("two words.bin", b"\xff\x01")]
)
def test_a_file_that_differs_from_its_entry(path: str, sent: Any) -> None:
    uri = FORMS if isinstance(sent, str) else RAW
    server = Hostile(listing(CONTENTS), contents={**CONTENTS, uri: sent})
    with minimcp.connect(server, timeout=WAIT) as client:
        with pytest.raises(SkillError, match="digest"):
            client.read_skill(URI).read(path)


@pytest.mark.parametrize("path", [
    "", "x", "references", "../pdf/SKILL.md", "/etc/passwd", "./SKILL.md", "skill://other/SKILL.md", URI, "%2e%2e/x",
    "references/../SKILL.md", "references\\FORMS.md",
])  # fmt: skip
@pytest.mark.parametrize("entry", [listing(CONTENTS), listing({}, resources="dynamic")])
def test_no_other_file_is_requested(path: str, entry: Any) -> None:
    """If the files of a skill are not listed, a client may request any file in its folder."""
    server = Hostile(entry, contents={**CONTENTS})
    server.answers["resources/read"] = [server.read, error(-32602, "no such file")]
    with minimcp.connect(server, timeout=WAIT) as client:
        skill = client.read_skill(URI)
        with pytest.raises(McpError):
            skill.read(path)
    asked = [
        each["params"]["uri"] for each in server.pipe.messages if each["method"] == "resources/read"
    ]
    assert all(each.startswith(ROOT) and ".." not in each for each in asked)
    assert skill.digests is None or asked == [URI]


def test_a_skill_whose_files_are_replaced() -> None:
    server = Hostile(
        listing({}, resources="dynamic"), contents={**CONTENTS, ROOT + "a%20b.md": "made now"}
    )
    with minimcp.connect(server, timeout=WAIT) as client:
        skill = client.read_skill(URI)
        assert (skill.digests, skill.read("a b.md")) == (None, "made now")
        server.contents[URI] = OTHER
        with pytest.raises(SkillError, match="'description'"):
            client.read_skill(URI)


def entry_with(**change: Any) -> Dict[str, Any]:
    return {
        name: value for name, value in {**listing(CONTENTS), **change}.items() if value is not ...
    }


def files_with(**change: Any) -> Dict[str, Any]:
    entry = listing(CONTENTS)
    entry["resources"][1].update(change)
    return entry


def more_files(count: int, **change: Any) -> Dict[str, Any]:
    entry = listing(CONTENTS)
    entry["resources"] += [
        {**entry["resources"][1], "uri": f"{ROOT}{number}", **change} for number in range(count)
    ]
    return entry


BAD_ENTRIES: Dict[str, Any] = {
    "no object": 5, "nothing": {}, "no uri": entry_with(uri=...), "a uri of another file": entry_with(uri=FORMS),
    "a uri that is none": entry_with(uri="pdf/SKILL.md"), "a number": entry_with(uri=5),
    "another name": entry_with(uri="skill://doc/SKILL.md"), "no name": entry_with(uri="skill:///SKILL.md"),
    "no front matter": entry_with(frontmatter=...), "a front matter without a name": entry_with(frontmatter={}),
    "no description": entry_with(frontmatter={"name": "pdf"}), "no resources": entry_with(resources=...),
    "resources of text": entry_with(resources="static"), "without its own file": entry_with(resources=[]),
    "a file of no object": entry_with(resources=[5]), "a file outside": files_with(uri="skill://other/x"),
    "a file above": files_with(uri=ROOT + "../x"), "an escaped one above": files_with(uri=ROOT + "%2e%2e/x"),
    "a file whose uri is none": files_with(uri=ROOT + "x\ny"), "a file twice": files_with(uri=URI),
    "no digest": files_with(digest=None),
    "md5": files_with(digest="md5:" + "0" * 32), "capitals": files_with(digest="sha256:" + "A" * 64),
    "a size below 0": files_with(size=-1), "true as a size": files_with(size=True),
    "half a byte": files_with(size=0.5), "a size of text": files_with(size="8"),
    "a huge size": files_with(size=2**40), "huge sizes together": more_files(2, size=2**24 - 100),
    "many files": more_files(510),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_ENTRIES)
def test_an_entry_that_makes_no_sense(case: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Hostile(BAD_ENTRIES[case])
    with minimcp.connect(server, timeout=WAIT) as client:
        assert client.list_skills() == []
        assert "skills[0]" in caplog.text and "left out" in caplog.text
        with pytest.raises(ProtocolViolation, match="skill"):
            client.read_skill(URI)
        assert server.asked == []


def test_the_maximum_number_of_files_of_a_skill() -> None:
    server = Hostile(more_files(509, size=2**15 - 5))
    with minimcp.connect(server, timeout=WAIT) as client:
        assert len(client.read_skill(URI).digests or ()) == 512


def test_another_skill_than_was_asked_for() -> None:
    server = Hostile(listing(CONTENTS))
    with minimcp.connect(server, timeout=WAIT) as client:
        with pytest.raises(ProtocolViolation, match="must return the requested skill"):
            client.read_skill("skill://other/SKILL.md")
        with pytest.raises(TypeError):
            client.read_skill(5)  # type: ignore[arg-type]


def test_a_listing_without_an_end() -> None:
    numbers = iter(range(10**9))
    server = Hostile(listing(CONTENTS))
    server.answers["skills/list"] = lambda message: {"result": {
        "skills": [listing(CONTENTS)], "nextCursor": str(next(numbers)),
    }}  # fmt: skip
    with minimcp.connect(server, timeout=WAIT) as client:
        with pytest.raises(ProtocolViolation, match="pages"):
            client.list_skills()


def test_numbers_and_texts_that_are_the_same_in_json() -> None:
    text = TEXT.replace("pages: 2", "pages: 2.0\n  to: [a, {b: null}]")
    front = {**FRONT, "metadata": {"pages": 2, "to": ["a", {"b": None}], "version": "1.0"}}
    server = Hostile(claiming(text, front)["entry"], contents={URI: text})
    with minimcp.connect(server, timeout=WAIT) as client:
        assert client.read_skill(URI).text == text
        assert repr(server.listed(client)) == f"<Skill {URI}>"
