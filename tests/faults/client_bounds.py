"""K26 to K32: limits on the data that a client keeps, runs, sends and prints for a server."""

from __future__ import annotations

import json
from typing import Any, List

from ..web import Heard, Wire
from .client import Client, Reply
from .client_http import SECRET, Legacy, _redirect, cut_after, hostile, opened, refused, visitor
from .client_stdio import HANDSHAKE, clients
from .http_bounds import TEXT, forged
from .trial import Missing, Trial, case
from .web_tools import answer, as_event

WORST = "a" * 40 + "!"
PATTERNS = (  # a matcher with backtracking never finishes this, on WORST or on the text next to it
    ("^(a+)+$", WORST), ("^(?:a|a)*$", WORST), ("(?:a|a)" * 40 + "$", WORST), ("(?:a|aa)" * 40 + "$", WORST),
    ("^" + "a?" * 40 + "a" * 40 + "$", WORST), ("^" + "a{1,2}" * 40 + "$", "a" * 70 + "!"),
    ("^" + "a{0,99}" * 6 + "$", "a" * 400 + "!"), (".*.*.*.*.*=", "a" * 3_000), (r"^(a|b|ab)*c\1$", "ab" * 30),
    ("^(?=(a+a?)+$)", WORST), ("^(?:a?b?){40}c", "ab" * 25), ("(x+x+)+y", "x" * 3_000),
)  # fmt: skip


@case("K26")
def backtracking(t: Trial) -> None:
    """Output schemas of a server, one property for each pattern, and forms with a default to check."""
    tools: List[Any] = [{"name": "echo", "inputSchema": {"type": "object"}}]
    steps: List[Any] = []
    many = {"items": {"anyOf": [*({"pattern": f"a.*a?a?{n}$"} for n in range(100)), {}]}}
    cases: List[Any] = [({"pattern": pattern}, text) for pattern, text in PATTERNS]
    cases += [({"patternProperties": {pattern: {}}}, {text: 1}) for pattern, text in PATTERNS]
    for number, (schema, value) in enumerate([*cases, (many, ["a" * 1_000] * 30)]):
        output = {"type": "object", "properties": {"x": schema}}
        tools.append(
            {"name": f"t{number}", "inputSchema": {"type": "object"}, "outputSchema": output}
        )
        steps += [{"result": {"content": [], "structuredContent": {"x": value}}}, None]
    for client in clients(t, list={"tools": tools}, tool_errors=steps):
        listed = client.do("list", timeout=5.0)
        t.below("the list", listed.seconds, 2)
        t.expect(
            listed.more.get("count") == len(tools),
            f"{listed.more.get('count')} tools: {listed.message}"[:120],
        )
        for tool in tools[1:]:
            seconds = client.call(tool["name"], 2.0).seconds
            t.expect(seconds <= 3 * t.options.slack, f"{seconds:.1f} s for {tool}"[:150])
            client.alive()
    forms = [{"type": "string", "pattern": pattern, "default": text} for pattern, text in PATTERNS]
    asked = [{"raw": question({"x": form})} for form in forms]
    client = t.client()
    if client.open(elicit=0, tool_errors=[*asked, None], **HANDSHAKE).error == "unsupported":
        return
    for _ in asked:  # the call gets no response, only the question does
        t.below("a call with a form", client.call("echo", 0.5).seconds, 2)
    client.alive()


def question(properties: Any, id: str = '"q"') -> str:
    params = {"message": "m", "requestedSchema": {"type": "object", "properties": properties}}
    return '{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":%s}' % (
        id,
        json.dumps(params),
    )


@case("K27")
def faster_than_callbacks(t: Trial) -> None:
    def over_http(client: Client) -> Reply:
        return opened(client, hostile(t, handshake=True), on_log="slow")

    def over_stdio(client: Client) -> Reply:
        return client.open(on_log="slow", **HANDSHAKE)

    for name, connect in (("stdio", over_stdio), ("HTTP", over_http)):
        client = t.client()
        reply = connect(client)
        if reply.error == "unsupported":
            raise Missing("the adapter has no on_log")
        assert reply.ok, f"open: {reply.error}: {reply.message}"
        base = client.memory()
        for how, more in (
            ("timeout", {"timeout": 1.0}),
            ("cancel", {"cancel_after": 1.0}),
            ("close", {}),
        ):
            given = {
                "tool": "flood",
                "arguments": {},
                "timeout": client.never,
                "progress": True,
                **more,
            }
            call = client.begin("call", **given)
            if how == "close":
                call.done.wait(1.0)
                t.below(f"{name}: close", client.do("close", timeout=5.0).seconds, 5)
            reply = call.wait(1.0 + t.options.patience)
            t.expect(not reply.ok, f"{name}, {how}: a success")
            t.below(
                f"{name}: a call with a {how} after 1 s", reply.seconds, 3 if how != "close" else 6
            )
        t.below(f"{name}: growth", client.memory("VmHWM") - base, 100, "MB")


READ_IN_TWO_WAYS = (
    "http://127.0.0.1:{other}\\@127.0.0.1:{own}/m", "http://127.0.0.1:{own}\\@127.0.0.1:{other}/m",
    "http://127.0.0.1:{own}@127.0.0.1:{other}/m", "http://a:b@127.0.0.1:{own}/m", "/\\127.0.0.1:{other}/m",
    "\\\\127.0.0.1:{other}\\m", "http:\\\\127.0.0.1:{other}/m", "http:/\\127.0.0.1:{other}/m",
    "/\t/127.0.0.1:{other}/m", "ht\ttp://127.0.0.1:{other}/m", "http://127.0.0.1:{own}\t@127.0.0.1:{other}/m",
    "http://127.0.0.1:{other}\x01@127.0.0.1:{own}/m", "http://127.0.0.1:{own}\x0b\\@127.0.0.1:{other}/m",
    "http://\uff11\uff12\uff17.0.0.1:{other}/m", "http://127\u30020\u30020\u30021:{other}/m",
    "http://127.0.0.1:{own}\uff0f@127.0.0.1:{other}/m", "http://[::ffff:127.0.0.1]:{other}/m",
    "http://2130706433:{other}/m", "http://127.1:{other}/m", "http://127.0.0.1:{other}:{own}/m",
)  # fmt: skip


@case("K28")
def read_in_two_ways(t: Trial) -> None:
    """Endpoints of HTTP+SSE and redirects that lead to one server for one parser, and to another
    for the next."""
    client, other = t.client(), hostile(t)
    web = hostile(t, said={"tools/call": _redirect(other)})
    visitor(t, web, client, headers=SECRET)
    for text in READ_IN_TWO_WAYS:
        to = text.format(own=web.port, other=other.port).encode().decode("latin-1")
        reply = client.call("away", status=307, to=to)
        t.expect(
            not other.connections,
            f"connections elsewhere, by a redirect to {text}: {other.heard[:1]}",
        )
        refused(t, reply, f"a redirect to {text}")
    client.do("close")
    for text in READ_IN_TWO_WAYS:
        evil = Legacy(t, "")
        evil.endpoint = text.format(own=evil.web.port, other=other.port)
        reply = opened(client, evil.web, headers=SECRET)
        t.expect(
            not other.connections,
            f"connections elsewhere, by the endpoint {text}: {other.heard[:1]}",
        )
        refused(t, reply, f"the endpoint {text}", 3.0)
        client.do("close")
        evil.web.dispose()


@case("K29")
def reconnects(t: Trial) -> None:
    """The stream of a session and that of a call end at once, each time after another id."""

    def get(heard: Heard, wire: Wire) -> None:
        kind = heard.headers.get("last-event-id", "s")[0]
        wire.stream()
        wire.chunk(f"id: {kind}{len(web.heard)}\nretry: 0\ndata:\n\n".encode())
        wire.end()

    web = hostile(t, handshake=True, said={"GET": get, "tools/call": cut_after("call", 0)})
    client = visitor(t, web)
    refused(t, client.call("cut", 5.0), "a stream that always ends, timeout 5 s", 7.0)
    asked = [heard.headers.get("last-event-id", "s")[0] for heard in web.all("GET")]
    for name in ("session", "call"):
        t.below(f"streams of the {name} in 5 s", asked.count(name[0]), 10, "")


@case("K30")
def event_ids(t: Trial) -> None:
    client = t.client()
    for id in ("\u65e5\u672c".encode(), b"\xc3\xa9", b"\xff\xfe", b"a b\x7f", b"x" * 30_000_000):
        begun: List[Heard] = []

        def get(heard: Heard, wire: Wire, begun: List[Heard] = begun) -> None:
            if "last-event-id" not in heard.headers:
                wire.whole(405)
                return
            wire.stream()
            wire.chunk(as_event(answer(begun[0], "resumed")))
            wire.end()

        def call(heard: Heard, wire: Wire, id: bytes = id, begun: List[Heard] = begun) -> None:
            begun.append(heard)
            wire.stream()
            wire.chunk(b"id: %s\nretry: 1\ndata: \n\n" % id)
            wire.end()

        web = hostile(t, handshake=True, said={"GET": get, "tools/call": call})
        reply = visitor(t, web, client).call("cut", 5.0)
        sent = [
            heard.headers.get("last-event-id", "").encode("latin-1") for heard in web.all("GET")
        ]
        shown = f"the id {id[:10]!r} of {len(id)}"
        if len(id) > 100_000:
            t.expect(not reply.ok or reply.text == "resumed", f"{shown}: {reply.text}")
            t.below(f"{shown} was sent in bytes", max(map(len, sent), default=0), 65_536, "")
        else:
            t.expect(
                reply.text == "resumed",
                f"{shown}: the answer is lost: {reply.error}: {reply.message}"[:200],
            )
            back = {id, id.decode("utf-8", "replace").encode()}
            t.expect(back & set(sent), f"{shown} was sent as {[one[:20] for one in sent]}")
        t.below(shown, reply.seconds, 6)
        client.do("close")


@case("K31")
def kept(t: Trial) -> None:
    """Notices and questions that wait for a slow user, and cookies."""
    for name, how, given in (
        ("200 MB of notices", {"on_log": "block"}, {"count": 100, "size": 2_000_000}),
        ("200,000 questions", {"elicit": 10}, {"count": 200_000, "line": question({})}),
    ):
        client = t.client()
        if client.open(**how, **HANDSHAKE).error == "unsupported":
            raise Missing("the adapter has no callbacks")
        client.alive()
        base, reply = client.memory(), client.call("note-flood", 60, **given)
        t.below(name, client.memory("VmHWM") - base, 130, "MB")
        lost = (
            "elicit" in how and reply.error == "ConnectionLost"
        )  # it need not wait for who never reads its answers
        t.expect(
            reply.text == "after the flood" or lost, f"{name}: {reply.error}: {reply.message}"[:150]
        )
    heads: List[int] = []

    def baked(heard: Heard, wire: Wire) -> None:
        number, body = len(heads), answer(heard)
        heads.append(sum(map(len, heard.headers.values())))
        cookies = "".join(f"Set-Cookie: c{number}-{n}={'x' * 8_000}\r\n" for n in range(80))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{cookies}\r\n"
        wire.raw(head.encode() + body)

    client = visitor(t, hostile(t, said={"tools/call": baked}))
    for _ in range(5):
        client.call("echo")
    t.expect(len(heads) == 5, f"{len(heads)} of 5 calls came")
    t.below("head of a request after 320 cookies of 8 kB", max(heads, default=0) / 1_000, 300, "kB")


@case("K32")
def logs(t: Trial) -> None:
    """A server's text appears in every place that a client may log, and the client configures no
    logging."""

    def listed(heard: Heard, wire: Wire) -> None:
        twice = {f"{n}{TEXT}": {"type": "string", "x-mcp-header": "Twice"} for n in range(2)}
        schema = {"type": "object", "properties": twice}
        tools = [
            {"name": name, "inputSchema": schema, "outputSchema": {"pattern": TEXT}}
            for name in (TEXT, "echo")
        ]
        wire.result({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})

    def no(heard: Heard, wire: Wire) -> None:
        wire.error(-32600, TEXT, TEXT)

    said = {
        "notifications/initialized": no,
        "tools/list": listed,
        "tools/call": no,
        "GET": no,
        "DELETE": no,
    }
    for handshake in (True, False):
        client = t.client()
        opened(client, hostile(t, handshake=handshake, said=said))
        client.do("list", timeout=5.0)
        t.expect(not client.call("echo").ok, "a call that was refused is a success")
        client.do("close")
        forged(t, client.stderr(), "the client over HTTP")
