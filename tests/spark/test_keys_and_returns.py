"""Keys of several columns, null keys, functions without keys, and the ways in which a function may return rows."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import Count, Input, assert_counts, by_n, count_job, newest, run_all, state_of

from state_engine.api import KeyedProcessFunction, OutputTag, ProcessFunction, Row, Types, ValueStateDescriptor
from state_engine.inspect import read_state
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark


def test_a_key_of_two_columns_either_of_which_may_be_null(spark, tmp_path: Path) -> None:
    class Keys(Count):
        def process_element(self, value: Any, ctx: Any) -> Any:
            assert ctx.get_current_key() == (value.k, value.sub)
            return super().process_element(value, ctx)

    source = Input(tmp_path / "in").add_many(1)
    df = source.stream(spark).selectExpr("n", "k", "nullif(sub, 's1') as sub")
    root, name = tmp_path / "root", "two-columns"
    run_all(count_job(df, root, name, function=Keys(), key=["k", "sub"], parallelism=3))
    expected = Counter((row.k, None if row.sub == "s1" else row.sub) for row in source.all)
    table = read_state(str(root), name, "count", "count").to_pylist()
    assert {(row["k"], row["sub"]): row["value"] for row in table} == expected
    assert len(table) == len(expected)


def test_a_null_key_is_a_key_like_any(spark, tmp_path: Path) -> None:
    source = Input(tmp_path / "in").add_many(1)
    run_all(count_job(source.stream(spark), tmp_path / "root", "null-key", parallelism=5))
    nulls = sum(1 for row in source.all if row.k is None)
    assert nulls
    assert state_of(tmp_path / "root", "null-key", "count", "count")[None] == nulls


KEYS = [
    "cast(n % 5 as tinyint)",
    "cast(n % 5 as smallint)",
    "cast(n % 5 as int)",
    "n % 5",
    "n % 2 = 0",
    "cast(concat('b', n % 5) as binary)",
    "date_add(date'2024-01-01', cast(n % 5 as int))",
    "timestamp_seconds(n % 5)",
    "cast(n % 5 as decimal(12,2))",
    "cast(n % 5 as decimal(30,2))",
]


def test_every_type_of_key(spark, tmp_path: Path) -> None:
    """All types are in one key, so that one job is enough; a restart finds every key again."""

    class Total(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.total.update((self.total.value() or 0) + 1)
            return [(value.n, self.total.value())]

    source = Input(tmp_path / "in").add_many(1)
    columns = [f"c{i}" for i in range(len(KEYS))]
    root = tmp_path / "root"

    def job(parallelism: int) -> StreamJob:
        df = source.stream(spark).selectExpr("n", *(f"{k} as {c}" for k, c in zip(KEYS, columns, strict=True)))
        job = StreamJob("key-types", root=str(root), parallelism=parallelism, max_parallelism=13)
        stream = job.from_stream(df).key_by(*columns, order_by=["n"])
        stream.process(Total(), "n bigint, total bigint", uid="total").sink_to(MemorySink("key-types"), uid="out")
        return job

    run_all(job(2))
    source.add_many(1)
    run_all(job(3))
    seen: Counter[int] = Counter()
    expected = []
    for row in source.all:
        seen[row.n % 10] += 1
        expected.append((row.n, seen[row.n % 10]))
    assert by_n(MemorySink("key-types").rows()) == expected


def test_a_function_without_keys(spark, tmp_path: Path) -> None:
    odd = OutputTag("odd", "n bigint")

    class Split(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            if value.n % 2:
                yield odd, (value.n,)
            else:
                yield {"n": value.n, "k": value.k}
                yield Row(value.n, "twice")

    source = Input(tmp_path / "in").add_many(1)
    job = StreamJob("no-keys", root=str(tmp_path / "root"), parallelism=3)
    split = job.from_stream(source.stream(spark)).process(Split(), "n bigint, k string", uid="split")
    split.get_side_output(odd).sink_to(MemorySink("no-keys-odd"), uid="odd-out")
    split.key_by("k", order_by=["n"]).process(Count(), "n bigint, k string, times bigint", uid="count").sink_to(
        MemorySink("no-keys"), uid="count-out"
    )
    run_all(job)
    assert [n for (n,) in by_n(MemorySink("no-keys-odd").rows())] == [r.n for r in source.all if r.n % 2]
    even = [r for r in source.all if r.n % 2 == 0]
    assert sorted(r["times"] for r in MemorySink("no-keys").rows() if r["k"] == "twice") == [*range(1, len(even) + 1)]
    assert len(newest(tmp_path / "root", "no-keys").operators["split"].acks) == 3


def test_generators_lists_tuples_dicts_rows_and_nothing(spark, tmp_path: Path) -> None:
    class Ways(Count):
        def process_element(self, value: Any, ctx: Any) -> Any:
            [(n, k, count)] = super().process_element(value, ctx)
            match n % 5:
                case 0:
                    return iter([(n, k, count)])
                case 1:
                    return ((n, k, count),)
                case 2:
                    return [{"n": n, "k": k, "times": count}]
                case 3:
                    return [Row(n=n, k=k, times=count)]
            return [[n, k, count]]

    class Nothing(Count):
        def process_element(self, value: Any, ctx: Any) -> Any:
            super().process_element(value, ctx)

    source = Input(tmp_path / "in").add_many(1)
    run_all(count_job(source.stream(spark), tmp_path / "root", "ways", function=Ways()))
    assert_counts(tmp_path / "root", "ways", source.all)
    run_all(count_job(source.stream(spark), tmp_path / "root", "nothing", function=Nothing()))
    assert MemorySink("nothing").rows() == []
    assert sum(state_of(tmp_path / "root", "nothing", "count", "count").values()) == len(source.all)
