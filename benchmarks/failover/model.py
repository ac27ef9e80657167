"""The data types of `failover`: a case, the reported row, and its limits."""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from benchmarks.latency.model import Engine
from benchmarks.model import Verdict

FAILOVER = "failover"
ENGINES: tuple[Engine, ...] = ("lakestate/row", "lakestate/row/rocksdb", "spark/delta", "spark/transformWithState")
PEER_KEYS = 10_000
"""The peers have this number of keys: `transformWithState` takes minutes for more."""
Killed = Literal["driver", "worker"]


class FailoverCase(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one engine.

    Attributes:
        engine: What runs.
        keys: Number of keys, all of which have state before the first kill.
        kills: How often each is killed.
        work: Empty folder.
    """

    engine: Engine
    keys: int
    kills: int
    work: str


class FailoverRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report; these fields are the JSON object.

    Attributes:
        workload: `FAILOVER`.
        engine: What ran.
        keys: Number of keys with state.
        killed: `driver`: the driver, its JVM and all workers, and the same program is started again at once. `worker`:
            one Python worker with state; the epoch is run again.
        kills: How often.
        seconds: From the kill to the first rows in the table of records that came after it; the median.
        worst_seconds: The longest.
        results_equal: Whether each row came once, with the right count, after all kills.
    """

    workload: str = FAILOVER
    engine: str
    keys: int
    killed: Killed
    kills: int
    seconds: float
    worst_seconds: float
    results_equal: bool


class FailoverLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One pause is at most `at_most` times another: each an engine, a number of keys, and what is killed."""

    of: tuple[Engine, int, Killed]
    to: tuple[Engine, int, Killed]
    at_most: float


def judge_failover(limits: Sequence[FailoverLimit], rows: Sequence[FailoverRow]) -> Iterator[Verdict]:
    """Yields a verdict for each limit; none when nothing was run."""
    by_case = {(row.engine, row.keys, row.killed): row for row in rows}
    for limit in limits if rows else ():
        name = f"{FAILOVER}: {_named(limit.of)} at most {limit.at_most:g} times {_named(limit.to)}"
        missing = tuple(_named(case) for case in (limit.of, limit.to) if case not in by_case)
        if missing:
            yield Verdict(name, None, False, "not measured in this run", missing)
            continue
        pair = by_case[limit.of], by_case[limit.to]
        measured = pair[0].seconds / pair[1].seconds
        if wrong := [_named((row.engine, row.keys, row.killed)) for row in pair if not row.results_equal]:
            yield Verdict(name, measured, False, "wrong results: " + ", ".join(wrong))
        else:
            yield Verdict(name, measured, measured <= limit.at_most)


def _named(case: tuple[str, int, str]) -> str:
    engine, keys, killed = case
    return f"{engine} with {keys:,} keys, {killed} killed"


__all__ = [
    "ENGINES",
    "FAILOVER",
    "PEER_KEYS",
    "FailoverCase",
    "FailoverLimit",
    "FailoverRow",
    "Killed",
    "judge_failover",
]
