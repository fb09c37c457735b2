"""Where hypothesis keeps its notes: not in the repository, whose unknown folders are an error to pytest."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(tempfile.gettempdir(), "minimcp-hypothesis"))
