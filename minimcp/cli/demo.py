"""``minimcp demo``: a server in a child process, a client here, and every message between them
explained.

Each chapter is a function: what the client does, and in its docstring what is told. The first
paragraph is the title, the second says what it is about, the others explain the messages in their
order: "message: explanation".
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from contextlib import suppress
from importlib.machinery import PathFinder
from inspect import cleandoc
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from .. import (
    Cancelled,
    CancelToken,
    Client,
    StdioServer,
    __version__ as VERSION,
    connect,
)
from ..stdio.child import this_python
from ..testing import Entry, Transcript
from . import Parser, UsageError, tell
from .terminal import read_line, styled, wants_colour

# Columns of everything printed, whatever the terminal has: the README shows the same lines.
WIDTH = 79

INDENT = " " * 6

# Lines that the JSON of one message may take.
MOST_LINES = 5

# How much to show, most first: nesting, items of a list, characters of a text. The first that fits
# is taken.
DETAIL = ((7, 9, 70), (7, 2, 50), (6, 2, 40), (5, 1, 40), (4, 1, 40), (3, 1, 30), (2, 1, 30))

# Comes before or after the answer of the call that caused it; shown after it.
UNORDERED = "notifications/resources/updated"

SHELF = "bakery://shelf"

# What this package is called: a copy may have any name.
PACKAGE = __name__.partition(".cli.")[0]

# Chapters that are shown when nobody asks for others.
FIRST = 3


def _starting(client: Client, transcript: Transcript) -> None:
    """Starting

    The protocol exists in revisions, named by dates. The newest that both sides know is {revision}.
    In it nothing is agreed on beforehand: every request says by itself who asks and in which
    revision.

    server/discover: The client asks what the server is. In _meta it says its revision, who it is
    and what it can do; every request carries that, from here on as {...}.

    answer to server/discover: The server lists the revisions that it speaks and what it offers:
    tools, resources, prompts, log messages. The answer has the number of the request, so answers
    may come in any order.
    """


def _listing_tools(client: Client, transcript: Transcript) -> None:
    """Which tools are there?

    A server offers tools: functions that a model may ask to have called. The host shows them to its
    model.

    tools/list: Please list your tools.

    answer to tools/list: Each tool has a name, a description for the model, and a JSON Schema of
    its arguments.
    minimcp makes them from a Python function: its name, its docstring and its annotations. ttlMs is
    how long the answer
    may be kept, and cacheScope for whom: private is for this client alone.
    """
    client.list_tools()


def _calling(client: Client, transcript: Transcript) -> None:
    """Calling a tool

    This is what the protocol is for: the model picked a tool, and its arguments.

    tools/call: Call the tool named price with these arguments.

    answer to tools/call: What the tool returned: as text for the model, and as structuredContent
    for programs. The host gives it to the model, which goes on writing.
    """
    client.call_tool("price", {"bread": "rye", "loaves": 2})


def _progress(client: Client, transcript: Transcript) -> None:
    """A call that takes longer, with progress

    A client that wants to hear how far a call is puts a progressToken into it.

    tools/call: Bake three loaves, and report progress under this token.

    notifications/progress: The tool tells how far it is: 1 of 3. This is a notification: it has no
    number and gets no answer.

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

    answer to tools/call: The server names the argument, what it expected and what came. Nothing was
    baked.
    """
    client.call_tool("bake", {"loaves": "many"}, raise_on_error=False)


def _reading(client: Client, transcript: Transcript) -> None:
    """Something to read

    Beside tools a server may offer resources: texts and files that a client reads, each under a URI
    of its own.

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

    A tool may need to know something that only a person can tell: asking for it is called
    elicitation. In this revision a server sends no requests: it answers a call with its questions,
    and the client calls again with the answers.

    tools/call: Order rye bread, please.

    answer to tools/call: This is no result yet. inputRequests holds the question, with a schema of
    the form to fill in; requestState is a note of the server to itself, which the client brings
    back. It is signed, so that nobody else writes one.

    tools/call: The client has shown the question to its user. It makes the same call again, as a
    new request, with the answer and what it was to bring back.

    answer to tools/call: The tool has waited at its question, and now went on to the end. Over HTTP
    it would begin
    anew, and get the answer at once where it asked before: that is why a tool asks first and acts
    last.
    """
    client.call_tool("order", {"bread": "rye"})


def _listening(client: Client, transcript: Transcript) -> None:
    """Hearing of changes

    A client that keeps what it has read wants to know when that is out of date. It listens: a
    request that stays open.

    subscriptions/listen: Tell me when the shelf changes.

    notifications/subscriptions/acknowledged: The server agrees to that, and says so before anything
    else.

    tools/call: Meanwhile two loaves are baked, which end up on the shelf.

    answer to tools/call: They are ready.

    notifications/resources/updated: The shelf has changed: what it holds now the client may read.
    _meta says for which request this is. It may come before the answer, too.

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

    notifications/cancelled: The client no longer waits for that request. The tool is told and
    stops; no answer comes.
    """
    token = CancelToken()
    many = {"loaves": 1000, "seconds_each": 60}
    try:
        client.call_tool(
            "bake",
            many,
            cancel=token,
            on_progress=lambda progress: token.cancel("no longer hungry"),
        )
    except Cancelled:
        transcript.wait_for("--> notifications/cancelled")


def _pinging(client: Client, transcript: Transcript) -> None:
    """Still there?

    This revision has no method of its own for that: the first question does.

    server/discover: The first question once more. It is as good as any to see that somebody
    answers.

    answer to server/discover: The server is there, and free: the thousand loaves are forgotten.
    """
    client.ping()


def _shaking_hands(client: Client, transcript: Transcript) -> None:
    """The same server, the older way

    Up to revision {revision} both sides agree first and then stay in a session. A server of minimcp
    speaks all of it; the client now pretends not to know anything newer. (This is a second
    connection: the numbers start again.)

    initialize: The client proposes a revision and says who it is and what it can do.

    answer to initialize: The server agrees to the revision and says what it offers.

    notifications/initialized: The client has understood: the session is open, and requests need not
    repeat any of this.
    """


def _calling_in_a_session(client: Client, transcript: Transcript) -> None:
    """A call in a session

    The tools are the same ones.

    tools/list: Please list your tools, as in chapter 2. No _meta is needed.

    answer to tools/list: The same tools, as this revision writes them: what a tool returns is
    always an object here, so minimcp puts the number of price into one, and says so.

    tools/call: The same call as in chapter 3.

    answer to tools/call: The same answer. The client takes the number out of the object again.
    """
    client.list_tools()
    client.call_tool("price", {"bread": "rye", "loaves": 2})


def _asking_in_a_session(client: Client, transcript: Transcript) -> None:
    """A question in a session

    In a session the server can ask by itself: requests go both ways, each side counts its own.

    tools/call: Order rye bread, as in chapter 9.

    elicitation/create: Now it is the server that asks, and the client that must answer. The tool
    waits.

    answer to elicitation/create: The user accepts, with two loaves.

    answer to tools/call: The tool went on where it had stopped. It is the same tool, written once.
    """
    client.call_tool("order", {"bread": "rye"})


def _pinging_in_a_session(client: Client, transcript: Transcript) -> None:
    """A ping in a session

    This revision has a method that asks whether the other side is still there.

    ping: Are you there?

    answer to ping: Yes.
    """
    client.ping()


# The connections: the revision that `connect` is given, and the chapters.
CONVERSATIONS = (
    (
        "auto",
        (
            _starting,
            _listing_tools,
            _calling,
            _progress,
            _failing,
            _wrong_arguments,
            _reading,
            _prompting,
            _asking,
            _listening,
            _cancelling,
            _pinging,
        ),
    ),
    (
        "handshake",
        (_shaking_hands, _calling_in_a_session, _asking_in_a_session, _pinging_in_a_session),
    ),
)


def demo_command(arguments: Sequence[str], prog: str) -> int:
    """A client and a server of the Model Context Protocol (MCP) talk.

    A language model only reads and writes text. The program around it, the host (a chat, an
    editor), lets it act: it has a client for each server, which asks what the server offers. The
    host shows that to its model and has the client call what the model picks. No model is at work
    here: this demo is the host, and picks by itself. The server is a bakery, started just now as a
    child process.

    Each message is one line of JSON-RPC 2.0 over the server's stdin or stdout: a request has an id
    (no. 1 below) and a method, its answer has the same id. Here the JSON is shortened: ... stands
    for what was left out.

    That is all: the client closes the server's stdin, and the server exits.
    """
    parser = Parser(prog, "Watch a small server and a client talk, message by message, explained.")
    parser.add_argument(
        "chapters",
        nargs="*",
        type=int,
        metavar="CHAPTER",
        help=f"a number: show this chapter only (default: 1 to {FIRST})",
    )
    parser.add_argument("--all", action="store_true", help="show all chapters")
    parser.add_argument(
        "--step", action="store_true", help="show all, and wait for Enter after each"
    )
    options = parser.parse_intermixed_args(arguments)
    if sys.flags.optimize > 1:
        raise UsageError(
            "python -OO leaves out docstrings, and the demo tells them: use python or python -O"
        )
    titles = [_paragraphs(chapter)[0] for _, chapters in CONVERSATIONS for chapter in chapters]
    shown = options.chapters or range(
        1, 1 + (len(titles) if options.all or options.step else FIRST)
    )
    if not set(shown) <= set(range(1, 1 + len(titles))):
        raise UsageError(f"there is no such chapter: they are 1 to {len(titles)}")
    colour = wants_colour(sys.stdout)
    title, *leads, closing = _paragraphs(demo_command)
    if not options.chapters:
        print(styled(title, "bold", colour))
        _say_wrapped(*leads)
    number = 0
    for revision, chapters in CONVERSATIONS:
        first, last = number + 1, number + len(chapters)
        number = last
        wanted = [at for at in shown if first <= at <= last]
        if not wanted:
            continue
        transcript = Transcript()
        seen = set() if first in wanted else {"message", "answer"}
        with connect(
            demo_server(),
            revision=revision,
            client_info={"name": "demo-client", "version": VERSION},
            timeout=20,
            trace=transcript,
            elicit=lambda question: {"loaves": 2},
        ) as client:
            for at, chapter in enumerate(
                chapters[: max(wanted) - first + 1], first
            ):  # what came before leaves traces
                chapter(client, transcript)
                _, lead, *explanations = _paragraphs(chapter)
                if at in wanted:
                    print("\n" + styled(f"{at}. {titles[at - 1]}", "bold", colour))
                    _say_wrapped(lead.replace("{revision}", client.revision))
                    for entry, explanation in zip(_in_order(list(transcript)), explanations):
                        _say_message(entry, explanation.partition(": ")[2], seen, colour)
                transcript.clear()
                if options.step and at < len(titles) and not _goes_on():
                    return 0
    if not options.chapters:
        others = [f"{at} {title}" for at, title in enumerate(titles, 1) if at not in shown]
        more = (
            f"Other chapters: {'; '.join(others)}. To see one: {prog} {FIRST + 1}, all: "
            f"{prog} --all, or --step."
        )
        print()
        _say_wrapped(closing, *[more] * bool(others))
        _say_next(prog.rpartition(" ")[0], colour)
    return 0


def _goes_on() -> bool:
    """Wait for Enter, if anybody is there to press it; False when the user has closed the input."""
    sys.stdout.flush()
    with suppress(EOFError):
        if sys.stdin is not None and sys.stdin.isatty():
            read_line("\n(Enter goes on, Ctrl-D ends) ")
        return True
    tell("")
    return False


def _say_next(program: str, colour: bool) -> None:
    """What to do next

    1. Write a server of your own, server.py:

        from {package} import Server

        server = Server("hello")

        @server.tool
        def greet(name: str) -> str:
            "Greet somebody."
            return f"Hello, {{name}}!"

        if __name__ == "__main__":
            server.run()

    2. Call it: {program} call server.py greet name=Ada
    {host}
        {{"mcpServers": {{"hello": {{"command": {python},
            "args": [{file}]}}}}}}
    4. Read on: python -m pydoc {package}.Server (or .connect, for clients)
    """
    title, _, steps = cleandoc(_say_next.__doc__ or "").partition("\n\n")
    file = json.dumps(os.path.abspath("server.py"))
    host = textwrap.fill(
        f"3. Give it to a host, by its config file (often called mcp.json). {_which_python()}:",
        WIDTH,
        subsequent_indent=" " * 3,
        break_long_words=False,
        break_on_hyphens=False,
    )
    print("\n" + styled(title, "bold", colour))
    print(
        steps.format(
            program=program,
            package=PACKAGE,
            host=host,
            python=json.dumps(sys.executable),
            file=file,
        )
    )


def _which_python() -> str:
    """What the Python that a host starts must have: the host starts it in a folder of its own."""
    folder = Path(__file__).resolve().parents[2]
    if folder == Path.cwd() and not _is_elsewhere(folder):
        note = f"{PACKAGE} is not installed in this Python: server.py has to stay in {folder}"
        if (folder / "setup.cfg").is_file():
            note += (
                "; or pip install that folder into a venv, and write the path of the venv's Python"
            )
        return note
    return (
        f"This is the Python of the environment where {PACKAGE} is installed; another one "
        "would not find it"
    )


def _is_elsewhere(folder: Path) -> bool:
    """Whether this Python would find the package from another folder than this one."""
    paths = [Path(each).resolve() for each in sys.path]
    others = [str(path) for path in paths if path != folder]
    finders = [
        finder for finder in sys.meta_path if finder is not PathFinder
    ]  # of installs that can be edited
    found = PathFinder.find_spec(PACKAGE, others) or any(
        finder.find_spec(PACKAGE, None) for finder in finders
    )
    return bool(found) or paths.count(folder) > 1


def _paragraphs(told: Callable[..., object]) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in (told.__doc__ or "").split("\n\n")]


def demo_server() -> StdioServer:
    """How to start the demo's server with this Python, whatever this package is called and wherever
    it was copied to.

    Raises:
        ConnectionFailed: This program is frozen, or embeds Python.
    """
    python = this_python(f"run the demo by an interpreter: python3 -m {PACKAGE} demo")
    options = ["-S"] if sys.flags.no_site else []
    search = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    return StdioServer(
        [python, *options, "-m", f"{__package__}.demo_server"], env={"PYTHONPATH": search}
    )


# ------------------------------------------------------------ messages as a person reads them


def _say_wrapped(*texts: str, indent: str = "") -> None:
    for text in texts:
        print(textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent))


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
    arrow = styled(
        f"client {entry.direction} server", "cyan" if entry.direction == "-->" else "green", colour
    )
    print(f"\n  {arrow}   {label} ({number})")
    for line in shortened(entry.message, in_full=kind not in seen):
        print(INDENT + styled(line, "dim", colour))
    seen.add(kind)
    _say_wrapped(explanation, indent=INDENT)


def shortened(message: Mapping[str, Any], *, in_full: bool) -> list[str]:
    """A message as a few lines of JSON, with ... for what was left out."""
    lines: list[str] = []
    for nesting, items, characters in DETAIL:
        text = _shorten(message, nesting, items, characters, in_full)
        lines = textwrap.wrap(
            text, WIDTH - len(INDENT), break_long_words=False, break_on_hyphens=False
        )
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
            token = (
                f'"progressToken": {member["progressToken"]}, ' if "progressToken" in member else ""
            )
            shown = f"{{{token}...}}"
        parts.append(f'"{name}": {shown}')
    return "{" + ", ".join(parts) + "}"
