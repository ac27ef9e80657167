"""The running count in PyFlink; runs in PyFlink's own environment, which has none of Lakestate's packages.

Arguments: a folder of CSV files of keys, a folder for what was seen, the parallelism, the state backend (hashmap or
rocksdb), the checkpoint interval in ms, a folder for checkpoints. It runs in thread mode, the faster one.
"""

import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.table import StreamTableEnvironment

NOTED_EVERY = 1000


class Count(KeyedProcessFunction):
    """Counts; notes the times, and sums of what it emits by which all of it is compared."""

    def __init__(self, seen: str) -> None:
        self.seen = seen

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.times: list[float] = []
        self.records = self.sum = self.weighted = 0

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        self.sum += n
        self.weighted += n * value[0]
        self.records += 1
        if self.records % NOTED_EVERY == 0:
            self.times.append(time.time())
        yield value[0], n

    def close(self) -> None:
        told = {"records": self.records, "sum": self.sum, "weighted": self.weighted, "times": self.times}
        Path(self.seen, f"{uuid.uuid4().hex}.json").write_text(json.dumps(told))


def main(inputs: str, seen: str, parallelism: str, backend: str, interval: str, checkpoints: str) -> None:
    """Runs the job to its end."""
    settings = Configuration()
    settings.set_string("state.backend.type", backend)
    settings.set_string("execution.checkpointing.interval", f"{interval} ms")
    settings.set_string("execution.checkpointing.storage", "filesystem")
    settings.set_string("execution.checkpointing.dir", Path(checkpoints).as_uri())
    settings.set_string("execution.checkpointing.incremental", "true")
    settings.set_string("taskmanager.memory.managed.size", "512m")
    settings.set_string("taskmanager.numberOfTaskSlots", parallelism)
    settings.set_string("pipeline.object-reuse", "true")
    settings.set_string("python.execution-mode", "thread")
    settings.set_string("python.executable", sys.executable)
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    environment.set_parallelism(int(parallelism))
    tables = StreamTableEnvironment.create(environment)
    place = Path(inputs).as_uri()
    tables.execute_sql(
        f"CREATE TABLE clicks (k BIGINT) WITH ('connector' = 'filesystem', 'path' = '{place}', 'format' = 'csv')"
    )
    records = tables.to_data_stream(tables.from_path("clicks"))
    counted = records.key_by(lambda row: row[0], key_type=Types.LONG()).process(
        Count(seen), output_type=Types.TUPLE([Types.LONG(), Types.LONG()])
    )
    discard(counted)
    environment.execute("running count")


def discard(stream: Any) -> None:
    """Lets the rows go, in the JVM: PyFlink has no sink of that kind."""
    from pyflink.java_gateway import get_gateway

    sink = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    stream._j_data_stream.sinkTo(sink)


if __name__ == "__main__":
    main(*sys.argv[1:])
