"""PyFlink's example of event-time timers.

from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
"""

from state_engine.flink import (
    Duration,
    KeyedProcessFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    TimestampAssigner,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)


class Sum(KeyedProcessFunction):
    def __init__(self):
        self.state = None

    def open(self, runtime_context: RuntimeContext):
        state_descriptor = ValueStateDescriptor("state", Types.DOUBLE())
        self.state = runtime_context.get_state(state_descriptor)

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        # retrieve the current count
        current = self.state.value()
        if current is None:
            current = 0.0

        # update the state's count
        current += value[2]
        self.state.update(current)

        # register an event time timer 2 seconds later
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext"):
        yield ctx.get_current_key(), self.state.value()


class MyTimestampAssigner(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return int(value[0])


def event_timer_timer_demo():
    env = StreamExecutionEnvironment.get_execution_environment()

    ds = env.from_collection(
        collection=[
            (1000, "Alice", 110.0),
            (4000, "Bob", 30.0),
            (3000, "Alice", 20.0),
            (2000, "Bob", 53.0),
            (5000, "Alice", 13.0),
            (3000, "Bob", 3.0),
            (7000, "Bob", 16.0),
            (10000, "Alice", 20.0),
        ],
        type_info=Types.TUPLE([Types.LONG(), Types.STRING(), Types.DOUBLE()]),
    )

    ds = ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(
            MyTimestampAssigner()
        )
    )

    # apply the process function onto a keyed stream
    ds.key_by(lambda value: value[1]).process(Sum()).print()

    # submit for execution
    env.execute()


if __name__ == "__main__":
    event_timer_timer_demo()
