"""Retention by a run: what the policy does not keep goes, what it must not touch stays, the run reports how much."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from lakestate.assets import build_retention_asset, build_savepoint_asset
from lakestate.assets.retention import ROWS, RetentionConfig
from lakestate.assets.savepoint import SavepointConfig
from lakestate.operate.retention_schedule import build_retention_schedule
from lakestate.policies import StreamRetention
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.errors import JobDefinitionError
from state_engine.savepoint import list_savepoints, trigger_savepoint

AT_ONCE = StreamRetention(policy=RetentionPolicy(checkpoints=Keep(last=1), savepoints=Keep(last=1), grace_ms=0))
LATER = StreamRetention(policy=RetentionPolicy(checkpoints=Keep(last=1), savepoints=Keep(last=1)))


def retain(stream, instance, retention=AT_ONCE, *, dry_run=False, raises=True):
    """Runs retention; returns the recorded metadata."""
    result = dg.materialize(
        [build_retention_asset("flights", retention)],
        instance=instance,
        resources=stream.resources,
        run_config=dg.RunConfig(ops={"flights__retention": RetentionConfig(dry_run=dry_run)}),
        raise_on_error=raises,
    )
    (event,) = result.asset_materializations_for_node("flights__retention")
    return {name: entry.value for name, entry in event.metadata.items()}


def take(stream, instance, name, **config):
    instance.add_dynamic_partitions("flights_savepoints", [name])
    assert dg.materialize(
        [build_savepoint_asset("flights")],
        instance=instance,
        partition_key=name,
        resources=stream.resources,
        run_config=dg.RunConfig(ops={"flights__savepoint": SavepointConfig(**config)}),
    ).success


def partitions(instance):
    return set(instance.get_dynamic_partitions("flights_savepoints"))


def tree(stream):
    """Returns every file below the root with its bytes."""
    root = Path(stream.state_store.root)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def size_of(files):
    return sum(map(len, files.values()))


@pytest.fixture
def history(stream, instance):
    """Four checkpoints; savepoints of a person, two of policies and one that REST took, as partitions or not."""
    stream.checkpoints(1, 1)
    take(stream, instance, "mine", note="of a person")
    take(stream, instance, "old", trigger="policy:cron")
    stream.checkpoints(2, 3)
    trigger_savepoint(stream.state_store.root, "flights", label="by REST", trigger="rest")
    take(stream, instance, "copy", trigger="policy:cron", kind="canonical")
    take(stream, instance, "new", trigger="policy:growth_percent")
    stream.checkpoints(4, 4)
    return stream


def test_the_policys_go_and_those_of_people_stay(history, instance):
    before = tree(history)
    metadata = retain(history, instance)
    assert {one.label for one in list_savepoints(history.state_store.root, "flights")} == {"mine", "by REST", "new"}
    assert partitions(instance) == {"mine", "new"}
    assert set(metadata["deleted_partitions"]) == {"old", "copy"}
    after = tree(history)
    gone = {path: data for path, data in before.items() if path not in after}
    assert metadata["removed_bytes"] == size_of(gone) > 0
    assert metadata["dry_run"] is False
    assert metadata["waiting_files"] == 0
    for name in ("mine", "new"):
        take(history, instance, name)  # validates it: every file is there


def test_a_dry_run_says_what_would_go_and_changes_nothing(history, instance):
    before, known = tree(history), partitions(instance)
    planned = retain(history, instance, dry_run=True)
    assert tree(history) == before
    assert partitions(instance) == known
    assert (planned["dry_run"], planned["removed_bytes"], planned["deleted_partitions"]) == (True, 0, [])
    done = retain(history, instance)
    assert planned["files"] == done["files"] > 0
    assert planned["bytes"] == done["bytes"] == done["removed_bytes"]
    assert planned["leaving_savepoints"] == done["leaving_savepoints"]
    assert planned["what_goes"] == done["what_goes"] == done["what_went"]
    assert planned.keys() == done.keys()


def test_files_wait_for_the_grace_time_and_partitions_for_their_files(history, instance):
    metadata = retain(history, instance, LATER)
    assert metadata["removed_files"] == 0
    assert metadata["waiting_files"] == metadata["files"] > 0
    assert partitions(instance) == {"mine", "old", "new"}, "a canonical one goes at once"
    assert metadata["removed_bytes"] > 0
    assert len(metadata["disposed_savepoints"]) == 1
    retain(history, instance)
    assert partitions(instance) == {"mine", "new"}


def test_a_savepoint_that_was_disposed_of_loses_its_partition(history, instance):
    from state_engine.savepoint import dispose_savepoint

    (mine,) = [one for one in list_savepoints(history.state_store.root, "flights") if one.label == "mine"]
    dispose_savepoint(history.state_store.root, "flights", mine.savepoint_id)
    assert retain(history, instance, dry_run=True)["deleted_partitions"] == ["mine"]
    assert "mine" in partitions(instance)
    assert "mine" in retain(history, instance)["deleted_partitions"]
    assert "mine" not in partitions(instance)


def test_no_partition_goes_that_was_never_recorded(history, instance):
    instance.add_dynamic_partitions("flights_savepoints", ["to be taken"])
    retain(history, instance)
    assert "to be taken" in partitions(instance)


def test_no_partition_goes_because_the_root_is_another_one(history, instance, new_stream, tmp_path):
    known = partitions(instance)
    elsewhere = new_stream(tmp_path / "elsewhere")
    assert retain(elsewhere, instance)["deleted_partitions"] == []
    assert partitions(instance) == known


def test_tables_have_a_limited_number_of_rows(stream, instance):
    stream.checkpoints(1, 1)
    for number in range(ROWS + 5):
        trigger_savepoint(stream.state_store.root, "flights", label=str(number), trigger="policy:cron")
    metadata = retain(stream, instance)
    assert len(metadata["what_went"].records) == ROWS
    assert len(metadata["leaving_savepoints"]) == ROWS
    assert sum(record.data["files"] for record in metadata["what_went"].records) == metadata["removed_files"]
    assert sum(record.data["bytes"] for record in metadata["what_went"].records) == metadata["removed_bytes"]


def test_damage_stops_it_by_name_before_anything_goes(history, instance):
    (mine,) = [one for one in list_savepoints(history.state_store.root, "flights") if one.label == "mine"]
    path = f"savepoints/{mine.savepoint_id}/pin.json"
    remaining_files = [name for name in tree(history) if mine.savepoint_id in name]
    assert remaining_files, path
    (Path(history.state_store.root) / remaining_files[0]).write_bytes(b"not a pin")
    before, known = tree(history), partitions(instance)
    with pytest.raises(dg.Failure, match="Error: ") as failed:
        retain(history, instance)
    assert failed.value.metadata["action"].value
    assert tree(history) == before
    assert partitions(instance) == known


def test_its_schedule_asks_for_a_run_with_a_limit():
    schedule = build_retention_schedule("flights", "0 4 * * *", "Europe/Berlin")
    request = schedule(dg.build_schedule_context(scheduled_execution_time=datetime(2026, 11, 22, 4, tzinfo=UTC)))
    assert schedule.name == "flights_retention"
    assert request.tags["dagster/max_runtime"] == "3600"
    with pytest.raises(JobDefinitionError, match="retention of job 'flights'"):
        build_retention_schedule("flights", "now and then")
