"""The commands that connect to a server: ``list``, ``call``, ``tasks``, ``read``, ``prompt`` and
``ping``; and the commands for its token: ``login``, ``logout`` and ``whoami``.

`connect` uses the token that ``login`` stores.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import deque
from functools import partial
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

from .. import CallToolResult, Client, Prompt, Tool, connect
from ..client.config import CONFIG_FILE, Servers, read_servers
from ..errors import CapabilityNotSupported, McpError, MethodNotFound
from ..extensions.client_tasks import ENDED, IDENTIFIER as TASKS, Task
from ..schema.hosts import listed_size
from ..schema.mismatch import nearest
from ..stdio.child import knows_python
from ..terminal import (
    STDIN,
    ProgressBar,
    as_json,
    block_text,
    parameters,
    properties,
    required,
    save,
)
from . import (
    NETWORK,
    TOKEN_VARIABLE,
    Parser,
    UsageError,
    add_network,
    as_header,
    clean,
    environment_token,
    exit_code,
    is_url,
    network_of,
    one_line,
    print_error,
    print_stderr,
)
from .terminal import FormPrompter, read_object, read_pairs, split_pair

if TYPE_CHECKING:
    from ..auth.signin import SignIn

TARGET_HELP = (
    "a file (server.py), a URL, a name in mcp.json, or a command line in quotes "
    '("python -m server --flag")'
)

EXIT_CODES = (
    "Exit codes: 0 success, 1 the tool reported an error, 2 wrong usage, 3 protocol or "
    "connection error, 4 timeout."
)

SIGN_EXIT_CODES = (
    "Exit codes: 0 success, 1 no token is stored, 2 wrong usage, 3 the sign-in failed."
)

# The environment variable for a client's secret. Other users could read the arguments of a command.
SECRET_VARIABLE = "MINIMCP_CLIENT_SECRET"

# Maximum number of stderr lines kept; older ones are dropped.
MAX_STDERR_LINES = 200
# Beginnings of the warnings that this library logs for the author of a server.
WARNING_PREFIXES = ("tool ", "resource ", "prompt ")

T = TypeVar("T")

# What a server may list: the key in JSON, the heading, the capability and the client's method.
SECTIONS = (
    ("tools", "", "tools", Client.list_tools),  # no heading: most servers have only tools
    ("resources", "resources:\n\n", "resources", Client.list_resources),
    ("resourceTemplates", "resource templates:\n\n", "resources", Client.list_resource_templates),
    ("prompts", "prompts:\n\n", "prompts", Client.list_prompts),
)

# A command's result: a value for JSON, the texts or bytes to print, and the exit code.
Found = tuple[Any, Sequence[Union[str, bytes]], int]


# ------------------------------------------------------------ shared by the commands


def _run(
    find: Callable[[Client, argparse.Namespace, ProgressBar], Found],
    about: str,
    more: Sequence[tuple[str, dict[str, Any]]],
    arguments: Sequence[str],
    prog: str,
    task: bool = False,
    apps: bool = False,
) -> int:
    """Connect to the server named on the command line, run a command, and print its result.

    The server's stderr is not shown, because servers that do not know ``server/discover`` may write
    pages about it. If the connection fails, the error quotes the last lines. `list` also prints
    this library's warnings to the author of the server.

    Args:
        find: The function that runs the command.
        about: The description for ``--help``.
        more: The command's own parameters, as names and keyword arguments of `add_argument`.
        arguments: The arguments after the command's name.
        prog: The name of the program and the command.
        task: Whether to declare support for tasks. ``--task`` does so too.
        apps: Whether to declare support for apps.
    """
    parser = Parser(prog, about, EXIT_CODES)
    add_target(parser)
    for name, settings in more:
        parser.add_argument(name, **settings)
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="limit for connecting and for each call (default: 60)",
    )
    parser.add_argument(
        "--revision",
        default="auto",
        metavar="NAME",
        help='"auto" (default) negotiates the revision; "handshake" selects the newest one with a '
        "handshake; a date selects exactly that one",
    )
    outputs = ["text", "json"]
    output_help = "output format (default: text)"
    if find in (_call, _get_task):
        outputs.append("raw")
        output_help += "; raw prints only the content, and bytes unchanged"
    parser.add_argument("--output", choices=outputs, default="text", help=output_help)
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show the whole stderr of a server process (default: the last lines if the connection "
        "fails)",
    )
    parser.set_defaults(prog=prog, task=task, answer=[], save=None)
    options = parser.parse_intermixed_args(arguments)
    bar = ProgressBar()
    prompter = FormPrompter(options.answer)
    written: deque[str] = deque(maxlen=MAX_STDERR_LINES)
    try:
        config = config_of(options)
        has_url = config is None and is_url(options.target)
        client = connect(
            options.target,
            config=config,
            revision=options.revision,
            timeout=options.timeout,
            connect_timeout=options.timeout,
            elicit=prompter,
            **web_of(options, options.target),
            extensions=_extensions(options.task, apps),
            stderr=None if options.verbose or has_url else written.append,
        )
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if config is not None:
        if options.config is None:
            # Name the file: the current folder may belong to another person's project.
            path = os.path.abspath(CONFIG_FILE)
            print_error(prog, f"using the server {options.target} from {path}")
        else:
            for warning in command_warnings(config.target(options.target)):
                print_error(prog, warning)
    with client:
        try:
            value, texts, code = find(client, options, bar)
        finally:
            bar.end()
    if prompter.unused:
        unused = ", ".join(prompter.unused)
        print_error(prog, f"--answer was not used: the server did not ask for {unused}")
    for line in written:
        if find is _list and line.startswith(WARNING_PREFIXES):
            print_error(prog, line)
    for text in [as_json(value)] if options.output == "json" else texts:
        if isinstance(text, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(text)
        elif code == 1 and options.output != "json":
            print_stderr(f"{prog}: {_with_exception_class(str(text), written)}")
        else:
            print(text)
    return code


def command_warnings(server: Any) -> Iterator[str]:
    """Yield a warning for each word of a command that a host may resolve differently.

    A host has its own current folder and PATH.
    """
    if getattr(server, "cwd", None) is not None:
        return
    for word in getattr(server, "command", ()):
        if os.path.isfile(word) and not os.path.isabs(word):
            path = os.path.abspath(word)
            yield f"{word} is relative to this folder, but hosts start elsewhere: write {path}"
        elif word in ("python", "python3") and knows_python():
            yield f"{word} may be a different Python in a host: write {sys.executable}"


def _with_exception_class(text: str, written: Iterable[str]) -> str:
    """Put the exception's class before a tool's error, if the server's stderr has a traceback."""
    lines = (re.match(r"[ |]*([A-Za-z_][\w.]*): (.+)", line) for line in written)
    for line in filter(None, lines):
        message = text if text.startswith(f"{line[1]}: ") else f"{line[1]}: {text}"
        if message.startswith(line[0].strip(" |")):
            return f"{message} (for the traceback: --verbose)"
    return text


def _extensions(task: bool, apps: bool) -> Optional[list[Any]]:
    from .. import Apps, Tasks

    extensions: list[Any] = [Tasks()] if task else []
    if apps:
        extensions.append(Apps())
    return extensions or None


def add_web(
    parser: argparse.ArgumentParser,
    token: str = "send this bearer token with every request to a URL",
    action: str = "store",
) -> None:
    """Add the options for a server with a URL, which `web_of` reads.

    Args:
        parser: The command's parser.
        token: The first sentence of the help of ``--token``.
        action: "append" if ``--token`` may be repeated; then the option is a list.
    """
    parser.add_argument(
        "--header",
        action="append",
        type=as_header,
        metavar='"Name: value"',
        help="send this header with every request to a URL; may be repeated",
    )
    parser.add_argument(
        "--token",
        action=action,
        help=f"{token}. Other users can see it in the list of processes; to avoid that, set the "
        f"environment variable {TOKEN_VARIABLE} instead",
    )
    add_network(parser)


def add_target(parser: argparse.ArgumentParser, **web: str) -> None:
    """Add the parameters that name a server, which `config_of` and `web_of` read.

    Args:
        parser: The command's parser.
        web: The arguments of `add_web`.
    """
    parser.add_argument("target", metavar="TARGET", help=TARGET_HELP)
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="look up TARGET, which must be a server's name, in this file (default: "
        f"{CONFIG_FILE} in this folder, if it lists that server)",
    )
    add_web(parser, **web)


def web_of(options: argparse.Namespace, target: str) -> dict[str, Any]:
    """Return the keyword arguments of `connect` that the options of `add_web` set.

    The token in the environment is sent only to a URL that the user has typed. A server's name may
    be defined in the config of another person's project.

    Args:
        options: The parsed options.
        target: The value of TARGET.
    """
    given = {"auth": options.token, "headers": options.header and dict(options.header)}
    if options.token is None:
        given["auth"] = environment_token(target, given["headers"] or {})
    found = {name: value for name, value in given.items() if value is not None}
    return {**found, **network_of(options)}


def config_of(options: argparse.Namespace) -> Optional[Servers]:
    """Return the config that defines the target, or None if the target is not a name in one.

    It is the config that ``--config`` names, or the current folder's if that has the name and the
    target is not a file.
    """
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
    """Return the name of the server: the user's own name for it, if it has one, before the name
    that it gives itself."""
    info = client.server_info
    name = "a server without a name"
    if info is not None:
        # "0" is the version of a server whose author gave none.
        name = info.name if info.version == "0" else f"{info.name} {info.version}"
    connection = client._host.connection
    is_same = info is not None and connection == info.name
    return one_line(name if connection is None or is_same else f"{connection} ({name})")


def _indented(text: Optional[str], by: int = 4) -> Iterator[str]:
    for line in clean(text or "").strip().splitlines():
        yield (" " * by + line).rstrip()


# ------------------------------------------------------------ list


def _list(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    """List what a server offers. If one list fails, report it and show the others."""
    lists: dict[str, Sequence[Any]] = {name: [] for name, *_ in SECTIONS}
    code = 0
    card = None
    if options.card:
        from .card import found_card, lines_of

        card = found_card(options.target, options.prog, network_of(options))
    for name, _, capability, fetch in SECTIONS:
        try:
            if capability in client.capabilities:
                lists[name] = fetch(client)
        except MethodNotFound:
            pass  # many servers with resources do not implement the method for templates
        except McpError as error:
            print_error(options.prog, f"{name}: {error}")
            code = max(code, exit_code(error))
    heading = [] if card is None else [*lines_of(card), ""]
    heading += [
        f"{_server_name(client)}, revision {client.revision}",
        *_indented(client.instructions, 2),
    ]
    extensions = client.capabilities.get("extensions")
    if extensions:
        heading.append("  " + one_line(f"extensions: {', '.join(extensions)}"))
    if options.size:
        return _sizes(lists["tools"], heading[0], code)
    texts = [
        title + "\n".join(map(_described, lists[name]))
        for name, title, *_ in SECTIONS
        if lists[name]
    ]
    if not texts and code == 0:
        texts = ["no tools"]
    text = "\n\n".join(["\n".join(heading), *texts])
    listed = {name: [each.to_wire() for each in lists[name]] for name in lists}
    shown = {"card": None if card is None else card.wire} if options.card else {}
    return {**shown, **listed, "extensions": extensions or {}}, [text], code


def _sizes(tools: Sequence[Tool], heading: str, code: int) -> Found:
    """Return the size of each tool in a list, the largest first, and the total."""
    sizes: list[dict[str, Any]] = []
    for tool in tools:
        size, tokens = listed_size(tool.to_wire())
        sizes.append({"name": tool.name, "bytes": size, "tokens": tokens})
    sizes.sort(key=lambda each: -each["bytes"])
    total = {name: sum(each[name] for each in sizes) for name in ("bytes", "tokens")}
    lines = [heading, f"{'bytes':>8} {'tokens (estimate)':>18}  tool"]
    for each in [*sizes, {"name": f"total of {len(sizes)} tools", **total}]:
        lines.append(f"{each['bytes']:8,} {each['tokens']:18,}  {one_line(each['name'])}")
    return {"tools": sizes, "total": total}, ["\n".join(lines)], code


def _signature(tool: Tool) -> str:
    """Return a tool's signature in Python's syntax: ``price(bread: string, loaves: integer =
    1)``."""
    return one_line(f"{tool.name}({parameters(tool.input_schema, tool.input_schema)})")


def _described(item: Any) -> str:
    """Return the name, description and arguments of a tool, resource, template or prompt."""
    fields: list[tuple[str, Any]] = []
    if isinstance(item, Tool):
        head = _signature(item)
        known = properties(item.input_schema).items()
        fields = [
            (name, field.get("description")) for name, field in known if isinstance(field, Mapping)
        ]
    elif isinstance(item, Prompt):
        fields = [(each.name, each.description) for each in item.arguments or ()]
        names = [each.name if each.required else f"[{each.name}]" for each in item.arguments or ()]
        head = f"{item.name}({', '.join(names)})"
    else:
        details = [item.display_name, item.mime_type]
        size = getattr(item, "size", None)
        if size is not None:
            details.append(f"{size} bytes")
        uri = item.uri if hasattr(item, "uri") else item.uri_template
        head = f"{uri} ({', '.join(detail for detail in details if detail)})"
    descriptions = [
        f"      {one_line(name)}: {one_line(text)}"
        for name, text in fields
        if text and isinstance(text, str)
    ]
    return "\n".join([one_line(head), *_indented(item.description), *descriptions])


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
        raise UsageError(f"{error.message}: use call --task, then tasks get --wait") from None


def _called(result: CallToolResult, options: argparse.Namespace) -> Found:
    texts: list[Union[str, bytes]] = [
        save(block, options.save)
        if options.save and isinstance(getattr(block, "data", None), bytes)
        else block_text(block)
        for block in result.content
    ]
    if result.is_error:
        texts = [clean(result.text) or "the tool failed without a message"]
    elif not texts and result.has_structured_content:
        texts = [as_json(result.structured_content)]
    elif options.output == "raw":
        texts = [_raw(block) for block in result.content]
    return result.to_wire(), texts, int(result.is_error)


def _raw(block: Any) -> Union[bytes, str]:
    """Return the bytes or the text of a content block, or its JSON if it has neither.

    On a terminal, escape text, and describe bytes instead of writing them.
    """
    if sys.stdout.isatty():
        return block_text(block)
    data = getattr(block, "data", None)
    if isinstance(data, (bytes, str)):
        return data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace")
    text = getattr(block, "text", None)
    if isinstance(text, (bytes, str)):
        return text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    return as_json(block.to_wire()).encode()


def find_tool(tools: Mapping[str, T], name: str) -> T:
    """Return the tool with this name.

    Raises:
        UsageError: The server has no such tool.
    """
    if name in tools:
        return tools[name]
    close = nearest(name, tools)
    hint = f", did you mean {close}? It" if close else ": it"
    raise UsageError(f"the server has no tool {name!r}{hint} has {', '.join(tools) or 'none'}")


def _check_required(tool: Tool, values: Mapping[str, Any]) -> None:
    """Check that no required argument is missing.

    The server checks everything else, and its messages are better.
    """
    missing = [name for name in required(tool.input_schema) if name not in values]
    if not missing:
        return
    unknown = [name for name in values if name not in properties(tool.input_schema)]
    close = nearest(missing[0], unknown)
    if close:
        hint = f", did you write {close!r} instead?"
    elif unknown:
        hint = f", and {', '.join(unknown)} is unknown: {_signature(tool)}"
    else:
        hint = f": {_signature(tool)}"
    verb = "is" if len(missing) == 1 else "are"
    raise UsageError(f"{', '.join(missing)} {verb} missing{hint}")


# ------------------------------------------------------------ tasks


def _task_id(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the ID is empty")
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
    """Show a task's status, or the tool's result if the task is finished."""
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
    """Run ``tasks list``, ``tasks get`` or ``tasks cancel``."""
    action = arguments[0] if arguments else ""
    if action in TASK_COMMANDS:
        return TASK_COMMANDS[action](arguments[1:], f"{prog} {action}", task=True)
    if action not in ("-h", "--help"):
        names = ", ".join(TASK_COMMANDS)
        raise UsageError(f"after tasks write one of {names}, then TARGET (see {prog} --help)")
    print(
        f"usage: {prog} list TARGET | get TARGET ID | cancel TARGET ID\n\n"
        "Inspect calls that run as tasks.\n\n"
        f"See {prog} get --help for more. "
        f"{prog.rpartition(' ')[0]} call --task starts a task and prints its ID."
    )
    return 0


# ------------------------------------------------------------ read, prompt, ping


def _read(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    result = client.read_resource(options.uri)
    as_bytes = hasattr(sys.stdout, "buffer") and not sys.stdout.isatty()
    texts = [
        item.data if as_bytes and item.data is not None else block_text(item)
        for item in result.contents
    ]
    return result.to_wire(), texts, 0


def _prompt(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    result = client.get_prompt(options.name, dict(split_pair(word) for word in options.arguments))
    return (
        result.to_wire(),
        [f"{clean(each.role)}: {block_text(each.content)}" for each in result.messages],
        0,
    )


def _ping(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    seconds = client.ping()
    info = {} if client.server_info is None else client.server_info.to_wire()
    text = f"{_server_name(client)} answered in {seconds * 1000:.1f} ms, revision {client.revision}"
    return {"seconds": seconds, "revision": client.revision, "serverInfo": info}, [text], 0


def _show_apps(client: Client, options: argparse.Namespace, bar: ProgressBar) -> Found:
    from .apps import serve_apps

    serve_apps(client, options)
    return {}, [], 0


def list_command(arguments: Sequence[str], prog: str) -> int:
    """List what a server offers, or with ``--all`` the servers in the hosts' config files."""
    if "--all" not in arguments:
        about = (
            "Show a server's tools, resources and prompts with their arguments. "
            "Without TARGET, list --all shows the servers of all hosts. list DOMAIN --card shows "
            "the servers in the catalog of a domain."
        )
        if "--card" in arguments:
            from .card import domain_in, list_catalog

            domain = domain_in(arguments)
            if domain is not None:
                return list_catalog(domain, arguments, prog)
        size = "show the bytes and the estimated tokens of each tool in the list, and the total"
        card = "show the card of a server with a URL, too"
        more = (
            ("--size", {"action": "store_true", "help": size}),
            ("--card", {"action": "store_true", "help": card}),
            ("--all", {"action": "store_true", "help": "show the servers of all hosts instead"}),
        )
        return _run(_list, about, more, arguments, prog)
    from .install import list_all

    parser = Parser(
        prog,
        "Show the servers in the config files of the hosts on this machine, without starting them.",
    )
    parser.add_argument("--all", action="store_true", help="show the servers of all hosts")
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="output format (default: text)"
    )
    options = parser.parse_args(arguments)
    value, texts = list_all()
    print(as_json(value) if options.output == "json" else "\n".join(texts))
    return 0


call_command = partial(
    _run,
    _call,
    "Call a tool and print its result. If the tool reports an error, it goes to stderr.",
    (
        ("tool", {"metavar": "TOOL", "help": "the tool's name"}),
        (
            "arguments",
            {
                "nargs": "*",
                "default": [],
                "metavar": "key=value",
                "help": "an argument, converted as the tool's schema says (for a list, write "
                "JSON or repeat the key). key:=JSON passes a JSON value, key=@FILE the content "
                "of a file. A single - reads a JSON object of arguments from stdin",
            },
        ),
        (
            "--json",
            {
                "metavar": "OBJECT",
                "help": "the arguments as one JSON object; key=value overrides its members",
            },
        ),
        (
            "--answer",
            {
                "action": "append",
                "metavar": "key=value",
                "default": [],
                "help": "the value of a field, if the server asks for it; agree=yes answers a form "
                "without fields; may be repeated",
            },
        ),
        (
            "--save",
            {
                "metavar": "DIR",
                "help": "write images, audio and other binary content to files in this folder",
            },
        ),
        ("--quiet", {"action": "store_true", "help": "show no progress bar on stderr"}),
        (
            "--task",
            {
                "action": "store_true",
                "help": "run the call as a task (servers with a URL only): print its ID and "
                "do not wait for the result (see tasks get)",
            },
        ),
    ),
)
read_command = partial(
    _run,
    _read,
    "Read a resource and print it. Binary content is written unchanged, except to a terminal.",
    (
        (
            "uri",
            {"metavar": "URI", "help": "a URI that the server lists, or one built from a template"},
        ),
    ),
)
prompt_command = partial(
    _run,
    _prompt,
    "Get a prompt and print its messages.",
    (
        ("name", {"metavar": "NAME", "help": "the prompt's name"}),
        (
            "arguments",
            {
                "nargs": "*",
                "default": [],
                "metavar": "key=value",
                "help": "an argument of the prompt, passed as text",
            },
        ),
    ),
)
ping_command = partial(
    _run, _ping, "Check that a server answers, and measure how long it takes.", ()
)

apps_command = partial(
    _run,
    _show_apps,
    "Show the pages of a server's tools in a small host page, with the messages between the host "
    "and the page. Ctrl-C ends.",
    (
        (
            "--port",
            {
                "type": int,
                "default": 0,
                "metavar": "PORT",
                "help": "the port on 127.0.0.1 (default: a free one)",
            },
        ),
        (
            "--no-browser",
            {"action": "store_true", "help": "print the address, and do not open a browser"},
        ),
    ),
    apps=True,
)

_ID = (
    "id",
    {"metavar": "ID", "type": _task_id, "help": "the task's ID, as printed by call --task"},
)

TASK_COMMANDS = {
    "list": partial(
        _run, _list_tasks, "List the tasks of this client, if the server supports that.", ()
    ),
    "get": partial(
        _run,
        _get_task,
        "Show the status of a task, or the tool's result if the task has finished.",
        (
            _ID,
            (
                "--wait",
                {
                    "action": "store_true",
                    "help": "wait until the task has finished, and answer its questions",
                },
            ),
        ),
    ),
    "cancel": partial(_run, _cancel_task, "Cancel a task.", (_ID,)),
}


# ------------------------------------------------------------ login, logout, whoami


_HEADER = (
    "--header",
    {
        "action": "append",
        "type": as_header,
        "metavar": '"Name: value"',
        "help": "send this header with every request to the server itself; may be repeated",
    },
)


def _sign(
    about: str,
    arguments: Sequence[str],
    prog: str,
    act: Callable[[SignIn, str, dict[str, Any]], Any],
    more: Sequence[tuple[str, dict[str, Any]]] = (),
) -> int:
    """Run a command that manages the token of one server, and print its result."""
    from ..auth.signin import SignIn

    parser = Parser(prog, about, SIGN_EXIT_CODES)
    parser.add_argument(
        "url", metavar="URL", help="the server's URL, as passed to connect and other commands"
    )
    for name, settings in more:
        parser.add_argument(name, **settings)
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="output format (default: text)"
    )
    options = parser.parse_args(arguments)
    others = ("url", "output", "header", "cacert", "proxy")
    given = {name: value for name, value in vars(options).items() if name not in others}
    if given.get("client_id"):
        given["client_secret"] = os.environ.get(SECRET_VARIABLE)
        if given["client_secret"] is not None and given.get("issuer") is None:
            raise UsageError(
                f"{SECRET_VARIABLE} is set, but its authorization server is not known: "
                "write --issuer URL"
            )
    web = {"headers": dict(getattr(options, "header", None) or {}), **network_of(options)}
    try:
        known = act(SignIn(**given), options.url, web)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if options.output == "json":
        print(as_json(known))
    elif known:
        print(known if isinstance(known, str) else _token_lines(known))
    else:
        print_error(prog, f"no token is stored for {options.url}")
    return 0 if known else 1


def _token_lines(known: dict[str, Any]) -> str:
    expiry = "not known"
    if known["expires_at"] is not None:
        expiry = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(known["expires_at"]))
    lines = {
        "server": known["resource"],
        "issuer": known["issuer"],
        "client ID": known["client_id"],
        "scopes": " ".join(known["scopes"]) or "not named",
        "expires": expiry,
        "refresh": "automatic" if known["can_be_refreshed"] else "not possible, log in again",
    }
    return "\n".join(f"{name + ':':<11}{one_line(value)}" for name, value in lines.items())


def login_command(arguments: Sequence[str], prog: str) -> int:
    """Sign in to a server."""
    about = (
        "Sign in to a server with your browser, and store the token. Programs and the other "
        "commands use it and refresh it."
    )
    return _sign(
        about,
        arguments,
        prog,
        lambda auth, url, web: auth.sign_in(url, **web),
        (
            _HEADER,
            *NETWORK,
            (
                "--no-browser",
                {
                    "action": "store_true",
                    "help": "do not open a browser: print the address of the sign-in page, and "
                    "read the address of the final page from stdin",
                },
            ),
            (
                "--scope",
                {
                    "action": "append",
                    "default": [],
                    "dest": "scopes",
                    "metavar": "NAME",
                    "help": "request this scope too; may be repeated",
                },
            ),
            (
                "--client-id",
                {
                    "metavar": "ID",
                    "help": "the client ID that you got from the server's operator. The client's "
                    f"secret, if any, is read from the environment variable {SECRET_VARIABLE}",
                },
            ),
            (
                "--issuer",
                {
                    "metavar": "URL",
                    "help": "the authorization server that the client is registered with; "
                    "required if the client has a secret",
                },
            ),
            (
                "--redirect-uri",
                {
                    "metavar": "URL",
                    "help": "the address that the browser is redirected to (default: a free port "
                    "of this machine)",
                },
            ),
            (
                "--client-metadata-url",
                {"metavar": "URL", "help": "a metadata document that describes the client"},
            ),
            (
                "--timeout",
                {
                    "type": float,
                    "default": 300.0,
                    "metavar": "SECONDS",
                    "help": "how long to wait for you to sign in (default: 300)",
                },
            ),
        ),
    )


def logout_command(arguments: Sequence[str], prog: str) -> int:
    """Delete a stored token."""
    about = (
        "Delete the stored token of a server and this program's registration there. The token "
        "is also revoked if the authorization server supports that."
    )
    return _sign(
        about,
        arguments,
        prog,
        lambda auth, url, web: auth.sign_out(url, **web) and f"logged out of {one_line(url)}",
        (_HEADER, *NETWORK),
    )


def whoami_command(arguments: Sequence[str], prog: str) -> int:
    """Describe a stored token."""
    about = (
        "Describe the stored token of a server: its issuer, expiry and scopes. The token itself "
        "is never shown."
    )
    return _sign(about, arguments, prog, lambda auth, url, _: auth.whoami(url))
