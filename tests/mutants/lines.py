"""The kind `lines`: messages to a server over stdin and stdout, each with its own correct answer.

A strict parser of its own finds the correct answer to a mutant: one response with its id, one error
without an id, or nothing. It does not import the library, because C20 of `tests.faults` tests other
servers with it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..faults.raw import Server
from ..wire.messages import MODERN, encode, hello, modern, notification, request
from .drawing import draw

Key = Tuple[str, str]
"""The response to a mutant: its id as JSON, or "" for none; and "result", "error", or the error's
code if it has no id."""

SCALAR = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?')

NOTHING: Key = ("", "nothing")


def _corpus(wrap: Callable[[Any], Any]) -> List[bytes]:
    requests: List[Tuple[str, Any]] = [
        ("tools/list", {}), ("tools/call", {"name": "echo", "arguments": {"text": "h\u00e9llo"}}),
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}), ("resources/list", {}),
        ("tools/call", {"name": "nobody", "arguments": {}}), ("prompts/get", {"name": "x"}),
        ("no/such/method", {"x": [1, 2.5, None, True, "\u2028"]}),
        ("tools/call", {"name": "add", "arguments": {"a": 10**12, "b": -1}, "_meta": {"progressToken": "p"}}),
    ]  # fmt: skip
    found = [encode(request("ID", method, wrap(params))) for method, params in requests]
    found += [
        encode(notification("notifications/" + name, {"requestId": "none"}))
        for name in ("cancelled", "nope")
    ]
    found += [encode({"jsonrpc": "2.0", "id": "ID", "result": {"roots": []}})]
    found += [encode({"jsonrpc": "2.0", "id": "ID", "error": {"code": -1, "message": "no"}})]
    return [line.rstrip(b"\n") for line in found]


CORPORA: Dict[str, List[bytes]] = {
    "2025-06-18": [
        *_corpus(lambda params: params),
        encode(request("ID", "ping")).rstrip(),
        encode(request("ID", "initialize", hello("2025-06-18"))).rstrip(),
    ],
    MODERN: [*_corpus(modern), encode(request("ID", "server/discover", modern())).rstrip()],
}


def mutant(name: str) -> bytes:
    """Return the mutant of this name. It may contain line feeds, and is then several lines."""
    return draw(name, CORPORA[revision_of(name)]).replace(
        b'"ID"', b'"m%s"' % name.rpartition(":")[2].encode()
    )


def revision_of(name: str) -> str:
    return ("2025-06-18", MODERN)[int(name.rpartition(":")[2]) % 2]


class Expected(NamedTuple):
    """The possible responses to a line: one of `keys`. `vital` means that a caller waits for it."""

    keys: FrozenSet[Key]
    vital: bool = False


REFUSED, UNREAD, WRONG = ("", "-32600"), ("", "-32700"), ("", "-32602")


def one_of(*keys: Key, vital: bool = False) -> Expected:
    return Expected(frozenset(keys), vital)


def key(id: Any) -> str:
    """An id as one text: 1, 1.0, "1" and true are four."""
    return json.dumps(id)


def expected(line: bytes) -> Expected:
    objects: List[
        Any
    ] = []  # of each object, the outermost last: its ids, if it has doubled members

    def members(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        whole = len(dict(pairs)) == len(pairs)
        objects.append(None if whole else [value for name, value in pairs if name == "id"])
        return dict(pairs)

    def constant(name: str) -> Any:
        raise ValueError(name)

    if not line.strip(b"\r \t"):
        return one_of(NOTHING, UNREAD, REFUSED) if line.strip(b"\r") else one_of(NOTHING)
    try:
        message = json.loads(
            line.decode("utf-8"), object_pairs_hook=members, parse_constant=constant
        )
    except (ValueError, RecursionError):
        return one_of(UNREAD)
    if not isinstance(message, dict):
        return one_of(REFUSED)
    doubled = any(each is not None for each in objects)
    odd = doubled or rb"\ud" in line or rb"\uD" in line or message.get("jsonrpc") != "2.0"
    id, method = message.get("id"), message.get("method")
    either = ((key(id), "result"), (key(id), "error"))
    under_any = [(key(one), "error") for one in (id, *(objects[-1] or ())) if one is not None]
    response = {"result", "error"} & set(message)
    if "id" in message and type(id) in (int, str):
        if any(
            "\ud800" <= one <= "\udfff" for one in str(id)
        ):  # not every JSON library can write it again
            return one_of(REFUSED, UNREAD, NOTHING, *either)
        if doubled:  # the id that was read may be one of two
            return one_of(REFUSED, UNREAD, NOTHING, *under_any)
        if response:  # another client's response, or a request with extra members
            return one_of(NOTHING, REFUSED, *either)
        if odd:
            return one_of(*either, vital=True)
        # null stands for absent params
        params = {} if message.get("params") is None else message["params"]
        wrong = not isinstance(method, str) or not isinstance(params, dict)
        return one_of(*(either[1:] if wrong else either), vital=True)
    if isinstance(method, str) and "id" not in message:
        return one_of(NOTHING, REFUSED, *((UNREAD, WRONG) if odd else ()))
    if "id" not in message and "method" not in message and not response:
        return one_of(REFUSED)
    return one_of(REFUSED, NOTHING, UNREAD, WRONG, *either, *under_any)


def came(message: Any) -> Optional[Key]:
    """Return the key of a server's message, or None if it is not a response."""
    if not isinstance(message, dict) or "method" in message:
        return None
    kind = "error" if "error" in message else "result"
    if message.get("id") is None:
        return ("", str(message["error"].get("code")) if kind == "error" else "result")
    return (key(message["id"]), kind)


class Verdict(NamedTuple):
    """The responses to a batch: missing ones (vital or not), unexpected ones, and possible later
    ones."""

    lost: List[str]
    silent: int
    extra: List[Key]
    open: FrozenSet[Key]

    @property
    def whole(self) -> bool:
        return not self.lost and not self.silent


def judge(lines: List[bytes], wants: List[Expected], got: "Counter[Key]") -> Verdict:
    """Match the received responses with the expected ones: first those with one correct response,
    then the others."""
    got = Counter(got)
    lost: List[str] = []
    silent, open = 0, set()
    cancelled = {
        match.decode("latin-1")
        for line in lines
        if b"cancelled" in line
        for match in SCALAR.findall(line)
    }
    sharing = Counter(id for wanted in wants for id in {id for id, _ in wanted.keys})
    for wanted in sorted(wants, key=lambda one: len(one.keys)):
        found = next((one for one in sorted(wanted.keys, reverse=True) if got[one] > 0), None)
        if found is not None:
            got[found] -= 1
        elif NOTHING in wanted.keys:
            open.update(one for one in wanted.keys if one[0])
            # a response that was assigned to another line with this id may belong to this one, and
            # the other's is still to arrive
            open.update((id, "result") for id, _ in wanted.keys if id and sharing[id] > 1)
        elif {id for id, _ in wanted.keys} & cancelled:
            open.update(wanted.keys)
        elif wanted.vital:
            lost += sorted({id for id, _ in wanted.keys})
        else:
            silent += 1
    return Verdict(lost, silent, list((+got).elements()), frozenset(open))


def exchange(server: Server, lines: List[bytes], fence: str, patience: float) -> Verdict:
    """Send lines and a ping, and judge the responses. The response of a handler may follow the
    response to the ping."""
    wants = [expected(line) for line in lines]
    method, params = ("server/discover", modern()) if server.revision == MODERN else ("ping", None)
    server.send(b"".join(line + b"\n" for line in lines) + encode(request(fence, method, params)))
    got: "Counter[Key]" = Counter()
    asked, wanted = json.dumps(fence), sum(NOTHING not in one.keys for one in wants)
    ended = False
    while True:
        if ended and sum(got.values()) >= wanted:
            verdict = judge(lines, wants, got)
            if verdict.whole:
                return verdict
        if ended and not server.poll(min(0.3, patience / 5)):
            verdict = judge(lines, wants, got)
            if not verdict.lost or not server.poll(patience):
                return verdict
        one = came(server.message())
        if one is not None and one[0] == asked:
            ended = True
        elif one is not None:
            got[one] += 1


class Lines:
    """Sends mutants to servers, one of each era. Same interface as `tests.mutants.__main__.Judge`.

    Args:
        start: Starts a server in a revision.
        revisions: The supported revisions; mutants for others are left out.
        patience: Seconds after which nothing more comes.
    """

    batch = 500

    def __init__(
        self, start: Callable[[str], Server], revisions: Sequence[str], patience: float
    ) -> None:
        self.start, self.patience, self.fences = start, patience, 0
        self.servers = {revision: start(revision) for revision in revisions if revision in CORPORA}
        self.open: Set[Key] = set()

    make = staticmethod(mutant)

    def judge(self, names: Sequence[str]) -> Optional[str]:
        """Return what is wrong with the responses. A server that has ended is started again."""
        for revision, server in self.servers.items():
            lines = [
                line
                for name in names
                if revision_of(name) == revision
                for line in mutant(name).split(b"\n")
            ]
            why = self._tried(revision, server, lines) if lines else None
            if why is not None:
                self.patience = min(
                    self.patience, 1.0
                )  # it is known that something is lost: find out what
                return why
        return None

    def _tried(self, revision: str, server: Server, lines: List[bytes]) -> Optional[str]:
        self.fences += 1
        try:
            verdict = exchange(server, lines, f"fence {self.fences}", self.patience)
        except AssertionError as error:
            server.dispose()
            self.servers[revision] = self.start(revision)
            return f"{error}"[:200]
        self.open |= verdict.open
        extra = [one for one in verdict.extra if one not in self.open]
        if verdict.lost or extra:
            return f"unanswered: {verdict.lost[:3]}, unexpected: {extra[:3]}"
        return f"{verdict.silent} lines {SILENT}" if verdict.silent else None

    def memory(self) -> float:
        return sum(server.memory() for server in self.servers.values())

    def close(self) -> None:
        for server in self.servers.values():
            server.dispose()


SILENT = "without an answer"
