"""Rows of pages that a later issue takes up whole, as far as tests show them already.

When its page is taken up, a row moves to that page's section in `handshake` or `modern`.
"""

from __future__ import annotations

from typing import Tuple

from .revisions import Section

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

SECTIONS: Tuple[Section, ...] = (ROOTS, SAMPLING, GENERAL, CACHING)
