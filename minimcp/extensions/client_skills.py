"""`Skill`: instructions and files for a model, as a server lists them, and read only if they are
what it listed.

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

# Files of a skill, and bytes in them; one of more is not loaded.
MOST_FILES, MOST_BYTES = 512, 16 * 1024 * 1024


class SkillError(McpError):
    """A skill whose files cannot be read, or differ from what the server listed.

    Attributes:
        uri: The URI of the file.
    """

    def __init__(self, message: str, uri: str = "") -> None:
        super().__init__(message)
        self.uri = uri


class Skill:
    """A skill at the server, of `Client.list_skills` and `Client.read_skill`. Thread-safe.

    All that it holds was written by the server: it is as little to be trusted as what a tool
    returns, and says nothing of who may run what. Show the user which server a skill is of, and ask
    before something in it is executed.

    Attributes:
        uri: Of its ``SKILL.md``, by which it is known; names may stand twice.
        name: Of the skill.
        description: What it is for, and when.
        frontmatter: All that its front matter says, as the server lists it.
        digests: By URI of each of its files what the server lists of its content; None where that
            is made anew for each reader, and nothing can be verified. An approval that is kept
            holds for exactly these.
        text: Of its ``SKILL.md``, with the front matter; None until it was read.
    """

    def __init__(self, client: Client, wire: Any) -> None:
        self._client = client
        uri, about = (
            (wire.get("uri"), wire.get("frontmatter")) if isinstance(wire, dict) else (None, None)
        )
        if not isinstance(uri, str) or not uri.endswith(SKILL_FILE) or not isinstance(about, dict):
            raise ValueError(f"a skill has the uri of a {SKILL_FILE[1:]}, and frontmatter")
        self.uri, self.frontmatter, self._root = uri, about, uri[: -len(SKILL_FILE) + 1]
        check_uri(uri)
        check_front_matter(about, unquote(self._root.split("/")[-2]))
        self.name, self.description = str(about["name"]), str(about["description"])
        self.text: Optional[str] = None
        self.digests: Optional[dict[str, str]] = None
        if wire.get("resources") != "dynamic":
            self.digests, self._sizes = _listed(wire.get("resources"), self._root)
            if uri not in self.digests:
                raise ValueError(f"the resources of a skill have its {uri}")

    def read(
        self, path: str, *, timeout: Seconds = DEFAULT, cancel: Cancel = None
    ) -> Union[str, bytes]:
        """Read one of its files, verified; its ``SKILL.md`` is read before, if it was not yet.

        Args:
            path: From the folder of the skill, as its instructions write it:
                ``"references/FORMS.md"``.
            timeout: Seconds the server may take in all; left out, that of `connect`; None waits for
                ever.
            cancel: A token that ends the call from another thread; None for a call that nobody
                cancels.

        Returns:
            A text, or bytes for what the server does not send as one.

        Raises:
            SkillError: The skill has no such file, or the server sends something else than it has
                listed.
            McpError: As `Client.read_resource`.
        """
        call = Call(self._client._sessions, timeout, cancel, "resources")
        uri = self._root + quote(path)
        known = {unquote(each): each for each in self.digests or ()}
        uri = known.get(self._root + path, uri)
        if has_parent_segment(uri) or (self.digests is not None and uri not in self.digests):
            raise SkillError(f"{self.uri}: it lists no file {one_line(path)}", uri)
        if self.text is None:
            self.load(call)
        return self._fetch(call, uri)

    def load(self, call: Call) -> None:
        """Read its ``SKILL.md``. Errors as `read`."""
        text = self._fetch(call, self.uri)
        try:
            if not isinstance(text, str):
                raise ValueError("it is no text")
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
                    f"{self.uri}: its front matter has another {one_line(key)!r} than is listed",
                    self.uri,
                )
        self.text = text

    def _fetch(self, call: Call, uri: str) -> Union[str, bytes]:
        wire = call.request("resources/read", {"uri": uri})
        contents = read_result("resources/read", ReadResourceResult.from_wire, wire).contents
        if len(contents) != 1:
            raise SkillError(
                f"{uri}: the server sends {len(contents)} contents, and it is one file", uri
            )
        content: Union[str, bytes] = (
            contents[0].data if contents[0].text is None else contents[0].text
        )
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        if self.digests is not None:
            if len(data) != self._sizes[uri]:
                raise SkillError(
                    f"{uri}: it has {len(data)} bytes, and {self._sizes[uri]} are listed", uri
                )
            if f"sha256:{hashlib.sha256(data).hexdigest()}" != self.digests[uri]:
                raise SkillError(
                    f"{uri}: its digest is not the one that is listed: it was changed", uri
                )
        return content

    def __repr__(self) -> str:
        return f"<Skill {one_line(self.uri)}>"


def get_skill(client: Client, call: Call, uri: str) -> Skill:
    """The skill of this URI, whether it is listed or not, and not read yet."""
    result = call.request("skills/get", {"uri": uri})
    skill = read_result("skills/get", lambda result: Skill(client, result.get("skill")), result)
    if normalize_uri(skill.uri) != normalize_uri(uri):
        raise ProtocolViolation(
            f"skills/get answers with the skill that is asked for, {one_line(uri)}", skill.uri
        )
    return skill


def _listed(resources: Any, root: str) -> tuple[dict[str, str], dict[str, int]]:
    """The digests and sizes of files, by URI. Raises ValueError: they make no sense."""
    if not isinstance(resources, list) or len(resources) > MOST_FILES:
        raise ValueError(
            f'the resources of a skill are "dynamic", or a list of at most {MOST_FILES} files'
        )
    digests: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for each in resources:
        uri, digest, size = (
            map(each.get, ("uri", "digest", "size")) if isinstance(each, dict) else ("", "", 0)
        )
        if (
            not isinstance(uri, str)
            or not uri.startswith(root)
            or has_parent_segment(uri)
            or uri in digests
        ):
            raise ValueError(
                f"a file of a skill lies in its folder, and is listed once, unlike {one_line(uri)}"
            )
        check_uri(uri)
        if not isinstance(digest, str) or not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise ValueError(f"{one_line(uri)}: a digest is sha256: and 64 digits of a-f and 0-9")
        if type(size) is not int or not 0 <= size <= MOST_BYTES - sum(sizes.values()):
            raise ValueError(
                f"{one_line(uri)}: its size makes more than {MOST_BYTES} bytes of the skill, or is none"
            )
        digests[uri], sizes[uri] = digest, size
    return digests, sizes


def _same(one: Json, other: Json) -> bool:
    """Whether these are the same in JSON, where 1 is 1.0 and not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)
