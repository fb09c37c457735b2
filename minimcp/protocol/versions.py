"""The five revisions of the protocol. Each revision is the previous one with some changes.

This file reads like the changelog of the specification. Other code reads a property such as
``revision.batches``, and never compares the names of revisions.

The text of each revision: https://modelcontextprotocol.io/specification/<name of the revision>
"""

# No postponed annotations in this file: `NamedTuple` would compile the text of each annotation, and
# each start of a program would take longer.

from typing import Mapping, NamedTuple, Optional, Sequence


class Revision(NamedTuple):
    """The properties of one revision of the protocol."""

    # The date of the revision, which is its name on the wire.
    name: str

    # True: `initialize` opens a session with one revision and fixed capabilities, and both sides
    # may send requests. False: every request has the revision and the capabilities, and only the
    # client sends requests.
    handshake: bool

    # Whether a peer may send an array of messages.
    batches: bool

    # Whether a server may close an event stream early, so that the client reconnects. Such a stream
    # begins with an event that has only an id.
    polling: bool

    # Whether an error omits the id if the id of the request is unreadable. If False, it is null.
    error_without_id: bool

    # Whether a progress notification may have a message.
    progress_message: bool

    # The kind of structured results of tools: "none", "object" or "any".
    structured: str

    # Whether the specification wants a result with ``isError`` for invalid arguments of a tool.
    argument_errors_are_results: bool

    # Kinds of content blocks in tool results and prompts.
    content_kinds: frozenset[str]

    # Members of a tool in `tools/list`.
    tool_members: frozenset[str]

    # Members of a resource in `resources/list`.
    resource_members: frozenset[str]

    # Members of a template in `resources/templates/list`.
    template_members: frozenset[str]

    # Members of an item in the result of `resources/read`.
    contents_members: frozenset[str]

    # Members of a prompt in `prompts/list`.
    prompt_members: frozenset[str]

    # Members of an argument of a prompt in `prompts/list`.
    argument_members: frozenset[str]

    # Members of the annotations of a resource.
    annotation_members: frozenset[str]

    # Members of `clientInfo` and `serverInfo`.
    implementation_members: frozenset[str]

    # Whether a server must declare a capability for completions.
    completions_capability: bool

    # Whether a request for completions has the arguments that the user has already chosen.
    completion_context: bool

    # Whether every result has a ``resultType``, and the server's name in ``_meta``.
    result_type: bool

    # Whether the results of lists and reads say how long, and by whom, they may be cached.
    cache_hints: bool

    # The error code for a resource that does not exist.
    resource_missing: int

    # Whether an error may ask the user to open a URL.
    url_errors: bool

    # Whether a question that asks the user to open a URL has an id. A later notification has the
    # same id.
    elicitation_ids: bool

    # Whether forms may have titled choices, lists of choices, patterns and defaults of every type.
    full_forms: bool

    # Kinds of content blocks in messages to and from the client's model.
    sampling_kinds: frozenset[str]

    # Whether the client's model may use tools, and a message may have several blocks.
    sampling_tools: bool

    # Methods of requests to a server.
    requests_to_server: frozenset[str]

    # Methods of requests to a client. There is no such set for notifications, because `handshake`
    # and `elicitation_ids` determine which notifications exist.
    requests_to_client: frozenset[str]

    # The capabilities that a client may declare, each with its parts.
    client_capabilities: Mapping[str, tuple[str, ...]]

    # The design of tasks: "none", "core" or "extension".
    tasks: str

    # Methods whose handlers may ask the client questions. After a handshake, the questions are
    # requests. Otherwise they are in a result.
    asking_methods: frozenset[str]

    def has(self, capability: str) -> bool:
        """Return whether a client can declare a capability in this revision.

        Args:
            capability: Its dotted name. "elicitation.form" and "elicitation" are the same in
                revisions where elicitation has no parts.
        """
        kind, _, part = capability.partition(".")
        parts = self.client_capabilities.get(kind)
        return parts is not None and (part in ("", *parts) or capability == "elicitation.form")


_2024_11_05 = Revision(
    name="2024-11-05",
    handshake=True,
    batches=True,  # neither defined nor forbidden, so they are accepted and never sent
    polling=False,
    error_without_id=False,
    progress_message=False,
    structured="none",
    argument_errors_are_results=False,
    content_kinds=frozenset({"text", "image", "resource"}),
    tool_members=frozenset({"name", "description", "inputSchema"}),
    resource_members=frozenset({"uri", "name", "description", "mimeType", "size", "annotations"}),
    template_members=frozenset({"uriTemplate", "name", "description", "mimeType", "annotations"}),
    contents_members=frozenset({"uri", "mimeType", "text", "blob"}),
    prompt_members=frozenset({"name", "description", "arguments"}),
    argument_members=frozenset({"name", "description", "required"}),
    annotation_members=frozenset({"audience", "priority"}),
    implementation_members=frozenset({"name", "version"}),
    completions_capability=False,
    completion_context=False,
    result_type=False,
    cache_hints=False,
    resource_missing=-32002,
    url_errors=False,
    elicitation_ids=False,
    full_forms=False,
    sampling_kinds=frozenset({"text", "image"}),
    sampling_tools=False,
    requests_to_server=frozenset(
        {
            "initialize",
            "ping",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "resources/subscribe",
            "resources/unsubscribe",
            "prompts/list",
            "prompts/get",
            "tools/list",
            "tools/call",
            "logging/setLevel",
            "completion/complete",
        }
    ),
    requests_to_client=frozenset({"ping", "sampling/createMessage", "roots/list"}),
    client_capabilities={"sampling": (), "roots": ("listChanged",)},
    tasks="none",
    asking_methods=frozenset({"tools/call", "prompts/get", "resources/read"}),
)

# https://modelcontextprotocol.io/specification/2025-03-26/changelog
_2025_03_26 = _2024_11_05._replace(
    name="2025-03-26",
    progress_message=True,
    content_kinds=_2024_11_05.content_kinds | {"audio"},
    sampling_kinds=_2024_11_05.sampling_kinds | {"audio"},
    tool_members=_2024_11_05.tool_members | {"annotations"},
    completions_capability=True,
)

# https://modelcontextprotocol.io/specification/2025-06-18/changelog
_2025_06_18 = _2025_03_26._replace(
    name="2025-06-18",
    batches=False,
    structured="object",
    content_kinds=_2025_03_26.content_kinds | {"resource_link"},
    tool_members=_2025_03_26.tool_members | {"title", "_meta", "outputSchema"},
    resource_members=_2025_03_26.resource_members | {"title", "_meta"},
    template_members=_2025_03_26.template_members | {"title", "_meta"},
    contents_members=_2025_03_26.contents_members | {"_meta"},
    prompt_members=_2025_03_26.prompt_members | {"title", "_meta"},
    argument_members=_2025_03_26.argument_members | {"title"},
    annotation_members=_2025_03_26.annotation_members | {"lastModified"},
    implementation_members=_2025_03_26.implementation_members | {"title"},
    completion_context=True,
    requests_to_client=_2025_03_26.requests_to_client | {"elicitation/create"},
    client_capabilities={**_2025_03_26.client_capabilities, "elicitation": ()},
)

# https://modelcontextprotocol.io/specification/2025-11-25/changelog
_2025_11_25 = _2025_06_18._replace(
    name="2025-11-25",
    url_errors=True,
    elicitation_ids=True,
    full_forms=True,
    sampling_kinds=_2025_06_18.sampling_kinds | {"tool_use", "tool_result"},
    sampling_tools=True,
    tasks="core",
    polling=True,
    error_without_id=True,
    argument_errors_are_results=True,
    tool_members=_2025_06_18.tool_members | {"icons", "execution"},
    resource_members=_2025_06_18.resource_members | {"icons"},
    template_members=_2025_06_18.template_members | {"icons"},
    prompt_members=_2025_06_18.prompt_members | {"icons"},
    implementation_members=_2025_06_18.implementation_members
    | {"description", "icons", "websiteUrl"},
    client_capabilities={
        **_2025_06_18.client_capabilities,
        "sampling": ("tools", "context"),
        "elicitation": ("form", "url"),
    },
)

# https://modelcontextprotocol.io/specification/2026-07-28/changelog
_2026_07_28 = _2025_11_25._replace(
    name="2026-07-28",
    url_errors=False,
    elicitation_ids=False,
    handshake=False,
    tasks="extension",
    polling=False,
    structured="any",
    tool_members=_2025_11_25.tool_members - {"execution"},
    result_type=True,
    cache_hints=True,
    resource_missing=-32602,
    requests_to_server=(
        _2025_11_25.requests_to_server
        - {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
        | {"server/discover", "subscriptions/listen"}
    ),
    requests_to_client=frozenset(),
    client_capabilities={**_2025_11_25.client_capabilities, "roots": ()},
)

# All of them, oldest first.
REVISIONS: tuple[Revision, ...] = (_2024_11_05, _2025_03_26, _2025_06_18, _2025_11_25, _2026_07_28)

BY_NAME: dict[str, Revision] = {revision.name: revision for revision in REVISIONS}

NEWEST_HANDSHAKE = _2025_11_25

# The server's lists that can change. Maps a capability to the member that selects its list in the
# filter of `subscriptions/listen`. Two other names are derived from the capability:
# ``tools.listChanged`` and ``notifications/tools/list_changed``. To add a list, see "Adding a
# notification" in examples/design.rst.
LISTS = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}

# The kind of `Change` for each notification that reports one. For the other places to extend, see
# "Adding a notification" in examples/design.rst.
CHANGES = {
    **{f"notifications/{name}/list_changed": f"{name}_list_changed" for name in LISTS},
    "notifications/resources/updated": "resource_updated",
}

# Maps each method whose results may be cached (in revisions with `cache_hints`) to the kind of
# change after which these results are stale.
CACHEABLE = {
    "server/discover": None,
    "resources/read": "resource_updated",
    "tools/list": "tools_list_changed",
    "prompts/list": "prompts_list_changed",
    "resources/list": "resources_list_changed",
    "resources/templates/list": "resources_list_changed",
}

# The revision of an HTTP client without a version header and without a session.
WITHOUT_HEADER = _2025_03_26


def choose(names: Optional[Sequence[str]]) -> tuple[Revision, ...]:
    """Return the revisions with these names, oldest first.

    Args:
        names: The names in any order; None means all revisions.

    Raises:
        ValueError: A name is unknown, or the sequence is empty.
        TypeError: The argument is a str, not a sequence of them.
    """
    if names is None:
        return REVISIONS
    if isinstance(names, str):
        raise TypeError(f"revisions must be a sequence of names: did you mean [{names!r}]?")
    known = ", ".join(BY_NAME)
    for name in names:
        if name not in BY_NAME:
            raise ValueError(f"unknown revision {name!r}: the known ones are {known}")
    if not names:
        raise ValueError(f"revisions must not be empty: name one of {known}")
    return tuple(revision for revision in REVISIONS if revision.name in names)
