"""check: a server that is right passes; of servers that break one requirement each that one is
found, and no other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, List, Set
from xml.etree import ElementTree as xml

import pytest

from minimcp import Card, HttpOptions, Server
from minimcp.cli.checks import CHECKS
from minimcp.cli.probe import Pipe
from minimcp.protocol.versions import REVISIONS

from ..requirements import REQUIREMENTS
from ..support import WAIT
from ..web import Peer
from .conftest import Done, quoted

# A server of 2025-11-25 in a few lines that passes every check. With an argument it has one fault
# that odd_server.py does not have.
PLAIN = """
import json, sys
WRONG = sys.argv[1] if len(sys.argv) > 1 else ""
TOOL = {"name": "add", "inputSchema": {"type": "object"}}
TOOLS = [TOOL, TOOL] if WRONG == "TOOL-10" else [TOOL]

def answer(id, **more):
    print(json.dumps({"jsonrpc": "2.0", "id": str(id) if WRONG == "BASE-05" else id, **more}), flush=True)

def error(id, code):
    answer(id, error={"code": code, "message": "no"})

for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        if WRONG == "STDIO-10":
            sys.exit(1)
        continue
    if isinstance(message, list):
        if WRONG == "BATCH-15":
            print(json.dumps([{"jsonrpc": "2.0", "id": each["id"], "result": {}} for each in message]), flush=True)
        continue
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method is None:
        continue
    if id is None:
        if WRONG == "BASE-10" and method == "notifications/minimcp_check":
            error(None, -32601)
        continue
    if isinstance(params, list):
        error(id, -32602)
    elif method == "initialize":
        known = params["protocolVersion"] == "2025-11-25"
        if not known and WRONG == "LIFE-09":
            error(id, -32602)
            continue
        info = {"name": "plain", "version": "1"} if WRONG != "LIFE-02" else {"name": "plain"}
        answer(id, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "ping":
        answer(id, result={})
    elif method == "tools/list":
        if "cursor" in params and WRONG != "PAGE-08":
            error(id, -32602)
        else:
            answer(id, result={"tools": TOOLS})
    elif method == "tools/call":
        error(id, -32602) if WRONG != "TOOL-18" else answer(id, result={"content": [], "isError": True})
    elif WRONG == "silence" and method == "minimcp-check/nothing":
        pass
    elif WRONG == "LIFE-16" and method == "prompts/list":
        answer(id, result={"prompts": []})
    else:
        error(id, -32601)
"""

WARNINGS = {"STDIO-10", "TOOL-10", "TOOL-18", "PAGE-08", "BATCH-15", "LIFE-16"}
"""Rows that are not a MUST there."""


@pytest.fixture
def check(
    tmp_path: Path, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., List[Any]]:
    """The verdicts of a run on the plain server with one fault."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain.py").write_text(PLAIN)

    def run(wrong: str, *options: str) -> List[Any]:
        command = quoted(sys.executable, "-S", "plain.py", wrong)
        done = minimcp("check", command, "--revision", "2025-11-25", "--output", "json", *options)
        verdicts: List[Any] = json.loads(done.out)
        assert done.code == (
            1 if _of(verdicts, "fail") else 4 if _of(verdicts, "timeout") else 0
        ), done
        return verdicts

    return run


def _of(verdicts: List[Any], *outcomes: str) -> Set[str]:
    return {each["row"] for each in verdicts if each["outcome"] in outcomes}


def test_a_server_that_is_right_passes(check: Callable[..., List[Any]]) -> None:
    verdicts = check("")
    assert len(verdicts) >= 25 and not _of(verdicts, "fail", "warn"), verdicts
    missing = {
        "RES-03",
        "RES-10",
        "RES-08",
        "PRM-02",
        "PRM-11",
        "LOG-03",
        "LOG-07",
        "COMP-08",
        "RES-06",
        "TOOL-17",
    }
    assert _of(verdicts, "n/a") == missing


@pytest.mark.parametrize(
    "wrong",
    [
        "LIFE-02",
        "LIFE-09",
        "BASE-05",
        "BASE-10",
        "LIFE-16",
        "TOOL-10",
        "TOOL-18",
        "PAGE-08",
        "BATCH-15",
    ],
)
def test_each_breach_is_found_and_none_invented(
    wrong: str, check: Callable[..., List[Any]]
) -> None:
    verdicts = check(wrong)
    assert _of(verdicts, "warn" if wrong in WARNINGS else "fail") == {wrong}, verdicts
    assert not _of(verdicts, "fail" if wrong in WARNINGS else "warn")
    found = next(each for each in verdicts if each["row"] == wrong)
    assert found["evidence"] and found["revision"] == "2025-11-25"


# Why a breach is a failure: the specification says MUST or MUST NOT, JSON-RPC 2.0 prescribes it,
# or the schema of the revision requires the member.
FAILURES = {
    "MUST": (
        "BASE-01 BASE-05 BASE-10 BATCH-01 LIFE-02 LIFE-09 PING-01 SHTTP-02 SHTTP-10 SHTTP-11 SHTTP-12 SHTTP-32"
        " SHTTP-63 SHTTP-66 SHTTP-83 M:BASE-1 M:BASE-5 M:BASE-6 M:BASE-8 M:BASE-21 M:CACHE-1 M:CMP-1 M:DISC-1 M:DISC-2"
        " M:ERR-8 M:HDR-6 M:HDR-8 M:HDR-9 M:HTTP-5 M:HTTP-6 M:HTTP-10 M:META-4 M:META-5 M:PAG-1 M:PRM-1 M:RES-1"
        " M:RES-3 M:TOOL-4 M:TOOL-6 M:VER-S1 EV-61 cache"
    ),
    "JSON-RPC": "BASE-17 BASE-18 EV-1",
    "schema": "PAGE-03 PRM-02 RES-03 RES-06 RES-10 TOOL-03 TOOL-17 M:RES-5 M:RES-9 EV-9 EV-10 EV-11",
}  # fmt: skip


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda revision: revision.name)
def test_a_breach_is_a_failure_only_where_something_demands_it(revision: Any) -> None:
    demanded = {row for rows in FAILURES.values() for row in rows.split()}
    for each in CHECKS:
        row = each.row_in(revision)
        assert row is None or each.failed_in(revision) == "warn" or row in demanded, each


ODD_SERVER = str(Path(__file__).parent / "odd_server.py")


@pytest.mark.parametrize(
    ("odd", "rows"),
    [
        ("nothing", ""),
        ("no templates", ""),
        ("large schema", ""),
        ("foreign reference", ""),
        ("old dialect", ""),
        ("chatty", ""),
        ("wrong schema", "TOOL-03 M:TOOL-4"),
        ("no ping", "PING-01"),
        ("null cursor", "PAGE-03"),
        ("number as cursor", "PAGE-03 M:PAG-1"),
        ("same cursor", "PAGE-03 M:PAG-1"),
        ("array as name", "TOOL-03 M:TOOL-4"),
        ("texts as tools", "TOOL-03 M:TOOL-4"),
        ("array as _meta", "M:RES-5"),
        ("text as data", "M:VER-S1"),
        ("null versions", "M:DISC-1"),
        ("deep line", "BASE-01 M:BASE-1"),
        ("binary line", "BASE-01 M:BASE-1"),
        ("death", "BASE-17 M:ERR-8"),
        ("empty contents", "RES-06 M:RES-5"),
        ("completes anything", ""),
    ],
)
def test_odd_behavior_is_a_breach_only_if_the_specification_says_so(
    odd: str, rows: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("check", quoted(sys.executable, "-S", ODD_SERVER, odd), "--output", "json")
    verdicts = json.loads(done.out)
    assert _of(verdicts, "fail") == {*rows.split()} and not _of(verdicts, "timeout"), (
        odd,
        verdicts,
    )
    assert done.code == int(bool(rows))
    if not rows:
        assert _of(verdicts, "warn") == (
            {"COMP-08", "M:CMP-5"} if odd == "completes anything" else set()
        ), verdicts


def test_a_tool_is_called_with_arguments_of_its_schema(
    shop_url: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp(
        "check", shop_url, "--only", "TOOL-17", "--verbose", "--call", "order", "item=5", "tags=a"
    )
    assert done.code == 0 and done.out.startswith("PASS  2025-11-25 TOOL-17"), done
    done = minimcp("check", shop_url, "--only", "TOOL-17", "--call", "ordr")
    assert done.code == 2 and "the server has no tool 'ordr', did you mean order?" in done.err


def test_an_unsupported_revision_is_not_a_breach(minimcp: Callable[..., Done]) -> None:
    plain = quoted(sys.executable, "-S", ODD_SERVER, "nothing")
    done = minimcp("check", plain, "--revision", "2024-11-05")
    assert (done.code, done.out) == (3, "") and done.err.endswith(
        ": the server supports 2025-11-25, not 2024-11-05\n"
    )


def test_a_server_that_dies_or_is_silent_is_started_again(
    check: Callable[..., List[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = Pipe.exchange

    def where_it_is_silent(pipe: Pipe, body: bytes, *rest: Any, **more: Any) -> Any:
        assert pipe.timeout == WAIT
        if b"minimcp-check/nothing" in body:
            pipe.timeout = 0.01
        return exchange(pipe, body, *rest, **more)

    verdicts = check("STDIO-10")
    assert _of(verdicts, "warn") == {"STDIO-10"} and "afterwards the server does not answer" in str(
        verdicts
    )
    monkeypatch.setattr(Pipe, "exchange", where_it_is_silent)
    verdicts = check("silence", "--timeout", str(WAIT))
    assert _of(verdicts, "timeout") == {"BASE-17"} and not _of(verdicts, "fail", "warn")
    assert "no answer within 0.01 s" in next(
        each["evidence"] for each in verdicts if each["row"] == "BASE-17"
    )


@pytest.fixture
def site() -> Iterator[str]:
    """The URL of a server with something of each kind."""
    card = Card("com.example/bakery", "https://example.com/mcp")
    server = Server("bakery", version="1", description="Sells bread.", card=card)

    @server.tool
    def price(n: int) -> float:
        """Tell the price."""
        return n * 2.5

    @server.resource("notes://all")
    def notes() -> str:
        """All."""
        return "all"

    @server.resource("notes://{name}")
    def note(name: str) -> str:
        """One."""
        return name

    @server.prompt
    def brief(topic: str) -> str:
        """Brief."""
        return topic

    with server.start_http(port=0) as running:
        yield running.url


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_our_server_passes_over_http(
    revision: str, site: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("check", site, "--revision", revision, "--call", "price", "n=2", "--verbose")
    assert (
        done.code == 0 and "PASS" in done.out and "FAIL" not in done.out and "WARN" not in done.out
    ), done.out
    # The server has no events, and only one token was given.
    count = 13 if revision == "2026-07-28" else 1
    assert done.out.splitlines()[-1].endswith(
        f" 0 failed, 0 warnings, {count} do not apply; revisions {revision}"
    )


def test_our_server_passes_over_stdio_in_both_eras(
    shop: str, tmp_path: Path, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("check", shop, "--junit", str(tmp_path / "found.xml"))
    assert done.code == 0, done
    assert done.out.endswith(
        " 0 failed, 0 warnings, 25 do not apply; revisions 2025-11-25, 2026-07-28\n"
    )
    suite = xml.parse(tmp_path / "found.xml").getroot()
    cases = suite.findall("testcase")
    assert (
        suite.get("failures") == "0"
        and suite.get("tests") == str(len(cases))
        and suite.get("skipped") == "25"
    )
    assert (
        cases[0].get("name")
        == "LIFE-02 the first result names the revision, the capabilities and the server"
    )


def test_a_breach_over_http_is_found_and_inapplicable_checks_are_listed(
    minimcp: Callable[..., Done],
) -> None:
    options = HttpOptions(allowed_origins=["http://attacker.example"], sessions=False)
    with Server("open", http=options).start_http(port=0) as running:
        done = minimcp("check", running.url, "--output", "json")
    verdicts = json.loads(done.out)
    assert (
        done.code == 1
        and _of(verdicts, "fail") == {"SHTTP-02", "M:HTTP-10"}
        and not _of(verdicts, "warn")
    ), verdicts
    assert "any page that a user visits" in str(verdicts)
    sessions = [
        each["evidence"] for each in verdicts if each["row"] in ("SHTTP-63", "SHTTP-65", "SHTTP-66")
    ]
    assert sessions == ["the server has no sessions"] * 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "the following arguments are required: TARGET"),
        (["shop.py", "--only", "TOOL-99"], 2, "unknown check TOOL-99; the checks are BASE-01, "),
        (["no-such-file.py"], 3, "there is no file 'no-such-file.py'"),
        (["shop.py", "--revision", "1999-01-01"], 2, "invalid choice: '1999-01-01'"),
        (["http://127.0.0.1:9/mcp"], 3, "127.0.0.1:9"),
        (["shop.py", "--token", "x"], 2, "apply only to a server with a URL"),
    ],
)
def test_wrong_usage(
    words: List[str], code: int, said: str, shop: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("check", *words)
    assert done.code == code and said in done.err, done


def test_a_single_check_can_be_run(shop_url: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("check", shop_url, "--only", "PING-01", "--only", "M:META-5", "--verbose")
    assert [line[:24] for line in done.out.splitlines()[:2]] == [
        "PASS  2025-11-25 PING-01",
        "PASS  2026-07-28 M:META-",
    ]


def test_every_check_is_about_a_row_of_the_manifest() -> None:
    rows = {row for check in CHECKS for row in (check.row, check.row_stateless) if row is not None}
    rows -= {"hosts", "size", "cache"}  # the specification has no such row
    assert (
        rows <= REQUIREMENTS.keys() and len({check.about for check in CHECKS}) == len(CHECKS) >= 36
    )


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", ["--token", "kW9-secret"]),
        ("", ["--header", "X-Api-Key: kW9-secret"]),
        ("?key=kW9-secret", []),
    ],
)
def test_a_secret_that_the_server_repeats_is_masked(
    status: int, query: str, words: List[str], minimcp: Callable[..., Done]
) -> None:
    def repeat(heard: Any, wire: Any) -> None:
        wire.whole(status, f"{heard.path} {dict(heard.headers)}".encode(), "text/plain")

    said = dict.fromkeys(("initialize", "server/discover"), repeat)
    with Peer(said) as peer:
        done = minimcp("check", peer.url + query, *words)
    assert done.code and "kW9" not in done.out + done.err
