"""`Kind`: one Python type as JSON, with its schema, its way in and its way out.

It is what `kinds.kind_of` makes from an annotation; here stands only what every kind has.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, Optional

Convert = Callable[[Any], Any]

NOTHING_TYPE = type(None)
JSON_TYPES: FrozenSet[type] = frozenset({str, int, float, bool, NOTHING_TYPE, list, dict})
"""The Python types that decoded JSON consists of."""


class Kind:
    """How one Python type looks in JSON.

    Args:
        schema: JSON Schema 2020-12 of its values.
        read: From decoded JSON to the Python value. Raises `Mismatch` for what the schema refuses.
        write: From the Python value to what the JSON encoder takes. Raises `Mismatch` for another type's value.
        label: What messages call it: "an integer".
        accepts: The types of decoded JSON that can fit at all.
        exact: A type whose instances `read` and `write` both hand back untouched; None when there is none.
            For ``float`` only the finite ones.
        exact_items: For a list that stays a list, the kind of its items when that has an `exact` type.
        is_plain: Whether values that fit are the same in Python and in JSON, so that nothing needs conversion.
        writes: The class whose instances `write` takes; None when there is no one class.
        hashable: Whether its values can stand in a set.

    Kinds hold no state of a call: thread-safe.
    """

    __slots__ = (
        "schema",
        "read",
        "write",
        "label",
        "accepts",
        "exact",
        "exact_items",
        "is_plain",
        "writes",
        "hashable",
    )

    def __init__(
        self,
        schema: Dict[str, Any],
        read: Convert,
        write: Convert,
        label: str,
        accepts: FrozenSet[type],
        *,
        exact: Optional[type] = None,
        exact_items: Optional[Kind] = None,
        is_plain: bool = False,
        writes: Optional[type] = None,
        hashable: bool = True,
    ) -> None:
        self.schema, self.read, self.write, self.label = schema, read, write, label
        self.accepts, self.exact, self.exact_items = accepts, exact, exact_items
        self.is_plain, self.writes, self.hashable = is_plain, writes or exact, hashable

    def with_words(self, words: Dict[str, Any]) -> Kind:
        """The same kind whose schema says more (a description, a title)."""
        return self.changed(schema={**self.schema, **words})

    def changed(self, **attributes: Any) -> Kind:
        """A copy of which some attributes are different."""
        other = Kind.__new__(Kind)
        for name in Kind.__slots__:
            setattr(other, name, attributes[name] if name in attributes else getattr(self, name))
        return other

    def __repr__(self) -> str:
        return f"<Kind {self.label}>"


def exact_test(kind: Kind, name: str) -> str:
    """Source of a test whether the variable `name` holds a value that `kind`, which has an `exact`, leaves alone."""
    assert kind.exact is not None
    if kind.exact is NOTHING_TYPE:
        return f"{name} is None"
    finite = f" and {name} - {name} == 0.0" if kind.exact is float else ""
    return f"type({name}) is {kind.exact.__name__}{finite}"
