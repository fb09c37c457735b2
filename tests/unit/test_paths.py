"""`resolve_inside`: what lies in a directory is found, and nothing else is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict

import pytest

from minimcp import ResourceAccessDenied, resolve_inside
from minimcp.server.paths import LONGEST_PATH

HOSTILE: Dict[str, str] = {
    # goes up
    "..": "goes up",
    "../secret.txt": "goes up",
    "a/../../secret.txt": "goes up",
    "a/..": "goes up",
    "./../secret.txt": "goes up",
    "../root-evil/secret.txt": "goes up",
    "..;/secret.txt/../..": "goes up",
    # is absolute, on some system
    "/etc/passwd": "absolute",
    "//server/share/x": "absolute",
    "~/.ssh/id_rsa": "home",
    "C:/Windows/win.ini": "colon",
    "C:secret.txt": "colon",
    "file:///etc/passwd": "colon",
    "\\\\server\\share\\x": "backslash",
    "\\\\?\\C:\\x": "backslash",
    "..\\secret.txt": "backslash",
    "a\\..\\..\\secret.txt": "backslash",
    # still encoded: the template has decoded once
    "%2e%2e/secret.txt": "goes up",
    "..%2fsecret.txt": "goes up",
    "%2e%2e%2fsecret.txt": "goes up",
    "%252e%252e%252fsecret.txt": "goes up",
    "%2fetc%2fpasswd": "absolute",
    "..%5csecret.txt": "backslash",
    "%c0%ae%c0%ae/secret.txt": "not UTF-8",
    "%25252525252e": "too often",
    "a%00.txt": "control",
    # looks like something else
    "\uff0e\uff0e/secret.txt": "goes up",
    "..\uff0fsecret.txt": "goes up",
    "..\u2215secret.txt": "goes up",
    "..\u2044secret.txt": "goes up",
    "\u2025/secret.txt": "goes up",
    "..\u200b/secret.txt": "goes up",
    "..\uff3csecret.txt": "backslash",
    "\ufe55x": "colon",
    # names that some system reads as another name
    "a\x00.txt": "control",
    "a\n.txt": "control",
    "a.txt\x85": "control",
    "a.txt ": "dot or a blank",
    "a.txt.": "dot or a blank",
    "a.txt::$DATA": "colon",
    "...": "dot or a blank",
    ".. /secret.txt": "dot or a blank",
    "NUL": "device",
    "a/con.txt": "device",
    "aux .txt": "device",
    "lpt\u00b9": "device",
    # nothing, and too much
    "": "empty",
    "a//b": "empty",
    "a/": "empty",
    "x" * 256: "too long",
    "x/" * 3000: "too long",
    "\u00e4" * (LONGEST_PATH - 1): "too long",
    "\udcff": "no Unicode",
    # follows links
    "link-to-file": "outside",
    "link-to-folder/secret.txt": "outside",
    "inner/chain": "outside",
}

FINE = {
    ".": "", "a.txt": "a.txt", "inner/b.txt": "inner/b.txt", "./a.txt": "a.txt", "not there yet": "not there yet",
    "..a/b..c": "..a/b..c", ".hidden": ".hidden", "100%25.txt": "100%25.txt", "100%.txt": "100%.txt",
    "My%20File.pdf": "My%20File.pdf", "\u00fcber \u6f22 \U0001f469\u200d\U0001f680.txt": None, "a\u00bd.txt": None,
    "console/null.txt": "console/null.txt", "link-inside": "a.txt", "loop": "loop", "a~": "a~",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory, reached by a link, with a secret beside it and links that lead there."""
    folder = tmp_path_factory.mktemp("paths")
    (folder / "secret.txt").write_text("secret")
    for name in ("root", "root/inner", "root-evil"):
        (folder / name).mkdir()
    (folder / "root-evil/secret.txt").write_text("secret")
    (folder / "root/a.txt").write_text("a")
    for link, target in {
        "root/link-to-file": "../secret.txt", "root/link-to-folder": "../root-evil", "root/link-inside": "a.txt",
        "root/inner/chain": "../link-to-file", "root/loop": "loop", "entrance": "root",
    }.items():
        (folder / link).symlink_to(target)
    return folder / "entrance"


def test_what_lies_inside_is_found(root: Path) -> None:
    top = root.resolve()
    for path, found in FINE.items():
        assert resolve_inside(root, path) == top / (path if found is None else found), path
        assert resolve_inside(str(root), Path(path)) == resolve_inside(root, path)
    assert resolve_inside("/", "etc") == Path("/etc").resolve()


def test_what_does_not_is_refused(root: Path) -> None:
    assert len(HOSTILE) >= 30
    for path, reason in HOSTILE.items():
        with pytest.raises(ResourceAccessDenied, match="^Access denied: ") as refused:
            resolve_inside(root, path)
        assert reason in refused.value.message, path
        assert str(root.parent) not in refused.value.message


def test_a_relative_root_is_taken_from_the_working_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    assert resolve_inside(".", "a.txt") == root.resolve() / "a.txt"
    assert resolve_inside("inner/..", "a.txt") == root.resolve() / "a.txt"


def test_a_path_is_text(root: Path) -> None:
    wrong: Any
    for wrong in (b"a.txt", 5, None):
        with pytest.raises(TypeError):
            resolve_inside(root, wrong)
    with pytest.raises(TypeError, match="^path is a str, not bytes$"):
        resolve_inside(root, os.fsencode("a.txt"))  # type: ignore[arg-type]
