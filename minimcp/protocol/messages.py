"""JSON-RPC 2.0 as this protocol uses it: messages, their codec, and the translation of errors to
and from the wire.

`decode` reads a line of bytes into a `Message` or an `InvalidMessage`; `encode` writes a message as
a line. https://modelcontextprotocol.io/specification/2026-07-28/basic
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

# A request's id. ``1`` and ``"1"`` are two ids; True and 1.0 are none.
Id = Union[str, int]

# Why a line could not be read is looked for where that is cheap: in the lines that are not longer.
DIAGNOSED_BYTES = 64 * 1024

# The beginning of a line that is an error, as `encode` writes it, up to its code.
ERROR_CODE = rb'\{"jsonrpc":"2\.0",(?:"id":(?:-?\d+|"(?:[^"\\]|\\.)*"),)?"error":\{"code":(-?\d+)'

# Characters of an id of text that is looked for in a line that cannot be read.
MAX_ID = 200

# A widely read paraphrase of the specification names methods, levels and error codes that the
# specification does not have, and some peers were written after it. All of them are in this table.
# They are accepted in the revisions with a handshake.
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
    """Whether a value may be a request's id: a string or an integer, no bool.

    A string with half of a surrogate pair is none: it could not be sent back as it came.
    """
    return type(value) is int or (
        type(value) is str and (value.isascii() or not re.search(_SURROGATE, value))
    )


# Functional syntax, since a class with NamedTuple as its direct base cannot define __new__.
class Request(NamedTuple("Request", [("id", Id), ("method", str), ("params", dict[str, Json])])):
    """A call that is answered by a `Response` or a `Failure`. Params that are left out are the same
    as empty ones.

    Raises:
        ValueError: The id is no string or integer, the method no text, or the params no object.
    """

    __slots__ = ()

    def __new__(cls, id: Id, method: str, params: Optional[dict[str, Json]] = None) -> Request:
        if type(id) is not int and not is_id(id):
            raise ValueError(f"a request's id is a string or an integer, not {id!r}")
        if not isinstance(method, str) or not method:
            raise ValueError(f"a method is a text, not {method!r}")
        if params is not None and not isinstance(params, dict):
            raise ValueError(f"params is an object, not {type(params).__name__}")
        return tuple.__new__(cls, (id, method, {} if params is None else params))


class Notification(NamedTuple("Notification", [("method", str), ("params", dict[str, Json])])):
    """A message that is not answered.

    Raises:
        ValueError: The method is no text, or the params no object.
    """

    __slots__ = ()

    def __new__(cls, method: str, params: Optional[dict[str, Json]] = None) -> Notification:
        return tuple.__new__(cls, Request(0, method, params)[1:])


class Response(NamedTuple("Response", [("id", Id), ("result", dict[str, Json])])):
    """The result of a request.

    Raises:
        ValueError: The id is no string or integer, or the result no object.
    """

    __slots__ = ()

    def __new__(cls, id: Id, result: dict[str, Json]) -> Response:
        if not is_id(id) or not isinstance(result, dict):
            raise ValueError("a response has the request's id and an object as its result")
        return tuple.__new__(cls, (id, result))


class Failure(
    NamedTuple("Failure", [("id", Optional[Id]), ("code", int), ("message", str), ("data", Json)])
):
    """The error response to a request; `id` is None where the request's id could not be read.

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


class InvalidMessage(NamedTuple):
    """What `decode` returns for input that is no message.

    ``code`` and ``reason`` are the error to answer with. ``id`` is the id that could be read, else
    None. ``kind`` says what it seems to have been: "request", "notification" or "response" (neither
    is answered), or "unknown".
    """

    code: int
    reason: str
    id: Optional[Id] = None
    kind: str = "unknown"


Decoded = Union[Message, InvalidMessage, list[Union[Message, InvalidMessage]]]


# ---------------------------------------------------------------- decoding


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """The members of an object, none of which may be named twice: two readers of it could
    disagree."""
    # A comprehension, because an empty dict made by `dict` takes more memory.
    members = {name: value for name, value in pairs}  # noqa: C416
    if len(members) != len(pairs):
        raise ValueError("an object names a member twice")
    return members


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise ValueError("a number is too large")
    return number


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


_strict: Any = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant
)


def decode(line: bytes, *, max_depth: Optional[int] = 256, exact: bool = False) -> Decoded:
    """Read one line.

    Args:
        line: UTF-8, without its line feed.
        max_depth: How deep arrays and objects may nest; None sets no limit but Python's own.
        exact: True rejects what peers are forgiven: null or ``[]`` for an empty result, and null
            beside a result or an error.

    Returns:
        A message, an `InvalidMessage`, or a list of both for an array. Never raises, whatever the
        bytes are.
    """
    try:
        value, end = _strict.scan_once(text := line.decode().strip(" \t\n\r"), 0)
    except (ValueError, RecursionError, StopIteration) as error:
        if len(line) <= DIAGNOSED_BYTES:
            return _diagnose(line)
        if type(error) is ValueError:
            return diagnose_long(line[:DIAGNOSED_BYTES], line[-DIAGNOSED_BYTES:], str(error))
        reason = "nested too deep" if type(error) is RecursionError else "this is no JSON"
        return _unreadable(line, reason)
    if end < len(text):
        return InvalidMessage(
            PARSE_ERROR, f"this is no JSON: there is more after its end, at character {end}"
        )
    if max_depth is not None and len(text) > 2 * max_depth and _is_deeper(value, max_depth, text):
        return _invalid(value, INVALID_REQUEST, f"nested deeper than {max_depth}")
    if type(value) is list:
        return [_message(item, exact) for item in value]
    return _message(value, exact)


def read_json(data: bytes, *, max_depth: int) -> Json:
    """Return the value of a JSON text, as strictly as `decode` reads a line.

    Args:
        data: UTF-8.
        max_depth: How deep arrays and objects may nest.

    Raises:
        ValueError: The text is not JSON, nests deeper, or has half of a surrogate pair.
        TypeError: The data is not bytes.
    """
    if not isinstance(data, bytes):
        raise TypeError(f"JSON is read from bytes, not {type(data).__name__}")
    text = data.decode().strip(" \t\n\r")
    try:
        value, end = _strict.scan_once(text, 0)
    except (StopIteration, RecursionError):
        raise ValueError("this is not JSON, or it nests too deep") from None
    if end < len(text):
        raise ValueError(f"more follows the JSON, at character {end}")
    if _is_deeper(value, max_depth, text):
        raise ValueError(f"the JSON nests deeper than {max_depth}")
    if _SURROGATE_ESCAPE.search(text):
        json.dumps(value, ensure_ascii=False).encode()  # raises ValueError for half of a pair
    return value


def _message(value: Json, exact: bool = False) -> Union[Message, InvalidMessage]:
    """The message that a decoded value is."""
    if type(value) is not dict:
        return InvalidMessage(INVALID_REQUEST, "a message is an object")
    method, id = value.get("method"), value.get("id")
    if value.get("jsonrpc") != "2.0":
        return _invalid(value, INVALID_REQUEST, 'a message has "jsonrpc": "2.0"')
    if type(method) is str:
        params = value.get("params")
        if (
            params is None
        ):  # null stands for an absent member, as in the clients of several languages
            params = {}
        if not method:
            return _invalid(value, INVALID_REQUEST, "a method is a non-empty string")
        if type(params) is not dict:
            return _invalid(value, INVALID_PARAMS, "params is an object")
        if "id" not in value:
            return tuple.__new__(Notification, (method, params))
        if type(id) is not int and not is_id(id):
            return _invalid(value, INVALID_REQUEST, "an id is a string or an integer")
        return tuple.__new__(Request, (id, method, params))
    if type(id) is float and id.is_integer():
        id = int(id)  # languages with one kind of number write 1.0 for 1
    has_result, has_error = "result" in value, "error" in value
    if (
        has_result and has_error and not exact
    ):  # one of them is null, as in JSON-RPC 1.0: it counts as absent
        has_result, has_error = value["result"] is not None, value["error"] is not None
    if "method" in value or has_result is has_error:
        return _invalid(
            value,
            INVALID_REQUEST,
            "a message has a method, a result or an error, and one of them only",
        )
    has_id = type(id) is int or is_id(id)
    if has_result:
        result = value["result"]
        if not exact and (
            result is None or result == []
        ):  # some peers, such as those in PHP, write {} so
            result = {}
        if not has_id or type(result) is not dict:
            return _invalid(
                value, INVALID_REQUEST, "a result is an object and names its request's id"
            )
        return tuple.__new__(Response, (id, result))
    error = value["error"]
    well_made = (
        type(error) is dict and type(error.get("code")) is int and type(error.get("message")) is str
    )
    if not well_made or not (id is None or has_id):
        return _invalid(
            value, INVALID_REQUEST, "an error has an integer code, a message and its request's id"
        )
    return tuple.__new__(Failure, (id, error["code"], error["message"], error.get("data")))


def _invalid(value: Json, code: int, reason: str) -> InvalidMessage:
    """What can still be said about a value that is no message."""
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


def _diagnose(line: bytes) -> InvalidMessage:
    """Why a line could not be read. Slow, and only used for lines that could not."""
    objects: list[list[tuple[str, Json]]] = []

    def keep(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        objects.append(pairs)
        return dict(pairs)

    try:
        value = json.loads(line.decode(), object_pairs_hook=keep, parse_constant=_no_constant)
    except UnicodeDecodeError:
        return _unreadable(line, "a message is UTF-8")
    except RecursionError:
        return _unreadable(line, "nested too deep")
    except ValueError as error:
        details = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        return _unreadable(line, f"this is no JSON{details}")
    if all(len(dict(pairs)) == len(pairs) for pairs in objects):
        known = type(value) is dict and not value.keys().isdisjoint(("method", "result", "error"))
        return _invalid(
            value, INVALID_PARAMS if known else INVALID_REQUEST, "a number is too large"
        )
    if type(value) is dict and sum(name == "id" for name, _ in objects[-1]) > 1:
        value["id"] = None  # to answer either of its ids could end another call
    return _invalid(value, INVALID_REQUEST, "an object names a member twice")


def _unreadable(line: bytes, reason: str) -> InvalidMessage:
    """Describe a line that is not JSON. A response has its id, so that the call that it answers can
    end; a request is answered without one."""
    seems = diagnose_long(line[:DIAGNOSED_BYTES], line[-DIAGNOSED_BYTES:], reason)
    if seems.kind != "response" or _HUGE_ID.match(line):
        return InvalidMessage(PARSE_ERROR, reason)
    return seems._replace(code=PARSE_ERROR)


# An id of so many digits is not the id of any call. Python 3.11 and later do not read integers of
# more than 4,300 digits; earlier versions do, and find that no call has this id.
_HUGE_ID = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*-?\d{20,}\s*[,}]')

# A program that prints a dict instead of JSON writes single quotes.
_ANY_ID = re.compile(rf'["\']id["\']\s*:\s*(-?\d{{1,19}}(?![\w.])|"(?:[^"\\]|\\.){{0,{MAX_ID}}}")')
_ANY_METHOD = re.compile(r"""["']method["']\s*:\s*["']""")
_ANY_ENDING = re.compile(r"""["'](?:result|error)["']\s*:""")


def readable_ids(line: bytes) -> Iterator[Id]:
    """Yield the ids in a line that looks like a response but is not one.

    There may be several: ids of other things stand inside of results. So the caller may trust one
    of them only if it is the only one that a call of its own has. A line with a method is a request
    or a notification, maybe one that was printed, and has none.
    """
    text = line.decode("utf-8", "replace")
    if _ANY_METHOD.search(text) or not _ANY_ENDING.search(text):
        return
    for found in _ANY_ID.finditer(text):
        id = _id_from(found[1])
        if id is not None:
            yield id


def _id_from(text: str) -> Optional[Id]:
    """Return the id that a piece of JSON is, or None if it is not one."""
    try:
        id = json.loads(text)
    except ValueError:
        return None
    return id if is_id(id) else None


def size_of(value: Json, most: float = float("inf")) -> int:
    """About how many bytes of memory a decoded value takes. Counting ends above `most`, and is
    linear before."""
    size, waiting = 0, [value]
    while waiting and size <= most:
        value = waiting.pop()
        size += sys.getsizeof(value)
        if type(value) is list or type(value) is dict:
            waiting += value
        if type(value) is dict:
            waiting += value.values()
    return size


def _is_deeper(value: Json, limit: int, text: str) -> bool:
    """Whether arrays and objects nest deeper than `limit`, in a value that was read from a text."""
    half = len(text) // 2  # all round the deepest place is opened before it or closed behind it
    opened = text.count("[", 0, half) + text.count("{", 0, half)
    if opened <= limit and text.count("]", half) + text.count("}", half) <= limit:
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
# A member before the one brace that ends the line is the message's own: what is nested ends with
# more of them.
_LAST_ID = rf',\s*"id"\s*:\s*{_SCALAR}\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}}\s*$'


def diagnose_long(head: bytes, tail: bytes, reason: str) -> InvalidMessage:
    """What the message of a line that is too long seems to have been, from its two ends.

    Some peers write the id first, others last. Either is enough to end the one call that the
    message belongs to.

    Args:
        head: The beginning of the line.
        tail: The end of it; the two may overlap.
        reason: What is wrong with it.

    Returns:
        An id only where the line has one at the top level, and no other. Never raises.
    """
    first = re.match(_FIRST_MEMBERS, head.decode("utf-8-sig", "replace"))
    last = re.search(_LAST_ID, tail.decode("utf-8", "replace"))
    if first is None:
        return InvalidMessage(INVALID_REQUEST, reason)
    members = re.findall(_MEMBER, first["members"])
    names = {first["name"], *(name for name, _ in members)}
    ids = {value for name, value in members if name == "id"} | ({last[1]} if last else set())
    id = _id_from(ids.pop()) if len(ids) == 1 and not first["array"] else None
    kind = "unknown" if id is None else "request"
    return InvalidMessage(
        INVALID_REQUEST, reason, id, "response" if names & {"result", "error"} else kind
    )


# ---------------------------------------------------------------- encoding

_encoder = json.JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


def to_json(value: Json) -> str:
    """A value as compact JSON on one line, whose text is not escaped but for what would break a
    frame.

    Line feeds and other control characters are always escaped. U+0085, U+2028 and U+2029 are no
    line ends in JSON, in a line over stdio or in an event stream; they are escaped all the same,
    because widely used clients take them for such. Half of a surrogate pair, which UTF-8 cannot
    hold, becomes U+FFFD.

    Raises:
        ValueError: NaN, Infinity, or nested too deep (or in a circle).
        TypeError: Something that JSON does not have.
    """
    try:
        text = encode_basestring(value) if type(value) is str else _encoder.encode(value)
    except RecursionError:
        raise ValueError("nested too deep, or in a circle") from None
    if text.isascii():
        return text
    for separator, escape in (("\u0085", r"\u0085"), ("\u2028", r"\u2028"), ("\u2029", r"\u2029")):
        text = text.replace(separator, escape)
    try:
        text.encode()
    except (
        UnicodeEncodeError
    ):  # by way of UTF-16, which makes one character of two halves that stand together
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encode(message: Message, *, error_without_id: bool = True) -> bytes:
    """A message as one line of UTF-8, its line feed included.

    Args:
        message: What to send.
        error_without_id: How an error without an id is written: True leaves the id out, False
            writes null.

    Raises:
        ValueError, TypeError: As `to_json`.
    """
    wire: dict[str, Json] = {"jsonrpc": "2.0"}
    if not isinstance(message, Notification) and (message.id is not None or not error_without_id):
        wire["id"] = message.id
    if isinstance(message, Response):
        wire["result"] = message.result
    elif isinstance(message, Failure):
        wire["error"] = {"code": message.code, "message": message.message}
        if message.data is not None:
            wire["error"]["data"] = message.data
    else:
        wire["method"] = message.method
        if message.params:
            wire["params"] = message.params
    return (to_json(wire) + "\n").encode()


def encode_result(id: Id, result: str) -> bytes:
    """A response line made from a result that is JSON text already."""
    written = str(id) if type(id) is int else to_json(id)
    return f'{{"jsonrpc":"2.0","id":{written},"result":{result}}}\n'.encode()


def encode_progress(
    token: Id, done: float, total: Optional[float], message: Optional[str]
) -> bytes:
    """A progress notification as a line, without an object that is encoded: a tool may report very
    often.

    Raises:
        TypeError, ValueError: ``done`` or ``total`` is no finite number, or ``message`` no text.
    """
    written = str(token) if type(token) is int else to_json(token)
    told = f'{{"progressToken":{written},"progress":{_number(done)}'
    if total is not None:
        told += f',"total":{_number(total)}'
    if message is not None:
        if not isinstance(message, str):
            raise TypeError(f"a progress message is a str, not {type(message).__name__}")
        told += f',"message":{to_json(message)}'
    return f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{told}}}}}\n'.encode()


def _number(value: float) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        raise TypeError(f"progress is a number, not {type(value).__name__}")
    # Members of an IntEnum and numbers of NumPy, too.
    return int.__repr__(index(value)) if hasattr(value, "__index__") else to_json(float(value))


def encode_batch(lines: list[bytes]) -> bytes:
    """Several encoded messages as one array on one line."""
    return b"[" + b",".join(line.rstrip(b"\n") for line in lines) + b"]\n"


# ---------------------------------------------------------------- exceptions to the wire and back


def failure(id: Optional[Id], error: RpcError) -> Failure:
    """The error response for an error of ours, with its own code."""
    return Failure(id, error.code, error.message, error.data)


def wire_failure(
    id: Optional[Id], error: BaseException, revision: Revision, method: str
) -> Failure:
    """The error response for an exception that ended a request.

    An `RpcError` of ours is sent as it is, with the code that the revision has for it. Of any other
    exception nothing is sent but a reference, under which it is logged.
    """
    if isinstance(error, RpcError) and not error.from_peer:
        return Failure(id, _code_in(revision, error.code), error.message, error.data)
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


# What the message says when a resource exists and may not be read: there is no code for it.
ACCESS_DENIED = "(?i)denied|forbidden"


def exception_of(failure: Failure, method: str, revision: Revision) -> McpError:
    """The exception for an error response; code, message and data stay as they came.

    Args:
        failure: The error response.
        method: Of the request.
        revision: That the request was sent in.
    """
    code = failure.code
    reading = method == "resources/read"
    data = failure.data if isinstance(failure.data, dict) else {}
    kind: Optional[type[RpcError]] = None
    if revision.handshake:
        kind = PARAPHRASE_ERRORS.get(code)
        if reading and code == PARAPHRASE_RESOURCE_NOT_FOUND:
            kind = ResourceNotFound
    if code == RESOURCE_NOT_FOUND or (reading and code == INVALID_PARAMS and "uri" in data):
        # servers of the newest revision answer -32602 in the revisions before it too
        kind = (
            ResourceAccessDenied if re.search(ACCESS_DENIED, failure.message) else ResourceNotFound
        )
    elif code == METHOD_NOT_FOUND:
        undeclarable = method == "completion/complete" and not revision.completions_capability
        kind = CapabilityNotSupported if undeclarable or "requiredCapabilities" in data else None
    error = error_from_peer(code, failure.message, failure.data, kind=kind)
    if revision.handshake and code == PARAPHRASE_TOOL_FAILED:
        failed = ToolError(failure.message)
        failed.__cause__ = error
        return failed
    return error
