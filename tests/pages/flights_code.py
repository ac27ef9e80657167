"""The code of the job whose state `samples.flights` writes: `lakestate` checks whether it can resume from it."""

from lakestate import registry
from state_engine.api import KeyedProcessFunction, ListStateDescriptor, MapStateDescriptor, Types, ValueStateDescriptor
from state_engine.spark import DiscardingSink, StreamJob
from state_engine.spark.driver.startup import shapes_of
from state_engine.spark.graph.dry import DrySession

COLUMNS = "tailnum string, carrier string, year int"


class Aircraft(KeyedProcessFunction):
    def open(self, runtime_context):
        leg = Types.ROW_NAMED(["origin", "minutes"], [Types.STRING(), Types.INT()])
        runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        runtime_context.get_list_state(ListStateDescriptor("legs", leg))

    def process_element(self, value, ctx):
        yield value.carrier, value.year


class Carrier(KeyedProcessFunction):
    def open(self, runtime_context):
        runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.DOUBLE()))

    def process_element(self, value, ctx):
        yield (value.carrier,)


class Shorter(KeyedProcessFunction):
    """A later release: `count` is called `counted`, and legs have no minutes."""

    def open(self, runtime_context):
        leg = Types.ROW_NAMED(["origin"], [Types.STRING()])
        runtime_context.get_state(ValueStateDescriptor("counted", Types.LONG()))
        runtime_context.get_list_state(ListStateDescriptor("legs", leg))

    def process_element(self, value, ctx):
        yield value.carrier, value.year


def build(spark, root, options, aircraft=Aircraft):
    job = StreamJob("flights", root=root, parallelism=2, max_parallelism=13)
    flights = job.from_stream(spark.readStream.schema(COLUMNS).parquet("flights"))
    legs = flights.key_by("tailnum").process(aircraft(), "carrier string, year int", uid="aircraft")
    carriers = legs.key_by("carrier", "year").process(Carrier(), "carrier string", uid="carrier")
    carriers.sink_to(DiscardingSink(), uid="out")
    return job


def build_next_release(spark, root, options):
    return build(spark, root, options, Shorter)


def schemas():
    """Returns the states of this job as its log describes them."""
    job = build(DrySession(), "state", {})
    return tuple(schema for shape in shapes_of(job.settings, job.operators) for schema in shape.schemas)


def register(monkeypatch, factory="build"):
    """Makes a function of this module the code of the job `flights`."""
    monkeypatch.setitem(registry._BUILT_IN, "flights", f"{__name__}:{factory}")
