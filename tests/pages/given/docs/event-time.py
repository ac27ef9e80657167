"""A job, a stream of payments, and the state of an example."""

from state_engine.spark import StreamJob
from state_engine.spark.graph.dry import DrySession


def given():
    df = DrySession().readStream.schema("account string, amount bigint, at timestamp").load("payments")
    names = {"job": StreamJob("payments", root="state"), "df": df}
    yield names
    assert names["payments"] is not None
