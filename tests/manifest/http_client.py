"""Rows about HTTP that speak of the client: of Streamable HTTP in both eras, and of HTTP+SSE."""

from __future__ import annotations

from typing import Tuple

from .revisions import Section

OLDEST: Section = (
    "basic/transports",
    (
        ("HSSE-03", "1+", "Messages are posted to the URL that the endpoint event names."),
        ("HSSE-11", "2-3", "Any 4xx to the handshake leads to the oldest transport."),
        ("HSSE-12", "4", "Only 400, 404 and 405 do."),
        ("HSSE-13", "1+", "Any status of success takes a message."),
        ("HSSE-14", "1+", "An endpoint on another origin is refused."),
    ),
)

SESSIONS: Section = (
    "basic/transports",
    (
        ("SHTTP-07", "2-4", "Each message is a POST of its own."),
        ("SHTTP-08", "2-4", "A POST accepts JSON and event streams."),
        ("SHTTP-09", "3-4", "Its body is one message, no array."),
        ("SHTTP-13", "2-4", "Both kinds of answer are read."),
        ("SHTTP-20", "2-4", "Cancelling is said by a message."),
        ("SHTTP-30", "2-4", "A GET stream brings what the server says unasked."),
        ("SHTTP-31", "2-4", "A GET accepts event streams."),
        ("SHTTP-37", "2-4", "Several streams are open at once."),
        ("SHTTP-43", "2-4", "A cut stream is resumed after the last id seen."),
        ("SHTTP-44", "4", "By GET, whatever began it."),
        ("SHTTP-48", "4", "An event without data only says an id."),
        ("SHTTP-50", "4", "A stream that was closed early is asked for again."),
        ("SHTTP-52", "4", "Not before the time that the server asks for."),
        ("SHTTP-64", "2-4", "The session id goes with every later request."),
        ("SHTTP-68", "2-4", "A session that was ended is begun anew."),
        ("SHTTP-69", "2-4", "A client that is done ends its session."),
        ("SHTTP-71", "4", "The session id is kept out of logs."),
        ("SHTTP-80", "3-4", "The version header goes with every later request."),
        ("SHTTP-81", "3-4", "It names what was agreed on."),
        ("SHTTP-86", "2", "In older sessions it does no harm."),
    ),
)

ALONE: Section = (
    "basic/transports",
    (
        ("M:HTTP-2", "5+", "Each message is a POST of its own, one message long."),
        ("M:HTTP-3", "5+", "A POST accepts JSON and event streams."),
        ("M:HTTP-4", "5+", "Both kinds of answer are read alike."),
        ("M:HTTP-8", "5+", "Closing the response cancels; nothing else is said."),
        ("M:HTTP-22", "5+", "Comments in a stream mean nothing."),
        ("M:HTTP-25", "5+", "A request whose stream breaks is lost."),
        ("M:HTTP-26", "5+", "It is not sent again by itself."),
        ("M:HTTP-32", "5+", "An error in the body is the caller's, whatever its id."),
        ("M:HTTP-33", "5+", "What is no answer is said at once."),
        ("M:HTTP-34", "5+", "A bare 404 is no end of a session."),
    ),
)

HEADERS: Section = (
    "basic/transports",
    (
        ("M:HDR-1", "5+", "The version header says what the envelope says."),
        ("M:HDR-2", "5+", "The method has a header."),
        ("M:HDR-3", "5+", "So has the name or the URI."),
        ("M:HDR-4", "5+", "So has the id of a task."),
        ("M:HDR-5", "5+", "Names that no header can hold are encoded."),
        ("M:HDR-19", "5+", "No value breaks out of its header."),
        ("M:XH-1", "5+", "Annotated arguments are mirrored."),
        ("M:XH-2", "5+", "An annotation is a header's name."),
        ("M:XH-3", "5+", "It is there once."),
        ("M:XH-4", "5+", "On strings, integers and booleans."),
        ("M:XH-5", "5+", "Where properties alone lead to."),
        ("M:XH-6", "5+", "A tool with a wrong one is left out of the list."),
        ("M:XH-7", "5+", "A warning says so."),
        ("M:XH-8", "5+", "Over stdio annotations mean nothing."),
        ("M:XH-9", "5+", "What is missing or null has no header."),
        ("M:XH-10", "5+", "Values are written as text."),
        ("M:XH-11", "5+", "What a header cannot hold is encoded."),
        ("M:XH-12", "5+", "So is what looks encoded."),
        ("M:XH-13", "5+", "Empty text is an empty header."),
        ("M:XH-14", "5+", "The newest list counts; without one there is no header."),
        ("M:XH-15", "5+", "After a mismatch the list is asked for again, once."),
        ("M:XH-16", "5+", "Mirrored integers are not too large."),
    ),
)

SECTIONS: Tuple[Section, ...] = (OLDEST, SESSIONS, ALONE, HEADERS)
