"""Epochs without a batch, sealed by the driver while the stream runs."""

from pathlib import Path

import pytest
from support import Input, assert_tally, newest, outputs, tally_job, with_epochs

pytestmark = pytest.mark.spark


def test_numbers_go_on_and_positions_stay(spark, tmp_path: Path, started) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(2)

    def start():
        return started(tally_job(source.stream(spark), root, "idle", sinks, 3).start(trigger_interval_ms=100))

    client = with_epochs(start(), 2)
    before = newest(root, "idle")
    idle = [client.run_idle_epoch().manifest for _ in range(3)]
    assert [m.epoch for m in idle] == [before.epoch + n for n in (1, 2, 3)]
    assert {m.kind for m in idle} == {"idle"}
    assert {tuple(p.offset for p in m.sources) for m in idle} == {tuple(p.offset for p in before.sources)}
    assert all(not p.new_files for m in idle for p in m.sources)
    assert all(ack.records_in == 0 for m in idle for op in m.operators.values() for ack in op.acks)

    source.add_many(2)
    with_epochs(client, 7)
    assert [e.kind for e in client.epochs] == ["epoch"] * 2 + ["idle"] * 3 + ["epoch"] * 2
    assert_tally(root, "idle", sinks, source.all)

    client.run_idle_epoch()
    client.stop()
    source.add_many(1)
    client = with_epochs(start(), 1)
    client.stop()
    assert_tally(root, "idle", sinks, source.all)


def test_an_idle_epoch_before_the_first_batch(spark, tmp_path: Path, started) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in")
    client = started(tally_job(source.stream(spark), root, "idle-first", sinks, 2).start(trigger_interval_ms=100))
    assert client.run_idle_epoch().manifest.epoch == 2
    source.add_many(2)
    with_epochs(client, 3)
    client.stop()
    assert_tally(root, "idle-first", sinks, source.all)
