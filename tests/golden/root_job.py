"""The job of the golden roots: every kind of state, as a function of the numbers of its records.

A root that is kept was written by these jobs, so what they do with a record stays as it is. A later kind of state is
a job of its own, which older roots do not have.
"""

import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from state_engine.api import (
    Aggregate,
    AggregateFunction,
    AggregatingStateDescriptor,
    CheckpointedFunction,
    Duration,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    TimeDomain,
    TypeCodec,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.api.windows import EventTimeSessionWindows, TumblingEventTimeWindows
from state_engine.key_groups import key_group_of
from state_engine.spark import DeltaSink, DiscardingSink, StreamJob

NAME, FILED, FORK = "golden", "golden-files", "golden-fork"
KEY_GROUPS = 7
KEYS = ("ann", "bob", "zoë", None)
PER_FILE = 10
SECOND = 1000
YEAR_2100 = 4_102_444_800_000
EVENT = "n bigint, k string, v int, price decimal(10,2), x double, at bigint"
RULE = "n bigint, name string, limit bigint"
OUTPUT = "n bigint, k string, what string, times bigint, brief bigint"
RECORDS = OutputTag("records", EVENT)
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


# Input ------------------------------------------------------------------------------------------------------------


class Event(NamedTuple):
    """A record of the events; everything follows from its number, its event time is a second per number."""

    n: int
    k: str | None
    v: int
    price: Decimal
    x: float
    at: int


def event(n: int) -> Event:
    return Event(n, KEYS[n % 4], n * 7 % 5, Decimal(25 * n) / 100, n / 8, SECOND * n)


def events_of(file: int) -> list[Event]:
    return [event(n) for n in range(PER_FILE * file, PER_FILE * (file + 1))]


def rules_of(file: int) -> list[tuple[int, str, int]]:
    """Returns two rules; the limit -1 removes a rule."""
    return [(2 * file, f"rule {file}", 100 + file), (2 * file + 1, f"rule {file - 2}", -1)]


def add_file(folder: Path, file: int) -> None:
    """Writes the events and rules of one epoch, with times of modification that follow each other."""
    prices = pa.decimal128(10, 2)
    types = [pa.int64(), pa.string(), pa.int32(), prices, pa.float64(), pa.int64()]
    events = pa.table({name: pa.array(values, type) for name, values, type in zip(
        Event._fields, zip(*events_of(file), strict=True), types, strict=True)})  # fmt: skip
    numbers, names, limits = zip(*rules_of(file), strict=True)
    rules = pa.table({"n": numbers, "name": names, "limit": limits})
    for side, table in (("events", events), ("rules", rules)):
        path = folder / side / f"part-{file:04d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f".{path.name}")
        pq.write_table(table, hidden)
        os.utime(hidden, (1_700_000_000 + file,) * 2)
        hidden.rename(path)


# Functions --------------------------------------------------------------------------------------------------------


class Money(NamedTuple):
    """A class with a codec."""

    cents: int
    currency: str


class MoneyCodec(TypeCodec[Money]):
    version = 1
    stored_type = "struct<cents:bigint,currency:string>"

    def encode(self, value: Money) -> Any:
        return value.cents, value.currency

    def decode(self, stored: Any, version: int) -> Money:
        return Money(stored.cents, stored.currency)


TYPES = {
    "boolean": Types.BOOLEAN(),
    "tiny": Types.BYTE(),
    "small": Types.SHORT(),
    "int": Types.INT(),
    "long": Types.LONG(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "integer": Types.BIG_INT(),
    "decimal": Types.BIG_DEC(20, 4),
    "text": Types.STRING(),
    "bytes": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "date": Types.SQL_DATE(),
    "local": Types.SQL_TIMESTAMP(),
    "instant": Types.INSTANT(),
    "array": Types.LIST(Types.INT()),
    "struct": Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LIST(Types.DOUBLE())]),
    "map": Types.MAP(Types.STRING(), Types.LONG()),
    "null": Types.STRING(),
}


def values_of(n: int) -> dict[str, Any]:
    """Returns a value of each type."""
    local = datetime(2024, 2, 29, 12, 30, 15, 123456) + timedelta(days=n)
    return {
        "boolean": n % 2 == 0,
        "tiny": n - 128,
        "small": n - 32768,
        "int": n - 2**31,
        "long": n - 2**63,
        "float": n / 4,
        "double": n / 3,
        "integer": 10**30 + n,
        "decimal": Decimal(n) / 16,
        "text": f"№ {n}",
        "bytes": bytes([0, 255, n]),
        "date": local.date(),
        "local": local,
        "instant": local.replace(tzinfo=UTC),
        "array": [n, None, -n],
        "struct": {"a": f"a{n}", "b": [n / 2]},
        "map": {"one": n, "two": 2 * n},
        "null": None,
    }


class Mean(AggregateFunction):
    """Sums and counts."""

    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + (value if isinstance(value, int) else value.n), accumulator[1] + 1)

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[0] / accumulator[1])

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


SUM_AND_COUNT = Types.ROW_NAMED(["total", "count"], [Types.LONG(), Types.LONG()])
LASTING = StateTtlConfig.new_builder(Time.days(200 * 365)).disable_cleanup_in_background().build()
BRIEF = StateTtlConfig.new_builder(Time.milliseconds(1)).disable_cleanup_in_background().build()
BY_EVENT_TIME = StateTtlConfig.new_builder(Time.days(1)).use_event_time().disable_cleanup_in_background().build()


def expiring(descriptor: Any, ttl: StateTtlConfig) -> Any:
    descriptor.enable_time_to_live(ttl)
    return descriptor


class Kinds(KeyedProcessFunction, CheckpointedFunction):
    """All states that a function can have: keyed, with a time to live, of the operator, raw; and timers."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.stored = store.get_list_state(ListStateDescriptor("numbers", Types.LONG()))
        self.counts = store.get_union_list_state(ListStateDescriptor("counts", Types.LONG()))
        self.numbers = list(self.stored)
        self.count = 0
        self.raw = {g.get_key_group_id(): json.load(g.get_stream()) for g in context.get_raw_keyed_state_inputs()}
        self.parts = [part.get_stream().read() for part in context.get_raw_operator_state_inputs()]

    def open(self, runtime_context: Any) -> None:
        types = Types.ROW_NAMED(list(TYPES), list(TYPES.values()))
        value = runtime_context.get_state
        self.times = value(ValueStateDescriptor("times", Types.LONG()))
        self.all_types = value(ValueStateDescriptor("all_types", types))
        self.price = value(ValueStateDescriptor("price", Types.BIG_DEC(10, 2)))
        self.moment = value(ValueStateDescriptor("moment", Types.INSTANT()))
        self.money = value(ValueStateDescriptor("money", MoneyCodec()))
        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", Types.LONG()))
        self.texts = runtime_context.get_list_state(ListStateDescriptor("texts", Types.STRING()))
        self.by_v = runtime_context.get_map_state(MapStateDescriptor("by_v", Types.INT(), Types.LONG()))
        pair = Types.ROW_NAMED(["v", "odd"], [Types.INT(), Types.BOOLEAN()])
        self.by_pair = runtime_context.get_map_state(MapStateDescriptor("by_pair", pair, Types.LIST(Types.LONG())))
        self.highest = runtime_context.get_reducing_state(ReducingStateDescriptor("highest", max, Types.DOUBLE()))
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean(), SUM_AND_COUNT))
        self.lasting = value(expiring(ValueStateDescriptor("lasting", Types.LONG()), LASTING))
        self.brief = value(expiring(ValueStateDescriptor("brief", Types.LONG()), BRIEF))
        self.by_event = value(expiring(ValueStateDescriptor("by_event", Types.LONG()), BY_EVENT_TIME))
        self.lasting_list = runtime_context.get_list_state(
            expiring(ListStateDescriptor("lasting_list", Types.INT()), LASTING)
        )
        self.lasting_map = runtime_context.get_map_state(
            expiring(MapStateDescriptor("lasting_map", Types.INT(), Types.STRING()), LASTING)
        )

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        n, brief = value.n, self.brief.value()
        times = (self.times.value() or 0) + 1
        self.times.update(times)
        self.all_types.update(values_of(n))
        self.price.update(value.price)
        self.moment.update(values_of(n)["instant"])
        self.money.update(Money(n, "EUR"))
        self.recent.add(n)
        if len(recent := list(self.recent.get())) > 2:
            self.recent.update(recent[-2:])
        self.texts.add(f"№ {n}")
        self.by_v.put(value.v, n)
        self.by_pair.put((value.v, n % 2 == 1), [n, -n])
        if self.by_pair.contains((value.v - 1, n % 2 == 1)):
            self.by_pair.remove((value.v - 1, n % 2 == 1))
        self.highest.add(value.x)
        self.mean.add(n)
        for state in (self.lasting, self.brief, self.by_event):
            state.update(n)
        self.lasting_list.add(n)
        self.lasting_map.put(value.v, f"№ {n}")
        timers = ctx.timer_service()
        timers.register_event_time_timer(ctx.timestamp() + 5 * SECOND)
        timers.register_processing_time_timer(YEAR_2100 + n)
        if times > 2:
            timers.delete_processing_time_timer(YEAR_2100 + n - 8)
        self.numbers.append(n)
        self.count += 1
        group = key_group_of([value.k], ["string"], KEY_GROUPS)
        counts = self.raw.setdefault(group, {})
        counts[json.dumps(value.k)] = times
        yield RECORDS, (n, value.k, value.v, value.price, value.x, value.at)
        yield n, value.k, "record", times, brief

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if ctx.time_domain() is TimeDomain.EVENT_TIME:
            yield timestamp // SECOND - 5, ctx.get_current_key(), "event", None, None
        else:
            yield timestamp - YEAR_2100, ctx.get_current_key(), "processing", None, None

    def snapshot_state(self, context: Any) -> None:
        self.stored.update(self.numbers)
        if self.count:
            self.counts.add(self.count)
            self.parts.append(json.dumps(self.count).encode())
        self.count = 0
        groups = context.get_raw_keyed_operator_state_output()
        for group, counts in sorted(self.raw.items()):
            groups.start_new_key_group(group)
            groups.write(json.dumps(counts, sort_keys=True).encode())
        parts = context.get_raw_operator_state_output()
        for part in self.parts:
            parts.start_new_partition()
            parts.write(part)


class Rules(KeyedBroadcastProcessFunction):
    """Broadcast state beside a keyed one."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.seen.update((self.seen.value() or 0) + 1)
        return [(value.n, self.seen.value())]

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        if value.limit < 0:
            rules.remove(value.name)
        else:
            rules.put(value.name, value.limit)


# The jobs ---------------------------------------------------------------------------------------------------------


def golden_job(spark: Any, folder: Path, **options: Any) -> StreamJob:
    """Builds the job over `in/`, with its state below `state/` and its sinks below `out/`."""
    per_epoch = options.pop("files_per_epoch", 1)
    job = StreamJob(NAME, root=str(folder / "state"), **{"parallelism": 2, "max_parallelism": KEY_GROUPS, **options})

    def read(side: str, columns: str) -> Any:
        reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", per_epoch)
        return job.from_stream(reader.parquet(str(folder / "in" / side)), side)

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_column("at")
    events = read("events", EVENT).assign_timestamps_and_watermarks(strategy)
    kinds = events.key_by("k", order_by=["n"]).process(Kinds(), OUTPUT, uid="kinds")
    kinds.sink_to(DeltaSink(folder / "out" / "kinds"), uid="kinds-out")
    records = kinds.get_side_output(RECORDS)
    rules = read("rules", RULE).broadcast(RULES)
    ruled = records.key_by("v", order_by=["n"]).connect(rules).process(Rules(), "n bigint, seen bigint", uid="ruled")
    declared = declared_operators(records)
    for uid in ("tumbling", "near"):
        declared.pop(uid).sink_to(DeltaSink(folder / "out" / uid), uid=f"{uid}-out")
    for uid, stream in {"ruled": ruled, **declared}.items():
        stream.sink_to(DiscardingSink(), uid=f"{uid}-out")
    return job


def declared_operators(records: Any) -> dict[str, Any]:
    """Returns windows, and the operators without a function, by uid."""
    by_k = records.key_by("k", order_by=["n"])
    sessions = by_k.window(EventTimeSessionWindows.with_gap(Time.seconds(6))).aggregate(
        Mean(), accumulator_type=SUM_AND_COUNT, output_type="mean double", uid="sessions"
    )
    tumbling = by_k.window(TumblingEventTimeWindows.of(Time.seconds(16))).aggregate(
        {"records": Aggregate.count(), "total": Aggregate.sum("price")}, uid="tumbling"
    )
    totals = {
        "n": Aggregate.count(),
        "total": Aggregate.sum("price"),
        "mean": Aggregate.avg("x"),
        "least": Aggregate.min("n"),
        "most": Aggregate.max("x"),
        "spread": Aggregate.stddev("n"),
        "first": Aggregate.first("n"),
        "last": Aggregate.last("n"),
        "all": Aggregate.collect("n"),
        "different": Aggregate.approx_count_distinct("n"),
        "median": Aggregate.approx_quantile("x", 0.5),
    }
    homes = by_k.latest(by="n", changelog=True, uid="homes")
    one = records.select("k", "n as one").key_by("k")
    other = records.select("k", "n as other").key_by("k")
    near = one.interval_join(other).between(Time.seconds(-4), Time.seconds(4)).join("inner", uid="near")
    return {
        "sessions": sessions,
        "tumbling": tumbling,
        "totals": records.key_by("k", "v", order_by=["n"]).aggregate(totals, uid="totals"),
        "once": records.key_by("v", order_by=["n"]).deduplicate(uid="once"),
        "leaders": by_k.top_n(2, by="price", uid="leaders"),
        "people": homes.key_by("v").aggregate(
            {"people": Aggregate.count(), "highest": Aggregate.max("price")}, retract=True, uid="people"
        ),
        "near": near,
    }


class Count(KeyedProcessFunction):
    """Counts the records of a key; an earlier version of this function counted in an `int`."""

    def __init__(self, type_of_count: Any) -> None:
        self.type_of_count = type_of_count

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", self.type_of_count))
        self.texts = runtime_context.get_list_state(ListStateDescriptor("texts", Types.STRING()))

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.texts.add("long " * 40 + str(value.n))
        return [(value.n, self.count.value())]


def filed_job(spark: Any, folder: Path, name: str = FILED, type_of_count: Any = None, **options: Any) -> StreamJob:
    """Builds a small job over the same events; it is started with a checkpoint storage of files, and forked."""
    job = StreamJob(name, root=str(folder / "state"), **{"parallelism": 2, "max_parallelism": KEY_GROUPS, **options})
    reader = spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1)
    events = job.from_stream(reader.parquet(str(folder / "in" / "events")))
    counted = events.key_by("k", order_by=["n"]).process(
        Count(type_of_count or Types.LONG()), "n bigint, count bigint", uid="count"
    )
    counted.sink_to(DiscardingSink(), uid="out")
    return job
