"""What one member of a wire object may hold, and how it is read and written.

A `Kind` stands in the table ``FIELDS`` of a class. It knows two sides: what may arrive from a peer, and
what an author may hand over. A peer's mistake is a ValueError, an author's mistake of type is a TypeError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Union

if TYPE_CHECKING:
    from .base import Wire

Json = dict[str, Any]
"""A JSON object as the codec gives and takes it."""

ROLES = ("user", "assistant")
_WORDS = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


class Absent:
    """The type of `ABSENT`; there is one object of it, and it is false."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT = Absent()
"""Says "no such member" where None is a value of its own (JSON null)."""


class Kind:
    """What one member may hold.

    Args:
        says: The same in words, for messages: "a string".
        wire: The JSON types that may arrive, exactly these (a boolean is no number).
        python: The types that an author may hand over.
        each: The types of the elements, if it is a list; None does not look at them.
        read: From what arrived to what the attribute holds; None keeps it as it is. ValueError refuses it.
        write: The way back; None keeps it as it is.
        blank: What the attribute holds when there is no such member; such a value is not written.
        needed: Whether the member must be there.
    """

    __slots__ = ("says", "wire", "python", "each", "read", "write", "blank", "needed", "nullable")

    def __init__(
        self,
        says: str,
        wire: tuple[type, ...],
        python: tuple[type, ...],
        *,
        each: Optional[tuple[type, ...]] = None,
        read: Optional[Callable[[Any], Any]] = None,
        write: Optional[Callable[[Any], Any]] = None,
        blank: Any = None,
        needed: bool = False,
    ) -> None:
        self.says, self.wire, self.python, self.each = says, wire, python, each
        self.read, self.write, self.blank, self.needed = read, write, blank, needed
        self.nullable = type(None) in wire

    def misfit(self, value: Any) -> Optional[str]:
        """The type of what an author may not hand over, None when all is well. True is no number."""
        found, elements = type(value).__name__, value
        if not isinstance(value, self.python) or (isinstance(value, bool) and bool not in self.python):
            return found
        if self.each is not None:
            for element in elements:
                if not isinstance(element, self.each):
                    return f"{found} holding {type(element).__name__}"
        return None


def json_type(value: Any) -> str:
    """The JSON type of a decoded value, in words."""
    return _WORDS.get(type(value), "a number")


def decode_base64(text: str) -> bytes:
    """Bytes from base64 with padding: the standard alphabet, or that for URLs, which servers of 2024 wrote.

    Raises:
        ValueError: There is another character in it, or both alphabets, or the padding is wrong.
    """
    if ("-" in text or "_" in text) and "+" not in text and "/" not in text:
        text = text.replace("-", "+").replace("_", "/")
    from binascii import a2b_base64

    decoded = a2b_base64(text)
    # The decoder skips characters that it does not know: then fewer bytes come out than the length promises.
    if len(text) % 4 or len(decoded) != len(text) // 4 * 3 - text[-2:].count("="):
        raise ValueError("not standard base64 with padding")
    return decoded


def as_bytes(data: Union[bytes, bytearray, memoryview]) -> bytes:
    """Bytes that nobody changes any more; what is none of the three stays as it is, to be refused."""
    return bytes(data) if isinstance(data, (bytearray, memoryview)) else data


def encode_base64(data: bytes) -> str:
    """Standard base64 with padding, on one line."""
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode("ascii")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def strings(value: list[Any]) -> list[str]:
    """The list itself.

    Raises:
        ValueError: It holds something that is no string.
    """
    for item in value:
        if type(item) is not str:
            raise ValueError(f"must hold strings, not {json_type(item)}")
    return value


def _role(value: str) -> str:
    if value not in ROLES:
        raise ValueError('must be "user" or "assistant"')
    return value


_JSON = (str, int, float, bool, list, dict)

TEXT = Kind("a string", (str,), (str,))
FLAG = Kind("true or false", (bool,), (bool,))
NUMBER = Kind("a number", (int, float), (int, float))
WHOLE = Kind("a whole number", (int, float), (int,), read=_whole)
OBJECT = Kind("an object", (dict,), (dict,))
STRINGS = Kind("a list of strings", (list,), (list,), each=(str,), read=strings)
DATA = Kind("base64 text", (str,), (bytes,), read=decode_base64, write=encode_base64)
TOKEN = Kind("a string or a whole number", (str, int), (str, int))
ROLE = Kind("a string", (str,), (str,), read=_role)
ANY = Kind("a JSON value", (*_JSON, type(None)), (*_JSON, tuple, type(None)))


def needed(kind: Kind) -> Kind:
    """The same kind for a member that must be there."""
    return _changed(kind, ABSENT, True)


def blank(kind: Kind, value: Any) -> Kind:
    """The same kind for a member that means `value` when it is not there."""
    return _changed(kind, value, False)


def _changed(kind: Kind, value: Any, must: bool) -> Kind:
    return Kind(
        kind.says,
        kind.wire,
        kind.python,
        each=kind.each,
        read=kind.read,
        write=kind.write,
        blank=value,
        needed=must,
    )


def _write(value: Wire) -> Json:
    return value.to_wire()


def _write_all(values: list[Wire]) -> list[Json]:
    return [value.to_wire() for value in values]


def _names(classes: tuple[type[Wire], ...]) -> str:
    return " or ".join(made.__name__ for made in classes)


def one(read: Callable[[Any], Wire], *classes: type[Wire]) -> Kind:
    """A member that holds an object of one of these classes, made by `read`."""
    return Kind(f"an object ({_names(classes)})", (dict,), classes, read=read, write=_write)


def many(read: Callable[[Any], Wire], *classes: type[Wire]) -> Kind:
    """A member that holds a list of objects of these classes, each made by `read`."""

    def read_all(values: list[Any]) -> list[Wire]:
        return [read(value) for value in values]

    says = f"a list ({_names(classes)})"
    return Kind(says, (list,), (list,), each=classes, read=read_all, write=_write_all)
