"""Names of a package that are imported when somebody first asks for them.

Who serves tools does not pay for prompts, nor a client for the server. Such a package has a table of its modules and
the names in each, and the same imports below ``if TYPE_CHECKING``, for whoever checks types.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Mapping


def late_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: Its ``__name__``.
        modules: From a module, as seen from the package ("features.context"), to names in it, parted by blanks; its own
            name stands for the module itself.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = f"{package}.{homes[name]}"
        try:
            home = __import__(module, fromlist=[name])
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise AttributeError(f"{name} is not in this copy of {package}, which holds the core alone") from None
        value = home if homes[name] == name else getattr(home, name)
        setattr(sys.modules[package], name, value)
        return value

    def known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, known
