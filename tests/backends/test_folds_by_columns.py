"""Reducing and aggregating states of functions that fold columns equal those of rows, in every kind of table."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from folds_of_columns import FOLDS, VALUES, ByColumns, ByRows, described, unread
from values_by_namespace import ByNamespace

from state_engine.api import StateTtlConfig, Time
from state_engine.api.keys import Keys, indices
from state_engine.backends.batch_keys import NamespacedKeys
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
from state_engine.log.ops import Op
from state_engine.testing.state_harness import StateHarness

TTL = 100
KEYS, SPACES = list(range(20)), [None, "0/10", "10/20"]
OWN = Keys([pa.array(KEYS)], unread)


def bare() -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()


CONFIGS: dict[str, Callable[[], StateTtlConfig.Builder] | None] = {
    "forever": None,
    "written": lambda: bare().cleanup_incrementally(100, False),
    "read": lambda: bare().cleanup_incrementally(100, False).update_ttl_on_read_and_write(),
    "never cleaned up": lambda: bare().update_ttl_on_read_and_write(),
    "returned": lambda: bare().return_expired_if_not_cleaned_up(),
    "returned and read": lambda: bare().return_expired_if_not_cleaned_up().update_ttl_on_read_and_write(),
    "of events": lambda: bare().use_event_time(),
    "of events, read": lambda: bare().use_event_time().update_ttl_on_read_and_write(),
}
CLEANED = ("written", "read")
"""With these the heap removes expired values, and RocksDB keeps them."""


class Databases:
    """Makes RocksDB backends, and closes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.opened: list[LocalDatabase] = []

    def __call__(self, *args: Any) -> RocksDBKeyedStateBackend:
        self.opened.append(LocalDatabase(self.folder / str(len(self.opened)), Tuning()))
        return Written(*args, self.opened[-1])


class Written(RocksDBKeyedStateBackend):
    """Writes sealed changes at once, as a worker does."""

    def settle(self) -> None:
        super().settle()
        self.commit("sealed")


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[Databases]:
    made = Databases(tmp_path)
    yield made
    for one in made.opened:
        one.close()


def rows(epoch: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """Returns the rows of an epoch; those of different keys have no order."""
    return {name: sorted(repr({**row, "seq": None}) for row in of_state) for name, of_state in epoch.items()}


def written(epoch: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """Returns the rows that write something: RocksDB does not check whether a row removes an existing value."""
    puts = {name: [row for row in of_state if row["op"] == Op.PUT] for name, of_state in epoch.items()}
    return rows({name: of_state for name, of_state in puts.items() if of_state})


class Forms:
    """The same state in four forms, with the same calls: row by row, columns over dicts, columns, and RocksDB."""

    def __init__(self, name: str, config: str, databases: Databases) -> None:
        self.name = name
        self.config = config
        self.makes = [HeapKeyedStateBackend, HeapKeyedStateBackend, ByNamespace, databases]
        self.harnesses = [StateHarness(make, "k bigint", now=(0, 0)) for make in self.makes]

    def descriptor(self) -> Any:
        make = CONFIGS[self.config]
        return described(self.name, make and make())

    def asked(self) -> list[Any]:
        kinds = [ByRows, ByColumns, ByColumns, ByColumns]
        descriptor = self.descriptor()
        return [kind(one, descriptor) for kind, one in zip(kinds, self.harnesses, strict=True)]

    def do(self, verb: str, *arguments: Any) -> Any:
        """Returns the result of the verb, which is the same in all forms."""
        first, *others = (getattr(one, verb)(*arguments) for one in self.asked())
        for result in others:
            assert result == first
        return first

    def at(self, now: int) -> None:
        for one in self.harnesses:
            one.time.begin(now, now)

    def end(self) -> None:
        by_rows, dicts, columns, database = (one.seal() for one in self.harnesses)
        assert rows(columns) == rows(dicts) == rows(by_rows)
        assert written(database) == written(by_rows)
        counted = [[(s.name, s.rows, s.keys) for s in one.backend.statistics()] for one in self.harnesses]
        assert all(one == counted[0] for one in (counted[1:3] if self.config in CLEANED else counted[1:]))

    def forget(self) -> None:
        for one in self.harnesses:
            one.backend.freeze(one.time.processing_time)
            one.backend.forget()

    def exchange(self) -> None:
        """Continues with the state that another form has written."""
        logs = [(one.epochs, one._schemas, one._sealed) for one in self.harnesses]
        taken = [1, 2, 0, 0] if self.config in CLEANED else [1, 2, 3, 0]
        self.harnesses = [
            StateHarness(make, "k bigint", logs[n][0], schemas=logs[n][1], now=logs[n][2])
            for make, n in zip(self.makes, taken, strict=True)
        ]


def records(drawn: random.Random, now: int, with_times: bool, spaced: bool) -> Keys:
    count = drawn.choice([1, 5, 40])
    codes = [drawn.choice(KEYS) for _ in range(count)]
    times = pa.array([drawn.choice([now - TTL - 5, now - 20, now + 30]) for _ in range(count)]) if with_times else None
    if not spaced:
        return Keys([pa.array(codes)], unread, times)
    spaces = np.array([drawn.randrange(len(SPACES)) for _ in range(count)], np.int64)
    return NamespacedKeys([indices(np.array(codes)), indices(spaces)], OWN, SPACES, times)


@pytest.mark.all_pairs(seed=1)
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("seed", range(3))
def test_all_forms_give_and_log_the_same(name: str, config: str, seed: int, databases: Databases) -> None:
    drawn, forms, now = random.Random(seed), Forms(name, config, databases), 0
    for _ in range(10):
        now += drawn.choice([0, 1, 30, 60, 130])
        forms.at(now)
        for _ in range(drawn.randrange(4)):
            keys = records(drawn, now, config.startswith("of events") and drawn.random() < 0.8, drawn.random() < 0.3)
            values = [drawn.choice(VALUES[name]) for _ in range(len(keys))]
            if drawn.random() < 0.15:
                values[drawn.randrange(len(values))] = None
            match drawn.choice(["add"] * 5 + ["get", "contains", "remove"]):
                case "add":
                    forms.do("add", keys, values)
                case "remove":
                    forms.do("remove", keys)
                case verb:
                    forms.do(verb, keys)
        match drawn.randrange(6):
            case 0:
                forms.forget()
            case 1:
                forms.end()
                forms.exchange()
            case _:
                forms.end()
    forms.do("get", OWN)
    forms.end()
    forms.exchange()
    forms.do("get", OWN)


@pytest.mark.parametrize("config", ["forever", "returned"])
@pytest.mark.parametrize("name", FOLDS)
def test_rows_and_columns_may_take_turns(name: str, config: str, databases: Databases) -> None:
    """One form reads the values that the other one adds, in the same epoch and in the next one."""
    forms = Forms(name, config, databases)
    keys, values = OWN.take(np.array([3, 4, 3])), [VALUES[name][-1], VALUES[name][0], VALUES[name][1]]
    for _ in range(2):
        forms.do("add", keys, values)
        for one in forms.harnesses:
            state = one.state(forms.descriptor(), 3)
            state.add(VALUES[name][0])
            if name == "joined":
                state.get().append(99)  # a copy
        forms.do("get", keys)
        forms.do("add", keys, values)
        forms.end()
    for one in forms.harnesses:
        one.state(forms.descriptor(), 3).clear()
    forms.do("get", keys)
    forms.end()
