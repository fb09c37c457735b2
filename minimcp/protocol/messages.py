"""JSON-RPC 2.0 as this protocol uses it: messages that cannot be built invalid, and the codec.

A line of bytes goes in, a `Message` or a `Broken` comes out; a message goes in, a line comes out. Nothing here
knows a method's name or a revision. https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Optional, Union

from ..errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RpcError

Json = Any
"""A decoded JSON value: None, bool, int, float, str, list or dict."""

Id = Union[str, int]
"""A request's id. ``1`` and ``"1"`` are two ids; True and 1.0 are none."""

_HALF = "[\ud800-\udfff]"


def is_id(value: Json) -> bool:
    """Whether a value may be a request's id: a string or an integer, no bool.

    A string with half of a surrogate pair is none: it could not be said again as it came.
    """
    return type(value) is int or (type(value) is str and (value.isascii() or not re.search(_HALF, value)))


# Fields with their types, not a class with annotations: those are text in this file, and each would be compiled.
_RequestFields = NamedTuple("_RequestFields", [("id", Id), ("method", str), ("params", dict[str, Json])])
_NotificationFields = NamedTuple("_NotificationFields", [("method", str), ("params", dict[str, Json])])
_ResponseFields = NamedTuple("_ResponseFields", [("id", Id), ("result", dict[str, Json])])
_FailureFields = NamedTuple(
    "_FailureFields", [("id", Optional[Id]), ("code", int), ("message", str), ("data", Json)]
)
_BrokenFields = NamedTuple("_BrokenFields", [("code", int), ("reason", str), ("id", Optional[Id]), ("kind", str)])


class Request(_RequestFields):
    """A call that wants an answer. Absent params are the same as empty ones.

    Raises:
        ValueError: The id is no string or integer, the method no text, or the params no object.
    """

    __slots__ = ()

    def __new__(cls, id: Id, method: str, params: Optional[dict[str, Json]] = None) -> Request:
        if not is_id(id):
            raise ValueError(f"a request's id is a string or an integer, not {id!r}")
        _check_method(method, params)
        return tuple.__new__(cls, (id, method, {} if params is None else params))


class Notification(_NotificationFields):
    """A message that nobody answers.

    Raises:
        ValueError: The method is no text, or the params no object.
    """

    __slots__ = ()

    def __new__(cls, method: str, params: Optional[dict[str, Json]] = None) -> Notification:
        _check_method(method, params)
        return tuple.__new__(cls, (method, {} if params is None else params))


class Response(_ResponseFields):
    """A call's result.

    Raises:
        ValueError: The id is no string or integer, or the result no object.
    """

    __slots__ = ()

    def __new__(cls, id: Id, result: dict[str, Json]) -> Response:
        if not is_id(id) or not isinstance(result, dict):
            raise ValueError("a response has the request's id and an object as its result")
        return tuple.__new__(cls, (id, result))


class Failure(_FailureFields):
    """A call's error; `id` is None where the request's id could not be read.

    Raises:
        ValueError: The id is no string or integer, the code no integer, or the message no text.
    """

    __slots__ = ()

    def __new__(cls, id: Optional[Id], code: int, message: str, data: Json = None) -> Failure:
        if id is not None and not is_id(id):
            raise ValueError(f"an error's id is a string, an integer or None, not {id!r}")
        if type(code) is not int or not isinstance(message, str):
            raise ValueError("an error has an integer code and a text")
        return tuple.__new__(cls, (id, code, message, data))


Message = Union[Request, Notification, Response, Failure]


class Broken(_BrokenFields):
    """What stands in the place of a message that is none.

    ``id`` is the id that could be read, else None. ``kind`` says what it seems to have been: "request", "notification"
    (which is never answered), "response" (likewise) or "unknown".
    """

    __slots__ = ()

    def __new__(cls, code: int, reason: str, id: Optional[Id] = None, kind: str = "unknown") -> Broken:
        return tuple.__new__(cls, (code, reason, id, kind))


Decoded = Union[Message, Broken, list[Union[Message, Broken]]]


def _check_method(method: Json, params: Json) -> None:
    if not isinstance(method, str) or not method:
        raise ValueError(f"a method is a text, not {method!r}")
    if params is not None and not isinstance(params, dict):
        raise ValueError(f"params is an object, not {type(params).__name__}")


# ---------------------------------------------------------------- decoding


class _Duplicate(ValueError):
    """An object names a member twice: two readers of it could disagree."""


class _NotFinite(ValueError):
    """A number too large to be one."""


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs) if pairs else {}  # an empty dict that is made of a list takes more room
    if len(members) != len(pairs):
        raise _Duplicate
    return members


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise _NotFinite
    return number


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


_strict = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)
_lenient = json.JSONDecoder(parse_constant=_no_constant)


def _may_be_deeper(text: str, limit: int) -> bool:
    """Whether there are brackets enough for more than `limit` levels; nearly always there are not.

    What surrounds the deepest place is opened before it and closed behind it: all of it is opened in the first half of
    the text if that place lies there, and closed in the second half if not.
    """
    if len(text) <= 2 * limit:
        return False
    half = len(text) // 2
    opened = text.count("[", 0, half) + text.count("{", 0, half)
    return opened > limit or text.count("]", half) + text.count("}", half) > limit


def _deeper_than(value: Json, limit: int) -> bool:
    """Whether arrays and objects nest deeper than `limit`; level by level."""
    level = [value]
    for _ in range(limit + 1):
        level = [item for item in level if type(item) is dict or type(item) is list]
        if not level:
            return False
        inside: list[Json] = []
        for item in level:
            inside += item.values() if type(item) is dict else item
        level = inside
    return True


def decode(line: bytes, *, max_depth: Optional[int] = 256) -> Decoded:
    """Read one line.

    Args:
        line: UTF-8, without its line feed.
        max_depth: How deep arrays and objects may nest; None sets no limit but Python's own.

    Returns:
        A message, a `Broken`, or a list of both for an array. Never raises, whatever the bytes are.
    """
    try:
        value, end = _strict.raw_decode(text := line.decode().strip(" \t\n\r"))
    except (ValueError, RecursionError):
        return _diagnose(line, max_depth)
    if end < len(text):
        return _diagnose(line, max_depth)
    if max_depth is not None and _may_be_deeper(text, max_depth) and _deeper_than(value, max_depth):
        return _broken(value, INVALID_REQUEST, f"nested deeper than {max_depth}")
    return [_message(item) for item in value] if type(value) is list else _message(value)


def _message(value: Json) -> Union[Message, Broken]:
    """The message that a decoded value is."""
    if type(value) is not dict:
        return Broken(INVALID_REQUEST, "a message is an object")
    method = value.get("method")
    if value.get("jsonrpc") != "2.0":
        return _broken(value, INVALID_REQUEST, 'a message has "jsonrpc": "2.0"')
    if type(method) is not str:
        return _answer(value)
    params = value.get("params", {})
    if not method:
        return _broken(value, INVALID_REQUEST, "a method is a non-empty string")
    if type(params) is not dict:
        return _broken(value, INVALID_PARAMS, "params is an object")
    if "id" not in value:
        return tuple.__new__(Notification, (method, params))
    id = value["id"]
    if type(id) is not int and not is_id(id):
        return _broken(value, INVALID_REQUEST, "an id is a string or an integer")
    return tuple.__new__(Request, (id, method, params))


def _answer(value: dict[str, Json]) -> Union[Message, Broken]:
    """The response or error that an object without a usable method is."""
    id, has_result, has_error = value.get("id"), "result" in value, "error" in value
    if "method" in value or has_result == has_error:
        return _broken(value, INVALID_REQUEST, "a message has a method, a result or an error, and one of them only")
    if has_result:
        if not is_id(id) or type(value["result"]) is not dict:
            return _broken(value, INVALID_REQUEST, "a result is an object and names its request's id")
        return tuple.__new__(Response, (id, value["result"]))
    error = value["error"]
    well_made = type(error) is dict and type(error.get("code")) is int and type(error.get("message")) is str
    if not well_made or not (id is None or is_id(id)):
        return _broken(value, INVALID_REQUEST, "an error has an integer code, a message and its request's id")
    return tuple.__new__(Failure, (id, error["code"], error["message"], error.get("data")))


def _broken(value: Json, code: int, reason: str) -> Broken:
    """What can still be said about an object that is no message."""
    if type(value) is not dict:
        return Broken(code, reason)
    id = value.get("id")
    readable = id if is_id(id) else None
    if type(value.get("method")) is str:
        kind = "request" if "id" in value else "notification"
    else:
        kind = "response" if "method" not in value and ("result" in value or "error" in value) else "unknown"
    return Broken(code, reason, readable, kind)


def _diagnose(line: bytes, max_depth: Optional[int]) -> Broken:
    """Why a line could not be read; slow, and only used for lines that could not."""
    try:
        text = line.decode()
        value = _lenient.decode(text)
    except UnicodeDecodeError:
        return Broken(PARSE_ERROR, "a message is UTF-8")
    except RecursionError:
        return Broken(PARSE_ERROR, "nested too deep")
    except ValueError as error:
        said = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        return Broken(PARSE_ERROR, f"this is no JSON{said}")
    if max_depth is not None and _deeper_than(value, max_depth):
        return _broken(value, INVALID_REQUEST, f"nested deeper than {max_depth}")
    try:
        return _ambiguous(text, value) or _broken(value, INVALID_PARAMS, "a number is too large")
    except RecursionError:  # with a hook, Python reads less deep than without
        return Broken(PARSE_ERROR, "nested too deep")


def _ambiguous(text: str, value: Json) -> Optional[Broken]:
    """The verdict on a text in which an object names a member twice; None when none does."""
    try:
        json.loads(text, object_pairs_hook=_unique)
    except _Duplicate:
        return _broken(_without_ambiguous_id(text, value), INVALID_REQUEST, "an object names a member twice")
    return None


def _without_ambiguous_id(text: str, value: Json) -> Json:
    """The same object with no usable id, if it names its id twice: answering either could end somebody else's call."""
    pairs = json.loads(text, object_pairs_hook=lambda pairs: pairs)
    if type(value) is dict and sum(1 for name, _ in pairs if name == "id") > 1:
        return {**value, "id": None}
    return value


# ---------------------------------------------------------------- encoding

_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
_SURROGATES = r"\\ud[89ab]..\\ud[c-f]..|(\\ud[89a-f]..)|\\."


def to_json(value: Json) -> str:
    """A value as compact JSON in ASCII: no line feed, no U+2028 and no half character can break a frame.

    Half a surrogate pair, which no strict reader takes, becomes U+FFFD.

    Raises:
        ValueError: NaN, Infinity, or nested too deep (or in a circle).
        TypeError: Something that JSON does not have.
    """
    try:
        text = _encoder.encode(value)
    except RecursionError:
        raise ValueError("nested too deep, or in a circle") from None
    if "\\ud" in text:
        text = re.sub(_SURROGATES, lambda match: "\\ufffd" if match.group(1) else match.group(0), text)
    return text


def encode(message: Message, *, error_without_id: bool = True) -> bytes:
    """A message as one line, its line feed included.

    Args:
        message: What to send.
        error_without_id: How an error without an id is written: True leaves the id out, False writes null.

    Raises:
        ValueError, TypeError: As `to_json`.
    """
    wire: dict[str, Json]
    if isinstance(message, Response):
        wire = {"jsonrpc": "2.0", "id": message.id, "result": message.result}
    elif isinstance(message, Request):
        wire = {"jsonrpc": "2.0", "id": message.id, "method": message.method}
        if message.params:
            wire["params"] = message.params
    elif isinstance(message, Notification):
        wire = {"jsonrpc": "2.0", "method": message.method}
        if message.params:
            wire["params"] = message.params
    else:
        wire = {"jsonrpc": "2.0"}
        if message.id is not None or not error_without_id:
            wire["id"] = message.id
        wire["error"] = {"code": message.code, "message": message.message}
        if message.data is not None:
            wire["error"]["data"] = message.data
    return (to_json(wire) + "\n").encode()


def encode_result(id: Id, result: str) -> bytes:
    """A response line made from a result that is JSON text already (a list that was serialized before)."""
    written = str(id) if type(id) is int else to_json(id)
    return f'{{"jsonrpc":"2.0","id":{written},"result":{result}}}\n'.encode()


def encode_batch(lines: list[bytes]) -> bytes:
    """Several encoded messages as one array on one line."""
    return b"[" + b",".join(line.rstrip(b"\n") for line in lines) + b"]\n"


def failure(id: Optional[Id], error: RpcError) -> Failure:
    """The message that tells a peer about an error."""
    return Failure(id, error.code, error.message, error.data)
