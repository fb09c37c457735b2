"""``minimcp demo``: run a server in a child process, and explain each message between it and a
client.

Each chapter is a function that runs the client. Its docstring is printed: the first paragraph is
the title, the second introduces the chapter, and the others explain the messages in order, as
"message: explanation".
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from contextlib import closing, suppress
from importlib.machinery import PathFinder
from inspect import cleandoc
from pathlib import Path
from typing import Callable, Collection, Generator, Optional, Sequence

from .. import (
    Cancelled,
    CancelToken,
    Client,
    StdioServer,
    __version__ as VERSION,
    connect,
)
from ..errors import McpError
from ..stdio.child import this_python
from ..terminal import read_line
from ..testing import Entry, Transcript
from ..testing.transcript import save_side_by_side
from . import Parser, UsageError, print_stderr
from .demo_views import (
    WIDTH,
    Chapter,
    Message,
    print_columns,
    print_message,
    print_wrapped,
    write_slides,
)
from .terminal import styled, wants_color

# This notification may arrive before or after the response of the call that caused it. The demo
# shows it after the response.
UNORDERED = "notifications/resources/updated"

SHELF = "bakery://shelf"

# The name of this package, which may be a copy with another name.
PACKAGE = __name__.partition(".cli.")[0]

# Number of chapters that are shown by default.
FIRST = 3


def _starting(client: Client, transcript: Transcript) -> None:
    """Starting

    The protocol has several revisions, named by dates. The newest one that both sides support is
    {revision}. It is stateless: nothing is negotiated in advance, and every request names its
    client and its revision.

    server/discover: The client asks what the server offers. _meta has the client's revision, name
    and capabilities. Every request has this metadata; from here on it is shown as {...}.

    response to server/discover: The server lists its revisions and features. The response has the
    id of the request, so that responses can arrive in any order.
    """


def _listing_tools(client: Client, transcript: Transcript) -> None:
    """Which tools are there?

    A server offers tools: functions that a model may want to call. The host shows them to its
    model.

    tools/list: Please list your tools.

    response to tools/list: Each tool has a name, a description for the model, and a JSON Schema of
    its arguments. minimcp derives them from a function's name, docstring and annotations. ttlMs
    says how long the client may cache the response, and cacheScope for whom.
    """
    client.list_tools()


def _calling(client: Client, transcript: Transcript) -> None:
    """Calling a tool

    The model has chosen a tool and its arguments.

    tools/call: Call the tool named price with these arguments.

    response to tools/call: The result of the tool: as text for the model, and as structuredContent
    for programs. The host gives it to the model, which continues to write.
    """
    client.call_tool("price", {"bread": "rye", "loaves": 2})


def _progress(client: Client, transcript: Transcript) -> None:
    """A long call with progress

    A client that wants progress reports adds a progressToken to the call.

    tools/call: Bake three loaves, and report progress with this token.

    notifications/progress: The tool reports its progress: 1 of 3. This is a notification: it has no
    id and gets no response.

    notifications/progress: 2 of 3.

    notifications/progress: 3 of 3.

    response to tools/call: Done. No progress is reported after the response.
    """
    client.call_tool("bake", {"loaves": 3}, on_progress=lambda progress: None)


def _failing(client: Client, transcript: Transcript) -> None:
    """A tool that fails

    The call succeeded, but the tool failed. This is a result, which the model can read and use.

    tools/call: What does banana bread cost?

    response to tools/call: isError says that the tool failed, and the text says why.
    """
    client.call_tool("price", {"bread": "banana"}, raise_on_error=False)


def _wrong_arguments(client: Client, transcript: Transcript) -> None:
    """Wrong arguments

    The arguments are checked against the schema before the tool is called.

    tools/call: The schema requires a number of loaves, but the client sends a word.

    response to tools/call: The server names the argument, the expected type and the received value.
    Nothing was baked.
    """
    client.call_tool("bake", {"loaves": "many"}, raise_on_error=False)


def _reading(client: Client, transcript: Transcript) -> None:
    """Something to read

    A server may also offer resources: text and files that a client can read. Each has a URI.

    resources/list: Please list your resources.

    response to resources/list: There is one, with its URI, name, description and type.

    resources/read: Please send its content.

    response to resources/read: The content: text of the type that the list named.
    """
    client.list_resources()
    client.read_resource(SHELF)


def _prompting(client: Client, transcript: Transcript) -> None:
    """Something to say

    A server may also offer prompts: prepared messages for a model, which a person selects, often
    from a menu.

    prompts/list: Please list your prompts.

    response to prompts/list: There is one. Its argument is a kind of bread.

    prompts/get: Please send that prompt, for rye.

    response to prompts/get: The messages for the model.
    """
    client.list_prompts()
    client.get_prompt("advertise", {"bread": "rye"})


def _asking(client: Client, transcript: Transcript) -> None:
    """A question to the user

    A tool may need information that only a person has. Asking the user is called elicitation. In
    this revision a server does not send requests: its response to a call has its questions, and
    the client repeats the call with the user's answers.

    tools/call: Please order rye bread.

    response to tools/call: This result is not the final one. inputRequests has the question, with a
    schema for the form to fill in. requestState is data that the client sends back to the server.
    It is signed, so that the client cannot change it.

    tools/call: The client has shown the question to its user. It repeats the call as a new request,
    with the answer and the requestState.

    response to tools/call: The tool waited at its question, and has now finished. Over HTTP, the
    tool would run again from its first line, and the question would return the answer at once. This
    is why a tool should ask first and act last.
    """
    client.call_tool("order", {"bread": "rye"})


def _listening(client: Client, transcript: Transcript) -> None:
    """Receiving changes

    If a client caches a resource, the server must notify it when the resource changes. To
    subscribe, the client sends a request that stays open.

    subscriptions/listen: Please notify me when the shelf changes.

    notifications/subscriptions/acknowledged: The server confirms the subscription. This is always
    the first notification.

    tools/call: Bake two loaves, which are then put on the shelf.

    response to tools/call: They are ready.

    notifications/resources/updated: The shelf has changed, and the client may read it again. _meta
    names the subscription. The notification can also arrive before the response.

    notifications/cancelled: The client needs no more notifications, and ends the open request.
    """
    with client.listen(resource_subscriptions=[SHELF]) as changes:
        client.call_tool("bake", {"loaves": 2})
        changes.next(timeout=5)


def _cancelling(client: Client, transcript: Transcript) -> None:
    """Cancelling a call

    A client does not have to wait for the result.

    tools/call: Bake a thousand loaves, one minute each.

    notifications/progress: The tool has started.

    notifications/cancelled: The client no longer waits for that request. The server cancels the
    tool and does not respond to the request.
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
    """Is the server still there?

    This revision has no ping, so the client sends its first request again.

    server/discover: Any response shows that the server still runs.

    response to server/discover: The server is there, and no longer bakes the thousand loaves.
    """
    client.ping()


def _shaking_hands(client: Client, transcript: Transcript) -> None:
    """The same server with an older client

    Up to revision {revision}, a connection begins with a handshake, which opens a session. minimcp
    supports all revisions; in this chapter the client uses an older one. (This is a new connection,
    so the ids start again.)

    initialize: The client proposes a revision, and sends its name and capabilities.

    response to initialize: The server accepts the revision and describes what it offers.

    notifications/initialized: The client is ready. The session is open, so later requests do not
    contain the revision or the capabilities.
    """


def _calling_in_a_session(client: Client, transcript: Transcript) -> None:
    """A call in a session

    The session has the same tools.

    tools/list: Please list your tools, as in chapter 2. _meta is not needed.

    response to tools/list: The same tools in the form of this revision. Here a structured result
    must be an object, so minimcp wraps the number that price returns, and marks the schema:
    x-minimcp-wrapped for its own client, x-fastmcp-wrap-result for the client of FastMCP.

    tools/call: The same call as in chapter 3.

    response to tools/call: The number is wrapped in an object. The client unwraps it.
    """
    client.list_tools()
    client.call_tool("price", {"bread": "rye", "loaves": 2})


def _asking_in_a_session(client: Client, transcript: Transcript) -> None:
    """A question in a session

    In a session the server can send requests, too. Each side numbers its own requests.

    tools/call: Please order rye bread, as in chapter 9.

    elicitation/create: This is a request from the server to the client. The tool waits for the
    response.

    response to elicitation/create: The user accepts and orders two loaves.

    response to tools/call: The tool continued where it had waited. Its code is the same as in
    chapter 9.
    """
    client.call_tool("order", {"bread": "rye"})


def _pinging_in_a_session(client: Client, transcript: Transcript) -> None:
    """A ping in a session

    This revision has a method that checks whether the other side is still there.

    ping: Are you there?

    response to ping: Yes.
    """
    client.ping()


# For each connection, the revision for `connect` and the chapters.
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


def _play(shown: Collection[int]) -> Generator[Chapter, None, None]:
    """Run the conversations and yield the chapters with these numbers, in order."""
    number = 0
    for revision, chapters in CONVERSATIONS:
        first = number + 1
        number += len(chapters)
        wanted = [at for at in shown if first <= at <= number]
        if not wanted:
            continue
        # The first request and the first response of a connection are shown with their _meta.
        shortened_kinds = set() if first in wanted else {True, False}
        transcript = Transcript()
        with _connected(revision, transcript) as client:
            # Run the earlier chapters too, because later ones depend on their effects.
            for at, chapter in enumerate(chapters[: max(wanted) - first + 1], first):
                chapter(client, transcript)
                title, introduction, *explanations = _paragraphs(chapter)
                messages = []
                for entry, explanation in zip(in_order(list(transcript)), explanations):
                    is_response = "method" not in entry.message
                    in_full = is_response not in shortened_kinds
                    shortened_kinds.add(is_response)
                    messages.append(Message(entry, explanation.partition(": ")[2], in_full))
                transcript.clear()
                if at in wanted:
                    introduction = introduction.replace("{revision}", client.revision)
                    yield Chapter(at, title, introduction, messages)


def _connected(revision: str, transcript: Transcript) -> Client:
    return connect(
        demo_server(),
        revision=revision,
        client_info={"name": "demo-client", "version": VERSION},
        timeout=20,
        trace=transcript,
        elicit=lambda question: {"loaves": 2},
    )


CHAPTERS = [chapter for _, chapters in CONVERSATIONS for chapter in chapters]


def demo_command(arguments: Sequence[str], prog: str) -> int:
    """A client and a server of the Model Context Protocol (MCP) talk.

    A language model only reads and writes text. A host (such as a chat program or an editor) lets
    the model act. For each server, the host has a client. The client asks what the server offers,
    and later calls what the model chooses. This demo is a host without a model, and makes the
    choices itself. The server is a bakery, in a child process.

    Each message is one line of JSON-RPC 2.0 over the server's stdin or stdout. A request has an id
    (such as no. 1) and a method. The response has the same id. The JSON is shortened: ... replaces
    what is left out.

    At the end, the client closes the server's stdin, and the server exits.
    """
    parser = Parser(prog, "Watch a small server and a client talk, with each message explained.")
    parser.add_argument(
        "chapters",
        nargs="*",
        metavar="CHAPTER",
        help="the number of a chapter to show, or a word of its title or of one of its methods "
        f"(default: 1 to {FIRST})",
    )
    parser.add_argument("--all", action="store_true", help="show all chapters")
    parser.add_argument(
        "--compare",
        nargs=2,
        metavar=("REVISION", "REVISION"),
        help="show the chapters in two revisions of the protocol, named by dates, side by side",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="write a page for a projector, or, with --compare, a page with a diagram of each "
        "revision",
    )
    parser.add_argument(
        "--step",
        action="store_true",
        help="wait for Enter before each message; without CHAPTER, all chapters are shown",
    )
    parser.add_argument(
        "--agent",
        nargs="?",
        type=int,
        const=-1,
        metavar="PORT",
        help="show a scripted model that calls tools; with PORT, serve this model to other "
        "programs, as OpenAI's chat completions API",
    )
    options = parser.parse_intermixed_args(arguments)
    if options.agent is not None:
        from . import agent

        return agent.show(demo_server()) if options.agent < 0 else agent.serve(options.agent)
    if sys.flags.optimize > 1:
        raise UsageError(
            "python -OO removes docstrings, which the demo prints: use python or python -O"
        )
    titles = [_paragraphs(chapter)[0] for chapter in CHAPTERS]
    last_shown = len(titles) if options.all or options.step else FIRST
    shown: list[int] = list(range(1, 1 + last_shown))
    if options.chapters:
        first = len(CONVERSATIONS[0][1]) if options.compare else len(titles)
        shown = sorted({at for word in options.chapters for at in _find(word, first)})
    if options.compare:
        return _compare(shown, options.compare, options.html)
    title, *introduction, ending = _paragraphs(demo_command)
    if options.html:
        with closing(_play(shown)) as chapters:
            write_slides(options.html, title, introduction, chapters)
        many = "chapter" if len(shown) == 1 else "chapters"
        print(f"{options.html}: {len(shown)} {many}; Space shows the next message")
        return 0
    color = wants_color(sys.stdout)
    if not options.chapters:
        print(styled(title, "bold", color))
        print_wrapped(*introduction)
    with closing(_play(shown)) as chapters:
        for chapter in chapters:
            print("\n" + styled(f"{chapter.number}. {chapter.title}", "bold", color))
            print_wrapped(chapter.introduction)
            for message in chapter.messages:
                if options.step and not _wait_for_enter():
                    return 0
                print_message(message, color)
    if not options.chapters:
        print()
        print_wrapped(ending)
        others = [f"{at} {title}" for at, title in enumerate(titles, 1) if at not in shown]
        if others:
            print_wrapped(
                f"Other chapters: {'; '.join(others)}. To see one chapter: {prog} {FIRST + 1}. "
                f"To see all: {prog} --all. To see all, one message at a time: {prog} --step."
            )
        _print_next_steps(prog.rpartition(" ")[0], color)
    return 0


def _find(word: str, first: int) -> list[int]:
    """Return the numbers of the chapters that a word of the command line names.

    Args:
        word: A number, or the beginning of a word in a title or in a method's name.
        first: Number of chapters that are searched before the others.

    Raises:
        UsageError: No chapter fits.
    """
    if word.isdecimal() and 1 <= int(word) <= len(CHAPTERS):
        return [int(word)]
    pages = [_paragraphs(chapter) for chapter in CHAPTERS]
    titles = [title for title, *_ in pages]
    methods = [" ".join(text.partition(": ")[0] for text in page[2:]) for page in pages]
    for texts in (titles, methods):
        begins = re.compile(rf"\b{re.escape(word)}", re.IGNORECASE)
        fits = [at for at, text in enumerate(texts, 1) if begins.search(text)]
        fits = [at for at in fits if at <= first] or fits
        if fits and not word.isdecimal():
            return fits
    known = "; ".join(f"{at} {title}" for at, title in enumerate(titles, 1))
    raise UsageError(f"there is no chapter {word!r}: the chapters are {known}")


def _compare(shown: Sequence[int], revisions: Sequence[str], html: Optional[str]) -> int:
    """Show chapters in two revisions side by side: print them, or write a page."""
    color = wants_color(sys.stdout)
    both: tuple[list[Entry], list[Entry]] = ([], [])
    for at in shown:
        columns = [_in_revision(at, revision) for revision in revisions]
        if html is None:
            print("\n" + styled(f"{at}. {_paragraphs(CHAPTERS[at - 1])[0]}", "bold", color))
            print_columns(revisions, columns, color)
        for entries, column in zip(both, columns):
            entries += column
    if html is not None:
        save_side_by_side(html, list(zip(revisions, both)))
        print(f"{html}: {len(both[0])} and {len(both[1])} messages")
    return 0


def _in_revision(at: int, revision: str) -> list[Entry]:
    """Return the messages of one chapter in a revision. Only the first chapter of a connection
    includes its opening."""
    transcript = Transcript()
    try:
        with _connected(revision, transcript) as client:
            if at not in (1, 1 + len(CONVERSATIONS[0][1])):
                client.list_tools()
                transcript.clear()
            with suppress(McpError):  # some revisions do not have what a chapter shows
                CHAPTERS[at - 1](client, transcript)
            return in_order(list(transcript))
    except ValueError as error:
        raise UsageError(f"--compare: {error}") from None


def _wait_for_enter() -> bool:
    """Wait for Enter if stdin is a terminal. Return False if the user closed it with Ctrl-D."""
    sys.stdout.flush()
    with suppress(EOFError):
        if sys.stdin is not None and sys.stdin.isatty():
            read_line("\n(Enter shows the next message, Ctrl-D quits) ")
        return True
    print_stderr("")
    return False


def _print_next_steps(program: str, color: bool) -> None:
    """What to do next

    1. Write your own server, server.py:

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
    title, _, steps = cleandoc(_print_next_steps.__doc__ or "").partition("\n\n")
    file = json.dumps(os.path.abspath("server.py"))
    host = textwrap.fill(
        f"3. Add it to a host's config file (often called mcp.json). {which_python()}:",
        WIDTH,
        subsequent_indent=" " * 3,
        break_long_words=False,
        break_on_hyphens=False,
    )
    print("\n" + styled(title, "bold", color))
    print(
        steps.format(
            program=program,
            package=PACKAGE,
            host=host,
            python=json.dumps(sys.executable),
            file=file,
        )
    )


def which_python() -> str:
    """Return a sentence about the Python that a host has to start.

    Hosts start it in another folder, where it must still find this package.
    """
    folder = Path(__file__).resolve().parents[2]
    if folder == Path.cwd() and not _is_importable_elsewhere(folder):
        note = f"{PACKAGE} is not installed in this Python: server.py must stay in {folder}"
        if (folder / "setup.cfg").is_file():
            note += (
                "; or install that folder into a venv with pip, and write the path of the venv's "
                "Python"
            )
        return note
    return (
        f"This is the Python of the environment where {PACKAGE} is installed; other Pythons do "
        "not find it"
    )


def _is_importable_elsewhere(folder: Path) -> bool:
    """Return whether this Python would find the package if started in another folder."""
    paths = [Path(each).resolve() for each in sys.path]
    others = [str(path) for path in paths if path != folder]
    # An editable install adds its own finder.
    finders = [finder for finder in sys.meta_path if finder is not PathFinder]
    found = PathFinder.find_spec(PACKAGE, others) or any(
        finder.find_spec(PACKAGE, None) for finder in finders
    )
    return bool(found) or paths.count(folder) > 1


def _paragraphs(function: Callable[..., object]) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in (function.__doc__ or "").split("\n\n")]


def demo_server() -> StdioServer:
    """Return the demo's server, to be started with this Python.

    It also works if this package is a copy with another name.

    Raises:
        ConnectionFailed: This program is frozen or embeds Python.
    """
    python = this_python(f"run the demo with an interpreter: python3 -m {PACKAGE} demo")
    options = ["-S"] if sys.flags.no_site else []
    search = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    return StdioServer(
        [python, *options, "-m", f"{__package__}.demo_server"], env={"PYTHONPATH": search}
    )


def in_order(entries: list[Entry]) -> list[Entry]:
    """Return the messages, with the unordered notifications after the last response."""
    moving = [entry for entry in entries if entry.method == UNORDERED]
    staying = [entry for entry in entries if entry.method != UNORDERED]
    end = 1 + max((at for at, entry in enumerate(staying) if entry.kind == "result"), default=-1)
    return [*staying[:end], *moving, *staying[end:]]
