"""Lists with a time to live, stored as columns in a database: they and their log equal those of the heap's entries."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lists_by_columns import ListsByColumns
from test_stamped_tables import COMPARED, Both, bare, of
from test_stamped_values import live_through

from state_engine.api import StateTtlConfig
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.rocksdb import LocalDatabase, Tuning, column_lists, headers
from state_engine.backends.rocksdb.column_lists import ColumnLists
from state_engine.testing.state_harness import StateHarness

CONFIGS = {name: config for name, config in COMPARED.items() if not Both(config).cleans}
CONFIGS["dropped at the start"] = bare().cleanup_full_snapshot()


class Written(ListsByColumns):
    """Writes sealed changes at once, as a worker does."""

    def settle(self) -> None:
        super().settle()
        self.commit("sealed")


class OfDatabase(Both):
    """Lists of a database, and those of entries on the heap."""

    def __init__(self, config: StateTtlConfig.Builder, folder: Path) -> None:
        super().__init__(config)
        self.folder = folder
        self.opened: list[LocalDatabase] = []
        self.harnesses = [StateHarness(make, "k bigint", now=(0, 0)) for make in (self.database, HeapKeyedStateBackend)]

    def database(self, *args: Any) -> Written:
        self.opened.append(LocalDatabase(self.folder / str(len(self.opened)), Tuning()))
        return Written(*args, self.opened[-1])


@pytest.fixture(params=["small", "spread"])
def forms(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if request.param == "spread":
        monkeypatch.setattr(headers, "SMALL", 24)
    made: list[OfDatabase] = []

    def begin(config: StateTtlConfig.Builder) -> OfDatabase:
        made.append(OfDatabase(config, tmp_path))
        return made[-1]

    yield begin
    for one in made:
        for database in one.opened:
            database.close()


@pytest.mark.slow
@pytest.mark.all_pairs(seed=1)
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("seed", range(3))
def test_columns_and_log_are_those_of_entries(forms: Any, config: str, seed: int) -> None:
    drawn, both = random.Random(seed), forms(CONFIGS[config])

    def in_one_epoch() -> None:
        for name in [drawn.choice(["longs", "texts"]) for _ in range(drawn.randrange(5))]:
            both.do(drawn, name, both.asked(drawn))

    live_through(drawn, both, in_one_epoch)


def test_what_has_expired_is_dropped_when_it_is_loaded(forms: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of cells at a time, however many exist."""
    monkeypatch.setattr(column_lists, "AT_ONCE", 7)
    both = forms(CONFIGS["dropped at the start"])
    for now in (0, 60):
        both.at(now)
        for lists in both.columns("longs"):
            lists.add_many(of([*range(now // 2, now // 2 + 40)] * 2), pa.array(range(80)))
        both.end()
    both.at(100)
    both.end()
    both.reopen()
    first, second = both.columns("longs")
    assert isinstance(both.harnesses[0].backend._tables["longs"].store, ColumnLists)  # type: ignore[attr-defined]
    every = of(list(range(80)))
    assert first.get_many(every).equals(second.get_many(every))
    for harness in both.harnesses:
        [counted] = harness.backend.statistics()
        assert (counted.rows, counted.keys) == (80, 40)
