"""A run takes a savepoint of a stopped job, validates it and records it."""

import logging
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest

from lakestate.assets import build_savepoint_asset, savepoint_key
from lakestate.assets.savepoint import SavepointConfig
from lakestate.assets.savepoint_checks import READABLE
from lakestate.assets.savepoint_metadata import newest_savepoint
from lakestate.policies import SavepointPolicy
from lakestate.policies.savepoints import Spacing
from state_engine.savepoint import dispose_savepoint, list_savepoints, trigger_savepoint

KEY = savepoint_key("flights")


def materialize(stream, instance, name, *, raises=True, policy=None, **config):
    instance.add_dynamic_partitions("flights_savepoints", [name])
    return dg.materialize(
        [build_savepoint_asset("flights", policy)],
        instance=instance,
        partition_key=name,
        resources=stream.resources,
        raise_on_error=raises,
        run_config=dg.RunConfig(ops={"flights__savepoint": SavepointConfig(**config)}),
    )


def warnings_of(instance, result):
    """Returns the warnings of a run."""
    logged = instance.all_logs(result.run_id)
    return [entry.user_message for entry in logged if entry.level == logging.WARNING]


def metadata_of(result):
    (event,) = result.asset_materializations_for_node("flights__savepoint")
    return {name: entry.value for name, entry in event.metadata.items()}


def test_a_run_takes_a_savepoint_of_a_stopped_job(stream, instance):
    stream.checkpoints(1, 1)
    stream.epoch()
    metadata = metadata_of(materialize(stream, instance, "before-upgrade"))
    (pin,) = list_savepoints(stream.state_store.root, "flights")
    assert (pin.label, pin.epoch, pin.trigger) == ("before-upgrade", 3, "dagster")
    assert metadata["savepoint_id"] == pin.savepoint_id
    assert metadata["label"] == "before-upgrade"
    assert (metadata["generation"], metadata["epoch"]) == (1, 3)
    assert metadata["bytes"] == pin.bytes
    assert (metadata["dagster/row_count"], metadata["keys"]) == (20, 20)
    assert metadata["is_new"] is True


@pytest.mark.parametrize("epochs", [0, 1])
def test_a_job_that_only_claimed_since_has_the_size_it_had(stream, instance, epochs):
    stream.checkpoints(1, 1)
    for _ in range(epochs):
        stream.epoch()
    stream.log.epoch(kind="claim")
    metadata = metadata_of(materialize(stream, instance, "a"))
    assert metadata["epoch"] == 3 + epochs
    assert (metadata["dagster/row_count"], metadata["keys"]) == (20, 20)


def test_a_job_that_never_reported_its_size_has_none(stream, instance):
    stream.log.epoch(kind="claim")
    metadata = metadata_of(materialize(stream, instance, "a"))
    assert (metadata["dagster/row_count"], metadata["keys"]) == (None, None)


def test_the_data_version_is_the_savepoint(stream, instance):
    stream.checkpoints(1, 1)
    metadata = metadata_of(materialize(stream, instance, "a"))
    event = instance.get_latest_materialization_event(KEY).asset_materialization
    assert event.partition == "a"
    assert event.tags["dagster/data_version"] == metadata["savepoint_id"]


def test_a_partition_is_one_savepoint_for_ever(stream, instance):
    stream.checkpoints(1, 1)
    first = metadata_of(materialize(stream, instance, "a"))
    stream.checkpoints(2, 2)
    again = metadata_of(materialize(stream, instance, "a"))
    assert again["savepoint_id"] == first["savepoint_id"]
    assert again["epoch"] == first["epoch"]
    assert again["is_new"] is False
    assert len(list_savepoints(stream.state_store.root, "flights")) == 1
    assert metadata_of(materialize(stream, instance, "b"))["epoch"] > first["epoch"]


def test_another_savepoint_with_the_same_label_is_not_taken_for_it(stream, instance):
    stream.checkpoints(1, 1)
    root = stream.state_store.root
    foreign = trigger_savepoint(root, "flights", label="a")
    stream.epoch()
    first = metadata_of(materialize(stream, instance, "a"))
    assert first["is_new"] is True
    assert (first["savepoint_id"], first["epoch"]) != (foreign.savepoint_id, foreign.epoch)
    assert first["epoch"] == foreign.epoch + 1
    trigger_savepoint(root, "flights", label="a")
    again = metadata_of(materialize(stream, instance, "a"))
    assert again["savepoint_id"] == first["savepoint_id"]
    assert {pin.trigger for pin in list_savepoints(root, "flights")} == {"user", "dagster"}


def test_a_job_that_never_ran_has_no_savepoint(stream, instance):
    result = materialize(stream, instance, "a", raises=False)
    assert not result.success
    assert instance.get_latest_materialization_event(KEY) is None


def test_a_savepoint_that_lost_a_file_is_not_recorded(stream, instance):
    stream.checkpoints(1, 1)
    materialize(stream, instance, "a")
    (pin,) = list_savepoints(stream.state_store.root, "flights")
    path, _ = pin.handles[0]
    stream.log.storage.delete(path)
    with pytest.raises(dg.Failure, match="MissingFileError") as failed:
        materialize(stream, instance, "a")
    assert path in failed.value.description
    assert len(instance.fetch_materializations(KEY, limit=5).records) == 1


def test_a_savepoint_needs_a_name(stream, instance):
    stream.checkpoints(1, 1)
    with (
        dg.build_asset_context(instance=instance, resources=stream.resources) as context,
        pytest.raises(dg.Failure, match="needs a name"),
    ):
        build_savepoint_asset("flights")(context, SavepointConfig())


def test_a_name_that_no_restore_could_use_is_refused_before_anything_is_taken(stream, instance):
    stream.checkpoints(1, 1)
    with pytest.raises(dg.Failure, match=r"cannot be called 'a\|b'"):
        materialize(stream, instance, "a|b")
    assert list_savepoints(stream.state_store.root, "flights") == []


def test_a_note_a_kind_and_a_directory_are_the_runs_config(stream, instance, tmp_path):
    stream.checkpoints(1, 1)
    metadata = metadata_of(
        materialize(stream, instance, "a", kind="canonical", directory=str(tmp_path / "elsewhere"), note="why")
    )
    (taken,) = list_savepoints(stream.state_store.root, "flights")
    assert (taken.kind, taken.note, taken.label) == ("canonical", "why", "a")
    assert metadata["directory"] == taken.directory
    assert metadata["kind"] == "canonical"
    assert metadata["note"] == "why"
    assert (metadata["dagster/row_count"], metadata["keys"]) == (20, 20)
    assert Path(taken.directory).is_dir()
    again = metadata_of(materialize(stream, instance, "a"))
    assert (again["savepoint_id"], again["is_new"], again["kind"]) == (taken.savepoint_id, False, "canonical")


def test_the_event_has_the_duration_the_requester_and_the_base(stream, instance):
    stream.checkpoints(1, 2)
    metadata = metadata_of(materialize(stream, instance, "a", trigger="policy:cron"))
    row = stream.state_store.open_job("flights").savepoint_row(metadata["savepoint_id"])
    checkpoint = stream.state_store.open_job("flights").newest_checkpoint()
    assert metadata["duration_s"] == row.duration_ms / 1000
    assert metadata["trigger"] == "policy:cron"
    assert (metadata["checkpoint_id"], metadata["state_bytes"]) == (2, checkpoint.state_bytes)
    newest = newest_savepoint(instance, "flights")
    assert (newest.checkpoint_id, newest.state_bytes, newest.code_version) == (2, checkpoint.state_bytes, None)
    assert newest.taken_at_ms == row.triggered_at


def test_every_event_has_the_same_keys(stream, instance, tmp_path):
    stream.epoch()
    first = metadata_of(materialize(stream, instance, "a"))
    second = metadata_of(materialize(stream, instance, "b", kind="canonical", directory=str(tmp_path / "b")))
    assert first.keys() == second.keys()


def test_a_person_is_warned_of_a_savepoint_soon_after_another_and_gets_it(stream, instance):
    stream.checkpoints(1, 1)
    policy = SavepointPolicy(spacing=Spacing(at_least=timedelta(hours=1)))
    first = materialize(stream, instance, "a", policy=policy)
    second = materialize(stream, instance, "b", policy=policy)
    assert not warnings_of(instance, first)
    (warning,) = warnings_of(instance, second)
    assert "3,600 s between savepoints" in warning
    assert "taken nevertheless" in warning
    assert len(list_savepoints(stream.state_store.root, "flights")) == 2


def test_the_number_of_partitions_is_limited(stream, instance):
    stream.checkpoints(1, 1)
    policy = SavepointPolicy(max_partitions=10, spacing=Spacing(at_least=timedelta(0)))
    instance.add_dynamic_partitions("flights_savepoints", [f"old-{number}" for number in range(9)])
    (warning,) = warnings_of(instance, materialize(stream, instance, "tenth", policy=policy))
    assert "the limit is 9" in warning
    with pytest.raises(dg.Failure, match="the limit is 10") as failed:
        materialize(stream, instance, "eleventh", policy=policy)
    assert "flights/retention" in failed.value.metadata["action"].value
    assert len(list_savepoints(stream.state_store.root, "flights")) == 1
    assert metadata_of(materialize(stream, instance, "tenth", policy=policy))["is_new"] is False


def test_a_policy_leaves_a_tenth_of_them(stream, instance):
    stream.checkpoints(1, 1)
    policy = SavepointPolicy(max_partitions=10)
    instance.add_dynamic_partitions("flights_savepoints", [f"old-{number}" for number in range(9)])
    with pytest.raises(dg.Failure, match="the limit is 9"):
        materialize(stream, instance, "tenth", policy=policy, trigger="policy:cron")


def test_a_name_is_used_once(stream, instance):
    stream.checkpoints(1, 1)
    metadata = metadata_of(materialize(stream, instance, "a"))
    assert dispose_savepoint(stream.state_store.root, "flights", metadata["savepoint_id"])
    instance.delete_dynamic_partition("flights_savepoints", "a")
    with pytest.raises(dg.Failure, match="was removed") as failed:
        materialize(stream, instance, "a")
    assert metadata["savepoint_id"] in failed.value.description
    assert list_savepoints(stream.state_store.root, "flights") == []


def test_a_partition_whose_key_is_an_id_records_that_savepoint(stream, instance):
    stream.checkpoints(1, 1)
    foreign = trigger_savepoint(stream.state_store.root, "flights", label="by hand")
    stream.epoch()
    metadata = metadata_of(materialize(stream, instance, foreign.savepoint_id))
    assert (metadata["savepoint_id"], metadata["is_new"]) == (foreign.savepoint_id, False)
    assert (metadata["label"], metadata["trigger"], metadata["epoch"]) == ("by hand", "user", 2)
    assert len(list_savepoints(stream.state_store.root, "flights")) == 1


def test_its_checks_are_evaluated_in_the_run(stream, instance):
    stream.checkpoints(1, 1)
    result = materialize(stream, instance, "a")
    passed = {one.check_name: one.passed for one in result.get_asset_check_evaluations()}
    assert passed.pop(READABLE) is False, "the code of the job `flights` is not that of this log; a warning"
    assert len(passed) == 4
    assert all(passed.values())


def test_a_savepoint_with_changed_bytes_fails_its_run_by_the_check(stream, instance):
    stream.checkpoints(1, 1)
    taken = trigger_savepoint(stream.state_store.root, "flights")
    path = next(path for path, _ in taken.handles if path.endswith(".parquet"))
    data = bytearray(stream.log.storage.get(path))
    data[len(data) // 2] ^= 1
    stream.log.storage.delete(path)
    stream.log.storage.put_exclusive(path, bytes(data))
    result = materialize(stream, instance, taken.savepoint_id, raises=False)
    assert not result.success
    failed = {one.check_name for one in result.get_asset_check_evaluations() if not one.passed}
    assert "checksums" in failed
