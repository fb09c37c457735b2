"""A host in a terminal: it calls the tools of the servers in mcp.json.

Run ``python3 terminal_host.py [mcp.json]``, and type a tool with its arguments, as in
``weather__forecast city=Oslo``, or nothing to see the tools. Questions of a server appear as a form.
Ctrl-C cancels a call and its question. In a form, Ctrl-D cancels only the question. At the
prompt, Ctrl-D ends the program.
"""

from __future__ import annotations

import shlex
import sys

import minimcp
from minimcp import terminal


def show_log(message: minimcp.LogMessage) -> None:
    text = f"[{message.connection}] {message.level}: {message.data}"
    terminal.print_stderr(terminal.one_line(text))


def show_stderr(line: str, server: str) -> None:
    terminal.print_stderr(terminal.one_line(f"[{server}] {line}"))


def call(group: minimcp.Group, tools: dict[str, minimcp.Tool], words: list[str]) -> None:
    """Call the tool that the user typed, and show the result. Ctrl-C cancels the call."""
    tool = tools.get(words[0])
    bar = terminal.ProgressBar()
    try:
        arguments = terminal.read_arguments(words[1:], tool.input_schema if tool else {})
        result = group.call_tool(words[0], arguments, on_progress=bar, raise_on_error=False)
        bar.end()
        terminal.show(result)
    except KeyboardInterrupt:
        bar.end()
        print("cancelled")
    except (ValueError, minimcp.McpError) as error:
        bar.end()
        print("failed:", terminal.escape(str(error)))


def main(config: str = "mcp.json") -> None:
    with minimcp.connect_all(
        config, elicit=terminal.ask, on_log=show_log, stderr=show_stderr, restart=True
    ) as group:
        for name, error in group.errors.items():
            print(f"{name} is not available: {terminal.one_line(str(error))}")
        while True:
            try:
                words = shlex.split(input("> "))
                tools = {tool.name: tool for tool in group.list_tools()}
                if words:
                    call(group, tools, words)
                else:
                    for name, tool in tools.items():
                        print(terminal.one_line(f"{name}: {tool.description or ''}"))
            except KeyboardInterrupt:
                print()
            except ValueError as error:  # a quotation mark is missing
                print(error)
            except EOFError:
                break


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:  # while the servers start
        print("cancelled")
    except (OSError, ValueError) as error:  # the config cannot be read
        sys.exit(str(error))
