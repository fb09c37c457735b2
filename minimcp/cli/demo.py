"""``minimcp demo``: a server in a child process, a client here, and every message between them explained.

Each chapter is a function: what the client does, and in its docstring what is told. The first paragraph is the title,
the second says what it is about, the others explain the messages in their order: "message: explanation".
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from typing import Any, Callable, Mapping, Sequence

from .. import Cancelled, CancelToken, Client, ConnectionFailed, StdioServer, __version__ as VERSION, connect
from ..testing import Entry, Transcript
from . import Parser, UsageError
from .terminal import styled, wants_colour

WIDTH = 79
"""Columns of everything printed, whatever the terminal has: the README shows the same lines."""

INDENT = " " * 6

MOST_LINES = 5
"""Lines that the JSON of one message may take."""

DETAIL = ((7, 9, 70), (7, 2, 50), (6, 2, 40), (5, 1, 40), (4, 1, 40), (3, 1, 30), (2, 1, 30))
"""How much to show, most first: nesting, items of a list, characters of a text. The first that fits is taken."""

UNORDERED = "notifications/resources/updated"
"""Comes before or after the answer of the call that caused it; shown after it."""

SHELF = "bakery://shelf"

def _starting(client: Client, transcript: Transcript) -> None:
    """Starting

    The protocol exists in revisions, named by dates. The newest that both sides know is {revision}. In it nothing is
    agreed on beforehand: every request says by itself who asks and in which revision.

    server/discover: The client asks what the server is. In _meta it says which revision it speaks, who it is and what
    it can do; every request carries that, from here on shown as {...}.

    answer to server/discover: The server lists the revisions that it speaks and what it offers: tools, resources,
    prompts, log messages. The answer has the number of the request, so answers may come in any order.
    """


def _listing_tools(client: Client, transcript: Transcript) -> None:
    """Which tools are there?

    A client shows its model what can be called.

    tools/list: Please list your tools.

    answer to tools/list: Each tool has a name, a description for the model, and a JSON Schema of its arguments.
    minimcp makes them from a Python function: its name, its docstring and its annotations.
    """
    client.list_tools()


def _calling(client: Client, transcript: Transcript) -> None:
    """Calling a tool

    This is what the protocol is for.

    tools/call: Call the tool named price with these arguments.

    answer to tools/call: What the tool returned: as text for the model, and as structuredContent for programs.
    """
    client.call_tool("price", {"bread": "rye", "loaves": 2})


def _progress(client: Client, transcript: Transcript) -> None:
    """A call that takes longer, with progress

    A client that wants to hear how far a call is puts a progressToken into it.

    tools/call: Bake three loaves, and report progress under this token.

    notifications/progress: The tool tells how far it is: 1 of 3. This is a notification: it has no number and gets no
    answer.

    notifications/progress: 2 of 3.

    notifications/progress: 3 of 3.

    answer to tools/call: Done. No progress comes after the answer.
    """
    client.call_tool("bake", {"loaves": 3}, on_progress=lambda progress: None)


def _failing(client: Client, transcript: Transcript) -> None:
    """A tool that fails

    The call worked, the tool did not: that is a result, which a model can read and learn from.

    tools/call: What does banana bread cost?

    answer to tools/call: isError says that the tool failed; the text says why.
    """
    client.call_tool("price", {"bread": "banana"}, raise_on_error=False)


def _wrong_arguments(client: Client, transcript: Transcript) -> None:
    """Wrong arguments

    The arguments are checked against the schema before the tool is called.

    tools/call: A number of loaves is asked for, and the client sends a word.

    answer to tools/call: The server names the argument, what it expected and what came. Nothing was baked.
    """
    client.call_tool("bake", {"loaves": "many"}, raise_on_error=False)


def _reading(client: Client, transcript: Transcript) -> None:
    """Something to read

    Beside tools a server may offer resources: texts and files that a client reads, each under a URI of its own.

    resources/list: Please list your resources.

    answer to resources/list: There is one: its URI, and what it is.

    resources/read: Read it.

    answer to resources/read: Its content: a text here, of the type that was promised.
    """
    client.list_resources()
    client.read_resource(SHELF)


def _prompting(client: Client, transcript: Transcript) -> None:
    """Something to say

    And it may offer prompts: texts for a model that a person chooses, often from a menu.

    prompts/list: Please list your prompts.

    answer to prompts/list: There is one, and it wants to know a kind of bread.

    prompts/get: Give me that prompt, for rye.

    answer to prompts/get: The messages to hand to the model.
    """
    client.list_prompts()
    client.get_prompt("advertise", {"bread": "rye"})


def _asking(client: Client, transcript: Transcript) -> None:
    """A question to the user

    A tool may need to know something that only a person can tell. In this revision a server sends no requests: it
    answers a call with its questions, and the client calls again with the answers.

    tools/call: Order rye bread, please.

    answer to tools/call: This is no result yet. inputRequests holds the question, with a schema of the form to fill
    in; requestState is a signed note of the server to itself, which the client brings back: so the server need not
    remember anything.

    tools/call: The client has shown the question to its user. It makes the same call again, as a new request, with
    the answer and what it was to bring back.

    answer to tools/call: The tool began anew, got the answer at once where it had asked before, and this time went on
    to the end. That is why a tool asks first and acts last.
    """
    client.call_tool("order", {"bread": "rye"})


def _listening(client: Client, transcript: Transcript) -> None:
    """Hearing of changes

    A client that keeps what it has read wants to know when that is out of date. It listens: a request that stays
    open.

    subscriptions/listen: Tell me when the shelf changes.

    notifications/subscriptions/acknowledged: The server agrees to that, and says so before anything else.

    tools/call: Meanwhile two loaves are baked, which end up on the shelf.

    answer to tools/call: They are ready.

    notifications/resources/updated: The shelf has changed: what it holds now the client may read. _meta says for
    which request this is. It may come before the answer, too.

    notifications/cancelled: The client has heard enough: the request that stayed open is over.
    """
    with client.listen(resource_subscriptions=[SHELF]) as changes:
        client.call_tool("bake", {"loaves": 2})
        changes.next(timeout=5)


def _cancelling(client: Client, transcript: Transcript) -> None:
    """Changing one's mind

    A client need not wait for the end.

    tools/call: Bake a thousand loaves, a minute each.

    notifications/progress: It has begun.

    notifications/cancelled: The client no longer waits for that request. The tool is told and stops; no answer comes.
    """
    token = CancelToken()
    many = {"loaves": 1000, "seconds_each": 60}
    try:
        client.call_tool("bake", many, cancel=token, on_progress=lambda progress: token.cancel("no longer hungry"))
    except Cancelled:
        transcript.wait_for("--> notifications/cancelled")


def _pinging(client: Client, transcript: Transcript) -> None:
    """Still there?

    This revision has no method of its own for that: the first question does.

    server/discover: The first question once more. It is as good as any to see that somebody answers.

    answer to server/discover: The server is there, and free: the thousand loaves are forgotten.
    """
    client.ping()


def _shaking_hands(client: Client, transcript: Transcript) -> None:
    """The same server, the older way

    Up to revision {revision} both sides agree first and then stay in a session. A server of minimcp speaks all of it;
    the client now pretends not to know anything newer. (This is a second connection: the numbers start again.)

    initialize: The client proposes a revision and says who it is and what it can do.

    answer to initialize: The server agrees to the revision and says what it offers.

    notifications/initialized: The client has understood: the session is open, and requests need not repeat any of
    this.
    """


def _calling_in_a_session(client: Client, transcript: Transcript) -> None:
    """A call in a session

    The tools are the same ones.

    tools/call: The same call as in chapter 3. No _meta is needed.

    answer to tools/call: The same answer, as this revision writes it: structured content is always an object here, so
    minimcp puts the number into one.

    tools/list: Did the tool return that object, or only the number in it? Its schema tells, and in this session
    nobody has listed the tools yet: the client does so once.

    answer to tools/list: The schema says that the object is a wrapping: for the program it is taken off.
    """
    client.call_tool("price", {"bread": "rye", "loaves": 2})


def _asking_in_a_session(client: Client, transcript: Transcript) -> None:
    """A question in a session

    In a session the server can ask by itself: requests go both ways, each side counts its own.

    tools/call: Order rye bread, as in chapter 9.

    elicitation/create: Now it is the server that asks, and the client that must answer. The tool waits.

    answer to elicitation/create: The user accepts, with two loaves.

    answer to tools/call: The tool went on where it had stopped. It is the same tool, written once.
    """
    client.call_tool("order", {"bread": "rye"})


def _pinging_in_a_session(client: Client, transcript: Transcript) -> None:
    """Still there?

    This revision has a method for that.

    ping: Are you there?

    answer to ping: Yes.
    """
    client.ping()


CONVERSATIONS = (
    ("auto", (
        _starting, _listing_tools, _calling, _progress, _failing, _wrong_arguments, _reading, _prompting, _asking,
        _listening, _cancelling, _pinging,
    )),
    ("handshake", (_shaking_hands, _calling_in_a_session, _asking_in_a_session, _pinging_in_a_session)),
)
"""The connections: the revision that `connect` is given, and the chapters."""


def demo_command(arguments: Sequence[str], prog: str) -> int:
    """A client and a server of the Model Context Protocol (MCP) talk.

    A server offers tools: functions that a language model may ask to have called. A client calls them for the model.
    This server is a bakery, started just now as a child process; each message is one line of JSON over its stdin or
    stdout. Here the JSON is shortened: ... stands for what was left out.

    That is all: the client closes the server's stdin, and the server exits.

    The server of this demo is cli/demo_server.py in this package, under a hundred lines. README.rst shows how to write
    your own and how to call it.
    """
    Parser(prog, "Watch a small server and a client talk, message by message, explained.").parse_args(arguments)
    if sys.flags.optimize > 1:
        raise UsageError("python -OO leaves out docstrings, and the demo tells them: use python or python -O")
    colour = wants_colour(sys.stdout)
    title, lead, *closing = _paragraphs(demo_command)
    print(styled(title, "bold", colour))
    _say_wrapped(lead)
    number = 0
    for revision, chapters in CONVERSATIONS:
        transcript = Transcript()
        seen: set[str] = set()
        with connect(
            demo_server(), revision=revision, client_info={"name": "demo-client", "version": VERSION}, timeout=20,
            trace=transcript, elicit=lambda question: {"loaves": 2},
        ) as client:
            for chapter in chapters:
                chapter(client, transcript)
                title, lead, *explanations = _paragraphs(chapter)
                number += 1
                print("\n" + styled(f"{number}. {title}", "bold", colour))
                _say_wrapped(lead.replace("{revision}", client.revision))
                for entry, explanation in zip(_in_order(list(transcript)), explanations):
                    _say_message(entry, explanation.partition(": ")[2], seen, colour)
                transcript.clear()
    for text in closing:
        print()
        _say_wrapped(text)
    return 0


def _paragraphs(told: Callable[..., object]) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in (told.__doc__ or "").split("\n\n")]


def demo_server() -> StdioServer:
    """How to start the demo's server with this Python, whatever this package is called and wherever it was copied to.

    Raises:
        ConnectionFailed: This process does not know its own interpreter.
    """
    if not sys.executable:
        raise ConnectionFailed("this Python is embedded and cannot start a second one: sys.executable is empty")
    options = ["-S"] if sys.flags.no_site else []
    search = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    return StdioServer([sys.executable, *options, "-m", f"{__package__}.demo_server"], env={"PYTHONPATH": search})


# ------------------------------------------------------------ messages as a person reads them


def _say_wrapped(text: str, indent: str = "") -> None:
    for line in textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent):
        print(line)


def _in_order(entries: list[Entry]) -> list[Entry]:
    """The messages, with those that may come before or after the last answer put behind it."""
    moving = [entry for entry in entries if entry.method == UNORDERED]
    staying = [entry for entry in entries if entry.method != UNORDERED]
    behind = 1 + max((at for at, entry in enumerate(staying) if entry.kind == "result"), default=-1)
    return [*staying[:behind], *moving, *staying[behind:]]


def _say_message(entry: Entry, explanation: str, seen: set[str], colour: bool) -> None:
    """Print a message and what it means.

    Args:
        entry: The message.
        explanation: What it means.
        seen: Kinds of messages of this connection whose ``_meta`` was shown in full.
        colour: Whether lines may be in colour.
    """
    kind = "message" if "method" in entry.message else "answer"
    label = entry.method if kind == "message" else f"answer to {entry.method}"
    number = f"no. {entry.message['id']}" if "id" in entry.message else "notification"
    arrow = styled(f"client {entry.direction} server", "cyan" if entry.direction == "-->" else "green", colour)
    print(f"\n  {arrow}   {label} ({number})")
    for line in shortened(entry.message, in_full=kind not in seen):
        print(INDENT + styled(line, "dim", colour))
    seen.add(kind)
    _say_wrapped(explanation, INDENT)


def shortened(message: Mapping[str, Any], *, in_full: bool) -> list[str]:
    """A message as a few lines of JSON, with ... for what was left out."""
    lines: list[str] = []
    for nesting, items, characters in DETAIL:
        text = _shorten(message, nesting, items, characters, in_full)
        lines = textwrap.wrap(text, WIDTH - len(INDENT), break_long_words=False, break_on_hyphens=False)
        if len(lines) <= MOST_LINES:
            break
    return lines


def _shorten(value: Any, nesting: int, items: int, characters: int, in_full: bool) -> str:
    if isinstance(value, str) and len(value) > characters:
        return json.dumps(value[:characters] + "...")
    if not value or not isinstance(value, (dict, list)):
        return json.dumps(value)
    if not nesting:
        return "{...}" if isinstance(value, dict) else "[...]"
    if isinstance(value, list):
        parts = [_shorten(each, nesting - 1, items, characters, in_full) for each in value[:items]]
        return "[" + ", ".join(parts + ["..."] * (len(value) > items)) + "]"
    parts = []
    for name, member in value.items():
        shown = _shorten(member, nesting - 1, items, characters, in_full)
        if name == "requestState":
            shown = '"..."'  # signed: another one each time
        elif name == "_meta" and not in_full:
            token = f'"progressToken": {member["progressToken"]}, ' if "progressToken" in member else ""
            shown = f"{{{token}...}}"
        parts.append(f'"{name}": {shown}')
    return "{" + ", ".join(parts) + "}"
