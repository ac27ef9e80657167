"""A second driver of one job fences the first."""

from pathlib import Path

import pytest
from support import Input, assert_tally, outputs, tally_job, wait_for, with_epochs

from state_engine.errors import FencedError
from state_engine.savepoint import restore_key_groups

pytestmark = pytest.mark.spark


def test_the_second_start_goes_on_and_the_first_fails_at_its_next_epoch(spark, tmp_path: Path, started) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(2)

    def start():
        return started(tally_job(source.stream(spark), root, "two-drivers", sinks, 2).start(trigger_interval_ms=100))

    first = with_epochs(start(), 2)
    second = start()
    source.add_many(3)
    with_epochs(second, 3)
    wait_for(lambda: first.state == "FAILED", "the first driver to fail")
    with pytest.raises(FencedError, match="incarnation 1") as caught:
        first.await_termination(30)
    assert caught.value.action
    assert len(first.epochs) == 2
    second.stop()
    assert second.state == "CANCELED"
    assert_tally(root, "two-drivers", sinks, source.all)


@pytest.mark.long  # `epoch/test_forks.py` fences a driver of the old generation, test_fence_watch.py an idle one
def test_a_restore_fences_a_running_driver_of_the_old_generation(spark, tmp_path: Path, started) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(3)

    def start(**options):
        job = tally_job(source.stream(spark), root, "fenced-by-restore", sinks, 2)
        return started(job.start(trigger_interval_ms=100, **options))

    old = with_epochs(start(), 3)
    new = start(restore="epoch:1/2")
    source.add_many(2)
    with_epochs(new, 4)
    wait_for(lambda: old.state == "FAILED", "the old driver to fail")
    assert isinstance(old.exception, FencedError)
    new.stop()
    assert_tally(root, "fenced-by-restore", sinks, source.all)


def test_a_driver_without_input_is_ended_by_another_that_claims_its_job(spark, tmp_path: Path, started) -> None:
    root, sinks = tmp_path / "root", outputs(tmp_path / "out")
    source = Input(tmp_path / "in").add_many(1)
    idle = with_epochs(started(tally_job(source.stream(spark), root, "idle", sinks, 2).start()), 1)
    restore_key_groups(str(root), "idle", "epoch:1/2", [0])
    with pytest.raises(FencedError, match="by incarnation 2"):
        idle.await_termination(60)
    assert (idle.state, len(idle.epochs)) == ("FAILED", 1)
