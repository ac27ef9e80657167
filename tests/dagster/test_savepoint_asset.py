"""A run takes a savepoint of a stopped job, validates it and records it."""

import dagster as dg
import pytest

from lakestate.assets import build_savepoint_asset, savepoint_key
from state_engine.savepoint import list_savepoints, trigger_savepoint

KEY = savepoint_key("flights")


def materialize(stream, instance, name, *, raises=True):
    instance.add_dynamic_partitions("flights_savepoints", [name])
    return dg.materialize(
        [build_savepoint_asset("flights")],
        instance=instance,
        partition_key=name,
        resources={"state_store": stream.state_store},
        raise_on_error=raises,
    )


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
def test_a_job_that_only_claimed_since_tells_the_size_it_had(stream, instance, epochs):
    stream.checkpoints(1, 1)
    for _ in range(epochs):
        stream.epoch()
    stream.log.epoch(kind="claim")
    metadata = metadata_of(materialize(stream, instance, "a"))
    assert metadata["epoch"] == 3 + epochs
    assert (metadata["dagster/row_count"], metadata["keys"]) == (20, 20)


def test_a_job_that_never_told_its_size_has_none(stream, instance):
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


def test_a_savepoint_of_somebody_else_with_the_same_label_is_not_taken_for_it(stream, instance):
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
    context = dg.build_asset_context(instance=instance, resources={"state_store": stream.state_store})
    with pytest.raises(dg.Failure, match="needs a name"):
        build_savepoint_asset("flights")(context)
