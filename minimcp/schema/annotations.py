"""Annotations resolved alike on every Python: names, strings and ``X | Y`` on 3.9 too.

It evaluates text that the author of a function wrote, never anything that came from a peer.
"""

from __future__ import annotations

import sys
import typing
from typing import Any, Dict, Mapping, Optional


class Unresolved(TypeError):
    """An annotation names something that cannot be found, or is no expression.

    Args:
        text: The annotation as written.
        reason: Why it could not be resolved.
    """

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"the annotation {text!r} cannot be resolved: {reason}")


class Scope:
    """Where the names of an annotation are looked up, and what its type variables stand for.

    Args:
        globals_: The namespace of the module that it stands in.
        locals_: Names that go before those; None adds none.
        variables: Type variable to annotation, for the inside of a generic class.
    """

    __slots__ = ("globals", "locals", "variables")

    def __init__(
        self,
        globals_: Mapping[str, Any],
        locals_: Optional[Mapping[str, Any]] = None,
        variables: Optional[Mapping[Any, Any]] = None,
    ) -> None:
        self.globals: Dict[str, Any] = dict(globals_)
        self.locals: Dict[str, Any] = dict(locals_ or {})
        self.variables: Dict[Any, Any] = dict(variables or {})

    @classmethod
    def of_class(cls, owner: type, variables: Optional[Mapping[Any, Any]] = None) -> Scope:
        """The scope of the annotations in the body of `owner`: its module, its body, its own name."""
        module = sys.modules.get(owner.__module__)
        parameters = {each.__name__: each for each in getattr(owner, "__type_params__", ())}
        return cls(vars(module) if module else {}, {**vars(owner), **parameters, owner.__name__: owner}, variables)

    def resolve(self, annotation: Any) -> Any:
        """The annotation itself: strings and forward references are evaluated.

        Raises:
            Unresolved: A name in it is not known here, or it is no expression.
        """
        scope = self
        while isinstance(annotation, (str, typing.ForwardRef)):
            if isinstance(annotation, typing.ForwardRef):
                module = sys.modules.get(getattr(annotation, "__forward_module__", None) or "")
                scope = Scope({**self.globals, **vars(module)}, self.locals) if module else self
                annotation = annotation.__forward_arg__
            annotation = scope._evaluate(annotation)
        return annotation

    def _evaluate(self, text: str) -> Any:
        try:
            try:
                return eval(text, self.globals, self.locals)
            except TypeError:
                if "|" not in text:
                    raise
                return eval(_with_unions(text), {**self.globals, "__Union__": typing.Union}, self.locals)
        except NameError as error:
            reason = f"{error} (a name imported only under TYPE_CHECKING is not there at run time: import it always)"
            raise Unresolved(text, reason) from error
        except SyntaxError as error:
            raise Unresolved(text, f"it is no expression ({error.msg})") from error
        except Exception as error:
            raise Unresolved(text, f"{type(error).__name__}: {error}") from error


def _with_unions(text: str) -> Any:
    """Code for `text` in which ``X | Y`` is ``Union[X, Y]``: 3.9 has no ``|`` for types, no Python for strings."""
    import ast  # 3 ms, and seldom needed

    class Rewrite(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
            self.generic_visit(node)
            if not isinstance(node.op, ast.BitOr):
                return node
            both = ast.Tuple([node.left, node.right], ast.Load())
            return ast.Subscript(ast.Name("__Union__", ast.Load()), both, ast.Load())

    tree = Rewrite().visit(ast.parse(text.strip(), mode="eval"))
    return compile(ast.fix_missing_locations(tree), "<annotation>", "eval")


def substituted(annotation: Any, variables: Mapping[Any, Any]) -> Any:
    """`annotation` with the type variables in it replaced by what they stand for."""
    if isinstance(annotation, typing.TypeVar):
        return variables.get(annotation, annotation)
    inner = getattr(annotation, "__parameters__", ())
    if isinstance(annotation, type) or not inner:
        return annotation
    return annotation[tuple(variables.get(each, each) for each in inner)]
