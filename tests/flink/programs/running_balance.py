"""Named rows from a source, a keyed function with state under a uid, and a root to continue from.

from pyflink.common import Configuration, Row, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
"""

from state_engine.flink import (
    Configuration,
    KeyedProcessFunction,
    Row,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)

BALANCES = Types.ROW_NAMED(["account", "balance"], [Types.STRING(), Types.LONG()])


class Balance(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        balance = (self.balance.value() or 0) + value.amount
        self.balance.update(balance)
        yield Row(ctx.get_current_key(), balance)


def running_balance(source, directory, limit=None):
    config = Configuration()
    config.set_string("execution.checkpointing.dir", directory)
    config.set_integer("parallelism.default", 2)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.enable_checkpointing(1000)

    payments = env.from_source(source, WatermarkStrategy.no_watermarks(), "payments")
    balances = payments.key_by(lambda payment: payment.account).process(Balance(), BALANCES).uid("balance")
    return balances.execute_and_collect("running balance", limit)
