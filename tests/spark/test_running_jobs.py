"""Which running jobs a task learns about. No JVM."""

from state_engine.epoch.ports import EpochPlan
from state_engine.spark.worker.running_jobs import RunningJobs, decode_running


def plan(root: str, job: str) -> EpochPlan:
    return EpochPlan(
        job=job,
        root=root,
        generation=1,
        epoch=1,
        incarnation="0" * 32,
        predecessor="",
        predecessor_epoch=0,
        predecessor_generation=0,
        processing_time=0,
        operators=(),
    )


def test_tasks_learn_about_all_jobs_and_always_about_their_own() -> None:
    running = RunningJobs()
    assert decode_running(running.encode(plan("/a", "one"))) == [("/a", "one")]
    running.begin("1", "/a", "one")
    running.begin("2", "/b", "one")
    assert decode_running(running.encode(plan("/a", "one"))) == [("/a", "one"), ("/b", "one")]
    running.end("2")
    assert decode_running(running.encode(plan("/a", "one"))) == [("/a", "one")]


def test_a_job_that_was_taken_over_runs_while_its_new_incarnation_does() -> None:
    running = RunningJobs()
    running.begin("1", "/a", "one")
    running.begin("2", "/a", "one")
    running.end("1")
    assert decode_running(running.encode(plan("/b", "two"))) == [("/a", "one"), ("/b", "two")]
    running.end("2")
    running.end("2")
    assert decode_running(running.encode(plan("/b", "two"))) == [("/b", "two")]


def test_a_task_without_a_list_of_jobs_knows_none() -> None:
    assert decode_running(None) is None
    assert decode_running("") is None
