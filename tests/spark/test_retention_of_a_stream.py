"""A real stream that is killed and started again while retention runs each second, and savepoints are taken.

Retention runs in this process, the job in another one, so that they share nothing but the storage.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import STATES, Input, assert_tally, newest, outputs, state_of, truth, wait_for

from state_engine.checkpoint.leases import LEASE_MS
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.checkpoint.retention.steps import apply_retention, plan_retention
from state_engine.clock import Clock, SystemClock
from state_engine.errors import CondemnedError, CorruptionError, NotFoundError
from state_engine.inspect import open_job
from state_engine.savepoint import list_savepoints, load_savepoint, trigger_savepoint, validate_savepoint

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
SCRIPT = Path(__file__).with_name("retained_job.py")
JOB = "retained"
ROUNDS, EPOCHS = 3, 18
POLICY = RetentionPolicy(checkpoints=Keep(last=2), savepoints=Keep(last=2), strays=True, grace_ms=400)
HISTORY = ("_checkpoints/", "_spark/")


class Later(SystemClock):
    """A clock by which the leases of processes that died have already expired."""

    def now_ms(self) -> int:
        return super().now_ms() + LEASE_MS


class Retained:
    """The job's folder, and the observations that the test made there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        self.source = Input(folder / "in")
        self.files: list[int] = []
        self.removed = 0
        self.savepoints: dict[str, dict[str, dict[Any, Any]]] = {}
        self._next = 0.0

    @contextmanager
    def process(self) -> Iterator["subprocess.Popen[bytes]"]:
        log = (self.folder / "log").open("ab")
        with log:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), str(self.folder)], stdout=log, stderr=log, start_new_session=True
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)

    @property
    def epoch(self) -> int:
        head = newest(self.root, JOB)
        return head.epoch if head is not None else 0

    def retain(self, clock: Clock | None = None) -> None:
        """Applies the policy once a second; counts the remaining files, without history and Delta's logs."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 1
        clock = clock or SystemClock()
        plan = plan_retention(str(self.root), JOB, POLICY, clock.now_ms())
        self.removed += len(apply_retention(plan, clock=clock).removed)
        storage = open_job(str(self.root), JOB)
        left = [path for path in self.root.joinpath(JOB).rglob("*") if path.is_file()]
        names = [str(path.relative_to(self.root / JOB)) for path in left]
        assert storage.newest() is not None
        self.files.append(len([n for n in names if not n.startswith(HISTORY) and "_delta_log" not in n]))

    def take(self, trigger: str) -> None:
        """Takes a savepoint of the running job, and remembers its content."""
        try:
            pin = trigger_savepoint(str(self.root), JOB, trigger=trigger)
        except (CondemnedError, CorruptionError, NotFoundError):
            return  # it was refused before it was listed
        self.savepoints[pin.savepoint_id] = self.states(pin.savepoint_id)

    def states(self, at: str) -> dict[str, dict[Any, Any]]:
        return {name: state_of(self.root, JOB, "tally", name, at=at) for name in STATES}

    def run_for(self, process: "subprocess.Popen[bytes]", epochs: int) -> None:
        """Adds input and applies retention, until `epochs` more epochs are sealed."""
        goal = self.epoch + epochs
        deadline = time.monotonic() + 240
        taken = self.epoch
        while self.epoch < goal:
            assert process.poll() is None, (self.folder / "log").read_text()[-4000:]
            assert time.monotonic() < deadline, (self.epoch, goal)
            if len(self.source.files) < self.epoch + 3:
                self.source.add_many(1, rows=20)
            if self.epoch > 0:
                self.retain()
            if self.epoch >= taken + 5:
                taken = self.epoch
                self.take("policy:often")
            time.sleep(0.2)


@pytest.mark.timeout(900)
def test_nothing_that_is_needed_is_lost_and_storage_stays_bounded(tmp_path: Path) -> None:
    retained = Retained(tmp_path)
    retained.source.add_many(1, rows=20)
    for number in range(ROUNDS):
        with retained.process() as process:
            retained.run_for(process, epochs=EPOCHS)
            if number == ROUNDS - 1:
                retained.take("user")
                retained.run_for(process, epochs=3)
                wait_for(lambda: all_read(retained), "the input", timeout_s=120)
                (tmp_path / "stop").touch()
                assert process.wait(120) == 0, (tmp_path / "log").read_text()[-4000:]
            else:
                os.killpg(process.pid, signal.SIGKILL)
    for _ in range(2):  # a savepoint of the epoch, since the job was killed during a checkpoint
        time.sleep(1)
        retained.retain(Later())
    assert_tally(retained.root, JOB, outputs(tmp_path / "out"), retained.source.all)
    listed = list_savepoints(str(retained.root), JOB)
    assert sorted(pin.trigger for pin in listed) == ["policy:often", "policy:often", "user"]
    for pin in listed:
        load_savepoint(str(retained.root), JOB, pin.savepoint_id)
        assert validate_savepoint(str(retained.root), JOB, pin.savepoint_id).ok
        assert retained.states(pin.savepoint_id) == retained.savepoints[pin.savepoint_id]
    assert retained.states("latest") == {name: truth(retained.source.all).states[name] for name in STATES}
    # An epoch writes 5 files or more, a checkpoint 7 more; each of 6 states has at most 33 layers.
    assert retained.removed > 5 * EPOCHS
    assert max(retained.files) < 6 * 40 + 12 * EPOCHS, retained.files


def all_read(retained: Retained) -> bool:
    """Returns whether the job has counted every record of the input."""
    return state_of(retained.root, JOB, "totals", "total", key="sub") == truth(retained.source.all).states["total"]
