import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from lakestate.cli import app
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.testing.changes import append, delete, put
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import sample_job

sys.path.append(str(Path(__file__).parent))  # after other folders, which have modules of the same names

COUNT, LEGS, SEEN = ("aircraft", "count"), ("aircraft", "legs"), ("carrier", "seen")


class Ended(NamedTuple):
    """The exit code and the output of a verb."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Job(NamedTuple):
    """A job of four epochs below a root: the third is checkpoint 1, the fourth is not published."""

    root: str
    builder: JobBuilder

    def run(self, *arguments: str) -> Ended:
        result = CliRunner().invoke(app, [*arguments], env={"LAKESTATE_ROOT": self.root})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    root = str(tmp_path / "state")
    builder = sample_job(root)
    publisher = CheckpointPublisher(builder.storage, builder.job, clock=ManualClock())
    builder.epoch({COUNT: [put("N1", 1), put("[red]", 2)]})
    builder.epoch(
        {LEGS: [append("N1", {"origin": "JFK", "minutes": 90})], SEEN: [put(("UA", 2013), 0.5, user_key="a")]}
    )
    publisher.begin(builder.epoch({COUNT: [put("N1", 3)]}, checkpoint_id=1))
    builder.adopt(publisher.completed())
    builder.epoch({COUNT: [put("N2", 4), delete("[red]")]})
    return Job(root, builder)


@pytest.fixture
def job_at() -> Callable[[str, JobBuilder], Job]:
    """Runs verbs on a job that a test has built."""
    return Job
