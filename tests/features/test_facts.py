"""What stands at the end of results, and how a server describes itself, by revision."""

from __future__ import annotations

import json

from minimcp.protocol.versions import BY_NAME

from ..answering import R1, R3, R4, R5
from .support import facts

STAMP = {"io.modelcontextprotocol/serverInfo": {"name": "unit", "version": "1", "title": "Unit"}}


def test_older_results_end_as_they_are() -> None:
    made = facts()
    for name in (R1, R4):
        revision = BY_NAME[name]
        assert made.closing(revision) == "" == made.list_closing(revision)
        result = {"a": 1}
        assert made.closed(result, revision) is result


def test_the_newest_say_what_they_are_and_who_made_them() -> None:
    made, revision = facts(list_ttl=2, list_cache_scope="public"), BY_NAME[R5]
    assert json.loads("{" + made.closing(revision)[1:] + "}") == {"resultType": "complete", "_meta": STAMP}
    assert json.loads("{" + made.list_closing(revision)[1:] + "}") == {
        "ttlMs": 2000, "cacheScope": "public", "resultType": "complete", "_meta": STAMP,
    }
    assert made.closed({"a": 1}, revision) == {"resultType": "complete", "a": 1, "_meta": STAMP}
    own = made.closed({"resultType": "other", "_meta": {"x": 1, **dict.fromkeys(STAMP, "mine")}}, revision)
    assert own == {"resultType": "other", "_meta": {"x": 1, **dict.fromkeys(STAMP, "mine")}}, "the handler's own win"
    assert made.closed({"_meta": 5}, revision)["_meta"] == STAMP


def test_the_description_has_what_the_revision_knows() -> None:
    assert facts().described(BY_NAME[R1]) == {"name": "unit", "version": "1"}
    assert facts().described(BY_NAME[R3]) == {"name": "unit", "version": "1", "title": "Unit"}


def test_nobody_is_told_of_a_change_before_there_is_a_server() -> None:
    facts().changed("tools")
