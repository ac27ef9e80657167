"""Sessions that hang, servers that stop, drivers that die: each epoch is in the table once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from postgres_programs import needed_programs
from postgres_rows import LOG, NAME, write
from whole_job import BATCH, WholeJob, ended_at

from state_engine.api.sinks import SinkMarker
from state_engine.connectors.postgresql import connection as connections
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import SinkAheadError, SinkError, SinkRewindError
from state_engine.savepoint.restore import JobRestore
from state_engine.spark import PostgresSink
from state_engine.spark.graph.nodes import SinkNode
from state_engine.spark.sinks.recorded import RecordedSinks
from state_engine.testing.postgres_server import PASSWORD, PostgresServer, postgres_server

pytestmark = pytest.mark.slow  # a server of PostgreSQL

Sinks = Callable[..., PostgresSink]
Query = Callable[..., list[Any]]
FIRST, SECOND = SinkMarker(LOG, 1, 0), SinkMarker(LOG, 1, 1)
POINTS = [CrashPoint.E6_SEALED, CrashPoint.E7_SINK_COMMITTED, CrashPoint.E8_BEFORE_RETURN]


class PostgresJob(WholeJob):
    """A job with one sink in PostgreSQL."""

    def __init__(self, folder: Path, sink: PostgresSink) -> None:
        super().__init__(folder)
        self._sink = sink

    def sinks(self) -> list[SinkNode]:
        return [SinkNode("out", "main", self._sink)]


def numbers(batches: int) -> list[tuple[int]]:
    return [(n,) for n in range(batches * BATCH)]


def test_a_session_that_hangs_in_its_transaction_is_ended(
    sink_to: Sinks, query: Query, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LOCK_TIMEOUT", "200ms")
    sink = sink_to()
    write(sink, pa.table({"n": [0]}))
    hangs, goes_on, raised = threading.Event(), threading.Event(), []

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": pa.array([1])})
        hangs.set()
        goes_on.wait(60)
        yield pa.record_batch({"n": pa.array([2])})

    def old_driver() -> None:
        with closing(sink.connect(NAME, None)) as connection:
            try:
                connection.commit(rows(), FIRST, SECOND)
            except Exception as error:
                raised.append(error)

    thread = threading.Thread(target=old_driver)
    thread.start()
    assert hangs.wait(60)
    with closing(sink.connect(NAME, None)) as connection:
        assert connection.commit([pa.record_batch({"n": pa.array([3])})], FIRST, SECOND)
    goes_on.set()
    thread.join(60)
    assert len(raised) == 1
    assert query(f"SELECT n FROM {schema}.counts ORDER BY n") == [(0,), (3,)]


def test_a_lock_of_another_program_is_not_broken(
    sink_to: Sinks, query: Query, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LOCK_TIMEOUT", "200ms")
    sink = sink_to()
    write(sink, pa.table({"n": [0]}))
    holder = sink.connect(NAME._replace(job="other"), None)
    connection = sink.connect(NAME, None)
    with closing(holder), closing(connection), holder._transaction() as run:  # type: ignore[attr-defined]
        run(f"LOCK TABLE {schema}.lakestate_sinks")
        with pytest.raises(connections.PostgresError, match="lock timeout"):
            connection.commit([pa.record_batch({"n": pa.array([1])})], FIRST, SECOND)
    assert query(f"SELECT n FROM {schema}.counts") == [(0,)]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_a_driver_that_dies_loses_and_doubles_nothing(
    sink_to: Sinks, query: Query, schema: str, tmp_path: Path, point: CrashPoint
) -> None:
    job = PostgresJob(tmp_path, sink_to())
    for epoch in (2, 4):
        ended_at(job, point, epoch, lambda driver: driver.steps(4))
    driver = job.start().steps(2)
    rows = query(f"SELECT n FROM {schema}.counts ORDER BY n")
    assert rows == numbers(len(rows) // BATCH)
    assert len(rows) == driver.offset
    driver.sinks.close()


def test_a_restore_needs_keep_output_and_works_without_the_code(
    sink_to: Sinks, query: Query, schema: str, tmp_path: Path
) -> None:
    job = PostgresJob(tmp_path, sink_to(mode="upsert", keys=["n"]))
    job.start().steps(3).sinks.close()
    with pytest.raises(SinkRewindError, match=r"PostgreSQL table .*counts got after epoch 2"):
        job.start(restore=job.log().read(1, 2))
    JobRestore(job.root, job.name, "epoch:1/2", RecordedSinks, keep_output=True, validate=False).run()
    assert query(f"SELECT n, lakestate_generation FROM {schema}.lakestate_abandoned_counts ORDER BY n") == [
        (n, 2) for (n,) in numbers(3)[BATCH:]
    ]
    driver = job.start().steps(1)
    assert query(f"SELECT n FROM {schema}.counts ORDER BY n") == numbers(3)
    driver.sinks.close()


def test_a_record_that_would_connect_elsewhere_is_refused(
    sink_to: Sinks, schema: str, server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", str(server.port))
    sink_to()
    job = PostgresJob(tmp_path, PostgresSink("counts", "postgresql://lakestate@/postgres", schema=schema))
    job.start().steps(1).sinks.close()
    monkeypatch.setenv("PGPORT", "1")
    with pytest.raises(SinkError, match=f"wrote to 127.0.0.1:{server.port}/postgres.*would connect to 127.0.0.1:1/"):
        JobRestore(job.root, job.name, "latest", RecordedSinks, validate=False)


def test_a_table_that_was_dropped_with_its_markers_is_refused(
    sink_to: Sinks, query: Query, schema: str, tmp_path: Path
) -> None:
    job = PostgresJob(tmp_path, sink_to())
    job.start().steps(2).sinks.close()
    query(f"DROP TABLE {schema}.counts, {schema}.lakestate_sinks")
    with pytest.raises(SinkAheadError, match="has no marker of this sink"):
        job.start()
    driver = job.start(adopt_sinks=True).steps(1)
    assert query(f"SELECT n FROM {schema}.counts ORDER BY n") == numbers(3)[BATCH:]
    driver.sinks.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    with postgres_server(needed_programs()) as server:
        yield server


def rows_in(server: PostgresServer) -> list[tuple[int]]:
    connection = PostgresSink("counts", server.uri).connect(NAME, None)
    with closing(connection), connection._transaction() as run:  # type: ignore[attr-defined]
        return run("SELECT n FROM public.counts ORDER BY n")


def test_a_server_that_crashes_and_starts_again_goes_unnoticed(
    own_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    job = PostgresJob(tmp_path, PostgresSink("counts", own_server.uri))
    driver = job.start().steps(1)
    for how in (signal.SIGQUIT, signal.SIGINT):
        own_server.stop(how)
        again = threading.Timer(1.0, own_server.start)
        again.start()
        driver.steps(1)
        again.join()
    assert rows_in(own_server) == numbers(3)
    driver.sinks.close()


def test_a_server_that_crashes_in_the_middle_of_an_epoch_has_nothing_of_it(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    sink = PostgresSink("counts", own_server.uri)
    write(sink, pa.table({"n": [0]}))

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": pa.array(range(1, 100_000))})
        own_server.stop(signal.SIGQUIT)
        yield pa.record_batch({"n": pa.array(range(100_000, 2_000_000))})

    with closing(sink.connect(NAME, None)) as connection, pytest.raises(connections.PostgresError):
        connection.commit(rows(), FIRST, SECOND)
    own_server.start()
    assert rows_in(own_server) == [(0,)]
    with closing(sink.connect(NAME, None)) as connection:
        assert connection.marker() == FIRST


def test_the_first_connection_does_not_wait(sink_to: Sinks) -> None:
    sink = PostgresSink("counts", "postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(connections.PostgresError, match="Connection refused"):
        sink.connect(NAME, None)


def test_values_are_not_in_messages_where_records_must_not_be_shown(
    sink_to: Sinks, query: Query, schema: str, tmp_path: Path
) -> None:
    query(f"CREATE TABLE {schema}.counts (n bigint CHECK (n < 3))")
    job = PostgresJob(tmp_path, sink_to())
    driver = job.start().steps(1)
    with pytest.raises(SinkError, match=r"PostgresError: new row.*violates check constraint.*Failing row contains"):
        driver.step()
    driver.sinks._show_records = False
    with pytest.raises(SinkError, match=r": PostgresError\. What") as raised:
        driver.sinks.commit(job.log().read(1, 3))
    assert raised.value.__cause__ is None
    driver.sinks.close()
