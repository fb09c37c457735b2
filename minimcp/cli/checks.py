"""The checks of ``minimcp check``. Each is a function that takes a `Probe`, with the id of a
requirement.

https://modelcontextprotocol.io/specification/2025-11-25
https://modelcontextprotocol.io/specification/2026-07-28
"""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from typing import Any, Callable, Mapping, NamedTuple, Optional

from .. import errors
from ..extensions import event_types as wire
from ..http.headers import media_type
from ..protocol.lifecycle import (
    CAPABILITIES_KEY,
    SUBSCRIPTION_KEY,
    VERSION_KEY,
    PerRequest,
    server_info,
)
from ..schema.checker import SchemaNotSupported, compile_peer_check
from ..schema.hosts import host_problems, listed_size
from ..types import Prompt, ReadResourceResult, Resource, ResourceTemplate, Tool
from .probe import LISTS, TEMPLATES, Failed, NotApplicable, Probe, Reply, ServerCheck, Watch

CHECKS: list[ServerCheck] = []

# A name and a URI that no server has.
UNKNOWN_NAME = "minimcp-check-no-such-name"
UNKNOWN_URI = "minimcp-check://no/such/resource"

# Maximum seconds of silence on a stream of events: 30, and some time for the network.
MAX_SILENCE_SECONDS = 32.0

# Maximum number of resources that the rule "cache" reads, and of its requests for pages of lists.
MAX_COMPARED = 50

PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")

Run = Callable[[Probe], Optional[str]]


def check(
    about: str, row: Optional[str], row_stateless: Optional[str] = None, **more: Any
) -> Callable[[Run], Run]:
    """Add the decorated function to `CHECKS`. See `ServerCheck` for the arguments."""

    def add(run: Run) -> Run:
        CHECKS.append(ServerCheck(about, row, row_stateless, run, **more))
        return run

    return add


def expect(condition: Any, evidence: str) -> None:
    """Raise Failed with the evidence if the condition is false."""
    if not condition:
        raise Failed(evidence)


def code_of(method: str, reply: Reply) -> Any:
    """Return the error code of a reply.

    Raises:
        Failed: The reply is not an error.
    """
    expect(reply.error, f"{method} returned {reply}, not an error")
    return reply.error.get("code")


def expect_code(
    probe: Probe, wanted: int, method: str, params: Optional[Mapping[str, Any]] = None, **more: Any
) -> str:
    """Check that a request is answered by an error with this code.

    For stateless HTTP, also check the status that belongs to the code.
    """
    reply = probe.request(method, params, **more)
    code = code_of(method, reply)
    expect(code == wanted, f"{method} returned the code {code}, not {wanted}")
    # The specification defines no status for INVALID_PARAMS.
    if probe.connection.is_web and probe.is_stateless and wanted != errors.INVALID_PARAMS:
        from ..http.headers import STATUS

        expect(
            reply.status == STATUS[wanted],
            f"{method} returned the status {reply.status}, not {STATUS[wanted]}",
        )
    return f"{code}"


def refused(
    about: str,
    row: Optional[str],
    row_stateless: Optional[str],
    code: int,
    method: str,
    params: Optional[Mapping[str, Any]] = None,
    *,
    by: str = "",
    headers: Mapping[str, Optional[str]] = {},
    **more: Any,
) -> None:
    """Add a check that a request is answered by an error with this code.

    Args:
        about: See `ServerCheck`; also for ``row``, ``row_stateless`` and ``more``.
        code: The expected error code.
        method: The method of the request.
        params: See `Probe.request`; also for ``headers``.
        by: The capability that the server must declare for the check to apply; "" for none.
    """

    def run(probe: Probe) -> str:
        if by:
            require_capability(probe, by)
        return expect_code(probe, code, method, params, headers=headers)

    check(about, row, row_stateless, **more)(run)


def require_capability(probe: Probe, capability: str) -> None:
    """Raise NotApplicable if the server does not declare a capability."""
    if capability not in probe.capabilities:
        raise NotApplicable(f"the server does not declare {capability}")


# ------------------------------------------------------------ the opening


@check(
    "the first result names the revision, the capabilities and the server", "LIFE-02", "M:DISC-1"
)
def _opening(probe: Probe) -> str:
    found = probe.opening
    expect(isinstance(found.get("capabilities"), dict), "capabilities is not an object")
    if probe.is_stateless:
        names = found.get("supportedVersions")
        expect(
            isinstance(names, list) and probe.revision.name in names,
            f"supportedVersions is {names!r:.100}",
        )
    else:
        info = found.get("serverInfo")
        is_str = [
            isinstance(info, dict) and isinstance(info.get(name), str)
            for name in ("name", "version")
        ]
        expect(all(is_str), f"serverInfo must have a name and a version, but is {info!r:.100}")
        version = found.get("protocolVersion")
        expect(version == probe.revision.name, f"protocolVersion is {version!r:.60}")
    return ", ".join(found["capabilities"]) or "no capabilities"


@check("the response to an unknown revision names a supported revision", "LIFE-09", "M:VER-S1")
def _unknown_revision(probe: Probe) -> str:
    if not probe.is_stateless:
        other = Probe(probe.connect, probe.revision)
        try:
            other.connection = probe.connect(probe.note)
            params = {
                "protocolVersion": "1999-01-01",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            version = other.result("initialize", params).get("protocolVersion")
        finally:
            other.close()
        expect(
            isinstance(version, str) and version != "1999-01-01",
            f"protocolVersion is {version!r:.60}",
        )
        return str(version)
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


@check("a response has the id of its request, including its type", "BASE-05", "M:BASE-5")
def _ids(probe: Probe) -> None:
    for id in (4711, "4711", "id with blanks"):
        reply = probe.request(probe.ping, id=id)
        found = reply.answer.get("id") if isinstance(reply.answer, dict) else None
        is_same = found == id and type(found) is type(id)
        expect(is_same, f"the response to the id {id!r} has the id {found!r}")


refused(
    "an unknown method is rejected with -32601",
    "BASE-17",
    "M:ERR-8",
    errors.METHOD_NOT_FOUND,
    "minimcp-check/nothing",
)
refused(
    "a client method is rejected as unknown",
    "BASE-18",
    "M:ERR-8",
    errors.METHOD_NOT_FOUND,
    "sampling/createMessage",
    {"messages": [], "maxTokens": 1},
)


@check("methods that were removed with the handshake are unknown", None, "M:ERR-8")
def _removed(probe: Probe) -> str:
    for method in ("ping", "logging/setLevel", "resources/subscribe"):
        expect_code(probe, errors.METHOD_NOT_FOUND, method, {"level": "info", "uri": UNKNOWN_URI})
    return "ping, logging/setLevel, resources/subscribe"


@check("a request whose params are an array is rejected", "BASE-12", "M:BASE-21", must=False)
def _array_of_params(probe: Probe) -> str:
    request = {"jsonrpc": "2.0", "id": "check-array", "method": "tools/list", "params": [1]}
    probe.send(request, None, probe.headers("tools/list"))
    alive = probe.is_alive()
    for each in probe.received:
        is_result = isinstance(each, dict) and each.get("id") == "check-array" and "result" in each
        expect(not is_result, f"the answer is {each!r:.200}")
    return alive


@check("a notification is not answered, even if it is unknown", "BASE-10", "M:BASE-8")
def _notifications(probe: Probe) -> str:
    probe.notify("notifications/minimcp_check")
    return _silence(probe)


def _silence(probe: Probe) -> str:
    """Check that a message gets no answer: the first response answers the next request."""
    alive = probe.is_alive()
    answers = [each for each in probe.received if not (isinstance(each, dict) and "method" in each)]
    # An HTTP response may say what was wrong with the message.
    is_silent = len(answers) <= 1 or probe.connection.is_web
    expect(is_silent, f"the message was answered: {answers[:1]!r:.200}")
    return alive


@check("a cancellation of an unknown request is ignored", "CANC-05", "M:CAN-4", must=False)
def _cancelled(probe: Probe) -> str:
    probe.notify("notifications/cancelled", {"requestId": 987654})
    return _silence(probe)


@check("an unexpected response is dropped", "BASE-19", must=False)
def _stray(probe: Probe) -> str:
    probe.send({"jsonrpc": "2.0", "id": 987654, "result": {}})
    return _silence(probe)


@check(
    "a line that is not valid JSON does not close the connection",
    "STDIO-10",
    "M:BASE-21",
    must=False,
    web=False,
)
def _broken_line(probe: Probe) -> str:
    probe.send(b'{"jsonrpc": "2.0", "id": 1, "method"')
    return probe.is_alive()


@check("a body that is not valid JSON is rejected with 400", "SHTTP-11", "M:BASE-21", web=True)
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
    batch = [{"jsonrpc": "2.0", "id": f"check-batch-{each}", "method": "ping"} for each in (1, 2)]
    probe.send(batch, "check-batch-2" if probe.connection.is_web else None)
    probe.is_alive()
    answers: list[Any] = []
    for each in probe.received:
        answers += each if isinstance(each, list) else [each]
    ids = {str(each.get("id")) for each in answers if isinstance(each, dict) and "result" in each}
    expect(
        ids >= {"check-batch-1", "check-batch-2"},
        f"two requests in an array got {len(ids) - 1} results",
    )


@check(
    "an array of messages is rejected",
    "BATCH-15",
    "M:BASE-21",
    must=False,
    must_stateless=True,
    when=lambda revision: not revision.batches,
)
def _arrays(probe: Probe) -> None:
    reply = probe.send([{"jsonrpc": "2.0", "id": 5, "method": "ping"}])
    expect(
        reply.status >= 400 or not probe.connection.is_web,
        f"the response has the status {reply.status}: {reply}",
    )
    probe.is_alive()
    expect(not any(line.startswith("<-- [") for line in probe.log), "the response is an array")


# ------------------------------------------------------------ HTTP


@check("a request from another Origin is rejected with 403", "SHTTP-02", "M:HTTP-10", web=True)
def _origin(probe: Probe) -> None:
    reply = probe.request(probe.ping, headers={"Origin": "http://attacker.example"})
    is_rejected = reply.status == 403 or (
        reply.status >= 400 and not probe.revision.polling and not probe.is_stateless
    )
    expect(
        is_rejected,
        f"the status is {reply.status}: any page that a user visits could use this server",
    )


@check("a server card agrees with the server", None, "CARD-11", web=True, must=False)
def _card(probe: Probe) -> str:
    from ..extensions.cards import CARD_PATH, CARD_TYPE, ServerCard

    headers = {"Accept": CARD_TYPE, "Origin": "http://page.example"}
    reply = probe.connection.exchange(b"", None, headers, "GET", CARD_PATH)
    if reply.status != 200:
        raise NotApplicable(f"the server has no card (status {reply.status})")
    kind = media_type(reply.headers.get("Content-Type", ""))[0]
    expect(kind == CARD_TYPE, f"Content-Type is {kind!r:.60}")
    origin = reply.headers.get("Access-Control-Allow-Origin")
    expect(origin == "*", f"Access-Control-Allow-Origin is {origin!r:.60}, not '*'")
    tag = reply.headers.get("ETag")
    expect(tag, "ETag is missing")
    again = probe.connection.exchange(
        b"", None, {**headers, "If-None-Match": tag}, "GET", CARD_PATH
    )
    expect(again.status == 304, f"If-None-Match returned the status {again.status}, not 304")
    try:
        card = ServerCard(json.loads(reply.body))
    except ValueError as error:
        raise Failed(f"the card is not valid: {error}") from None
    version = (server_info(probe.opening) or {}).get("version")
    expect(card.version == version, f"the card has version {card.version!r}, not {version!r:.60}")
    for remote in card.remotes:
        named = set(remote.get("supportedProtocolVersions", ()))
        missing = named.difference(probe.opening.get("supportedVersions", named))
        expect(not missing, f"the server does not support {', '.join(sorted(missing))}")
    return card.name


@check("a notification is accepted with 202 and no body", "SHTTP-10", "M:HTTP-6", web=True)
def _accepted(probe: Probe) -> None:
    reply = probe.notify("notifications/cancelled", {"requestId": 987654})
    expect(reply.status == 202 and not reply.body, f"the answer is {reply}")


@check(
    "GET opens an event stream or is rejected with 405",
    "SHTTP-32",
    "M:HTTP-14",
    web=True,
    must_stateless=False,
)
def _get(probe: Probe) -> str:
    headers = {**probe.headers(), "Accept": "text/event-stream"}
    try:
        reply = probe.connection.exchange(b"", None, headers, "GET")
    except errors.RequestTimeout:
        return "a stream"  # the server sends its head with the first event
    is_stream = (
        reply.headers.get("Content-Type", "").startswith("text/event-stream")
        and not probe.is_stateless
    )
    expect(
        reply.status == 405 or (reply.status == 200 and is_stream), f"the status is {reply.status}"
    )
    return f"{reply.status}"


@check(
    "an unknown MCP-Protocol-Version is rejected with 400",
    "SHTTP-83",
    "M:HDR-6",
    web=True,
    when=lambda revision: revision.structured != "none",
)
def _version_header(probe: Probe) -> None:
    reply = probe.request(probe.ping, headers={"MCP-Protocol-Version": "1999-01-01"})
    expect(reply.status == 400, f"the status is {reply.status}")


refused(
    "a request without Mcp-Method is rejected with -32020",
    None,
    "M:HDR-8",
    errors.HEADER_MISMATCH,
    "tools/list",
    headers={"Mcp-Method": None},
    web=True,
)
refused(
    "an Mcp-Name that differs from the body is rejected with -32020",
    None,
    "M:HDR-9",
    errors.HEADER_MISMATCH,
    "tools/call",
    {"name": UNKNOWN_NAME},
    headers={"Mcp-Name": "another"},
    web=True,
)


def _session(probe: Probe) -> str:
    """Return the session's id.

    Raises:
        NotApplicable: The server has no sessions.
    """
    if probe.session is None:
        raise NotApplicable("the server has no sessions")
    return probe.session


@check(
    "a response is application/json or text/event-stream",
    "SHTTP-12",
    "M:HTTP-5",
    web=True,
)
def _content_type(probe: Probe) -> str:
    kind = media_type(probe.request(probe.ping).headers.get("Content-Type"))[0]
    expect(kind in ("application/json", "text/event-stream"), f"Content-Type is {kind!r:.60}")
    return kind


@check("a session id has only visible ASCII characters", "SHTTP-63", web=True)
def _session_id(probe: Probe) -> None:
    session = _session(probe)
    expect(re.fullmatch("[\x21-\x7e]+", session), f"the session id is {session!r:.60}")


@check("a request without a session id is rejected with 400", "SHTTP-65", web=True, must=False)
def _no_session(probe: Probe) -> None:
    _session(probe)
    reply = probe.request("tools/list", headers={"Mcp-Session-Id": None})
    expect(reply.status == 400, f"the status is {reply.status}")


@check("a request in a closed session is rejected with 404", "SHTTP-66", web=True)
def _ended_session(probe: Probe) -> None:
    _session(probe)
    other = Probe(probe.connect, probe.revision)
    try:
        other.open()
        status = other.connection.exchange(b"", None, other.headers(), "DELETE").status
        if status >= 300:
            raise NotApplicable(f"clients cannot close a session: DELETE has the status {status}")
        reply = other.request("ping")
    finally:
        other.close()
    expect(reply.status == 404, f"after DELETE the status is {reply.status}")


# ------------------------------------------------------------ request metadata


@check("a request without the client's capabilities is rejected with -32602", None, "M:META-4")
def _no_envelope(probe: Probe) -> str:
    envelope = _envelope(probe)
    del envelope[CAPABILITIES_KEY]
    reply = probe.request("tools/list", envelope=envelope)
    code = code_of("tools/list", reply)
    expect(
        code == errors.INVALID_PARAMS,
        f"tools/list returned the code {code}, not {errors.INVALID_PARAMS}",
    )
    expect(reply.status in (0, 400), f"tools/list returned the status {reply.status}, not 400")
    return f"{code}"


@check("a request without clientInfo is served", None, "M:META-5")
def _no_client_info(probe: Probe) -> None:
    probe.result("server/discover", envelope=_envelope(probe))


def _lists(probe: Probe) -> list[str]:
    """Return the list methods that the server's capabilities require."""
    return [each for each in LISTS if LISTS[each][1] in probe.capabilities and each != TEMPLATES]


@check("each result has a resultType", None, "M:BASE-6")
def _result_type(probe: Probe) -> None:
    for method in ("server/discover", *_lists(probe)):
        found = probe.result(method).get("resultType")
        expect(found == "complete", f"resultType of {method} is {found!r:.60}")


@check("results name the server in _meta", None, "M:META-7", must=False)
def _server_info(probe: Probe) -> None:
    expect(server_info(probe.opening) is not None, f"_meta is {probe.opening.get('_meta')!r:.100}")


@check("lists have cache hints: ttlMs and cacheScope", None, "M:CACHE-1")
def _cache_hints(probe: Probe) -> None:
    for method in ("server/discover", *_lists(probe)):
        found = probe.result(method)
        ttl = found.get("ttlMs")
        scope = found.get("cacheScope")
        expect(
            isinstance(ttl, int) and ttl >= 0 and scope in ("public", "private"),
            f"{method} has ttlMs {ttl!r:.60} and cacheScope {scope!r:.60}",
        )


# ------------------------------------------------------------ features


@check(
    "methods of declared capabilities are served, and other methods are unknown",
    "LIFE-16",
    "M:DISC-2",
    must=False,
    must_stateless=True,
)
def _capabilities(probe: Probe) -> str:
    results = []
    for method, (member, capability) in LISTS.items():
        if capability in probe.capabilities and method != TEMPLATES:
            entries = probe.result(method).get(member)
            expect(isinstance(entries, list), f"{method}: {member} is not a list")
            results.append(member)
        elif capability not in probe.capabilities:
            expect_code(probe, errors.METHOD_NOT_FOUND, method)
            results.append(f"no {member}")
    return ", ".join(results)


def _decoded(kind: Any, value: Any) -> Any:
    """Decode an object of the protocol.

    Raises:
        Failed: The value is not such an object.
    """
    try:
        return kind.from_wire(value)
    except ValueError as error:
        raise Failed(f"{error}: {value!r:.100}") from None


def _each(probe: Probe, method: str, kind: Any) -> list[Any]:
    """Return the entries of a list after checking that each can be decoded."""
    entries = probe.entries(method)
    for entry in entries:
        _decoded(kind, entry)
    return entries


@check("a tool has a name and an object schema", "TOOL-03", "M:TOOL-4")
def _tools(probe: Probe) -> str:
    entries = _each(probe, "tools/list", Tool)
    for entry in entries:
        for member in ("inputSchema", "outputSchema"):
            schema = entry.get(member)
            if schema is None:
                continue
            where = f"{member} of {entry['name']}"
            is_free = member == "outputSchema" and probe.revision.structured == "any"
            expect(
                is_free or schema.get("type") == "object",
                f"{where} must have the type 'object', but is {schema!r:.100}",
            )
            try:
                compile_peer_check(schema, where=where)
            except (SchemaNotSupported, ImportError):
                pass  # the schema may be valid
            except (ValueError, TypeError) as error:
                raise Failed(f"{where}: {error}") from None
    return f"{len(entries)} tools"


@check("every list ends, and its cursors are strings", "PAGE-03", "M:PAG-1")
def _pages(probe: Probe) -> str:
    if not _lists(probe):
        raise NotApplicable("the server has no lists")
    for method in _lists(probe):
        with suppress(Failed):  # the checks of the list report this
            probe.entries(method)
    expect(not probe.endless, "; ".join(probe.endless))
    return f"{len(_lists(probe))} lists"


@check(
    "tool names are unique and consist of letters, digits, _, - and .",
    "TOOL-10",
    "M:TOOL-13",
    must=False,
)
def _tool_names(probe: Probe) -> str:
    names = [str(entry.get("name")) for entry in probe.entries("tools/list")]
    expect(len({*names}) == len(names), f"some names are repeated: {sorted(names)!r:.100}")
    others = [name for name in names if not PLAIN_NAME.fullmatch(name)]
    expect(not others, f"names with other characters: {others!r:.100}")
    return f"{len(names)} names"


@check("hosts accept the names and schemas of all tools", "hosts", "hosts", must=False)
def _hosts(probe: Probe) -> str:
    tools = {str(each.get("name")): each for each in probe.entries("tools/list")}
    found = []
    for name, tool in tools.items():
        output = tool.get("outputSchema")
        if probe.is_stateless and isinstance(output, dict):
            output = None  # hosts with stateless revisions accept any such schema
        problem = host_problems(name, tool.get("inputSchema"), output, tools)
        if problem is not None:
            found.append(f"{name:.80} {problem}")
    expect(not found, "\n".join(found))
    return f"{len(tools)} tools"


@check("the tools fit into the budget", "size", "size", must=False)
def _size(probe: Probe) -> str:
    sizes = [(listed_size(each)[1], each.get("name")) for each in probe.entries("tools/list")]
    total = sum(tokens for tokens, _ in sizes)
    largest = max(sizes, default=(0, ""), key=lambda each: each[0])
    expect(
        total <= probe.budget,
        f"{len(sizes)} tools have about {total:,} tokens (characters / 4), more than "
        f"{probe.budget:,}; the largest is {largest[1]!r:.80} with {largest[0]:,}: see list --size",
    )
    return f"about {total:,} tokens"


@check("a list has the same order each time", None, "M:TOOL-3", must=False)
def _order(probe: Probe) -> None:
    first = [entry.get("name") for entry in probe.entries("tools/list")]
    probe._lists.clear()
    again = [entry.get("name") for entry in probe.entries("tools/list")]
    expect(first == again, f"{first!r:.100}, then {again!r:.100}")


refused(
    "a call to an unknown tool is rejected with -32602",
    "TOOL-18",
    "M:TOOL-10",
    errors.INVALID_PARAMS,
    "tools/call",
    {"name": UNKNOWN_NAME, "arguments": {}},
    by="tools",
    must=False,
)


@check("an invalid cursor is rejected with -32602", "PAGE-08", "M:PAG-3", must=False)
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
        is_uri = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", entry["uri"])
        expect(is_uri, f"{entry['uri']!r:.100} is not a URI")
    return f"{len(entries)} resources"


@check(
    "reading an unknown resource is an error",
    "RES-08",
    "M:RES-3",
    must=False,
    must_stateless=True,
)
def _unknown_resource(probe: Probe) -> str:
    require_capability(probe, "resources")
    return expect_code(
        probe, probe.revision.resource_missing, "resources/read", {"uri": UNKNOWN_URI}
    )


@check("a template has a URI template and a name", "RES-10", "M:RES-9")
def _templates(probe: Probe) -> str:
    return f"{len(_each(probe, TEMPLATES, ResourceTemplate))} templates"


@check("a prompt and its arguments have names", "PRM-02", "M:PRM-1")
def _prompts(probe: Probe) -> str:
    return f"{len(_each(probe, 'prompts/list', Prompt))} prompts"


refused(
    "an unknown prompt is rejected with -32602",
    "PRM-11",
    "M:PRM-2",
    errors.INVALID_PARAMS,
    "prompts/get",
    {"name": UNKNOWN_NAME},
    by="prompts",
    must=False,
)


@check("the log level can be set if logging is declared", "LOG-03", must=False)
def _log_level(probe: Probe) -> None:
    require_capability(probe, "logging")
    for level in ("debug", "emergency", "info"):
        probe.result("logging/setLevel", {"level": level})


refused(
    "an unknown log level is rejected with -32602",
    "LOG-07",
    None,
    errors.INVALID_PARAMS,
    "logging/setLevel",
    {"level": "loud"},
    by="logging",
    must=False,
)

COMPLETION_PARAMS = {
    "ref": {"type": "ref/prompt", "name": UNKNOWN_NAME},
    "argument": {"name": "a", "value": ""},
}


@check(
    "completion is unknown unless it is declared",
    "COMP-07",
    "M:CMP-1",
    must=False,
    must_stateless=True,
)
def _no_completion(probe: Probe) -> str:
    if "completions" in probe.capabilities or not probe.revision.completions_capability:
        raise NotApplicable("the server declares completions, or the revision has no capability")
    return expect_code(probe, errors.METHOD_NOT_FOUND, "completion/complete", COMPLETION_PARAMS)


refused(
    "completion for an unknown prompt is rejected with -32602",
    "COMP-08",
    "M:CMP-5",
    errors.INVALID_PARAMS,
    "completion/complete",
    COMPLETION_PARAMS,
    by="completions",
    must=False,
)


@check("the content of a resource has its URI, and is text or a blob", "RES-06", "M:RES-5")
def _contents(probe: Probe) -> str:
    listed = probe.entries("resources/list")
    if not listed:
        raise NotApplicable("the server lists no resource")
    found = probe.result("resources/read", {"uri": listed[0].get("uri")})
    return f"{len(_decoded(ReadResourceResult, found).contents)} items"


@check("the result of a tool call has content and matches its schema", "TOOL-17", "M:TOOL-6")
def _called(probe: Probe) -> str:
    if probe.call is None:
        raise NotApplicable("--call was not given")
    name, arguments = probe.call
    found = probe.result("tools/call", {"name": name, "arguments": arguments})
    content: Any = found.get("content")
    expect(
        isinstance(content, list)
        and all(isinstance(block, dict) and "type" in block for block in content),
        f"content must be a list of objects with a type, but is {content!r:.100}",
    )
    tool: Any = next((each for each in probe.entries("tools/list") if each.get("name") == name), {})
    if "outputSchema" in tool and not found.get("isError"):
        with suppress(ValueError, ImportError):  # the check of the schema reports this
            check_value = compile_peer_check(tool["outputSchema"], where="outputSchema")
            problem = check_value(found.get("structuredContent"))
            expect(problem is None, f"structuredContent does not match outputSchema: {problem}")
    return "the tool reported an error" if found.get("isError") else f"{len(content)} blocks"


# ------------------------------------------------------------ events


@check("events/list is served if events are declared, and otherwise unknown", None, "EV-1")
def _events(probe: Probe) -> str:
    extensions = probe.capabilities.get("extensions")
    declared = extensions.get(wire.IDENTIFIER) if isinstance(extensions, dict) else None
    if declared is None:
        return expect_code(probe, errors.METHOD_NOT_FOUND, wire.LIST)
    expect(isinstance(declared, dict), f"the settings of events are {declared!r:.60}")
    changes = declared.get("listChanged", False)
    expect(isinstance(changes, bool), f"listChanged is {changes!r:.60}")
    probe.result(wire.LIST)
    return f"{declared}"


def _event_types(probe: Probe) -> list[dict[str, Any]]:
    """Return the listed event types.

    Raises:
        NotApplicable: The server does not declare events.
    """
    extensions = probe.capabilities.get("extensions")
    if not isinstance(extensions, dict) or wire.IDENTIFIER not in extensions:
        raise NotApplicable("the server does not declare events")
    return probe.pages(wire.LIST, "events", probe.request(wire.LIST))


@check("the list of event types ends, and its cursors are strings", None, "EV-8", must=False)
def _event_pages(probe: Probe) -> str:
    before = len(probe.endless)
    found = _event_types(probe)
    expect(len(probe.endless) == before, "; ".join(probe.endless[before:]))
    return f"{len(found)} event types"


@check("an event type has a name and a description", None, "EV-9")
def _event_names(probe: Probe) -> None:
    for each in _event_types(probe):
        for member in ("name", "description"):
            value = each.get(member)
            expect(isinstance(value, str), f"the {member} of an event type is {value!r:.60}")


@check("an event type has one or more of three modes of delivery", None, "EV-10")
def _event_delivery(probe: Probe) -> None:
    for each in _event_types(probe):
        modes = each.get("delivery")
        is_known = isinstance(modes, list) and all(mode in wire.MODES for mode in modes)
        expect(modes and is_known, f"delivery of {each.get('name')!r:.60} is {modes!r:.100}")


@check("the schemas of an event type are those of objects", None, "EV-11")
def _event_schemas(probe: Probe) -> None:
    for each in _event_types(probe):
        for member in ("inputSchema", "payloadSchema"):
            schema = each.get(member)
            is_object = isinstance(schema, dict) and schema.get("type", "object") == "object"
            expect(is_object, f"{member} of {each.get('name')!r:.60} is {schema!r:.100}")
        meta = each.get("_meta", {})
        expect(isinstance(meta, dict), f"_meta of {each.get('name')!r:.60} is {meta!r:.60}")


def _subscribable(probe: Probe, mode: str) -> str:
    """Return the name of an event type that is delivered in a mode, and needs no arguments."""
    for each in _event_types(probe):
        schema = each.get("inputSchema")
        needs = schema.get("required") if isinstance(schema, dict) else None
        if not needs and mode in (each.get("delivery") or ()):
            return str(each.get("name"))
    raise NotApplicable(f"no event type without required arguments is delivered by {mode}")


def _require_allowed(reply: Reply) -> None:
    """Raise NotApplicable if this caller may not subscribe."""
    if wire.KIND_OF_CODE.get(reply.error.get("code")) == "Forbidden":  # type: ignore[arg-type]
        raise NotApplicable("this caller may not subscribe")


@check("a poll without a cursor has no events, and returns a cursor", None, "EV-39", must=False)
def _first_poll(probe: Probe) -> str:
    params: dict[str, Any] = {"name": _subscribable(probe, "poll"), "arguments": {}}
    for more in ({"cursor": None}, {}):
        reply = probe.request(wire.POLL, {**params, **more})
        _require_allowed(reply)
        found: Any = reply.answer.get("result") if isinstance(reply.answer, dict) else None
        expect(isinstance(found, dict), f"{wire.POLL} returned {reply}, not a result")
        expect(found.get("events") == [], f"events is {found.get('events')!r:.100}")
        cursor = found.get("cursor")
        expect(isinstance(cursor, (str, type(None))), f"cursor is {cursor!r:.60}")
        expect(found.get("truncated", False) is False, "truncated is not false")
        pause = found.get("nextPollMs")
        expect(
            isinstance(pause, (int, float)) and not isinstance(pause, bool),
            f"nextPollMs is {pause!r:.60}",
        )
    return f"cursor {cursor!r:.60}"


class EventStream(NamedTuple):
    """The messages on a stream of events, until its first heartbeat or its end."""

    id: str
    messages: list[dict[str, Any]]
    silence: float
    is_complete: bool
    raw: bytes

    def named(self, method: str) -> list[dict[str, Any]]:
        """Return the params of the notifications with this method."""
        return [_params_of(each) for each in self.messages if each.get("method") == method]


def _params_of(message: Mapping[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _stream(probe: Probe) -> EventStream:
    """Open a stream of events, once for all checks, and read it until its first heartbeat.

    Raises:
        NotApplicable: No event type can be streamed.
        Failed: The server returns an error.
    """
    if probe.stream is None:
        name = _subscribable(probe, "push")
        messages: list[dict[str, Any]] = []
        started_at = time.monotonic()
        heard_at = [started_at]

        def is_over(message: Any) -> bool:
            heard_at.append(time.monotonic())
            if isinstance(message, dict):
                messages.append(message)
            return bool(messages) and messages[-1].get("method") in (
                wire.HEARTBEAT,
                wire.TERMINATED,
            )

        watch = Watch(MAX_SILENCE_SECONDS + 1, is_over)
        params = {"name": name, "arguments": {}}
        id = "check-events"
        reply = probe.request(wire.STREAM, params, id=id, watch=watch)
        heard_at.append(time.monotonic())
        if not probe.connection.is_web:
            probe.notify("notifications/cancelled", {"requestId": id})
        _require_allowed(reply)
        expect(not reply.error, f"{wire.STREAM} returned {reply}")
        silence = max(later - earlier for earlier, later in zip(heard_at, heard_at[1:]))
        is_complete = heard_at[-1] - started_at > MAX_SILENCE_SECONDS
        probe.stream = EventStream(id, messages, silence, is_complete, reply.body)
    found: EventStream = probe.stream
    return found


@check("a stream of events begins with its confirmation", None, "EV-55", must=False)
def _stream_begins(probe: Probe) -> None:
    found = _stream(probe)
    first = found.messages[0] if found.messages else None
    expect(first and first.get("method") == wire.ACTIVE, f"the first message is {first!r:.200}")
    active = found.named(wire.ACTIVE)[0]
    truncated = active.get("truncated", False)
    expect(isinstance(truncated, bool), f"truncated is {truncated!r:.60}")
    cursor = active.get("cursor")
    expect(isinstance(cursor, (str, type(None))), f"cursor is {cursor!r:.60}")


@check(
    "each notification of a stream of events has the id of its request", None, "EV-56", must=False
)
def _stream_ids(probe: Probe) -> None:
    found = _stream(probe)
    for each in found.messages:
        meta = _params_of(each).get("_meta")
        id = meta.get(SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
        expect("method" not in each or id == found.id, f"{SUBSCRIPTION_KEY} is {id!r:.60}")


@check("a stream of events has no other notifications", None, "EV-57", must=False, web=True)
def _stream_kinds(probe: Probe) -> None:
    names = {str(each.get("method")) for each in _stream(probe).messages if "method" in each}
    others = sorted(names - {wire.ACTIVE, wire.EVENT, wire.HEARTBEAT, wire.ERROR, wire.TERMINATED})
    expect(not others, f"it has {', '.join(others):.200}")


@check("a stream of events is never silent for more than 30 s", None, "EV-61")
def _stream_heartbeats(probe: Probe) -> str:
    found = _stream(probe)
    if not found.named(wire.HEARTBEAT) and not found.is_complete:
        raise NotApplicable("the stream ended before its first heartbeat")
    expect(found.silence < MAX_SILENCE_SECONDS, f"nothing was sent for {found.silence:.0f} s")
    return f"at most {found.silence:.1f} s"


@check("a heartbeat has the position of the stream", None, "EV-62", must=False)
def _heartbeat_cursor(probe: Probe) -> None:
    found = _stream(probe)
    has_replay = any(isinstance(each.get("cursor"), str) for each in found.named(wire.ACTIVE))
    for each in found.named(wire.HEARTBEAT):
        cursor = each.get("cursor")
        is_cursor = isinstance(cursor, str) or (cursor is None and not has_replay)
        expect(is_cursor, f"its cursor is {cursor!r:.60}")


@check("a stream of events has no comments of SSE", None, "EV-64", must=False, web=True)
def _stream_comments(probe: Probe) -> None:
    found = re.search(rb"(?:^|[\r\n])(:[^\r\n]*)", _stream(probe).raw)
    expect(found is None, f"it has the comment {found and found[1]!r:.60}")


# ------------------------------------------------------------ several callers


@check("no result for one caller may be cached for another", None, "cache", web=True)
def _cache(probe: Probe) -> str:
    if not probe.others:
        raise NotApplicable("--token was not given twice")
    requests: list[tuple[str, dict[str, Any]]] = [(method, {}) for method in _lists(probe)]
    if "resources" in probe.capabilities:
        requests.append((TEMPLATES, {}))
        listed = probe.entries("resources/list")[:MAX_COMPARED]
        requests += [("resources/read", {"uri": each.get("uri")}) for each in listed]
    requests.append(("server/discover", {}))
    private = []
    for method, params in requests:
        for other in probe.others:
            if other.connection is None:
                other.open()
            found = [each.request(method, params) for each in (probe, other)]
            results = [_shown(each) for each in found]
            cursor = results[0].get("nextCursor")
            if (
                isinstance(cursor, str)
                and len(requests) < MAX_COMPARED
                and other is probe.others[0]
            ):
                requests.append((method, {"cursor": cursor}))
            if results[0] == results[1]:
                continue
            if _shown(probe.request(method, params)) != results[0]:
                continue  # it changes by itself
            scopes = [each.get("cacheScope") for each in results]
            where = f"{method} {params.get('uri', '')}".rstrip()
            expect(
                "public" not in scopes,
                f"{where} has the cacheScope 'public', but the callers get different results:\n"
                f"{found[0]}\n{found[1]}",
            )
            private.append(where)
    return f"{', '.join(private)} differ, and are private" if private else "no result differs"


def _shown(reply: Reply) -> dict[str, Any]:
    """Return the result of a reply without ``_meta``; empty if the reply is an error."""
    result = reply.answer.get("result") if isinstance(reply.answer, dict) else None
    members = result if isinstance(result, dict) else {}
    return {name: value for name, value in members.items() if name != "_meta"}


# ------------------------------------------------------------ after the other checks


@check("every message of the server is a JSON-RPC 2.0 message", "BASE-01", "M:BASE-1")
def _all_messages(probe: Probe) -> None:
    if probe.invalid:
        raise Failed(f"{len(probe.invalid)} messages are not, such as {probe.invalid[0]}")


@check("the server exits when its stdin is closed", "STDIO-11", "M:STD-10", must=False, web=False)
def _end_of_input(probe: Probe) -> None:
    expect(probe.connection.exits_with_its_input(), "the process is still running")
    probe.close()
