"""The door to `logging`: shut until somebody wants a record, and safe for what a peer wrote."""

from __future__ import annotations

import io
import logging
import string
import sys
from typing import Any, List, Tuple

import pytest
from hypothesis import given, strategies as st

from minimcp.log import DEBUG, ERROR, INFO, WARNING, Log, one_line, tracer

from .drawn import drawn
from .rows import for_each
from .support import run_python

log = Log("test")


def test_the_levels_are_those_of_logging() -> None:
    assert (DEBUG, INFO, WARNING, ERROR) == (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_record_has_its_level_its_arguments_and_the_place_that_wrote_it(
    caplog: pytest.LogCaptureFixture, level: str
) -> None:
    with caplog.at_level(logging.DEBUG, "minimcp"):
        getattr(Log("test"), level)("%s and %d", "one", 2)
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("minimcp.test", "one and 2")
    assert record.levelname == level.upper()
    assert (record.pathname, record.exc_info) == (__file__, None)
    assert record.funcName == "test_a_record_has_its_level_its_arguments_and_the_place_that_wrote_it"


def test_a_traceback_is_added_where_one_is_given(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("odd")
    log.warning("w", exc_info=error)
    log.error("e", exc_info=error)
    assert [record.exc_info and record.exc_info[1] for record in caplog.records] == [error, error]


def test_what_nobody_wants_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    class Loud:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    with caplog.at_level(logging.ERROR, "minimcp.test"):
        assert not log.wants(WARNING)
        log.warning("%s", Loud())
        assert log.wants(ERROR)
    assert caplog.records == []


def test_while_logging_is_not_imported_only_a_warning_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Log("fresh")
    monkeypatch.delitem(sys.modules, "logging")
    assert not fresh.wants(DEBUG)
    assert not fresh.wants(INFO)
    assert "logging" not in sys.modules


ALONE = """
import sys
from minimcp.log import Log
log = Log("alone")
log.debug("no"); log.info("no")
assert "logging" not in sys.modules
log.warning("seen %s", 1)
assert "logging" in sys.modules
log.info("no")
import logging
assert not logging.getLogger().handlers and not logging.getLogger("minimcp").handlers
assert logging.getLogger().level == logging.WARNING and logging.getLogger("minimcp").level == 0
"""


def test_a_warning_imports_logging_and_reaches_stderr_without_a_handler() -> None:
    done = run_python(["-S", "-c", ALONE])
    assert (done.returncode, done.stdout, done.stderr.strip()) == (0, b"", b"seen 1")


# ---------------------------------------------------------------- trace


def test_no_trace_is_none() -> None:
    assert tracer(None) is None


def test_a_callable_gets_arrow_and_text() -> None:
    seen: List[Tuple[str, str]] = []
    record = tracer(lambda arrow, text: seen.append((arrow, text)))
    assert record is not None
    record("-->", '{"a":"\u00e9"}'.encode())
    record("<--", b"\xff{")
    assert seen == [("-->", '{"a":"\u00e9"}'), ("<--", "\ufffd{")]


def test_a_file_gets_lines() -> None:
    file = io.StringIO()
    record = tracer(file)
    assert record is not None
    record("-->", b"{}")
    record("<--", b"[]")
    assert file.getvalue() == "--> {}\n<-- []\n"


def test_what_is_callable_and_has_write_is_called() -> None:
    class Both(io.StringIO):
        def __call__(self, arrow: str, text: str) -> None:
            self.write(f"called {arrow} {text}")

    both = Both()
    record = tracer(both)
    assert record is not None
    record("-->", b"x")
    assert both.getvalue() == "called --> x"


@for_each("wrong", ["trace.txt", 1, b"", object()])
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"^trace is a text file or a callable, not {type(wrong).__name__}$"):
        tracer(wrong)


def test_a_trace_that_fails_is_logged_once_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    calls: List[str] = []

    def failing(arrow: str, text: str) -> None:
        calls.append(text)
        raise OSError("disk full")

    record = tracer(failing)
    assert record is not None
    record("-->", b"1")
    record("-->", b"2")
    assert calls == ["1", "2"]
    (logged,) = caplog.records
    assert (logged.name, logged.levelname) == ("minimcp.trace", "ERROR")
    assert "disk full" in logged.getMessage()


# ---------------------------------------------------------------- one line


@for_each(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a\nb\r\x1b[0m\x00", "a\\nb\\r\\x1b[0m\\x00"),
        ("\u2028\u0085\u202e", "\\u2028\\x85\\u202e"),
        ("back\\slash", "back\\\\slash"),
        ("\ud800", "\\ud800"),
        (7, "7"),
        (None, "None"),
        ({"a": "\n"}, "{'a': '\\\\n'}"),
        (b"\n\xff", "b'\\\\n\\\\xff'"),
    ],
)
def test_text_is_escaped(value: Any, shown: str) -> None:
    assert one_line(value) == shown


def test_text_is_cut() -> None:
    assert one_line("x" * 200) == "x" * 200
    assert one_line("x" * 201) == "x" * 200 + "..."
    assert one_line("\n" * 101) == "\\n" * 100 + "..."
    assert one_line("abcdef", limit=3) == "abc..."
    assert one_line(b"x" * 201) == "b'" + "x" * 198 + "..."


def test_of_a_long_line_only_the_beginning_is_looked_at() -> None:
    class Counted(str):
        def encode(self, *arguments: Any) -> bytes:
            raise AssertionError("the whole line was escaped")

    assert one_line(Counted("x" * 10_000)) == "x" * 200 + "..."


@drawn(30)
@given(st.one_of(st.text(), st.binary()), st.integers(1, 50))
def test_whatever_a_peer_wrote_cannot_forge_a_second_line(value: Any, limit: int) -> None:
    line = one_line(value, limit)
    assert set(line) <= set(string.printable) - set("\n\r\t\x0b\x0c")
    assert len(line) <= limit + 3
    whole = one_line(value, 10**6)
    assert line == whole if len(whole) <= limit else line == whole[:limit] + "..." or isinstance(value, bytes)
