"""The verbs of our own command line that ask a running job, with a real runner, Spark and storage."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flink_command import JOB, running_job
from typer.testing import CliRunner

from lakestate.cli import app
from lakestate.runner_events import Finished
from state_engine.savepoint import list_savepoints

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


class Said(NamedTuple):
    """The output of a verb, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def lakestate(root: Path, verb: str, *arguments: str) -> Said:
    result = CliRunner().invoke(app, [verb, JOB, *arguments, "--root", str(root)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Said(result.exit_code, result.stdout, result.stderr)


def test_a_job_is_rescaled_checkpointed_and_stopped(tmp_path: Path) -> None:
    with running_job(tmp_path) as job:
        assert lakestate(tmp_path, "rescale", "--operator", "count=3", "--json").json == {"operators": {"count": 3}}
        assert lakestate(tmp_path, "rescale", "--operator", "other=3").code == 1
        assert lakestate(tmp_path, "checkpoint", "--json").json == {"checkpoint": 1}
        status = lakestate(tmp_path, "status", "--json").json
        assert [one["parallelism"] for one in status["operators"]] == [3]
        assert (status["checkpoint"]["checkpoint_id"], status["process"]["state"]) == (1, "RUNNING")

        (tmp_path / "file").write_text("no directory")
        for options in (("--type", "canonical"), ("--drain",)):
            failed = lakestate(tmp_path, "stop", "--directory", str(tmp_path / "file" / "x"), *options)
            assert (failed.code, failed.out) == (1, "")
            assert failed.err.startswith("OperationFailedError: The job goes on: NotWritableError: ")
            process = lakestate(tmp_path, "status", "--json").json["process"]
            assert process["state"] == "RUNNING"
            assert process["problem"].startswith("NotWritableError: ")
        assert list_savepoints(str(tmp_path), JOB) == []

        taken = lakestate(tmp_path, "savepoint", "--type", "canonical", "--label", "by the way", "--detached").out
        ended = lakestate(tmp_path, "operation", taken.strip(), "--wait", "--json").json
        [savepoint] = list_savepoints(str(tmp_path), JOB)
        assert (savepoint.label, savepoint.kind) == ("by the way", "canonical")
        assert ended["operation"]["result"].endswith(savepoint.savepoint_id)

        stopped = lakestate(tmp_path, "stop", "--drain", "--label", "the end", "--detached").out.strip()
        told = job.end()
        assert isinstance(told[-1], Finished)
    ended = lakestate(tmp_path, "operation", stopped, "--json").json
    _, before, last = list_savepoints(str(tmp_path), JOB)
    assert (before.label, last.label, last.epoch) == ("before drain", "the end", told[-1].epoch)
    assert ended["operation"]["result"].endswith(last.savepoint_id)
    assert lakestate(tmp_path, "status", "--json").json["process"] is None
    assert lakestate(tmp_path, "stop").code == 2
