"""Two streams in one keyed function: the orders of a user, with the user's city.

from pyflink.common import Row, Types
from pyflink.datastream import RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedCoProcessFunction
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor
"""

from state_engine.flink import (
    KeyedCoProcessFunction,
    ListStateDescriptor,
    Row,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)

ORDERS = Types.ROW_NAMED(["user", "item"], [Types.STRING(), Types.STRING()])
USERS = Types.TUPLE([Types.LONG(), Types.STRING(), Types.STRING()])
ENRICHED = Types.ROW([Types.STRING(), Types.STRING(), Types.STRING()])


class Enrich(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.city = runtime_context.get_state(ValueStateDescriptor("city", Types.STRING()))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", ORDERS))

    def process_element1(self, value, ctx: "KeyedCoProcessFunction.Context"):
        city = self.city.value()
        if city is None:
            self.waiting.add(value)
        else:
            yield Row(ctx.get_current_key(), value.item, city)

    def process_element2(self, value, ctx: "KeyedCoProcessFunction.Context"):
        _, user, city = value
        self.city.update(city)
        for order in self.waiting:
            yield Row(user, order["item"], city)
        self.waiting.clear()


def enriched_orders():
    env = StreamExecutionEnvironment.get_execution_environment()
    orders = env.from_collection(
        [Row("ann", "tea"), Row("bob", "ink"), Row("ann", "jam"), Row("eve", "pen")], type_info=ORDERS
    )
    users = env.from_collection([(1, "ann", "Rome"), (2, "Bob", "Oslo")], type_info=USERS)

    enriched = (
        orders.connect(users)
        .key_by(lambda order: order.user, lambda user: user[1].lower(), key_type=Types.STRING())
        .process(Enrich(), output_type=ENRICHED)
        .uid("enrich")
    )

    with enriched.execute_and_collect("enriched orders") as results:
        return sorted(results)


if __name__ == "__main__":
    print(enriched_orders())
