"""Which column of a row is which part of its record; settings; what a manifest records."""

import re
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api.sinks import SinkMarker, SinkName
from state_engine.connectors.kafka.errors import KafkaSinkError
from state_engine.connectors.kafka.marker_topic import decoded, encoded, topic_of, transactional_id
from state_engine.connectors.kafka.record_columns import RecordColumns
from state_engine.connectors.kafka.records import check_columns, records_of
from state_engine.connectors.kafka.settings import client_settings
from state_engine.connectors.known import opened, recorded_as
from state_engine.errors import JobDefinitionError, SinkError
from state_engine.spark import KafkaSink

BATCH = pa.record_batch(
    {
        "k": ["a", None],
        "n": pa.array([1, None], pa.int64()),
        "raw": pa.array([b"\x00\xff", None], pa.binary()),
        "h": pa.array([[("trace", b"\x01"), ("empty", None)], None], pa.map_(pa.string(), pa.binary())),
        "p": pa.array([3, None], pa.int32()),
        "t": ["elsewhere", None],
    }
)


def test_by_default_the_value_has_all_columns_that_are_no_other_part() -> None:
    records = records_of(BATCH.select(["k", "n"]), RecordColumns(key="k"))
    assert records.keys == [b"a", None]
    assert records.values == [b'{"n":1}', b'{"n":null}']
    assert (records.headers, records.partitions, records.topics) == (None, None, None)
    assert records_of(BATCH.select(["k", "n"]), RecordColumns()).values == [b'{"k":"a","n":1}', b'{"k":null,"n":null}']


def test_every_part_may_be_a_column() -> None:
    records = records_of(BATCH, RecordColumns(key="n", value="raw", headers="h", partition="p", topic="t"))
    assert records.keys == [b"1", None]
    assert records.values == [b"\x00\xff", None]
    assert records.headers == [[("trace", b"\x01"), ("empty", None)], []]
    assert records.partitions == [3, -1]
    assert records.topics == ["elsewhere", None]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (RecordColumns(key="x"), r"no column 'x'.*Choose from its columns: k, n"),
        (
            RecordColumns(headers="k"),
            "'k' of the output is string; the KafkaSink needs a map from texts to te",
        ),
        (RecordColumns(partition="k"), "needs an integer"),
        (RecordColumns(topic="n"), "needs a text"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns: RecordColumns, said: str) -> None:
    with pytest.raises(SinkError, match=said):
        check_columns(BATCH.schema, columns)


def test_columns_that_fit() -> None:
    check_columns(BATCH.schema, RecordColumns(key="k", value="n", headers="h", partition="p", topic="t"))


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.config",
    ],
)
def test_secrets_are_refused_and_named_by_their_variable(name: str) -> None:
    variable = "LAKESTATE_KAFKA_" + name.upper().replace(".", "_")
    with pytest.raises(JobDefinitionError, match=variable) as raised:
        KafkaSink("h:1", "t", options={name: "hush"})
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("name", ["transactional.id", "bootstrap.servers", "acks", "isolation.level", "partitioner"])
def test_settings_of_the_sink_itself_are_refused(name: str) -> None:
    with pytest.raises(JobDefinitionError, match="is decided by"):
        KafkaSink("h:1", "t", options={name: "1"})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("", "t", {}), "no server or no topic"),
        (("h:1", "", {}), "no server or no topic"),
        (("h:1", "t", {"key": "k", "partition": "k"}), "names a column twice"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: Any, said: str) -> None:
    servers, topic, options = arguments
    with pytest.raises(JobDefinitionError, match=said):
        KafkaSink(servers, topic, **options)


def test_certificates_are_no_secrets() -> None:
    KafkaSink("h:1", "t", options={"ssl.ca.pem": "-----BEGIN", "ssl.certificate.pem": "-----BEGIN"})


def test_settings_of_the_sink_itself_are_refused_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTATE_KAFKA_ACKS", "1")
    with pytest.raises(JobDefinitionError, match="LAKESTATE_KAFKA_ACKS"):
        client_settings("h:1", {})


def test_secrets_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESTATE_KAFKA_SASL_PASSWORD", "hush")
    monkeypatch.setenv("LAKESTATE_KAFKA_LINGER_MS", "1")
    assert client_settings("h:1", {"linger.ms": "2"}) == {
        "bootstrap.servers": "h:1", "sasl.password": "hush", "linger.ms": "2", "reconnect.backoff.max.ms": "1000",
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "key": "k",
            "value": "k",
            "options": {"compression.type": "zstd", "enable.sasl.oauthbearer.unsecure.jwt": True},
        },
        {"key": "k", "headers": "h", "partition": "p", "topic_column": "t", "prefix": "shop"},
    ],
)
def test_a_manifest_has_all_that_a_restore_without_the_code_needs(options: Any) -> None:
    sink = KafkaSink("a:1,b:2", "counts", **options)
    known = recorded_as("out", sink)
    assert (known.kind, known.table) == ("kafka", "a:1,b:2/counts")
    again = opened(known)
    assert isinstance(again, KafkaSink)
    assert (again.address, again.options) == (sink.address, sink.options)


def test_names_of_markers() -> None:
    assert re.fullmatch(r"lakestate-marker\.job\.out\.[0-9a-f]{8}", topic_of("lakestate", SinkName("job", "out")))
    assert topic_of("x", SinkName("a.b", "c")) != topic_of("x", SinkName("a", "b.c"))
    assert transactional_id("shop", SinkName("job", "out")) == "shop/job/out"
    odd, other = topic_of("lakestate", SinkName("jöb", "out")), topic_of("lakestate", SinkName("job", "öut"))
    assert odd != other
    assert len(topic_of("lakestate", SinkName("j" * 128, "o" * 128))) < 249
    marker = SinkMarker((1 << 60) - 1, 3, 12)
    assert decoded(encoded(marker)) == marker
    with pytest.raises(KafkaSinkError, match="no marker"):
        decoded(b"1 2")
