"""Which operators may read a changelog: those that retract, or that the author allows; the job refuses others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Input, run_all

from state_engine.api import (
    Aggregate,
    Duration,
    KeyedProcessFunction,
    Time,
    WatermarkStrategy,
)
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.errors import JobDefinitionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark

CHANGELOGS: dict[str, Callable[[Any], Any]] = {
    "latest": lambda keyed: keyed.latest(by="n", changelog=True, uid="changes"),
    "aggregate": lambda keyed: keyed.aggregate(
        {"n": Aggregate.count(), "v": Aggregate.sum("v")}, changelog=True, uid="changes"
    ),
    "top_n": lambda keyed: keyed.top_n(2, by="v", uid="changes"),
}
READERS: dict[str, Callable[[Any, str], Any]] = {
    "aggregate": lambda keyed, uid: keyed.aggregate({"total": Aggregate.sum("v")}, uid=uid),
    "deduplicate": lambda keyed, uid: keyed.deduplicate(uid=uid),
    "latest": lambda keyed, uid: keyed.latest(uid=uid),
    "sum": lambda keyed, uid: keyed.sum("v", uid=uid),
    "max_by": lambda keyed, uid: keyed.max_by("v", uid=uid),
}
QUICK = [
    ("latest", "aggregate"),
    ("aggregate", "deduplicate"),
    ("top_n", "latest"),
    ("latest", "sum"),
    ("aggregate", "max_by"),
]
"""Each changelog and each reader; the other pairs run in `make test-long`."""
PAIRS = [
    pytest.param(changelog, reader, marks=() if (changelog, reader) in QUICK else pytest.mark.long)
    for changelog in CHANGELOGS
    for reader in READERS
]


def keyed(spark: Any, tmp_path: Path, name: str = "job") -> Any:
    job = StreamJob(name, root=str(tmp_path / "root"), parallelism=2)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    stream = job.from_stream(Input(tmp_path / name).add_many(1).stream(spark))
    timed = stream.assign_timestamps_and_watermarks(strategy.with_timestamp_column("timestamp_millis(n)"))
    return timed.filter(lambda row: True, uid="all").key_by("k")


@pytest.mark.parametrize(("changelog", "reader"), PAIRS)
def test_what_would_take_its_rows_for_records_is_refused(
    spark: Any, tmp_path: Path, changelog: str, reader: str
) -> None:
    changes = CHANGELOGS[changelog](keyed(spark, tmp_path))
    without, more = changes.select("k", "v"), changes.with_column("w", "v + 1")
    text, field = changes.where("k <> 'op'"), changes.select("*", "named_struct('op', v).op as w")
    hyphen = changes.with_column("co-op", "1").with_column("more", "2")
    undecided = (changes, changes.select("*"), without, more, changes.where("v > 0"), text, field, hyphen)
    for n, stream in enumerate(undecided):
        with pytest.raises(
            JobDefinitionError, match=f"{reader}\\(\\) reads the changelog of operator 'changes'"
        ) as told:
            READERS[reader](stream.key_by("k"), f"reader-{n}")
        assert str(told.value).startswith(f"{reader}()")
        assert "op in ('+I', '+U')" in told.value.action


def test_windows_and_joins_are_too(spark: Any, tmp_path: Path) -> None:
    records = keyed(spark, tmp_path)
    changes = records.latest(by="n", changelog=True, uid="changes").key_by("k")
    with pytest.raises(JobDefinitionError, match="reads the changelog"):
        changes.window(TumblingEventTimeWindows.of(Time.seconds(1))).aggregate({"n": Aggregate.count()}, uid="windows")
    other = records.map(lambda row: (row.k, row.v), "k string, w bigint", uid="other").key_by("k")
    for n, (first, second) in enumerate(((changes, other), (other, changes))):
        with pytest.raises(JobDefinitionError, match=r"interval_join.* reads the changelog of operator 'changes'"):
            first.interval_join(second).between(Time.seconds(-1), Time.seconds(1)).join(uid=f"interval-{n}")
        with pytest.raises(JobDefinitionError, match=r"temporal_join.* reads the changelog of operator 'changes'"):
            first.temporal_join(second, uid=f"temporal-{n}")


def test_a_union_with_a_changelog_is_one(spark: Any, tmp_path: Path) -> None:
    records = keyed(spark, tmp_path)
    changes = records.latest(by="n", changelog=True, uid="changes").select("k", "v")
    others = records.map(lambda row: (row.k, row.v), "k string, v bigint", uid="others")
    with pytest.raises(JobDefinitionError, match="reads the changelog of operator 'changes'"):
        others.union(changes).key_by("k").deduplicate(uid="reader")


class Passing(KeyedProcessFunction):
    """Emits each record unchanged."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


def test_operators_that_retract_or_that_the_author_allows_may_read_it(spark: Any, tmp_path: Path) -> None:
    changes = keyed(spark, tmp_path).latest(by="n", changelog=True, uid="changes")
    changes.key_by("sub").aggregate({"n": Aggregate.count()}, retract=True, uid="taken-back")
    news = changes.where("op in ('+I', '+U')")
    news.key_by("k").deduplicate(uid="first")
    news.select("k", "v").key_by("k").latest(uid="newest")
    changes.map(lambda row: (row.k, row.v), "k string, v bigint").key_by("k").deduplicate(uid="of-a-map")
    signed = changes.select("k", "if(op in ('+I', '+U'), v, -v) as v").key_by("k")
    signed.aggregate({"total": Aggregate.sum("v")}, uid="signed")
    signed.sum("v", uid="signed-too")
    changes.select("k", "op as kind").where("kind = '+I'").key_by("k").deduplicate(uid="renamed")
    changes.with_column("new", "op = '+I'").where("new").key_by("k").deduplicate(uid="derived")
    nested = changes.with_column("s", "named_struct('op', v)").where("s.`op` = 1 and `op` = '+I'")
    nested.key_by("k").deduplicate(uid="beside-a-field")
    changes.with_column("it's", "v").where("`it's` > 1 and op = '+I'").key_by("k").deduplicate(uid="beside-a-name")
    changes.with_column("kind", "op").key_by("kind").aggregate({"rows": Aggregate.count()}, uid="rows-by-kind")
    own = changes.key_by("k").process(Passing(), "n bigint, k string, sub string, v bigint, op string", uid="own")
    own.key_by("k").deduplicate(uid="of-a-function")


def test_only_new_rows_are_counted_after_a_where(spark: Any, tmp_path: Path) -> None:
    """Each row that an epoch made the newest row of its key counts once."""
    source, name = Input(tmp_path / "in").add_many(3), "news"
    job = StreamJob(name, root=str(tmp_path / "root"), parallelism=2)
    changes = job.from_stream(source.stream(spark)).key_by("k").latest(by="n", changelog=True, uid="changes")
    news = changes.where("op in ('+I', '+U')").select("k", "n", "sub").key_by("sub")
    news.aggregate({"times": Aggregate.count()}, uid="times").sink_to(MemorySink(name), uid="out")
    run_all(job)
    wanted: dict[str, int] = {}
    for first in range(0, len(source.all), 60):
        newest = {row.k: row for row in sorted(source.all[first : first + 60])}
        for row in newest.values():
            wanted[row.sub] = wanted.get(row.sub, 0) + 1
    assert {row["sub"]: row["times"] for row in MemorySink(name).rows()} == wanted
