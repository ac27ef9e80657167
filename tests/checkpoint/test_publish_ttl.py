"""A full checkpoint leaves out what has expired at its epoch; nothing else does."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from state_engine.checkpoint import plan
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.log.records import Base, EarliestTimers, StateSchema, StateTtl
from state_engine.storage.state_reader import Segment, load_groups, read_base
from state_engine.testing.changes import append, model_of, put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import COUNT, LEGS, SEEN

TTL = StateTtl(milliseconds=2_500, drops_expired=True)  # an epoch takes a second
LEG = {"origin": "JFK", "minutes": 1}
EWR = {"origin": "EWR", "minutes": 2}


def job_of(root: Path, ttl: StateTtl | None, **fields: Any) -> JobBuilder:
    schemas = [replace(schema, ttl=ttl, **fields) for schema in (COUNT, LEGS, SEEN)]
    return JobBuilder(f"memory://{root}", "flights", schemas)


def write(job: JobBuilder, number: int, **given: Any) -> Any:
    """Seals an epoch that writes, in each of the sample job's three states, the same key as always and a new one."""
    changes = {
        ("aircraft", "count"): [put("same", number), put(f"n{number}", number)],
        ("aircraft", "legs"): [append("same", LEG if number == 1 else EWR)],
        ("carrier", "seen"): [put(("UA", 1), 1.0, user_key=f"k{number}"), put(("UA", 1), 2.0, user_key="same")],
    }
    return job.epoch(changes, **given)


def publisher_of(job: JobBuilder) -> CheckpointPublisher:
    return CheckpointPublisher(job.storage, job.job, clock=ManualClock(), ids=CountingIds())


def published(
    job: JobBuilder, sealed: Any, running: CheckpointPublisher | None = None
) -> tuple[Base, dict[str, dict[Any, Any]]]:
    publisher = running or publisher_of(job)
    publisher.begin(sealed)
    reference = publisher.completed()
    assert reference is not None
    base = read_base(job.storage, reference)

    def rows_of(schema: StateSchema) -> dict[Any, Any]:
        return model_of(schema, load_groups([Segment(job.storage, base, ())], schema, 0, 12))

    return base, {schema.name: rows_of(schema) for schema in job.schemas}


def names(states: dict[Any, Any]) -> list[Any]:
    return sorted(user_key or key[0] for key, _, user_key in states)


def test_a_full_checkpoint_leaves_out_what_has_expired(tmp_path: Path) -> None:
    job = job_of(tmp_path, TTL)
    write(job, 1)
    write(job, 2)
    job.epoch()
    base, states = published(job, job.epoch(checkpoint_id=1))
    assert base.full
    assert names(states["count"]) == ["n2", "same"]
    assert states["legs"] == {(("same",), None, None): [EWR]}
    assert names(states["seen"]) == ["k2", "same"]
    assert {schema.ttl for schema in base.schemas} == {TTL}


@pytest.mark.parametrize(
    ("ttl", "fields"),
    [
        (None, {}),
        (replace(TTL, drops_expired=False), {}),
        (replace(TTL, milliseconds=3_001), {}),
        (replace(TTL, time="event"), {}),
        (TTL, {"unknown_until": 2}),
    ],
)
def test_otherwise_a_full_checkpoint_keeps_all(tmp_path: Path, ttl: StateTtl | None, fields: dict[str, Any]) -> None:
    job = job_of(tmp_path, ttl, **fields)
    write(job, 1)
    write(job, 2)
    job.epoch()
    base, states = published(job, job.epoch(checkpoint_id=1))
    assert base.full
    assert states == {schema.name: job.rows(schema.uid, schema.name) for schema in job.schemas}


def test_an_incremental_checkpoint_drops_nothing_and_the_next_full_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path, TTL)
    running = publisher_of(job)
    _, states = published(job, write(job, 1, checkpoint_id=1), running)
    assert names(states["count"]) == ["n1", "same"]
    job.epoch()
    job.epoch()
    base, states = published(job, write(job, 2, checkpoint_id=2), running)
    assert not base.full
    assert names(states["count"]) == ["n1", "n2", "same"]
    monkeypatch.setattr(plan, "FULL_LAYERS", 0)
    base, states = published(job, job.epoch(checkpoint_id=3), running)
    assert base.full
    assert names(states["count"]) == ["n2", "same"]
    assert states["legs"] == {(("same",), None, None): [EWR]}


@pytest.mark.parametrize("timer", [False, True])
def test_event_time_goes_by_the_operators_watermark_and_its_next_timer(tmp_path: Path, timer: bool) -> None:
    job = job_of(tmp_path, replace(TTL, time="event"))
    began = job.now_ms
    write(job, 1)
    head = write(job, 2, checkpoint_id=1)
    marked = replace(head.manifest, epoch=3, predecessor=head.hash, watermarks={"aircraft": began + 2_500})
    due = EarliestTimers(event_time=began + (2_499 if timer else 2_500))
    _, states = published(job, job.log.put(replace(marked, timers={"aircraft": due})))
    assert names(states["count"]) == (["n1"] if timer else []) + ["n2", "same"]
    assert names(states["seen"]) == ["k1", "k2", "same"], "the other operator has no watermark"
