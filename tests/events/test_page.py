"""The programs of examples/events.rst, run as the page says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from ..readme import blocks
from ..support import ROOT, WAIT, eventually
from .receiver import PEM, Receiver

FILES = ("watch.py", "poll.py", "follow.py", "receive.py", "subscribe.py")


@pytest.fixture
def settings(tmp_path: Path) -> Dict[str, str]:
    """The environment of the programs, which are in `tmp_path`. The server may reach this machine."""
    for name in FILES:
        text = blocks("file")[name].replace("Webhooks()", "Webhooks(private_addresses=True)")
        (tmp_path / name).write_text(text, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SSL_CERT_FILE": PEM,
        "DROP_TOKEN": "a-long-random-text-that-nobody-knows",
        "DROP_URL": f"http://127.0.0.1:{port}/mcp",
        "PORT": str(port),
    }


@pytest.fixture
def watching(tmp_path: Path, settings: Dict[str, str]) -> Iterator[None]:
    """Run watch.py."""
    process = subprocess.Popen([sys.executable, "watch.py"], cwd=tmp_path, env=settings)

    def is_open() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(settings["PORT"]))) == 0

    assert eventually(is_open)
    yield
    process.terminate()
    process.wait(WAIT)


def run(name: str, folder: Path, settings: Dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, name],
        cwd=folder,
        env=settings,
        stdout=subprocess.PIPE,
        text=True,
        timeout=WAIT,
    )
    assert done.returncode == 0
    return done.stdout


def test_a_watcher_a_cron_job_and_a_program_that_waits(
    tmp_path: Path, settings: Dict[str, str], watching: None
) -> None:
    assert run("poll.py", tmp_path, settings) == ""
    follow = subprocess.Popen(
        [sys.executable, "follow.py"],
        cwd=tmp_path,
        env=settings,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follow.stdout is not None
    first_poll = run("poll.py", tmp_path, settings)
    assert first_poll == ""
    (tmp_path / "drop" / "notes.txt").write_text("x")
    lines: List[str] = []

    def is_followed() -> bool:
        number = len(lines)
        (tmp_path / "drop" / f"{number}.csv").write_text("abc")
        assert follow.stdout is not None
        lines.append(follow.stdout.readline())
        return True

    assert eventually(is_followed)
    assert lines == ["0.csv 3\n"]
    assert run("poll.py", tmp_path, settings) == "0.csv 3\n"
    assert run("poll.py", tmp_path, settings) == ""
    follow.kill()
    follow.communicate()


def test_a_receiver_of_webhooks(
    tmp_path: Path,
    settings: Dict[str, str],
    watching: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    apps: List[Any] = []
    served = Receiver(lambda environ, start: apps[0](environ, start))
    settings["HOOKS_URL"] = served.url.replace("/hook", "/hooks")
    monkeypatch.setenv("HOOKS_URL", settings["HOOKS_URL"])
    monkeypatch.chdir(tmp_path)
    names: Dict[str, Any] = {}
    exec((tmp_path / "receive.py").read_text(), names)
    inbox = names["inbox"]
    apps.append(inbox.wsgi)
    assert run("subscribe.py", tmp_path, settings).startswith("sub_")
    (tmp_path / "drop" / "b.txt").write_text("x")
    (tmp_path / "drop" / "a.csv").write_text("abcd")
    assert eventually(lambda: [each.data for each in inbox.events()] != [])
    assert [each.data for each in inbox.events()] == [{"path": "a.csv", "size": 4}]
    printed: List[str] = []

    def is_printed() -> bool:
        printed.append(capsys.readouterr().out)
        return "saved a.csv" in "".join(printed)

    assert eventually(is_printed)
    inbox.close()
    names["store"].close()
    served.close()
