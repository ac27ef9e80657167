"""Workload `running_count`: emit, with each record, how many records its key has had so far."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.data import checks_of_counts, count_truth, first_epochs, records_truth, write_running_count
from benchmarks.environment import FLINK_PYTHON
from benchmarks.model import ENGINES, PASS_THROUGH, RUNNING_COUNT, Case, Result
from benchmarks.runner import EngineFailedError, middle, result_of, run_case
from benchmarks.steady import epochs_for

PARALLELISM = 2
AT_HAND = [name for name, engine in ENGINES.items() if engine.engine != "flink" or FLINK_PYTHON.exists()]
"""The engines that can run; `make flink` gets the others."""


class Plan(NamedTuple):
    """What is run.

    Attributes:
        records: Size of the data set; replayed when that gives too few epochs.
        keys: Number of keys it is drawn from.
        epochs: Sizes of epochs, in records.
        key_types: `int`, `string`.
        engines: Names in `ENGINES`.
        slow_epochs: How many epochs a slow engine reads; the others read all.
        rounds: How often each case is run; the report has the median.
    """

    records: int = 2_000_000
    keys: int = 100_000
    epochs: Sequence[int] = (200_000, 1_000_000)
    key_types: Sequence[str] = ("int", "string")
    engines: Sequence[str] = tuple(AT_HAND)
    slow_epochs: int = 5
    rounds: int = 1


class Report(NamedTuple):
    """Rows, and the engines that failed."""

    results: list[Result]
    failures: list[str]


def measure(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Report:
    """Runs every case of a plan, the engines in turn, and returns one row per case."""
    rows: dict[tuple[str, int, str], list[Result]] = {}
    failures: list[str] = []
    for round_number in range(1, plan.rounds + 1):
        for case in cases(plan, folder, round_number):
            what = f"{case.engine}, {case.key_type} keys, epochs of {case.epoch_records:,}, round {round_number}"
            tell(f"running {what}")
            try:
                run = run_case(case)
            except EngineFailedError as error:
                failures.append(f"{what}: {error}")
                tell(failures[-1])
                continue
            result = result_of(run, truth(case))
            tell(f"  {result.records_per_second:,.0f} records/s, results equal: {result.results_equal}")
            rows.setdefault((case.key_type, case.epoch_records, case.engine), []).append(result)
    return Report([middle(results) for results in rows.values()], failures)


def truth(case: Case) -> pa.Table:
    """Returns what an engine has to arrive at, or what its rows have to come to."""
    inputs = Path(case.inputs)
    if case.engine == PASS_THROUGH:
        return records_truth(inputs)
    return checks_of_counts(inputs) if ENGINES[case.engine].engine == "flink" else count_truth(inputs)


def cases(plan: Plan, folder: Path, round_number: int) -> Iterator[Case]:
    """Yields the cases of one round with their input files written; engines take turns."""
    for key_type in plan.key_types:
        for epoch_records in plan.epochs:
            epochs = epochs_for(plan.records, epoch_records)
            inputs = folder / "inputs" / f"{key_type}-{epoch_records}"
            if not inputs.exists():
                write_running_count(
                    inputs,
                    records=plan.records,
                    keys=plan.keys,
                    key_type=key_type,
                    epochs=epochs,
                    epoch_records=epoch_records,
                    files_per_epoch=PARALLELISM,
                )
            for engine in (one for one in plan.engines if key_type in ENGINES[one].key_types):
                count = min(epochs, plan.slow_epochs) if ENGINES[engine].slow else epochs
                part = inputs if count == epochs else inputs.with_name(f"{inputs.name}-first-{count}")
                yield Case(
                    workload=RUNNING_COUNT,
                    engine=engine,
                    key_type=key_type,
                    keys=plan.keys,
                    epochs=count,
                    epoch_records=epoch_records,
                    files_per_epoch=PARALLELISM,
                    parallelism=PARALLELISM,
                    inputs=str(first_epochs(inputs, part, count * PARALLELISM)),
                    work=str(folder / f"round-{round_number}" / f"{key_type}-{epoch_records}-{engine}"),
                )
