"""The five revisions of the protocol as five rows of a table, each the previous one with its
changes.

This file reads like the changelog of the specification. Other code asks a named fact
(``revision.batches``), never a revision's name: a revision is a member of a set, not a number, and
an unknown one compares to nothing.
The words of the specification: https://modelcontextprotocol.io/specification/<name of the revision>
"""

# No postponed annotations in this file: `NamedTuple` would compile the text of each, which every
# start would pay for.

from typing import Mapping, NamedTuple, Optional, Sequence


class Revision(NamedTuple):
    """What is true in one revision of the protocol."""

    # Its date, as it is written on the wire.
    name: str

    # True: `initialize` agrees on revision and capabilities for a session, and either side may send
    # requests.
    # False: every request carries all of that itself, and only the client sends requests.
    handshake: bool

    # Whether an array of messages may arrive as one message.
    batches: bool

    # Whether an event stream may be left early and asked for again: it begins with an event that
    # only has an id.
    polling: bool

    # How an error names a request whose id could not be read: True leaves the id out, False writes
    # null.
    error_without_id: bool

    # Whether a progress notification may carry a text.
    progress_message: bool

    # What a tool's structured result may be: "none", "object" or "any".
    structured: str

    # Whether the text asks for wrong arguments of a tool to be answered by a result with
    # ``isError``.
    argument_errors_are_results: bool

    # Kinds of content blocks in tool results and prompts.
    content_kinds: frozenset[str]

    # Members of a tool in `tools/list`.
    tool_members: frozenset[str]

    # Members of a resource in `resources/list`.
    resource_members: frozenset[str]

    # Members of a template in `resources/templates/list`.
    template_members: frozenset[str]

    # Members of an item that reading a resource gives.
    contents_members: frozenset[str]

    # Members of a prompt in `prompts/list`.
    prompt_members: frozenset[str]

    # Members of a prompt's argument there.
    argument_members: frozenset[str]

    # Members of the annotations of a resource.
    annotation_members: frozenset[str]

    # Members of the description that each side gives of itself.
    implementation_members: frozenset[str]

    # Whether a server declares that it completes arguments.
    completions_capability: bool

    # Whether a client says which arguments are chosen already when it asks for completions.
    completion_context: bool

    # Whether every result says by ``resultType`` what it is, and by ``_meta`` who made it.
    result_type: bool

    # Whether lists and reads say how long, and for whom, they stay true.
    cache_hints: bool

    # The error code for a resource that does not exist.
    resource_missing: int

    # Whether an error may say that the user has to open a URL first.
    url_errors: bool

    # Whether a URL that a user is asked to open has an id, by which it is said later that this is
    # done.
    elicitation_ids: bool

    # Whether forms know titled choices, lists of choices, patterns and defaults of every type.
    full_forms: bool

    # Kinds of content blocks in messages to and from a client's model.
    sampling_kinds: frozenset[str]

    # Whether a client's model may be given tools, and one message several blocks.
    sampling_tools: bool

    # Methods that a client may call.
    requests_to_server: frozenset[str]

    # Methods that a server may call. Notifications have no such sets: where they differ,
    # `handshake` and `elicitation_ids` say so.
    requests_to_client: frozenset[str]

    # What a client may declare that it can be asked for, and the parts of each.
    client_capabilities: Mapping[str, tuple[str, ...]]

    # Which design of tasks there may be: "none", "core" or "extension".
    tasks: str

    # Methods whose handlers may ask the client: by requests after a handshake, else by a result
    # that is questions.
    asking_methods: frozenset[str]

    def has(self, capability: str) -> bool:
        """Whether clients can declare a capability in it, by its dotted name; elicitation without
        parts is by forms."""
        kind, _, part = capability.partition(".")
        parts = self.client_capabilities.get(kind)
        return parts is not None and (part in ("", *parts) or capability == "elicitation.form")


_2024_11_05 = Revision(
    name="2024-11-05",
    handshake=True,
    batches=True,  # neither defined nor forbidden: taken when they come, never sent
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

# The lists of a server that change, in all revisions: the capability of each to its member in the
# filter of `subscriptions/listen`. Some names are made of it: ``tools.listChanged``,
# ``notifications/tools/list_changed``. A new one also has to be written elsewhere: see "Adding a
# notification" in examples/design.rst.
LISTS = {
    "tools": "toolsListChanged",
    "prompts": "promptsListChanged",
    "resources": "resourcesListChanged",
}

# The methods whose results say how long they stay true, in revisions with `cache_hints`. By each,
# the kind of change that makes its results stale.
CACHEABLE = {
    "server/discover": None,
    "resources/read": "resource_updated",
    "tools/list": "tools_list_changed",
    "prompts/list": "prompts_list_changed",
    "resources/list": "resources_list_changed",
    "resources/templates/list": "resources_list_changed",
}

# What a client speaks over HTTP when neither a header nor a session says it.
WITHOUT_HEADER = _2025_03_26


def choose(names: Optional[Sequence[str]]) -> tuple[Revision, ...]:
    """The revisions that somebody wants to speak, oldest first.

    Args:
        names: Their names, in any order; None means all.

    Raises:
        ValueError: A name is unknown, or there is none.
        TypeError: This is one name, not a sequence of them.
    """
    if names is None:
        return REVISIONS
    if isinstance(names, str):
        raise TypeError(f"revisions is a sequence of names: did you mean [{names!r}]?")
    unknown = [name for name in names if name not in BY_NAME]
    if unknown or not names:
        known = ", ".join(BY_NAME)
        raise ValueError(
            f"unknown revision {unknown[0]!r}: known are {known}"
            if unknown
            else f"name one of {known}"
        )
    return tuple(revision for revision in REVISIONS if revision.name in names)
