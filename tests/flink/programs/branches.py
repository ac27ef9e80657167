"""Streams that are read several times, errors that are processed further, and branches that meet again.

from pyflink.common import Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
"""

from state_engine.flink import OutputTag, ProcessFunction, StreamExecutionEnvironment, Types

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
errors = OutputTag("errors", Types.STRING())


class Parse(ProcessFunction):
    def process_element(self, value: str, ctx: ProcessFunction.Context):
        try:
            yield int(value)
        except ValueError:
            yield errors, value


def branches_demo():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)

    lines = env.from_collection(["1", "2", "x", "3", "yy", "4"], Types.STRING())
    numbers = lines.process(Parse(), Types.INT()).name("parse")

    even = numbers.filter(lambda n: n % 2 == 0).map(lambda n: ("even", n), PAIR)
    large = numbers.filter(lambda n: n > 2).map(lambda n: ("large", n), PAIR)
    wrong = numbers.get_side_output(errors).map(lambda line: ("wrong", len(line)), PAIR)
    length = lines.map(lambda line: ("line", len(line)), PAIR)

    sums = even.union(large, wrong, length).key_by(lambda pair: pair[0]).sum(1)
    sums.print()
    sums.filter(lambda pair: pair[0] == "wrong").print("wrong")

    env.execute("branches")


if __name__ == "__main__":
    branches_demo()
