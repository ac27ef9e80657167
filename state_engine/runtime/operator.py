"""An operator instance: one function over one key-group range, Arrow at both ends.

This module has what all instances share: states, timers, the life cycle of the function, what the function emits.
`row_operator.py` and `batch_operator.py` add how records reach the function.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from state_engine.api.descriptors import StateDescriptor
from state_engine.api.functions import Function
from state_engine.api.timers import TimeDomain
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keyed import KeyedStateBackend, MakeBackend
from state_engine.backends.keys import NO_KEY, KeyCodec, KeyContext
from state_engine.backends.operator_state import Changes, OperatorStateBackend
from state_engine.backends.schemas import check_names
from state_engine.backends.shapes.timers import TimerTable
from state_engine.backends.time import NO_WATERMARK, OperatorTime
from state_engine.errors import LocalStateError
from state_engine.key_groups import KeyGroupRange, range_of
from state_engine.log.records import StateSchema, StateStatistics
from state_engine.runtime.contexts import OperatorRuntimeContext, OperatorTimerService, TimerContext
from state_engine.runtime.emitted import Emitted, EmittedWriter, Rows
from state_engine.runtime.failures import OperatorFailure, output_failure, user_failure
from state_engine.runtime.lifecycle import InitializationContext, LifeCycle, RestoredFrom, SnapshotContext
from state_engine.runtime.outputs import OutputValueError
from state_engine.runtime.raw_streams import RawOutputs
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.copies import RowCopies

_EVENT, _PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME


class Operator(ABC):
    """One instance of an operator in one worker.

    Life cycle: `open` once, then per epoch `begin`, `advance`, `process` for every batch, `flush`, `advance_watermark`,
    `finish` if the input ends, and `snapshot`; `close` when it is dropped. After a failure it is not used again.

    Args:
        spec: The operator; no other instance uses its function object.
        subtask: Its number.
        parallelism: The operator's parallelism.
        make_backend: Makes its keyed state backend.
    """

    def __init__(
        self, spec: OperatorSpec, subtask: int, parallelism: int, make_backend: MakeBackend = HeapKeyedStateBackend
    ) -> None:
        self.spec = spec
        self.subtask, self.parallelism = subtask, parallelism
        self.context = KeyContext()
        self.time = OperatorTime()
        self.backend: KeyedStateBackend | None = None
        if spec.key:
            self._codec = KeyCodec(spec.key, spec.max_parallelism)
            key_groups = range_of(subtask, parallelism, spec.max_parallelism)
            self.backend = make_backend(spec.uid, self._codec, key_groups, self.context, self.time)
        timers = OperatorTimerService(self.time, self.context, self.backend.timers if self.backend else None)
        self.runtime = OperatorRuntimeContext(
            spec.uid,
            subtask,
            parallelism,
            spec.max_parallelism,
            spec.parameters,
            self._states(),
            keys=self.context,
            time=self.time,
            timers=timers,
        )
        self.operator_state = OperatorStateBackend(spec.uid, subtask, parallelism)
        self.function: Any = spec.function
        self.life = LifeCycle(self.function, self.context, self._failed)
        self._timer = TimerContext(self.context, self.time, timers)
        self._key_positions = [spec.input.names.index(c.name) for c in spec.key]
        self._ended: tuple[Sequence[int], Sequence[int]] = (), ()
        self._copies = RowCopies(spec.output, spec.side_outputs, reuses=spec.keeps_rows)
        self._writer = EmittedWriter(
            spec.output,
            spec.side_outputs,
            keeps_rows=spec.keeps_rows,
            writes_main=spec.writes_main,
            timed_side_outputs=spec.timed_side_outputs,
        )

    def _states(self) -> Callable[[StateDescriptor], Any] | None:
        """Returns the function that makes keyed states from descriptors; None without a key."""
        return self.backend.state if self.backend is not None else None

    def open(self, restored: RestoredFrom | None = None) -> None:
        """Initialises the function's states and opens the function.

        Args:
            restored: The epoch that it continues from.

        Raises:
            OperatorFailure: Its `initialize_state` or `open` raised.
        """
        keyed = self.backend is not None
        self.life.begin(InitializationContext(restored, self.operator_state, self.runtime, keyed=keyed), self.runtime)

    def renew(self, function: Function) -> None:
        """Replaces the function by another copy that was not begun yet, and keeps the current keyed state."""
        self.dispose()
        self.operator_state = OperatorStateBackend(self.spec.uid, self.subtask, self.parallelism)
        self.function = function
        self.life = LifeCycle(function, self.context, self._failed)

    def close(self) -> None:
        """Closes the function if it was begun."""
        self.life.close()

    def dispose(self) -> None:
        """Closes the function; an error that this raises is logged, and not raised again."""
        self.life.dispose(f"operator {self.spec.uid!r}, subtask {self.subtask}")

    def begin(
        self,
        processing_time: int,
        watermark: int | None,
        attempt: int,
        completed: Sequence[int] = (),
        aborted: Sequence[int] = (),
    ) -> None:
        """Starts an epoch.

        Args:
            processing_time: The epoch's processing time, in ms.
            watermark: The operator's watermark, in ms; None before the first one.
            attempt: Number of earlier attempts of the epoch.
            completed: Ids of checkpoints that have become visible since the epoch before.
            aborted: Ids of checkpoints that were given up.
        """
        self._ended = completed, aborted
        self.time.begin(processing_time, NO_WATERMARK if watermark is None else watermark)
        self.runtime.attempt = attempt

    def advance(self) -> dict[str, pa.RecordBatch]:
        """Notifies the function of checkpoints that ended, then fires the due timers, those of event time first.

        Returns what `process` returns.

        Raises:
            OperatorFailure: The function raised, or returned a row that does not fit its output type.
        """
        self.life.notify(*self._ended)
        return self._fire_all()

    def _fire_all(self) -> dict[str, pa.RecordBatch]:
        emitted = self._emitted()
        self._fire(_EVENT, self.time.watermark, emitted)
        self._fire(_PROCESSING, self.time.processing_time, emitted)
        return self._outputs(emitted)

    @abstractmethod
    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        """Processes one batch of records.

        Args:
            batch: The input columns, in the spec's order. If there is one more column after them, it is the records'
                event time, and the records come in that order.

        Returns:
            One batch per output that got rows: `main`, and the tag ids that have readers. If the spec emits event
            time, `main` has the column `EVENT_TIME` after its own columns.

        Raises:
            OperatorFailure: The function raised, or returned a row that does not fit its output type.
        """

    def flush(self) -> dict[str, pa.RecordBatch]:
        """Processes the records that still wait, after the last record of an epoch; returns and raises as `process`."""
        return {}

    def advance_watermark(self) -> dict[str, pa.RecordBatch]:
        """Advances the watermark by the epoch's records, if it did not follow each of them.

        Called after `flush`. Returns and raises as `process` does.
        """
        return {}

    def take_rows(self) -> Rows | None:
        """Returns the rows of the main output from the last call, if the spec says that they are kept."""
        rows, self._writer.kept = self._writer.kept, None
        return rows

    def finish(self) -> dict[str, pa.RecordBatch]:
        """Tells the function that its input has ended; returns and raises as `process` does."""
        self.time.timestamp = None
        emitted = self._emitted()
        emitted.add(self.life.finish(), None)
        return self._outputs(emitted)

    def snapshot(self, checkpoint_id: int, epoch: int) -> None:
        """Ends an epoch: lets the function store its fields. `changes` then returns all changes up to now.

        Args:
            checkpoint_id: Id of the checkpoint that covers the epoch.
            epoch: Its number.

        Raises:
            OperatorFailure: The function's `snapshot_state` raised.
            LakestateError: One name is used for two kinds of state, or raw state was written wrongly.
        """
        now = self.time.processing_time
        raw = RawOutputs(self.spec.uid, self.backend.key_groups if self.backend is not None else None)
        try:
            self.life.snapshot(SnapshotContext(checkpoint_id, epoch, now, raw))
        finally:
            self.operator_state.raw.write(raw.end())
        check_names(self.schemas)

    def changes(self) -> Changes:
        """Returns, after `snapshot`, what the epoch changed in all states of the instance; the changes stay pending.

        Raises:
            StateValueError: A value does not fit its state's type.
            LakestateError: State was written where it may not be.
        """
        now = self.time.processing_time
        changes = self.backend.freeze(now) if self.backend is not None else []
        return [*changes, *self.operator_state.freeze(now, sum(rows.num_rows for _, rows in changes))]

    def range_of(self, schema: StateSchema) -> KeyGroupRange:
        """Returns the key groups whose rows of a state `operator_state` needs: its own for keyed state, else all."""
        if schema.kind == "keyed" and self.backend is not None:
            return self.backend.key_groups
        return KeyGroupRange(0, self.spec.max_parallelism - 1)

    def settle(self) -> None:
        """Marks the changes that `changes` returned as sealed."""
        if self.backend is not None:
            self.backend.settle()
        self.operator_state.settle()

    @property
    def rows_in_memory(self) -> int:
        """Number of live rows over all states that count against the worker's memory between epochs."""
        return (self.backend.rows_in_memory if self.backend is not None else 0) + self.operator_state.rows

    @property
    def schemas(self) -> tuple[StateSchema, ...]:
        """Schemas of all states that were asked for."""
        keyed = self.backend.schemas if self.backend is not None else ()
        return (*keyed, *self.operator_state.schemas)

    def statistics(self) -> tuple[StateStatistics, ...]:
        """Sizes of all states, as of the end of the epoch before."""
        keyed = self.backend.statistics() if self.backend is not None else ()
        return (*keyed, *self.operator_state.statistics())

    def earliest_timer(self, domain: TimeDomain) -> int | None:
        """Returns the time of the next timer of a clock, in ms; None without one."""
        timers = self._timers(domain)
        return timers.earliest() if timers is not None else None

    def _emitted(self) -> Emitted:
        return Emitted(self._copies, timed=self.spec.emits_event_time)

    def _timers(self, domain: TimeDomain) -> TimerTable | None:
        """Returns the timers of a clock; None while there are none."""
        backend = self.backend
        return backend.timers(domain) if backend is not None and backend.has_timers(domain) else None

    def _fire(self, domain: TimeDomain, limit: int, emitted: Emitted) -> None:
        """Fires the timers up to a time, in order of time."""
        timers = self._timers(domain)
        if timers is not None and timers.first <= limit:
            self._fire_due(timers, domain, limit, emitted)

    def _fire_due(self, timers: TimerTable, domain: TimeDomain, limit: int, emitted: Emitted) -> None:
        context, time, timer, on_timer = self.context, self.time, self._timer, self.function.on_timer
        timer.domain = domain
        time.firing = domain
        for timestamp, entry in timers.due(limit):
            time.timestamp = timestamp  # before the entry: states may clean up when the entry is set
            context.entry = entry
            try:
                result = on_timer(timestamp, timer)
                if result is not None:
                    emitted.add(result, timestamp if domain is _EVENT else None)
            except BaseException as error:
                raise self._failed(
                    error, "on_timer() raised", context.current_key(), f"timer at {timestamp}"
                ) from error
        time.firing = None

    def _outputs(self, emitted: Emitted) -> dict[str, pa.RecordBatch]:
        try:
            return self._writer.write(emitted)
        except OutputValueError as error:
            raise output_failure(self.spec, self.subtask, error) from None
        except BaseException as error:  # a row's own methods may raise it
            raise self._failed(error, "Writing its rows raised", data=emitted.rows) from error

    def _failed(
        self, error: BaseException, what: str, key: Any = None, record: Any = None, data: Any = None
    ) -> BaseException:
        if isinstance(error, (OperatorFailure, LocalStateError)):  # the author did not cause a LocalStateError
            return error
        current_key = key if record is not None and self.spec.key else NO_KEY
        return user_failure(self.spec.uid, self.subtask, error, what, current_key, record, data)


__all__ = ["Operator"]
