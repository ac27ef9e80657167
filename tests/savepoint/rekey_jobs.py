"""Restores that rewrite state, without Spark."""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from canonical_jobs import NoSinks
from group_jobs import ALL, changes_with_timers, states_of

from state_engine.backends.schemas import renamed
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.clock import RandomIds
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import Crash
from state_engine.epoch.request import Head, OperatorShape, StartRequest
from state_engine.epoch.start import StartUp
from state_engine.inspect import read_state
from state_engine.key_groups import key_group_of
from state_engine.log.records import StateSchema
from state_engine.savepoint import adopt_for, resolve_restore
from state_engine.savepoint.rekey import with_rewrite
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock

SCHEMAS = tuple(renamed(schema, schema.uid) for schema in ALL)
"""The schemas of the sample job with ids as the engine makes them, so that they change with a new uid."""


def job_of(root: str, seed: int = 3, epochs: int = 4, published: Sequence[int] = (2,)) -> JobBuilder:
    """Makes a job of 13 key groups with states and timers of every kind of row, and some checkpoints."""
    rng = random.Random(seed)
    job = JobBuilder(root, "flights", SCHEMAS)
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    for epoch in range(1, epochs + 1):
        parallelism = rng.choice([None, 1, 3])
        number = epoch if epoch in published else None
        sealed = job.epoch(
            changes_with_timers(rng), parallelism=parallelism, checkpoint_id=number, new_files=[str(epoch)]
        )
        if number is not None:
            publisher.begin(sealed)
            job.adopt(publisher.completed())
    return job


def under(uids: Mapping[str, str]) -> tuple[StateSchema, ...]:
    """Returns the states of the job, with other uids for its operators."""
    return tuple(renamed(schema, uids.get(schema.uid, schema.uid)) for schema in SCHEMAS)


def start_rewritten(
    root: str,
    job: str,
    restore: str | None,
    *,
    max_parallelism: int | None = None,
    uids: Mapping[str, str] | None = None,
    groups: int | None = None,
    schemas: Sequence[StateSchema] | None = None,
    parallelism: int = 2,
    allow_non_restored_state: bool = False,
    resume_state: Sequence[str] = (),
    discard_state: Sequence[str] = (),
    cancelled: Callable[[], bool] | None = None,
    progress: Callable[[str, float], None] | None = None,
    crash: Crash | None = None,
) -> Head:
    """Starts the job as a driver with these operators and this number of key groups in its code would."""
    storage = open_storage(root, job)
    log = ManifestLog(storage, job, open_job=lambda other: open_storage(root, other))
    publisher = CheckpointPublisher(storage, job, clock=ManualClock(), open_job=lambda other: open_storage(root, other))
    states = under(uids or {}) if schemas is None else tuple(schemas)
    names = list(dict.fromkeys(schema.uid for schema in states))
    target = None
    if restore is not None:
        target = with_rewrite(
            resolve_restore(root, job, restore),
            job,
            uid_mapping=uids or {},
            max_parallelism=max_parallelism,
            uids=names,
            allow_non_restored_state=allow_non_restored_state,
            discard_state=discard_state,
        )
    request = StartRequest(
        job=job,
        root=root,
        operators=tuple(
            OperatorShape(
                uid=uid,
                parallelism=parallelism,
                max_parallelism=groups or max_parallelism or 13,
                keys=next(schema.key for schema in states if schema.uid == uid),
                schemas=tuple(schema for schema in states if schema.uid == uid),
            )
            for uid in names
        ),
        restore=target,
        allow_non_restored_state=allow_non_restored_state,
        resume_state=tuple(resume_state),
    )
    start = StartUp(log, NoSinks(), publisher, ManualClock(1_700_000_100_000), RandomIds(), crash)
    return start.run(adopt_for(request, log, cancelled=cancelled, progress=progress))


def assert_state(root: str, job: str, expected: Mapping[Any, Any], groups: int, uids: Mapping[str, str] = {}) -> None:
    """Asserts that the job has this state, with every row in the key group of its key."""
    schemas = under(uids)
    states = states_of(root, job, schemas)
    assert states == {(uids.get(uid, uid), name): entries for (uid, name), entries in expected.items()}
    for schema in schemas:
        types = [column.type for column in schema.key]
        for row in read_state(root, job, schema.uid, schema.name).to_pylist():
            assert row["key_group"] == key_group_of([row[c.name] for c in schema.key], types, groups)


class DieAt:
    """Ends the process at a crash point."""

    def __init__(self, point: CrashPoint) -> None:
        self._point = point

    def at(self, point: CrashPoint, epoch: int) -> None:
        if point is self._point:
            raise SystemExit(point)


def files_below(root: str) -> dict[str, bytes]:
    """Returns all files of a root, by path."""
    return {str(path): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}
