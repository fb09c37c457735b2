"""`Skills`: a folder of skills, which clients list, verify and read.

Every folder with a ``SKILL.md`` is a skill, at any depth, and its files are resources:
``acme/refunds/SKILL.md`` is ``skill://acme/refunds/SKILL.md``. Each request uses the current
content of the folder. Files are opened folder by folder without following symbolic links, so a link
that appears in the meantime cannot lead outside.

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

# Maximum number of files of a skill, and of bytes in them.
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024

# Maximum number of files and folders to scan. The others are excluded.
MAX_ENTRIES = 10_000

# A page of a list ends after this number of bytes.
PAGE_BYTES = 1024 * 1024

# Seconds after a change in which another change might not alter the times of a file.
UNSETTLED_SECONDS = 2.0

_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)


class _File(NamedTuple):
    """A file as it was read.

    Attributes:
        stamp: Changes when the file changes; None if a change might not be visible.
        listed: Its URI, digest and size.
        front: The front matter of a ``SKILL.md``, or a message that says what is wrong with it.
    """

    stamp: Optional[tuple[int, ...]]
    listed: dict[str, Json]
    front: Union[dict[str, Json], str] = ""


class _Seen(NamedTuple):
    """The content of the folder, by path.

    Attributes:
        skills: The list entries of the skills, by the path of their ``SKILL.md``.
        resources: Files and folders of skills, and the folders above them.
        faults: Why a path is excluded.
    """

    skills: dict[str, dict[str, Json]]
    resources: dict[str, dict[str, Json]]
    faults: dict[str, str]


class Skills(Extension):
    """Serves a folder of skills: ``Server("x", extensions=[Skills("skills")])``. Thread-safe.

    A skill is a folder with a ``SKILL.md``, which begins with front matter: the ``name`` of the
    folder, and a ``description``. Folders with other front matter are excluded, and the log says
    why, with file and line. Symbolic links are excluded, too, as are names that begin with a dot or
    that some system does not support, and skills with more than 512 files or 16 MiB.

    Every client of the server can read all files of all skills. Changes in the folder take effect
    with the next request. Call `Server.resource_updated` to notify subscribers of a file.

    Args:
        folder: The folder that contains the skills, absolute or relative to the working directory.

    Raises:
        ValueError: The folder does not exist, or is a skill itself.
    """

    identifier = IDENTIFIER
    settings: Mapping[str, Json] = {"directoryRead": True}
    refreshed_by = ("resources/list",)

    def __init__(self, folder: Union[str, os.PathLike[str]]) -> None:
        self._folder = os.path.abspath(os.fspath(folder))
        if not os.path.isdir(self._folder):
            raise ValueError(f"Skills takes a folder, but {self._folder} is not one")
        if os.path.exists(os.path.join(self._folder, SKILL_FILE)):
            raise ValueError(f"{self._folder} is a skill: pass the folder that contains it")
        self._known: dict[str, _File] = {}
        self._seen = _Seen({}, {}, {})
        self._scans = 0  # the number of scans
        self._lock = threading.Lock()

    def install(self, server: Any) -> None:
        """Join a server; see `Extension.install`."""
        super().install(server)
        server.add_resource(
            self._read, SCHEME + "{+path}", name="skill-file", description="A file of a skill."
        )

    def routes(self) -> Mapping[str, Destination]:
        """Return the routes, which every client may use: clients do not declare this extension."""
        return {name: method.route for name, method in self._method_handlers.items()}

    def refresh(self) -> None:
        """Update the resources, before they are listed."""
        self._scan()

    # ------------------------------------------------------------ the methods

    @method("skills/list")
    def _list(self, params: Mapping[str, Json], ctx: Context) -> dict[str, Json]:
        return self._page("skills", self._scan().skills.values(), params, ctx)

    @method("skills/get")
    def _get(self, params: Mapping[str, Json], ctx: Context) -> dict[str, Json]:
        skills = self._scan().skills
        found = skills.get(_path_of(params.get("uri"), skills))
        if found is None:
            raise InvalidParams(
                f"uri must be the URI of a skill's {SKILL_FILE}, not {one_line(params.get('uri'))}"
            )
        return {"skill": found, **self._hints(ctx)}

    @method("resources/directory/read")
    def _read_folder(self, params: Mapping[str, Json], ctx: Context) -> dict[str, Json]:
        uri = params.get("uri")
        resources = self._scan().resources
        path = _path_of(uri, resources)
        if resources.get(path, {}).get("mimeType") != FOLDER_TYPE:
            raise InvalidParams(
                "uri must be the URI of a folder in a skill, without a trailing slash, not"
                f" {one_line(uri)}"
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
        """Return a page of a list, in order of URIs.

        The cursor is the last URI, so that changes of the list do not shift pages.
        """
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
        result: dict[str, Json] = {member: rest[:count], **self._hints(ctx)}
        if count < len(rest):
            result["nextCursor"] = cursor_at(name, rest[count - 1]["uri"])
        return result

    def _hints(self, ctx: Context) -> Mapping[str, Json]:
        return self._config.hints if ctx._incoming.peer.revision.cache_hints else {}

    def _read(self, path: str) -> Any:
        """Return the content of a file of a skill."""
        listed = self._scan().resources.get(path, {})
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

    def _scan(self) -> _Seen:
        """Return the current content of the folder. Update the resources, and log new faults.

        A thread that waits for another thread's scan uses its result, if that scan began after the
        call.
        """
        scans = self._scans
        with self._lock:
            if self._scans != scans:
                return self._seen
            self._scans += 1
            before = self._seen
            seen = self._find()
            self._seen = seen
            for path, fault in seen.faults.items():
                if before.faults.get(path) != fault:
                    log.warning("excluded: %s: %s", os.path.join(self._folder, path), fault)
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
            first = bisect_left(paths, folder + "/")
            last = bisect_left(paths, folder + "0")  # "0" follows "/"
            inside = paths[first:last]
            files = [each for each in inside if stat.S_ISREG(statuses[each].st_mode)]
            try:
                if (
                    len(files) > MAX_FILES
                    or sum(statuses[each].st_size for each in files) > MAX_BYTES
                ):
                    raise ValueError(
                        f"a skill must have at most {MAX_FILES} files, with at most {MAX_BYTES} "
                        "bytes in total"
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
        """Yield the paths of files and folders, with their status."""
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
                            fault = "it is not a file or folder (symbolic links are not followed)"
                        if fault is None:
                            yield path, status
                        else:
                            faults[path] = fault
            except OSError as error:
                faults[folder] = describe(error)
            if left == 0:
                faults[""] = f"everything after the first {MAX_ENTRIES} files and folders"
                break

    def _file(self, path: str, status: os.stat_result, known: Optional[_File]) -> _File:
        """Return a file. It is read only if it may have changed since it was last read."""
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
        """Return the content of a file.

        Raises:
            OSError: It is not a regular file, or it is too large.
        """
        with (
            self._opened(path) as here,
            open(here, "rb", closefd=not isinstance(here, int)) as file,
        ):
            data = (
                file.read(MAX_BYTES + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
            )
        if data is None or len(data) > MAX_BYTES:
            raise OSError(f"not a file, or longer than {MAX_BYTES} bytes")
        return data

    @contextmanager
    def _opened(self, path: str) -> Iterator[Union[int, str]]:
        """Yield a descriptor of a file or folder; its path on Windows, where `open` has no
        ``dir_fd``."""
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
    """Return the path, among these, that has this URI; "" if there is none."""
    wanted = normalize_uri(uri) if isinstance(uri, str) else ""
    return next((path for path in paths if _normalized_uri_of(path) == wanted), "")


@lru_cache(MAX_ENTRIES)
def _uri_and_type(path: str) -> tuple[str, Optional[str]]:
    """Return the URI and MIME type of a file."""
    from mimetypes import guess_type

    return _uri_of(path), MARKDOWN if path.endswith(".md") else guess_type(path)[0]


def _resource(path: str, listed: Optional[Mapping[str, Json]]) -> dict[str, Json]:
    """Return a file as a list of resources describes it; a folder if `listed` is None."""
    uri, kind = _uri_and_type(path)
    found: dict[str, Json] = {"uri": uri, "name": path.rpartition("/")[2]}
    if listed is None:
        return {**found, "mimeType": FOLDER_TYPE}
    return {**found, **({"mimeType": kind} if kind else {}), "size": listed["size"]}


def _front_of(path: str, data: bytes) -> Union[dict[str, Json], str]:
    """Return the front matter of a skill, or a message that says what is wrong with it."""
    try:
        found = read_front_matter(data.decode())
        check_front_matter(found, path.split("/")[-2])
    except ValueError as error:
        return describe(error)
    return found
