"""`Feature`: the interface of everything that a server offers, and the modules that are loaded
late.

Tools, the other features of the specification, extensions of the protocol and an author's additions
are objects with this interface. The registry keeps them in one list, and knows nothing else about
them. A feature that a server does not use is not imported. The tables below name the modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Protocol, Union

from ..engine.incoming import IncomingRequest, Line, Route, Sink

if TYPE_CHECKING:
    from ..protocol.lifecycle import Peer
    from ..protocol.messages import Json, Notification
    from ..protocol.versions import Revision

# ------------------------------------------------------------ modules that are loaded late

# Python 3.9 sets `__package__` of a module in a zip file only after it has run.
PACKAGE = __name__.rsplit(".", 2)[0]

# Modules outside the core that a module of the core may import on first use, each with the feature
# of `minimcp vendor --with` that copies it. Any other import of them is a mistake, which
# tests/test_layers.py reports.
LATE: Mapping[str, str] = {
    "engine.rates": "rates",
    "extensions.apps": "apps",
    "extensions.tasks": "tasks",
    "features.access": "auth",
    "features.completion": "completion",
    "features.executors": "executors",
    "features.heartbeat": "logging",
    "features.input_rounds": "questions",
    "features.max_result": "logging",
    "features.methods": "methods",
    "features.mounting": "mount",
    "features.observers": "logging",
    "features.prompts": "prompts",
    "features.questions": "questions",
    "features.rates": "rates",
    "features.resources": "resources",
    "features.subscriptions": "subscriptions",
    "http.endpoint": "http",
    "http.legacy_sse": "http",
    "http.options": "http",
    "http.server": "http",
    "http.wsgi": "http",
    "schema.header_params": "http",
    "stores.processes": "stores",
    "stores.sessions": "http",
}


def load(module: str) -> Any:
    """Return a module of `LATE`; import it first if necessary.

    Args:
        module: The path below the package: "features.prompts".

    Raises:
        KeyError: The module is not in `LATE`.
        ImportError: A copy of the library was made without this module.
    """
    if module not in LATE:
        raise KeyError(f"{module} is not in the table of late imports")
    name = f"{PACKAGE}.{module}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        hint = f"vendor it with --with {LATE[module]}"
        raise ImportError(f"{name} is not in this copy: {hint}", name=name) from None


class LateFeature(NamedTuple):
    """The place of a feature that is loaded on first use.

    To add a feature, see "Adding a method" in examples/design.rst.
    """

    module: str
    """A module of `LATE`."""

    name: str
    """The name of the class. It is called with the registry."""


# The features that are created on first use, by their names for `Registry.feature`. A feature with
# a capability has the name of that capability.
FEATURES: Mapping[str, LateFeature] = {
    "access": LateFeature("features.access", "Access"),
    "completions": LateFeature("features.completion", "Completions"),
    "executors": LateFeature("features.executors", "Executors"),
    "heartbeats": LateFeature("features.heartbeat", "Heartbeats"),
    "lists": LateFeature("features.access", "ListMiddleware"),
    "max_result": LateFeature("features.max_result", "MaxResult"),
    "methods": LateFeature("features.methods", "Methods"),
    "mounting": LateFeature("features.mounting", "Mounting"),
    "prompts": LateFeature("features.prompts", "Prompts"),
    "rates": LateFeature("features.rates", "CallRate"),
    "resources": LateFeature("features.resources", "Resources"),
    "rounds": LateFeature("features.input_rounds", "InputRounds"),
    "subscriptions": LateFeature("features.subscriptions", "Subscriptions"),
    "visibility": LateFeature("features.access", "Visibility"),
}

# Maps the name of a decorator to the feature that creates its entries.
MAKERS: Mapping[str, str] = {"method": "methods", "prompt": "prompts", "resource": "resources"}

# Maps an option to the feature that reads it, if the decorator's own feature does not read it.
READERS: Mapping[str, str] = {
    "heartbeat": "heartbeats",
    "max_result": "max_result",
    "scopes": "access",
    "visible": "visibility",
}

# Maps a method to the feature that serves it. These methods need no registered entry.
METHOD_FEATURES: Mapping[str, str] = {"subscriptions/listen": "subscriptions"}

# Extensions of the library that have decorators or options.
EXTENSIONS = ("extensions.apps", "extensions.tasks")


def extension_with(name: str) -> Optional[str]:
    """Return the name of the extension class with this decorator or option; None if there is none.

    Used for messages only, because it imports the extensions.
    """
    for module in EXTENSIONS:
        for found in vars(load(module)).values():
            if not isinstance(found, type) or not issubclass(found, Feature):
                continue
            if name in found.options or name in found.makers:
                return found.__name__
    return None


# ------------------------------------------------------------ the interface


class OptionSpec(NamedTuple):
    """One option of a decorator or of `Server`: which values are accepted.

    The option classes in options.py repeat the names and types for type checkers.
    """

    types: tuple[type, ...] = (object,)
    """The accepted types."""

    what: str = ""
    """The accepted values in words, for messages: "True or False"."""

    check: Optional[Callable[[str, Any], object]] = None
    """Called with the option's label and its value; raises TypeError or ValueError."""


class HandOver(BaseException):
    """Unwinds a handler whose call a feature continues in another way (`Feature.around_call`).

    Do not catch it: ``except Exception`` lets it pass.
    """


# A route, or a function that finds one for the params of a request. It may raise an RpcError, and
# it must not block.
FindRoute = Callable[[Mapping[str, "Json"], "Peer"], Route]
Destination = Union[Route, FindRoute]


class OpenSession(NamedTuple):
    """A session that was opened with a handshake."""

    post: Callable[[Line], None]
    """Enqueues a line for the client."""

    lists: tuple[str, ...]
    """The kinds of lists for which the server declared change notifications."""

    uris: tuple[str, ...]
    """The resources to which the client has subscribed at another process."""

    is_paused: bool = False
    """Whether notifications are held back until `Subscriptions.resume`."""


class RegisteredEntry(Protocol):
    """The part of an entry, such as a tool or a prompt, that features may use."""

    kind: str
    """ "tool", "resource", "resource template", "prompt" or "method"."""

    key: str
    """The name or URI that requests use."""

    options: Mapping[str, Any]
    """The options that the author gave."""

    @property
    def owner(self) -> str:
        """The entry's name in messages: "tool 'add'"."""

    definition: Any
    """The wire object that describes the entry in lists."""

    route: Route
    """The destination of its requests."""


class Feature:
    """One thing that a server offers. Each method has a default that does nothing.

    An *entry* is one registered thing, such as a tool or a prompt (`RegisteredEntry`).

    Attributes:
        capability: The capability of the specification that this feature serves: "prompts". The
            routes of the feature exist only while the server offers such entries. None for features
            without a capability.
        identifier: The identifier of an extension; empty for other features.
        settings: The settings to declare with the identifier.
        makers: Maps a decorator ("tool", "prompt", ...) to the class of its entries.
        tables: The entries of the feature, each kind in a `Table`.
        options: The options of decorators that this feature reads. An author's `Extension` may list
            names only.
        names: Maps a method to the member of its params that the HTTP header ``Mcp-Name`` repeats.
        filters: The members that the feature adds to the filter of `subscriptions/listen`.
        refreshed_by: Methods of lists, such as "resources/list", that pass through `around_list`.
    """

    capability: Optional[str] = None
    identifier: str = ""
    settings: Mapping[str, Json] = {}
    makers: Mapping[str, Callable[..., Any]] = {}
    tables: Sequence[Any] = ()
    options: Union[Mapping[str, OptionSpec], Sequence[str]] = {}
    names: Mapping[str, str] = {}
    filters: Sequence[str] = ()
    refreshed_by: Sequence[str] = ()

    # ------------------------------------------------------------ requests and notifications

    def routes(self) -> Mapping[str, Destination]:
        """Return the methods that the feature serves, each with its destination.

        Called again after each change of the server's entries.
        """
        return {}

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Return the members that the feature adds to the server's capabilities.

        A member that exists already is merged: ``{"extensions": {"com.example/x": {}}}`` adds an
        extension to the others. If the result of an extension is not empty, the extension itself is
        declared too, unless the result has the member "extensions". A member that is None is left
        out.

        Args:
            revision: The client's revision.
            principal: The authenticated principal, or None.
        """
        return {}

    def notified(self, notification: Notification, peer: Optional[Peer]) -> bool:
        """Handle a notification of a client. Return False if it is not for this feature.

        Args:
            notification: The notification. Its method is "notifications/initialized" or a method
                that the library does not handle.
            peer: The client of the session; None in revisions without sessions.
        """
        return False

    # ------------------------------------------------------------ sessions

    def opened(self, peer: Peer, session: OpenSession) -> None:
        """Called when a session begins, and for each session that was open when the feature was
        loaded."""

    def closed(self, peer: Peer) -> None:
        """Called when a session has ended."""

    def draining(self, sink: Sink) -> None:
        """End everything that would stay open on a connection or response that is about to end."""

    # ------------------------------------------------------------ entries

    def added(self, entry: Any) -> None:
        """Called when an entry of one of the feature's own tables was registered."""

    def adapt(self, entry: Any) -> None:
        """Change how an entry is served (``entry.route``), or the ``execution`` of a tool.

        Called for every entry of this server and of the servers that it mounts.
        """

    def entry_meta(self, kind: str, name: str, options: Mapping[str, Any]) -> Mapping[str, Json]:
        """Return the members that the feature adds to the ``_meta`` of an entry.

        Args:
            kind: "tool", "resource", "resource template" or "prompt".
            name: The name or URI of the entry.
            options: The options that the author gave.

        Raises:
            TypeError, ValueError: An option has a value that is not accepted.
        """
        return {}

    def listened(self, member: str, wanted: Json, incoming: IncomingRequest) -> Mapping[str, str]:
        """Return what a client subscribes to with one of `filters` in `subscriptions/listen`.

        Args:
            member: The member of the filter.
            wanted: Its value.
            incoming: The request.

        Returns:
            The keys of the subscribed things, with their names in the acknowledgement.
        """
        return {}

    def refresh(self) -> None:
        """Update the entries before a list of them is sent. Runs on several worker threads."""

    def around_list(self, request: IncomingRequest, call_next: Callable[[], Any]) -> Any:
        """Serve one of the methods in `refreshed_by`, on a worker thread, and return the result.

        Args:
            request: The request.
            call_next: Runs the inner features, and returns the result: JSON text or an object.
        """
        self.refresh()
        return call_next()

    def uses(self, entry: RegisteredEntry) -> bool:
        """Return whether calls and lists of this entry pass through the three methods below.

        By default, an entry that has one of the feature's options does.
        """
        return any(entry.options.get(name) is not None for name in self.options)

    def blocks(self, entry: RegisteredEntry) -> bool:
        """Return whether `is_listed` or `before_call` may block for this entry, because they run
        code of the author. Then they are never called on a reader thread."""
        return False

    def is_listed(self, entry: RegisteredEntry, request: IncomingRequest) -> bool:
        """Return whether the entry appears in a list. Calls of a hidden entry fail as for an
        unknown name."""
        return True

    def before_call(self, entry: RegisteredEntry, request: IncomingRequest) -> Optional[Route]:
        """Decide about a call before it begins, and over HTTP before the response begins.

        It must not block, unless `blocks` returns True.

        Returns:
            The route of the request; None means the entry's route.

        Raises:
            RpcError: The call is rejected.
        """
        return None

    def around_call(
        self, entry: RegisteredEntry, request: IncomingRequest, call_next: Callable[[], Any]
    ) -> Any:
        """Run a call, on the handler's thread, and return its result for the wire.

        Args:
            entry: The entry.
            request: The request.
            call_next: Runs the inner features and the handler. It returns the result, or raises the
                handler's exception.
        """
        return call_next()


def overrides(feature: Feature, name: str) -> bool:
    """Return whether the class of a feature has its own method of this name."""
    return getattr(type(feature), name) is not getattr(Feature, name)
