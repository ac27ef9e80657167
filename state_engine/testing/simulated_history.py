"""Plays histories of the simulated cluster: a line of text describes events, and the player checks the job.

`history_words.py` explains the words of a line. After the last word faults end, and the job must recover
(`Player.settle`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from state_engine.checkpoint.compaction import compact
from state_engine.checkpoint.leases import LEASE_MS
from state_engine.checkpoint.retention.steps import DELETING_MS, apply_retention, plan_retention
from state_engine.epoch import look
from state_engine.errors import LakestateError, SinkAheadError, SinkRewindError
from state_engine.key_groups import KeyGroupRange
from state_engine.savepoint import dispose_savepoint, list_savepoints, trigger_savepoint, validate_savepoint
from state_engine.testing.history_words import Action, parse
from state_engine.testing.simulated_cluster import (
    HOSTS,
    JOB,
    POLICY,
    Cluster,
    ClusterDriver,
    HostClock,
    delivered_on,
    position,
)
from state_engine.testing.simulated_processes import Killed, Process
from state_engine.testing.simulated_workers import GROUPS, load, truth

TICKS_MS = (1_000, 60_000, 600_000, LEASE_MS + 1)
SKEWS_MS = (0, 300_000, -300_000, 600_000)
SHRINKING = 400
"""Maximum number of histories that are played to shorten a failing one."""

_SIMPLER: tuple[dict[str, Any], ...] = ({"faults": ()}, {"calls": None, "of_table": False}, {"number": 0})


class CheckFailed(AssertionError):
    """A check failed. `kind` is the same for the same fault, whatever the numbers are."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind


@dataclass
class Player:
    """Plays one history on a new cluster."""

    cluster: Cluster = field(init=False)

    def play(self, actions: list[Action]) -> None:
        """Plays a history, ends the faults, and checks the job.

        Raises:
            CheckFailed: Something is lost, doubled or wrong, or the job makes no progress.
        """
        first = actions[0] if actions and actions[0].verb == "job" else Action("job")
        inline, parked_first, mixed, retain = (first.number >> bit & 1 for bit in range(4))
        self.cluster = Cluster(100_000 * inline, mixed=bool(mixed))
        try:
            for action in actions:
                if action.verb != "job":
                    self._act(action)
            self.settle(parked_first=bool(parked_first), retain=bool(retain))
        finally:
            self.cluster.close()

    def _act(self, action: Action) -> None:
        getattr(self, f"_{action.verb}")(action)

    def _run(self, action: Action, work: Callable[[], object]) -> Process:
        process = Process(str(action), work, dict(action.faults))
        self.cluster.processes.run(process, action.calls, action.counted)
        return self._ended(process)

    def _ended(self, process: Process) -> Process:
        """Checks how a process ended: with a named error, or with any error if it has read a flipped bit."""
        error = process.error
        if not process.done or error is None or isinstance(error, (LakestateError, Killed)):
            return process
        if process.misread:
            return process
        raise CheckFailed(f"{type(error).__name__} in {parse(process.name)[0].verb}", str(error)) from error

    # drivers ------------------------------------------------------------------------------------------------------

    def _start(self, action: Action) -> None:
        self._begin(action, None)

    def _restore(self, action: Action) -> None:
        log = self.cluster.open_log()
        places = [f"epoch:{g}/{e}" for g in log.generations() for e in log.epochs(g)[-6:]]
        places += self.cluster.savepoints * 3
        if places:
            self._begin(action, places[action.number % len(places)])

    def _begin(self, action: Action, restore: str | None) -> None:
        self._launch(
            action, restore, ClusterDriver(self.cluster, action.number % HOSTS, 1 + action.number // HOSTS % 3)
        )

    def _launch(self, action: Action, restore: str | None, driver: ClusterDriver) -> None:
        self.cluster.drivers.append(driver)
        driver.process = self._run(action, partial(driver.start, restore))

    def _driver(self, number: int) -> ClusterDriver | None:
        """Returns the newest driver, or sometimes an older one; None if there is none, or it is busy or was killed."""
        ready = [one for one in self.cluster.drivers if one.epochs is not None]
        if not ready:
            return None
        driver = ready[number // 5 % len(ready)] if number % 5 == 4 else ready[-1]
        busy = driver.process is not None and not driver.process.done
        killed = driver.process is not None and driver.process.killed
        return None if busy or killed else driver

    def _step(self, action: Action, *, barrier: bool = False) -> None:
        if (driver := self._driver(action.number)) is not None:
            if barrier:
                driver.barriers.wanted, driver.barriers.full = True, action.number % 3 == 0
                driver.publishing.later = action.number % 2 == 1
            driver.process = self._run(action, partial(driver.step, action.number // 10 % 10))

    def _crash(self, action: Action) -> None:
        """Runs an epoch in which the driver dies."""
        if (driver := self._driver(0)) is not None:
            driver.process = self._run(action._replace(calls=action.number % 25), driver.step)
            driver.process.killed = True
            self.cluster.processes.kill(driver.process)

    def _ckpt(self, action: Action) -> None:
        self._step(action, barrier=True)

    def _idle(self, action: Action) -> None:
        if (driver := self._driver(action.number)) is not None:
            driver.process = self._run(action, driver.idle)

    # the order of events ------------------------------------------------------------------------------------------

    def _resume(self, action: Action) -> None:
        parked = self.cluster.processes.parked
        if parked:
            process = parked[action.number % len(parked)]
            process.faults |= {process.calls + call: kind for call, kind in action.faults}
            self.cluster.processes.run(process, action.calls, action.counted)
            self._ended(process)

    def _kill(self, action: Action) -> None:
        parked = self.cluster.processes.parked
        if parked:
            process = parked[action.number % len(parked)]
            process.killed = True
            self.cluster.processes.kill(process)

    def _deliver(self, action: Action) -> None:
        self.cluster.processes.deliver()

    def _tick(self, action: Action) -> None:
        self.cluster.pass_time(TICKS_MS[action.number % len(TICKS_MS)])

    def _skew(self, action: Action) -> None:
        self.cluster.skews[action.number % HOSTS] = SKEWS_MS[action.number // HOSTS % len(SKEWS_MS)]

    # other events -------------------------------------------------------------------------------------------------

    def _savepoint(self, action: Action) -> None:
        log = self.cluster.open_log()
        head = look.newest(log) if action.number % 3 == 2 else None
        epoch = max(1, head.manifest.epoch - action.number // 3 % 6) if head is not None else None
        self._run(action, partial(self._take, action.number % HOSTS, epoch))

    def _take(self, host: int, epoch: int | None) -> None:
        clock = HostClock(self.cluster, host)
        savepoint = trigger_savepoint(self.cluster.root, JOB, epoch=epoch, clock=clock, ids=self.cluster)
        self.cluster.savepoints.append(savepoint.savepoint_id)

    def _dispose(self, action: Action) -> None:
        if self.cluster.savepoints:
            name = self.cluster.savepoints.pop(action.number % len(self.cluster.savepoints))
            self._run(action, partial(dispose_savepoint, self.cluster.root, JOB, name))

    def _retain(self, action: Action) -> None:
        self._run(action, partial(self._retention, action.number % HOSTS))

    def _retention(self, host: int) -> None:
        clock = HostClock(self.cluster, host)
        plan = plan_retention(self.cluster.root, JOB, POLICY, clock.now_ms())
        apply_retention(plan, clock=clock, ids=self.cluster)

    def _compact(self, action: Action) -> None:
        clock = HostClock(self.cluster, action.number % HOSTS)
        self._run(action, lambda: compact(self.cluster.root, JOB, clock=clock, ids=self.cluster))

    def _append(self, action: Action) -> None:
        table = self.cluster.table
        if table.versions:
            row = (-len(self.cluster.foreign) - 1, "foreign", 0)
            table.append(f"foreign-{self.cluster.new_id()}", (row,))
            self.cluster.foreign.append(row)

    def _optimize(self, action: Action) -> None:
        table = self.cluster.table
        files = sorted(table.versions[-1].files)[-2 - action.number % 3 :] if table.versions else []
        if len(files) > 1:
            self.cluster.compacted = True
            table.rewrite(f"optimized-{self.cluster.new_id()}", files)

    def _backup(self, action: Action) -> None:
        self.cluster.save()

    def _putback(self, action: Action) -> None:
        """Puts back root and table, or only the root; then starts 1 to 6 drivers in turn, with no epoch in between."""
        parallelism = self.cluster.drivers[-1].parallelism if self.cluster.drivers else 1
        if self.cluster.backup is None:
            return
        self.cluster.put_back(table=action.number % 8 != 7)
        for _ in range(1 + action.number % 6):
            self._launch(Action("start"), None, ClusterDriver(self.cluster, 0, parallelism))

    def _wipe(self, action: Action) -> None:
        """Deletes the job's folder, but not its sink's table."""
        for process in list(self.cluster.processes.parked):
            self.cluster.processes.kill(process)
        self.cluster.processes.in_flight.clear()
        self.cluster.drivers.clear()
        self.cluster.storage.objects.clear()
        self.cluster.savepoints.clear()

    def _alter(self, action: Action) -> None:
        self.cluster.table.alter(altered=action.number % 2 == 0)

    # after the faults ---------------------------------------------------------------------------------------------

    def settle(self, *, parked_first: bool = False, retain: bool = False) -> None:
        """Checks, without further faults, that a start succeeds, the job continues, and its data is right.

        It checks again after the last zombie has ended.

        Args:
            parked_first: Whether processes that are stopped before a call continue before that start.
            retain: Whether retention runs before the last zombies.

        Raises:
            CheckFailed: A check failed.
        """
        self.cluster.table.alter(altered=False)
        if parked_first:
            self._last_zombies()
        self._progress("the job does not start when faults stop", checkpoint=True)
        self._verify()
        if retain:
            self._check(self._run_undisturbed(partial(self._retention, 0)), "retention fails")
            self._verify()
        self._last_zombies()
        self._progress("the job does not start after its last zombies")
        self._verify()
        self._savepoints()

    def _progress(self, problem: str, *, checkpoint: bool = False) -> None:
        """Runs a start and an epoch, with `checkpoint` two epochs; nothing disturbs them."""
        driver = ClusterDriver(self.cluster, 0, 1)
        self.cluster.drivers.append(driver)
        process = self._run_undisturbed(partial(driver.start, None))
        if isinstance(process.error, SinkRewindError) and self.cluster.compacted:
            process = self._run_undisturbed(partial(driver.start, None, keep_output=True))
            self.cluster.kept = True
        if isinstance(process.error, SinkAheadError):
            process = self._run_undisturbed(partial(driver.start, None, adopt_sinks=True))
            self.cluster.kept, self.cluster.kept_from = True, driver.offset
        self._check(process, problem)
        driver.process = process
        self._check(self._run_undisturbed(driver.step), problem)
        if checkpoint:
            driver.barriers.wanted = True
            self._check(self._run_undisturbed(driver.step), problem)

    def _run_undisturbed(self, work: Callable[[], object]) -> Process:
        process = Process("calm", work)
        self.cluster.processes.run(process)
        return process

    def _check(self, process: Process, problem: str) -> None:
        if process.error is not None:
            kind = type(process.error).__name__
            raise CheckFailed(f"{problem} ({kind})", str(process.error)) from process.error

    def _last_zombies(self) -> None:
        processes = self.cluster.processes
        for driver in self.cluster.drivers[:-1]:
            busy = driver.process is not None and not driver.process.done
            killed = driver.process is not None and driver.process.killed
            if driver.epochs is not None and not busy and not killed:
                self._ended(self._run_undisturbed(driver.step))
        while processes.parked:
            process = processes.parked[0]
            process.faults.clear()
            process.full = False
            processes.run(process)
            self._ended(process)
        processes.deliver()

    def _verify(self) -> None:
        """Checks that state and output are those of a plain loop."""
        log = self.cluster.open_log()
        head = look.newest(log)
        if head is None:
            raise CheckFailed("nothing is sealed")
        expected = truth(position(head.manifest))
        try:
            state = load(self.cluster.root, JOB, log, head, KeyGroupRange(0, GROUPS - 1))
        except LakestateError as error:
            raise CheckFailed(f"the state cannot be loaded ({type(error).__name__})", str(error)) from error
        if state != expected.state:
            raise CheckFailed("the state is wrong", f"{state} instead of {expected.state}")
        rows = [row for row in self.cluster.table.live if row[0] >= 0]
        required = {row for row in expected.rows if row[0] >= self.cluster.kept_from}
        if required - set(rows) if self.cluster.kept else rows != sorted(expected.rows):
            raise CheckFailed("the exactly-once sink is wrong", _difference(rows, expected.rows))
        if sorted(row for row in self.cluster.table.live if row[0] < 0) != sorted(self.cluster.foreign):
            raise CheckFailed("rows of another application are gone from the table")
        if delivered_on(self.cluster, head.manifest) != set(expected.rows) and not self.cluster.kept:
            rows = sorted(delivered_on(self.cluster, head.manifest))
            raise CheckFailed("the at-least-once sink is wrong", _difference(rows, expected.rows))
        if self.cluster.ghosts:
            raise CheckFailed("what became visible is not whole", self.cluster.ghosts[0])
        if self.cluster.table.spoilt:
            raise CheckFailed("a commit was made to a table that finished files do not fit")

    def _savepoints(self) -> None:
        """Runs retention twice; then checks that all savepoints are complete, and restores the first and the last."""
        for _ in range(2):
            self.cluster.expire()
            self._check(self._run_undisturbed(partial(self._retention, 0)), "retention fails")
            self.cluster.now_ms += DELETING_MS * 2
        self._verify()
        listed = {one.savepoint_id for one in list_savepoints(self.cluster.root, JOB)}
        for name in self.cluster.savepoints:
            if name not in listed:
                raise CheckFailed("a savepoint is not listed", name)
            if not (report := validate_savepoint(self.cluster.root, JOB, name)).ok:
                raise CheckFailed("a savepoint is damaged", str(report.findings[0]))
        if self.cluster.savepoints and not (self.cluster.compacted or self.cluster.kept):
            for name in dict.fromkeys((self.cluster.savepoints[0], self.cluster.savepoints[-1])):
                driver = ClusterDriver(self.cluster, 0, 1)
                self._check(self._run_undisturbed(partial(driver.start, name)), "a savepoint cannot be restored")
                self._check(self._run_undisturbed(driver.step), "the job does not go on from a savepoint")
                self._verify()


def _difference(rows: list[tuple[int, str, int]], expected: tuple[tuple[int, str, int], ...]) -> str:
    lost, extra = sorted(set(expected) - set(rows)), sorted(set(rows) - set(expected))
    doubled = sorted({row for row in rows if rows.count(row) > 1})
    return f"lost {lost[:3]}, extra {extra[:3]}, doubled {doubled[:3]}"


def find(actions: list[Action]) -> CheckFailed | None:
    """Plays a history; returns the failure, or None if all checks pass."""
    try:
        Player().play(actions)
    except CheckFailed as failure:
        return failure
    return None


def shrink(actions: list[Action], kind: str) -> list[Action]:
    """Shortens a history that fails with a kind, as long as it still does: fewer words, then simpler ones."""
    tries = 0

    def still(candidate: list[Action]) -> bool:
        nonlocal tries
        tries += 1
        failure = find(candidate)
        return failure is not None and failure.kind == kind

    size = len(actions) // 2
    while size and tries < SHRINKING:
        start = 0
        while start < len(actions) and tries < SHRINKING:
            candidate = actions[:start] + actions[start + size :]
            if still(candidate):
                actions = candidate
            else:
                start += size
        size //= 2
    for place in range(len(actions)):
        for simpler in _SIMPLER:
            action = actions[place]._replace(**simpler)
            candidate = [*actions[:place], action, *actions[place + 1 :]]
            if action != actions[place] and tries < SHRINKING and still(candidate):
                actions = candidate
    return actions


__all__ = ["CheckFailed", "Player", "find", "shrink"]
