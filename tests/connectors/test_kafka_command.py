"""A project of one's own, by the command line: from Kafka to Kafka, a Delta table and PostgreSQL in one job."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable
from kafka_reader import read_topic

from lakestate.up.broker import KafkaBroker
from state_engine.testing.postgres_server import PASSWORD, PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]

PROJECT = """
[project]
name = "shop"
version = "1"

[project.entry-points."lakestate.jobs"]
clicks = "jobs:build"
"""

JOBS = """
from state_engine.spark import DeltaSink, KafkaSink, PostgresSink, StreamJob, needs_connectors


@needs_connectors("kafka")
def build(spark, root, options):
    read = {"kafka.bootstrap.servers": options["servers"], "subscribe": options["topic"], "startingOffsets": "earliest"}
    records = spark.readStream.format("kafka").options(**read).load()
    columns = ["cast(key AS string) AS user", "cast(cast(value AS string) AS bigint) AS n", "partition", "offset"]
    job = StreamJob("clicks", root=root)
    totals = job.from_stream(records.selectExpr(*columns)).key_by("user", order_by=["partition", "offset"])
    totals = totals.sum("n", uid="totals")
    totals.sink_to(KafkaSink(options["servers"], options["topic"] + "-totals", key="user"), uid="kafka")
    totals.sink_to(DeltaSink(options["tables"] + "/totals"), uid="delta")
    newest = PostgresSink("totals", options["postgres"], schema=options["schema"], mode="upsert", keys=["user"])
    totals.sink_to(newest, uid="postgres")
    return job
"""


def lakestate(folder: Path, *words: str) -> str:
    command = [str(Path(sys.executable).with_name("lakestate")), *words]
    environment = {**os.environ, "PGPASSWORD": PASSWORD, "COLUMNS": "200"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_a_job_that_reads_kafka_and_writes_three_systems(
    broker: KafkaBroker,
    server: PostgresServer,
    schema: str,
    query: Callable[..., list[Any]],
    topic: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "jobs.py").write_text(JOBS)
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.create_topics([NewTopic(topic, 2)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.servers, "partitioner": "murmur2_random"})
    for n in range(100):
        producer.produce(topic, str(n), f"user-{n % 7}")
    assert producer.flush(30) == 0

    tables = str(tmp_path / "tables")
    given = {"servers": broker.servers, "topic": topic, "tables": tables, "postgres": server.uri, "schema": schema}
    options = [word for name, value in given.items() for word in ("-o", f"{name}={value}")]
    lakestate(tmp_path, "run", "clicks", "--root", "state", "--available-now", *options)

    wanted = {f"user-{k}": sum(n for n in range(100) if n % 7 == k) for k in range(7)}
    found: dict[str, int] = {}
    sent = read_topic(broker.servers, f"{topic}-totals")
    assert len(sent) == 100
    for record in sent:
        row = json.loads(record.value())
        found[record.key().decode()] = next(
            value for name, value in row.items() if name not in ("user", "partition", "offset")
        )
    assert found == wanted
    assert DeltaTable(f"{tables}/totals").to_pyarrow_table().num_rows == len(
        read_topic(broker.servers, f"{topic}-totals")
    )
    assert query(f"SELECT count(*) FROM {schema}.totals") == [(7,)]
    assert dict(query(f'SELECT "user", n FROM {schema}.totals')) == wanted
    shown = lakestate(tmp_path, "status", "clicks", "--root", "state")
    assert f"{broker.servers}/{topic}-totals" in shown
    assert PASSWORD not in shown
