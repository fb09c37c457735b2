"""Throws faults at any server command, and at any client through an adapter: ``python -m
tests.faults``.

Nothing here imports what is tested: it speaks raw bytes to child processes. `catalogue` lists the
rows, `server_*` and `client_*` hold the cases. What a subject has to bring along:

**A server command** is started once per case or oftener and spoken to over its stdin and stdout. A
case that needs a tool asks `tools/list` for it by name and is "n/a" without it:

=============================
==================================================================================== ``echo(text)``
gives the text back ``add(a, b)``                 adds two integers ``big(size)``                 a
text of so many characters ``slow(seconds)``             sleeps, and ends early when it is cancelled
``deaf_slow(seconds)``        blocks its thread and notices nothing ``never()``
never returns ``raiser(kind)``              raises: SystemExit, KeyboardInterrupt, MemoryError,
RecursionError, GeneratorExit,
                              Wordless, whose ``__str__`` raises, or an error that says this text
``returns(kind)``             returns: nan, infinity, bytes, cycle, unprintable, surrogate, deep,
large (10 MB) ``prints(kind)``              writes to stdout by: print, os.write, child, system
``child_descriptors()``       what a child process that inherits all it can has open: lines "number
target" =============================
====================================================================================

**An HTTP server command** is started once per case or oftener. It says on stdout or stderr where it
is, as http://127.0.0.1:PORT/PATH (/mcp if that says no path), or is given a port: "{port}" in the
command. It has the tools above, as far as a case needs them, and these:

=============================
==================================================================================== ``count(n)``
reports n steps of progress ``pour(events, size)``        sends so many log messages of so many
characters, at the level "error" ``grow(name)``                adds a tool of this name, which
changes the list of tools ``spoil()``                   sends a log message, then raises
ValueError("secret words of a traceback")
``log(level, data)``          sends one log message ``report_when_released(name)`` reports 1 and
waits until ``release`` is called with this name, then reports 2 ``watch(name)``
sleeps until it is cancelled, and remembers how it ended ``wait_for(name, what)``      waits until a
``watch`` of this name has reached "begin" or "end"; says how it ended =============================
====================================================================================

C71 subscribes to resources such as faults://1, which it may have or not.

**A client adapter** is a command that takes one JSON object per line on stdin and answers each by
one JSON object per line on stdout, in any order; the next is taken up while the last one runs. Each
has a number ``n``, which the answer repeats, and says in ``do`` what to do:

``{"n": 1, "do": "open", "command": [...], "timeout": s}``
    Start this server and agree with it; ``cwd`` and ``env`` are optional. ``on_log`` says what to
    do at each log
    message: "call" the tool ``echo`` before returning, "raise", "block" for 10 s, be "slow" (10
    ms), or "close" the client. With ``elicit`` it declines each question of the server after so
    many seconds.
``{"n": 1, "do": "open", "url": "http://...", "headers": {...}, "timeout": s}``
    Agree with the server at this URL, and send these headers with each request. An adapter without
    HTTP says ``unsupported``. ``on_log`` and ``elicit`` as above.
``{"n": 2, "do": "call", "tool": "echo", "arguments": {...}, "timeout": s}``
    The answer has ``text``, the first text of the result. With ``progress`` it asks for progress,
    and takes 10 ms for each step; with ``cancel_after`` it cancels the call after so many seconds.
``{"n": 3, "do": "list", "timeout": s}``
    All pages of the tools; the answer has ``count``.
``{"n": 4, "do": "close"}``
    Returns when the client has done what it does for its end.
``{"n": 5, "do": "leave"}``
    End the process without closing the client. So does the end of stdin.

The answer is ``{"n": 1, "ok": true, ...}``, or ``{"n": 1, "ok": false, "error": NAME, "message":
TEXT}``, where ``unsupported`` as NAME makes the case "n/a".
"""
