"""Roots: the directories in which a server may work."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Union

from .base import Wire
from .kinds import OBJECT, TEXT, Json, needed

if TYPE_CHECKING:
    from pathlib import Path


class Root(Wire):
    """A directory or file in which a server may work.

    Args:
        uri: A ``file://`` URI.
        name: For people; None says nothing.
        meta: The member ``_meta``.

    Raises:
        ValueError: The URI is no ``file://`` URI. (One that a peer sent is kept; its `path` is None.)
    """

    FIELDS = {"uri": needed(TEXT), "name": TEXT, "meta": OBJECT}
    __slots__ = tuple(FIELDS)

    def __init__(self, uri: str, name: Optional[str] = None, *, meta: Optional[Json] = None) -> None:
        self.uri = uri
        self.name = name
        self.meta = meta
        self._start()
        if not uri.startswith("file://"):
            raise ValueError(f"Root: uri must start with file://, unlike {uri!r}; for a path use from_path")

    @classmethod
    def from_path(cls, path: Union[str, os.PathLike[str]], name: Optional[str] = None) -> Root:
        """The root of a path of this machine; a relative one is taken from the working directory."""
        from pathlib import Path

        return cls(Path(os.path.abspath(path)).as_uri(), name)

    @property
    def path(self) -> Optional[Path]:
        """The path on this machine; None when the URI is of another kind or machine, or no path has its characters."""
        from pathlib import Path
        from urllib.parse import unquote, urlsplit

        try:
            parts = urlsplit(self.uri)
        except ValueError:
            return None
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            return None
        path = unquote(parts.path)
        if os.name == "nt":  # pragma: no cover - "/C:/x" is "C:/x" there
            path = path.lstrip("/")
        return None if "\0" in path else Path(path)
