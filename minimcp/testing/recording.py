"""Sessions in files: `record` writes one, `replay` acts as its server, `replay_against` as its
client.

Each line of the file is a JSON object with ``time``, ``direction`` and ``message``. ``minimcp trace
--json`` writes the same format, and ``minimcp trace --html`` draws it.
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

from ..protocol.lifecycle import STREAMS, SUBSCRIPTION_KEY
from .scripted import Message, ScriptedClient, ScriptedPeer, ScriptedServer
from .transcript import Transcript

Path = Union[str, "os.PathLike[str]"]

SCRUBBED = "[scrubbed]"
"""Replaces a secret. When compared with a recording, it matches anything."""

_NAMES = (
    r"[\w-]{0,40}(?:authori[sz]ation|passw(?:or)?d|passphrase|secret|credentials?|cookie)"
    r"|(?!progress)[\w-]{0,40}(?<!page)token"
    r"|[\w-]{0,40}(?:api|access|private|signing|encryption)[_-]?key"
)
# Secrets in a text: after such a name, after "Bearer", in a URL, and in the formats of known keys.
_TEXT = re.compile(
    rf"""(\b(?:{_NAMES})\b["'\\]*\s*[:=]\s*["'\\]*(?:(?:bearer|basic)\s+)?"""
    r"""|\bbearer\s+|://[^/\s:@]*:(?=[^/\s]*@))"""
    r"""[^\s"'\\,;&@}]+"""
    r"""|\b(?:sk-|gh[a-z]_|github_pat_|xox[a-z]-|AKIA|eyJ[\w-]{2,999}\.eyJ)[\w.-]{12,}""",
    re.I,
)

# Members with values that a server generates.
_OPAQUE = ("requestState", "nextCursor", "taskId", "createdAt", "lastUpdatedAt")


def record(path: Path, scrub: Sequence[str] = ()) -> Callable[[str, str], None]:
    """Return a ``trace=`` function that writes a session to a file: ``connect(server,
    trace=record("session.jsonl"))``.

    Tokens, keys and passwords, found by the names of their members and in texts, are replaced by
    `SCRUBBED`. One file holds one connection.

    Args:
        path: The path of the file, which is truncated.
        scrub: Additional secrets: names of members, and texts wherever they occur.

    Raises:
        OSError: The file cannot be written.
    """
    open(path, "w").close()
    lock = threading.Lock()
    transcript = Transcript()
    names = re.compile("|".join([_NAMES, *map(re.escape, scrub)]), re.I)

    def clean(value: Any, secret: bool = False, is_schema: bool = False) -> Any:
        if isinstance(value, dict):
            cleaned = {}
            for name, each in value.items():
                is_secret = secret or bool(names.fullmatch(name))
                if is_schema and isinstance(each, dict):  # the schema of a password is not secret
                    is_secret = False
                cleaned[name] = clean(each, is_secret, name == "properties")
            return cleaned
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
        line = text.encode("utf-8", "surrogatepass")
        # The file is opened for each line, because nothing signals the end of the session.
        with lock, open(path, "a", encoding="utf-8") as file:
            for entry in transcript.record(arrow, line, time.time()):
                file.write(entry._replace(message=scrubbed(entry.message)).as_json() + "\n")
            transcript.clear()

    return write


def _read(path: Path) -> list[tuple[bool, Message]]:
    """Return the messages of a file, each with whether the client sent it. The client sends the
    first one."""
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
    """Yield the differences of two values as lines. Generated values are not compared but noted in
    `renewed`."""
    if any(re.search(rf"[./]{re.escape(name)}$", at) for name in ignore):
        return
    if isinstance(recorded, str) and isinstance(live, str):
        if renewed is not None and at.endswith(_OPAQUE):
            renewed[recorded] = live
            return
        if re.fullmatch(".*".join(map(re.escape, recorded.split(SCRUBBED))), live, re.DOTALL):
            return
        with suppress(ValueError):  # compare JSON texts by their content
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
    """Return a server that answers from a recording: ``connect(replay("session.jsonl"))``.

    It uses the recorded revision. A request gets the response to the recorded request with the same
    method and params, preceded by the recorded notifications and questions. If a request was
    recorded several times, its responses are used in order, and then the last one repeatedly. A
    request without a recorded response gets an error that names the most similar request.

    Args:
        path: The path of a file written by `record` or ``minimcp trace --json``.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not a recording.
    """
    # The client's messages, each with the messages that the server sends in return.
    steps: list[tuple[Message, list[Message]]] = []
    for is_client, message in _read(path):
        if is_client and "method" in message:
            steps.append((message, []))
        elif not is_client:
            own = [
                step
                for step in steps
                if "method" not in message and step[0].get("id") == message.get("id")
            ]
            if not own or own[-1][0]["method"] not in STREAMS:
                (own or steps)[-1][1].append(message)
    answered = [
        (message, replies)
        for message, replies in steps
        if "id" not in message
        or message["method"] in STREAMS
        or any("method" not in reply for reply in replies)
    ]
    return ScriptedServer(lambda peer: _play(peer, answered, os.fspath(path)))


def _play(peer: ScriptedPeer, steps: list[tuple[Message, list[Message]]], name: str) -> None:
    left = list(steps)
    # The current ids and progress tokens for the recorded ones.
    now: dict[tuple[str, Any], Any] = {}
    # The remaining replies after the answer to a question, by the question's id.
    asking: dict[Any, Iterator[Message]] = {}
    while True:
        received = peer.expect()
        if "method" not in received:
            replies = asking.pop(received.get("id"), iter(()))
        else:
            candidates = [*left, *reversed(steps)]
            step = next((each for each in candidates if _fits(each[0], received)), None)
            if step is None:
                _refuse(peer, received, steps, name)
                continue
            recorded = step[0]
            left = [each for each in left if each is not step]
            now["id", recorded.get("id")] = received.get("id")
            token = _meta(received).get("progressToken")
            now["token", _meta(recorded).get("progressToken")] = token
            replies = iter(step[1])
        for reply in replies:
            if "method" in reply and "id" in reply:
                asking[peer.request(reply["method"], _params(reply))["id"]] = replies
                break
            renumbered = _renumbered(reply, now)
            if renumbered is not None:
                peer.send(renumbered)


def _fits(recorded: Message, live: Message) -> bool:
    """Return whether a message is the recorded one. The client's description and the params of
    notifications do not matter."""
    is_any = recorded["method"] == "initialize" or "id" not in recorded
    return bool(recorded["method"] == live["method"]) and (
        is_any or not any(_differences(_params(recorded), _params(live), ignore=["_meta"]))
    )


def _renumbered(reply: Message, now: Mapping[tuple[str, Any], Any]) -> Optional[Message]:
    """Return a recorded message with current ids.

    Return None if its request was not sent, or did not request progress.
    """
    params = _params(reply)
    if "method" not in reply:
        id = now.get(("id", reply.get("id")))
        return None if id is None else {**reply, "id": id}
    if "progressToken" in params:
        token = now.get(("token", params["progressToken"]))
        return None if token is None else {**reply, "params": {**params, "progressToken": token}}
    if SUBSCRIPTION_KEY in _meta(reply):
        id = now.get(("id", _meta(reply)[SUBSCRIPTION_KEY]))
        if id is None:
            return None
        return {**reply, "params": {**params, "_meta": {**_meta(reply), SUBSCRIPTION_KEY: id}}}
    return reply


def _refuse(
    peer: ScriptedPeer, request: Message, steps: list[tuple[Message, list[Message]]], name: str
) -> None:
    if "id" not in request:
        return
    known = [_shown(message) for message, _ in steps if "id" in message]
    near = get_close_matches(_shown(request), known, 1, 0.0)
    has_method = any(message["method"] == request["method"] for message, _ in steps)
    text = (
        f"{name} has no response to {_shown(request)}; the nearest is "
        f"{near[0] if near else 'nothing'}"
    )
    peer.answer(request, error={"code": -32602 if has_method else -32601, "message": text})


# ------------------------------------------------------------ without the client


def replay_against(
    target: Any, path: Path, *, ignore: Sequence[str] = (), timeout: float = 10.0
) -> None:
    """Send a server the recorded messages of the client, and check its responses and questions.

    Each message is sent when all previously recorded messages have arrived. Values that are opaque
    to a client (cursors, ``taskId``, ``requestState``) may differ and are returned to the server as
    received. Notifications are not compared.

    Args:
        target: The server, as for `ScriptedClient`.
        path: As for `replay`.
        ignore: Names of members that may differ, such as ``"time"`` or, with their containers,
            ``"content.0.text"``.
        timeout: Seconds to wait for each message.

    Raises:
        AssertionError: A message is missing or differs; the message shows each place, recorded and
            actual.
        Exception: As `replay` and `ScriptedClient`.
    """
    __tracebackhide__ = True
    renewed: dict[str, str] = {}
    ids: dict[Any, Any] = {}  # the ids of questions, by recorded id
    asked: dict[Any, Message] = {}
    found: list[str] = []
    with ScriptedClient(target, timeout=timeout) as client:
        for is_client, recorded in _read(path):
            id = recorded.get("id")
            method = recorded.get("method")
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
                    f"question {_shown(recorded)}" if method else f"response to {_shown(asked[id])}"
                )
                found += [f"the {what} differs:", *differing] if differing else []
    if found:
        raise AssertionError("\n".join([f"the server differs from {os.fspath(path)}:", *found]))
