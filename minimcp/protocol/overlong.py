"""What can still be told of a message whose line was too long to be kept, from its two ends.

Some peers write the id first, others last. Either is enough to end the one call that the message belonged to.
"""

from __future__ import annotations

import json
import re

from ..errors import INVALID_REQUEST
from .messages import Broken, Id, Json, is_id

_decoder = json.JSONDecoder()
_NAME = re.compile(r'\s*[{,]\s*("(?:[^"\\]|\\.)*")\s*:\s*')
_LAST_ID = re.compile(r',\s*"id"\s*:\s*(-?\d{1,100}|"(?:[^"\\]|\\.)*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
"""A member before the one brace that ends the line is the message's own: what is nested ends with more of them."""


def judge(head: bytes, tail: bytes, reason: str) -> Broken:
    """What the message seems to have been.

    Args:
        head: The beginning of its line.
        tail: The end of it; the two may overlap.
        reason: What is wrong with it.

    Returns:
        A `Broken` with an id only where the line has one at the top, and names no other. Never raises.
    """
    text = head.decode("utf-8-sig", "replace").lstrip()
    array = text.startswith("[")
    members, names = _first_members(text[1:].lstrip() if array else text)
    ids = {(type(id), id) for id in [*_ids(members), *_last_id(tail)]}
    id = ids.pop()[1] if len(ids) == 1 and not array else None
    if "result" in names or "error" in names:
        return Broken(INVALID_REQUEST, reason, id, "response")
    if id is not None and ("method" in names or "params" in names):
        return Broken(INVALID_REQUEST, reason, id, "request")
    return Broken(INVALID_REQUEST, reason)


def _first_members(text: str) -> tuple[dict[str, Json], set[str]]:
    """The members of an object that are whole, and the names of these and of the one that is not."""
    members: dict[str, Json] = {}
    at = 0
    while True:
        found = _NAME.match(text, at)
        if found is None or text[:1] != "{":
            return members, set(members)
        name = found[1][1:-1]
        try:
            value, at = _decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            return members, {*members, name}
        if at == len(text):  # a number may go on
            return members, {*members, name}
        members[name] = value


def _ids(members: dict[str, Json]) -> list[Id]:
    return [id for name, id in members.items() if name == "id" and is_id(id)]


def _last_id(tail: bytes) -> list[Id]:
    found = _LAST_ID.search(tail.decode("utf-8", "replace"))
    try:
        return [json.loads(found[1])] if found else []
    except ValueError:
        return []
