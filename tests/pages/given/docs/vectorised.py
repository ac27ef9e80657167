"""Nothing; a job can have the stream of the page."""

from state_engine.spark import StreamJob
from state_engine.spark.explain import explain_job
from state_engine.spark.graph.dry import DrySession


def given():
    names = {}
    yield names
    job = StreamJob("clicks", root="state")
    names["counts"](job.from_stream(DrySession().readStream.schema("user string").load("clicks")))
    [count] = explain_job(job).operators
    assert [state.name for state in count.states] == ["clicks"]
