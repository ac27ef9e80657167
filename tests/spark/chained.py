"""A job of operators that share tasks, with a sink on every output, and what a plain loop gives for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support import COUNTS, Count, Input, Record, by_n, state_of

from state_engine.api import (
    CheckpointedFunction,
    ListStateDescriptor,
    OutputTag,
    ProcessFunction,
    Types,
)
from state_engine.inspect import read_state
from state_engine.spark import MemorySink, StreamJob

ODD = OutputTag("odd", "n bigint, k string")
OPERATORS = ("double", "positive", "count", "split", "label", "last")


class Split(ProcessFunction, CheckpointedFunction):
    """Sends odd counts to a side output; operator state keeps the number of rows."""

    def initialize_state(self, context: Any) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.seen = sum(self.state.get())

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.seen += 1
        n, k, times = value
        yield ((ODD, (n, k))) if times % 2 else (n, k, times)

    def snapshot_state(self, context: Any) -> None:
        self.state.update([self.seen])


def chained_job(
    df: Any,
    root: Path,
    name: str,
    *,
    chaining: bool = True,
    reuse: bool = False,
    parallelism: int = 2,
    fails_at: int = -1,
) -> StreamJob:
    """Builds a job that has nothing but the chain; its memory sinks have the name of the job before theirs."""
    job = StreamJob(name, root=str(root), parallelism=parallelism, operator_chaining=chaining)
    add_chain(job.from_stream(df), name, reuse=reuse, fails_at=fails_at)
    return job


def add_chain(stream: Any, sinks: str, *, reuse: bool = False, fails_at: int = -1) -> None:
    """Adds two operators, a keyed one, two more, and a keyed one at the end; a sink on every output."""

    def label(row: Any) -> Any:
        if row[0] == fails_at:
            raise ValueError("no label for this")
        return (row[0], f"{row[1]}!", row[2])

    doubled = stream.map(lambda row: (row.n, row.k, row.v * 2), "n bigint, k string, v bigint", uid="double")
    positive = doubled.filter(lambda row: row[2] > 0, uid="positive")
    count = positive.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="count")
    split = count.process(Split(), COUNTS, uid="split")
    labelled = split.map(label, COUNTS, uid="label")
    last = labelled.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="last")
    streams = (doubled, positive, count, split, labelled, last)
    for uid, of_uid in zip(OPERATORS, streams, strict=True):
        of_uid.sink_to(MemorySink(f"{sinks}-{uid}"), uid=f"{uid}-out")
        if reuse:
            of_uid.enable_object_reuse()
    split.get_side_output(ODD).sink_to(MemorySink(f"{sinks}-odd"), uid="odd-out")


def outputs(name: str) -> dict[str, list[Any]]:
    return {uid: by_n(MemorySink(f"{name}-{uid}").rows()) for uid in (*OPERATORS, "odd")}


def expected(rows: list[Record]) -> dict[str, list[Any]]:
    """Computes the expected outputs by a plain loop."""
    doubled = [(r.n, r.k, r.v * 2) for r in sorted(rows)]
    positive = [row for row in doubled if row[2] > 0]
    count, last = [], []
    times: dict[Any, int] = {}
    for n, k, _ in positive:
        times[k] = times.get(k, 0) + 1
        count.append((n, k, times[k]))
    even = [row for row in count if row[2] % 2 == 0]
    labelled = [(n, f"{k}!", t) for n, k, t in even]
    again: dict[Any, int] = {}
    for n, k, _ in labelled:
        again[k] = again.get(k, 0) + 1
        last.append((n, k, again[k]))
    odd = [(n, k) for n, k, t in count if t % 2]
    results = (doubled, positive, count, even, labelled, last)
    return {**{uid: sorted(rows) for uid, rows in zip(OPERATORS, results, strict=True)}, "odd": sorted(odd)}


def assert_all(root: Path, name: str, rows: list[Record], sinks: str | None = None) -> None:
    """Compares every output, and the states, with the loop; the sinks have the name of the job, or another one."""
    truth = expected(rows)
    actual = outputs(sinks or name)
    for uid, of_output in truth.items():
        assert actual[uid] == of_output, uid
    newest_of = {k: times for _, k, times in truth["count"]}
    assert state_of(root, name, "count", "count") == newest_of
    assert state_of(root, name, "last", "count") == {k: times for _, k, times in truth["last"]}
    seen = read_state(str(root), name, "split", "seen").to_pylist()
    assert sum(row["value"] for row in seen) == len(truth["count"])


def with_keys(source: Input, files: int) -> list[Record]:
    """Adds records without null keys; the job doubles values, so only their sign decides which ones pass."""
    for _ in range(files):
        first = len(source.all)
        source.add([Record(n, f"k{n % 7}", "s", n % 5 - 1) for n in range(first, first + 40)])
    return source.all
