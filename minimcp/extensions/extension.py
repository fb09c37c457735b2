"""`Extension`: an addition to the protocol, as a plain class for a server, a client or both.

An extension has no effect until it is named: ``Server("x", extensions=[Greetings()])`` and
``connect(target, extensions=[Greetings()])`` declare it, each with its settings.
https://modelcontextprotocol.io/seps/2133-extensions
"""

from __future__ import annotations

from contextvars import copy_context
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence

from ..engine.incoming import IncomingRequest, Route
from ..errors import InvalidParams
from ..features.methods import RegisteredMethod
from ..features.subscriptions import MAX_URIS, Subscriptions
from ..log import logger
from ..protocol.lifecycle import Peer, lacks
from ..protocol.messages import Json, Notification
from ..protocol.versions import Revision
from ..schema.mismatch import plain_json, refuse_async
from ..server.feature import Destination, Feature
from ..server.options import marks_of
from ..text import describe
from ..types.meta import check_extensions

log = logger("minimcp.extensions")


class Extension(Feature):
    """An extension of the protocol. Subclass it, and mark its methods with `minimcp.method` and
    `notification`.

    One object serves one server, or any number of clients. A method that is marked with `method`,
    such as ``def say(self, params, ctx)``, serves requests of clients as with `Server.method`, on
    several worker threads at the same time. A client that did not declare the extension gets the
    error -32021.

    A method that is marked with `notification`, such as ``def heard(self, params)``, receives
    notifications of the other side: from clients on worker threads, from a server in order on the
    client's callback thread. In 2026-07-28, a server sends the notifications of `tell` only to
    streams that listen to them, so a client's program must keep ``client.listen(filters=...)``
    open. Data from the other side is not verified.

    An extension is a `Feature`, and a subclass may also override the methods of `Feature`. The
    reader thread calls `declare`, `notified`, `listened` and `before_call`, so they must not block.

    Attributes, which a subclass sets:
        identifier: The name of the extension, with a prefix that belongs to its author:
            "com.example/greetings". A change that is not compatible needs a new identifier.
        settings: The settings to declare with it.
        names: By method of a request, the member of the params that the header ``Mcp-Name`` repeats
            over HTTP.
        filters: Members that it adds to the filter of `subscriptions/listen`; each is True or a
        list of strings.
        result_types: By value of ``resultType``, the methods whose results may have it. A client
        passes these results to `follow`.
        options: The options of `Server.tool` that it reads.
        refreshed_by: Lists of the specification, such as "resources/list", before each of which
            `refresh` is called.
        server: The server of this object; None if it has none.
    """

    result_types: Mapping[str, Sequence[str]] = {}

    server: Any = None

    # ------------------------------------------------------------ in a server

    def install(self, server: Any) -> None:
        """Join a `Server` before it has handlers. A subclass may add tools and resources here.

        Raises:
            TypeError, ValueError: The identifier is invalid, or a method cannot be what it is
                marked as.
            ValueError: This object serves another server.
        """
        check_extensions({self.identifier: self.settings})
        self.settings = plain_json(self.settings, f"the settings of {self.identifier}")
        if self.server is not None:
            raise ValueError(
                f"{type(self).__name__}() belongs to one server: create one for each server"
            )
        registry = server._registry
        self._config = registry.config
        if any(each.identifier == self.identifier for each in self._config.features):
            raise ValueError(
                f"{self.identifier} is passed twice: a server can have only one of each extension"
            )
        self._method_handlers = {}
        for function, mark in marks_of(self):
            if mark.kind == "method":
                name = mark.arguments[0]
                made = RegisteredMethod(self._config, function, {}, name, extension=True)
                self._method_handlers[name] = made
        self._notification_handlers = self.notification_handlers()
        self.server = server
        registry.add_feature(self)

    @property
    def subscriptions(self) -> Subscriptions:
        """The sessions and streams that `tell` notifies."""
        found: Subscriptions = self._config.feature("subscriptions")
        return found

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Return the capabilities, see `Feature.declare`.

        By default, the identifier with its settings. An override that returns other members adds
        them to the identifier: ``{"notes": {}}`` declares both. It returns ``{}`` to declare
        nothing to this client, and ``{"notes": {}, "extensions": None}`` to declare the members
        without the identifier.
        """
        return {"extensions": {self.identifier: dict(self.settings)}}

    def routes(self) -> Mapping[str, Destination]:
        """Return the routes, see `Feature.routes`. By default, those of the marked methods."""
        return {name: partial(self._route, name) for name in self._method_handlers}

    def _route(self, method: str, params: Mapping[str, Json], peer: Peer) -> Route:
        """Return the route of a request.

        Raises:
            CapabilityNotSupported: The client did not declare the extension.
        """
        self._need(peer, method)
        return self._method_handlers[method].route

    def _need(self, peer: Peer, what: str) -> None:
        """Reject a client that did not declare the extension.

        Args:
            peer: The client.
            what: The method or option that needs the extension, for the message.

        Raises:
            CapabilityNotSupported: The client did not declare the extension.
        """
        if not peer.supports("ext:" + self.identifier):
            raise lacks("ext:" + self.identifier, what, peer.revision)

    def notified(self, notification: Notification, peer: Optional[Peer]) -> bool:
        """Pass a notification of a client to its marked method.

        Args:
            notification: The notification.
            peer: The client; None in stateless revisions, where its capabilities are unknown.

        Returns:
            False if no method is marked for it, or the client did not declare the extension.
        """
        method, params = notification
        function = self._notification_handlers.get(method)
        if function is None or not (peer is None or peer.supports("ext:" + self.identifier)):
            return False
        self.server._pool.submit(partial(copy_context().run, _handle, function, method, params))
        return True

    def listened(self, member: str, wanted: Json, incoming: IncomingRequest) -> Mapping[str, str]:
        """Return what a client subscribes to with one of the `filters`.

        Returns:
            The keys that `tell` uses, with their names in the acknowledgement. True subscribes to
            the key "".

        Raises:
            CapabilityNotSupported: The client did not declare the extension.
            InvalidParams: The value is neither True nor a list of strings.
        """
        self._need(incoming.peer, member)
        if wanted is True:
            return {"": ""}
        if (
            not isinstance(wanted, list)
            or len(wanted) > MAX_URIS
            or not all(isinstance(each, str) for each in wanted)
        ):
            raise InvalidParams(f"{member} must be true or a list of at most {MAX_URIS} strings")
        return {each: each for each in wanted}

    def tell(
        self, method: str, params: Mapping[str, Json], member: str = "", key: str = ""
    ) -> None:
        """Send a notification to sessions that declared the extension, and to streams that listen
        to it.

        While a client does not read, only the newest notification of each method and key is kept
        for it. Thread-safe; never blocks.

        Args:
            method: The method of the notification.
            params: The params of the notification.
            member: The filter of the notification; empty if streams cannot listen to it.
            key: The subject of the notification, as `listened` names it.
        """
        self.subscriptions.notify_extension(
            "ext:" + self.identifier, method, dict(params), member, key
        )

    # ------------------------------------------------------------ in a client

    def follow(
        self, call: Any, method: str, params: Mapping[str, Json], result: dict[str, Json]
    ) -> dict[str, Json]:
        """Return the complete result for a result with a ``resultType`` of this extension.

        Args:
            call: Sends more requests within the timeout of the caller: ``call.request(method,
                params)``.
            method: The method of the request.
            params: The params of the request.
            result: Its result.

        Raises:
            McpError: Any error; the caller's call raises it.
        """
        return result

    # ------------------------------------------------------------ at both

    def notification_handlers(self) -> dict[str, Callable[[dict[str, Json]], Any]]:
        """Return the marked methods for notifications, by notification.

        Raises:
            TypeError: One of them is async.
        """
        found = {
            mark.arguments[0]: function
            for function, mark in marks_of(self)
            if mark.kind == "notification"
        }
        for name, function in found.items():
            refuse_async(function, f"the handler of {name}")
        return found

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.identifier}>"


def cursor_at(list_name: str, position: str) -> str:
    """Return the cursor of a position in a list, the same in every process.

    The checksum is not a secret. It distinguishes cursors of this list from invented ones, even if
    the item at the position no longer exists.
    """
    return f"{_checksum(list_name, position)}.{position}"


def position_of(list_name: str, params: Mapping[str, Json]) -> str:
    """Return the position in the ``cursor`` of a request; "" if it has none.

    Raises:
        InvalidParams: The cursor does not belong to this list.
    """
    cursor = params.get("cursor")
    if cursor is None:
        return ""
    checksum, _, position = cursor.partition(".") if isinstance(cursor, str) else ("", "", "")
    if not position or checksum != _checksum(list_name, position):
        raise InvalidParams("the cursor does not belong to this list: omit it for the first page")
    return position


def _checksum(list_name: str, position: str) -> str:
    from hashlib import sha256  # not at the top: it loads OpenSSL

    text = f"{list_name}\0{position}"
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _handle(
    function: Callable[[dict[str, Json]], Any], method: str, params: dict[str, Json]
) -> None:
    try:
        function(params)
    except Exception as error:
        log.error("the handler of %s failed: %s", method, describe(error), exc_info=error)
