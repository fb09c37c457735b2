"""Validators that pydantic and annotated_types attach to a type in `Annotated`, and pydantic's
``Field``.

A validator that an author wrote always runs, or registration rejects it. This module does not
import either package: an annotation with their objects has imported it.
"""

from __future__ import annotations

import copy
from typing import Annotated, Any, Callable, NamedTuple, Optional, Sequence

from .checker import ASSERTIONS
from .kinds import Convert, Kind
from .mismatch import NOTHING, Mismatch, plain_json

# Metadata of pydantic that this package checks itself, or that every JSON value satisfies.
_INERT = frozenset({"AllowInfNan", "FailFast", "FieldInfo", "SkipValidation", "Strict"})
_INERT_MEMBERS = frozenset({
    "allow_inf_nan", "coerce_numbers_to_str", "fail_fast", "pattern", "strict", "union_mode",
})  # fmt: skip
# Metadata that checks or changes the Python value. All other metadata of pydantic also affects how
# JSON is read or written.
_AFTER = frozenset({"AfterValidator", "PathType"})
# Metadata of annotated_types that only documents, and bounds, which `bounds` reads.
_DOCUMENTS = frozenset({"DocInfo", "Unit"})
_BOUNDS = frozenset({"Ge", "Gt", "Le", "Lt", "MaxLen", "MinLen", "MultipleOf"})


class Validators(NamedTuple):
    """The validators among the metadata of a type.

    Args:
        after: Validators of the Python value, in order.
        whole: Whether pydantic has to read and write the type as a whole.
    """

    after: Sequence[Any]
    whole: bool


def validators_in(metadata: Sequence[Any]) -> Validators:
    """Return the validators in metadata, which is not grouped.

    Raises:
        TypeError: A validator is not supported.
    """
    after: list[Any] = []
    whole = False
    for each in metadata:
        cls = each if isinstance(each, type) else type(each)
        package = cls.__module__.partition(".")[0]
        if package == "annotated_types":
            if cls.__name__ in ("Predicate", "Not"):
                after.append(each)
            elif cls.__name__ not in _DOCUMENTS | _BOUNDS:
                raise TypeError(f"{each!r:.80} is not checked: check the value in the function")
        elif package == "pydantic" and "GeneralMetadata" in cls.__name__:
            given = {name for name, value in vars(each).items() if value is not None}
            if given - _INERT_MEMBERS:
                after.append(each)
        elif package == "pydantic" and cls.__name__ in _AFTER:
            after.append(each)
        elif package == "pydantic" or hasattr(each, "__get_pydantic_core_schema__"):
            whole = whole or cls.__name__ not in _INERT
    return Validators(after, whole)


def validated(kind: Kind, after: Sequence[Any], *, writing: bool) -> Kind:
    """Return `kind` with validators that run on each Python value.

    Args:
        kind: The kind without validators.
        after: The validators that `validators_in` found.
        writing: Whether they run on the values of results. Otherwise they run on arguments.

    Raises:
        TypeError: pydantic cannot apply one of them to the type.
    """
    checks = [_check_of(each, kind) for each in after]

    def check(value: Any) -> Any:
        for each in checks:
            value = each(value)
        return value

    def read(value: Any) -> Any:
        return check(kind.read(value))

    def write(value: Any) -> Any:
        return kind.write(check(value))

    plain = kind._replace(exact=frozenset(), exact_items=frozenset())
    return plain._replace(write=write) if writing else plain._replace(read=read)


def _check_of(validator: Any, kind: Kind) -> Convert:
    """Return a function that returns the value or a replacement, or raises Mismatch."""
    if type(validator).__module__.partition(".")[0] == "annotated_types":
        is_not = type(validator).__name__ == "Not"
        holds: Callable[[Any], Any] = validator if is_not else validator.func
        name = getattr(holds, "__name__", None) or repr(holds)

        def check(value: Any) -> Any:
            try:
                fits = holds(value)
            except ValueError as error:
                raise Mismatch(kind.label, value, instead=f"{name}: {error}") from error
            if not fits:
                raise Mismatch(f"{kind.label} for which {name} is true", value)
            return value

        return check
    # A validator may accept any value. Constraints of strings and Decimals need the type itself.
    is_general = "GeneralMetadata" in type(validator).__name__
    base: Any = kind.writes if is_general and kind.writes is not None else Any
    from .pydantic_types import adapter_of, refusal

    adapter = adapter_of(Annotated[base, validator])

    def validate(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except ValueError as error:
            raise refusal(kind.label, value, error) from error

    return validate


# ------------------------------------------------------------ pydantic's Field as a default


def field_words(field: Any) -> dict[str, Any]:
    """Return the keywords of a ``Field(...)`` other than its description and bounds.

    Keywords that restrict values are omitted, because only pydantic's own bounds are checked.

    Raises:
        TypeError, ValueError: An example is not JSON.
    """
    extra = getattr(field, "json_schema_extra", None)
    words = {name: getattr(field, name, None) for name in ("title", "examples")}
    if getattr(field, "deprecated", None):
        words["deprecated"] = True
    given = extra if isinstance(extra, dict) else {}
    words.update((name, word) for name, word in given.items() if name not in ASSERTIONS)
    found = {name: word for name, word in words.items() if word is not None}
    return {name: plain_json(word, name) for name, word in found.items()}


class FieldDefault(NamedTuple):
    """The default in a ``Field(...)``.

    Args:
        shown: The default for the schema; `NOTHING` if each call makes a new one.
        make: Returns the value for a call, given the arguments that were read; None if an argument
            is required.
    """

    shown: Any
    make: Optional[Callable[[dict[str, Any]], Any]]


def field_default(field: Any) -> FieldDefault:
    """Return the default in a ``Field(...)``."""
    factory = field.default_factory
    if factory is not None:
        takes_data = getattr(field, "default_factory_takes_validated_data", False)
        shown = factory() if factory in (list, dict, set) else NOTHING
        return FieldDefault(shown, factory if takes_data else lambda arguments: factory())
    default = field.default
    if default is Ellipsis or type(default).__name__ in ("PydanticUndefinedType", "UndefinedType"):
        return FieldDefault(NOTHING, None)
    return FieldDefault(default, lambda arguments: copy.deepcopy(default))
