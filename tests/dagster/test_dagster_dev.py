"""The code location in a real web server and a real daemon."""

import itertools
import shutil
import threading
import time

import pytest

from lakestate.runner_events import CheckpointCompleted, EpochSealed, Failed
from lakestate.runner_process import RunnerProcess, runner_command
from lakestate.start_request import StartRequest
from state_engine.savepoint import list_savepoints


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_stopped_stream(stream, tmp_path, dagster_dev):
    stream.checkpoints(1, 3)
    with dagster_dev(tmp_path / "dagster", tmp_path / "state") as dagster:
        dagster.wait_until_ready()
        dagster.wait_for(lambda: dagster.events("checkpoint"), "the sensor")
        metadata = dagster.take_savepoint("before-upgrade")
        checkpoints = dagster.events("checkpoint")
    assert [(event["checkpoint_id"], event["skipped_checkpoints"]) for event in checkpoints] == [(3, 2)]
    (pin,) = list_savepoints(str(tmp_path / "state"), "flights")
    assert metadata["partition"] == pin.label == "before-upgrade"
    assert metadata["savepoint_id"] == pin.savepoint_id
    assert (tmp_path / "dagster" / ".dagster_home").is_dir()


class RunningFlights:
    """The flights job in a process of its own; it gets an input file whenever `feed` is called."""

    def __init__(self, folder, process):
        self.epoch = self.checkpoint = 0
        self.failure = None
        self._waiting = iter(sorted((folder / "waiting").glob("*.parquet")))
        self._input = folder / "input"
        self._events = process.events()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self):
        for event in self._events:
            if isinstance(event, EpochSealed):
                self.epoch = event.epoch
            elif isinstance(event, CheckpointCompleted):
                self.checkpoint = event.checkpoint_id
            elif isinstance(event, Failed):
                self.failure = event

    def feed(self, files):
        for path in itertools.islice(self._waiting, files):
            shutil.copy2(path, self._input / f".{path.name}")
            (self._input / f".{path.name}").rename(self._input / path.name)

    def wait_for(self, condition, what, timeout_s=120):
        until = time.monotonic() + timeout_s
        while not condition():
            assert self.failure is None, self.failure
            assert time.monotonic() < until, f"waited for {what}"
            time.sleep(0.2)

    def join(self):
        self._thread.join(60)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_running_stream_goes_on_while_dagster_takes_a_savepoint(tmp_path, dagster_dev):
    from lakestate.examples.flights.data import read_flights, write_files

    write_files(read_flights().slice(0, 20_000), tmp_path / "waiting", 500)
    (tmp_path / "input").mkdir()
    root = tmp_path / "state"
    options = {
        "input": str(tmp_path / "input"),
        "tables": str(tmp_path / "tables"),
        "checkpoint_interval_ms": "500",
    }
    command = runner_command("flights", root, StartRequest(options=options))
    with (
        dagster_dev(tmp_path / "dagster", root) as dagster,
        RunnerProcess(command, log=tmp_path / "runner.log") as process,
    ):
        flights = RunningFlights(tmp_path, process)
        flights.feed(10)
        dagster.wait_until_ready()
        flights.wait_for(lambda: flights.checkpoint, "a checkpoint")
        dagster.wait_for(lambda: dagster.events("checkpoint"), "the sensor")
        flights.feed(2)
        metadata = dagster.take_savepoint("while-running")
        after = flights.epoch
        flights.feed(10)
        flights.wait_for(lambda: flights.epoch > max(after, metadata["epoch"]) + 5, "more epochs")
        newest = dagster.events("checkpoint")[0]
        process.request_stop()
        assert process.wait() == 0
        flights.join()
    (pin,) = list_savepoints(str(root), "flights")
    assert (pin.savepoint_id, pin.label) == (metadata["savepoint_id"], "while-running")
    assert 0 < metadata["epoch"] <= flights.epoch - 5
    assert metadata["keys"] > 0
    assert metadata["bytes"] > 0
    assert newest["checkpoint_id"] <= flights.checkpoint
