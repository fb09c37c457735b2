"""C20: messages with a few changes, each of which has its own right answer.

A mutant has a name, "seed:number", from which it can be made again (``--mutant``). What is right for it is found out
by a strict reading of its own: one answer with its id, one error without an id, or nothing. Mutants go in
batches; when a batch as a whole is not answered rightly it is halved until the line is found.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from ..wire.messages import MODERN, encode, hello, modern, notification, request
from .raw import Server, shown
from .trial import Trial, case

BATCH = 500
SHOWN = 5  # how many mutants that were answered wrongly are looked for and printed

Key = Tuple[str, str]
"""What came for a mutant: its id as JSON, or "" for none; and "result", "error", or with no id the error's code."""

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
    found += [encode(notification("notifications/" + name, {"requestId": "none"})) for name in ("cancelled", "nope")]
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

WORDS = (
    b"null", b"true", b"-1", b"1e9", b"[]", b"{}", b'""', b"\\u0000", b"\\ud800", b"\x00", b"\xff", b"\xc3\xa9",
    b"\n", b"\r", b'"', b"\\", b",", b":", b'"id":7,', b'"method":"ping",', b'"result":{},', b"NaN", b"0.1", b"9" * 30,
    b"[" * 50,
)  # fmt: skip


def _flip(data: bytearray, dice: random.Random, corpus: List[bytes]) -> None:
    data[dice.randrange(len(data))] = dice.randrange(256)


def _drop(data: bytearray, dice: random.Random, corpus: List[bytes]) -> None:
    start = dice.randrange(len(data))
    del data[start : start + dice.randrange(1, 20)]


def _double(data: bytearray, dice: random.Random, corpus: List[bytes]) -> None:
    start = dice.randrange(len(data))
    data[start:start] = data[start : start + dice.randrange(1, 40)]


def _insert(data: bytearray, dice: random.Random, corpus: List[bytes]) -> None:
    start = dice.randrange(len(data) + 1)
    data[start:start] = dice.choice(WORDS)


def _cut(data: bytearray, dice: random.Random, corpus: List[bytes]) -> None:
    del data[dice.randrange(len(data)) :]


def _splice(data: bytearray, dice: random.Random, corpus: List[bytes]) -> None:
    other = dice.choice(corpus)
    start, end = sorted((dice.randrange(len(other)), dice.randrange(len(other))))
    place = dice.randrange(len(data) + 1)
    data[place : place + end - start] = other[start:end]


_PART = re.compile(rb'"[^"]*"|-?\d+|true|false|null|\{\}|\[\]')


def _replace(data: bytearray, dice: random.Random, corpus: List[bytes]) -> None:
    """Put another value where a value or a name stood: what comes of it is often JSON still."""
    parts = list(_PART.finditer(data))
    if parts:
        part = dice.choice(parts)
        data[part.start() : part.end()] = dice.choice((*WORDS[:7], b'"x"', b"7", b'"jsonrpc"', b'"id"', b'"params"'))


CHANGES = (_flip, _drop, _double, _insert, _cut, _splice, _replace)


def mutant(seed: int, number: int, revision: str) -> bytes:
    """The mutant of this name for a session in this revision; it may hold line feeds, and is then several lines."""
    dice, corpus = random.Random(f"{seed}:{number}"), CORPORA[revision]
    data = bytearray(dice.choice(corpus).replace(b'"ID"', b'"m%d"' % number))
    if dice.random() < 0.6:  # one value is another: most of these are still JSON, many still requests
        _replace(data, dice, corpus)
        return bytes(data)
    for _ in range(dice.randrange(1, 4)):
        if data:
            dice.choice(CHANGES)(data, dice, corpus)
    return bytes(data)



def _pairs(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        found["\0doubled"] = [value for name, value in pairs if name == "id"]
    return found


def _constant(name: str) -> Any:
    raise ValueError(name)


class Expected(NamedTuple):
    """What may come for a line: one of `keys`. `vital` when somebody waits for it."""

    keys: FrozenSet[Key]
    vital: bool = False


_PARSE_ERROR = Expected(frozenset({("", "-32700")}))
_REFUSED = ("", "-32600")


def key(id: Any) -> str:
    """An id as one text: 1, 1.0, "1" and true are four."""
    return json.dumps(id)


def expected(line: bytes) -> Expected:
    if not line.strip(b"\r \t"):
        return Expected(frozenset({NOTHING, ("", "-32700"), _REFUSED}) if line.strip(b"\r") else frozenset({NOTHING}))
    try:
        message = json.loads(line.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant)
    except (ValueError, RecursionError):
        return _PARSE_ERROR
    if not isinstance(message, dict):
        return Expected(frozenset({_REFUSED}))
    id, method = message.get("id"), message.get("method")
    doubled = b'doubled"' in json.dumps(message).encode()
    odd = doubled or rb"\ud" in line or rb"\uD" in line or message.get("jsonrpc") != "2.0"
    if "id" in message and type(id) in (int, str):
        return _with_id(message, key(id), odd, doubled)
    if isinstance(method, str) and "id" not in message:
        return Expected(frozenset({NOTHING, _REFUSED, ("", "-32700"), ("", "-32602")} if odd else {NOTHING, _REFUSED}))
    if "id" not in message and "method" not in message and not {"result", "error"} & set(message):
        return Expected(frozenset({_REFUSED}))
    more = {NOTHING, ("", "-32700"), ("", "-32602"), *_any(key(id)), *_refused_under(message)}
    return Expected(frozenset({_REFUSED, *more}))


def _half(id: str) -> bool:
    return any("\ud800" <= one <= "\udfff" for one in json.loads(id))


def _refused_under(message: Dict[str, Any]) -> FrozenSet[Key]:
    ids = [message.get("id"), *message.get("\0doubled", ())]
    return frozenset((key(id), "error") for id in ids if id is not None)


def _any(id: str) -> FrozenSet[Key]:
    return frozenset({(id, "result"), (id, "error")})


def _with_id(message: Dict[str, Any], id: str, odd: bool, doubled: bool) -> Expected:
    """What is right for a message with a readable id."""
    if "\\ud" in id and _half(id):  # it cannot be said again in every JSON
        return Expected(frozenset({_REFUSED, ("", "-32700"), NOTHING, *_any(id)}))
    if doubled:  # the id that was read may be one of two
        return Expected(frozenset({_REFUSED, ("", "-32700"), NOTHING, *_refused_under(message)}))
    if "result" in message or "error" in message:  # a response of somebody's, or a request that says too much
        return Expected(frozenset({NOTHING, _REFUSED, *_any(id)}))
    if odd or not isinstance(message.get("method"), str):
        return Expected(frozenset({(id, "error"), *(_any(id) if odd else ())}), True)
    if not isinstance(message.get("params", {}), dict):
        return Expected(frozenset({(id, "error")}), True)
    return Expected(_any(id), True)


def came(message: Any) -> Optional[Key]:
    """The key of what a server said; None for what is no response."""
    if not isinstance(message, dict) or "method" in message:
        return None
    kind = "error" if "error" in message else "result"
    if message.get("id") is None:
        return ("", str(message["error"].get("code")) if kind == "error" else "result")
    return (key(message["id"]), kind)


class Verdict(NamedTuple):
    """How a batch was answered: what is missing (and vital or not), what nobody expected, and what may still come."""

    lost: List[str]
    silent: int
    extra: List[Key]
    open: FrozenSet[Key]

    @property
    def whole(self) -> bool:
        return not self.lost and not self.silent


def judge(lines: List[bytes], wants: List[Expected], got: "Counter[Key]") -> Verdict:
    """Match what came with what was expected: first what has one right answer, then what has several."""
    got = Counter(got)
    lost: List[str] = []
    silent, open = 0, set()
    cancelled = {match.decode("latin-1") for line in lines if b"cancelled" in line for match in _PART.findall(line)}
    for wanted in sorted(wants, key=lambda one: len(one.keys)):
        found = next((one for one in sorted(wanted.keys, reverse=True) if got[one] > 0), None)
        if found is not None:
            got[found] -= 1
        elif NOTHING in wanted.keys:
            open.update(one for one in wanted.keys if one[0])
        elif {id for id, _ in wanted.keys} & cancelled:
            open.update(wanted.keys)
        elif wanted.vital:
            lost += sorted({id for id, _ in wanted.keys})
        else:
            silent += 1
    return Verdict(lost, silent, list((+got).elements()), frozenset(open))


def exchange(server: Server, lines: List[bytes], fence: str, patience: float) -> Verdict:
    """Send lines and a ping, and judge what comes. What a handler answers may come after the ping's answer."""
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


class Hunt:
    """Sends batches of mutants, and finds the line when a batch is answered wrongly."""

    def __init__(self, t: Trial, revision: str) -> None:
        self.t, self.revision, self.fences = t, revision, 0
        self.server = t.server(revision)
        self.culprits: List[str] = []
        self.narrowing = False
        self.open: Set[Key] = set()

    def batch(self, numbers: range) -> None:
        why = self._try(self._lines(numbers))
        if why is not None:
            self._narrow(numbers, why)

    def _lines(self, numbers: range) -> List[bytes]:
        made = (mutant(self.t.options.seed, number, self.revision) for number in numbers)
        return [line for one in made for line in one.split(b"\n")]

    def _try(self, lines: List[bytes]) -> Optional[str]:
        """What is wrong with how these lines are answered; None when nothing is. A dead server is started again."""
        self.fences += 1
        patience = self.t.options.patience * (0.1 if self.culprits or self.narrowing else 1.0)
        try:
            verdict = exchange(self.server, lines, f"fence {self.fences}", patience)
        except AssertionError as error:
            self.server.dispose()
            self.server = self.t.server(self.revision)
            return f"FAIL {error}"[:200]
        self.open |= verdict.open
        extra = [one for one in verdict.extra if one not in self.open]
        if verdict.lost or extra:
            return f"FAIL unanswered: {verdict.lost[:3]}, unexpected: {extra[:3]}"
        return f"{verdict.silent} lines without an answer" if verdict.silent else None

    def _narrow(self, numbers: range, why: str) -> None:
        """Halve until one mutant is left that is answered wrongly alone; if none is, blame the batch."""
        wrong = why.startswith("FAIL")
        worst = self.t.fail if wrong else self.t.warn
        if len(self.culprits) >= (SHOWN if wrong else 2):
            worst("more mutants answered wrongly" if wrong else "more mutants without an answer")
            return
        self.narrowing = True
        while len(numbers) > 1:
            middle = numbers.start + len(numbers) // 2
            for half in (range(numbers.start, middle), range(middle, numbers.stop)):
                found = self._try(self._lines(half))
                if found is not None and (found.startswith("FAIL") or not wrong):
                    numbers, why = half, found
                    break
            else:
                break
        name = f"{self.t.options.seed}:{numbers.start}" + (f"..{numbers.stop - 1}" if len(numbers) > 1 else "")
        self.narrowing = False
        self.culprits.append(name)
        alone = mutant(self.t.options.seed, numbers.start, self.revision)
        worst(f"mutant {name} in {self.revision} ({shown(alone, 120)}): {why}")


@case("C20")
def mutants(t: Trial) -> None:
    hunts = [Hunt(t, revision) for revision in t.eras() if revision in CORPORA]
    base, threads = hunts[0].server.memory(), hunts[0].server.status("Threads")
    total = t.options.mutations
    for index, start in enumerate(range(0, total, BATCH)):
        hunts[index % len(hunts)].batch(range(start, min(start + BATCH, total)))
    t.note("mutants", total, "")
    t.note("seed", t.options.seed, "")
    if len(hunts[0].culprits) == 0:
        t.below("growth", hunts[0].server.memory() - base, 30, "MB")
        t.below("more threads", hunts[0].server.status("Threads") - threads, 12, "")
    for hunt in hunts:
        hunt.server.aside.clear()
        hunt.server.alive(t.options.slack)


def reproduce(t: Trial, name: str) -> None:
    """Print one mutant by its name, "seed:number", send it alone in each era, and print what comes."""
    seed, number = (int(part) for part in name.split(":"))
    for revision in [one for one in t.eras() if one in CORPORA]:
        server, lines = t.server(revision), mutant(seed, number, revision).split(b"\n")
        print(f"{revision}:")
        for line in lines:
            print(f"  sent      {line!r}\n  expected  {sorted(expected(line).keys)}")
        print(f"  verdict   {exchange(server, lines, 'fence', t.options.patience)}")
