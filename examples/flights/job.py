"""Punctuality of aircraft and carriers: two operators with state, one downstream of the other.

    flights ── by tailnum ──> Aircraft ── legs ──> by carrier ──> Carriers ── carriers
                                 └── no_tailnum (side output)

A *leg* is a flight that departed. Each operator emits one row per leg; each output is a Delta table. Both read
their records in the stream's total order, so the outputs do not depend on parallelism, nor on where epochs are cut.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from lakestate.examples.flights.data import ORDER, SCHEMA
from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.spark import DeltaSink, StreamJob

LATE_MINUTES = 15
ROLLING_LEGS = 5

LEGS = (
    "event_time timestamp, carrier string, flight int, origin string, tailnum string, dest string, arr_delay double, "
    "legs bigint, cancelled bigint, rolling_delay double, late_streak bigint, route_legs bigint"
)
CARRIERS = (
    "event_time timestamp, carrier string, flight int, origin string, "
    "legs bigint, late_legs bigint, worst_late_streak bigint"
)
NO_TAILNUM = OutputTag(
    "no_tailnum", "event_time timestamp, carrier string, flight int, origin string, dest string, dep_time int"
)


class Aircraft(KeyedProcessFunction):
    """What one aircraft has done so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.legs = runtime_context.get_state(ValueStateDescriptor("legs", Types.LONG()))
        self.cancelled = runtime_context.get_reducing_state(
            ReducingStateDescriptor("cancelled", lambda a, b: a + b, Types.LONG())
        )
        self.rolling_delay = runtime_context.get_list_state(ListStateDescriptor("rolling_delay", Types.DOUBLE()))
        self.late_streak = runtime_context.get_state(ValueStateDescriptor("late_streak", Types.LONG()))
        self.routes = runtime_context.get_map_state(MapStateDescriptor("routes", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if value.tailnum is None:
            yield NO_TAILNUM, (value.event_time, value.carrier, value.flight, value.origin, value.dest, value.dep_time)
            return
        if value.dep_time is None:
            self.cancelled.add(1)
            return

        legs = (self.legs.value() or 0) + 1
        self.legs.update(legs)
        route_legs = (self.routes.get(value.dest) or 0) + 1
        self.routes.put(value.dest, route_legs)
        delays = self.recent_delays(value.arr_delay)

        yield (
            value.event_time,
            value.carrier,
            value.flight,
            value.origin,
            value.tailnum,
            value.dest,
            value.arr_delay,
            legs,
            self.cancelled.get() or 0,
            sum(delays) / len(delays) if delays else None,
            self.streak(value.arr_delay),
            route_legs,
        )

    def recent_delays(self, arr_delay: float | None) -> list[float]:
        """Returns the last known delays, oldest first, with that of this leg."""
        delays = list(self.rolling_delay.get())
        if arr_delay is None:
            return delays
        delays.append(arr_delay)
        if len(delays) <= ROLLING_LEGS:
            self.rolling_delay.add(arr_delay)  # logs one element; update logs the whole list
        else:
            delays = delays[-ROLLING_LEGS:]
            self.rolling_delay.update(delays)
        return delays

    def streak(self, arr_delay: float | None) -> int:
        """Returns how many legs in a row were late; a leg that never arrived changes nothing."""
        streak = self.late_streak.value() or 0
        if arr_delay is not None:
            streak = streak + 1 if arr_delay > LATE_MINUTES else 0
            self.late_streak.update(streak)
        return streak


class Record(NamedTuple):
    """The accumulator of a carrier."""

    legs: int = 0
    late_legs: int = 0
    worst_late_streak: int = 0


class CarrierRecord(AggregateFunction):
    """Adds up legs, given as (late, late_streak)."""

    def create_accumulator(self) -> Any:
        return Record()

    def add(self, value: tuple[bool, int], accumulator: Any) -> Any:
        late, streak = value
        legs, late_legs, worst = accumulator
        return Record(legs + 1, late_legs + late, max(worst, streak))

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        a, b = Record(*acc_a), Record(*acc_b)
        return Record(a.legs + b.legs, a.late_legs + b.late_legs, max(a.worst_late_streak, b.worst_late_streak))


class Carriers(KeyedProcessFunction):
    """What one carrier has done so far; reads the rows of `Aircraft`."""

    def open(self, runtime_context: RuntimeContext) -> None:
        accumulator = Types.ROW_NAMED(list(Record._fields), [Types.LONG(), Types.LONG(), Types.LONG()])
        self.record = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("record", CarrierRecord(), accumulator)
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        late = value.arr_delay is not None and value.arr_delay > LATE_MINUTES
        self.record.add((late, value.late_streak))
        record = self.record.get() or Record()
        yield value.event_time, value.carrier, value.flight, value.origin, *record


def build(spark: SparkSession, root: str, options: Mapping[str, str]) -> StreamJob:
    """Returns the job.

    Args:
        spark: The session that runs it.
        root: Folder of the state, the manifests and the checkpoints.
        options: `input`, the folder of Parquet files; `tables`, the folder of the output tables; `files_per_epoch`
            (1); `checkpoint_interval_ms` (2000).
    """
    job = StreamJob(
        "flights",
        root=root,
        parallelism=2,
        max_parallelism=128,
        checkpoint_interval_ms=int(options.get("checkpoint_interval_ms", "2000")),
    )
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", options.get("files_per_epoch", "1"))
    flights = job.from_stream(source.parquet(options["input"]), name="flights")
    order, tables = list(ORDER), options["tables"]

    legs = flights.key_by("tailnum", order_by=order).process(Aircraft(), LEGS, uid="aircraft")
    legs.sink_to(DeltaSink(f"{tables}/legs"), uid="legs")
    legs.get_side_output(NO_TAILNUM).sink_to(DeltaSink(f"{tables}/no_tailnum"), uid="no_tailnum")

    carriers = legs.key_by("carrier", order_by=order).process(Carriers(), CARRIERS, uid="carrier")
    carriers.sink_to(DeltaSink(f"{tables}/carriers"), uid="carriers")
    return job


__all__ = ["Aircraft", "CarrierRecord", "Carriers", "build"]
