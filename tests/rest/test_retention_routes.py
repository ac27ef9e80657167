"""Retention over HTTP, on a job that has no engine, and through the port on a real log."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_job import FakeJob, client_of, result_of

from lakestate.rest.client_control import ClientControl
from state_engine.api.checkpoint_config import CheckpointConfig
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.errors import DamagedFileError
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import random_changes, sample_job

REMOVAL = {"path": "_epochs/g000001/e0000000001.json", "bytes": 7, "kind": "manifest", "reason": "it is old"}


@pytest.mark.parametrize(
    ("body", "policy"),
    [
        ({"checkpoints": {"last": 3, "daily": 7}}, RetentionPolicy(checkpoints=Keep(last=3, daily=7))),
        (
            {
                "checkpoints": {},
                "savepoints": {"last": 0, "for-ms": 5},
                "pinned-labels": ["a*"],
                "strays": True,
                "grace-ms": 0,
            },
            RetentionPolicy(savepoints=Keep(last=0, for_ms=5), pinned_labels=("a*",), strays=True, grace_ms=0),
        ),
    ],
)
def test_rules_are_passed_on_and_the_result_is_returned(body: dict[str, Any], policy: RetentionPolicy) -> None:
    job = FakeJob()
    with client_of(job) as client:
        path = f"/v1/jobs/{job.job_id}/retention"
        begun = client.post(path, json=body)
        assert begun.status_code == 202
        ended = result_of(client, path, begun.json()["request-id"])
    assert job.asked == [("retain", policy, False)]
    assert ended["operation"]["summary"] == {
        "dry-run": False,
        "files": 1,
        "bytes": 16,
        "removals": [REMOVAL],
        "savepoints": ["sp-0", "sp-1"],
        "checkpoints": ["3", "4"],
        "oldest-epoch": [1, 5],
        "removed": 1,
        "removed-bytes": 7,
        "spared": 0,
        "waiting": 2,
        "disposed": ["sp-1"],
        "in-use": [],
        "abandoned": [],
        "unlisted": [],
    }


def test_a_dry_run_says_so() -> None:
    job = FakeJob()
    with client_of(job) as client:
        path = f"/jobs/{job.job_id}/retention"
        begun = client.post(path, json={"checkpoints": {}, "dry-run": True}).json()
        summary = result_of(client, path, begun["request-id"])["operation"]["summary"]
    assert (summary["dry-run"], summary["removed"], summary["files"]) == (True, 0, 1)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"checkpoints": {"last": 0}},
        {"checkpoints": {"daily": -1}},
        {"checkpoints": {"monthly": 1}},
        {"checkpoints": {}, "grace-ms": -1},
        {"checkpoints": {}, "savepoint": {}},
    ],
)
def test_what_does_not_say_what_is_kept_is_refused(body: dict[str, Any]) -> None:
    job = FakeJob()
    with client_of(job) as client:
        assert client.post(f"/jobs/{job.job_id}/retention", json=body).status_code == 400
    assert job.asked == []


def test_damage_is_reported() -> None:
    job = FakeJob()
    job.error = DamagedFileError("A pin is damaged.", action="Mend it.")
    with client_of(job) as client:
        path = f"/jobs/{job.job_id}/retention"
        begun = client.post(path, json={"checkpoints": {}}).json()
        cause = result_of(client, path, begun["request-id"])["operation"]["failure-cause"]
    assert "A pin is damaged. What to do: Mend it." in cause["stack-trace"]


def test_a_real_log_is_cleared(tmp_path: Path) -> None:
    log, rng = sample_job(str(tmp_path)), random.Random(1)
    publisher = CheckpointPublisher(log.storage, log.job, clock=ManualClock())
    for number in (1, 2, 3):
        publisher.begin(log.epoch(random_changes(rng), checkpoint_id=number))
        log.adopt(publisher.completed())
    job = SimpleNamespace(root=str(tmp_path), name="flights", operators=[], checkpoint_config=CheckpointConfig())
    client = SimpleNamespace(head=log.head, state="RUNNING")
    control = ClientControl(job, client, lambda: 1_700_000_000_000)
    policy = RetentionPolicy(grace_ms=0)
    dry = control.retain(policy, dry_run=True)
    assert dry.report is None
    assert dry.plan.removals
    report = control.retain(policy, dry_run=False).report
    assert report is not None
    assert len(report.removed) == len(dry.plan.removals)
    assert control.retain(policy, dry_run=True).plan.removals == ()
