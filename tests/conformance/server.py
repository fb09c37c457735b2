"""The fixture server of the official conformance suite, from the public interface only.

``python -m tests.conformance.server --port N`` serves ``http://localhost:N/mcp``.
"""

from __future__ import annotations

import argparse
import base64
import logging
from pathlib import Path
from typing import Any, Optional, Union

import minimcp
from minimcp import (
    Context,
    Elicit,
    EmbeddedResource,
    Image,
    InternalError,
    ListRoots,
    Sample,
    Server,
    Skills,
    Tasks,
    Text,
    ToolError,
)

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
TEXT, BINARY, TEMPLATE = "test://static-text", "test://static-binary", "test://template/{id}/data"

SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}


def choices(word: str) -> list[dict[str, str]]:
    return [{"const": f"value{number}", "title": f"{word} {number}"} for number in (1, 2, 3)]


ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": choices("Choice")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["One", "Two", "Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {"type": "array", "items": {"anyOf": choices("Choice")}},
    },
}


def add_tasks(server: Server) -> None:
    """Tools that run as tasks."""

    @server.tool
    def greet(name: str) -> str:
        """Never a task."""
        return f"Hello, {name}!"

    @server.tool(task="optional")
    def slow_compute(seconds: float, ctx: Context, label: str = "result") -> str:
        """Takes its time."""
        ctx.sleep(seconds)
        return f"{label}: computed for {seconds:g} s"

    @server.tool(task="required")
    def failing_job(ctx: Context) -> str:
        """Fails after a while."""
        ctx.sleep(1)
        raise ToolError("the job failed")

    @server.tool(task="optional")
    def protocol_error_job() -> str:
        """Ends by an error of the protocol."""
        raise InternalError("the job cannot go on")

    @server.tool(task="optional")
    def confirm_delete(filename: str, ctx: Context) -> str:
        """Asks once."""
        answer = ctx.elicit(f"Delete {filename}?", {"confirm": bool})
        return f"{filename}: {'deleted' if answer.require()['confirm'] else 'kept'}"

    @server.tool(task="optional")
    def multi_input(ctx: Context) -> str:
        """Asks two questions at once."""
        answers = ctx.ask_all(
            {"name": Elicit("Your name?", {"name": str}), "age": Elicit("Your age?", {"age": int})}
        )
        return ", ".join(f"{key} {answer.action}" for key, answer in answers.items())

    @server.tool(task="later")
    def test_tool_with_task(ctx: Context) -> str:
        """Ask a question first, and then become a task."""
        name = ctx.elicit("What is your name?", {"name": str}, key="user_name").require()["name"]
        ctx.become_task()
        return f"Hello, {name}!"


def make_server(store: Optional[minimcp.Store] = None) -> Server:
    """The fixture: tools, resources and prompts by the suite's names."""
    server = Server(
        "conformance-fixture", version="1.0.0",
        capabilities=["tools", "prompts", "resources", "logging", "completions"],
        extensions=[Tasks(poll_interval=0.2), Skills(Path(__file__).with_name("skills"))], store=store,
    )  # fmt: skip
    add_tasks(server)

    @server.tool
    def test_simple_text() -> str:
        """One text."""
        return "This is a simple text response for testing."

    @server.tool
    def test_image_content() -> Image:
        """One image."""
        return Image(PNG, "image/png")

    @server.tool
    def test_audio_content() -> minimcp.Audio:
        """One sound."""
        return minimcp.Audio(WAV, "audio/wav")

    @server.tool
    def test_embedded_resource() -> EmbeddedResource:
        """One embedded resource."""
        text = "This is an embedded resource content."
        return EmbeddedResource(
            minimcp.TextResourceContents("test://embedded-resource", text, mime_type="text/plain")
        )

    @server.tool
    def test_multiple_content_types() -> list[Union[Text, Image, EmbeddedResource]]:
        """One of each."""
        content = minimcp.TextResourceContents(
            "test://mixed-content-resource",
            '{"test":"data","value":123}',
            mime_type="application/json",
        )
        return [
            Text("Multiple content types test:"),
            Image(PNG, "image/png"),
            EmbeddedResource(content),
        ]

    @server.tool
    def test_tool_with_logging(ctx: Context) -> str:
        """Logs three times."""
        for number, message in enumerate(
            ("Tool execution started", "Tool processing data", "Tool execution completed")
        ):
            ctx.sleep(0.05 if number else 0)
            ctx.info(message)
        return "logged"

    @server.tool
    def test_tool_with_progress(ctx: Context) -> str:
        """Reports progress three times."""
        for done in (0, 50, 100):
            ctx.sleep(0.05 if done else 0)
            ctx.progress(done, 100)
        return "done"

    @server.tool
    def test_error_handling() -> str:
        """Fails."""
        raise minimcp.ToolError("This tool intentionally returns an error for testing")

    @server.tool
    def test_sampling(prompt: str, ctx: Context) -> str:
        """Asks the client's model."""
        return f"LLM response: {ctx.sample(prompt, 100).text}"

    @server.tool
    def test_elicitation(message: str, ctx: Context) -> str:
        """Asks the user."""
        answer = ctx.elicit(message, {"username": str, "email": str})
        return f"User response: action={answer.action}, content={answer.content}"

    @server.tool
    def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Asks with a default for every kind of field."""
        answer = ctx.elicit("Please fill this in", DEFAULTS)
        return f"Elicitation completed: action={answer.action}, content={answer.content}"

    @server.tool
    def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Asks with every kind of choice."""
        answer = ctx.elicit("Please choose", ENUMS)
        return f"Elicitation completed: action={answer.action}, content={answer.content}"

    @server.tool(input_schema=SCHEMA_2020_12)
    def json_schema_2020_12_tool(
        name: str = "",
        address: Any = None,
        contactMethod: str = "phone",  # noqa: N803 - the suite's name
        phone: str = "",
        email: str = "",
    ) -> str:
        """Has a schema written by hand."""
        return f"{name or 'somebody'} is reached by {contactMethod}: {phone or email}"

    @server.tool
    def test_reconnection(ctx: Context) -> str:
        """Lets the client go before it answers."""
        ctx.close_stream(retry=0.1)
        ctx.sleep(0.2)
        return "Reconnection test completed"

    @server.tool(requires=["sampling"])
    def test_missing_capability(ctx: Context) -> str:
        """Needs a client with a model."""
        return ctx.sample("Hello", 10).text

    @server.tool
    def test_streaming_elicitation(ctx: Context) -> str:
        """Asks the user, after a word about progress."""
        ctx.progress(1, 2)
        return f"Hello, {ctx.elicit('What is your name?', {'name': str}, key='name').action}"

    @server.tool
    def test_logging_tool(ctx: Context) -> str:
        """Logs, if the client wants that."""
        ctx.info("a message")
        return "logged, if that was wanted"

    @server.tool
    def test_trigger_tool_change() -> str:
        """Changes the list of tools."""
        server.add_tool(test_simple_text, name="test_added_later")
        server.remove_tool("test_added_later")
        return "the list of tools has changed"

    @server.tool
    def test_trigger_prompt_change() -> str:
        """Changes the list of prompts."""
        server.add_prompt(test_simple_prompt, name="test_added_later")
        server.remove_prompt("test_added_later")
        return "the list of prompts has changed"

    @server.tool(headers={"region": "Region"})
    def test_x_mcp_header(region: str = "") -> str:  # noqa: PT028 - no test
        """Has an argument that is mirrored in a header."""
        return f"region: {region}"

    @server.tool
    def test_input_required_result_elicitation(ctx: Context) -> str:
        """Asks the user's name."""
        answer = ctx.elicit("What is your name?", {"name": str}, key="user_name")
        return f"Hello, {answer.require()['name']}!"

    @server.tool
    def test_input_required_result_sampling(ctx: Context) -> str:
        """Asks the client's model."""
        return ctx.sample("What is the capital of France?", 100, key="capital_question").text

    @server.tool
    def test_input_required_result_list_roots(ctx: Context) -> str:
        """Asks for roots."""
        answers = ctx.ask_all({"client_roots": ListRoots()})
        return f"roots: {[root.uri for root in answers['client_roots']]}"

    @server.tool
    def test_input_required_result_request_state(ctx: Context) -> str:
        """Asks, and knows its state again."""
        ctx.elicit("Please confirm", {"ok": bool}, key="confirm").require()
        return "state-ok"

    @server.tool
    def test_input_required_result_multiple_inputs(ctx: Context) -> str:
        """Asks three things at once."""
        answers = ctx.ask_all(
            {
                "user_name": Elicit("What is your name?", {"name": str}),
                "greeting": Sample("Say hello", 50),
                "client_roots": ListRoots(),
            }
        )
        return f"{answers['greeting'].text} {answers['user_name'].content} {len(answers['client_roots'])} roots"

    @server.tool
    def test_input_required_result_multi_round(ctx: Context) -> str:
        """Asks twice, one after the other."""
        name = ctx.elicit("Step 1: your name?", {"name": str}, key="step1").require()["name"]
        color = ctx.elicit("Step 2: your favourite colour?", {"color": str}, key="step2").require()[
            "color"
        ]
        return f"{name} likes {color}"

    @server.tool
    def test_input_required_result_tampered_state(ctx: Context) -> str:
        """Asks, and does not take a state that was changed."""
        ctx.elicit("Please confirm", {"ok": bool}, key="confirm").require()
        return "state-ok"

    @server.tool
    def test_input_required_result_capabilities(ctx: Context) -> str:
        """Asks only what the client can answer."""
        questions: dict[str, Any] = {}
        if ctx.client.supports("sampling"):
            questions["model"] = Sample("Say hello", 50)
        if ctx.client.supports("elicitation.form") and ctx.client.supports("elicitation"):
            questions["user"] = Elicit("Your name?", {"name": str})
        return f"asked {sorted(ctx.ask_all(questions))}"

    @server.resource(TEXT, mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource(BINARY, mime_type="image/png")
    def static_binary() -> bytes:
        """An image."""
        return PNG

    @server.resource(TEMPLATE, mime_type="application/json")
    def template(id: str) -> dict[str, Any]:
        """Data for an id."""
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched() -> str:
        """Can be subscribed to."""
        return "watched"

    @server.prompt
    def test_simple_prompt() -> str:
        """One message."""
        return "This is a simple prompt for testing."

    @server.prompt(complete={"arg1": ["testValue1", "other"]})
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """Two arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[minimcp.PromptMessage]:  # noqa: N803 - the suite's name
        """One embedded resource."""
        text = "Embedded resource content for testing."
        content = minimcp.TextResourceContents(resourceUri, text, mime_type="text/plain")
        return [
            minimcp.PromptMessage("user", EmbeddedResource(content)),
            minimcp.PromptMessage("user", Text("Please process the embedded resource above.")),
        ]

    @server.prompt
    def test_prompt_with_image() -> list[minimcp.PromptMessage]:
        """One image."""
        return [
            minimcp.PromptMessage("user", Image(PNG, "image/png")),
            minimcp.PromptMessage("user", Text("Please analyze the image above.")),
        ]

    @server.prompt
    def test_input_required_result_prompt(ctx: Context) -> str:
        """Asks before it is filled in."""
        answer = ctx.elicit("What is the context?", {"context": str}, key="user_context")
        return f"Context: {answer.require()['context']}"

    return server


def main() -> None:
    parser = argparse.ArgumentParser(prog=Path(__file__).stem)
    parser.add_argument("--port", type=int, default=3001)
    parser.add_argument("--redis", help="the URL of what several processes share")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    store = None if arguments.redis is None else minimcp.RedisStore(arguments.redis)
    make_server(store).run("http", port=arguments.port)


if __name__ == "__main__":
    main()
