"""The job `flights` with a checkpoint and a savepoint in the middle of its input, and two jobs that never ran."""

from pathlib import Path

from samples import savepoint_called
from streams import FlightsJob, write

from state_engine.inspect import read_state

SAVEPOINT = "sp-20260711T101500-1a2b3c4d"


def given(spark, monkeypatch):
    monkeypatch.setenv("PWD", str(Path.cwd()))
    job = FlightsJob(spark)
    write("flights", [{"tailnum": f"N1422{n}", "route": "JFK-BOS"} for n in range(9)])
    job.checkpointed()
    savepoint_called(SAVEPOINT)
    write("flights", [{"tailnum": "N14228", "route": "LGA-ORD"} for _ in range(3)])
    names = {"job": job, "copy": FlightsJob(spark, "copy"), "renamed": FlightsJob(spark, "renamed", uid="planes")}
    yield names
    job.stop()
    assert flown("copy") == flown("renamed", "planes") == 4
    assert len(names["commands_of_page"]) == 3


def flown(name, uid="aircraft"):
    """Returns how often N14228 flew, by the state of a job."""
    state = read_state("state", name, uid, "count")
    return dict(zip(state["tailnum"].to_pylist(), state["value"].to_pylist(), strict=True))["N14228"]
