"""Throws faults at any server command, and at any client through an adapter: ``python -m
tests.faults``.

Nothing here imports the subject. The cases send raw bytes to child processes. `catalogue` lists the
rows, `server_*` and `client_*` contain the cases. A subject must provide the following:

**A server command** is started at least once per case, and the case uses its stdin and stdout. A
case that needs a tool looks for it in `tools/list` by name and is "n/a" without it:

``echo(text)``
    Returns the text.
``add(a, b)``
    Adds two integers.
``big(size)``
    Returns a text with this number of characters.
``slow(seconds)``
    Sleeps, and ends early when it is cancelled.
``deaf_slow(seconds)``
    Blocks its thread and ignores cancellation.
``never()``
    Never returns.
``raiser(kind)``
    Raises SystemExit, KeyboardInterrupt, MemoryError, RecursionError, GeneratorExit, Wordless,
    whose ``__str__`` raises, or an error with this text.
``returns(kind)``
    Returns nan, infinity, bytes, cycle, unprintable, surrogate, deep, or large (10 MB).
``prints(kind)``
    Writes to stdout by print, os.write, child, or system.
``child_descriptors()``
    Returns the open descriptors of a child process that inherits all it can, as lines "number
    target".

**An HTTP server command** is started at least once per case. It prints its URL on stdout or stderr,
as http://127.0.0.1:PORT/PATH (without a path, /mcp is used), or the command contains "{port}", which
becomes its port. It has the tools above, as far as a case needs them, and these:

``count(n)``
    Reports n steps of progress.
``pour(events, size)``
    Sends this number of log messages of this size, at the level "error".
``grow(name)``
    Adds a tool of this name, which changes the list of tools.
``spoil()``
    Sends a log message, then raises ValueError("secret words of a traceback").
``log(level, data)``
    Sends one log message.
``report_when_released(name)``
    Reports 1, waits until ``release`` is called with this name, then reports 2.
``watch(name)``
    Sleeps until it is cancelled, and remembers how it ended.
``wait_for(name, what)``
    Waits until a ``watch`` of this name has reached "begin" or "end", and returns how it ended.

C71 subscribes to resources such as faults://1, which the server may or may not have.

**A client adapter** is a command that reads one JSON object per line from stdin and answers each
with one JSON object per line on stdout, in any order. It starts the next one while the last one
runs. Each object has a number ``n``, which the answer repeats, and a command in ``do``:

``{"n": 1, "do": "open", "command": [...], "timeout": s}``
    Start this server and agree on a revision; ``cwd`` and ``env`` are optional. ``on_log`` says what
    to do at each log message: "call" the tool ``echo`` before returning, "raise", "block" for 10 s,
    be "slow" (10 ms), or "close" the client. With ``elicit`` it declines each question of the server
    after this number of seconds.
``{"n": 1, "do": "open", "url": "http://...", "headers": {...}, "timeout": s}``
    Agree on a revision with the server at this URL, and send these headers with each request. An
    adapter without HTTP answers ``unsupported``. ``on_log`` and ``elicit`` as above.
``{"n": 2, "do": "call", "tool": "echo", "arguments": {...}, "timeout": s}``
    The answer has ``text``, the first text of the result. With ``progress`` it requests progress,
    and spends 10 ms on each step; with ``cancel_after`` it cancels the call after this number of
    seconds.
``{"n": 3, "do": "list", "timeout": s}``
    Fetch all pages of the tools; the answer has ``count``.
``{"n": 4, "do": "close"}``
    Close the client; the answer follows when it is closed.
``{"n": 5, "do": "leave"}``
    End the process without closing the client. The end of stdin does the same.

The answer is ``{"n": 1, "ok": true, ...}``, or ``{"n": 1, "ok": false, "error": NAME, "message":
TEXT}``, where ``unsupported`` as NAME makes the case "n/a".
"""
