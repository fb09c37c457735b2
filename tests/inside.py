"""The only place where tests read private attributes of the library. Other tests cover these
attributes, and a renamed attribute is changed only here."""

from __future__ import annotations

import json
from typing import Any, Dict, List

from minimcp.client import client as client_module
from minimcp.http import client_sse


def sessions_of(client: Any) -> Any:
    """The sessions that a client has had: it opens another when one is lost."""
    return client._sessions


def session_of(client: Any) -> Any:
    """The newest session of a client."""
    return sessions_of(client).newest


def config_of(server: Any) -> Any:
    """Return the shared configuration of a server's features: its store, its limits, its processes."""
    return server._config


def registry_of(server: Any) -> Any:
    """Return the registry of a server."""
    return server._registry


def feature_of(server: Any, name: str) -> Any:
    """A feature of a server."""
    return registry_of(server).feature(name)


def tasks_of(server: Any) -> Any:
    """The `Tasks` of a server."""
    return next(each for each in config_of(server).features if type(each).__name__ == "Tasks")


def connections_of(server: Any) -> List[Any]:
    """The connections of a server that are open."""
    return list(server._connections.values())


def incoming_of(context: Any) -> Any:
    """The request that a context belongs to."""
    return context._incoming


def waiting_of(occurrences: Any) -> int:
    """The number of messages that wait in a subscription of a client."""
    return len(occurrences._waiting)


def known_servers() -> Any:
    """The kinds of session that URLs have led to, by URL."""
    return client_sse._known


def forget_servers() -> None:
    """Forget which kinds of session URLs have led to."""
    known_servers().clear()


def waits_on(owner: Any, condition: str = "_changed") -> int:
    """How many threads wait on a condition of an object."""
    return len(getattr(owner, condition)._waiters)


def stop_hearing(processes: Any) -> None:
    """Stop the listening threads of a server's `Processes`, as a kill would."""
    processes.stopped.cancel()
    processes.called.cancel()


def running_tasks(tasks: Any) -> Any:
    """Return the requests of tasks whose handlers have not ended."""
    return tasks._running


def endpoint_of(running: Any) -> Any:
    """The endpoint of a running HTTP server."""
    return running._http


def open_responses(core: Any) -> List[Any]:
    """The responses of an endpoint that have not ended."""
    return list(core._open.values())


def kept_connections(running: Any) -> Any:
    """The connections of an HTTP server that no thread serves: idle, slow or leaving."""
    return running._kept


def left_connections(running: Any) -> Any:
    """Return the connections of an HTTP server whose handlers run although the client has left."""
    return running._left


def token_checks(core: Any) -> Any:
    """Return the responses of an endpoint whose token is checked again."""
    return core.token_checks


def turns_of(shares: Any) -> Any:
    """Return the number of counted handlers of each client."""
    return shares._turns


def waiting_turns(shares: Any) -> Any:
    """The handlers that wait for their client's turn."""
    return shares._waiting


def pauses_of(deadline: Any) -> int:
    """How many questions pause a deadline."""
    return int(deadline.pauses)


def waiters_of(store: Any) -> Any:
    """The events of threads that wait in a store, by key."""
    return store._waiters


def sessions_with_changes(subscriptions: Any) -> Any:
    """The sessions that are notified of changes, by peer."""
    return subscriptions._sessions


def streams_with_changes(subscriptions: Any) -> Any:
    """The streams of `subscriptions/listen`, by request."""
    return subscriptions._streams


def cached(cache: Any) -> int:
    """How many results a cache holds."""
    return len(cache._entries)


def callbacks_of(token: Any) -> Any:
    """The functions that a token calls when it is cancelled."""
    return token.callbacks


def sweep(calls: Any) -> None:
    """Check the deadlines of calls, as the timer does."""
    calls.look()


def written_streams(events: Any) -> Any:
    """The streams of which an event store of several processes knows, by session."""
    return events._written


def close_clients_at_exit() -> None:
    """Close all open clients, as the interpreter does when it exits."""
    client_module.close_at_exit()


def connection_of(client: Any) -> Any:
    """The connection of a client's newest session."""
    return session_of(client)._connection


def pools_of(fetcher: Any) -> Any:
    """Return the connection pools of a `Fetcher`, by their targets."""
    return fetcher._pools


def runs_of(server: Any) -> Any:
    """The calls of `Server.run` that have not returned."""
    return server._runs


def modules_of(package: Any) -> Any:
    """The names that a package loads on first use, by module."""
    return package._MODULES


def make_endpoint(server: Any, **options: Any) -> Any:
    """A new endpoint of a server."""
    return server._endpoint("/mcp", **{"max_streams": server._limits.streams, **options})


def exchange_of(entry: Any) -> Any:
    """Return the HTTP exchange that read the catalog of an entry."""
    return entry._reader.exchange


def webhook_rows(events: Any) -> Dict[str, Any]:
    """The webhook subscriptions of an `Events`, by id."""
    found = events.store.list(events.deliverer.prefix)
    return {entry.key.rpartition(":")[2]: json.loads(entry.value) for entry in found}


def allow_private_callbacks(events: Any) -> None:
    """Let the webhooks of a running `Events` reach this machine."""
    deliverer = events.deliverer
    deliverer._options = deliverer._options.replace(private_addresses=True)
