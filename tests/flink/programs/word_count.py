"""PyFlink's word count.

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
"""

from state_engine.flink import StreamExecutionEnvironment, Types

LINES = ["to be or not to be", "that is the question", "to be"]


def word_count():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)

    ds = env.from_collection(LINES)

    def split(line):
        yield from line.split()

    # compute word count
    ds = (
        ds.flat_map(split)
        .map(lambda i: (i, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda i: i[0])
        .reduce(lambda i, j: (i[0], i[1] + j[1]))
    )

    ds.print()

    # submit for execution
    env.execute()


if __name__ == "__main__":
    word_count()
