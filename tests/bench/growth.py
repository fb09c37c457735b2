"""Costs that could grow with the number of calls, connections or tools, or with the size of a
result."""

from __future__ import annotations

import json
import subprocess
import sys

from . import http_load, load
from .load import Broken, Child, Measured
from .subjects import HERE, Subject


def _plain(subject: Subject) -> Child:
    child = Child([*subject.server, "plain"], subject.environment())
    child.shake_hands()
    load.keep_in_flight(child, 500, 64)
    return child


def calls(subject: Subject, size: int) -> Measured:
    child = _plain(subject)
    try:
        return {
            f"calls-{window}": load.keep_in_flight(child, max(size, 2 * window), window)[0]
            for window in (1, 8, 64, 512)
        }
    finally:
        child.close()


def sleeps(subject: Subject, size: int) -> Measured:
    child = _plain(subject)
    try:
        return {
            f"sleeps-{count}": load.sleep_together(child, count, 0.05) for count in (1, 8, 64, 512)
        }
    finally:
        child.close()


def connections(subject: Subject, size: int) -> Measured:
    """CPU of a call for the number of connections that call at the same time."""
    measured = {}
    for count in (1, 8, 64, 512, 1024):
        child = http_load.Child([*subject.server, "http"], subject.environment(), connections=count)
        try:
            http_load.many(child, 2 * count)
            measured[f"connections-{count}"] = http_load.many(child, size)["http-many-cpu"]
        finally:
            child.close()
    measured["crowd"] = measured["connections-1024"] / measured["connections-64"]
    return measured


def tools(subject: Subject, size: int) -> Measured:
    """CPU seconds to register and to list tools, for each tool."""
    if subject.imported is None:
        raise Broken("its registration is not measured")
    measured = {}
    for count in (10, 1000, 10000):
        command = [sys.executable, str(HERE / "register_tools.py"), str(count)]
        done = subprocess.run(command, env=subject.environment(), capture_output=True, check=False)
        if done.returncode:
            raise Broken(f"register_tools: {done.stderr.decode()[-400:]}")
        found = json.loads(done.stdout)
        measured[f"register-{count}"] = found["register"]
        measured[f"listed-{count}"] = found["list"]
    return measured


def results(subject: Subject, size: int) -> Measured:
    """CPU seconds of the server for each MB of results."""
    child = _plain(subject)
    try:
        measured = {}
        for name, length, count in (
            ("result-1kb", 1000, 2000),
            ("result-1mb", 1000000, 20),
            ("result-16mb", 16000000, 3),
        ):
            text = "x" * length
            cpu = child.cpu()
            for _ in range(count):
                load.expect(child, child.exchange(child.call("echo", text=text), 1), text)
            measured[name] = (child.cpu() - cpu) / (count * length) * 1e6
        return measured
    finally:
        child.close()
