"""Every asset of a stream whose root is in a bucket: a stopped job is saved, rescaled, restored and folded there."""

import dagster as dg
import pytest

from lakestate.assets import (
    build_compaction_asset,
    build_rescaled_state_asset,
    build_restored_state_asset,
    build_retention_asset,
    build_savepoint_asset,
)
from lakestate.assets.ranges import RANGES, range_name
from lakestate.operate.checkpoint_sensor import build_checkpoint_sensor
from lakestate.policies import StreamRetention
from lakestate.resources import JobControlResource
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.inspect import open_job, read_state
from state_engine.storage.open import open_root

JOB, ROOT = "harbour", "s3://bucket/state"


@pytest.fixture
def stream(s3, new_stream):
    return new_stream(ROOT, JOB)


def run(stream, instance, asset, *, partition=None, tags=None, **config):
    """Materialises an asset of the job; returns the metadata of its event."""
    (key,) = asset.keys
    node = "__".join(key.path)
    result = dg.materialize(
        [asset],
        instance=instance,
        resources=stream.resources | {"job_control": JobControlResource(root=ROOT)},
        partition_key=partition,
        tags=tags,
        run_config={"ops": {node: {"config": config}}},
    )
    return {name: entry.value for name, entry in result.asset_materializations_for_node(node)[0].metadata.items()}


def counts():
    return {row["value"] for row in read_state(ROOT, JOB, "aircraft", "legs").to_pylist()}


def test_every_asset_of_a_stopped_job(stream, instance):
    stream.checkpoints(1, 3)
    sensor = build_checkpoint_sensor(JOB)
    with dg.build_sensor_context(instance=instance, resources=stream.sensor_resources) as context:
        assert sensor(context).asset_events

    for name, kind, directory in (("native", "native", None), ("copy", "canonical", "s3://backup/harbour")):
        instance.add_dynamic_partitions(f"{JOB}_savepoints", [name])
        config = {"kind": kind} | ({"directory": directory} if directory else {})
        assert run(stream, instance, build_savepoint_asset(JOB), partition=name, **config)["savepoint_id"]
    assert open_root("s3://backup").list("")
    stream.checkpoints(4, 5)
    assert counts() == {9}

    assert run(stream, instance, build_rescaled_state_asset(JOB), parallelism=5, stopped=True)["parallelism"] == 5
    chosen = {
        "dagster/asset_partition_range_start": f"{range_name(0)}|native",
        "dagster/asset_partition_range_end": f"{range_name(RANGES - 1)}|native",
    }
    with pytest.raises(dg.Failure, match="JobMayRunError"):
        run(stream, instance, build_restored_state_asset(JOB), tags=chosen, rewind=True)
    assert counts() == {9}
    run(stream, instance, build_restored_state_asset(JOB), tags=chosen, rewind=True, stopped=True)
    assert counts() == {5}
    newest = open_job(ROOT, JOB).newest()
    assert newest is not None
    assert newest.manifest.generation == 3

    assert run(stream, instance, build_compaction_asset(JOB, grace_ms=0), stopped=True)["needed"]
    before = len(open_root(ROOT).list(""))
    one = RetentionPolicy(checkpoints=Keep(last=1), savepoints=Keep(last=0), grace_ms=0)
    assert run(stream, instance, build_retention_asset(JOB, StreamRetention(policy=one)))["bytes"] > 0
    assert len(open_root(ROOT).list("")) < before
    assert counts() == {5}
