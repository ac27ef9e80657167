"""Windows over all elements, after a broadcast and a plain function of two inputs.

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import CoMapFunction
"""

from state_engine.flink import CoMapFunction, StreamExecutionEnvironment, Types


class Lengths(CoMapFunction):
    def map1(self, value):
        return len(value)

    def map2(self, value):
        return value


def sums():
    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_collection(["a", "bb", "ccc", "dddd"], type_info=Types.STRING())
    numbers = env.from_collection([10, 20], type_info=Types.LONG())
    lengths = words.connect(numbers.broadcast()).map(Lengths(), Types.LONG())
    total = lengths.count_window_all(3).reduce(lambda a, b: a + b)
    with total.execute_and_collect() as results:
        return list(results)


if __name__ == "__main__":
    print(sums())
