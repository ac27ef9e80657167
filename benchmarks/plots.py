"""Draws the report as SVG files, by matplotlib without a display.

Rows with wrong results are not drawn.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.dagster_partitions import PartitionRow
from benchmarks.failover.model import FailoverRow
from benchmarks.forms.model import FormRow
from benchmarks.latency.model import LatencyRow
from benchmarks.loads.model import LoadRow
from benchmarks.long_life import LifeRow
from benchmarks.model import LARGE_EPOCHS, NEXMARK, SMALL_EPOCHS, STATE_BACKENDS, WORKER_MEMORY, Result
from benchmarks.operation_model import Operation
from benchmarks.requests.model import RequestRow
from benchmarks.scale.model import ScaleRow
from benchmarks.tick_model import Tick

Row = (
    Result | Operation | Tick | LatencyRow | LifeRow | PartitionRow | FormRow | FailoverRow | LoadRow | ScaleRow
    | RequestRow
)  # fmt: skip
COLOURS = {"lakestate": "#1f6f8b", "spark": "#e07a1f", "flink": "#b8336a"}
OTHER = "#777777"
WIDTH_INCHES, BAR_INCHES, HEAD_INCHES = 9.0, 0.28, 1.0


class Bar(NamedTuple):
    """One row of the report as a bar of a panel."""

    label: str
    value: float
    colour: str


class Point(NamedTuple):
    """One row of the report as a point of a line."""

    keys: int
    value: float


def draw(rows: Sequence[Row], path: Path) -> bool:
    """Draws the rows of one workload.

    Args:
        rows: The rows of one workload.
        path: Path of the SVG file; its folder must exist.

    Returns:
        Whether there was anything to draw.
    """
    right = [row for row in rows if row.results_equal]
    results = [row for row in right if isinstance(row, Result)]
    grows = len({row.keys for row in results}) > 1
    if grows and results[0].workload in (SMALL_EPOCHS, LARGE_EPOCHS, STATE_BACKENDS):
        _draw_lines(*_lines(results), path)
    elif panels := _panels(right):
        _draw_panels(panels, _unit(right[0]), path)
    return bool(right)


def _unit(row: Row) -> str:
    if isinstance(row, FormRow | LoadRow):
        return "records/s"
    if isinstance(row, Result):
        return "MiB of the heaviest worker" if row.workload == WORKER_MEMORY else "records/s"
    if isinstance(row, RequestRow):
        return "requests"
    return "ms, median" if isinstance(row, LatencyRow | LifeRow | ScaleRow) else "seconds, median"


def _panels(rows: Sequence[Row]) -> Mapping[str, Sequence[Bar]]:
    """Returns bars by the titles of their panels, in the order of the rows."""
    panels: dict[str, list[Bar]] = {}
    for row in rows:
        bar = _bar(row)
        if bar is not None:
            panels.setdefault(_title(row), []).append(bar)
    return panels


def _title(row: Row) -> str:
    match row:
        case Result() if row.workload.startswith(NEXMARK):
            return f"{row.workload}, epochs of {row.epoch_records:,}"
        case Result():
            return f"{row.keys:,} {row.key_type} keys, epochs of {row.epoch_records:,}"
        case Operation():
            return f"{row.operation}, {row.keys:,} keys of {row.value_bytes:,} B"
        case Tick():
            return f"{row.checkpoints:,} checkpoints, {row.states} states"
        case LatencyRow():
            return f"a file {row.pace}, {row.keys:,} keys"
        case FailoverRow():
            return f"{row.killed} killed"
        case LifeRow():
            return f"{row.epochs:,} epochs"
        case FormRow():
            return f"{row.keys:,} keys, epochs of {row.epoch_records:,}"
        case LoadRow():
            return f"an epoch of {row.records:,} rows"
        case PartitionRow():
            return "the names of all partitions"
        case ScaleRow():
            return "the driver's part of an epoch"
        case RequestRow():
            return f"{row.phase}, changes {row.changes}"


def _bar(row: Row) -> Bar | None:
    if isinstance(row, Result):
        value = row.peak_rss_mb if row.workload == WORKER_MEMORY else row.records_per_second
        return Bar(f"{row.label} ({row.backend})", value, COLOURS.get(row.engine, OTHER))
    if isinstance(row, Tick):
        return Bar(row.form, row.median_seconds, COLOURS["lakestate"])
    if isinstance(row, LatencyRow):
        interval = f" (interval {row.trigger_interval_ms} ms)" if row.trigger_interval_ms else ""
        return Bar(row.engine + interval, row.p50_ms, COLOURS.get(row.engine.partition("/")[0], OTHER))
    if isinstance(row, FailoverRow):
        return Bar(f"{row.engine}, {row.keys:,} keys", row.seconds, COLOURS.get(row.engine.partition("/")[0], OTHER))
    if isinstance(row, LifeRow):
        return Bar("one of the last", row.last_ms, COLOURS["lakestate"])
    if isinstance(row, FormRow):
        return Bar(row.form, row.records_per_second, COLOURS["spark" if row.form.startswith("spark") else "lakestate"])
    if isinstance(row, LoadRow):
        return Bar(row.label, row.records_per_second, COLOURS["lakestate"] if "sink" in row.label else OTHER)
    if isinstance(row, ScaleRow):
        return Bar(f"{row.subtasks:,} subtasks", row.driver_ms, COLOURS["lakestate"])
    if isinstance(row, RequestRow):
        sent = row.put + row.get + row.head + row.list + row.delete
        return Bar(f"{row.subtasks} subtasks", sent, COLOURS["lakestate"])
    if isinstance(row, PartitionRow):
        return Bar(f"{row.savepoints:,} savepoints", row.names_seconds, COLOURS["lakestate"])
    if row.median_seconds is None:
        return None
    parallelism = row.parallelism if row.from_parallelism is None else f"{row.from_parallelism} → {row.parallelism}"
    return Bar(f"{row.label} ({row.backend}, p={parallelism})", row.median_seconds, COLOURS.get(row.engine, OTHER))


def _lines(rows: Sequence[Result]) -> tuple[str, Mapping[str, Sequence[Point]]]:
    """Returns the unit, and for each named line its points, in order of keys."""
    of_epochs, sizes = rows[0].workload == SMALL_EPOCHS, len({row.epoch_records for row in rows})
    lines: dict[str, list[Point]] = {}
    for row in sorted(rows, key=lambda row: row.keys):
        seconds = (row.epoch_records if of_epochs else 1) / row.records_per_second
        name = row.label if sizes == 1 else f"{row.label}, epochs of {row.epoch_records:,}"
        lines.setdefault(name, []).append(Point(row.keys, seconds * (1e3 if of_epochs else 1e6)))
    unit = f"ms per epoch of {rows[0].epoch_records:,} records" if of_epochs else "µs per record"
    return unit, lines


def _draw_panels(panels: Mapping[str, Sequence[Bar]], unit: str, path: Path) -> None:
    heights = [HEAD_INCHES + BAR_INCHES * len(bars) for bars in panels.values()]
    figure = Figure(figsize=(WIDTH_INCHES, sum(heights)), layout="constrained")
    shown = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes, (title, bars) in zip(shown[:, 0], panels.items(), strict=True):
        labels, values, colours = zip(*bars, strict=True)
        most = _longest(bars)
        made = axes.barh(range(len(bars)), [min(value, most) for value in values], color=colours)
        axes.set_yticks(range(len(bars)), labels)
        axes.bar_label(made, [_figure_of(value) + (" (cut)" if value > most else "") for value in values], padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        _finish(axes, title, unit)
    _save(figure, path)


def _longest(bars: Sequence[Bar]) -> float:
    """Returns the length at which bars are cut: next to a batch without state all others would be dots."""
    compared = [bar.value for bar in bars if bar.colour != OTHER]
    return max(compared or [bar.value for bar in bars])


def _draw_lines(unit: str, lines: Mapping[str, Iterable[Point]], path: Path) -> None:
    figure = Figure(figsize=(WIDTH_INCHES, WIDTH_INCHES * 0.6), layout="constrained")
    axes = figure.subplots()
    axes.set_prop_cycle(color=mpl.color_sequences["tab20"])
    for name, points in lines.items():
        keys, values = zip(*points, strict=True)
        axes.plot(keys, values, "--" if "/rocksdb" in name else "-", marker="o", label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_ylabel(unit)
    figure.legend(loc="outside right upper")
    _finish(axes, "", "keys")
    _save(figure, path)


def _finish(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, loc="left", fontsize="medium")
    axes.set_xlabel(unit)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}")
    axes.spines[["top", "right"]].set_visible(False)


def _figure_of(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _save(figure: Figure, path: Path) -> None:
    # The same rows give the same file, and text stays text.
    with mpl.rc_context({"svg.hashsalt": "lakestate", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


__all__ = ["draw"]
