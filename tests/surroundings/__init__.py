"""What programs do round the library: loops, patched standard libraries, pools, ends of
interpreters.

`scene` is a server and all that a program does with it; the tests and `under_gevent` play it in
different places.
"""
