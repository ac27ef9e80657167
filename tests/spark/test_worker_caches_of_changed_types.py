"""A worker's cache of a state with a changing type never mixes types, whichever code ran in between. No JVM."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from state_engine.api import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    StateDescriptor,
    ValueStateDescriptor,
)
from state_engine.api.output_tag import columns_type
from state_engine.backends.schemas import state_schema
from state_engine.epoch.compatibility import merge_schemas
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.log.ops import Op
from state_engine.log.records import StateSchema
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.column import Column
from state_engine.spark.wire.task_spec import TaskSpec, pack
from state_engine.spark.worker.cache import Cached, WorkerCache
from state_engine.testing.changes import put, reset_group
from state_engine.testing.jobs import JobBuilder

MAX = 13
KEY = (Column(name="k", type="string"),)
BOTH, ONE = "struct<a:bigint,b:bigint>", "struct<a:bigint>"
Describe = Callable[[], StateDescriptor]


class Keep(KeyedProcessFunction):
    """A function with one state."""

    def __init__(self, describe: Describe) -> None:
        self.describe = describe

    def open(self, runtime_context: Any) -> None:
        self.kept = runtime_context.get_state(self.describe())

    def process_element(self, value: Any, ctx: Any) -> None: ...


def both() -> StateDescriptor:
    return ValueStateDescriptor("kept", BOTH)


def text() -> StateDescriptor:
    return ValueStateDescriptor("kept", "string").migrate_from(BOTH, lambda old: f"{old.a} {old.b}")


class Job(JobBuilder):
    """The log of one state; other drivers change its type."""

    state_backend: Any
    workers: "list[Worker]"

    def seal(self, value: str, values: dict[str, Any]) -> None:
        """Seals an epoch of code that has the state with this type."""
        schema = state_schema("keep", KEY, ValueStateDescriptor("kept", value))
        self.schemas = merge_schemas(self.schemas, [schema], self.head.manifest.epoch if self.head else 0)
        self.epoch({("keep", "kept"): [put(key, row) for key, row in values.items()]})


class Worker:
    """A simulated worker process."""

    def __init__(self, job: Job, describe: Describe) -> None:
        job.workers.append(self)
        self.job = job
        self.cache = WorkerCache()
        columns = columns_type("k string", "input")
        spec = OperatorSpec("keep", "keyed_process", Keep(describe), columns, KEY, (), columns, max_parallelism=MAX)
        self.payload, self.digest = pack(TaskSpec(spec, state_backend=job.state_backend))

    def acquire(self) -> Cached:
        """Acquires the instance for the epoch after the newest one."""
        assert self.job.head is not None
        head = self.job.head.manifest
        plan = EpochPlan(
            job=self.job.job,
            root=self.job.root,
            generation=1,
            epoch=head.epoch + 1,
            incarnation="0" * 32,
            predecessor=self.job.head.hash,
            predecessor_epoch=head.epoch,
            predecessor_generation=1,
            processing_time=self.job.now_ms,
            operators=(OperatorPlan(uid="keep", parallelism=1, max_parallelism=MAX),),
        )
        cached = self.cache.acquire(self.payload, self.digest, plan, 0, 1 << 30)
        cached.operator.begin(plan.processing_time, None, 0)
        return cached

    def values(self, keys: str) -> dict[str, Any]:
        """Returns the state as the worker has it."""
        cached = self.acquire()
        values = {}
        for key in keys:
            cached.operator.context.entry = key
            value = cached.operator.function.kept.value()
            values[key] = value if value is None or isinstance(value, str) else tuple(value)
        cached.release()
        return values

    def freeze(self, attempt: str = "f" * 32) -> list[tuple[StateSchema, Any]]:
        """Runs an epoch without records up to its ack; returns what it writes."""
        cached = self.acquire()
        assert cached.operator.backend is not None
        written = cached.operator.backend.freeze(self.job.now_ms)
        cached.pending = attempt
        cached.release()
        return written

    def end(self) -> None:
        for cached in self.cache._entries.values():
            self.cache.drop(cached)


@pytest.fixture(params=["heap", "rocksdb"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    made = Job(str(tmp_path / "root"), "kept", [], parallelism=1, max_parallelism=MAX)
    made.schemas = (state_schema("keep", KEY, ValueStateDescriptor("kept", BOTH)),)
    made.model["keep", "kept"] = {}
    made.workers, made.state_backend = [], HashMapStateBackend()
    if request.param == "rocksdb":
        made.state_backend = EmbeddedRocksDBStateBackend()
        made.state_backend.set_db_storage_paths(str(tmp_path / "disk"))
    made.seal(BOTH, {"x": {"a": 1, "b": 2}})
    yield made
    for worker in made.workers:
        worker.end()


def test_a_type_that_changed_and_changed_back_takes_its_fields_from_the_cache(job: Job) -> None:
    worker = Worker(job, both)
    assert worker.values("x") == {"x": (1, 2)}
    job.seal(ONE, {"y": {"a": 3}})
    job.seal(BOTH, {"z": {"a": 5, "b": 6}})
    expected = {"x": (1, None), "y": (3, None), "z": (5, 6)}
    assert worker.values("xyz") == expected
    assert Worker(job, both).values("xyz") == expected
    job.seal(BOTH, {"y": {"a": 7, "b": 8}})
    assert worker.values("xyz") == expected | {"y": (7, 8)}


@pytest.mark.parametrize("served", [True, False])
def test_older_code_may_seal_while_newer_code_waits(job: Job, served: bool) -> None:
    """The newer code began, was stopped before it sealed its first epoch, and begins again."""
    job.seal(ONE, {"y": {"a": 3}})
    worker = Worker(job, both)
    if served:
        assert worker.values("xy") == {"x": (1, None), "y": (3, None)}
        worker.freeze()
    Worker(job, lambda: ValueStateDescriptor("kept", ONE)).freeze()
    job.seal(ONE, {"x": {"a": 4}})
    assert worker.values("xy") == {"x": (4, None), "y": (3, None)}
    job.seal(BOTH, {"y": {"a": 5, "b": 6}})
    assert worker.values("xy") == {"x": (4, None), "y": (5, 6)}
    assert Worker(job, both).values("xy") == {"x": (4, None), "y": (5, 6)}


def test_a_worker_begins_anew_on_what_newer_code_left_on_the_disk(job: Job) -> None:
    job.seal(ONE, {"y": {"a": 3}})
    first = Worker(job, both)
    first.values("xy")
    first.end()
    job.seal(ONE, {"x": {"a": 4}})
    assert Worker(job, both).values("xy") == {"x": (4, None), "y": (3, None)}


def test_each_attempt_of_a_migration_writes_the_whole_state(job: Job) -> None:
    """Also if an earlier attempt left the new type on the disk."""
    first, second = Worker(job, text), Worker(job, text)
    for worker in (first, second, second, first, Worker(job, text)):
        assert worker.values("x") == {"x": "1 2"}
        ((schema, rows),) = worker.freeze()
        assert schema.value == "string"
        ops = rows.column("op").to_pylist()
        assert ops.count(Op.RESET_GROUP) == MAX
        assert [row["value"] for row in rows.to_pylist() if row["op"] == Op.PUT] == ["1 2"]


def test_a_migration_that_was_sealed_is_over(job: Job) -> None:
    worker, other = Worker(job, text), Worker(job, text)
    worker.freeze()
    other.values("x")
    job.schemas = merge_schemas(job.schemas, [state_schema("keep", KEY, text())], 1)
    rows = [*(reset_group(group) for group in range(MAX)), put("x", "1 2"), put("y", "new")]
    job.epoch({("keep", "kept"): rows})
    for each in (worker, other, Worker(job, lambda: ValueStateDescriptor("kept", "string"))):
        assert each.values("xy") == {"x": "1 2", "y": "new"}
        assert each.freeze() == []
