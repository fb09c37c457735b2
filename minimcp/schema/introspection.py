"""Annotations, fields and docstrings of functions and classes, read in the same way on every Python
version.

Annotations are not evaluated by `typing.get_type_hints`. On 3.9 it does not support ``X | Y``, it
leaves recursive names unresolved, and its messages do not say what to write instead of something
that is not a type.
"""

from __future__ import annotations

import re
import sys
import typing
from types import FunctionType
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from .kinds import Field, Kind
from .mismatch import NOTHING

# ------------------------------------------------------------ annotations


class Scope(NamedTuple):
    """The names with which an annotation is evaluated, and the values of its type variables.

    Only text that the author of a function wrote is evaluated, never anything from a peer.
    """

    names: Mapping[str, Any] = vars(typing)
    variables: Mapping[Any, Any] = {}

    @classmethod
    def of_class(cls, owner: type, variables: Mapping[Any, Any]) -> Scope:
        """Return the scope of annotations in the body of `owner`: its module, its body and its own
        name."""
        parameters = {each.__name__: each for each in getattr(owner, "__type_params__", ())}
        names = {**names_of(owner.__module__), **vars(owner), **parameters, owner.__name__: owner}
        return cls(names, variables)

    def resolve(self, annotation: Any) -> Any:
        """Return the annotation after evaluating strings and forward references.

        Raises:
            TypeError: A name is unknown, or the string is not an expression.
        """
        if not isinstance(annotation, (str, typing.ForwardRef)):
            return annotation
        names = dict(self.names)
        while isinstance(annotation, (str, typing.ForwardRef)):
            if isinstance(annotation, typing.ForwardRef):
                names.update(names_of(getattr(annotation, "__forward_module__", None) or ""))
                annotation = annotation.__forward_arg__
            annotation = _evaluated(annotation, names)
        return annotation

    def resolved(self, annotation: Any) -> Any:
        """Return the annotation without names and type variables that have a meaning only in this
        scope."""
        annotation = self.resolve(annotation)
        if isinstance(annotation, typing.TypeVar):
            return self.variables.get(annotation, annotation)
        inner = getattr(annotation, "__parameters__", ())
        if isinstance(annotation, type) or not inner:
            return annotation
        return annotation[tuple(self.variables.get(each, each) for each in inner)]


def names_of(module: str) -> dict[str, Any]:
    """Return the names of a module; empty if it is not imported."""
    return vars(sys.modules[module]) if module in sys.modules else {}


# Built-in types that are used in annotations and whose names are also popular for tools.
HIDEABLE = ("bool", "dict", "float", "int", "list", "set", "str", "tuple", "type")


def hidden_by(name: str) -> str:
    """Return what to write if a function hides the built-in type of the same name from
    annotations."""
    return (
        f"a function named {name} hides Python's {name}: call it {name}_ and write "
        f"name={name!r} in its decorator"
    )


def _evaluated(text: str, names: dict[str, Any]) -> Any:
    try:
        try:
            return eval(text, names)
        except TypeError:
            if "|" not in text:
                raise
            return eval(_with_unions(text), {**names, "__Union__": Union})
    except Exception as error:
        hint = " (names imported under TYPE_CHECKING do not exist at run time: import them always)"
        if not isinstance(error, NameError):
            hidden = [
                name for name in re.findall(r"\w+", text) if name in HIDEABLE and name in names
            ]
            hint = f" ({hidden_by(hidden[0])})" if hidden else ""
        reason = f"{type(error).__name__}: {error}{hint}"
        raise TypeError(f"the annotation {text!r} cannot be resolved: {reason}") from error


def _with_unions(text: str) -> Any:
    """Return code for `text` in which ``X | Y`` is ``Union[X, Y]``: 3.9 does not have ``|`` for
    types, and no version has it for strings."""
    import ast  # loaded late: few annotations need it

    class UnionOfBars(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            if not isinstance(node.op, ast.BitOr):
                return node
            both = ast.Tuple([node.left, node.right], ast.Load())
            return ast.Subscript(ast.Name("__Union__", ast.Load()), both, ast.Load())

    tree = UnionOfBars().visit(ast.parse(text.strip(), mode="eval"))
    return compile(ast.fix_missing_locations(tree), "<annotation>", "eval")


def annotations_of(cls: type) -> Mapping[str, Any]:
    """Return the annotations in a class's own body as written. Their names may still be unknown."""
    if cls is type:
        return {}  # its attribute is not a mapping
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return typing.cast("Mapping[str, Any]", vars(cls).get("__annotations__", {}))


class Parameter(NamedTuple):
    """A parameter as it is written. The default or the annotation is `NOTHING` if it is missing."""

    name: str
    kind: int
    default: Any
    annotation: Any


# The kinds of parameters, with the values of `inspect`. Its import takes longer than that of any
# module of a small server.
POSITIONAL_ONLY = 0
POSITIONAL_OR_KEYWORD = 1
VAR_POSITIONAL = 2
KEYWORD_ONLY = 3
VAR_KEYWORD = 4
STARS = (VAR_POSITIONAL, VAR_KEYWORD)

# Flags of code objects.
CO_VARARGS = 0x04
CO_VARKEYWORDS = 0x08
CO_GENERATOR = 0x20


class WrittenSignature(NamedTuple):
    """The parameters and the return annotation of a function as they are written.

    ``returns`` is `NOTHING` if there is no annotation.
    """

    parameters: list[Parameter]
    returns: Any

    @classmethod
    def of(cls, function: Any) -> WrittenSignature:
        """Read a function. Names in its annotations may still be unknown."""
        is_plain = type(function) is FunctionType
        if is_plain and not {"__wrapped__", "__signature__"}.intersection(vars(function)):
            return cls._of_plain(function)
        from inspect import signature

        if sys.version_info >= (3, 14):
            from annotationlib import Format

            return cls.converted(signature(function, annotation_format=Format.FORWARDREF))
        return cls.converted(signature(function))

    @classmethod
    def _of_plain(cls, function: FunctionType) -> WrittenSignature:
        code = function.__code__
        by_name = code.co_kwonlyargcount
        names = list(code.co_varnames)
        kinds = [POSITIONAL_ONLY] * code.co_posonlyargcount
        kinds += [POSITIONAL_OR_KEYWORD] * (code.co_argcount - code.co_posonlyargcount)
        defaults = [NOTHING] * code.co_argcount
        if function.__defaults__:
            defaults[-len(function.__defaults__) :] = function.__defaults__
        if code.co_flags & CO_VARARGS:  # its name comes after those of keyword-only parameters
            names.insert(code.co_argcount, names.pop(code.co_argcount + by_name))
            kinds.append(VAR_POSITIONAL)
            defaults.append(NOTHING)
        given = function.__kwdefaults__ or {}
        for name in names[len(kinds) : len(kinds) + by_name]:
            kinds.append(KEYWORD_ONLY)
            defaults.append(given.get(name, NOTHING))
        if code.co_flags & CO_VARKEYWORDS:
            kinds.append(VAR_KEYWORD)
            defaults.append(NOTHING)
        annotations = annotations_of_function(function)
        parameters = [
            Parameter(name, kind, default, annotations.get(name, NOTHING))
            for name, kind, default in zip(names, kinds, defaults)
        ]
        return cls(parameters, annotations.get("return", NOTHING))

    def inspected(self) -> Any:
        """Return the parameters as an `inspect.Signature` without annotations."""
        from inspect import Parameter as Inspected, Signature

        kinds = (
            Inspected.POSITIONAL_ONLY,
            Inspected.POSITIONAL_OR_KEYWORD,
            Inspected.VAR_POSITIONAL,
            Inspected.KEYWORD_ONLY,
            Inspected.VAR_KEYWORD,
        )
        parameters = [
            Inspected(
                each.name,
                kinds[each.kind],
                default=Inspected.empty if each.default is NOTHING else each.default,
            )
            for each in self.parameters
        ]
        return Signature(parameters)

    @classmethod
    def converted(cls, signature: Any) -> WrittenSignature:
        """Convert an `inspect.Signature`."""
        empty = signature.empty
        parameters = [
            Parameter(
                each.name,
                int(each.kind),
                NOTHING if each.default is empty else each.default,
                NOTHING if each.annotation is empty else each.annotation,
            )
            for each in signature.parameters.values()
        ]
        returns = signature.return_annotation
        return cls(parameters, NOTHING if returns is empty else returns)


def annotations_of_function(function: FunctionType) -> Mapping[str, Any]:
    """Return the annotations of a function as written. Their names may still be unknown."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(function, format=annotationlib.Format.FORWARDREF)
    return function.__annotations__


def is_union(annotation: Any) -> bool:
    """Return whether an annotation is a `Union`, an `Optional` or ``X | Y``."""
    origin = typing.get_origin(annotation)
    return origin is Union or getattr(origin, "__name__", "") == "UnionType"


# ------------------------------------------------------------ classes with fields


def fields_of(cls: Any, kind_of: Callable[..., Kind]) -> Optional[list[Field]]:
    """Return the fields of a TypedDict, a NamedTuple, a dataclass or an attrs class; None for other
    classes.

    Args:
        cls: The class.
        kind_of: Makes the kind of a field from its Python name, its default for the schema
            (`NOTHING` if a schema cannot show one), its type if the class body does not have it,
            and a description.
    """
    if hasattr(cls, "__required_keys__"):
        # If annotations are strings, only the kind knows of Required and NotRequired.
        needed = cls.__required_keys__
        fields = []
        for name in annotations_of(cls):
            kind = kind_of(name)
            required = name in needed if kind.required is None else kind.required
            fields.append(Field(name, required, kind, name))
        return fields
    if hasattr(cls, "_field_defaults"):
        known = cls._field_defaults
        return [
            Field(name, name not in known, kind_of(name, known.get(name, NOTHING)), name)
            for name in cls._fields
        ]
    declared = getattr(cls, "__attrs_attrs__", None)
    if declared is None and not hasattr(cls, "__dataclass_fields__"):
        return None
    import dataclasses  # the class has imported it already

    found = []
    missing = dataclasses.MISSING
    attr = sys.modules.get("attr")
    for each in dataclasses.fields(cls) if declared is None else declared:
        default = missing if each.default is getattr(attr, "NOTHING", missing) else each.default
        factory = getattr(default, "factory", getattr(each, "default_factory", missing))
        bare = default is missing and factory is missing
        shown: Any = default
        if factory in (list, dict, set):
            shown = factory()
        elif bare or factory is not missing:
            shown = NOTHING
        kind = kind_of(each.name, shown, each.type or Any, each.metadata.get("description", ""))
        found.append(
            Field(getattr(each, "alias", each.name), bare and each.init, kind, each.name, each.init)
        )
    return found


def variables_of(cls: Any, arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """Return the values of the type variables of a class and of its bases."""
    found: dict[Any, Any] = dict(zip(getattr(cls, "__parameters__", ()), arguments))
    for base in vars(cls).get("__orig_bases__", ()):
        origin = typing.get_origin(base)
        if origin is not None and origin not in (typing.Generic, typing.Protocol):
            inner = tuple(map(Scope(variables=found).resolved, typing.get_args(base)))
            found = {**variables_of(origin, inner), **found}
    return found


# ------------------------------------------------------------ docstrings

_PARAMETERS = {
    "args", "arguments", "parameters", "params", "arg", "argument", "parameter", "inputs",
    "input parameters",
    "attributes", "fields",  # of a class
    *(f"{which} {what}" for which in ("other", "keyword", "required", "optional")
      for what in ("args", "arguments", "parameters")),
}  # fmt: skip
_SECTIONS = _PARAMETERS | {
    "example", "examples", "note", "notes", "raises", "references", "return", "returns",
    "see also", "todo", "warning", "warnings", "warns", "yield", "yields",
}  # fmt: skip
# Patterns are not compiled here, because most docstrings need none of them.
_SPHINX = (
    r"[:@](?:(param|parameter|arg|argument|keyword|key|kwarg)"
    r"|type|raises?|except|exception|returns?|rtype|yields?|ytype"
    r"|[ic]?var|vartype|meta)(?:\s+([^:]*))?:\s*(.*)"
)
_NAME = r"[`*]{0,2}\*{0,2}(\w+)[`*]{0,2}"
_TYPE = r"(?:\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?"
_GOOGLE = rf"(?:[-*+]\s+)?{_NAME}{_TYPE}(?:\s*:|\s+(?:-{{1,2}}|\u2013|\u2014)(?=\s))\s*(.*)"
_NUMPY = r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_DECORATION = r"(?:#+\s+|\*\*)(.*?):?(?:\*\*)?:?$"


def _without_margin(text: str) -> list[str]:
    """Return the lines of a docstring without their common indentation, like `inspect.cleandoc`."""
    first, *lines = text.expandtabs().split("\n")
    margins = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(margins, default=0)
    cleaned = [first.lstrip(), *(line[margin:] for line in lines)]
    while cleaned and not cleaned[-1]:
        cleaned.pop()
    while cleaned and not cleaned[0]:
        del cleaned[0]
    return cleaned


def read_docstring(text: Any) -> tuple[str, dict[str, str]]:
    """Return the description and the text for each parameter of a docstring in the style of Google,
    NumPy or Sphinx.

    Args:
        text: The docstring as written. Results are empty if it is empty, None or not a string, such
            as the descriptor of a class that generates its docstring.
    """
    text = text if isinstance(text, str) else ""
    lines = _without_margin(text.replace("\r\n", "\n").replace("\r", "\n"))
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    section = ""
    underlined = False
    margin = -1
    entry: list[str] = []  # the parameters that the previous line describes
    is_sphinx = False
    is_code = False
    for place, line in enumerate(lines):
        after = lines[place + 1] if place + 1 < len(lines) else ""
        heads = bool(line.strip()) and not line.startswith(" ")
        next_is_underline = _is_underline(after)
        if line.startswith(("```", "~~~")) and not section:
            is_code = not is_code
        found = re.match(_SPHINX, line) if heads and line[0] in ":@" and not is_code else None
        title = "params" if found else _section_at(line, next_is_underline) if heads else ""
        is_plain = bool(title) and not found and not next_is_underline
        if is_plain and (is_code or not _has_body(title, lines[place + 1 :])):
            title = section = ""  # the header and the text below belong to the description
        if title:
            section = title
            underlined = next_is_underline and not found
            margin = -1
            entry = []
            # A description may continue at the margin, but a type does not.
            is_sphinx = found is not None and not re.match(r"[:@](r|y|var)?type\b", line)
            if found and found[1] and found[2]:
                entry = [found[2].split()[-1].lstrip("*")]
                parameters[entry[0]] = [found[3]]
            continue
        if section and underlined and _is_underline(line):
            continue
        if margin < 0 and line:
            margin = len(line) - len(line.lstrip())
        flush = (
            section in _PARAMETERS
            and heads
            and not underlined
            and bool(margin == 0 and re.match(_GOOGLE, line))
        ) or (is_sphinx and bool(lines[place - 1].strip()))
        if section and (
            next_is_underline if underlined and heads else heads and not underlined and not flush
        ):
            section = ""
        if not section:
            description.append(line)
        elif section in _PARAMETERS:
            pattern = _NUMPY if underlined else _GOOGLE
            found = None
            if line[margin : margin + 1].strip() and margin >= 0:
                found = re.match(pattern, line[margin:])
            if found:
                entry = [name.strip().lstrip("*") for name in found[1].split(",")]
                parameters.update((name, ["" if underlined else found[2]]) for name in entry)
            else:
                for name in entry:
                    parameters[name].append(line)
    joined = {name: " ".join(" ".join(texts).split()) for name, texts in parameters.items()}
    return "\n".join(description).strip(), {name: text for name, text in joined.items() if text}


def _has_body(title: str, lines: Sequence[str]) -> bool:
    """Return whether the lines below a header belong to it, because they are indented or are
    parameters."""
    first = next((line for line in lines if line.strip()), "")
    return first[:1] in ("", " ") or (title in _PARAMETERS and bool(re.match(_GOOGLE, first)))


def _is_underline(line: str) -> bool:
    return len(line) > 1 and line.strip("-=") == "" and len(set(line)) == 1


def _section_at(line: str, underlined: bool) -> str:
    """Return the name of the section that a line opens, or an empty string."""
    decorated = re.match(_DECORATION, line) if line[0] in "#*" else None
    name = (decorated[1] if decorated else line.rstrip(":")).strip().lower()
    return name if name in _SECTIONS and (decorated or underlined or line.endswith(":")) else ""


def is_field(default: Any) -> bool:
    """Return whether a default is the result of pydantic's ``Field(...)``."""
    return isinstance(default, getattr(sys.modules.get("pydantic.fields"), "FieldInfo", ()))
