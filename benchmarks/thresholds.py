"""Checks a run against the files of thresholds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from benchmarks.dagster_partitions import PartitionRow, judge_partitions
from benchmarks.failover.model import FailoverLimit, FailoverRow, judge_failover
from benchmarks.forms.measure import judge_forms
from benchmarks.forms.model import FormExtra, FormLimit, FormRow
from benchmarks.latency.model import LatencyLimit, LatencyRow, judge_latency
from benchmarks.loads.model import LoadRow, judge_loads
from benchmarks.long_life import LifeLimit, LifeRow, judge_life
from benchmarks.model import Result, Verdict, with_backend
from benchmarks.operation_limits import Quotient, Seconds, Share, judge_operations
from benchmarks.operation_model import Operation
from benchmarks.plots import Row
from benchmarks.requests.model import RequestLimit, RequestRow, judge_requests
from benchmarks.scale.model import ScaleLimit, ScaleRow, judge_scale
from benchmarks.tick_model import Tick, TickLimit, judge_ticks

_NAMES = ("thresholds.toml", *(f"workloads/{name}.toml" for name in ("thresholds", "floors", "limits")))
_FOLDERS = ("nexmark", "forms", "fraud", "latency", "failover", "scale", "requests")
FILES = tuple(Path(__file__).parent / name for name in (*_NAMES, *(f"{folder}/thresholds.toml" for folder in _FOLDERS)))


class Ratio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One engine must be at least `at_least` times as fast as another; with `keys`, only at that number of keys."""

    workload: str
    key_types: list[str]
    epoch_records: int
    of: str
    to: str
    at_least: float
    keys: int | None = None


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure of an engine must be at most `at_most`."""

    workload: str
    of: str
    figure: Literal["peak_rss_mb", "cpu_seconds_per_million", "freeze_ms", "changes_ms"]
    at_most: float


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits the memory of an engine beyond that of an engine without state, as a multiple of RocksDB's limit."""

    workload: str
    of: str
    beyond: str
    at_most: float


class Growth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits how much more a record costs an engine with many keys than with few keys.

    With `beyond`, the growth is divided by that of another engine, which only looks up keys. Epochs of one size are
    compared; the worst of several sizes counts.
    """

    workload: str
    of: str
    few: int
    many: int
    at_most: float
    beyond: str | None = None


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The thresholds of all files."""

    ratio: list[Ratio] = []
    limit: list[Limit] = []
    memory: list[Memory] = []
    growth: list[Growth] = []
    seconds: list[Seconds] = []
    share: list[Share] = []
    quotient: list[Quotient] = []
    tick: list[TickLimit] = []
    latency: list[LatencyLimit] = []
    failover: list[FailoverLimit] = []
    life: list[LifeLimit] = []
    form: list[FormLimit] = []
    extra: list[FormExtra] = []
    scale: list[ScaleLimit] = []
    request: list[RequestLimit] = []


def load(paths: Sequence[Path] = FILES) -> Thresholds:
    """Reads the thresholds of all files.

    Raises:
        msgspec.ValidationError: A file has other contents.
    """
    files = [msgspec.toml.decode(path.read_bytes(), type=Thresholds) for path in paths]
    kinds = Thresholds.__struct_fields__
    return Thresholds(**{kind: [one for file in files for one in getattr(file, kind)] for kind in kinds})


def judge(
    thresholds: Thresholds,
    rows: Sequence[Row],
) -> list[Verdict]:
    """Returns a verdict for each threshold of the workloads that were run."""
    results = [row for row in rows if isinstance(row, Result)]
    workloads = {result.workload for result in results}
    verdicts = [
        *_ratios(thresholds.ratio, results),
        *_limits(thresholds.limit, results),
        *_memories(thresholds.memory, results),
        *_growths(thresholds.growth, results),
    ]
    return [
        *(verdict for workload, verdict in verdicts if workload in workloads),
        *judge_operations(
            [*thresholds.seconds, *thresholds.share, *thresholds.quotient],
            [row for row in rows if isinstance(row, Operation)],
        ),
        *judge_ticks(thresholds.tick, [row for row in rows if isinstance(row, Tick)]),
        *judge_partitions([row for row in rows if isinstance(row, PartitionRow)]),
        *judge_loads([row for row in rows if isinstance(row, LoadRow)]),
        *judge_forms([*thresholds.form, *thresholds.extra], [row for row in rows if isinstance(row, FormRow)]),
        *judge_life(thresholds.life, [row for row in rows if isinstance(row, LifeRow)]),
        *judge_latency(thresholds.latency, [row for row in rows if isinstance(row, LatencyRow)]),
        *judge_failover(thresholds.failover, [row for row in rows if isinstance(row, FailoverRow)]),
        *judge_scale(thresholds.scale, [row for row in rows if isinstance(row, ScaleRow)]),
        *judge_requests(thresholds.request, [row for row in rows if isinstance(row, RequestRow)]),
    ]


def passed(verdicts: Sequence[Verdict]) -> bool:
    """Returns whether at least one threshold was measured, and all measured ones are reached."""
    measured = [verdict for verdict in verdicts if verdict.measured is not None]
    return bool(measured) and all(verdict.reached for verdict in measured)


def unmeasured(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Returns the verdicts of thresholds that the run did not measure."""
    return [verdict for verdict in verdicts if verdict.measured is None]


def ratio_to(result: Result, label: str, results: Sequence[Result]) -> float | None:
    """Returns the ratio of a row's speed to another engine's in the same case; None without such a row."""
    for other in results:
        if other.label == label and _case(other) == _case(result):
            return result.records_per_second / other.records_per_second
    return None


def _case(result: Result) -> tuple[str, str, int, int, int]:
    return result.workload, result.key_type, result.keys, result.epoch_records, result.parallelism


def _ratios(ratios: Sequence[Ratio], results: Sequence[Result]) -> Iterator[tuple[str, Verdict]]:
    for ratio in ratios:
        for key_type in ratio.key_types:
            at_keys = "" if ratio.keys is None else f"{ratio.keys:,} "
            name = (
                f"{ratio.workload}, {at_keys}{key_type} keys, epochs of {ratio.epoch_records:,}: "
                f"{with_backend(ratio.of)} at least {ratio.at_least:g} times {with_backend(ratio.to)}"
            )
            rows = [r for r in results if (r.workload, r.key_type, r.epoch_records) == _where(ratio, key_type)]
            rows = [r for r in rows if ratio.keys in (None, r.keys)]
            pair = [r for r in rows if r.label in (ratio.of, ratio.to)]
            missing = _without(pair, (ratio.of, ratio.to))
            mine = next((r for r in pair if r.label == ratio.of), None)
            measured = ratio_to(mine, ratio.to, pair) if mine else None
            reached = measured is not None and measured >= ratio.at_least
            yield ratio.workload, _verdict(name, measured, reached, pair, missing)


def _where(ratio: Ratio, key_type: str) -> tuple[str, str, int]:
    return ratio.workload, key_type, ratio.epoch_records


def _limits(limits: Sequence[Limit], results: Sequence[Result]) -> Iterator[tuple[str, Verdict]]:
    for limit in limits:
        name = f"{limit.workload}: {limit.figure} of {limit.of} at most {limit.at_most:g}"
        rows = [r for r in results if (r.workload, r.label) == (limit.workload, limit.of)]
        figures = [getattr(r, limit.figure) for r in rows]
        measured = max((float(figure) for figure in figures if figure is not None), default=None)
        reached = measured is not None and measured <= limit.at_most
        yield limit.workload, _verdict(name, measured, reached, rows, _without(rows, (limit.of,)))


def _memories(memories: Sequence[Memory], results: Sequence[Result]) -> Iterator[tuple[str, Verdict]]:
    for memory in memories:
        name = (
            f"{memory.workload}: {memory.of} needs at most {memory.at_most:g} times the memory that RocksDB may use "
            f"more than {memory.beyond}"
        )
        rows = [r for r in results if r.workload == memory.workload and r.label in (memory.of, memory.beyond)]
        peaks = {row.label: row.peak_rss_mb for row in rows}
        limits = {row.memory_mb for row in rows}
        measured = None
        if len(peaks) == 2 and len(limits) == 1 and (limit := limits.pop()):
            measured = (peaks[memory.of] - peaks[memory.beyond]) / limit
        reached, missing = (
            measured is not None and measured <= memory.at_most,
            _without(rows, (memory.of, memory.beyond)),
        )
        yield memory.workload, _verdict(name, measured, reached, rows, missing)


def _growths(growths: Sequence[Growth], results: Sequence[Result]) -> Iterator[tuple[str, Verdict]]:
    for growth in growths:
        than = "" if growth.beyond is None else f" than one of {growth.beyond}"
        name = (
            f"{growth.workload}: from {growth.few:,} to {growth.many:,} keys a record of {growth.of} costs at most "
            f"{growth.at_most:g} times more{than}"
        )
        labels = [label for label in (growth.of, growth.beyond) if label is not None]
        sizes = (growth.few, growth.many)
        rows = [r for r in results if r.workload == growth.workload and r.label in labels and r.keys in sizes]
        measured = max(filter(None, (_grown(growth, labels, rows, size) for size in _epoch_sizes(rows))), default=None)
        measured_cases = {(row.label, row.keys) for row in rows}
        needed = [(label, keys) for label in labels for keys in sizes]
        missing = tuple(f"{label} with {keys:,} keys" for label, keys in needed if (label, keys) not in measured_cases)
        yield (
            growth.workload,
            _verdict(name, measured, measured is not None and measured <= growth.at_most, rows, missing),
        )


def _epoch_sizes(rows: Sequence[Result]) -> list[int]:
    return sorted({row.epoch_records for row in rows})


def _grown(growth: Growth, labels: Sequence[str], rows: Sequence[Result], epoch_records: int) -> float | None:
    """Returns the ratio of a record's cost with many keys to that with few keys, in epochs of one size."""
    costs = {(r.label, r.keys): 1 / r.records_per_second for r in rows if r.epoch_records == epoch_records}
    if len(costs) < 2 * len(labels):
        return None
    ratio, *other = (costs[label, growth.many] / costs[label, growth.few] for label in labels)
    return ratio / other[0] if other else ratio


def _without(rows: Sequence[Result], labels: Sequence[str]) -> tuple[str, ...]:
    return tuple(label for label in labels if all(row.label != label for row in rows))


def _verdict(
    name: str, measured: float | None, reached: bool, rows: Sequence[Result], missing: tuple[str, ...]
) -> Verdict:
    if measured is None:
        return Verdict(name, None, False, "not measured in this run", missing)
    wrong = sorted({row.label for row in rows if not row.results_equal})
    if wrong:
        return Verdict(name, measured, False, "wrong results: " + ", ".join(wrong))
    return Verdict(name, measured, reached)
