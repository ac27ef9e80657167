"""Jobs that pages take as given, with Spark: their input, and how a test runs them."""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from state_engine.api import KeyedProcessFunction, MapStateDescriptor, Types, ValueStateDescriptor
from state_engine.spark import DeltaSink, JobClient, StreamJob

FLIGHTS = "tailnum string, route string"


def write(folder: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds a file of JSON lines to a folder."""
    Path(folder).mkdir(exist_ok=True)
    number = len([*Path(folder).iterdir()])
    Path(folder, f"{number:04d}.json").write_text("\n".join(map(json.dumps, rows)))


def stream(spark: Any, folder: str, columns: str) -> Any:
    """Returns a folder of JSON lines as a stream, one file per epoch."""
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).json(folder)


class Aircraft(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.routes = runtime_context.get_map_state(MapStateDescriptor("routes", Types.STRING(), Types.LONG()))

    def process_element(self, value, ctx):
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        self.routes.put(value.route, (self.routes.get(value.route) or 0) + 1)
        yield value.tailnum, n


class FlightsJob:
    """A job as pages start it, again and again: `flights`, or one that goes on from its state under another name.

    A start with `restore=` runs until it has read its input, and a start without it runs on. Before each start the job
    is built anew, as a program that is started again does it.
    """

    def __init__(self, spark: Any, name: str = "flights", uid: str = "aircraft") -> None:
        self._spark, self._name, self._uid = spark, name, uid
        self.clients: list[JobClient] = []

    def build(self) -> StreamJob:
        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import from this folder
        job = StreamJob(self._name, root="state", parallelism=2)
        flights = job.from_stream(stream(self._spark, "flights", FLIGHTS)).key_by("tailnum")
        counts = flights.process(Aircraft(), "tailnum string, n bigint", uid=self._uid)
        counts.sink_to(DeltaSink(f"tables/{self._name}"), uid="counts")
        return job

    def start(self, **options: Any) -> JobClient:
        self.clients.append(self.build().start(available_now="restore" in options, **options))
        if "restore" in options:
            assert self.clients[-1].await_termination(60)
        return self.clients[-1]

    def checkpointed(self) -> None:
        """Runs the job over the input that there is, and publishes its state as a checkpoint."""
        client = self.build().start()
        client.query.processAllAvailable()
        client.trigger_checkpoint().result(60)
        client.stop()

    def stop(self) -> None:
        """Ends what a page has left running."""
        for client in self.clients:
            if client.state == "RUNNING":
                client.stop()
