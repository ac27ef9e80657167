"""Runs that restore a stopped job from its log, and everything that they refuse before anything is written."""

from typing import ClassVar

import dagster as dg
import pytest

from lakestate.assets import build_restored_state_asset, build_savepoint_asset, restored_state_key
from lakestate.assets.ranges import RANGES, key_groups_of, range_name
from lakestate.resources import JobControlResource, RestClientResource, SparkSessionResource, StateStoreResource
from lakestate.supervision import Condition, Heartbeat, LastWords, StartRequest, Wanted
from state_engine.api.timers import TimeDomain
from state_engine.backends.schemas import timer_schema
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.inspect import diff_states, open_job, read_state
from state_engine.key_groups import key_group_of, range_of
from state_engine.savepoint import trigger_savepoint
from state_engine.savepoint.restore import JobRestore
from state_engine.spark.sinks.recorded import RecordedSinks
from state_engine.testing.changes import delete, put, state
from state_engine.testing.jobs import JobBuilder

JOB, GROUPS = "harbour", 64
COUNT = state("ships", "count", "name string", "bigint")
TIMERS = timer_schema("ships", COUNT.key, TimeDomain.PROCESSING_TIME)
DOCK = state("docks", "load", "dock string", "bigint")
KEY = restored_state_key(JOB)
SHIPS = [f"S{number}" for number in range(200)]


class Harbour:
    """The log of a stopped job with two operators and timers; each epoch changes every key."""

    def __init__(self, root, job=JOB, max_parallelism=GROUPS):
        self.root, self.job = str(root), job
        self.log = JobBuilder(self.root, job, [COUNT, TIMERS, DOCK], max_parallelism=max_parallelism)
        self.publisher = CheckpointPublisher(self.log.storage, job)

    def epochs(self, count):
        for _ in range(count):
            now = self.log.head.manifest.epoch + 1 if self.log.head else 1
            timers = [put(ship, True, user_key=now) for ship in SHIPS]
            timers += [delete(ship, user_key=now - 1) for ship in SHIPS] if now > 1 else []
            changes = {
                ("ships", "count"): [put(ship, now) for ship in SHIPS],
                ("ships", TIMERS.name): timers,
                ("docks", "load"): [put(f"D{number}", now) for number in range(30)],
            }
            self.log.epoch(changes)
        return self

    @property
    def head(self):
        newest = open_job(self.root, self.job).newest()
        assert newest is not None
        return newest.manifest.generation, newest.manifest.epoch

    def differing(self, before):
        """Returns the ships with another count or timers, and the docks with another load, than at a former epoch."""
        now = "epoch:{}/{}".format(*self.head)
        diffs = diff_states(self.root, self.job, before, now, examples=10_000)
        return {(diff.uid, next(iter(one.entry.values()))) for diff in diffs for one in diff.examples}


@pytest.fixture
def harbour(tmp_path):
    return Harbour(tmp_path / "state").epochs(3)


def resources_of(root):
    root = str(root)
    return {
        "state_store": StateStoreResource(root=root),
        "rest_client": RestClientResource(root=root),
        "job_control": JobControlResource(root=root),
        "spark_session": SparkSessionResource(),
    }


def take(harbour, instance, name="nightly"):
    instance.add_dynamic_partitions(f"{JOB}_savepoints", [name])
    result = dg.materialize(
        [build_savepoint_asset(JOB)], instance=instance, partition_key=name, resources=resources_of(harbour.root)
    )
    (event,) = result.asset_materializations_for_node(f"{JOB}__savepoint")
    return event.metadata["savepoint_id"].value


def restore(harbour, instance, ranges, savepoint="nightly", *, tags=None, partition=None, **config):
    """Runs a restore as a backfill does: one run with the tags of a range."""
    first, last = (f"{range_name(index)}|{savepoint}" for index in (min(ranges), max(ranges)))
    given = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return dg.materialize(
        [build_restored_state_asset(JOB)],
        instance=instance,
        resources=resources_of(harbour.root),
        tags={**(given if partition is None else {}), **(tags or {})},
        partition_key=partition,
        run_config={"ops": {f"{JOB}__restored_state": {"config": config}}},
    )


def metadata_of(result):
    events = result.asset_materializations_for_node(f"{JOB}__restored_state")
    return {name: entry.value for name, entry in events[0].metadata.items()}


def group(key):
    return key_group_of((key,), ["string"], GROUPS)


def test_exactly_the_chosen_key_groups_go_back_timers_included(harbour, instance):
    savepoint_id = take(harbour, instance)
    harbour.epochs(2)
    before = "epoch:{}/{}".format(*harbour.head)
    result = restore(harbour, instance, [3, 4, 5])
    chosen = range(12, 24)
    assert harbour.differing(before) == {
        *(("ships", ship) for ship in SHIPS if group(ship) in chosen),
        *(("docks", dock) for dock in (f"D{n}" for n in range(30)) if group(dock) in chosen),
    }
    timers = read_state(harbour.root, JOB, "ships", TIMERS.name).to_pylist()
    assert {row["user_key"] for row in timers if row["key_group"] in chosen} == {3}
    assert {row["user_key"] for row in timers if row["key_group"] not in chosen} == {5}

    metadata = metadata_of(result)
    ships = sum(group(ship) in chosen for ship in SHIPS)
    assert metadata["savepoint_id"] == savepoint_id
    assert (metadata["key_groups"], metadata["key_group_count"]) == ("12–23", 12)
    assert (metadata["timers"], metadata["state_count"]) == (ships, 3)
    assert metadata["dagster/row_count"] == metadata["rows_before"]
    assert metadata["landed_in"] == "{}/{}".format(*harbour.head)
    assert metadata["onto_epoch"] == 5
    assert "not replayed" in metadata["input"]
    events = instance.fetch_materializations(KEY, limit=20).records
    assert {record.partition_key for record in events} == {f"{range_name(n)}|nightly" for n in (3, 4, 5)}
    assert {record.asset_materialization.tags["dagster/data_version"] for record in events} == {savepoint_id}


def test_only_the_operators_that_were_named(harbour, instance):
    take(harbour, instance)
    harbour.epochs(1)
    before = "epoch:{}/{}".format(*harbour.head)
    restore(harbour, instance, range(RANGES), operators=["docks"])
    assert {uid for uid, _ in harbour.differing(before)} == {"docks"}


def test_the_whole_job_goes_back_in_a_new_generation(harbour, instance):
    take(harbour, instance)
    at_savepoint = "epoch:{}/{}".format(*harbour.head)
    harbour.epochs(2)
    metadata = metadata_of(restore(harbour, instance, range(RANGES), rewind=True, parallelism=3))
    assert harbour.head == (2, 4)
    assert harbour.differing(at_savepoint) == set()
    assert metadata["landed_in"] == "2/4"
    assert metadata["key_groups"] == "0–63"
    assert "read again" in metadata["input"]
    newest = open_job(harbour.root, JOB).newest()
    assert {operator.parallelism for operator in newest.manifest.operators.values()} == {3}


@pytest.mark.parametrize("rewind", [False, True])
def test_a_dry_run_writes_nothing_and_says_what_would_happen(harbour, instance, rewind):
    take(harbour, instance)
    harbour.epochs(1)
    head = harbour.head
    result = restore(harbour, instance, range(RANGES), dry_run=True, rewind=rewind)
    assert result.success
    assert harbour.head == head
    assert instance.get_latest_materialization_event(KEY) is None
    (record,) = instance.fetch_observations(KEY, limit=5).records
    metadata = record.asset_observation.metadata
    assert metadata["dagster/row_count"].value == 430
    assert "dry run" in metadata["landed_in"].value


def test_ranges_without_key_groups_succeed(tmp_path, instance):
    harbour = Harbour(tmp_path / "state", max_parallelism=5).epochs(2)
    take(harbour, instance)
    head = harbour.head
    empty = [index for index in range(RANGES) if not key_groups_of(index, 5).size]
    assert len(empty) == RANGES - 5
    metadata = metadata_of(restore(harbour, instance, [empty[0]]))
    assert metadata["key_group_count"] == 0
    assert "5 key groups, and none of them" in metadata["note"]
    assert harbour.head == head


def test_the_ranges_are_all_key_groups_whatever_their_number():
    for number in (1, 5, 13, 16, 17, 64, 128, 32_768):
        ranges = [key_groups_of(index, number) for index in range(RANGES)]
        assert [group for one in ranges for group in range(one.first, one.last + 1)] == list(range(number))
        assert number < RANGES or ranges == [range_of(index, RANGES, number) for index in range(RANGES)]


# Refusals -------------------------------------------------------------------------------------------------------------


def refused(harbour, instance, match, *args, **kwargs):
    """Runs a restore that must be refused: nothing may have changed, and the error says what to do."""
    head = harbour.head
    with pytest.raises(dg.Failure, match=match) as failed:
        restore(harbour, instance, *args, **kwargs)
    assert failed.value.metadata["action"].value
    assert harbour.head == head
    assert instance.get_latest_materialization_event(KEY) is None
    return failed.value


def test_a_selection_of_several_savepoints(harbour, instance):
    take(harbour, instance)
    harbour.epochs(1)
    take(harbour, instance, "weekly")
    tags = {
        "dagster/asset_partition_range_start": f"{range_name(1)}|nightly",
        "dagster/asset_partition_range_end": f"{range_name(1)}|weekly",
    }
    failure = refused(harbour, instance, "spans 2 savepoints: nightly, weekly", [1], tags=tags)
    assert "one savepoint" in failure.metadata["action"].value


def test_a_damaged_savepoint(harbour, instance):
    take(harbour, instance)
    (pin,) = open_job(harbour.root, JOB).savepoints()
    path, _ = pin.handles[-1]
    data = bytearray(harbour.log.storage.get(path))
    data[-9] ^= 0xFF
    harbour.log.storage.delete(path)
    harbour.log.storage.put_exclusive(path, bytes(data))
    harbour.epochs(1)
    failure = refused(harbour, instance, "is damaged, so nothing was restored", [1])
    assert path in failure.description
    assert failure.metadata["findings"].records


def test_a_savepoint_of_another_job(harbour, instance):
    other = Harbour(harbour.root, "marina").epochs(1)
    pin = trigger_savepoint(other.root, "marina")
    instance.add_dynamic_partitions(f"{JOB}_savepoints", [pin.savepoint_id])
    failure = refused(harbour, instance, "is one of job 'marina', not of 'harbour'", [1], pin.savepoint_id)
    assert f"--from marina/{pin.savepoint_id}" in failure.metadata["action"].value


def test_a_savepoint_that_was_never_taken(harbour, instance):
    instance.add_dynamic_partitions(f"{JOB}_savepoints", ["planned"])
    refused(harbour, instance, "'planned' has no savepoint", [1], "planned")


@pytest.mark.parametrize(
    ("config", "ranges", "match"),
    [
        ({"rewind": True}, [0, 1, 2], "3 of 16 ranges"),
        ({"rewind": True, "operators": ["ships"]}, range(RANGES), "for all operators"),
        ({"keep_output": True}, [1], "`keep_output` needs `rewind`"),
        ({"allow_non_restored_state": True}, [1], "`allow_non_restored_state` needs"),
        ({"parallelism": 4}, [1], "`parallelism` needs"),
        ({"operators": []}, [1], "an empty list"),
        ({"operators": ["boats"]}, [1], r"UnknownOperatorError: .* no operator 'boats'"),
    ],
)
def test_a_config_that_contradicts_itself_or_the_job(harbour, instance, config, ranges, match):
    take(harbour, instance)
    harbour.epochs(1)
    refused(harbour, instance, match, ranges, **config)


def test_a_run_without_partitions(harbour, instance):
    with (
        dg.build_asset_context(instance=instance, resources=resources_of(harbour.root)) as context,
        pytest.raises(dg.Failure, match="No savepoint was chosen"),
    ):
        list(build_restored_state_asset(JOB)(context))


# A running job that is restored as a whole --------------------------------------------------------------------------


class Runs(RestClientResource):
    """Reports that the job runs."""

    def is_running(self, job):
        return True


class Drivers(JobControlResource):
    """Records the requests to drivers; a start from a savepoint restores, unless it is to fail."""

    asked: ClassVar[list[str]] = []  # Dagster hands a copy of the resource to a run
    options: ClassVar[list[tuple[bool, bool, int | None]]] = []
    fails: bool = False
    supervised: bool = True

    def status(self, job, **_):
        head = open_job(self.root, job).newest().manifest
        failed = self.fails and self.asked[-1:] == ["nightly"]
        request = StartRequest(options={"input": "here"}, restore="long-ago", uid_mapping={"boats": "ships"})
        return Heartbeat(
            condition=Condition.FAILED if failed else Condition.RUNNING,
            wanted=Wanted(state="running", since=0, request=request) if self.supervised else None,
            pid=7,
            url=None,
            state=None,
            generation=head.generation,
            epoch=head.epoch,
            silent_ms=0,
            last_words=LastWords(None, "it does not fit"),
        )

    def replace(self, job, request):
        assert (request.options, request.uid_mapping) == ({"input": "here"}, {})
        self.asked.append("nightly" if request.restore else "again")
        self.options.append((request.keep_output, request.allow_non_restored_state, request.parallelism))
        if request.restore and not self.fails:
            JobRestore(self.root, job, request.restore, RecordedSinks, keep_output=request.keep_output).run()


def rewind(harbour, instance, drivers, **config):
    Drivers.asked.clear()
    Drivers.options.clear()
    first, last = (f"{range_name(index)}|nightly" for index in (0, RANGES - 1))
    return dg.materialize(
        [build_restored_state_asset(JOB)],
        instance=instance,
        resources={**resources_of(harbour.root), "rest_client": Runs(root=harbour.root), "job_control": drivers},
        tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last},
        run_config={"ops": {f"{JOB}__restored_state": {"config": {"rewind": True, **config}}}},
    )


def test_a_running_job_is_started_anew_from_the_savepoint_as_it_was_started_before(harbour, instance):
    take(harbour, instance)
    harbour.epochs(2)
    drivers = Drivers(root=harbour.root)
    metadata = metadata_of(rewind(harbour, instance, drivers))
    assert drivers.asked == ["nightly"]
    assert drivers.options == [(False, False, None)]
    assert (metadata["landed_in"], metadata["job_was_running"]) == ("2/4", True)


def test_a_running_job_is_started_anew_with_the_options_of_the_restore(harbour, instance):
    take(harbour, instance)
    drivers = Drivers(root=harbour.root)
    asked = {"keep_output": True, "allow_non_restored_state": True, "parallelism": 2}
    metadata_of(rewind(harbour, instance, drivers, **asked))
    assert drivers.options == [(True, True, 2)]


def test_a_job_that_does_not_start_from_the_savepoint_is_started_from_where_it_stood(harbour, instance):
    take(harbour, instance)
    head = harbour.head
    drivers = Drivers(root=harbour.root, fails=True)
    with pytest.raises(dg.Failure, match=r"RestartError: .* did not start from savepoint .*it does not fit"):
        rewind(harbour, instance, drivers, keep_output=True)
    assert drivers.asked == ["nightly", "again"]
    assert [kept for kept, *_ in drivers.options] == [True, False]
    assert harbour.head == head
    assert instance.get_latest_materialization_event(KEY) is None


def test_a_running_job_without_supervision_is_left_alone(harbour, instance):
    take(harbour, instance)
    drivers = Drivers(root=harbour.root, supervised=False)
    with pytest.raises(dg.Failure, match="no record of how it was started"):
        rewind(harbour, instance, drivers)
    assert drivers.asked == []


# A job of which this machine cannot see whether it runs -------------------------------------------------------------


@pytest.mark.parametrize("whole", [False, True])
def test_a_job_that_may_run_elsewhere_is_not_taken_over(harbour, instance, monkeypatch, whole):
    take(harbour, instance)
    monkeypatch.setattr("lakestate.takeover.endpoint_path", lambda *_: None)  # as for a root in a bucket
    before = harbour.head

    def restore(**config):
        first, last = (f"{range_name(index)}|nightly" for index in (0, RANGES - 1 if whole else 0))
        return dg.materialize(
            [build_restored_state_asset(JOB)],
            instance=instance,
            resources=resources_of(harbour.root),
            tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last},
            run_config={"ops": {f"{JOB}__restored_state": {"config": {"rewind": whole, **config}}}},
        )

    with pytest.raises(dg.Failure, match="JobMayRunError") as failed:
        restore()
    assert "stopped: true" in failed.value.metadata["action"].value
    assert harbour.head == before
    assert restore(stopped=True).success
    assert harbour.head != before
