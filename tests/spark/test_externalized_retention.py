"""Whether the checkpoints of a real stream are kept when it is cancelled, fails, finishes or is stopped."""

from pathlib import Path
from typing import Any

import pytest
from support import (
    COUNTS,
    Count,
    Input,
    assert_counts,
    by_n,
    count_job,
    counted,
    newest,
    records,
    run_all,
    state_of,
    wait_for,
)

from state_engine.api import CheckpointConfig, ExternalizedCheckpointRetention
from state_engine.errors import UserFunctionError
from state_engine.inspect import open_job
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark

RETAIN = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
DELETE = ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION
NONE = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS


def modes(first: ExternalizedCheckpointRetention) -> list[Any]:
    """Lists all modes; all but `first` run in the long run. `tests/checkpoint/test_externalized.py` has the table."""
    others = [mode for mode in (RETAIN, DELETE, NONE) if mode is not first]
    return [first, *(pytest.param(mode, marks=pytest.mark.long) for mode in others)]


class CountUntilTold(Count):
    """A count that fails at a value that only one record has."""

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        if value.v == 1_000:
            raise ValueError("told to fail")
        return super().process_element(value, ctx)


class Job:
    """A job that takes checkpoints in short intervals."""

    def __init__(self, spark: Any, folder: Path, mode: ExternalizedCheckpointRetention) -> None:
        self.spark, self.root, self.mode = spark, folder / "root", mode
        self.name = f"ends-{mode.value}"
        self.source = Input(folder / "in").add_many(2, rows=20)

    def built(self, **options: Any) -> Any:
        config = CheckpointConfig().set_checkpoint_interval(10).set_externalized_checkpoint_retention(self.mode)
        stream = self.source.stream(self.spark)
        return count_job(stream, self.root, self.name, function=CountUntilTold(), checkpoint_config=config, **options)

    def started(self) -> Any:
        """A running client with a completed checkpoint and a native savepoint."""
        client = self.built().start(trigger_interval_ms=50)
        wait_for(lambda: sum(epoch.records for epoch in client.epochs) == len(self.source.all), "the input")
        wait_for(self.completed, "a checkpoint")
        return client

    def completed(self) -> list[Any]:
        return [row for row in open_job(str(self.root), self.name).checkpoints() if row.status == "completed"]

    def check_savepoint(self, savepoint_id: str) -> None:
        expected = {k: times for _, k, times in counted(self.source.all[:40])}
        assert state_of(self.root, self.name, "count", "count", at=savepoint_id) == expected

    def check_next_start(self, *, begins_anew: bool) -> None:
        """Checks that the next start reads all input again if no checkpoint is left, and otherwise only new input."""
        assert (newest(self.root, self.name) is None) == begins_anew
        if begins_anew:
            MemorySink.clear_all()
        self.source.add_many(1, rows=20)
        client = run_all(self.built())
        assert sum(epoch.records for epoch in client.epochs) == (len(self.source.all) if begins_anew else 20)
        assert_counts(self.root, self.name, self.source.all)


@pytest.mark.parametrize("mode", modes(DELETE))
def test_cancelled(spark: Any, tmp_path: Path, started: Any, mode: ExternalizedCheckpointRetention) -> None:
    job = Job(spark, tmp_path, mode)
    client = started(job.started())
    savepoint = client.trigger_savepoint()
    client.cancel()
    assert client.state == "CANCELED"
    job.check_savepoint(savepoint.savepoint_id)
    assert job.completed(), "the rows stay, as history"
    job.check_next_start(begins_anew=mode is not RETAIN)
    job.check_savepoint(savepoint.savepoint_id)


@pytest.mark.long  # `checkpoint/test_externalized.py` has all ends; test_cancelled is one of them in Spark
@pytest.mark.parametrize("mode", modes(DELETE))
def test_failed(spark: Any, tmp_path: Path, started: Any, mode: ExternalizedCheckpointRetention) -> None:
    job = Job(spark, tmp_path, mode)
    client = started(job.started())
    savepoint = client.trigger_savepoint()
    good = list(job.source.all)
    job.source.add([record._replace(v=1_000) for record in records(1, first=len(good))])
    with pytest.raises(UserFunctionError, match="told to fail"):
        client.await_termination(60)
    assert client.state == "FAILED"
    job.check_savepoint(savepoint.savepoint_id)
    assert (newest(job.root, job.name) is None) == (mode is NONE)
    if mode is not NONE:
        assert_counts(job.root, job.name, good)


@pytest.mark.long  # `checkpoint/test_externalized.py` has all ends; test_cancelled is one of them in Spark
@pytest.mark.parametrize("mode", modes(NONE))
def test_finished(spark: Any, tmp_path: Path, mode: ExternalizedCheckpointRetention) -> None:
    job = Job(spark, tmp_path, mode)
    config = CheckpointConfig().set_checkpoint_interval(10).set_externalized_checkpoint_retention(mode)
    bounded = StreamJob(job.name, root=str(job.root), parallelism=2, checkpoint_config=config)
    stream = bounded.from_stream(job.source.stream(spark), bounded=True).key_by("k", order_by=["n"])
    stream.process(Count(), COUNTS, uid="count").sink_to(MemorySink(job.name), uid="out")
    client = run_all(bounded)
    assert client.state == "FINISHED"
    assert job.completed()
    assert (newest(job.root, job.name) is None) == (mode is not RETAIN)
    assert by_n(MemorySink(job.name).rows()) == counted(job.source.all), "what went to sinks stays"


@pytest.mark.long  # `checkpoint/test_externalized.py` has all ends; test_cancelled is one of them in Spark
@pytest.mark.parametrize("mode", [NONE, pytest.param(DELETE, marks=pytest.mark.long)])
def test_stopped(spark: Any, tmp_path: Path, started: Any, mode: ExternalizedCheckpointRetention) -> None:
    job = Job(spark, tmp_path, mode)
    started(job.started()).stop()
    job.check_next_start(begins_anew=False)


def test_input_that_is_read_to_its_end_for_now_has_not_finished(spark: Any, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, NONE)
    run_all(job.built())
    job.check_next_start(begins_anew=False)
