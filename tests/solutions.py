"""A solution of each exercise of the course, as changes to its chapter: old text and new text.

Most of them add code above the line that runs the chapter. `WRONG` has attempts that a check must
reject. ``python3 -m tests.solutions 2`` prints chapter 2 with its solution.
"""

from __future__ import annotations

import sys
from typing import Dict, List, Tuple

from .support import ROOT

Changes = List[Tuple[str, str]]

MAIN = '\n\nif __name__ == "__main__":\n'
DEF_MAIN = "\n\ndef main() -> None:\n"


def before(place: str, code: str) -> Changes:
    return [(place, f"\n\n{code.strip()}\n{place}")]


TAXI = '''
taxis: list[int] = []


@as_over_http.tool
@server.tool
def taxi(ctx: Context) -> str:
    """Order a taxi; the user says for how many, and when."""
    people = ctx.elicit("For how many people?", {"people": int}).require()["people"]
    %s = ctx.elicit("Now?", {"now": bool}).require()["now"]
    taxis.append(people)
    return "It comes now." if now else "It comes later."
'''

CLEAR = '''
@server.tool(executor="main")
def clear() -> int:
    """Clear the screen."""
    count = len(drawn)
    drawn.clear()
    return count
'''

NOTHING_TO_PAY = """
def test_nothing_to_pay() -> None:
    ctx = testing.context(answers={"tip": {"tip": 1}})
    try:
        pay(0, ctx)
    except minimcp.ToolError:
        assert not ctx.questions
    else:
        raise AssertionError("nothing was paid, and nothing was said")
"""

BAKE = '''
@server.tool
def bake(loaves: int, ctx: Context) -> str:
    """Bake some loaves."""
    for number in range(1, loaves + 1):
        ctx.progress(number, loaves)
        ctx.sleep(0.01)
    return f"{loaves} loaves"
'''

COUNT = '''
    @minimcp.tool(annotations={"read_only_hint": True})
    def count(self) -> int:
        """How many notes there are."""
        with self.lock:
            return len(self.texts)
'''

SOW = '''
@server.tool
def sow(name: str, warmth: int) -> None:
    """Add a plant."""
    with lock:
        degrees[name] = warmth
    server.resource_updated("plants://all")
'''

MINE = '''
@server.tool
def mine(ctx: Context) -> list[str]:
    """What you have borrowed."""
    return [title for title, name in lent.items() if name == who(ctx)]
'''

UNTIL = """
def until(auth: SignIn, url: str) -> float:
    known = auth.whoami(url)
    return known["expires_at"] if known else 0.0
"""

OPEN = """
    @minimcp.method("votes/open")
    def open(self, params: dict[str, Any], ctx: minimcp.Context) -> dict[str, Any]:
        self.counts = {"tea": 0, "coffee": 0}
        self.tell("notifications/votes", self.counts, "votes")
        return {"counts": self.counts}

"""

KNEAD = '''
    @server.tool(task="required")
    def knead(minutes: int, ctx: Context) -> str:
        """Knead dough."""
        for minute in range(1, minutes + 1):
            ctx.progress(minute, minutes, f"minute {minute}")
        return "kneaded"

    return server
'''

SOLUTIONS: Dict[str, Changes] = {
    "1": [('"initialize": initialize,', '"initialize": initialize, "ping": lambda params: {},')],
    "2": before(
        "\n\ndef talk(",
        '''
@server.tool
def shout(text: str) -> str:
    """Say it in capitals."""
    return text.upper()
''',
    ),
    "3": [
        (
            '\n    @minimcp.resource("notes://{number}")',
            f'{COUNT}\n    @minimcp.resource("notes://{{number}}")',
        )
    ],
    "4": [
        (
            "    floor: Optional[int] = None\n",
            '    floor: Optional[int] = None\n    door: Literal["front", "back"] = "front"\n',
        )
    ],
    "5": before(MAIN, SOW),
    "6": before(
        MAIN,
        '''
@server.prompt
def translate(text: str, language: Literal["Finnish", "Norwegian"]) -> str:
    """Have a text translated."""
    return f"Say this in {language}: {text}"
''',
    ),
    "7": before(DEF_MAIN, BAKE),
    "8": before("\n\ndef user(", TAXI % "now"),
    "9": before(
        DEF_MAIN,
        """
def first_report(client: minimcp.Client) -> str:
    token, messages = minimcp.CancelToken(), []

    def stop(report: minimcp.Progress) -> None:
        messages.append(report.message or "")
        token.cancel()

    try:
        client.call_tool("cook", {"dishes": 3, "seconds_each": 600}, cancel=token, on_progress=stop)
    except minimcp.Cancelled:
        pass
    return messages[0]
""",
    ),
    "10": before(
        DEF_MAIN,
        """
def needs_consent(group: minimcp.Group, name: str) -> bool:
    return not any(tool.name == name and tool.hints.read_only for tool in group.list_tools())
""",
    ),
    "11": before("\n\ndef somebody(", CLEAR),
    "12": before(MAIN, NOTHING_TO_PAY),
    "13": before(
        DEF_MAIN,
        '''
@server.tool
def team(ctx: Context) -> str:
    """Which team the client is of."""
    return ctx.headers.get("X-Team", "nobody")
''',
    ),
    "13b": before(
        MAIN,
        """
def names(url: str) -> list[str]:
    about = {ABOUT + "protocolVersion": "2026-07-28", ABOUT + "clientCapabilities": {}}
    headers = {**TAKES, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": about}}
    answer = requests.post(url, json=message, headers=headers).json()
    return [tool["name"] for tool in answer["result"]["tools"]]
""",
    ),
    "14": [("state_keys=[KEY], http=HttpOptions(sessions=False))", "state_keys=[KEY])")],
    "15": before("\n\ndef refusal(", MINE),
    "15b": before(DEF_MAIN, UNTIL),
    "16": [
        ("def details(month: str)", 'def details(month: str, drink: str = "")'),
        ("in SALES[month].items())", "in SALES[month].items() if not drink or name == drink)"),
        ("{sold} {drink}", "{sold} {name}"),
        ("for drink, sold", "for name, sold"),
    ],
    "17": [("\n    return server\n", KNEAD)],
    "18": [("\n    @minimcp.notification(", OPEN + "    @minimcp.notification(")],
}

WRONG: Dict[str, Tuple[Changes, str]] = {
    "1": (
        [(old, new.replace("{},", "None,")) for old, new in SOLUTIONS["1"]],
        'the result of "ping" is null, not an empty object',
    ),
    "3": (
        [(old, new.replace("with self.lock", "if True", 1)) for old, new in SOLUTIONS["3"]],
        "hold the lock",
    ),
    "5": (before(MAIN, SOW.replace("    server.resource_updated", "    str")), "are not notified"),
    "7": (
        before(DEF_MAIN, BAKE.replace("ctx.progress", "bool(number % 2) or ctx.progress")),
        "made 1 reports",
    ),
    "8": (
        before(
            "\n\ndef user(",
            TAXI.replace("    taxis.append(people)\n", "").replace(
                "    %s =", "    taxis.append(people)\n    now ="
            ),
        ),
        "not [3]",
    ),
    "11": (before("\n\ndef somebody(", CLEAR.replace('(executor="main")', "")), "main thread"),
    "12": (before(MAIN, NOTHING_TO_PAY.replace("assert not ctx.questions", "pass")), "asks first"),
    "13b": (
        [(old, new.replace(', "Mcp-Method": "tools/list"', "")) for old, new in SOLUTIONS["13b"]],
        "KeyError: 'result'; the server answered 400: ",
    ),
    "16": ([*SOLUTIONS["16"], ('(visibility="app")', "")], "only for the page"),
    "15": (
        before("\n\ndef refusal(", MINE.replace(" if name == who(ctx)", "")),
        "gets ['Emma', 'Persuasion'",
    ),
    "15b": (before(DEF_MAIN, UNTIL.replace('"expires_at"', '"scopes"')), "until returns []"),
    "17": ([("\n    return server\n", KNEAD.replace("required", "optional"))], "without a task"),
    "18": (
        [
            (
                old,
                new.replace(
                    '        self.tell("notifications/votes", self.counts, "votes")\n', "", 1
                ),
            )
            for old, new in SOLUTIONS["18"]
        ],
        "are not notified that",
    ),
}
"""A part of the check's message for each."""


def changed(number: str, changes: Changes) -> str:
    """Return the text of a chapter with changes.

    Args:
        number: The number of the chapter, as in "2" or "13b".
        changes: Old texts, each of which occurs once, and new ones.
    """
    (path,) = ROOT.glob(f"examples/{number.zfill(3 if number[-1] == 'b' else 2)}_*.py")
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def solution(number: str) -> str:
    """Return the text of a chapter with the solution of its exercise."""
    return changed(number, SOLUTIONS[number])


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in SOLUTIONS:
        print(solution(sys.argv[1]), end="")
    else:
        sys.exit(f"usage: python3 -m tests.solutions CHAPTER, one of {', '.join(SOLUTIONS)}")
