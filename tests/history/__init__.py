"""Calls over a bad line, from a seed, and a checker of their outcomes: row C66 of the fault catalogue.

Our client and our server communicate through a `relay` that delays, drops, duplicates, reorders,
cuts, kills and restarts. The fault of a line depends on the seed and on the contents of the line,
not on its time. Every process writes its events to one `record`. At the end, the `checker` reads only
the record and reports errors.

Where the line itself breaks the protocol, these outcomes are correct:

* A request that arrives twice while its first copy runs is rejected with -32600, and that error has
  the same id. So the call may end with the error or with the result, whichever arrives first. A
  copy that arrives after the result runs again, because an id may be used again then. So a handler
  runs at most once for each copy that reached the server, and each copy has at most one response.
  The client itself sends each call once.
* A request to the client (elicitation) may arrive twice, too late or never, and so may its response.
  Then the handler may fail, or wait until its call is over. In revisions with rounds, a call is sent
  once per round. The second copy of a retry is rejected with -32602, and the call may end with that
  error.
* Progress that overtakes other progress reaches the caller in the order of delivery. Progress that
  arrives after the response is dropped. A call that ends with its response has received all progress
  that was delivered before that response.
* A cancellation that overtakes its request cancels nothing, so the request runs, and no caller waits
  for the response.
* A server that was restarted behind an unbroken line has no session, so it may reject every request.
  Requests that were running get no response.
* After a cut or a kill, every call on that connection ends with the loss. With ``restart=True``, the
  next call opens a new connection, and only calls that were never sent may use it.
* At the end of its input, a server answers the requests that it has received within its grace
  period, and exits. Its responses arrive before the loss. A handler that waits for a question fails
  then, and so may its call.
* A call may time out as soon as its deadline has passed, whatever the reason, and not before.
  However, if a response was delivered before the response of another call, and that call ended
  before the deadline, then the first response arrived in time.

Over HTTP, the `web_relay` delays requests, drops or cuts their connections, sends them twice, cuts
responses in the middle, and replaces a server that ends or is killed. There, stricter rules apply:

* A call is sent once, once more for each round, and once more if the response says that the session
  is unknown, because the call has certainly not run then. So its handler runs once, except for
  rounds and for requests that the relay doubled.
* The client requests the rest of a cut stream if the server supports that; otherwise the call is
  lost.
* When the faults stop, the next call succeeds. The client opens a new session if it has to.

With ``--shared``, three server processes share a store, a file or Redis, and the relay sends each
request to the next process. At some requests it kills a process with SIGKILL and starts another one.
The rules are stricter still:

* No session ends, and every process knows every session: no request is rejected, and the remaining
  processes respond.
* Only calls that ran in a killed process are lost. Such a call ends with its connection or, if the
  client requests the rest of the stream elsewhere, with an error that says so. A client that waits
  long enough always gets an answer.
* Progress is complete, however often a stream was resumed: no item is missing or repeated. Two
  clients with the same ids in their own sessions call side by side, and each gets its own results.

``python -m tests.history --seeds 200`` runs seeds, and three over HTTP for ten others, and prints
the outcomes. ``--seed 17`` runs one, ``--seed h17`` one over HTTP, ``--seed s17`` one with a store,
and prints its whole record. A seed that fails prints its record. The system schedules threads
freely, so a seed repeats the faults of each line, but not their times.
"""
