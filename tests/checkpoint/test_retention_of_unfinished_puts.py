"""Files of processes that died during a put to a local disk go; those of living processes stay."""

import fcntl
import os
from pathlib import Path

from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.retention.steps import apply_retention, plan_retention
from state_engine.storage.durable import TEMPORARY
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import sample_job


def test_what_dead_processes_left_of_their_puts_goes(tmp_path: Path) -> None:
    """No file goes of a process that lives, or that may live if locks cannot tell."""
    job, clock = sample_job(str(tmp_path)), ManualClock()
    job.epoch()
    folder = next(tmp_path.rglob("_epochs/*"))
    old, young, written = (folder / f"{TEMPORARY}{name}" for name in ("old", "young", "written"))
    for file in (old, young, written):
        file.write_bytes(b"half")
        os.utime(file, (0, clock.now_ms() / 1000 - (3599 if file is young else 3601)))
    with written.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        plan = plan_retention(job.root, job.job, RetentionPolicy(grace_ms=0), clock.now_ms())
        assert [(r.path, r.bytes, r.kind) for r in plan.removals] == [
            (old.relative_to(tmp_path / job.job).as_posix(), 4, "unfinished")
        ]
        assert old.exists(), "a plan changes nothing"
        apply_retention(plan, clock=clock, ids=CountingIds())
    assert [file.exists() for file in (old, young, written)] == [False, True, True]
