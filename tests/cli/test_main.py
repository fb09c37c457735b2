"""The command line in general: help, versions, exit codes, and the message for a mistake."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, List

import pytest

from minimcp import __version__ as VERSION
from minimcp.cli import COMMANDS, INTERRUPTED, PIPE_CODE, main

from ..support import ROOT, WAIT
from .conftest import PYTHON, Done, command_line, quoted, run_process


def test_help_and_version(minimcp: Callable[..., Done]) -> None:
    done = minimcp("--help")
    assert (done.code, done.err) == (0, "") and all(f"\n  {name}" in done.out for name in COMMANDS)
    for name in COMMANDS:
        done = minimcp(name, "--help")
        assert (done.code, done.err) == (0, "") and done.out.startswith("usage: ")
    assert minimcp("--version") == Done(0, f"minimcp {VERSION}\n", "")
    done = run_process()
    assert (done.code, done.err) == (2, "") and done.out.startswith(
        f"usage: {PYTHON} -m minimcp COMMAND"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek"], "unknown command 'chek', did you mean check? The commands are demo, list,"),
        (
            ["bake"],
            "unknown command 'bake'; the commands are demo, list, call, tasks, events, read, prompt, ping, login, logout, whoami,",
        ),
        (["call"], "the following arguments are required: TARGET, TOOL"),
        (["read", "x.py"], "the following arguments are required: URI"),
        (["list", "x.py", "--output", "xml"], "invalid choice: 'xml'"),
        (["list", "x.py", "--timeout", "soon"], "invalid float value: 'soon'"),
        (["list", "http://x/", "--timeout", "-1"], "must be at least 0 seconds, not -1.0"),
        (["list", "x.py", "--time", "5"], "unrecognized arguments: --time"),
        (["list", "x.py", "--header", "odd"], "'odd' is not \"Name: value\""),
        (["list", "x.py", "--token", "t"], "apply only to a server with a URL"),
        (["ping", "x.py", "--revision", "latest"], "not 'latest'"),
        (["ping", "http:///mcp"], "a URL must begin with http:// or https://"),
        (["ping", ""], "the command must not be empty"),
        (["demo", "now"], "there is no chapter 'now'"),
        (["demo", "17"], "there is no chapter '17': the chapters are 1 Starting; 2 "),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: List[str], said: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp(*arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1) and said in done.err


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("no-such-program --flag", "cannot start no-such-program --flag"),
        (quoted("sh", "-c", "exit 7"), "exited with code 7"),
        ("gone.py", " list: there is no file 'gone.py'"),
    ],
)
def test_a_server_that_does_not_start_is_exit_code_3(
    target: str, said: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("list", target)
    assert (done.code, done.out) == (3, "") and said in done.err and "Traceback" not in done.err


def test_a_missing_package_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, minimcp: Callable[..., Done]
) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)
    needs = (
        "connecting to a URL needs the package 'requests': install it with: pip install requests\n"
    )
    for command in ("list", "login"):
        done = minimcp(command, "http://127.0.0.1:9/mcp")
        assert (done.code, done.out, done.err.count("\n")) == (3, "", 1) and done.err.endswith(
            f" {command}: {needs}"
        )
    monkeypatch.setitem(
        sys.modules, "minimcp.cli.demo", None
    )  # a missing module of our own is a fault of the library
    with pytest.raises(ImportError, match="demo"):
        main(["demo"])


def test_a_server_that_says_nothing_is_a_timeout(minimcp: Callable[..., Done]) -> None:
    assert minimcp("ping", "sleep 60", "--timeout", "0.2").code == 4


def test_the_stderr_of_a_server_that_ends_at_once_is_shown(
    shop: str, minimcp: Callable[..., Done]
) -> None:
    with open("crash.py", "w", encoding="utf-8") as file:
        file.write(
            "import sys\nopen('started', 'a').write('x')\nprint('loading')\nsys.exit('no \\x1b' + 'database')\n"
        )
    for options, before in (([], []), (["--verbose"], ["no \x1bdatabase"])):
        done = minimcp("list", "crash.py", *options)
        assert (done.code, done.out) == (3, "")
        *shown, line, ended, last = done.err.splitlines()
        assert shown == before and (ended, last) == (
            "its stderr ended with:",
            "    no \\x1bdatabase",
        )
        assert line.endswith(
            "crash.py': the server closed the connection; it wrote a line that is not a message: "
            "loading; the server exited with code 1"
        )
    assert Path("started").read_text("utf-8") == "xx"


def test_a_fault_of_our_own_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.cli.demo.CONVERSATIONS", None)
    with pytest.raises(TypeError):
        main(["demo"])


def test_the_page_has_every_exit_code() -> None:
    page = (ROOT / "examples" / "commands.rst").read_text("utf-8")
    codes = [*range(5), INTERRUPTED, PIPE_CODE]
    assert re.findall(r"^(\d+) +\S", page, re.M) == [str(code) for code in codes]


def test_ctrl_c_ends_quietly(shop: str) -> None:
    command = command_line("call", shop, "slow", "--verbose")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "slow has begun\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=WAIT)
    assert (child.returncode, out, err) == (130, "", "")


def test_output_that_cannot_be_written() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        for command in ("demo", "--help"):
            done = run_process(command, stdout=writing)
            assert (done.code, done.err) == (141, "")
    finally:
        os.close(writing)
    with open("/dev/full", "w", encoding="ascii") as full:
        done = run_process("--version", stdout=full.fileno())
    assert (done.code, done.err) == (
        3,
        f"{PYTHON} -m minimcp --version: stdout: No space left on device\n",
    )


@pytest.mark.parametrize("words", [["--token", "kW9"], ["--token=kW9"], ["--secret", "kW9"]])
def test_the_value_of_an_unknown_option_is_not_shown(
    words: List[str], minimcp: Callable[..., Done]
) -> None:
    done = minimcp("login", "https://example.com/mcp", *words)
    option = words[0].partition("=")[0]
    assert done.code == 2 and f"unrecognized arguments: {option}" in done.err
    assert "kW9" not in done.out + done.err
