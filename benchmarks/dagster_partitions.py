"""Workload `dagster_partitions`: what as many savepoints cost Dagster as `restored_state` may have partitions.

Each savepoint is 16 partitions of `restored_state`. `names` lists all of them, as Dagster does when a user opens the
dialog of a restore; `status` updates Dagster's cached status of the asset after one more partition was restored, as the
asset's page does. No JVM, no Spark; Dagster's history is in SQLite.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.model import Verdict
from lakestate.policies.savepoints import MOST_PARTITIONS

DAGSTER_PARTITIONS = "dagster_partitions"
JOB = "flights"
SIZES = (100, 1_000, MOST_PARTITIONS, 2 * MOST_PARTITIONS)
MOST_SECONDS = 3.0
"""Limit of the slowest run of `names` and `status` at the largest number of savepoints that is allowed."""


class PartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: `DAGSTER_PARTITIONS`.
        savepoints: Number of savepoints of the job.
        partitions: Number of partitions of `restored_state` that Dagster listed.
        runs: How often it was measured.
        names_seconds, status_seconds: CPU time of one core, medians.
        slowest_seconds: The slowest run of both.
        results_equal: Whether Dagster listed 16 partitions for each savepoint, and counted those that were restored.
    """

    workload: str = DAGSTER_PARTITIONS
    savepoints: int
    partitions: int
    runs: int
    names_seconds: float
    status_seconds: float
    slowest_seconds: float
    results_equal: bool


class PartitionReport(NamedTuple):
    """Rows, and failures: none, because this process measures."""

    results: list[PartitionRow]
    failures: list[str]


def measure(folder: Path, tell: Callable[[str], None], sizes: Sequence[int], rounds: int) -> PartitionReport:
    """Returns a row for each number of savepoints.

    Args:
        folder: Folder for Dagster's history.
        tell: Called with lines of progress.
        sizes: Numbers of savepoints.
        rounds: How often each is measured.
    """
    rows = []
    for savepoints in sizes:
        tell(f"listing the partitions of {savepoints:,} savepoints")
        rows.append(_measured(folder / f"partitions-{savepoints}", savepoints, rounds))
    return PartitionReport(rows, [])


def _measured(home: Path, savepoints: int, rounds: int) -> PartitionRow:
    import dagster as dg  # here, because the other workloads run without Dagster
    from dagster._core.instance import InstanceRef
    from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value as update_status

    from lakestate.assets.names import partitions_name, restored_state_key
    from lakestate.assets.ranges import RANGES, restore_partitions

    home.mkdir(parents=True)
    partitions, asset = restore_partitions(JOB), restored_state_key(JOB)
    names, status, counted = [], [], []
    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home))) as instance:
        instance.add_dynamic_partitions(partitions_name(JOB), [f"savepoint-{n:06d}" for n in range(savepoints)])
        for number in range(rounds):
            began = time.process_time()
            keys = partitions.get_partition_keys(dynamic_partitions_store=instance)
            names.append(time.process_time() - began)
            counted.append(len(keys) == savepoints * RANGES)

            instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=keys[number]))
            began = time.process_time()
            cached = update_status(instance, asset, partitions)
            status.append(time.process_time() - began)
            assert cached is not None
            counted.append(len(cached.deserialize_materialized_partition_subsets(partitions)) == number + 1)
    return PartitionRow(
        savepoints=savepoints,
        partitions=len(keys),
        runs=rounds,
        names_seconds=round(median(names), 3),
        status_seconds=round(median(status), 3),
        slowest_seconds=round(max(*names, *status), 3),
        results_equal=all(counted),
    )


def judge_partitions(rows: Sequence[PartitionRow]) -> list[Verdict]:
    """Returns a verdict for the row with the most savepoints that are allowed; none when nothing was run."""
    if not rows:
        return []
    name = f"{DAGSTER_PARTITIONS}, {MOST_PARTITIONS:,} savepoints: at most {MOST_SECONDS:g} s"
    row = next((one for one in rows if one.savepoints == MOST_PARTITIONS), None)
    if row is None:
        return [Verdict(name, None, False, "not measured in this run", (f"{MOST_PARTITIONS:,} savepoints",))]
    if not row.results_equal:
        return [Verdict(name, row.slowest_seconds, False, "wrong results")]
    return [Verdict(name, row.slowest_seconds, row.slowest_seconds <= MOST_SECONDS)]


def show(rows: Sequence[PartitionRow], console: Console) -> None:
    """Prints the rows as a Markdown table."""
    shown = Table(box=box.MARKDOWN)
    for name in ("savepoints", "partitions", "runs", "names s", "status s", "slowest s", "results"):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        shown.add_row(
            f"{row.savepoints:,}",
            f"{row.partitions:,}",
            str(row.runs),
            f"{row.names_seconds:.2f}",
            f"{row.status_seconds:.2f}",
            f"{row.slowest_seconds:.2f}",
            "equal" if row.results_equal else "WRONG",
        )
    console.print(shown, highlight=False)


__all__ = [
    "DAGSTER_PARTITIONS",
    "MOST_SECONDS",
    "SIZES",
    "PartitionReport",
    "PartitionRow",
    "judge_partitions",
    "measure",
    "show",
]
