"""Records of `logging` on their way to a client: which ones are sent, in which form, and which ones
never."""

from __future__ import annotations

import logging
import threading
from pathlib import PurePosixPath
from typing import Any, Dict, Iterator, List

import pytest

import minimcp
from minimcp.engine.pool import this_thread

from ..scripted import RecordingOutlet
from .requests import exchange, sent

NAME = "tests.log_handler"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made, handler = logging.getLogger(NAME), minimcp.LogHandler()
    made.addHandler(handler)
    made.setLevel(logging.DEBUG)
    made.propagate = False
    yield made
    made.removeHandler(handler)
    made.setLevel(logging.NOTSET)
    made.propagate = True


@pytest.fixture
def request_here() -> Iterator[Any]:
    """Start a request with its handler on this thread, and a client that wants every level."""
    this_thread.request = made = exchange(log_rank=0)
    yield made
    this_thread.request = None


def said(made: Any) -> List[Dict[str, Any]]:
    return [line["params"] for line in sent(made)]


def test_levels_name_and_text(logger: logging.Logger, request_here: Any) -> None:
    for number in (5, 10, 19, 20, 24, 25, 29, 30, 40, 49, 50, 90):
        logger.log(number, "number %d", number)
    levels = [each["level"] for each in said(request_here)]
    assert levels == [
        "debug",
        "debug",
        "info",
        "info",
        "notice",
        "notice",
        "warning",
        "error",
        "error",
        "critical",
        "critical",
    ], "what is below the logger's own level is not sent"
    assert said(request_here)[0] == {"level": "debug", "data": "number 10", "logger": NAME}
    assert sent(request_here)[0]["method"] == "notifications/message"


def test_extra_makes_an_object(logger: logging.Logger, request_here: Any) -> None:
    cyclic: List[Any] = []
    cyclic.append(cyclic)
    logger.info(
        "x",
        extra={
            "city": "Oslo",
            "path": PurePosixPath("/a"),
            "bad": {1, 2}.__iter__,
            "cycle": cyclic,
        },
    )
    data = said(request_here)[0]["data"]
    assert (data["message"], data["city"], data["path"]) == ("x", "Oslo", "/a")
    assert "set" in data["bad"] and data["cycle"] == "[[...]]", "what has no JSON form is shown"


def test_a_traceback_is_the_formatters_business(logger: logging.Logger, request_here: Any) -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        logger.exception("failed")
    logger.handlers[0].setFormatter(logging.Formatter("<%(message)s>"))
    try:
        raise ValueError("inner")
    except ValueError:
        logger.exception("failed")
    first, second = said(request_here)
    assert first["data"] == "failed" and second["data"].startswith("<failed>\nTraceback")


def test_when_nothing_is_sent(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logger.error("outside of any handler")
    quiet = exchange(log_rank=None)
    this_thread.request = quiet
    try:
        logger.error("the client wants none")
        wanted = exchange(log_rank=3)
        this_thread.request = wanted
        logger.info("less than it wants")
        logger.addFilter(lambda record: "hidden" not in record.getMessage())
        logger.handlers[0].addFilter(lambda record: "secret" not in record.getMessage())
        logger.handlers[0].setLevel(logging.ERROR)
        for text in ("hidden", "secret"):
            logger.error(text)
        logger.warning("below the handler's level")
        ours = logging.getLogger("minimcp.tests")
        ours.addHandler(logger.handlers[0])
        ours.error("the library's own")
        ours.removeHandler(logger.handlers[0])
        wanted.token.cancel("over")
        logger.error("after the cancellation")
        thread = threading.Thread(target=logger.error, args=("on another thread",))
        thread.start()
        thread.join()
    finally:
        this_thread.request = None
        logger.filters.clear()
    assert sent(quiet) == sent(wanted) == []
    assert "Traceback" not in capsys.readouterr().err


class LogsAsText:
    """Logs itself when it is shown."""

    def __init__(self, handler: logging.Handler) -> None:
        self._handler = handler

    def record(self) -> logging.LogRecord:
        return logging.makeLogRecord(
            {"name": NAME, "msg": "it is %s", "args": (self,), "levelno": logging.INFO}
        )

    def __str__(self) -> str:
        self._handler.handle(self.record())
        return "shown"


class FailsAsText:
    def __str__(self) -> str:
        raise RuntimeError("no text")


class LosingOutlet(RecordingOutlet):
    def send(self, line: bytes) -> None:
        raise minimcp.ConnectionLost("gone")


def test_it_never_raises_and_never_recurses(
    logger: logging.Logger, request_here: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = logger.handlers[0]
    handler.handle(LogsAsText(handler).record())
    assert [each["data"] for each in said(request_here)] == ["it is shown"]
    for text, argument in (("%s", FailsAsText()), ("too %s %s", "few")):
        handler.handle(
            logging.makeLogRecord(
                {"name": NAME, "msg": text, "args": (argument,), "levelno": logging.INFO}
            )
        )
    assert "RuntimeError: no text" in capsys.readouterr().err, "as logging reports it, on stderr"
    logger.error("goes on")
    assert len(said(request_here)) == 2
    this_thread.request = exchange(log_rank=0, sink=LosingOutlet())
    logger.error("to nobody")
    assert "Traceback" not in capsys.readouterr().err
