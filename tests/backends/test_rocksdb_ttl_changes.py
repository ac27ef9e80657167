"""States in a database get another time to live: their stored form is another one, so they are loaded again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state_engine.api import Duration, Types, ValueStateDescriptor
from state_engine.api.ttl import StateTtlConfig
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
from state_engine.testing.state_harness import StateHarness

WITHOUT = ValueStateDescriptor("count", Types.LONG())
WITH = ValueStateDescriptor("count", Types.LONG())
WITH.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(100)).build())


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Any]:
    """Returns a function that makes an instance over one folder and the log of an earlier one; it counts its loads."""
    opened: list[LocalDatabase] = []

    def make(descriptor: ValueStateDescriptor, earlier: StateHarness | None = None) -> Any:
        def backend(*args: Any) -> RocksDBKeyedStateBackend:
            opened.append(LocalDatabase(tmp_path / "range", Tuning(), wait_s=5))
            return RocksDBKeyedStateBackend(*args, opened[-1])

        if earlier is not None:
            opened[-1].close()
        harness: Any = StateHarness(backend, "k bigint", earlier.epochs if earlier is not None else ())
        harness.loads = 0
        load = harness._load

        def counted(schema: Any) -> Any:
            harness.loads += 1
            return load(schema)

        harness._load = counted
        harness.backend.attach(harness._schemas, counted)
        harness.backend.state(descriptor)
        return harness

    yield make
    for database in opened:
        database.close()


def seal(harness: Any) -> None:
    harness.seal()
    harness.backend.commit(f"t{len(harness.epochs)}")


@pytest.mark.parametrize(("before", "after"), [(WITHOUT, WITH), (WITH, WITHOUT)])
def test_it_is_loaded_when_stamps_come_or_go(instance: Any, before: Any, after: Any) -> None:
    first = instance(before)
    first.state(before, 1).update(7)
    seal(first)
    same = instance(before, first)
    assert same.loads == 0
    assert same.state(before, 1).value() == 7
    other = instance(after, same)
    assert other.loads == 1
    assert other.state(after, 1).value() == 7


def test_the_time_of_the_last_access_survives_in_the_database(instance: Any) -> None:
    first = instance(WITH)
    first.time.processing_time = 1_000
    first.state(WITH, 1).update(7)
    seal(first)
    later = instance(WITH, first)
    assert later.loads == 0
    for now, expected in ((1_099, 7), (1_100, None)):
        later.time.processing_time = now
        assert later.state(WITH, 1).value() == expected
        later.backend.forget()
