"""A test talks to the server in memory, and looks at the messages that went over the wire.

You will see four tests pass. ``python3 -m pytest examples/12_testing.py`` runs them too.

Nothing is mocked: the object is handed to `connect`, and all but the process is as it will be. A
transcript may show a tools/list that your program did not ask for, behind a call in 2025-06-18 or
2025-11-25: where the result is {"result": ...}, only the tool's output schema tells the client
whether that is a wrapping.
test_file_server.py beside this file tests a server in another file.

https://modelcontextprotocol.io/specification/2026-07-28/basic (the messages that a transcript
shows)
"""

from __future__ import annotations

import minimcp
from minimcp import Context, testing

server = minimcp.Server(
    "till", check_replay=True
)  # for tests: every handler that asks is run again after each answer


@server.tool
def pay(amount: float, ctx: Context) -> str:
    """Pay; the user is asked for a tip."""
    if amount <= 0:
        raise minimcp.ToolError("There is nothing to pay.")
    ctx.progress(1, 2, "the bill is made")
    tip = ctx.elicit(f"{amount:.2f} is the bill. A tip?", {"tip": float}, key="tip").require()[
        "tip"
    ]
    ctx.info({"tip": tip})
    return f"{amount + tip:.2f} paid"


def test_the_handler_alone() -> None:
    """A handler is a function. Hand it a Context that answers its questions and remembers what it
    was told."""
    ctx = testing.context(answers={"tip": {"tip": 1.5}})
    assert pay(10, ctx) == "11.50 paid"
    assert [question.key for question in ctx.questions] == ["tip"]
    assert [report.message for report in ctx.reports] == ["the bill is made"]
    assert [entry.data for entry in ctx.logs] == [{"tip": 1.5}]


def test_a_user_who_declines() -> None:
    ctx = testing.context(answers={"elicit": None})
    try:
        paid = pay(10, ctx)
    except minimcp.Declined:
        paid = ""
    assert not paid


def test_the_server_in_both_eras() -> None:
    """The same server object, as clients of either era see it."""
    for revision in ("2025-11-25", "2026-07-28"):
        with minimcp.connect(
            server, revision=revision, elicit=lambda request: {"tip": 2}
        ) as client:
            assert client.call_tool("pay", {"amount": 10}).text == "12.00 paid"
            failed = client.call_tool("pay", {"amount": 0}, raise_on_error=False)
            assert failed.is_error and failed.text == "There is nothing to pay."


def test_the_conversation() -> None:
    """What went over the wire; when it is something else, the failure shows all of it."""
    transcript = testing.Transcript()
    with minimcp.connect(server, elicit=lambda request: {"tip": 0}, trace=transcript) as client:
        client.call_tool("pay", {"amount": 8})
    transcript.assert_flow(
        "--> tools/call", "<-- result of tools/call", "--> tools/call", "<-- result of tools/call"
    )
    first, second = transcript.requests("tools/call")
    assert "tip" in transcript.answer_to(first)["result"]["inputRequests"]
    assert second["params"]["inputResponses"]["tip"]["content"] == {"tip": 0}


if __name__ == "__main__":
    for name, test in [each for each in globals().items() if each[0].startswith("test_")]:
        test()
        print("passed:", name.replace("_", " "))

# Exercise: write `test_nothing_to_pay`: it calls the handler alone with the amount 0, and expects a
# ToolError and that the user was asked nothing. The check breaks `pay` in two ways, and your test
# has to fail for both.
# Check it with  python3 examples/check.py 12
