"""Starts a command with its own stdin and stdout, says its process id on stderr, and waits to be killed."""

import subprocess
import sys

child = subprocess.Popen(sys.argv[1:])
print(child.pid, file=sys.stderr, flush=True)
child.wait()
