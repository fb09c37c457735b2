"""What every feature of one server needs to know about it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from ..protocol.lifecycle import SERVER_KEY
from ..protocol.messages import Json, to_json
from ..protocol.versions import Revision
from .places import Place

if TYPE_CHECKING:
    from .state import States


class Facts:
    """One server's name and options, as features see them.

    Args:
        info: How the server describes itself, as it goes over the wire.
        owner: The `Server`, for ``ctx.server``.
        instructions: For the client's model; None gives none.
        logging: Whether handlers may send log messages.
        mask_errors: Whether unexpected errors of tools keep their words to themselves.
        strict_arguments: Whether wrong arguments are an error of the protocol where the revision allows that.
        page_size: Items on a page of a list; None puts all on one.
        list_ttl: Seconds that lists stay true, for clients that keep them.
        list_cache_scope: "private" or "public".
        place: Where handlers run whose author says nothing else.
        states: Makes what clients carry between the rounds of a request; None signs with a key of this object's own.
        check_replay: Whether handlers that ask are run again after each answer, and watched.
        max_rounds: How often one request may ask for more; None sets no limit.
        ask_timeout: Seconds that answers of a client may take; None sets no limit.
        extensions: What is declared of extensions, by identifier; None declares none.
    """

    def __init__(
        self,
        info: Mapping[str, Json],
        *,
        owner: Any = None,
        instructions: Optional[str] = None,
        logging: bool = True,
        mask_errors: bool = False,
        strict_arguments: bool = False,
        page_size: Optional[int] = None,
        list_ttl: float = 0,
        list_cache_scope: str = "private",
        place: Place = None,
        states: Optional[States] = None,
        check_replay: bool = False,
        max_rounds: Optional[int] = 8,
        ask_timeout: Optional[float] = 600,
        extensions: Optional[Mapping[str, Json]] = None,
    ) -> None:
        self.info, self.owner, self.instructions = info, owner, instructions
        self.logging, self.mask_errors, self.strict_arguments = logging, mask_errors, strict_arguments
        self.page_size, self.place = page_size, place
        self._states, self._key = states, os.urandom(32)  # the key now: processes that are forked later share it
        self.check_replay, self.max_rounds, self.ask_timeout = check_replay, max_rounds, ask_timeout
        self.extensions = dict(extensions or {})
        self.hints = {"ttlMs": int(list_ttl * 1000), "cacheScope": list_cache_scope}
        self.adopt: Callable[[Place], Place] = lambda place: place
        """Set by what has the executors: from where a handler of a mounted server runs to where it runs here."""
        self.middleware: list[Callable[..., Any]] = []
        """What runs round every handler, the outermost first."""
        self.changed: Callable[[str], None] = lambda kind: None
        """Set by what has the subscribers: a kind ("tools") of things has more or fewer of them now."""
        self.read_resource: Callable[..., Any]
        """Set by what has the resources: ``(context, peer, uri)`` to the result."""
        self._stamp = {SERVER_KEY: dict(info)}
        self._closing = f',"resultType":"complete","_meta":{to_json(self._stamp)}'
        self._list_closing = f',{to_json(self.hints)[1:-1]}{self._closing}'

    @property
    def states(self) -> States:
        """What makes that which clients carry between rounds: made, and imported, with the first of it."""
        if self._states is None:
            from .state import states_of

            self._states = states_of(str(self.info["name"]), [self._key], None, lifetime=self.ask_timeout)
        return self._states

    def described(self, revision: Revision) -> dict[str, Json]:
        """How the server describes itself in a revision."""
        return {name: value for name, value in self.info.items() if name in revision.implementation_members}

    def closing(self, revision: Revision) -> str:
        """What stands at the end of every result in a revision, as JSON text that begins with a comma; often empty."""
        return self._closing if revision.result_type else ""

    def list_closing(self, revision: Revision) -> str:
        """The same for a result that clients may keep."""
        return self._list_closing if revision.cache_hints else self.closing(revision)

    def closed(self, result: dict[str, Json], revision: Revision) -> dict[str, Json]:
        """A result as an object with what stands at the end of every one; the handler's own members win."""
        if not revision.result_type:
            return result
        own = result.get("_meta")
        meta = {**self._stamp, **own} if isinstance(own, dict) else self._stamp
        return {"resultType": "complete", **result, "_meta": meta}
