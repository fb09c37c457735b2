"""Keys of a store, and records that cannot be read."""

from __future__ import annotations

import itertools
from typing import Any, Dict, List

import pytest

from minimcp import Entry, MemoryStore, Store
from minimcp.protocol.messages import read_json
from minimcp.stores.base import (
    MAX_NUMBER,
    MAX_RECORD_DEPTH,
    has_members,
    is_number,
    owner_of,
    read_record,
    store_key,
)

# Texts that a naive key would mix up: separators, escapes, dots, empty, other scripts, half of a pair.
TEXTS = [
    "",
    "a",
    "a/b",
    "a_b",
    "a:b",
    "a,b",
    "a%2Fb",
    "a b",
    "..",
    "-",
    "*",
    "é",
    "\0",
    "\ud800",
    "?",
]


def test_different_arguments_make_different_keys() -> None:
    made: Dict[str, Any] = {}
    for name, kind, owner in itertools.product(TEXTS, repeat=3):
        for arguments in (
            ((), name, kind),
            ((), name, kind, owner),
            ((kind or "x/",), name, owner),
            ((kind or "x/", owner or "y/"), name, "task"),
            ((), name, kind, owner, ""),
            ((), name, "task", kind, owner),
        ):
            key = store_key(*arguments)
            assert made.setdefault(key, arguments) == arguments
            assert key.isascii() and key.isprintable()


def test_keys_of_an_owner_have_a_prefix_of_their_own() -> None:
    for one, other in itertools.permutations(TEXTS, 2):
        prefix = store_key((), "server", "task", one, "")
        assert store_key((), "server", "task", one, "id").startswith(prefix)
        assert not store_key((), "server", "task", other, "id").startswith(prefix)
        assert prefix.rpartition("/")[0] + "/" == store_key((), "server", "task", "", "")[:-1], (
            "RedisStore keeps a list of the keys of each kind"
        )


def test_owners() -> None:
    named = [owner_of(text) for text in [*TEXTS, None]]
    assert len({*named}) == len(TEXTS) + 1 and named[-1] == "-"
    assert all(each.isalnum() for each in named[:-1])


def test_a_store_without_sizes_of_its_own_counts_by_its_list() -> None:
    class Other(Store):
        def list(self, prefix: str, after: str = "", limit: Any = None) -> List[Entry]:
            return [Entry(prefix + "one", b"123", 1), Entry(prefix + "two", b"", 2)]

    assert Other().sizes("a/") == {"a/one": 3, "a/two": 0}
    assert MemoryStore().sizes("a/") == {}


UNREADABLE = [
    b"",
    b"\x80\x04",
    b"\xff",
    b"{",
    b"[]",
    b"7",
    b'"text"',
    b"null",
    b"{} {}",
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": 1e999}',
    b'{"a": 1, "a": 1}',
    b'{"a": ' + b"9" * 5000 + b"}",
    b'{"a": "\x00"}',
    b'{"a": ["\\ud800"]}',
    b'{"\\uDFFF": 1}',
    b'{"a": ' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b"[" * 100_000,
    "text",
    7,
    None,
]


@pytest.mark.parametrize("value", UNREADABLE, ids=range(len(UNREADABLE)))
def test_an_unreadable_record_counts_as_missing(
    value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_record("site/session/key", value, lambda _: True) is None
    (logged,) = caplog.records
    assert logged.getMessage() == "site/session/key in the store cannot be read, and is ignored"
    assert logged.exc_info is None


@pytest.mark.parametrize(
    "fails", [TypeError, KeyError, ValueError, AttributeError, OverflowError, IndexError, None]
)
def test_an_invalid_record_counts_as_missing(fails: Any, caplog: pytest.LogCaptureFixture) -> None:
    def is_sound(record: Any) -> bool:
        if fails is not None:
            raise fails("wrong")
        return False

    assert read_record("key", b"{}", is_sound) is None
    assert len(caplog.records) == 1
    assert read_record(
        "key", b' {"a": [1.5, null, "\xc3\xa9\\ud83d\\ude00\\\\ud800"]}\n', lambda _: True
    ) == {"a": [1.5, None, "é\U0001f600\\ud800"]}


def test_a_record_may_be_as_deep_as_a_message_and_its_wrapping() -> None:
    deep = b'{"a": ' + b"[" * (MAX_RECORD_DEPTH - 1) + b"]" * (MAX_RECORD_DEPTH - 1) + b"}"
    assert read_json(deep, max_depth=MAX_RECORD_DEPTH)
    with pytest.raises(ValueError, match="deeper than 299"):
        read_json(deep, max_depth=MAX_RECORD_DEPTH - 1)


def test_members() -> None:
    members: Any = {"a": (int,), "b": (str, type(None))}
    optional: Any = {"c": (list,)}
    good = {"a": 1, "b": None}
    assert has_members(good, members) and has_members({**good, "c": []}, members, optional)
    for wrong in ({"a": 1}, {**good, "a": ""}, {**good, "c": []}, {**good, "d": 1}):
        assert not has_members(wrong, members)
    assert has_members(good, members, optional)
    assert not has_members({**good, "c": 1}, members, optional)
    assert [is_number(each) for each in (0, MAX_NUMBER, MAX_NUMBER + 1, -1, True, 1.0, "1")] == [
        True, True, False, False, False, False, False,
    ]  # fmt: skip
