"""Changelogs from one declared operator to the next, through restarts, a restore and both phases of an aggregation."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from shared_jobs.declared import known
from support import Input, Record, run_all

from state_engine.api import Aggregate
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


@pytest.mark.long  # `runtime/declared/test_changelog_chains.py` has all of these chains
def test_what_is_among_the_first_or_aggregated_is_aggregated_by_another_key(spark: Any, tmp_path: Path) -> None:
    """Counts the places of each `k` among the first records of each `sub`, and the keys per number of records."""
    source, root = Input(tmp_path / "in"), tmp_path / "root"

    def job(backend: str, parallelism: int) -> StreamJob:
        made = StreamJob("places", root=str(root), parallelism=parallelism, state_backend=backend)
        records, others = (made.from_stream(source.stream(spark), name) for name in ("records", "others"))
        first = records.key_by("sub", order_by=["n"]).top_n(3, by="v", uid="first")
        places = first.key_by("k").aggregate(
            {"places": Aggregate.count(), "points": Aggregate.sum("v"), "rank": Aggregate.avg("rank")},
            retract=True,
            uid="places",
        )
        places.sink_to(MemorySink("places"), uid="out-places")
        numbers = {"records": Aggregate.count(), "total": Aggregate.sum("v")}
        of_keys = others.key_by("k").aggregate(numbers, changelog=True, uid="of-keys")
        by_count = {"keys": Aggregate.count(), "total": Aggregate.sum("total")}
        counted = of_keys.key_by("records").aggregate(by_count, retract=True, uid="by-count")
        counted.sink_to(MemorySink("by-count"), uid="out-by-count")
        return made

    def grouped(rows: Iterable[Any], column: int) -> dict[Any, list[Any]]:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for row in rows:
            groups[row[column]].append(row)
        return groups

    def check() -> None:
        in_order = sorted(source.all, key=lambda row: row.n)
        firsts = [sorted(rows, key=lambda row: -row.v)[:3] for rows in grouped(in_order, 2).values()]
        placed = [(row.k, row.v, place) for rows in firsts for place, row in enumerate(rows, 1)]
        assert known(MemorySink("places").rows()) == {
            k: (len(rows), sum(v for _, v, _ in rows), sum(place for *_, place in rows) / len(rows))
            for k, rows in grouped(placed, 0).items()
        }
        of_keys = [(len(rows), sum(row.v for row in rows)) for rows in grouped(in_order, 1).values()]
        assert known(MemorySink("by-count").rows()) == {
            count: (len(rows), sum(total for _, total in rows)) for count, rows in grouped(of_keys, 0).items()
        }

    source.add_many(2)
    run_all(job("heap", 2))
    check()
    source.add_many(1)
    run_all(job("rocksdb", 3), parallelism=3)
    check()
    run_all(job("heap", 1), parallelism=1, restore="epoch:1/2")
    check()


@pytest.mark.parametrize("strategy", ["TWO_PHASE", pytest.param("ONE_PHASE", marks=pytest.mark.long)])
def test_updates_say_what_they_replace_in_both_phases(spark: Any, tmp_path: Path, strategy: str) -> None:
    source, root = Input(tmp_path / "in").add_many(2), tmp_path / "root"
    job = StreamJob("updates", root=str(root), parallelism=2, agg_phase_strategy=strategy)
    keyed = job.from_stream(source.stream(spark)).key_by("k")
    numbers = {"n": Aggregate.count(), "least": Aggregate.min("v")}
    keyed.aggregate(numbers, changelog=True, uid="updates").sink_to(MemorySink("updates"), uid="out")
    run_all(job)
    of_key: dict[Any, list[Record]] = defaultdict(list)
    for row in source.all:
        of_key[row.k].append(row)
    wanted = {k: (len(rows), min(row.v for row in rows)) for k, rows in of_key.items()}
    assert known(MemorySink("updates").rows()) == wanted
    assert {row["op"] for row in MemorySink("updates").rows()} == {"+I", "-U", "+U"}
