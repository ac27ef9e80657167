"""A job with branches that meet again and two ends, and its expected output, computed by a plain loop.

```
 records ─> tally ┬─────────────────────────────> totals
                  ├─ where, map ───> often ──┬──> met
                  └─ (negative) ─> losses ───┘
```
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from support import COUNTS, NEGATIVE, TALLY, TOTALS, Count, Record, Tally, Totals, counted, state_of, truth

from state_engine.spark import MemorySink, StreamJob

Rows = list[tuple[Any, ...]]


class Branches(NamedTuple):
    """Outputs of the job's operators, in order of `n`."""

    tally: Rows
    negative: Rows
    totals: Rows
    often: Rows
    losses: Rows
    met: Rows


def expected(rows: Iterable[Record]) -> Branches:
    """Runs the job as a plain loop."""
    tally, negative, totals, _ = truth(rows)
    often = times_of((n, k) for n, k, _, times, *_ in tally if times % 3 == 0)
    losses = times_of((n, k) for n, k, _ in negative)
    met = times_of((n, k) for n, k, _ in (*often, *losses))
    return Branches(tally, negative, totals, often, losses, met)


def times_of(rows: Iterable[tuple[int, Any]]) -> Rows:
    """Returns the output of `Count` for rows with `n` and `k`."""
    return counted(Record(n, k, "", 0) for n, k in sorted(rows))


def branch_job(
    df: Any,
    root: Path,
    name: str,
    *,
    parallelism: int = 2,
    sink: Any = None,
    first: Any = None,
    mapped: Any = None,
    **options: Any,
) -> StreamJob:
    """Builds the job, with a sink on every output.

    Args:
        df: The records.
        root: The state root.
        name: Of the job.
        parallelism: Of all operators.
        sink: Makes a sink from the name of an output; by default one in memory.
        first: Another function for the first operator.
        mapped: Another function for the `map` before `often`.
        options: Of the job.
    """
    job = StreamJob(name, root=str(root), parallelism=parallelism, **options)
    add_branches(job.from_stream(df), sink or (lambda output: MemorySink(f"{name}-{output}")), first, mapped)
    return job


def add_branches(stream: Any, sink: Any, first: Any = None, mapped: Any = None) -> None:
    """Adds the operators, and a sink on every output; the arguments are those of `branch_job`."""
    tally = stream.key_by("k", order_by=["n"]).process(first or Tally(), TALLY, uid="tally")
    negative = tally.get_side_output(NEGATIVE)
    totals = tally.key_by("sub", order_by=["n"]).process(Totals(), TOTALS, uid="totals")
    thirds = tally.where("times % 3 = 0").map(mapped or (lambda row: (row.n, row.k)), "n bigint, k string")
    often = thirds.key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="often")
    losses = negative.select("n", "k").key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="losses")
    both = often.union(losses).key_by("k", order_by=["n"]).process(Count(), COUNTS, uid="met")
    for output, of_output in zip(Branches._fields, (tally, negative, totals, often, losses, both), strict=True):
        of_output.sink_to(sink(output), uid=f"{output}-out")


def check_state(root: Path, name: str, rows: Iterable[Record]) -> None:
    """Compares the state of all operators after the first one with the truth."""
    wanted = expected(rows)
    for uid in ("often", "losses", "met"):
        assert state_of(root, name, uid, "count") == {k: n for _, k, n in getattr(wanted, uid)}, uid
    assert state_of(root, name, "totals", "total", key="sub") == truth(rows).states["total"]
