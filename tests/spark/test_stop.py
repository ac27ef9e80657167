"""Stops, clean or not, in the middle of an epoch: the epoch is sealed completely or not at all."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from support import Count, Input, assert_counts, count_job, newest, run_all, wait_for, with_epochs

from state_engine.errors import StorageError
from state_engine.savepoint import SavepointRequest, list_savepoints

pytestmark = pytest.mark.spark
SLEEP_S = 30.0


class SlowCount(Count):
    """Writes a file `at-work` into the folder, once, and then waits for a file `go`, for half a minute at most."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        at_work, go = (Path(self.folder, name) for name in ("at-work", "go"))
        if value.n == 70 and not at_work.exists():
            at_work.touch()
            end = time.monotonic() + SLEEP_S
            while not go.exists() and time.monotonic() < end:
                time.sleep(0.01)
        return super().process_element(value, ctx)


def start_slow(spark: Any, source: Input, tmp_path: Path, name: str) -> Any:
    """Starts a job and returns in the middle of its second epoch."""
    client = count_job(source.stream(spark), tmp_path / "root", name, function=SlowCount(str(tmp_path))).start()
    wait_for((tmp_path / "at-work").exists, "the slow record")
    return client


def let_go_on(client: Any, tmp_path: Path) -> threading.Thread:
    """Starts a thread that ends the wait of the slow record once the job is stopping."""

    def run() -> None:
        wait_for(lambda: client._stopping, "the stop")
        (tmp_path / "go").touch()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_stop_waits_for_the_running_epoch(spark, tmp_path: Path, started) -> None:
    source = Input(tmp_path / "in").add_many(4)
    client = started(start_slow(spark, source, tmp_path, "stop-politely"))
    thread = let_go_on(client, tmp_path)
    client.stop()
    thread.join()
    assert client.state == "CANCELED"
    assert client.exception is None
    assert [e.records for e in client.epochs] == [60, 60]
    assert newest(tmp_path / "root", "stop-politely").epoch == 3
    run_all(count_job(source.stream(spark), tmp_path / "root", "stop-politely"))
    assert_counts(tmp_path / "root", "stop-politely", source.all)


def test_what_is_done_before_a_stop_sees_the_epoch_that_the_job_ends_with(spark, tmp_path: Path, started) -> None:
    source = Input(tmp_path / "in").add_many(4)
    client = started(start_slow(spark, source, tmp_path, "stop-behind"))
    seen = []
    threading.Timer(0.2, (tmp_path / "go").touch).start()
    client.stop(before=lambda: seen.append(client.head.manifest.epoch))
    assert seen == [client.head.manifest.epoch] == [newest(tmp_path / "root", "stop-behind").epoch]
    assert client.state == "CANCELED"
    run_all(count_job(source.stream(spark), tmp_path / "root", "stop-behind"))
    assert_counts(tmp_path / "root", "stop-behind", source.all)


def test_a_job_runs_on_if_what_is_done_before_its_stop_fails(spark, tmp_path: Path, started) -> None:
    source = Input(tmp_path / "in").add_many(1)
    client = started(count_job(source.stream(spark), tmp_path / "root", "stop-not").start())
    wait_for(lambda: client.epochs, "the first epoch")

    def fail() -> None:
        raise ValueError("no savepoint")

    for drain in (False, True):
        with pytest.raises(ValueError, match="no savepoint"):
            client.stop(drain=drain, before=fail)
        assert client.state == "RUNNING"
        source.add_many(1)
        wait_for(lambda: sum(epoch.records for epoch in client.epochs) == len(source.all), "the new records")
    client.stop()
    assert_counts(tmp_path / "root", "stop-not", source.all)


def test_a_job_stops_with_a_savepoint_or_not_at_all(
    spark, tmp_path: Path, started, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, root = Input(tmp_path / "in").add_many(1), tmp_path / "root"
    client = started(count_job(source.stream(spark), root, "stop-kept").start())
    (tmp_path / "file").write_text("no directory")
    for drain in (False, True):
        wait_for(lambda: sum(epoch.records for epoch in client.epochs) == len(source.all), "the new records")
        with pytest.raises(StorageError):
            client.stop_with_savepoint(SavepointRequest("canonical", str(tmp_path / "file" / "x")), drain=drain)
        assert client.state == "RUNNING"
        source.add_many(1)
    wait_for(lambda: sum(epoch.records for epoch in client.epochs) == len(source.all), "the new records")
    assert list_savepoints(str(root), "stop-kept") == []
    seen, end_input = [], client._end_input
    monkeypatch.setattr(client, "_end_input", lambda: (seen.append(client.state), end_input()))
    taken = client.stop_with_savepoint(SavepointRequest(label="last"), drain=True)
    assert seen == ["RUNNING"], "Spark's query has ended, and epochs are sealed"
    assert client.state == "CANCELED"
    assert taken.epoch == newest(root, "stop-kept").epoch
    before, last = list_savepoints(str(root), "stop-kept")
    assert (before.label, last.label, last) == ("before drain", "last", taken)
    run_all(count_job(source.stream(spark), root, "stop-kept"), restore=before.savepoint_id)
    assert_counts(root, "stop-kept", source.all)


def test_query_stop_cuts_an_epoch_off_and_nothing_of_it_is_sealed(spark, tmp_path: Path, started) -> None:
    source = Input(tmp_path / "in").add_many(4)
    client = started(start_slow(spark, source, tmp_path, "stop-rudely"))
    begun = time.monotonic()
    client.query.stop()
    wait_for(lambda: client.state != "RUNNING", "the query to end")
    assert time.monotonic() - begun < SLEEP_S / 3
    assert client.state == "CANCELED"
    assert client.exception is None
    assert newest(tmp_path / "root", "stop-rudely").epoch == 2
    run_all(count_job(source.stream(spark), tmp_path / "root", "stop-rudely"))
    assert_counts(tmp_path / "root", "stop-rudely", source.all)


def test_stop_from_another_thread_while_the_first_awaits_the_end(spark, tmp_path: Path, started) -> None:
    source = Input(tmp_path / "in").add_many(2)
    client = started(start_slow(spark, source, tmp_path, "stop-elsewhere"))
    threads = [let_go_on(client, tmp_path), threading.Thread(target=client.stop)]
    threads[1].start()
    assert client.await_termination(60)
    for thread in threads:
        thread.join(30)
    assert client.state == "CANCELED"
    client.stop()  # a second stop does no harm
    run_all(count_job(source.stream(spark), tmp_path / "root", "stop-elsewhere"))
    assert_counts(tmp_path / "root", "stop-elsewhere", source.all)


def test_a_batch_after_a_stop_is_no_error_of_sparks(
    spark, tmp_path: Path, started, caplog: pytest.LogCaptureFixture
) -> None:
    source = Input(tmp_path / "in").add_many(1)
    client = started(count_job(source.stream(spark), tmp_path / "root", "stop-behind").start(trigger_interval_ms=100))
    with_epochs(client, 1)
    client._stopping = True  # as a stop does before it reaches Spark
    source.add_many(1)
    wait_for(lambda: client._in_batch, "the batch after the stop")
    client.stop(drain=True)
    assert client.state == "CANCELED"
    assert client.query.exception() is None
    assert "StopRequestedError" not in caplog.text
