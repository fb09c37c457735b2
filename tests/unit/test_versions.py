"""The facts of each revision, once more and by hand: a table to hold against the specification's
own."""

from __future__ import annotations

from typing import Any

import pytest

from minimcp.protocol.versions import BY_NAME, NEWEST_HANDSHAKE, REVISIONS, Revision, choose

from ..rows import for_each

R1, R2, R3, R4, R5 = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
NAMES = (R1, R2, R3, R4, R5)

FACTS: dict[str, tuple[Any, Any, Any, Any, Any]] = {
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
    "tasks": ("none", "none", "none", "core", "extension"),
    "resource_missing": (-32002, -32002, -32002, -32002, -32602),
    "client_capabilities": (
        {"sampling": (), "roots": ("listChanged",)},
        {"sampling": (), "roots": ("listChanged",)},
        {"sampling": (), "roots": ("listChanged",), "elicitation": ()},
        {
            "sampling": ("tools", "context"),
            "roots": ("listChanged",),
            "elicitation": ("form", "url"),
        },
        {"sampling": ("tools", "context"), "roots": (), "elicitation": ("form", "url")},
    ),
}
"""One value per revision."""

SETS: dict[str, tuple[str, str, str, str, str]] = {
    "content_kinds": ("text image resource", "+audio", "+resource_link", "", ""),
    "tool_members": (
        "name description inputSchema", "+annotations", "+title +_meta +outputSchema", "+icons +execution",
        "-execution",
    ),
    "resource_members": ("uri name description mimeType size annotations", "", "+title +_meta", "+icons", ""),
    "template_members": ("uriTemplate name description mimeType annotations", "", "+title +_meta", "+icons", ""),
    "contents_members": ("uri mimeType text blob", "", "+_meta", "", ""),
    "prompt_members": ("name description arguments", "", "+title +_meta", "+icons", ""),
    "argument_members": ("name description required", "", "+title", "", ""),
    "annotation_members": ("audience priority", "", "+lastModified", "", ""),
    "implementation_members": ("name version", "", "+title", "+description +icons +websiteUrl", ""),
    "requests_to_server": (
        "initialize ping resources/list resources/templates/list resources/read resources/subscribe "
        "resources/unsubscribe prompts/list prompts/get tools/list tools/call logging/setLevel completion/complete",
        "", "", "",
        "-initialize -ping -logging/setLevel -resources/subscribe -resources/unsubscribe +server/discover "
        "+subscriptions/listen",
    ),
    "sampling_kinds": ("text image", "+audio", "", "+tool_use +tool_result", ""),
    "requests_to_client": (
        "ping sampling/createMessage roots/list", "", "+elicitation/create", "",
        "-ping -sampling/createMessage -roots/list -elicitation/create",
    ),
    "asking_methods": ("tools/call prompts/get resources/read", "", "", "", ""),
}  # fmt: skip
"""Members of sets: those of the first revision, and those that each later one added and removed."""


@pytest.mark.requirement("LIFE-12")
def test_there_are_five_revisions_and_the_table_knows_every_fact() -> None:
    assert (
        dict(zip(NAMES, REVISIONS)) == BY_NAME
        and len(REVISIONS) == 5
        and NEWEST_HANDSHAKE is BY_NAME[R4]
    )
    assert set(Revision._fields) == {*FACTS, *SETS}
    with pytest.raises(AttributeError):
        NEWEST_HANDSHAKE.batches = True  # type: ignore[misc]


@for_each("fact", FACTS)
def test_a_fact_has_its_value_in_each_revision(fact: str) -> None:
    assert tuple(getattr(revision, fact) for revision in REVISIONS) == FACTS[fact]


@for_each("fact", SETS)
def test_a_set_has_its_members_in_each_revision(fact: str) -> None:
    expected: set[str] = set()
    for revision, changes in zip(REVISIONS, SETS[fact]):
        for change in changes.split():
            (expected.discard if change[0] == "-" else expected.add)(change.lstrip("+-"))
        assert getattr(revision, fact) == expected and isinstance(
            getattr(revision, fact), frozenset
        ), revision.name


def test_an_unknown_revision_is_refused_by_name() -> None:
    odd: list[Any] = ["2099-01-01", "", "2025-11-26", "latest", 20251125, None]
    for unknown in odd:
        with pytest.raises(
            ValueError,
            match=f"^unknown revision {unknown!r}: the known ones are {', '.join(NAMES)}$",
        ):
            choose([R1, unknown])
    with pytest.raises(
        ValueError, match=f"^revisions must not be empty: name one of {', '.join(NAMES)}$"
    ):
        choose([])
    with pytest.raises(TypeError, match=r"did you mean \['2025-06-18'\]\?$"):
        choose(R3)
