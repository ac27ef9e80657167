"""Selected key groups or keys of a stopped job: chosen ones equal the source, all others stay, whole or not at all."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from state_engine.api import ListStateDescriptor, Types
from state_engine.api.timers import TimeDomain
from state_engine.backends.schemas import TIMERS, operator_schema, raw_keyed_schema, timer_schema
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.epoch import carry, debts
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.look import newest
from state_engine.errors import (
    FencedError,
    KeyTypeChangedError,
    LakestateError,
    MaxParallelismChangedError,
    NothingToRestoreError,
    RestoreCancelledError,
    RestoreError,
    StateTypeChangedError,
    UnknownOperatorError,
)
from state_engine.inspect import read_state
from state_engine.key_groups import key_group_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.ops import Op
from state_engine.log.records import EarliestTimers, FormerType, StateSchema, StateTtl
from state_engine.savepoint import restore_key_groups, trigger_savepoint
from state_engine.storage.port import open_storage
from state_engine.testing.changes import Change, EntryKey, StateName, append, clear, delete, model_of, put, state
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes

GROUPS = 13
COUNT, LEGS, SEEN = SCHEMAS
FLIGHT_TIMERS = timer_schema("aircraft", COUNT.key, TimeDomain.EVENT_TIME)
ALL = (*SCHEMAS, FLIGHT_TIMERS)
KEYS = [None, *(f"N{number}" for number in range(12))]
Models = dict[StateName, dict[EntryKey, Any]]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return f"memory://{tmp_path}"


def name(schema: StateSchema) -> StateName:
    return schema.uid, schema.name


def changes_with_timers(rng: random.Random) -> dict[StateName, Sequence[Change]]:
    timers = [
        rng.choice([put(rng.choice(KEYS), True, user_key=rng.randrange(100)), delete(rng.choice(KEYS), user_key=7)])
        for _ in range(12)
    ]
    return {**random_changes(rng), name(FLIGHT_TIMERS): timers}


def job_with_history(root: str, rng: random.Random, epochs: int = 5) -> JobBuilder:
    """A job that was published now and then, with every kind of row."""
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
    """What a plain loop says: entries for which `chosen(schema, entry)` is true are those of the source."""
    result: Models = {}
    for schema in ALL:
        kept, taken = now[name(schema)], source[name(schema)]
        if schema.uid not in uids:
            result[name(schema)] = kept
            continue
        result[name(schema)] = {e: v for e, v in kept.items() if not chosen(schema, e)}
        result[name(schema)] |= {e: v for e, v in taken.items() if chosen(schema, e)}
    return result


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


def assert_found_again_after_a_publish(job: JobBuilder, wanted: Models) -> None:
    """The rows are an epoch as any other: later epochs, a base fold and a savepoint have them."""
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
    assert trigger_savepoint(root, "other").job == "other", "it does not stand on files of the other job"


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


def test_a_debt_to_sinks_is_still_owed_behind_it(root: str) -> None:
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


# Crashes, zombies, cancelling --------------------------------------------------------------------------------------


class Crashed(BaseException):
    """The process is gone: nothing of it runs any more."""


class CrashAt:
    def __init__(self, point: CrashPoint | None) -> None:
        self.point = point
        self.passed: list[CrashPoint] = []

    def at(self, point: CrashPoint, epoch: int) -> None:
        self.passed.append(point)
        if point is self.point:
            raise Crashed


POINTS = [
    CrashPoint.S1_HEAD_FOUND,
    CrashPoint.S2_BEFORE_CLAIM,
    CrashPoint.S2_CLAIMED,
    CrashPoint.E5_CHANGE_FILE_WRITTEN,
    CrashPoint.E6_BEFORE_PUT,
    CrashPoint.E6_SEALED,
]


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_crash_leaves_the_whole_or_nothing_and_it_may_be_asked_for_again(root: str, point: CrashPoint) -> None:
    job = job_with_history(root, random.Random(10))
    wanted = expected(job.model, models_at(job, 2), lambda s, e: group_of(s, e) < 7, ["aircraft", "carrier"])
    with pytest.raises(Crashed):
        restore_key_groups(root, "flights", "epoch:1/2", [(0, 6)], crash=CrashAt(point))
    assert states_of(root, "flights") == (wanted if point is CrashPoint.E6_SEALED else job.model)
    restore_key_groups(root, "flights", "epoch:1/2", [(0, 6)])
    assert states_of(root, "flights") == wanted
    assert_found_again_after_a_publish(job, wanted)


def test_every_one_of_these_points_is_passed_in_this_order(root: str) -> None:
    job_with_history(root, random.Random(10))
    crash = CrashAt(None)
    restore_key_groups(root, "flights", "epoch:1/2", [(0, 6)], crash=crash)
    assert list(dict.fromkeys(crash.passed)) == POINTS


def drivers(job: JobBuilder) -> Iterator[StoredManifest]:
    """A driver that goes on as if nothing had happened: each step seals an epoch behind the newest it finds."""
    while True:
        head = newest(job.log)
        assert head is not None
        yield job.log.put(carry.carried(head, "idle", incarnation="f" * 32, number=1, now_ms=0))


class Meanwhile:
    """Does something when a place is passed for the first time."""

    def __init__(self, point: CrashPoint, work: Any) -> None:
        self.point, self.work, self.times = point, work, 0

    def at(self, point: CrashPoint, epoch: int) -> None:
        if point is self.point:
            self.times += 1
            if self.times == 1:
                self.work()


def test_an_epoch_that_an_older_driver_seals_in_front_of_the_claim_is_kept(root: str) -> None:
    job = job_with_history(root, random.Random(11))
    change = {name(COUNT): [put("N5", 555)]}
    meanwhile = Meanwhile(CrashPoint.S2_BEFORE_CLAIM, lambda: job.epoch(change))
    restore_key_groups(root, "flights", "epoch:1/1", keys=["N1"], uids=["aircraft"], crash=meanwhile)
    assert meanwhile.times == 2
    wanted = expected(job.model, models_at(job, 1), lambda s, e: e[0] == ("N1",), ["aircraft"])
    assert wanted[name(COUNT)][("N5",), None, None] == 555
    assert states_of(root, "flights") == wanted


def test_a_zombie_finds_its_number_taken(root: str) -> None:
    job = job_with_history(root, random.Random(12))
    zombie = job.head
    assert zombie is not None
    restore_key_groups(root, "flights", "epoch:1/1", [0])
    from state_engine.epoch.seal import seal

    late = carry.carried(zombie, "idle", incarnation=zombie.manifest.incarnation, number=1, now_ms=0)
    assert not seal(job.log, late, 3).mine


def test_a_driver_that_takes_the_job_over_fences_the_restore_which_leaves_nothing(root: str) -> None:
    job = job_with_history(root, random.Random(13))

    def take_over() -> None:
        head = newest(job.log)
        assert head is not None
        number = head.manifest.incarnation_number + 1
        job.log.put(carry.carried(head, "claim", incarnation="e" * 32, number=number, now_ms=0))

    files = {info.path for info in job.storage.list("_epochs/g000001/changes")}
    for point, count in ((CrashPoint.E6_BEFORE_PUT, 2), (CrashPoint.S2_BEFORE_CLAIM, 1)):
        before = newest(job.log)
        with pytest.raises(FencedError):
            restore_key_groups(root, "flights", "epoch:1/1", [(0, 12)], crash=Meanwhile(point, take_over))
        after = newest(job.log)
        assert before is not None
        assert after is not None
        assert after.manifest.epoch == before.manifest.epoch + count
        assert {info.path for info in job.storage.list("_epochs/g000001/changes")} == files
        assert states_of(root, "flights") == job.model


class CancelledAt:
    """Says yes from the n-th question on."""

    def __init__(self, question: int) -> None:
        self.left = question

    def __call__(self) -> bool:
        self.left -= 1
        return self.left <= 0


def test_a_restore_that_is_cancelled_leaves_nothing(root: str) -> None:
    job = job_with_history(root, random.Random(14))
    files = {info.path for info in job.storage.list("_epochs/g000001/changes")}
    for asked in range(1, 200):
        try:
            restore_key_groups(root, "flights", "epoch:1/1", [(0, 6)], cancelled=CancelledAt(asked))
        except RestoreCancelledError:
            assert {info.path for info in job.storage.list("_epochs/g000001/changes")} == files
            assert states_of(root, "flights") == job.model
        else:
            break
    assert asked > 5, "it was asked between files"
    wanted = expected(job.model, models_at(job, 1), lambda s, e: group_of(s, e) < 7, ["aircraft", "carrier"])
    assert states_of(root, "flights") == wanted


def test_a_job_between_two_generations_is_refused(root: str) -> None:
    job = job_with_history(root, random.Random(15))
    target = job.log.read(1, 2)
    claim = job.restore(target)
    job.storage.delete(f"_epochs/g000002/e{claim.manifest.epoch:010d}.json")
    with pytest.raises(RestoreError, match="begun and not finished"):
        restore_key_groups(root, "flights", "epoch:1/1", [1])


def test_names_of_files_are_new_each_time(root: str) -> None:
    job_with_history(root, random.Random(16))
    ids = CountingIds()
    for _ in range(2):
        restore_key_groups(root, "flights", "epoch:1/1", [(0, 12)], ids=ids, clock=ManualClock())
    changes = open_storage(root, "flights").list("_epochs/g000001/changes")
    assert len({info.path for info in changes}) == len(changes)
