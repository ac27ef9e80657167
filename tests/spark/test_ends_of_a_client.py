"""How a client ends a job, without Spark: query, driver and publisher are replaced by doubles."""

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from state_engine.checkpoint.coordinator import CheckpointCoordinator
from state_engine.errors import SinkError, StopRequestedError
from state_engine.spark.driver.client import JobClient
from state_engine.spark.driver.running_query import RunningQuery
from state_engine.spark.driver.startup import StartOptions
from state_engine.storage.job_lock import Holder, hold, holder, lock_folder


class Context:
    """A part of a Spark context: whether Python or its JVM stopped it, or whether its JVM has ended."""

    def __init__(self) -> None:
        self._jsc: Any = self
        self.stopped = False
        self.gone: Exception | None = None

    def sc(self) -> "Context":
        return self

    def isStopped(self) -> bool:
        if self.gone is not None:
            raise self.gone
        return self.stopped


class Query:
    isActive = True

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None

    def awaitTermination(self, timeout_s: float | None = None) -> bool:
        return not self.isActive


class Driver:
    """A driver that runs no epochs, and counts the epochs that are begun."""

    wants_rescale = False
    begun = 0

    def is_due(self, now_ms: int) -> bool:
        return False

    def has_notices(self) -> bool:
        return True

    def run_epoch(self, *_: Any) -> None:
        self.begun += 1

    run_idle = run_epoch

    def run_end_of_input(self, *_: Any) -> Any:
        raise SinkError("the sink is away")

    def look_after_checkpoints(self) -> None:
        pass

    def end_rescales(self) -> None:
        pass

    def request_stop(self) -> None:
        pass


class Publisher:
    """A publisher that publishes until `ended` is set."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.ended.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        return self.ended.wait(timeout_s)

    def completed(self) -> None:
        pass


@pytest.fixture
def client() -> Any:
    job: Any = SimpleNamespace(name="flights", settings=SimpleNamespace(heartbeat_interval_ms=200))
    client: Any = JobClient(job, StartOptions())
    session: Any = SimpleNamespace(sparkContext=Context())
    client._query = RunningQuery(Query(), session, "flights")
    client._driver, client._listens = Driver(), True
    client._started = SimpleNamespace(
        publisher=Publisher(), coordinator=CheckpointCoordinator(), sinks=SimpleNamespace(close=lambda: None)
    )
    client._idle_tasks = lambda: None
    return client


def test_a_batch_that_is_offered_while_a_stop_begins_does_not_begin(client: Any) -> None:
    raised: list[BaseException] = []

    def offer() -> None:
        try:
            client._on_batch(None, 0)
        except StopRequestedError as error:
            raised.append(error)

    thread = threading.Thread(target=offer)

    def before() -> None:
        thread.start()
        while not client._in_batch:
            thread.join(0.001)

    client.stop(before=before)
    thread.join(10)
    assert len(raised) == 1
    assert client._driver.begun == 0
    assert client.state == "CANCELED"
    assert client.exception is None


def test_a_batch_that_was_held_back_by_a_failure_between_batches_does_not_begin(client: Any) -> None:
    client._note_failure(SinkError("away"))
    with pytest.raises(StopRequestedError):
        client._on_batch(None, 0)
    assert client._driver.begun == 0
    assert isinstance(client.exception, SinkError)


def test_no_epoch_without_input_begins_after_a_stop(client: Any) -> None:
    client._started.coordinator.request()
    client._stopping = True
    client._beat()
    assert client._driver.begun == 0


def test_waiting_keeps_to_its_time_while_a_checkpoint_is_published(client: Any) -> None:
    publisher, coordinator = client._started.publisher, client._started.coordinator
    publisher.ended.clear()
    client._query.stop()
    assert not client.await_termination(0.01)
    coordinator.request()
    assert coordinator.wants_epoch(0)
    publisher.ended.set()
    assert client.await_termination(10)
    assert not coordinator.wants_epoch(0), "the request has ended, because no epoch comes any more"


def test_no_state_says_that_a_job_has_stopped_while_it_still_publishes(client: Any) -> None:
    publisher = client._started.publisher
    publisher.ended.clear()
    thread = threading.Thread(target=client.stop)
    thread.start()
    while client._query.is_active:
        thread.join(0.001)
    assert client.state == "RUNNING", "Spark's query has ended, and this process writes"
    publisher.ended.set()
    thread.join(10)
    assert client.state == "CANCELED"


def test_a_drain_that_fails_is_what_the_job_ends_with(client: Any) -> None:
    with pytest.raises(SinkError, match="away"):
        client.stop(drain=True)
    assert client.state == "FAILED"
    assert isinstance(client.exception, SinkError)


def test_a_job_is_held_from_before_its_log_is_read_until_it_has_ended(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = str(tmp_path)
    folder = lock_folder(root, "flights")
    assert folder is not None
    held: list[Any] = []

    def start_up(*_: Any) -> None:
        held.append(holder(folder))
        raise StopRequestedError("far enough")

    monkeypatch.setattr("state_engine.spark.driver.client.start_up", start_up)
    job: Any = SimpleNamespace(name="flights", root=root, settings=SimpleNamespace(heartbeat_interval_ms=200))
    with pytest.raises(StopRequestedError):
        JobClient(job, StartOptions()).start()
    assert held == [Holder(os.getpid(), "program")]
    assert holder(folder) is None, "a start that fails releases the lock"
    client._release_lock = hold(root, "flights", "program")
    client.stop()
    assert holder(folder) is None


def test_what_failed_by_itself_stays_failed(client: Any) -> None:
    client._error = RuntimeError("the engine is gone")
    client._query.stop()
    assert client.state == "FAILED"
    client.stop()
    assert client.state == "FAILED"
    assert client.exception is client._error
