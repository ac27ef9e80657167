"""The trigger interval in a running job: the first record after a pause begins an epoch at once, the next one waits."""

from pathlib import Path

import pytest
from support import Input, assert_counts, count_job, wait_for, with_epochs

pytestmark = pytest.mark.spark

HOUR = 3_600_000


def test_the_next_epoch_waits_for_the_interval_and_nothing_else_does(spark, tmp_path: Path, started) -> None:
    root, source = tmp_path / "root", Input(tmp_path / "in")
    source.add_many(1)
    client = started(count_job(source.stream(spark), root, "apart").start(trigger_interval_ms=HOUR))
    with_epochs(client, 1, of_input=True)
    wait_for(lambda: client._trigger.holds, "the first batch to wait")
    source.add_many(1)
    assert client.trigger_checkpoint().result(30) == 1, "a checkpoint has an epoch of its own"
    assert [epoch.records for epoch in client.epochs if epoch.kind == "epoch"] == [len(source.all) // 2]
    assert client._trigger.holds

    client.trigger_interval_ms = 0
    with_epochs(client, 2, of_input=True)
    wait_for(lambda: not client._trigger.holds, "the batch to return")
    client.trigger_interval_ms = HOUR
    source.add_many(1)
    with_epochs(client, 3, of_input=True)
    wait_for(lambda: client._trigger.holds, "the batch after the pause to wait")

    client.stop()
    assert client.state == "CANCELED"
    assert_counts(root, "apart", source.all)


def test_a_bounded_run_does_not_wait(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in")
    source.add_many(3)
    client = count_job(source.stream(spark), tmp_path / "root", "now").start(
        available_now=True, trigger_interval_ms=HOUR
    )
    assert client.await_termination(120)
    client.trigger_interval_ms = HOUR
    assert client.trigger_interval_ms == 0
    assert_counts(tmp_path / "root", "now", source.all)
