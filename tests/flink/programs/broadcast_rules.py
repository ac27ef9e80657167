"""Broadcast state: values above a limit that another stream sets for each key.

from pyflink.common import Types
from pyflink.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor
"""

from state_engine.flink import KeyedBroadcastProcessFunction, MapStateDescriptor, StreamExecutionEnvironment, Types

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Above(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext):
        limit = ctx.get_broadcast_state(LIMITS).get(ctx.get_current_key())
        if limit is None or value[1] > limit:
            yield value[0], value[1]

    def process_broadcast_element(self, value, ctx: KeyedBroadcastProcessFunction.Context):
        ctx.get_broadcast_state(LIMITS).put(value[0], value[1])


def above_their_limits():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    values = env.from_collection([("A", 1), ("a", 9), ("b", 5), ("c", 2)], type_info=PAIR)
    limits = env.from_collection([("a", 3), ("b", 7)], type_info=PAIR)
    above = (
        values.key_by(lambda value: value[0].lower(), key_type=Types.STRING())
        .connect(limits.broadcast(LIMITS))
        .process(Above(), output_type=PAIR)
    )
    with above.execute_and_collect() as results:
        return sorted(results)


if __name__ == "__main__":
    print(above_their_limits())
