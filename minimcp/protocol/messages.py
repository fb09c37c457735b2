"""JSON-RPC 2.0 messages, their codec, and the conversion between exceptions and error responses.

`decode` reads a line of bytes into a `Message` or an `InvalidMessage`. `encode` writes a message as
a line.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import json
import os
import re
import sys
from json.encoder import encode_basestring
from operator import index
from typing import Any, Iterator, NamedTuple, Optional, Union

from ..errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    KINDS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
    SERVER_CODES,
    URL_ELICITATION_REQUIRED,
    Cancelled,
    CapabilityNotSupported,
    InvalidParams,
    McpError,
    ResourceAccessDenied,
    ResourceNotFound,
    RpcError,
    ToolError,
    error_from_peer,
)
from ..log import logger
from ..text import describe
from .versions import Revision

log = logger("minimcp.protocol")

# A decoded JSON value: None, bool, int, float, str, list or dict.
Json = Any

# A JSON object: the params or the result of a request.
Result = dict[str, Json]

# The id of a request. ``1`` and ``"1"`` are different ids. True and 1.0 are not ids.
Id = Union[str, int]

# Maximum length of an invalid line that is decoded again to find out what is wrong with it.
DIAGNOSED_BYTES = 64 * 1024

# Matches the beginning of an encoded error response, up to its code.
ERROR_CODE = re.compile(
    rb'\{"jsonrpc":"2\.0",(?:"id":(?:-?\d+|"(?:[^"\\]|\\.)*"),)?"error":\{"code":(-?\d+)'
)

# Maximum length of a string id that is recognized in an invalid line, in characters.
MAX_ID = 200

# A widely read paraphrase of the specification has methods, levels and error codes that the
# specification does not have, and some peers follow it. Of these, this package accepts only the
# constants below. It accepts the method and the error codes only in revisions with a handshake.
PARAPHRASE_RESOURCE_NOT_FOUND = -32001
PARAPHRASE_TOOL_FAILED = -32003
PARAPHRASE_INVALID_ARGUMENTS = -32004
PARAPHRASE_ERRORS: dict[int, type[RpcError]] = {
    PARAPHRASE_INVALID_ARGUMENTS: InvalidParams,
    -32005: InvalidParams,  # unknown prompt
    -32006: CapabilityNotSupported,  # sampling
    -32007: CapabilityNotSupported,
}
PARAPHRASE_LEVELS = {"warn": "warning"}
PARAPHRASE_SHUTDOWN = "shutdown"

_SURROGATE = "[\ud800-\udfff]"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def is_id(value: Json) -> bool:
    """Return whether a value may be the id of a request: a string or an integer, but not a bool.

    A string with half of a surrogate pair is not an id, because it cannot be encoded again.
    """
    return type(value) is int or (
        type(value) is str and (value.isascii() or not re.search(_SURROGATE, value))
    )


# Functional syntax, because a class whose direct base is NamedTuple cannot define __new__.
class Request(NamedTuple("Request", [("id", Id), ("method", str), ("params", dict[str, Json])])):
    """A call, whose response is a `Response` or a `Failure`. Missing params are an empty dict.

    Raises:
        ValueError: The id is not a string or an integer, the method is not a non-empty str, or the
            params are not a dict.
    """

    __slots__ = ()

    def __new__(cls, id: Id, method: str, params: Optional[dict[str, Json]] = None) -> Request:
        if type(id) is not int and not is_id(id):
            raise ValueError(f"a request's id must be a string or an integer, not {id!r}")
        if not isinstance(method, str) or not method:
            raise ValueError(f"a method must be a non-empty str, not {method!r}")
        if params is not None and not isinstance(params, dict):
            raise ValueError(f"params must be an object, not {type(params).__name__}")
        return tuple.__new__(cls, (id, method, {} if params is None else params))


class Notification(NamedTuple("Notification", [("method", str), ("params", dict[str, Json])])):
    """A message without a response.

    Raises:
        ValueError: The method is not a non-empty str, or the params are not a dict.
    """

    __slots__ = ()

    def __new__(cls, method: str, params: Optional[dict[str, Json]] = None) -> Notification:
        return tuple.__new__(cls, Request(0, method, params)[1:])


class Response(NamedTuple("Response", [("id", Id), ("result", dict[str, Json])])):
    """The response with the result of a request.

    Raises:
        ValueError: The id is not a string or an integer, or the result is not a dict.
    """

    __slots__ = ()

    def __new__(cls, id: Id, result: dict[str, Json]) -> Response:
        if not is_id(id) or not isinstance(result, dict):
            raise ValueError("a response must have the request's id and an object as its result")
        return tuple.__new__(cls, (id, result))


class Failure(
    NamedTuple("Failure", [("id", Optional[Id]), ("code", int), ("message", str), ("data", Json)])
):
    """The error response to a request. The id is None if the id of the request is unreadable.

    Raises:
        ValueError: The id is not a string, an integer or None, the code is not an int, or the
            message is not a str.
    """

    __slots__ = ()

    def __new__(cls, id: Optional[Id], code: int, message: str, data: Json = None) -> Failure:
        if id is not None and not is_id(id):
            raise ValueError(f"an error's id must be a string, an integer or None, not {id!r}")
        if type(code) is not int or not isinstance(message, str):
            raise ValueError("an error must have an int as its code and a str as its message")
        return tuple.__new__(cls, (id, code, message, data))


Message = Union[Request, Notification, Response, Failure]


class InvalidMessage(NamedTuple):
    """The result of `decode` for input that is not a message.

    Args:
        code: The code of the error response.
        reason: The message of the error response.
        id: The id of the message, if it is readable, or None.
        kind: The likely kind of the message: "request", "notification", "response" or "unknown".
            Notifications and responses get no error response.
    """

    code: int
    reason: str
    id: Optional[Id] = None
    kind: str = "unknown"


Decoded = Union[Message, InvalidMessage, list[Union[Message, InvalidMessage]]]


# ---------------------------------------------------------------- decoding


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return a JSON object as a dict, and reject duplicate members.

    Two decoders could use different values for a duplicate member.
    """
    members = dict(pairs) if pairs else {}  # the second takes less memory
    if len(members) != len(pairs):
        raise ValueError("an object has a repeated member")
    return members


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise ValueError("a number is too large")
    return number


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


_strict: Any = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant
)


def decode(line: bytes, *, max_depth: Optional[int] = 256, exact: bool = False) -> Decoded:
    """Decode a line. Never raises.

    Args:
        line: UTF-8 bytes without the line feed.
        max_depth: Maximum nesting of arrays and objects; None means the limit of the interpreter.
        exact: Whether to reject two common errors of peers: null or ``[]`` instead of an empty
            result, and a null ``result`` or ``error`` beside the other of the two.

    Returns:
        A message, an `InvalidMessage`, or a list of these for an array.
    """
    try:
        value, end = _strict.scan_once(text := line.decode().strip(" \t\n\r"), 0)
    except (ValueError, RecursionError, StopIteration) as error:
        if len(line) <= DIAGNOSED_BYTES:
            return explain_decoding(line)
        # The line is too long to decode it again.
        if type(error) is ValueError:  # by a hook or the limit of digits: the text is JSON
            return guess_from_ends(line[:DIAGNOSED_BYTES], line[-DIAGNOSED_BYTES:], str(error))
        reason = "nested too deeply" if type(error) is RecursionError else "this is not JSON"
        return _unreadable(line, reason)
    if end < len(text):
        return InvalidMessage(
            PARSE_ERROR, f"this is not JSON: more text follows the value at character {end}"
        )
    if max_depth is not None and len(text) > 2 * max_depth and _is_deeper(value, max_depth, text):
        return _invalid(value, INVALID_REQUEST, f"nested deeper than {max_depth} levels")
    if type(value) is list:
        return [_message(item, exact) for item in value]
    return _message(value, exact)


def read_json(data: bytes, *, max_depth: int) -> Json:
    """Decode a JSON text by the rules of `decode`, and return its value.

    Args:
        data: UTF-8 bytes.
        max_depth: Maximum nesting of arrays and objects.

    Raises:
        ValueError: The text is not JSON, is nested too deeply, or has half of a surrogate pair.
        TypeError: The data is not bytes.
    """
    if not isinstance(data, bytes):
        raise TypeError(f"JSON must be bytes, not {type(data).__name__}")
    text = data.decode().strip(" \t\n\r")
    try:
        value, end = _strict.scan_once(text, 0)
    except (StopIteration, RecursionError):
        raise ValueError("this is not JSON, or it is nested too deeply") from None
    if end < len(text):
        raise ValueError(f"more text follows the JSON value at character {end}")
    if _is_deeper(value, max_depth, text):
        raise ValueError(f"the JSON is nested deeper than {max_depth} levels")
    if _SURROGATE_ESCAPE.search(text):
        json.dumps(value, ensure_ascii=False).encode()  # raises ValueError for half of a pair
    return value


def _message(value: Json, exact: bool = False) -> Union[Message, InvalidMessage]:
    """Return the message of a decoded value."""
    if type(value) is not dict:
        return InvalidMessage(INVALID_REQUEST, "a message must be an object")
    method = value.get("method")
    id = value.get("id")
    if value.get("jsonrpc") != "2.0":
        return _invalid(value, INVALID_REQUEST, 'a message must have "jsonrpc": "2.0"')
    if type(method) is str:
        params = value.get("params")
        if params is None:  # clients in some languages send null for a missing member
            params = {}
        if not method:
            return _invalid(value, INVALID_REQUEST, "a method must be a non-empty string")
        if type(params) is not dict:
            return _invalid(value, INVALID_PARAMS, "params must be an object")
        if "id" not in value:
            return tuple.__new__(Notification, (method, params))
        if type(id) is not int and not is_id(id):
            return _invalid(value, INVALID_REQUEST, "an id must be a string or an integer")
        return tuple.__new__(Request, (id, method, params))
    if type(id) is float and id.is_integer():
        id = int(id)  # languages with only one number type send 1.0 for 1
    has_result = "result" in value
    has_error = "error" in value
    if has_result and has_error and not exact:
        # In JSON-RPC 1.0, the other member is null. It counts as missing.
        has_result = value["result"] is not None
        has_error = value["error"] is not None
    if "method" in value or has_result is has_error:
        return _invalid(
            value,
            INVALID_REQUEST,
            "a message must have a method, a result or an error, and only one of them",
        )
    has_id = type(id) is int or is_id(id)
    if has_result:
        result = value["result"]
        if not exact and (result is None or result == []):
            result = {}  # peers in PHP, for example, send [] for an empty object
        if not has_id or type(result) is not dict:
            return _invalid(
                value, INVALID_REQUEST, "a result must be an object and have its request's id"
            )
        return tuple.__new__(Response, (id, result))
    error = value["error"]
    is_error = (
        type(error) is dict and type(error.get("code")) is int and type(error.get("message")) is str
    )
    if not is_error or not (id is None or has_id):
        return _invalid(
            value,
            INVALID_REQUEST,
            "an error must have an integer code, a message and its request's id",
        )
    return tuple.__new__(Failure, (id, error["code"], error["message"], error.get("data")))


def _invalid(value: Json, code: int, reason: str) -> InvalidMessage:
    """Describe a decoded value that is not a message, with its id and its likely kind."""
    if type(value) is not dict:
        return InvalidMessage(code, reason)
    id = value.get("id")
    if type(value.get("method")) is str:
        kind = "request" if "id" in value else "notification"
    elif "method" not in value and ("result" in value or "error" in value):
        kind = "response"
        if type(id) is float and id.is_integer():
            id = int(id)
    else:
        kind = "unknown"
    return InvalidMessage(code, reason, id if is_id(id) else None, kind)


def explain_decoding(line: bytes) -> InvalidMessage:
    """Decode an invalid line again, slowly, to find out what is wrong with it."""
    objects: list[list[tuple[str, Json]]] = []

    def keep(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        objects.append(pairs)
        return dict(pairs)

    try:
        value = json.loads(line.decode(), object_pairs_hook=keep, parse_constant=_no_constant)
    except UnicodeDecodeError:
        return _unreadable(line, "a message must be UTF-8")
    except RecursionError:
        return _unreadable(line, "nested too deeply")
    except ValueError as error:
        details = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        return _unreadable(line, f"this is not JSON{details}")
    if all(len(dict(pairs)) == len(pairs) for pairs in objects):
        # No member is there twice, so `_finite` is the hook of `_strict` that rejected the line.
        known = type(value) is dict and not value.keys().isdisjoint(("method", "result", "error"))
        return _invalid(
            value, INVALID_PARAMS if known else INVALID_REQUEST, "a number is too large"
        )
    if type(value) is dict and sum(name == "id" for name, _ in objects[-1]) > 1:
        value["id"] = None  # a response to one of the two ids could end another call
    return _invalid(value, INVALID_REQUEST, "an object has a repeated member")


def _unreadable(line: bytes, reason: str) -> InvalidMessage:
    """Describe a line that is not JSON.

    The result has an id only if the line is a response, so that the call can end.
    """
    likely = guess_from_ends(line[:DIAGNOSED_BYTES], line[-DIAGNOSED_BYTES:], reason)
    if likely.kind != "response" or _HUGE_ID.match(line):
        return InvalidMessage(PARSE_ERROR, reason)
    return likely._replace(code=PARSE_ERROR)


# Matches an integer id that is too long for any call. Newer patch releases of Python do not decode
# integers of more than 4,300 digits, but earlier ones do.
_HUGE_ID = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*-?\d{20,}\s*[,}]')

# With single quotes, too, because a program may print a Python dict instead of JSON.
_ANY_ID = re.compile(rf'["\']id["\']\s*:\s*(-?\d{{1,19}}(?![\w.])|"(?:[^"\\]|\\.){{0,{MAX_ID}}}")')
_ANY_METHOD = re.compile(r"""["']method["']\s*:\s*["']""")
_ANY_ENDING = re.compile(r"""["'](?:result|error)["']\s*:""")


def readable_ids(line: bytes) -> Iterator[Id]:
    """Yield the ids in an invalid line that looks like a response.

    A result may contain ids of other objects, so there may be several. The caller must not trust
    them if more than one is the id of a pending call. A line with a method is not a response, so it
    has none.
    """
    text = line.decode("utf-8", "replace")
    if _ANY_METHOD.search(text) or not _ANY_ENDING.search(text):
        return
    for found in _ANY_ID.finditer(text):
        id = _id_from(found[1])
        if id is not None:
            yield id


def _id_from(text: str) -> Optional[Id]:
    """Decode a JSON text. Return None if it is not an id."""
    try:
        id = json.loads(text)
    except ValueError:
        return None
    return id if is_id(id) else None


def size_of(value: Json, most: float = float("inf")) -> int:
    """Return the approximate memory of a decoded value in bytes. Stop counting above `most`."""
    size = 0
    pending = [value]
    while pending and size <= most:
        value = pending.pop()
        size += sys.getsizeof(value)
        if type(value) is list or type(value) is dict:
            pending += value
        if type(value) is dict:
            pending += value.values()
    return size


def _is_deeper(value: Json, limit: int, text: str) -> bool:
    """Return whether arrays and objects are nested deeper than `limit` in a value decoded from
    `text`."""
    # If the deepest place is in the first half of the text, all opening brackets around it are in
    # that half. Otherwise all closing brackets around it are in the second half.
    half = len(text) // 2
    opened = text.count("[", 0, half) + text.count("{", 0, half)
    closed = text.count("]", half) + text.count("}", half)
    if opened <= limit and closed <= limit:
        return False
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


_SCALAR = r'([-+.\w]+|"(?:[^"\\]|\\.)*")'
_FIRST_MEMBERS = (
    rf'\s*(?P<array>\[?)\s*\{{(?P<members>(?:\s*"\w+"\s*:\s*{_SCALAR}\s*,)*)\s*"(?P<name>\w+)"\s*:'
)
_MEMBER = rf'"(\w+)"\s*:\s*{_SCALAR}'
# Only one brace may follow the member. A member of a nested object would be followed by more.
_LAST_ID = rf',\s*"id"\s*:\s*{_SCALAR}\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}}\s*$'


def guess_from_ends(head: bytes, tail: bytes, reason: str) -> InvalidMessage:
    """Describe a line that was not decoded, from its beginning and its end. Never raises.

    The line was too long, or is not JSON. In the second case, it may be short. An id at either end
    is enough to end the call that the message responds to.

    Args:
        head: The beginning of the line.
        tail: The end of the line, which may overlap with the beginning.
        reason: The message of the error response.

    Returns:
        The description. It has an id only if exactly one id is at the top level of the message.
    """
    first = re.match(_FIRST_MEMBERS, head.decode("utf-8-sig", "replace"))
    last = re.search(_LAST_ID, tail.decode("utf-8", "replace"))
    if first is None:
        return InvalidMessage(INVALID_REQUEST, reason)
    members = re.findall(_MEMBER, first["members"])
    names = {first["name"], *(name for name, _ in members)}
    ids = {value for name, value in members if name == "id"}
    if last is not None:
        ids.add(last[1])
    id = _id_from(ids.pop()) if len(ids) == 1 and not first["array"] else None
    if names & {"result", "error"}:
        kind = "response"
    else:
        kind = "unknown" if id is None else "request"
    return InvalidMessage(INVALID_REQUEST, reason, id, kind)


# ---------------------------------------------------------------- encoding

_encoder = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


# A function that returns the pieces of a value's JSON. It is made once, because
# `JSONEncoder.encode` would make one for each value.
_encode: Any = getattr(json.encoder, "c_make_encoder", None)
if _encode is None:  # pragma: no cover - an interpreter without the encoder in C
    _encode = lambda value, _: [_encoder.encode(value)]  # noqa: E731
else:
    _encode = _encode(
        None, _encoder.default, encode_basestring, None, ":", ",", False, False, False
    )


def to_json(value: Json) -> str:
    """Encode a value as compact JSON on one line.

    Control characters are escaped, but other characters are not. U+0085, U+2028 and U+2029 are also
    escaped: they are not line ends in JSON, but widely used clients treat them as line ends. Half
    of a surrogate pair, which UTF-8 cannot encode, becomes U+FFFD.

    Raises:
        ValueError: The value contains NaN or Infinity, is nested too deeply, or contains itself.
        TypeError: JSON has no type for a value.
    """
    try:
        text = encode_basestring(value) if type(value) is str else "".join(_encode(value, 0))
    except RecursionError:
        raise ValueError("the value is nested too deeply, or contains itself") from None
    if text.isascii():
        return text
    for separator, escape in (("\u0085", r"\u0085"), ("\u2028", r"\u2028"), ("\u2029", r"\u2029")):
        text = text.replace(separator, escape)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Decoding UTF-16 joins two adjacent halves of a pair, and replaces a single half.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encode(message: Message, *, error_without_id: bool = True) -> bytes:
    """Encode a message as one line of UTF-8, with its line feed.

    Args:
        message: The message.
        error_without_id: Whether an error without an id omits the id. If False, the id is null.

    Raises:
        ValueError, TypeError: See `to_json`.
    """
    if isinstance(message, Response):
        return encode_result(message.id, to_json(message.result))
    wire: dict[str, Json] = {"jsonrpc": "2.0"}
    if not isinstance(message, Notification) and (message.id is not None or not error_without_id):
        wire["id"] = message.id
    if isinstance(message, Failure):
        wire["error"] = {"code": message.code, "message": message.message}
        if message.data is not None:
            wire["error"]["data"] = message.data
    else:
        wire["method"] = message.method
        if message.params:
            wire["params"] = message.params
    return (to_json(wire) + "\n").encode()


def encode_result(id: Id, result: Union[str, bytes]) -> bytes:
    """Encode a response whose result is JSON text."""
    written = str(id) if type(id) is int else to_json(id)
    if isinstance(result, bytes):  # a long list, which is copied only once
        return b"".join(
            (b'{"jsonrpc":"2.0","id":', written.encode(), b',"result":', result, b"}\n")
        )
    return f'{{"jsonrpc":"2.0","id":{written},"result":{result}}}\n'.encode()


def encode_progress(
    token: Id, done: float, total: Optional[float], message: Optional[str]
) -> bytes:
    """Encode a progress notification.

    This is faster than `encode`, because a tool may report progress very often.

    Raises:
        TypeError, ValueError: ``done`` or ``total`` is not a finite number, or ``message`` is not a
            str.
    """
    written = str(token) if type(token) is int else to_json(token)
    params = f'{{"progressToken":{written},"progress":{_number(done)}'
    if total is not None:
        params += f',"total":{_number(total)}'
    if message is not None:
        if not isinstance(message, str):
            raise TypeError(f"a progress message must be a str, not {type(message).__name__}")
        params += f',"message":{to_json(message)}'
    return f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}}}\n'.encode()


def _number(value: float) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"progress must be a number, not {type(value).__name__}")
    if hasattr(value, "__index__"):  # an IntEnum, or an integer of NumPy
        return int.__repr__(index(value))
    return to_json(float(value))


def encode_batch(lines: list[bytes]) -> bytes:
    """Join encoded messages into an array on one line."""
    return b"[" + b",".join(line.rstrip(b"\n") for line in lines) + b"]\n"


# ---------------------------------------------------------------- exceptions and error responses


def failure(id: Optional[Id], error: RpcError) -> Failure:
    """Return the error response for an error, with its own code."""
    return Failure(id, error.code, error.message, error.data)


def wire_failure(
    id: Optional[Id], error: BaseException, revision: Revision, method: str
) -> Failure:
    """Return the error response for an exception that ended a request.

    The message and the data of an `RpcError` are sent, with the code that the revision uses for it.
    Another exception may contain secrets, so it is logged under a reference, and only the reference
    is sent.
    """
    if isinstance(error, RpcError) and not error.from_peer:
        code = error.code if error.of_extension else _code_in(revision, error.code)
        return Failure(id, code, error.message, error.data)
    if isinstance(error, Cancelled):
        return Failure(id, INTERNAL_ERROR, "the request was cancelled")
    reference = os.urandom(4).hex()
    log.error("%s failed, reference %s: %s", method, reference, describe(error), exc_info=error)
    return Failure(id, INTERNAL_ERROR, f"Internal error (reference {reference})")


def _code_in(revision: Revision, code: int) -> int:
    if code == RESOURCE_NOT_FOUND:
        return revision.resource_missing
    if code == MISSING_CAPABILITY and revision.handshake:
        return METHOD_NOT_FOUND
    if code == URL_ELICITATION_REQUIRED:
        return code if revision.url_errors else INTERNAL_ERROR
    known = revision.handshake or code not in SERVER_CODES or code in KINDS
    return code if known else INTERNAL_ERROR


# Matches the message of an error for a resource that may not be read. Such an error has no code of
# its own, so only its message distinguishes it.
ACCESS_DENIED = "(?i)denied|forbidden"


def exception_of(failure: Failure, method: str, revision: Revision) -> McpError:
    """Return the exception for an error response, with its code, message and data.

    Args:
        failure: The error response.
        method: The method of the request.
        revision: The revision of the request.
    """
    code = failure.code
    reading = method == "resources/read"
    data = failure.data if isinstance(failure.data, dict) else {}
    kind: Optional[type[RpcError]] = None
    if revision.handshake:
        kind = PARAPHRASE_ERRORS.get(code)
        if reading and code == PARAPHRASE_RESOURCE_NOT_FOUND:
            kind = ResourceNotFound
    # Servers of the newest revision send -32602 in the older revisions, too.
    if code == RESOURCE_NOT_FOUND or (reading and code == INVALID_PARAMS and "uri" in data):
        kind = ResourceNotFound
        if re.search(ACCESS_DENIED, failure.message):
            kind = ResourceAccessDenied
    elif code == METHOD_NOT_FOUND:
        # In a revision without the capability, a server cannot declare that it has no completions.
        undeclarable = method == "completion/complete" and not revision.completions_capability
        kind = CapabilityNotSupported if undeclarable or "requiredCapabilities" in data else None
    error = error_from_peer(code, failure.message, failure.data, kind=kind)
    if revision.handshake and code == PARAPHRASE_TOOL_FAILED:
        failed = ToolError(failure.message)
        failed.__cause__ = error
        return failed
    return error
