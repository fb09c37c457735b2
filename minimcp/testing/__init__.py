"""For tests of servers: a Context without a connection, and a record of what goes over one.

A whole server is tested through ``minimcp.connect(server)``, which runs the real codec, validation and threads. A
single handler is called with a `context`. A `Transcript` shows and checks what went over the wire.
"""

from .breaches import Breach
from .context import Question, UnitContext, context
from .transcript import Entry, Transcript

__all__ = ["Breach", "Entry", "Question", "Transcript", "UnitContext", "context"]
