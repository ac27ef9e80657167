"""A broker with TLS and SASL: secrets come from the environment, and are in no file, error or explanation."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_reader import read_topic
from whole_job import BATCH, WholeJob

from lakestate.up.broker import KafkaBroker
from lakestate.up.checks import any_kafka_port
from state_engine.errors import SinkError
from state_engine.savepoint.restore import JobRestore
from state_engine.spark import KafkaSink
from state_engine.spark.graph.nodes import SinkNode
from state_engine.spark.sinks.recorded import RecordedSinks

pytestmark = [pytest.mark.slow, pytest.mark.long]
PASSWORD = "an-umbrella-in-July"
VARIABLE = "LAKESTATE_KAFKA_SASL_PASSWORD"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key in front, as Kafka wants it."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    return certificate


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, certificate: Path) -> Iterator[KafkaBroker]:
    port = any_kafka_port()
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings: dict[str, str | int] = {
        "listeners": f"SASL_SSL://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "advertised.listeners": f"SASL_SSL://127.0.0.1:{port}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": (
            f'{login} username="broker" password="of-the-broker" user_broker="of-the-broker" user_loader="{PASSWORD}";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate.with_name("both.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate),
    }
    broker = KafkaBroker(tmp_path_factory.mktemp("secured"), port, settings)
    broker.start()
    yield broker
    broker.stop()


class SecuredJob(WholeJob):
    def __init__(self, folder: Path, broker: KafkaBroker, topic: str, certificate: Path) -> None:
        super().__init__(folder)
        self.options = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "loader",
            "ssl.ca.location": str(certificate),
        }
        self.sink = KafkaSink(broker.servers, topic, prefix=topic, options=self.options)

    def sinks(self) -> list[SinkNode]:
        return [SinkNode("out", "main", self.sink)]


@pytest.fixture
def job(tmp_path: Path, secured: KafkaBroker, topic: str, certificate: Path) -> SecuredJob:
    return SecuredJob(tmp_path, secured, topic, certificate)


def test_a_job_with_the_password_writes_and_without_it_is_refused(
    job: SecuredJob, secured: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    job.start().steps(2).sinks.close()
    before = job.log().generations()

    monkeypatch.setattr("state_engine.connectors.kafka.connection._SECONDS", 3.0)
    for wrong in ("another", None):
        if wrong is None:
            monkeypatch.delenv(VARIABLE)
        else:
            monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(SinkError) as raised:
            job.start()
        assert PASSWORD not in str(raised.value)
        restore = JobRestore(job.root, job.name, "epoch:1/2", RecordedSinks, keep_output=True, validate=False)
        with pytest.raises(SinkError, match="cannot ask the Kafka topic"):
            restore.run()
    assert job.log().generations() == before, "a restore that was refused has written nothing"

    monkeypatch.setenv(VARIABLE, PASSWORD)
    JobRestore(job.root, job.name, "latest", RecordedSinks, validate=False).run()
    job.start().steps(1).sinks.close()
    found = read_topic(secured.servers, topic, **{**job.options, "sasl.password": PASSWORD})
    assert sorted(json.loads(one.value())["n"] for one in found) == list(range(3 * BATCH))
    for file in Path(job.root).rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes(), f"the password is in {file}"


def test_a_certificate_that_is_not_trusted_is_named(
    job: SecuredJob, secured: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    monkeypatch.setattr("state_engine.connectors.kafka.connection._SECONDS", 3.0)
    options = {name: value for name, value in job.options.items() if name != "ssl.ca.location"}
    job.sink = KafkaSink(secured.servers, topic, prefix=topic, options=options)
    with pytest.raises(
        SinkError, match=r"cannot check the Kafka topic.*(certificate verify failed|SSL handshake failed)"
    ):
        job.start()
    assert not list(Path(job.root).rglob("*.json"))
