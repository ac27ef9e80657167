"""A worker's cache between epochs: each way to catch up ends at the predecessor manifest. No JVM."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from state_engine.api import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.output_tag import columns_type
from state_engine.backends.schemas import state_schema
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.errors import CorruptionError, DamagedManifestError
from state_engine.key_groups import key_group_of, range_of
from state_engine.log.manifest import StoredManifest, encode_manifest
from state_engine.log.paths import changes_folder, manifest_path
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.column import Column
from state_engine.spark.wire.task_spec import TaskSpec, pack
from state_engine.spark.worker.cache import Cached, WorkerCache
from state_engine.testing.changes import put
from state_engine.testing.jobs import JobBuilder, inlines_none
from state_engine.testing.manual import CountingIds, ManualClock

MAX = 13
KEY = (Column(name="k", type="string"),)
COUNT = ValueStateDescriptor("count", Types.LONG())
SCHEMA = state_schema("count", KEY, COUNT)
KEYS = [f"k{i}" for i in range(20)]


class Tell(KeyedProcessFunction):
    """Returns the state of each key, and sets it where `v` is given."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        if value.v is not None:
            self.count.update(value.v)
        return [(value.k, self.count.value())]


class Job(JobBuilder):
    """A job's log, the backend that its workers use, and the workers."""

    state_backend: Any
    workers: "list[Worker]"


class Worker:
    """A simulated worker process: it has a cache, and uses it as a task does."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.job.workers.append(self)
        self.cache = WorkerCache()
        columns = columns_type("k string, v bigint", "input")
        spec = OperatorSpec("count", "keyed_process", Tell(), columns, KEY, (), columns, max_parallelism=MAX)
        self.payload, self.digest = pack(TaskSpec(spec, state_backend=job.state_backend))

    def acquire(
        self, head: StoredManifest, subtask: int = 0, parallelism: int = 1, cache_bytes: int = 1 << 30
    ) -> Cached:
        manifest = head.manifest
        plan = EpochPlan(
            job=self.job.job,
            root=self.job.root,
            generation=manifest.generation,
            epoch=manifest.epoch + 1,
            incarnation="0" * 32,
            predecessor=head.hash,
            predecessor_epoch=manifest.epoch,
            predecessor_generation=manifest.generation,
            processing_time=self.job.now_ms,
            operators=(OperatorPlan(uid="count", parallelism=parallelism, max_parallelism=MAX),),
        )
        cached = self.cache.acquire(self.payload, self.digest, plan, subtask, cache_bytes)
        cached.operator.begin(plan.processing_time, None, 0)
        return cached

    def process(self, cached: Cached, values: dict[str, int | None]) -> dict[str, int]:
        """Sets the values that are not None; returns the states of all the keys."""
        keys = list(values)
        batch = pa.record_batch({"k": pa.array(keys, pa.string()), "v": pa.array(values.values(), pa.int64())})
        rows = cached.operator.process(batch).get("main")
        states = {} if rows is None else {row["k"]: row["v"] for row in rows.to_pylist()}
        return {k: v for k, v in states.items() if v is not None}

    def attempt(self, cached: Cached, values: dict[str, int | None], attempt: str) -> None:
        """Runs an epoch up to its ack."""
        self.process(cached, values)
        assert cached.operator.backend is not None
        cached.operator.backend.freeze(self.job.now_ms)
        cached.pending = attempt
        cached.release()

    def states(self, head: StoredManifest, subtask: int = 0, parallelism: int = 1) -> dict[str, int]:
        """Returns the state at `head` as the worker has it; then its overlay is forgotten."""
        cached = self.acquire(head, subtask, parallelism)
        owned = range_of(subtask, parallelism, MAX)
        mine = [k for k in KEYS if key_group_of((k,), ["string"], MAX) in owned]
        states = self.process(cached, dict.fromkeys(mine))
        assert cached.operator.backend is not None
        cached.operator.backend.forget()
        cached.release()
        return states

    def end(self) -> None:
        """Releases everything, as the end of the process would."""
        for cached in self.cache._entries.values():
            self.cache.drop(cached)


@pytest.fixture(params=["heap", "rocksdb"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    made = Job(str(tmp_path / "root"), "cached", [SCHEMA], parallelism=1, max_parallelism=MAX)
    made.epoch({("count", "count"): [put(k, 0) for k in KEYS[:5]]})
    made.workers, made.state_backend = [], HashMapStateBackend()
    if request.param == "rocksdb":
        made.state_backend = EmbeddedRocksDBStateBackend()
        made.state_backend.set_db_storage_paths(str(tmp_path / "disk"))
    yield made
    for worker in made.workers:
        worker.end()


ON_DISK = pytest.mark.parametrize("job", ["rocksdb"], indirect=True)


def sealed(job: Job, values: dict[str, int]) -> StoredManifest:
    return job.epoch({("count", "count"): [put(k, v) for k, v in values.items()]})


def attempt_of(head: StoredManifest) -> str:
    return head.manifest.operators["count"].acks[0].attempt


def expected(job: Job, at: StoredManifest | None = None) -> dict[str, int]:
    return {entry[0][0]: value for entry, value in job.rows("count", "count", at).items()}


def remove_change_files(job: Job, head: StoredManifest) -> None:
    folder = Path(job.root) / job.job / changes_folder(head.manifest.generation)
    for file in folder.glob(f"e{head.manifest.epoch:010d}-*"):
        file.unlink()


def test_a_first_use_loads_from_the_log(job: Job) -> None:
    sealed(job, {"k1": 7, "k9": 9})
    assert Worker(job).states(job.head) == expected(job)


def test_the_own_attempt_is_settled_without_reading_it(job: Job) -> None:
    worker = Worker(job)
    cached = worker.acquire(job.head)
    head = sealed(job, {"k1": 11, "k7": 70})
    worker.attempt(cached, {"k1": 11, "k7": 70}, attempt_of(head))
    remove_change_files(job, head)
    assert worker.states(head) == expected(job)
    assert worker.acquire(head) is cached


def test_the_attempt_of_another_worker_is_applied_in_its_place(job: Job) -> None:
    worker = Worker(job)
    cached = worker.acquire(job.head)
    head = sealed(job, {"k1": 11, "k7": 70})
    worker.attempt(cached, {"k1": 666, "k8": 666}, "f" * 32)
    assert worker.states(head) == expected(job)
    assert worker.acquire(head) is cached


def test_an_attempt_that_was_not_sealed_is_forgotten_when_the_epoch_runs_again(job: Job) -> None:
    worker, head = Worker(job), job.head
    worker.attempt(worker.acquire(head), {"k1": 666, "k8": 666}, "f" * 32)
    assert worker.states(head) == expected(job)


def test_an_overlay_that_was_never_frozen_is_forgotten(job: Job) -> None:
    worker = Worker(job)
    worker.process(worker.acquire(job.head), {"k1": 666})
    assert worker.states(job.head) == expected(job)


def test_a_worker_catches_up_several_epochs(job: Job) -> None:
    worker = Worker(job)
    cached = worker.acquire(job.head)
    first = sealed(job, {"k1": 1})
    worker.attempt(cached, {"k1": 1}, attempt_of(first))
    for n in range(2, 9):
        sealed(job, {"k1": n, f"k{n}": n})
    assert worker.states(job.head) == expected(job)
    assert worker.acquire(job.head) is cached


def test_after_too_many_epochs_it_loads_again(job: Job) -> None:
    worker = Worker(job)
    worker.acquire(job.head)
    for n in range(70):
        sealed(job, {"k1": n, f"k{n % 20}": n})
    assert worker.states(job.head) == expected(job)


def test_another_generation_never_sees_what_the_old_one_became(job: Job) -> None:
    worker, target = Worker(job), job.head
    cached = worker.acquire(target)
    head = sealed(job, {"k1": 666})
    worker.attempt(cached, {"k1": 666}, attempt_of(head))
    assert worker.states(head)["k1"] == 666
    restored = job.restore(target)
    assert worker.states(restored) == expected(job)
    assert worker.states(restored)["k1"] == 0
    assert worker.states(sealed(job, {"k2": 2})) == expected(job)
    assert {key[2] for key in worker.cache._entries} == {2}, "instances of the old generation are not needed any more"


def test_a_cache_that_is_ahead_of_what_is_wanted_is_thrown_away(job: Job) -> None:
    """A zombie driver plans on an epoch that is older than this worker's cache."""
    worker, before = Worker(job), job.head
    head = sealed(job, {"k1": 5})
    assert worker.states(head)["k1"] == 5
    assert worker.states(before) == expected(job, before)
    assert worker.states(head) == expected(job)


def test_subtasks_of_one_worker_do_not_mix(job: Job) -> None:
    worker = Worker(job)
    for n in range(4):
        for subtask in range(3):
            states = worker.states(job.head, subtask, 3)
            owned = range_of(subtask, 3, MAX)
            assert states == {k: v for k, v in expected(job).items() if key_group_of((k,), ["string"], MAX) in owned}
        sealed(job, {f"k{n}": n, f"k{n + 9}": n})


def test_another_parallelism_takes_other_ranges(job: Job) -> None:
    worker = Worker(job)
    assert worker.states(job.head) == expected(job)
    head = job.epoch({("count", "count"): [put("k3", 33)]}, parallelism=3)
    together: dict[str, int] = {}
    for subtask in range(3):
        together |= worker.states(head, subtask, 3)
    assert together == expected(job)
    assert worker.states(head) == expected(job)


def test_a_job_that_is_rescaled_back_and_forth_finds_what_was_sealed_meanwhile(job: Job) -> None:
    """Some workers serve no subtask for a while; later they have ranges from many epochs ago."""
    workers = [Worker(job) for _ in range(3)]
    for epoch, parallelism in enumerate((2, 4, 2, 1, 3, 4, 1, 2)):
        states: dict[str, int] = {}
        for subtask in range(parallelism):
            worker = workers[(subtask * epoch + epoch) % 3]
            mine = worker.states(job.head, subtask, parallelism)
            assert not mine.keys() & states.keys()
            states |= mine
            sizes = {key[4] for key in worker.cache._entries}
            assert sizes == {parallelism}, "the other ranges are not needed any more"
        assert states == expected(job)
        values = {KEYS[(3 * epoch + n) % 20]: 100 * epoch + n for n in range(6)}
        job.epoch({("count", "count"): [put(k, v) for k, v in values.items()]}, parallelism=parallelism)


def test_the_least_used_goes_when_there_is_no_room(job: Job) -> None:
    worker = Worker(job)
    for subtask in range(3):
        worker.acquire(job.head, subtask, 3, cache_bytes=1)
    if isinstance(job.state_backend, HashMapStateBackend):
        assert len(worker.cache._entries) == 1
    assert worker.states(job.head, 2, 3).items() <= expected(job).items()


def test_a_discarded_instance_is_loaded_anew(job: Job) -> None:
    worker = Worker(job)
    cached = worker.acquire(job.head)
    worker.process(cached, {"k1": 666})
    worker.cache.discard(cached)
    assert worker.acquire(job.head) is not cached
    assert worker.states(job.head) == expected(job)


def test_an_epoch_that_fails_to_apply_leaves_no_half_changed_cache(job: Job) -> None:
    job.inlines = inlines_none
    worker = Worker(job)
    worker.acquire(job.head)
    first = sealed(job, {"k1": 1})
    second = sealed(job, {"k2": 2})
    folder = Path(job.root) / job.job / changes_folder(1)
    [file] = folder.glob(f"e{second.manifest.epoch:010d}-*")
    sound = file.read_bytes()
    file.unlink()
    with pytest.raises(CorruptionError, match=file.name):
        worker.acquire(second)
    file.write_bytes(sound)
    assert worker.states(second) == expected(job)
    assert worker.states(first) == expected(job, first)


def test_changes_that_a_base_covers_are_not_missed_when_retention_removed_them(job: Job) -> None:
    """Their manifest may still exist: a start reads from it whether output is owed."""
    job.inlines = inlines_none
    worker = Worker(job)
    worker.acquire(job.head).release()
    first = sealed(job, {"k1": 1, "k7": 7})
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock(), ids=CountingIds())
    publisher.begin(job.epoch({("count", "count"): [put("k2", 2)]}, checkpoint_id=1))
    job.adopt(publisher.completed())
    head = sealed(job, {"k3": 3})
    remove_change_files(job, first)
    assert worker.states(head) == expected(job)
    assert worker.states(sealed(job, {"k4": 4})) == expected(job)


def test_a_predecessor_that_is_not_the_one_that_was_planned_on(job: Job) -> None:
    worker, head = Worker(job), job.head
    worker.acquire(head)
    with pytest.raises(DamagedManifestError, match="planned"):
        worker.acquire(head._replace(hash="0" * 64))


def test_a_manifest_that_was_exchanged_on_the_way_to_the_predecessor_is_not_applied(job: Job) -> None:
    """Its place and its predecessor are right; only its hash shows that it is not the sealed manifest."""
    worker, first = Worker(job), job.head
    worker.states(first)
    exchanged = sealed(job, {"k1": 2}).manifest
    head = sealed(job, {"k2": 3})
    operators = {uid: replace(operator, acks=()) for uid, operator in exchanged.operators.items()}
    path = manifest_path(exchanged.generation, exchanged.epoch)
    job.storage.delete(path)
    job.storage.put_if_absent(path, encode_manifest(replace(exchanged, operators=operators))[0])
    with pytest.raises(DamagedManifestError, match="The chain breaks at epoch 2"):
        worker.acquire(head)


def test_another_worker_goes_on_where_the_last_one_stopped_if_they_share_a_disk(job: Job) -> None:
    first, second = Worker(job), Worker(job)
    assert first.states(job.head) == expected(job)
    for n in range(1, 9):
        worker = first if n % 2 else second
        before = job.head
        head = sealed(job, {"k1": n, f"k{n}": n})
        worker.attempt(worker.acquire(before), {"k1": n, f"k{n}": n}, attempt_of(head))
        assert worker.states(head) == expected(job)
    if isinstance(job.state_backend, EmbeddedRocksDBStateBackend):
        remove_change_files(job, job.head)  # and the database needs none of them
        third = Worker(job)
        assert third.states(job.head) == expected(job)


def test_an_attempt_that_was_sealed_is_settled_once_if_another_worker_applied_it(job: Job) -> None:
    first, second = Worker(job), Worker(job)
    before = job.head
    head = sealed(job, {"k1": 11})
    first.attempt(first.acquire(before), {"k1": 11}, attempt_of(head))
    assert second.states(head) == expected(job)
    assert first.states(head) == expected(job)
    third = sealed(job, {"k2": 12})
    assert first.states(third) == second.states(third) == expected(job)


@ON_DISK
def test_a_worker_that_was_killed_leaves_a_database_to_go_on_with(job: Job) -> None:
    first = Worker(job)
    assert first.states(job.head) == expected(job)
    first.acquire(job.head)
    first.end()
    head = sealed(job, {"k3": 3})
    assert Worker(job).states(head) == expected(job)


@ON_DISK
def test_a_database_that_was_damaged_between_epochs_is_loaded_anew(job: Job, tmp_path: Path) -> None:
    first = Worker(job)
    assert first.states(job.head) == expected(job)
    first.end()
    for file in (tmp_path / "disk").glob("**/CURRENT"):
        file.write_text("garbage")
    assert Worker(job).states(job.head) == expected(job)


def test_the_first_epoch_of_all_may_be_tried_again(job: Job) -> None:
    made = Job(job.root, "young", [SCHEMA], parallelism=1, max_parallelism=MAX)
    made.workers, made.state_backend = job.workers, job.state_backend
    first, second = Worker(made), Worker(made)
    start = job.head._replace(hash="")
    for worker in (first, second, first):
        cached = worker.acquire(start)
        assert worker.process(cached, {"k1": None, "k2": 5}) == {"k2": 5}
        cached.operator.backend.freeze(0)
        cached.pending = "f" * 32
        cached.release()


@ON_DISK
def test_a_part_of_a_range_needs_no_load_where_the_whole_was_served(job: Job) -> None:
    whole = Worker(job)
    assert whole.states(job.head) == expected(job)
    head = job.epoch({("count", "count"): [put("k3", 33)]}, parallelism=3)
    remove_change_files(job, job.log.read(1, head.manifest.epoch - 1))  # a load would need it
    together: dict[str, int] = {}
    for subtask in range(3):
        together |= Worker(job).states(head, subtask, 3)
    assert together["k3"] == 33
    assert together.keys() == {"k0", "k1", "k2", "k3", "k4"}


@pytest.mark.parametrize(("running", "stays"), [(True, True), (False, False), (None, True)])
def test_what_is_held_of_a_job_goes_when_it_runs_no_more(job: Job, running: bool | None, stays: bool) -> None:
    """If a task has no list of the running jobs, nothing is released."""
    worker = Worker(job)
    cached = worker.acquire(job.head)
    cached.release()
    others = [("elsewhere", job.job), (job.root, "another")]
    worker.cache.learn(None if running is None else [*others, *([(job.root, job.job)] if running else [])])
    worker.cache.drop_ended()
    again = worker.acquire(job.head)
    assert (again is cached) == stays
    again.release()
    assert worker.states(job.head) == expected(job)
