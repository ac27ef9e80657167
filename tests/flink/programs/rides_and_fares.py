"""Rides joined with their fares in a function: event-time timers, time to live, a side output for unmatched ones.

from pyflink.common import Duration, Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, RuntimeContext, StreamExecutionEnvironment, TimeDomain
from pyflink.datastream.functions import KeyedCoProcessFunction, KeySelector
from pyflink.datastream.state import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
"""

from state_engine.flink import (
    Duration,
    KeyedCoProcessFunction,
    KeySelector,
    ListStateDescriptor,
    OutputTag,
    Row,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Time,
    TimeDomain,
    TimestampAssigner,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)

RIDE = Types.ROW_NAMED(["id", "ts", "city"], [Types.LONG(), Types.LONG(), Types.STRING()])
FARE = Types.ROW_NAMED(["id", "ts", "amount"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])
UNMATCHED = OutputTag("unmatched", Types.STRING())


class Assign(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.ts


class ById(KeySelector):
    def get_key(self, value):
        return value.id


class Join(KeyedCoProcessFunction):
    def open(self, ctx: RuntimeContext):
        ttl = (
            StateTtlConfig.new_builder(Time.days(1))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .cleanup_incrementally(10, True)
            .build()
        )
        descriptor = ValueStateDescriptor("ride", RIDE)
        descriptor.enable_time_to_live(ttl)
        self.ride = ctx.get_state(descriptor)
        self.fare = ctx.get_state(ValueStateDescriptor("fare", Types.DOUBLE()))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", Types.TUPLE([Types.LONG(), Types.STRING()])))

    def process_element1(self, value, ctx: KeyedCoProcessFunction.Context):
        fare = self.fare.value()
        self.seen.add((value.ts, "ride"))
        if fare is not None:
            self.fare.clear()
            yield Row(value.id, value.city, fare)
        else:
            self.ride.update(value)
            ctx.timer_service().register_event_time_timer(value.ts + 1000)

    def process_element2(self, value, ctx):
        ride = self.ride.value()
        self.seen.add((value.ts, "fare"))
        if ride is not None:
            self.ride.clear()
            yield Row(ride.id, ride.city, value.amount)
        else:
            self.fare.update(value.amount)
            ctx.timer_service().register_event_time_timer(value.ts + 1000)

    def on_timer(self, timestamp, ctx: KeyedCoProcessFunction.OnTimerContext):
        assert ctx.time_domain() == TimeDomain.EVENT_TIME
        if self.ride.value() is not None:
            yield UNMATCHED, f"ride {ctx.get_current_key()} at {timestamp}, seen {list(self.seen.get())}"
            self.ride.clear()
        if self.fare.value() is not None:
            yield UNMATCHED, f"fare {ctx.get_current_key()}"
            self.fare.clear()


def rides_and_fares():
    env = StreamExecutionEnvironment.get_execution_environment()
    ws = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(Assign())
    rides = env.from_collection([Row(1, 1000, "Rome"), Row(2, 2000, "Oslo"), Row(3, 2500, "Bonn")], type_info=RIDE)
    fares = env.from_collection([Row(2, 2100, 7.5), Row(1, 1100, 3.5), Row(4, 1100, 3.5)], type_info=FARE)
    joined = (
        rides.assign_timestamps_and_watermarks(ws)
        .connect(fares.assign_timestamps_and_watermarks(ws))
        .key_by(ById(), ById(), key_type=Types.LONG())
        .process(Join(), output_type=Types.ROW([Types.LONG(), Types.STRING(), Types.DOUBLE()]))
    )
    joined.get_side_output(UNMATCHED).print("unmatched")
    joined.print()
    env.execute("rides and fares")


if __name__ == "__main__":
    rides_and_fares()
