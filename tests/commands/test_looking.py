"""`lakestate list`, `status`, `checkpoints`: their output, as tables and as JSON, and their exit codes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from lakestate.commands.common import ExitCode, exit_code_of, plain
from state_engine import errors
from state_engine.checkpoint.table import CheckpointRow, CheckpointTable
from state_engine.log.paths import manifest_path
from state_engine.storage.open_access import open_tables
from state_engine.testing.sample_jobs import sample_job


def test_jobs_are_listed(job) -> None:
    sample_job(job.root, "empty").storage.put_exclusive("other.txt", b"no job")
    sample_job(job.root, "orders").epoch()
    ended = job.run("list")
    assert ended.code == 0
    assert [line.split()[:3] for line in ended.out.splitlines()[2:]] == [["flights", "1", "4"], ["orders", "1", "1"]]
    assert [(one["job"], one["epoch"], one["sealed_at"]) for one in job.run("list", "--json").json] == [
        ("flights", 4, job.builder.head.manifest.processing_time),
        ("orders", 1, 1_700_000_000_000),
    ]


def test_a_damaged_job_does_not_hide_the_others(job) -> None:
    sample_job(job.root, "orders").epoch()
    Path(job.root, "orders", manifest_path(1, 1)).write_bytes(b"{}")
    ended = job.run("list")
    assert ended.code == 0
    assert "flights" in ended.out
    assert "orders: " in ended.out


def test_an_empty_root_has_no_jobs(job, tmp_path: Path) -> None:
    ended = job.run("list", "--root", str(tmp_path / "nothing"))
    assert (ended.code, ended.out) == (0, f"No job has sealed an epoch under {tmp_path}/nothing.\n")
    assert job.run("list", "--root", str(tmp_path / "nothing"), "--json").json == []
    assert not (tmp_path / "nothing").exists()


def test_status_shows_the_state_of_a_job(job) -> None:
    job.run("savepoint", "flights")
    printed = job.run("status", "flights", "--json").json
    assert (printed["generation"], printed["epoch"], printed["epochs_behind"]) == (1, 4, 1)
    assert printed["checkpoint"]["checkpoint_id"] == 1
    assert printed["savepoints"] == 1
    assert [(one["uid"], one["parallelism"], one["max_parallelism"]) for one in printed["operators"]] == [
        ("aircraft", 2, 13),
        ("carrier", 2, 13),
    ]
    assert printed["operators"][0]["records_in"] == 2
    assert printed["operators"][0]["watermark"] is None
    states = {f"{one['uid']}/{one['state']}": one for one in printed["states"]}
    assert states["aircraft/count"]["keys"] == 2
    assert all(one["bytes"] > 0 for one in states.values())
    out = job.run("status", "flights").out
    for said in ("1/4", "1 of epoch 1/3, 1 epoch behind", printed["newest_savepoint"], "aircraft/legs"):
        assert said in out


def test_status_says_what_a_rescaled_job_was_defined_with(job) -> None:
    head = job.builder.head.manifest
    aircraft = replace(head.operators["aircraft"], acks=(), parallelism=5, rescaled_from=2)
    operators = {**head.operators, "aircraft": aircraft}
    job.builder.log.put(replace(head, epoch=5, predecessor=job.builder.head.hash, operators=operators))
    printed = job.run("status", "flights", "--json").json["operators"]
    assert [(one["parallelism"], one["rescaled_from"]) for one in printed] == [(5, 2), (2, None)]
    assert "5 (defined: 2)" in job.run("status", "flights").out


def test_checkpoints_with_the_reasons_of_those_that_failed(job) -> None:
    rows = CheckpointTable(job.builder.storage, open_tables(job.builder.storage))
    failed = CheckpointRow(
        id="2", kind="checkpoint", checkpoint_id=2, status="expired", generation=1, epoch=4, manifest="xxh3:0",
        triggered_at=1_700_000_000_000, completed_at=1_900_000_000_000, duration_ms=600_000,
        failure="It took longer than [600,000] ms.",
    )  # fmt: skip
    rows.append([failed], app_id="test", version=1)
    ended = job.run("checkpoints", "flights")
    assert ended.code == 0
    assert "1 checkpoint completed, 1 failed" in ended.out
    assert "2 expired: It took longer than [600,000] ms." in ended.out
    printed = job.run("checkpoints", "flights", "--json").json
    assert [row["status"] for row in printed["history"]] == ["expired", "completed"]
    assert printed["counts"] == {"completed": 1, "failed": 1, "in_progress": 0}
    assert printed["summary"]["bytes"]["maximum"] == printed["history"][1]["bytes"]
    assert [row["id"] for row in job.run("checkpoints", "flights", "--limit", "1", "--json").json["history"]] == ["2"]


def test_a_job_without_checkpoints_has_none(job) -> None:
    sample_job(job.root, "orders").epoch()
    assert job.run("checkpoints", "orders").out == "orders: 0 checkpoints completed, 0 failed\n"
    assert "none yet" in job.run("status", "orders").out
    assert job.run("status", "orders", "--json").json["epochs_behind"] == 1


@pytest.mark.parametrize("verb", [("status",), ("checkpoints",), ("savepoint",), ("savepoints", "list")])
def test_a_name_that_cannot_be_one_is_wrong_use(job, verb) -> None:
    ended = job.run(*verb, "../flights")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("JobDefinitionError: ")


@pytest.mark.parametrize("verb", ["status", "checkpoints", "savepoint"])
def test_a_job_that_is_not_there_is_named(job, verb) -> None:
    ended = job.run(verb, "nope")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("NothingToRestoreError: Job 'nope' has no sealed epoch. What to do: ")
    assert not Path(job.root, "nope").exists()


def test_damage_is_a_failure_and_not_wrong_use(job) -> None:
    Path(job.root, "flights", manifest_path(1, 4)).write_bytes(b"{}")
    for verb in ("status", "checkpoints", "savepoint"):
        assert job.run(verb, "flights").code == 1


def test_without_a_root_it_says_which_option_is_missing() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LAKESTATE_ROOT"}
    command = [sys.executable, "-m", "lakestate.cli", "list"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "--root" in ended.stderr


def test_every_error_has_an_exit_code() -> None:
    codes = {name: exit_code_of(getattr(errors, name)("x")) for name in errors.__all__}
    assert codes["NothingToRestoreError"] == codes["UnknownOperatorError"] == ExitCode.WRONG_USE
    assert codes["DuplicateUidError"] == ExitCode.WRONG_USE
    assert codes["MissingFileError"] == codes["SavepointError"] == codes["StorageError"] == ExitCode.FAILED


def test_what_is_printed_as_json_has_names() -> None:
    assert plain({1: b"\xff", "when": (1, None)}) == {"1": "ff", "when": [1, None]}
