"""Nothing; the job of the page can be built from a stream of payments."""

from state_engine.spark.explain import explain_job
from state_engine.spark.graph.dry import DrySession


def given():
    names = {}
    yield names
    payments = DrySession().readStream.schema("account string, amount bigint, at timestamp").load("payments")
    [means] = explain_job(names["job"](payments, "state")).operators
    assert {(sink.uid, sink.output) for sink in means.sinks} == {("means-out", "main"), ("late-out", "late")}
