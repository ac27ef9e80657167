"""A job of two sources that meet in one operator: orders, and the labels of their keys."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from support import Folders, by_n, state_of

from state_engine.api import KeyedCoProcessFunction, ListStateDescriptor, OutputTag, Types, ValueStateDescriptor
from state_engine.inspect import read_state
from state_engine.spark import MemorySink, StreamJob

JOINED = "n bigint, k string, v bigint, label string"
UNKNOWN = OutputTag("unknown", "n bigint, label string")


class Enrich(KeyedCoProcessFunction):
    """Joins orders with the label of their key. Orders wait for it, so nothing is lost, whichever side is first."""

    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_list_state(
            ListStateDescriptor("waiting", Types.ROW_NAMED(["n", "v"], [Types.LONG(), Types.LONG()]))
        )
        self.label = runtime_context.get_state(ValueStateDescriptor("label", Types.STRING()))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        label = self.label.value()
        if label is None:
            self.waiting.add((value.n, value.v))
        else:
            yield value.n, ctx.get_current_key(), value.v, label

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        if self.label.value() is not None:
            yield UNKNOWN, (value.n, value.label)
            return
        self.label.update(value.label)
        for n, v in self.waiting.get():
            yield n, value.account, v, value.label
        self.waiting.clear()


def enrich_job(spark: Any, folders: Folders, root: Path, name: str, sink: Any = None, **options: Any) -> StreamJob:
    """Builds a job that has nothing but the join."""
    job = StreamJob(name, root=str(root), **{"parallelism": 2, **options})
    orders, labels = (
        job.from_stream(source.stream(spark), name=of)
        for source, of in zip(folders.inputs, ("orders", "labels"), strict=True)
    )
    joined = enrich(orders, labels)
    joined.sink_to(sink or MemorySink(name), uid="out")
    joined.get_side_output(UNKNOWN).sink_to(MemorySink(f"{name}-unknown"), uid="unknown")
    return job


def enrich(orders: Any, labels: Any) -> Any:
    """Joins orders, by `k`, with one label per key, from the key's first record in the second stream."""
    labels = labels.select("concat('L', n) as label", "n", "k as account", "sub")
    connected = orders.select("n", "v", "k").connect(labels)
    return connected.key_by("k", "account", order_by1=["n"], order_by2=["n"]).process(Enrich(), JOINED, uid="enrich")


def check_enriched(root: Path, name: str, folders: Folders, rows: Sequence[tuple[Any, ...]] | None = None) -> None:
    """Compares output and state with a loop over both sides, whichever side came first.

    Records of the second folder have to come in order.

    Args:
        root: State root.
        name: The job.
        folders: Orders and labels.
        rows: The output, if it is not in the memory sink with the name of the job.
    """
    orders, labels = (source.all for source in folders.inputs)
    label: dict[Any, str] = {}
    for row in labels:
        label.setdefault(row.k, f"L{row.n}")
    output = by_n(MemorySink(name).rows()) if rows is None else rows
    assert output == sorted((row.n, row.k, row.v, label[row.k]) for row in orders if row.k in label)
    assert state_of(root, name, "enrich", "label") == label
    waiting = read_state(str(root), name, "enrich", "waiting").to_pylist()
    assert sorted(row["value"]["n"] for row in waiting) == [row.n for row in orders if row.k not in label]
    assert all({"k", "value"} <= set(row) for row in waiting)  # the key has the name that it has in the first input


__all__ = ["UNKNOWN", "check_enriched", "enrich", "enrich_job"]
