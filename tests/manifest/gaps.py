"""Rows without a test, each with its reason. A row that gets a test leaves this table."""

from __future__ import annotations

from typing import Dict, Iterable


def _all(rows: Iterable[str], reason: str) -> Dict[str, str]:
    return dict.fromkeys(rows, reason)


LATER: Dict[str, str] = {
    **_all(
        ("CANC-10", "PROG-12", "SAMP-28", "X-08", "X-17", "X-18", "X-24", "X-29"),
        "Tasks come with an issue of their own.",
    ),
    "PAGE-09": "Shown for tools, resources, templates and prompts; the list of tasks comes with tasks.",
    **_all(
        ("M:EXT-5", "M:EXT-6"),
        "Methods and keys of _meta may be added, and no result type is taken that the specification does not have: the"
        " first extension with result types of its own is tasks, which come with a later issue.",
    ),
    "M:HDR-16": "The first extension with names of its own is tasks, which come with a later issue.",
    **_all(("SEC-05", "M:DEP-2"), "Scopes and sign-in come with authorization, an issue of its own."),
    **_all(
        ("SHTTP-06", "SHTTP-72", "SHTTP-73", "HSSE-08", "M:HTTP-13", "M:HTTP-35"),
        "Clients are authenticated with authorization, an issue of its own.",
    ),
}
"""What an issue after this one brings."""

CHOSEN: Dict[str, str] = {
    **_all(("M:XH-25", "M:XH-27"), "Advice to authors, which the documentation of the option gives."),
    "M:HDR-20": "There is no proxy among what this library brings.",
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
    "M:VER-C25": "No redirect is followed, not even a safe one: the error says where to, and a host may go there.",
    "HSSE-11": "The newest text is narrower (HSSE-12) and holds for all: 401, 403 or 429 say nothing about a server's"
    " age.",
    "M:VER-C21": "Kept by URL, which is narrower than the origin: one host may have two servers. Over stdio nothing is"
    " remembered beyond the life of one process, so there is no key.",
    **_all(
        ("RES-17", "M:RES-11"),
        "Advice to authors: nobody but them knows whether a client can fetch a URL itself.",
    ),
    "M:CMP-7": "The completer orders, middleware may limit the rate (COMP-09); a host knows when its user types.",
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
    **_all(("TOOL-33", "M:TOOL-21"), "Advice to authors: what a tool embeds and how it names state is their own."),
    "M:SCH-5": "A MAY that we do not take: no schema is ever fetched.",
    "X-26": "An example on a page that is no JSON: nothing follows from it.",
    "M:DEP-1": "Served in every revision: old peers need them; docstrings say it, a warning would nag who serves both.",
    **_all(("TRANS-03", "M:META-13"), "Advice to authors of transports and extensions; the library has no part in it."),
}
"""What we do not do, with the reason."""

GAPS: Dict[str, str] = {**LATER, **CHOSEN}
