"""The log rows of timers in a database: they are read as they were written, and old rows are folded."""

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_engine.api.timers import TimeDomain
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import KeyCodec, KeyContext, Namespaced, split_entries
from state_engine.backends.rocksdb import LocalDatabase, Tuning
from state_engine.backends.rocksdb.cells import Cells, group_of
from state_engine.backends.rocksdb.store import Changes
from state_engine.backends.rocksdb.timers import FEW, FOLDED, PER_CELL, TimerLog
from state_engine.backends.schemas import TIMERS, timer_schema
from state_engine.backends.shapes.timers import EntryTimers
from state_engine.key_groups import KeyGroupRange
from state_engine.log import ops as log
from state_engine.serialization.types import ddl_to_arrow, parse_columns

DOMAIN = TimeDomain.EVENT_TIME
Timer = tuple[Any, int]
LogRow = tuple[log.Op, Any, int | None]


class Place:
    """A database with the timers of one operator."""

    def __init__(self, folder: Path, key: str, max_parallelism: int) -> None:
        self.codec = KeyCodec(parse_columns(key), max_parallelism)
        self.schema = timer_schema("op", self.codec.columns, DOMAIN)
        self.database = LocalDatabase(folder / "db", Tuning())

    def opened(self) -> TimerLog:
        return TimerLog(self.database, Cells(1, self.codec), self.schema, EntryTimers(self.codec))

    def rows(self, ops: Sequence[LogRow]) -> pa.Table:
        """Returns rows of the log in this order; a reset has a key group instead of an entry."""
        resets = [op is log.Op.RESET_GROUP for op, _, _ in ops]
        keys, names = split_entries(
            [None if reset else entry for (_, entry, _), reset in zip(ops, resets, strict=True)]
        )
        several = len(self.codec.columns) > 1
        columns = self.codec.write([(None,) * 2 if key is None and several else key for key in keys])
        groups = [
            entry if reset else self.codec.key_group(key)
            for (_, entry, _), key, reset in zip(ops, keys, resets, strict=True)
        ]
        values = [True if op is log.Op.PUT else None for op, _, _ in ops]
        arrays = [groups, *columns, names or [None] * len(ops), [time for _, _, time in ops], values]
        schema = log.log_schema(self.schema, ddl_to_arrow)
        arrays += [[int(op) for op, _, _ in ops], list(range(len(ops))), [None] * len(ops)]
        return pa.table([pa.array(c, f.type) for c, f in zip(arrays, schema, strict=True)], schema=schema)

    def write(self, timers: TimerLog) -> Changes:
        changes = Changes()
        timers.write(changes)
        self.database.store.write(changes)
        return changes

    def found(self, timers: TimerLog | None = None) -> set[Timer]:
        """Returns the timers of a table that begins with the written rows."""
        range_ = KeyGroupRange(0, self.codec.max_parallelism - 1)
        backend = HeapKeyedStateBackend("op", self.codec, range_, KeyContext())
        table = backend.timers(DOMAIN)
        for rows in (timers or self.opened()).read():
            backend.apply(TIMERS[DOMAIN], rows)
        count, found = table.rows, {(entry, time) for time, entry in table.due(1 << 62)}
        assert count == len(found)
        return found

    def sizes(self) -> tuple[int, int]:
        """Returns the number of cells, and of rows in them."""
        cells = list(self.database.store.scan(*Cells(1, self.codec).groups(0, self.codec.max_parallelism - 1)))
        return len(cells), sum(rows.num_rows for rows in self.opened().read())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Any]:
    places: list[Place] = []

    def make(key: str = "k bigint", max_parallelism: int = 4) -> Place:
        places.append(Place(tmp_path / str(len(places)), key, max_parallelism))
        return places[-1]

    yield make
    for one in places:
        one.database.close()


@pytest.mark.all_pairs
@pytest.mark.parametrize("folds", [False, True])
@pytest.mark.parametrize("writes", ["together", "apart", "handed over"])
@pytest.mark.parametrize(("key", "keys"), [
    ("k bigint", [*range(9), None]),
    ("k string", ["", "a", "b", "\x00", None]),
    ("a string, b bigint", [("a", 1), ("a", 2), (None, 1), (None, None)]),
    ("k decimal(4,2)", [Decimal("1.5"), Decimal("-1"), None]),
])  # fmt: skip
def test_what_is_read_is_what_was_written(
    place: Any, monkeypatch: pytest.MonkeyPatch, key: str, keys: list[Any], writes: str, folds: bool
) -> None:
    monkeypatch.setattr("state_engine.backends.rocksdb.timers.FEW", 1 if folds else 1 << 40)
    monkeypatch.setattr("state_engine.backends.rocksdb.timers.PER_CELL", 1)
    monkeypatch.setattr("state_engine.backends.rocksdb.timers.BLOCKS", 3 if folds else 128)
    here, chance = place(key), random.Random(5)
    timers = here.opened()
    model: set[Timer] = set()
    entries = [*keys, *(Namespaced(one, name) for one in keys for name in ("", "w"))]
    for _ in range(30):
        ops: list[LogRow] = []
        for _ in range(chance.randrange(12)):
            op, entry, time = (
                chance.choice([log.Op.PUT, log.Op.DELETE]),
                chance.choice(entries),
                chance.randrange(-3, 3),
            )
            ops.append((op, entry, time))
            (model.add if op is log.Op.PUT else model.discard)((entry, time))
        if chance.random() < 0.2:
            group = chance.randrange(4)
            ops.append((log.Op.RESET_GROUP, group, None))
            dropped = [t for t in model if here.codec.key_group(split_entries([t[0]])[0][0]) == group]
            model.difference_update(dropped)
        timers.stage(here.rows(ops))
        if writes != "together":
            here.write(timers)
            assert here.found() == model
        if writes == "handed over":
            timers = here.opened()
            assert here.found(timers) == model
    here.write(timers)
    assert here.found() == model
    assert here.write(timers).cells == {}


@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("handed_over", [False, True])
def test_a_write_goes_with_what_changes_and_what_is_there_with_what_waits(
    place: Any, monkeypatch: pytest.MonkeyPatch, handed_over: bool, groups: int
) -> None:
    """A thousand timers wait; in each of many epochs a hundred come, and the oldest hundred go."""
    few, waiting = 300, 1_000
    monkeypatch.setattr("state_engine.backends.rocksdb.timers.FEW", few)
    here = place(max_parallelism=groups)
    timers, written, folds = here.opened(), 0, 0
    timers.stage(here.rows([(log.Op.PUT, n, n) for n in range(waiting)]))
    here.write(timers)
    an_epoch, live = 200 + PER_CELL * groups, waiting + PER_CELL * groups
    for epoch in range(150):
        came = range(waiting + 100 * epoch, waiting + 100 * (epoch + 1))
        ops = [(log.Op.PUT, n, n) for n in came] + [(log.Op.DELETE, n - waiting, n - waiting) for n in came]
        timers.stage(here.rows(ops))
        before = timers._sizes.copy()
        changes = here.write(timers)
        folded = [group_of(begin) for begin, _ in changes.ranges]
        assert before[folded].sum() <= FOLDED * an_epoch or len(folded) == 1
        assert len(changes.cells) <= groups
        assert timers._sizes.sum() <= 2 * live + few + an_epoch
        written += timers._decoded(list(changes.cells.values())).num_rows
        folds += len(folded)
        if handed_over:
            timers = here.opened()
            list(timers.read())
    assert here.found() == {(n, n) for n in range(came.stop - waiting, came.stop)}
    cells, rows = here.sizes()
    assert rows + PER_CELL * cells == timers._sizes.sum()
    assert 150 // 16 <= folds / groups <= 150 // 4
    assert written <= 2 * 200 * 150


def test_what_no_longer_waits_leaves_no_cells(place: Any) -> None:
    """However many timers waited before."""
    here, count = place(max_parallelism=2), FEW
    timers = here.opened()
    for op in (log.Op.PUT, log.Op.DELETE):
        timers.stage(here.rows([(op, n, n) for n in range(count)]))
        here.write(timers)
    assert here.sizes() == (0, 0)
    assert np.all(timers._sizes == 0)


def test_an_epoch_has_no_more_cells_than_there_are_blocks(place: Any) -> None:
    here = place(max_parallelism=32_768)
    timers = here.opened()
    timers.stage(here.rows([(log.Op.PUT, n, n) for n in range(5_000)]))
    assert len(here.write(timers).cells) == 128
    assert here.found() == {(n, n) for n in range(5_000)}


def test_what_undoes_all_before_it_is_folded_at_once(place: Any) -> None:
    """Otherwise a reader would go through all timers for each key group."""
    here = place(max_parallelism=2)
    timers = here.opened()
    timers.stage(here.rows([(log.Op.PUT, n, n) for n in range(100)]))
    here.write(timers)
    timers.stage(here.rows([(log.Op.RESET_GROUP, 1, None), (log.Op.CLEAR, 3, None), (log.Op.PUT, 3, 7)]))
    here.write(timers)
    assert all(set(rows.column(log.OP).to_pylist()) == {log.Op.PUT} for rows in here.opened().read())
    assert here.found() == {(n, n) for n in range(100) if n != 3 and here.codec.key_group(n) == 0} | {(3, 7)}
