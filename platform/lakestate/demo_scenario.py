"""The steps of the demonstration: kill, restart, savepoint, go on, restore, rescale, kill, restart, finish.

The parent, which is this process, never starts a JVM.
"""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lakestate.demo_view import DemoView
from lakestate.runner_events import AnyEvent, EpochSealed, Failed, Finished
from lakestate.runner_process import RunnerProcess, runner_command
from lakestate.start_request import StartRequest
from state_engine.errors import LakestateError
from state_engine.log.records import Pin

JOB = "flights"
CRASH_POINT = "E5_CHANGE_FILE_WRITTEN"
"""The change file is durable, but no manifest names it: the epoch is cut off in the middle."""


class DemoError(LakestateError):
    """The demonstration did not go as planned."""


class Run(NamedTuple):
    """How one runner ended."""

    exit_code: int
    last_epoch: int
    spark_jobs: int


class Scenario:
    """Runs the phases one after the other.

    Args:
        folder: Contains everything: `input`, `state`, `tables`, `logs`.
        files: Number of input files; one epoch reads one.
        view: Shows phases and events.
        take_savepoint: Takes a savepoint of the job in the given root, from outside of the job.
    """

    def __init__(self, folder: Path, files: int, view: DemoView, take_savepoint: Callable[[Path], Pin]) -> None:
        self.root = folder / "state"
        self.tables = folder / "tables"
        self.runs: list[Run] = []
        self._options = {"input": str(folder / "input"), "tables": str(self.tables)}
        self._logs = folder / "logs"
        self._view = view
        self._take_savepoint = take_savepoint
        self._step = max(3, files // 8)

    @property
    def kills(self) -> int:
        """Number of runners that SIGKILL ended."""
        return sum(run.exit_code == -signal.SIGKILL for run in self.runs)

    @property
    def spark_jobs(self) -> int:
        """Spark jobs of all runners; for a killed one, up to its last event."""
        return sum(run.spark_jobs for run in self.runs)

    def play(self) -> Pin:
        """Plays all phases and returns the savepoint.

        Raises:
            DemoError: A runner failed, or did not end as planned.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        self._view.phase("Start at parallelism 2; the driver will kill itself in the middle of an epoch.")
        self._run_until_killed(self._step + 2, parallelism=2)

        self._view.phase("Start again: restore from the newest sealed epoch.")
        savepoint = self._run_with_savepoint(parallelism=2)

        self._view.phase(f"Go back to the savepoint at epoch {savepoint.epoch}, now at parallelism 3, sinks included.")
        self._run_until_killed(savepoint.epoch + self._step + 1, parallelism=3, restore=savepoint.savepoint_id)

        self._view.phase("Start again, and go on to the end of the input.")
        self._expect(self._run(parallelism=3, available_now=True), 0)
        return savepoint

    def _run_until_killed(self, epoch: int, *, parallelism: int, restore: str | None = None) -> None:
        crash_at = f"{CRASH_POINT}@{epoch}"
        run = self._run(parallelism=parallelism, restore=restore, available_now=True, crash_at=crash_at)
        self._expect(run, -signal.SIGKILL)
        self._view.phase(f"[red]Killed[/] in epoch {epoch}; the last sealed one is {run.last_epoch}.")

    def _run_with_savepoint(self, *, parallelism: int) -> Pin:
        pins: list[Pin] = []
        sealed = 0

        def react(process: RunnerProcess, event: AnyEvent) -> None:
            nonlocal sealed
            if not isinstance(event, EpochSealed):
                return
            sealed += 1
            if sealed == self._step:
                pins.append(self._take_savepoint(self.root))
                self._view.phase(f"[green]Savepoint[/] of the running job, at epoch {pins[0].epoch}; the job goes on.")
            if pins and event.epoch >= pins[0].epoch + self._step:
                process.request_stop()

        run = self._run(parallelism=parallelism, react=react)
        self._expect(run, 0)
        if not pins:
            raise DemoError("The job ended before a savepoint could be taken.", action="Take more records.")
        self._view.phase(f"Stopped after epoch {run.last_epoch}, which the savepoint does not know.")
        return pins[0]

    def _run(
        self,
        *,
        parallelism: int,
        restore: str | None = None,
        available_now: bool = False,
        crash_at: str | None = None,
        react: Callable[[RunnerProcess, AnyEvent], None] | None = None,
    ) -> Run:
        request = StartRequest(
            options=self._options, restore=restore, parallelism=parallelism, available_now=available_now
        )
        command = runner_command(JOB, self.root, request)
        epoch = spark_jobs = 0
        with RunnerProcess(command, log=self._log(len(self.runs)), crash_at=crash_at) as process:
            for event in process.events():
                self._view.show(event)
                if isinstance(event, EpochSealed | Finished):
                    epoch, spark_jobs = event.epoch, event.spark_jobs
                if isinstance(event, Failed):
                    raise DemoError(f"The job failed with {event.error}: {event.message}", action=event.action)
                if react is not None:
                    react(process, event)
            self.runs.append(Run(process.wait(), epoch, spark_jobs))
        return self.runs[-1]

    def _expect(self, run: Run, exit_code: int) -> None:
        if run.exit_code != exit_code:
            raise DemoError(
                f"Runner {len(self.runs)} ended with {run.exit_code}, not {exit_code}, after epoch {run.last_epoch}.",
                action=f"Look at {self._log(len(self.runs) - 1)}.",
            )

    def _log(self, index: int) -> Path:
        return self._logs / f"runner-{index + 1}.log"


__all__ = ["CRASH_POINT", "JOB", "DemoError", "Run", "Scenario"]
