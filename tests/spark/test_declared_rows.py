"""Declared operators that emit records: the newest and the first of each key, through restarts and a restore."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support import Input, Record, run_all, state_of

from state_engine.api import Aggregate
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


@pytest.mark.long  # `runtime/declared/test_latest.py`; test_shared_jobs.py has aggregates at other parallelisms
def test_latest_goes_on_at_other_parallelisms(spark: Any, tmp_path: Path) -> None:
    source, root = Input(tmp_path / "in"), tmp_path / "root"
    for backend, parallelism, files in (("heap", 2, 2), ("rocksdb", 3, 1), ("heap", 1, 1)):
        source.add_many(files)
        job = StreamJob("latest", root=str(root), parallelism=parallelism, state_backend=backend)
        last, largest = (job.from_stream(source.stream(spark)).key_by("k", order_by=["n"]) for _ in range(2))
        last.latest(uid="last").sink_to(MemorySink("last"), uid="last-out")
        largest.latest(by="v", uid="largest").sink_to(MemorySink("largest"), uid="largest-out")
        run_all(job, parallelism=parallelism)
    for name, order in (("last", lambda row: row.n), ("largest", lambda row: (row.v, row.n))):
        seen, wanted = {}, []
        for start in range(0, len(source.all), 60):
            of_epoch = {row.k: row for row in sorted(source.all[start : start + 60], key=order)}
            newer = [row for k, row in of_epoch.items() if k not in seen or order(row) > order(seen[k])]
            seen |= {row.k: row for row in newer}
            wanted += newer
        assert rows_of(name) == sorted(map(tuple, wanted))
        assert state_of(root, "latest", name, "latest") == {k: row._asdict() for k, row in seen.items()}


def rows_of(sink: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in MemorySink(sink).rows())


def top(rows: Iterable[Record], n: int, order: Callable[[Record], Any]) -> dict[Any, Record]:
    """Returns the first rows of each key, by key and rank."""
    of_key: dict[Any, list[Record]] = {}
    for row in sorted(rows):
        of_key.setdefault(row.k, []).append(row)
    return {(k, at): row for k, records in of_key.items() for at, row in enumerate(sorted(records, key=order)[:n], 1)}


def known(rows: Iterable[dict[str, Any]]) -> dict[Any, Record]:
    """Returns the rows that a reader of the changes has at the end."""
    held: dict[Any, Record] = {}
    for row in rows:
        *record, rank, op = row.values()
        one = Record(*record)
        if op[0] == "-":
            assert held.pop((one.k, rank)) == one
        else:
            assert (one.k, rank) not in held
            held[one.k, rank] = one
    return held


@pytest.mark.long  # `runtime/declared/test_top_n.py` restores them
@pytest.mark.parametrize("descending", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_first_records_through_a_restore(spark: Any, tmp_path: Path, descending: bool) -> None:
    source, root, name = Input(tmp_path / "in"), tmp_path / "root", f"top-{descending}"

    def job(backend: str, parallelism: int) -> StreamJob:
        made = StreamJob(name, root=str(root), parallelism=parallelism, state_backend=backend)
        keyed = made.from_stream(source.stream(spark)).key_by("k", order_by=["n"])
        first = keyed.top_n(3, by="v", descending=descending, uid="top")
        first.sink_to(MemorySink(name), uid="out")
        # This operator declares that it reads the changes as any other stream: how many there are of a key.
        first.where("op is not null").key_by("k").aggregate(
            {"rows": Aggregate.count(), "highest": Aggregate.max("rank")}, uid="downstream"
        )
        return made

    def order(row: Record) -> int:
        return -row.v if descending else row.v

    source.add_many(2)
    run_all(job("heap", 2))
    assert known(MemorySink(name).rows()) == top(source.all, 3, order)
    source.add_many(1)
    run_all(job("rocksdb", 3), parallelism=3)
    assert known(MemorySink(name).rows()) == top(source.all, 3, order)
    run_all(job("rocksdb", 1), parallelism=1, restore="epoch:1/2")
    assert known(MemorySink(name).rows()) == top(source.all, 3, order)
    table = {}
    for (k, _), row in sorted(top(source.all, 3, order).items(), key=lambda item: item[0][1]):
        table.setdefault(k, []).append(row._asdict())
    assert lists_of(root, name) == table


def lists_of(root: Path, job: str) -> dict[Any, list[Any]]:
    from state_engine.inspect import read_state

    lists: dict[Any, list[Any]] = {}
    for row in read_state(str(root), job, "top", "top").to_pylist():
        lists.setdefault(row["k"], []).append(row["value"])
    return lists
