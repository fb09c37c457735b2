"""Chapter 0 of the course, examples/00_pictures.rst: each conversation that is drawn there takes
place here."""

from __future__ import annotations

import json
import re
from typing import Callable, List, Tuple

import pytest

from minimcp import Cancelled, CancelToken, Client, Context, Server, connect
from minimcp.protocol.versions import REVISIONS
from minimcp.testing import Transcript

from .readme import PAGES, blocks
from .support import ROOT, WAIT

PICTURES = blocks("drawn")
ARROW = re.compile(r"^  \|  (?:(<)-+ (?P<heard>.+?)|(?P<said>\S.*?) -+>)  \|", re.M)
URI = "plants://basil"
EXAMPLES = ROOT / "examples"

Arrows = List[Tuple[str, str]]


def drawn(name: str) -> Arrows:
    """Return the arrows of a picture, from top to bottom: the direction and text of each."""
    found = ARROW.finditer(PICTURES[name])
    return [("-->", arrow["said"]) if arrow["said"] else ("<--", arrow["heard"]) for arrow in found]


def passed(transcript: Transcript) -> Arrows:
    return [(entry.direction, entry.names[0]) for entry in transcript]


server = Server("pictures")


@server.tool
def price(loaves: int = 2) -> float:
    """Compute the price of bread."""
    return 4.5 * loaves


@server.tool
def bake(loaves: int, ctx: Context) -> str:
    """Bake bread."""
    for number in range(1, loaves + 1):
        ctx.progress(number, loaves)
        ctx.sleep(WAIT if loaves > 2 else 0)
    return "ready"


@server.tool
def order(ctx: Context) -> str:
    """Order bread."""
    return f"{ctx.elicit('How many?', {'loaves': int}).require()['loaves']} loaves"


@server.resource(URI)
def basil() -> str:
    """How the basil has it."""
    return "19 degrees"


def call(client: Client, transcript: Transcript) -> None:
    client.list_tools()
    assert client.call_tool("price").value == 9.0


def hear(client: Client, transcript: Transcript) -> None:
    assert client.call_tool("bake", {"loaves": 2}, on_progress=lambda report: None).text == "ready"


def give_up(client: Client, transcript: Transcript) -> None:
    token = CancelToken()
    with pytest.raises(Cancelled):
        client.call_tool(
            "bake", {"loaves": 1000}, cancel=token, on_progress=lambda report: token.cancel()
        )
    transcript.wait_for("--> notifications/cancelled", WAIT)


def be_asked(client: Client, transcript: Transcript) -> None:
    assert client.call_tool("order").text == "2 loaves"


def hear_of_a_change(client: Client, transcript: Transcript) -> None:
    """The open stream is closed after the pictured exchange."""
    changes = client.listen(resource_subscriptions=[URI])
    server.resource_updated(URI)
    assert changes.next(timeout=WAIT).uri == URI
    client.read_resource(URI)


PLAYED = [
    ("handshake", "2025-11-25", call),
    ("stateless", "2026-07-28", call),
    ("progress", "2026-07-28", hear),
    ("cancellation", "2026-07-28", give_up),
    ("asking in a session", "2025-11-25", be_asked),
    ("asking without a session", "2026-07-28", be_asked),
    ("changes", "2026-07-28", hear_of_a_change),
]
SENT = {"HTTP, 2026-07-28": 0, "HTTP, 2025-11-25": 1}
"""Which part of what chapter 13b prints it is."""


def test_every_picture_is_checked() -> None:
    assert list(PICTURES) == [*(name for name, _, _ in PLAYED), *SENT]


@pytest.mark.parametrize(("name", "revision", "play"), PLAYED, ids=[name for name, _, _ in PLAYED])
def test_a_conversation_is_as_it_is_drawn(
    name: str, revision: str, play: Callable[[Client, Transcript], None]
) -> None:
    transcript = Transcript()
    with connect(
        server, revision=revision, trace=transcript, elicit=lambda request: {"loaves": 2}
    ) as client:
        if name not in ("handshake", "stateless"):  # the others start later
            transcript.clear()
        play(client, transcript)
        assert passed(transcript) == drawn(name)


def test_the_lines_equal_the_first_chapter() -> None:
    """Another test compares the first chapter with its output. Below, the same for chapter 13b."""
    printed = (EXAMPLES / "01_wire.txt").read_text(encoding="utf-8")
    arrows = zip(("-->", "<--"), blocks("lines")["one call"].splitlines())
    assert [f"{arrow} {line}\n" in printed for arrow, line in arrows] == [True, True]


@pytest.mark.parametrize("name", list(SENT))
def test_http_is_as_it_is_drawn(name: str) -> None:
    printed = (EXAMPLES / "13b_http_by_hand.txt").read_text(encoding="utf-8")
    lines = re.split(r"(?<=\n)(?=POST initialize)|(?<=\nDELETE: 200\n)", printed)[
        SENT[name]
    ].splitlines()
    found: Arrows = []
    for line in lines:
        if line.startswith("  event: {"):
            message = json.loads(line[9:])
            found.append(
                (
                    "<--",
                    f"event: {message.get('method', 'result' if 'result' in message else 'error')}",
                )
            )
        elif line.startswith("  event: "):
            found.append(("<--", "event: only an id"))
        elif not line.startswith("  "):
            sent, _, came = line.partition(": ")
            found += [("-->", sent), ("<--", came.replace("None", "nothing"))]
    assert found == drawn(name)


def test_named_objects_exist() -> None:
    named = set(re.findall(r"``([a-z]+/[a-z/_]+)``", PAGES["examples/00_pictures.rst"]))
    methods = {
        method for each in REVISIONS for method in each.requests_to_server | each.requests_to_client
    }
    assert named and named <= methods | {name for picture in PICTURES for _, name in drawn(picture)}
