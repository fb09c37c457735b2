"""`minimcp.terminal` in a real terminal: a form, a progress bar, results, and Ctrl-C."""

from __future__ import annotations

import base64
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import ElicitRequest, terminal

from ..support import ROOT, WAIT, eventually

PROGRAM = """
import os, signal, sys, threading, time
import minimcp
from minimcp import terminal

server = minimcp.Server("hotel")
FORM = {"type": "object", "required": ["when"], "properties": {
    "when": {"type": "string", "format": "date"},
    "mail": {"type": "string", "format": "email"},
    "bed": {"type": "string", "oneOf": [{"const": "d", "title": "Double"}, {"const": "t", "title": "Twin"}]},
    "nights": {"type": "integer", "title": "Nights", "minimum": 1, "maximum": 14, "default": 2},
    "quiet": {"type": "boolean", "default": False},
}}

@server.tool
def book(ctx: minimcp.Context) -> str:
    "Book a room."
    with open(__file__ + ".pid", "w") as file:
        file.write(str(os.getpid()))
    ctx.progress(1, 4, "looking")
    answer = ctx.elicit("When?\\x1b[2J", FORM)
    return f"{answer.action} {answer.content}"

@server.tool
def wait(ctx: minimcp.Context) -> None:
    "Wait."
    ctx.sleep(0.5)

if sys.argv[1] == "serve":
    server.run()
    sys.exit()

def ask_forever():
    "A server that never withdraws a question, and that ignores cancellations."
    import json
    for line in sys.stdin:
        request = json.loads(line)
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "old", "version": "1"}}
        reply = {"jsonrpc": "2.0", "id": request.get("id"), "result": result}
        if request.get("method") == "tools/call":
            question = {"message": "When?", "requestedSchema": FORM}
            reply = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": question}
        if "id" in request:
            print(json.dumps(reply), flush=True)
        if request.get("method") == "tools/call" and sys.argv[1] == "answer-early":
            while not os.path.exists(__file__ + ".answer"):
                time.sleep(0.01)
            result = {"content": [{"type": "text", "text": "no answer"}]}
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)

if sys.argv[1] in ("ask-forever", "answer-early"):
    ask_forever()
    sys.exit()

def call(arguments, **options):
    return client.call_tool("book", arguments, on_progress=terminal.ProgressBar(), **options).text

def prompt():
    sys.stdout.write("> ")
    sys.stdout.flush()
    print("the program got", repr(input()))

def interrupt_late(*_):
    "Ctrl-C of a program whose main thread is slow."
    time.sleep(0.3)
    raise KeyboardInterrupt

if sys.argv[1] == "slow":
    signal.signal(signal.SIGINT, interrupt_late)
told = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: told.set())
config = {"desk": [sys.executable, __file__, (sys.argv[3:] or ["serve"])[0]]}
with minimcp.connect("desk", config=config, elicit=terminal.ask, revision=sys.argv[2]) as client:
    try:
        if sys.argv[1] == "submit":
            future = client.submit(call, {})
            try:
                print(future.result())
            except KeyboardInterrupt:
                future.cancel()
                raise
        elif sys.argv[1] == "token":
            token = minimcp.CancelToken()
            threading.Thread(target=lambda: (told.wait(), token.cancel())).start()
            call({}, cancel=token)
        elif sys.argv[1] == "future":
            future = client.submit(call, {})
            told.wait()
            future.cancel()
            print("given up")
        elif sys.argv[1] == "two":
            shown = client.submit(call, {})
            told.wait()
            waits = client.submit(call, {})
            client.call_tool("wait")  # the second question has arrived
            waits.cancel()
            print(shown.result())
        elif sys.argv[1] == "main":
            print(terminal.ask(minimcp.ElicitRequest("Sure?", FORM)).action)
        else:
            print(call({}))
    except KeyboardInterrupt:
        print("interrupted")
    except minimcp.ConnectionLost:
        print("lost")
    except minimcp.Cancelled:
        print("given up")
    prompt()
"""


class Screen:
    """A program in a terminal of its own."""

    def __init__(self, command: List[str]) -> None:
        self.keys, tty = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=tty,
            stdout=tty,
            stderr=tty,
            env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
            preexec_fn=lambda: _become_foreground(tty),
        )
        os.close(tty)
        self.shown = ""

    def until(self, text: str) -> None:
        """Wait until the terminal shows a text."""
        end = time.monotonic() + WAIT
        while text not in self.shown and time.monotonic() < end:
            if select.select([self.keys], [], [], 0.1)[0]:
                try:
                    piece = os.read(self.keys, 4096)
                except OSError:
                    break
                self.shown += piece.decode()
        assert text in self.shown, self.shown
        self.seen, self.shown = self.shown.split(text, 1)

    def waits(self) -> None:
        """Wait until the main thread reads its input: Python loses a signal that arrives between
        the prompt and the system call, until the next key."""
        status = Path(f"/proc/{self.process.pid}/stat")
        if status.exists():  # on Linux
            assert eventually(lambda: status.read_text().rpartition(")")[2].split()[0] == "S")

    def types(self, text: str) -> None:
        os.write(self.keys, text.encode())

    def end(self) -> None:
        self.process.wait(WAIT)
        os.close(self.keys)


def _become_foreground(tty: int) -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(tty, termios.TIOCSCTTY, 0)


@pytest.fixture
def open_screen(tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    program = tmp_path / "host.py"
    program.write_text(PROGRAM, encoding="utf-8")
    screens: List[Screen] = []

    def opened(*words: str) -> Screen:
        screens.append(Screen([sys.executable, str(program), *words]))
        return screens[-1]

    yield opened
    for screen in screens:
        if screen.process.poll() is None:
            screen.process.kill()
        screen.process.wait(WAIT)
        try:
            os.close(screen.keys)
        except OSError:
            pass


REVISIONS = ["2025-11-25", "2026-07-28"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_form_is_checked_reviewed_and_edited(
    open_screen: Callable[..., Screen], revision: str
) -> None:
    screen = open_screen("call", revision)
    screen.until("[#####...............]  25% looking\r\n")
    screen.until("desk asks: When?\\x1b[2J\r\n")
    screen.until("when (date): ")
    for wrong in ("tomorrow", "2026-13-01", ""):
        screen.types(f"{wrong}\n")
        screen.until("when: expected a value such as 1999-12-31, got ")
        screen.until("when (date): ")
    screen.types("2026-08-01\n")
    screen.until("mail (string) []: ")
    screen.types("ada\n")
    screen.until("mail: expected a value such as ada@example.org, got 'ada'")
    screen.types("ada@example.org\n")
    screen.until("1. Double (d)\r\n    2. Twin (t)\r\n  bed (1 to 2) []: ")
    screen.types("3\n")
    screen.until("  '3' is not a choice: type a number from 1 to 2\r\n  bed (1 to 2) []: ")
    screen.types("twin\n")
    screen.until("  Nights (integer 1 to 14) [2]: ")
    screen.types("15\n")
    screen.until("  Nights: expected a number of at most 14, got the number 15")
    screen.types("3\n")
    screen.until("  quiet (yes or no) [no]: ")
    screen.types("y\n")
    screen.until(
        "  when: 2026-08-01\r\n  mail: ada@example.org\r\n  bed: Twin\r\n  Nights: 3\r\n"
        "  quiet: yes\r\nSend this? [Y/n/e]"
    )
    screen.types("e\n")
    screen.until("when (date) [2026-08-01]: ")
    screen.types("2026-08-02\n")
    screen.until("mail (string) [ada@example.org]: ")
    screen.types("\n")
    screen.until("bed (1 to 2) [Twin]: ")
    screen.types("1\n\n\n")
    screen.until("bed: Double\r\n  Nights: 3\r\n  quiet: yes\r\nSend this?")
    screen.types("y\n")
    screen.until("accept {'when': '2026-08-02', 'mail': 'ada@example.org', 'bed': 'd', ")
    screen.until("'nights': 3, 'quiet': True}")
    screen.until("> ")
    screen.types("quit\n")
    screen.until("the program got 'quit'")


def test_a_reviewed_form_can_be_declined(open_screen: Callable[..., Screen]) -> None:
    screen = open_screen("call", "2026-07-28")
    screen.until("when (date): ")
    screen.types("2026-08-01\n\n\n\n\n")
    screen.until("Send this?")
    screen.types("n\n")
    screen.until("decline None")


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("way", ["call", "submit", "slow"])
@pytest.mark.parametrize("typed", ["", "2026-0", "2026-08-01\nada@"])
def test_after_ctrl_c_in_a_form_the_next_line_belongs_to_the_program(
    open_screen: Callable[..., Screen], revision: str, way: str, typed: str
) -> None:
    """All keys are pressed at once, also half a line of the form before Ctrl-C."""
    screen = open_screen(way, revision)
    settings = termios.tcgetattr(screen.keys)
    screen.until("when (date): ")
    screen.types(f"{typed}\x03next\n")
    screen.until("^C")
    screen.until("cancelled\r\n")
    screen.until("interrupted")
    assert termios.tcgetattr(screen.keys) == settings
    screen.until("the program got 'next'")
    screen.end()
    assert screen.process.returncode == 0


def test_ctrl_c_in_a_form_on_the_main_thread_cancels_the_question_only(
    open_screen: Callable[..., Screen],
) -> None:
    screen = open_screen("main", "2026-07-28")
    screen.until("the server asks: Sure?")
    screen.until("when (date): ")
    screen.types("\x03")
    screen.until("cancelled\r\ncancel")
    screen.types("next\n")
    screen.until("the program got 'next'")


@pytest.mark.parametrize(
    ("way", "revision", "server"),
    [
        *[
            (way, revision, "serve")
            for way in ("call", "token", "future", "die")
            for revision in REVISIONS
        ],
        *[(way, "2025-11-25", "ask-forever") for way in ("call", "token", "future")],
        ("answer", "2025-11-25", "answer-early"),
    ],
)
def test_a_form_ends_before_its_call_raises(
    open_screen: Callable[..., Screen], tmp_path: Path, way: str, revision: str, server: str
) -> None:
    """So nothing is printed below the program's next prompt, and the form reads nothing more."""
    screen = open_screen(way, revision, server)
    settings = termios.tcgetattr(screen.keys)
    screen.until("when (date): ")
    screen.types("2026-0")  # half a line
    if way == "call":
        screen.types("\x03")
    elif way in ("token", "future"):
        screen.process.send_signal(signal.SIGUSR1)
    elif way == "die":
        os.kill(int((tmp_path / "host.py.pid").read_text()), signal.SIGKILL)
    elif way == "answer":
        (tmp_path / "host.py.answer").touch()
    screen.until("\r\ncancelled\r\n" if way == "call" else "\r\nthe question is no longer open\r\n")
    screen.until("\r\n> ")
    assert termios.tcgetattr(screen.keys) == settings
    time.sleep(0.3)  # the form's own thread has time to print or to read
    screen.types("next\n")
    screen.until("the program got 'next'\r\n")
    assert screen.seen == "next\r\n"


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_question_that_ends_before_it_is_shown_prints_nothing(
    open_screen: Callable[..., Screen], revision: str
) -> None:
    screen = open_screen("two", revision)
    screen.until("when (date): ")
    screen.process.send_signal(signal.SIGUSR1)
    time.sleep(1.5)
    screen.types("2026-08-01\n\n\n\n\n\n")
    screen.until("Send this? [Y/n/e] (n declines, e edits) ")
    assert "asks" not in screen.seen and "open" not in screen.seen
    screen.until("accept")
    screen.until("> ")
    assert "asks" not in screen.seen and "open" not in screen.seen


def test_a_line_of_a_server_is_printed_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    tty = Tty()
    monkeypatch.setattr(sys, "stderr", tty)
    bar = terminal.ProgressBar()
    bar(minimcp.Progress(1, 2))
    terminal.print_stderr("[desk] looking")
    drawn = "[##########..........]  50%"
    assert tty.text == f"\r{drawn}\r{' ' * len(drawn)}\r[desk] looking\n{drawn}"
    bar.end()
    terminal.print_stderr("later")
    assert tty.text.endswith(f"\n{drawn}\nlater\n")


def test_a_bar_does_not_hide_lines_of_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    tty = Tty()
    monkeypatch.setattr(sys, "stderr", tty)
    bar = terminal.ProgressBar()
    bar(minimcp.Progress(0, 1000))
    lines = [f"line {number}" for number in range(1000)]
    printing = threading.Thread(target=lambda: [terminal.print_stderr(line) for line in lines])
    printing.start()
    for number in range(1000):
        bar(minimcp.Progress(number, 1000, f"step {number}"))
    printing.join(WAIT)
    bar.end()
    # What a terminal shows: each line from its last carriage return on.
    shown = [line.rpartition("\r")[2].rstrip() for line in tty.text.split("\n")]
    assert shown[:1000] == lines and shown[1000].endswith("step 999")


def test_without_a_terminal_a_question_is_declined(capfd: Any) -> None:
    read, write = os.pipe()
    os.close(write)
    with open(read) as stdin:
        old, sys.stdin = sys.stdin, stdin
        try:
            assert terminal.ask(ElicitRequest("?\x1b[2J", {"type": "object"})).action == "decline"
        finally:
            sys.stdin = old
    assert capfd.readouterr().err == (
        "the server asks: ?\\x1b[2J\ndeclined: stdin is not a terminal\n"
    )


# ------------------------------------------------------------ formats

GOOD_AND_BAD: Dict[str, Any] = {
    "date": (["2026-02-28"], ["2026-02-30", "20260228", "2026-2-8", "x"]),
    "date-time": (
        ["2026-07-28T09:30:00Z", "2026-07-28T09:30:00.25+02:00"],
        ["2026-07-28", "2026-07-28T09:30:00", "2026-07-28T25:30:00Z", "2026-13-28T09:30:00Z"],
    ),
    "email": (["a@b", "ada.l+x@example.org"], ["ada", "@b", "a b@c", "a@b@c"]),
    "uri": (["https://example.org/a?b", "mailto:a@b"], ["example.org", "https://a b", "/x"]),
    "ipv4": (["anything"], []),
}


@pytest.mark.parametrize("name", GOOD_AND_BAD)
def test_formats(name: str) -> None:
    schema = {"type": "string", "format": name}
    good, bad = GOOD_AND_BAD[name]
    for value in good:
        assert terminal.check_format("x", value, schema) == value
    for value in bad:
        with pytest.raises(ValueError, match="^x: expected a value such as"):
            terminal.check_format("x", value, schema)
    assert terminal.check_format("x", 5, schema) == 5


# ------------------------------------------------------------ results

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Tty:
    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def shown(result: Any, monkeypatch: pytest.MonkeyPatch, folder: Any = None, **env: str) -> str:
    for name in ("TERM", "TERM_PROGRAM", "KITTY_WINDOW_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    tty = Tty()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", tty)
        terminal.show(result, folder)
    return tty.text


def result_of(function: Callable[..., Any]) -> minimcp.CallToolResult:
    server = minimcp.Server("x")
    server.add_tool(function, name="it", description="It.")
    with minimcp.connect(server) as client:
        client.list_tools()
        return client.call_tool("it", raise_on_error=False)


def test_text_is_shown_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(result_of(lambda: "a\x1b[2J\nb"), monkeypatch) == "a\\x1b[2J\nb\n"
    assert shown(result_of(_failing), monkeypatch) == "The tool failed:\nno \\x07\n"
    assert shown([minimcp.Text("a"), [minimcp.Text("b")]], monkeypatch) == "a\nb\n"


def _failing() -> None:
    raise minimcp.ToolError("no \x07")


def test_a_structured_result_without_text_is_shown_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    result = minimcp.CallToolResult([], structured_content={"a": 1})
    assert shown(result, monkeypatch) == '{\n  "a": 1\n}\n'


DRAWN: Any = [
    ({"TERM": "xterm-kitty"}, r"\x1b_Ga=T,f=100,m=0;[\w+/=]+\x1b\\\n"),
    ({"KITTY_WINDOW_ID": "1"}, r"\x1b_Ga=T,f=100,m=0;[\w+/=]+\x1b\\\n"),
    ({"TERM_PROGRAM": "iTerm.app"}, r"\x1b\]1337;File=inline=1;size=\d+:[\w+/=]+\x07\n"),
    ({"TERM_PROGRAM": "WezTerm"}, r"\x1b\]1337;File=inline=1;size=\d+:[\w+/=]+\x07\n"),
]


@pytest.mark.parametrize(("env", "pattern"), DRAWN)
def test_an_image_is_drawn_where_the_terminal_can(
    env: Dict[str, str], pattern: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image = minimcp.Image(PNG, "image/png")
    assert re.fullmatch(pattern, shown(image, monkeypatch, str(tmp_path), **env))
    assert not list(tmp_path.iterdir())
    path = str(tmp_path / "image-1.png")
    words = f"[image, image/png, {len(PNG)} bytes] {path}\n"
    assert shown(image, monkeypatch, str(tmp_path), **{**env, "TERM": "tmux-256color"}) == words
    assert Path(path).read_bytes() == PNG


def test_a_long_image_is_sent_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    image = minimcp.Image(PNG + bytes(9000), "image/png")
    text = shown(image, monkeypatch, TERM="xterm-kitty")
    pieces = re.findall(r"\x1b_G([^;]*);([\w+/=]{1,4096})\x1b\\", text)
    assert [settings for settings, _ in pieces] == ["a=T,f=100,m=1", "m=1", "m=0"]
    assert base64.b64decode("".join(piece for _, piece in pieces)) == image.data


def test_bytes_are_saved_beside_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    audio = minimcp.Audio(b"RIFF", "audio/x-wav")
    for number in (1, 2):
        text = shown([audio], monkeypatch, str(tmp_path))
        assert re.search(rf"\[audio, audio/x-wav, 4 bytes\] .*audio-{number}\.wav\n", text)
    text = shown(audio, monkeypatch)
    path = Path(text.split("] ")[1].strip())
    assert path.read_bytes() == b"RIFF" and path.parent.stat().st_mode & 0o77 == 0
    path.unlink()
    path.parent.rmdir()


def test_resources_and_prompts_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = minimcp.Server("x")

    @server.resource("x://text")
    def text() -> str:
        "Text."
        return "some text"

    @server.resource("x://bytes", mime_type="application/octet-stream")
    def data() -> bytes:
        "Bytes."
        return b"abc"

    @server.prompt
    def hello() -> str:
        "Say hello."
        return "Hello"

    with minimcp.connect(server) as client:
        assert shown(client.read_resource("x://text"), monkeypatch) == "some text\n"
        found = shown(client.read_resource("x://bytes"), monkeypatch, str(tmp_path))
        assert found.endswith(f"3 bytes] {tmp_path}/resource-1.bin\n")
        assert shown(client.get_prompt("hello"), monkeypatch) == "user:\nHello\n"


def test_words_become_arguments() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert terminal.read_arguments(["n=3", "x:=[1]"], schema) == {"n": 3, "x": [1]}
    with pytest.raises(ValueError, match="n: expected an integer"):
        terminal.read_arguments(["n=x"], schema)
    assert terminal.one_line("a\nb\x1b") == "a | b\\x1b"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
