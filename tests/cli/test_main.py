"""The face of the command line: help, versions, endings, and what a user gets for a mistake."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

from minimcp import __version__ as VERSION
from minimcp.cli import COMMANDS, main

from ..support import ROOT, WAIT
from .conftest import Done, command_line, quoted, run_process


def test_help_names_every_command(minimcp: Callable[..., Done]) -> None:
    done = minimcp("--help")
    assert (done.code, done.err) == (0, "")
    for name in COMMANDS:
        assert f"\n  {name}" in done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command(name: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("usage: ")


def test_the_version(minimcp: Callable[..., Done]) -> None:
    assert minimcp("--version") == Done(0, f"minimcp {VERSION}\n", "")


def test_no_arguments_show_the_help() -> None:
    done = run_process()
    assert (done.code, done.err) == (2, "")
    assert done.out.startswith("usage: python -m minimcp COMMAND")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bake"], "there is no command 'bake': demo, list, call, read, prompt, ping, run, vendor"),
        (["call"], "the following arguments are required: TARGET, TOOL"),
        (["list"], "the following arguments are required: TARGET"),
        (["list", "x.py", "--output", "xml"], "invalid choice: 'xml'"),
        (["list", "x.py", "--timeout", "soon"], "'soon' is no number of seconds"),
        (["list", "x.py", "--timeout", "-1"], "'-1' is no number of seconds"),
        (["list", "x.py", "--time", "5"], "unrecognized arguments: --time"),
        (["ping", "x.py", "--revision", "latest"], "not 'latest'"),
        (["ping", "http:///mcp"], "a URL begins with http:// or https://"),
        (["ping", ""], "an empty command starts nothing"),
        (["demo", "now"], "unrecognized arguments: now"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: Any, said: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp(*arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_program_that_is_not_there(minimcp: Callable[..., Done]) -> None:
    done = minimcp("ping", "no-such-program --flag")
    assert (done.code, done.out) == (3, "")
    assert "cannot start no-such-program --flag" in done.err
    assert done.err.count("\n") == 1


def test_a_server_that_ends_at_once(minimcp: Callable[..., Done]) -> None:
    done = minimcp("list", quoted("sh", "-c", "exit 7"))
    assert (done.code, done.out) == (3, "")
    assert "exited with code 7" in done.err
    assert "Traceback" not in done.err


def test_the_stderr_of_a_server_that_ends_at_once_is_shown_once(shop: str, minimcp: Callable[..., Done]) -> None:
    with open("crash.py", "w", encoding="utf-8") as file:
        file.write("import sys\nopen('started', 'a').write('x')\nprint('loading')\nsys.exit('no ' + 'database')\n")
    done = minimcp("list", "crash.py")
    assert (done.code, done.out) == (3, "")
    words, line = done.err.splitlines()
    assert words == "no database"
    assert line.endswith("crash.py': the peer closed the connection; it wrote a line that is no message: loading; "
                         "the server exited with code 1")
    assert Path("started").read_text("utf-8") == "x"


def test_a_file_that_is_not_there(shop: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("list", "gone.py")
    assert (done.code, done.out) == (3, "")
    assert done.err.endswith(" list: there is no file 'gone.py'\n")
    assert done.err.count("\n") == 1


def test_a_server_that_says_nothing(minimcp: Callable[..., Done]) -> None:
    done = minimcp("ping", "cat", "--timeout", "0.2", "--revision", "handshake")
    assert done.code in (3, 4)  # cat sends our own request back, which is no answer
    assert minimcp("ping", "sleep 60", "--timeout", "0.2").code == 4


def test_a_fault_of_our_own_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.cli.demo.CONVERSATIONS", None)
    with pytest.raises(TypeError):
        main(["demo"])


def test_ctrl_c_ends_quietly(shop: str) -> None:
    child = subprocess.Popen(
        command_line("call", shop, "slow"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with child:
        assert child.stderr is not None
        assert child.stderr.readline() == "slow has begun\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=WAIT)
    assert (child.returncode, out, err) == (130, "", "")


def _with_stdout(descriptor: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command_line(*arguments), stdout=descriptor, stderr=subprocess.PIPE, text=True, timeout=3 * WAIT,
        env=environment,
    )


@pytest.mark.parametrize("command", ["demo", "--help"])
def test_a_reader_that_has_seen_enough(command: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = _with_stdout(writing, command)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_full_disk() -> None:
    with open("/dev/full", "w", encoding="ascii") as full:
        done = _with_stdout(full.fileno(), "--version")
    assert (done.returncode, done.stderr) == (3, "python -m minimcp --version: stdout: No space left on device\n")
