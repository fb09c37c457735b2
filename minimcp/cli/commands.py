"""The commands that talk to a server: ``list``, ``call``, ``tasks``, ``read``, ``prompt`` and
``ping``.

And those about who asks: ``login``, ``logout`` and ``whoami``; `connect` uses the token that they
keep.
"""

from __future__ import annotations

import argparse
import mimetypes
import os
import re
import sys
import time
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import count
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    TypeVar,
    Union,
)
from urllib.parse import urlsplit

from .. import CallToolResult, Client, Prompt, Tool, connect
from ..client.config import CONFIG_FILE, Servers, read_servers
from ..errors import CapabilityNotSupported, McpError, MethodNotFound
from ..extensions.client_tasks import ENDED, IDENTIFIER as TASKS, Task
from ..schema.mismatch import nearest
from ..stdio.child import knows_python
from . import Parser, UsageError, clean, complain, exit_code, one_line, tell
from .terminal import (
    STDIN,
    FormPrompter,
    ProgressBar,
    as_json,
    parameters,
    properties,
    read_object,
    read_pairs,
    required,
    split_pair,
)  # fmt: skip

if TYPE_CHECKING:
    from ..auth.signin import SignIn

TARGET_HELP = (
    "a file (server.py), a URL, a name in mcp.json, or a command line in quotes "
    '("python -m server --flag")'
)

ENDINGS = (
    "Exit codes: 0 done, 1 the tool reported an error, 2 wrong usage, 3 protocol or "
    "connection, 4 timeout."
)

SIGN_ENDINGS = "Exit codes: 0 done, 1 there is no token, 2 wrong usage, 3 no token could be had."

# Variables of the environment with secrets, which other users can read in a command line.
SECRET, TOKEN = "MINIMCP_CLIENT_SECRET", "MINIMCP_TOKEN"

# Lines of the server's stderr that are kept, the last ones; and how those begin by which this
# library warns an author.
KEPT_LINES, WARNED = 200, ("tool ", "resource ", "prompt ")

T = TypeVar("T")

# What a server may list: the name in JSON, the heading, the capability, and what asks for it.
SECTIONS = (
    ("tools", "", "tools", Client.list_tools),  # most servers have nothing else
    ("resources", "resources:\n\n", "resources", Client.list_resources),
    ("resourceTemplates", "resource templates:\n\n", "resources", Client.list_resource_templates),
    ("prompts", "prompts:\n\n", "prompts", Client.list_prompts),
)

# What a command has found: as JSON, as texts or bytes to print, and the exit code.
Found = tuple[Any, Sequence[Union[str, bytes]], int]


# ------------------------------------------------------------ what the commands share


def _run(
    find: Callable[[Client, argparse.Namespace, ProgressBar], Found],
    about: str,
    more: Sequence[tuple[str, dict[str, Any]]],
    arguments: Sequence[str],
    prog: str,
    task: bool = False,
) -> int:
    """Run a command against the server that the command line names, and print what it has found.

    What the server writes to stderr is held back: servers that do not know ``server/discover`` may
    write pages about it. The error of a connection that fails shows its end, and `list` what this
    library warns the author of.

    Args:
        find: What the command does.
        about: For ``--help``.
        more: Its own parameters, as `add_argument` takes them.
        arguments: Behind its name.
        prog: As `Parser`.
        task: Whether the server is told that this client knows tasks; ``--task`` says so too.
    """
    parser = Parser(prog, about, ENDINGS)
    add_target(parser)
    for name, settings in more:
        parser.add_argument(name, **settings)
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="for connecting, and again for each call (default: 60)",
    )
    parser.add_argument(
        "--revision",
        default="auto",
        metavar="NAME",
        help='"auto" finds out (default), "handshake" uses the newest revision with a handshake, '
        "a date asks for exactly that revision",
    )
    outputs = ("text", "json", "raw") if find in (_call, _get_task) else ("text", "json")
    parser.add_argument(
        "--output",
        choices=outputs,
        default="text",
        help="what to print (default: text)"
        + "; raw: the content alone, bytes as they are" * ("raw" in outputs),
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show what a server process writes to stderr (default: its end, if the connection "
        "fails)",
    )
    parser.set_defaults(prog=prog, task=task, answer=[], save=None)
    options, bar = parser.parse_intermixed_args(arguments), ProgressBar()
    asker = FormPrompter(bar.end, options.answer)
    written: deque[str] = deque(maxlen=KEPT_LINES)
    try:
        config = config_of(options)
        is_url = config is None and options.target.lower().startswith(("http://", "https://"))
        client = connect(
            options.target,
            config=config,
            revision=options.revision,
            timeout=options.timeout,
            connect_timeout=options.timeout,
            elicit=asker,
            **web_of(options, options.target),
            extensions=_tasks() if options.task else None,
            stderr=None if options.verbose or is_url else written.append,
        )
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if config is not None and options.config is None:  # which may be anybody's
        complain(prog, f"{options.target} is a server of {os.path.abspath(CONFIG_FILE)}")
    if config is not None and options.config is not None:
        _warn_of_host(config.target(options.target), prog)
    with client:
        try:
            value, texts, code = find(client, options, bar)
        finally:
            bar.end()
    if asker.unused:
        complain(prog, f"nobody asked for {', '.join(asker.unused)}: --answer was not used")
    for line in written:
        if find is _list and line.startswith(WARNED):
            complain(prog, line)
    for text in [as_json(value)] if options.output == "json" else texts:
        if isinstance(text, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(text)
        elif code == 1 and options.output != "json":
            tell(f"{prog}: {_with_class(str(text), written)}")
        else:
            print(text)
    return code


def _warn_of_host(server: Any, prog: str) -> None:
    """Warn of what a host may not find, or find another of: it has a folder and a PATH of its
    own."""
    for word in getattr(server, "command", ()) if getattr(server, "cwd", None) is None else ():
        if os.path.isfile(word) and not os.path.isabs(word):
            complain(
                prog,
                f"{word} is in this folder, and hosts start elsewhere: write "
                f"{os.path.abspath(word)}",
            )
        elif word in ("python", "python3") and knows_python():
            complain(
                prog, f"{word} may be another Python where a host starts it: write {sys.executable}"
            )


def _with_class(text: str, written: Iterable[str]) -> str:
    """What a tool that failed says, with the class of the exception if the server's stderr has its
    traceback."""
    lines = (re.match(r"[ |]*([A-Za-z_][\w.]*): (.+)", line) for line in written)
    for line in filter(None, lines):
        told = text if text.startswith(f"{line[1]}: ") else f"{line[1]}: {text}"
        if told.startswith(line[0].strip(" |")):
            return f"{told} (the traceback: --verbose)"
    return text


def _tasks() -> list[Any]:
    """What a client is given that knows tasks."""
    from .. import Tasks

    return [Tasks()]


def _as_header(text: str) -> tuple[str, str]:
    """A value of ``--header``."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        # only the beginning of what may be a name: the rest may be a secret
        shown = re.match("[A-Za-z-]*", text)[0]  # type: ignore[index]
        more = "" if shown == text else "..."
        raise argparse.ArgumentTypeError(f'{shown + more!r} is not "Name: value"')
    return name.strip(), value.strip()


def add_web(
    parser: argparse.ArgumentParser,
    token: str = "send this bearer token with every request to a URL",
) -> None:
    """Add the options of a server with a URL, which `web_of` reads; ``token`` is the help of
    ``--token``."""
    parser.add_argument(
        "--header",
        action="append",
        type=_as_header,
        metavar='"Name: value"',
        help="send this with every request to a URL; may be given several times",
    )
    parser.add_argument(
        "--token",
        help=f"{token}. Other users can read it in the list of processes: set {TOKEN} instead, the "
        "variable of the environment that is read without --token",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add what names a server, which `config_of` and `web_of` read."""
    parser.add_argument("target", metavar="TARGET", help=TARGET_HELP)
    parser.add_argument(
        "--config",
        metavar="FILE",
        help=f"TARGET is a name in this file, and nothing else (default: {CONFIG_FILE}, if it "
        "has it)",
    )
    add_web(parser)


def web_of(options: argparse.Namespace, target: str) -> dict[str, Any]:
    """Return what `connect` takes of the options of `add_web`.

    The environment's token goes to a URL that the user has typed, and to nothing else: a name may
    stand in the config of somebody else's project.

    Args:
        options: The options.
        target: TARGET.
    """
    given = {"auth": options.token, "headers": options.header and dict(options.header)}
    names = {name.lower() for name, _ in options.header or ()}
    is_url = target.lower().startswith(("http://", "https://"))
    if is_url and options.token is None and "authorization" not in names:
        userinfo = urlsplit(target).netloc.rpartition("@")[0]
        given["auth"] = None if userinfo else os.environ.get(TOKEN) or None
    return {name: value for name, value in given.items() if value is not None}


def config_of(options: argparse.Namespace) -> Optional[Servers]:
    """The config that has the target: the one named, or the current folder's if it knows a word
    that is no file."""
    target, path = options.target, options.config
    if path is None and (
        os.path.exists(target) or len(target.split()) != 1 or not os.path.isfile(CONFIG_FILE)
    ):
        return None
    try:
        servers = read_servers(path or CONFIG_FILE)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    return servers if path is not None or target in servers else None


def _server_name(client: Client) -> str:
    info = client.server_info
    if info is None:
        return "a server without a name"
    return one_line(
        info.name if info.version == "0" else f"{info.name} {info.version}"
    )  # "0": nobody gave one


def _indented(text: Optional[str], by: int = 4) -> Iterator[str]:
    for line in clean(text or "").strip().splitlines():
        yield (" " * by + line).rstrip()


def _block_text(block: Any) -> str:
    """One content block as text; one that is no text is named, as bytes of a resource are."""
    text = getattr(block, "text", None)
    if isinstance(text, str):
        return clean(text) if sys.stdout.isatty() else text
    data = getattr(block, "data", None)
    words = [
        getattr(block, "type", "content"),
        getattr(block, "uri", None),
        getattr(block, "mime_type", None),
    ]
    words.append(f"{len(data)} bytes" if isinstance(data, bytes) else None)
    return clean(f"[{', '.join(str(word) for word in words if word)}]")


# ------------------------------------------------------------ list


def _list(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    """What a server offers; a list that fails is told on stderr, and the others are shown."""
    lists: dict[str, Sequence[Any]] = {name: [] for name, *_ in SECTIONS}
    code = 0
    for name, _, capability, fetch in SECTIONS:
        try:
            if capability in client.capabilities:
                lists[name] = fetch(client)
        except MethodNotFound:
            pass  # many servers have resources and no method for templates
        except McpError as error:
            complain(options.prog, f"{name}: {error}")
            code = max(code, exit_code(error))
    heading = [
        f"{_server_name(client)}, revision {client.revision}",
        *_indented(client.instructions, 2),
    ]
    extensions = client.capabilities.get("extensions")
    if extensions:
        heading.append("  " + one_line(f"extensions: {', '.join(extensions)}"))
    texts = [
        title + "\n".join(map(_described, lists[name]))
        for name, title, *_ in SECTIONS
        if lists[name]
    ]
    text = "\n\n".join(["\n".join(heading), *(texts or ([] if code else ["no tools"]))])
    listed = {name: [each.to_wire() for each in lists[name]] for name in lists}
    return {**listed, "extensions": extensions or {}}, [text], code


def _signature(tool: Tool) -> str:
    """A tool as a line of Python would declare it: ``price(bread: string, loaves: integer =
    1)``."""
    return one_line(f"{tool.name}({parameters(tool.input_schema, tool.input_schema)})")


def _described(shown: Any) -> str:
    """A tool, a resource, a template or a prompt: what it is called, what it does, and its
    arguments."""
    fields: list[tuple[str, Any]] = []
    if isinstance(shown, Tool):
        head = _signature(shown)
        known = properties(shown.input_schema).items()
        fields = [
            (name, field.get("description")) for name, field in known if isinstance(field, Mapping)
        ]
    elif isinstance(shown, Prompt):
        fields = [(each.name, each.description) for each in shown.arguments or ()]
        names = [each.name if each.required else f"[{each.name}]" for each in shown.arguments or ()]
        head = f"{shown.name}({', '.join(names)})"
    else:
        size = getattr(shown, "size", None)
        details = [shown.display_name, shown.mime_type, None if size is None else f"{size} bytes"]
        uri = shown.uri if hasattr(shown, "uri") else shown.uri_template
        head = f"{uri} ({', '.join(word for word in details if word)})"
    told = [
        f"      {one_line(name)}: {one_line(text)}"
        for name, text in fields
        if text and isinstance(text, str)
    ]
    return "\n".join([one_line(head), *_indented(shown.description), *told])


# ------------------------------------------------------------ call


def _call(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    values: dict[str, Any] = {}
    if STDIN in options.arguments:
        values.update(read_object(sys.stdin.read(), "stdin"))
    if options.json is not None:
        values.update(read_object(options.json, "--json"))
    tool = find_tool({tool.name: tool for tool in client.list_tools()}, options.tool)
    values.update(
        read_pairs([word for word in options.arguments if word != STDIN], tool.input_schema)
    )
    _check_required(tool, values)
    if options.task:
        started = client.start_task(tool.name, values)
        if started.id:
            return _task(started), [clean(started.id)], 0
        return _called(started.result(raise_on_error=False), options)
    on_progress = None if options.quiet else bar
    try:
        result = client.call_tool(tool.name, values, on_progress=on_progress, raise_on_error=False)
        return _called(result, options)
    except CapabilityNotSupported as error:
        if TASKS not in error.message:
            raise
        raise UsageError(f"{error.message}: write call --task, and then tasks get --wait") from None


def _called(result: CallToolResult, options: argparse.Namespace) -> Found:
    texts: list[Union[str, bytes]] = [
        _saved(block, options.save) or _block_text(block) for block in result.content
    ]
    if result.is_error:
        texts = [clean(result.text) or "the tool failed and does not say why"]
    elif not texts and result.has_structured_content:
        texts = [as_json(result.structured_content)]
    elif options.output == "raw":
        texts = [_raw(block) for block in result.content]
    return result.to_wire(), texts, int(result.is_error)


def _raw(block: Any) -> Union[bytes, str]:
    """Return the bytes or the text of a content block, or its JSON if it has neither.

    On a terminal, text is escaped, and bytes are named instead of written.
    """
    if sys.stdout.isatty():
        return _block_text(block)
    for content in (getattr(block, "data", None), getattr(block, "text", None)):
        if isinstance(content, (bytes, str)):
            return (
                content
                if isinstance(content, bytes)
                else content.encode("utf-8", "backslashreplace")
            )
    return as_json(block.to_wire()).encode()


def _saved(block: Any, folder: Optional[str]) -> Optional[str]:
    """Where the bytes of a content block were written to; None where it has none, or none are to be
    written."""
    data = getattr(block, "data", None)
    if folder is None or not isinstance(data, bytes):
        return None
    os.makedirs(folder, exist_ok=True)
    ending = mimetypes.guess_extension(getattr(block, "mime_type", None) or "") or ".bin"
    for number in count(1):
        path = os.path.join(
            folder, f"{block.type}-{number}{ending}"
        )  # a server does not name files here
        with suppress(FileExistsError), open(path, "xb") as file:
            file.write(data)
            break
    return path


def find_tool(tools: Mapping[str, T], name: str) -> T:
    """The tool of this name. Raises UsageError: there is none."""
    if name in tools:
        return tools[name]
    near = nearest(name, tools)
    hint = f", did you mean {near}? It" if near else ": it"
    raise UsageError(f"the server has no tool {name!r}{hint} has {', '.join(tools) or 'none'}")


def _check_required(tool: Tool, values: Mapping[str, Any]) -> None:
    """Check that nothing required is missing; everything else about the arguments the server says
    better."""
    missing = [name for name in required(tool.input_schema) if name not in values]
    if missing:
        unknown = [name for name in values if name not in properties(tool.input_schema)]
        near = nearest(missing[0], unknown)
        other = f", and {', '.join(unknown)} is not known" if unknown else ""
        hint = f", did you mean it by {near!r}?" if near else f"{other}: {_signature(tool)}"
        raise UsageError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing{hint}"
        )


# ------------------------------------------------------------ tasks


def _task_id(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return text


def _task(task: Task) -> dict[str, Any]:
    return {"taskId": task.id, "status": task.status, "statusMessage": task.status_message}


def _task_line(task: Task) -> str:
    return one_line(" ".join(word for word in (task.id, task.status, task.status_message) if word))


def _list_tasks(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    tasks = client.list_tasks()
    return (
        {"tasks": [_task(task) for task in tasks]},
        [_task_line(task) for task in tasks] or ["no tasks"],
        0,
    )


def _get_task(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    """What is known of a task; of one that has ended what the tool gave."""
    task = client.task(options.id)
    status = task.wait(options.timeout) if options.wait else task.refresh()
    if status not in ENDED or status == "cancelled":
        return _task(task), [_task_line(task)], 0
    value, texts, code = _called(task.result(raise_on_error=False), options)
    return {**_task(task), "result": value}, texts, code


def _cancel_task(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    task = client.task(options.id)
    task.cancel()
    task.refresh()
    return _task(task), [_task_line(task)], 0


def tasks_command(arguments: Sequence[str], prog: str) -> int:
    """The command of this name, whose first argument says what is to be done."""
    action = arguments[0] if arguments else ""
    if action in TASK_COMMANDS:
        return TASK_COMMANDS[action](arguments[1:], f"{prog} {action}", task=True)
    if action not in ("-h", "--help"):
        raise UsageError(
            f"tasks goes on with {', '.join(TASK_COMMANDS)} and a TARGET (see {prog} --help)"
        )
    print(
        f"usage: {prog} list TARGET | get TARGET ID | cancel TARGET ID\n\nLook at calls that run "
        "as tasks.\n"
    )
    print(
        f"{prog} get --help says more. {prog.rpartition(' ')[0]} call --task begins one and "
        "prints its ID."
    )
    return 0


# ------------------------------------------------------------ read, prompt, ping


def _read(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    result = client.read_resource(options.uri)
    as_bytes = hasattr(sys.stdout, "buffer") and not sys.stdout.isatty()
    texts = [
        item.data if as_bytes and item.data is not None else _block_text(item)
        for item in result.contents
    ]
    return result.to_wire(), texts, 0


def _prompt(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    result = client.get_prompt(options.name, dict(split_pair(word) for word in options.arguments))
    return (
        result.to_wire(),
        [f"{clean(each.role)}: {_block_text(each.content)}" for each in result.messages],
        0,
    )


def _ping(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    seconds = client.ping()
    info = {} if client.server_info is None else client.server_info.to_wire()
    text = f"{_server_name(client)} answered in {seconds * 1000:.1f} ms, revision {client.revision}"
    return {"seconds": seconds, "revision": client.revision, "serverInfo": info}, [text], 0


def list_command(arguments: Sequence[str], prog: str) -> int:
    """The command of this name."""
    if "--all" not in arguments:
        about = "Show the tools, resources and prompts of a server, with their arguments"
        return _run(
            _list, f"{about}; or, by list --all, the servers of all hosts.", (), arguments, prog
        )
    from .install import list_all

    parser = Parser(
        prog, "Show the servers in the config files of the hosts on this machine, and start none."
    )
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="what to print (default: text)"
    )
    options = parser.parse_args(arguments)
    value, texts = list_all()
    print(as_json(value) if options.output == "json" else "\n".join(texts))
    return 0


call_command = partial(
    _run,
    _call,
    "Call a tool and print what it gives. A tool's own error goes to stderr.",
    (
        ("tool", {"metavar": "TOOL", "help": "its name"}),
        (
            "arguments",
            {
                "nargs": "*",
                "default": [],
                "metavar": "key=value",
                "help": "an argument, read as the tool's schema asks (a list: JSON, or the key "
                "several times); "
                "key:=JSON; key=@FILE is what the file says; a lone - takes a JSON object from "
                "stdin",
            },
        ),
        (
            "--json",
            {
                "metavar": "OBJECT",
                "help": "the arguments as one JSON object; key=value goes over it",
            },
        ),
        (
            "--answer",
            {
                "action": "append",
                "metavar": "key=value",
                "default": [],
                "help": "fill in this field where the server asks for it; may be given several "
                "times",
            },
        ),
        (
            "--save",
            {
                "metavar": "DIR",
                "help": "write images, audio and other bytes to files in this folder",
            },
        ),
        ("--quiet", {"action": "store_true", "help": "no progress bar on stderr"}),
        (
            "--task",
            {
                "action": "store_true",
                "help": "run it as a task of a server with a URL: print its id, and do not wait "
                "(see: tasks get)",
            },
        ),
    ),
)
read_command = partial(
    _run,
    _read,
    "Read a resource and print it; bytes as they are, but not to a terminal.",
    (("uri", {"metavar": "URI", "help": "as the server lists it, or made from a template"}),),
)
prompt_command = partial(
    _run,
    _prompt,
    "Get a prompt and print its messages.",
    (
        ("name", {"metavar": "NAME", "help": "of the prompt"}),
        (
            "arguments",
            {
                "nargs": "*",
                "default": [],
                "metavar": "key=value",
                "help": "an argument; all are text",
            },
        ),
    ),
)
ping_command = partial(_run, _ping, "Ask whether a server is there, and how fast it answers.", ())

_ID = ("id", {"metavar": "ID", "type": _task_id, "help": "of the task, as call --task prints it"})

TASK_COMMANDS = {
    "list": partial(
        _run, _list_tasks, "List the tasks of this client, where the server lists them.", ()
    ),
    "get": partial(
        _run,
        _get_task,
        "Show how a task is, or what the tool gave when it has ended.",
        (
            _ID,
            (
                "--wait",
                {"action": "store_true", "help": "wait for its end, and answer what it asks"},
            ),
        ),
    ),
    "cancel": partial(_run, _cancel_task, "Have the server end a task.", (_ID,)),
}


# ------------------------------------------------------------ login, logout, whoami


_HEADER = (
    "--header",
    {
        "action": "append",
        "type": _as_header,
        "metavar": '"Name: value"',
        "help": "send this with every request to the server itself; may be given several times",
    },
)


def _sign(
    about: str,
    arguments: Sequence[str],
    prog: str,
    act: Callable[[SignIn, str, dict[str, str]], Any],
    more: Sequence[tuple[str, dict[str, Any]]] = (),
) -> int:
    """Run a command about the token of one server, and print what it gives."""
    from ..auth.signin import SignIn

    parser = Parser(prog, about, SIGN_ENDINGS)
    parser.add_argument(
        "url", metavar="URL", help="of the server, as it is given to connect and to other commands"
    )
    for name, settings in more:
        parser.add_argument(name, **settings)
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="what to print (default: text)"
    )
    options = parser.parse_args(arguments)
    others = ("url", "output", "header")
    given = {name: value for name, value in vars(options).items() if name not in others}
    if given.get("client_id"):
        given["client_secret"] = os.environ.get(SECRET)
        if given["client_secret"] is not None and given.get("issuer") is None:
            what = "which authorization server the secret is for: write --issuer URL"
            raise UsageError(f"{SECRET} is set, and nothing says {what}")
    headers = dict(getattr(options, "header", None) or {})
    try:
        known = act(SignIn(**given), options.url, headers)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if options.output == "json":
        print(as_json(known))
    elif known:
        print(known if isinstance(known, str) else _token_lines(known))
    else:
        complain(prog, f"there is no token for {options.url}")
    return 0 if known else 1


def _token_lines(known: dict[str, Any]) -> str:
    ends = known["expires_at"]
    until = (
        "no end is known"
        if ends is None
        else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ends))
    )
    lines = {
        "server": known["resource"],
        "token of": known["issuer"],
        "as client": known["client_id"],
        "scopes": " ".join(known["scopes"]) or "none named",
        "until": until,
        "refreshed": "by itself" if known["can_be_refreshed"] else "no: log in again then",
    }
    return "\n".join(f"{name + ':':<11}{one_line(value)}" for name, value in lines.items())


def login_command(arguments: Sequence[str], prog: str) -> int:
    """Sign in at a server."""
    about = (
        "Sign in at a server with your browser, and keep the token: programs and commands "
        "use and refresh it."
    )
    return _sign(
        about,
        arguments,
        prog,
        lambda auth, url, headers: auth.sign_in(url, headers=headers),
        (
            _HEADER,
            (
                "--no-browser",
                {
                    "action": "store_true",
                    "help": "print the address of the page, and take by paste where the browser "
                    "was sent to",
                },
            ),
            (
                "--scope",
                {
                    "action": "append",
                    "default": [],
                    "dest": "scopes",
                    "metavar": "NAME",
                    "help": "ask for this too; may be given several times",
                },
            ),
            (
                "--client-id",
                {
                    "metavar": "ID",
                    "help": "of a client that the server's operator has registered; its secret, "
                    f"if it has one, is read from the environment variable {SECRET}",
                },
            ),
            (
                "--issuer",
                {
                    "metavar": "URL",
                    "help": "of the authorization server that this client is registered with; "
                    "required if it has a secret",
                },
            ),
            (
                "--redirect-uri",
                {
                    "metavar": "URL",
                    "help": "where the browser is sent to (default: a free port here)",
                },
            ),
            (
                "--client-metadata-url",
                {"metavar": "URL", "help": "of a metadata document that describes the client"},
            ),
            (
                "--timeout",
                {
                    "type": float,
                    "default": 300.0,
                    "metavar": "SECONDS",
                    "help": "that you get to sign in (default: 300)",
                },
            ),
        ),
    )


def logout_command(arguments: Sequence[str], prog: str) -> int:
    """Forget a token."""
    about = (
        "Forget the token of a server, have it revoked where that can be, and forget how this "
        "program is registered."
    )
    return _sign(
        about,
        arguments,
        prog,
        lambda auth, url, headers: (
            auth.sign_out(url, headers=headers) and f"logged out of {one_line(url)}"
        ),
        (_HEADER,),
    )


def whoami_command(arguments: Sequence[str], prog: str) -> int:
    """Show what is known of a token."""
    about = (
        "Show which token is kept for a server: where it came from, until when, and for "
        "what. Never the token."
    )
    return _sign(about, arguments, prog, lambda auth, url, _: auth.whoami(url))
