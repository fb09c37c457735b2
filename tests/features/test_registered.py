"""What everything registered has in common, where the features' own tests do not reach."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from minimcp import CapabilityNotSupported
from minimcp.protocol.lifecycle import lacks
from minimcp.schema.mismatch import Mismatch
from minimcp.server.context import Context
from minimcp.server.registered import TextHandler, annotated, name_of, where
from minimcp.types import Annotations

from .support import exchange


def echo(text: str = "") -> str:
    """Echo."""
    return text


def handler(function: Any = echo, **options: Any) -> TextHandler:
    return TextHandler(function, "thing 'x'", content_types=(), **{"requires": (), **options})


def test_names() -> None:
    assert name_of(echo, None, "thing") == "echo" and name_of(echo, "other", "thing") == "other"
    for function, name, said in ((5, None, "a thing needs a name"), (echo, 5, "the name of a thing is text, not 5")):
        with pytest.raises(TypeError, match=said):
            name_of(function, name, "thing")  # type: ignore[arg-type]


def test_annotations() -> None:
    own = Annotations(priority=1)
    for given, made in ((None, None), (own, own), ({"priority": 1}, own)):
        assert annotated(given, Annotations, "{}", "it") == made
    with pytest.raises(TypeError, match="it: no annotation is called 'lastModified': did you mean 'last_modified'"):
        annotated({"lastModified": "x"}, Annotations, "{}", "it")


def test_what_a_client_lacks() -> None:
    for name, needed in (
        ("sampling", {"sampling": {}}),
        ("elicitation.url", {"elicitation": {"url": {}}}),
        ("ext:com.example/x", {"extensions": {"com.example/x": {}}}),
    ):
        error = lacks(name, "thing 'x'")
        assert error.data == {"requiredCapabilities": needed} and name in str(error) and "thing 'x'" in str(error)


def test_a_handler_needs_what_it_requires() -> None:
    def told(count: int, ctx: Context) -> Any:
        """Tell."""
        return count, ctx.method

    asked = exchange("prompts/get", capabilities={"sampling": {"tools": {}}, "roots": {}})
    made = handler(told, requires=["roots", "sampling.tools"])
    assert made.call(Context(asked), asked.peer, made.arguments({"count": "5"})) == (5, "prompts/get")
    for lacking in ("elicitation", ["roots", "elicitation"]):
        with pytest.raises(CapabilityNotSupported, match="thing 'x' needs a client with elicitation"):
            handler(told, requires=lacking).call(Context(asked), asked.peer, {"count": 5})
    with pytest.raises(Mismatch, match="cuont"):
        made.arguments({"cuont": "5"})


def test_what_a_handler_refuses() -> None:
    async def waits() -> str:
        return ""

    def many(*texts: str) -> str:
        return ""

    def steps() -> Any:
        yield ""

    def untyped(x) -> str:  # type: ignore[no-untyped-def]
        return ""

    for function, said in (
        (waits, "is async"), (many, r"takes \*texts"), (steps, "is a generator"), (untyped, "no annotation"),
        (str, "is a class"), (print, "no Python function"),
    ):
        with pytest.raises(TypeError, match=said) as caught:
            handler(function)
        assert "thing 'x': " in str(caught.value)
    assert repr(handler()).startswith("<TextHandler thing 'x' = echo (")


def test_where_something_stands(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "minimcp")
    assert where(echo).startswith("echo (") and "test_registered.py:" in where(echo)
    assert where(print) == "print" and where(5) == "5"
