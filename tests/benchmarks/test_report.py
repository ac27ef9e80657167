import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.model import Result
from benchmarks.report import show, show_verdicts, write_json
from benchmarks.thresholds import Verdict

Rows = Callable[..., Result]
FIELDS = [
    "workload",
    "engine",
    "form",
    "backend",
    "key_type",
    "keys",
    "records",
    "epoch_records",
    "parallelism",
    "records_per_second",
    "cpu_seconds_per_million",
    "peak_rss_mb",
    "results_equal",
    "memory_mb",
    "checkpoints",
    "freeze_ms",
    "changes_ms",
    "look_ns",
]


def printed(results: list[Result]) -> list[list[str]]:
    console = Console(width=200, record=True, file=StringIO())
    show(results, console)
    lines = [line for line in console.export_text().splitlines() if line.strip()]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


def test_json_has_exactly_the_fields_of_a_row(row: Rows, tmp_path: Path) -> None:
    write_json([row(), row(key_type="string")], tmp_path / "new" / "out.json")

    objects = json.loads((tmp_path / "new" / "out.json").read_text())

    assert [list(one) for one in objects] == [FIELDS, FIELDS]
    assert objects[1]["key_type"] == "string"
    assert objects[0]["results_equal"] is True


def test_the_table_is_markdown_with_ratios_side_by_side(row: Rows) -> None:
    peers = [
        row(engine="spark", form="transformWithState", backend="rocksdb", records_per_second=20_000.0),
        row(engine="spark", form="groupBy", backend="rocksdb", records_per_second=625_000.0),
    ]

    header, rule, ours, *_ = printed([row(), *peers])

    assert header[-3:] == ["results", "× transformWithState on rocksdb", "× groupBy on rocksdb"]
    assert set("".join(rule)) <= set("-:")
    assert ours[-3:] == ["equal", "25.00", "0.80"]


def test_backends_are_compared_with_the_heap_at_the_same_number_of_keys(row: Rows) -> None:
    def store(name: str, keys: int, speed: float) -> Result:
        return row(workload="state_backends", form=f"map/{name}", backend=name, keys=keys, records_per_second=speed)

    rows = [
        store("heap", 100, 8.0),
        store("rocksdb", 100, 2.0),
        store("heap", 1_000, 8.0),
        store("rocksdb", 1_000, 1.0),
    ]

    _, _, *shown = printed([*rows, row(form="value/rocksdb", backend="rocksdb", workload="state_backends")])

    assert [one[-1] for one in shown] == ["1.00", "0.25", "1.00", "0.12", ""]


@pytest.mark.parametrize(("slowest", "uneven"), [(149.0, False), (310.0, True)])
def test_a_machine_that_was_uneven_is_reported(row: Rows, slowest: float, uneven: bool) -> None:
    header, _, first, second, *rest = printed([row(look_ns=100.0), row(form="declared", look_ns=slowest)])
    place = header.index("look ns")
    assert [first[place], second[place]] == ["100", f"{slowest:.0f}"]
    said = " ".join(cell for line in rest for cell in line)
    assert ("took 100 ns around one row and 310 ns around another" in said) == uneven
    assert bool(rest) == uneven


def test_a_row_with_wrong_results_has_no_ratio(row: Rows) -> None:
    peer = row(engine="spark", form="groupBy", backend="rocksdb")

    lines = printed([row(results_equal=False), peer])

    assert lines[0][-2:] == ["results", "× groupBy on rocksdb"]
    assert lines[2][-2:] == ["WRONG", ""]
    assert lines[3][-2:] == ["equal", "1.00"]


def test_verdicts_say_what_was_not_reached() -> None:
    console = Console(width=60, record=True, file=StringIO())
    show_verdicts(
        [Verdict("speed", 21.5, True), Verdict("memory", 2000.0, False), Verdict("x", None, False, "why")], console
    )

    assert console.export_text().splitlines() == [
        "reached: speed (measured 21.50)",
        "NOT REACHED: memory (measured 2,000.00)",
        "open: x – why",
    ]
