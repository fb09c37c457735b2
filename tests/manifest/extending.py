"""Rows of what may be added to the protocol: extensions, keys of _meta, trace context, icons; and of security."""

from __future__ import annotations

from typing import Tuple

from .revisions import Section

EXTENSIONS: Section = (
    "basic/versioning",
    (
        ("M:EXT-1", "5+", "Extensions stand among the capabilities, each with settings."),
        ("M:EXT-2", "5+", "An identifier is a _meta key with a prefix."),
        ("M:EXT-3", "5+", "Where one is lacking: core behaviour, or an error."),
        ("M:EXT-4", "5+", "None is there unless somebody asks for it."),
        ("M:EXT-5", "5+", "One may add methods, notices, result types and keys."),
        ("M:EXT-6", "5+", "Its result types are accepted only when it is declared."),
        ("M:EXT-7", "5+", "Each request says which ones its client supports."),
        ("M:EXT-8", "5+", "What breaks one gets a new identifier."),
        ("M:EXT-9", "5+", "Sessions declare them in initialize."),
        ("M:EXT-10", "5+", "What comes with one is not trusted."),
    ),
)

TRACING: Section = (
    "basic",
    (
        ("M:TRC-1", "5+", "Trace context travels in _meta, in W3C's format."),
        ("M:TRC-2", "5+", "Malformed trace context hurts nobody."),
        ("M:TRC-3", "5+", "Unknown _meta passes through untouched."),
        ("M:ICO-1", "5+", "Who shows icons takes safe sources and formats only."),
        ("M:APP-1", "5+", "A tool may name the page that shows it."),
        ("M:APP-2", "5+", "It returns useful text all the same."),
    ),
)

KEYS: Section = (
    "basic",
    (
        ("META-04", "3-4", "The grammar of prefixes."),
        ("META-05", "3-4", "The grammar of names."),
        ("META-06", "3", "Reserved by any label but the last."),
        ("META-07", "4", "Reserved by the second label."),
        ("META-08", "4", "Own prefixes are reversed domain names."),
        ("ICON-03", "4", "Who shows icons shows PNG and JPEG at least."),
        ("ICON-05", "4", "Icons are not trusted, nor what serves them."),
    ),
)

SECURITY: Section = (
    "basic/security_best_practices",
    (
        ("SEC-01", "1-4", "Foreign origins are refused."),
        ("SEC-02", "2-4", "Session ids cannot be guessed."),
        ("SEC-03", "1-4", "Who starts a local server sees the command first."),
        ("SEC-04", "1-4", "Without a handler nothing is consented to."),
        ("SEC-05", "2-4", "Scopes begin small."),
        ("SEC-06", "2-4", "Requests, headers, streams and idle times are bounded."),
        ("SEC-07", "1-4", "Deep or huge JSON breaks nothing."),
        ("SEC-08", "1-4", "Local servers keep other processes out."),
        ("SEC-09", "1-4", "URLs from a server are parsed before they are used."),
        ("M:SEC-2", "5+", "Rates can be limited."),
    ),
)

SECTIONS: Tuple[Section, ...] = (EXTENSIONS, TRACING, KEYS, SECURITY)
