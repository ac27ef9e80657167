"""Compaction by a run: the run folds a stopped job, and files that nothing names are deleted."""

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from lakestate.assets import build_compaction_asset
from lakestate.assets.compaction import CompactionConfig
from lakestate.operate.compaction_schedule import build_compaction_schedule
from state_engine.inspect import read_state


def compact(stream, instance, **config):
    """Runs compaction; returns the recorded metadata."""
    result = dg.materialize(
        [build_compaction_asset("flights", grace_ms=0)],
        instance=instance,
        resources=stream.resources,
        run_config=dg.RunConfig(ops={"flights__compaction": CompactionConfig(**config)}),
    )
    (event,) = result.asset_materializations_for_node("flights__compaction")
    return {name: entry.value for name, entry in event.metadata.items()}


def tree(stream):
    root = Path(stream.state_store.root)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def layers(stream):
    """A job with three layers, an epoch after them, and a file that nothing names."""
    stream.checkpoints(1, 3)
    stream.epoch()
    storage = stream.log.storage
    (named, *_) = [info.path for info in storage.list("", recursive=True) if "changes" in info.path]
    stream.stray = str(Path(named).with_name(Path(named).name.replace("0000000000000001", "00000000000000ff", 1)))
    storage.put_exclusive(stream.stray, b"of an attempt that died")
    return stream


def rows(stream):
    return sorted(read_state(stream.state_store.root, "flights", "aircraft", "legs").to_pylist(), key=str)


def test_a_stopped_job_is_folded_into_one_layer(layers, instance):
    before = rows(layers)
    metadata = compact(layers, instance)
    assert metadata["needed"] is True
    assert metadata["layers"] > 1
    newest = layers.state_store.open_job("flights").newest_checkpoint()
    assert (newest.type, newest.trigger) == ("FULL", "compaction")
    assert metadata["checkpoint_id"] == newest.checkpoint_id == 4
    assert metadata["state_bytes"] == newest.state_bytes < metadata["bytes"]
    assert metadata["states"].records[0].data["state"] == "aircraft/legs"
    assert rows(layers) == before
    again = compact(layers, instance, stopped=True)
    assert (again["needed"], again["checkpoint_id"], again["layers"]) == (False, None, 1)
    assert again.keys() == metadata.keys()


def test_a_dry_run_changes_nothing(layers, instance):
    before = tree(layers)
    metadata = compact(layers, instance, dry_run=True)
    assert (metadata["dry_run"], metadata["needed"], metadata["checkpoint_id"]) == (True, True, None)
    assert tree(layers) == before


def test_a_job_that_may_run_elsewhere_is_not_ended(stream, instance, monkeypatch):
    stream.checkpoints(1, 2)
    stream.epoch()
    sealed_at = stream.log.head.manifest.processing_time

    class Clock:
        def now_ms(self):
            return sealed_at + 59_000

    monkeypatch.setattr("lakestate.assets.compaction.SystemClock", Clock)
    with pytest.raises(dg.Failure, match="JobMayRunError") as failed:
        compact(stream, instance)
    assert "wait a minute" in failed.value.metadata["action"].value
    assert compact(stream, instance, stopped=True)["checkpoint_id"] == 3


def test_a_job_in_a_bucket_that_may_run_elsewhere_is_not_ended_however_old_its_epoch(stream, instance, monkeypatch):
    stream.checkpoints(1, 2)
    stream.epoch()
    monkeypatch.setattr("lakestate.takeover.endpoint_path", lambda *_: None)
    with pytest.raises(dg.Failure, match="JobMayRunError: Incarnation"):
        compact(stream, instance)
    assert compact(stream, instance, stopped=True)["checkpoint_id"] == 3


def test_a_job_that_never_ran_is_refused_by_name(stream, instance):
    with pytest.raises(dg.Failure, match="NothingToRestoreError"):
        compact(stream, instance)


def test_its_schedule_asks_for_a_run():
    schedule = build_compaction_schedule("flights", "0 5 * * 0")
    assert schedule.name == "flights_compaction"
    context = dg.build_schedule_context(scheduled_execution_time=datetime(2026, 11, 22, 5, tzinfo=UTC))
    assert schedule(context).tags["lakestate/job"] == "flights"
