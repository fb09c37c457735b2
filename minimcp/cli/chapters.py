"""What ``minimcp demo`` does and tells, chapter by chapter: one list per connection, to be grown. Floor 8."""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple, Optional

from .. import Cancelled, CancelToken, Client, ToolError
from .transcript import Recorder, Sentence

WAIT = 5.0
"""Seconds that a message of our own may take to be written."""


class Chapter(NamedTuple):
    """One thing that the protocol can do."""

    title: str
    lead: str
    """What it is about; ``{revision}`` is the revision spoken."""
    meanings: Mapping[str, Sentence]
    """What its messages mean, by method; answers by "answer to" and the method."""
    act: Optional[Callable[[Client, Recorder], object]] = None
    """What the client does. None shows what connecting has sent."""


class Conversation(NamedTuple):
    """One connection."""

    revision: str
    """As `connect` takes it."""
    chapters: tuple[Chapter, ...]


def _list(client: Client, recorder: Recorder) -> None:
    client.list_tools()


def _call(client: Client, recorder: Recorder) -> None:
    client.call_tool("price", {"bread": "rye", "loaves": 2})


def _call_with_progress(client: Client, recorder: Recorder) -> None:
    client.call_tool("bake", {"loaves": 3}, on_progress=lambda progress: None)


def _fail(client: Client, recorder: Recorder) -> None:
    try:
        client.call_tool("price", {"bread": "banana"})
    except ToolError:
        pass  # its message is in the transcript


def _call_wrongly(client: Client, recorder: Recorder) -> None:
    try:
        client.call_tool("bake", {"loaves": "many"})
    except ToolError:
        pass  # its message is in the transcript


def _cancel(client: Client, recorder: Recorder) -> None:
    token = CancelToken()
    arguments = {"loaves": 1000, "seconds_each": 60}
    try:
        client.call_tool("bake", arguments, cancel=token, on_progress=lambda progress: token.cancel("no longer hungry"))
    except Cancelled:
        recorder.wait_for("notifications/cancelled", WAIT)


def _ping(client: Client, recorder: Recorder) -> None:
    client.ping()


OPENING = (
    "A client and a server of the Model Context Protocol (MCP) talk.",
    "A server offers tools: functions that a language model may ask to have called. A client calls them for the "
    "model. This server is a bakery, started just now as a child process; each message is one line of JSON over "
    "its stdin or stdout. Here the JSON is shortened: ... stands for what was left out.",
)

_MODERN = Conversation("auto", (
    Chapter(
        "Starting",
        "The protocol exists in revisions, named by dates. The newest that both sides know is {revision}. In it "
        "nothing is agreed on beforehand: every request says by itself who asks and in which revision.",
        {
            "server/discover":
                "The client asks what the server is. In _meta it says which revision it speaks, who it is and "
                "what it can do; every request carries that, from here on shown as {...}.",
            "answer to server/discover":
                "The server lists the revisions that it speaks and what it offers: tools, and log messages. The "
                "answer has the number of the request, so answers may come in any order.",
        },
    ),
    Chapter(
        "Which tools are there?",
        "A client shows its model what can be called.",
        {
            "tools/list": "Please list your tools.",
            "answer to tools/list":
                "Each tool has a name, a description for the model, and a JSON Schema of its arguments. minimcp "
                "makes them from a Python function: its name, its docstring and its annotations.",
        },
        _list,
    ),
    Chapter(
        "Calling a tool",
        "This is what the protocol is for.",
        {
            "tools/call": "Call the tool named price with these arguments.",
            "answer to tools/call":
                "What the tool returned: as text for the model, and as structuredContent for programs.",
        },
        _call,
    ),
    Chapter(
        "A call that takes longer, with progress",
        "A client that wants to hear how far a call is puts a progressToken into it.",
        {
            "tools/call": "Bake three loaves, and report progress under this token.",
            "notifications/progress": (
                "The tool tells how far it is: 1 of 3. This is a notification: it has no number and gets no answer.",
                "2 of 3.",
                "3 of 3.",
            ),
            "answer to tools/call": "Done. No progress comes after the answer.",
        },
        _call_with_progress,
    ),
    Chapter(
        "A tool that fails",
        "The call worked, the tool did not: that is a result, which a model can read and learn from.",
        {
            "tools/call": "What does banana bread cost?",
            "answer to tools/call": "isError says that the tool failed; the text says why.",
        },
        _fail,
    ),
    Chapter(
        "Wrong arguments",
        "The arguments are checked against the schema before the tool is called.",
        {
            "tools/call": "A number of loaves is asked for, and the client sends a word.",
            "answer to tools/call": "The server names the argument, what it expected and what came. Nothing was baked.",
        },
        _call_wrongly,
    ),
    Chapter(
        "Changing one's mind",
        "A client need not wait for the end.",
        {
            "tools/call": "Bake a thousand loaves, a minute each.",
            "notifications/progress": "It has begun.",
            "notifications/cancelled":
                "The client no longer waits for that request. The tool is told and stops; no answer comes.",
        },
        _cancel,
    ),
    Chapter(
        "Still there?",
        "This revision has no method of its own for that: the first question does.",
        {
            "server/discover": "The first question once more. It is as good as any to see that somebody answers.",
            "answer to server/discover": "The server is there, and free: the thousand loaves are forgotten.",
        },
        _ping,
    ),
))

_HANDSHAKE = Conversation("handshake", (
    Chapter(
        "The same server, the older way",
        "Up to revision {revision} both sides agree first and then stay in a session. A server of minimcp speaks "
        "all of it; the client now pretends not to know anything newer. (This is a second connection: the numbers "
        "start again.)",
        {
            "initialize": "The client proposes a revision and says who it is and what it can do.",
            "answer to initialize": "The server agrees to the revision and says what it offers.",
            "notifications/initialized":
                "The client has understood: the session is open, and requests need not repeat any of this.",
        },
    ),
    Chapter(
        "A call in a session",
        "The tools are the same ones.",
        {
            "tools/call": "The same call as in chapter 3. No _meta is needed.",
            "answer to tools/call":
                "The same answer, as this revision writes it: structured content is always an object here, so "
                "minimcp puts the number into one.",
            "tools/list":
                "Did the tool return that object, or only the number in it? Its schema tells, and in this session "
                "nobody has listed the tools yet: the client does so once.",
            "answer to tools/list": "The schema says that the object is a wrapping: for the program it is taken off.",
        },
        _call,
    ),
    Chapter(
        "Still there?",
        "This revision has a method for that.",
        {
            "ping": "Are you there?",
            "answer to ping": "Yes.",
        },
        _ping,
    ),
))

CONVERSATIONS = (_MODERN, _HANDSHAKE)
"""The connections, in the order in which they are shown."""

CLOSING = (
    "That is all: the client closes the server's stdin, and the server exits.",
    "The server of this demo is cli/demo_server.py in this package, about forty lines. README.rst shows how to write "
    "your own and how to call it.",
)
