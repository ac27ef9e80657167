"""A job with two sinks in PostgreSQL in a process of its own, which tests kill:  postgres_job.py FOLDER URI SCHEMA

It counts how often each key came: `log` gets each count, `latest` the last one of each key.
"""

import sys
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.spark import PostgresSink, StreamJob, local_session

NAME = "to-postgres"


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value.n, value.k, count


def job_of(spark: Any, folder: Path, uri: str, schema: str) -> StreamJob:
    """Builds the job; each epoch reads one file."""
    stream = spark.readStream.schema("n bigint, k bigint").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    job = StreamJob(NAME, root=str(folder / "root"), parallelism=2)
    counts = (
        job.from_stream(stream).key_by("k", order_by=["n"]).process(Count(), "n bigint, k bigint, c bigint", uid="c")
    )
    counts.sink_to(PostgresSink("log", uri, schema=schema), uid="log")
    counts.sink_to(PostgresSink("latest", uri, schema=schema, mode="upsert", keys=["k"]), uid="latest")
    return job


def main() -> None:
    folder, uri, schema = sys.argv[1:]
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    client = job_of(local_session("postgres-job", memory="1g"), Path(folder), uri, schema).start(available_now=True)
    client.await_termination()


if __name__ == "__main__":
    main()
