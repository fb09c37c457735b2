"""`resolve_inside`: only files inside a directory are found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Dict, List

import pytest

from minimcp import ResourceAccessDenied, resolve_inside
from minimcp.server.paths import MAX_PATH_BYTES

HOSTILE: Dict[str, List[str]] = {
    "has a '..' segment": [
        "..", "../secret.txt", "a/../../secret.txt", "a/..", "./../secret.txt", "../root-evil/secret.txt",
        "..;/secret.txt/../..", "%2e%2e/secret.txt", "..%2fsecret.txt", "%2e%2e%2fsecret.txt",
        "%252e%252e%252fsecret.txt", "\uff0e\uff0e/secret.txt", "..\uff0fsecret.txt", "..\u2215secret.txt",
        "..\u2044secret.txt", "\u2025/secret.txt", "..\u200b/secret.txt",
    ],
    "absolute": ["/etc/passwd", "//server/share/x", "%2fetc%2fpasswd"],
    "home": ["~/.ssh/id_rsa"],
    "colon": ["C:/Windows/win.ini", "C:secret.txt", "file:///etc/passwd", "\ufe55x", "a.txt::$DATA"],
    "backslash": [
        "\\\\server\\share\\x", "\\\\?\\C:\\x", "..\\secret.txt", "a\\..\\..\\secret.txt", "..%5csecret.txt",
        "..\uff3csecret.txt",
    ],
    "not UTF-8": ["%c0%ae%c0%ae/secret.txt"],
    "too many times": ["%25252525252e"],
    "control": ["a%00.txt", "a\x00.txt", "a\n.txt", "a.txt\x85"],
    "dot or a space": ["a.txt ", "a.txt.", "...", ".. /secret.txt"],
    "device": ["NUL", "a/con.txt", "aux .txt", "lpt\u00b9"],
    "empty": ["", "a//b", "a/"],
    "too long": ["x" * 256, "x/" * 3000, "\u00e4" * (MAX_PATH_BYTES - 1)],
    "not valid Unicode": ["\udcff"],
    "outside": ["link-to-file", "link-to-folder/secret.txt", "inner/chain"],
}  # fmt: skip

FINE = {
    ".": "",
    "a.txt": "a.txt",
    "inner/b.txt": "inner/b.txt",
    "./a.txt": "a.txt",
    "not there yet": "not there yet",
    "..a/b..c": "..a/b..c",
    ".hidden": ".hidden",
    "100%25.txt": "100%25.txt",
    "100%.txt": "100%.txt",
    "My%20File.pdf": "My%20File.pdf",
    "\u00fcber \u6f22 \U0001f469\u200d\U0001f680.txt": None,
    "a\u00bd.txt": None,
    "console/null.txt": "console/null.txt",
    "link-inside": "a.txt",
    "loop": "loop",
    "a~": "a~",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a directory that is reached by a link, with a secret next to it and links to that
    secret."""
    folder = tmp_path_factory.mktemp("paths")
    (folder / "secret.txt").write_text("secret")
    for name in ("root", "root/inner", "root-evil"):
        (folder / name).mkdir()
    (folder / "root-evil/secret.txt").write_text("secret")
    (folder / "root/a.txt").write_text("a")
    for link, target in {
        "root/link-to-file": "../secret.txt",
        "root/link-to-folder": "../root-evil",
        "root/link-inside": "a.txt",
        "root/inner/chain": "../link-to-file",
        "root/loop": "loop",
        "entrance": "root",
    }.items():
        (folder / link).symlink_to(target)
    return folder / "entrance"


def test_files_inside_are_found(root: Path) -> None:
    top = root.resolve()
    for path, found in FINE.items():
        assert resolve_inside(root, path) == top / (path if found is None else found), path
        assert resolve_inside(str(root), Path(path)) == resolve_inside(root, path)
    assert resolve_inside("/", "etc") == Path("/etc").resolve()


def test_files_outside_are_rejected(root: Path) -> None:
    for reason, path in [(reason, path) for reason, paths in HOSTILE.items() for path in paths]:
        with pytest.raises(ResourceAccessDenied, match="^Access denied: ") as refused:
            resolve_inside(root, path)
        assert reason in refused.value.message, path
        assert str(root.parent) not in refused.value.message


def test_a_relative_root_is_relative_to_the_working_directory(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    assert resolve_inside(".", "a.txt") == root.resolve() / "a.txt"
    assert resolve_inside("inner/..", "a.txt") == root.resolve() / "a.txt"


def test_a_path_is_text(root: Path) -> None:
    wrong: Any
    for wrong in (b"a.txt", 5, None):
        with pytest.raises(TypeError):
            resolve_inside(root, wrong)
    with pytest.raises(TypeError, match="^path must be a str, not bytes$"):
        resolve_inside(root, os.fsencode("a.txt"))  # type: ignore[arg-type]
