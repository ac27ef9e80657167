"""The report: a Markdown table on the terminal, and JSON."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.model import ENGINES, STORES, Result, Verdict
from benchmarks.operation_model import Operation
from benchmarks.thresholds import ratio_to
from benchmarks.tick_model import Tick

STORE_LABELS = {engine.label for engine in STORES.values()}
PEERS = [engine.label for engine in ENGINES.values() if engine.engine == "spark"]


def to_json(results: Sequence[Result | Operation | Tick]) -> bytes:
    """Returns the rows as a JSON array of flat objects."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"


def write_json(results: Sequence[Result | Operation | Tick], path: Path) -> None:
    """Writes the rows to a file; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_json(results))


def table(results: Sequence[Result]) -> Table:
    """Returns the rows with their ratios to the peers in the same run; a row with wrong results has none."""
    shown = Table(box=box.MARKDOWN)
    for name in ("workload", "engine", "backend", "keys", "records", "epoch"):
        shown.add_column(name, justify="right" if name in ("records", "epoch") else "left", no_wrap=True)
    for name in (
        "records/s",
        "CPU s per M",
        "peak MiB",
        "of RocksDB",
        "results",
        *(f"× {peer.split('/')[1]}" for peer in PEERS),
        "× heap",
    ):
        shown.add_column(name, justify="right", no_wrap=True)
    for row in results:
        shown.add_row(
            row.workload,
            row.label,
            row.backend,
            f"{row.keys:,} {row.key_type}",
            f"{row.records:,}",
            f"{row.epoch_records:,}",
            f"{row.records_per_second:,.0f}",
            f"{row.cpu_seconds_per_million:.2f}",
            f"{row.peak_rss_mb:,.0f}",
            "" if row.memory_mb is None else f"≤ {row.memory_mb:,}",
            "equal" if row.results_equal else "WRONG",
            *(_ratio(row, peer, results) for peer in PEERS),
            _ratio(row, f"{row.label.rpartition('/')[0]}/heap", results) if row.label in STORE_LABELS else "",
        )
    return shown


def show(results: Sequence[Result], console: Console) -> None:
    """Prints the table as Markdown; narrow consoles cut it."""
    console.print(table(results), highlight=False)


def show_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """Prints each threshold on a line, with what was measured."""
    for verdict in verdicts:
        mark = "reached" if verdict.reached else "open" if verdict.measured is None else "NOT REACHED"
        measured = "" if verdict.measured is None else f" (measured {verdict.measured:,.2f})"
        note = f" – {verdict.note}" if verdict.note else ""
        console.print(f"{mark}: {verdict.name}{measured}{note}", soft_wrap=True, highlight=False, markup=False)


def _ratio(row: Result, peer: str, results: Sequence[Result]) -> str:
    right = [other for other in results if other.results_equal]
    ratio = ratio_to(row, peer, right) if row.results_equal else None
    return "" if ratio is None else f"{ratio:.2f}"
