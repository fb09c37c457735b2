"""Surroundings of the library: event loops, patched standard libraries, pools, exiting
interpreters.

`scene` is a server with everything that a program does with it. The tests and `under_gevent` run it
in different places.
"""
