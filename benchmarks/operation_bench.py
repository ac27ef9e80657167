"""Shared by the measurements of a state without a stream: the job, its input and truth, and timed runs in turn."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.engines.lakestate_functions import KeepBytes
from benchmarks.engines.spark import MEMORY
from benchmarks.operation_inputs import CHANGED, write_changes, write_values
from benchmarks.operation_model import OperationCase
from benchmarks.processes import cpu_of
from state_engine.spark import DiscardingSink, JobClient, StreamJob, local_session

JOB, UID, STATE = "benchmark", "operator", "kept"
MAX_PARALLELISM = 128


class Way(NamedTuple):
    """`run` is timed; `check` then checks the results and cleans up."""

    run: Callable[[], None]
    check: Callable[[], None]


class Timed(NamedTuple):
    """The wall-clock and CPU seconds of each run."""

    seconds: list[float]
    cpu_seconds: list[float]


class Bench:
    """The job with the state to write and restore, its Spark session, and the truth.

    Args:
        case: The sizes.

    Attributes:
        before: The state at the first savepoint: `k`, `v`.
        after: The state of a job that has read all of the input.
        changed: Number of input records after the first savepoint.
    """

    def __init__(self, case: OperationCase) -> None:
        self.case, self.work = case, Path(case.work)
        self.root = self.work / "root"
        self.spark = local_session(
            "benchmark-operations",
            str(case.parallelism),
            shuffle_partitions=case.parallelism,
            memory=MEMORY,
            extra={"spark.local.dir": str(self.work / "local")},
        )
        self.before = write_values(self.work / "in", case)
        self.start(self.root, case.parallelism).await_termination()
        self.after = self.before
        self._changes = self.changed = 0
        self.change()

    def change(self) -> None:
        """Adds an epoch to the input, with other values for the first keys; `after` is the state after it."""
        self.after = write_changes(self.work / "in", self.case, self.after, self._changes)
        self._changes += 1
        self.changed += min(CHANGED, self.case.keys)

    def start(
        self, root: Path, parallelism: int, restore: str | None = None, *, available_now: bool = True
    ) -> JobClient:
        """Starts the job on the current input; without `available_now`, also on later input."""
        reader = self.spark.readStream.schema("k bigint, v binary").option("maxFilesPerTrigger", self.case.parallelism)
        job = StreamJob(
            JOB,
            root=str(root),
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            state_backend=self.case.backend,
        )
        keyed = job.from_stream(reader.parquet(str(self.work / "in"))).key_by("k")
        keyed.process(KeepBytes(), "k bigint", uid=UID).sink_to(DiscardingSink())
        return job.start(self.spark, available_now=available_now, trigger_interval_ms=0, restore=restore)


def in_turn(ways: Mapping[str, Way], rounds: int) -> dict[str, Timed]:
    """Runs each way once per round, one after the other; the first round does not count."""
    session = os.getsid(0)
    timed = {name: Timed([], []) for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            begun, cpu = time.perf_counter(), cpu_of(session)
            way.run()
            if number:
                timed[name].seconds.append(time.perf_counter() - begun)
                timed[name].cpu_seconds.append(cpu_of(session) - cpu)
            way.check()
    return timed


__all__ = ["JOB", "MAX_PARALLELISM", "STATE", "UID", "Bench", "Timed", "Way", "in_turn"]
