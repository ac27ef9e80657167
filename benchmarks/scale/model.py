"""The data types of `scale`: a case, the reported row, and its limits."""

from collections.abc import Iterator, Sequence

import msgspec

from benchmarks.model import Verdict

SCALE = "scale"
ROW = "row.json"


class ScaleCase(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one process.

    Attributes:
        subtasks: Parallelism of each of the two operators.
        epochs: Number of epochs whose time counts, after one that does not.
        between: Number of epochs that the incremental checkpoint covers.
        work: Empty folder.
    """

    subtasks: int
    epochs: int
    between: int
    work: str


class ScaleRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: `SCALE`.
        subtasks: Parallelism of each of the two operators.
        driver_ms: The driver's part of an epoch, ms, median: planning, decoding of barriers, decision, seal. What the
            simulated tasks do is left out.
        slowest_ms: The slowest epoch's.
        collected_bytes: Size of the barriers that the driver collects in an epoch.
        manifest_bytes: Size of the manifest.
        peak_mib: Largest resident memory of the driver's process during the epochs, MiB.
        checkpoint_epochs: Number of epochs that the incremental checkpoint covers.
        checkpoint_seconds: Time of the last of these epochs, until the checkpoint is visible.
        checkpoint_reads: Number of reads of the storage meanwhile.
        start_epochs: Number of epochs in the log, which has no base, at the start.
        start_seconds: Time of a start (S1 to S3) in a new process.
        start_mib: Largest resident memory of that process, MiB.
        results_equal: Whether the checkpoint holds each key once in each state, and the start goes on from the head.
    """

    workload: str = SCALE
    subtasks: int
    driver_ms: float
    slowest_ms: float
    collected_bytes: int
    manifest_bytes: int
    peak_mib: int
    checkpoint_epochs: int
    checkpoint_seconds: float
    checkpoint_reads: int
    start_epochs: int
    start_seconds: float
    start_mib: int
    results_equal: bool


class ScaleLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A figure of a row may not be larger than this, at this number of subtasks."""

    figure: str
    subtasks: int
    at_most: float


def judge_scale(limits: Sequence[ScaleLimit], rows: Sequence[ScaleRow]) -> Iterator[Verdict]:
    """Yields a verdict for each limit; none when nothing was run."""
    for limit in limits if rows else ():
        name = f"{SCALE}, {limit.subtasks:,} subtasks: {limit.figure} at most {limit.at_most:g}"
        row = next((one for one in rows if one.subtasks == limit.subtasks), None)
        if row is None:
            yield Verdict(name, None, False, "not measured in this run", (f"{limit.subtasks:,} subtasks",))
            continue
        measured = float(getattr(row, limit.figure))
        if not row.results_equal:
            yield Verdict(name, measured, False, "wrong results")
        else:
            yield Verdict(name, measured, measured <= limit.at_most)


__all__ = ["ROW", "SCALE", "ScaleCase", "ScaleLimit", "ScaleRow", "judge_scale"]
