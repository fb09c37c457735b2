"""Middleware of a client: ``connect(middleware=[function])``."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Sequence
from weakref import ref

from ..protocol.messages import Json
from ..schema.mismatch import refuse_async
from .session import Params, Result, require_type

if TYPE_CHECKING:
    from .client import Client

Send = Callable[[str, Params], Result]


class ClientCall:
    """One call of a program, as middleware sees it. Use it on the thread of the call.

    Args:
        method: The method of the request. It may be replaced.
        params: The params without what the library adds. They may be changed or replaced.
        client: The client.
    """

    def __init__(self, method: str, params: Params, client: Client) -> None:
        self.method = method
        self.params: dict[str, Json] = dict(params)
        self.client = client

    def __repr__(self) -> str:
        return f"<ClientCall {self.method}>"


class ClientMiddleware:
    """The functions of ``middleware=``, the outermost first. Thread-safe.

    Args:
        functions: The functions.

    Raises:
        TypeError: They are not a list, or one does not take a call and ``call_next``.
    """

    def __init__(self, functions: Any) -> None:
        require_type(functions, (list, tuple), "middleware must be a list of functions")
        for function in functions:
            rule = "middleware must contain functions such as def log(call, call_next)"
            if not callable(function):
                raise TypeError(f"{rule}, not {repr(function):.60}")
            refuse_async(function, "middleware")
            try:
                inspect.signature(function).bind(None, None)
            except TypeError:
                raise TypeError(f"{rule}, but {function!r} takes other arguments") from None
        self._functions: Sequence[Any] = tuple(functions)

    def attach(self, client: Client) -> None:
        """Set the client of the calls."""
        self._client = ref(client)  # weak, so that an unused client is still found by its finalizer

    def run(self, method: str, params: Params, send: Send) -> Result:
        """Run the functions around a request and return the result.

        Args:
            method: The method.
            params: The params.
            send: Sends a request, and returns its result.

        Raises:
            TypeError: A function does not return a dict.
            BaseException: Any exception of a function, or of `send`.
        """
        client = self._client()
        assert client is not None
        call = ClientCall(method, params, client)
        call_next: Callable[[], Any] = lambda: send(call.method, call.params)  # noqa: E731
        for function in reversed(self._functions):
            call_next = partial(function, call, call_next)
        result = call_next()
        require_type(result, dict, f"middleware must return the dict of call_next() for {method}")
        return result  # type: ignore[no-any-return]
