"""``minimcp demo``: a server in a child process, a client here, and every message between them explained.

What is told stands in chapters.py.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Optional, Sequence

from .. import Client, ConnectionFailed, StdioServer, __version__ as VERSION, connect
from .chapters import CLOSING, CONVERSATIONS, OPENING, Conversation, user
from .parsing import Parser
from .screen import say, wants_colour
from .transcript import Recorder, Transcript

CLIENT_INFO = {"name": "demo-client", "version": VERSION}


def command(arguments: Sequence[str], prog: str) -> int:
    """Run the command; its exit code.

    Args:
        arguments: Those after the command's name.
        prog: The program and the command.
    """
    Parser(prog, "Watch a small server and a client talk, message by message, explained.", None).parse_args(arguments)
    transcript = Transcript(say, wants_colour(sys.stdout))
    transcript.heading(OPENING[0])
    for paragraph in OPENING[1:]:
        transcript.text(paragraph)
    number = 0
    for conversation in CONVERSATIONS:
        number = _tell(conversation, transcript, number)
    for paragraph in CLOSING:
        say()
        transcript.text(paragraph)
    return 0


def _tell(conversation: Conversation, transcript: Transcript, number: int) -> int:
    """One connection from its opening to its end; the number of the last chapter."""
    recorder = Recorder()
    client: Optional[Client] = None
    transcript.new_connection()
    try:
        for chapter in conversation.chapters:
            number += 1
            if client is None:
                client = connect(
                    demo_server(), revision=conversation.revision, client_info=CLIENT_INFO, trace=recorder, timeout=20,
                    elicit=user,
                )
            if chapter.act is not None:
                chapter.act(client, recorder)
            transcript.heading(f"{number}. {chapter.title}")
            transcript.text(chapter.lead.format(revision=client.revision))
            transcript.messages(_in_order(recorder.take(), chapter.wandering), chapter.meanings)
    finally:
        if client is not None:
            client.close()
    return number


def _in_order(messages: list[tuple[str, Any]], wandering: str) -> list[tuple[str, Any]]:
    """The messages, with the notices that may come before or after the last answer put behind it."""
    moving = [each for each in messages if wandering and each[1].get("method") == wandering]
    staying = [each for each in messages if each not in moving]
    behind = 1 + max((place for place, (_, each) in enumerate(staying) if "method" not in each), default=-1)
    return [*staying[:behind], *moving, *staying[behind:]]


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
