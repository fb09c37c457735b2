"""Rows without a test, each with its reason. A row that gets a test leaves this table."""

from __future__ import annotations

from typing import Dict, Iterable


def _all(rows: Iterable[str], reason: str) -> Dict[str, str]:
    return dict.fromkeys(rows, reason)


LATER: Dict[str, str] = {
    **_all(("CANC-10", "PROG-12", "SAMP-28"), "Tasks come with an issue of their own."),
    "M:CACHE-7": "A client is one user's and so is its cache; users come with authorization.",
    "M:META-19": "The members that differ by era are those of roots and tasks; both come with later issues.",
    "PAGE-09": "Shown for tools, resources, templates and prompts; tasks come with an issue of their own.",
    **_all(("COMP-11", "M:CMP-8"), "Inputs are checked; who may see what comes with authorization and middleware."),
    "M:MRTR-C15": "Each leg is posted in the same way; no test looks at the headers of the second.",
    **_all(
        ("M:EXT-5", "M:EXT-6"),
        "Methods and keys of _meta may be added; the first extension with result types of its own is tasks.",
    ),
    **_all(
        ("SEC-06",),
        "Shown limit by limit; the fault runner counts what all of them together let through.",
    ),
    **_all(("SEC-05", "SEC-09"), "Scopes, and URLs that a client itself opens, come with authorization."),
    "X-23": "The client sends the header over HTTP+SSE too; no test looks at it.",
    **_all(("X-08", "X-17", "X-18", "X-24", "X-29"), "Tasks come with an issue of their own."),
    "M:DEP-2": "Authorization comes with an issue of its own.",
}
"""What an issue after this one brings."""

CHOSEN: Dict[str, str] = {
    **_all(("M:XH-25", "M:XH-27"), "Advice to authors, which the documentation of the option gives."),
    "M:HDR-20": "There is no proxy among what this library brings.",
    "M:HDR-16": "The first extension with names of its own is tasks, which come with a later issue.",
    "M:XH-26": "Every caller is listed the same tools; who may see what comes with authorization.",
    "BATCH-14": "A MAY that we do not take: answers of one array leave together, as one array.",
    "LIFE-21": "A MAY that we do not take: a call's timeout is a limit that progress does not extend.",
    **_all(
        ("PING-03", "PING-04", "PING-05", "PING-06", "PING-07"),
        "The public surface has no keep-alive: a host calls ping(timeout=...) when it wants to know.",
    ),
    **_all(
        ("PROG-10", "M:PROG-6"),
        "Every report is sent, in order: coalescing would lose some. Only how fast the peer reads limits the rate.",
    ),
    **_all(
        ("ROOT-09", "M:ROOT-6", "SAMP-15", "ELIC-37", "ELIC-45", "M:ELI-20", "M:ELI-21"),
        "The host's own duty: its handler shows, limits, opens and asks for consent; docstrings say what it must do.",
    ),
    "SAMP-26": "A loop over tool uses is the server's and the host's own code; rounds have a limit (M:SAM-9).",
    "ELIC-29": "A MAY that we do not take: a host that opened a URL calls again when its user says so.",
    **_all(
        ("ROOT-08", "M:ROOT-5"),
        "Advice to authors: every ctx.list_roots() asks anew, and what is done with the paths is the handler's own.",
    ),
    **_all(
        ("ELIC-21", "ELIC-38", "ELIC-41", "ELIC-42", "ELIC-43", "ELIC-44", "ELIC-47", "M:ELI-14", "M:ELI-16")
        + ("M:ELI-19",),
        "Behind the URL is the author's own service: the docstrings of ElicitUrl and elicit_url say what it has to do.",
    ),
    "M:CACHE-10": "A MAY that we do not take: what is stale is never served, and what is fresh is asked for by cache=.",
    "M:MRTR-S13": "A MAY that we do not take: a server that is too busy answers with an error.",
    "LOG-08": "There is no limiter: rate, names and content of log messages are the handler's own.",
    **_all(
        ("LOG-09", "M:LOG-5"),
        "What a handler logs is its author's; the library itself sends no log message to a peer.",
    ),
    **_all(
        ("LOG-12", "M:LOG-9"),
        "There is no filter between a handler and its log messages; middleware is the place for one.",
    ),
    "M:VER-C20": "A MAY that we do not take: each new process is asked which era it speaks.",
    "M:VER-C25": "Redirects are not followed at all: the error names where to, and a host may connect there.",
    "HSSE-11": "The newest text is narrower, and holds for all: an error that says nothing of age is no reason.",
    "M:VER-C21": "Nothing is remembered over stdio beyond the life of one process, so there is no key.",
    **_all(
        ("RES-17", "M:RES-11"),
        "Advice to authors: nobody but them knows whether a client can fetch a URL itself.",
    ),
    **_all(
        ("COMP-09", "M:CMP-7"),
        "The order is the completer's; there is no limiter and no delay: a host knows when its user types.",
    ),
    **_all(
        ("ICON-03", "ICON-05", "M:ICO-1", "SEC-03"),
        "The host's own duty: nothing here shows icons (Icon.is_safe tells which may be) or asks before it starts.",
    ),
    **_all(
        ("META-08", "M:EXT-8", "M:APP-2"),
        "Advice to authors, about names and results that are theirs.",
    ),
    **_all(
        ("TOOL-15", "TOOL-36", "TOOL-37", "M:TOOL-22", "M:TOOL-23", "M:TOOL-25"),
        "The host's own duty, before and after it calls: the library approves nothing and trusts no hint. Calls have a"
        " timeout.",
    ),
    **_all(
        ("TOOL-35", "M:TOOL-17"),
        "Inputs and outputs are checked (TOOL-21, TOOL-27); access and rates are the author's, in middleware.",
    ),
    **_all(("TOOL-33", "M:TOOL-21"), "Advice to authors: what a tool embeds and how it names state is their own."),
    "M:SCH-5": "A MAY that we do not take: no schema is ever fetched.",
    "X-26": "An example on a page that is no JSON: nothing follows from it.",
    "M:DEP-1": "Served in every revision: old peers need them; docstrings say it, a warning would nag who serves both.",
    **_all(("TRANS-03", "M:META-13"), "Advice to authors of transports and extensions; the library has no part in it."),
}
"""What we do not do, with the reason."""

GAPS: Dict[str, str] = {**LATER, **CHOSEN}
