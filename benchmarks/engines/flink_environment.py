"""Where the peers that need an environment of their own have it: `make flink` makes it."""

import sys
from pathlib import Path

FLINK_PYTHON = Path(__file__).resolve().parents[2] / ".flink" / "bin" / "python"
FLINK = FLINK_PYTHON.parents[1] / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/pyflink"
