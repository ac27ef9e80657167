"""Prints the report as a Markdown table, and writes it as JSON."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.model import ENGINES, FRAUD_ENGINES, NEXMARK_ENGINES, STORES, Result, Verdict, with_backend
from benchmarks.thresholds import ratio_to, unmeasured

STORE_LABELS = {engine.label for engine in STORES.values()}
_COMPARED = (*ENGINES.values(), *NEXMARK_ENGINES.values(), *FRAUD_ENGINES.values())
PEERS = [e.label for e in _COMPARED if e.engine != "lakestate"]
PEERS = list(dict.fromkeys(PEERS))


def to_json(results: Sequence[msgspec.Struct]) -> bytes:
    """Returns the rows as a JSON array of flat objects."""
    return msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"


def write_json(results: Sequence[msgspec.Struct], path: Path) -> None:
    """Writes the rows to a file, and creates its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(to_json(results))


def _short(peer: str) -> str:
    """Returns a peer's label with its backend, without `spark/` if no other peer has a form of the same name."""
    operator = peer.removeprefix("spark/")
    taken = any(other.endswith(f"/{operator}") for other in PEERS if other != peer)
    return with_backend(peer) if taken else with_backend(peer).removeprefix("spark/")


RATIOS = [*(f"× {_short(peer)}" for peer in PEERS), "× heap"]
HEAD = ["workload", "engine", "backend", "keys", "records", "epoch", "p", "checkpoints", "records/s", "CPU s per M"]
HEAD += ["freeze ms", "changes ms", "look ns", "peak MiB", "of RocksDB", "results", *RATIOS]
TEXTS = HEAD[:4]
WIDTH = 1_000
"""Width of a table in characters, wherever the output goes: a Markdown line must not be cut."""
UNEVEN = 1.5
"""If the slowest memory access is more than 1.5 times the fastest one, rows cannot be compared."""


def table(results: Sequence[Result]) -> Table:
    """Returns the rows with their ratios to the peers in the same run; a row with wrong results has no ratio.

    Columns that are empty in all rows are omitted.
    """
    shown = Table(box=box.MARKDOWN)
    rows = [_cells(row, results) for row in results]
    filled = [number for number in range(len(HEAD)) if any(cells[number] for cells in rows)]
    for number in filled:
        shown.add_column(HEAD[number], justify="left" if HEAD[number] in TEXTS else "right", no_wrap=True)
    for cells in rows:
        shown.add_row(*(cells[number] for number in filled))
    return shown


def _cells(row: Result, results: Sequence[Result]) -> list[str]:
    return [
        row.workload,
        row.label,
        row.backend,
        f"{row.keys:,} {row.key_type}",
        f"{row.records:,}",
        f"{row.epoch_records:,}",
        f"{row.parallelism}",
        row.checkpoints,
        f"{row.records_per_second:,.0f}",
        f"{row.cpu_seconds_per_million:.2f}",
        "" if row.freeze_ms is None else f"{row.freeze_ms:.1f}",
        "" if row.changes_ms is None else f"{row.changes_ms:.1f}",
        "" if row.look_ns is None else f"{row.look_ns:,.0f}",
        f"{row.peak_rss_mb:,.0f}",
        "" if row.memory_mb is None else f"≤ {row.memory_mb:,}",
        "equal" if row.results_equal else "WRONG",
        *(_ratio(row, peer, results) for peer in PEERS),
        _ratio(row, f"{row.label.rpartition('/')[0]}/heap", results) if row.label in STORE_LABELS else "",
    ]


def show(results: Sequence[Result], console: Console) -> None:
    """Prints the table as Markdown, and a warning if the machine was uneven; consoles narrower than `WIDTH` cut it."""
    console.print(table(results), highlight=False)
    looks = [row.look_ns for row in results if row.look_ns is not None]
    if looks and max(looks) > UNEVEN * min(looks):
        console.print(
            f"The machine was uneven: a memory access took {min(looks):,.0f} ns around one row and "
            f"{max(looks):,.0f} ns around another (look ns). Compare rows with similar values, or run it again.",
            highlight=False,
            soft_wrap=True,
        )


def show_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """Prints each threshold on a line, with the measured figure."""
    for verdict in verdicts:
        mark = "reached" if verdict.reached else "open" if verdict.measured is None else "NOT REACHED"
        measured = "" if verdict.measured is None else f" (measured {verdict.measured:,.2f})"
        note = f" – {verdict.note}" if verdict.note else ""
        console.print(f"{mark}: {verdict.name}{measured}{note}", soft_wrap=True, highlight=False, markup=False)


def show_unmeasured(verdicts: Sequence[Verdict], console: Console) -> None:
    """Prints a table of the thresholds that were not measured, with their missing rows; nothing if there are none."""
    open_verdicts = unmeasured(verdicts)
    if not open_verdicts:
        return
    shown = Table(box=box.MARKDOWN)
    shown.add_column(f"not measured: {len(open_verdicts)} of {len(verdicts)} thresholds", no_wrap=True)
    shown.add_column("no row of", no_wrap=True)
    for verdict in open_verdicts:
        shown.add_row(verdict.name, ", ".join(verdict.missing))
    console.print(shown, highlight=False)


def _ratio(row: Result, peer: str, results: Sequence[Result]) -> str:
    right = [other for other in results if other.results_equal]
    ratio = ratio_to(row, peer, right) if row.results_equal else None
    return "" if ratio is None else f"{ratio:.2f}"
