"""The data types of `dagster_ticks`: a case, the reported row, and its limits."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from benchmarks.model import Verdict

DAGSTER_TICKS = "dagster_ticks"
Form = Literal["load", "history", "backlog", "idle"]


class TickCase(msgspec.Struct, frozen=True, kw_only=True):
    """The work of the process of `DAGSTER_TICKS`.

    Attributes:
        checkpoints: Number of rows of `_checkpoints`.
        states: Number of states of the job.
        keys: Number of keys of each state.
        events: Number of events of the previous checkpoint in Dagster's event log.
        rounds: How often each form is measured.
        work: Empty folder.
    """

    checkpoints: int
    states: int
    keys: int
    events: int
    rounds: int
    work: str


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: `DAGSTER_TICKS`.
        form: `load`: the code location in a new process. `history`: a tick with one new checkpoint after all others,
            which are reported. `backlog`: a tick with only new checkpoints. `idle`: a tick without a new one.
        checkpoints: Number of rows of `_checkpoints`.
        states: Number of states of the job.
        runs: How often it was measured.
        median_seconds: Median of all runs.
        max_seconds: Maximum of all runs.
        events: Number of events that a tick wrote; the maximum of all runs.
        results_equal: Whether the reports are right; for `load`, whether loading imported no Spark.
    """

    workload: str = DAGSTER_TICKS
    form: Form
    checkpoints: int
    states: int
    runs: int
    median_seconds: float
    max_seconds: float
    events: int
    results_equal: bool


class TickLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """No run of a form may take more seconds, at this number of checkpoints."""

    form: Form
    checkpoints: int
    at_most: float


def judge_ticks(limits: Sequence[TickLimit], rows: Sequence[Tick]) -> Iterator[Verdict]:
    """Yields a verdict for each limit; none when nothing was run."""
    for limit in limits if rows else ():
        name = f"{DAGSTER_TICKS}, {limit.checkpoints:,} checkpoints: {limit.form} at most {limit.at_most:g} s"
        row = next((one for one in rows if (one.form, one.checkpoints) == (limit.form, limit.checkpoints)), None)
        if row is None:
            missing = f"{limit.form} with {limit.checkpoints:,} checkpoints"
            yield Verdict(name, None, False, "not measured in this run", (missing,))
        elif not row.results_equal:
            yield Verdict(name, row.max_seconds, False, "wrong results")
        else:
            yield Verdict(name, row.max_seconds, row.max_seconds <= limit.at_most)


__all__ = ["DAGSTER_TICKS", "Form", "Tick", "TickCase", "TickLimit", "judge_ticks"]
