"""Paths of Flink's separate environment, which `make flink` creates."""

import sys
from pathlib import Path

FLINK_PYTHON = Path(__file__).resolve().parents[2] / ".flink" / "bin" / "python"
FLINK = FLINK_PYTHON.parents[1] / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/pyflink"
