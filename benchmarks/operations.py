"""Workload `operations`: what savepoints and restores cost, by size of state, and what a stream loses by savepoints."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.operation_child import ROWS
from benchmarks.operation_model import PARTS, Operation, OperationCase
from benchmarks.runner import EngineFailedError, run_child

PARALLELISM = 2


class Sizes(NamedTuple):
    """How large everything is.

    Attributes:
        stream_keys: Numbers of keys of the jobs that savepoints are taken of beside a stream.
        epoch_records: Records of an epoch of that stream.
        savepoints: How many are taken beside it.
        pairs: Pairs of phases, with savepoints and without.
        keys: Of the state that is written out and restored.
        value_bytes: Length of its values.
        rounds: How often it is written and restored, besides the first time.
    """

    stream_keys: Sequence[int]
    epoch_records: int
    savepoints: int
    pairs: int
    keys: int
    value_bytes: int
    rounds: int


SMALL = Sizes((1_000, 50_000), 2_000, 4, 2, 20_000, 100, 1)
"""Does it work? The figures mean little."""
FULL = Sizes((10_000, 5_000_000), 25_000, 20, 4, 2_000_000, 100, 3)
"""What the thresholds are about."""


class OperationReport(NamedTuple):
    """Rows, and the cases that failed."""

    results: list[Operation]
    failures: list[str]


def measure(
    folder: Path, tell: Callable[[str], None], sizes: Sizes, parts: Sequence[str] = PARTS, backend: str = "heap"
) -> OperationReport:
    """Runs the cases of the parts, each in a process of its own, and returns their rows.

    Args:
        folder: Where inputs and state go.
        tell: Is told what goes on.
        sizes: How large everything is.
        parts: Names in `PARTS`.
        backend: Where the jobs hold their state.
    """
    results: list[Operation] = []
    failures: list[str] = []
    for case in cases(folder, sizes, parts, backend):
        what = f"{', '.join(case.parts)} with {case.keys:,} keys"
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


def cases(folder: Path, sizes: Sizes, parts: Sequence[str], backend: str) -> list[OperationCase]:
    """Returns the cases: one per stream, and one for all that is done to a state at rest."""
    streams = [(("native",), keys, 8) for keys in sizes.stream_keys] if "native" in parts else []
    at_rest = tuple(part for part in PARTS if part in parts and part != "native")
    states = [(at_rest, sizes.keys, sizes.value_bytes)] if at_rest else []
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
            work=str(folder / f"{chosen[0]}-{keys}"),
        )
        for chosen, keys, value_bytes in [*streams, *states]
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
