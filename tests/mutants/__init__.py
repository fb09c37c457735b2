"""Throws changed inputs at the library: ``python -m tests.mutants``.

A mutant is a valid input with a few changes, and has a name, "kind:seed:number", from which it can
be made again: ``python -m tests.mutants --only schemas:1:4711``. Each kind has a corpus of valid
inputs and a judge, which reports what is wrong with the handling of a mutant. `lines` and
`requests` go to a server process, `answers` to a client that calls tools over a socket; all others
are given to the parts of the library that read them, in the process of the judge. The program
itself survives: a mutant that ends or hangs its process is reported, and the next one is tried.
"""
