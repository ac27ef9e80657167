"""Runs streaming workloads: each engine reads the same files, epoch by epoch or as one long stream."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from benchmarks.data import first_epochs, first_records, read_inputs, records_truth
from benchmarks.engines.flink_environment import FLINK_PYTHON
from benchmarks.model import CONTENDERS, EMITTED, ENGINES, PASS_THROUGH, RUNNING_COUNT, Case, Result, Tables
from benchmarks.rounds import Report, run_rounds
from benchmarks.runner import Run, result_of
from benchmarks.steady import LEAST_EPOCHS, epochs_for, longer
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.inputs import write_stream
from benchmarks.workloads.workload import Workload

PARALLELISM = 2


class Plan(NamedTuple):
    """What to run.

    Attributes:
        workload: A name in `WORKLOADS`.
        engines: Names in `ENGINES`.
        records: Size of the data set; it is replayed if it has too few epochs.
        keys: Number of keys from which the data set is drawn.
        epochs: Sizes of epochs, in records.
        key_types: `int`, `string`.
        least_epochs: The least number of epochs.
        slow_epochs: Number of epochs that a slow engine reads; the others read all.
        rounds: How often each case is run; the report has the median.
    """

    workload: str = RUNNING_COUNT
    engines: Sequence[str] = ("lakestate",)
    records: int = 2_000_000
    keys: int = 100_000
    epochs: Sequence[int] = (200_000, 1_000_000)
    key_types: Sequence[str] = ("int",)
    least_epochs: int = LEAST_EPOCHS
    slow_epochs: int = 5
    rounds: int = 1


def installed_engines(workload: Workload) -> list[str]:
    """Returns the installed engines that can run a workload; `make flink` installs the others."""
    return [name for name in workload.engines if ENGINES[name].engine != "flink" or FLINK_PYTHON.exists()]


def measure(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Report:
    """Runs every case of a plan, the engines in turn, and returns one row per case."""
    return run_rounds(
        plan.rounds,
        lambda round_number: cases(plan, folder, round_number),
        judged,
        tell,
        lambda case: f"{case.engine}, {case.key_type} keys, epochs of {case.epoch_records:,}",
    )


def judged(run: Run) -> Result:
    """Returns the row of a run, with its results compared with the truth."""
    settled = WORKLOADS[run.case.workload].settled
    return result_of(run._replace(final=settled(run.final, run.case)), truth(run.case))


def truth(case: Case) -> Tables:
    """Returns the expected final results of an engine, or the expected sums of its rows."""
    inputs = Path(case.inputs)
    if case.engine == PASS_THROUGH:
        return {PASS_THROUGH: records_truth(inputs)}
    compared = (EMITTED,) if CONTENDERS[case.engine].engine == "flink" else WORKLOADS[case.workload].compared
    right = _truth(case.workload, inputs, case.keys)
    return {name: right[name] for name in compared}


@lru_cache(maxsize=6)  # of all epochs, and of those and the records that others read
def _truth(workload: str, inputs: Path, keys: int) -> Tables:
    return WORKLOADS[workload].truth(read_inputs(inputs), keys)


def cases(plan: Plan, folder: Path, round_number: int) -> Iterator[Case]:
    """Writes the input files of one round and yields its cases; engines take turns."""
    for key_type in plan.key_types:
        for epoch_records in plan.epochs:
            counts = {one: epochs_of(one, epoch_records, plan) for one in plan.engines}
            epochs = max(counts.values())
            inputs = folder / "inputs" / f"{key_type}-{epoch_records}"
            if not inputs.exists():
                write_stream(
                    inputs,
                    WORKLOADS[plan.workload],
                    records=plan.records,
                    keys=plan.keys,
                    key_type=key_type,
                    epochs=epochs,
                    epoch_records=epoch_records,
                    files_per_epoch=PARALLELISM,
                )
            for engine in (one for one in plan.engines if key_type in ENGINES[one].key_types):
                count = counts[engine]
                most = most_of(engine, count * epoch_records)
                yield Case(
                    workload=plan.workload,
                    engine=engine,
                    key_type=key_type,
                    keys=plan.keys,
                    epochs=count,
                    epoch_records=epoch_records,
                    files_per_epoch=PARALLELISM,
                    parallelism=PARALLELISM,
                    inputs=str(part_for(inputs, epochs, count, most)),
                    work=str(
                        folder / f"round-{round_number}" / f"{key_type}-{epoch_records}-{engine.replace('/', '-')}"
                    ),
                    most_records=most,
                )


def epochs_of(engine: str, epoch_records: int, plan: Plan) -> int:
    """Returns the number of epochs that an engine reads: a slow one few, a fast one more than the others."""
    least = longer(plan.least_epochs) if engine in WORKLOADS[plan.workload].fast else plan.least_epochs
    epochs = epochs_for(plan.records, epoch_records, least)
    return min(epochs, plan.slow_epochs) if ENGINES[engine].slow else epochs


def most_of(engine: str, records: int) -> int | None:
    """Returns the number of records that an engine reads; None if it reads all of them."""
    most = ENGINES[engine].most_records
    return None if most is None or most >= records else most


def part_for(inputs: Path, epochs: int, count: int, most: int | None) -> Path:
    """Returns a folder with only the first epochs, or only the first records; creates it if it does not exist."""
    part = inputs if count == epochs else inputs.with_name(f"{inputs.name}-first-{count}")
    part = first_epochs(inputs, part, count * PARALLELISM)
    return part if most is None else first_records(part, inputs.with_name(f"{inputs.name}-records-{most}"), most)
