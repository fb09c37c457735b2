"""The rows of the fault catalogue: what is done to the subject, and what is right. One line each, for tables."""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple

SERVER, CLIENT, BOTH, HTTP = "server", "client", "both", "HTTP"


class Row(NamedTuple):
    """One row: its name, the role that is tried, what is done, and what is expected."""

    id: str
    role: str
    fault: str
    expected: str


_STDIO: Tuple[Tuple[str, str, str, str], ...] = (
    ("C01", SERVER, "a line that is not JSON", "-32700 without an id"),
    ("C02", SERVER, "invalid UTF-8, alone and inside a call", "-32700, never a mangled success"),
    ("C03", SERVER, "100,000 levels of nesting; 200 levels", "refused; served"),
    ("C04", SERVER, "NaN, Infinity, 1e999", "-32700; a refusal with the id"),
    ("C05", SERVER, "numbers of 5,000 digits", "-32700 or -32600"),
    ("C06", SERVER, "batches", "-32600; taken in 2025-03-26"),
    ("C07", SERVER, "ids of every type", "returned as they came, or -32600"),
    ("C08", SERVER, "duplicate and misspelt members", "-32600"),
    ("C09", SERVER, "lone surrogates in and out", "an answer in valid UTF-8"),
    ("C10", SERVER, "wrong shapes with a readable id", "-32600 or -32602 with the id"),
    ("C11", SERVER, "CRLF, blank lines, BOM, NUL, U+2028", "a line feed alone ends a line"),
    ("C12", SERVER, "a valid message of 50 MB", "served or refused, memory bounded"),
    ("C13", SERVER, "96 MB without a line feed", "one -32600, then goes on"),
    ("C14", SERVER, "0 to 200 KB; byte by byte; many in one write", "each answered"),
    ("C15", SERVER, "an id in flight; an id used again", "-32600 at once; served"),
    ("C16", SERVER, "responses nobody asked for", "passed over"),
    ("C17", SERVER, "50,000 unknown notifications", "passed over, 10,000 a second"),
    ("C18", SERVER, "cancellations of nothing", "passed over"),
    ("C19", SERVER, "1,000 requests cancelled at once", "at most one answer each"),
    ("C20", SERVER, "mutated messages, by a seed", "each answered once or rightly not"),
    ("C21", SERVER, "JSON texts, valid and not", "accepted; -32700"),
    ("C22", SERVER, "hostile strings in every field", "returned exactly"),
    ("C23", SERVER, "a tool that writes to stdout", "stdout carries messages only"),
    ("C24", SERVER, "20,000 requests, and no answer is read", "all answered, memory bounded"),
    ("C25", SERVER, "answers of 5 MB to a slow reader", "all answered, memory bounded"),
    ("C26", SERVER, "200 calls that block for 0.1 s, at once", "all, below 3 s"),
    ("C27", SERVER, "a fast call behind slow ones; ping behind 100", "below 1 s"),
    ("C28", SERVER, "tools that raise what is no Exception", "an error result, the worker lives"),
    ("C29", SERVER, "tools that return what cannot be sent", "an error, the writer lives"),
    ("C30", SERVER, "tools that never return", "lives, exits at its grace"),
    ("C31", SERVER, "end of input: idle, 20 calls, slow, slower", "all answered; exits within 5 s"),
    ("C32", SERVER, "signals, idle and in flight; two", "exits within 1 s, within 5 s"),
    ("C33", SERVER, "nobody reads stdout, stderr", "exits below 1 s; lives"),
    ("C34", SERVER, "the parent is killed", "gone within 2 s"),
    ("C35", SERVER, "stdin is a file, a socket, a terminal, nothing", "works, or exits"),
    ("C36", SERVER, "16 open files, no new threads, a full disk", "refused or waits, lives"),
    ("C37", SERVER, "what a child of a tool inherits", "no descriptor of the wire"),
    ("C38", SERVER, "calls one after another", "threads and memory flat"),
    ("C65", BOTH, "32 callers share a client; closed midway", "each call ends once, none hangs"),
    ("C66", BOTH, "a line that drops, doubles, swaps and cuts", "each call ends once, not wrongly"),
    ("C67", BOTH, "callbacks that call back, raise, block", "no deadlock, calls go on"),
    ("C68", BOTH, "close twice, at once, in a callback, never", "harmless, within 5 s, nothing left"),
    ("C69", BOTH, "answers at the very moment of the timeout", "one outcome each, calls go on"),
    ("C70", BOTH, "a switch interval of 1 microsecond", "as without it"),
    ("K01", CLIENT, "silent, dying and half-speaking servers", "at once, or at the timeout"),
    ("K02", CLIENT, "a banner on stdout", "passed over"),
    ("K03", CLIENT, "answers with unknown, doubled and other ids", "never taken as ours"),
    ("K04", CLIENT, "answers of a wrong shape", "an error at once"),
    ("K05", CLIENT, "20,000 notifications before the answer", "below 1 s"),
    ("K06", CLIENT, "an answer of 50 MB", "within 2 s, memory bounded"),
    ("K07", CLIENT, "invalid UTF-8, deep, NaN, huge, half, batch", "the line dropped, the call lives"),
    ("K08", CLIENT, "96 MB without a line feed, then the answer", "skipped, memory bounded"),
    ("K09", CLIENT, "20 MB on stderr", "drained"),
    ("K10", CLIENT, "5 MB to a server that does not read; both", "the call's timeout; no deadlock"),
    ("K20", CLIENT, "a server that ignores EOF and SIGTERM", "closed within 4 s, killed, reaped"),
    ("K21", CLIENT, "a grandchild that holds the pipes", "close does not wait for it"),
    ("K22", CLIENT, "clients opened and closed", "no zombies; threads flat"),
    ("K23", CLIENT, "commands that cannot be started", "an error, nothing left"),
    ("K24", CLIENT, "lists without an end", "an end, or an error"),
    ("K25", CLIENT, "10,000 tools; hostile schemas", "listed, within 2 s"),
)

_HTTP_BYTES: Tuple[Tuple[str, str, str, str], ...] = (  # what comes, how slowly, and who leaves
    ("C39", HTTP, "the lines of C01 to C10 as bodies", "400 with a code, never 5xx"),
    ("C40", HTTP, "50 MB announced, sent, in chunks; short bodies", "413; 408; memory bounded"),
    ("C41", HTTP, "requests that can be read in two ways", "refused, then the end"),
    ("C42", HTTP, "Host and Origin of others, everywhere", "403, 421, before the body"),
    ("C43", HTTP, "other media types and codings", "415"),
    ("C44", HTTP, "64 KB and 1 MB of header, URL; 1,000 headers", "431, 414, then the end"),
    ("C45", HTTP, "slow heads, slow bodies, silence, idleness", "all shed in time, others served"),
    ("C46", HTTP, "more connections than there may be", "503 and the end; recovers in 1 s"),
    ("C47", HTTP, "clients that leave during a call, half by RST", "nothing left; handlers are told"),
    ("C48", HTTP, "streams opened and dropped; a second one", "freed within 15 s; 409"),
    ("C49", HTTP, "clients that do not read their stream", "dropped in time, others served"),
    ("C50", HTTP, "tools that raise; streams that are gone", "a whole answer, no traceback"),
    ("C51", HTTP, "other methods, and made-up ones", "405 with Allow; 501"),
    ("C52", HTTP, "HTTP/1.0, pipelining, Expect, after refusals", "right, or a clean end"),
)

_HTTP_PROTOCOL: Tuple[Tuple[str, str, str, str], ...] = (  # sessions, streams, many clients, the end
    ("C53", HTTP, "paths that look like ours, other hosts", "refused; ours alone is served"),
    ("C54", HTTP, "ids of no session, ended, expired, malformed", "404; 400"),
    ("C55", HTTP, "one id at once, in one session and in two", "each its own answer"),
    ("C56", HTTP, "line ends and marks in texts, headers, logs", "returned exactly, nothing forged"),
    ("C57", HTTP, "headers that contradict the body", "400 with -32020"),
    ("C58", HTTP, "sessions without end; idle; ended; open streams", "503; freed; 4 kB, 32 kB each"),
    ("C59", HTTP, "streams cut and come back to; ids of others", "exact continuation; 400"),
    ("C60", HTTP, "SIGTERM: idle, a stream, in flight; at once again", "1 s, 1 s, 5 s; the port is free"),
    ("C61", HTTP, "50 clients x 20; 1,000 clients at once; a burst", "0 wrong, backlog 128"),
    ("C62", HTTP, "what the log says of all that", "1 line a fault, no traceback"),
    ("C63", HTTP, "proxies that cut, tear, hold back, compress", "comments come; goes on"),
    ("C64", HTTP, "HTTP+SSE: POST before GET, ids of others; both", "404; each its own answer"),
)

_HTTP_CLIENT: Tuple[Tuple[str, str, str, str], ...] = (
    ("K03H", CLIENT, "over HTTP: other ids on our own stream", "never taken as ours"),
    ("K04H", CLIENT, "over HTTP: answers of a wrong shape", "an error at once"),
    ("K05H", CLIENT, "over HTTP: 20,000 notifications in a stream", "below 1 s"),
    ("K06H", CLIENT, "over HTTP: 50 MB; 4, 8, 16 MB; the limit", "linear time; exact to a byte"),
    ("K07H", CLIENT, "over HTTP: invalid UTF-8, deep, NaN, huge", "the event dropped, the call lives"),
    ("K08H", CLIENT, "over HTTP: endless events, comments, bodies", "the limit or the timeout"),
    ("K11", CLIENT, "drips, hangs and resets, at every place", "the total timeout holds"),
    ("K12", CLIENT, "1 MB of gzip that are 1 GB", "refused, below 100 MB"),
    ("K13", CLIENT, "redirects: elsewhere, in a circle, to http", "only within the origin, once"),
    ("K14", CLIENT, "401 and 429 that want too much; retry", "nothing fetched, waits are capped"),
    ("K15", CLIENT, "pages, nothing, and other types of content", "an error with status and 200 B"),
    ("K16", CLIENT, "bodies and streams that are cut", "an error at once, no half"),
    ("K17", CLIENT, "streams to resume; sessions that are gone", "few tries, nothing sent twice"),
    ("K18", CLIENT, "HTTP+SSE: endpoints elsewhere", "refused, and nothing sent there"),
    ("K19", CLIENT, "session ids of controls, blanks, 60 KB", "refused before they are sent"),
)

ROWS: Dict[str, Row] = {
    row[0]: Row(*row) for row in sorted((*_STDIO, *_HTTP_BYTES, *_HTTP_PROTOCOL, *_HTTP_CLIENT))
}
"""Every row, by its name; H at the end of a name says that it is the row of that name over HTTP."""
