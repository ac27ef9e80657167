"""Runs one case in its own process, and writes the outcome to its folder: `python -m benchmarks.child <case.json>`."""

import importlib
import sys
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from benchmarks.model import CONTENDERS, Case, Outcome

ENDS, FINAL, TASKS = "ends.json", "final", "tasks.json"


def main(path: str) -> None:
    """Runs a case, and writes the ends of its epochs and its final results."""
    case = msgspec.json.decode(Path(path).read_bytes(), type=Case)
    outcome: Outcome = importlib.import_module(CONTENDERS[case.engine].module).run(case)
    work = Path(case.work)
    (work / FINAL).mkdir()
    for name, table in outcome.final.items():
        pq.write_table(table, work / FINAL / f"{name}.parquet")
    (work / TASKS).write_bytes(msgspec.json.encode(dict(outcome.task_ms)))
    (work / ENDS).write_bytes(msgspec.json.encode(outcome.ends))


if __name__ == "__main__":
    main(sys.argv[1])
