"""Calls over a bad line, from a seed, and a checker of what became of them: row C66 of the fault
catalogue.

A client and a server of ours talk through a `relay` that delays, drops, duplicates, reorders, cuts,
kills and restarts; what it does to a line depends on the seed and on what the line says, not on
when it comes. Everybody notes what happens in one `record`; when all is over the `checker` looks at
the record alone and says what should not have happened.

What is rightful where the line itself breaks the protocol:

* A request that comes twice while the first is being worked on is refused with -32600, and that
  refusal carries the same id: the call may end with it, or with the answer, whichever comes first.
  A request that comes again when the first is answered is run again, because an id may be used
  again then. So a handler runs at most once for each copy that reached the server, and each copy is
  answered at most once. The client itself sends each call once.
* What asks the client (elicitation) may come twice, too late or never, and so may the answer: the
  handler that asked may then fail, or wait until its call is over. Where a revision has rounds
  instead, a call is sent once per round; the second copy of what answers a question is refused with
  -32602, and the call may end with that.
* Progress that overtakes other progress reaches the caller in the order in which the line delivered
  it, and progress that the answer overtook does not reach it: what counts is the line's order. A
  call that ends by its answer has had all progress that was delivered before that answer.
* A cancellation that overtakes its request cancels nothing, so the request is run; nobody waits for
  the answer.
* A server that was restarted behind an unbroken line knows nothing of a handshake: it may refuse
  every request. What was under way is answered by nobody.
* After a cut or a kill every call on that connection ends with the loss, and with ``restart=True``
  a new connection is begun by the next call; only calls that were never sent may go there.
* At the end of its input a server answers what had reached it and is done within its grace, and
  ends. What it answered comes before the loss. A question that it waits with fails then, and so may
  the call.
* A call may time out as soon as its time is over, whatever the reason, and not before. But an
  answer that was delivered before another one, which ended its call before that time was over, had
  arrived.

Over HTTP the `web_relay` delays requests, drops or cuts their connections, sends them twice, cuts
responses in the middle, and puts another server in the place of one that ends or is killed. There
more is sure:

* A call is sent once, once more for each round, and once more when what came back was that the
  session is unknown: it was not run then, for sure. So its handler runs once, but for rounds and
  for requests that the relay doubled.
* What a cut stream still had to bring is asked for where the server can be asked for it; else the
  call is lost.
* When nothing is wrong any more, the next call is answered: the client begins a new session when it
  has to.

With ``--shared`` three server processes share a store, a file or Redis, and the relay sends each
request to the next one; at some requests it kills one of them by SIGKILL, and starts another one.
There is more to it still:

* No session ends, and none is unknown to a process: nothing is refused, and what is left of the
  processes answers.
* Only what ran in a process that was killed is lost: the call ends with its connection, or, where
  the client asks for the rest of the stream elsewhere, with an error that says so. Who has the time
  for it is never left without a word.
* Progress is whole, however often a stream was resumed: nothing is left out, nothing comes twice.
  Two clients with the same ids in sessions of their own call side by side, and each has its own
  answers.

``python -m tests.history --seeds 200`` runs seeds, and three over HTTP for ten others, and prints
what came of them; ``--seed 17`` runs one, ``--seed h17`` one over HTTP, ``--seed s17`` one with a
store, and prints all of its record. A seed that fails prints its record.
Threads run as the system lets them, so a seed repeats what happens to each line, and not the
moment.
"""
