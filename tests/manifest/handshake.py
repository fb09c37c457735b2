"""Rows of the four revisions that begin with a handshake."""

from __future__ import annotations

from typing import Tuple

from .revisions import Section

BASE: Section = (
    "basic",
    (
        ("BASE-01", "1-4", 'Each message is an object with jsonrpc "2.0".'),
        ("BASE-02", "1-4", "Request ids are strings or integers, nothing else."),
        ("BASE-03", "1-4", "A request id of null is an error."),
        ("BASE-04", "1-4", "Ids are used once per session and direction."),
        ("BASE-05", "1-4", "Answers carry the id as it came, type included."),
        ("BASE-06", "1-4", "An answer has result or error, never both."),
        ("BASE-07", "1-4", "Errors have an integer code and a string message."),
        ("BASE-08", "1-4", "Error messages are one short sentence."),
        ("BASE-09", "1-4", "Notifications are sent without an id."),
        ("BASE-10", "1-4", "No notification is ever answered."),
        ("BASE-11", "1-4", "Results are objects; members we do not know are kept."),
        ("BASE-12", "1-4", "Params are an object; an array is refused."),
        ("BASE-13", "2-4", "UTF-8 on every transport."),
        ("BASE-14", "1-4", "The five standard error codes mean what JSON-RPC says."),
        ("BASE-15", "1-4", "A server without any feature still shakes hands and pings."),
        ("BASE-16", "1-4", "Members we do not know are kept and never refused."),
        ("BASE-17", "1-4", "An unknown method is -32601."),
        ("BASE-18", "1-4", "A method meant for the other role is unknown."),
        ("BASE-19", "1-4", "An answer that nobody waits for is dropped."),
        ("BASE-20", "4", "An error leaves out the id only when it was unreadable."),
        ("BASE-21", "1-4", "A handler that raises is answered with -32603."),
    ),
)

BATCH: Section = (
    "basic",
    (
        ("BATCH-01", "2", "A received array of messages is worked through."),
        ("BATCH-02", "2", "Sending batches is a choice; by default none are sent."),
        ("BATCH-03", "2", "Requests and answers are not mixed in one batch."),
        ("BATCH-04", "2", "One array answers a batch, one entry per request."),
        ("BATCH-05", "2", "A batch of notifications is not answered."),
        ("BATCH-06", "2", "An empty batch is answered by one single error."),
        ("BATCH-07", "2", "Each bad element has its own error; good ones run."),
        ("BATCH-08", "2", "The handshake never travels in a batch."),
        ("BATCH-09", "2", "On stdio a batch is one line."),
        ("BATCH-10", "2", "A POST body is a message or a batch of one kind."),
        ("BATCH-11", "2", "A body without requests is answered 202, empty."),
        ("BATCH-12", "2", "A body with requests is answered by JSON or stream."),
        ("BATCH-13", "2", "A stream answers all requests before it ends."),
        ("BATCH-14", "2", "Stream events may hold batches."),
        ("BATCH-15", "3-4", "Batches are gone: an array is refused."),
        ("BATCH-16", "1", "Undefined at first: we accept batches and send none."),
    ),
)

LIFE: Section = (
    "basic/lifecycle",
    (
        ("LIFE-01", "1-4", "The client opens with initialize and its three members."),
        ("LIFE-02", "1-4", "The server answers with version, capabilities and its name."),
        ("LIFE-03", "1-4", "The client then says that it is initialized."),
        ("LIFE-04", "1-4", "Before the answer the client asks nothing but ping."),
        ("LIFE-05", "1-4", "Until told so the server asks nothing but ping."),
        ("LIFE-06", "1-4", "The client offers a version that it speaks."),
        ("LIFE-07", "1-4", "The client offers its newest version."),
        ("LIFE-08", "1-4", "A version that the server speaks is agreed to."),
        ("LIFE-09", "1-4", "To another version the server counters with its own."),
        ("LIFE-10", "1-4", "The counter-offer is the server's newest."),
        ("LIFE-11", "1-4", "A client that cannot speak the counter-offer hangs up."),
        ("LIFE-12", "1-4", "Each session has its own agreed version."),
        ("LIFE-13", "1-4", "Both keep to the version and capabilities agreed."),
        ("LIFE-14", "1-4", "Unknown capabilities are kept and do no harm."),
        ("LIFE-15", "1-4", "An empty capability counts; absent flags are false."),
        ("LIFE-16", "1-4", "What is there is advertised; what is not is -32601."),
        ("LIFE-17", "1-4", "The handshake is never cancelled."),
        ("LIFE-18", "1-4", "Every request that is sent has a timeout."),
        ("LIFE-19", "2-4", "A timeout cancels on the wire and stops waiting."),
        ("LIFE-20", "2-4", "Each request may have a timeout of its own."),
        ("LIFE-21", "2-4", "Progress may restart the clock."),
        ("LIFE-22", "2-4", "Progress never extends a request for ever."),
        ("LIFE-23", "1-4", "Version, capability and timeout trouble are three errors."),
        ("LIFE-24", "1-4", "A refused handshake lists the versions that would do."),
        ("LIFE-25", "1-4", "Closing the connection is the only goodbye."),
        ("LIFE-26", "1-4", "A server process is asked, then told, then killed."),
        ("LIFE-27", "1-4", "A server that exits fails the calls that wait."),
        ("LIFE-28", "1-4", "Over HTTP closing leaves no thread and no socket."),
        ("LIFE-29", "1-4", "The server's instructions reach the host."),
        ("LIFE-30", "1-4", "Requests before the handshake are refused, ping is not."),
        ("LIFE-31", "1-4", "A second handshake opens the session anew."),
        ("LIFE-32", "1-4", "A handshake without a version string is -32602."),
    ),
)

STDIO: Section = (
    "basic/transports",
    (
        ("STDIO-01", "1-4", "The client starts the server itself, without a shell."),
        ("STDIO-02", "1-4", "The client can do stdio."),
        ("STDIO-03", "1-4", "One message is one line, whatever its text holds."),
        ("STDIO-04", "1-4", "Only messages reach stdout, even when handlers print."),
        ("STDIO-05", "1-4", "Only messages reach the server's stdin."),
        ("STDIO-06", "1-4", "The server may write what it likes to stderr."),
        ("STDIO-07", "1-4", "The client drains stderr and forwards it as asked."),
        ("STDIO-08", "4", "Words on stderr are no failure."),
        ("STDIO-09", "2-4", "No authorization: secrets come by the environment."),
        ("STDIO-10", "1-4", "A broken line is -32700 and the next is read."),
        ("STDIO-11", "1-4", "The end of stdin ends the server, exit code 0."),
        ("STDIO-12", "1-4", "Lines of many threads stay whole, both ways at once."),
        ("TRANS-01", "1-4", "Other transports are possible: memory is one."),
        ("TRANS-02", "1-4", "Every transport carries the same messages and lifecycle."),
        ("TRANS-03", "2-4", "Other transports authorize by good practice."),
    ),
)

PING: Section = (
    "basic/utilities/ping",
    (
        ("PING-01", "1-4", "Ping is answered at once with an empty object."),
        ("PING-02", "1-4", "Ping may come with or without params."),
        ("PING-03", "1-4", "No answer to ping may count as a dead peer."),
        ("PING-04", "1-4", "Pings are sent at intervals."),
        ("PING-05", "1-4", "The interval of pings can be set."),
        ("PING-06", "1-4", "A ping without answer is logged as a failure."),
        ("PING-07", "1-4", "Several failed pings may reset the connection."),
        ("PING-08", "1-4", "Ping works before the handshake is over."),
        ("PING-09", "1-4", "Ping is answered while every worker is busy."),
    ),
)

CANC: Section = (
    "basic/utilities/cancellation",
    (
        ("CANC-01", "1-4", "The notice names the request and may give a reason."),
        ("CANC-02", "1-4", "Only one's own running requests are cancelled."),
        ("CANC-03", "1-4", "The handshake cannot be cancelled."),
        ("CANC-04", "1-4", "A cancelled handler is told and never answered."),
        ("CANC-05", "1-4", "A notice about an unknown request is ignored."),
        ("CANC-06", "1-4", "An answer after the cancel is ignored."),
        ("CANC-07", "1-4", "Cancel and answer may cross without harm."),
        ("CANC-08", "1-4", "The reason is logged."),
        ("CANC-09", "1-4", "A malformed notice is ignored."),
        ("CANC-10", "4", "Tasks are cancelled by their own request."),
        ("CANC-11", "4", "The notice always names a request, never a task."),
        ("CANC-12", "2-4", "A cancelled stream ends without an answer."),
        ("CANC-13", "1-4", "Ids 1 and \"1\" are two requests to cancel."),
    ),
)

PROG: Section = (
    "basic/utilities/progress",
    (
        ("PROG-01", "1-4", "The token travels in _meta; 0 and strings work."),
        ("PROG-02", "1-4", "Tokens of running requests differ."),
        ("PROG-03", "1-4", "Reports have token, progress, maybe total; message later."),
        ("PROG-04", "1-4", "Progress only ever grows."),
        ("PROG-05", "1-4", "Fractions are fine."),
        ("PROG-06", "2-4", "A report may have a text for people."),
        ("PROG-07", "1-4", "Without a token there are no reports."),
        ("PROG-08", "1-4", "No report at all is fine too."),
        ("PROG-09", "1-4", "Reports for unknown tokens are dropped."),
        ("PROG-10", "1-4", "Reports are rate limited."),
        ("PROG-11", "1-4", "After the answer there are no more reports."),
        ("PROG-12", "4", "A task keeps its token until it ends."),
    ),
)

PAGE: Section = (
    "server/utilities/pagination",
    (
        ("PAGE-01", "1-4", "The server chooses the size of its pages."),
        ("PAGE-02", "1-4", "The client takes pages of any size."),
        ("PAGE-03", "1-4", "The last page has no cursor member."),
        ("PAGE-04", "1-4", "Without a cursor the client stops."),
        ("PAGE-05", "1-4", "Lists with and without pages both work."),
        ("PAGE-06", "1-4", "A cursor goes back exactly as it came."),
        ("PAGE-07", "1-4", "The same cursor gives the same page."),
        ("PAGE-08", "1-4", "A bad cursor is -32602."),
        ("PAGE-09", "1-4", "Every list has pages."),
        ("PAGE-10", "1-4", "List requests work without params."),
        ("PAGE-11", "1-4", "A cursor that comes again is noticed."),
    ),
)

LOG: Section = (
    "server/utilities/logging",
    (
        ("LOG-01", "1-4", "Who sends log messages declares logging."),
        ("LOG-02", "1-4", "Eight levels in their order."),
        ("LOG-03", "1-4", "The client may set the level."),
        ("LOG-04", "1-4", "From then on nothing below that level is sent."),
        ("LOG-05", "1-4", "Until then the server decides."),
        ("LOG-06", "1-4", "A message has level, any data, maybe a logger."),
        ("LOG-07", "1-4", "An unknown level is -32602."),
        ("LOG-08", "1-4", "Messages are limited in rate and well named."),
        ("LOG-09", "1-4", "Messages hold no secrets."),
        ("LOG-10", "1-4", "The host gets the messages."),
        ("LOG-11", "2-4", "Each session has its own level."),
        ("LOG-12", "1-4", "Log data is checked and access to it controlled."),
    ),
)

RESOURCES: Section = (
    "server/resources",
    (
        ("RES-01", "1-4", "A server with resources declares them."),
        ("RES-02", "1-4", "Subscribing and list changes are declared apart."),
        ("RES-03", "1-4", "A resource has URI and name, and optional members."),
        ("RES-04", "3-4", "Titles and _meta, and icons later."),
        ("RES-05", "1-4", "Reading gives a list of items."),
        ("RES-06", "1-4", "An item holds text or base64."),
        ("RES-07", "1-4", "Only what is text travels as text."),
        ("RES-08", "1-4", "A missing resource is -32002."),
        ("RES-09", "1-4", "A failing resource is -32603."),
        ("RES-10", "1-4", "Templates have a list of their own."),
        ("RES-11", "1-4", "A template's type is that of all its resources."),
        ("RES-12", "1-4", "A changed list is told without a subscription."),
        ("RES-13", "1-4", "Subscribing and unsubscribing take a URI."),
        ("RES-14", "1-4", "Updates go to subscribers only."),
        ("RES-15", "1-4", "An update may be about a part."),
        ("RES-16", "1-4", "Annotations: audience, priority, later a date."),
        ("RES-17", "1-4", "https is for what clients can fetch themselves."),
        ("RES-18", "1-4", "A file URI need not be a file."),
        ("RES-19", "3-4", "URIs follow RFC 3986."),
        ("RES-20", "1-4", "All URIs are checked."),
        ("RES-21", "1-4", "Bytes travel as standard base64."),
        ("RES-22", "1-4", "Access is checked before anything is read."),
        ("RES-23", "1-4", "URIs are never rewritten."),
        ("SEED-02", "1-4", "Both codes for missing resources are read."),
        ("SEED-06", "1-4", "Unknown capability fields are kept and gate nothing."),
        ("SEED-12", "1-4", "A template given as a resource is read."),
        ("SEED-21", "1-4", "What is not declared is not served."),
        ("SEED-23", "1-4", "Contents always say their type."),
        ("SEED-25", "1-4", "A resource is read by exactly the listed URI."),
    ),
)

PROMPTS: Section = (
    "server/prompts",
    (
        ("PRM-01", "1-4", "A server with prompts declares them."),
        ("PRM-02", "1-4", "A prompt has a name and optional members."),
        ("PRM-03", "1-4", "An argument has a name and optional members."),
        ("PRM-04", "1-4", "Arguments are strings by name."),
        ("PRM-05", "1-4", "Each message has a role and one block."),
        ("PRM-06", "1-4", "Roles are user and assistant."),
        ("PRM-07", "1-4", "Audio and links only where they are known."),
        ("PRM-08", "1-4", "Images and audio are base64 with a type."),
        ("PRM-09", "1-4", "Embedded resources say URI, type and content."),
        ("PRM-10", "1-4", "A changed list is told."),
        ("PRM-11", "1-4", "An unknown prompt is -32602."),
        ("PRM-12", "1-4", "A missing argument is -32602."),
        ("PRM-13", "1-4", "A failing prompt is -32603."),
        ("PRM-14", "1-4", "Arguments are checked before the prompt runs."),
        ("PRM-15", "1-4", "Long lists are paged through."),
        ("PRM-16", "1-4", "Values are never expanded again."),
        ("SEED-04", "1-4", "Both codes for unknown prompts are read."),
        ("SEED-24", "1-4", "Arguments always say whether they are required."),
    ),
)

COMPLETION: Section = (
    "server/utilities/completion",
    (
        ("COMP-01", "2-4", "A server that completes declares it."),
        ("COMP-02", "1-4", "A reference is a prompt's name or a URI."),
        ("COMP-03", "1-4", "An argument has a name and a value."),
        ("COMP-04", "3-4", "Values chosen already are sent along."),
        ("COMP-05", "1-4", "At most a hundred values, maybe a total."),
        ("COMP-06", "1-4", "Values keep their order."),
        ("COMP-07", "2-4", "Without completion it is -32601."),
        ("COMP-08", "2-4", "Unknown things are -32602, failures -32603."),
        ("COMP-09", "1-4", "Sort, match, limit the rate, check."),
        ("COMP-10", "1-4", "Partial completions are fine."),
        ("COMP-11", "1-4", "Inputs are checked, sensitive suggestions guarded."),
        ("COMP-12", "1", "Undeclared at first: asked, and a refusal understood."),
    ),
)

PARAPHRASE: Section = (
    "basic",
    (
        ("SEED-03", "1-4", "Old codes for tools are read."),
        ("SEED-05", "1-4", "Old codes for missing capabilities are read."),
        ("SEED-32", "1-4", "Old codes mean nothing outside sessions."),
    ),
)

SECTIONS: Tuple[Section, ...] = (
    BASE, BATCH, LIFE, STDIO, PING, CANC, PROG, PAGE, LOG, RESOURCES, PROMPTS, COMPLETION, PARAPHRASE,
)
