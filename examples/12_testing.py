"""A test talks to the server in memory, and checks the messages that went over the wire.

You will see four tests pass. ``python3 -m pytest examples/12_testing.py`` runs them
too, after ``pip install pytest``.

Nothing is mocked: the object is passed to `connect`, and everything except the process is real. A
transcript can contain a tools/list that your program did not send, after a call in 2025-06-18 or
2025-11-25: if the result is {"result": ...}, the client needs the tool's output schema to know
whether to unwrap it. test_file_server.py tests a server in another file.

https://modelcontextprotocol.io/specification/2026-07-28/basic (the messages that a transcript
shows)
"""

from __future__ import annotations

import minimcp
from minimcp import Context, testing

# for tests: check_replay runs a handler that asks again after each answer
server = minimcp.Server("till", check_replay=True)


@server.tool
def pay(amount: float, ctx: Context) -> str:
    """Pay a bill. The user is asked for a tip."""
    if amount <= 0:
        raise minimcp.ToolError("There is nothing to pay.")
    ctx.progress(1, 2, "the bill is made")
    tip = ctx.elicit(f"{amount:.2f} is the bill. A tip?", {"tip": float}, key="tip").require()[
        "tip"
    ]
    ctx.info({"tip": tip})
    return f"{amount + tip:.2f} paid"


def test_the_handler_alone() -> None:
    """A handler is a function. Pass it a Context that answers its questions and records its
    reports."""
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
    """The same server object, as clients of both eras see it."""
    for revision in ("2025-11-25", "2026-07-28"):
        with minimcp.connect(
            server, revision=revision, elicit=lambda request: {"tip": 2}
        ) as client:
            assert client.call_tool("pay", {"amount": 10}).text == "12.00 paid"
            failed = client.call_tool("pay", {"amount": 0}, raise_on_error=False)
            assert failed.is_error and failed.text == "There is nothing to pay."


def test_the_conversation() -> None:
    """The messages on the wire. If they differ, the failure shows all of them."""
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

# Exercise: write `test_nothing_to_pay`: it calls the handler alone with the amount 0, expects a
# ToolError, and checks that the user was not asked. The check breaks `pay` in two ways, and your
# test must fail for both.
# Check it with  python3 examples/check.py 12
