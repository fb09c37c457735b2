"""`Skill`: instructions and files for a model, which a server lists.

A client returns a file only if its content is the listed one.

https://modelcontextprotocol.io/seps/2640-skills-extension
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Optional, Union
from urllib.parse import quote, unquote

from ..client.calls import DEFAULT, Call, Seconds, read_result
from ..client.session import Cancel
from ..errors import McpError, ProtocolViolation
from ..protocol.messages import Json
from ..protocol.urls import check_uri, has_parent_segment, normalize_uri
from ..text import one_line
from ..types import ReadResourceResult
from .front_matter import check_front_matter, read_front_matter

if TYPE_CHECKING:
    from ..client.client import Client

CAPABILITY = "ext:io.modelcontextprotocol/skills"

SKILL_FILE = "/SKILL.md"

# Maximum number of files of a skill, and of bytes in them. Larger skills are not loaded.
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024


class SkillError(McpError):
    """A file of a skill cannot be read, or differs from the file that the server listed.

    Attributes:
        uri: The URI of the file.
    """

    def __init__(self, message: str, uri: str = "") -> None:
        super().__init__(message)
        self.uri = uri


class Skill:
    """A skill on the server, from `Client.list_skills` or `Client.read_skill`. Thread-safe.

    The server wrote everything in it, so trust it no more than the result of a tool. It grants no
    permissions. Show the user which server a skill is from, and ask before you run anything in it.

    Attributes:
        uri: The URI of its ``SKILL.md``, which identifies it. Names may occur twice.
        name: The name of the skill.
        description: What the skill is for, and when to use it.
        frontmatter: All of its front matter, as the server lists it.
        digests: The digest of each file, by URI; None if the files are generated for each reader
            and cannot be verified. A stored approval applies to exactly these digests.
        text: The text of its ``SKILL.md`` with the front matter; None before it was read.
    """

    def __init__(self, client: Client, wire: Any) -> None:
        self._client = client
        if not isinstance(wire, dict):
            wire = {}
        uri = wire.get("uri")
        about = wire.get("frontmatter")
        if not isinstance(uri, str) or not uri.endswith(SKILL_FILE) or not isinstance(about, dict):
            raise ValueError(f"a skill must have the URI of a {SKILL_FILE[1:]} and frontmatter")
        self.uri = uri
        self.frontmatter = about
        self._root = uri[: -len(SKILL_FILE) + 1]
        check_uri(uri)
        check_front_matter(about, unquote(self._root.split("/")[-2]))
        self.name = str(about["name"])
        self.description = str(about["description"])
        self.text: Optional[str] = None
        self.digests: Optional[dict[str, str]] = None
        if wire.get("resources") != "dynamic":
            self.digests, self._sizes = _listed(wire.get("resources"), self._root)
            if uri not in self.digests:
                raise ValueError(f"the resources of a skill must include its {uri}")

    def read(
        self, path: str, *, timeout: Seconds = DEFAULT, cancel: Cancel = None
    ) -> Union[str, bytes]:
        """Read and verify one file of the skill. Its ``SKILL.md`` is read first, if necessary.

        Args:
            path: The path from the skill's folder, as in its instructions:
                ``"references/FORMS.md"``.
            timeout: Seconds for the whole call. By default, the timeout of `connect`; None means no
                limit.
            cancel: A token that cancels the call from another thread; None for a call that nobody
                cancels.

        Returns:
            A str, or bytes if the server sends the file as binary data.

        Raises:
            SkillError: The skill has no such file, or the server sends content that differs from
                the listed content.
            McpError: See `Client.read_resource`.
        """
        call = Call(self._client._sessions, timeout, cancel, "resources")
        uri = self._root + quote(path)
        known = {unquote(each): each for each in self.digests or ()}
        uri = known.get(self._root + path, uri)
        if has_parent_segment(uri) or (self.digests is not None and uri not in self.digests):
            raise SkillError(f"{self.uri}: the skill does not list the file {one_line(path)}", uri)
        if self.text is None:
            self.load(call)
        return self._fetch(call, uri)

    def load(self, call: Call) -> None:
        """Read its ``SKILL.md``. See `read` for exceptions."""
        text = self._fetch(call, self.uri)
        try:
            if not isinstance(text, str):
                raise ValueError("it is not text")
            found = read_front_matter(text)
        except ValueError as error:
            raise SkillError(f"{self.uri}: {error}", self.uri) from None
        for key in [*found, *self.frontmatter]:
            if (
                key not in found
                or key not in self.frontmatter
                or not _same(found[key], self.frontmatter[key])
            ):
                raise SkillError(
                    f"{self.uri}: {one_line(key)!r} in its front matter differs from the list",
                    self.uri,
                )
        self.text = text

    def _fetch(self, call: Call, uri: str) -> Union[str, bytes]:
        wire = call.request("resources/read", {"uri": uri})
        contents = read_result("resources/read", ReadResourceResult.from_wire, wire).contents
        if len(contents) != 1:
            raise SkillError(f"{uri}: the server must send one content, not {len(contents)}", uri)
        content: Union[str, bytes] = (
            contents[0].data if contents[0].text is None else contents[0].text
        )
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        if self.digests is not None:
            if len(data) != self._sizes[uri]:
                raise SkillError(
                    f"{uri}: the file has {len(data)} bytes, but {self._sizes[uri]} are listed", uri
                )
            if f"sha256:{hashlib.sha256(data).hexdigest()}" != self.digests[uri]:
                raise SkillError(
                    f"{uri}: the digest of the file differs from the listed digest: "
                    "the file was changed",
                    uri,
                )
        return content

    def __repr__(self) -> str:
        return f"<Skill {one_line(self.uri)}>"


def get_skill(client: Client, call: Call, uri: str) -> Skill:
    """Return the skill of a URI, whether it is listed or not. It is not read yet."""
    result = call.request("skills/get", {"uri": uri})
    skill = read_result("skills/get", lambda result: Skill(client, result.get("skill")), result)
    if normalize_uri(skill.uri) != normalize_uri(uri):
        raise ProtocolViolation(
            f"skills/get must return the requested skill, {one_line(uri)}", skill.uri
        )
    return skill


def _listed(resources: Any, root: str) -> tuple[dict[str, str], dict[str, int]]:
    """Return the digests and sizes of files, by URI.

    Raises:
        ValueError: The list of files is invalid.
    """
    if not isinstance(resources, list) or len(resources) > MAX_FILES:
        raise ValueError(
            f'the resources of a skill must be "dynamic" or a list of at most {MAX_FILES} files'
        )
    digests: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for each in resources:
        if not isinstance(each, dict):
            each = {}
        uri = each.get("uri")
        digest = each.get("digest")
        size = each.get("size")
        if (
            not isinstance(uri, str)
            or not uri.startswith(root)
            or has_parent_segment(uri)
            or uri in digests
        ):
            raise ValueError(
                "a file of a skill must be in its folder and be listed once, unlike"
                f" {one_line(uri)}"
            )
        check_uri(uri)
        if not isinstance(digest, str) or not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise ValueError(
                f"{one_line(uri)}: a digest must be 'sha256:' and 64 lowercase hexadecimal digits"
            )
        if type(size) is not int or not 0 <= size <= MAX_BYTES - sum(sizes.values()):
            raise ValueError(
                f"{one_line(uri)}: its size is invalid, or the skill has more than"
                f" {MAX_BYTES} bytes"
            )
        digests[uri] = digest
        sizes[uri] = size
    return digests, sizes


def _same(one: Json, other: Json) -> bool:
    """Return whether two values are the same in JSON, where 1 equals 1.0 but not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)
