"""Measures checkpoints of a running job: incremental ones with few changes, and full ones of the whole state.

The duration of a checkpoint is that of its row in `_checkpoints`, as in the coordinator's statistics: from the
beginning of the epoch with the barrier until everything that makes it visible is durable. The duration `published`
excludes that epoch, which takes as long as an epoch without records.
"""

import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.data import same_rows
from benchmarks.operation_bench import JOB, STATE, UID, Bench, Way, in_turn
from benchmarks.operation_model import Operation, operation
from state_engine.checkpoint.table import CheckpointRow
from state_engine.inspect import JobView, read_state

TIMEOUT, LOOK_SECONDS = 900.0, 0.005
INTERVAL, FULL = "lakestate/interval", "lakestate/full"
TYPES = {INTERVAL: "INCREMENTAL", FULL: "FULL"}
"""The type of each form in `_checkpoints`."""


class Taken(NamedTuple):
    """The duration of a checkpoint in seconds: all of it, and the part after its epoch, during which others may run."""

    whole: float
    published: float


class Checkpoints:
    """A running job that was started from a savepoint, and its checkpoints.

    The same number of values changes before each checkpoint.

    Args:
        bench: The input.
        source: The savepoint.

    Attributes:
        taken: Durations of the checkpoints, by form.
        equal: Whether all have the right type and the right state.
    """

    def __init__(self, bench: Bench, source: str) -> None:
        self.taken: dict[str, list[Taken]] = {form: [] for form in TYPES}
        self.equal = True
        self._bench, self._root = bench, str(bench.work / "root of checkpoints")
        self._view = JobView(self._root, JOB)
        self._newest = 0
        self._client = bench.start(Path(self._root), bench.case.parallelism, source, available_now=False)
        self._read_all()

    def way(self, form: str) -> Way:
        """Returns a way to take a checkpoint, and then to check it."""

        def run() -> None:
            self._newest = self._client.trigger_checkpoint(full=form == FULL).result(TIMEOUT)

        def check() -> None:
            row = self._row()
            published = sum(length for phase, length in row.phases_ms.items() if phase != "epoch")
            self.taken[form].append(Taken(row.duration_ms / 1000, published / 1000))
            state = read_state(self._root, JOB, UID, STATE, at=f"checkpoint:{self._newest}").select(["k", "value"])
            has_type = row.type == TYPES[form] or len(self.taken[form]) == 1  # the first one of a job is always full
            self.equal = self.equal and has_type and same_rows(state, self._bench.after)
            self._bench.change()
            self._read_all()

        return Way(run, check)

    def stop(self) -> None:
        """Ends the job."""
        self._client.stop()

    def _read_all(self) -> None:
        """Waits until the job has read all its input.

        Raises:
            RuntimeError: The job failed, or takes too long.
        """
        deadline = time.monotonic() + TIMEOUT
        while sum(epoch.records for epoch in self._client.epochs) < self._bench.changed:
            if self._client.state != "RUNNING" or time.monotonic() > deadline:
                raise RuntimeError("The job does not read its input.") from self._client.exception
            time.sleep(LOOK_SECONDS)

    def _row(self) -> CheckpointRow:
        return next(row for row in self._view.checkpoints_backwards() if row.checkpoint_id == self._newest)


def checkpoint(bench: Bench, source: str) -> list[Operation]:
    """Starts a job from a savepoint, and takes checkpoints of the running job, of both forms in turn."""
    case, checkpoints = bench.case, Checkpoints(bench, source)
    timed = in_turn({form: checkpoints.way(form) for form in TYPES}, case.rounds)
    checkpoints.stop()
    rows = []
    for form in TYPES:
        counted = checkpoints.taken[form][1:]  # the first round does not count
        for label, seconds, cpu_seconds in (
            (form, [one.whole for one in counted], timed[form].cpu_seconds),
            (f"{form} published", [one.published for one in counted], ()),
        ):
            equal = checkpoints.equal
            rows.append(
                operation(case, "checkpoint", label, seconds, rows=case.keys, cpu_seconds=cpu_seconds, equal=equal)
            )
    return rows


__all__ = ["Checkpoints", "Taken", "checkpoint"]
