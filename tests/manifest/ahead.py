"""Rows of pages that a later issue takes up whole, as far as tests show them already.

When its page is taken up, a row moves to that page's section in `handshake` or `modern`.
"""

from __future__ import annotations

from typing import Tuple

from .revisions import Section

TOOLS: Section = (
    "server/tools",
    (
        ("TOOL-01", "1-4", "A server with tools declares tools."),
        ("TOOL-02", "1-4", "A change of the list is told."),
        ("TOOL-03", "1-4", "A tool has a name and an input schema."),
        ("TOOL-11", "3-4", "A display name: title, then annotated title, then name."),
        ("TOOL-12", "2-4", "Annotations are a title and four hints."),
        ("TOOL-13", "2-4", "Hints have defaults."),
        ("TOOL-14", "2-4", "Two hints mean nothing for a read-only tool."),
        ("TOOL-16", "1-4", "A call has a name and maybe arguments."),
        ("TOOL-17", "1-4", "A result always has a list of content."),
        ("TOOL-18", "1-4", "An unknown tool is -32602."),
        ("TOOL-19", "1-4", "A failing tool answers with isError."),
        ("TOOL-20", "1-3", "Bad arguments may be either kind of error."),
        ("TOOL-21", "4", "Bad arguments answer with isError."),
        ("TOOL-22", "4", "A malformed call is a protocol error."),
        ("TOOL-32", "1-4", "Resources may be embedded."),
        ("TOOL-39", "1-4", "Content of an unknown type is kept."),
        ("SEED-11", "1-4", "A flat resource block is read as a link."),
        ("X-06", "3-4", "Annotations stand on the block; read in both places."),
        ("M:TOOL-1", "5+", "Tools are declared and listed, even none."),
        ("M:TOOL-18", "5+", "A change of the list reaches the streams that asked for it."),
        ("M:TOOL-2", "5+", "Connections and calls do not change the list."),
        ("M:TOOL-3", "5+", "The list keeps its order."),
        ("M:TOOL-7", "5+", "Structured content is any JSON value."),
        ("M:TOOL-8", "5+", "The same value is given as text too."),
        ("M:TOOL-10", "5+", "An unknown tool is -32602."),
        ("M:TOOL-11", "5+", "Failures answer with isError and useful text."),
        ("M:TOOL-19", "5+", "The older way to ask for a task is ignored."),
    ),
)

ROOTS: Section = (
    "client/roots",
    (
        ("ROOT-02", "1-4", "A root has a URI and maybe a name."),
        ("ROOT-03", "1-4", "Roots are file URIs."),
    ),
)

SAMPLING: Section = (
    "client/sampling",
    (
        ("SAMP-05", "1-4", "A sample has role, content, model, maybe a reason."),
        ("SAMP-06", "1-4", "Known reasons to stop are constants."),
        ("SAMP-09", "1-4", "Priorities lie between 0 and 1."),
        ("SAMP-10", "1-4", "The first hint that fits wins."),
        ("SAMP-11", "1-4", "Hints are parts of names and come before priorities."),
        ("SEED-13", "1-4", "Both spellings of the end of a turn are read."),
    ),
)

GENERAL: Section = (
    "basic",
    (
        ("META-01", "1-4", "Params and results may have _meta, an object."),
        ("META-02", "3-4", "Most objects may have _meta too."),
        ("META-03", "1-2", "Early requests name a token there, others are tolerated."),
        ("META-09", "3-4", "Odd values under reserved keys are kept."),
        ("ICON-01", "4", "An icon has a source and optional members."),
        ("ICON-02", "4", "Who has icons, and who has not."),
        ("ICON-04", "4", "Icons with unsafe schemes are refused."),
        ("ICON-06", "4", "An icon without size or theme fits all."),
        ("SEED-28", "4", "Sizes given as one text are read."),
    ),
)

CACHING: Section = (
    "server/utilities/caching",
    (
        ("M:CACHE-1", "5+", "Six results say how long and for whom they hold."),
        ("M:CACHE-2", "5+", "All pages of a list say the same scope."),
        ("M:CACHE-3", "5+", "Nothing is public by default."),
        ("M:CACHE-4", "5+", "Nothing is served for another method or other params."),
        ("M:CACHE-5", "5+", "Results of rounds are not kept."),
        ("M:CACHE-6", "5+", "A result is fresh until its time is over."),
        ("M:CACHE-7", "5+", "What is private is not shared between users."),
        ("M:CACHE-8", "5+", "A notice makes stale what it is about."),
        ("M:CACHE-9", "5+", "The time is no timer to poll by."),
        ("M:CACHE-10", "5+", "Stale results may be served on errors, fresh ones asked for early."),
        ("M:CACHE-11", "5+", "A refused cursor starts the list over."),
        ("M:CACHE-12", "5+", "Keys have the revision, times a limit, served results are copies."),
        ("M:CACHE-13", "5+", "An eviction wins over what is being fetched."),
        ("M:CACHE-14", "5+", "Each call may say how it uses the cache."),
        ("M:CACHE-15", "5+", "A resource's own hints, then its result's, win."),
        ("M:CACHE-16", "5+", "Pages expire one by one."),
        ("M:CACHE-17", "5+", "What is stale, or says nothing, is asked for again."),
    ),
)

SECTIONS: Tuple[Section, ...] = (TOOLS, ROOTS, SAMPLING, GENERAL, CACHING)
