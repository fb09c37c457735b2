"""What many kinds of object carry: who made something, its icons, for whom it is meant."""

from __future__ import annotations

from typing import Any, Iterable, Literal, Optional, Union

from .base import Wire, check_unit, check_word, listed_or_none
from .kinds import NUMBER, ROLES, STRINGS, TEXT, Kind, many, needed, one, strings

Role = Literal["user", "assistant"]
"""Who speaks, or for whom something is meant."""


def _sizes(value: Any) -> list[str]:
    """A peer may send one string with the sizes in it, as an early draft had it."""
    return value.split() if isinstance(value, str) else strings(value)


class Annotations(Wire):
    """Hints for whoever shows or uses a block or a resource.

    Args:
        audience: For whom it is meant; None says nothing.
        priority: From 0 (may be left out) to 1 (is needed); None says nothing.
        last_modified: When it changed, as ISO 8601 text; None says nothing.

    Raises:
        ValueError: A role that does not exist, or a priority outside 0 to 1.
    """

    FIELDS = {"audience": STRINGS, "priority": NUMBER, "last_modified": TEXT}
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        audience: Optional[Iterable[Role]] = None,
        priority: Optional[float] = None,
        last_modified: Optional[str] = None,
    ) -> None:
        self.audience = listed_or_none(audience)
        self.priority = priority
        self.last_modified = last_modified
        self._start()
        for role in self.audience or ():
            check_word("Annotations", "audience", role, ROLES)
        check_unit("Annotations", "priority", priority)


ANNOTATIONS = one(Annotations.from_wire, Annotations)


class Icon(Wire):
    """A picture for a user interface. Untrusted: fetch only what `is_safe`, and look at what arrives.

    Args:
        src: An https or data URL.
        mime_type: Of the picture; None says nothing.
        sizes: Each as "48x48", or "any"; None means any size. One string with several is split.
        theme: The background it is made for, "light" or "dark"; None means both.

    Raises:
        ValueError: Another theme.
    """

    FIELDS = {
        "src": needed(TEXT),
        "mime_type": TEXT,
        "sizes": Kind("a list of strings", (list, str), (list,), each=(str,), read=_sizes),
        "theme": TEXT,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        src: str,
        mime_type: Optional[str] = None,
        sizes: Union[str, Iterable[str], None] = None,
        theme: Optional[Literal["light", "dark"]] = None,
    ) -> None:
        self.src = src
        self.mime_type = mime_type
        self.sizes = sizes.split() if isinstance(sizes, str) else listed_or_none(sizes)
        self.theme: Optional[str] = theme
        self._start()
        check_word("Icon", "theme", theme, ("light", "dark"))

    @property
    def is_safe(self) -> bool:
        """Whether the URL is one that may be shown at all: https, or data with an image in it."""
        return self.src[:8].lower() == "https://" or self.src[:11].lower() == "data:image/"


ICONS = many(Icon.from_wire, Icon)


class Implementation(Wire):
    """Who a client or a server is. For people and logs: nothing may depend on it.

    Args:
        name: For programs.
        version: In any form.
        title: For people; None means the name.
        description: What it is for.
        website_url: Where to read more.
        icons: Pictures of it.
    """

    FIELDS = {
        "name": needed(TEXT),
        "version": needed(TEXT),
        "title": TEXT,
        "description": TEXT,
        "website_url": TEXT,
        "icons": ICONS,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: Optional[str] = None,
        description: Optional[str] = None,
        website_url: Optional[str] = None,
        icons: Optional[Iterable[Icon]] = None,
    ) -> None:
        self.name = name
        self.version = version
        self.title = title
        self.description = description
        self.website_url = website_url
        self.icons = listed_or_none(icons)
        self._start()

    @classmethod
    def of_peer(cls, mapping: Any) -> Optional[Implementation]:
        """What a peer said about itself, as far as it can be read; None when there is not even a name."""
        try:
            return cls.from_wire(mapping)
        except ValueError:
            name = mapping.get("name") if isinstance(mapping, dict) else None
            version = mapping.get("version") if isinstance(mapping, dict) else None
            return cls(name, version if isinstance(version, str) else "") if isinstance(name, str) else None

    @property
    def display_name(self) -> str:
        """What to show: the title, else the name."""
        return self.title or self.name
