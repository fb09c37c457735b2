"""The same mixed work for minutes, and whether anything grows: row C38 of the fault catalogue.

Several threads call, cancel, run out of time, are asked, subscribe, connect, close and vanish, over
memory, stdio and HTTP in all three ways (requests that stand alone, sessions with a stream,
HTTP+SSE), in rounds. Between two rounds all of them rest, every process collects its garbage, and
threads, descriptors, children and allocated memory of this process, and of two servers that live
all the time, are sampled. `samples` defines what counts as growth; at the end, when everything is
closed, threads, descriptors and children are again exactly what they were at the beginning.

``python -m tests.soak --minutes 2`` prints a table.
"""
