"""Starts plain.py with its own stdin and stdout, says the server's process id on stderr, and waits to be killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

child = subprocess.Popen([sys.executable, "-S", str(Path(__file__).with_name("plain.py")), sys.argv[1]])
print(child.pid, file=sys.stderr, flush=True)
child.wait()
