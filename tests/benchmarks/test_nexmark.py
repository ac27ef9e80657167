"""Nexmark: its events, and the results of its queries, by a loop and by every installed engine."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.engines.flink_environment import FLINK_PYTHON
from benchmarks.nexmark import events
from benchmarks.nexmark.events import AUCTION, BID, PERSON
from benchmarks.nexmark.queries import CATEGORY, GAP_MS, LAST_STATE, QUERIES, SLIDE_MS, SQL, WINDOW_MS
from benchmarks.nexmark.reference import answer
from benchmarks.nexmark.rows import final, sums

EVENTS = 60_000
Rows = list[dict[str, int]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("nexmark")
    events.write(made, epochs=5, epoch_events=EVENTS // 5, files_per_epoch=2)
    return made


@pytest.fixture(scope="module")
def drawn() -> dict[str, Rows]:
    return {kind: table.to_pylist() for kind, table in events.draw(EVENTS).items()}


def test_events_are_what_they_should_be(drawn: dict[str, Rows]) -> None:
    people, auctions, bids = (drawn[kind] for kind in (PERSON, AUCTION, BID))
    assert [len(rows) for rows in (people, auctions, bids)] == [EVENTS // 50, EVENTS * 3 // 50, EVENTS * 46 // 50]
    assert sorted(row["t"] for rows in drawn.values() for row in rows) == list(
        range(people[0]["t"], people[0]["t"] + EVENTS)
    )
    came = {row["id"]: row["t"] for row in people}
    began = {row["id"]: row["t"] for row in auctions}
    assert (len(came), len(began)) == (len(people), len(auctions))
    assert all(came[row["seller"]] < row["t"] < row["expires"] for row in auctions)
    assert all(began[row["auction"]] < row["t"] and came[row["bidder"]] < row["t"] for row in bids)
    won = sum(row["t"] <= auctions[row["auction"]]["expires"] for row in bids)
    assert 0.2 < won / len(bids) < 0.9, "some bids come too late"
    hot = Counter(row["auction"] % events.HOT == 0 for row in bids)
    assert 0.45 < hot[True] / len(bids) < 0.6


def test_files_hold_all_events_epoch_by_epoch(folder: Path, drawn: dict[str, Rows]) -> None:
    for kind, rows in drawn.items():
        files = sorted((folder / kind).iterdir())
        assert len(files) == 10
        tables = [pq.read_table(file) for file in files]
        for epoch in range(5):
            times = sorted(np.concatenate([np.asarray(t.column("t")) for t in tables[2 * epoch : 2 * epoch + 2]]))
            own = [row["t"] for row in rows if (row["t"] - drawn[PERSON][0]["t"]) // (EVENTS // 5) == epoch]
            assert times == own


def right(query: str, folder: Path) -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for row in answer(f"nexmark-{query}", str(folder), 2).to_pylist())


def won_by(drawn: dict[str, Rows]) -> dict[int, dict[str, int]]:
    """Returns the first of the highest bids of each auction."""
    best: dict[int, dict[str, int]] = {}
    for bid in drawn[BID]:
        auction = drawn[AUCTION][bid["auction"]]
        there = best.get(bid["auction"])
        if bid["t"] <= auction["expires"] and (there is None or bid["price"] > there["price"]):
            best[bid["auction"]] = bid
    return best


def test_joins_and_winners(folder: Path, drawn: dict[str, Rows]) -> None:
    people = {row["id"]: row for row in drawn[PERSON]}
    sold = [
        (row["seller"], people[row["seller"]]["state"], row["id"])
        for row in drawn[AUCTION]
        if row["category"] == CATEGORY
    ]
    assert right("q3", folder) == sorted(row for row in sold if row[1] <= LAST_STATE)
    best = won_by(drawn)
    assert right("q9", folder) == sorted((a, bid["bidder"], bid["price"], bid["t"]) for a, bid in best.items())
    prices = defaultdict(list)
    for auction, bid in best.items():
        prices[drawn[AUCTION][auction]["category"]].append(bid["price"])
    assert right("q4", folder) == sorted((category, sum(own), len(own)) for category, own in prices.items())
    windows = {(row["id"], row["t"] // WINDOW_MS * WINDOW_MS) for row in drawn[PERSON]}
    sellers = {(row["seller"], row["t"] // WINDOW_MS * WINDOW_MS) for row in drawn[AUCTION]}
    assert right("q8", folder) == sorted(windows & sellers)


def test_windows_and_sessions(folder: Path, drawn: dict[str, Rows]) -> None:
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    highest: dict[int, Rows] = defaultdict(list)
    for bid in drawn[BID]:
        last = bid["t"] // SLIDE_MS * SLIDE_MS
        for start in range(last, last - WINDOW_MS, -SLIDE_MS):
            counts[start][bid["auction"]] += 1
        highest[bid["t"] // WINDOW_MS * WINDOW_MS].append(bid)
    most = {start: max(own.values()) for start, own in counts.items()}
    hot = [(start, a, n) for start, own in counts.items() for a, n in own.items() if n == most[start]]
    assert right("q5", folder) == sorted(hot)
    prices = {start: max(bid["price"] for bid in own) for start, own in highest.items()}
    dearest = [(start, *bid.values()) for start, own in highest.items() for bid in own if bid["price"] == prices[start]]
    assert right("q7", folder) == sorted(dearest)
    of_bidder: dict[int, list[list[int]]] = defaultdict(list)
    for bid in drawn[BID]:
        own = of_bidder[bid["bidder"]]
        if own and bid["t"] - own[-1][-1] <= GAP_MS:
            own[-1].append(bid["t"])
        else:
            own.append([bid["t"]])
    sessions = [(b, s[0], s[-1] + GAP_MS, len(s)) for b, own in of_bidder.items() for s in own]
    assert right("q11", folder) == sorted(sessions)
    last_bids = {(bid["bidder"], bid["auction"]): bid for bid in drawn[BID]}
    assert right("q18", folder) == sorted((*key, bid["price"], bid["t"]) for key, bid in last_bids.items())


def test_every_query_has_its_sql() -> None:
    named = {path.name.partition(".")[0] for path in SQL.iterdir()}
    assert named == set(QUERIES)


def test_sums_tell_rows_apart() -> None:
    rows = pa.table({"a": [1, 2, 2], "b": [5, 6, 7]})
    assert sums(rows).equals(sums(rows.take([2, 0, 1])))
    assert not sums(rows).equals(sums(rows.set_column(1, "b", pa.array([5, 7, 8]))))
    assert not sums(rows).equals(sums(pa.table({"a": [2, 1, 2], "b": [5, 6, 7]})))
    assert sums(final(rows, 1)).equals(sums(rows.take([0, 2])))
    assert final(rows, 0) is rows


def run(engines: str, epoch: str, folder: Path, queries: str = ",".join(QUERIES)) -> list[dict[str, Any]]:
    out = folder / "out.json"
    sizes = [
        "--queries",
        queries,
        "--epoch",
        epoch,
        "--epochs",
        "5",
        "--engines",
        engines,
        "--json",
        str(out),
        "--work",
        str(folder / "work"),
    ]
    result = CliRunner().invoke(app, ["nexmark", *sizes])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(out.read_text())
    return rows


@pytest.mark.long
@pytest.mark.slow
def test_the_reference_of_one_query_runs_in_a_process_of_its_own_and_arrives_at_what_is_right(tmp_path: Path) -> None:
    rows = run("duckdb", "6k", tmp_path, "q11")
    assert [(row["engine"], row["workload"], row["results_equal"]) for row in rows] == [("duckdb", "nexmark-q11", True)]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_lakestate_arrives_at_what_is_right(tmp_path: Path) -> None:
    rows = run("lakestate,duckdb", "6k", tmp_path)
    assert [row["workload"] for row in rows] == [f"nexmark-{query}" for query in QUERIES for _ in range(2)]
    assert [row["engine"] for row in rows] == ["lakestate", "duckdb"] * len(QUERIES)
    assert all(row["results_equal"] for row in rows)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_row_names_its_form_and_backend(tmp_path: Path) -> None:
    rows = run("vectorised,declared/rocksdb,spark", "6k", tmp_path, "q4")
    assert [(row["engine"], row["form"], row["backend"]) for row in rows] == [
        ("lakestate", "vectorised", "heap"),
        ("lakestate", "declared/rocksdb", "rocksdb"),
    ]
    assert all(row["results_equal"] for row in rows)
    (row,) = run("spark", "6k", tmp_path, "q11")
    assert (row["engine"], row["form"], row["backend"]) == ("spark", "sql", "rocksdb")
    assert row["results_equal"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(not FLINK_PYTHON.exists(), reason="`make flink` makes it")
def test_flink_arrives_at_what_is_right(tmp_path: Path) -> None:
    rows = run("flink-sql", "20k", tmp_path)
    assert len(rows) == len(QUERIES)
    assert all(row["results_equal"] for row in rows)
