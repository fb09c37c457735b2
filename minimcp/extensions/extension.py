"""`Extension`: what adds to the protocol, as a plain class that a server, a client or both are
given.

Nothing of it is there unless somebody names it: ``Server("x", extensions=[Greetings()])`` and
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
    """One extension of the protocol: subclass it, and mark its methods with `minimcp.method` and
    `notification`.

    One object serves one server, or any number of clients. A marked ``def say(self, params, ctx)``
    serves the requests of clients, as under `Server.method`, on worker threads, several at once; a
    client that did not declare the extension gets -32021. A marked ``def heard(self, params)`` gets
    the notifications of the other side: of clients on worker threads, of the server on the client's
    thread for callbacks, in order. In 2026-07-28 a server sends what `tell` is given only to
    streams that listen to it: there a client hears nothing until its program holds
    ``client.listen(filters=...)`` open. Everything that comes is untrusted.

    An extension is a `Feature`: a subclass may override its methods, too. `declare`, `notified`,
    `listened` and `before_call` are called by the thread that takes messages in, over stdio the one
    that reads: a subclass that overrides them must be quick, and must not wait.

    Attributes, which a subclass sets:
        identifier: What both sides declare it by, with a prefix that belongs to its author:
            "com.example/greetings". What breaks it for the other side gets a new one.
        settings: What is declared with it.
        names: From methods of requests to the member of their params that the header ``Mcp-Name``
            repeats over HTTP.
        filters: Members of the filter of `subscriptions/listen` that it understands; each is True
            or a list of text.
        result_types: From values of ``resultType`` to the methods whose results may have them, for
            clients; they go to `follow`.
        options: Options of `Server.tool` that it makes something of.
        refreshed_by: Lists of the specification, such as "resources/list", before each of which
            `refresh` is called.
        server: That it serves; None where it serves none.
    """

    settings: Mapping[str, Json] = {}
    result_types: Mapping[str, Sequence[str]] = {}

    server: Any = None

    # ------------------------------------------------------------ at a server

    def install(self, server: Any) -> None:
        """Become a part of a `Server`, before it has handlers; a subclass may add tools and
        resources here.

        Raises:
            TypeError, ValueError: The identifier is none, or a method cannot be what it is marked
                as.
            ValueError: This object serves another server.
        """
        check_extensions({self.identifier: self.settings})
        self.settings = plain_json(self.settings, f"the settings of {self.identifier}")
        if self.server is not None:
            raise ValueError(f"{type(self).__name__}() serves one server: make one for each")
        registry = server._registry
        self._config = registry.config
        if any(each.identifier == self.identifier for each in self._config.features):
            raise ValueError(
                f"{self.identifier} is given twice: a server has one of each extension"
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
        """As `Feature.declare`: by default the identifier with the settings."""
        return {"extensions": {self.identifier: dict(self.settings)}}

    def routes(self) -> Mapping[str, Destination]:
        """As `Feature.routes`: by default the marked methods, for clients with the extension."""
        return {name: partial(self._route, name) for name in self._method_handlers}

    def _route(self, method: str, params: Mapping[str, Json], peer: Peer) -> Route:
        """Return the route of a request.

        Raises:
            CapabilityNotSupported: The client did not declare the extension.
        """
        self._need(peer, method)
        return self._method_handlers[method].route

    def _need(self, peer: Peer, what: str) -> None:
        """Refuse to serve a client that did not declare the extension.

        Args:
            peer: The client.
            what: That needs it, for the message.

        Raises:
            CapabilityNotSupported: It did not.
        """
        if not peer.supports("ext:" + self.identifier):
            raise lacks("ext:" + self.identifier, what, peer.revision)

    def notified(self, notification: Notification, peer: Optional[Peer]) -> bool:
        """Have a notification of a client heard; False when it is none of these, or not for this
        client to send.

        Args:
            notification: It.
            peer: What the client declared; None where nothing is known of it, because requests
                stand alone.
        """
        method, params = notification
        function = self._notification_handlers.get(method)
        if function is None or not (peer is None or peer.supports("ext:" + self.identifier)):
            return False
        self.server._pool.submit(partial(copy_context().run, _hear, function, method, params))
        return True

    def listened(self, member: str, wanted: Json, incoming: IncomingRequest) -> Mapping[str, str]:
        """What a client hears of that listens with one of the `filters`: from keys, by which `tell`
        names them, to their names in the acknowledgement. True listens to the key "".

        Raises:
            CapabilityNotSupported: The client did not declare the extension.
            InvalidParams: It is neither True nor a list of text.
        """
        self._need(incoming.peer, member)
        if wanted is True:
            return {"": ""}
        if (
            not isinstance(wanted, list)
            or len(wanted) > MAX_URIS
            or not all(isinstance(each, str) for each in wanted)
        ):
            raise InvalidParams(f"{member} is true, or a list of at most {MAX_URIS} strings")
        return {each: each for each in wanted}

    def tell(
        self, method: str, params: Mapping[str, Json], member: str = "", key: str = ""
    ) -> None:
        """Send a notification to the sessions that declared the extension, and to the streams that
        listen to this.

        While a client does not read, only the newest of a method and key waits for it. Thread-safe;
        never blocks.

        Args:
            method: Of the notification.
            params: Of the notification.
            member: The filter that it belongs to; empty for a notification that no stream can
                listen to.
            key: What it is about, as `listened` names it.
        """
        self.subscriptions.notify_extension(
            "ext:" + self.identifier, method, dict(params), member, key
        )

    # ------------------------------------------------------------ at a client

    def follow(
        self, call: Any, method: str, params: Mapping[str, Json], result: dict[str, Json]
    ) -> dict[str, Json]:
        """Make the complete result of one with a ``resultType`` of this extension.

        Args:
            call: Sends what else is to be asked, in the time that the program gave:
                ``call.request(method, params)``.
            method: Of the request.
            params: Of the request.
            result: Its result.

        Raises:
            McpError: As it wants; the program's call raises it.
        """
        return result

    # ------------------------------------------------------------ at either

    def notification_handlers(self) -> dict[str, Callable[[dict[str, Json]], Any]]:
        """What hears notifications of the other side, by their methods. Raises TypeError: one of it
        is async."""
        found = {
            mark.arguments[0]: function
            for function, mark in marks_of(self)
            if mark.kind == "notification"
        }
        for name, function in found.items():
            refuse_async(function, f"what hears {name}")
        return found

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.identifier}>"


def cursor_at(list_name: str, position: str) -> str:
    """Return the cursor of a position in a list, the same in every process.

    The checksum guards no secret. It tells a cursor of this list from an invented one, also when
    what stood at the position is gone.
    """
    return f"{_checksum(list_name, position)}.{position}"


def position_of(list_name: str, params: Mapping[str, Json]) -> str:
    """Return the position that the ``cursor`` of a request names; "" if it has none.

    Raises:
        InvalidParams: The cursor is not one of this list.
    """
    cursor = params.get("cursor")
    if cursor is None:
        return ""
    checksum, _, position = cursor.partition(".") if isinstance(cursor, str) else ("", "", "")
    if not position or checksum != _checksum(list_name, position):
        raise InvalidParams("this cursor came with no page of this list: leave it out to begin")
    return position


def _checksum(list_name: str, position: str) -> str:
    from hashlib import sha256  # it loads OpenSSL

    text = f"{list_name}\0{position}"
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _hear(function: Callable[[dict[str, Json]], Any], method: str, params: dict[str, Json]) -> None:
    try:
        function(params)
    except Exception as error:
        log.error("what hears %s failed: %s", method, describe(error), exc_info=error)
