"""Objects with named fields: one function for reading and one for writing is written out per class.

Source code is generated because it is three times as fast as a loop over the fields, and a list of records is
what tools return. It is made of the author's own field names, which stand in it as string literals only, and
nothing else from outside. For a class with the fields ``id: int`` and ``tags: list[str] = ()`` it reads::

    def read(value):
        if type(value) is not dict:
            raise Mismatch(label, value)
        try:
            v0 = value['id']
        except KeyError:
            raise unfit(value) from None
        extra = {}
        try:
            if not (type(v0) is int):
                at = 'id'
                v0 = c0(v0)
            if 'tags' in value:
                at = 'tags'
                extra['tags'] = c1(value['tags'])
        except Mismatch as error:
            raise error.inside(at) from None
        if len(value) != 1 + len(extra):
            raise unfit(value)
        try:
            return make(v0, **extra)
        except (ValueError, TypeError) as error:
            raise refused(label, value, error) from error
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from .kind import Convert, Kind, exact_test
from .mismatch import Mismatch, cut, listed, nearest


class Field(NamedTuple):
    """One member of an object.

    Args:
        name: Its name in JSON.
        kind: Its type.
        required: Whether it has to be sent.
        attribute: The attribute that holds it in Python.
        argument: The keyword that the constructor takes it by.
    """

    name: str
    kind: Kind
    required: bool
    attribute: str
    argument: str


def record_schema(fields: Sequence[Field], *, all_required: bool = False) -> Dict[str, Any]:
    """The JSON Schema of an object with exactly these fields."""
    schema: Dict[str, Any] = {"type": "object"}
    if fields:
        schema["properties"] = {field.name: field.kind.schema for field in fields}
    required = [field.name for field in fields if field.required or all_required]
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


def record_label(fields: Sequence[Field]) -> str:
    """What messages call such an object."""
    names = listed([field.name for field in fields], "and") if fields else ""
    return cut(f"an object with {names}", 120) if names else "an empty object"


def record_reader(fields: Sequence[Field], make: Optional[Callable[..., Any]], *, by_keyword: bool = False) -> Convert:
    """A function from a JSON object to a Python value.

    Args:
        fields: All that the object may have.
        make: Called with the required fields, in order, and the others that were sent as keywords.
            None makes a dict of all that were sent.
        by_keyword: Whether `make` takes the required ones as keywords too.
    """
    label = record_label(fields)
    required = [index for index, field in enumerate(fields) if field.required]
    lines = ["if type(value) is not dict:", "    raise Mismatch(label, value)"]
    if required:
        fetched = [f"    v{index} = value[{fields[index].name!r}]" for index in required]
        lines += ["try:", *fetched, "except KeyError:", "    raise unfit(value) from None"]
    optional = len(required) < len(fields)
    lines += ["extra = {}"] * optional
    lines += _guarded([line for index, field in enumerate(fields) for line in _read_lines(index, field)])
    lines += [f"if len(value) != {len(required)}{' + len(extra)' * optional}:", "    raise unfit(value)"]
    parts = [_passed(fields[index], f"v{index}", make, by_keyword) for index in required]
    if make is None:
        lines += [f"return {{{', '.join(parts + ['**extra'] * optional)}}}"]
    else:
        lines += _made(", ".join(parts + ["**extra"] * optional))
    names = {"label": label, "unfit": _explainer(fields), "make": make, "refused": _refused}
    return _function("read", lines, {**names, **{f"c{index}": field.kind.read for index, field in enumerate(fields)}})


def _read_lines(index: int, field: Field) -> List[str]:
    if field.required:
        return _converted(index, field)
    fetch = f"v{index} = value[{field.name!r}]"
    keep = f"extra[{field.argument!r}] = v{index}"
    return [f"if {field.name!r} in value:", *(f"    {line}" for line in (fetch, *_converted(index, field), keep))]


def _converted(index: int, field: Field) -> List[str]:
    """Lines that convert one variable, unless a look at it shows that it stays as it is."""
    convert = [f"at = {field.name!r}", f"v{index} = c{index}(v{index})"]
    if field.kind.exact is not None:
        return [f"if not ({exact_test(field.kind, f'v{index}')}):", *(f"    {line}" for line in convert)]
    if field.kind.exact_items is not None:
        return [
            f"if type(v{index}) is not list:",
            *(f"    {line}" for line in convert),
            "else:",
            f"    for item in v{index}:",
            f"        if not ({exact_test(field.kind.exact_items, 'item')}):",
            *(f"            {line}" for line in [*convert, "break"]),
        ]
    return convert


def _passed(field: Field, variable: str, make: Any, by_keyword: bool) -> str:
    if make is None:
        return f"{field.argument!r}: {variable}"
    return f"{field.argument}={variable}" if by_keyword else variable


def _guarded(lines: List[str]) -> List[str]:
    """Lines in which a Mismatch learns the field that it happened at."""
    if not lines:
        return []
    caught = ["except Mismatch as error:", "    raise error.inside(at) from None"]
    return ["try:", *(f"    {line}" for line in lines), *caught]


def _made(arguments: str) -> List[str]:
    """The constructor may check on its own account: what it refuses is a value that does not fit."""
    return [
        "try:",
        f"    return make({arguments})",
        "except (ValueError, TypeError) as error:",
        "    raise refused(label, value, error) from error",
    ]


def _refused(label: str, value: Any, error: Exception) -> Mismatch:
    reason = cut(" ".join(str(error).split()) or type(error).__name__, 200)
    return Mismatch(label, value, instead=f"expected {label} that is valid: {reason}")


def record_writer(fields: Sequence[Field], cls: type) -> Convert:
    """A function from an instance of `cls` (or of a subclass) to a JSON object of these fields."""
    label = f"a {cls.__name__}"
    lines = ["if type(value) is not cls and not isinstance(value, cls):", "    raise Mismatch(label, value)"]
    body = []
    for index, field in enumerate(fields):
        body += [f"v{index} = value.{field.attribute}", *_converted(index, field)]
    lines += _guarded(body)
    lines += ["return {" + ", ".join(f"{field.name!r}: v{index}" for index, field in enumerate(fields)) + "}"]
    names = {"label": label, "cls": cls, **{f"c{index}": field.kind.write for index, field in enumerate(fields)}}
    return _function("write", lines, names)


def dict_writer(fields: Sequence[Field]) -> Convert:
    """A function from a dict with these keys to a JSON object."""
    writing = [field._replace(argument=field.name, kind=field.kind.changed(read=field.kind.write)) for field in fields]
    return record_reader(writing, None)


def _function(name: str, lines: Sequence[str], names: Dict[str, Any]) -> Convert:
    source = "\n".join([f"def {name}(value):", *(f"    {line}" for line in lines)])
    namespace: Dict[str, Any] = {"Mismatch": Mismatch, **names}
    exec(source, namespace)
    made: Convert = namespace[name]
    return made


def _explainer(fields: Sequence[Field]) -> Callable[[Dict[str, Any]], Mismatch]:
    """What is wrong with an object that lacks a field or has one too many."""
    known = {field.name: field for field in fields}

    def unfit(value: Dict[str, Any]) -> Mismatch:
        unknown = [name for name in value if name not in known]
        missing = [field for field in fields if field.required and field.name not in value]
        if unknown:
            return Mismatch("", value, instead=_unknown(unknown, missing, known))
        first = missing[0]
        also = f" (missing too: {cut(listed([field.name for field in missing[1:]], 'and'))})" if missing[1:] else ""
        return Mismatch(first.kind.label, instead=f"expected {first.kind.label}, got nothing{also}").inside(first.name)

    return unfit


def _unknown(unknown: Sequence[str], missing: Sequence[Field], known: Dict[str, Field]) -> str:
    name = unknown[0]
    near = nearest(name, [field.name for field in missing] or known)
    text = f"unknown field {cut(name)!r}"
    if near is not None:
        return f"{text}, did you mean {near!r}?"
    fields = f"the fields are {cut(listed(known, 'and'), 200)}" if known else "there are no fields"
    lacking = f"; missing: {cut(listed([field.name for field in missing], 'and'))}" if missing else ""
    return f"{text}: {fields}{lacking}"
