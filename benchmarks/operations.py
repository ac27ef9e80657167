"""Workload `operations`: the cost of savepoints and restores by size of state, and how they slow down a stream."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.engines.flink_environment import FLINK_PYTHON
from benchmarks.operation_child import ROWS
from benchmarks.operation_model import OPERATION_ENGINES, PARTS, Operation, OperationCase
from benchmarks.runner import EngineFailedError, run_child

PARALLELISM = 2


class Sizes(NamedTuple):
    """The sizes of all cases.

    Attributes:
        stream_keys: Numbers of keys of the jobs with savepoints during a stream.
        epoch_records: Records of an epoch of that stream.
        savepoints: Number of savepoints during it.
        pairs: Number of pairs of phases, with and without savepoints.
        keys: Numbers of keys of the states that are written and restored.
        value_bytes: Length of their values.
        rounds: How often each is written and restored, besides the first time.
    """

    stream_keys: Sequence[int]
    epoch_records: int
    savepoints: int
    pairs: int
    keys: Sequence[int]
    value_bytes: int
    rounds: int


SMALL = Sizes((1_000, 50_000), 2_000, 4, 2, (5_000, 20_000), 100, 1)
"""Sizes that only show whether it works."""
FULL = Sizes((10_000, 5_000_000), 25_000, 20, 4, (200_000, 1_000_000, 2_000_000), 100, 3)
"""The sizes of the thresholds."""


class OperationReport(NamedTuple):
    """Rows, and the cases that failed."""

    results: list[Operation]
    failures: list[str]


def measure(
    folder: Path,
    tell: Callable[[str], None],
    sizes: Sizes,
    parts: Sequence[str] = PARTS,
    backend: str = "heap",
    engines: Sequence[str] = OPERATION_ENGINES,
) -> OperationReport:
    """Runs the cases of the parts, each in a separate process, and returns their rows.

    Args:
        folder: Folder for inputs and state.
        tell: Called with lines of progress.
        sizes: The sizes of all cases.
        parts: Names in `PARTS`.
        backend: Where the jobs hold their state.
        engines: Names in `OPERATION_ENGINES`; Flink is skipped, with a message, if it is not installed.
    """
    results: list[Operation] = []
    failures: list[str] = []
    if "flink" in engines and not FLINK_PYTHON.exists():
        engines = [engine for engine in engines if engine != "flink"]
        tell("Flink is not installed, so it is skipped: `make flink` installs it.")
    for case in cases(folder, sizes, parts, backend, engines):
        what = f"{case.engine}: {', '.join(case.parts)} with {case.keys:,} keys"
        tell(f"running {what}")
        try:
            rows = run_case(case)
        except EngineFailedError as error:
            failures.append(f"{what}: {error}")
            tell(failures[-1])
            continue
        for row in rows:
            tell(f"  {row.operation}, {row.label}: {row.median_seconds} s, results equal: {row.results_equal}")
        results += rows
    return OperationReport(results, failures)


def cases(
    folder: Path, sizes: Sizes, parts: Sequence[str], backend: str, engines: Sequence[str] = OPERATION_ENGINES
) -> list[OperationCase]:
    """Returns the cases: one per streaming job of Lakestate, and one per engine and size for all other parts."""
    has_streams = "native" in parts and "lakestate" in engines
    streams = [("lakestate", ("native",), keys, 8) for keys in sizes.stream_keys] if has_streams else []
    at_rest = tuple(part for part in PARTS if part in parts and part != "native")
    states = [(engine, at_rest, keys, sizes.value_bytes) for keys in sizes.keys for engine in engines if at_rest]
    return [
        OperationCase(
            parts=chosen,
            keys=keys,
            value_bytes=value_bytes,
            epoch_records=sizes.epoch_records,
            parallelism=PARALLELISM,
            other_parallelism=2 * PARALLELISM,
            backend=backend,
            savepoints=sizes.savepoints,
            pairs=sizes.pairs,
            rounds=sizes.rounds,
            work=str(folder / f"{engine}-{chosen[0]}-{keys}"),
            engine=engine,
        )
        for engine, chosen, keys, value_bytes in [*streams, *states]
    ]


def run_case(case: OperationCase) -> list[Operation]:
    """Runs a case and returns its rows.

    Raises:
        EngineFailedError: Its process ended with an error, or did not end in time.
    """
    work = Path(case.work)
    run_child("benchmarks.operation_child", msgspec.json.encode(case), work, "+".join(case.parts))
    rows = msgspec.json.decode((work / ROWS).read_bytes(), type=list[Operation])
    shutil.rmtree(work)
    return rows


__all__ = ["FULL", "PARALLELISM", "SMALL", "OperationReport", "Sizes", "cases", "measure", "run_case"]
