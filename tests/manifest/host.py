"""Rows of what a host answers a server's questions with: roots, sampling, elicitation, and rounds of 2026-07-28."""

from __future__ import annotations

from typing import Tuple

from .revisions import Section

ROOTS: Section = (
    "client/roots",
    (
        ("ROOT-01", "1-4", "A client with roots declares roots."),
        ("ROOT-04", "1-4", "A server hears when roots change."),
        ("ROOT-05", "1-4", "No roots is -32601, a failure -32603."),
        ("ROOT-06", "1-4", "Only permitted roots; none that goes up."),
        ("ROOT-09", "1-4", "Consent for roots, and a way to manage them."),
        ("M:ROOT-1", "5+", "Roots are declared by every request."),
        ("M:ROOT-3", "5+", "Roots are file URIs, checked here."),
        ("M:ROOT-4", "5+", "No notice of changed roots."),
        ("M:ROOT-6", "5+", "Consent for roots; access is checked and watched."),
    ),
)

SAMPLING: Section = (
    "client/sampling",
    (
        ("SAMP-01", "1-4", "A client with a model declares sampling."),
        ("SAMP-07", "1-4", "Each revision has its kinds of content."),
        ("SAMP-08", "4", "Content is a block or a list; before, a block."),
        ("SAMP-12", "1-4", "The client may change nearly all that is asked."),
        ("SAMP-13", "1-4", "A user's refusal is error -1."),
        ("SAMP-14", "1-4", "A person can review, change and deny."),
        ("SAMP-15", "1-4", "Approval, hints, limits of rate, checked content."),
        ("SAMP-16", "1-4", "What is asked and said stays out of logs."),
        ("SAMP-17", "4", "Tools for a model are declared."),
        ("SAMP-19", "4", "Tools without that are an error."),
        ("SAMP-21", "4", "A use of a tool has id, name and input."),
        ("SAMP-22", "4", "A tool's result names its use."),
        ("SAMP-25", "4", "Missing or mixed tool results are -32602."),
        ("SAMP-26", "4", "Loops of tool uses have a limit."),
        ("SAMP-27", "4", "The _meta of tool blocks is kept."),
        ("M:SAM-1", "5+", "Sampling and its parts are declared by every request."),
        ("M:SAM-3", "5+", "Tools that were not declared end the call."),
        ("M:SAM-5", "5+", "A message of tool results holds nothing else."),
        ("M:SAM-7", "5+", "The limit of tokens is honoured; the rest is free."),
        ("M:SAM-8", "5+", "Content is a block or a list; a result has a model."),
        ("M:SAM-9", "5+", "Loops of tool uses have a limit."),
        ("M:SAM-10", "5+", "A person is asked: there is no model by default."),
        ("M:SAM-11", "5+", "A refusal reaches the caller, not the server."),
        ("M:SAM-12", "5+", "The first hint that fits wins."),
        ("M:SAM-14", "5+", "The _meta of tool blocks is kept."),
        ("M:SAM-15", "5+", "What is asked and said stays out of logs."),
    ),
)

ELICITATION: Section = (
    "client/elicitation",
    (
        ("ELIC-01", "3-4", "A client that can ask its user declares it."),
        ("ELIC-02", "4", "Forms or URLs; naming neither means forms."),
        ("ELIC-04", "4", "An undeclared mode is -32602."),
        ("ELIC-06", "4", "A question without a mode is a form."),
        ("ELIC-16", "4", "Defaults are filled in beforehand."),
        ("ELIC-17", "3-4", "Accept, decline or cancel."),
        ("ELIC-18", "3-4", "Content comes with an accepted form only."),
        ("ELIC-19", "3-4", "Content is checked before it is sent."),
        ("ELIC-22", "3-4", "The user sees who asks, and may decline."),
        ("ELIC-24", "4", "Ids of elicitations are opaque."),
        ("ELIC-25", "4", "An accepted URL is consent, without content."),
        ("ELIC-28", "4", "A notice about an unknown elicitation is ignored."),
        ("ELIC-29", "4", "A client may wait for the notice and retry."),
        ("ELIC-30", "4", "The wait can be ended by hand."),
        ("ELIC-34", "4", "No URL is fetched or opened without consent."),
        ("ELIC-35", "4", "The whole URL is shown and opened out of reach."),
        ("ELIC-36", "4", "The host is told apart, odd ones marked."),
        ("ELIC-37", "4", "No links anywhere else."),
        ("ELIC-45", "3-4", "Approval, declining at any time, limits of rate."),
        ("M:ELI-1", "5+", "Elicitation and its modes are declared by every request."),
        ("M:ELI-5", "5+", "Defaults are filled in, content is checked."),
        ("M:ELI-7", "5+", "Three actions; content with an accepted form only."),
        ("M:ELI-12", "5+", "No URL is fetched or opened without consent."),
        ("M:ELI-15", "5+", "The user sees who asks, and may decline."),
        ("M:ELI-20", "5+", "A URL is opened out of the client's reach."),
        ("M:ELI-21", "5+", "No links anywhere else."),
        ("M:ELI-23", "5+", "The call can be ended by hand."),
    ),
)

ROUNDS: Section = (
    "basic/patterns/mrtr",
    (
        ("M:MRTR-C1", "5+", "Every question is answered before the call is repeated."),
        ("M:MRTR-C2", "5+", "Same method and params, with answers and state."),
        ("M:MRTR-C3", "5+", "Each round has an id of its own."),
        ("M:MRTR-C4", "5+", "The state goes back byte by byte."),
        ("M:MRTR-C5", "5+", "No state came, none goes."),
        ("M:MRTR-C6", "5+", "Answers and state stay with their call."),
        ("M:MRTR-C7", "5+", "Without questions the call is repeated after a pause."),
        ("M:MRTR-C8", "5+", "Rounds have a limit."),
        ("M:MRTR-C9", "5+", "Only the latest answers are sent."),
        ("M:MRTR-C10", "5+", "A refusal reaches the caller; nothing more is sent."),
        ("M:MRTR-C11", "5+", "Each round its token; one time limit for all."),
        ("M:MRTR-C12", "5+", "Questions that were not declared are a violation."),
        ("M:MRTR-C13", "5+", "Results of several rounds are not cached."),
        ("M:MRTR-C14", "5+", "A host may take the questions as they came."),
        ("M:MRTR-C15", "5+", "Headers are made anew for each round."),
    ),
)

SECTIONS: Tuple[Section, ...] = (ROOTS, SAMPLING, ELICITATION, ROUNDS)
