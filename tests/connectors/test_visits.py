"""The example that reads Kafka and writes Kafka and Delta, on a broker, with a writer and a job that stop and go on."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka_reader import read_topic
from visits_output import check_output

from lakestate.examples.visits import topic as clicks_topic
from lakestate.examples.visits.data import read_part
from lakestate.examples.visits.job import build
from lakestate.examples.visits.topic import ClicksWriter, NotWrittenError, create_topics, newest_part
from lakestate.up.broker import KafkaBroker
from state_engine.spark.explain import explain_job

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture
def topics(broker: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The topics of the example, with names of the test's own."""
    monkeypatch.setattr(clicks_topic, "CLICKS", topic)
    monkeypatch.setattr(clicks_topic, "VISITS", f"{topic}-visits")
    create_topics(broker.servers)
    create_topics(broker.servers)  # those that exist stay
    return topic


def parts_in(broker: KafkaBroker, topic: str) -> list[str]:
    return sorted(
        json.dumps([record.key().decode(), record.value().decode()]) for record in read_topic(broker.servers, topic)
    )


def parts_up_to(number: int) -> list[str]:
    clicks = [click for part in range(1, number + 1) for click in read_part(part)]
    return sorted(json.dumps([click.user, click.value()]) for click in clicks)


def test_a_part_is_written_once_whichever_writer_stops_where(
    broker: KafkaBroker, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ClicksWriter(broker.servers)
    assert [first.write_next(), first.write_next()] == [1, 2]
    sent: list[int] = []

    def stops(self: ClicksWriter, *arguments: Any) -> None:
        if len(sent) == 300:  # far more than a reader looks back at first
            raise KeyboardInterrupt
        sent.append(1)
        send(self, *arguments)

    send = ClicksWriter._send
    with monkeypatch.context() as patched:
        patched.setattr(ClicksWriter, "_send", stops)
        with pytest.raises(KeyboardInterrupt):
            first.write_next()
    first._producer.flush(10)
    second = ClicksWriter(broker.servers)
    assert newest_part(broker.servers) == 2
    with pytest.raises(NotWrittenError):
        first.write_next()
    assert second.write_next() == 3
    assert parts_in(broker, topics) == parts_up_to(3)


def test_the_plan_is_that_of_the_code(spark: Any) -> None:
    job = build(spark, "/<root>", {"servers": "broker:9092", "tables": "/<tables>"})
    written = (Path(__file__).parents[2] / "examples" / "visits" / "job.plan.json").read_bytes()
    again = "lakestate explain visits --spark --json -o servers=broker:9092 -o 'tables=/<tables>'"
    assert json.loads(written) == json.loads(msgspec.json.encode(explain_job(job))), again


@pytest.mark.long  # test_kafka_command.py runs a job from Kafka to Kafka and Delta; tests/examples has the recount
def test_the_job_is_equal_to_a_recount(spark: Any, broker: KafkaBroker, topics: str, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    options = {
        "servers": broker.servers,
        "clicks": topics,
        "visits": f"{topics}-visits",
        "tables": str(tables),
        "records_per_epoch": "700",
    }
    writer = ClicksWriter(broker.servers)
    for _ in range(2):
        writer.write_next()
        writer.write_next()
        client = build(spark, str(tmp_path / "root"), options).start(available_now=True)
        client.await_termination(120)
    build(spark, str(tmp_path / "root"), options).start().stop(drain=True)

    check_output(broker.servers, f"{topics}-visits", str(tables), 4)
