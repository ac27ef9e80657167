"""A PostgreSQL server and a Kafka broker for the tests of a process; each test has a schema or topic of its own."""

import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from postgres_programs import needed_programs

from lakestate.up.broker import KafkaBroker
from state_engine.api.sinks import SinkConnection, TransactionalSink
from state_engine.spark import KafkaSink, PostgresSink
from state_engine.testing.postgres_server import DATABASE, PASSWORD, USER, PostgresServer, postgres_server

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "sinks")]

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server(needed_programs(), fsync="off", timezone="America/New_York") as server:
        yield server


@pytest.fixture
def query(server: PostgresServer) -> Callable[..., list[Any]]:
    """Runs a statement by another client than the sink's, and returns its rows."""

    def run(statement: str, *parameters: object) -> list[Any]:
        connection = psycopg2.connect(
            host="127.0.0.1", port=server.port, dbname=DATABASE, user=USER, password=PASSWORD, options="-c timezone=UTC"
        )
        with contextlib.closing(connection), connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def schema(query: Callable[..., list[Any]], request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W", "_", request.node.originalname)[:40] + f"_{next(_numbers)}"
    query(f"CREATE SCHEMA {name}")
    return name


@pytest.fixture(autouse=True)
def connections_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes the connections of drivers that a test lets die: a process that dies closes them, too."""
    made: list[SinkConnection] = []

    def keep(kind: type[TransactionalSink]) -> None:
        connect = kind.connect

        def kept(sink: TransactionalSink, *arguments: Any) -> SinkConnection:
            made.append(connect(sink, *arguments))
            return made[-1]

        monkeypatch.setattr(kind, "connect", kept)

    keep(PostgresSink)
    keep(KafkaSink)
    yield
    for connection in made:
        connection.close()


@pytest.fixture
def sink_to(server: PostgresServer, schema: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PostgresSink]:
    """Makes a sink for a table of the test's schema."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)

    def sink(table: str = "counts", **options: Any) -> PostgresSink:
        return PostgresSink(table, server.uri, schema=schema, **options)

    return sink


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    from lakestate.up.checks import any_kafka_port

    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), any_kafka_port())
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """The name of a topic that does not exist yet."""
    return re.sub(r"\W", "-", request.node.originalname)[:60] + f"-{next(_numbers)}"
