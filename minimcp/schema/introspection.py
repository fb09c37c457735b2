"""What functions and classes say about themselves: annotations, evaluated alike on every Python,
fields, docstrings.

Annotations are evaluated here and not by `typing.get_type_hints`, which knows no ``X | Y`` on 3.9,
leaves recursive names as they are, and refuses what is no type with a message that does not say
what to write instead.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import typing
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from .kinds import Field, Kind
from .mismatch import NOTHING

# ------------------------------------------------------------ annotations


class Scope(NamedTuple):
    """Where the names of an annotation are looked up, and what its type variables stand for.

    It evaluates text that the author of a function wrote, never anything that a peer sent.
    """

    names: Mapping[str, Any] = vars(typing)
    variables: Mapping[Any, Any] = {}

    @classmethod
    def of_class(cls, owner: type, variables: Mapping[Any, Any]) -> Scope:
        """The scope of the annotations in the body of `owner`: its module, its body, its own
        name."""
        parameters = {each.__name__: each for each in getattr(owner, "__type_params__", ())}
        names = {**names_of(owner.__module__), **vars(owner), **parameters, owner.__name__: owner}
        return cls(names, variables)

    def resolve(self, annotation: Any) -> Any:
        """The annotation; strings and forward references are evaluated.

        Raises:
            TypeError: A name in it is not known here, or it is no expression.
        """
        names = dict(self.names)
        while isinstance(annotation, (str, typing.ForwardRef)):
            if isinstance(annotation, typing.ForwardRef):
                names.update(names_of(getattr(annotation, "__forward_module__", None) or ""))
                annotation = annotation.__forward_arg__
            annotation = _evaluated(annotation, names)
        return annotation

    def resolved(self, annotation: Any) -> Any:
        """The annotation, without names and type variables that have no meaning outside of this
        scope."""
        annotation = self.resolve(annotation)
        if isinstance(annotation, typing.TypeVar):
            return self.variables.get(annotation, annotation)
        inner = getattr(annotation, "__parameters__", ())
        if isinstance(annotation, type) or not inner:
            return annotation
        return annotation[tuple(self.variables.get(each, each) for each in inner)]


def names_of(module: str) -> dict[str, Any]:
    """The names of a module, empty when there is none."""
    return vars(sys.modules[module]) if module in sys.modules else {}


# Types of Python that annotations are made of, and whose names tools like to have.
HIDEABLE = ("bool", "dict", "float", "int", "list", "set", "str", "tuple", "type")


def hidden_by(name: str) -> str:
    """What to write where a function has taken the name of one of Python's types from
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
        hint = (
            " (a name imported only under TYPE_CHECKING is not there at run time: import it always)"
        )
        if not isinstance(error, NameError):
            hidden = [
                name for name in re.findall(r"\w+", text) if name in HIDEABLE and name in names
            ]
            hint = f" ({hidden_by(hidden[0])})" if hidden else ""
        reason = f"{type(error).__name__}: {error}{hint}"
        raise TypeError(f"the annotation {text!r} cannot be resolved: {reason}") from error


class _UnionOfBars(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.BitOr):
            return node
        both = ast.Tuple([node.left, node.right], ast.Load())
        return ast.Subscript(ast.Name("__Union__", ast.Load()), both, ast.Load())


def _with_unions(text: str) -> Any:
    """Code for `text` in which ``X | Y`` is ``Union[X, Y]``: 3.9 has no ``|`` for types, no Python
    for strings."""
    tree = _UnionOfBars().visit(ast.parse(text.strip(), mode="eval"))
    return compile(ast.fix_missing_locations(tree), "<annotation>", "eval")


def annotations_of(cls: type) -> Mapping[str, Any]:
    """The annotations of a class's own body, as they are written; names in them need not be known
    yet."""
    if cls is type:
        return {}  # what it has under this name is no mapping
    if sys.version_info >= (3, 14):
        import annotationlib

        return annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    return typing.cast("Mapping[str, Any]", vars(cls).get("__annotations__", {}))


def signature_of(function: Any) -> inspect.Signature:
    """The signature of a function or class, as it is written; names in its annotations need not be
    known yet."""
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def is_union(annotation: Any) -> bool:
    """Whether it is a `Union`, an `Optional` or ``X | Y``."""
    origin = typing.get_origin(annotation)
    return origin is Union or getattr(origin, "__name__", "") == "UnionType"


# ------------------------------------------------------------ classes with fields


def fields_of(cls: Any, kind_of: Callable[..., Kind]) -> Optional[list[Field]]:
    """The fields of a TypedDict, a NamedTuple, a dataclass or a class of attrs; None for any other
    class.

    Args:
        cls: The class.
        kind_of: Makes the kind of a field from its name in Python, its default for the schema
            (`NOTHING` when there is none that a schema can show), the type that it has where the
            class body does not say it, and a description.
    """
    if hasattr(cls, "__required_keys__"):
        needed = (
            cls.__required_keys__
        )  # it has not seen Required where annotations are text; the kind has
        kinds = [(name, kind_of(name)) for name in annotations_of(cls)]
        said = [name in needed if kind.required is None else kind.required for name, kind in kinds]
        return [Field(name, required, kind, name) for (name, kind), required in zip(kinds, said)]
    if hasattr(cls, "_field_defaults"):
        known = cls._field_defaults
        return [
            Field(name, name not in known, kind_of(name, known.get(name, NOTHING)), name)
            for name in cls._fields
        ]
    declared = getattr(cls, "__attrs_attrs__", None)
    if declared is None and not dataclasses.is_dataclass(cls):
        return None
    found = []
    missing, attr = dataclasses.MISSING, sys.modules.get("attr")
    for each in dataclasses.fields(cls) if declared is None else declared:
        default = missing if each.default is getattr(attr, "NOTHING", missing) else each.default
        factory = getattr(default, "factory", getattr(each, "default_factory", missing))
        bare = default is missing and factory is missing
        shown = (
            factory()
            if factory in (list, dict, set)
            else NOTHING
            if bare or factory is not missing
            else default
        )
        kind = kind_of(each.name, shown, each.type or Any, each.metadata.get("description", ""))
        found.append(
            Field(getattr(each, "alias", each.name), bare and each.init, kind, each.name, each.init)
        )
    return found


def variables_of(cls: Any, arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """What the type variables of a class and of its bases stand for."""
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
# Patterns are texts here, which `re` compiles when they are first used: most docstrings need none.
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


def read_docstring(text: Any) -> tuple[str, dict[str, str]]:
    """The description, and the text of each parameter, of a docstring in Google's, NumPy's or
    Sphinx's style.

    Args:
        text: As it stands in the source. An empty one, None and what is not a string, such as the
            descriptor of a class that makes its own, give nothing.
    """
    text = text if isinstance(text, str) else ""
    lines = inspect.cleandoc(text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    section, underlined, margin = "", False, -1
    entry: list[str] = []  # the names that the line before told about
    is_sphinx, is_code = False, False
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
            title = section = ""  # the model reads the header and what stands below it
        if title:
            section, underlined, margin, entry = title, next_is_underline and not found, -1, []
            # prose may go on at the margin, a type does not
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
            found = (
                re.match(pattern, line[margin:])
                if line[margin : margin + 1].strip() and margin >= 0
                else None
            )
            if found:
                entry = [name.strip().lstrip("*") for name in found[1].split(",")]
                parameters.update((name, ["" if underlined else found[2]]) for name in entry)
            else:
                for name in entry:
                    parameters[name].append(line)
    joined = {name: " ".join(" ".join(texts).split()) for name, texts in parameters.items()}
    return "\n".join(description).strip(), {name: text for name, text in joined.items() if text}


def _has_body(title: str, lines: Sequence[str]) -> bool:
    """Whether the lines below a header belong to it: they are indented, or they are parameters."""
    first = next((line for line in lines if line.strip()), "")
    return first[:1] in ("", " ") or (title in _PARAMETERS and bool(re.match(_GOOGLE, first)))


def _is_underline(line: str) -> bool:
    return len(line) > 1 and line.strip("-=") == "" and len(set(line)) == 1


def _section_at(line: str, underlined: bool) -> str:
    """The name of the section that a line opens; empty when it opens none."""
    decorated = re.match(_DECORATION, line) if line[0] in "#*" else None
    name = (decorated[1] if decorated else line.rstrip(":")).strip().lower()
    return name if name in _SECTIONS and (decorated or underlined or line.endswith(":")) else ""


def is_field(default: Any) -> bool:
    """Return whether a default is the result of pydantic's ``Field(...)``."""
    return any(
        each.__name__ == "FieldInfo" and each.__module__ == "pydantic.fields"
        for each in type(default).__mro__
    )
