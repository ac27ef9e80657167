"""Selected key groups or keys of a stopped job: chosen ones equal the source, all others stay."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from group_jobs import (
    ALL,
    COUNT,
    FLIGHT_TIMERS,
    GROUPS,
    KEYS,
    LEGS,
    SEEN,
    assert_found_again_after_a_publish,
    expected,
    group_of,
    job_with_history,
    models_at,
    name,
    states_of,
)
from msgspec.structs import replace

from state_engine.api import ListStateDescriptor, Types
from state_engine.api.timers import TimeDomain
from state_engine.backends.schemas import TIMERS, operator_schema, raw_keyed_schema
from state_engine.epoch import carry, debts
from state_engine.epoch.look import newest
from state_engine.errors import (
    KeyTypeChangedError,
    LakestateError,
    MaxParallelismChangedError,
    NothingToRestoreError,
    RestoreError,
    StateTypeChangedError,
    UnknownOperatorError,
)
from state_engine.inspect import read_state
from state_engine.log.ops import Op
from state_engine.log.records import EarliestTimers, FormerType, StateSchema, StateTtl
from state_engine.savepoint import restore_key_groups, trigger_savepoint
from state_engine.testing.changes import append, clear, delete, put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


@pytest.mark.all_pairs(seed=6)
@pytest.mark.parametrize("seed", range(12))
def test_random_key_groups_equal_the_source_and_all_others_stay(root: str, seed: int) -> None:
    rng = random.Random(seed)
    job = job_with_history(root, rng)
    epoch = rng.randint(1, 5)
    groups = rng.sample(range(GROUPS), rng.randint(1, 5))
    uids = rng.choice([None, ["aircraft"], ["carrier"]])
    wanted = expected(
        job.model, models_at(job, epoch), lambda s, e: group_of(s, e) in groups, uids or ["aircraft", "carrier"]
    )
    before = job.head
    report = restore_key_groups(root, "flights", f"epoch:1/{epoch}", groups, uids=uids, clock=ManualClock())
    assert states_of(root, "flights") == wanted
    assert before is not None
    assert report.sealed == (1, before.manifest.epoch + 2), "a claim, then the rows"
    assert_found_again_after_a_publish(job, wanted)


@pytest.mark.all_pairs(seed=6)
@pytest.mark.parametrize("seed", range(12))
def test_random_keys_equal_the_source_and_their_neighbours_stay(root: str, seed: int) -> None:
    rng = random.Random(100 + seed)
    job = job_with_history(root, rng)
    epoch, keys = rng.randint(1, 5), [(key,) for key in rng.sample(KEYS, rng.randint(1, 4))]
    wanted = expected(job.model, models_at(job, epoch), lambda s, e: e[0] in keys, ["aircraft"])
    restore_key_groups(root, "flights", f"epoch:1/{epoch}", keys=keys, uids=["aircraft"], clock=ManualClock())
    assert states_of(root, "flights") == wanted
    head = newest(job.log)
    assert head is not None
    assert head.manifest.restored is not None
    assert head.manifest.restored.keys == len(keys)
    assert_found_again_after_a_publish(job, wanted)


def test_sources_are_savepoints_checkpoints_and_other_jobs(root: str) -> None:
    job = job_with_history(root, random.Random(3), epochs=3)
    pin = trigger_savepoint(root, "flights")
    at_pin = models_at(job, 3)
    job.epoch({name(COUNT): [put(key, 1000) for key in KEYS], name(LEGS): [clear(key) for key in KEYS]})
    other = JobBuilder(root, "other", ALL)
    other.epoch({name(COUNT): [put(key, 2000) for key in KEYS]})

    report = restore_key_groups(root, "flights", pin.savepoint_id, [(0, 12)])
    assert states_of(root, "flights") == at_pin
    assert report.source.savepoint_id == pin.savepoint_id
    restore_key_groups(root, "other", f"flights/{pin.savepoint_id}", [(0, 5), 7], uids=["aircraft"])
    groups = {0, 1, 2, 3, 4, 5, 7}
    wanted = expected(other.model, at_pin, lambda s, e: group_of(s, e) in groups, ["aircraft"])
    assert states_of(root, "other") == wanted
    assert trigger_savepoint(root, "other").job == "other", "it does not depend on files of the other job"


def test_a_dry_run_counts_and_writes_nothing(root: str) -> None:
    job = JobBuilder(root, "flights", ALL)
    job.epoch({name(COUNT): [put("N1", 1), put("N2", 2)], name(FLIGHT_TIMERS): [put("N1", True, user_key=5)]})
    job.epoch({name(COUNT): [put("N1", 3), put("N3", 4)], name(LEGS): [append("N1", None), append("N1", None)]})
    files = job.storage.list("")
    report = restore_key_groups(root, "flights", "epoch:1/1", keys=["N1"], uids=["aircraft"], dry_run=True)
    assert job.storage.list("") == files
    assert report.sealed is None
    assert {(s.state, s.removed, s.written) for s in report.states} == {
        ("count", 1, 1), ("legs", 2, 0), (TIMERS[TimeDomain.EVENT_TIME], 1, 1)
    }  # fmt: skip
    text = "\n".join(report.lines())
    assert text.startswith("Would take state of epoch 1 of generation 1 of job 'flights' into job 'flights'")
    assert "1 keys in key groups" in text
    assert "not read again" in text
    whole = restore_key_groups(root, "flights", "epoch:1/1", range(GROUPS), dry_run=True)
    assert {(s.uid, s.state): (s.removed, s.written) for s in whole.states}[name(COUNT)] == (3, 2)


def test_whole_groups_begin_with_a_reset_of_every_state_of_the_operator(root: str) -> None:
    job = job_with_history(root, random.Random(4))
    restore_key_groups(root, "flights", "epoch:1/2", [3, 4], uids=["aircraft"])
    head = newest(job.log)
    assert head is not None
    assert head.manifest.kind == "restore"
    assert head.manifest.restored is not None
    assert head.manifest.restored.groups == {"aircraft": ((3, 4),)}
    assert not head.manifest.operators["carrier"].acks
    assert len(head.manifest.operators["aircraft"].acks) == head.manifest.operators["aircraft"].parallelism
    from state_engine.storage.state_reader import read_change_rows

    for schema in (COUNT, LEGS, FLIGHT_TIMERS):
        rows = [row for t in read_change_rows(job.storage, head.manifest, schema, 0, 12) for row in t.to_pylist()]
        for group in (3, 4):
            ops = [row["op"] for row in rows if row["key_group"] == group]
            assert ops[0] == Op.RESET_GROUP
            assert set(ops[1:]) <= {Op.PUT, Op.APPEND}
        assert {row["key_group"] for row in rows} == {3, 4}


def test_timers_are_due_at_the_earlier_of_what_was_known_and_what_came(root: str) -> None:
    job = JobBuilder(root, "flights", ALL)
    job.epoch({name(FLIGHT_TIMERS): [put("N1", True, user_key=50), put("N2", True, user_key=20)]})
    head = job.epoch({name(FLIGHT_TIMERS): [delete("N1", user_key=50), delete("N2", user_key=20)]})
    late = EarliestTimers(event_time=70, processing_time=9)
    job.head = job.log.put(
        replace(carry.carried(head, "claim", incarnation="0" * 32, number=1, now_ms=0), timers={"aircraft": late})
    )
    restore_key_groups(root, "flights", "epoch:1/1", keys=["N1"], uids=["aircraft"])
    assert newest(job.log).manifest.timers == {"aircraft": EarliestTimers(event_time=50, processing_time=9)}  # type: ignore[union-attr]
    restore_key_groups(root, "flights", "epoch:1/1", keys=["N2"], uids=["aircraft"])
    assert newest(job.log).manifest.timers["aircraft"].event_time == 20  # type: ignore[union-attr]


def test_a_debt_to_sinks_is_still_owed_after_it(root: str) -> None:
    job = job_with_history(root, random.Random(5))
    owing = job.head
    restore_key_groups(root, "flights", "epoch:1/1", [0])
    restore_key_groups(root, "flights", "epoch:1/2", [1])
    head = newest(job.log)
    assert head is not None
    assert debts.owed(job.log, head) == owing


# Refusals ---------------------------------------------------------------------------------------------------------


def refused(root: str, job: JobBuilder, error: type[LakestateError], match: str, *args: Any, **options: Any) -> None:
    files = job.storage.list("")
    with pytest.raises(error, match=match) as caught:
        restore_key_groups(root, job.job, *args, **options)
    assert caught.value.action
    assert job.storage.list("") == files, "nothing may be written"


def test_what_cannot_be_chosen_is_refused(root: str) -> None:
    job = job_with_history(root, random.Random(6))
    refused(root, job, RestoreError, "Neither key groups nor keys", "epoch:1/1")
    refused(root, job, RestoreError, "Both key groups and keys", "epoch:1/1", [1], keys=["N1"])
    refused(root, job, RestoreError, "4 to 3 are no key groups", "epoch:1/1", [(4, 3)])
    refused(root, job, RestoreError, "has no key group 13", "epoch:1/1", [(0, 13)])
    refused(root, job, RestoreError, "2 values for 1 key columns", "epoch:1/1", keys=[("a", "b")], uids=["aircraft"])
    refused(root, job, RestoreError, "is no key of operator 'aircraft'", "epoch:1/1", keys=[5], uids=["aircraft"])
    refused(root, job, RestoreError, "empty list of operators", "epoch:1/1", [1], uids=[])
    refused(root, job, UnknownOperatorError, "has no operator 'nobody'", "epoch:1/1", [1], uids=["nobody"])
    refused(root, job, NothingToRestoreError, "has no epoch 77", "epoch:1/77", [1])
    with pytest.raises(NothingToRestoreError, match="no sealed epoch"):
        restore_key_groups(root, "never-ran", "latest", [1])


def test_state_without_key_groups_stays_and_cannot_be_named(root: str) -> None:
    listed = operator_schema("buffer", ListStateDescriptor("rows", Types.STRING()))
    beside = operator_schema("aircraft", ListStateDescriptor("beside", Types.STRING()))
    job = JobBuilder(root, "flights", (listed, beside, *ALL))
    job.epoch({name(COUNT): [put("N1", 1)]})
    refused(root, job, RestoreError, "'buffer' of job 'flights' has no keyed state", "latest", [1], uids=["buffer"])
    report = restore_key_groups(root, "flights", "latest", [1], dry_run=True)
    assert {o.uid: o.untouched for o in report.operators} == {"aircraft": ("beside",), "carrier": ()}


def test_raw_keyed_state_goes_by_key_groups_only(root: str) -> None:
    raw = raw_keyed_schema("aircraft")
    job = JobBuilder(root, "flights", (raw, *ALL))
    job.epoch({name(COUNT): [put("N1", 1)]})
    refused(root, job, RestoreError, "raw keyed state", "latest", keys=["N1"], uids=["aircraft"])
    report = restore_key_groups(root, "flights", "latest", [1], uids=["aircraft"], dry_run=True)
    assert raw.name in {state.state for state in report.states}


def other_job(root: str, schemas: Sequence[StateSchema], max_parallelism: int = GROUPS, value: Any = 1) -> str:
    job = JobBuilder(root, "other", schemas, max_parallelism=max_parallelism)
    job.epoch({name(schemas[0]): [put("N1", value)]})
    return f"other/{trigger_savepoint(root, 'other').savepoint_id}"


def test_a_savepoint_of_another_job_that_does_not_fit_is_refused(root: str) -> None:
    job = job_with_history(root, random.Random(7))
    source = other_job(root, ALL, max_parallelism=7)
    refused(root, job, MaxParallelismChangedError, "written with 7", source, [1])


def test_other_types_are_refused_by_the_name_of_the_state(root: str) -> None:
    job = job_with_history(root, random.Random(8))
    text = replace(state("aircraft", "count", "tailnum string", "string"), schema_id="text")
    source = other_job(root, (text, LEGS, SEEN), value="one")
    refused(root, job, StateTypeChangedError, "State 'count'", source, [1])
    restore_key_groups(root, "flights", source, [1], uids=["carrier"])


def test_other_keys_and_missing_operators_are_refused(root: str) -> None:
    job = job_with_history(root, random.Random(9))
    source = other_job(root, (state("aircraft", "count", "other string", "bigint"),))
    refused(root, job, KeyTypeChangedError, "keyed by", source, [1], uids=["aircraft"])
    refused(root, job, UnknownOperatorError, "of job 'other' has no operator 'carrier'", source, [1], uids=["carrier"])


# Types and times to live that changed ------------------------------------------------------------------------------


def test_rows_of_an_earlier_type_come_in_the_type_that_the_state_has_now(root: str) -> None:
    narrow = state("aircraft", "count", "tailnum string", "int")
    job = JobBuilder(root, "flights", (narrow,))
    job.epoch({name(narrow): [put("N1", 1), put("N2", 2)]})
    former = FormerType(until=1, schema_id=narrow.schema_id, value="int")
    wide = replace(narrow, schema_id="wide", value="bigint", former=(former,))
    job.schemas = (wide,)
    job.epoch({name(wide): [put("N1", 1 << 40), delete("N2")]})
    restore_key_groups(root, "flights", "epoch:1/1", keys=["N1", "N2"])
    assert states_of(root, "flights", [wide]) == {name(wide): {(("N1",), None, None): 1, (("N2",), None, None): 2}}


def test_rows_of_another_job_are_widened_as_a_restart_would(root: str) -> None:
    wide = state("aircraft", "count", "tailnum string", "bigint")
    job = JobBuilder(root, "flights", (wide,))
    job.epoch({name(wide): [put("N1", 1 << 40), put("N2", 2)]})
    source = other_job(root, (replace(wide, schema_id="narrow", value="int"),), value=7)
    restore_key_groups(root, "flights", source, keys=["N1"])
    assert states_of(root, "flights", [wide]) == {name(wide): {(("N1",), None, None): 7, (("N2",), None, None): 2}}


def test_rows_of_a_wider_type_from_an_abandoned_generation_are_refused(root: str) -> None:
    wide = state("aircraft", "count", "tailnum string", "bigint")
    job = JobBuilder(root, "flights", (replace(wide, schema_id="narrow", value="int"),))
    job.epoch({name(wide): [put("N1", 1)]})
    source = other_job(root, (wide,))
    refused(root, job, StateTypeChangedError, "State 'count'", source, [1])


def test_a_conversion_by_a_function_cannot_be_repeated(root: str) -> None:
    before = state("aircraft", "count", "tailnum string", "int")
    job = JobBuilder(root, "flights", (before,))
    job.epoch({name(before): [put("N1", 1)]})
    former = FormerType(until=1, schema_id=before.schema_id, value="int", by_function=True)
    job.schemas = (replace(before, schema_id="text", value="string", former=(former,)),)
    job.epoch({name(before): [put("N1", "one")]})
    refused(root, job, StateTypeChangedError, "a function has converted", "epoch:1/1", [(0, 12)])
    restore_key_groups(root, "flights", "epoch:1/2", [(0, 12)])


def test_the_time_of_the_last_access_comes_along_unless_it_was_in_another_time(root: str) -> None:
    lives = replace(COUNT, ttl=StateTtl(milliseconds=1000))
    job = JobBuilder(root, "flights", (lives,))
    touched = job.now_ms
    job.epoch({name(COUNT): [put("N1", 1)]})
    job.epoch({name(COUNT): [put("N1", 2)]})
    restore_key_groups(root, "flights", "epoch:1/1", keys=["N1"])
    (row,) = read_state(root, "flights", *name(COUNT)).to_pylist()
    assert (row["value"], row["last_access"]) == (1, touched)
    by_events = replace(COUNT, ttl=StateTtl(milliseconds=1000, time="event"), unknown_until=9)
    other = JobBuilder(root, "other", (by_events,))
    other.epoch({name(COUNT): [put("N1", 7)]})
    pin = trigger_savepoint(root, "flights")
    restore_key_groups(root, "other", f"flights/{pin.savepoint_id}", keys=["N1"])
    (row,) = read_state(root, "other", *name(COUNT)).to_pylist()
    assert (row["value"], row["last_access"]) == (1, None)
