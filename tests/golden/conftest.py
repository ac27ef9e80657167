"""Modules of scenarios are imported by their plain names: the recorder imports them without this project."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "flink")]
