"""The same handlers give the same visible results in all five revisions, over memory and stdio."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any, List, Tuple

import pytest

import minimcp
from minimcp import CancelToken

from ..answering import R1, R2
from ..scripted import wait_for
from ..support import WAIT
from .links import LINKS, served


class Host:
    """A friendly user, a model that repeats, and ears."""

    def __init__(self) -> None:
        self.asked: List[str] = []
        self.logged: "SimpleQueue[Any]" = SimpleQueue()
        self.updated: "SimpleQueue[str]" = SimpleQueue()
        self.yes = True

    def elicit(self, request: Any) -> Any:
        self.asked.append(request.message)
        return {"seats": 2} if self.yes else None

    def sample(self, request: Any) -> str:
        self.asked.append(request.text)
        return f"{request.text}!"

    def on_log(self, message: Any) -> None:
        self.logged.put((message.level, message.data))

    def on_resource_updated(self, uri: str) -> None:
        self.updated.put(uri)


@pytest.mark.requirement("SEED-33", "M:PRM-6")
@pytest.mark.parametrize("transport, revision", LINKS)
def test_one_handler(transport: str, revision: str, tmp_path: Path) -> None:
    host, ledger, has_forms = Host(), tmp_path / "ledger", revision not in (R1, R2)
    target = served(transport, "one_handler")
    roots: List[Any] = [minimcp.Root("file:///a", "home")]
    with minimcp.connect(
        target, revision=revision, handlers=host, roots=roots, timeout=WAIT
    ) as client:
        client.set_log_level("info")
        client.subscribe("ledger://")
        reports: List[Tuple[Any, ...]] = []
        for number in (1, 2):
            host.asked.clear()
            reports.clear()
            result = client.call_tool(
                "plan", {"city": "Oslo", "ledger": str(ledger)},
                on_progress=lambda report: reports.append((report.progress, report.total, report.message)),
            )  # fmt: skip
            trip = '{"city":"Oslo","hours":4,"by":"tools/call"}'
            seats, verse = 2 if has_forms else 1, "A verse about Oslo!"
            said = {
                "seats": seats,
                "folders": ["home"],
                "verse": verse,
                "number": number,
                "trip": trip,
            }
            assert json.loads(result.text) == said
            assert result.value == (result.text if revision in (R1, R2) else said)
            assert host.asked == ["Who goes to Oslo?"] * has_forms + ["A verse about Oslo"], (
                "each is asked once"
            )
            assert reports == [
                (leg, 3, None if revision == R1 else f"leg {leg}") for leg in (1, 2, 3)
            ]
            assert host.logged.get(timeout=WAIT) == ("info", {"booked": number})
            assert host.updated.get(timeout=WAIT) == "ledger://"
            assert ledger.read_text("utf-8") == f"Oslo for {seats}\n" * number, "once for each call"
        if has_forms:
            host.yes = False
            assert (
                client.call_tool("plan", {"city": "Rome", "ledger": str(ledger)}).text
                == '{"booked":false}'
            )
        by_prompt = client.get_prompt("praise", {"city": "Oslo"})
        assert [(each.role, each.content.text) for each in by_prompt.messages] == [  # type: ignore[union-attr]
            ("user", "What of Oslo?"), ("assistant", "Praise Oslo!"),
        ]  # fmt: skip
        assert client.complete("city", "Ber", prompt="praise").values == ["Bergen", "Berlin"]
        assert json.loads(client.read_resource("trip://Oslo").text or "")["by"] == "resources/read"
        token, begun = CancelToken(), threading.Event()
        wanderer = client.submit(
            client.call_tool, "wander", cancel=token, on_progress=lambda report: begun.set()
        )
        wait_for(begun)
        token.cancel("enough")
        with pytest.raises(minimcp.Cancelled, match="enough"):
            wanderer.result(WAIT)
        assert host.logged.empty() and host.updated.empty(), "nothing is told twice"
