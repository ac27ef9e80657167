"""The job `flights`, which has read four files, and two jobs that never ran."""

from streams import FlightsJob, write


def given(spark):
    for number in range(4):
        write("flights", [{"tailnum": f"N{n}", "route": "JFK-BOS"} for n in range(number, number + 5)])
    job, other_job, third_job = (FlightsJob(spark, name) for name in ("flights", "other", "third"))
    job.checkpointed()
    names = {"job": job, "other_job": other_job, "third_job": third_job}
    yield names
    assert names["report"].ok
    assert names["yesterday"].epoch == 3
