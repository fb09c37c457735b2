"""The one place where tests look inside the library: what they find there has other tests, and an
internal name that changes is changed here."""

from __future__ import annotations

from typing import Any, List

from minimcp.http import client_sse


def sessions_of(client: Any) -> Any:
    """The sessions that a client has had: it opens another when one is lost."""
    return client._sessions


def session_of(client: Any) -> Any:
    """The newest session of a client."""
    return client._sessions.newest


def config_of(server: Any) -> Any:
    """What the features of a server share: its store, its limits, its processes."""
    return server._config


def registry_of(server: Any) -> Any:
    """What a server offers."""
    return server._registry


def feature_of(server: Any, name: str) -> Any:
    """A feature of a server."""
    return server._registry.feature(name)


def tasks_of(server: Any) -> Any:
    """The `Tasks` of a server."""
    return next(each for each in config_of(server).features if type(each).__name__ == "Tasks")


def connections_of(server: Any) -> List[Any]:
    """The connections of a server that are open."""
    return list(server._connections.values())


def incoming_of(context: Any) -> Any:
    """The request that a context belongs to."""
    return context._incoming


def forget_servers() -> None:
    """Forget which URLs speak the transport of 2024-11-05."""
    client_sse._known.clear()


def waits_on(owner: Any, condition: str = "_changed") -> int:
    """How many threads wait on a condition of an object."""
    return len(getattr(owner, condition)._waiters)


def stop_hearing(processes: Any) -> None:
    """Have the `Processes` of a server hear no more, whoever uses them, as if killed."""
    processes._stopped.cancel()
    processes._called.cancel()
