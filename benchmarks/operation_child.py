"""Runs one case of `operations` in its own process: `python -m benchmarks.operation_child <case.json>`."""

import sys
from pathlib import Path

import msgspec

from benchmarks.operation_model import OperationCase

ROWS = "rows.json"


def main(path: str) -> None:
    """Runs a case and writes the rows of the report to its folder."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=OperationCase)
    if case.engine == "flink":
        from benchmarks.operation_flink import run
    elif case.parts == ("native",):
        from benchmarks.operation_stream import run
    else:
        from benchmarks.operation_state import run
    rows = run(case)
    (Path(case.work) / ROWS).write_bytes(msgspec.json.encode(rows))


if __name__ == "__main__":
    main(sys.argv[1])
