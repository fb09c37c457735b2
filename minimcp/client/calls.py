"""Calls to one server in the way of its era: sent, waited for, cancelled, all at once.

Not here: which methods there are and what their results mean (see `client`).
"""

from __future__ import annotations

import logging
from copy import copy
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..engine.connection import Connection
from ..engine.requests import NEVER_CANCELLED, CancelToken, PendingCall
from ..engine.timer import Deadline
from ..engine.transport import SessionGone
from ..errors import Cancelled, CapabilityNotSupported, McpError, UnsupportedRevision
from ..protocol.lifecycle import Handshake
from ..protocol.messages import exception_of
from ..protocol.messages import Failure, Json
from ..schema.signature import refuse_async
from ..types import Progress
from .answering import Answerer
from .arguments import DEFAULT, check_token, moment, shown
from .input_rounds import Rounds, together, until_cancelled
from .negotiation import Era
from .own_calls import nothing, prepare
from .repeating import patiently, send_again

log = logging.getLogger("minimcp.client")

OnProgress = Callable[[Progress], Any]
Result = dict[str, Json]

AT_ONCE = 64
"""Requests that leave together at most when many are sent at once."""


class Calls:
    """One connection's calls. Thread-safe.

    Args:
        channel: The connection.
        era: What was agreed on it.
        timeout: Seconds for one call, if the call itself does not say; None waits for ever.
        answerer: The host's side; its clock is the one that calls are timed by.
    """

    def __init__(self, channel: Connection, era: Era, timeout: Optional[float], answerer: Answerer) -> None:
        self.channel, self.era, self._timeout = channel, era, timeout
        self._clock = answerer.clock
        self._rounds = Rounds(channel, era, answerer)
        self.renewed: Optional[Callable[[Deadline, Optional[CancelToken]], Calls]] = None
        """Gives the calls of the next session, when the server has ended this one; None where there is no next."""

    def deadline(self, timeout: Optional[float]) -> Deadline:
        """When a call with this ``timeout=`` is given up; it stands off while the host answers a question.

        Raises:
            TypeError: It is no number.
            ValueError: It is negative.
        """
        return moment("timeout", self._timeout if timeout is DEFAULT else timeout, self._clock.deadline)

    def request(
        self,
        method: str,
        params: Mapping[str, Json],
        deadline: Deadline,
        cancel: Optional[CancelToken],
        on_progress: Optional[OnProgress] = None,
        *,
        raw: bool = False,
    ) -> Result:
        """Call a method and return its result; arguments and errors as `Client.request`."""
        result = self._ask_again(method, params, deadline, cancel, on_progress)
        if raw or not self.era.is_asking(result):
            return result
        return self.finish(method, params, result, deadline, cancel, on_progress)

    def finish(
        self,
        method: str,
        params: Mapping[str, Json],
        result: Result,
        deadline: Deadline,
        cancel: Optional[CancelToken],
        on_progress: Optional[OnProgress] = None,
    ) -> Result:
        """Go on with a call whose first result is questions; arguments and errors as `Client.request`."""

        def send(params: Mapping[str, Json]) -> Result:
            return self._ask_again(method, params, deadline, cancel, on_progress)

        return self._rounds.finish(method, params, result, send, deadline, cancel)

    def _ask_again(
        self,
        method: str,
        params: Mapping[str, Json],
        deadline: Deadline,
        cancel: Optional[CancelToken],
        on_progress: Optional[OnProgress],
    ) -> Result:
        """Ask, and again where the server did not run it: for its revision, for a session that it ended, for now."""
        def ask() -> Result:
            try:
                return self._living(deadline, cancel)._ask(method, params, deadline, cancel, on_progress)
            except SessionGone as gone:
                if not self.refuses(gone):
                    raise
                following = self.next_session(deadline, cancel)
                return self._ask_anew(following, method, params, deadline, cancel, on_progress)
            except UnsupportedRevision as error:
                if not self.adopts(error):
                    raise
                return self._ask(method, params, deadline, cancel, on_progress)

        return patiently(self.channel, ask, deadline, cancel)

    def refuses(self, outcome: object) -> bool:
        """Whether this is the server's word that it did not run a request, because it has ended the session."""
        return isinstance(outcome, SessionGone) and outcome.refused and self.renewed is not None

    def _living(self, deadline: Deadline, cancel: Optional[CancelToken]) -> Calls:
        """These, or those of the next session if this one has ended already: nothing is sent here any more."""
        has_ended = self.renewed is not None and isinstance(self.channel.calls.cause, SessionGone)
        return self.next_session(deadline, cancel) if has_ended else self

    def next_session(self, deadline: Deadline, cancel: Optional[CancelToken]) -> Calls:
        """The calls of the next session. Errors as `Links.living`."""
        assert self.renewed is not None
        self.channel.wait_until_ended(deadline.remaining())
        return self.renewed(deadline, cancel)

    @staticmethod
    def _ask_anew(link: Calls, *asked: Any) -> Result:
        """Ask in the session that takes the place of one that the server has ended."""
        try:
            return link._ask(*asked)
        except SessionGone as gone:
            gone.args = (f"{gone}, and the one before it: do several processes serve this URL? They need a proxy that "
                         "sends a client to the same one always, or sessions=False",)
            raise

    def adopts(self, outcome: object) -> bool:
        """Whether this is the server's word that it speaks another revision, which is spoken from now on."""
        refused = isinstance(outcome, UnsupportedRevision) and outcome.from_peer
        return refused and not isinstance(self.era, Handshake) and self.era.adopt(outcome)  # type: ignore[arg-type]

    def _ask(
        self,
        method: str,
        params: Mapping[str, Json],
        deadline: Deadline,
        cancel: Optional[CancelToken],
        on_progress: Optional[OnProgress],
    ) -> Result:
        check_token(cancel)
        if on_progress is not None and not callable(on_progress):
            raise TypeError(f"on_progress is a function that takes a Progress, or None, not {shown(on_progress)}")
        refuse_async(on_progress, "on_progress")
        try:
            call = self.channel.calls.start(
                method,
                lambda id: self.era.dress(params, {} if on_progress is None else {"progressToken": id}),
                None if on_progress is None else _progress_to(on_progress),
                deadline=deadline,
            )
        except (TypeError, ValueError) as error:
            raise _explained(method, params, error) from None
        except SessionGone as gone:  # before this was sent
            gone = copy(gone)
            gone.refused = True
            raise gone from None
        result = self._outcome(call, params, deadline, cancel)
        if cancel is not None and cancel.cancelled:  # an answer may beat a token that was cancelled before it was sent
            raise Cancelled(cancel.reason or "cancelled")
        return result

    def _outcome(
        self, call: PendingCall, params: Mapping[str, Json], deadline: Deadline, cancel: Optional[CancelToken]
    ) -> Result:
        tell, about = call.method not in NEVER_CANCELLED, params.get("name", params.get("uri"))
        if cancel is None:
            ending = self.channel.calls.wait(call, deadline, tell=tell, about=about)
        else:
            forget = until_cancelled(self.channel.calls, call, cancel, tell=tell)
            try:
                ending = self.channel.calls.wait(call, deadline, tell=tell, about=about)
            finally:
                forget()
        if isinstance(ending, Failure):
            raise exception_of(ending, call.method, self.era.revision)
        return self.era.undress(call.method, ending)

    # ------------------------------------------------------------ many at once

    def at_once(
        self,
        method: str,
        params: Sequence[Mapping[str, Json]],
        deadline: Deadline,
        cancel: Optional[CancelToken],
    ) -> list[Union[Result, Exception]]:
        """Send many requests of one method from this thread; their results, or what went wrong, in the same order.

        What the server refuses is sent once more where `request` does so: for its revision, for a session that has
        ended, and because it takes no more now.

        Args:
            method: Of all of them.
            params: One for each request.
            deadline: Of all of them together.
            cancel: Ends all of them.

        Raises:
            Cancelled: The token was cancelled before anything was sent.
            ConnectionLost: Not all of them could be sent.
            ValueError, TypeError: Some params are no JSON; nothing was sent.
        """
        check_token(cancel)
        living = self._living(deadline, cancel)
        if living is not self:
            return living.at_once(method, params, deadline, cancel)
        outcomes = self.wave(method, params, deadline, cancel)
        send_again(self, method, params, outcomes, deadline, cancel)
        self._finish(method, params, outcomes, deadline, cancel)
        return outcomes

    def wave(
        self,
        method: str,
        params: Sequence[Mapping[str, Json]],
        deadline: Deadline,
        cancel: Optional[CancelToken],
    ) -> list[Union[Result, Exception]]:
        """As `at_once`, but what is refused is left at that, and so are questions."""
        pending = self._send(method, params)
        outcomes: list[Union[Result, Exception]] = []
        try:
            for call, one in zip(pending, params):
                try:
                    outcomes.append(self._outcome(call, one, deadline, cancel))
                except Exception as error:
                    outcomes.append(error)
        except BaseException:  # such as Ctrl-C: the server need not go on with the rest
            self._give_up(pending[len(outcomes):], "the caller gave up")
            raise
        return outcomes

    def _finish(
        self,
        method: str,
        params: Sequence[Mapping[str, Json]],
        outcomes: list[Union[Result, Exception]],
        deadline: Deadline,
        cancel: Optional[CancelToken],
    ) -> None:
        """Go on with those calls whose results are questions, all at once: one that nobody answers holds no other."""
        def is_asking(place: int) -> bool:
            outcome = outcomes[place]
            return not isinstance(outcome, Exception) and self.era.is_asking(outcome)

        def finish(place: int, first: Any) -> None:
            try:
                outcomes[place] = self.finish(method, params[place], first, deadline, token)
            except Exception as error:
                outcomes[place] = error

        asking = [place for place in range(len(outcomes)) if is_asking(place)]
        if not asking:
            return
        token = CancelToken()
        forget = nothing if cancel is None else cancel.on_cancel(partial(_pass_on, cancel, token))
        try:
            together(self.channel, [partial(finish, place, outcomes[place]) for place in asking], None)
        except (McpError, RuntimeError) as error:
            for place in filter(is_asking, asking):
                outcomes[place] = copy(error)
        finally:
            forget()
            token.cancel("the caller gave up")  # such as Ctrl-C: without it all have ended

    def _send(self, method: str, params: Sequence[Mapping[str, Json]]) -> list[PendingCall]:
        pending: list[PendingCall] = []
        lines: list[bytes] = []
        try:
            for one in params:
                try:
                    call, line = prepare(self.channel.calls, method, lambda id, one=one: self.era.dress(one, {}))  # type: ignore[misc]
                except (TypeError, ValueError) as error:
                    raise _explained(method, one, error) from None
                pending.append(call)
                lines.append(line)
            for start in range(0, len(lines), AT_ONCE):
                self.channel.send(b"".join(lines[start:start + AT_ONCE]))
        except BaseException:
            self._give_up(pending, "not sent")
            raise
        return pending

    def _give_up(self, pending: Sequence[PendingCall], reason: str) -> None:
        for call in pending:
            self.channel.calls.end(call, Cancelled(reason))

    # ------------------------------------------------------------ before a call

    def check(self) -> None:
        """Return if the connection lives.

        Raises:
            ConnectionLost: It has ended.
        """
        cause = self.channel.calls.cause
        if cause is not None:
            raise copy(cause)

    def need(self, capability: str) -> None:
        """Return if the server declares this.

        Raises:
            ConnectionLost: The connection has ended.
            CapabilityNotSupported: It does not.
        """
        self.check()
        if not self.era.peer.supports(capability):
            raise CapabilityNotSupported(f"{self.channel.name}: the server declares no {capability}")


def _explained(method: str, params: Mapping[str, Json], error: Exception) -> Exception:
    """An error of writing a request, as `remedies.explained` says it."""
    from ..schema.hints import explained

    return explained(method, params, error)


def _pass_on(given: CancelToken, token: CancelToken) -> None:
    token.cancel(given.reason)


def _progress_to(on_progress: OnProgress) -> Callable[[Any], None]:
    def hand_over(params: Any) -> None:
        try:
            item = Progress.from_wire(params)
        except ValueError as error:
            log.debug("<-- a progress notification that is none: %s", error)
            return
        on_progress(item)

    return hand_over
