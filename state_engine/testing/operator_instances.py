"""Runs the subtasks of one operator in one process, epoch by epoch, as tasks and driver do in a job."""

import contextlib
import copy
import dataclasses
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.state_backend import StateBackend
from state_engine.api.timers import TimeDomain
from state_engine.backends.keyed import KeyedStateBackend
from state_engine.backends.stored_type import StateValueError
from state_engine.backends.time import NO_WATERMARK, OperatorTime, watermark_after
from state_engine.epoch.acks import Acknowledged, Answer
from state_engine.epoch.broadcast import check_broadcast
from state_engine.epoch.compatibility import Written, check, check_migrated
from state_engine.epoch.failures import error_of
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.epoch.request import OperatorShape, StartRequest
from state_engine.errors import LakestateError
from state_engine.key_groups import KeyGroupRange, range_of
from state_engine.log.records import Ack, Failure, Manifest, OperatorEpoch, Span
from state_engine.runtime.discovery import discover_states
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.failures import OperatorFailure, engine_failure, state_failure
from state_engine.runtime.lifecycle import RestoredFrom
from state_engine.runtime.operator import Operator
from state_engine.runtime.operators import operator_of
from state_engine.runtime.spec import OperatorSpec
from state_engine.runtime.windows.shape import windows_shape
from state_engine.testing.operator_backends import HarnessBackends
from state_engine.testing.operator_state import Changes, OperatorLog, OperatorSubtaskState

JOB = "harness"
Outputs = dict[str, pa.RecordBatch]


class OperatorInstances:
    """Runs the instances of an operator over a log in memory.

    Args:
        spec: The operator; each instance gets a copy of its function.
        parallelism: Its parallelism.
        subtasks: The subtasks to run, ascending and without gaps.
        state_backend: Where they keep keyed state.

    Attributes:
        processing_time: The processing time of the next epoch.
        watermark: The operator's watermark in the next epoch.
    """

    def __init__(
        self, spec: OperatorSpec, parallelism: int, subtasks: Sequence[int], state_backend: StateBackend | str
    ) -> None:
        self.processing_time = 0
        self.watermark = NO_WATERMARK
        self._spec = spec
        self._parallelism = parallelism
        self._subtasks = subtasks
        self._backends = HarnessBackends(state_backend, JOB)
        self._states = discover_states(spec, copy.deepcopy).states
        self._log = OperatorLog()
        self._running: list[Operator] = []
        self._epoch = 0
        self._sealed = (self.processing_time, self.watermark)
        self._snapshot_id = 0
        self._next_checkpoint = 1

    @property
    def functions(self) -> tuple[Any, ...]:
        """The open copies of the function."""
        return tuple(operator.function for operator in self._running)

    def restore(self, snapshot: OperatorSubtaskState) -> None:
        """Does S1 and the restore of S2: checks the snapshot as the driver does, and continues from its epoch."""
        if self._running or self._epoch:
            raise RuntimeError("initialize_state() comes before open() and before the first record.")
        shape = OperatorShape(
            uid=self._spec.uid,
            parallelism=self._parallelism,
            max_parallelism=self._spec.max_parallelism,
            keys=self._spec.key,
            schemas=self._states,
            windows=windows_shape(self._spec.function),
        )
        check(StartRequest(job=JOB, root="", operators=(shape,)), snapshot.manifest)
        self._log.restore(snapshot)
        self._epoch, self.processing_time = snapshot.manifest.epoch, snapshot.manifest.processing_time
        self.watermark = snapshot.manifest.watermarks.get(self._spec.uid, NO_WATERMARK)
        due = [time for times in snapshot.timers(TimeDomain.EVENT_TIME).values() for time in times]
        self._sealed = (self.processing_time, min([self.watermark, *due]))  # as `settled_time` computes it
        self._snapshot_id = snapshot.manifest.snapshot_id or 0
        self._next_checkpoint = max(self._snapshot_id, 1)

    def open(self) -> None:
        """Does E3: creates the instances and opens them on the sealed state, unless they are open."""
        if self._running:
            return
        with self._dropped_on_failure():
            for subtask in self._subtasks:
                spec = dataclasses.replace(self._spec, function=copy.deepcopy(self._spec.function))
                operator = operator_of(spec, subtask, self._parallelism, self._backends.make)
                self._running.append(operator)
                with self._reported(subtask):
                    self._begin(operator)

    def run(
        self,
        parts: Sequence[pa.RecordBatch],
        completed: Sequence[int] = (),
        aborted: Sequence[int] = (),
        *,
        finish: bool = False,
    ) -> list[Outputs]:
        """Runs one epoch, E4 to E6; returns the output, subtask by subtask. After an error nothing of it is kept.

        Args:
            parts: The records of each subtask.
            completed: Ids of completed checkpoints to report to the functions.
            aborted: Ids of aborted checkpoints to report to the functions.
            finish: Whether the input ends with this epoch.
        """
        self.open()
        self._next_checkpoint = max((self._next_checkpoint, *(ended + 1 for ended in (*completed, *aborted))))
        with self._dropped_on_failure():
            outputs = []
            for operator, part in zip(self._running, parts, strict=True):
                with self._reported(operator.subtask):
                    operator.begin(self.processing_time, self.watermark, 0, completed, aborted)
                    outputs.append(operator.advance())
                    if part.num_rows:
                        outputs.append(operator.process(part))
                        outputs.append(operator.flush())
                        outputs.append(operator.advance_watermark())
                    if finish:
                        outputs.append(operator.finish())
            changes = [self._end(operator) for operator in self._running]
            check_broadcast({self._spec.uid: [self._ack(operator) for operator in self._running]}, self._epoch + 1)
            self._seal(changes)
            self._follow(parts)
        return outputs

    def close(self) -> None:
        """Closes the instances; the log stays."""
        running, self._running = self._running, []
        try:
            for operator in running:
                operator.close()
        finally:
            _close_backends(running)

    def snapshot(self) -> OperatorSubtaskState:
        """Returns the state of the subtasks of this harness, as of the last sealed epoch."""
        operator = OperatorEpoch(
            parallelism=self._parallelism,
            max_parallelism=self._spec.max_parallelism,
            windows=windows_shape(self._spec.function),
        )
        manifest = Manifest(
            job=JOB,
            generation=1,
            epoch=self._epoch,
            kind="epoch",
            incarnation="0" * 32,
            incarnation_number=1,
            predecessor="",
            processing_time=self.processing_time,
            watermarks={self._spec.uid: self.watermark},
            lineage=(Span(generation=1, first=1),),
            operators={self._spec.uid: operator},
            schemas=self._log.schemas,
            snapshot_id=self._snapshot_id,
            keys={self._spec.uid: self._spec.key},
        )
        ends = [
            range_of(subtask, self._parallelism, self._spec.max_parallelism)
            for subtask in (self._subtasks[0], self._subtasks[-1])
        ]
        # Restored lists belong to the former subtasks until an epoch redistributes them, so include them all.
        whole = len(self._subtasks) == self._parallelism
        last = self._spec.max_parallelism - 1 if whole else self._subtasks[-1]
        subtasks = KeyGroupRange(self._subtasks[0], last)
        return OperatorSubtaskState(manifest, self._log.live(KeyGroupRange(ends[0].first, ends[1].last), subtasks))

    def _begin(self, operator: Operator) -> None:
        """Opens an instance on what an earlier one left on disk, if that is the last epoch's state; else on the log."""
        restored = RestoredFrom(self._snapshot_id, self.processing_time) if self._epoch else None
        backend = operator.backend
        resumed = backend is not None and backend.resume() == self._token
        if backend is not None and not resumed:
            backend.start(self._token)
            self._attach(backend)
        self._attach_operator_state(operator)
        operator.open(restored)
        if backend is not None and resumed:
            self._attach(backend)  # after `open`, which registers states: this loads those that are not on disk

    @property
    def _token(self) -> str:
        """Takes the place of the hash of the last epoch's manifest."""
        return str(self._epoch)

    def _attach(self, backend: KeyedStateBackend) -> None:
        backend.attach(self._log.schemas, self._log.loader(backend.key_groups), OperatorTime(*self._sealed))

    def _attach_operator_state(self, operator: Operator) -> None:
        operator.operator_state.attach(
            self._log.schemas, lambda schema: self._log.loader(operator.range_of(schema))(schema)
        )

    def _end(self, operator: Operator) -> Changes:
        """Does E5: takes the snapshot, and returns the changes."""
        with self._reported(operator.subtask):
            operator.snapshot(self._next_checkpoint, self._epoch + 1)
            return operator.changes()

    def _ack(self, operator: Operator) -> Ack:
        return Ack(
            uid=self._spec.uid,
            subtask=operator.subtask,
            attempt="",
            records_in=0,
            records_out=0,
            broadcast=operator.operator_state.digests(),
        )

    def _seal(self, changes: Sequence[Changes]) -> None:
        """Does E6, and E3 of the next epoch: brings every instance up to the sealed epoch."""
        together = list(chain(*changes))
        written = [frozenset(schema.schema_id for schema, _ in part) for part in changes]
        schemas = [operator.schemas for operator in self._running]
        check_migrated(self._log.schemas, list(map(Written, schemas, written)))
        self._log.seal(self._epoch + 1, together, chain(*schemas))
        self._epoch += 1
        self._sealed = (self.processing_time, self.watermark)
        self._snapshot_id = self._next_checkpoint
        for operator in self._running:
            operator.settle()
            operator.operator_state.follow(lambda wanted: [rows for schema, rows in together if schema == wanted])
            if operator.backend is not None:
                operator.backend.commit(self._token)
                self._attach(operator.backend)
            self._attach_operator_state(operator)

    def _follow(self, parts: Sequence[pa.RecordBatch]) -> None:
        """Advances the watermark by the records' event times, as the driver does for a source."""
        out_of_orderness = self._spec.out_of_orderness
        timed = [part.column(EVENT_TIME) for part in parts if EVENT_TIME in part.schema.names]
        times = [time for column in timed if (time := pc.max(column).as_py()) is not None]
        if out_of_orderness is not None and times:
            self.watermark = max(self.watermark, watermark_after(max(times), out_of_orderness))

    @contextlib.contextmanager
    def _dropped_on_failure(self) -> Iterator[None]:
        """Discards all instances if the block fails; errors of their `close` are ignored."""
        try:
            yield
        except BaseException:
            running, self._running = self._running, []
            for operator in running:
                operator.dispose()
            _close_backends(running)
            raise

    @contextlib.contextmanager
    def _reported(self, subtask: int) -> Iterator[None]:
        """Turns a failure of a subtask into the error that the driver would raise."""
        try:
            yield
        except OperatorFailure as error:
            raise self._error(error.failure) from error.__cause__
        except StateValueError as error:
            raise self._error(state_failure(self._spec.uid, subtask, error)) from None
        except LakestateError as error:
            raise self._error(engine_failure(self._spec.uid, subtask, error)) from error

    def _error(self, failure: Failure) -> LakestateError:
        operator = OperatorPlan(
            uid=self._spec.uid, parallelism=self._parallelism, max_parallelism=self._spec.max_parallelism
        )
        plan = EpochPlan(
            job=JOB,
            root="",
            generation=1,
            epoch=self._epoch + 1,
            incarnation="0" * 32,
            predecessor="",
            predecessor_epoch=self._epoch,
            predecessor_generation=1,
            processing_time=self.processing_time,
            operators=(operator,),
        )
        return error_of(Acknowledged(Answer.FAILURE, {}, failure.message, failure), plan)


def _close_backends(operators: Sequence[Operator]) -> None:
    for operator in operators:
        if operator.backend is not None:
            operator.backend.close()


__all__ = ["OperatorInstances"]
