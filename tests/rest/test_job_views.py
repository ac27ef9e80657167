"""What the server returns for jobs and checkpoints, with Flink's names."""

import re
from pathlib import Path
from typing import Any

import pytest
from fake_job import NOW, START, FakeJob, client_of
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from lakestate.failure_facts import facts_of
from lakestate.rest.ids import job_id
from lakestate.rest.job_port import JobFailure, JobStatus
from state_engine.checkpoint.table import CheckpointKind, CheckpointRow, CheckpointStatus
from state_engine.errors import SavepointError

# The fields that Flink 2.3 sends; its command line fails if one of them is missing.
SUMMARY = [
    *("jid", "name", "jobType", "schedulerType", "start-time", "end-time", "duration", "state", "last-modification"),
    *("tasks", "pending-operators"),
]
TASKS = {
    *("total", "created", "scheduled", "deploying", "running", "finished", "canceling", "canceled", "failed"),
    *("reconciling", "initializing"),
}
SPREAD = ["min", "max", "avg", "p50", "p90", "p95", "p99", "p999"]
CONFIG = {
    *("mode", "interval", "timeout", "min_pause", "max_concurrent", "externalization", "state_backend"),
    *("checkpoint_storage", "unaligned_checkpoints", "tolerable_failed_checkpoints", "aligned_checkpoint_timeout"),
    *("checkpoints_after_tasks_finish", "state_changelog_enabled", "changelog_periodic_materialization_interval"),
    "changelog_storage",
}


def get(path: str, *jobs: FakeJob) -> Any:
    with client_of(*jobs) as client:
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


def row(
    number: int, status: CheckpointStatus = "completed", kind: CheckpointKind = "checkpoint", **fields: Any
) -> CheckpointRow:
    return CheckpointRow(
        id=f"sp-{number}" if kind == "savepoint" else str(number),
        kind=kind,
        checkpoint_id=None if kind == "savepoint" else number,
        status=status,
        generation=1,
        epoch=10 * number,
        manifest="",
        triggered_at=START + number,
        completed_at=START + number + 5,
        duration_ms=5,
        base_path="_epochs/g000001/bases/b.json" if status == "completed" else None,
        **fields,
    )


def test_an_id_is_of_the_name_alone() -> None:
    assert job_id("orders") == "b47e5f278b024151d3047ab9cc789b9d"
    assert job_id("orders") != job_id("order")


def test_the_list_has_every_field_that_flinks_command_line_wants() -> None:
    jobs = get("/v1/jobs/overview", FakeJob("a"), FakeJob("b"))["jobs"]
    assert [job["name"] for job in jobs] == ["a", "b"]
    for job in jobs:
        assert [*job] == SUMMARY
        assert {*job["tasks"]} == TASKS
        assert (job["tasks"]["total"], job["tasks"]["running"]) == (5, 5)
        assert (job["start-time"], job["end-time"], job["duration"], job["state"]) == (
            START,
            -1,
            NOW - START,
            "RUNNING",
        )


@pytest.mark.parametrize(
    ("state", "figure"), [("RUNNING", "jobs-running"), ("CANCELLING", "jobs-running"), ("FAILED", "jobs-failed")]
)
def test_the_overview_counts_jobs(state: JobStatus, figure: str) -> None:
    job = FakeJob()
    job.state = state
    body = get("/overview", job)
    assert {name: count for name, count in body.items() if name.startswith("jobs-") and count} == {figure: 1}
    assert body["flink-version"] == "2.3.0"
    assert get("/jobs", job) == {"jobs": [{"id": job.job_id, "status": state}]}
    assert get(f"/jobs/{job.job_id}/status", job) == {"status": state}


def test_the_config_names_the_api() -> None:
    assert get("/v1/config")["flink-version"] == "2.3.0"


def test_a_job_has_its_operators_and_their_edges() -> None:
    job = FakeJob()
    body = get(f"/jobs/{job.job_id}", job)
    count, total = body["vertices"]
    assert (count["name"], count["parallelism"], count["maxParallelism"], count["status"]) == (
        "count",
        2,
        128,
        "RUNNING",
    )
    assert count["metrics"]["read-records"] == 100
    assert [node["id"] for node in body["plan"]["nodes"]] == [count["id"], total["id"]]
    assert [edge["id"] for edge in body["plan"]["nodes"][1]["inputs"]] == [count["id"]]
    assert body["timestamps"]["RUNNING"] == START
    assert body["status-counts"]["RUNNING"] == 5
    assert body["maxParallelism"] == 128
    assert body["sources"] == [
        {"name": "clicks", "lag-records": 42, "lag-seconds": 61.5},
        {"name": "files", "lag-records": None, "lag-seconds": None},
    ]


def test_the_incarnation_says_who_holds_the_job() -> None:
    job = FakeJob()
    body = get(f"/jobs/{job.job_id}/incarnation", job)
    assert (body["incarnation"], body["generation"], body["epoch"], body["state"]) == ("abc", 2, 17, "RUNNING")


def test_failures_are_reported() -> None:
    job = FakeJob()
    job.problems = [JobFailure(NOW, "It broke.", facts_of(SavepointError("It broke.")))]
    assert get(f"/jobs/{job.job_id}/exceptions", job) == {
        "exceptionHistory": {
            "entries": [
                {
                    "exceptionName": "SavepointError",
                    "stacktrace": "It broke.",
                    "timestamp": NOW,
                    "failure": {"type": "SavepointError", "message": "It broke."},
                }
            ],
            "truncated": False,
        }
    }


def test_a_job_without_checkpoints_has_statistics_like_flinks() -> None:
    job = FakeJob()
    body = get(f"/jobs/{job.job_id}/checkpoints", job)
    assert body["counts"] == {"restored": 0, "total": 0, "in_progress": 0, "completed": 0, "failed": 0}
    assert [*body["summary"]["state_size"]] == SPREAD
    assert body["summary"]["state_size"]["p99"] == "NaN"
    assert body["latest"] == {"completed": None, "savepoint": None, "failed": None, "restored": None}
    assert body["history"] == []


def test_checkpoints_are_listed_newest_first() -> None:
    job = FakeJob()
    job.rows = [
        row(1, bytes=10, state_bytes=100),
        row(2, kind="savepoint", state_bytes=100),
        row(3, "failed", failure="No room."),
        row(4, bytes=30, state_bytes=120),
    ]
    body = get(f"/jobs/{job.job_id}/checkpoints", job)
    assert body["counts"]["total"] == 3
    assert [(one["id"], one["status"]) for one in body["history"]] == [
        (4, "COMPLETED"),
        (3, "FAILED"),
        (1, "COMPLETED"),
    ]
    completed, failed, savepoint = (body["latest"][kind] for kind in ("completed", "failed", "savepoint"))
    assert completed["external_path"] == "file:/state/orders/_epochs/g000001/bases/b.json"
    assert (completed["checkpointed_size"], completed["state_size"], completed["end_to_end_duration"]) == (30, 120, 5)
    assert (failed["className"], failed["failure_message"]) == ("failed", "No room.")
    assert "external_path" not in failed
    assert (savepoint["id"], savepoint["is_savepoint"]) == (20, True)
    assert (savepoint["external_path"], savepoint["discarded"]) == ("s3://kept/sp-2", False)
    assert body["summary"]["state_size"]["avg"] == 110
    assert get(f"/jobs/{job.job_id}/checkpoints/details/3", job) == failed
    job.disposed.add("sp-2")
    savepoint = get(f"/jobs/{job.job_id}/checkpoints", job)["latest"]["savepoint"]
    assert (savepoint.get("external_path"), savepoint["discarded"]) == (None, True)


def test_the_settings_of_checkpoints_have_flinks_names() -> None:
    job = FakeJob()
    body = get(f"/jobs/{job.job_id}/checkpoints/config", job)
    assert {*body} == CONFIG
    assert body["interval"] == (1 << 63) - 1
    assert body["externalization"] == {"enabled": True, "delete_on_cancellation": False}


def test_metrics_are_prometheus_text() -> None:
    job = FakeJob()
    job.rows = [row(1, bytes=10, state_bytes=100), row(2, "failed")]
    with client_of(job) as client:
        answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    figures = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
    assert {name: float(figure) for name, figure in figures.items()} == {
        'lakestate_job_running{job="orders",state="RUNNING"}': 1,
        'lakestate_generation{job="orders"}': 2,
        'lakestate_epoch{job="orders"}': 17,
        'lakestate_epochs_total{job="orders"}': 7,
        'lakestate_epoch_seconds_total{job="orders"}': 3.5,
        'lakestate_records_total{job="orders"}': 700,
        'lakestate_epoch_retries_total{job="orders"}': 2,
        'lakestate_operator_parallelism{job="orders",operator="count"}': 2,
        'lakestate_operator_parallelism{job="orders",operator="total"}': 3,
        'lakestate_state_rows{job="orders",operator="count"}': 40,
        'lakestate_state_rows{job="orders",operator="total"}': 5,
        'lakestate_state_keys{job="orders",operator="count"}': 23,
        'lakestate_state_keys{job="orders",operator="total"}': 5,
        'lakestate_watermark_lag_seconds{job="orders",operator="count"}': 2,
        'lakestate_source_lag_records{job="orders",source="clicks"}': 42,
        'lakestate_source_lag_seconds{job="orders",source="clicks"}': 61.5,
        'lakestate_checkpoints_total{job="orders",status="completed"}': 1,
        'lakestate_checkpoints_total{job="orders",status="failed"}': 1,
        'lakestate_checkpoints_in_progress{job="orders"}': 0,
        'lakestate_checkpoint_id{job="orders"}': 1,
        'lakestate_checkpoint_duration_seconds{job="orders"}': 0.005,
        'lakestate_checkpoint_timestamp_seconds{job="orders"}': (START + 6) / 1000,
        'lakestate_checkpoint_bytes{job="orders"}': 10,
        'lakestate_state_bytes{job="orders"}': 100,
    }


def families() -> list[Metric]:
    """Returns what a Prometheus server reads, for a job that has every metric."""
    job = FakeJob()
    job.rows = [row(1, bytes=10, state_bytes=100)]
    with client_of(job) as client:
        return list(text_string_to_metric_families(client.get("/metrics").text))


def test_metrics_keep_to_prometheus_rules() -> None:
    body = families()
    assert len({metric.name for metric in body}) == len(body) > 15
    for metric in body:
        assert metric.name.startswith("lakestate_")
        assert re.fullmatch(r"[a-z_]+", metric.name)
        assert metric.type in ("counter", "gauge")
        assert metric.documentation.endswith("."), metric.name
        assert len(metric.documentation.split()) > 3, "it is read without the others"
        for sample in metric.samples:
            assert sample.name.endswith("_total") == (metric.type == "counter")
            assert {"job"} <= set(sample.labels) <= {"job", "state", "operator", "source", "status"}
        for unit, base in (("ms", "seconds"), ("millis", "seconds"), ("kb", "bytes"), ("percent", "ratio")):
            assert unit not in metric.name.split("_"), f"the unit is {base}"


def test_the_page_names_every_metric_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rest.md").read_text(encoding="utf-8")
    table = page.partition("| metric | meaning |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(lakestate_\w+)`", table))
    assert named == {sample.name for metric in families() for sample in metric.samples}


def test_the_alerts_of_the_page_are_about_metrics_that_exist() -> None:
    page = (Path(__file__).parents[2] / "docs/guides/production.md").read_text()
    job = FakeJob()
    job.rows = [row(1), row(2, "failed")]
    with client_of(job) as client:
        served = set(re.findall(r"^(lakestate_\w+)", client.get("/metrics").text, re.MULTILINE))
    asked = set(re.findall(r"lakestate_\w+", " ".join(re.findall(r"expr: (.*)", page))))
    assert len(asked) == 5
    assert asked <= served, asked - served
