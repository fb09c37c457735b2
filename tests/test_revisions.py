"""The facts of each revision, once more and by hand: a table to hold against the specification's own."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Tuple

import pytest

from minimcp.protocol.versions import BY_NAME, NEWEST_HANDSHAKE, REVISIONS, Revision, choose

from .rows import for_each

R1, R2, R3, R4, R5 = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
NAMES = (R1, R2, R3, R4, R5)

FACTS: Dict[str, Tuple[Any, Any, Any, Any, Any]] = {
    "name": NAMES,
    "handshake": (True, True, True, True, False),
    "batches": (True, True, False, False, False),
    "polling": (False, False, False, True, False),
    "error_without_id": (False, False, False, True, True),
    "progress_message": (False, True, True, True, True),
    "structured": ("none", "none", "object", "object", "any"),
    "argument_errors_are_results": (False, False, False, True, True),
    "completions_capability": (False, True, True, True, True),
    "completion_context": (False, False, True, True, True),
    "result_type": (False, False, False, False, True),
    "cache_hints": (False, False, False, False, True),
    "url_errors": (False, False, False, True, False),
    "elicitation_ids": (False, False, False, True, False),
    "full_forms": (False, False, False, True, True),
    "sampling_tools": (False, False, False, True, True),
    "resource_missing": (-32002, -32002, -32002, -32002, -32602),
    "client_capabilities": (
        {"sampling": (), "roots": ("listChanged",)},
        {"sampling": (), "roots": ("listChanged",)},
        {"sampling": (), "roots": ("listChanged",), "elicitation": ()},
        {"sampling": ("tools", "context"), "roots": ("listChanged",), "elicitation": ("form", "url")},
        {"sampling": ("tools", "context"), "roots": (), "elicitation": ("form", "url")},
    ),
}
"""One value per revision."""

SINCE: Dict[str, Dict[str, Tuple[str, ...]]] = {
    "content_kinds": {R1: ("text", "image", "resource"), R2: ("audio",), R3: ("resource_link",)},
    "tool_members": {
        R1: ("name", "description", "inputSchema"),
        R2: ("annotations",),
        R3: ("title", "_meta", "outputSchema"),
        R4: ("icons", "execution"),
    },
    "resource_members": {
        R1: ("uri", "name", "description", "mimeType", "size", "annotations"),
        R3: ("title", "_meta"),
        R4: ("icons",),
    },
    "template_members": {
        R1: ("uriTemplate", "name", "description", "mimeType", "annotations"),
        R3: ("title", "_meta"),
        R4: ("icons",),
    },
    "contents_members": {R1: ("uri", "mimeType", "text", "blob"), R3: ("_meta",)},
    "prompt_members": {R1: ("name", "description", "arguments"), R3: ("title", "_meta"), R4: ("icons",)},
    "argument_members": {R1: ("name", "description", "required"), R3: ("title",)},
    "annotation_members": {R1: ("audience", "priority"), R3: ("lastModified",)},
    "implementation_members": {
        R1: ("name", "version"),
        R3: ("title",),
        R4: ("description", "icons", "websiteUrl"),
    },
    "requests_to_server": {
        R1: (
            "initialize", "ping", "resources/list", "resources/templates/list", "resources/read",
            "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "tools/list",
            "tools/call", "logging/setLevel", "completion/complete",
        ),
        R5: ("server/discover", "subscriptions/listen"),
    },
    "elicitation_modes": {R3: ("form",), R4: ("url",)},
    "sampling_kinds": {R1: ("text", "image"), R2: ("audio",), R4: ("tool_use", "tool_result")},
    "requests_to_client": {R1: ("ping", "sampling/createMessage", "roots/list"), R3: ("elicitation/create",)},
    "asking_methods": {R5: ("tools/call", "prompts/get", "resources/read")},
}
"""Members of sets, by the revision that brought them."""

GONE: Dict[str, Dict[str, Tuple[str, ...]]] = {
    "tool_members": {R5: ("execution",)},
    "requests_to_server": {
        R5: ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
    },
    "requests_to_client": {R5: ("ping", "sampling/createMessage", "roots/list", "elicitation/create")},
}
"""Members of sets, by the revision that took them away."""


def members(fact: str, name: str) -> FrozenSet[str]:
    found: FrozenSet[str] = frozenset()
    for revision in NAMES[: NAMES.index(name) + 1]:
        found |= frozenset(SINCE[fact].get(revision, ()))
        found -= frozenset(GONE.get(fact, {}).get(revision, ()))
    return found


@pytest.mark.requirement("LIFE-12")
def test_there_are_five_and_the_table_knows_every_fact() -> None:
    assert tuple(revision.name for revision in REVISIONS) == NAMES
    assert dict(zip(NAMES, REVISIONS)) == BY_NAME
    assert set(Revision._fields) == {*FACTS, *SINCE}
    assert NEWEST_HANDSHAKE is BY_NAME[R4]


@for_each("fact", FACTS)
def test_a_fact_has_its_value_in_each_revision(fact: str) -> None:
    assert tuple(getattr(revision, fact) for revision in REVISIONS) == FACTS[fact]


@for_each("fact", SINCE)
def test_a_set_has_its_members_in_each_revision(fact: str) -> None:
    assert {name: getattr(BY_NAME[name], fact) for name in NAMES} == {name: members(fact, name) for name in NAMES}


def test_a_revision_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        NEWEST_HANDSHAKE.batches = True  # type: ignore[misc]
    for revision in REVISIONS:
        assert all(isinstance(getattr(revision, fact), frozenset) for fact in SINCE)


# ---------------------------------------------------------------- choosing


@for_each(
    ("names", "chosen"),
    [
        (None, list(NAMES)),
        ([R5], [R5]),
        ([R4, R1], [R1, R4]),
        ((R3, R3), [R3]),
        ({R5: 1, R2: 1}, [R2, R5]),
        (NAMES, list(NAMES)),
    ],
)
def test_what_is_chosen_comes_oldest_first(names: Any, chosen: List[str]) -> None:
    assert [revision.name for revision in choose(names)] == chosen


@for_each("unknown", ["2099-01-01", "", "2025-11-26", "latest", 20251125, None])
def test_an_unknown_name_is_refused_by_name(unknown: Any) -> None:
    with pytest.raises(ValueError, match=f"^unknown revision {unknown!r}: known are {', '.join(NAMES)}$"):
        choose([R1, unknown])


def test_none_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match=f"^name one of {', '.join(NAMES)}$"):
        choose([])


def test_one_name_alone_is_a_mistake_that_is_explained() -> None:
    with pytest.raises(TypeError, match=r"did you mean \['2025-06-18'\]\?$"):
        choose(R3)
