"""Measures native savepoints during a stream, and how they slow it down. Runs in a separate process.

The stream reads as fast as it can, in epochs of `epoch_records`. It is divided into phases of equal length, in turn
with and without savepoints. Which phase of a pair comes first alternates, so that drift (of the machine, or with the
age of the job) affects both alike.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.engines.lakestate_functions import RunningCount
from benchmarks.engines.spark import MEMORY
from benchmarks.operation_feed import EpochWatch, Feed, Phase, write_load
from benchmarks.operation_model import Operation, OperationCase, operation
from state_engine.inspect import read_state
from state_engine.savepoint import list_savepoints
from state_engine.spark import DiscardingSink, JobClient, StreamJob, local_session

JOB, UID, STATE = "benchmark", "operator", "count"
WARM_UP = 20
EPOCHS_PER_SAVEPOINT = 4
TIMEOUT = 900.0


class Measured(NamedTuple):
    """The measurements: phases without and with savepoints, pair by pair; seconds, id and epoch of each savepoint."""

    alone: list[Phase]
    beside: list[Phase]
    seconds: list[float]
    taken: list[tuple[str, int]]


def run(case: OperationCase) -> list[Operation]:
    """Runs the stream to the end of its phases and returns the rows of the report."""
    work = Path(case.work)
    load_epochs = write_load(work / "in", case.keys, case.parallelism)
    feed = Feed(work / "in", case, load_epochs)
    feed.keep_ahead(0)
    spark = local_session(
        "benchmark-operations",
        str(case.parallelism),
        shuffle_partitions=case.parallelism,
        memory=MEMORY,
        extra={"spark.local.dir": str(work / "local")},
    )
    job = StreamJob(
        JOB, root=str(work / "root"), parallelism=case.parallelism, max_parallelism=128, state_backend=case.backend
    )
    reader = spark.readStream.schema("k bigint").option("maxFilesPerTrigger", case.parallelism)
    keyed = job.from_stream(reader.parquet(str(work / "in"))).key_by("k")
    keyed.process(RunningCount(), "k bigint, n bigint", uid=UID).sink_to(DiscardingSink())
    client = job.start(spark, trigger_interval_ms=0)
    with EpochWatch(client, feed) as watch:
        watch.wait_for(load_epochs, TIMEOUT)
        client.trigger_checkpoint().result(TIMEOUT)  # state is then in a base, as in an old job
        watch.wait_for(watch.count + WARM_UP, TIMEOUT)
        measured = measure(case, client, watch)
    client.stop()
    equal = _is_right(case, client, measured, feed)
    spark.stop()
    return rows_of(case, measured, equal)


def measure(case: OperationCase, client: JobClient, watch: EpochWatch) -> Measured:
    """Runs the phases of all pairs, and takes the savepoints."""
    measured = Measured([], [], [], [])
    for pair in range(case.pairs):
        count = case.savepoints * (pair + 1) // case.pairs - case.savepoints * pair // case.pairs
        epochs = max(1, count) * EPOCHS_PER_SAVEPOINT
        for beside in (pair % 2 == 1, pair % 2 == 0):
            first = watch.count
            for number in range(count if beside else 0):
                watch.wait_for(first + 1 + number * EPOCHS_PER_SAVEPOINT, TIMEOUT)
                time.sleep(watch.length() * (number * 0.37 % 1))  # savepoints may begin anywhere in an epoch
                _take(client, measured)
            watch.wait_for(first + 1 + epochs, TIMEOUT)
            (measured.beside if beside else measured.alone).append(watch.phase(first, epochs))
    return measured


def _take(client: JobClient, found: Measured) -> None:
    began = time.perf_counter()
    savepoint = client.trigger_savepoint()
    found.seconds.append(time.perf_counter() - began)
    found.taken.append((savepoint.savepoint_id, savepoint.epoch))


def rows_of(case: OperationCase, measured: Measured, equal: bool) -> list[Operation]:
    """Returns the rows of the report."""
    pairs = zip(measured.alone, measured.beside, strict=True)
    ratio = median(alone.seconds / beside.seconds for alone, beside in pairs)  # both have the same number of records
    return [
        operation(
            case,
            "native savepoint",
            "lakestate/native",
            measured.seconds,
            epoch_records=case.epoch_records,
            equal=equal,
        ),
        _stream(case, "lakestate/alone", measured.alone, equal),
        _stream(case, "lakestate/with savepoints", measured.beside, equal, paired_ratio=round(ratio, 4)),
    ]


def _stream(case: OperationCase, label: str, phases: Sequence[Phase], equal: bool, **more: Any) -> Operation:
    lengths = [length for phase in phases for length in phase.epochs]
    records = [len(phase.epochs) * case.epoch_records for phase in phases]
    speed = median(count / phase.seconds for count, phase in zip(records, phases, strict=True))
    cpu = median(phase.cpu_seconds / count for count, phase in zip(records, phases, strict=True))
    more |= {"rows_per_second": round(speed, 1), "cpu_seconds_per_million": round(cpu * 1e6, 3)}
    return operation(case, "stream", label, lengths, epoch_records=case.epoch_records, equal=equal, **more)


def _is_right(case: OperationCase, client: JobClient, measured: Measured, feed: Feed) -> bool:
    """Returns whether all savepoints are listed, and the first and the last have the state of their epochs."""
    root = str(Path(case.work) / "root")
    if not {name for name, _ in measured.taken} <= {one.savepoint_id for one in list_savepoints(root, JOB)}:
        return False
    for name, epoch in (measured.taken[0], measured.taken[-1]):
        records = sum(summary.records for summary in client.epochs if summary.epoch <= epoch)
        if not _equals(read_state(root, JOB, UID, STATE, at=name), feed.counts_after(records)):
            return False
    return True


def _equals(state: pa.Table, counts: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> bool:
    """Returns whether the state has exactly the keys from 0 on, with these counts."""
    keys, values = state["k"].to_numpy(), state["value"].to_numpy()
    order = np.argsort(keys)
    return np.array_equal(keys[order], np.arange(len(counts))) and np.array_equal(values[order], counts)
