"""Questions of a server of the official Python SDK 1.x to its client. Each question is a request of
its own."""

from __future__ import annotations

from typing import Any

import anyio
from python_tools import URL, Age, Context, Person, need_url, said, types


def add_questions(server: Any) -> None:
    for function in (
        ask_form,
        ask_url,
        need_url,
        ask_model,
        ask_tools,
        ask_roots,
        ask_many,
        ask_twice,
    ):
        server.add_tool(function)

    @server.prompt()
    async def survey(ctx: Context) -> str:
        """Ask before there is a prompt."""
        return f"survey by {(await ctx.elicit('Who are you?', Person)).data.name}"

    @server.resource("note://secret/{number}", name="secret", mime_type="text/plain")
    async def secret(number: int, ctx: Context) -> str:
        """A note that asks who wants to read it."""
        return f"secret {number} for {(await ctx.elicit('Who reads?', Person)).data.name}"


async def ask_form(ctx: Context) -> str:
    """Ask the user to fill in a form."""
    result = await ctx.elicit("Who are you?", Person)
    return (
        f"accept {result.data.name} {result.data.age}"
        if result.action == "accept"
        else result.action
    )


async def ask_url(ctx: Context) -> str:
    """Ask the user to open a URL, and say that it is done."""
    result = await ctx.elicit_url("Open it", URL, "interop-1")
    if result.action == "accept":
        await ctx.session.send_elicit_complete("interop-1", ctx.request_id)
    return result.action


async def ask_model(text: str, ctx: Context) -> str:
    """Ask the client's model."""
    result = await ctx.session.create_message(
        [said("user", {"type": "text", "text": text})],
        max_tokens=50,
        system_prompt="Be short.",
        temperature=0.5,
        stop_sequences=["."],
    )
    return f"{result.model}: {result.content.text} ({result.stopReason})"


async def ask_tools(ctx: Context) -> str:
    """Let the client's model use a tool."""
    tools = [
        types.Tool(
            name="twice", inputSchema={"type": "object", "properties": {"a": {"type": "integer"}}}
        )
    ]
    question = said("user", {"type": "text", "text": "Twice 1?"})
    asked = await ctx.session.create_message(
        [question], max_tokens=50, tools=tools, tool_choice=types.ToolChoice(mode="required")
    )
    (use,) = asked.content_as_list
    done = {
        "type": "tool_result",
        "toolUseId": use.id,
        "content": [{"type": "text", "text": str(2 * use.input["a"])}],
    }
    messages = [question, said("assistant", use.model_dump(exclude_none=True)), said("user", done)]
    return (
        (await ctx.session.create_message(messages, max_tokens=50, tools=tools))
        .content_as_list[0]
        .text
    )


async def ask_roots(ctx: Context) -> str:
    """Ask for the roots of a client that is there."""
    await ctx.session.send_ping()
    return ", ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


async def ask_many(ctx: Context) -> str:
    """Ask three things at once."""
    found: dict[str, Any] = {}

    async def form() -> None:
        found["who"] = (await ctx.elicit("Who are you?", Person)).data.name

    async def model() -> None:
        message = said("user", {"type": "text", "text": "Hi"})
        found["model"] = (await ctx.session.create_message([message], max_tokens=50)).content.text

    async def roots() -> None:
        found["roots"] = len((await ctx.session.list_roots()).roots)

    async with anyio.create_task_group() as group:
        for question in (form, model, roots):
            group.start_soon(question)
    return f"{found['who']} | {found['model']} | {found['roots']}"


async def ask_twice(ctx: Context) -> str:
    """Ask, and ask about the answer."""
    name = (await ctx.elicit("Who are you?", Person)).data.name
    age = (await ctx.elicit(f"How old is {name}?", Age)).data.age
    return f"{name} is {age}, 1 step"
