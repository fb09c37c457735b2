"""Exceptions: one flat tree with the codes of the protocol, which survives pickling and copying."""

from __future__ import annotations

import copy
import enum
import io
import logging
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import minimcp
from minimcp import errors
from minimcp.errors import (
    AuthorizationError,
    Busy,
    Cancelled,
    CapabilityNotSupported,
    ConnectionFailed,
    ConnectionLost,
    Declined,
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    McpError,
    MethodNotFound,
    ParseError,
    ProtocolViolation,
    Refused,
    RequestStateRejected,
    RequestTimeout,
    ResourceAccessDenied,
    ResourceNotFound,
    RpcError,
    ToolError,
    UnsupportedRevision,
    UrlElicitationRequired,
    error_from_peer,
    one_line,
)
from minimcp.text import describe

from ..drawn import drawn
from ..rows import for_each

CODES: dict[type[Any], int] = {
    ParseError: -32700, InvalidRequest: -32600, MethodNotFound: -32601, InvalidParams: -32602,
    RequestStateRejected: -32602, InternalError: -32603, ResourceNotFound: -32002, ResourceAccessDenied: -32002,
    HeaderMismatch: -32020, CapabilityNotSupported: -32021, UnsupportedRevision: -32022, UrlElicitationRequired: -32042,
}  # fmt: skip
BY_CODE = {
    code: kind
    for kind, code in CODES.items()
    if kind not in (RequestStateRejected, ResourceAccessDenied)
}
ENTRY = {"mode": "url", "message": "m", "url": "https://x.y", "elicitationId": "e", "more": 1}
DATA = {"elicitations": [ENTRY]}


@pytest.mark.requirement("BASE-14", "M:ERR-1", "M:ERR-5", "LIFE-23")
def test_each_kind_has_its_code() -> None:
    for kind, code in CODES.items():
        error = kind("what happened", DATA)
        assert (error.code, error.message, error.data, error.from_peer) == (
            code,
            "what happened",
            DATA,
            False,
        )
        assert str(error) == "what happened" and kind("x").data is None
    for code, kind in BY_CODE.items():
        theirs = error_from_peer(code, "no", {"a": 1})
        assert type(theirs) is kind and theirs.args == ("no",) and str(theirs) == f"no ({code})"
        assert (theirs.code, theirs.message, theirs.data, theirs.from_peer) == (
            code,
            "no",
            {"a": 1},
            True,
        )


@pytest.mark.requirement("M:ERR-6")
def test_a_code_that_json_rpc_reserves_is_refused() -> None:
    assert (min(errors.RESERVED_CODES), max(errors.RESERVED_CODES)) == (-32768, -32000)
    for code in (
        -32769,
        -32099,
        -32050,
        -32004,
        -32003,
        -32000,
        -31999,
        -1,
        0,
        1,
        404,
        10**12,
        *BY_CODE,
    ):
        error = RpcError(code, "mine", [1])
        assert (error.code, error.message, error.data) == (code, "mine", [1])
    for code in {*range(-32768, -32099, 30), -32767, -32699, -32604, -32599, -32100} - {*BY_CODE}:
        with pytest.raises(ValueError, match=f"^{code} is reserved by JSON-RPC"):
            RpcError(code, "x")


@pytest.mark.requirement("M:ERR-3", "X-27")
def test_one_code_of_ours_lies_in_the_range_of_servers() -> None:
    ours = {value for name, value in vars(errors).items() if name.isupper() and type(value) is int}
    assert ours == {*CODES.values(), errors.USER_REJECTED}
    assert {code for code in ours if -32019 <= code <= -32000} == {-32002}


@for_each(
    ("code", "message", "words"),
    [
        (True, "x", "code must be an int, not bool"),
        (1.0, "x", "code must be an int, not float"),
        ("1", "x", "code must be an int, not str"),
        (1, None, "message must be a str, not NoneType"),
        (1, b"x", "message must be a str, not bytes"),
    ],
)
def test_a_code_is_an_integer_and_a_message_a_string(code: Any, message: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"^{words}$"):
        RpcError(code, message)
    member = enum.IntEnum("Own", {"BUSY": 7})(7)
    assert type(RpcError(member, "busy").code) is int


def test_the_kind_of_a_peers_error() -> None:
    for code in (-32001, -32050, -32768, 0, 7):
        error = error_from_peer(code, "odd")
        assert (type(error), error.code, error.data, error.from_peer) == (
            RpcError,
            code,
            None,
            True,
        )
    rejected = {"reason": "invalid_request_state"}
    assert type(error_from_peer(-32602, "no", rejected)) is RequestStateRejected
    for data in ({"reason": "x"}, ["invalid_request_state"], None):
        assert type(error_from_peer(-32602, "no", data)) is InvalidParams
    assert type(error_from_peer(-32603, "no", rejected)) is InternalError
    known = error_from_peer(-32602, "old words", rejected, kind=UnsupportedRevision)
    assert (type(known), known.code, known.from_peer) == (UnsupportedRevision, -32602, True)


@pytest.mark.requirement("ELIC-33", "ELIC-31")
@for_each("missing", ["mode", "message", "url", "elicitationId"])
def test_the_error_that_asks_for_urls_names_them(missing: str) -> None:
    bad: list[Any] = [{"why": 1}, [], {"elicitations": {}}, {"elicitations": ["https://x.y"]}]
    values = (None, 5, "form" if missing == "mode" else 6)
    for data in (*bad, *({"elicitations": [ENTRY, {**ENTRY, missing: value}]} for value in values)):
        with pytest.raises(ValueError, match="elicitations"):
            UrlElicitationRequired("m", data)


class TooBusy(RpcError):
    def __init__(self, seconds: int) -> None:
        super().__init__(1, f"busy for {seconds} s")
        self.seconds = seconds


@pytest.mark.requirement("M:ERR-7")
def test_the_fields_of_each_kind_in_the_original_and_in_every_copy() -> None:
    blocks = ["block"]
    failed = ToolError("failed", content=blocks)
    blocks.append("more")
    failed.result = {"isError": True}
    gone: dict[str, Any] = {"exit_code": 3, "signal": 9, "stderr_tail": "tail"}
    plain = {"exit_code": None, "signal": None, "stderr_tail": ""}
    rows: list[Any] = [
        (McpError("x"), {}),
        (RequestTimeout("x"), {}),
        (Cancelled("x"), {}),
        (AuthorizationError("x"), {}),
        (RpcError(7, "own", {"a": [1]}), {"code": 7, "data": {"a": [1]}}),
        (TooBusy(3), {"code": 1, "seconds": 3}),
        *((kind("kind", DATA), {"code": code, "data": DATA}) for kind, code in CODES.items()),
        (error_from_peer(-32050, "theirs", [1]), {"code": -32050, "from_peer": True}),
        (failed, {"content": ["block"], "result": {"isError": True}}),
        (ToolError(), {"content": None, "result": None}),
        *((kind("x", **gone), gone) for kind in (ConnectionFailed, ConnectionLost)),
        (ConnectionLost("x"), {**plain, "errno": None}),
        (Busy("HTTP 429", 7), {**plain, "seconds": 7}),
        (ProtocolViolation("a rule", {"odd": 1}), {"rule": "a rule", "peer_message": {"odd": 1}}),
        (ProtocolViolation("a rule"), {"peer_message": None}),
        *((kind("not now"), {"reason": "not now"}) for kind in (Refused, Declined)),
        (Refused(), {"reason": ""}),
    ]
    for error, fields in rows:
        for twin in (
            error,
            copy.copy(error),
            copy.deepcopy(error),
            pickle.loads(pickle.dumps(error)),
        ):
            assert (type(twin), str(twin), twin.args, vars(twin)) == (
                type(error),
                str(error),
                error.args,
                vars(error),
            )
            assert {name: getattr(twin, name) for name in fields} == fields
        twin = copy.copy(error)
        twin.args, twin.code = ("other",), 5
        assert error.args != ("other",) and getattr(error, "code", None) == fields.get("code")
    assert [str(rows[index][0]) for index in (0, 5)] == ["x", "busy for 3 s"]


class _Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("not even that")


class _Unshown:
    def __str__(self) -> str:
        return "in words"

    def __repr__(self) -> str:
        raise ZeroDivisionError


@for_each(
    ("error", "words"),
    [
        (ValueError("words"), "words"),
        (ValueError(), "ValueError"),
        (ValueError(" \n"), "ValueError"),
        (_Wordless(), "_Wordless"),
        (KeyError("no such city"), "KeyError: 'no such city'"),
        (KeyError(("a", 1)), "KeyError: ('a', 1)"),
        (ValueError("a", 1), "ValueError: ('a', 1)"),
        (IndexError(5), "IndexError: 5"),
        (SystemExit("bye"), "SystemExit: bye"),
        (SystemExit(), "SystemExit"),
        (ValueError("'x'"), "'x'"),
        (RuntimeError(ValueError("inner words")), "inner words"),
        (OSError(2, "No such file"), "[Errno 2] No such file"),
        (ValueError(_Unshown()), "ValueError"),
    ],
)
def test_an_exception_is_described_by_its_words_or_its_name(
    error: BaseException, words: str
) -> None:
    assert describe(error) == words


@for_each(
    ("value", "line"),
    [
        ("a\nb\u2028\ud800\x1b", "a\\nb\\u2028\\ud800\\x1b"),
        (b"a\n", "b'a\\\\n'"),
        ([1], "[1]"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "..."),
        (b"x" * 10**6, "b'" + "x" * 198 + "..."),
    ],
)
def test_text_of_a_peer_on_one_line(value: Any, line: str) -> None:
    assert one_line(value) == line


# ------------------------------------------------------------ log records

FORGED = "m\x1b]0;PWNED\x07\x1b[2J\nERROR:root:forged\r\x9b1m\u2028\u202e\ud800 %s %d"


def logged(message: str, *args: Any, error: Any = None) -> str:
    """Return the text of one record of the package's loggers, without the final line end."""
    stream, log = io.StringIO(), errors.logger("minimcp.tests.logged")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
    log.addHandler(handler)
    try:
        log.error(message, *args, exc_info=error)
    finally:
        log.removeHandler(handler)
    written = stream.getvalue()
    assert written.endswith("\n")
    return written[:-1]


@drawn(100)
@given(st.text(), st.sampled_from(["%s", "%r", "%.50s", "%s %s"]))
def test_one_record_is_one_line_whatever_a_peer_says(text: str, form: str) -> None:
    for said in (
        text + FORGED,
        RpcError(-1, text + FORGED),
        [text + FORGED],
        {text + "\x1b": FORGED},
    ):
        args = (said,) * form.count("%")
        assert logged(form, *args).isprintable()


class Broken(logging.Handler):
    """A handler of the program that raises instead of calling `handleError`."""

    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("the handler is broken")


def test_a_handler_of_the_program_that_raises_loses_no_response(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = minimcp.Server("logs")

    @server.tool
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    @server.prompt
    def broken() -> str:
        """Fail, too."""
        raise ValueError("no")

    handler = Broken()
    log = errors.logger("minimcp")
    log.addHandler(handler)
    try:
        with minimcp.connect(server) as client:
            assert client.call_tool("fail", raise_on_error=False).text == "no"
            with pytest.raises(minimcp.InternalError):
                client.get_prompt("broken")
    finally:
        log.removeHandler(handler)
    assert "RuntimeError: the handler is broken" in capsys.readouterr().err


def test_a_logger_is_guarded_once(capsys: pytest.CaptureFixture[str]) -> None:
    log, handler = errors.logger("minimcp.tests.guarded"), Broken()
    assert errors.logger("minimcp.tests.guarded") is log
    log.addHandler(handler)
    try:
        log.error("said")
    finally:
        log.removeHandler(handler)
    assert capsys.readouterr().err.count("Traceback") == 1


def test_clean_text_is_logged_unchanged_and_long_text_is_cut() -> None:
    assert (
        logged("%s: %d %r", "T\xe9st", 5, "a'b")
        == """ERROR:minimcp.tests.logged:T\xe9st: 5 "a'b\""""
    )
    assert len(logged("%s", "x" * 10**6)) < 2_100
    assert (
        logged("%s %d", "x", "y") == "ERROR:minimcp.tests.logged:%s %d (TypeError in its arguments)"
    )


def test_a_traceback_is_separate_and_has_no_control_characters() -> None:
    try:
        try:
            raise KeyError(FORGED)
        except KeyError as cause:
            raise ValueError(FORGED + "\n" * 5 + "ERROR:root:more") from cause
    except ValueError as error:
        first, *rest = logged("%s failed", "t", error=error).split("\n")
    assert (
        first == "ERROR:minimcp.tests.logged:t failed" and "Traceback" in rest[0] and len(rest) > 10
    )
    assert all(line.startswith("  | ") and line.isprintable() for line in rest)


def test_every_logger_of_the_package_is_made_in_one_place() -> None:
    package = Path(errors.__file__).parent
    found = {
        path.name: path.read_text("utf-8")
        for path in package.rglob("*.py")
        if path.parent.name != "cli"  # commands add handlers to the loggers of other modules
    }
    assert [
        name for name, text in found.items() if re.search(r"^[^\"`]*getLogger\(", text, re.M)
    ] == ["log.py"]
