"""The application of every host: a few tools, as a PEP 3333 application, in Flask, in Django, or
served by the library itself.

Environment variables configure it: MINIMCP_HOSTS_FOLDER, where tools leave files for the checks,
and MINIMCP_HOSTS_OPTIONS, `HttpOptions` as JSON, in which the key is text or null and ``streams``
is the limit of the application.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, Iterable

from minimcp import Context, HttpOptions, Server, ToolError

FOLDER = Path(os.environ["MINIMCP_HOSTS_FOLDER"])
SECONDS = 10.0  # seconds that a tool waits for its condition
OPTIONS = json.loads(os.environ["MINIMCP_HOSTS_OPTIONS"])
KEY, STREAMS = OPTIONS.pop("key"), OPTIONS.pop("streams", 0)
server = Server(
    "hosts", state_keys=None if KEY is None else [KEY.encode()], http=HttpOptions(**OPTIONS)
)
app = server.wsgi("/mcp", max_streams=STREAMS)


def add_tools() -> None:
    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool
    def fail() -> str:
        """Fail."""
        raise ToolError("out of stock")

    @server.tool
    def steps(name: str, ctx: Context) -> str:
        """Report a step, and continue when the client has seen it, which shows whether the host
        holds reports back."""
        ctx.progress(1, 2, "begun")
        for _ in range(int(SECONDS / 0.05)):
            if (FOLDER / name).exists():
                ctx.progress(2, 2, "seen")
                return "seen"
            ctx.sleep(0.05)
        return "the client saw nothing before the answer"

    @server.tool
    def where() -> int:
        """The id of the process that this runs in."""
        return os.getpid()

    @server.tool
    def silent(name: str, ctx: Context, seconds: float = SECONDS) -> str:
        """Report the start if progress is requested, then send nothing for this long, and leave a
        file at the end."""
        with open(FOLDER / f"{name}.begun", "a") as file:
            file.write("once\n")
        ctx.progress(1)
        try:
            ctx.sleep(seconds)
        finally:
            (FOLDER / name).write_text("cancelled" if ctx.cancelled else "done")
        return "done"

    @server.tool
    def grow(name: str) -> str:
        """Add a tool, and notify the clients that listen."""

        @server.tool(name=name)
        def more() -> str:
            """Be one more."""
            return "more"

        return name

    @server.tool
    def later(ctx: Context) -> bool:
        """Let the client go in the middle of the call; whether it can be."""
        gone = ctx.close_stream(0.05)
        ctx.sleep(0.2)
        return gone

    @server.tool
    def note(text: str, ctx: Context) -> list[str]:
        """Keep a text in the session, and return all kept texts."""
        assert ctx.session is not None
        ctx.session.setdefault("notes", []).append(text)
        return list(ctx.session["notes"])

    @server.tool
    def choose(name: str, ctx: Context) -> str:
        """Ask, and leave the ids of the processes that this ran in."""
        with open(FOLDER / name, "a") as file:
            file.write(f"{os.getpid()}\n")
        return str(ctx.elicit("Which?", {"which": str}, key="which").require()["which"])

    @server.tool
    def work(name: str, ctx: Context) -> str:
        """Report again and again; leave a file when the client has cancelled."""
        try:
            for step in range(int(SECONDS / 0.05)):
                ctx.progress(step)
                ctx.sleep(0.05)
        finally:
            (FOLDER / name).write_text("cancelled" if ctx.cancelled else "done")
        return "done"


add_tools()


def flask() -> Callable[..., Any]:
    """Return a Flask application with the server next to its pages."""
    from flask import Flask
    from werkzeug.middleware.dispatcher import DispatcherMiddleware

    site = Flask("site")
    site.add_url_rule("/", "page", lambda: "a page")
    site.wsgi_app = DispatcherMiddleware(site.wsgi_app, {"/mcp": app})  # type: ignore[method-assign]
    return site


def django() -> Callable[..., Iterable[bytes]]:
    """Return a Django application with the server next to its pages."""
    from django.conf import settings
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import path

    settings.configure(
        SECRET_KEY="hosts",
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["127.0.0.1"],
        DEBUG=False,
        MIDDLEWARE=[],
    )
    globals()["urlpatterns"] = [path("", lambda request: HttpResponse("a page"))]
    pages = get_wsgi_application()

    def application(environ: Any, start: Any) -> Iterable[bytes]:
        return (app if environ["PATH_INFO"] == "/mcp" else pages)(environ, start)

    return application


if __name__ == "__main__":
    server.run("http", port=int(sys.argv[1]))
