"""A session in a file: `record` writes it, `replay` stands for its server, `replay_against` for its
client.

The file has an object of JSON a line, with ``time``, ``direction`` and ``message``, as ``minimcp
trace --json`` writes it too, and ``minimcp trace --html`` draws it.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Union

from ..protocol.lifecycle import LISTEN, SUBSCRIPTION_KEY
from .scripted import Message, ScriptedClient, ScriptedPeer, ScriptedServer
from .transcript import Transcript

Path = Union[str, "os.PathLike[str]"]

SCRUBBED = "[scrubbed]"
"""Stands in the place of a secret; for what is compared with a recording, for anything."""

_NAMES = (
    r"[\w-]{0,40}(?:authori[sz]ation|passw(?:or)?d|passphrase|secret|credentials?|cookie)"
    r"|(?!progress)[\w-]{0,40}(?<!page)token"
    r"|[\w-]{0,40}(?:api|access|private|signing|encryption)[_-]?key"
)
# In a text: behind such a name, behind "Bearer", in a URL; and what can be nothing else.
_TEXT = re.compile(
    rf"""(\b(?:{_NAMES})\b["'\\]*\s*[:=]\s*["'\\]*(?:(?:bearer|basic)\s+)?"""
    r"""|\bbearer\s+|://[^/\s:@]*:(?=[^/\s]*@))"""
    r"""[^\s"'\\,;&@}]+"""
    r"""|\b(?:sk-|gh[a-z]_|github_pat_|xox[a-z]-|AKIA|eyJ[\w-]{2,999}\.eyJ)[\w.-]{12,}""",
    re.I,
)

# What a server makes anew each time.
_OPAQUE = ("requestState", "nextCursor", "taskId", "createdAt", "lastUpdatedAt")


def record(path: Path, scrub: Sequence[str] = ()) -> Callable[[str, str], None]:
    """What writes a session into a file as it goes: ``connect(server,
    trace=record("session.jsonl"))``.

    Values of tokens, keys and passwords, by their names and in texts, are replaced by `SCRUBBED`.
    One file holds one connection.

    Args:
        path: Of the file, which begins empty.
        scrub: What else is secret: names of members, and texts wherever they stand.

    Raises:
        OSError: The file cannot be written.
    """
    open(path, "w").close()
    lock, transcript = threading.Lock(), Transcript()
    names = re.compile("|".join([_NAMES, *map(re.escape, scrub)]), re.I)

    def clean(value: Any, secret: bool = False, is_schema: bool = False) -> Any:
        if isinstance(value, dict):  # the schema of a password is no secret
            return {
                name: clean(
                    each,
                    (secret or bool(names.fullmatch(name)))
                    and not (is_schema and isinstance(each, dict)),
                    name == "properties",
                )
                for name, each in value.items()
            }
        if isinstance(value, list):
            return [clean(each, secret) for each in value]
        if secret and value and not isinstance(value, bool):
            return SCRUBBED
        if isinstance(value, str):
            value = _TEXT.sub(lambda found: (found[1] or "") + SCRUBBED, value)
            for each in scrub:
                value = value.replace(each, SCRUBBED)
        return value

    def scrubbed(message: Any) -> Any:
        if not isinstance(message, dict):
            return clean(message)
        return {
            name: each if name in ("id", "method") else clean(each)
            for name, each in message.items()
        }

    def write(arrow: str, text: str) -> None:
        with (
            lock,
            open(path, "a", encoding="utf-8") as file,
        ):  # each time, because nobody would close it
            for entry in transcript.record(
                arrow, text.encode("utf-8", "surrogatepass"), time.time()
            ):
                file.write(entry._replace(message=scrubbed(entry.message)).as_json() + "\n")
            transcript.clear()

    return write


def _read(path: Path) -> list[tuple[bool, Message]]:
    """The messages of a file, each with whether it is the client's, who speaks first."""
    entries = [entry for entry in Transcript.load(path) if isinstance(entry.message, dict)]
    return [(entry.direction == entries[0].direction, entry.message) for entry in entries]


def _params(message: Message) -> dict[str, Any]:
    return message.get("params") or {}


def _meta(message: Message) -> dict[str, Any]:
    return _params(message).get("_meta") or {}


def _shown(message: Message) -> str:
    params = {
        name: value
        for name, value in _params(message).items()
        if name not in ("_meta", "requestState")
    }
    return f"{message.get('method')} {json.dumps(params, ensure_ascii=False, sort_keys=True):.300}"


def _differences(
    recorded: Any,
    live: Any,
    at: str = "",
    ignore: Sequence[str] = (),
    renewed: Optional[dict[str, str]] = None,
) -> Iterator[str]:
    """Where two values differ, in lines; of what a server makes anew it is noted what it has
    become."""
    if any(re.search(rf"[./]{re.escape(name)}$", at) for name in ignore):
        return
    if isinstance(recorded, str) and isinstance(live, str):
        if renewed is not None and at.endswith(_OPAQUE):
            renewed[recorded] = live
            return
        if re.fullmatch(".*".join(map(re.escape, recorded.split(SCRUBBED))), live, re.DOTALL):
            return
        with suppress(ValueError):  # a text that is JSON differs by what it says
            if recorded[:1] == live[:1] == "{":
                recorded, live = json.loads(recorded), json.loads(live)
    if isinstance(recorded, list) and isinstance(live, list) and len(recorded) == len(live):
        recorded, live = dict(enumerate(recorded)), dict(enumerate(live))
    if isinstance(recorded, dict) and isinstance(live, dict):
        for name in {**recorded, **live}:
            yield from _differences(
                recorded.get(name), live.get(name), f"{at}.{name}", ignore, renewed
            )
    elif repr(recorded) != repr(live) and recorded != SCRUBBED:
        yield f"  {at[1:]}\n    - {recorded!r}\n    + {live!r}"


# ------------------------------------------------------------ without the server


def replay(path: Path) -> ScriptedServer:
    """A server that is not there: ``connect(replay("session.jsonl"))``, in the revision that was
    recorded.

    A request is answered as the recorded one with its method and params was, with what the server
    said and asked before; one that was recorded several times as the first, then as the second, at
    last always as the last. One whose answer was not recorded is answered by an error that names
    the nearest.

    Args:
        path: Of a file that `record` or ``minimcp trace --json`` has written.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no such file.
    """
    steps: list[
        tuple[Message, list[Message]]
    ] = []  # the client's messages, each with what the server says then
    for is_client, message in _read(path):
        if is_client and "method" in message:
            steps.append((message, []))
        elif not is_client:
            own = [
                step
                for step in steps
                if "method" not in message and step[0].get("id") == message.get("id")
            ]
            if not own or own[-1][0]["method"] != LISTEN:
                (own or steps)[-1][1].append(message)
    answered = [
        (message, says)
        for message, says in steps
        if "id" not in message
        or message["method"] == LISTEN
        or any("method" not in said for said in says)
    ]
    return ScriptedServer(lambda peer: _play(peer, answered, os.fspath(path)))


def _play(peer: ScriptedPeer, steps: list[tuple[Message, list[Message]]], name: str) -> None:
    left, now = (
        list(steps),
        dict[tuple[str, Any], Any](),
    )  # what the ids and progress tokens have become
    asking: dict[
        Any, Iterator[Message]
    ] = {}  # what is said after the answer to a question, by its id
    while True:
        came = peer.expect()
        if "method" not in came:
            saying = asking.pop(came.get("id"), iter(()))
        else:
            step = next((each for each in [*left, *reversed(steps)] if _fits(each[0], came)), None)
            if step is None:
                _refuse(peer, came, steps, name)
                continue
            left = [each for each in left if each is not step]
            now["id", step[0].get("id")] = came.get("id")
            now["token", _meta(step[0]).get("progressToken")] = _meta(came).get("progressToken")
            saying = iter(step[1])
        for said in saying:
            if "method" in said and "id" in said:
                asking[peer.request(said["method"], _params(said))["id"]] = saying
                break
            renumbered = _renumbered(said, now)
            if renumbered is not None:
                peer.send(renumbered)


def _fits(recorded: Message, live: Message) -> bool:
    """Whether a message is that one; who the client is does not count, nor what a notification
    holds."""
    is_any = recorded["method"] == "initialize" or "id" not in recorded
    return bool(recorded["method"] == live["method"]) and (
        is_any or not any(_differences(_params(recorded), _params(live), ignore=["_meta"]))
    )


def _renumbered(said: Message, now: Mapping[tuple[str, Any], Any]) -> Optional[Message]:
    """A message for the client of now; None when what it is about did not come, or wants no
    progress."""
    params = _params(said)
    if "method" not in said:
        id = now.get(("id", said.get("id")))
        return None if id is None else {**said, "id": id}
    if "progressToken" in params:
        token = now.get(("token", params["progressToken"]))
        return None if token is None else {**said, "params": {**params, "progressToken": token}}
    if SUBSCRIPTION_KEY in _meta(said):
        id = now.get(("id", _meta(said)[SUBSCRIPTION_KEY]))
        return (
            None
            if id is None
            else {**said, "params": {**params, "_meta": {**_meta(said), SUBSCRIPTION_KEY: id}}}
        )
    return said


def _refuse(
    peer: ScriptedPeer, came: Message, steps: list[tuple[Message, list[Message]]], name: str
) -> None:
    if "id" in came:
        known = [_shown(message) for message, _ in steps if "id" in message]
        near = get_close_matches(_shown(came), known, 1, 0.0)
        code = (
            -32602 if any(message["method"] == came["method"] for message, _ in steps) else -32601
        )
        text = (
            f"{name} has no answer to {_shown(came)}; the nearest is "
            f"{near[0] if near else 'nothing'}"
        )
        peer.answer(came, error={"code": code, "message": text})


# ------------------------------------------------------------ without the client


def replay_against(
    target: Any, path: Path, *, ignore: Sequence[str] = (), timeout: float = 10.0
) -> None:
    """Send a server what the recorded client sent, and check that it answers and asks the same.

    Each message is sent when what was recorded before it has come. What is opaque to a client
    (cursors, ``taskId``, ``requestState``) may be another, and goes back as it is now.
    Notifications are not compared.

    Args:
        target: The server, as for `ScriptedClient`.
        path: As for `replay`.
        ignore: Names of members that may differ, as ``"time"``, or with those around them, as
            ``"content.0.text"``.
        timeout: Seconds to wait for a message.

    Raises:
        AssertionError: Something did not come, or differs; it shows each place, as recorded and as
            it is.
        Others: as `replay` and `ScriptedClient`.
    """
    __tracebackhide__ = True
    renewed: dict[str, str] = {}
    ids: dict[Any, Any] = {}  # of questions, by those that were recorded
    asked: dict[Any, Message] = {}
    found: list[str] = []
    with ScriptedClient(target, timeout=timeout) as client:
        for is_client, recorded in _read(path):
            id, method = recorded.get("id"), recorded.get("method")
            if is_client:
                asked.update({id: recorded} if method else {})
                text = json.dumps(recorded if method else {**recorded, "id": ids[id]})
                for old, new in renewed.items():
                    text = text.replace(json.dumps(old), json.dumps(new))
                client.send(text)
            elif "id" in recorded:
                live = client.expect(method) if method else client.answer_to(asked[id])
                ids[id] = live["id"]
                differing = list(
                    _differences({**recorded, "id": id}, {**live, "id": id}, "", ignore, renewed)
                )
                what = (
                    f"question {_shown(recorded)}" if method else f"answer to {_shown(asked[id])}"
                )
                found += [f"the {what} differs:", *differing] if differing else []
    if found:
        raise AssertionError("\n".join([f"this is not what {os.fspath(path)} has:", *found]))
