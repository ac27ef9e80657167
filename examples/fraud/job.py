"""Alerts for payments by card: states of several kinds, timers, records that are late or malformed, windows.

    payments ── by card ──> Card ── alerts ──> by merchant, five minutes ──> merchants
                             ├── sessions                   └── late_alerts (side output)
                             ├── late
                             └── malformed

A payment is suspicious if it is large for the card, from another country than one within the hour before, one of many
in a minute, or if the card has spent much at one merchant. A session of a card ends after 15 minutes of silence.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from state_engine.api import (
    Aggregate,
    Duration,
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
from state_engine.api.windows import TumblingEventTimeWindows
from state_engine.spark import DataStream, DeltaSink, StreamJob

LARGE = 8  # times the mean of the card's payments so far
KNOWN_AFTER = 5
MANY, MANY_WITHIN = 10, timedelta(minutes=1)
TRAVEL = timedelta(hours=1)
SPENT_LIMIT, SPENT_FOR = Decimal(1000), Time.hours(1)
SILENCE = timedelta(minutes=15)

FIELDS = "at timestamp, id bigint, card string, merchant string, country string, amount decimal(10,2)"
ALERTS = f"{FIELDS}, rule string, detail string"
SESSIONS = OutputTag("sessions", "card string, first timestamp, last timestamp, payments bigint, amount decimal(18,2)")
LATE = OutputTag("late", FIELDS)
MALFORMED = OutputTag("malformed", "line string, reason string")
LATE_ALERTS = OutputTag("late_alerts", ALERTS)

MONEY = Types.BIG_DEC(18, 2)


class Payment(NamedTuple):
    """What is kept of each of the last ten payments."""

    at: datetime
    merchant: str
    amount: Decimal


class Place(NamedTuple):
    """Where and when a card was used last."""

    country: str
    at: datetime


class Total(NamedTuple):
    """How many payments there were, and of how much."""

    payments: int = 0
    amount: Decimal = Decimal(0)


class Session(NamedTuple):
    """Payments of a card without a long silence between them."""

    first: datetime
    last: datetime
    payments: int
    amount: Decimal

    def timer(self) -> int:
        """Returns when it ends if no further payment comes, in ms since the Unix epoch."""
        return round((self.last + SILENCE).timestamp() * 1_000)


class Card(KeyedProcessFunction):
    """What one card has paid."""

    def open(self, runtime_context: RuntimeContext) -> None:
        time, text, long = Types.INSTANT(), Types.STRING(), Types.LONG()
        payment = Types.ROW_NAMED(list(Payment._fields), [time, text, MONEY])
        place = Types.ROW_NAMED(list(Place._fields), [text, time])
        total = Types.ROW_NAMED(list(Total._fields), [long, MONEY])
        session = Types.ROW_NAMED(list(Session._fields), [time, time, long, MONEY])
        spent = MapStateDescriptor("spent", text, MONEY)
        spent.enable_time_to_live(StateTtlConfig.new_builder(SPENT_FOR).use_event_time().build())

        self.recent = runtime_context.get_list_state(ListStateDescriptor("recent", payment))
        self.spent = runtime_context.get_map_state(spent)
        self.place = runtime_context.get_state(ValueStateDescriptor("place", place))
        self.total = runtime_context.get_state(ValueStateDescriptor("total", total))
        self.session = runtime_context.get_state(ValueStateDescriptor("session", session))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if reason := fault_of(value):
            line = value.malformed or json.dumps(value.as_dict(), default=str)
            yield MALFORMED, (line, reason)
            return
        payment = (value.at, value.id, value.card, value.merchant, value.country, value.amount)
        if is_late(ctx):
            yield LATE, payment
            return

        for rule, detail in (
            *self.is_large(value.amount),
            *self.is_far_away(value.country, value.at),
            *self.is_one_of_many(value.at, value.merchant, value.amount),
            *self.is_much_at_a_merchant(value.merchant, value.amount),
        ):
            yield *payment, rule, detail
        yield from self.extend_session(value, ctx)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        if (session := self.session.value()) is not None:
            yield self.end_session(ctx.get_current_key(), Session(*session))

    def is_large(self, amount: Decimal) -> Iterator[tuple[str, str]]:
        """Compares a payment with the mean of those before, and adds it to them."""
        payments, spent = Total(*(self.total.value() or Total()))
        self.total.update(Total(payments + 1, spent + amount))
        if payments >= KNOWN_AFTER and amount * payments > LARGE * spent:
            yield "large", f"{payments} payments before, of {spent}"

    def is_far_away(self, country: str, at: datetime) -> Iterator[tuple[str, str]]:
        """Compares the country of a payment with that of the one before."""
        before = self.place.value()
        self.place.update(Place(country, at))
        if before is not None and before.country != country and at - before.at < TRAVEL:
            yield "country", f"{before.country} to {country}"

    def is_one_of_many(self, at: datetime, merchant: str, amount: Decimal) -> Iterator[tuple[str, str]]:
        """Keeps the last ten payments, and looks how quickly they came."""
        payment, before = Payment(at, merchant, amount), list(self.recent.get())
        if len(before) < MANY:
            self.recent.add(payment)  # logs one element; update logs the whole list
        else:
            before = before[1:]
            self.recent.update([*before, payment])
        if len(before) == MANY - 1 and at - before[0].at <= MANY_WITHIN:
            yield "many", f"{MANY} payments since {before[0].at:%H:%M:%S}"

    def is_much_at_a_merchant(self, merchant: str, amount: Decimal) -> Iterator[tuple[str, str]]:
        """Adds up what the card has spent at a merchant, until it has not paid there for an hour."""
        spent = (self.spent.get(merchant) or Decimal(0)) + amount
        self.spent.put(merchant, spent)
        if spent > SPENT_LIMIT:
            yield "merchant", f"{spent} within the hour"

    def extend_session(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Adds a payment to the card's session, and moves the timer that ends it."""
        session = Session(value.at, value.at, 0, Decimal(0))
        if (stored := self.session.value()) is not None:
            current = Session(*stored)
            ctx.timer_service().delete_event_time_timer(current.timer())
            if value.at - current.last > SILENCE:
                yield self.end_session(value.card, current)
            else:
                session = current
        session = Session(
            min(session.first, value.at),
            max(session.last, value.at),
            session.payments + 1,
            session.amount + value.amount,
        )
        self.session.update(session)
        ctx.timer_service().register_event_time_timer(session.timer())

    def end_session(self, card: str, session: Session) -> tuple[OutputTag, tuple[Any, ...]]:
        """Forgets a session, and returns its row."""
        self.session.clear()
        return SESSIONS, (card, *session)


def fault_of(value: Any) -> str:
    """Returns what is wrong with a record; nothing if it is sound."""
    if value.malformed is not None:
        return "not a payment in JSON"
    missing = [name for name, field in value.as_dict().items() if field is None and name != "malformed"]
    return f"without {', '.join(missing)}" if missing else ""


def is_late(ctx: KeyedProcessFunction.Context) -> bool:
    """Returns whether the job has already acted on a later time."""
    time = ctx.timestamp()
    return time is not None and time <= ctx.timer_service().current_watermark()


def per_merchant(alerts: DataStream) -> DataStream:
    """Counts alerts in windows of five minutes. They wait ten seconds for alerts that are out of order."""
    in_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10)).with_timestamp_column("at")
    windows = (
        alerts.assign_timestamps_and_watermarks(in_time)
        .key_by("merchant")
        .window(TumblingEventTimeWindows.of(Time.minutes(5)))
        .side_output_late_data(LATE_ALERTS)
    )
    return windows.aggregate({"alerts": Aggregate.count(), "amount": Aggregate.sum("amount")}, uid="merchant")


def build(spark: SparkSession, root: str, options: Mapping[str, str]) -> StreamJob:
    """Returns the job.

    Args:
        spark: The session that runs it.
        root: Folder of the state, the manifests and the checkpoints.
        options: `input`, the folder of files with JSON lines; `tables`, the folder of the output tables.
    """
    job = StreamJob("fraud", root=root, parallelism=2, max_parallelism=128, checkpoint_interval_ms=2_000)
    source = spark.readStream.schema(f"{FIELDS}, malformed string")
    lines = source.option("columnNameOfCorruptRecord", "malformed").option("maxFilesPerTrigger", "1")
    # A malformed line has no time; one long ago does not move the watermark.
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(1)).with_timestamp_column(
        "coalesce(at, timestamp_millis(0))"
    )
    payments = job.from_stream(lines.json(options["input"]), name="payments").assign_timestamps_and_watermarks(by_time)

    alerts = payments.key_by("card", order_by=["id"]).process(Card(), ALERTS, uid="card")
    merchants = per_merchant(alerts)
    outputs = {
        "alerts": alerts,
        "sessions": alerts.get_side_output(SESSIONS),
        "late": alerts.get_side_output(LATE),
        "malformed": alerts.get_side_output(MALFORMED),
        "merchants": merchants,
        "late_alerts": merchants.get_side_output(LATE_ALERTS),
    }
    for name, stream in outputs.items():
        stream.sink_to(DeltaSink(f"{options['tables']}/{name}"), uid=name)
    return job


__all__ = ["Card", "build"]
