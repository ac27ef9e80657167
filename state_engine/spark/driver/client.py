"""The handle of a running job, in the process that started it.

Longer than 500 lines because an author has one object for a running job, as in PyFlink. The other files of this folder
do its work.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from state_engine.causes import chained, records_shown
from state_engine.checkpoint.externalized import JobEnd
from state_engine.checkpoint.pending import PendingCheckpoint
from state_engine.checkpoint.requests import CheckpointRequest
from state_engine.clock import SystemClock
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.driver import EpochDriver
from state_engine.epoch.held_clock import HeldClock
from state_engine.epoch.rescale import RescaleRequest
from state_engine.errors import EpochError, LakestateError, StopRequestedError
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Manifest
from state_engine.log.savepoints import Savepoint
from state_engine.runtime.lifecycle import is_listener
from state_engine.savepoint import KeyGroupRestore, SavepointKind, SavepointRequest, take_savepoint
from state_engine.savepoint.group_restore import GroupRestorer
from state_engine.savepoint.selection import Groups, selection_of
from state_engine.savepoint.stop import stop_with_savepoint
from state_engine.spark.driver.checkpoint_future import CheckpointFuture
from state_engine.spark.driver.clock_notices import log_step
from state_engine.spark.driver.ending import discard_checkpoints, log_no_stops, refuse_batch, try_to_discard_checkpoints
from state_engine.spark.driver.fence_watch import FenceWatch
from state_engine.spark.driver.heartbeat import Heartbeat, Pace
from state_engine.spark.driver.idle_input import IdleInput
from state_engine.spark.driver.live_restore import restored_between_epochs
from state_engine.spark.driver.offsets import SparkOffsetLog
from state_engine.spark.driver.progress import EPOCHS_PER_COUNT, EpochHistory, EpochSummary, JobCounter, jobs_of_group
from state_engine.spark.driver.rescale_future import RescaleFuture
from state_engine.spark.driver.running_query import RunningQuery
from state_engine.spark.driver.savepoint_writer import SparkWriter
from state_engine.spark.driver.source_lag import SourceLag, SourceLags
from state_engine.spark.driver.startup import Started, StartOptions, start_up
from state_engine.spark.driver.tasks import SparkTasks, log_retry
from state_engine.spark.driver.trigger import TriggerInterval, checked_interval
from state_engine.spark.graph.definition import JobDefinition
from state_engine.spark.graph.upstream import client_options
from state_engine.spark.plan.packing import planned
from state_engine.spark.plan.planner import EpochPlanner
from state_engine.spark.plan.preferred_locations import preferred_locations
from state_engine.spark.wire.failures import failure_of
from state_engine.spark.worker.running_jobs import RUNNING
from state_engine.storage.job_lock import hold
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage

JobState = Literal["CREATED", "RUNNING", "FINISHED", "FAILED", "CANCELED"]


class JobClient:
    """Starts, watches and stops one incarnation of a job: PyFlink's `JobClient`, as far as one process can offer it."""

    def __init__(self, job: JobDefinition, options: StartOptions) -> None:
        self._job = job
        self._options = options
        self._lock = threading.RLock()
        self._stopping = self._being_stopped = False
        self._in_batch = False
        self._pace = Pace(job.settings.heartbeat_interval_ms, SystemClock())
        self._trigger = TriggerInterval(0 if options.available_now else options.trigger_interval_ms, SystemClock())
        self._error: BaseException | None = None
        self._incarnation = ""
        self._started: Started
        self._driver: EpochDriver
        self._offsets: SparkOffsetLog
        self._planner: EpochPlanner
        self._query: RunningQuery | None = None
        self._release_lock: Callable[[], None] = lambda: None
        self._fence: FenceWatch
        self._heartbeat: Heartbeat | None = None
        self._idle_input: IdleInput
        self._source_lags = SourceLags((), (), SystemClock())
        self._listens = False
        self._history = EpochHistory()
        self._jobs = JobCounter(self._job_ids)

    def start(self) -> None:
        """Takes the job's lock on this machine, then runs S1 to S5 of a start.

        Raises:
            JobAlreadyRunningError: Another process on this machine holds the job's lock; nothing was written.
        """
        with contextlib.ExitStack() as undo:
            self._release_lock = hold(self._job.root, self._job.name, "program")
            undo.callback(self._release_lock)
            self._started = start_up(self._job, self._options)
            undo.callback(self._started.sinks.close)
            self._start(self._started)
            undo.pop_all()

    def _start(self, started: Started) -> None:
        job = self._job = started.job
        settings = job.settings
        head = started.head
        self._listens = any(is_listener(node.function) for node in job.operators)
        locations = preferred_locations(job.session, job.name) if settings.preferred_locations else None
        self._planner = EpochPlanner(planned(job), job.sources, settings.agg_phase_strategy, locations)
        positions = head.stored.manifest.sources if job.sources.replays else ()
        self._offsets = SparkOffsetLog(started.directory, started.fingerprints, positions)
        self._clock = HeldClock(SystemClock(), partial(log_step, job.name))
        self._driver = EpochDriver(
            head,
            started.log,
            started.sinks,
            started.publisher,
            started.coordinator,
            self._clock,
            started.crash,
            lock=self._lock,
            inline_threshold=settings.data_inline_threshold,
            on_retry=log_retry,
        )
        # Spark refuses two queries with one name, and a new driver fences the old one without stopping its query first.
        name = f"lakestate-{job.name}-{head.stored.manifest.incarnation[:8]}"
        writer = job.sources.df.writeStream.foreachBatch(self._on_batch).queryName(name)
        # With its scheme: where Hadoop's default file system is another one, Spark would look for the folder there.
        writer = writer.option("checkpointLocation", f"file://{Path(started.directory).absolute()}")
        if self._options.available_now:
            writer = writer.trigger(availableNow=True)
        log = ManifestLog(open_storage(job.root, job.name), job.name)
        self._fence = FenceWatch(log, settings.fence_interval_ms, SystemClock())
        log_no_stops()
        query = writer.start()
        self._query = RunningQuery(query, job.session, job.name)
        limited = ["maxoffsetspertrigger" in options for options in client_options(job.sources.df)]
        self._source_lags = SourceLags([node.name for node in job.sources.nodes], limited, SystemClock())
        self._idle_input = IdleInput(job.sources.df, query)
        self._incarnation = head.stored.manifest.incarnation
        RUNNING.begin(self._incarnation, head.root, job.name)
        started.crash.at(CrashPoint.S5_STARTED, head.stored.manifest.epoch)
        self._heartbeat = Heartbeat(
            f"heartbeat-{job.name}",
            settings.heartbeat_interval_ms,
            has_ended=self._query.await_end,
            watch=self._watch,
            beat=self._beat,
            at_end=self._at_end,
            failed=self._failed_between_batches,
        )
        self._heartbeat.start()

    def _watch(self) -> None:
        """Checks with one GET whether another driver has taken the job over; otherwise only an epoch would show it."""
        if self._stopping or self._in_batch:
            return
        if (next_manifest := self._fence.look(self._driver.head)) is not None:
            self._driver.check_owner(next_manifest)

    def _beat(self) -> None:
        self._look_after_checkpoints()
        if self._source_lags.is_due():
            with contextlib.suppress(Exception):  # a figure for people must not end the job
                self.source_lags()
        if self._wants_epoch():
            with self._lock:  # the epoch that ran until now may have done what was wanted, or the job may have ended
                if self._wants_epoch():
                    self.run_idle_epoch()
        elif self._wants_to_tell():
            with self._lock:
                if self._wants_to_tell():
                    tasks = self._idle_tasks()
                    self._record(lambda: self._driver.run_idle(tasks, barrier=False), tasks)

    def _wants_epoch(self) -> bool:
        if self._stopping:
            return False
        clock = self._clock
        if self._driver.wants_rescale or self._started.coordinator.wants_epoch(clock.steady_ms()):
            return True
        return self._driver.is_due(clock.now_ms()) and not self._trigger.holds and not self._pace.expects_batch()

    def _wants_to_tell(self) -> bool:
        wants = self._listens and not self._stopping and self._driver.has_notices()
        return wants and not self._pace.expects_batch()

    def _look_after_checkpoints(self) -> None:
        if self._lock.acquire(blocking=False):  # otherwise an epoch is running, and does this itself
            try:
                self._driver.look_after_checkpoints()
            finally:
                self._lock.release()

    def _at_end(self) -> None:
        """Ends the job after its query ended by itself: it failed, or the input of a bounded job is at its end."""
        end: JobEnd | None = "failed" if self.exception is not None else None
        if end is None and self._error is None and self._job.sources.bounded and not self._stopping:
            self._end_input()
            end = "finished"
        self._end_checkpoints()
        if end is not None:
            try_to_discard_checkpoints(self._job, self.head, end)

    def _note_failure(self, error: BaseException) -> None:
        """Keeps the job's first error; a lost engine in its place, if that is the cause and the job is not stopping."""
        if self._error is None:
            named = error if self._stopping or self._query is None else self._query.named(error)
            if self._error is None:  # another thread may have noted an error while this one asked Spark
                self._error = named

    def _end_input(self) -> None:
        tasks, begun, attempts = self._idle_tasks(), time.perf_counter(), 0
        for sealed in self._driver.run_end_of_input(tasks):
            self._note(sealed, begun, tasks.attempts - attempts)
            begun, attempts = time.perf_counter(), tasks.attempts

    def _failed_between_batches(self, error: BaseException) -> None:
        self._note_failure(error)
        self._trigger.end()
        with contextlib.suppress(Exception):
            self._running_query.stop()
        self._end_checkpoints()
        try_to_discard_checkpoints(self._job, self.head, "failed")

    def _on_batch(self, batch: DataFrame, batch_id: int) -> None:
        """Runs one micro-batch as one epoch: returns only after a verified seal, and raises otherwise."""
        self._in_batch = True
        self._trigger.begin()
        try:
            with self._lock:  # a stop waits for this epoch, and later batches see the stop
                took_ms = None if self._stopping or self._error else self._run_batch(batch, batch_id)
            if took_ms is None:
                refuse_batch(batch, self._job.name)
        except BaseException as error:
            self._note_failure(error)
            raise
        finally:
            self._in_batch = False
        self._trigger.hold(lambda: self._running_query.is_active)
        self._pace.ended(took_ms)

    def _run_batch(self, batch: DataFrame, batch_id: int) -> int:
        """Runs it, and returns the time that it took, in ms."""
        begun = time.perf_counter()
        sources = self._offsets.read(batch_id)
        tasks = self._tasks(batch)
        self._record(lambda: self._driver.run_epoch(tasks, sources), tasks)
        self._offsets.advance(sources)
        return round(1000 * (time.perf_counter() - begun))

    def _record(self, run: Callable[[], StoredManifest], tasks: SparkTasks | None = None) -> StoredManifest:
        begun = time.perf_counter()
        sealed = run()
        self._note(sealed, begun, tasks.attempts if tasks else 0)
        return sealed

    def _note(self, sealed: StoredManifest, begun: float, attempts: int) -> None:
        manifest = sealed.manifest
        summary = EpochSummary(
            manifest.epoch, manifest.kind, self._records_of(manifest), time.perf_counter() - begun, attempts
        )
        self._history.append(summary)
        if summary.epoch % EPOCHS_PER_COUNT == 0:
            self._jobs.look()

    def _records_of(self, manifest: Manifest) -> int:
        """Returns how many records were read by the operators that sources feed."""
        uids = [node.uid for node in self._job.operators if node.sources]
        return sum(ack.records_in for uid in uids for ack in manifest.operators[uid].acks)

    def run_idle_epoch(self) -> StoredManifest:
        """Seals an epoch without input, between two batches of a running job."""
        tasks = self._idle_tasks()
        return self._record(lambda: self._driver.run_idle(tasks), tasks)

    def _idle_tasks(self) -> SparkTasks:
        return self._tasks(self._idle_input.frame())

    def _tasks(self, records: DataFrame) -> SparkTasks:
        shown = self._job.settings.show_records
        return SparkTasks(self._planner, records, self._started.crash_property, show_records=shown)

    def stop(self, *, drain: bool = False, before: Callable[[], None] | None = None) -> None:
        """Stops the job after the running epoch; the next start goes on from there.

        A job that has ended by itself keeps its state, failed or finished.

        Args:
            drain: End the input first: the last watermark passes all operators, and every event-time timer fires. A
                drained job is over: to go on, use the epoch before the drain.
            before: Called after the running epoch, while no other can begin. It sees the epoch at which the job ends,
                or from which it is drained. If it raises, the job runs on and the error is passed on.

        Raises:
            LakestateError: The drain failed; nothing of the failed epoch is kept.
        """
        if before is not None:
            with self._lock:
                before()
                drain = self._refuse_epochs(drain)
        else:
            drain = self._refuse_epochs(drain)
            with self._lock:
                pass  # now the running epoch is sealed, or has failed
        try:
            self._running_query.stop()
            if self._heartbeat is not None:
                self._heartbeat.stop()
            if drain:
                self._end_input()
        except Exception as error:
            self._error = error
            raise
        finally:
            self._driver.request_stop()
            self._end_checkpoints()
            self._being_stopped = False

    def cancel(self, *, before: Callable[[], None] | None = None) -> None:
        """Ends the job for good: as `stop`, but discards checkpoints, if so configured. Savepoints stay.

        Raises:
            LakestateError: `before` raised it, and the job runs on; or, after the end, checkpoints were not removed.
        """
        has_ended = self.state != "RUNNING"  # then it ended by itself, and its checkpoints were dealt with
        self.stop(before=before)
        if not has_ended:
            discard_checkpoints(self._job, self.head, "canceled" if self.exception is None else "failed")

    def _refuse_epochs(self, drain: bool) -> bool:
        """Refuses every later epoch except those of a drain; returns whether the job will be drained."""
        if (lost := self._running_query.lost()) is not None and self.state == "RUNNING":
            self._note_failure(lost)  # the heartbeat is about to see it
        running = self.state == "RUNNING" and self._error is None
        self._being_stopped = running
        self._stopping = self._stopping or running
        if running:
            self._trigger.end()
        if not (drain and running):
            self._driver.request_stop()
        return drain and running

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Waits for the end of the job.

        Args:
            timeout_s: Seconds to wait at most.

        Returns:
            Whether the job has ended.

        Raises:
            LakestateError: What it failed with; `SparkLostError` where its session was stopped or its JVM has ended.
        """
        deadline = time.monotonic() + timeout_s if timeout_s is not None else None

        def remaining_s() -> float | None:
            return max(0.0, deadline - time.monotonic()) if deadline is not None else None

        # Not for the query: without a JVM, or after its session was stopped, it never ends. The heartbeat notices both.
        if self._heartbeat is not None and not self._heartbeat.wait(remaining_s()):
            return False
        if not self._started.publisher.wait(remaining_s()):
            return False
        self._end_checkpoints()
        failure = self.exception
        if failure is not None:
            raise failure
        return True

    @property
    def state(self) -> JobState:
        """The job's state. It follows the log, and not what Spark reports about an interrupted thread."""
        if self._query is None:
            return "CREATED"
        if self._query.is_active or self._in_batch:  # Spark does not wait for the batch that its stop() cuts off
            return "RUNNING"
        if self._being_stopped or (self._heartbeat is not None and self._heartbeat.running and not self._stopping):
            return "RUNNING"  # the end of the input may still have to be processed, and checkpoints be published
        if self.exception is not None:
            return "FAILED"
        return "CANCELED" if self._stopping or isinstance(self._error, StopRequestedError) else "FINISHED"

    @property
    def exception(self) -> BaseException | None:
        """What the job failed with; None while it runs, and after a stop."""
        if self._stopping or isinstance(self._error, StopRequestedError):
            return None if not isinstance(self._error, LakestateError) or _is_stop(self._error) else self._error
        if self._error is None and self._query is not None and not self._query.is_active:
            failure = self._named(self._query.failure())
            if self._error is None:  # another thread may have noted the error while this one asked Spark
                self._error = failure
        return self._error

    def _named(self, error: BaseException | None) -> BaseException | None:
        """Returns Spark's error about the query as an error of ours that names the cause; other errors as they are."""
        if not isinstance(error, PySparkException):
            return error
        with records_shown(self._job.settings.show_records):
            named = failure_of(error).as_error(
                f"The query of job {self._job.name!r} ended",
                otherwise=EpochError,
                action="Look at its sources and at Spark's log; the job goes on from its newest sealed epoch.",
            )
            named.__cause__ = chained(error)
            return named

    @property
    def head(self) -> StoredManifest:
        """The newest manifest that this incarnation has sealed."""
        return self._driver.head

    @property
    def query(self) -> Any:
        """Spark's own handle of the query; None until it has started."""
        return self._query.handle if self._query is not None else None

    @property
    def _running_query(self) -> RunningQuery:
        assert self._query is not None, "the job was not started"
        return self._query

    @property
    def epochs(self) -> list[EpochSummary]:
        """The epochs that this incarnation has sealed, oldest first; of a long run the newest 10,000."""
        return self._history.after(-1)

    def epochs_after(self, epoch: int) -> list[EpochSummary]:
        """Returns those of `epochs` with a higher number.

        To follow a job, pass the last epoch that you have seen. No epoch is missed, however many there are, as long as
        you call this once in 10,000 epochs.
        """
        return self._history.after(epoch)

    @property
    def spark_jobs(self) -> int:
        """How many Spark jobs the batches of the query have run; those of epochs between batches are not counted.

        They are counted every 50 epochs and with each call. The number is right as long as Spark remembers all jobs
        since the last count. Spark keeps the application's newest 1,000, or the number in `spark.ui.retainedJobs`.
        """
        return self._jobs.count()

    def source_lags(self) -> tuple[SourceLag, ...]:
        """Returns how far the job is behind each source, as of the last batch that has ended.

        None where Spark does not tell, or where a batch has no limit and takes all that there is.
        """
        return self._source_lags.look(self._running_query.last_progress())

    def _job_ids(self) -> list[int]:
        query = self._running_query
        return [] if query.lost() else jobs_of_group(self._job.session.sparkContext, str(query.handle.runId))

    def _end_checkpoints(self) -> None:
        """Waits for the running publish, and completes the futures of checkpoints and rescales.

        Called after the last epoch: workers need not hold anything of the job any longer.
        """
        RUNNING.end(self._incarnation)
        self._driver.end_rescales()
        self._started.publisher.wait()
        with self._lock:
            self._started.publisher.completed()
            self._started.coordinator.shut_down(SystemClock().steady_ms())
            self._started.sinks.close()
        self._release_lock()

    def trigger_checkpoint(self, *, full: bool = False) -> CheckpointFuture:
        """Requests a checkpoint with the next epoch, which comes soon, with or without input.

        Args:
            full: Fold the state from scratch, whatever the last checkpoint left.

        Returns:
            A future for its end; it may be ignored.
        """
        future = CheckpointFuture(self._job.name)
        self._started.coordinator.request(CheckpointRequest(full=full, tell=future.tell))
        return future

    @property
    def parallelism(self) -> dict[str, int]:
        """How many subtasks each operator has by uid, in the newest epoch, or in the first if none is sealed yet."""
        return {operator.uid: operator.parallelism for operator in self._driver.operators}

    def rescale(self, parallelism: int | Mapping[str, int]) -> RescaleFuture:
        """Gives the running job another parallelism with its next epoch, which comes soon, with or without input.

        Nothing is restarted: the subtasks of that epoch take over the key groups that are then theirs. Later starts
        keep the new parallelism while the job's definition gives the same one as now, or until a start names another.

        Args:
            parallelism: Of all operators, or of some by uid. Operators that share a task, or read one operator, have
                one parallelism: naming one of them sets it for all.

        Returns:
            A future that is done when an epoch is sealed with the new parallelism; it may be ignored.

        Raises:
            RescaleError: A number is below 1 or above max parallelism, a uid is unknown, or operators that share one
                parallelism would differ. Nothing changes.
        """
        future = RescaleFuture(self._job.name)
        wanted = dict(parallelism) if isinstance(parallelism, Mapping) else parallelism
        self._driver.rescale(RescaleRequest(wanted, future.tell))
        return future

    @property
    def trigger_interval_ms(self) -> int:
        """The time between the beginnings of two epochs with input, in ms; 0 with `available_now`.

        A new value takes effect at once, and until the job's end: the next start has its own. With `available_now` it
        has no effect.
        """
        return self._trigger.interval_ms

    @trigger_interval_ms.setter
    def trigger_interval_ms(self, interval_ms: int) -> None:
        interval_ms = checked_interval(interval_ms)
        if not self._options.available_now:
            self._trigger.interval_ms = interval_ms

    @property
    def checkpoints_under_way(self) -> Sequence[PendingCheckpoint]:
        """The checkpoints that have begun and not ended, oldest first."""
        return self._started.coordinator.pending

    def restore_key_groups(
        self,
        source: str,
        ranges: Iterable[Groups] | None = None,
        *,
        uids: Iterable[str] | None = None,
        keys: Iterable[Any] | None = None,
        dry_run: bool = False,
        cancelled: Callable[[], bool] | None = None,
    ) -> KeyGroupRestore:
        """Replaces the state of some key groups, or of some keys, between two epochs of the running job.

        All keyed states and timers of a chosen operator move together. Input that was read since the source's epoch is
        not read again for them, and sinks keep what they have. The next epoch starts from the replaced state.

        Args:
            source: A savepoint's id, `checkpoint:<id>`, `epoch:<generation>/<epoch>`, or `<job>/<savepoint id>`.
            ranges: Key groups by number, or as (first, last), both inclusive.
            uids: Operators; all with keyed state by default.
            keys: In place of `ranges`: tuples of the key columns' values; for a single key column also bare values.
            dry_run: Report what would happen, and write nothing.
            cancelled: Called now and then until the manifest is put. Once it returns True, the restore ends without a
                trace.

        Returns:
            What happened, or would happen; rows were counted just before.

        Raises:
            NothingToRestoreError: The source does not exist.
            RestoreError: The restore is refused; class and message say why. Nothing was written and the job goes on.
            RestoreCancelledError: The restore was cancelled.
            StopRequestedError: The job is stopping, or has ended.
            FencedError: Another driver owns the job.
        """
        if not dry_run and self.state != "RUNNING":
            raise StopRequestedError(
                f"Job {self._job.name!r} does not run any more.",
                action="Use state_engine.savepoint.restore_key_groups, which is for stopped jobs.",
            )
        chosen = selection_of(ranges, keys, uids)
        restorer = GroupRestorer(self._job.root, self._job.name, source, chosen, cancelled=cancelled)
        if dry_run:
            return restorer.plan(self._driver.head)
        return restored_between_epochs(restorer, self._driver, self._record)

    def trigger_savepoint(
        self, label: str = "", note: str = "", *, kind: SavepointKind = "native", directory: str | None = None
    ) -> Savepoint:
        """Takes a savepoint of the newest sealed epoch; the job is not disturbed.

        A native one pins the epoch's files and copies nothing. A canonical one writes the state to tables that can be
        moved, while this thread waits; a Spark job writes states of ten million rows and more (`SparkWriter`).
        Arguments and errors are those of `state_engine.savepoint.trigger_savepoint`.
        """
        request = SavepointRequest(kind, directory, label, note)
        return take_savepoint(self._job.root, self._job.name, request, writer=SparkWriter(self._job.session))

    def stop_with_savepoint(self, request: SavepointRequest | None = None, *, drain: bool = False) -> Savepoint:
        """Stops with a savepoint of the last epoch, by default a native one. If it cannot be taken, the job runs on.

        With a drain, a second savepoint is taken before the drain, labelled `before drain`: the one to go on from.
        Raises what went wrong. Only a drain that has begun can end a job without the requested savepoint.
        """

        def take(one: SavepointRequest) -> Savepoint:
            return take_savepoint(self._job.root, self._job.name, one)

        return stop_with_savepoint(self.stop, take, request or SavepointRequest(), drain=drain)


def _is_stop(error: LakestateError) -> bool:
    """Returns whether an error is only that of an epoch which `query.stop()` cut off; that epoch was not sealed."""
    return isinstance(error, StopRequestedError) or type(error) is EpochError


__all__ = ["EpochSummary", "JobClient", "JobState"]
