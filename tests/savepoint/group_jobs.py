"""A job of two operators with every kind of row, also timers, and a plain loop that restores its key groups."""

import random
from collections.abc import Sequence
from typing import Any

from state_engine.api.timers import TimeDomain
from state_engine.backends.schemas import timer_schema
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.epoch.look import newest
from state_engine.inspect import read_state
from state_engine.key_groups import key_group_of
from state_engine.log.records import StateSchema
from state_engine.savepoint import trigger_savepoint
from state_engine.testing.changes import Change, EntryKey, StateName, append, delete, model_of, put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes

GROUPS = 13
COUNT, LEGS, SEEN = SCHEMAS
FLIGHT_TIMERS = timer_schema("aircraft", COUNT.key, TimeDomain.EVENT_TIME)
ALL = (*SCHEMAS, FLIGHT_TIMERS)
KEYS = [None, *(f"N{number}" for number in range(12))]
Models = dict[StateName, dict[EntryKey, Any]]


def name(schema: StateSchema) -> StateName:
    return schema.uid, schema.name


def changes_with_timers(rng: random.Random) -> dict[StateName, Sequence[Change]]:
    timers = [
        rng.choice([put(rng.choice(KEYS), True, user_key=rng.randrange(100)), delete(rng.choice(KEYS), user_key=7)])
        for _ in range(12)
    ]
    return {**random_changes(rng), name(FLIGHT_TIMERS): timers}


def job_with_history(root: str, rng: random.Random, epochs: int = 5) -> JobBuilder:
    """Makes a job with every kind of row and some checkpoints."""
    job = JobBuilder(root, "flights", ALL)
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    for number in range(1, epochs + 1):
        published = rng.random() < 0.4
        sealed = job.epoch(
            changes_with_timers(rng), parallelism=rng.choice([None, 1, 3]), checkpoint_id=number if published else None
        )
        if published:
            publisher.begin(sealed)
            job.adopt(publisher.completed())
    return job


def states_of(root: str, job: str, schemas: Sequence[StateSchema] = ALL) -> Models:
    return {name(s): model_of(s, read_state(root, job, s.uid, s.name)) for s in schemas}


def models_at(job: JobBuilder, epoch: int) -> Models:
    return job.models[1, epoch]


def group_of(schema: StateSchema, entry: EntryKey) -> int:
    return key_group_of(entry[0], [column.type for column in schema.key], GROUPS)


def expected(now: Models, source: Models, chosen: Any, uids: Sequence[str]) -> Models:
    """Computes in a plain loop: entries for which `chosen(schema, entry)` is true are those of the source."""
    result: Models = {}
    for schema in ALL:
        kept, taken = now[name(schema)], source[name(schema)]
        if schema.uid not in uids:
            result[name(schema)] = kept
            continue
        result[name(schema)] = {e: v for e, v in kept.items() if not chosen(schema, e)}
        result[name(schema)] |= {e: v for e, v in taken.items() if chosen(schema, e)}
    return result


def assert_found_again_after_a_publish(job: JobBuilder, wanted: Models) -> None:
    """Asserts that the rows count as any epoch's: later epochs, a base fold and a savepoint have them."""
    job.head = newest(job.log)
    job.model = wanted
    publisher = CheckpointPublisher(job.storage, job.job, clock=ManualClock())
    publisher.begin(job.epoch({name(COUNT): [put("N1", 77), put("N2", 78)]}, checkpoint_id=99))
    assert publisher.failures == 0
    job.adopt(publisher.completed())
    job.epoch({name(LEGS): [append("N3", None)]})
    assert states_of(job.root, job.job) == job.model
    pin = trigger_savepoint(job.root, job.job)
    assert model_of(COUNT, read_state(job.root, job.job, *name(COUNT), at=pin)) == job.rows(*name(COUNT))
