"""`KafkaSink` keeps what every sink in a system with transactions must do."""

import json

import pytest
from kafka_reader import read_topic

from lakestate.up.broker import KafkaBroker
from state_engine.spark import KafkaSink
from state_engine.testing.sink_suite import SinkSubject, SinkSuite

pytestmark = pytest.mark.slow


class TestKafkaSink(SinkSuite):
    @pytest.fixture
    def subject(self, broker: KafkaBroker, topic: str) -> SinkSubject:
        def rows() -> list[tuple[str, int]]:
            records = read_topic(broker.servers, topic)
            return [(one.key().decode(), json.loads(one.value())["n"]) for one in records]

        return SinkSubject(KafkaSink(broker.servers, topic, key="k", prefix=topic), rows)
