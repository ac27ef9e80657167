"""The modules of the scenarios stand for themselves: the recorder imports them without this project."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "flink")]
