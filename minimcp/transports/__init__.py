"""How lines get from one peer to the other: memory, a child process, the standard streams. Floor 5.

`lines` is the folder's base; the other files use it and not each other, but for what child.py was split into.
"""
