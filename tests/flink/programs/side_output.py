"""The side output of PyFlink's documentation, with a computed key after it.

from pyflink.common import Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
"""

from state_engine.flink import OutputTag, ProcessFunction, StreamExecutionEnvironment, Types

output_tag = OutputTag("side-output", Types.STRING())


class MyProcessFunction(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context):
        # emit data to regular output
        yield value

        # emit data to side output
        yield output_tag, "sideout-" + str(value)


def side_output_demo():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)

    data_stream = env.from_collection([1, 2, 3, 4, 5], Types.INT())
    main_data_stream = data_stream.process(MyProcessFunction(), Types.INT()).name("main")
    side_output_stream = main_data_stream.get_side_output(output_tag)
    side_output_stream.print("side")

    # even and odd numbers, each with their running sum
    main_data_stream.key_by(lambda value: value % 2, key_type=Types.INT()).sum().print()

    env.execute("side output")


if __name__ == "__main__":
    side_output_demo()
