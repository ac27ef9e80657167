"""Workload `operations`: what savepoints and restores cost, by size of state, and what a stream loses by savepoints."""

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
    """How large everything is.

    Attributes:
        stream_keys: Numbers of keys of the jobs that savepoints are taken of beside a stream.
        epoch_records: Records of an epoch of that stream.
        savepoints: How many are taken beside it.
        pairs: Pairs of phases, with savepoints and without.
        keys: Numbers of keys of the states that are written out and restored.
        value_bytes: Length of its values.
        rounds: How often it is written and restored, besides the first time.
    """

    stream_keys: Sequence[int]
    epoch_records: int
    savepoints: int
    pairs: int
    keys: Sequence[int]
    value_bytes: int
    rounds: int


SMALL = Sizes((1_000, 50_000), 2_000, 4, 2, (5_000, 20_000), 100, 1)
"""Does it work? The figures mean little."""
FULL = Sizes((10_000, 5_000_000), 25_000, 20, 4, (200_000, 1_000_000, 2_000_000), 100, 3)
"""What the thresholds are about."""


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
    """Runs the cases of the parts, each in a process of its own, and returns their rows.

    Args:
        folder: Where inputs and state go.
        tell: Is told what goes on.
        sizes: How large everything is.
        parts: Names in `PARTS`.
        backend: Where the jobs hold their state.
        engines: Names in `OPERATION_ENGINES`; Flink is left out, and that is told, where it is not at hand.
    """
    results: list[Operation] = []
    failures: list[str] = []
    if "flink" in engines and not FLINK_PYTHON.exists():
        engines = [engine for engine in engines if engine != "flink"]
        tell("There is no Flink to compare with, so it is left out: `make flink` makes it.")
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
    """Returns the cases: one per stream of ours, and one per engine and size for all else."""
    beside = "native" in parts and "lakestate" in engines
    streams = [("lakestate", ("native",), keys, 8) for keys in sizes.stream_keys] if beside else []
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
