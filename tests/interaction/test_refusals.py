"""Tools that refuse a path or a resource: the model reads why."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Callable

import pytest

from minimcp import (
    Context,
    InvalidParams,
    ResourceAccessDenied,
    ResourceNotFound,
    RpcError,
    Server,
    Tasks,
    ToolError,
    connect,
    resolve_inside,
)

from ..answering import REVISIONS

OUTSIDE = "Access denied: the path is not allowed, because it has a '..' segment"


def files(folder: Path, **options: Any) -> Server:
    server = Server("files", **options)

    @server.tool
    def head(file: str) -> str:
        return resolve_inside(folder, file).read_text()

    @server.tool
    def book(number: int, ctx: Context) -> str:
        return str(ctx.read_resource(f"books://{number}").text)

    @server.resource("books://{number}")
    def read(number: int) -> str:
        raise ResourceAccessDenied("book 3 is for Ada", {"who": "Ada"})

    return server


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("mask", [False, True])
def test_the_library_refuses_with_a_result(
    revision: str, mask: bool, tmp_path: Path, caplog: Any
) -> None:
    caplog.set_level(logging.WARNING, "minimcp")
    with connect(files(tmp_path, mask_errors=mask), revision=revision) as client:
        for name, arguments, text in (
            ("head", {"file": "../x"}, OUTSIDE),
            ("book", {"number": 3}, "Access denied: book 3 is for Ada"),
        ):
            result = client.call_tool(name, arguments, raise_on_error=False)
            assert result.is_error and result.text == text
            with pytest.raises(ToolError, match=text):
                client.call_tool(name, arguments)
        with pytest.raises(RpcError, match="book 3 is for Ada"):  # in a resource it is an error
            client.read_resource("books://3")
    assert not [each for each in caplog.records if each.name == "minimcp.tools"]


def raises(error: Exception) -> Callable[[], str]:
    def fail() -> str:
        raise error

    return fail


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_author_refuses_with_a_result_and_other_errors_stay_errors(revision: str) -> None:
    server = Server("raising")
    server.add_tool(raises(ResourceNotFound("no such day")), name="missing")
    server.add_tool(raises(ResourceAccessDenied("not for you", {"who": "Ada"})), name="denied")
    server.add_tool(raises(InvalidParams("a bad day")), name="invalid")
    server.add_tool(raises(RpcError(7, "seven")), name="own")
    with connect(server, revision=revision) as client:
        for name, text in (("missing", "no such day"), ("denied", "not for you")):
            result = client.call_tool(name, raise_on_error=False)
            assert result.is_error and result.text == text
        for name, code in (("invalid", -32602), ("own", 7)):
            with pytest.raises(RpcError) as caught:
                client.call_tool(name, raise_on_error=False)
            assert caught.value.code == code


def test_a_refusal_in_a_task_is_its_result() -> None:
    server = Server("tasks", extensions=[Tasks()])
    server.add_tool(raises(ResourceNotFound("no such day")), name="missing", task="optional")
    with connect(server, extensions=[Tasks()]) as client:
        result = client.start_task("missing").result(raise_on_error=False)
    assert result.is_error and result.text == "no such day"
