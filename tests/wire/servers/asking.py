"""The server of tests/interaction/questions_server.py as a script of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.interaction.questions_server import build  # noqa: E402

build(**json.loads(sys.argv[1])).run()
