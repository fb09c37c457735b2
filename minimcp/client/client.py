"""`Client`: a connection to one server, with every call that a program may make on it.

https://modelcontextprotocol.io/specification/2026-07-28/client
https://modelcontextprotocol.io/specification/2026-07-28/server
"""

from __future__ import annotations

import atexit
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Optional, TypeVar, Union, overload

from .. import types
from ..engine.cancel import CancelToken
from ..engine.incoming import current_trace_context
from ..engine.pool import Pool, this_thread, waiting
from ..engine.timer import Deadline
from ..errors import HeaderMismatch, InvalidParams, McpError, MethodNotFound, ToolError
from ..log import logger
from ..protocol.lifecycle import INPUT_REQUIRED, LOG_LEVELS
from ..protocol.messages import PARAPHRASE_SHUTDOWN, Json, to_json
from ..schema.mismatch import json_hint, keywords_shown, refuse_as_arguments
from ..text import one_line
from ..types import CallToolResult, Prompt, Tool
from .calls import DEFAULT, NOT_RUN, Call, Seconds, Sessions
from .host import Era, Rootlike
from .session import Cancel, OnProgress, Outcome, Params, check_token, repr_of, require_type

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    from ..extensions.client_skills import Skill
    from ..extensions.client_tasks import Task
    from .subscriptions import Changes, ClientSubscriptions

    P = ParamSpec("P")

log = logger("minimcp.client")

T = TypeVar("T")
Arguments = Optional[Mapping[str, Json]]

Scalar = Union[str, float, bool]
"""What stands for an argument that travels as text."""

SHUTDOWN_SECONDS = 2.0
"""How long `Client.close` waits for the answer to `shutdown`, where it sends one."""

LOOK_UP_SECONDS = 5.0
"""What listing the tools for the schema of one may take: a server that does not answer must not
hold up a call."""

URI = "the URI of a resource is a str"


class CallFuture(Future):  # type: ignore[type-arg]
    """What `Client.submit` returns: `cancel` also ends a call that runs already, on the wire.

    Args:
        token: The one that the call was given.
    """

    def __init__(self, token: CancelToken) -> None:
        super().__init__()
        self._token = token
        self._begun = False

    def cancel(self) -> bool:
        """End the call and tell the server; False when it has ended already."""
        if not super().cancel():
            return False
        self._token.cancel("the future was cancelled")
        return True

    def result(self, timeout: Optional[float] = None) -> Any:
        """As its base."""
        with waiting():
            return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """As its base."""
        with waiting():
            return super().exception(timeout)

    def running(self) -> bool:
        """Whether the call has begun and not ended."""
        return self._begun and not self.done()

    def run(self, work: Callable[[], Any]) -> None:
        """Run the call on this thread and take its outcome, unless it is cancelled meanwhile.

        To its base it is pending until it ends, because a running one could not be cancelled.
        """
        self._begun = True
        try:
            result = work()
        except BaseException as error:
            if self.set_running_or_notify_cancel():
                self.set_exception(error)
        else:
            if self.set_running_or_notify_cancel():
                self.set_result(result)


class Client:
    """A connection to one server, made by `connect`. Thread-safe; a context manager that closes it.

    Every method that asks the server takes ``timeout=`` (seconds the server may take in all; None
    waits for ever) and ``cancel=`` (a token that ends the call from another thread), and raises
    what `request` raises. Lists and reads also take ``cache=``: "use" takes what is kept from
    before as long as the server said that it stays true, "refresh" asks the server and keeps its
    answer, "bypass" asks and keeps nothing.

    Args:
        sessions: Its session, and those that may follow.
        send_shutdown: Whether `close` sends `shutdown`, where a session is open.
        validate_results: Whether structured results are checked, unless a call says otherwise.
    """

    def __init__(
        self,
        sessions: Sessions,
        *,
        send_shutdown: bool = False,
        validate_results: bool = True,
    ) -> None:
        if not hasattr(sessions, "host"):
            raise TypeError(
                f"a Client is made by minimcp.connect(...), which takes {sessions!r:.60}"
            )
        self._sessions = sessions
        self._host = sessions.host
        self._send_shutdown = send_shutdown
        self._validate_results = validate_results
        _open_clients.add(self)

    # ------------------------------------------------------------ what is known of the server

    @property
    def _era(self) -> Era:
        return self._sessions.newest.era

    @property
    def server_info(self) -> Optional[types.Implementation]:
        """How the server describes itself: ``name``, ``version``, ...; None if it does not."""
        return types.Implementation.of_peer(self._era.peer.info)

    @property
    def capabilities(self) -> Mapping[str, Json]:
        """What the server declares: ``"tools" in client.capabilities``. ``[]`` and ``true`` in the
        place of an object are read as an empty one; all else is as it arrived."""
        return self._era.peer.capabilities

    @property
    def instructions(self) -> Optional[str]:
        """What the server tells the model about itself; None when it says nothing."""
        return self._era.instructions

    @property
    def revision(self) -> str:
        """The name of the revision of the protocol that is spoken: one of those that `connect`
        takes."""
        return self._era.revision.name

    @property
    def stderr_tail(self) -> str:
        """The last lines of the server process's stderr; empty when there is no process."""
        return getattr(self._sessions.newest.transport, "stderr_tail", "")

    @property
    def loss(self) -> Optional[BaseException]:
        """What has ended the connection for good; None while it lives, and when `close` has."""
        sessions = self._sessions
        return None if sessions.closed or sessions.restarts else sessions.newest.cause

    # ------------------------------------------------------------ calls

    def _list(
        self,
        method: str,
        member: str,
        read: Callable[[Any], T],
        timeout: Seconds,
        cancel: Cancel,
        cache: str,
    ) -> list[T]:
        return Call(self._sessions, timeout, cancel, method.partition("/")[0]).pages(
            method, member, read, cache
        )

    def request(
        self,
        method: str,
        params: Optional[Mapping[str, Json]] = None,
        *,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
        raw: bool = False,
        cache: str = "use",
    ) -> dict[str, Json]:
        """Call any method and return its result as it came.

        Args:
            method: Of the specification, or the server's own.
            params: Without what the library adds; None sends none.
            timeout: Seconds the server may take in all; None waits for ever. Progress does not
                extend it.
            cancel: Ends the call from another thread; None for a call that nobody cancels.
            on_progress: Called with each `Progress`, in order, by this thread, before this returns;
                None asks for none.
            raw: True also returns a result that asks for input (``resultType`` is "input_required")
                as it came, for a host that keeps it and goes on later with ``inputResponses`` and
                ``requestState`` among the params.
            cache: For lists, reads and `server/discover`, which say how long they stay true: "use"
                takes what is kept, "refresh" asks the server and keeps its answer, "bypass" asks
                and keeps nothing. What has ``_meta`` or belongs to a round of questions is never
                kept.

        Raises:
            RpcError: The server answered an error; its kind depends on the code.
            Refused: The server asked for input, and a handler of the host refused or failed.
            RequestTimeout: No answer came in time; the server was told.
            Cancelled: The token was cancelled; the server was told.
            ConnectionLost: The connection ended, or is closed.
            ConnectionFailed: It had ended, and with ``restart=True`` there came no other; the next
                call tries again.
            ProtocolViolation: The answer makes no sense.
            TypeError: The method is no text, or the params are no mapping.
            BaseException: Whatever ``on_progress`` raises; the server is told that nobody waits.
        """
        sent = _checked(method, params)
        return Call(self._sessions, timeout, cancel).fetch(
            method, sent, on_progress, raw=raw, cache=cache
        )

    def notify(self, method: str, params: Optional[Mapping[str, Json]] = None) -> None:
        """Send a notification.

        Raises:
            ConnectionLost: The connection has ended.
            TypeError: The method is no text, or the params are no mapping.
        """
        sent = _checked(method, params)
        call = Call(self._sessions, DEFAULT, None)
        call.session.notify(method, sent, call.deadline)

    def ping(self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None) -> float:
        """Ask whether the server is there; how many seconds the answer took. Errors as
        `Client.request`."""
        call = Call(self._sessions, timeout, cancel)
        began = time.monotonic()
        call.request("ping" if call.session.era.revision.handshake else "server/discover", {})
        return time.monotonic() - began

    def set_log_level(
        self, level: str, *, timeout: Seconds = DEFAULT, cancel: Cancel = None
    ) -> None:
        """Have the server send log messages of this level and above. Errors as `Client.request`.

        Args:
            level: "debug", "info", "notice", "warning", "error", "critical", "alert" or
                "emergency".

        Raises:
            ValueError: The level is none of these.
            CapabilityNotSupported: The server declares no logging.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"level is one of {', '.join(LOG_LEVELS)}, not {level!r}")
        call = Call(self._sessions, timeout, cancel, "logging")
        from . import subscriptions

        subscriptions.of(call.session).set_log_level(level, call.request)
        # The request may have been sent again in another session than the first time.
        subscriptions.of(call.session).log_level = level
        call.session.check()  # as in `ClientSubscriptions.change`

    def set_roots(self, roots: Iterable[Rootlike]) -> None:
        """Replace the roots that ``roots=`` of `connect` gave, and tell a server that keeps them.

        Raises:
            RuntimeError: `connect` was not given ``roots``.
            ConnectionLost: The connection has ended.
        """
        if self._host.roots is None:
            raise RuntimeError(
                "set_roots replaces what connect was given as roots=, and there was nothing"
            )
        from .questions import as_roots

        self._host.roots = as_roots(roots)
        self.roots_changed()

    def roots_changed(self) -> None:
        """Tell the server that `list_roots` has something new; where it asks for them in each call,
        do nothing.

        Raises:
            RuntimeError: `connect` was given neither ``roots`` nor ``list_roots``.
            ConnectionLost: The connection has ended.
        """
        if "list_roots" not in self._host.functions:
            raise RuntimeError("this client has no roots: give connect roots= or list_roots=")
        if self._era.revision.handshake:
            self.notify("notifications/roots/list_changed")

    # ------------------------------------------------------------ tools

    def list_tools(
        self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None, cache: str = "use"
    ) -> list[Tool]:
        """All tools of the server, page after page. Arguments and errors as `Client.request`.

        Raises:
            CapabilityNotSupported: The server declares no tools.
            ProtocolViolation: A page makes no sense, a cursor comes twice, or there are over 1,000
                pages.
        """
        return self._list_tools(Call(self._sessions, timeout, cancel, "tools"), cache)

    def _list_tools(self, call: Call, cache: str = "use") -> list[Tool]:
        tools = call.pages("tools/list", "tools", Tool.from_wire, cache)
        header_params = call.session.header_params
        if header_params is not None and not call.session.era.revision.handshake:
            tools = header_params.usable_tools(tools, call.deadline)
        call.session.schemas.remember(tools)
        offers = self._host.offers
        return tools if offers is None else [tool for tool in tools if offers(tool.name)]

    @keywords_shown
    def call_tool(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
        raise_on_error: bool = True,
        validate: Optional[bool] = None,
        **misplaced: NoReturn,
    ) -> CallToolResult:
        """Call a tool. Arguments and errors as `Client.request`, and:

        Args:
            name: Of the tool.
            arguments: By parameter; None sends none.
            timeout: Seconds the server may take in all; left out, that of `connect`; None waits for
                ever.
            cancel: A token that ends the call from another thread; None for a call that nobody
                cancels.
            on_progress: Called with each `Progress`, in order, by this thread, before this returns;
                None asks for none.
            raise_on_error: False returns a result that says that the tool failed, instead of
                raising.
            validate: Whether a structured result is checked against the tool's output schema, if
                the tool was listed; None does as `connect` was told.

        Raises:
            ToolError: The tool failed; ``result`` is what it said.
            InvalidParams: The server has no such tool, or does not take these arguments.
            CapabilityNotSupported: The server declares no tools.
            ProtocolViolation: The structured result does not match the tool's output schema, or
                the schema cannot be checked. ``result`` is the result.

        Where a revision wraps values, the tools are listed once if they have not been: only the
        schema of a tool tells whether its ``{"result": ...}`` is a wrapping, which ``value`` is
        without.
        """
        if misplaced:
            refuse_as_arguments(name, misplaced, Client.call_tool)
        call = Call(self._sessions, timeout, cancel, "tools")
        validate = self._validates(validate)
        params = self._with_task(call, self._call_params(name, arguments))
        return self._carry_out(call, params, None, on_progress, raise_on_error, validate)

    def _call_params(self, name: str, arguments: Arguments) -> dict[str, Json]:
        """Return the params of a call. Raises InvalidParams: the config does not offer this tool."""
        if type(name) is not str:
            require_type(name, str, "a tool's name is a str")
        offers = self._host.offers
        if offers is not None and not offers(name):
            raise InvalidParams(f"Unknown tool: {one_line(name)}: the config does not offer it")
        if arguments is None:
            return {"name": name}
        if type(arguments) is not dict:
            arguments = _mapping(name, arguments)
        return {"name": name, "arguments": dict(arguments)}

    def _validates(self, validate: Optional[bool]) -> bool:
        if validate is None:
            return self._validate_results
        require_type(validate, bool, "validate is True, False or None")
        return validate

    def _with_task(self, call: Call, params: dict[str, Json]) -> dict[str, Json]:
        """Return the params of a call, with ``task`` if the server lists the tool as one that runs
        as a task only."""
        support = call.session.schemas.task_support.get(str(params["name"]))
        if support == "required" and call.session.era.peer.supports("tasks.requests.tools.call"):
            return {**params, "task": {}}
        return params

    def _carry_out(
        self,
        call: Call,
        params: Params,
        first: Optional[Outcome],
        on_progress: Optional[OnProgress] = None,
        raise_on_error: bool = True,
        validate: bool = True,
    ) -> CallToolResult:
        """Go on with a call of a tool until there is a result, from what came of it already; None
        sends it first."""
        try:
            result = call.request("tools/call", params, on_progress, first=first)
        except ToolError as error:  # an old server's own code for it
            if raise_on_error or error.result is None:
                raise
            return error.result
        except HeaderMismatch:  # its schema is not known, or has changed since it was listed
            if call.session.header_params is None:
                raise
            self._list_tools(call, "refresh")
            result = call.request("tools/call", params, on_progress)
        except MethodNotFound:  # with a handshake a tool may run as a task only
            if not self._as_task_only(call, params["name"]):
                raise
            result = call.request("tools/call", {**params, "task": {}})
        wire = result if result.get("resultType") == "task" else result.get("task")
        if wire is not None and "content" not in result:
            from ..extensions.client_tasks import Task

            task = Task.read(self, wire, params["name"])
            try:
                result = task.drive(call)
            except BaseException:
                task.give_up()
                raise
        return self._typed(call, params["name"], result, raise_on_error, validate)

    def _as_task_only(self, call: Call, name: str) -> bool:
        """Whether the server lists a tool as one that runs as a task only."""
        if not call.session.era.peer.supports("tasks.requests.tools.call"):
            return False
        return any(
            each.name == name and each.task == "required"
            for each in self._list_tools(call, "refresh")
        )

    def _typed(
        self,
        call: Call,
        name: Optional[str],
        result: Params,
        raise_on_error: bool,
        validate: Optional[bool] = None,
    ) -> CallToolResult:
        """The result of a call of a tool as an object; None for a tool whose name is not known."""
        typed = call.read("tools/call", CallToolResult, result)
        schemas = call.session.schemas
        validate = self._validates(validate)
        if typed.is_error:
            if raise_on_error:
                failed = ToolError(typed.text or f"{name} failed", content=typed.content)
                failed.result = typed
                raise failed
        elif name is None:
            schemas.fill_in("", typed, wraps=False)
        elif not schemas.fill_in(
            name,
            typed,
            wraps=call.session.era.revision.structured == "object",
            validate=validate,
        ):
            try:
                self._list_tools(call.within(LOOK_UP_SECONDS, call.cancel))
            except (
                McpError
            ) as error:  # the call was made: its result is kept whatever comes of this
                log.warning(
                    "what %s returned may be wrapped, and its schema cannot be had: %s", name, error
                )
            schemas.fill_in(name, typed, wraps=False, validate=validate)
        return typed

    @overload
    def call_tools(
        self,
        calls: Sequence[tuple[str, Arguments]],
        *,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        return_exceptions: Literal[False] = False,
        validate: Optional[bool] = None,
    ) -> list[CallToolResult]: ...
    @overload
    def call_tools(
        self,
        calls: Sequence[tuple[str, Arguments]],
        *,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        return_exceptions: bool,
        validate: Optional[bool] = None,
    ) -> list[Union[CallToolResult, Exception]]: ...
    def call_tools(
        self,
        calls: Sequence[tuple[str, Arguments]],
        *,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        return_exceptions: bool = False,
        validate: Optional[bool] = None,
    ) -> Any:
        """Send many calls at once, from this thread, and return their results in the order of the
        calls.

        Args:
            calls: Pairs of a tool's name and its arguments.
            timeout: Seconds for all of them together; None waits for ever.
            cancel: Ends all of them.
            return_exceptions: True puts an exception in the place of its result; False raises the
                first one in order, when all calls have ended.
            validate: As for `call_tool`.

        Raises:
            McpError: As `call_tool`, unless ``return_exceptions``.
        """
        call = Call(self._sessions, timeout, cancel, "tools")
        pairs: list[Any] = list(calls)
        for each in pairs:
            if not isinstance(each, (tuple, list)) or len(each) != 2:
                way = 'such as [("forecast", {"city": "Oslo"})]'
                raise TypeError(
                    f"call_tools takes pairs of a tool's name and its arguments, {way}, not "
                    f"{each!r:.60}"
                )
        validate = self._validates(validate)
        params = [self._with_task(call, self._call_params(*each)) for each in pairs]
        outcomes: list[Optional[Outcome]] = [
            *call.session.request_all("tools/call", params, call.deadline, cancel)
        ]
        if call.session.header_params is not None and any(
            isinstance(outcome, HeaderMismatch) for outcome in outcomes
        ):
            with suppress(
                McpError
            ):  # a call that is refused again lists them once more, and fails with what this says
                self._list_tools(call, "refresh")
            outcomes = [
                None if isinstance(outcome, HeaderMismatch) else outcome for outcome in outcomes
            ]
        with following(cancel) as token:
            results: list[Any] = []
            for one, first in zip(params, outcomes):
                part = call.within(
                    None, token
                )  # its deadline is paused only while the host answers this one
                work = partial(self._carry_out, part, one, first, validate=validate)
                asks = isinstance(first, dict) and first.get("resultType") == INPUT_REQUIRED
                if (
                    asks or first is None or isinstance(first, NOT_RUN)
                ):  # one that waits for its answer holds no other
                    results.append(spawn(self._host.pool, work, token))
                else:
                    results.append(CallFuture(token))
                    results[-1].run(work)
            results = [future.exception() or future.result() for future in results]
        return all_or_first(results, return_exceptions)

    # ------------------------------------------------------------ tasks

    def start_task(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        ttl: Optional[float] = None,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> Task:
        """Call a tool as a task, and do not wait for its end. Arguments and errors as `call_tool`,
        and:

        Args:
            ttl: Seconds that the server is asked to keep it; None leaves it to the server. Where
                requests stand alone the server decides, and this is not sent.

        Returns:
            The task; where requests stand alone the server may answer the call at once, and it has
            ended then.

        Raises:
            CapabilityNotSupported: The server runs nothing as a task, or this client was not told
                to declare that it knows tasks.
            MethodNotFound: It does not run this tool as one.

        With a handshake the tools are listed once if they have not been: only a tool that declares
        it may be called as a task.
        """
        from ..extensions.client_tasks import Task, need_tasks

        call = Call(self._sessions, timeout, cancel, "tools")
        need_tasks(call)
        params = self._call_params(name, arguments)
        if call.session.era.revision.handshake:
            self._need_task_support(call, name)
            asked: dict[str, Json] = {} if ttl is None else {"ttl": round(ttl * 1000)}
            return Task.read(
                self, call.request("tools/call", {**params, "task": asked}).get("task"), name
            )
        result = call.request("tools/call", params)
        return (
            Task.read(self, result, name)
            if result.get("resultType") == "task"
            else Task(self, "", name, result)
        )

    def _need_task_support(self, call: Call, name: str) -> None:
        """Raise MethodNotFound if the server does not list a tool as one that runs as a task."""
        schemas = call.session.schemas
        if name not in schemas.task_support:
            try:
                self._list_tools(call.within(LOOK_UP_SECONDS, call.cancel))
            except McpError as error:  # the server decides
                log.warning("whether %s runs as a task is not known: %s", name, error)
                return
        if schemas.task_support.get(name) is None:
            raise MethodNotFound(
                f"{call.session.name}: the tool {name!r:.100} does not run as a task, as the "
                "server "
                "lists it: use call_tool"
            )

    def task(self, id: str) -> Task:
        """A task that was started before, maybe by another process; nothing is asked.

        Raises:
            TypeError: The id is no str.
            ValueError: It is empty.
        """
        from ..extensions.client_tasks import Task

        if not require_type(id, str, "a task's id is a str"):
            raise ValueError("a task's id is not empty: a call that was answered at once has none")
        return Task(self, id)

    def list_tasks(self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None) -> list[Task]:
        """The tasks of this client that the server keeps. Arguments and errors as `list_tools`.

        Raises:
            CapabilityNotSupported: The server does not list tasks; where requests stand alone none
                does.
        """
        from ..extensions.client_tasks import Task

        call = Call(self._sessions, timeout, cancel)
        call.session.need("tasks.list")
        return call.pages("tasks/list", "tasks", partial(Task.read, self), "bypass")

    # ------------------------------------------------------------ resources

    def list_resources(
        self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None, cache: str = "use"
    ) -> list[types.Resource]:
        """All resources that the server lists, page after page. Arguments and errors as
        `list_tools`.

        Raises:
            CapabilityNotSupported: The server declares no resources.
        """
        return self._list(
            "resources/list", "resources", types.Resource.from_wire, timeout, cancel, cache
        )

    def list_resource_templates(
        self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None, cache: str = "use"
    ) -> list[types.ResourceTemplate]:
        """All templates of resources, page after page. Arguments and errors as `list_tools`.

        Raises:
            CapabilityNotSupported: The server declares no resources.
        """
        read = types.ResourceTemplate.from_wire
        return self._list(
            "resources/templates/list", "resourceTemplates", read, timeout, cancel, cache
        )

    def read_resource(
        self,
        uri: str,
        *,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
        cache: str = "use",
    ) -> types.ReadResourceResult:
        """Read a resource. Arguments and errors as `Client.request`, and:

        Args:
            uri: As the server lists it, or made from a template; it is sent character for
                character.

        Raises:
            ResourceNotFound: The server has no such resource.
            ResourceAccessDenied: It has, and this client may not read it.
            CapabilityNotSupported: The server declares no resources.
        """
        call = Call(self._sessions, timeout, cancel, "resources")
        result = call.fetch(
            "resources/read", {"uri": require_type(uri, str, URI)}, on_progress, cache=cache
        )
        return call.read("resources/read", types.ReadResourceResult, result)

    # ------------------------------------------------------------ skills

    def list_skills(self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None) -> list[Skill]:
        """The skills that the server lists, page after page; it may serve others too. No file of
        them is read.

        Arguments and errors as `list_tools`, and:

        Raises:
            CapabilityNotSupported: The server declares no skills.
        """
        from ..extensions.client_skills import CAPABILITY, Skill

        call = Call(self._sessions, timeout, cancel)
        call.session.need(CAPABILITY)
        return call.pages("skills/list", "skills", partial(Skill, self), "bypass")

    def read_skill(
        self, skill: Union[str, Skill], *, timeout: Seconds = DEFAULT, cancel: Cancel = None
    ) -> Skill:
        """Read the ``SKILL.md`` of a skill, and verify its size, digest and front matter. Errors as
        `request`, and:

        Args:
            skill: As it was listed, when that was what the user has agreed to; or its URI, which
                has the server say anew what the skill is, whether it is listed or not.

        Returns:
            The skill, with its ``text``; its ``read`` reads the other files.

        Raises:
            SkillError: The server sends something else than it has listed.
            InvalidParams: It has no skill of this URI.
            CapabilityNotSupported: It declares no skills.
        """
        from ..extensions.client_skills import CAPABILITY, Skill, get_skill

        call = Call(self._sessions, timeout, cancel)
        call.session.need(CAPABILITY)
        found = (
            skill
            if isinstance(skill, Skill)
            else get_skill(self, call, require_type(skill, str, "a skill is a str"))
        )
        found.load(call)
        return found

    # ------------------------------------------------------------ prompts

    def list_prompts(
        self, *, timeout: Seconds = DEFAULT, cancel: Cancel = None, cache: str = "use"
    ) -> list[Prompt]:
        """All prompts of the server, page after page. Arguments and errors as `list_tools`.

        Raises:
            CapabilityNotSupported: The server declares no prompts.
        """
        return self._list("prompts/list", "prompts", Prompt.from_wire, timeout, cancel, cache)

    def get_prompt(
        self,
        name: str,
        arguments: Optional[Mapping[str, Scalar]] = None,
        *,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
    ) -> types.GetPromptResult:
        """Get a prompt's messages. Arguments and errors as `Client.request`, and:

        Args:
            name: Of the prompt.
            arguments: By name. On the wire they are strings: numbers and bools are sent as JSON
                writes them; None sends none.

        Raises:
            InvalidParams: The server has no such prompt, or does not take these arguments.
            CapabilityNotSupported: The server declares no prompts.
            TypeError: An argument is neither text, number nor bool.
        """
        params: dict[str, Json] = {"name": require_type(name, str, "a prompt's name is a str")}
        if arguments is not None:
            params["arguments"] = _texts(name, arguments)
        call = Call(self._sessions, timeout, cancel, "prompts")
        result = call.request("prompts/get", params, on_progress)
        return call.read("prompts/get", types.GetPromptResult, result)

    # ------------------------------------------------------------ completion

    def complete(
        self,
        argument: str,
        value: str,
        *,
        prompt: Optional[str] = None,
        template: Optional[str] = None,
        arguments: Optional[Mapping[str, Scalar]] = None,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> types.Completion:
        """Suggestions for an argument of a prompt, or for a variable of a template. Errors as
        `Client.request`, and:

        Args:
            argument: Its name.
            value: What is typed so far.
            prompt: The name of the prompt.
            template: The template, as the server lists it. One of the two.
            arguments: Those that are chosen already; a server that does not know of them is told
                nothing.

        Raises:
            TypeError: Neither a prompt nor a template, or both; or an argument is neither text,
                number nor bool.
            InvalidParams: The server has no such prompt, template or argument.
            CapabilityNotSupported: The server completes nothing.
        """
        if (prompt is None) == (template is None):
            raise TypeError("say which: prompt=, or template=")
        ref = (
            {"type": "ref/resource", "uri": template}
            if prompt is None
            else {"type": "ref/prompt", "name": prompt}
        )
        require_type(prompt or template, str, "prompt or template is a str")
        require_type(argument, str, "an argument's name is a str")
        require_type(value, str, "a value is a str")
        params: dict[str, Json] = {"ref": ref, "argument": {"name": argument, "value": value}}
        chosen = None if arguments is None else _texts(prompt or template or "", arguments)
        call = Call(self._sessions, timeout, cancel)
        revision = call.session.era.revision
        if chosen is not None and revision.completion_context:
            params["context"] = {"arguments": chosen}
        if revision.completions_capability:
            call.session.need("completions")
        result = call.request("completion/complete", params)
        return call.read("completion/complete", types.Completion, result)

    # ------------------------------------------------------------ changes

    def _subscriptions(
        self, do: Callable[[ClientSubscriptions, Deadline], T], timeout: Seconds, cancel: Cancel
    ) -> T:
        """Do something about what the server tells of, again where `Call.request` would send a
        request again."""
        from . import subscriptions

        call = Call(self._sessions, timeout, cancel)
        refusals: list[type] = []
        call.session.check()
        check_token(cancel)
        while True:
            try:
                return do(subscriptions.of(call.session), call.deadline)
            except NOT_RUN as refusal:
                call.renew(refusal, refusals)

    def subscribe(self, uri: str, *, timeout: Seconds = DEFAULT, cancel: Cancel = None) -> None:
        """Have ``on_resource_updated`` called when this resource, or one below it, changes. Errors
        as `request`.

        Args:
            uri: The URI of the resource, sent as it is. To subscribe to an equivalent URI (RFC
                3986, 6.2.2) changes nothing.

        Raises:
            CapabilityNotSupported: The server takes no subscriptions, or not this one.
            TypeError: ``uri`` is no str.
        """
        self._change(uri, True, timeout, cancel)

    def unsubscribe(self, uri: str, *, timeout: Seconds = DEFAULT, cancel: Cancel = None) -> None:
        """Take a subscription back. Arguments and errors as `subscribe`."""
        self._change(uri, False, timeout, cancel)

    def _change(self, uri: str, wanted: bool, timeout: Seconds, cancel: Cancel) -> None:
        require_type(uri, str, URI)
        self._subscriptions(
            lambda of, deadline: of.change(uri, wanted, deadline, cancel), timeout, cancel
        )

    def listen(
        self,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resource_subscriptions: Sequence[str] = (),
        *,
        filters: Optional[Mapping[str, Json]] = None,
        timeout: Seconds = DEFAULT,
        cancel: Cancel = None,
    ) -> Changes:
        """Hear of changes in a loop: ``with client.listen(tools_list_changed=True) as changes:
        ...``.

        Args:
            tools_list_changed: Of the list of tools.
            prompts_list_changed: Of the list of prompts.
            resources_list_changed: Of the list of resources.
            resource_subscriptions: URIs of resources; one that lies below counts too.
            filters: What extensions add to the filter, by the names on the wire; what comes of it
                their `Extension` objects hear. None adds nothing. With a handshake it is not sent:
                there it comes unasked.
            timeout: Seconds until the server must have agreed; a stream itself may be silent for
                ever.
            cancel: Gives up before that.

        Returns:
            An iterator of `Change` (``kind``, ``uri``), whose ``honored`` says what the server
            agreed to.

        Raises:
            RpcError: The server refused; `MethodNotFound` when it cannot do this at all.
            ConnectionLost: The server ended the stream at once, or the connection has ended.
            RequestTimeout, Cancelled, ProtocolViolation: As `request`.
            TypeError: ``resource_subscriptions`` is one str, or holds something else.
        """
        if isinstance(resource_subscriptions, str):
            raise TypeError(
                "resource_subscriptions is a sequence of URIs: did you mean "
                f"[{resource_subscriptions!r}]?"
            )
        from .subscriptions import Filter

        uris = tuple(require_type(uri, str, URI) for uri in resource_subscriptions)
        wanted = Filter(
            tools_list_changed, prompts_list_changed, resources_list_changed, uris, filters or {}
        )
        return self._subscriptions(
            lambda of, deadline: of.listen(wanted, deadline, cancel), timeout, cancel
        )

    def submit(self, function: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> Future[T]:
        """Run one of this client's calls on a thread of its own.

        Args:
            function: A method of this client that takes ``cancel=``; the other arguments are handed
                to it. A token among them ends the call, and is left alone when only the future is
                cancelled.

        Returns:
            A `concurrent.futures.Future`, whose ``cancel()`` also ends a running call, on the wire.

        Raises:
            TypeError: The function is none, such as the name of a tool.
        """
        if not callable(function):
            raise TypeError(
                "submit takes a method of this client and then its arguments, as in "
                f'client.submit(client.call_tool, "name", {{...}}), not {repr_of(function)}'
            )
        given: Any = keywords.get("cancel")
        token = CancelToken()

        def call() -> T:
            with following(given, token):
                keywords["cancel"] = token
                return function(*args, **keywords)

        return spawn(self._host.pool, call, token)

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """End the connection. Idempotent, from any thread.

        Calls that wait raise `ConnectionLost`, and the server is told that nobody wants their
        answers, if it takes that at once. A server process gets the end of its input and 2 s to
        exit, then SIGTERM and 2 s more, then SIGKILL, with all that it has started; so this lasts
        about 4 s at most. A server with a URL is told that the session ends, and gets 2 s to take
        that.
        """
        session = self._sessions.newest
        if self._send_shutdown and session.cause is None and session.era.revision.handshake:
            try:  # a server that does not know this method is closed anyway
                session.request(PARAPHRASE_SHUTDOWN, {}, Deadline(SHUTDOWN_SECONDS))
            except McpError as error:
                log.debug("%s: shutdown: %s", session.name, error)
        self._sessions.close()
        self._host.close()

    if not TYPE_CHECKING:

        def __aenter__(self, *_: object) -> None:
            self.close()
            raise TypeError("write with, not async with: every call of a Client blocks")

        __aexit__ = __aenter__

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        sessions: Optional[Sessions] = getattr(self, "_sessions", None)
        if sessions is None or sessions.closed or sys.is_finalizing():
            return
        self._host.close()
        if not sessions.newest.wait_until_ended(0):
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
        sessions.abandon()  # also an attempt at the next session, for which nobody waits any more

    def __repr__(self) -> str:
        return f"<Client {self.revision} on {self._sessions.newest!r}>"


def spawn(pool: Pool, work: Callable[[], Any], token: CancelToken) -> CallFuture:
    """Run something on a thread of its own, in a copy of the context of this one, whose trace
    context it carries on."""
    future, trace, context = CallFuture(token), current_trace_context(), copy_context()

    def run() -> None:
        this_thread.trace_context = trace
        context.run(future.run, work)
        this_thread.trace_context = {}

    pool.spawn(run)
    return future


@contextmanager
def following(cancel: Cancel, token: Optional[CancelToken] = None) -> Iterator[CancelToken]:
    """A token that is cancelled with a caller's, and when the block ends, as by Ctrl-C.

    Args:
        cancel: The caller's; None for one that nobody cancels.
        token: What follows it; None makes one.
    """
    token = token or CancelToken()
    forget: Callable[[], object] = int
    if cancel is not None:
        forget = cancel.on_cancel(lambda: token.cancel(cancel.reason))
    try:
        yield token
    finally:
        forget()
        token.cancel("the caller gave up")


def all_or_first(outcomes: list[Any], return_exceptions: bool) -> list[Any]:
    """The outcomes of several calls, unless the first failure among them is to be raised."""
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not (
            return_exceptions and isinstance(outcome, Exception)
        ):
            raise outcome
    return outcomes


def _checked(method: Any, params: Any) -> Any:
    """The params of a message that a user writes by hand, if it can be one."""
    require_type(method, str, "a method is a str")
    return require_type(
        {} if params is None else params, Mapping, f"the params of {method} are a dict or None"
    )


def _mapping(name: str, arguments: Any) -> Any:
    """The arguments of something, if they are a mapping. Raises TypeError: they are none."""
    what = f'the arguments of {name!r} are a dict by parameter name, such as {{"city": "Oslo"}}'
    return require_type(arguments, Mapping, what)


def _texts(of: str, arguments: Mapping[str, Scalar]) -> dict[str, str]:
    """Arguments as the strings that they are on the wire."""
    for name, value in _mapping(of, arguments).items():
        if not isinstance(value, (str, int, float)):
            what = (
                f"the argument {name!r} of {of!r} is a str, a number or a bool, not "
                f"{repr_of(value)}"
            )
            hint = "write json.dumps(...)" if isinstance(value, (dict, list)) else json_hint(value)
            raise TypeError(f"{what}: {hint}")
    return {
        name: value if isinstance(value, str) else to_json(value)
        for name, value in arguments.items()
    }


_open_clients: weakref.WeakSet[Client] = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    """Close each client politely that nobody has closed, unless a thread waits: it would print its
    loss as it dies."""
    for client in list(_open_clients):
        session = client._sessions.newest
        # The client's own stream of changes is a request that stays open; nobody waits for it.
        listens = session.subscriptions is not None and session.subscriptions.background is not None
        if len(session.calls) <= listens:
            client.close()
