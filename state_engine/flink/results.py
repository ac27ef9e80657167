"""The results of a program: that of a job, and the elements of a stream."""

from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.flink.elements import elements_of
from state_engine.flink.nodes import Node, SinkEntry
from state_engine.spark.graph.sinks import EpochId, MemorySink

if TYPE_CHECKING:
    from state_engine.flink.environment import StreamExecutionEnvironment
    from state_engine.spark.driver.client import JobClient
    from state_engine.spark.job import StreamJob

_POLL_S = 0.05


class JobExecutionResult:
    """The result of a job that has ended; PyFlink's class of the same name, without accumulators.

    Args:
        job_id: The name of the job.
        net_runtime: How long it ran, in ms.
    """

    def __init__(self, job_id: str, net_runtime: int) -> None:
        self._job_id = job_id
        self._net_runtime = net_runtime

    def get_job_id(self) -> str:
        """Returns the name of the job, under which its state is stored."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Returns how long the job ran, in ms."""
        return self._net_runtime

    def is_job_execution_result(self) -> bool:
        """Returns True."""
        return True

    def __repr__(self) -> str:
        return f"JobExecutionResult({self._job_id!r}, {self._net_runtime} ms)"


class CloseableIterator:
    """Elements of a running job, as its epochs are sealed; PyFlink's class of the same name.

    If the job fails, the iterator raises the job's error. Closing the iterator stops the job.
    """

    def __init__(self, client: "JobClient", sink: "Collecting", columns: StructType) -> None:
        self._client = client
        self._sink = sink
        self._columns = columns
        self._elements = self._collected()

    def _collected(self) -> Iterator[Any]:
        last, ended = -1, False
        while not ended:
            ended = self._client.await_termination(_POLL_S)  # if so, look once more: the last epoch may just have come
            # Only epochs of this run: a start delivers again what the run before it may not have delivered.
            sealed = [summary.epoch for summary in self._client.epochs_after(last)]
            tables = {id_.epoch: table for id_, table in self._sink.epochs().items()}
            for epoch in sealed:
                last = epoch
                if epoch in tables:
                    yield from elements_of(tables[epoch], self._columns)
            self._sink.drop(last)

    def __iter__(self) -> "CloseableIterator":
        return self

    def __next__(self) -> Any:
        return next(self._elements)

    def next(self) -> Any:
        """Returns the next element; raises StopIteration after the last one."""
        return next(self)

    def close(self) -> None:
        """Stops the job, if it still runs, and drops the elements."""
        if self._client.state == "RUNNING":
            self._client.stop()
        self._sink.clear()
        self._elements = iter(())

    def __enter__(self) -> "CloseableIterator":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class Collecting:
    """The memory sink that collects a job's elements. Its name is fixed per job, as a job identifies sinks by name."""

    def __init__(self) -> None:
        self._sink: MemorySink | None = None

    def __call__(self, job: "StreamJob") -> MemorySink:
        self._sink = MemorySink(f"execute_and_collect {job.root}/{job.name}")
        self._sink.clear()
        return self._sink

    def epochs(self) -> dict[EpochId, pa.Table]:
        """Returns the collected elements, by epoch."""
        return {} if self._sink is None else self._sink.epochs

    def drop(self, epoch: int) -> None:
        """Drops the elements of all epochs up to this one."""
        if self._sink is not None:
            self._sink.remove(lambda id_: id_.epoch <= epoch)

    def clear(self) -> None:
        """Drops all elements."""
        if self._sink is not None:
            self._sink.clear()


def collect(
    env: "StreamExecutionEnvironment", node: Node, job_name: str | None, limit: int | None
) -> "CloseableIterator | list[Any]":
    """Runs a program and returns the elements of one of its streams."""
    if limit is not None and limit < 1:
        raise JobDefinitionError(f"execute_and_collect() got limit={limit}.", action="Give a number above 0.")
    columns = node.columns("execute_and_collect()")
    sink = Collecting()
    env.add(SinkEntry(node, sink, uid="collect", quiet=True))
    elements = CloseableIterator(env.start(job_name or "DataStream Collect")[0], sink, columns)
    if limit is None:
        return elements
    with elements:
        return list(islice(elements, limit))


__all__ = ["CloseableIterator", "JobExecutionResult", "collect"]
