"""``minimcp card``: print the card of a server, or make one for a web server with fixed files; and
``minimcp list --card``."""

from __future__ import annotations

import os
import re
from typing import Any, Optional, Sequence
from urllib.parse import urlsplit

from ..errors import McpError
from ..extensions.cards import Card, ServerCard, catalog_of, read_card, read_catalog
from ..terminal import as_json
from . import Parser, UsageError, add_network, is_url, network_of, one_line, print_error
from .run import find_server, load, split_file

# A domain, and not the name of a Python or JavaScript file.
DOMAIN = r"(?!.*\.(py|js|mjs)$)(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+)(:[0-9]+)?"


def card_command(arguments: Sequence[str], prog: str) -> int:
    """Print a card or a catalog as JSON."""
    parser = Parser(
        prog,
        "Print the card of the server at a URL, or make the card of the server in a file, for a "
        "web server that serves it at URL/server-card.",
    )
    parser.add_argument("target", metavar="URL|FILE[:NAME]", help="a URL, or a file with a server")
    parser.add_argument("--url", help="the public URL of the server in the file")
    parser.add_argument(
        "--catalog",
        action="store_true",
        help="make the catalog instead, for /.well-known/ai-catalog.json",
    )
    add_network(parser)
    options = parser.parse_args(arguments)
    try:
        if is_url(options.target):
            if options.url or options.catalog:
                raise UsageError("--url and --catalog apply to a server in a file")
            print(as_json(read_card(options.target, **network_of(options)).wire))
            return 0
        document = _document(options.target, options.url)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    print(as_json(catalog_of(document) if options.catalog else document))
    return 0


def _document(target: str, url: Optional[str]) -> dict[str, Any]:
    path, name = split_file(target)
    server = find_server(load(path), name, path)
    config = server._config
    revisions = server._registry.supported.names
    if config.card is not None:
        made: dict[str, Any] = config.card.card.document(config.info, revisions, url)
        return made
    if url is None:
        raise UsageError("write --url with the public URL of the server")
    domain = ".".join(reversed((urlsplit(url).hostname or "").split(".")))
    card = Card(f"{domain}/{re.sub('[^a-zA-Z0-9._-]', '-', server.name)}", url)
    return card.document(config.info, revisions)


def found_card(target: str, prog: str, network: dict[str, Any]) -> Optional[ServerCard]:
    """Return the card of the server at a URL. If it has none, print a note to stderr and return
    None."""
    if not is_url(target):
        raise UsageError("--card needs the URL of a server, or a domain such as example.com")
    try:
        return read_card(target, **network)
    except McpError as error:
        print_error(prog, f"no card: {error}")
        return None


def lines_of(card: ServerCard) -> list[str]:
    """Return the text that shows a card."""
    lines = [one_line(f"card: {card.name} {card.version}: {card.description}")]
    for each in card.remotes:
        revisions = ", ".join(each.get("supportedProtocolVersions", ()))
        lines.append("  " + one_line(f"{each['type']} at {each['url']} {revisions}"))
    return lines


def domain_in(arguments: Sequence[str]) -> Optional[str]:
    """Return the domain in the arguments of ``list --card``; None if they name a server."""
    if "--card" in arguments and "--config" not in arguments:
        for each in arguments:
            if re.fullmatch(DOMAIN, each) and not os.path.exists(each):
                return each
    return None


def list_catalog(domain: str, arguments: Sequence[str], prog: str) -> int:
    """Print the cards in the catalog of a domain."""
    parser = Parser(prog, "Show the servers in the catalog of a domain.")
    parser.add_argument("domain", metavar="DOMAIN")
    parser.add_argument("--card", action="store_true", help="read the catalog")
    parser.add_argument("--output", choices=("text", "json"), default="text")
    add_network(parser)
    options = parser.parse_args(arguments)
    as_data = options.output == "json"
    code = 0
    cards = []
    for entry in read_catalog(domain, **network_of(options)):
        try:
            card = entry.card()
        except McpError as error:
            print_error(prog, f"{entry.identifier}: {error}")
            code = 3
            continue
        cards.append(card.wire)
        host = urlsplit(entry.url or "").netloc
        lines = lines_of(card)
        if host not in ("", domain):
            lines.append("  " + one_line(f"the card is on another domain: {host}"))
        if not as_data:
            print("\n".join(lines))
    if as_data:
        print(as_json(cards))
    elif not cards and not code:
        print(f"the catalog of {domain} has no server cards")
    return code
