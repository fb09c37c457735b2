"""The table of checks that `check` runs: each is a function of a `Probe`, with the requirement that
it is about.

https://modelcontextprotocol.io/specification/2025-11-25
https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Callable, Mapping, Optional

from .. import errors
from ..http.headers import media_type
from ..protocol.lifecycle import CAPABILITIES_KEY, VERSION_KEY, PerRequest, server_info
from ..schema.checker import SchemaNotSupported, compile_peer_check
from ..types import Prompt, ReadResourceResult, Resource, ResourceTemplate, Tool
from .probe import LISTS, TEMPLATES, Failed, NotApplicable, Probe, Reply, ServerCheck

CHECKS: list[ServerCheck] = []

# Names that no server has.
NOBODY, NOWHERE = "minimcp-check-no-such-name", "minimcp-check://no/such/resource"

PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")

Run = Callable[[Probe], Optional[str]]


def check(
    about: str, row: Optional[str], row_alone: Optional[str] = None, **more: Any
) -> Callable[[Run], Run]:
    """Put a function into the table; arguments as `ServerCheck`."""

    def put(run: Run) -> Run:
        CHECKS.append(ServerCheck(about, row, row_alone, run, **more))
        return run

    return put


def expect(fits: Any, evidence: str) -> None:
    """Raise Failed with the evidence, unless it fits."""
    if not fits:
        raise Failed(evidence)


def code_of(method: str, reply: Reply) -> Any:
    """The code of the error that a reply is. Raises Failed: it is none."""
    expect(reply.error, f"{method} gets no error, but {reply}")
    return reply.error.get("code")


def expect_code(
    probe: Probe, wanted: int, method: str, params: Optional[Mapping[str, Any]] = None, **more: Any
) -> str:
    """See that a request is answered by an error of this code; over HTTP alone with the status that
    goes with it."""
    reply = probe.request(method, params, **more)
    code = code_of(method, reply)
    expect(code == wanted, f"{method} is answered with {code}, not {wanted}")
    if (
        probe.way.is_web and probe.alone and wanted != errors.INVALID_PARAMS
    ):  # for which no status is prescribed
        from ..http.headers import STATUS

        expect(
            reply.status == STATUS[wanted],
            f"{method} has the status {reply.status}, not {STATUS[wanted]}",
        )
    return f"{code}"


def refused(
    about: str,
    row: Optional[str],
    row_alone: Optional[str],
    code: int,
    method: str,
    params: Optional[Mapping[str, Any]] = None,
    *,
    by: str = "",
    headers: Mapping[str, Optional[str]] = {},
    **more: Any,
) -> None:
    """Put a check into the table that sees that a request is answered by an error of this code.

    Args:
        code: Of the error.
        method: That is asked.
        params: As `Probe.request`; so ``headers``.
        by: The capability that the server has to declare; "" for none.
        more: As ``about`` and the rows: for `check`.
    """

    def run(probe: Probe) -> str:
        if by:
            lacks(probe, by)
        return expect_code(probe, code, method, params, headers=headers)

    check(about, row, row_alone, **more)(run)


def lacks(probe: Probe, capability: str) -> None:
    """Raise NotApplicable if the server does not declare a capability."""
    if capability not in probe.capabilities:
        raise NotApplicable(f"the server does not declare {capability}")


# ------------------------------------------------------------ the opening


@check("the opening says revision, capabilities and who the server is", "LIFE-02", "M:DISC-1")
def _opening(probe: Probe) -> str:
    found = probe.opening
    expect(isinstance(found.get("capabilities"), dict), "capabilities is no object")
    if probe.alone:
        names = found.get("supportedVersions")
        expect(
            isinstance(names, list) and probe.revision.name in names,
            f"supportedVersions is {names!r:.100}",
        )
    else:
        info = found.get("serverInfo")
        known = [
            isinstance(info, dict) and isinstance(info.get(name), str)
            for name in ("name", "version")
        ]
        expect(all(known), f"serverInfo has a name and a version, and is {info!r:.100}")
        named = found.get("protocolVersion")
        expect(named == probe.revision.name, f"protocolVersion is {named!r:.60}")
    return ", ".join(found["capabilities"]) or "no capabilities"


@check("an unknown revision is answered with one that the server speaks", "LIFE-09", "M:VER-S1")
def _unknown_revision(probe: Probe) -> str:
    if not probe.alone:
        other = Probe(probe.connect, probe.revision)
        try:
            other.way = probe.connect(probe.take)
            params = {
                "protocolVersion": "1999-01-01",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            named = other.result("initialize", params).get("protocolVersion")
        finally:
            other.close()
        expect(isinstance(named, str) and named != "1999-01-01", f"it answers {named!r:.60}")
        return str(named)
    envelope = {**_envelope(probe), VERSION_KEY: "1999-01-01"}
    reply = probe.request(
        "tools/list", envelope=envelope, headers={"MCP-Protocol-Version": "1999-01-01"}
    )
    expect(code_of("tools/list", reply) == errors.UNSUPPORTED_VERSION, f"the answer is {reply}")
    data = reply.error.get("data")
    supported = data.get("supported") if isinstance(data, dict) else None
    expect(isinstance(supported, list), f"data.supported is {supported!r:.60}")
    return f"supported: {supported}"


def _envelope(probe: Probe) -> dict[str, Any]:
    return PerRequest.envelope_for(probe.revision, None, {})


# ------------------------------------------------------------ messages


@check("ping is answered with an empty object", "PING-01")
def _ping(probe: Probe) -> None:
    found = probe.result("ping")
    expect(not {*found} - {"_meta"}, f"the result is {found!r:.100}")


@check("the id of an answer is that of the request, type included", "BASE-05", "M:BASE-5")
def _ids(probe: Probe) -> None:
    for id in (4711, "4711", "id with blanks"):
        reply = probe.request(probe.ping, id=id)
        found = reply.answer.get("id") if isinstance(reply.answer, dict) else None
        expect(found == id and type(found) is type(id), f"{id!r} is answered with the id {found!r}")


refused(
    "an unknown method is answered with -32601",
    "BASE-17",
    "M:ERR-8",
    errors.METHOD_NOT_FOUND,
    "minimcp-check/nothing",
)
refused(
    "a method of the other side is unknown",
    "BASE-18",
    "M:ERR-8",
    errors.METHOD_NOT_FOUND,
    "sampling/createMessage",
    {"messages": [], "maxTokens": 1},
)


@check("methods that went with the handshake are unknown", None, "M:ERR-8")
def _removed(probe: Probe) -> str:
    for method in ("ping", "logging/setLevel", "resources/subscribe"):
        expect_code(probe, errors.METHOD_NOT_FOUND, method, {"level": "info", "uri": NOWHERE})
    return "ping, logging/setLevel, resources/subscribe"


@check("a request whose params are an array is not served", "BASE-12", "M:BASE-21", must=False)
def _array_of_params(probe: Probe) -> str:
    request = {"jsonrpc": "2.0", "id": "check-array", "method": "tools/list", "params": [1]}
    probe.send(request, None, probe.headers("tools/list"))
    alive = probe.is_alive()
    for each in probe.came:
        served = isinstance(each, dict) and each.get("id") == "check-array" and "result" in each
        expect(not served, f"the answer is {each!r:.200}")
    return alive


@check("a notification is not answered, an unknown one neither", "BASE-10", "M:BASE-8")
def _notifications(probe: Probe) -> str:
    probe.notify("notifications/minimcp_check")
    return _silence(probe)


def _silence(probe: Probe) -> str:
    """See that what was sent got no answer: the first that comes is that of the next request."""
    alive = probe.is_alive()
    came = [each for each in probe.came if not (isinstance(each, dict) and "method" in each)]
    expect(
        len(came) <= 1 or probe.way.is_web, f"an answer came: {came[0]!r:.200}"
    )  # by HTTP it may say what is wrong
    return alive


@check("a cancellation of what nobody asked is ignored", "CANC-05", "M:CAN-4", must=False)
def _cancelled(probe: Probe) -> str:
    probe.notify("notifications/cancelled", {"requestId": 987654})
    return _silence(probe)


@check("an answer that nobody waits for is dropped", "BASE-19", must=False)
def _stray(probe: Probe) -> str:
    probe.send({"jsonrpc": "2.0", "id": 987654, "result": {}})
    return _silence(probe)


@check(
    "a line that is no JSON does not end the connection",
    "STDIO-10",
    "M:BASE-21",
    must=False,
    web=False,
)
def _broken_line(probe: Probe) -> str:
    probe.send(b'{"jsonrpc": "2.0", "id": 1, "method"')
    return probe.is_alive()


@check("a body that is no JSON is refused with a status of 400", "SHTTP-11", "M:BASE-21", web=True)
def _broken_body(probe: Probe) -> str:
    reply = probe.send(b'{"jsonrpc": "2.0", "id": 1, "method"')
    expect(400 <= reply.status < 500, f"the status is {reply.status}")
    return f"{reply.status}"


@check(
    "an array of requests is answered",
    "BATCH-01",
    when=lambda one: one.batches and one.completions_capability,
)
def _batch(probe: Probe) -> None:
    asked = [{"jsonrpc": "2.0", "id": f"check-batch-{each}", "method": "ping"} for each in (1, 2)]
    probe.send(asked, "check-batch-2" if probe.way.is_web else None)
    probe.is_alive()
    answers = [each for came in probe.came for each in (came if isinstance(came, list) else [came])]
    ids = {str(each.get("id")) for each in answers if isinstance(each, dict) and "result" in each}
    expect(
        ids >= {"check-batch-1", "check-batch-2"},
        f"two requests in an array get {len(ids) - 1} results",
    )


@check(
    "an array of messages is refused",
    "BATCH-15",
    "M:BASE-21",
    must=False,
    must_alone=True,
    when=lambda revision: not revision.batches,
)
def _arrays(probe: Probe) -> None:
    reply = probe.send([{"jsonrpc": "2.0", "id": 5, "method": "ping"}])
    expect(
        reply.status >= 400 or not probe.way.is_web,
        f"it is answered with status {reply.status}: {reply}",
    )
    probe.is_alive()
    expect(not any(line.startswith("<-- [") for line in probe.log), "an array came back")


# ------------------------------------------------------------ HTTP


@check("a request of another Origin is answered 403", "SHTTP-02", "M:HTTP-10", web=True)
def _origin(probe: Probe) -> None:
    reply = probe.request(probe.ping, headers={"Origin": "http://attacker.example"})
    is_refused = reply.status == 403 or (
        reply.status >= 400 and not probe.revision.polling and not probe.alone
    )
    expect(
        is_refused,
        f"the status is {reply.status}: any page that a user visits could use this server",
    )


@check("a notification is accepted with 202 and no body", "SHTTP-10", "M:HTTP-6", web=True)
def _accepted(probe: Probe) -> None:
    reply = probe.notify("notifications/cancelled", {"requestId": 987654})
    expect(reply.status == 202 and not reply.body, f"the answer is {reply}")


@check("GET is an event stream, or 405", "SHTTP-32", "M:HTTP-14", web=True, must_alone=False)
def _get(probe: Probe) -> str:
    headers = {**probe.headers(), "Accept": "text/event-stream"}
    try:
        reply = probe.way.exchange(b"", None, headers, "GET")
    except errors.RequestTimeout:
        return "a stream"  # whose head comes with its first event
    is_stream = (
        reply.headers.get("Content-Type", "").startswith("text/event-stream") and not probe.alone
    )
    expect(
        reply.status == 405 or (reply.status == 200 and is_stream), f"the status is {reply.status}"
    )
    return f"{reply.status}"


@check(
    "a wrong MCP-Protocol-Version is refused with 400",
    "SHTTP-83",
    "M:HDR-6",
    web=True,
    when=lambda revision: revision.structured != "none",
)
def _version_header(probe: Probe) -> None:
    reply = probe.request(probe.ping, headers={"MCP-Protocol-Version": "1999-01-01"})
    expect(reply.status == 400, f"the status is {reply.status}")


refused(
    "a request without Mcp-Method is refused with -32020",
    None,
    "M:HDR-8",
    errors.HEADER_MISMATCH,
    "tools/list",
    headers={"Mcp-Method": None},
    web=True,
)
refused(
    "Mcp-Name that differs from the body is refused with -32020",
    None,
    "M:HDR-9",
    errors.HEADER_MISMATCH,
    "tools/call",
    {"name": NOBODY},
    headers={"Mcp-Name": "another"},
    web=True,
)


def _session(probe: Probe) -> str:
    """The id of the session. Raises NotApplicable: there is none."""
    if probe.session is None:
        raise NotApplicable("there are no sessions")
    return probe.session


@check(
    "a request is answered by application/json or text/event-stream",
    "SHTTP-12",
    "M:HTTP-5",
    web=True,
)
def _content_type(probe: Probe) -> str:
    kind = media_type(probe.request(probe.ping).headers.get("Content-Type"))[0]
    expect(kind in ("application/json", "text/event-stream"), f"Content-Type is {kind!r:.60}")
    return kind


@check("a session id is visible ASCII", "SHTTP-63", web=True)
def _session_id(probe: Probe) -> None:
    session = _session(probe)
    expect(re.fullmatch("[\x21-\x7e]+", session), f"it is {session!r:.60}")


@check("a request without the session's id is refused with 400", "SHTTP-65", web=True, must=False)
def _no_session(probe: Probe) -> None:
    _session(probe)
    reply = probe.request("tools/list", headers={"Mcp-Session-Id": None})
    expect(reply.status == 400, f"the status is {reply.status}")


@check("a request of a session that has ended is answered 404", "SHTTP-66", web=True)
def _ended_session(probe: Probe) -> None:
    _session(probe)
    other = Probe(probe.connect, probe.revision)
    try:
        other.open()
        status = other.way.exchange(b"", None, other.headers(), "DELETE").status
        if status >= 300:
            raise NotApplicable(f"no client ends a session here: DELETE has the status {status}")
        reply = other.request("ping")
    finally:
        other.close()
    expect(reply.status == 404, f"after DELETE the status is {reply.status}")


# ------------------------------------------------------------ the envelope


@check("a request without envelope is refused with -32602", None, "M:META-4")
def _no_envelope(probe: Probe) -> str:
    envelope = _envelope(probe)
    del envelope[CAPABILITIES_KEY]
    reply = probe.request("tools/list", envelope=envelope)
    code = code_of("tools/list", reply)
    expect(
        code == errors.INVALID_PARAMS,
        f"tools/list is answered with {code}, not {errors.INVALID_PARAMS}",
    )
    expect(reply.status in (0, 400), f"tools/list has the status {reply.status}, not 400")
    return f"{code}"


@check("a client need not say who it is", None, "M:META-5")
def _no_client_info(probe: Probe) -> None:
    probe.result("server/discover", envelope=_envelope(probe))


def _lists(probe: Probe) -> list[str]:
    """The lists that a server must have by what it declares."""
    return [each for each in LISTS if LISTS[each][1] in probe.capabilities and each != TEMPLATES]


@check("each result says by resultType what it is", None, "M:BASE-6")
def _result_type(probe: Probe) -> None:
    for method in ("server/discover", *_lists(probe)):
        found = probe.result(method).get("resultType")
        expect(found == "complete", f"resultType of {method} is {found!r:.60}")


@check("results say who the server is", None, "M:META-7", must=False)
def _server_info(probe: Probe) -> None:
    expect(server_info(probe.opening) is not None, f"_meta is {probe.opening.get('_meta')!r:.100}")


@check("lists say how long, and for whom, they hold", None, "M:CACHE-1")
def _cache_hints(probe: Probe) -> None:
    for method in ("server/discover", *_lists(probe)):
        found = probe.result(method)
        ttl, scope = found.get("ttlMs"), found.get("cacheScope")
        expect(
            isinstance(ttl, int) and ttl >= 0 and scope in ("public", "private"),
            f"{method} has ttlMs {ttl!r:.60} and cacheScope {scope!r:.60}",
        )


# ------------------------------------------------------------ what is offered


@check(
    "what is declared is answered, and what is not is unknown",
    "LIFE-16",
    "M:DISC-2",
    must=False,
    must_alone=True,
)
def _capabilities(probe: Probe) -> str:
    told = []
    for method, (member, capability) in LISTS.items():
        if capability in probe.capabilities and method != TEMPLATES:
            expect(
                isinstance(probe.result(method).get(member), list), f"{method}: {member} is no list"
            )
            told.append(member)
        elif capability not in probe.capabilities:
            expect_code(probe, errors.METHOD_NOT_FOUND, method)
            told.append(f"no {member}")
    return ", ".join(told)


def _read(kind: Any, given: Any) -> Any:
    """An object of the protocol. Raises Failed: it is none."""
    try:
        return kind.from_wire(given)
    except ValueError as error:
        raise Failed(f"{error}: {given!r:.100}") from None


def _each(probe: Probe, method: str, kind: Any) -> list[Any]:
    """The entries of a list, each of which can be read."""
    entries = probe.listed(method)
    for entry in entries:
        _read(kind, entry)
    return entries


@check("a tool has a name and a schema of an object", "TOOL-03", "M:TOOL-4")
def _tools(probe: Probe) -> str:
    entries = _each(probe, "tools/list", Tool)
    for entry in entries:
        for member in [
            name for name in ("inputSchema", "outputSchema") if entry.get(name) is not None
        ]:
            schema, where = entry[member], f"{member} of {entry['name']}"
            is_free = member == "outputSchema" and probe.revision.structured == "any"
            expect(
                is_free or schema.get("type") == "object",
                f"{where} has type 'object', and is {schema!r:.100}",
            )
            try:
                compile_peer_check(schema, where=where)
            except (SchemaNotSupported, ImportError):
                pass  # it may be right
            except (ValueError, TypeError) as error:
                raise Failed(f"{where}: {error}") from None
    return f"{len(entries)} tools"


@check("lists have an end, and cursors are texts", "PAGE-03", "M:PAG-1")
def _pages(probe: Probe) -> str:
    if not _lists(probe):
        raise NotApplicable("the server has no lists")
    for method in _lists(probe):
        with suppress(Failed):  # which is told of the list
            probe.listed(method)
    expect(not probe.endless, "; ".join(probe.endless))
    return f"{len(_lists(probe))} lists"


@check(
    "names of tools are unique, and of letters, digits, _, - and .",
    "TOOL-10",
    "M:TOOL-13",
    must=False,
)
def _tool_names(probe: Probe) -> str:
    names = [str(entry.get("name")) for entry in probe.listed("tools/list")]
    expect(len({*names}) == len(names), f"some are there twice: {sorted(names)!r:.100}")
    odd = [name for name in names if not PLAIN_NAME.fullmatch(name)]
    expect(not odd, f"odd names: {odd!r:.100}")
    return f"{len(names)} names"


@check("a list keeps its order", None, "M:TOOL-3", must=False)
def _order(probe: Probe) -> None:
    first = [entry.get("name") for entry in probe.listed("tools/list")]
    probe._lists.clear()
    again = [entry.get("name") for entry in probe.listed("tools/list")]
    expect(first == again, f"{first!r:.100}, then {again!r:.100}")


refused(
    "an unknown tool is an error, -32602",
    "TOOL-18",
    "M:TOOL-10",
    errors.INVALID_PARAMS,
    "tools/call",
    {"name": NOBODY, "arguments": {}},
    by="tools",
    must=False,
)


@check("an invalid cursor is refused with -32602", "PAGE-08", "M:PAG-3", must=False)
def _cursor(probe: Probe) -> str:
    found = _lists(probe)
    if not found:
        raise NotApplicable("the server has no lists")
    return expect_code(
        probe, errors.INVALID_PARAMS, found[0], {"cursor": "minimcp-check-no-cursor"}
    )


@check("a resource has a URI and a name", "RES-03", "M:RES-1")
def _resources(probe: Probe) -> str:
    entries = _each(probe, "resources/list", Resource)
    for entry in entries:
        expect(
            re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", entry["uri"]), f"{entry['uri']!r:.100} is no URI"
        )
    return f"{len(entries)} resources"


@check("a resource that is not there is an error", "RES-08", "M:RES-3", must=False, must_alone=True)
def _unknown_resource(probe: Probe) -> str:
    lacks(probe, "resources")
    return expect_code(probe, probe.revision.resource_missing, "resources/read", {"uri": NOWHERE})


@check("a template has a URI template and a name", "RES-10", "M:RES-9")
def _templates(probe: Probe) -> str:
    return f"{len(_each(probe, TEMPLATES, ResourceTemplate))} templates"


@check("a prompt has a name, and so have its arguments", "PRM-02", "M:PRM-1")
def _prompts(probe: Probe) -> str:
    return f"{len(_each(probe, 'prompts/list', Prompt))} prompts"


refused(
    "an unknown prompt is refused with -32602",
    "PRM-11",
    "M:PRM-2",
    errors.INVALID_PARAMS,
    "prompts/get",
    {"name": NOBODY},
    by="prompts",
    must=False,
)


@check("a level of log messages can be chosen, if logging is declared", "LOG-03", must=False)
def _log_level(probe: Probe) -> None:
    lacks(probe, "logging")
    for level in ("debug", "emergency", "info"):
        probe.result("logging/setLevel", {"level": level})


refused(
    "an unknown level is refused with -32602",
    "LOG-07",
    None,
    errors.INVALID_PARAMS,
    "logging/setLevel",
    {"level": "loud"},
    by="logging",
    must=False,
)

COMPLETED = {"ref": {"type": "ref/prompt", "name": NOBODY}, "argument": {"name": "a", "value": ""}}


@check(
    "completion is unknown unless it is declared", "COMP-07", "M:CMP-1", must=False, must_alone=True
)
def _no_completion(probe: Probe) -> str:
    if "completions" in probe.capabilities or not probe.revision.completions_capability:
        raise NotApplicable("the server declares it, or the revision has no such capability")
    return expect_code(probe, errors.METHOD_NOT_FOUND, "completion/complete", COMPLETED)


refused(
    "completion for an unknown prompt is refused with -32602",
    "COMP-08",
    "M:CMP-5",
    errors.INVALID_PARAMS,
    "completion/complete",
    COMPLETED,
    by="completions",
    must=False,
)


@check("what is read of a resource names its URI, and is text or a blob", "RES-06", "M:RES-5")
def _contents(probe: Probe) -> str:
    listed = probe.listed("resources/list")
    if not listed:
        raise NotApplicable("no resource is listed")
    found = probe.result("resources/read", {"uri": listed[0].get("uri")})
    return f"{len(_read(ReadResourceResult, found).contents)} items"


@check("the result of the tool of --call has content, and fits its schema", "TOOL-17", "M:TOOL-6")
def _called(probe: Probe) -> str:
    if probe.call is None:
        raise NotApplicable("no tool is called without --call")
    name, arguments = probe.call
    found = probe.result("tools/call", {"name": name, "arguments": arguments})
    content: Any = found.get("content")
    expect(
        isinstance(content, list)
        and all(isinstance(block, dict) and "type" in block for block in content),
        f"content is a list of objects with a type, and is {content!r:.100}",
    )
    tool: Any = next((each for each in probe.listed("tools/list") if each.get("name") == name), {})
    if "outputSchema" in tool and not found.get("isError"):
        with suppress(ValueError, ImportError):  # which is told of the schema
            problem = compile_peer_check(tool["outputSchema"], where="outputSchema")(
                found.get("structuredContent")
            )
            expect(problem is None, f"structuredContent does not fit outputSchema: {problem}")
    return "the tool says that it failed" if found.get("isError") else f"{len(content)} blocks"


# ------------------------------------------------------------ the end: what came by then


@check("everything that came is a message of JSON-RPC 2.0", "BASE-01", "M:BASE-1")
def _all_messages(probe: Probe) -> None:
    expect(
        not probe.invalid,
        f"{len(probe.invalid)} are not, such as {probe.invalid[0] if probe.invalid else ''}",
    )


@check("the server ends when its input does", "STDIO-11", "M:STD-10", must=False, web=False)
def _end_of_input(probe: Probe) -> None:
    expect(probe.way.ends_with_its_input(), "it still runs")
    probe.close()
