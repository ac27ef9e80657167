"""A job of two operators, `count` and `total`, which are not chained since they have different keys."""

from streams import stream, write

from state_engine.api import KeyedProcessFunction, Types, ValueStateDescriptor
from state_engine.spark import DiscardingSink, StreamJob


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value.page, self.count.value()


def given(spark):
    write("clicks", [{"user": "ann", "page": "/"}])
    job = StreamJob("clicks", root="state", parallelism=2)
    clicks = job.from_stream(stream(spark, "clicks", "user string, page string")).key_by("user")
    counts = clicks.process(Count(), "page string, n bigint", uid="count")
    totals = counts.key_by("page").process(Count(), "page string, n bigint", uid="total")
    totals.sink_to(DiscardingSink(), uid="out")
    names = {"job": job}
    yield names
    names["client"].stop()
