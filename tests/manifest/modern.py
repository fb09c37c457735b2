"""Rows of 2026-07-28, where every request stands alone, and of how the two eras meet."""

from __future__ import annotations

from typing import Tuple

from .revisions import Section

BASE: Section = (
    "basic",
    (
        ("M:BASE-1", "5+", "JSON-RPC 2.0 objects in UTF-8."),
        ("M:BASE-2", "5+", "Ids are strings or integers; True is neither."),
        ("M:BASE-3", "5+", "Ids 1 and \"1\" are two requests."),
        ("M:BASE-4", "5+", "An id that waits for its answer is not used again."),
        ("M:BASE-5", "5+", "Answers carry the id as it came."),
        ("M:BASE-6", "5+", "Every result says its resultType."),
        ("M:BASE-7", "5+", "Errors have an integer code and a string message."),
        ("M:BASE-8", "5+", "Notifications have no id and no answer."),
        ("M:BASE-9", "5+", "The server sends no requests."),
        ("M:BASE-10", "5+", "The client sends no answers."),
        ("M:BASE-11", "5+", "An earlier request on the connection decides nothing."),
        ("M:BASE-12", "5+", "Related calls may reach different processes."),
        ("M:BASE-13", "5+", "A server process outlives one conversation."),
        ("M:BASE-14", "5+", "Lasting state is named by an id that clients send."),
        ("M:BASE-15", "5+", "Interleaved conversations on one pipe are served."),
        ("M:BASE-16", "5+", "A result without resultType is complete."),
        ("M:BASE-17", "5+", "An unknown resultType is an invalid answer."),
        ("M:BASE-18", "5+", "A resultType in the wrong place is invalid too."),
        ("M:BASE-19", "5+", "Unknown members are accepted everywhere."),
        ("M:BASE-20", "5+", "Older revisions see none of the new result members."),
        ("M:BASE-21", "5+", "Broken JSON is -32700, a wrong envelope -32600."),
        ("M:BASE-22", "5+", "Deep nesting and giant numbers are parse errors."),
        ("M:BASE-23", "5+", "Base, versions and the three patterns are always there."),
        ("M:BASE-24", "5+", "Other transports keep messages, patterns and metadata."),
    ),
)

META: Section = (
    "basic",
    (
        ("M:META-1", "5+", "Each request names its version in _meta."),
        ("M:META-2", "5+", "Each request carries the client's capabilities."),
        ("M:META-3", "5+", "Each request says who the client is, unless told not."),
        ("M:META-4", "5+", "An envelope with something missing is -32602."),
        ("M:META-5", "5+", "A nameless client is served."),
        ("M:META-6", "5+", "An envelope of wrong types is -32602."),
        ("M:META-7", "5+", "Each result says who the server is, unless told not."),
        ("M:META-8", "5+", "A handler's own _meta wins and is not changed."),
        ("M:META-9", "5+", "Names of peers steer nothing."),
        ("M:META-10", "5+", "A malformed server name reads as None."),
        ("M:META-11", "5+", "The grammar of _meta keys."),
        ("M:META-12", "5+", "Reserved prefixes are refused for users' keys."),
        ("M:META-13", "5+", "Others' prefixes are reversed domain names."),
        ("M:META-14", "5+", "Reserved keys of others are left alone."),
        ("M:META-15", "5+", "Capabilities not declared are not used."),
        ("M:META-16", "5+", "A needed capability that is missing is -32021."),
        ("M:META-17", "5+", "Capabilities are objects; other values count as absent."),
        ("M:META-18", "5+", "Only what has a callback is announced."),
        ("M:META-19", "5+", "Announced capabilities have each era's own shape."),
    ),
)

ERR: Section = (
    "basic",
    (
        ("M:ERR-1", "5+", "The three new codes have their numbers."),
        ("M:ERR-2", "5+", "Reserved codes that mean nothing are never sent."),
        ("M:ERR-3", "5+", "No codes of ours in the old server range."),
        ("M:ERR-4", "5+", "The two retired codes are not sent."),
        ("M:ERR-5", "5+", "The old resource code is still understood."),
        ("M:ERR-6", "5+", "Applications' codes lie outside the reserved range."),
        ("M:ERR-7", "5+", "Our own failures do not look like a peer's error."),
        ("M:ERR-8", "5+", "Unknown, removed and unadvertised methods are -32601."),
        ("M:ERR-9", "5+", "Errors carry the request's id."),
        ("M:ERR-10", "5+", "A handler's failure shows no detail to the peer."),
    ),
)

VERSION_SERVER: Section = (
    "basic/versioning",
    (
        ("M:VER-S1", "5+", "An unsupported version is -32022 with both lists."),
        ("M:VER-S2", "5+", "A version switched off is -32022 as well."),
        ("M:VER-S3", "5+", "The server answers server/discover."),
        ("M:VER-S4", "5+", "An envelope is served by its version, statelessly."),
        ("M:VER-S5", "5+", "A handshake begins a session of the older era."),
        ("M:VER-S6", "5+", "Both eras are served at once."),
        ("M:VER-S7", "5+", "On stdio each message decides its own era."),
        ("M:VER-S8", "5+", "Only the version key shows the new era."),
        ("M:VER-S9", "5+", "A bare request without a session is -32602."),
        ("M:VER-S10", "5+", "Over HTTP envelope or header choose the era."),
        ("M:VER-S11", "5+", "Without version header an old one may be assumed."),
        ("M:VER-S12", "5+", "A server of the new era names its versions to initialize."),
        ("M:VER-S13", "5+", "A handshake never agrees on the new version."),
        ("M:VER-S14", "5+", "Tool results are cut to what each revision has."),
        ("M:VER-S15", "5+", "Unasked notices go to older sessions only."),
        ("M:VER-S16", "5+", "In the new era nothing can ask the client."),
    ),
)

VERSION_CLIENT: Section = (
    "basic/versioning",
    (
        ("M:VER-C1", "5+", "Refused by version, the client retries with a common one."),
        ("M:VER-C2", "5+", "Retries for the version are bounded."),
        ("M:VER-C3", "5+", "A pinned client calls without discovery."),
        ("M:VER-C4", "5+", "On stdio discovery is the first line."),
        ("M:VER-C5", "5+", "Any old error, or silence, leads to the handshake."),
        ("M:VER-C6", "5+", "An error of the new era never does."),
        ("M:VER-C7", "5+", "Except when only older versions are in common."),
        ("M:VER-C8", "5+", "A discovery listing only older versions shakes hands."),
        ("M:VER-C9", "5+", "A malformed discovery proves nothing; odd ttl is mended."),
        ("M:VER-C10", "5+", "A late answer to the probe is dropped."),
        ("M:VER-C11", "5+", "Probe and handshake are never cancelled."),
        ("M:VER-C12", "5+", "A handshake refused by version probes once more."),
        ("M:VER-C13", "5+", "A server that dies of the probe is started again."),
        ("M:VER-C14", "5+", "Over HTTP the new era is tried first."),
        ("M:VER-C15", "5+", "A 400 is read before falling back."),
        ("M:VER-C16", "5+", "404 and 405 fall back; 401 and 403 do not."),
        ("M:VER-C17", "5+", "An outage says nothing about the era."),
        ("M:VER-C18", "5+", "After a failed handshake the oldest transport is tried."),
        ("M:VER-C19", "5+", "The era found is remembered."),
        ("M:VER-C20", "5+", "It may be kept over restarts and probed again."),
        ("M:VER-C21", "5+", "It is kept by origin or by command."),
        ("M:VER-C22", "5+", "A client of the new era probes to fail loudly."),
        ("M:VER-C23", "5+", "Three modes: automatic, handshake, one exact version."),
        ("M:VER-C24", "5+", "The probe has a timeout of its own."),
        ("M:VER-C25", "5+", "The probe follows only safe redirects."),
    ),
)

STDIO: Section = (
    "basic/transports/stdio",
    (
        ("M:STD-1", "5+", "One message per line."),
        ("M:STD-2", "5+", "Only messages on stdout."),
        ("M:STD-3", "5+", "Only messages on the server's stdin."),
        ("M:STD-4", "5+", "A loud stderr is drained and is no failure."),
        ("M:STD-5", "5+", "No requests on stdout."),
        ("M:STD-6", "5+", "Notices of listens are told apart by id."),
        ("M:STD-7", "5+", "Cancelling is a notice with the request's id."),
        ("M:STD-8", "5+", "After a cancel nothing more comes for it."),
        ("M:STD-9", "5+", "A server process is asked, then told, then killed."),
        ("M:STD-10", "5+", "The end of input ends the server soon."),
        ("M:STD-11", "5+", "A server may end by exiting."),
        ("M:STD-12", "5+", "A server that died is started anew when asked for."),
        ("M:STD-13", "5+", "Listens are opened again after that."),
        ("M:STD-14", "5+", "Lines of many threads stay whole."),
        ("M:STD-15", "5+", "Bytes, strict UTF-8, line feeds only."),
        ("M:STD-16", "5+", "The same framing works on sockets."),
        ("M:STD-17", "5+", "Reading never waits for a handler."),
        ("M:STD-18", "5+", "No authorization: secrets come by the environment."),
    ),
)

DISCOVER: Section = (
    "server/discover",
    (
        ("M:DISC-1", "5+", "The result has its five members and maybe instructions."),
        ("M:DISC-2", "5+", "What is advertised is what is served."),
        ("M:DISC-3", "5+", "Discovery may come first."),
        ("M:DISC-4", "5+", "The client goes on with a listed version."),
        ("M:DISC-5", "5+", "The result is kept as long as it says."),
        ("M:DISC-6", "5+", "Change notices are advertised only where listening works."),
        ("M:DISC-7", "5+", "Nothing of the older era is advertised."),
    ),
)

PROGRESS: Section = (
    "basic/patterns/progress",
    (
        ("M:PROG-1", "5+", "The client asks for progress by a unique token."),
        ("M:PROG-2", "5+", "Reports name a running token, in its own type."),
        ("M:PROG-3", "5+", "Progress strictly grows."),
        ("M:PROG-4", "5+", "Reports stop at the answer."),
        ("M:PROG-5", "5+", "Without a token there are none."),
        ("M:PROG-6", "5+", "A text for people; limited in rate."),
        ("M:PROG-7", "5+", "Progress never extends a request for ever."),
        ("M:PROG-8", "5+", "The client reports no progress."),
        ("M:PROG-9", "5+", "Over HTTP reports ride the call's own stream."),
    ),
)

CANCELLATION: Section = (
    "basic/patterns/cancellation",
    (
        ("M:CAN-1", "5+", "A notice on stdio, a closed stream over HTTP."),
        ("M:CAN-2", "5+", "Only one's own running requests."),
        ("M:CAN-3", "5+", "The handler stops; nothing is answered."),
        ("M:CAN-4", "5+", "Odd and unknown notices are ignored."),
        ("M:CAN-5", "5+", "A late answer is ignored."),
        ("M:CAN-6", "5+", "The server cancels only listens."),
        ("M:CAN-7", "5+", "Every request has a timeout, per call if wanted."),
        ("M:CAN-8", "5+", "A timeout cancels, then stops waiting."),
        ("M:CAN-9", "5+", "Reasons are logged."),
        ("M:CAN-10", "5+", "Every use of the context notices the cancel."),
        ("M:CAN-11", "5+", "A handler that does not notice is answered nowhere."),
        ("M:CAN-12", "5+", "Cancel and answer may cross without harm."),
    ),
)

LOGGING: Section = (
    "server/utilities/logging",
    (
        ("M:LOG-1", "5+", "No log messages unless the request asked for them."),
        ("M:LOG-2", "5+", "From its level up, before the answer."),
        ("M:LOG-3", "5+", "An unknown level is -32602."),
        ("M:LOG-4", "5+", "Who may send log messages declares logging."),
        ("M:LOG-5", "5+", "Messages hold no secrets."),
        ("M:LOG-6", "5+", "Clients ask for none unless told, once or always."),
        ("M:LOG-7", "5+", "Handlers log alike in both eras."),
        ("M:LOG-8", "5+", "Eight levels in their order."),
        ("M:LOG-9", "5+", "Log data has context; access to it is controlled."),
    ),
)

PAGINATION: Section = (
    "server/utilities/pagination",
    (
        ("M:PAG-1", "5+", "Cursors are opaque, on every list."),
        ("M:PAG-2", "5+", "Absent or null ends the list; empty text does not."),
        ("M:PAG-3", "5+", "A bad cursor is -32602."),
        ("M:PAG-4", "5+", "Cursors last and belong to no connection."),
        ("M:PAG-5", "5+", "Endless and circular lists are noticed."),
        ("M:PAG-6", "5+", "Pages may have any size."),
    ),
)

RESOURCES: Section = (
    "server/resources",
    (
        ("M:RES-1", "5+", "Resources are declared and listed, even none."),
        ("M:RES-2", "5+", "Connections and calls do not change the lists."),
        ("M:RES-3", "5+", "A missing resource is -32602."),
        ("M:RES-4", "5+", "A missing resource never answers with nothing."),
        ("M:RES-5", "5+", "Reading may give several items."),
        ("M:RES-6", "5+", "URIs and paths are checked, bytes encoded."),
        ("M:RES-7", "5+", "A failing resource is -32603."),
        ("M:RES-8", "5+", "Reads and lists say how long they hold."),
        ("M:RES-9", "5+", "Templates come after exact URIs."),
        ("M:RES-10", "5+", "URIs follow RFC 3986."),
        ("M:RES-11", "5+", "https is for what clients can fetch themselves."),
        ("M:RES-12", "5+", "Subscribing by request is gone."),
        ("M:RES-13", "5+", "Annotations: audience, priority and a date."),
        ("M:RES-14", "5+", "Access is checked before anything is read."),
        ("M:RES-15", "5+", "A file URI need not be a file."),
    ),
)

PROMPTS: Section = (
    "server/prompts",
    (
        ("M:PRM-1", "5+", "Prompts are declared and listed."),
        ("M:PRM-2", "5+", "Unknown prompts and missing arguments are -32602."),
        ("M:PRM-3", "5+", "Arguments are strings."),
        ("M:PRM-4", "5+", "Blocks are complete: base64, types, content."),
        ("M:PRM-5", "5+", "Inputs and outputs are checked."),
        ("M:PRM-6", "5+", "A prompt may ask the client first."),
        ("M:PRM-7", "5+", "Changes go to those who listen."),
        ("M:PRM-8", "5+", "Checks come first; long lists are paged."),
    ),
)

COMPLETION: Section = (
    "server/utilities/completion",
    (
        ("M:CMP-1", "5+", "Completion is declared, or -32601."),
        ("M:CMP-2", "5+", "At most a hundred values, maybe a total."),
        ("M:CMP-3", "5+", "A reference and an argument name what to complete."),
        ("M:CMP-4", "5+", "Values chosen already are sent along."),
        ("M:CMP-5", "5+", "A wrong reference or argument is -32602."),
        ("M:CMP-6", "5+", "Completers ask the client nothing."),
        ("M:CMP-7", "5+", "Rank, limit the rate, wait while typing goes on."),
        ("M:CMP-8", "5+", "Inputs are checked, sensitive suggestions guarded."),
    ),
)

SECTIONS: Tuple[Section, ...] = (
    BASE,
    META,
    ERR,
    VERSION_SERVER,
    VERSION_CLIENT,
    STDIO,
    DISCOVER,
    PROGRESS,
    CANCELLATION,
    LOGGING,
    PAGINATION,
    RESOURCES,
    PROMPTS,
    COMPLETION,
)
