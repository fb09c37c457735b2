"""Every kind of type in every wrapper, and at every position: what is published is true, and what is registered
works.

For each combination of a type and a wrapper, and for some of these at each position:

* The published schema is valid in its dialect, and accepts everything that the library sends,
  formats included.
* The schema rejects what the library rejects, wherever JSON Schema can express the rule. `UNSAID` lists the
  rules that it cannot express.
* Each registered tool can be called with its own values, and they arrive unchanged.
* Registration rejects everything else, and the message names the parameter.
"""

from __future__ import annotations

import copy
import json
import re
import urllib.parse
from functools import lru_cache, partial
from typing import Any, Callable, Dict, Iterator, List, Optional

import jsonschema
import pytest
from hypothesis import given, strategies as st

import minimcp
from minimcp import Server
from minimcp.schema import Kind, Mismatch, kind_of
from minimcp.schema.forms import form_of
from minimcp.schema.introspection import Scope
from minimcp.server.tools import wrapped_schema

from .answering import R4, R5
from .drawn import drawn
from .generated_types import (
    KINDS,
    WRAPPERS,
    Json as Json,
    Sample,
    in_models,
    in_strict_models,
    wrapped,
)
from .rows import for_each

SAMPLES = [wrapped(wrapper, kind) for wrapper in WRAPPERS for kind in KINDS if wrapper.fits(kind)]
# What pydantic itself does not take is not here: the author's class is never made.
REFUSED = [
    wrapped(wrapper, kind)
    for wrapper in WRAPPERS
    for kind in KINDS
    if not wrapper.fits(kind) and wrapper.fits not in (in_models, in_strict_models)
]

# Why the library rejects a value that the schema accepts, and the message that says so.
UNSAID: Dict[str, str] = {
    "additionalProperties is not published: some clients cannot read it": "unknown field",
    "the same in a union, one of whose members requires no field": "expected an object with .*, got an object with 7$",
    "a pattern does not know how many days a month has, nor that there is no year 0":
        r"expected a date and time such as .* got the string '(0000|\d{4}-02-(29|30|31)|\d{4}-\d\d-31)",
    "bounds of a Decimal that is sent as a string, and steps that a float cannot hold":
        "expected a (number (of at least|of at most|above|below)|multiple of)",
    "two names of an object that stand for the same key": "stand for the same key",
    "rules of constructors and of validators": "that is valid:",
    "pydantic's own rules for dates, times, URLs and the like, which have no format here":
        r"Input should (be|not have|have)|exceeded maximum size|Datetimes|Invalid |invalid |Value error|valid (string|integer)|should match|should have",
    "an object whose members fit neither member of a union, each for a reason in this table": "fits none of .*unknown",
}  # fmt: skip

CLOCK = r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
FORMATS: Dict[str, str] = {
    "date-time": rf"\d{{4}}-\d\d-\d\dT{CLOCK}",
    "time": CLOCK,
    "duration": r"P(?!$)((\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?|(\d+W)?)",
    "email": r"[a-z0-9!#$%&'*+/=?^_`{|}~.-]+@[a-z0-9-]+(\.[a-z0-9-]+)*",
    "uri": r"[a-z][a-z0-9+.-]*:([a-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9a-f]{2})+",
}


@lru_cache(maxsize=1)
def format_checker() -> jsonschema.FormatChecker:
    """Return a checker that is as strict as the validator of the official TypeScript client."""
    checker = jsonschema.FormatChecker()

    def check(pattern: str) -> Callable[[Any], bool]:
        flags = re.ASCII | re.IGNORECASE
        return lambda text: not isinstance(text, str) or bool(re.fullmatch(pattern, text, flags))

    for name, pattern in FORMATS.items():
        checker.checks(name)(check(pattern))
    return checker


@lru_cache(maxsize=None)
def check_schema(text: str) -> None:
    """Check a schema by the schema of its dialect, once."""
    validator = jsonschema.Draft202012Validator
    validator.check_schema(json.loads(text), format_checker=format_checker())


class Validator:
    """An independent check of values by a schema, which is valid in its dialect."""

    def __init__(self, schema: Any) -> None:
        dialect = jsonschema.Draft202012Validator
        check_schema(json.dumps(schema, allow_nan=False))
        self._validator = dialect(schema, format_checker=format_checker())
        self._without_formats = dialect(schema)

    def require(self, value: Any, *, formats: bool = True) -> None:
        validator = self._validator if formats else self._without_formats
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        assert error is None, f"the schema rejects {value!r}: {error.message} ({error.schema})"

    def accepts(self, value: Any, *, formats: bool = True) -> bool:
        return bool((self._validator if formats else self._without_formats).is_valid(value))


def decoded(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def made(sample: Sample, *, writing: bool = False) -> Kind:
    return kind_of(sample.annotation, scope=Scope(globals()), writing=writing)


def same(first: Any, second: Any) -> bool:
    """Return whether two values are equal, and their parts have the same types."""
    if type(first) is not type(second) or first != second:
        return False
    if isinstance(first, dict):
        return all(same(first[name], second[name]) for name in first)
    if isinstance(first, (list, tuple)):
        return all(map(same, first, second))
    return True


def formats_hold(sample: Sample) -> bool:
    """Return whether the formats of an argument fit everything that is sent as a result.

    The format "uri" helps a model to write a URL, but pydantic also reads and writes other values.
    """
    return "HttpUrl" not in sample.name and "measured model" not in sample.name


ODD: List[Any] = [
    None, True, 0, 1, -1, 0.5, 1e300, 10**40, "", "a", "7", "null", "\n", "2023-03-07", "2023-02-30",
    "2023-02-30T00:00:00", "2023-03-07T24:00:00Z", "2023-03-07T09:30", "0000-01-01T00:00", "12:61", "12:00+25:00",
    "1e99999", "not a url", "P1Y", "a@b", [], [1], ["a"], [1, 1.0], [[]], [None, None], {}, {"a": 1}, {"7": 1},
    {"a": 1, "b": 2, "z": None},
]  # fmt: skip


def near_misses(value: Any, depth: int = 1, odds: List[Any] = ODD) -> Iterator[Any]:
    """Yield odd values, and the value with each part replaced by one, removed or added."""
    yield from odds
    if depth and isinstance(value, dict):
        for key in value:
            yield {other: value[other] for other in value if other != key}
            yield from ({**value, key: odd} for odd in near_misses(value[key], depth - 1, odds))
        yield {**value, "more than that": 1}
    if depth and isinstance(value, list):
        for index in range(min(len(value), 3)):
            yield value[:index] + value[index + 1 :]
            for odd in near_misses(value[index], depth - 1, odds):
                yield [*value[:index], odd, *value[index + 1 :]]
        yield [*value, *value]


def error_of(function: Callable[..., Any], *arguments: Any) -> Optional[Exception]:
    """The error with which a value or a type is rejected; None if it is accepted."""
    try:
        function(*arguments)
    except (TypeError, ValueError) as error:
        return error
    return None


def is_unsaid(error: Exception) -> bool:
    """Whether a schema cannot express the rule that the value breaks."""
    return any(re.search(message, str(error)) for message in UNSAID.values())


def require_agreement(kind: Kind, validator: Validator, value: Any) -> None:
    """The library and the schema take the same values, except for `UNSAID`."""
    accepted = validator.accepts(value)
    error = error_of(kind.read, copy.deepcopy(value))
    if error is None:
        # A format of an argument may be narrower: pydantic also reads a timestamp as a date.
        assert validator.accepts(value, formats=False), f"only the library accepts {value!r}"
    else:
        # The schema does not exclude other fields.
        unsaid = is_unsaid(error) or "more than that" in repr(value)
        assert not accepted or unsaid, f"only the schema accepts {value!r}: {error}"


PARTS = 4
"""A test of all combinations is in so many parts, so that none takes long on a busy machine."""


@pytest.mark.parametrize("part", range(PARTS))
def test_schema_and_library_accept_the_same(part: int) -> None:
    @for_each(("number", "sample"), list(enumerate(SAMPLES))[part::PARTS])
    def each(number: int, sample: Sample) -> None:
        kind = made(sample)
        validator = Validator(kind.schema)
        for value in sample.values:
            sent = decoded(kind.write(value))
            validator.require(sent, formats=formats_hold(sample))
            assert same(kind.read(copy.deepcopy(sent)), value), (sent, kind.read(sent))
        odds = ODD if sample in KINDS else ODD[number // PARTS % 4 :: 4]
        for odd in near_misses(sent, 2 if sample in KINDS else 1, odds):
            require_agreement(kind, validator, odd)

    each()


ATTRS = next(kind for kind in KINDS if kind.name == "attrs")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@drawn(150)
@given(
    st.sampled_from(KINDS), st.lists(st.sampled_from(WRAPPERS), min_size=2, max_size=3), st.data()
)
def test_wrappers_in_wrappers(kind: Sample, wrappers: List[Any], data: st.DataObject) -> None:
    sample = kind
    for wrapper in wrappers:
        for_pydantic = wrapper.fits in (in_models, in_strict_models)
        known = kind if "attrs" not in sample.name else ATTRS  # which pydantic does not know
        if wrapper.fits(known if for_pydantic else sample):
            sample = wrapped(wrapper, sample)
    reading, writing = made(sample), made(sample, writing=True)
    validator, published = Validator(reading.schema), Validator(writing.schema)
    for value in sample.values:
        sent = decoded(reading.write(value))
        validator.require(sent, formats=formats_hold(sample))
        assert same(reading.read(copy.deepcopy(sent)), value)
        published.require(decoded(writing.write(value)))
    require_agreement(reading, validator, data.draw(VALUES))


@for_each("sample", REFUSED[::2])
def test_registration_rejects_what_cannot_be_called(sample: Sample) -> None:
    taken: List[Any] = []
    given: List[Any] = [None]
    server, registered = Server("types"), set()
    for name, function, place in (
        ("take", taking(sample, taken), "parameter 'value'"),
        ("give", giving(sample.annotation, given), "the return type"),
    ):
        error = error_of(partial(server.add_tool, function, name=name, structured=True))
        if error is None:
            registered.add(name)
        else:
            assert place in str(error)
    if not registered:
        return
    with minimcp.connect(server) as client:
        client.list_tools()
        for value in sample.values:
            try:
                sent = decoded(made(sample, writing=True).write(value))
            except Mismatch:  # of the type, but not of the bounds
                continue
            given[0] = value
            if "give" in registered:
                assert client.call_tool("give").value == sent or in_any_order(sample)
            if "take" in registered:
                client.call_tool("take", {"value": sent})
                assert decoded(made(sample).write(taken.pop())) == sent or in_any_order(sample)


# ------------------------------------------------------------ positions


def taking(sample: Sample, taken: List[Any], *default: Any) -> Callable[..., str]:
    def take(value: Any) -> str:
        """Take it."""
        taken.append(value)
        return "taken"

    take.__annotations__ = {"value": sample.annotation, "return": str}
    take.__defaults__ = default or None
    return take


def giving(annotation: Any, given: List[Any]) -> Callable[[], Any]:
    def give() -> Any:
        """Give it."""
        return given[0]

    give.__annotations__ = {"return": annotation}
    return give


@pytest.mark.parametrize(("revision", "step"), [(R5, 4), (R4, 7)])
def test_arguments_defaults_and_results(revision: str, step: int) -> None:
    """`test_wrapped_schemas_are_valid_too` has what differs in older revisions."""
    taken: List[Any] = []
    given: List[Any] = [None]
    numbered = list(enumerate(SAMPLES))[::step]
    server = Server("types")
    for number, sample in numbered:
        server.add_tool(taking(sample, taken, sample.values[0]), name=f"take{number}")
        server.add_tool(giving(sample.annotation, given), name=f"give{number}", structured=True)
    with minimcp.connect(server, revision=revision) as client:
        tools = {tool.name: tool for tool in client.list_tools()}

        @for_each(("number", "sample"), numbered)
        def each(number: int, sample: Sample) -> None:
            kind = made(sample)
            arguments = Validator(tools[f"take{number}"].input_schema)
            output = tools[f"give{number}"].output_schema
            results = Validator(output if output is not None else {})
            for value in sample.values:
                sent = {"value": decoded(kind.write(value))}
                arguments.require(sent, formats=formats_hold(sample))
                client.call_tool(f"take{number}", sent)
                assert same(taken.pop(), value)
                given[0] = value
                result = client.call_tool(f"give{number}")
                results.require(result.structured_content)
                written = made(sample, writing=True).write(value)
                bare = revision == R4 and output is None and not isinstance(written, dict)
                assert decoded(written) == (
                    result.value["result"] if bare else result.value
                ) or in_any_order(sample)
            require_default(tools[f"take{number}"].input_schema, arguments, sample)
            client.call_tool(f"take{number}")
            assert taken.pop() is sample.values[0]

        each()


def in_any_order(sample: Sample) -> bool:
    return "Set" in sample.name or sample.name.startswith("strict model")


def require_default(schema: Dict[str, Any], validator: Validator, sample: Sample) -> None:
    validator.require({})
    default = schema["properties"]["value"].get("default", schema)
    assert default is not schema, "the default is not shown"
    validator.require({"value": default}, formats=formats_hold(sample))


def as_text(written: Any) -> str:
    return written if isinstance(written, str) else json.dumps(written)


def stays_text(sample: Sample, written: Any) -> bool:
    """Whether a value of this type is taken for text: any text is a value of the type, too."""
    return not isinstance(written, str) and made(sample).accepts >= {str} and fits_text(sample)


def fits_text(sample: Sample) -> bool:
    return error_of(made(sample).read, "[1]") is None


def test_prompt_arguments_and_template_variables() -> None:
    """Each type in some wrappers and each wrapper with some types, because a URI is compared with
    every template."""
    taken: List[Any] = []
    server, numbered = Server("types"), list(enumerate(SAMPLES))[::5]
    for number, sample in numbered:
        server.add_prompt(taking(sample, taken), name=f"prompt{number}")
        server.add_resource(taking(sample, taken), f"x{number}://a/{{value}}")
    with minimcp.connect(server) as client:

        @for_each(("number", "sample"), numbered)
        def each(number: int, sample: Sample) -> None:
            for value in sample.values:
                written = decoded(made(sample).write(value))
                if stays_text(sample, written):
                    continue
                client.get_prompt(f"prompt{number}", {"value": as_text(written)})
                assert same(taken.pop(), value)
                text = urllib.parse.quote(as_text(written), safe="")
                if text not in ("", ".", "..") and not re.search("%2F|%5C", text):  # a segment
                    client.read_resource(f"x{number}://a/{text}")
                    assert same(taken.pop(), value)

        each()


@for_each("sample", SAMPLES[::2])
def test_forms(sample: Sample) -> None:
    make: Any = {"value": sample.annotation}
    error = error_of(form_of, make)
    if error is not None:
        assert not sample.is_flat, error
        assert "'value'" in str(error)
        return
    form = form_of(make)
    for full in (False, True):
        formats = formats_hold(sample)
        published = Validator(form.to_wire(full=full))
        for value in sample.values:
            sent = {"value": decoded(made(sample).write(value))}
            if value is None:
                sent = {}
            published.require(sent, formats=formats)
            assert same(form.read(copy.deepcopy(sent)), {"value": value})
    for odd in near_misses(sent["value"] if sent else None):
        error = error_of(form.read, {"value": odd})
        if error is not None:
            accepted = published.accepts({"value": odd})
            assert not accepted or is_unsaid(error), f"only the schema accepts {odd!r}: {error}"


def test_answers_of_a_host_arrive_as_they_were() -> None:
    """A host answers with Python values; the tool that asked gets equal ones."""
    asked = [sample for sample in SAMPLES if sample.is_flat]
    answers = [(sample, value) for sample in asked for value in sample.values if value is not None]
    server = Server("forms")

    @server.tool
    def ask(number: int, ctx: minimcp.Context) -> str:
        """Ask."""
        sample, value = answers[number]
        form: Any = {"value": sample.annotation}
        answer = ctx.elicit(str(number), form)
        assert same(answer.require(), {"value": value}), answer
        return "same"

    def elicit(request: minimcp.ElicitRequest) -> Dict[str, Any]:
        return {"value": answers[int(request.message)][1]}

    with minimcp.connect(server, elicit=elicit) as client:
        for number, _ in enumerate(answers):
            assert client.call_tool("ask", {"number": number}).text == "same"


def test_wrapped_schemas_are_valid_too() -> None:
    for sample in SAMPLES:
        kind = made(sample, writing=True)
        validator = Validator(wrapped_schema(kind.schema))
        for value in sample.values:
            sent = decoded(kind.write(value))
            validator.require(sent if kind.schema.get("type") == "object" else {"result": sent})
