"""Rows of what a server asks its client: roots, sampling, elicitation, and rounds of 2026-07-28."""

from __future__ import annotations

from typing import Tuple

from .revisions import Section

ROOTS: Section = (
    "client/roots",
    (
        ("ROOT-07", "1-4", "Nobody is asked who did not declare roots."),
        ("ROOT-08", "1-4", "Roots vanish; work stays inside them."),
        ("M:ROOT-2", "5+", "Nobody is asked who did not declare roots."),
        ("M:ROOT-5", "5+", "Roots are guidance and may vanish."),
    ),
)

SAMPLING: Section = (
    "client/sampling",
    (
        ("SAMP-02", "1-4", "Messages and a limit of tokens, the rest is optional."),
        ("SAMP-03", "1-4", "Context is of none, this or all servers."),
        ("SAMP-04", "4", "Context is left out where nobody declared it."),
        ("SAMP-18", "4", "Tools only for a model that takes them."),
        ("SAMP-20", "4", "The choice of tools is auto unless said."),
        ("SAMP-23", "4", "A message of tool results holds nothing else."),
        ("SAMP-24", "4", "Every use of a tool is answered first."),
        ("SAMP-28", "4", "A sample may be a task."),
        ("SAMP-29", "1-4", "Nobody is asked who did not declare sampling."),
        ("M:SAM-2", "5+", "Tools only for a model that takes them."),
        ("M:SAM-4", "5+", "Context is left out where nobody declared it."),
        ("M:SAM-6", "5+", "Every use of a tool is answered first."),
        ("M:SAM-13", "5+", "Two questions share no messages."),
    ),
)

ELICITATION: Section = (
    "client/elicitation",
    (
        ("ELIC-03", "4", "No mode is used that was not declared."),
        ("ELIC-05", "3-4", "A form has a message and a schema."),
        ("ELIC-07", "3-4", "The schema is a flat object of simple fields."),
        ("ELIC-08", "3-4", "Texts have lengths and four formats."),
        ("ELIC-09", "4", "A pattern of a text is checked."),
        ("ELIC-10", "3-4", "Numbers have bounds."),
        ("ELIC-11", "3-4", "Booleans have defaults."),
        ("ELIC-12", "3-4", "Choices may have names beside them."),
        ("ELIC-13", "4", "Choices may each have a title."),
        ("ELIC-14", "4", "Several choices are a list."),
        ("ELIC-15", "4", "Lists of choices have bounds and defaults."),
        ("ELIC-20", "3-4", "No secrets are asked for by a form."),
        ("ELIC-21", "4", "Secrets are asked for by URL."),
        ("ELIC-23", "4", "A URL question has a URL and an id."),
        ("ELIC-26", "4", "That a URL is done may be told."),
        ("ELIC-27", "4", "Only who was asked is told, by that id."),
        ("ELIC-31", "4", "A request may fail until a URL was opened."),
        ("ELIC-32", "4", "The code of that error means nothing else."),
        ("ELIC-33", "4", "That error lists URL questions with their ids."),
        ("ELIC-38", "4", "URLs hold nothing private and let nobody in."),
        ("ELIC-39", "4", "URLs are https outside development."),
        ("ELIC-40", "4", "What is kept is bound to client and user."),
        ("ELIC-41", "4", "Who opens a URL is who was asked."),
        ("ELIC-42", "4", "Others' credentials never pass through the client."),
        ("ELIC-43", "4", "A URL is no way to sign in here."),
        ("ELIC-44", "4", "What a client says of its user is checked."),
        ("ELIC-46", "4", "Others cannot read or complete what is kept."),
        ("ELIC-47", "4", "The check of the user survives an edited URL."),
        ("M:ELI-2", "5+", "No mode is used that was not declared."),
        ("M:ELI-3", "5+", "A message always; no mode means form."),
        ("M:ELI-4", "5+", "Forms are flat, their fields simple."),
        ("M:ELI-6", "5+", "What a form brought is checked."),
        ("M:ELI-8", "5+", "No secrets are asked for by a form."),
        ("M:ELI-9", "5+", "A URL question has a URL and no id."),
        ("M:ELI-10", "5+", "An accepted URL is consent only."),
        ("M:ELI-11", "5+", "Neither the notice nor the error of before."),
        ("M:ELI-13", "5+", "URLs hold nothing private; https outside development."),
        ("M:ELI-14", "5+", "Who opens a URL is who was asked."),
        ("M:ELI-16", "5+", "Others' credentials never pass through the client."),
        ("M:ELI-17", "5+", "What is kept is bound to the user."),
        ("M:ELI-18", "5+", "No, no choice and failure are handled."),
        ("M:ELI-19", "5+", "A URL is no way to sign in here."),
        ("M:ELI-22", "5+", "What is kept is protected; edited URLs are refused."),
    ),
)

ROUNDS: Section = (
    "basic/patterns/mrtr",
    (
        ("M:MRTR-S1", "5+", "Only tools, prompts and resources ask."),
        ("M:MRTR-S2", "5+", "There are questions or a state."),
        ("M:MRTR-S3", "5+", "Keys are unique; three kinds of questions."),
        ("M:MRTR-S4", "5+", "Only what the request declared is asked."),
        ("M:MRTR-S5", "5+", "A state that comes back is trusted only if signed."),
        ("M:MRTR-S6", "5+", "A state is bound to user, request and time."),
        ("M:MRTR-S7", "5+", "Single use needs a store of the server's."),
        ("M:MRTR-S8", "5+", "A missing answer is asked for again."),
        ("M:MRTR-S9", "5+", "Answers to nothing are ignored."),
        ("M:MRTR-S10", "5+", "Answers of a wrong form are -32602."),
        ("M:MRTR-S11", "5+", "Nothing waits for a client to come back."),
        ("M:MRTR-S12", "5+", "There may be several rounds."),
        ("M:MRTR-S13", "5+", "A result may be a state only."),
        ("M:MRTR-S14", "5+", "Questions carry no cache hints."),
        ("M:MRTR-S15", "5+", "Prompts and resources ask too."),
        ("M:MRTR-S16", "5+", "Kinds of questions may be mixed."),
        ("M:MRTR-S17", "5+", "On a stream the questions come last."),
        ("M:MRTR-S18", "5+", "Length and rounds have limits."),
        ("M:MRTR-S19", "5+", "One public text for every bad state."),
        ("M:MRTR-S20", "5+", "Answers are checked before the handler has them."),
        ("M:MRTR-S21", "5+", "A state of null is none."),
    ),
)

SECTIONS: Tuple[Section, ...] = (ROOTS, SAMPLING, ELICITATION, ROUNDS)
