"""Reminders for unpaid orders: one operator with timers that act when no record comes.

    orders ── by customer ──> Customer ── reminders
                                  ├── cancelled (side output)
                                  └── returned (side output)

For an unpaid order a reminder is sent after one day and after three, and it is cancelled after seven. These are days of
event time: a stream that is replayed in a minute sends the same reminders as one that took a month. Each record is an
order that was placed, or a payment; a payment for an order that is not open is returned.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from lakestate.examples.orders.data import SCHEMA
from state_engine.api import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    RuntimeContext,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.spark import DeltaSink, StreamJob

SCHEDULE = (timedelta(days=1), timedelta(days=3), timedelta(days=7))
"""How long an order has been unpaid when a reminder is sent; after the last time it is cancelled instead."""

PAID_IS_KNOWN = Time.days(14)
RECENT = timedelta(days=7)
REMINDED_KEPT = 5

REMINDERS = (
    "event_time timestamp, customer string, order_id string, reminder bigint, amount bigint, "
    "orders bigint, owed bigint, recent bigint"
)
CANCELLED = OutputTag(
    "cancelled", "event_time timestamp, customer string, order_id string, amount bigint, placed_at timestamp"
)
RETURNED = OutputTag(
    "returned", "event_time timestamp, seq bigint, customer string, order_id string, amount bigint, reason string"
)


class Order(NamedTuple):
    """An order that is not paid, and the number of reminders that were sent for it."""

    amount: int
    placed_at: datetime
    reminders: int

    def due(self) -> datetime:
        """Returns when its next reminder, or its cancellation, is due."""
        return self.placed_at + SCHEDULE[self.reminders]


class Customer(KeyedProcessFunction):
    """What one customer has ordered and not paid."""

    def open(self, runtime_context: RuntimeContext) -> None:
        order = Types.ROW_NAMED(list(Order._fields), [Types.LONG(), Types.INSTANT(), Types.LONG()])
        paid = MapStateDescriptor("paid", Types.STRING(), Types.INSTANT())
        paid.enable_time_to_live(StateTtlConfig.new_builder(PAID_IS_KNOWN).use_event_time().build())

        self.orders = runtime_context.get_state(ValueStateDescriptor("orders", Types.LONG()))
        self.unpaid = runtime_context.get_map_state(MapStateDescriptor("unpaid", Types.STRING(), order))
        self.paid = runtime_context.get_map_state(paid)
        self.reminded = runtime_context.get_list_state(ListStateDescriptor("reminded", Types.INSTANT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if value.kind == "placed":
            self.orders.update((self.orders.value() or 0) + 1)
            self.keep(value.order_id, Order(value.amount, value.event_time, 0), ctx)
        elif self.unpaid.contains(value.order_id):
            # Its timer is not deleted, since another order of this customer may be due at the same time. For this order
            # the timer will do nothing.
            self.unpaid.remove(value.order_id)
            self.paid.put(value.order_id, value.event_time)
        else:
            reason = "paid twice" if self.paid.contains(value.order_id) else "not open"
            yield RETURNED, (value.event_time, value.seq, value.customer, value.order_id, value.amount, reason)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        now = datetime.fromtimestamp(timestamp / 1_000, UTC)
        unpaid = {order_id: Order(*order) for order_id, order in sorted(self.unpaid.items())}
        due = {order_id: order for order_id, order in unpaid.items() if order.due() <= now}

        for order_id, order in due.items():
            if order.reminders == len(SCHEDULE) - 1:
                self.unpaid.remove(order_id)
                del unpaid[order_id]
                yield CANCELLED, (now, ctx.get_current_key(), order_id, order.amount, order.placed_at)

        owed = sum(order.amount for order in unpaid.values())
        for order_id, order in due.items():
            if order_id not in unpaid:
                continue
            self.keep(order_id, order._replace(reminders=order.reminders + 1), ctx)
            yield (
                now,
                ctx.get_current_key(),
                order_id,
                order.reminders + 1,
                order.amount,
                self.orders.value(),
                owed,
                self.recent(now),
            )

    def keep(self, order_id: str, order: Order, ctx: KeyedProcessFunction.Context) -> None:
        """Stores an unpaid order, and registers a timer for when it is due."""
        self.unpaid.put(order_id, order)
        ctx.timer_service().register_event_time_timer(round(order.due().timestamp() * 1_000))

    def recent(self, now: datetime) -> int:
        """Returns how many of the last reminders, with this one, were sent within `RECENT`."""
        times = [*self.reminded.get(), now]
        if len(times) <= REMINDED_KEPT:
            self.reminded.add(now)  # logs one element; update logs the whole list
        else:
            times = times[-REMINDED_KEPT:]
            self.reminded.update(times)
        return sum(at > now - RECENT for at in times)


def build(spark: SparkSession, root: str, options: Mapping[str, str]) -> StreamJob:
    """Returns the job.

    Args:
        spark: The session that runs it.
        root: Folder of the state, the manifests and the checkpoints.
        options: `input`, the folder of Parquet files; `tables`, the folder of the output tables; `files_per_epoch`
            (1); `checkpoint_interval_ms` (2000).
    """
    job = StreamJob(
        "orders",
        root=root,
        parallelism=3,
        max_parallelism=48,
        checkpoint_interval_ms=int(options.get("checkpoint_interval_ms", "2000")),
        state_backend="rocksdb",
    )
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", options.get("files_per_epoch", "1"))
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("event_time")
    orders = job.from_stream(source.parquet(options["input"]), name="orders").assign_timestamps_and_watermarks(in_order)

    reminders = orders.key_by("customer", order_by=["seq"]).process(Customer(), REMINDERS, uid="customer")
    tables = options["tables"]
    reminders.sink_to(DeltaSink(f"{tables}/reminders"), uid="reminders")
    reminders.get_side_output(CANCELLED).sink_to(DeltaSink(f"{tables}/cancelled"), uid="cancelled")
    reminders.get_side_output(RETURNED).sink_to(DeltaSink(f"{tables}/returned"), uid="returned")
    return job


__all__ = ["Customer", "Order", "build"]
