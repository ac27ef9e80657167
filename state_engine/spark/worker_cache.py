"""The working state that a Python worker keeps between epochs.

A worker serves any subtask that Spark gives it, so it may hold every range of its host: an LRU under a byte limit. What
it holds is a cache of the log: valid only if the manifest it stands for is an ancestor of the wanted one, otherwise
it is discarded and loaded anew, without an error.
"""

import contextlib
import gc
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from state_engine.backends.time import NO_WATERMARK, OperatorTime
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.errors import DamagedManifestError
from state_engine.key_groups import KeyGroupRange
from state_engine.log.lineage import predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import StateSchema
from state_engine.runtime.operator import Operator
from state_engine.runtime.two_input_operator import operator_of
from state_engine.spark.task_spec import TaskSpec, unpack
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage, open_storage
from state_engine.storage.state_reader import Segment, history_of, read_base, read_change_rows, read_log_rows

_BYTES_PER_ROW = 220  # measured: a dict entry with a boxed key and a row of three numbers
_FREEZE_EVERY = 200_000
_STEPS = 64  # further behind, a load from the base is the shorter way


@dataclass
class Cached:
    """One operator instance with its state.

    Attributes:
        operator: The instance.
        token: Hash of the manifest that its base stands for; None while it is being changed.
        pending: Attempt whose changes are frozen but not yet known to be sealed.
    """

    operator: Operator
    token: str | None = None
    pending: str | None = None
    frozen_rows: int = field(default=0, repr=False)


class WorkerCache:
    """All that one worker process holds."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[object, ...], Cached] = OrderedDict()
        self._specs: dict[str, TaskSpec] = {}

    def spec(self, payload: bytes, digest: str) -> TaskSpec:
        """Returns the task spec of a payload, unpacked once per worker."""
        if digest not in self._specs:
            self._specs[digest] = unpack(payload)
        return self._specs[digest]

    def acquire(self, payload: bytes, digest: str, plan: EpochPlan, subtask: int, cache_bytes: int) -> Cached:
        """E3: returns the operator instance of a subtask, standing for the epoch's predecessor.

        Raises:
            LakestateError: The log cannot be read, or does not fit the code.
            OperatorFailure: The function's `open` raised.
        """
        uid = self.spec(payload, digest).operator.uid
        own = next(o for o in plan.operators if o.uid == uid)
        key = (plan.root, plan.job, plan.generation, own.uid, own.parallelism, subtask, digest)
        cached = self._entries.pop(key, None)
        if cached is not None and not _catch_up(cached, plan, own, subtask):
            self.drop(cached)
            cached = None
        if cached is None:
            cached = Cached(operator_of(unpack(payload).operator, subtask, own.parallelism))
            _load(cached, plan)
        self._entries[key] = cached
        self._evict(cache_bytes)
        return cached

    def discard(self, cached: Cached) -> None:
        """Forgets an instance whose epoch failed."""
        for key in [k for k, v in self._entries.items() if v is cached]:
            del self._entries[key]
        self.drop(cached)

    @staticmethod
    def drop(cached: Cached) -> None:
        """Closes an instance; what its `close` raises is of no consequence."""
        with contextlib.suppress(Exception):
            cached.operator.close()

    def _evict(self, cache_bytes: int) -> None:
        def size() -> int:
            return sum(c.operator.backend.rows for c in self._entries.values() if c.operator.backend) * _BYTES_PER_ROW

        while len(self._entries) > 1 and size() > cache_bytes:
            _, oldest = self._entries.popitem(last=False)
            self.drop(oldest)


WORKER = WorkerCache()


@lru_cache(maxsize=16)
def log_of(root: str, job: str) -> ManifestLog:
    """Returns the log of a job, with its cache of decoded manifests, one per worker."""
    return ManifestLog(storage_of(root, job), job, open_job=lambda other: storage_of(root, other))


@lru_cache(maxsize=16)
def storage_of(root: str, job: str) -> CheckpointStorage:
    """Returns the storage of a job, one per worker."""
    return open_storage(root, job)


def _predecessor(plan: EpochPlan) -> StoredManifest | None:
    if not plan.predecessor:
        return None
    found = log_of(plan.root, plan.job).read(plan.predecessor_generation, plan.predecessor_epoch)
    if found.hash != plan.predecessor:
        raise DamagedManifestError(
            f"Epoch {plan.predecessor_epoch} of generation {plan.predecessor_generation} of job {plan.job!r} is not "
            "the one that the epoch was planned on.",
            action="Look for a second store under the same root; the job restarts from the newest sealed epoch.",
        )
    return found


def _catch_up(cached: Cached, plan: EpochPlan, own: OperatorPlan, subtask: int) -> bool:
    """Brings an instance to the predecessor manifest; False when its token is no ancestor."""
    head = _predecessor(plan)
    if cached.token is None or head is None:
        return cached.token == plan.predecessor and cached.pending is None
    steps = _steps_since(cached.token, head, plan)
    if steps is None:
        return False
    backend, token = cached.operator.backend, cached.token
    cached.token = None
    if backend is not None:
        if not steps:
            backend.forget()
        for step in steps:
            ack = _ack_of(step, own, subtask)
            if cached.pending is not None and ack == cached.pending:
                backend.settle()
            else:
                backend.forget()
                _apply_step(cached.operator, step, plan)
            cached.pending = None
    _attach(cached, plan, head)
    cached.pending = None
    cached.token = head.hash if steps else token
    return True


def _steps_since(token: str, head: StoredManifest, plan: EpochPlan) -> list[StoredManifest] | None:
    """Manifests after the one that `token` names, oldest first; None if it is not within reach."""
    if head.hash == token:
        return []
    log, steps, current = log_of(plan.root, plan.job), [head], head
    while len(steps) <= _STEPS and current.manifest.predecessor != token:
        place = predecessor_of(current.manifest)
        if place is None or place.job != plan.job:
            return None
        found = log.read(place.generation, place.epoch)
        if found.hash != current.manifest.predecessor:
            return None
        steps.append(found)
        current = found
    return steps[::-1] if current.manifest.predecessor == token else None


def _ack_of(step: StoredManifest, own: OperatorPlan, subtask: int) -> str | None:
    operator = step.manifest.operators.get(own.uid)
    if operator is None or operator.parallelism != own.parallelism or len(operator.acks) <= subtask:
        return None
    return operator.acks[subtask].attempt


def _apply_step(operator: Operator, step: StoredManifest, plan: EpochPlan) -> None:
    backend = operator.backend
    assert backend is not None
    first, last = backend.key_groups
    storage = storage_of(plan.root, plan.job)
    for schema in backend.schemas:
        for rows in read_change_rows(storage, step.manifest, schema, first, last):
            backend.apply(schema.name, rows)


def _attach(cached: Cached, plan: EpochPlan, head: StoredManifest | None) -> None:
    backend = cached.operator.backend
    if backend is not None and head is not None:
        manifest = head.manifest
        sealed = OperatorTime(manifest.processing_time, manifest.watermarks.get(backend.uid, NO_WATERMARK))
        backend.attach(manifest.schemas, _loader(plan, head, backend.key_groups), sealed)


def _loader(
    plan: EpochPlan, head: StoredManifest, range_: KeyGroupRange
) -> Callable[[StateSchema], Iterable[pa.Table]]:
    def load(schema: StateSchema) -> Iterator[pa.Table]:
        yield from read_log_rows(_segments(plan, head), schema, range_.first, range_.last)

    return load


def _segments(plan: EpochPlan, head: StoredManifest) -> list[Segment]:
    """The history that a load reads: the base that the head names, and the manifests behind it, job by job."""
    reference = head.manifest.base
    base = read_base(storage_of(plan.root, plan.job), reference) if reference is not None else None
    manifests = [stored.manifest for stored in log_of(plan.root, plan.job).chain(head)]
    return history_of(base, plan.job, manifests, lambda job: storage_of(plan.root, job))


def _load(cached: Cached, plan: EpochPlan) -> None:
    head = _predecessor(plan)
    _attach(cached, plan, head)
    cached.operator.open()
    cached.token = plan.predecessor


def settle_memory(cached: Cached) -> None:
    """Keeps the collection that Spark runs after each task from walking the state.

    One million keys cost it up to 142 ms; frozen objects cost nothing.
    """
    backend = cached.operator.backend
    if backend is not None and backend.rows > cached.frozen_rows + _FREEZE_EVERY:
        gc.freeze()
        cached.frozen_rows = backend.rows


__all__ = ["WORKER", "Cached", "WorkerCache", "log_of", "settle_memory", "storage_of"]
