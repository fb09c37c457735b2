"""A session in a file: `record` writes it, `replay` stands for its server, `replay_against` for its client.

The file has an object of JSON a line, with ``time``, ``direction`` and ``message``, as ``minimcp trace --json`` writes
it too, and ``minimcp trace --html`` draws it.
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

Path = Union[str, "os.PathLike[str]"]

SCRUBBED = "[scrubbed]"
"""Stands in the place of a secret; for what is compared with a recording, for anything."""

_NAMES = (
    r"(?:[\w-]*(?:authori[sz]ation|passw(?:or)?d|passphrase|secret|credentials?|cookie)|(?!progress)[\w-]*(?<!page)token"
    r"|[\w-]*(?:api|access|private|signing|encryption)[_-]?key)"
)
_NAME = re.compile(_NAMES, re.I)
# In a text: behind such a name, behind "Bearer", in a URL; and what can be nothing else.
_TEXT = re.compile(
    rf"""(\b{_NAMES}\b["'\\]*\s*[:=]\s*["'\\]*(?:(?:bearer|basic)\s+)?|\bbearer\s+|://[^/\s:@]*:(?=[^/\s]*@))"""
    r"""[^\s"'\\,;&@}]+|\b(?:sk-|gh[a-z]_|github_pat_|xox[a-z]-|AKIA|eyJ[\w-]+\.eyJ)[\w.-]{12,}""", re.I,
)

# What a server makes anew each time.
_OPAQUE = ("requestState", "nextCursor", "taskId", "createdAt", "lastUpdatedAt")


def record(path: Path, scrub: Sequence[str] = ()) -> Callable[[str, str], None]:
    """What writes a session into a file as it goes: ``connect(server, trace=record("session.jsonl"))``.

    Values of tokens, keys and passwords, by their names and in texts, are replaced by `SCRUBBED`. One file holds one
    connection.

    Args:
        path: Of the file, which begins empty.
        scrub: What else is secret: names of members, and texts wherever they stand.

    Raises:
        OSError: The file cannot be written.
    """
    open(path, "w").close()
    lock, names = threading.Lock(), {name.lower() for name in scrub}

    def is_secret(name: str) -> bool:
        return bool(_NAME.fullmatch(name)) or name.lower() in names

    def clean(value: Any, secret: bool, is_schema: bool = False) -> Any:
        if isinstance(value, dict):  # what describes a password is none
            return {
                name: clean(each, (secret or is_secret(name)) and not (is_schema and isinstance(each, dict)),
                            name == "properties")
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

    def write(arrow: str, text: str) -> None:
        try:
            read = json.loads(text)
        except ValueError:
            read = text
        told = {"time": time.time(), "direction": arrow, "size": len(text), "breaches": []}
        with lock, open(path, "a", encoding="utf-8") as file:  # each time, because nobody would close it
            for message in read if isinstance(read, list) else [read]:
                cleaned = clean(message, False)
                if isinstance(message, dict):
                    cleaned.update((name, message[name]) for name in ("id", "method") if name in message)
                file.write(json.dumps({**told, "message": cleaned}) + "\n")

    return write


def _read(path: Path) -> list[tuple[bool, Message]]:
    """The messages of a file, each with whether it is the client's, who speaks first."""
    with open(path, encoding="utf-8") as file:
        lines = [line for line in map(json.loads, file) if isinstance(line["message"], dict)]
    return [(line["direction"] == lines[0]["direction"], line["message"]) for line in lines]


def _shown(message: Message) -> str:
    params = {name: value for name, value in (message.get("params") or {}).items() if name not in ("_meta", "requestState")}
    return f"{message.get('method')} {json.dumps(params, ensure_ascii=False, sort_keys=True):.300}"


def _differences(
    recorded: Any, live: Any, at: str = "", ignore: Sequence[str] = (), renewed: Optional[dict[str, str]] = None
) -> Iterator[str]:
    """Where two values differ, in lines; of what a server makes anew it is noted what it has become."""
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
                yield from _differences(json.loads(recorded), json.loads(live), at, ignore, renewed)
                return
    if isinstance(recorded, list) and isinstance(live, list) and len(recorded) == len(live):
        recorded, live = dict(enumerate(recorded)), dict(enumerate(live))
    if isinstance(recorded, dict) and isinstance(live, dict):
        for name in {**recorded, **live}:
            yield from _differences(recorded.get(name), live.get(name), f"{at}.{name}", ignore, renewed)
    elif repr(recorded) != repr(live) and recorded != SCRUBBED:
        yield f"  {at[1:]}\n    - {recorded!r}\n    + {live!r}"


# ------------------------------------------------------------ without the server


class _Step:
    """A message of the client, and what the server says then."""

    def __init__(self, message: Message) -> None:
        self.message, self.says = message, list[Message]()
        self.method, self.id, self.params = message.get("method"), message.get("id"), message.get("params") or {}
        self.token = (self.params.get("_meta") or {}).get("progressToken")

    def fits(self, live: _Step) -> bool:
        """Whether a message that came is this one; who the client is does not count, nor what a notification holds."""
        is_any = self.method == "initialize" or "id" not in self.message
        return self.method == live.method and (
            is_any or not any(_differences(self.params, live.params, ignore=["_meta"]))
        )


def _about(message: Message) -> tuple[str, Any]:
    """Which request a message of the server is about: its id or its progress token; ("", None) for none."""
    params = message.get("params") or {}
    meta = params.get("_meta") or {}
    if "method" not in message or SUBSCRIPTION_KEY in meta:
        return "id", meta.get(SUBSCRIPTION_KEY, message.get("id"))
    return ("token", params["progressToken"]) if "progressToken" in params else ("", None)


def _steps(path: Path) -> list[_Step]:
    """Each message of the client with what it brings about: its answer, its progress, and what else comes meanwhile."""
    steps: list[_Step] = []
    waiting: list[_Step] = []
    for is_client, message in _read(path):
        if is_client and "method" in message:
            steps.append(_Step(message))
            waiting += steps[-1:] if "id" in message else []
        elif not is_client:
            kind, name = _about(message)
            about = [step for step in waiting if kind and getattr(step, kind) == name]
            others = [step for step in waiting if step is steps[-1] or step.method != LISTEN]
            if "method" not in message:
                waiting = [step for step in waiting if step not in about]
            # What a subscription brings comes when something else happens.
            (([step for step in about if step.method != LISTEN]) or others or steps)[-1].says.append(message)
    return steps


def replay(path: Path) -> ScriptedServer:
    """A server that is not there: ``connect(replay("session.jsonl"))``, in the revision that was recorded.

    A request is answered as the recorded one with its method and params was, with what the server said and asked
    before; one that was recorded several times as the first, then as the second, at last always as the last. What was
    not recorded is answered by an error that names the nearest.

    Args:
        path: Of a file that `record` or ``minimcp trace --json`` has written.

    Raises:
        OSError: It cannot be read.
        ValueError, LookupError: It is no such file.
    """
    steps = _steps(path)

    def play(peer: ScriptedPeer) -> None:
        left, live = list(steps), dict[tuple[str, Any], Any]()
        asking: dict[Any, Iterator[Message]] = {}  # what is said after the answer to a question, by its id
        while True:
            came = _Step(peer.receive())
            saying: Iterator[Message] = iter(())
            if came.method is None:
                saying = asking.pop(came.id, saying)
            else:
                fitting = [step for step in steps if step.fits(came)]
                step = next((step for step in fitting if step in left), fitting[-1] if fitting else None)
                if step is not None:
                    left = [each for each in left if each is not step]
                    live["id", step.id], live["token", step.token] = came.id, came.token
                    saying = iter(step.says)
                elif "id" in came.message:
                    _refuse(peer, came, steps, path)
            for said in saying:
                if "method" in said and "id" in said:
                    asking[peer.request(said["method"], said.get("params"))["id"]] = saying
                    break
                renumbered = _renumbered(said, live)
                if renumbered is not None:
                    peer.send(renumbered)

    return ScriptedServer(play)


def _renumbered(said: Message, live: Mapping[tuple[str, Any], Any]) -> Optional[Message]:
    """A message for the client of now; None when what it is about did not come, or wants no progress."""
    kind, name = about = _about(said)
    params: Any = said.get("params")
    now = live.get(about)
    if kind and now is None:
        return None
    if "method" not in said:
        return {**said, "id": now}
    if kind == "token":
        return {**said, "params": {**params, "progressToken": now}}
    return {**said, "params": {**params, "_meta": {**params["_meta"], SUBSCRIPTION_KEY: now}}} if kind else said


def _refuse(peer: ScriptedPeer, came: _Step, steps: list[_Step], path: Path) -> None:
    known = [_shown(step.message) for step in steps if "id" in step.message]
    near = get_close_matches(_shown(came.message), known, 1, 0.0)
    code = -32602 if any(step.method == came.method for step in steps) else -32601
    text = f"{os.fspath(path)} has no {_shown(came.message)}; the nearest is {''.join(near) or 'nothing'}"
    peer.answer(came.message, error={"code": code, "message": text})


# ------------------------------------------------------------ without the client


def replay_against(target: Any, path: Path, *, ignore: Sequence[str] = (), timeout: float = 10.0) -> None:
    """Send a server what the recorded client sent, and check that it answers and asks the same.

    Each message is sent when what was recorded before it has come. What is opaque to a client (cursors, ``taskId``,
    ``requestState``) may be another, and goes back as it is now. Notifications are not compared.

    Args:
        target: The server, as for `ScriptedClient`.
        path: As for `replay`.
        ignore: Names of members that may differ, as ``"time"``, or with those around them, as ``"content.0.text"``.
        timeout: Seconds to wait for a message.

    Raises:
        AssertionError: Something is missing or differs; it shows each place, as recorded and as it is.
        Others: as `replay` and `ScriptedClient`.
    """
    __tracebackhide__ = True
    renewed: dict[str, str] = {}
    ids: dict[Any, Any] = {}  # of questions, by those that were recorded
    asked: dict[Any, str] = {}
    found: list[str] = []
    with ScriptedClient(target, timeout=timeout) as client:
        for is_client, recorded in _read(path):
            id, method = recorded.get("id"), recorded.get("method")
            if is_client:
                text = json.dumps(recorded if method else {**recorded, "id": ids[id]})
                asked.update({id: _shown(recorded)} if method else {})
                for old, new in renewed.items():
                    text = text.replace(json.dumps(old), json.dumps(new))
                client.send(text)
            elif "id" in recorded:
                what = f"question {_shown(recorded)}" if method else f"answer to {asked.get(id)}"
                try:
                    live = client.expect(method) if method else client.answer_to(recorded)
                except AssertionError as error:
                    found.append(f"the {what} is missing: {error}")
                    break
                ids[id] = live.pop("id")
                differing = list(_differences({**recorded, "id": None}, {**live, "id": None}, "", ignore, renewed))
                found += [f"the {what} differs:", *differing] if differing else []
    if found:
        raise AssertionError("\n".join([f"this is not what {os.fspath(path)} has:", *found]))
