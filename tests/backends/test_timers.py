"""Timers of one clock compared with a plain set, without an operator: in a backend that catches up from the log.

Operators with timers are compared with plain Python in `tests/model`.
"""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from values_by_namespace import ByNamespace

from state_engine.api import TimeDomain
from state_engine.api.keys import Keys
from state_engine.backends.batch_keys import namespaced_keys
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keys import NO_KEY, KeyCodec, KeyContext, Namespaced
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
from state_engine.backends.rocksdb import timers as timer_log
from state_engine.backends.schemas import TIMERS, timer_schema
from state_engine.backends.time import OperatorTime
from state_engine.errors import JobDefinitionError
from state_engine.key_groups import KeyGroupRange
from state_engine.serialization.types import parse_columns

M = 8
KEYS = st.sampled_from([None, "a", "b", "c", Namespaced("a", "w1"), Namespaced("a", "w2"), Namespaced(None, "w1")])
TIMES = st.integers(0, 6)
DOMAIN = TimeDomain.EVENT_TIME


def make_backend() -> HeapKeyedStateBackend:
    codec = KeyCodec(parse_columns("k string"), M)
    return HeapKeyedStateBackend("op", codec, KeyGroupRange(0, M - 1), KeyContext())


def make_by_columns() -> HeapKeyedStateBackend:
    return ByNamespace("op", KeyCodec(parse_columns("k string"), M), KeyGroupRange(0, M - 1), KeyContext())


class TimersMachine(RuleBasedStateMachine):
    """A warm backend, a second one that catches up only from the log, and the model."""

    def make(self) -> Any:
        return make_backend()

    @initialize()
    def begin(self) -> None:
        self.log: list[Any] = []
        self.warm, self.other = self.make(), self.make()
        for backend in (self.warm, self.other):
            backend.timers(DOMAIN)
        self.sealed: set[tuple[Any, int]] = set()
        self.now: set[tuple[Any, int]] = set()

    @rule(entry=KEYS, time=TIMES)
    def register(self, entry: Any, time: int) -> None:
        self.warm.timers(DOMAIN).register(entry, time)
        self.now.add((entry, time))

    @rule(entry=KEYS, time=TIMES)
    def delete(self, entry: Any, time: int) -> None:
        self.warm.timers(DOMAIN).delete(entry, time)
        self.now.discard((entry, time))

    @rule(entry=KEYS, time=TIMES)
    def register_with_a_record(self, entry: Any, time: int) -> None:
        self.warm.context.entry = entry
        self.verbs()[0](time)
        self.now.add((entry, time))

    @rule(entry=KEYS, time=TIMES)
    def delete_with_a_record(self, entry: Any, time: int) -> None:
        self.warm.context.entry = entry
        self.verbs()[1](time)
        self.now.discard((entry, time))

    def verbs(self) -> tuple[Any, Any]:
        """Calls that an operator binds once, and uses in all epochs."""
        timers = self.warm.timers(DOMAIN)
        if getattr(self, "bound_to", None) is not timers:
            self.bound_to = timers
            self.bound = timers.registering(self.warm.context), timers.deleting(self.warm.context)
        return self.bound

    @rule(limit=TIMES)
    def fire(self, limit: int) -> None:
        fired = list(self.warm.timers(DOMAIN).due(limit))
        due = [(time, entry) for entry, time in self.now if time <= limit]
        assert fired == sorted(due, key=lambda timer: (timer[0], repr(timer[1])))
        self.now -= {(entry, time) for time, entry in due}

    @rule(entries=st.lists(KEYS, unique=True), time=TIMES)
    def register_together(self, entries: list[Any], time: int) -> None:
        self.warm.timers(DOMAIN).register_all(entries, time)
        self.now |= {(entry, time) for entry in entries}

    @rule(limit=TIMES)
    def fire_together(self, limit: int) -> None:
        fired = [(time, entry) for time, of_time in self.warm.timers(DOMAIN).all_due(limit) for entry in of_time]
        due = [(time, entry) for entry, time in self.now if time <= limit]
        assert fired == sorted(due, key=lambda timer: (timer[0], repr(timer[1])))
        self.now -= {(entry, time) for time, entry in due}

    @rule(limit=TIMES, again=TIMES)
    def fire_and_register(self, limit: int, again: int) -> None:
        """A timer registered at or after the time that fires, and within the limit, fires in the same turn."""
        fired = []
        for time, entry in self.warm.timers(DOMAIN).due(limit):
            fired.append((time, entry))
            if len(fired) == 1:
                self.warm.timers(DOMAIN).register(entry, time + again)
                self.now.add((entry, time + again))
        assert [time for time, _ in fired] == sorted(time for time, _ in fired)
        self.now = {(entry, time) for entry, time in self.now if time > limit}

    @rule()
    def seal(self) -> None:
        changes = self.warm.freeze(1)
        self.warm.settle()
        for schema, rows in changes:
            self.other.apply(schema.name, rows)
            self.log.append((schema, rows))
        self.sealed = set(self.now)

    @rule()
    def fail(self) -> None:
        """The attempt was not sealed, after its freeze or before it."""
        self.warm.freeze(1)
        self.warm.forget()
        self.now = set(self.sealed)

    @rule()
    def restore(self) -> None:
        fresh = self.make()
        schemas = {schema.name: schema for schema, _ in self.log}
        fresh.attach(schemas.values(), lambda wanted: (rows for s, rows in self.log if s.name == wanted.name))
        self.warm, self.now = fresh, set(self.sealed)

    @invariant()
    def the_earliest_is_known(self) -> None:
        if hasattr(self, "now"):
            assert self.warm.timers(DOMAIN).earliest() == min((time for _, time in self.now), default=None)
            assert self.other.timers(DOMAIN).earliest() == min((time for _, time in self.sealed), default=None)
            assert self.other.timers(DOMAIN).rows == len(self.sealed)


class TimersByColumnsMachine(TimersMachine):
    """The same with columns of timers, which are also read by columns."""

    def make(self) -> Any:
        return make_by_columns()

    @rule(entries=st.lists(st.tuples(KEYS, TIMES), unique_by=lambda timer: timer[0]))
    def register_columns(self, entries: list[tuple[Any, int]]) -> None:
        keys = namespaced_keys([entry for entry, _ in entries], self.warm.codec.write)
        self.warm.timers(DOMAIN).register_keys(keys, np.array([time for _, time in entries], np.int64))
        self.now |= set(entries)

    @rule(entries=st.lists(st.tuples(KEYS, TIMES), unique_by=lambda timer: timer[0]))
    def delete_columns(self, entries: list[tuple[Any, int]]) -> None:
        keys = namespaced_keys([entry for entry, _ in entries], self.warm.codec.write)
        self.warm.timers(DOMAIN).delete_keys(keys, np.array([time for _, time in entries], np.int64))
        self.now -= set(entries)

    @rule(limit=TIMES)
    def fire_columns(self, limit: int) -> None:
        due = {(entry, time) for entry, time in self.now if time <= limit}
        keys = self.warm.timers(DOMAIN).due_keys(limit, in_turn=False)
        assert (keys is None) == (not due)
        if keys is not None:
            entries = [keys.entries[code] for code in keys.codes.tolist()]
            times = keys.times.to_pylist()
            assert times == sorted(times)
            assert sorted(zip(entries, times, strict=True), key=repr) == sorted(due, key=repr)
        self.now -= due

    @rule(keys=st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), TIMES)))
    def register_records(self, keys: list[tuple[Any, int]]) -> None:
        """A key occurs several times, and has no namespace."""
        columns = self.warm.codec.write([key for key, _ in keys])
        times = np.array([time for _, time in keys], np.int64)
        self.warm.timers(DOMAIN).register_keys(Keys(columns, self.warm.codec.read), times)
        self.now |= set(keys)

    @rule(limit=TIMES)
    def fire_columns_in_turn(self, limit: int) -> None:
        """The order is that of times, keys (Arrow's, in which null is the last) and namespaces."""
        due = [(time, entry) for entry, time in self.now if time <= limit]
        self.now = {(entry, time) for entry, time in self.now if time > limit}
        keys = self.warm.timers(DOMAIN).due_keys(limit)
        fired = [] if keys is None else zip(keys.times.to_pylist(), (keys.entries[n] for n in keys.codes), strict=True)
        assert list(fired) == sorted(due, key=in_turn)


def in_turn(timer: tuple[int, Any]) -> Any:
    time, entry = timer
    key, namespace = (entry.key, entry.namespace) if isinstance(entry, Namespaced) else (entry, None)
    return time, key is None, key or "", namespace is None, namespace or ""


class InDatabase:
    """The same with a database, which writes each sealed epoch at once, as a worker does, and folds early."""

    def make(self) -> Any:
        if not hasattr(self, "folder"):
            self.folder, self.opened = tempfile.TemporaryDirectory(), []
            self.early = patch.multiple(timer_log, FEW=2, PER_CELL=1, AT_ONCE=3, BLOCKS=3)
            self.early.start()
        return self.begun(LocalDatabase(Path(self.folder.name) / str(len(self.opened)), Tuning()))

    def begun(self, database: LocalDatabase) -> Any:
        self.opened.append(database)
        codec = KeyCodec(parse_columns("k string"), M)
        key_groups = KeyGroupRange(0, M - 1)
        backend: Any = RocksDBKeyedStateBackend("op", codec, key_groups, KeyContext(), OperatorTime(), self.opened[-1])
        backend.timers_by_columns = isinstance(self, TimersByColumnsMachine)
        if backend.resume() is None:
            backend.start("nothing")
        backend.attach((), lambda _: iter(()), OperatorTime())
        return backend

    @rule()
    def seal(self: Any) -> None:
        super().seal()  # type: ignore[misc]
        self.warm.commit("sealed")
        self.warm._index.keys.limit = self.warm._index.namespaces.limit = 0
        self.warm._forget_keys()
        assert self.stored() == self.sealed

    def stored(self: Any) -> set[tuple[Any, int]]:
        """Returns the timers that are in the database."""
        reading, warm = make_backend(), self.warm
        stored = warm._in_database[TIMERS[DOMAIN]]
        timers, schema = reading.timers(DOMAIN), timer_schema("op", warm.codec.columns, DOMAIN)
        for rows in timer_log.TimerLog(warm.database, stored.cells, schema, timers).read():
            reading.apply(TIMERS[DOMAIN], rows)
        return {(entry, time) for time, entry in reading.timers(DOMAIN).due(max(range(100)))}

    @rule(sealed=st.booleans())
    def another_has_the_database(self: Any, sealed: bool) -> None:
        """It wrote nothing before it ended. The changes that were frozen in the meantime are sealed, or not."""
        changes = self.warm.freeze(1)
        self.warm.close()
        self.warm.resume()
        if not sealed:
            self.warm.forget()
            self.now = set(self.sealed)
            return
        self.warm.settle()
        for schema, rows in changes:
            self.other.apply(schema.name, rows)
            self.log.append((schema, rows))
        self.sealed = set(self.now)
        self.warm.commit("sealed")
        assert self.stored() == self.sealed

    @rule()
    def another_goes_on(self: Any) -> None:
        """It takes the database over, and writes to it."""
        if self.warm.token is not None:
            self.warm.close()
            self.warm, self.now = self.begun(LocalDatabase(self.warm.database.folder, Tuning())), set(self.sealed)

    @rule()
    def catch_up(self: Any) -> None:
        """The other one is a worker, too: it writes the changes that it has applied."""
        self.other.commit("caught up")

    def teardown(self: Any) -> None:
        for database in getattr(self, "opened", ()):
            database.close()
        if hasattr(self, "folder"):
            self.early.stop()
            self.folder.cleanup()


class RocksDBTimersMachine(InDatabase, TimersMachine):
    pass


class RocksDBTimersByColumnsMachine(InDatabase, TimersByColumnsMachine):
    pass


TestTimers = TimersMachine.TestCase
TestTimersByColumns = TimersByColumnsMachine.TestCase
TestRocksDBTimers = RocksDBTimersMachine.TestCase
TestRocksDBTimersByColumns = RocksDBTimersByColumnsMachine.TestCase
for case in (TestRocksDBTimers, TestRocksDBTimersByColumns):
    case.settings = settings(max_examples=settings.default.max_examples // 5, stateful_step_count=25, deadline=None)


def test_what_is_there_is_not_added_and_what_is_not_there_not_removed() -> None:
    timers = make_backend().timers(DOMAIN)
    for entry in ("a", "a", "b", "b"):
        timers.register(entry, 3)
    assert timers.freeze().entries == ["a", "b"]  # type: ignore[union-attr]
    timers.settle()
    timers.delete("c", 3)
    timers.register_all(["a", "b"], 3)
    assert timers.freeze() is None
    for entry in ("a", "a", "b"):
        timers.delete(entry, 3)
    assert timers.freeze().entries == ["a", "b"]  # type: ignore[union-attr]
    assert timers.earliest() is None


def test_a_timer_without_a_current_key_is_refused() -> None:
    timers = make_backend().timers(DOMAIN)
    with pytest.raises(JobDefinitionError, match="no current key"):
        timers.register(NO_KEY, 3)
    assert timers.earliest() is None


def test_a_time_is_kept_once_however_often_timers_come_for_it() -> None:
    """A window that stays open gets records in each epoch."""
    backend = make_backend()
    timers = backend.timers(DOMAIN)
    for number in range(50):
        timers.register_all(["a", "b", str(number)], 3)
        timers.register_all(["a"], 4)
        backend.freeze(1)
        backend.settle()
        assert timers.earliest() == 3
    assert len(timers._heap) + len(timers._run) == 2


@pytest.mark.parametrize("ahead", [[86_400_000], [86_400_000, 1_000, 3_600_000]])
def test_timers_that_are_postponed_with_each_record_leave_no_times(ahead: list[int]) -> None:
    """Every record moves timers far ahead, after one that stays: stored times are bounded by the existing timers."""
    backend = make_backend()
    timers, backend.context.entry = backend.timers(DOMAIN), "a"
    timers.register("z", 30_000)
    register, delete = timers.registering(backend.context), timers.deleting(backend.context)
    longest = 0
    for now in range(20_000):
        for gap in ahead:
            delete(now - 1 + gap)
            register(now + gap)
        timers.earliest()
        longest = max(longest, len(timers._run) + len(timers._heap))
        if now % 1_000 == 0:
            backend.freeze(1)
            backend.settle()
    assert longest < 2_000
    waiting = sorted([(30_000, "z"), *((19_999 + gap, "a") for gap in ahead)])
    assert timers.earliest() == waiting[0][0]
    assert list(timers.due(19_999 + max(ahead))) == waiting


def test_a_time_that_comes_and_goes_all_the_time_is_kept_a_bounded_number_of_times() -> None:
    backend = make_backend()
    timers, backend.context.entry = backend.timers(DOMAIN), "a"
    register, delete = timers.registering(backend.context), timers.deleting(backend.context)
    for _ in range(200):
        for _ in range(50):
            register(7)
            delete(7)
            register(7)
        backend.freeze(1)
        backend.settle()
    assert len(timers._run) + len(timers._heap) < 2_000
    assert list(timers.due(9)) == [(7, "a")]


@pytest.mark.parametrize("make", [make_backend, make_by_columns])
def test_times_are_whole_numbers_of_any_kind(make: Callable[[], HeapKeyedStateBackend]) -> None:
    backend = make()
    timers, backend.context.entry = backend.timers(DOMAIN), "a"
    register, delete = timers.registering(backend.context), timers.deleting(backend.context)
    register(np.int64(5))
    register(np.int64(7))
    delete(np.int64(7))
    assert [(type(time), time, entry) for time, entry in timers.due(9)] == [(int, 5, "a")]
    for verb in register, delete:
        with pytest.raises(TypeError):
            verb(5.0)
    backend.context.entry = NO_KEY
    for verb in register, delete:
        with pytest.raises(JobDefinitionError, match="no current key"):
            verb(5)
    assert timers.earliest() is None


@pytest.mark.parametrize("seed", range(20))
def test_timers_fire_in_order_of_time_in_whatever_order_they_came(seed: int) -> None:
    """Most times ascend, as after an ordered input; some are far ahead, some are earlier, some come again."""
    drawn, backend, wanted = random.Random(seed), make_backend(), set()
    timers, now, limit = backend.timers(DOMAIN), 0, 0
    for _ in range(300):
        now += drawn.randrange(3)
        time = now + drawn.choice([10, 10, 10, 10, 3, 1, 500])
        match drawn.randrange(4):
            case 0 if wanted:
                entry, time = drawn.choice(sorted(wanted))
                timers.delete(entry, time)
                wanted.discard((entry, time))
            case 1:
                limit = max(limit, now)
                fired = list(timers.due(limit))
                assert fired == sorted((at, entry) for entry, at in wanted if at <= limit)
                wanted = {(entry, at) for entry, at in wanted if at > limit}
                assert timers.earliest() == min((at for _, at in wanted), default=None)
            case _:
                entry = drawn.choice("abc")
                timers.register(entry, time)
                wanted.add((entry, time))


def test_a_timer_that_comes_and_goes_within_an_epoch_is_not_logged() -> None:
    backend = make_backend()
    timers = backend.timers(DOMAIN)
    timers.register("a", 5)
    timers.delete("a", 5)
    assert backend.freeze(1) == []


def test_timers_have_no_last_access() -> None:
    backend = make_backend()
    backend.timers(DOMAIN).register("a", 5)
    ((_, rows),) = backend.freeze(77)
    assert rows.column("last_access").to_pylist() == [None]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("make", [make_backend, make_by_columns])
def test_a_timer_that_another_one_of_its_time_deletes_does_not_fire(
    make: Callable[[], HeapKeyedStateBackend], sealed: bool
) -> None:
    backend = make()
    timers = backend.timers(DOMAIN)
    for key in "abc":
        timers.register(key, 5)
    if sealed:
        backend.freeze(0)
        backend.settle()
    fired = []
    for _, entry in timers.due(5):
        fired.append(entry)
        timers.delete("b", 5)
    assert fired == ["a", "c"]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("make", [make_backend, make_by_columns])
def test_what_an_attempt_fired_that_was_not_sealed_fires_again(
    make: Callable[[], HeapKeyedStateBackend], frozen: bool
) -> None:
    backend = make()
    timers = backend.timers(DOMAIN)
    timers.register("a", 5)
    backend.freeze(0)
    backend.settle()
    for _ in range(2):
        assert [entry for _, entry in timers.due(5)] == ["a"]
        if frozen:
            backend.freeze(0)
        backend.forget()
