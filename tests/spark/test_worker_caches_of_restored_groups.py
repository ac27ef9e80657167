"""Restored key groups or keys on workers with caches: these catch up from the log. No JVM."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.durations import Duration
from state_engine.api.output_tag import columns_type
from state_engine.backends.schemas import state_schema, timer_schema
from state_engine.epoch.look import newest
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.key_groups import key_group_of, range_of
from state_engine.log.manifest import StoredManifest
from state_engine.runtime.spec import OperatorSpec
from state_engine.savepoint import restore_key_groups
from state_engine.serialization.column import Column
from state_engine.spark.wire.task_spec import TaskSpec, pack
from state_engine.spark.worker.cache import Cached, WorkerCache
from state_engine.testing.changes import Change, append, clear, delete, put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock

MAX = 13
PARALLELISM = 2
KEY = (Column(name="k", type="string"),)
KEYS = [None, *(f"k{i}" for i in range(12))]
LONG_LIVED = StateTtlConfig.new_builder(Duration.of_days(30)).build()


def value_descriptor() -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor("value", Types.LONG())
    descriptor.enable_time_to_live(LONG_LIVED)
    return descriptor


VALUE = state_schema("all", KEY, value_descriptor())
ITEMS = state_schema("all", KEY, ListStateDescriptor("items", Types.LONG()))
ENTRIES = state_schema("all", KEY, MapStateDescriptor("entries", Types.STRING(), Types.LONG()))
TIMERS = timer_schema("all", KEY, TimeDomain.EVENT_TIME)
SCHEMAS = (VALUE, ITEMS, ENTRIES, TIMERS)


class Show(KeyedProcessFunction):
    """Emits all state of a key."""

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(value_descriptor())
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.LONG()))
        self.entries = runtime_context.get_map_state(MapStateDescriptor("entries", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        entries = sorted((k or "", v) for k, v in self.entries.items())
        return [(value.k, repr((self.value.value(), list(self.items.get()), entries)))]


class Worker:
    """A simulated worker process."""

    def __init__(self, job: JobBuilder, backend: Any) -> None:
        self.job = job
        self.cache = WorkerCache()
        given, made = columns_type("k string", "input"), columns_type("k string, state string", "output")
        spec = OperatorSpec("all", "keyed_process", Show(), given, KEY, (), made, max_parallelism=MAX)
        self.payload, self.digest = pack(TaskSpec(spec, state_backend=backend))

    def acquire(self, head: StoredManifest, subtask: int) -> Cached:
        manifest = head.manifest
        plan = EpochPlan(
            job=self.job.job,
            root=self.job.root,
            generation=manifest.generation,
            epoch=manifest.epoch + 1,
            incarnation=manifest.incarnation,
            predecessor=head.hash,
            predecessor_epoch=manifest.epoch,
            predecessor_generation=manifest.generation,
            processing_time=manifest.processing_time,
            operators=(OperatorPlan(uid="all", parallelism=PARALLELISM, max_parallelism=MAX),),
        )
        cached = self.cache.acquire(self.payload, self.digest, plan, subtask, 1 << 30)
        cached.operator.begin(plan.processing_time, None, 0)
        return cached

    def states(self, head: StoredManifest) -> tuple[dict[Any, str], list[int | None]]:
        """Returns the state of every key, and each subtask's earliest timer."""
        states: dict[Any, str] = {}
        earliest = []
        for subtask in range(PARALLELISM):
            cached = self.acquire(head, subtask)
            owned = range_of(subtask, PARALLELISM, MAX)
            mine = [k for k in KEYS if key_group_of((k,), ["string"], MAX) in owned]
            rows = cached.operator.process(pa.record_batch({"k": pa.array(mine, pa.string())})).get("main")
            states |= {row["k"]: row["state"] for row in rows.to_pylist()} if rows is not None else {}
            earliest.append(cached.operator.earliest_timer(TimeDomain.EVENT_TIME))
            assert cached.operator.backend is not None
            cached.operator.backend.forget()
            cached.release()
        return states, earliest

    @property
    def instances(self) -> list[Cached]:
        return list(self.cache._entries.values())


@pytest.fixture(params=["heap", "rocksdb"])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Makes workers of a job, each with its own disk."""
    made: list[Worker] = []

    def worker(job: JobBuilder) -> Worker:
        backend: Any = HashMapStateBackend()
        if request.param == "rocksdb":
            backend = EmbeddedRocksDBStateBackend()
            backend.set_db_storage_paths(str(tmp_path / f"disk{len(made)}"))
        made.append(Worker(job, backend))
        return made[-1]

    yield worker
    for one in made:
        one.cache.close()


def changes(rng: random.Random) -> dict[Any, list[Change]]:
    def some(make: Any) -> list[Change]:
        return [make(rng.choice(KEYS)) for _ in range(10)]

    return {
        ("all", "value"): some(lambda k: rng.choice([put(k, rng.randrange(9)), put(k, 1), delete(k)])),
        ("all", "items"): some(lambda k: rng.choice([append(k, rng.randrange(9)), append(k, 2), clear(k)])),
        ("all", "entries"): some(lambda k: rng.choice([put(k, 3, user_key=rng.choice("ab")), delete(k, user_key="a")])),
        ("all", TIMERS.name): some(lambda k: rng.choice([put(k, True, user_key=rng.randrange(5, 99)), clear(k)])),
    }


def truth(job: JobBuilder) -> tuple[dict[Any, str], list[int | None]]:
    value, items, entries, timers = (job.rows("all", schema.name) for schema in SCHEMAS)
    states = {}
    for key in KEYS:
        own = sorted((e[2] or "", v) for e, v in entries.items() if e[0] == (key,))
        states[key] = repr((value.get(((key,), None, None)), items.get(((key,), None, None), []), own))
    earliest = []
    for subtask in range(PARALLELISM):
        owned = range_of(subtask, PARALLELISM, MAX)
        times = [e[2] for e in timers if key_group_of(e[0], ["string"], MAX) in owned]
        earliest.append(min(times, default=None))
    return states, earliest


@pytest.mark.parametrize("by_key", [False, True], ids=["groups", "keys"])
@pytest.mark.parametrize("seed", range(6))
def test_warm_workers_catch_up_and_cold_ones_load_the_same(
    tmp_path: Path, workers: Any, seed: int, by_key: bool
) -> None:
    rng = random.Random(seed)
    job = JobBuilder(str(tmp_path / "root"), "cached", SCHEMAS, parallelism=PARALLELISM, max_parallelism=MAX)
    job.now_ms = 1_700_000_000_000
    for _ in range(3):
        job.epoch(changes(rng))
    assert job.head is not None
    warm, cold = workers(job), workers(job)
    assert warm.states(job.head) == truth(job)
    instances = warm.instances
    job.epoch(changes(rng))

    source, chosen = rng.randint(1, 3), rng.sample(range(MAX), 5)
    keys = [(key,) for key in rng.sample(KEYS, 4)]
    if by_key:
        restore_key_groups(job.root, job.job, f"epoch:1/{source}", keys=keys, clock=ManualClock())
    else:
        restore_key_groups(job.root, job.job, f"epoch:1/{source}", chosen, clock=ManualClock())
    for name, entries in job.model.items():

        def is_chosen(entry: Any) -> bool:
            return entry[0] in keys if by_key else key_group_of(entry[0], ["string"], MAX) in chosen

        was = job.models[1, source][name]
        job.model[name] = {e: v for e, v in entries.items() if not is_chosen(e)}
        job.model[name] |= {e: v for e, v in was.items() if is_chosen(e)}
    job.head = newest(job.log)
    assert job.head is not None
    assert warm.states(job.head) == truth(job)
    assert warm.instances == instances, "they were caught up, not loaded anew"
    assert cold.states(job.head) == truth(job)
    following = job.epoch(changes(rng))
    assert warm.states(following) == truth(job) == cold.states(following)
