# ruff: noqa: E501
"""Everything that can be registered can be called, and values of an author never break a list."""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import json
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Tuple

import jsonschema
import pydantic
import pytest
from hypothesis import given, strategies as st
from typing_extensions import Annotated

import minimcp
from minimcp import Context, Server
from minimcp.extensions.extension import Extension
from minimcp.schema import signature
from minimcp.schema.checker import DIALECTS, NOT_COMMON, WORDS, compile_check, types_of
from minimcp.schema.mismatch import Mismatch

from ..answering import R3, R4, R5, REVISIONS
from ..drawn import drawn
from ..inside import registry_of
from ..rows import for_each

# ------------------------------------------------------------ calls


def search(query: str, index: str, limit: int = 10) -> str:
    """Search."""
    return f"{query} in {index}, {limit}"


class Searcher:
    """An object that is called."""

    def __call__(self, query: str, limit: int = 10) -> str:
        """Search, too."""
        return f"{query}, {limit}"

    def method(self, query: str, index: str = "all") -> str:
        return f"{query} in {index}"

    bound = functools.partialmethod(method, index="books")

    @classmethod
    def of_class(cls, query: str) -> str:
        return f"{query} in {cls.__name__}"

    @staticmethod
    def static(query: str) -> str:
        return query


class StaticSearcher:
    @staticmethod
    def __call__(query: str, limit: int = 10) -> str:
        """Search without an object."""
        return f"{query}, {limit}"


class ClassSearcher:
    @classmethod
    def __call__(cls, query: str) -> str:
        """Search with the class."""
        return f"{query} in {cls.__name__}"


class PartialSearcher(Searcher):
    __call__ = functools.partialmethod(Searcher.method, index="books")  # type: ignore[assignment]


def passing_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


class Decorated:
    @passing_on
    def method(self, query: str) -> str:
        return query


def with_signature(function: Any, *names: str) -> Any:
    """Return the function, which claims to have these parameters."""
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=str) for name in names
    ]
    function.__signature__ = inspect.Signature(parameters)
    return function


def named(function: Any, like: Any = search) -> Any:
    return functools.update_wrapper(function, like)


def anything(**kwargs: Any) -> str:
    """Anything."""
    return ", ".join(map(str, kwargs.values()))


def injecting(query: str, database: str = "db") -> str:
    """A wrapper that gives an argument of its own."""
    return search(query, database)


injecting.__wrapped__ = with_signature(lambda query: None, "query")  # type: ignore[attr-defined]


# A function, the allowed and the required arguments, the arguments of a call, and its text.
CALLABLE: List[Tuple[Any, List[str], List[str], Dict[str, Any], str]] = [
    (
        search,
        ["query", "index", "limit"],
        ["query", "index"],
        {"query": "x", "index": "i"},
        "x in i, 10",
    ),
    (
        functools.partial(search, index="books"),
        ["query", "limit"],
        ["query"],
        {"query": "x"},
        "x in books, 10",
    ),
    (functools.partial(search, "x"), ["index", "limit"], ["index"], {"index": "i"}, "x in i, 10"),
    (functools.partial(search, "x", "i", 3), [], [], {}, "x in i, 3"),
    (
        named(functools.partial(search, index="books")),
        ["query", "limit"],
        ["query"],
        {"query": "x"},
        "x in books, 10",
    ),
    (
        named(functools.partial(search, "x")),
        ["index", "limit"],
        ["index"],
        {"index": "i"},
        "x in i, 10",
    ),
    (
        functools.partial(functools.partial(search, "x"), limit=2),
        ["index"],
        ["index"],
        {"index": "i"},
        "x in i, 2",
    ),
    (
        passing_on(functools.partial(search, index="books")),
        ["query", "limit"],
        ["query"],
        {"query": "x"},
        "x in books, 10",
    ),
    (
        functools.partial(passing_on(search), index="books"),
        ["query", "limit"],
        ["query"],
        {"query": "x"},
        "x in books, 10",
    ),
    (
        passing_on(passing_on(search)),
        ["query", "index", "limit"],
        ["query", "index"],
        {"query": "x", "index": "i"},
        "x in i, 10",
    ),
    (
        functools.lru_cache(search),
        ["query", "index", "limit"],
        ["query", "index"],
        {"query": "x", "index": "i"},
        "x in i, 10",
    ),
    (Searcher(), ["query", "limit"], ["query"], {"query": "x"}, "x, 10"),
    (functools.partial(Searcher(), limit=3), ["query"], ["query"], {"query": "x"}, "x, 3"),
    (Searcher().__call__, ["query", "limit"], ["query"], {"query": "x"}, "x, 10"),
    (StaticSearcher(), ["query", "limit"], ["query"], {"query": "x"}, "x, 10"),
    (functools.partial(StaticSearcher(), limit=3), ["query"], ["query"], {"query": "x"}, "x, 3"),
    (ClassSearcher(), ["query"], ["query"], {"query": "x"}, "x in ClassSearcher"),
    (PartialSearcher(), ["query"], ["query"], {"query": "x"}, "x in books"),
    (Searcher().method, ["query", "index"], ["query"], {"query": "x"}, "x in all"),
    (Searcher().bound, ["query"], ["query"], {"query": "x"}, "x in books"),
    (Searcher.of_class, ["query"], ["query"], {"query": "x"}, "x in Searcher"),
    (Searcher.static, ["query"], ["query"], {"query": "x"}, "x"),
    (
        functools.partial(Searcher.method, Searcher()),
        ["query", "index"],
        ["query"],
        {"query": "x"},
        "x in all",
    ),
    (types.MethodType(search, "x"), ["index", "limit"], ["index"], {"index": "i"}, "x in i, 10"),
    (passing_on(Searcher().method), ["query", "index"], ["query"], {"query": "x"}, "x in all"),
    (Decorated().method, ["query"], ["query"], {"query": "x"}, "x"),
    (
        with_signature(passing_on(anything), "a", "b"),
        ["a", "b"],
        ["a", "b"],
        {"a": "1", "b": "2"},
        "1, 2",
    ),
    (injecting, ["query"], ["query"], {"query": "x"}, "x in db, 10"),
]


@pytest.mark.parametrize("revision", [R3, R5])
@for_each(("function", "known", "required", "arguments", "text"), CALLABLE)
def test_the_schema_has_the_parameters_that_can_be_passed(
    function: Any, known: List[str], required: List[str], arguments: Any, text: str, revision: str
) -> None:
    server = Server("callables")
    server.add_tool(function, name="f")
    with minimcp.connect(server, revision=revision) as client:
        schema = client.list_tools()[0].input_schema
        assert list(schema["properties"]) == known and schema.get("required", []) == required
        assert client.call_tool("f", arguments).text == text


def taking(*names: str) -> Callable[..., Any]:
    """A decorator whose wrapper takes only these arguments."""

    def decorate(function: Any) -> Any:
        made: Any = {}
        exec(f"def inner({', '.join(names)}): return function()", {"function": function}, made)
        return functools.wraps(function)(made["inner"])

    return decorate


class Circle:
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


circle = Circle()
circle.__wrapped__ = circle  # type: ignore[attr-defined]


@for_each(
    ("function", "words"),
    [
        (taking()(search), "does not take 'query': write \\*\\*kwargs"),
        (taking("*args")(search), "does not take 'query'"),
        (taking("query", "/", "**rest")(search), "needs 'query'|does not take"),
        (
            taking("query", "index", "limit", "request")(search),
            "needs 'request', which its signature does not name",
        ),
        (taking("*", "token", "**rest")(search), "needs 'token'"),
        (with_signature(lambda a: a, "b"), "does not take 'b'"),
        (functools.partial(search, nothing=1), "a partial that cannot be called: .*nothing"),
        (
            functools.partial(search, 1, 2, 3, 4),
            "a partial that cannot be called: too many positional",
        ),
        (functools.partial(anything, a=1), r"takes \*\*kwargs: name each parameter"),
        (functools.partial(lambda a, /, b: 1, b=1), "positional-only parameters \\('a'\\)"),
        (functools.partial(lambda a: 1), "parameter 'a' has no annotation"),
        (types.MethodType(lambda: 1, 5), "is a method without the parameter self"),
        (circle, "wraps itself"),
        (print, "is not a Python function"),
        (functools.partial(print, 1), "is not a Python function"),
        (Searcher, "is a class"),
        (functools.partial(Searcher), "is a class"),
        (5, "is not a Python function"),
    ],
)
def test_functions_that_cannot_be_called_are_rejected(function: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Server("callables").add_tool(function, name="f")


def test_a_wrapper_that_takes_less_is_called_with_less() -> None:
    def complete(value: str, arguments: Dict[str, str]) -> List[str]:
        return ["never"]

    @functools.wraps(complete)
    def shorter(value: str) -> List[str]:
        return [f"{value}!"]

    def shout(text: str) -> str:
        """Shout."""
        return text

    server = Server("wrappers")
    server.add_prompt(shout, complete={"text": shorter})

    def thing(params: Any, ctx: Any) -> Any:
        raise NotImplementedError

    @server.method("vendor/thing")
    @functools.wraps(thing)
    def shorter_thing(params: Any) -> Any:
        return {"a": 1}

    with pytest.raises(TypeError, match="takes"):
        server.middleware(functools.wraps(thing)(lambda ctx: None))
    with minimcp.connect(server, revision=R5) as client:
        assert client.complete("text", "a", prompt="shout").values == ["a!"]
        assert client.request("vendor/thing", {})["a"] == 1


def test_asynchronous_functions_are_found_behind_wrappers() -> None:
    async def late(query: str) -> str:
        return query

    class Late:
        async def __call__(self, query: str) -> str:
            return query

    for function in (late, functools.partial(late, "x"), passing_on(late), Late(), Late().__call__):
        with pytest.raises(TypeError, match="is async: write a plain def"):
            Server("callables").add_tool(function, name="f")


def test_descriptions_and_names_of_callables_that_are_not_functions() -> None:
    server = Server("callables")
    assert server.tool(named(functools.partial(search, index="books")))
    for number, (function, text) in enumerate([
        (functools.partial(search, "x"), "Search."), (Searcher(), "Search, too."),
        (functools.partial(Searcher(), limit=1), "Search, too."), (passing_on(search), "Search."),
    ]):  # fmt: skip
        server.add_tool(function, name=f"f{number}")
        assert registry_of(server).tools.items[f"f{number}"].definition.description == text
        with pytest.raises(ValueError, match="already exists: .*test_registration"):
            server.add_tool(search, name=f"f{number}")
    assert list(registry_of(server).tools.items)[0] == "search"
    for nameless in (Searcher(), functools.partial(search, "x")):
        with pytest.raises(TypeError, match="has no name: give the tool a name=..."):
            server.tool(nameless)


@for_each(
    "annotation",
    [
        Context, Optional[Context], Annotated[Context, "it"], Optional[Annotated[Context, 1]],
        Annotated[Optional[Context], "it"], Annotated[Annotated[Context, 1], 2],
        "Context", "Annotated[Context, 'it']", "Optional[Annotated['Context', 1]]",
    ],
)  # fmt: skip
def test_the_context_inside_annotated(annotation: Any) -> None:
    def noted(number: int, ctx: Any = None) -> str:
        """Note."""
        return str(isinstance(ctx, Context) and number == 1)

    noted.__annotations__.update(ctx=annotation, number=int)
    server = Server("context")
    server.add_tool(noted)
    server.add_prompt(noted)
    with minimcp.connect(server) as client:
        assert list(client.list_tools()[0].input_schema["properties"]) == ["number"]
        assert client.call_tool("noted", {"number": 1}).text == "True"
        assert client.get_prompt("noted", {"number": "1"}).messages[0].content.text == "True"
        assert [each.name for each in client.list_prompts()[0].arguments or []] == ["number"]


# ------------------------------------------------------------ lists


class Word(str, enum.Enum):
    ONE = "one"


class Number(enum.IntEnum):
    ONE = 1


circular: Dict[str, Any] = {}
circular["a"] = circular
deep: Any = 1
for _ in range(300):
    deep = [deep]

NOT_JSON: List[Any] = [
    float("inf"), float("-inf"), float("nan"), b"x", bytearray(b"x"), {1}, frozenset(), {1: 2}.keys(), range(3), int,
    object(), 1j, iter([]), (b"x",), [[{"a": {1}}]], {5: "x"}, {None: 1}, {("a",): 1}, circular, deep, "\ud800",
    {"\udfff": 1}, 10**5000, collections.deque([1]), lambda: 1, enum.Enum("E", "A").A,  # type: ignore[attr-defined]
]  # fmt: skip

JSON_ALL_THE_SAME: List[Tuple[Any, Any]] = [
    ((1, 2), [1, 2]), (("a", ("b",)), ["a", ["b"]]), (Word.ONE, "one"), (Number.ONE, 1), (True, True), ({}, {}),
    (types.MappingProxyType({"a": (1,)}), {"a": [1]}), (collections.OrderedDict(a=1), {"a": 1}), (None, None),
    ("\U0001f600", "\U0001f600"), (10**40, 10**40), (1.5, 1.5),
]  # fmt: skip


def plain(number: float = 0) -> Any:
    """Say it."""
    return str(number)


def in_tool(**options: Any) -> Callable[[Any], Server]:
    return lambda value: added("tool", **{name: make(value) for name, make in options.items()})


def added(kind: str, **options: Any) -> Server:
    server = Server("lists")
    if kind == "tool":
        server.add_tool(plain, **options)
    elif kind == "prompt":
        server.add_prompt(plain, **options)
    else:
        function = plain if "{" in kind else lambda: ""
        server.add_resource(function, kind, name="r", **options)
    return server


def of_extension(value: Any) -> Server:
    extension = Extension()
    extension.identifier, extension.settings = "com.example/x", {"a": value}
    return Server("lists", extensions=[extension])


def by_pydantic(**words: Any) -> Callable[[Any], Server]:
    def make(value: Any) -> Server:
        def take(a: Any) -> str:
            """Take."""
            return ""

        take.__annotations__["a"] = Annotated[
            int, pydantic.Field(**{name: each(value) for name, each in words.items()})
        ]
        return added_function(take)

    return make


def added_function(function: Any) -> Server:
    server = Server("lists")
    server.add_tool(function)
    return server


def in_model(value: Any) -> Server:
    class Example(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
        number: int = pydantic.Field(1, json_schema_extra={"x-a": value})

    def take(example: Any) -> str:
        """Take."""
        return ""

    take.__annotations__["example"] = Example
    return added_function(take)


# Places for an author's value. Each function makes a server; the text names the place.
PLACES: Dict[str, Tuple[Callable[[Any], Server], str]] = {
    "a default in input_schema": (in_tool(input_schema=lambda v: {"properties": {"n": {"default": v}}}), "input_schema.properties.n.default"),
    "an unknown word": (in_tool(input_schema=lambda v: {"x-a": [1, v]}), r"input_schema.x-a\[1\]"),
    "an enum": (in_tool(input_schema=lambda v: {"properties": {"n": {"enum": [v]}}}), "input_schema.properties.n.enum"),
    "a definition": (in_tool(input_schema=lambda v: {"$defs": {"a": {"examples": [v]}}}), r"input_schema.\$defs.a.examples"),
    "output_schema": (in_tool(output_schema=lambda v: {"type": "object", "examples": [v]}), r"output_schema.examples\[0\]"),
    "meta of a tool": (in_tool(meta=lambda v: {"com.example/a": {"b": [v]}}), r"meta.com.example/a.b\[0\]"),
    "meta of a prompt": (lambda v: added("prompt", meta={"com.example/a": v}), "meta.com.example/a"),
    "meta of a resource": (lambda v: added("notes://all", meta={"com.example/a": v}), "meta.com.example/a"),
    "meta of a template": (lambda v: added("notes://{number}", meta={"com.example/a": v}), "meta.com.example/a"),
    "experimental": (lambda v: Server("x", capabilities={"experimental": {"a": {"b": v}}}), "capabilities.experimental.a.b"),
    "a capability": (lambda v: Server("x", capabilities={"tools": {"a": v}}), "capabilities.tools.a"),
    "settings": (lambda v: Server("x", extensions={"com.example/x": {"a": v}}), "extensions.com.example/x.a"),
    "settings of an object": (of_extension, "settings of com.example/x"),
    "Field(examples=)": (by_pydantic(examples=lambda v: [v]), r"parameter 'a': .*examples\[0\]"),
    "Field(json_schema_extra=)": (by_pydantic(json_schema_extra=lambda v: {"x-a": v}), "parameter 'a': .*x-a"),
}  # fmt: skip


def lists_of(server: Server, revision: str) -> List[Any]:
    found: List[Any] = []
    with minimcp.connect(server, revision=revision) as client:
        for kind in ("tools", "prompts", "resources", "resources/templates"):
            try:
                found.append(client.request(f"{kind}/list", {}))
            except minimcp.MethodNotFound:
                pass
        found.append(client.server_capabilities if hasattr(client, "server_capabilities") else None)
    return found


@pytest.mark.parametrize("place", PLACES)
@for_each("value", NOT_JSON)
def test_values_that_are_not_json_are_rejected_with_their_place(value: Any, place: str) -> None:
    make, words = PLACES[place]
    with pytest.raises((TypeError, ValueError), match=f"(?s){words}") as caught:
        make(value)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize("place", PLACES)
@for_each(("value", "sent"), JSON_ALL_THE_SAME)
def test_values_that_python_writes_as_json_are_listed(value: Any, sent: Any, place: str) -> None:
    make, _ = PLACES[place]
    assert lists_of(make(value), R5) is not None


@for_each("value", [float("inf"), float("nan"), {"a": [float("-inf")]}])
def test_values_that_pydantic_cannot_write_as_json_are_rejected(value: Any) -> None:
    with pytest.raises(TypeError, match=r"parameter 'example': .*Example.*x-a.* is a float"):
        in_model(value)


def test_a_dict_that_an_author_changes_later_changes_nothing() -> None:
    schema: Dict[str, Any] = {"properties": {"n": {"type": "number"}}}
    meta: Dict[str, Any] = {"com.example/a": []}
    icon = minimcp.Icon("https://example.com/x.png")
    server = added("tool", input_schema=schema, output_schema=schema, meta=meta, icons=[icon])
    before = lists_of(server, R5)
    schema["properties"]["n"]["default"] = schema["x"] = float("nan")
    meta["com.example/a"].append({1})
    icon.src = b"x"  # type: ignore[assignment]
    icon.extra["x"] = {1}
    assert lists_of(server, R5) == before


@for_each("value", [5, True, [], "x", None])
def test_a_capability_is_an_object(value: Any) -> None:
    with pytest.raises(TypeError, match="capabilities: 'experimental' must be an object"):
        Server("x", capabilities={"experimental": value})


def test_a_client_refuses_settings_that_are_not_json() -> None:
    with pytest.raises((TypeError, ValueError), match="extensions.com.example/x.a"):
        minimcp.connect(Server("x"), extensions={"com.example/x": {"a": float("nan")}})


# ------------------------------------------------------------ the root of a schema

FIELDS = {"properties": {"a": {"type": "integer"}}}
OBJECT = {"type": "object", **FIELDS}
ROOTS: Dict[str, Any] = {
    "nothing": {}, "properties": FIELDS, "required": {"required": ["a"]}, "closed": {**FIELDS, "additionalProperties": False},
    "$ref": {"$ref": "#/$defs/A", "$defs": {"A": OBJECT}},
    "$ref to $ref": {"$ref": "#/$defs/B", "$defs": {"A": OBJECT, "B": {"$ref": "#/$defs/A"}}},
    "anyOf": {"anyOf": [OBJECT, {"type": "object"}]}, "oneOf": {"oneOf": [OBJECT, {"type": "null"}]},
    "allOf": {"allOf": [OBJECT]}, "not": {"not": {"required": ["b"]}}, "description": {"description": "d"},
    "a list of one type": {"type": ["object"], **FIELDS}, "several types": {"type": ["object", "null"], **FIELDS},
    "if": {"if": {"required": ["a"]}, "then": {"required": ["b"]}, **FIELDS},
    "draft 7": {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/A", "definitions": {"A": OBJECT}},
    "true members": {"properties": {"a": True, "b": False}}, "const": {"enum": [{"a": 1}]}, "object": OBJECT,
    "recursive": {"properties": {"b": {"$ref": "#"}}},
}  # fmt: skip
NO_OBJECTS: List[Any] = [
    {"type": "array"}, {"type": ["string", "null"]}, {"const": 5}, {"enum": ["a", []]}, {"allOf": [{"type": "string"}]},
    {"anyOf": [{"type": "string"}, {"type": "array"}]}, {"oneOf": [False]}, {"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}},
    {"type": "object", "allOf": [False]},
]  # fmt: skip


@pytest.mark.requirement("TOOL-04", "JSCH-01")
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("root", ROOTS)
def test_the_root_of_an_input_schema_is_an_object(root: str, revision: str) -> None:
    with minimcp.connect(added("tool", input_schema=ROOTS[root]), revision=revision) as client:
        shown = client.request("tools/list", {})["tools"][0]["inputSchema"]
        assert shown["type"] == "object"
        assert all(isinstance(each, dict) for each in shown.get("properties", {}).values())
        jsonschema.validators.validator_for(shown).check_schema(shown)


@pytest.mark.requirement("TOOL-14", "JSCH-01")
@pytest.mark.parametrize("revision", [R3, R4, R5])
@pytest.mark.parametrize("root", ROOTS)
def test_the_root_of_an_output_schema(root: str, revision: str) -> None:
    schema = ROOTS[root]

    def give() -> dict:  # type: ignore[type-arg]
        """Give."""
        return {"a": 1, "b": 1} if root == "if" else {"a": 1}

    server = Server("roots")
    server.add_tool(give, output_schema=schema)
    with minimcp.connect(server, revision=revision) as client:
        shown = client.request("tools/list", {})["tools"][0]["outputSchema"]
        jsonschema.validators.validator_for(shown).check_schema(shown)
        only_objects = root in ("recursive", "properties", "required", "closed", "$ref", "$ref to $ref", "anyOf", "allOf", "object", "if",
                                "a list of one type", "draft 7", "true members", "const")  # fmt: skip
        if only_objects or revision != R5:
            assert shown["type"] == "object"
        assert ("result" in shown.get("properties", {})) == (not only_objects and revision != R5)
        result = client.request("tools/call", {"name": "give"})
        check = jsonschema.validators.validator_for(shown)(shown)
        assert root == "true members" or check.is_valid(result["structuredContent"]), result
        client.call_tool("give")


@for_each("schema", NO_OBJECTS)
def test_an_input_schema_that_fits_no_object_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="input_schema does not accept an object"):
        added("tool", input_schema=schema)


def test_a_schema_that_does_not_let_a_required_parameter_pass_is_refused() -> None:
    def needs(a: int, b: int = 0) -> int:
        """Needs."""
        return a + b

    for properties in ({}, {"b": {}}):
        schema = {"properties": properties, "additionalProperties": False}
        with pytest.raises(
            TypeError, match="input_schema does not allow 'a', which the function requires"
        ):
            Server("x").add_tool(needs, input_schema=schema)
    Server("x").add_tool(
        needs, input_schema={"properties": {"a": {}}, "additionalProperties": False}
    )


# ------------------------------------------------------------ odd schemas

MIXED = {
    "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
    "definitions": {"p": {"dependencies": {"begin": {"required": ["x"]}, "end": ["begin"]}}},
    "properties": {"a": {"$ref": "#/definitions/p"}, "dependencies": {"type": "object"}},
}  # fmt: skip


def test_dependencies_of_both_kinds_are_checked() -> None:
    check = compile_check(MIXED, where="test")
    assert check({"a": {}}) is None and check({"a": {"begin": 1, "x": 1, "end": 2}}) is None
    assert check({"dependencies": {"a": [1], "b": {}}}) is None
    for wrong in ({"begin": 1}, {"end": 1}):
        assert check({"a": wrong}) is not None


NAMES = sorted({*WORDS, *NOT_COMMON, "format", "id", "default", "examples", "nullable"})
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=3),
    st.sampled_from(["string", "object", "integer", "#", "#/$defs/a", "#a", "(", "^a", "http://x/y", "urn:x", *DIALECTS]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=5,
)
SCHEMAS = st.recursive(
    st.booleans() | st.just({}),
    lambda inner: st.dictionaries(
        st.sampled_from(NAMES),
        st.one_of(inner, VALUES, st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner | VALUES, max_size=3)),
        max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@drawn(200)
@given(SCHEMAS, st.lists(VALUES, min_size=1, max_size=3), st.booleans())
def test_a_schema_raises_only_documented_errors(schema: Any, values: Any, peer: bool) -> None:
    try:
        check = compile_check(schema, where="test", peer=peer)
    except (ValueError, ImportError):
        return
    types_of(schema)
    for value in values:
        found = check(value)
        assert found is None or (isinstance(found, Mismatch) and str(found))


GIVEN = st.recursive(
    SCALARS | st.sampled_from([b"x", float("nan"), int, "\ud800"]) | st.builds(lambda: {1}),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        st.dictionaries(st.integers(0, 2) | st.none(), inner, min_size=1, max_size=1),
    ),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@drawn(150)
@given(
    st.sampled_from(["input_schema", "output_schema"]),
    st.dictionaries(st.sampled_from(NAMES), GIVEN | SCHEMAS, max_size=4),
)
def test_whatever_schema_is_registered_is_listed(option: str, schema: Any) -> None:
    def give(a: int = 0) -> dict:  # type: ignore[type-arg]
        """Give."""
        return {}

    server = Server("odd")
    try:
        server.add_tool(give, **{option: schema})
    except (TypeError, ValueError, ImportError):
        return
    for revision in (R3, R5):
        with minimcp.connect(server, revision=revision) as client:
            tool = client.request("tools/list", {})["tools"][0]
            assert tool["inputSchema"]["type"] == "object"
            assert (
                revision == R5 or tool.get("outputSchema", {"type": "object"})["type"] == "object"
            )
            json.dumps(tool, allow_nan=False)
            try:
                client.call_tool("give", {})
            except minimcp.McpError:
                pass


@for_each(
    ("text", "got"),
    [("", 7), ("3", 3)],
)
def test_an_empty_text_for_an_optional_argument_counts_as_not_given(text: str, got: int) -> None:
    def greet(
        times: int = 7, name: str = "Ada", when: Optional[int] = 9, mood: Optional[str] = None
    ) -> str:
        """Greet."""
        return f"{times} {name} {when} {mood}"

    def needed(times: int) -> str:
        """Greet."""
        return str(times)

    server = Server("prompts")
    server.add_prompt(greet)
    server.add_prompt(needed)
    with minimcp.connect(server) as client:
        found = client.get_prompt("greet", {"times": text, "name": "", "when": text, "mood": ""})
        assert found.messages[0].content.text == f"{got}  {9 if not text else got} "
        with pytest.raises(minimcp.InvalidParams, match="times"):
            client.get_prompt("needed", {"times": ""})


# ------------------------------------------------------------ steps


def steps_of(register: Callable[[], object]) -> Dict[str, int]:
    """Count the functions that run, and the items of generators, by name."""
    counts: Dict[str, int] = collections.Counter()

    def count(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call":
            counts[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        register()
    finally:
        sys.setprofile(None)
    return counts


def test_a_registration_takes_as_many_steps_among_many_tools() -> None:
    server = Server("many")
    server.add_tool(search, name="first")
    among_few = steps_of(lambda: server.add_tool(search, name="second"))
    for number in range(50):
        server.add_tool(search, name=f"tool_{number}")
    assert steps_of(lambda: server.add_tool(search, name="last")) == among_few


def test_a_signature_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: List[Any] = []
    original = signature.WrittenSignature.of

    def of(function: Any) -> Any:
        read.append(function)
        return original(function)

    monkeypatch.setattr(signature.WrittenSignature, "of", of)
    wrapper = functools.wraps(search)(lambda *args, **kwargs: search(*args, **kwargs))
    partial = functools.partial(search, index="books")
    server = Server("once")
    for number, function in enumerate([search, Searcher(), Searcher().method, wrapper, partial]):
        server.add_tool(function, name=f"tool_{number}")
        assert len(read) == number + 1, function
