# ruff: noqa: E501
"""The types of parameters and results as a table: the schema, valid values with their results, and
invalid values with the reason."""

from __future__ import annotations
import __future__

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

SOURCE = Path(__file__).with_name("types_shapes.py")


@lru_cache(maxsize=None)
def load(*, as_strings: bool) -> Dict[str, Any]:
    """The names of types_shapes.py, its annotations evaluated or left as strings."""
    import sys
    from types import ModuleType

    flags = __future__.annotations.compiler_flag if as_strings else 0
    module = ModuleType(f"shapes_{'strings' if as_strings else 'values'}")
    module.__file__ = str(SOURCE)
    sys.modules[module.__name__] = module
    exec(
        compile(SOURCE.read_text("utf-8"), str(SOURCE), "exec", flags=flags, dont_inherit=True),
        vars(module),
    )
    return vars(module)


Schema = Dict[str, Any]


class Row(NamedTuple):
    """One type as the parameter ``value`` of a tool, and as its result."""

    text: str
    """The annotation."""
    schema: Schema
    """The schema of the parameter; references lead to `DEFINITIONS`."""
    fits: List[Tuple[Any, ...]]
    """JSON, the source of the Python value that it becomes, and the JSON that this leaves as, if
    that differs."""
    refused: List[Tuple[Any, str]]
    """JSON, and the message without the word "value" at its beginning."""
    out: Optional[Schema] = None
    """The schema of the result; None if it equals the parameter's."""
    looser: bool = False
    """Whether the schema cannot express every rule of the type for a string (``format`` only
    describes)."""


TEXT: Schema = {"type": "string"}
INT: Schema = {"type": "integer"}
NUM: Schema = {"type": "number"}
BOOL: Schema = {"type": "boolean"}
NULL: Schema = {"type": "null"}
DATE: Schema = {"type": "string", "format": "date"}
CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d+)?)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):?[0-5]\d(?::[0-5]\d(?:\.\d+)?)?)?"
TIME: Schema = {"type": "string", "pattern": f"^{CLOCK}$"}
MOMENT: Schema = {
    "type": "string",
    "pattern": rf"^\d{{4}}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])[Tt ]{CLOCK}$",
}
UUID: Schema = {"type": "string", "format": "uuid"}
COLOUR: Schema = {"type": "string", "enum": ["red", "green"]}
DIGITS: Schema = {"type": "string", "pattern": "^-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$"}
SECONDS: Schema = {
    "type": "number",
    "minimum": -86399999913600,
    "maximum": 86399999999999,
    "description": "seconds",
}


def many(*items: Schema) -> Schema:
    """A list, of anything or of one kind."""
    return {"type": "array", **({"items": items[0]} if items and items[0] else {})}


def filled(item: Schema) -> Schema:
    """A list that is empty by default."""
    return {**many(item), "default": []}


def unique(item: Schema) -> Schema:
    return {**many(item), "uniqueItems": True}


def fixed(*items: Schema) -> Schema:
    return {
        "type": "array",
        "prefixItems": list(items),
        "minItems": len(items),
        "maxItems": len(items),
    }


def free(item: Schema) -> Schema:
    """An object with any names."""
    return {"type": "object", "additionalProperties": item}


def union(*members: Schema) -> Schema:
    return {"anyOf": list(members)}


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def record(fields: Dict[str, Schema], required: str, **words: Any) -> Schema:
    """Return the schema of an object with these fields."""
    schema: Schema = {
        "type": "object",
        **words,
        "properties": fields,
    }
    if required:
        schema["required"] = required.split()
    return schema


def alike(schema: Schema) -> Tuple[Schema, Schema]:
    return schema, schema


def both(schema: Schema) -> Tuple[Schema, Schema]:
    """Return the schemas of arguments and results: arguments may omit fields with a default,
    results have every field."""
    fields = {name: {word: rule for word, rule in field.items() if word != "default"}
              for name, field in schema["properties"].items()}  # fmt: skip
    return schema, {**schema, "properties": fields, "required": list(fields)}


def named(value: Any) -> str:
    """Return the name of a value in error messages."""
    if isinstance(value, dict):
        return f"an object with {', '.join(value)}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"the {'string' if isinstance(value, str) else 'number'} {value!r}"


def wrong(expected: str, *values: Any) -> List[Tuple[Any, str]]:
    """Values that are refused as a whole, each with its message."""
    return [(value, f": {expected}, got {named(value)}") for value in values]


def complete(row: Row, *, leaving: bool) -> Tuple[Schema, Dict[str, Schema]]:
    """Return the schema of a row and the definitions that it needs, which may refer to themselves."""
    schema = row.out if leaving and row.out is not None else row.schema
    if leaving and "$ref" in schema and is_recursive(schema["$ref"]):
        beside = {word: rule for word, rule in schema.items() if word != "$ref"}
        schema = {**DEFINITIONS[schema["$ref"][len("#/$defs/") :]][1], **beside}
    found: Dict[str, Schema] = {}
    return inlined(schema, leaving, found), found


def inlined(part: Any, leaving: bool, found: Dict[str, Schema]) -> Any:
    """A part of a schema with its definitions in place of references, but for the recursive ones,
    which are added to `found`."""
    if isinstance(part, list):
        return [inlined(each, leaving, found) for each in part]
    if not isinstance(part, dict):
        return part
    made = {name: inlined(each, leaving, found) for name, each in part.items()}
    if "$ref" not in part:
        return made
    name = part["$ref"][len("#/$defs/") :]
    if not is_recursive(part["$ref"]):
        del made["$ref"]
        return {**inlined(DEFINITIONS[name][leaving], leaving, found), **made}
    if name not in found:
        found[name] = {}
        found[name] = inlined(DEFINITIONS[name][leaving], leaving, found)
    return made


def is_recursive(reference: str) -> bool:
    """Whether a definition leads back to itself."""
    waiting, seen = [json.dumps(DEFINITIONS[reference[len("#/$defs/") :]])], set()
    for text in waiting:
        for name in re.findall(r'"#/\$defs/(\w+)"', text):
            if name not in seen:
                seen.add(name)
                waiting.append(json.dumps(DEFINITIONS[name]))
    return reference[len("#/$defs/") :] in seen


ID = "123e4567-e89b-12d3-a456-426614174000"
POINT = {"x": 1.5, "y": 2}

DEFINITIONS: Dict[str, Tuple[Schema, Schema]] = {
    "Frozen": alike(record({"a": INT}, "a")),
    "Point": alike(record({"x": {**NUM, "description": "To the right."}, "y": {**NUM, "description": "Upwards."}}, "x y", description="A place.")),
    "Circle": alike(record({"kind": {**TEXT, "const": "circle"}, "radius": NUM}, "kind radius")),
    "Square": alike(record({"kind": {**TEXT, "const": "square"}, "side": NUM}, "kind side")),
    "Options": both(record({"depth": {**INT, "default": 3}, "names": filled(TEXT), "colour": {**union(TEXT, NULL), "default": None}, "when": {**union(DATE, NULL), "default": "1999-01-02"}}, "")),
    "Empty": alike(record({}, "")),
    "Tree": both(record({"value": INT, "children": filled(ref("Tree"))}, "value")),
    "Chain": both(record({"next": {**union(ref("Chain"), NULL), "default": None}}, "")),
    "Box_int": both(record({"content": INT, "more": filled(INT)}, "content")),
    "IntBox": both(record({"content": INT, "more": filled(INT), "label": {**TEXT, "default": ""}}, "content")),
    "Left": alike(record({"child": union(ref("Left"), ref("Right"), NULL), "x": INT}, "child x")),
    "Right": alike(record({"child": union(ref("Left"), ref("Right"), NULL), "x": TEXT}, "child x")),
    "Movie": alike(record({"title": {**TEXT, "description": "What it is called."}, "year": INT}, "title year", description="A film.")),
    "Partial": alike(record({"a": INT, "b": TEXT}, "")),
    "Mixed": alike(record({"must": INT, "may": TEXT, "frozen": INT}, "must")),
    "Loose": alike(record({"must": INT, "noted": {**INT, "description": "noted"}, "may": TEXT}, "must noted")),
    "Span": both(record({"start": INT, "end": {**union(INT, NULL), "default": None}}, "start")),
    "Json": alike(union(NULL, BOOL, INT, NUM, TEXT, many(ref("Json")), free(ref("Json")))),
    "Alias": alike(union(INT, many(ref("Alias")))),
    "Wrapped": alike(many(INT)),
    "Attrs": (record({"a": INT, "b": {**TEXT, "default": "x"}, "c": filled(INT)}, "a"), record({"a": INT, "b": TEXT, "c": many(INT), "d": INT}, "a b c d")),
    "OldAttrs": both(record({"a": INT, "b": {"default": None}}, "a")),
    "Model": alike({"properties": {"a": {**INT, "title": "A"}, "b": {"default": [], "items": TEXT, "title": "B", "type": "array"}, "when": {**union(DATE, NULL), "default": None, "title": "When"}}, "required": ["a"], "title": "Model", "type": "object"}),
    "Inner": alike({"properties": {"x": {**INT, "title": "X"}}, "required": ["x"], "title": "Inner", "type": "object"}),
    "Family": alike({"properties": {"name": {**TEXT, "title": "Name"}, "children": {"default": [], "items": ref("Family"), "title": "Children", "type": "array"}}, "required": ["name"], "title": "Family", "type": "object"}),
    "Words": both(record({"value": INT, "extra": {**TEXT, "default": "e"}, "at": {**TEXT, "default": "a"}, "make": {**TEXT, "default": "m"}, "v0": {**INT, "default": 0}}, "value", description="Fields with the names of variables in the generated readers.")),
    "Person": both(record({"name": {**TEXT, "description": "In full."}, "colour": {**union(COLOUR, NULL), "default": None}, "born": {**union(DATE, NULL), "default": None}}, "name", description="Someone.")),
    "Employee": both(record({"name": TEXT, "colour": {**union(COLOUR, NULL), "default": None}, "born": {**union(DATE, NULL), "default": None}, "boss": {**union(ref("Employee"), NULL), "default": None}, "skills": {**many(TEXT), "uniqueItems": True, "default": []}}, "name")),
    "Team": (record({"lead": ref("Employee"), "members": free(ref("Employee")), "places": fixed(ref("Point"), ref("Point")), "budget": {**union(NUM, DIGITS), "description": "in euros"}}, "lead members places budget"), record({"lead": ref("Employee"), "members": free(ref("Employee")), "places": fixed(ref("Point"), ref("Point")), "budget": {**TEXT, "pattern": '^-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$', "description": "in euros"}}, "lead members places budget")),
    "Box_Union_str_NoneType": both(record({"content": union(TEXT, NULL), "more": filled(union(TEXT, NULL))}, "content")),
    "Folder": alike(record({"name": TEXT, "folders": many(ref("Folder"))}, "name folders")),
    "Shelf_int": alike(record({"books": many(INT), "first": INT}, "books")),
    "Odder": alike(record({"from": INT, "a-b": union(TEXT, NULL), "$x": free(INT)}, "")),
    "Step": both(record({"name": TEXT, "then": {**union(ref("Step"), NULL), "description": "The next one.", "default": None}}, "name", description="One step.")),
    "Cell_int": both(record({"held": INT, "note": {**TEXT, "default": ""}}, "held")),
    "Numbers": alike({**many(INT), "title": "Numbers"}),
    "Keyed": (record({"amount": union(NUM, DIGITS), "unitName": {**TEXT, "description": "In which.", "default": "kg"}}, "amount", description="By keyword."), record({"amount": DIGITS, "unitName": {**TEXT, "description": "In which."}}, "amount unitName", description="By keyword.")),
    "Below": (record({"a": INT, "b": {**TEXT, "default": "x"}, "c": filled(INT), "e": {**union(ref("Below"), NULL), "default": None}}, "a"), record({"a": INT, "b": TEXT, "c": many(INT), "d": INT, "e": union(ref("Below"), NULL)}, "a b c d e")),
    "Renamed": alike({"properties": {"kind": {**TEXT, "const": "renamed", "default": "renamed", "title": "Kind"}, "theSize": {**INT, "minimum": 1, "title": "Thesize"}}, "required": ["theSize"], "title": "Renamed", "type": "object"}),
    "Owner": alike({"properties": {"pet": {"oneOf": [ref("Cat"), ref("Renamed")], "title": "Pet"}}, "required": ["pet"], "title": "Owner", "type": "object"}),
    "Cat": alike({"properties": {"kind": {**TEXT, "const": "cat", "title": "Kind"}, "lives": {**INT, "default": 9, "title": "Lives"}}, "required": ["kind"], "title": "Cat", "type": "object"}),
    "Crate_int_": alike({"properties": {"inside": {**INT, "title": "Inside"}}, "required": ["inside"], "title": "Crate[int]", "type": "object"}),
    "Pair_int": alike(record({"left": ref("Box_int"), "right": ref("Box_list_int")}, "left right")),
    "Box_list_int": both(record({"content": many(INT), "more": filled(many(INT))}, "content")),
    "Strict": alike({"properties": {"n": {**INT, "title": "N"}}, "required": ["n"], "title": "Strict", "type": "object"}),
}  # fmt: skip
"""By name: as it arrives and as it leaves."""

ROWS: List[Row] = [
    Row("str", TEXT, [("a", "'a'"), ("", "''")], wrong("expected a string", 1, None, [], {}, True, 1.5)),
    Row("int", INT, [(1, "1"), (1.0, "1", 1), (-5, "-5"), (10**30, "10**30")], wrong("expected an integer", 1.5, True, "1", None, [], {})),
    Row("float", NUM, [(1.5, "1.5"), (1, "1.0", 1.0), (10**400, "10**400")], wrong("expected a number", True, "1.5", None)),
    Row("bool", BOOL, [(True, "True"), (False, "False")], wrong("expected true or false", 0, 1, "true", None)),
    Row("None", NULL, [(None, "None")], wrong("expected null", 0, False, "", [])),
    Row("Any", {}, [(1, "1"), ([{"a": None}], "[{'a': None}]")], []),
    Row("list", many(), [([1, "a"], "[1, 'a']")], wrong("expected a list", {}, "a", None)),
    Row("list[int]", many(INT), [([1, 2.0], "[1, 2]", [1, 2]), ([], "[]")], [
        ([1, "2"], "[1]: expected an integer, got the string '2'"), ([True], "[0]: expected an integer, got true"),
        ([None], "[0]: expected an integer, got null"), *wrong("expected a list", {}, "12"),
    ]),
    Row("list[list[int]]", many(many(INT)), [([[1], []], "[[1], []]")], [
        ([1], "[0]: expected a list, got the number 1"), ([["a"]], "[0][0]: expected an integer, got the string 'a'"),
    ]),
    Row("Sequence[str]", many(TEXT), [(["a"], "['a']")], wrong("expected a list", "a")),
    Row("tuple", many(), [([1, "a"], "(1, 'a')")], wrong("expected a list", {})),
    Row("tuple[int, ...]", many(INT), [([1, 2], "(1, 2)"), ([], "()")], [
        (["a"], "[0]: expected an integer, got the string 'a'"), *wrong("expected a list", 1),
    ]),
    Row("Tuple[int, str]", fixed(INT, TEXT), [([1, "a"], "(1, 'a')")], [
        *wrong("expected a list of 2 (an integer and a string)", [1], [1, "a", 2]),
        (["a", 1], "[0]: expected an integer, got the string 'a'"),
        *wrong("expected a list of 2 (an integer and a string)", {}, []),
    ]),
    Row("tuple[()]", {**many(), "maxItems": 0}, [([], "()")], wrong("expected an empty list", [1], {})),
    Row("set[int]", unique(INT), [([1, 2], "{1, 2}"), ([], "set()")], [
        ([1, 1], ": expected a list without duplicates, got the same item twice"),
        ([1, 1.0], ": expected a list without duplicates, got the same item twice"),
        (["a"], "[0]: expected an integer, got the string 'a'"), *wrong("expected a list without duplicates", {}),
    ]),
    Row("set", unique(union(TEXT, INT, NUM, BOOL, NULL)), [([1, "a", None], "{1, 'a', None}")], [
        ([[]], "[0]: expected a string, an integer, a number, true or false or null, got an empty list"),
        ([{}], "[0]: expected a string, an integer, a number, true or false or null, got an empty object"),
        ([1, 1], ": expected a list without duplicates, got the same item twice"),
    ]),
    Row("FrozenSet[bool]", unique(BOOL), [([True], "frozenset({True})")], [([1], "[0]: expected true or false, got the number 1")]),
    Row("set[Frozen]", unique(ref("Frozen")), [([{"a": 1}], "{Frozen(1)}")], [([{"a": 1}, {"a": 1.0}], ": expected a list without duplicates, got the same item twice")]),
    Row("dict", {"type": "object"}, [({"a": 1}, "{'a': 1}")], wrong("expected an object", [], "a", None)),
    Row("Dict[str, int]", free(INT), [({"a": 1, "b": 2.0}, "{'a': 1, 'b': 2}", {"a": 1, "b": 2}), ({}, "{}")], [
        ({"a": "1"}, ".a: expected an integer, got the string '1'"), ({"a": None}, ".a: expected an integer, got null"),
        *wrong("expected an object", []),
    ]),
    Row("dict[int, str]", {"type": "object", "additionalProperties": TEXT, "propertyNames": {"pattern": "^(0|-?[1-9][0-9]{0,99})$"}}, [({"7": "a", "-1": "b"}, "{7: 'a', -1: 'b'}")], [
        ({"a": "a"}, ": the name 'a': expected a name that is an integer, got the string 'a'"),
        ({"07": "a"}, ": the name '07': expected a name that is an integer, got the string '07'"),
        ({"1.0": ""}, ": the name '1.0': expected a name that is an integer, got the string '1.0'"),
    ]),
    Row("dict[Colour, int]", {"type": "object", "additionalProperties": INT, "propertyNames": {"enum": ["red", "green"]}}, [({"red": 1}, "{Colour.RED: 1}")], [({"blue": 1}, ": the name 'blue': expected one of 'red' or 'green', got the string 'blue'")]),
    Row("Mapping[str, Point]", free(ref("Point")), [({"p": POINT}, "{'p': Point(1.5, 2.0)}")], [({"p": {}}, ".p.x is missing: expected a number, got nothing (missing too: y)")]),
    Row("Optional[int]", union(INT, NULL), [(1, "1"), (None, "None")], [
        *wrong("expected an integer or null", "a"), *wrong("expected an integer", 1.5),
        *wrong("expected an integer or null", True),
    ]),
    Row("Union[int, str]", union(INT, TEXT), [(1, "1"), ("a", "'a'")], [
        *wrong("expected an integer or a string", None), *wrong("expected an integer", 1.5),
        *wrong("expected an integer or a string", True, []),
    ]),
    Row("Union[float, int]", union(NUM, INT), [(1, "1"), (2.0, "2.0")], wrong("expected a number or an integer", None)),
    Row("int | None", union(INT, NULL), [(1, "1"), (None, "None")], wrong("expected an integer or null", "a")),
    Row("list[int] | str | None", union(many(INT), TEXT, NULL), [([1], "[1]"), ("a", "'a'"), (None, "None")], [
        *wrong("expected a list, a string or null", 1), (["a"], "[0]: expected an integer, got the string 'a'"),
    ]),
    Row("List['int | None']", many(union(INT, NULL)), [([1, None], "[1, None]")], [(["a"], "[0]: expected an integer or null, got the string 'a'")]),
    Row("Union[Circle, Square]", union(ref("Circle"), ref("Square")), [({"kind": "square", "side": 2}, "Square('square', 2.0)", {"kind": "square", "side": 2.0})], [
        ({"kind": "square", "radius": 1}, ": fits none of 2 forms (as an object with kind and radius: kind: expected 'circle', got the string 'square'; as an object with kind and side: unknown field 'radius': the fields are kind and side; missing: side)"),
        ({}, ": fits none of 2 forms (as an object with kind and radius: kind is missing: expected 'circle', got nothing (missing too: radius); as an object with kind and side: kind is missing: expected 'square', got nothing (missing too: side))"),
    ]),
    Row("Union[List[int], List[str]]", union(many(INT), many(TEXT)), [(["a"], "['a']"), ([], "[]")], [
        ([1, "a"], ": fits none of 2 forms (as a list: [1]: expected an integer, got the string 'a'; as a list: [0]: expected a string, got the number 1)"),
        ([None], ": fits none of 2 forms (as a list: [0]: expected an integer, got null; as a list: [0]: expected a string, got null)"),
    ]),
    Row("Union[dt.date, str]", union(DATE, TEXT), [("1999-12-31", "dt.date(1999, 12, 31)"), ("soon", "'soon'")], wrong("expected a date such as 1969-07-20 or a string", 1)),
    Row("Union[int, int]", INT, [(1, "1")], wrong("expected an integer", "a")),
    Row("Literal['a', 'b']", {**TEXT, "enum": ["a", "b"]}, [("a", "'a'")], wrong("expected one of 'a' or 'b'", "c", 1, None, ["a"])),
    Row("Literal[1, True, None]", {"enum": [1, True, None]}, [(1.0, "1", 1), (True, "True"), (None, "None")], wrong("expected one of 1, true or null", 0, False, "1")),
    Row("te.Literal['x']", {**TEXT, "const": "x"}, [("x", "'x'")], wrong("expected 'x'", "y", {})),
    Row("Literal[Colour.RED]", {**TEXT, "const": "red"}, [("red", "Colour.RED")], wrong("expected 'red'", "green", "RED")),
    Row("Colour", COLOUR, [("red", "Colour.RED"), ("green", "Colour.GREEN")], [
        *wrong("expected one of 'red' or 'green' (did you mean 'red'?)", "RED"),
        *wrong("expected one of 'red' or 'green'", "blue", 1, None, []),
    ]),
    Row("Level", {**INT, "enum": [1, 2]}, [(1, "Level.LOW"), (2.0, "Level.HIGH", 2)], [
        *wrong("expected one of 1 or 2", 3), *wrong("expected one of 1 or 2 (did you mean 1?)", "LOW"),
        *wrong("expected one of 1 or 2", True),
    ]),
    Row("Odd", {**TEXT, "enum": ["ONE", "TWO"]}, [("ONE", "Odd.ONE")], [
        *wrong("expected one of 'ONE' or 'TWO'", 1),
        *wrong("expected one of 'ONE' or 'TWO' (did you mean 'ONE'?)", "one"),
    ]),
    Row("Single", {**TEXT, "const": "only"}, [("only", "Single.ONLY")], wrong("expected 'only'", "other")),
    Row("Point", ref("Point"), [(POINT, "Point(1.5, 2.0)")], [
        ({}, ".x is missing: expected a number, got nothing (missing too: y)"),
        ({"x": 1}, ".y is missing: expected a number, got nothing"),
        ({"x": 1, "y": 2, "z": 3}, ": unknown field 'z': the fields are x and y"),
        ({"x": "1", "y": 2}, ".x: expected a number, got the string '1'"),
        *wrong("expected an object with x and y", [], None),
    ]),
    Row("Options", ref("Options"), [({}, "Options()", {"depth": 3, "names": [], "colour": None, "when": "1999-01-02"}), ({"depth": 1, "names": ["a"]}, "Options(1, ['a'])", {"depth": 1, "names": ["a"], "colour": None, "when": "1999-01-02"}), ({"when": "1999-12-31"}, "Options(when=dt.date(1999, 12, 31))", {"depth": 3, "names": [], "colour": None, "when": "1999-12-31"})], [
        ({"depth": None}, ".depth: expected an integer, got null"),
        ({"shared": 1}, ": unknown field 'shared': the fields are depth, names, colour and when"),
        ({"extra": 1}, ": unknown field 'extra': the fields are depth, names, colour and when"),
        ({"names": [1]}, ".names[0]: expected a string, got the number 1"),
    ]),
    Row("Empty", ref("Empty"), [({}, "Empty()")], [
        ({"a": 1}, ": unknown field 'a': there are no fields"), *wrong("expected an empty object", None),
    ]),
    Row("Tree", ref("Tree"), [({"value": 1, "children": [{"value": 2, "children": []}]}, "Tree(1, [Tree(2)])")], [({"value": 1, "children": [{}]}, ".children[0].value is missing: expected an integer, got nothing")]),
    Row("Chain", ref("Chain"), [({"next": {"next": None}}, "Chain(Chain(None))")], [({"next": {"next": 1}}, ".next.next: expected an object (Chain) or null, got the number 1")]),
    Row("Box[int]", ref("Box_int"), [({"content": 1, "more": [2]}, "Box(1, [2])")], [
        ({"content": "a"}, ".content: expected an integer, got the string 'a'"),
        ({"content": 1, "more": ["a"]}, ".more[0]: expected an integer, got the string 'a'"),
    ]),
    Row("IntBox", ref("IntBox"), [({"content": 1, "label": "x"}, "IntBox(1, [], 'x')", {"content": 1, "more": [], "label": "x"})], [({"content": "a"}, ".content: expected an integer, got the string 'a'")]),
    Row("Left", ref("Left"), [({"child": {"child": None, "x": "s"}, "x": 1}, "Left(Right(None, 's'), 1)")], [({"child": {"child": None, "x": None}, "x": 1}, ".child: fits none of 2 forms (as an object (Left): x: expected an integer, got null; as an object with child and x: x: expected a string, got null)")]),
    Row("Movie", ref("Movie"), [({"title": "M", "year": 1931}, "{'title': 'M', 'year': 1931}")], [
        ({"title": "M"}, ".year is missing: expected an integer, got nothing"),
        ({"title": 1, "year": 2}, ".title: expected a string, got the number 1"),
    ]),
    Row("Partial", ref("Partial"), [({}, "{}"), ({"b": "x"}, "{'b': 'x'}")], [
        ({"a": "x"}, ".a: expected an integer, got the string 'x'"),
        ({"c": 1}, ": unknown field 'c': the fields are a and b"),
    ]),
    Row("Mixed", ref("Mixed"), [({"must": 1}, "{'must': 1}"), ({"must": 1, "may": "x", "frozen": 2}, "{'must': 1, 'may': 'x', 'frozen': 2}")], [({"may": "x"}, ".must is missing: expected an integer, got nothing")]),
    Row("Loose", ref("Loose"), [({"must": 1, "noted": 2}, "{'must': 1, 'noted': 2}")], [
        ({"must": 1}, ".noted is missing: expected an integer, got nothing"),
        ({"noted": 2}, ".must is missing: expected an integer, got nothing"),
    ]),
    Row("Span", ref("Span"), [({"start": 1}, "Span(1)", {"start": 1, "end": None}), ({"start": 1, "end": 2}, "Span(1, 2)")], [
        *wrong("expected an object with start and end", [1, 2]),
        ({"end": 1}, ".start is missing: expected an integer, got nothing"),
        ({"start": "1"}, ".start: expected an integer, got the string '1'"),
    ]),
    Row("UserId", INT, [(7, "7")], wrong("expected an integer", "7")),
    Row("Json", union(NULL, BOOL, INT, NUM, TEXT, many(ref("Json")), free(ref("Json"))), [({"a": [1, None, "x"]}, "{'a': [1, None, 'x']}")], []),
    Row("Alias", ref("Alias"), [([1, [2, []]], "[1, [2, []]]"), (1, "1")], [
        *wrong("expected an integer or a list", "a"),
        ([["a"]], "[0][0]: expected an integer or a list, got the string 'a'"),
    ]),
    Row("Wrapped[int]", ref("Wrapped"), [([1], "[1]")], [(["a"], "[0]: expected an integer, got the string 'a'")]),
    Row("T", {}, [(1, "1")], []),
    Row("N", union(INT, TEXT), [(1, "1"), ("a", "'a'")], wrong("expected an integer or a string", None)),
    Row("B", NUM, [(1.5, "1.5")], wrong("expected a number", "a")),
    Row("dt.date", DATE, [("1999-12-31", "dt.date(1999, 12, 31)")], wrong("expected a date such as 1969-07-20", 1, "1999-12-31T00:00:00", "1999-13-01", "x", None), looser=True),
    Row("dt.datetime", MOMENT, [("1999-12-31T23:59:58Z", "dt.datetime(1999, 12, 31, 23, 59, 58, tzinfo=dt.timezone.utc)", "1999-12-31T23:59:58+00:00"), ("1999-12-31 23:59", "dt.datetime(1999, 12, 31, 23, 59)", "1999-12-31T23:59:00"), ("1999-12-31t23:59:58.1234567-01:30", "dt.datetime(1999, 12, 31, 23, 59, 58, 123456, dt.timezone(-dt.timedelta(minutes=90)))", "1999-12-31T23:59:58.123456-01:30")], wrong("expected a date and time such as 1969-07-20T09:30:00Z", 1, "1999-12-31", "1999-12-31T25:00:00Z", "1999-12-31T23:59:00+25:00"), looser=True),
    Row("dt.time", TIME, [("09:30", "dt.time(9, 30)", "09:30:00"), ("09:30:01.5+02:00", "dt.time(9, 30, 1, 500000, dt.timezone(dt.timedelta(hours=2)))", "09:30:01.500000+02:00")], wrong("expected a time such as 09:30:00", 1, "24:00", "9:30", "noon"), looser=True),
    Row("dt.timedelta", SECONDS, [(90, "dt.timedelta(seconds=90)"), (0.5, "dt.timedelta(milliseconds=500)"), (-1, "dt.timedelta(-1, 86399)")], [
        *wrong("expected a number of seconds", "PT1H", True, None),
        *wrong("expected a number of seconds", 1e+300, -1e+300),
    ]),
    Row("uuid.UUID", UUID, [(ID, "uuid.UUID('123e4567-e89b-12d3-a456-426614174000')")], wrong("expected a UUID such as 123e4567-e89b-12d3-a456-426614174000", "x", "123e4567e89b12d3a456426614174000", 1), looser=True),
    Row("Decimal", union(NUM, DIGITS), [("1.50", "Decimal('1.50')"), (1.1, "Decimal('1.1')", "1.1"), (3, "Decimal(3)", "3"), ("1E+2", "Decimal('1E+2')")], wrong("expected a number, or a string of digits", "x", "", "1e99999", "Infinity", None, True), out=DIGITS),
    Row("Path", TEXT, [("/a/b", "Path('/a/b')")], wrong("expected a path", 1, None)),
    Row("PurePosixPath", TEXT, [("a", "PurePosixPath('a')")], wrong("expected a path", {})),
    Row("Annotated[int, 'how many']", {**INT, "description": "how many"}, [(1, "1")], wrong("expected an integer", "a")),
    Row("Annotated[int, Limits(ge=1, le=10)]", {**INT, "minimum": 1, "maximum": 10}, [(1, "1"), (10, "10")], [
        *wrong("expected a number of at least 1", 0), *wrong("expected a number of at most 10", 11),
        *wrong("expected an integer", "5"),
    ]),
    Row("Annotated[float, Limits(gt=0, lt=1)]", {**NUM, "exclusiveMinimum": 0, "exclusiveMaximum": 1}, [(0.5, "0.5")], [
        *wrong("expected a number above 0", 0), *wrong("expected a number below 1", 1),
    ]),
    Row("Annotated[int, Limits(multiple_of=5)]", {**INT, "multipleOf": 5}, [(10, "10")], wrong("expected a multiple of 5", 11)),
    Row("Annotated[str, Limits(min_length=1, max_length=3, pattern='^a')]", {**TEXT, "pattern": "^a", "minLength": 1, "maxLength": 3}, [("ab", "'ab'")], [
        *wrong("expected a string that matches ^a", ""), ("abcd", ": expected at most 3 characters, got 4"),
        *wrong("expected a string that matches ^a", "b"),
    ]),
    Row("Annotated[List[int], Limits(min_length=1)]", {**many(INT), "minItems": 1}, [([1], "[1]")], [
        ([], ": expected at least 1 item, got 0"), (["a"], "[0]: expected an integer, got the string 'a'"),
    ]),
    Row("Annotated[int, at.Ge(1), at.Lt(5)]", {**INT, "minimum": 1, "exclusiveMaximum": 5}, [(1, "1")], [
        *wrong("expected a number of at least 1", 0), *wrong("expected a number below 5", 5),
    ]),
    Row("Annotated[int, at.Interval(ge=1, le=3)]", {**INT, "minimum": 1, "maximum": 3}, [(3, "3")], wrong("expected a number of at most 3", 4)),
    Row("Annotated[List[int], at.Len(1, 2)]", {**many(INT), "minItems": 1, "maxItems": 2}, [([1], "[1]")], [
        ([], ": expected at least 1 item, got 0"), ([1, 2, 3], ": expected at most 2 items, got 3"),
    ]),
    Row("Annotated[int, pydantic.Field(ge=2, description='two')]", {**INT, "description": "two", "minimum": 2}, [(2, "2")], wrong("expected a number of at least 2", 1)),
    Row("Annotated[int, te.Doc('what')]", {**INT, "description": "what"}, [(2, "2")], wrong("expected an integer", "1")),
    Row("Attrs", ref("Attrs"), [({"a": 1, "b": "y"}, "Attrs(1, 'y')", {"a": 1, "b": "y", "c": [], "d": 7}), ({"a": 1, "c": [2]}, "Attrs(1, c=[2])", {"a": 1, "b": "x", "c": [2], "d": 7})], [
        ({}, ".a is missing: expected an integer, got nothing"),
        ({"a": 1, "_b": "y"}, ": unknown field '_b', did you mean 'b'?"),
        ({"a": 1, "d": 1}, ": unknown field 'd': the fields are a, b and c"),
    ]),
    Row("OldAttrs", ref("OldAttrs"), [({"a": 1, "b": [1]}, "OldAttrs(1, [1])")], [({"b": 1}, ".a is missing: expected an integer, got nothing")]),
    Row("Model", ref("Model"), [({"a": 1, "b": ["x"], "when": "1999-12-31"}, "Model(a=1, b=['x'], when=dt.date(1999, 12, 31))")], [
        ({}, ".a is missing: expected an integer, got nothing"),
        ({"a": "1"}, ".a: expected an integer, got the string '1'"),
        ({"a": 1, "b": [1]}, ".b[0]: expected a string, got the number 1"),
    ]),
    Row("Family", ref("Family"), [({"name": "a"}, "Family(name='a')", {"name": "a", "children": []})], [({}, ".name is missing: expected a string, got nothing")]),
    Row("Optional[Any]", union({}, NULL), [(None, "None"), ([1], "[1]")], []),
    Row("AbstractSet[int]", unique(INT), [([1], "frozenset({1})")], [
        ([1, 1], ": expected a list without duplicates, got the same item twice"),
        *wrong("expected a list without duplicates", {}),
    ]),
    Row("FrozenSet[FrozenSet[int]]", unique(unique(INT)), [([[1], [2]], "frozenset({frozenset({1}), frozenset({2})})", [[2], [1]])], [
        ([[1], [1]], ": expected a list without duplicates, got the same item twice"),
        ([[1, 1]], "[0]: expected a list without duplicates, got the same item twice"),
        ([1], "[0]: expected a list without duplicates, got the number 1"),
    ]),
    Row("Dict[UserId, str]", {"type": "object", "additionalProperties": TEXT, "propertyNames": {"pattern": "^(0|-?[1-9][0-9]{0,99})$"}}, [({"7": "x"}, "{7: 'x'}")], [({"x": "x"}, ": the name 'x': expected a name that is an integer, got the string 'x'")]),
    Row("Dict[Literal['a', 'b'], int]", {"type": "object", "additionalProperties": INT, "propertyNames": {"enum": ["a", "b"]}}, [({"a": 1}, "{'a': 1}")], [
        ({"c": 1}, ": the name 'c': expected one of 'a' or 'b', got the string 'c'"),
        ({"a": "1"}, ".a: expected an integer, got the string '1'"),
    ]),
    Row("Dict[dt.date, int]", {"type": "object", "additionalProperties": INT, "propertyNames": {"format": "date"}}, [({"1999-12-31": 1}, "{dt.date(1999, 12, 31): 1}")], wrong("expected an object", [])),
    Row("Dict[Annotated[str, Limits(min_length=2)], int]", {"type": "object", "additionalProperties": INT, "propertyNames": {"minLength": 2}}, [({"ab": 1}, "{'ab': 1}")], [({"a": 1}, ": the name 'a': expected at least 2 characters, got 1")]),
    Row("Optional[Decimal]", union(union(NUM, DIGITS), NULL), [("1.5", "Decimal('1.5')"), (None, "None")], [
        *wrong("expected a number, or a string of digits or null", True),
        *wrong("expected a number, or a string of digits", "x"),
    ], out=union(DIGITS, NULL)),
    Row("Union[Movie, Span]", union(ref("Movie"), ref("Span")), [({"start": 1}, "Span(1)", {"start": 1, "end": None}), ({"title": "M", "year": 1}, "{'title': 'M', 'year': 1}")], [({"title": "M"}, ": fits none of 2 forms (as an object with title and year: year is missing: expected an integer, got nothing; as an object with start and end: unknown field 'title': the fields are start and end; missing: start)")]),
    Row("Union[dt.datetime, dt.date]", union(MOMENT, DATE), [("1999-12-31T12:00:00", "dt.datetime(1999, 12, 31, 12)"), ("1999-12-31", "dt.date(1999, 12, 31)")], wrong("expected a date and time such as 1969-07-20T09:30:00Z or a date such as 1969-07-20", 1)),
    Row("Mood", {**TEXT, "enum": ["good", "bad"]}, [("good", "Mood.GOOD")], [
        *wrong("expected one of 'good' or 'bad' (did you mean 'good'?)", "GOOD", "god"),
        *wrong("expected one of 'good' or 'bad'", 1),
    ]),
    Row("Rights", {**INT, "enum": [1, 2]}, [(1, "Rights.READ"), (2, "Rights.WRITE")], [
        *wrong("expected one of 1 or 2", 3), *wrong("expected one of 1 or 2 (did you mean 1?)", "READ"),
    ]),
    Row("Truth", {"enum": [True, None]}, [(True, "Truth.YES"), (None, "Truth.UNKNOWN")], [
        *wrong("expected one of true or null", False, 1),
        *wrong("expected one of true or null (did you mean true?)", "YES"),
    ]),
    Row("Words", ref("Words"), [({"value": 1, "at": "x", "extra": "y", "make": "z", "v0": 5}, "Words(1, 'y', 'x', 'z', 5)", {"value": 1, "extra": "y", "at": "x", "make": "z", "v0": 5})], [
        ({"value": "1"}, ".value: expected an integer, got the string '1'"),
        ({}, ".value is missing: expected an integer, got nothing"),
        ({"value": 1, "at": 1}, ".at: expected a string, got the number 1"),
    ]),
    Row("Person", ref("Person"), [({"name": "Ann", "colour": "red"}, "Person('Ann', Colour.RED)", {"name": "Ann", "colour": "red", "born": None}), ({"name": "Bo", "born": "1999-12-31"}, "Person('Bo', born=dt.date(1999, 12, 31))", {"name": "Bo", "colour": None, "born": "1999-12-31"})], [
        ({"nmae": "Ann"}, ": unknown field 'nmae', did you mean 'name'?"),
        ({"name": "Ann", "colour": "blu"}, ".colour: expected one of 'red' or 'green', got the string 'blu'"),
    ]),
    Row("Employee", ref("Employee"), [({"name": "Ann", "boss": {"name": "Bo"}, "skills": ["a"]}, "Employee('Ann', boss=Employee('Bo'), skills=frozenset({'a'}))", {"name": "Ann", "colour": None, "born": None, "boss": {"name": "Bo", "colour": None, "born": None, "boss": None, "skills": []}, "skills": ["a"]})], [
        ({"name": "Ann", "boss": {}}, ".boss.name is missing: expected a string, got nothing"),
        ({"name": "Ann", "skills": ["a", "a"]}, ".skills: expected a list without duplicates, got the same item twice"),
        ({"name": "Ann", "boss": "Bo"}, ".boss: expected an object (Employee) or null, got the string 'Bo'"),
    ]),
    Row("Team", ref("Team"), [({"lead": {"name": "Ann", "skills": ["a"]}, "members": {"b": {"name": "Bo"}}, "places": [POINT, POINT], "budget": "9.50"}, "Team(Employee('Ann', skills=frozenset({'a'})), {'b': Employee('Bo')}, (Point(1.5, 2.0), Point(1.5, 2.0)), Decimal('9.50'))", {"lead": {"name": "Ann", "colour": None, "born": None, "boss": None, "skills": ["a"]}, "members": {"b": {"name": "Bo", "colour": None, "born": None, "boss": None, "skills": []}}, "places": [POINT, POINT], "budget": "9.50"})], [
        ({"lead": {"name": "Ann", "skills": ["a"]}, "members": {"b": {"name": 1}}, "places": [POINT, POINT], "budget": 1}, ".members.b.name: expected a string, got the number 1"),
        ({"lead": {"name": "Ann", "skills": ["a"]}, "members": {}, "places": [POINT], "budget": 1}, ".places: expected a list of 2 (an object with x and y and an object with x and y), got a list of 1"),
        ({"lead": {"name": "Ann", "skills": ["a"]}, "members": {}, "places": [POINT, {"x": 1}], "budget": 1}, ".places[1].y is missing: expected a number, got nothing"),
        ({"lead": {"name": "Ann", "skills": ["a"]}}, ".members is missing: expected an object, got nothing (missing too: places and budget)"),
    ]),
    Row("Box[Optional[str]]", ref("Box_Union_str_NoneType"), [({"content": None}, "Box(None)", {"content": None, "more": []})], [({"content": 1}, ".content: expected a string or null, got the number 1")]),
    Row("Folder", ref("Folder"), [({"name": "a", "folders": [{"name": "b", "folders": []}]}, "{'name': 'a', 'folders': [{'name': 'b', 'folders': []}]}")], [
        ({"name": "a"}, ".folders is missing: expected a list, got nothing"),
        ({"name": "a", "folders": [{"name": "b"}]}, ".folders[0].folders is missing: expected a list, got nothing"),
    ]),
    Row("Shelf[int]", ref("Shelf_int"), [({"books": [1], "first": 2}, "{'books': [1], 'first': 2}")], [
        ({"books": ["1"]}, ".books[0]: expected an integer, got the string '1'"),
        ({"books": [], "first": None}, ".first: expected an integer, got null"),
    ]),
    Row("Odder", ref("Odder"), [({}, "{}"), ({"from": 1, "a-b": None, "$x": {"b": 2}}, "{'from': 1, 'a-b': None, '$x': {'b': 2}}")], [
        ({"from": "1"}, ".from: expected an integer, got the string '1'"),
        ({"a-b": 1}, "['a-b']: expected a string or null, got the number 1"),
        ({"$x": {"q": "1"}}, "['$x'].q: expected an integer, got the string '1'"),
        ({"a_b": 1}, ": unknown field 'a_b', did you mean 'a-b'?"),
    ]),
    Row("Step", ref("Step"), [({"name": "a", "then": {"name": "b", "then": None}}, "Step('a', Step('b'))")], [
        ({"name": "a", "then": {}}, ".then.name is missing: expected a string, got nothing"),
        *wrong("expected an object with name and then", ["a"]),
    ]),
    Row("Cell[int]", ref("Cell_int"), [({"held": 1}, "Cell(1)", {"held": 1, "note": ""})], [
        ({"held": "1"}, ".held: expected an integer, got the string '1'"),
        ({"held": 1, "note": None}, ".note: expected a string, got null"),
    ]),
    Row("Code", {**TEXT, "maxLength": 3}, [("abc", "'abc'")], [
        ("abcd", ": expected at most 3 characters, got 4"), *wrong("expected a string", 1),
    ]),
    Row("Annotated[dt.timedelta, Limits(ge=0)]", {**NUM, "minimum": 0, "maximum": 86399999999999, "description": "seconds"}, [(60, "dt.timedelta(minutes=1)")], wrong("expected a number of at least 0", -1)),
    Row("Annotated[Optional[int], Limits(ge=1)]", {**union(INT, NULL), "minimum": 1}, [(1, "1"), (None, "None")], [
        *wrong("expected a number of at least 1", 0), *wrong("expected an integer or null", "1"),
    ]),
    Row("Annotated[Annotated[int, Limits(ge=1)], Limits(le=3), 'few']", {**INT, "description": "few", "minimum": 1, "maximum": 3}, [(3, "3")], [
        *wrong("expected a number of at least 1", 0), *wrong("expected a number of at most 3", 4),
    ]),
    Row("Annotated[Set[int], Limits(min_length=1, max_length=2)]", {**many(INT), "uniqueItems": True, "minItems": 1, "maxItems": 2}, [([1, 2], "{1, 2}")], [
        ([], ": expected at least 1 item, got 0"), ([1, 2, 3], ": expected at most 2 items, got 3"),
    ]),
    Row("Annotated[float, at.Gt(0), at.Le(1)]", {**NUM, "exclusiveMinimum": 0, "maximum": 1}, [(1, "1.0", 1.0), (0.5, "0.5")], [
        *wrong("expected a number above 0", 0), *wrong("expected a number of at most 1", 1.5),
    ]),
    Row("Annotated[float, at.MultipleOf(0.5)]", {**NUM, "multipleOf": 0.5}, [(1.5, "1.5")], wrong("expected a multiple of 0.5", 0.35)),
    Row("Annotated[str, at.MinLen(2)]", {**TEXT, "minLength": 2}, [("ab", "'ab'")], [("a", ": expected at least 2 characters, got 1")]),
    Row("Annotated[Point, 'where']", {"$ref": "#/$defs/Point", "description": "where"}, [(POINT, "Point(1.5, 2.0)")], [({"x": 1}, ".y is missing: expected a number, got nothing")]),
    Row("pydantic.PositiveInt", {**INT, "exclusiveMinimum": 0}, [(1, "1")], wrong("expected a number above 0", 0)),
    Row("Keyed", ref("Keyed"), [({"amount": "1.5", "unitName": "g"}, "Keyed(amount=Decimal('1.5'), unitName='g')")], [
        ({"amount": "1", "unit": "g"}, ": unknown field 'unit', did you mean 'unitName'?"),
        ({}, ".amount is missing: expected a number, or a string of digits, got nothing"),
    ]),
    Row("Below", ref("Below"), [({"a": 1, "e": {"a": 2}}, "Below(1, e=Below(2))", {"a": 1, "b": "x", "c": [], "d": 7, "e": {"a": 2, "b": "x", "c": [], "d": 7, "e": None}})], [({"a": 1, "e": {}}, ".e.a is missing: expected an integer, got nothing")]),
    Row("Renamed", ref("Renamed"), [({"theSize": 2}, "Renamed(theSize=2)", {"kind": "renamed", "theSize": 2})], [
        ({"size": 2}, ".theSize is missing: expected an integer, got nothing"),
        ({"theSize": 0}, ".theSize: expected a number of at least 1, got the number 0"),
    ]),
    Row("Owner", ref("Owner"), [({"pet": {"kind": "cat", "lives": 3}}, "Owner(pet=Cat(kind='cat', lives=3))")], [
        ({"pet": {"kind": "dog"}}, ".pet: fits none of 2 forms (kind: expected 'cat', got the string 'dog'; kind: expected 'renamed', got the string 'dog')"),
        ({"pet": {}}, ".pet: fits none of 2 forms (kind is missing: expected a string, got nothing; theSize is missing: expected an integer, got nothing)"),
    ]),
    Row("Numbers", ref("Numbers"), [([1], "Numbers([1])")], [(["a"], "[0]: expected an integer, got the string 'a'"), *wrong("expected a list", {})]),
    Row("Crate[int]", ref("Crate_int_"), [({"inside": 1}, "Crate[int](inside=1)")], [({"inside": "x"}, ".inside: expected an integer, got the string 'x'")]),
    Row("Union[Model, Inner]", union(ref("Model"), ref("Inner")), [({"x": 1}, "Inner(x=1)"), ({"a": 1}, "Model(a=1)", {"a": 1, "b": [], "when": None})], [({}, ": fits none of 2 forms (as a value (Model): a is missing: expected an integer, got nothing; as a value (Inner): x is missing: expected an integer, got nothing)")]),
    Row("Annotated[Decimal, Limits(ge=1, multiple_of=0.5)]", {**union(NUM, DIGITS), "minimum": 1, "multipleOf": 0.5}, [("1.5", "Decimal('1.5')"), (2, "Decimal(2)", "2")], [
        *wrong("expected a number of at least 1", 0.5), ("1.7", ": expected a multiple of 0.5, got the number 1.7"),
        ("0.5", ": expected a number of at least 1, got the number 0.5"),
        *wrong("expected a number, or a string of digits", "x"),
    ], out={**TEXT, "pattern": '^-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$', "minimum": 1, "multipleOf": 0.5}, looser=True),
    Row("Annotated[Decimal, Limits(gt=0, lt=1)]", {**union(NUM, DIGITS), "exclusiveMinimum": 0, "exclusiveMaximum": 1}, [("0.99999999999999999999", "Decimal('0.99999999999999999999')")], [
        *wrong("expected a number below 1", 1), ("0.0", ": expected a number above 0, got the number 0.0"),
    ], out={**TEXT, "pattern": '^-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$', "exclusiveMinimum": 0, "exclusiveMaximum": 1}, looser=True),
    Row("object", {}, [("x", "'x'")], []),
    Row("List", many(), [([], "[]")], wrong("expected a list", {})),
    Row("Iterable[int]", many(INT), [([1], "[1]")], wrong("expected a list", {})),
    Row("Tuple", many(), [([], "()")], wrong("expected a list", "x")),
    Row("Collection[int]", many(INT), [([1], "[1]")], wrong("expected a list", {"a": 1}, "1")),
    Row("MutableSequence[int]", many(INT), [([1], "[1]")], wrong("expected a list", 1)),
    Row("MutableSet[str]", unique(TEXT), [(["a"], "{'a'}")], [(["a", "a"], ": expected a list without duplicates, got the same item twice")]),
    Row("MutableMapping[str, float]", free(NUM), [({"a": 1}, "{'a': 1.0}", {"a": 1.0})], [({"a": None}, ".a: expected a number, got null")]),
    Row("Text", TEXT, [('é\u2028\x00', "'\\xe9\\u2028\\0'")], wrong("expected a string", 1)),
    Row("PureWindowsPath", TEXT, [('C:\\a', "PureWindowsPath('C:/a')")], wrong("expected a path", None)),
    Row("te.Any", {}, [(None, "None"), (0.5, "0.5")], []),
    Row("Half", {**NUM, "enum": [0.5, 1.0]}, [(0.5, "Half.HALF"), (1, "Half.WHOLE", 1.0)], wrong("expected one of 0.5 or 1.0", 0.75, "0.5")),
    Row("Pair[int]", ref("Pair_int"), [({"left": {"content": 1}, "right": {"content": [1]}}, "Pair(Box(1), Box([1]))", {"left": {"content": 1, "more": []}, "right": {"content": [1], "more": []}})], [
        ({"left": {"content": 1}, "right": {"content": 1}}, ".right.content: expected a list, got the number 1"),
        ({"left": {"content": "1"}, "right": {"content": []}}, ".left.content: expected an integer, got the string '1'"),
    ]),
    Row("Serial", INT, [(7, "7")], wrong("expected an integer", 7.5)),
    Row("Strict", ref("Strict"), [({"n": 1}, "Strict(n=1)")], [({"n": 1, "m": 2}, ": unknown field 'm': the fields are n"), ({}, ".n is missing: expected an integer, got nothing")]),
]  # fmt: skip
