"""The reference equals the signatures and docstrings."""

from __future__ import annotations

import inspect
import pydoc
import re
from contextlib import suppress
from typing import Any, Callable, Iterator, List

import minimcp
from minimcp import Context, Server, terminal, testing

from .reference import PAGE, written
from .rows import for_each


def test_the_reference_is_that_of_the_docstrings() -> None:
    assert PAGE.read_text(encoding="utf-8") == written(), (
        "write it anew: python3 -m tests.reference"
    )


def test_every_public_name_is_in_it() -> None:
    titles = PAGE.read_text(encoding="utf-8").splitlines()
    assert {f"minimcp.{name}" for name in minimcp.__all__ if name != "__version__"} <= set(titles)


def public_functions() -> Iterator[Any]:
    """Each with what it is called, and how many of its parameters take any number of arguments,
    rightly."""
    handed_on = {
        "Server": ["*handlers"],
        "Server.add": ["*handlers"],
        "connect_all": ["**keywords"],
        "Client.submit": ["*args", "**keywords"],
        "Image.from_figure": ["**options"],
        "Group.submit": ["*args", "**keywords"],
        "Transcript.assert_flow": ["*expected"],
        "ScriptedPeer.expect": ["*names"],
    }
    for module in (minimcp, terminal, testing):
        for name in module.__all__:
            thing = getattr(module, name)
            own = (
                vars(thing)
                if isinstance(thing, type) and thing.__module__.startswith("minimcp")
                else {}
            )
            members = [
                (f"{name}.{each}", getattr(thing, each)) for each in own if not each.startswith("_")
            ]
            for title, function in [(name, thing), *members]:
                if callable(function):
                    yield title, function, handed_on.get(title, [])


@for_each(("name", "function", "stars"), list(public_functions()))
def test_every_option_has_a_keyword(
    name: str, function: Callable[..., Any], stars: List[str]
) -> None:
    with suppress(ValueError):  # some classes of the standard library have no signature
        shown = inspect.signature(function).parameters.values()
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        assert [str(each).partition(":")[0] for each in shown if each.kind in kinds] == stars


@for_each(
    "function",
    [
        Server,
        Server.tool,
        Server.resource,
        Server.prompt,
        Server.run,
        minimcp.serve,
        minimcp.connect,
        Context.sample,
        Context.elicit,
        minimcp.Client.call_tool,
        minimcp.Client.request,
        minimcp.HttpOptions,
        minimcp.Limits,
        minimcp.StdioServer,
        minimcp.HttpServer,
        testing.context,
    ],
)
def test_every_option_has_a_line(function: Callable[..., Any]) -> None:
    text = inspect.getdoc(function) or ""
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    entries = re.findall(r"(?m)^    ([\w, \n]+?): [A-Z0-9\"`]", text)
    explained = {name for entry in entries for name in re.split(r",\s+", entry)}
    assert names and [name for name in names if name not in explained] == []


def test_serve_has_the_options_of_run() -> None:
    """They are written down twice, for editors."""
    of_run, of_serve = (
        dict(inspect.signature(function).parameters) for function in (Server.run, minimcp.serve)
    )
    assert [*of_run.values()][1:] == [*of_serve.values()][1:]


MAX_LINES = 50


@for_each(
    "function",
    [
        Server.tool,
        Server.resource,
        Server.run,
        Context.elicit,
        Context.progress,
        minimcp.Client.call_tool,
        minimcp.Client.list_tools,
        minimcp.connect_all,
        minimcp.resolve_inside,
        minimcp.serve,
    ],
)
def test_help_of_a_function_fits_on_a_screen(function: Callable[..., Any]) -> None:
    printed = pydoc.plain(pydoc.render_doc(function)).strip().splitlines()
    assert len(printed) <= MAX_LINES
    first_paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0]
    assert len(first_paragraph.splitlines()) <= 3


def public_classes() -> Iterator[type]:
    for module in (minimcp, terminal, testing):
        for name in module.__all__:
            thing = getattr(module, name)
            if isinstance(thing, type) and thing.__module__.startswith("minimcp"):
                yield thing


@for_each("cls", list(public_classes()))
def test_the_docstring_of_a_class_fits_on_a_screen(cls: type) -> None:
    assert len((inspect.getdoc(cls) or "").splitlines()) <= MAX_LINES
