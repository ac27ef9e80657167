"""Values that expire in a real stream, by a clock that the test moves: in caches, after restarts, in state tables."""

from pathlib import Path
from typing import Any

import pytest
from support import Ahead, Input, Record, count_job, newest, wait_for

from state_engine.api import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.inspect import open_job, read_state
from state_engine.spark import MemorySink

pytestmark = pytest.mark.spark
HOUR = 3_600_000


class Mortal(KeyedProcessFunction):
    """Emits what a value, a list and a map have seen of a key: as hundreds, tens and ones."""

    def __init__(self, config: StateTtlConfig) -> None:
        self.config = config

    def open(self, runtime_context: RuntimeContext) -> None:
        count = ValueStateDescriptor("count", Types.LONG())
        visits = ListStateDescriptor("visits", Types.LONG())
        values = MapStateDescriptor("values", Types.LONG(), Types.LONG())
        for descriptor in (count, visits, values):
            descriptor.enable_time_to_live(self.config)
        self.count = runtime_context.get_state(count)
        self.visits = runtime_context.get_list_state(visits)
        self.values = runtime_context.get_map_state(values)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> list[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.visits.add(value.n)
        self.values.put(value.v, value.n)
        seen = 100 * count + 10 * len(list(self.visits.get())) + len(list(self.values.keys()))
        return [(value.n, ctx.get_current_key(), seen)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("state_engine.spark.driver.client.SystemClock", Ahead)
    return lambda ms: monkeypatch.setattr(Ahead, "by_ms", ms)


def visit(source: Input, client: Any, sink: MemorySink, n: int, key: str) -> int:
    """Adds a record of a key; returns what the key's states have seen."""
    source.add([Record(n, key, "", n)])
    wait_for(lambda: client.exception or any(row["n"] == n for row in sink.rows()), f"record {n}")
    return next(int(row["times"]) for row in sink.rows() if row["n"] == n)


def test_values_expire_one_by_one_also_across_a_restart(spark, tmp_path: Path, started, clock: Any) -> None:
    name, source, root = "mortal", Input(tmp_path / "in"), tmp_path / "root"
    sink = MemorySink(name)

    def start() -> Any:
        job = count_job(
            source.stream(spark), root, name, sink, Mortal(StateTtlConfig.new_builder(Time.hours(1)).build())
        )
        return started(job.start(trigger_interval_ms=50))

    client = start()
    assert visit(source, client, sink, 0, "a") == 111
    clock(HOUR // 2)
    assert visit(source, client, sink, 1, "a") == 222
    clock(HOUR + 1_000)
    assert visit(source, client, sink, 2, "a") == 322, "the first element and entry have expired, the value has not"
    client.stop()

    clock(HOUR + HOUR // 2 + 5_000)
    client = start()
    assert visit(source, client, sink, 3, "a") == 422
    clock(4 * HOUR)
    assert visit(source, client, sink, 4, "a") == 111
    assert visit(source, client, sink, 5, "b") == 111
    (schema,) = [schema for schema in newest(root, name).schemas if schema.name == "count"]
    assert schema.ttl.milliseconds == HOUR
    assert schema.unknown_until is None


def test_a_full_checkpoint_drops_keys_that_never_come_again(spark, tmp_path: Path, started, clock: Any) -> None:
    name, source, root = "mortal-tables", Input(tmp_path / "in"), tmp_path / "root"
    sink = MemorySink(name)
    builder = StateTtlConfig.new_builder(Time.hours(1)).disable_cleanup_in_background()
    job = count_job(source.stream(spark), root, name, sink, Mortal(builder.cleanup_full_snapshot().build()))
    client = started(job.start(trigger_interval_ms=50))
    for n, key in enumerate("abc"):
        assert visit(source, client, sink, n, key) == 111
    clock(2 * HOUR)
    client.trigger_checkpoint()
    assert visit(source, client, sink, 3, "a") == 111
    wait_for(lambda: [row for row in open_job(str(root), name).checkpoints() if row.status == "completed"], "one")
    for state in ("count", "visits", "values"):
        assert set(read_state(str(root), name, "count", state).column("k").to_pylist()) == {"a"}


def test_keys_that_never_come_again_leave_rocksdb_with_the_epochs(spark, tmp_path: Path, started, clock: Any) -> None:
    name, source, root = "mortal-rocksdb", Input(tmp_path / "in"), tmp_path / "root"
    sink, keys = MemorySink(name), 6
    config = StateTtlConfig.new_builder(Time.hours(1)).cleanup_in_rocksdb_compact_filter(2).build()
    job = count_job(source.stream(spark), root, name, sink, Mortal(config), parallelism=1, state_backend="rocksdb")
    client = started(job.start(trigger_interval_ms=50))
    source.add([Record(n, f"k{n}", "", n) for n in range(keys)])
    wait_for(lambda: client.exception or len(sink.rows()) == keys, "all records")
    clock(2 * HOUR)
    left = []
    for _ in range(4):  # the next epoch reports the size without the entries that an epoch removes
        (ack,) = client.run_idle_epoch().manifest.operators["count"].acks
        left.append({one.name: one.rows for one in ack.statistics})
    assert left == [dict.fromkeys(("count", "visits", "values"), rows) for rows in (6, 4, 2, 0)]
    client.stop()
    assert read_state(str(root), name, "count", "count").num_rows == 0
