"""`Skills`: a folder of skills, which clients list, verify and read.

Every folder with a ``SKILL.md`` is a skill, at any depth, and its files are resources:
``acme/refunds/SKILL.md`` is ``skill://acme/refunds/SKILL.md``. A request finds the folder as it is
then. Files are opened from folder to folder, and no symbolic link is followed on the way, so that
none that appears meanwhile leads outside.

https://modelcontextprotocol.io/seps/2640-skills-extension
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from bisect import bisect_left
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Union
from urllib.parse import quote

from ..errors import InvalidParams, ResourceNotFound
from ..log import logger
from ..protocol.messages import Json, to_json
from ..protocol.urls import normalize_uri
from ..server.context import Context
from ..server.feature import Destination
from ..server.options import method
from ..server.paths import path_fault
from ..text import describe, one_line
from ..types import BlobResourceContents, TextResourceContents
from .extension import Extension, cursor_at, position_of
from .front_matter import check_front_matter, read_front_matter

log = logger("minimcp.skills")

IDENTIFIER = "io.modelcontextprotocol/skills"

SCHEME = "skill://"
SKILL_FILE = "SKILL.md"
MARKDOWN = "text/markdown"
FOLDER_TYPE = "inode/directory"

# Files of a skill, and bytes in them.
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024

# Files and folders that are looked at; those behind them are left out.
MAX_ENTRIES = 10_000

# Bytes after which a page of a list ends.
PAGE_BYTES = 1024 * 1024

# Seconds after its last change in which a file may change again, and its times stay the same.
UNSETTLED_SECONDS = 2.0

_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)


class _File(NamedTuple):
    """A file as it was read.

    Attributes:
        stamp: By which a change shows; None where it could not.
        listed: Its URI, digest and size.
        front: Of a ``SKILL.md`` the front matter, or what is wrong with it.
    """

    stamp: Optional[tuple[int, ...]]
    listed: dict[str, Json]
    front: Union[dict[str, Json], str] = ""


class _Seen(NamedTuple):
    """What a look into the folder has found, by path from there.

    Attributes:
        skills: As they are listed, by their ``SKILL.md``.
        resources: Files and folders of skills, and the folders above those.
        faults: Why something is left out.
    """

    skills: dict[str, dict[str, Json]]
    resources: dict[str, dict[str, Json]]
    faults: dict[str, str]


class Skills(Extension):
    """Serves a folder of skills: ``Server("x", extensions=[Skills("skills")])``. Thread-safe.

    A skill is a folder with a ``SKILL.md``, which begins with front matter: its ``name``, which is
    that of the folder, and a ``description``. What is no such skill is left out, and the log says
    why, with file and line. So are symbolic links, names that begin with a dot or that some system
    does not take, and skills of over 512 files or 16 MiB.

    Everybody who may use the server may read all files of all skills. What changes in the folder
    counts from the next request on; whoever subscribed to a file has to be told by
    `Server.resource_updated`.

    Args:
        folder: That holds the folders of the skills; a relative one is taken from the working
            directory.

    Raises:
        ValueError: It is no folder, or a skill itself.
    """

    identifier = IDENTIFIER
    settings: Mapping[str, Json] = {"directoryRead": True}
    refreshed_by = ("resources/list",)

    def __init__(self, folder: Union[str, os.PathLike[str]]) -> None:
        self._folder = os.path.abspath(os.fspath(folder))
        if not os.path.isdir(self._folder):
            raise ValueError(f"Skills takes a folder, and {self._folder} is none")
        if os.path.exists(os.path.join(self._folder, SKILL_FILE)):
            raise ValueError(f"{self._folder} is a skill: Skills takes the folder that holds it")
        self._known: dict[str, _File] = {}
        self._seen = _Seen({}, {}, {})
        self._begun = 0  # how often it was looked at
        self._lock = threading.Lock()

    def install(self, server: Any) -> None:
        """As `Extension.install`."""
        super().install(server)
        server.add_resource(
            self._read, SCHEME + "{+path}", name="skill-file", description="A file of a skill."
        )

    def routes(self) -> Mapping[str, Destination]:
        """As `Extension.routes`; clients do not declare this extension."""
        return {name: method.route for name, method in self._method_handlers.items()}

    def refresh(self) -> None:
        """As `Extension.refresh`."""
        self._look()

    # ------------------------------------------------------------ the methods

    @method("skills/list")
    def _list(self, params: Mapping[str, Json], ctx: Context) -> dict[str, Json]:
        return self._page("skills", self._look().skills.values(), params, ctx)

    @method("skills/get")
    def _get(self, params: Mapping[str, Json], ctx: Context) -> dict[str, Json]:
        skills = self._look().skills
        found = skills.get(_path_of(params.get("uri"), skills))
        if found is None:
            raise InvalidParams(
                f"uri is that of the {SKILL_FILE} of a skill, not {one_line(params.get('uri'))}"
            )
        return {"skill": found, **self._hints(ctx)}

    @method("resources/directory/read")
    def _read_folder(self, params: Mapping[str, Json], ctx: Context) -> dict[str, Json]:
        uri = params.get("uri")
        resources = self._look().resources
        path = _path_of(uri, resources)
        if resources.get(path, {}).get("mimeType") != FOLDER_TYPE:
            raise InvalidParams(
                "uri is that of a folder of a skill, without a slash at its end, not "
                f"{one_line(uri)}"
            )
        inside = [each for child, each in resources.items() if child.rpartition("/")[0] == path]
        return self._page("resources", inside, params, ctx, path)

    def _page(
        self,
        member: str,
        items: Iterable[dict[str, Json]],
        params: Mapping[str, Json],
        ctx: Context,
        folder: str = "",
    ) -> dict[str, Json]:
        """A page of a list, in the order of URIs; its cursor is the last of them, so that changes
        shift nothing."""
        name = f"{member} of {folder}"
        last = position_of(name, params)
        rest = sorted(
            (each for each in items if each["uri"] > last), key=lambda each: str(each["uri"])
        )
        most = self._config.page_size or len(rest)
        count = 0
        size = 0
        while count < min(most, len(rest)) and size < PAGE_BYTES:
            size += len(to_json(rest[count]))
            count += 1
        more = {"nextCursor": cursor_at(name, rest[count - 1]["uri"])} if count < len(rest) else {}
        return {member: rest[:count], **more, **self._hints(ctx)}

    def _hints(self, ctx: Context) -> Mapping[str, Json]:
        return self._config.hints if ctx._incoming.peer.revision.cache_hints else {}

    def _read(self, path: str) -> Any:
        """The resource that is a file of a skill."""
        listed = self._look().resources.get(path, {})
        try:
            if "size" not in listed:
                raise FileNotFoundError
            data = self._content(path)
        except OSError:
            raise ResourceNotFound(f"no skill has the file {one_line(path)}") from None
        try:
            return TextResourceContents(listed["uri"], data.decode(), listed.get("mimeType"))
        except UnicodeDecodeError:
            return BlobResourceContents(listed["uri"], data, listed.get("mimeType"))

    # ------------------------------------------------------------ the folder

    def _look(self) -> _Seen:
        """What the folder holds now; the skills are registered as resources, and what is left out
        is logged once.

        Who waits for another thread's look, which began after this was called, takes what that has
        found.
        """
        begun = self._begun
        with self._lock:
            if self._begun != begun:
                return self._seen
            self._begun += 1
            before = self._seen
            seen = self._find()
            self._seen = seen
            for path, fault in seen.faults.items():
                if before.faults.get(path) != fault:
                    log.warning("left out: %s: %s", os.path.join(self._folder, path), fault)
            for path in before.skills.keys() - seen.skills.keys():
                with suppress(KeyError):  # the author may have removed it
                    self.server.remove_resource(_uri_of(path))
            for path, skill in seen.skills.items():
                about = skill["frontmatter"]
                if path not in before.skills or before.skills[path]["frontmatter"] != about:
                    self.server.add_resource(
                        self._reader(path),
                        _uri_of(path),
                        name=about["name"],
                        description=about["description"],
                        mime_type=MARKDOWN,
                        replace=True,
                    )
            return seen

    def _reader(self, path: str) -> Callable[[], Any]:
        def read() -> Any:
            return self._read(path)

        return read

    def _find(self) -> _Seen:
        seen = _Seen({}, {}, {})
        uris: dict[str, str] = {}
        statuses = dict(sorted(self._walk(seen.faults)))
        paths = list(statuses)
        known = self._known
        self._known = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            if name != SKILL_FILE or not folder or not stat.S_ISREG(statuses[path].st_mode):
                continue
            inside = paths[
                bisect_left(paths, folder + "/") : bisect_left(paths, folder + "0")
            ]  # "0" follows "/"
            files = [each for each in inside if stat.S_ISREG(statuses[each].st_mode)]
            try:
                if (
                    len(files) > MAX_FILES
                    or sum(statuses[each].st_size for each in files) > MAX_BYTES
                ):
                    raise ValueError(
                        f"a skill has at most {MAX_FILES} files, and {MAX_BYTES} bytes in them"
                    )
                for each in files:
                    if each not in self._known:
                        self._known[each] = self._file(each, statuses[each], known.get(each))
                about = self._known[path].front
                if isinstance(about, str):
                    raise ValueError(about)
                other = uris.setdefault(_normalized_uri_of(path), path)
                if other != path:
                    raise ValueError(f"its URI is equivalent to that of {other}")
            except (OSError, ValueError) as error:
                seen.faults[path] = describe(error)
                continue
            listed = {each: self._known[each].listed for each in files}
            seen.skills[path] = {
                "uri": _uri_of(path),
                "frontmatter": about,
                "resources": list(listed.values()),
            }
            while folder:
                inside.append(folder)
                folder = folder.rpartition("/")[0]
            seen.resources.update((each, _resource(each, listed.get(each))) for each in inside)
        for path, skill in seen.skills.items():
            about = skill["frontmatter"]
            seen.resources[path].update(name=about["name"], description=about["description"])
        return seen

    def _walk(self, faults: dict[str, str]) -> Iterator[tuple[str, os.stat_result]]:
        """The files and folders, by their paths."""
        pending = [""]
        left = MAX_ENTRIES
        while pending:
            folder = pending.pop()
            try:
                with self._opened(folder) as here, os.scandir(here) as entries:
                    for entry in islice(entries, left):
                        left -= 1
                        if entry.name.startswith("."):
                            continue
                        path = f"{folder}/{entry.name}".lstrip("/")
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        fault = None if path in self._seen.resources else path_fault(path)
                        if fault is None and stat.S_ISDIR(status.st_mode):
                            pending.append(path)
                        elif fault is None and not stat.S_ISREG(status.st_mode):
                            fault = (
                                "it is neither a file nor a folder (symbolic links are not "
                                "followed)"
                            )
                        if fault is None:
                            yield path, status
                        else:
                            faults[path] = fault
            except OSError as error:
                faults[folder] = describe(error)
            if left == 0:
                faults[""] = f"what lies behind the first {MAX_ENTRIES} files and folders"
                break

    def _file(self, path: str, status: os.stat_result, known: Optional[_File]) -> _File:
        """A file as it is; it is read only where it may have changed since it is known."""
        stamp = (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        if known is not None and known.stamp == stamp:
            return known
        data = self._content(path)
        listed = {
            "uri": _uri_of(path),
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "size": len(data),
        }
        settled = time.time() - max(status.st_mtime, status.st_ctime) > UNSETTLED_SECONDS
        return _File(
            stamp if settled else None,
            listed,
            _front_of(path, data) if path.endswith(SKILL_FILE) else "",
        )

    def _content(self, path: str) -> bytes:
        """Raises OSError: It is no file (any more), or none of a skill's size."""
        with (
            self._opened(path) as here,
            open(here, "rb", closefd=not isinstance(here, int)) as file,
        ):
            data = (
                file.read(MAX_BYTES + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
            )
        if data is None or len(data) > MAX_BYTES:
            raise OSError(f"no file, or one of more than {MAX_BYTES} bytes")
        return data

    @contextmanager
    def _opened(self, path: str) -> Iterator[Union[int, str]]:
        """A descriptor of a file or folder; Windows has none that others are opened from, so there
        the path."""
        if os.open not in os.supports_dir_fd:
            yield os.path.join(self._folder, path)
            return
        here = os.open(self._folder, os.O_RDONLY)
        try:
            for name in path.split("/") if path else ():
                outer = here
                here = os.open(name, _FLAGS, dir_fd=here)
                os.close(outer)
            yield here
        finally:
            os.close(here)

    def __repr__(self) -> str:
        return f"<Skills in {self._folder!r}>"


def _uri_of(path: str) -> str:
    return SCHEME + quote(path)


@lru_cache(MAX_ENTRIES)
def _normalized_uri_of(path: str) -> str:
    return normalize_uri(_uri_of(path))


def _path_of(uri: Json, paths: Iterable[str]) -> str:
    """Return that of the paths whose URI this is; empty if there is none."""
    wanted = normalize_uri(uri) if isinstance(uri, str) else ""
    return next((path for path in paths if _normalized_uri_of(path) == wanted), "")


@lru_cache(MAX_ENTRIES)
def _uri_and_type(path: str) -> tuple[str, Optional[str]]:
    """Of a file that there is."""
    from mimetypes import guess_type

    return _uri_of(path), MARKDOWN if path.endswith(".md") else guess_type(path)[0]


def _resource(path: str, listed: Optional[Mapping[str, Json]]) -> dict[str, Json]:
    """A file, or for None a folder, as a list of resources has it."""
    uri, kind = _uri_and_type(path)
    found: dict[str, Json] = {"uri": uri, "name": path.rpartition("/")[2]}
    if listed is None:
        return {**found, "mimeType": FOLDER_TYPE}
    return {**found, **({"mimeType": kind} if kind else {}), "size": listed["size"]}


def _front_of(path: str, data: bytes) -> Union[dict[str, Json], str]:
    """The front matter of a skill, or what is wrong with it."""
    try:
        found = read_front_matter(data.decode())
        check_front_matter(found, path.split("/")[-2])
    except ValueError as error:
        return describe(error)
    return found
