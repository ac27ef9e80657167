"""Runs the fraud job: its function bare, its operator alone, its stream; all read the same kind of payments."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.fraud import inputs
from benchmarks.fraud.results import MORE_OUTPUTS, expected
from benchmarks.model import FRAUD, FRAUD_ENGINES, Case, Result, Tables
from benchmarks.rounds import Report, run_rounds
from benchmarks.runner import Run, result_of
from benchmarks.steady import LEAST_EPOCHS

ABOUT = "A card-fraud function with states of several kinds: bare, as an operator, as a stream with six Delta sinks."
PARALLELISM = 2
STREAMS = ("fraud/stream",)


class Plan(NamedTuple):
    """What to run.

    Attributes:
        engines: Names in `FRAUD_ENGINES`.
        cards: Number of keys.
        alone: Records of an epoch without Spark.
        epochs: Number of epochs of each size.
        streams: Sizes of the stream's epochs, in records.
        rounds: How often each case is run; the report has the median.
    """

    engines: Sequence[str] = tuple(FRAUD_ENGINES)
    cards: int = 5_000
    alone: int = 10_000
    epochs: int = LEAST_EPOCHS
    streams: Sequence[int] = (10_000, 100_000)
    rounds: int = 1


def measure(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Report:
    """Runs every case of a plan, the engines in turn, and returns one row per case."""
    return run_rounds(
        plan.rounds,
        lambda round_number: cases(plan, folder, round_number),
        judged,
        tell,
        lambda case: f"{case.engine}, epochs of {case.epoch_records:,}",
    )


def cases(plan: Plan, folder: Path, round_number: int) -> Iterator[Case]:
    """Writes the input files and yields the cases of one round."""
    alone = [engine for engine in plan.engines if engine not in STREAMS]
    streams = [engine for engine in plan.engines if engine in STREAMS]
    sizes = [(plan.alone, alone, 1), *((records, streams, PARALLELISM) for records in plan.streams)]
    for epoch_records, engines, parallelism in sizes:
        files = folder / "inputs" / f"{epoch_records}"
        if engines and not files.exists():
            inputs.write(files, epochs=plan.epochs, epoch_records=epoch_records, cards=plan.cards)
        for engine in engines:
            yield Case(
                workload=FRAUD,
                engine=engine,
                key_type="string",
                keys=plan.cards,
                epochs=plan.epochs,
                epoch_records=epoch_records,
                files_per_epoch=1,
                parallelism=parallelism,
                inputs=str(files),
                work=str(folder / f"round-{round_number}" / f"{engine.replace('/', '-')}-{epoch_records}"),
            )


def judged(run: Run) -> Result:
    """Returns the row of a run, with its outputs and states compared with a recount of the same files."""
    return result_of(run, truth(run.case))


def truth(case: Case) -> Tables:
    """Returns the expected outputs and states of a case.

    Of a stream without `spent`: its log may have entries that have expired. The others read it as a function does.
    """
    left_out = ("spent",) if case.engine in STREAMS else MORE_OUTPUTS
    return {name: rows for name, rows in expected(Path(case.inputs)).items() if name not in left_out}


__all__ = ["ABOUT", "STREAMS", "Plan", "cases", "measure", "truth"]
