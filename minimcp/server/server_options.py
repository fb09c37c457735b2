"""What the options of a `Server` take."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Sequence, Union

from ..protocol.messages import Json
from ..protocol.options import FLAG, ICONS, MAPPING, SEVERAL, TEXT, Option, count, never_none, seconds

SERVER_OPTIONS = {
    **dict.fromkeys(("title", "description", "website_url", "instructions"), TEXT),
    **dict.fromkeys(("version", "list_cache_scope"), never_none(TEXT)),
    **dict.fromkeys(("strict_version", "strict_arguments", "accept_batches", "mask_errors", "logging"), FLAG),
    "icons": ICONS,
    "check_replay": FLAG,
    "extensions": MAPPING,
    "capabilities": Option("a list of kinds, a mapping or None", lambda kinds: isinstance(kinds, Iterable)),
    "revisions": Option("a list of names or None", lambda names: isinstance(names, str) or SEVERAL.fits(names)),
    "state_keys": Option("a list of keys or None", lambda keys: isinstance(keys, (str, bytes)) or SEVERAL.fits(keys)),
    "page_size": count(1),
    "list_ttl": never_none(seconds()),
    "max_streams": count(0),
    "max_rounds": count(0)._replace(above=True),
    "ask_timeout": seconds(above=True),
}
"""What they take; limits and what concerns HTTP are checked where they are kept."""


def check_server(name: Any, misspelt: Mapping[str, Any], function: Any) -> None:
    """Refuse a name that is none, and options that there are not.

    Args:
        name: Of the server.
        misspelt: Options that there are not, by name.
        function: What takes the options.

    Raises:
        TypeError: The name is no text, or there is such an option.
        ValueError: The name is empty.
    """
    if misspelt:
        from ..schema.hints import refuse_options

        refuse_options("Server(...)", misspelt, function)
    if not isinstance(name, str):
        from .decorators import has_marks

        way = ": Server.of(...) takes the name of the object's class" if has_marks(type(name)) else ""
        raise TypeError(f"a server's name is text, not {name!r:.60}{way}")
    if not name:
        raise ValueError("the name of a server is not empty")


def check_run(given: Mapping[str, Any], handlers: Any, server: Any) -> None:
    """Refuse an option of `serve` that `Server.run` does not have.

    Args:
        given: By name.
        handlers: What is served.
        server: The class whose options these are.

    Raises:
        TypeError: There is one; the message says where it goes.
    """
    others = [name for name in given if name not in server.run.__kwdefaults__]
    if others and others[0] in server.__init__.__kwdefaults__:
        made = f"Server('name', {type(handlers).__name__}(...), {others[0]}=...)"
        raise TypeError(f"serve(...) has no option {others[0]}=, a server has it: {made}.run()")
    if others:
        from ..schema.hints import refuse_options

        refuse_options("serve(...)", others, server.run)


def scope(given: str) -> str:
    """Who may keep a list, if it is one of the words for it. Raises ValueError for another."""
    if given not in ("private", "public"):
        raise ValueError(f'list_cache_scope is "private" or "public", not {given!r}')
    return given


def states(name: str, keys: Optional[Sequence[bytes]], codec: Any, lifetime: Optional[float]) -> Any:
    """What makes the states, as the author wants it; None where that says nothing."""
    if keys is None and codec is None:
        return None
    from .state import states_of

    return states_of(name, keys, codec, lifetime=lifetime)


def announced(given: Union[Iterable[str], Mapping[str, Json], None]) -> Mapping[str, Json]:
    """Capabilities as an object, from their names or from one. Raises ValueError for a name that is none."""
    if isinstance(given, Mapping):
        return given
    unknown = set(given or ()) - {"tools", "resources", "prompts", "completions", "logging"}
    if unknown:
        raise ValueError(
            "capabilities are tools, resources, prompts, completions and logging, "
            f"not {', '.join(sorted(map(str, unknown)))}"
        )
    return {kind: {} for kind in given or ()}
