"""`Record`: a class whose annotated attributes are its fields, like a dataclass.

`dataclasses` imports `inspect` and generates source code for each class, which makes the start of a
small server slower. A `Record` is a dataclass too, but its description as a dataclass is
made only when a program asks for it, for example with `dataclasses.replace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, ClassVar, Mapping, NamedTuple, Optional, TypeVar

if TYPE_CHECKING:
    from dataclasses import Field
    from inspect import Signature

    from typing_extensions import dataclass_transform as dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        """Tell type checkers that subclasses are dataclasses; does nothing at run time."""
        return lambda cls: cls


R = TypeVar("R", bound="Record")


class _Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
"""The default of a field that has none."""


class Declared(NamedTuple):
    """A field as its class declares it.

    Args:
        annotation: The annotation, as it is written.
        default: The default; `MISSING` if the field has none.
        factory: Makes the default; None if the field has no factory.
        init: Whether the constructor accepts the field.
        about: More information about the field.
    """

    annotation: str = ""
    default: Any = MISSING
    factory: Optional[Callable[[], Any]] = None
    init: bool = True
    about: Mapping[str, Any] = {}


def declare(
    default: Any = MISSING,
    *,
    factory: Optional[Callable[[], Any]] = None,
    init: bool = True,
    **about: Any,
) -> Any:
    """Declare a field with more than an annotation and a default; see `Declared`."""
    return Declared("", default, factory, init, about)


def declared_fields(cls: type) -> dict[str, Declared]:
    """Return the fields that a class declares in its own body."""
    found = {}
    written: dict[str, str] = vars(cls).get("__annotations__", {})
    for name, annotation in written.items():
        if annotation.startswith("ClassVar"):
            continue
        given = vars(cls).get(name, MISSING)
        declared = given if isinstance(given, Declared) else Declared(default=given)
        found[name] = declared._replace(annotation=annotation)
    return found


class DataclassFields:
    """The attribute ``__dataclass_fields__`` of a class with `Declared` fields in ``_declared``. It
    is made when it is first read."""

    def __get__(self, instance: Any, owner: Any) -> dict[str, Field[Any]]:
        import dataclasses

        declared = []
        for name, each in owner._declared.items():
            options: dict[str, Any] = {"init": each.init, "metadata": each.about}
            if each.factory is not None:
                options["default_factory"] = each.factory
            elif each.default is not MISSING:
                options["default"] = each.default
            declared.append((name, each.annotation, dataclasses.field(**options)))
        made: Any = dataclasses.make_dataclass(
            owner.__name__,
            declared,
            # Without a docstring, make_dataclass would generate one.
            namespace={"__doc__": owner.__doc__},
            init=False,
            eq=False,
            repr=False,
        )
        owner.__dataclass_fields__ = made.__dataclass_fields__
        return owner.__dataclass_fields__  # type: ignore[no-any-return]


def check_call(cls: Any, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
    """Raise TypeError if a class with a signature cannot be called with these arguments."""
    try:
        cls.__signature__.bind(*args, **given)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}: {error}") from None


class FieldsSignature:
    """The attribute ``__signature__`` of such a class, for `inspect.signature` and ``help()``."""

    def __get__(self, instance: Any, owner: Any) -> Signature:
        from inspect import Parameter, Signature

        if not owner._declared:
            raise AttributeError("it has no fields")
        shown = []
        for name, each in owner._declared.items():
            if not each.init:
                continue
            default = Parameter.empty if each.default is MISSING else each.default
            if each.factory is not None:
                default = each.factory()
            kind = Parameter.POSITIONAL_OR_KEYWORD
            shown.append(Parameter(name, kind, default=default, annotation=each.annotation))
        return Signature(shown)


@dataclass_transform(field_specifiers=(declare,))
class Record:
    """A class whose annotated attributes are its fields. Two records are equal if they are the same
    object."""

    _declared: ClassVar[dict[str, Declared]] = {}
    __match_args__: ClassVar[tuple[str, ...]] = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]
    __signature__ = FieldsSignature()

    def __init_subclass__(cls) -> None:
        own = declared_fields(cls)
        cls._declared = {**cls._declared, **own}
        for name in own:
            if isinstance(vars(cls).get(name), Declared):
                delattr(cls, name)
        cls.__dataclass_fields__ = DataclassFields()  # type: ignore[assignment]
        cls.__match_args__ = tuple(  # type: ignore[misc]
            name for name, each in cls._declared.items() if each.init
        )

    def __init__(self, *args: Any, **given: Any) -> None:
        named = dict(zip(self.__match_args__, args), **given)
        values = {}
        for name, each in self._declared.items():
            if each.init and name in named:
                values[name] = named.pop(name)
            elif each.factory is not None:
                values[name] = each.factory()
            elif each.default is not MISSING:
                values[name] = each.default
            elif each.init:
                named[name] = MISSING
        if named or len(args) > len(self.__match_args__):
            check_call(type(self), args, given)
        self.__dict__.update(values)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the fields."""

    def replace(self: R, **changes: Any) -> R:
        """Return a copy with other values of some fields."""
        return type(self)(**{**{name: vars(self)[name] for name in self.__match_args__}, **changes})

    __replace__ = replace  # for `copy.replace`

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={vars(self)[name]!r}" for name in self.__match_args__)
        return f"{type(self).__qualname__}({shown})"


class FrozenRecord(Record):
    """A record that cannot be changed. Two of one class are equal if their fields are."""

    def __setattr__(self, name: str, value: Any) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))
