"""What ``minimcp demo`` does and tells, chapter by chapter: one list per connection, to be grown."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Optional

from .. import Cancelled, CancelToken, Client, ToolError
from .transcript import Recorder, Sentence

WAIT = 5.0
"""Seconds that a message of our own may take to be written."""


SHELF = "bakery://shelf"


def user(question: Any) -> dict[str, Any]:
    """Stands for the person at the client's screen, who fills in every form."""
    return {"loaves": 2}


class Chapter(NamedTuple):
    """One thing that the protocol can do."""

    title: str
    lead: str
    """What it is about; ``{revision}`` is the revision spoken."""
    meanings: Mapping[str, Sentence]
    """What its messages mean, by method; answers by "answer to" and the method."""
    act: Optional[Callable[[Client, Recorder], object]] = None
    """What the client does. None shows what connecting has sent."""
    wandering: str = ""
    """The method of notices that come when they like; they are shown after the answer."""


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


def _read(client: Client, recorder: Recorder) -> None:
    client.list_resources()
    client.read_resource(SHELF)


def _prompt(client: Client, recorder: Recorder) -> None:
    client.list_prompts()
    client.get_prompt("advertise", {"bread": "rye"})


def _order(client: Client, recorder: Recorder) -> None:
    client.call_tool("order", {"bread": "rye"})


def _listen(client: Client, recorder: Recorder) -> None:
    with client.listen(resource_subscriptions=[SHELF]) as changes:
        client.call_tool("bake", {"loaves": 2})
        changes.next(timeout=WAIT)


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
                "The server lists the revisions that it speaks and what it offers: tools, resources, prompts, log "
                "messages. The answer has the number of the request, so answers may come in any order.",
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
        "Something to read",
        "Beside tools a server may offer resources: texts and files that a client reads, each under a URI of its own.",
        {
            "resources/list": "Please list your resources.",
            "answer to resources/list": "There is one: its URI, and what it is.",
            "resources/read": "Read it.",
            "answer to resources/read": "Its content: a text here, of the type that was promised.",
        },
        _read,
    ),
    Chapter(
        "Something to say",
        "And it may offer prompts: texts for a model that a person chooses, often from a menu.",
        {
            "prompts/list": "Please list your prompts.",
            "answer to prompts/list": "There is one, and it wants to know a kind of bread.",
            "prompts/get": "Give me that prompt, for rye.",
            "answer to prompts/get": "The messages to hand to the model.",
        },
        _prompt,
    ),
    Chapter(
        "A question to the user",
        "A tool may need to know something that only a person can tell. In this revision a server sends no requests: "
        "it answers a call with its questions, and the client calls again with the answers.",
        {
            "tools/call": (
                "Order rye bread, please.",
                "The client has shown the question to its user. It makes the same call again, as a new request, with "
                "the answer and what it was to bring back.",
            ),
            "answer to tools/call": (
                "This is no result yet. inputRequests holds the question, with a schema of the form to fill in; "
                "requestState is a signed note of the server to itself, which the client brings back: so the server "
                "need not remember anything.",
                "The tool began anew, got the answer at once where it had asked before, and this time went on to the "
                "end. That is why a tool asks first and acts last.",
            ),
        },
        _order,
    ),
    Chapter(
        "Hearing of changes",
        "A client that keeps what it has read wants to know when that is out of date. It listens: a request that stays "
        "open.",
        {
            "subscriptions/listen": "Tell me when the shelf changes.",
            "notifications/subscriptions/acknowledged": "The server agrees to that, and says so before anything else.",
            "tools/call": "Meanwhile two loaves are baked, which end up on the shelf.",
            "answer to tools/call": "They are ready.",
            "notifications/resources/updated":
                "The shelf has changed: what it holds now the client may read. _meta says for which request this is. "
                "It may come before the answer, too.",
            "notifications/cancelled": "The client has heard enough: the request that stayed open is over.",
        },
        _listen,
        "notifications/resources/updated",
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
        "A question in a session",
        "In a session the server can ask by itself: requests go both ways, each side counts its own.",
        {
            "tools/call": "Order rye bread, as in chapter 9.",
            "elicitation/create": "Now it is the server that asks, and the client that must answer. The tool waits.",
            "answer to elicitation/create": "The user accepts, with two loaves.",
            "answer to tools/call": "The tool went on where it had stopped. It is the same tool, written once.",
        },
        _order,
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
    "The server of this demo is cli/demo_server.py in this package, under a hundred lines. README.rst shows how to "
    "write your own and how to call it.",
)
