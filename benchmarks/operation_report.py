"""Prints the report of `operations` as a Markdown table."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.operation_model import Operation

LEFT = ("operation", "of")
FLINK_ROWS = {
    "lakestate/process": "flink/java compressed",
    "lakestate/workers": "flink/java compressed",
    "lakestate/start": "flink/java compressed until checkpoint",
    "lakestate/interval": "flink/java compressed",
    "lakestate/full": "flink/java compressed",
}
"""The row of Flink to compare with. Compressed ones: others take Flink many times as long to restore."""


def table(rows: Sequence[Operation]) -> Table:
    """Returns the rows, with ratios to PySpark and Flink if they did the same in the same run.

    A column of ratios names the backend of the peer; a peer without rows has no column.
    """
    shown = Table(box=box.MARKDOWN)
    by_pyspark, by_flink = _by_backend("spark", rows), _by_backend("flink", rows)
    ratios = [f"× pyspark on {backend}" for backend in by_pyspark] + [f"× flink on {backend}" for backend in by_flink]
    for name in (
        *LEFT, "backend", "keys", "value", "epoch", "p", "checkpoints", "runs", "median s", "max s", "rows/s",
        "CPU s per M", "× alone", "× fewest keys", *ratios, "read MiB", "share", "results",
    ):  # fmt: skip
        shown.add_column(name, justify="left" if name in LEFT else "right", no_wrap=True)
    for row in rows:
        shown.add_row(
            row.operation,
            row.label,
            row.backend,
            f"{row.keys:,} {row.key_type}",
            f"{row.value_bytes:,} B",
            _said(row.epoch_records, ",d"),
            _parallelism(row),
            row.checkpoints,
            str(row.runs),
            _said(row.median_seconds, ".3f"),
            _said(row.max_seconds, ".3f"),
            _said(row.rows_per_second, ",.0f"),
            _said(row.cpu_seconds_per_million, ".2f"),
            _said(row.paired_ratio, ".3f"),
            _said(_growth(row, rows), ".2f"),
            *(_said(_to_pyspark(row, peers), ".2f") for peers in by_pyspark.values()),
            *(_said(_to_flink(row, peers), ".2f") for peers in by_flink.values()),
            _said(None if row.bytes_read is None else row.bytes_read / (1 << 20), ",.1f"),
            _said(row.share_read, ".3f"),
            "equal" if row.results_equal else "WRONG",
        )
    return shown


def show(rows: Sequence[Operation], console: Console) -> None:
    """Prints the table, and below it the reads of each subtask."""
    console.print(table(rows), highlight=False)
    for row in rows:
        for one in row.ranges:
            said = f"{one.rows:,} rows, {one.bytes_read:,} of {row.bytes_total or 0:,} bytes"
            console.print(
                f"{row.keys:,} keys, parallelism {row.parallelism}, key groups {one.first} to {one.last}: {said}",
                highlight=False,
            )


def _growth(row: Operation, rows: Sequence[Operation]) -> float | None:
    """Returns the ratio of a row's time to that with the fewest keys of this run."""
    case = (row.operation, row.label, row.parallelism, row.value_bytes)
    same = [one for one in rows if (one.operation, one.label, one.parallelism, one.value_bytes) == case]
    fewest = min(same, key=lambda other: other.keys)
    if row.keys == fewest.keys or not fewest.median_seconds or not (row.results_equal and fewest.results_equal):
        return None
    return (row.median_seconds or 0.0) / fewest.median_seconds


def _parallelism(row: Operation) -> str:
    return f"{row.parallelism}" if row.from_parallelism is None else f"{row.from_parallelism} → {row.parallelism}"


def _by_backend(engine: str, rows: Sequence[Operation]) -> dict[str, list[Operation]]:
    """Returns the rows of a peer by backend."""
    by_backend: dict[str, list[Operation]] = {}
    for row in rows:
        if row.engine == engine:
            by_backend.setdefault(row.backend, []).append(row)
    return by_backend


def _to_pyspark(row: Operation, peers: Sequence[Operation]) -> float | None:
    """Returns the ratio of a row's speed to PySpark's, if both have right results."""
    others = [other for other in peers if other is not row]
    return _times(row, [other for other in others if (other.operation, other.keys) == (row.operation, row.keys)])


def _to_flink(row: Operation, peers: Sequence[Operation]) -> float | None:
    """Returns the ratio of a row's speed to Flink's at the same parallelism, if both have right results."""
    candidates = [other for other in peers if other.label == FLINK_ROWS.get(row.label)]
    same = (row.operation, row.keys, row.parallelism)
    return _times(row, [other for other in candidates if (other.operation, other.keys, other.parallelism) == same])


def _times(row: Operation, peers: Sequence[Operation]) -> float | None:
    for other in peers:
        if row.results_equal and other.results_equal and row.rows_per_second and other.rows_per_second:
            return row.rows_per_second / other.rows_per_second
    return None


def _said(figure: float | None, how: str) -> str:
    return "" if figure is None else format(figure, how)


__all__ = ["show", "table"]
