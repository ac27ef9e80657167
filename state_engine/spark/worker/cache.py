"""The working state that a Python worker keeps between epochs.

A worker mostly serves the same subtasks (`homes`), but runs any subtask that it is given. So it may hold every range of
its host: an LRU cache under a byte limit. The state is a cache of the log. It is valid only if the manifest that it
reflects is an ancestor of the wanted one; otherwise it is discarded and loaded anew, without an error.
"""

import contextlib
import gc
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TypeVar

import pyarrow as pa

from state_engine.backends.choose import backend_maker
from state_engine.backends.operator_state import Rows
from state_engine.backends.time import NO_WATERMARK, OperatorTime
from state_engine.epoch import follow
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.errors import MissingFileError
from state_engine.key_groups import KeyGroupRange
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import StateSchema
from state_engine.log.state_ttl import settled_time
from state_engine.runtime.lifecycle import RestoredFrom
from state_engine.runtime.operator import Operator
from state_engine.runtime.operators import operator_of
from state_engine.spark.wire.task_spec import TaskSpec, unpack
from state_engine.spark.worker.garbage import GARBAGE
from state_engine.spark.worker.running_jobs import JobPlace
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment, history_of, read_base, read_change_rows, read_log_rows

_BYTES_PER_ROW = 220  # measured: a dict entry with a boxed key and a row of three numbers
_FREEZE_EVERY = 200_000
_INSTANCES = 64  # each may keep a database open

AnyT = TypeVar("AnyT")


@dataclass
class Cached:
    """One operator instance with its state.

    Attributes:
        operator: The instance.
        token: Hash of the manifest that its base reflects; None while it is being changed.
        pending: Attempt whose changes are frozen but not yet known to be sealed.
        restored: Schemas of the manifest from which its states were last loaded, or with which they last caught up.
    """

    operator: Operator
    token: str | None = None
    pending: str | None = None
    restored: tuple[StateSchema, ...] = ()
    frozen_rows: int = field(default=0, repr=False)

    def release(self) -> None:
        """Notes that the task is over: other workers may now take what they share with this one."""
        if self.operator.backend is not None:
            self.operator.backend.release()


class WorkerCache:
    """All operator instances and task specs that one worker process keeps."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[object, ...], Cached] = OrderedDict()
        self._specs: dict[str, TaskSpec] = {}
        self._running: frozenset[JobPlace] | None = None

    def spec(self, payload: bytes, digest: str) -> TaskSpec:
        """Returns the task spec of a payload, unpacked once per worker."""
        if digest not in self._specs:
            self._specs[digest] = unpack(payload)
        return self._specs[digest]

    def acquire(
        self,
        payload: bytes,
        digest: str,
        plan: EpochPlan,
        subtask: int,
        cache_bytes: int,
        *,
        beside: Sequence[Cached] = (),
    ) -> Cached:
        """E3: returns the operator instance of a subtask, with the state of the epoch's predecessor.

        Args:
            payload: The packed spec of the operator.
            digest: Its digest.
            plan: The epoch.
            subtask: The subtask's number.
            cache_bytes: Above this size the least recently used instances are dropped.
            beside: Instances that the same task holds; they are not dropped.

        Raises:
            LakestateError: The log cannot be read, or does not fit the code.
            OperatorFailure: The function's `open` raised.
        """
        uid = self.spec(payload, digest).operator.uid
        operator_plan = next(o for o in plan.operators if o.uid == uid)
        self._drop_outlived(plan, operator_plan)
        key = (plan.root, plan.job, plan.generation, operator_plan.uid, operator_plan.parallelism, subtask, digest)
        cached = self._entries.pop(key, None)
        if cached is not None and not self._try(
            cached, partial(_catch_up, cached, plan, operator_plan, subtask, payload)
        ):
            self.drop(cached)
            cached = None
        if cached is None:
            spec = unpack(payload)
            maker = backend_maker(spec.state_backend, plan.root, plan.job, plan.generation)
            cached = Cached(operator_of(spec.operator, subtask, operator_plan.parallelism, maker))
            self._try(cached, partial(_begin, cached, plan, operator_plan, subtask))
        self._entries[key] = cached
        self._evict(cache_bytes, [cached, *beside])
        return cached

    def learn(self, running: Iterable[JobPlace] | None) -> None:
        """Notes which jobs run when a task begins; None if that is not known."""
        self._running = None if running is None else frozenset(running)

    def drop_ended(self) -> None:
        """Drops the instances of jobs that have ended: a further start of such a job has a generation of its own.

        Called after a task, when nothing waits for this worker: freeing a million keys takes some tenths of a second.
        """
        if self._running is not None:
            for key in [key for key in self._entries if key[:2] not in self._running]:
                self.drop(self._entries.pop(key))

    def _drop_outlived(self, plan: EpochPlan, own: OperatorPlan) -> None:
        """Drops instances that are not needed any more: those of earlier starts, and of another parallelism.

        If a running job was rescaled, their databases may become parts of the new ones.
        """
        for key in [key for key in self._entries if key[:2] == (plan.root, plan.job) and key[3] == own.uid]:
            if key[2] != plan.generation or key[4] != own.parallelism:
                self.drop(self._entries.pop(key))

    def _try(self, cached: Cached, work: Callable[[], AnyT]) -> AnyT:
        """Runs some work with an instance, and closes the instance if that fails."""
        try:
            return work()
        except BaseException:
            self.drop(cached)
            raise

    def discard(self, cached: Cached) -> None:
        """Forgets an instance after its epoch has failed."""
        for key in [k for k, v in self._entries.items() if v is cached]:
            del self._entries[key]
        self.drop(cached)

    def close(self) -> None:
        """Closes all instances, because the worker ends."""
        while self._entries:
            _, cached = self._entries.popitem()
            self.drop(cached)

    @staticmethod
    def drop(cached: Cached) -> None:
        """Closes an instance; errors of its `close` are ignored."""
        GARBAGE.note_dropped()
        cached.operator.dispose()
        with contextlib.suppress(Exception):
            if cached.operator.backend is not None:
                cached.operator.backend.close()

    def _evict(self, cache_bytes: int, kept: Sequence[Cached]) -> None:
        def size() -> int:
            return sum(c.operator.rows_in_memory for c in self._entries.values()) * _BYTES_PER_ROW

        for key, oldest in list(self._entries.items()):
            if size() <= cache_bytes and len(self._entries) <= _INSTANCES:
                return
            if not any(oldest is one for one in kept):
                self.drop(self._entries.pop(key))


WORKER = WorkerCache()


@lru_cache(maxsize=16)
def log_of(root: str, job: str) -> ManifestLog:
    """Returns the log of a job, with its cache of decoded manifests, one per worker."""
    return ManifestLog(storage_of(root, job), job, open_job=lambda other: storage_of(root, other))


@lru_cache(maxsize=16)
def storage_of(root: str, job: str) -> CheckpointStorage:
    """Returns the storage of a job, one per worker."""
    return open_storage(root, job)


def _begin(cached: Cached, plan: EpochPlan, own: OperatorPlan, subtask: int) -> None:
    """Opens a new instance, with the state that an earlier one has left if that can catch up."""
    operator = cached.operator
    token = operator.backend.resume() if operator.backend is not None else None
    steps = None if token is None else _steps_since(token, plan)
    if steps is not None:
        _attach_operator_state(operator, plan)
        operator.open(_restored_from(plan, own))
        if operator.backend is not None and steps and not _has_the_types_of(cached, steps[-1]):
            operator.backend.start(plan.predecessor)
        else:
            try:
                _take(cached, steps, plan, own, subtask)
            except MissingFileError:  # as in `_catch_up`
                if operator.backend is None:
                    raise
                operator.backend.start(plan.predecessor)
        _attach(cached, plan)
    else:
        if operator.backend is not None:
            operator.backend.start(plan.predecessor)
        _attach(cached, plan)
        operator.open(_restored_from(plan, own))
    cached.token = plan.predecessor


def _catch_up(cached: Cached, plan: EpochPlan, own: OperatorPlan, subtask: int, payload: bytes) -> bool:
    """Brings an instance to the predecessor manifest; returns False if it has to be loaded anew instead."""
    operator = cached.operator
    token = cached.token if operator.backend is None else operator.backend.resume()
    cached.token = None
    steps = None if token is None else _steps_since(token, plan)
    if steps is None or (steps and not _has_the_types_of(cached, steps[-1])):
        return False
    try:
        goes_on = _take(cached, steps, plan, own, subtask)
    except MissingFileError:  # the cache is too old: a manifest may outlive its changes, which a later base covers
        return False
    _attach(cached, plan)
    if not goes_on and (operator.life.keeps_fields or operator.operator_state.holds_state):
        operator.renew(unpack(payload).operator.function)
        _attach_operator_state(operator, plan)
        operator.open(_restored_from(plan, own))
    cached.token = plan.predecessor
    return True


def _predecessor(plan: EpochPlan) -> StoredManifest | None:
    return follow.predecessor(log_of(plan.root, plan.job), plan)


def _steps_since(token: str, plan: EpochPlan) -> list[StoredManifest] | None:
    return follow.steps_since(log_of(plan.root, plan.job), token, plan)


def _take(cached: Cached, steps: list[StoredManifest], plan: EpochPlan, own: OperatorPlan, subtask: int) -> bool:
    """Applies sealed manifests; returns whether they contain this instance's last attempt, and nothing else."""
    operator, backend = cached.operator, cached.operator.backend
    taken, goes_on = follow.steps_to_take(steps, cached.pending, own, subtask)
    if backend is not None and not taken:
        backend.forget()
    for step, is_own in taken:
        if is_own:
            operator.settle()
            operator.operator_state.follow(_changes_of_all(step, plan, own))
        elif backend is not None:
            backend.forget()
            _apply_step(operator, step, plan, steps[-1])
        if backend is not None:
            backend.commit(step.hash)
    cached.pending = None
    return goes_on


def _has_the_types_of(cached: Cached, head: StoredManifest) -> bool:
    """Returns whether the values of an instance went through the same types as those of the log."""
    backend = cached.operator.backend
    if backend is None:
        return True
    held = [schema for schema in backend.schemas if not backend.lacks(schema.name)]
    return follow.types_agree(backend.uid, held, cached.restored, head)


def _restored_from(plan: EpochPlan, own: OperatorPlan) -> RestoredFrom | None:
    """Returns the checkpoint that an instance goes on from; None if the operator never ran."""
    head = _predecessor(plan)
    operator = head.manifest.operators.get(own.uid) if head is not None else None
    if head is None or operator is None or (operator.since is None and not operator.acks):
        return None
    return RestoredFrom(head.manifest.snapshot_id, head.manifest.processing_time)


def _apply_step(operator: Operator, step: StoredManifest, plan: EpochPlan, head: StoredManifest) -> None:
    backend = operator.backend
    assert backend is not None
    first, last = backend.key_groups
    storage = storage_of(plan.root, plan.job)
    logged = {schema.name: schema for schema in head.manifest.schemas if schema.uid == backend.uid}
    for schema in backend.schemas:
        for rows in read_change_rows(storage, step.manifest, logged.get(schema.name, schema), first, last):
            backend.apply(schema.name, rows)


def _changes_of_all(step: StoredManifest, plan: EpochPlan, own: OperatorPlan) -> Rows:
    """Returns a function that reads all subtasks' changes of a state in one epoch."""
    storage = storage_of(plan.root, plan.job)
    return lambda schema: read_change_rows(storage, step.manifest, schema, 0, own.max_parallelism - 1)


def _attach(cached: Cached, plan: EpochPlan) -> None:
    backend, head = cached.operator.backend, _predecessor(plan)
    if backend is not None and head is not None:
        manifest = head.manifest
        settled = settled_time(manifest, backend.uid)
        sealed = OperatorTime(manifest.processing_time, NO_WATERMARK if settled is None else settled)
        backend.attach(manifest.schemas, _loader(plan, head, backend.key_groups), sealed)
        cached.restored = manifest.schemas
    elif backend is not None:
        backend.attach((), lambda _: ())
    _attach_operator_state(cached.operator, plan)


def _attach_operator_state(operator: Operator, plan: EpochPlan) -> None:
    head = _predecessor(plan)
    if head is not None:
        latest = head
        operator.operator_state.attach(
            latest.manifest.schemas, lambda schema: _loader(plan, latest, operator.range_of(schema))(schema)
        )


def _loader(
    plan: EpochPlan, head: StoredManifest, range_: KeyGroupRange
) -> Callable[[StateSchema], Iterable[pa.Table]]:
    def load(schema: StateSchema) -> Iterator[pa.Table]:
        yield from read_log_rows(_segments(plan, head), schema, range_.first, range_.last)

    return load


def _segments(plan: EpochPlan, head: StoredManifest) -> list[Segment]:
    """Returns the history that a load reads: the base that `head` names and the manifests after it, job by job."""
    reference = head.manifest.base
    base = read_base(storage_of(plan.root, plan.job), reference) if reference is not None else None
    manifests = [stored.manifest for stored in log_of(plan.root, plan.job).chain(head)]
    return history_of(base, plan.job, manifests, lambda job: storage_of(plan.root, job))


def settle_memory(cached: Cached) -> None:
    """Excludes the state from the garbage collection that Spark runs after each task.

    One million keys cost up to 142 ms per collection; frozen objects cost nothing.
    """
    backend = cached.operator.backend
    if backend is not None and backend.rows_in_memory > cached.frozen_rows + _FREEZE_EVERY:
        gc.freeze()
        cached.frozen_rows = backend.rows_in_memory


__all__ = ["WORKER", "Cached", "WorkerCache", "log_of", "settle_memory", "storage_of"]
