"""Runs the queries of Nexmark: every engine reads the same events, epoch by epoch or as one long stream."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from benchmarks.engines.flink_environment import FLINK_PYTHON
from benchmarks.model import EMITTED, NEXMARK, NEXMARK_ENGINES, Case, Result
from benchmarks.nexmark import events
from benchmarks.nexmark.queries import QUERIES, runs
from benchmarks.nexmark.reference import answer
from benchmarks.nexmark.rows import sums
from benchmarks.rounds import Report, run_rounds
from benchmarks.runner import Run, result_of
from benchmarks.steady import LEAST_EPOCHS

PARALLELISM = 2


class Plan(NamedTuple):
    """What to run.

    Attributes:
        queries: Names in `QUERIES`.
        engines: Names in `NEXMARK_ENGINES`.
        epoch_events: Number of events of an epoch, of all kinds.
        epochs: Number of epochs.
        rounds: How often each case is run; the report has the median.
    """

    queries: Sequence[str] = tuple(QUERIES)
    engines: Sequence[str] = tuple(NEXMARK_ENGINES)
    epoch_events: int = 500_000
    epochs: int = LEAST_EPOCHS
    rounds: int = 1


def installed_engines() -> list[str]:
    """Returns the installed engines; `make flink` installs the others."""
    return [name for name, engine in NEXMARK_ENGINES.items() if engine.engine != "flink" or FLINK_PYTHON.exists()]


def measure(plan: Plan, folder: Path, tell: Callable[[str], None]) -> Report:
    """Runs every query by every engine, the engines in turn, and returns one row per case."""
    inputs = folder / "inputs"
    events.write(inputs, epochs=plan.epochs, epoch_events=plan.epoch_events, files_per_epoch=PARALLELISM)
    return run_rounds(
        plan.rounds,
        lambda round_number: cases(plan, inputs, folder / f"round-{round_number}"),
        judged,
        tell,
        lambda case: f"{case.workload}, {case.engine}",
    )


def cases(plan: Plan, inputs: Path, work: Path) -> Iterator[Case]:
    """Yields the cases of one round. Only the events that a query reads count as records of its epochs."""
    for query in plan.queries:
        read = plan.epoch_events * sum(SHARES[kind] for kind in QUERIES[query].reads) // events.CYCLE
        for engine in (one for one in plan.engines if runs(query, NEXMARK_ENGINES[one])):
            yield Case(
                workload=f"{NEXMARK}-{query}",
                engine=engine,
                key_type="int",
                keys=plan.epochs * plan.epoch_events // events.CYCLE * events.AUCTIONS,
                epochs=plan.epochs,
                epoch_records=read,
                files_per_epoch=PARALLELISM,
                parallelism=PARALLELISM,
                inputs=str(inputs),
                work=str(work / f"{query}-{engine.replace('/', '-')}"),
            )


SHARES = {
    events.PERSON: 1,
    events.AUCTION: events.AUCTIONS,
    events.BID: events.CYCLE - events.AUCTIONS - 1,
}
"""Number of events of each kind among `CYCLE` events."""


def judged(run: Run) -> Result:
    """Returns the row of a run, with its results compared with the expected ones."""
    return result_of(run, {EMITTED: _right(run.case.workload, run.case.inputs)})


@lru_cache(maxsize=1)
def _right(workload: str, inputs: str) -> pa.Table:
    return sums(answer(workload, inputs, PARALLELISM))


__all__ = ["Plan", "cases", "installed_engines", "measure"]
