"""Becomes plain.py with one standard stream closed: the descriptor number stands in the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.close(int(os.environ["CLOSE"]))
os.execv(sys.executable, [sys.executable, "-S", str(Path(__file__).with_name("plain.py")), *sys.argv[1:]])
