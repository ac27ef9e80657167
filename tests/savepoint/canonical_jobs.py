"""A job with history, starts of it without Spark, and its state to compare with."""

import random
from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.clock import RandomIds
from state_engine.epoch.carry import carried
from state_engine.epoch.ports import TableFence
from state_engine.epoch.request import Head, OperatorShape, StartRequest
from state_engine.epoch.start import StartUp
from state_engine.inspect import read_state
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import SinkTable, StateSchema
from state_engine.savepoint import adopt_for, resolve_restore
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.testing.changes import EntryKey, model_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job


class NoSinks:
    """The sinks of a job without sinks; records the `keep_output` of each rewind."""

    def __init__(self) -> None:
        self.kept: list[bool] = []

    def fences(self) -> list[TableFence]:
        return []

    def adopt(self, uids: Collection[str], generation: int, owed: StoredManifest | None) -> None: ...

    def prepare(self) -> None: ...

    def commit(self, sealed: StoredManifest) -> None: ...

    def pay(self, sealed: StoredManifest, *, leave_out: bool, without: Collection[str]) -> None: ...

    def check_rewind(self, target: StoredManifest, generation: int) -> None: ...

    def check_owed(self, sealed: StoredManifest) -> None: ...

    def close(self) -> None: ...

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        self.kept.append(keep_output)


def running_job(root: str, seed: int = 2) -> JobBuilder:
    """Makes a job with four epochs: a checkpoint at the second, another parallelism at the fourth."""
    rng = random.Random(seed)
    job = sample_job(root)
    job.epoch(random_changes(rng), new_files=["a"])
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    publisher.begin(job.epoch(random_changes(rng), checkpoint_id=1, new_files=["b"]))
    job.adopt(publisher.completed())
    job.epoch(random_changes(rng), new_files=["c"])
    job.epoch(random_changes(rng), parallelism=3)
    return job


def request(
    root: str, job: str, *, parallelism: int = 2, max_parallelism: int = 13, schemas: tuple[StateSchema, ...] = SCHEMAS
) -> StartRequest:
    """Returns a start of the sample job as its code declares it."""
    uids = dict.fromkeys(schema.uid for schema in schemas)
    shapes = tuple(
        OperatorShape(
            uid=uid,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            keys=next(schema.key for schema in schemas if schema.uid == uid),
            schemas=tuple(schema for schema in schemas if schema.uid == uid),
        )
        for uid in uids
    )
    return StartRequest(job=job, root=root, operators=shapes)


def start(
    root: str,
    job: str,
    restore: str | None,
    *,
    parallelism: int = 2,
    keep_output: bool = False,
    sinks: tuple[SinkTable, ...] = (),
) -> Head:
    """Starts the sample job as a driver would, without Spark."""
    storage = open_storage(root, job)
    log = ManifestLog(storage, job, open_job=lambda other: open_storage(root, other))
    publisher = CheckpointPublisher(storage, job, clock=ManualClock(), open_job=lambda other: open_storage(root, other))
    target = resolve_restore(root, job, restore) if restore is not None else None
    wanted = replace(request(root, job, parallelism=parallelism), restore=target, keep_output=keep_output, sinks=sinks)
    return StartUp(log, NoSinks(), publisher, ManualClock(1_700_000_100_000), RandomIds()).run(adopt_for(wanted, log))


def checkpoint(root: str, job: str, head: StoredManifest, checkpoint_id: int) -> StoredManifest:
    """Seals an epoch without data after `head` and publishes a checkpoint of it."""
    storage = open_storage(root, job)
    log = ManifestLog(storage, job, open_job=lambda other: open_storage(root, other))
    manifest = head.manifest
    empty = carried(head, "idle", incarnation=manifest.incarnation, number=manifest.incarnation_number, now_ms=0)
    sealed = log.put(replace(empty, checkpoint_id=checkpoint_id))
    publisher = CheckpointPublisher(storage, job, clock=ManualClock(), open_job=lambda other: open_storage(root, other))
    publisher.begin(sealed)
    assert publisher.completed() is not None
    return sealed


def state_of(root: str, job: str, at: Any = None) -> dict[tuple[str, str], dict[EntryKey, Any]]:
    """Returns all state of a job in the form of the model."""
    return {(s.uid, s.name): model_of(s, read_state(root, job, s.uid, s.name, at=at)) for s in SCHEMAS}


def model(job: JobBuilder, epoch: int) -> dict[tuple[str, str], dict[EntryKey, Any]]:
    """Returns the state of the first generation after an epoch."""
    at = job.log.read(1, epoch)
    return {(s.uid, s.name): job.rows(s.uid, s.name, at) for s in SCHEMAS}
