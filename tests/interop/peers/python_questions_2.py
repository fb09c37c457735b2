"""Questions of a server of the official Python SDK 2.x to its client, by resolvers, which serve
every revision.

If no resolver exists (a URL, a prompt, a resource), the result with the question is written by hand
in 2026-07-28.
"""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from python_tools import URL, Age, Context, Person, need_url, said, types

TOOLS = [
    types.Tool(
        name="twice", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}}
    )
]
QUESTION = said("user", {"type": "text", "text": "Twice 1?"})


def who() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


def how_old(person: Annotated[Person, Resolve(who)]) -> Elicit[Age]:
    return Elicit(f"How old is {person.name}?", Age)


def model(text: str) -> Sample:
    message = said("user", {"type": "text", "text": text})
    return Sample(
        [message], max_tokens=50, system_prompt="Be short.", temperature=0.5, stop_sequences=["."]
    )


def greeting() -> Sample:
    return Sample([said("user", {"type": "text", "text": "Hi"})], max_tokens=50)


def use_of_tool() -> Sample:
    return Sample(
        [QUESTION], max_tokens=50, tools=TOOLS, tool_choice=types.ToolChoice(mode="required")
    )


def use_of_result(
    use: Annotated[types.CreateMessageResultWithTools, Resolve(use_of_tool)],
) -> Sample:
    (block,) = use.content_as_list
    text = {"type": "text", "text": str(2 * block.input["a"])}
    done = {"type": "tool_result", "toolUseId": block.id, "content": [text]}
    return Sample(
        [QUESTION, said("assistant", block), said("user", done)], max_tokens=50, tools=TOOLS
    )


def all_roots() -> ListRoots:
    return ListRoots()


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
    server.prompt()(survey)
    server.resource("note://secret/{number}", name="secret", mime_type="text/plain")(secret)


def ask_form(answer: Annotated[ElicitationResult[Person], Resolve(who)]) -> str:
    """Ask the user to fill in a form."""
    return (
        f"accept {answer.data.name} {answer.data.age}"
        if answer.action == "accept"
        else answer.action
    )


async def ask_url(ctx: Context) -> str | types.InputRequiredResult:
    """Ask the user to open a URL, and say that it is done."""
    if ctx.protocol_version == "2026-07-28":
        answer = (ctx.input_responses or {}).get("url")
        if answer is None:
            params = types.ElicitRequestURLParams.model_validate(
                {"mode": "url", "message": "Open it", "url": URL}
            )
            return types.InputRequiredResult(
                input_requests={"url": types.ElicitRequest(params=params)}
            )
        return answer.action
    result = await ctx.elicit_url("Open it", URL, "interop-1")
    if result.action == "accept":
        await ctx.session.send_elicit_complete("interop-1", ctx.request_id)
    return result.action


def ask_model(text: str, result: Annotated[types.CreateMessageResult, Resolve(model)]) -> str:
    """Ask the client's model."""
    return f"{result.model}: {result.content.text} ({result.stop_reason})"


def ask_tools(result: Annotated[types.CreateMessageResultWithTools, Resolve(use_of_result)]) -> str:
    """Let the client's model use a tool."""
    return result.content_as_list[0].text


async def ask_roots(
    ctx: Context, result: Annotated[types.ListRootsResult, Resolve(all_roots)]
) -> str:
    """Ask for the roots of a client that is there."""
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_ping()
    return ", ".join(str(root.uri) for root in result.roots)


def ask_many(
    person: Annotated[Person, Resolve(who)],
    result: Annotated[types.CreateMessageResult, Resolve(greeting)],
    roots: Annotated[types.ListRootsResult, Resolve(all_roots)],
) -> str:
    """Ask three things at once."""
    return f"{person.name} | {result.content.text} | {len(roots.roots)}"


def ask_twice(
    person: Annotated[Person, Resolve(who)], age: Annotated[Age, Resolve(how_old)]
) -> str:
    """Ask, and ask about the answer."""
    return f"{person.name} is {age.age}, 1 step"


async def person_of(ctx: Context, message: str) -> Person | types.InputRequiredResult:
    """Ask by the means of the revision."""
    if ctx.protocol_version != "2026-07-28":
        return (await ctx.elicit(message, Person)).data
    answer = (ctx.input_responses or {}).get("who")
    if answer is None:
        params = types.ElicitRequestFormParams(
            message=message, requested_schema=Person.model_json_schema()
        )
        return types.InputRequiredResult(input_requests={"who": types.ElicitRequest(params=params)})
    return Person.model_validate(answer.content)


async def survey(ctx: Context) -> str | types.InputRequiredResult:
    """Ask before there is a prompt."""
    person = await person_of(ctx, "Who are you?")
    return f"survey by {person.name}" if isinstance(person, Person) else person


async def secret(number: int, ctx: Context) -> str | types.InputRequiredResult:
    """A note that asks who wants to read it."""
    person = await person_of(ctx, "Who reads?")
    return f"secret {number} for {person.name}" if isinstance(person, Person) else person
