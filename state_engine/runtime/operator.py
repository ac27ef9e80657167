"""An operator instance: one function over one key-group range, record by record, Arrow at both ends."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.functions import Function, KeyedBatchProcessFunction, KeyedProcessFunction, ProcessFunction
from state_engine.api.keys import Keys
from state_engine.api.timers import TimeDomain
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keyed import KeyedStateBackend, MakeBackend
from state_engine.backends.keys import NO_KEY, KeyCodec, KeyContext
from state_engine.backends.operator_state import Changes, OperatorStateBackend
from state_engine.backends.schemas import check_names
from state_engine.backends.time import MARGIN, NO_WATERMARK, OperatorTime, watermark_behind
from state_engine.backends.timers import TimerTable
from state_engine.errors import LocalStateError
from state_engine.key_groups import KeyGroupRange, range_of
from state_engine.log.records import StateSchema, StateStatistics
from state_engine.runtime.adapters import Adapter
from state_engine.runtime.batch_contexts import BatchContext, BatchTimers, TimersContext
from state_engine.runtime.batch_function import (
    BatchCall,
    asks_by_columns,
    by_output,
    states_by_columns,
    takes_timers_together,
)
from state_engine.runtime.contexts import OperatorRuntimeContext, OperatorTimerService, RecordContext, TimerContext
from state_engine.runtime.declared.base import FiresTogether
from state_engine.runtime.emitted import Emitted, EmittedWriter, Rows
from state_engine.runtime.failures import OperatorFailure, output_failure, user_failure
from state_engine.runtime.lifecycle import InitializationContext, LifeCycle, RestoredFrom, SnapshotContext
from state_engine.runtime.outputs import OutputValueError
from state_engine.runtime.raw_streams import RawOutputs
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.convert import field_readers, row_maker
from state_engine.serialization.copies import RowCopies

_EVENT, _PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME


class Operator:
    """One instance of an operator in one worker.

    Life: `open` once, then per epoch `begin`, `advance`, `process` for every batch, `finish` if the input ends, and
    `end`; `close` when it is dropped. After any failure the instance is not used again.

    Args:
        spec: The operator; its function belongs to this instance alone.
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
            codec = KeyCodec(spec.key, spec.max_parallelism)
            key_groups = range_of(subtask, parallelism, spec.max_parallelism)
            self.backend = make_backend(spec.uid, codec, key_groups, self.context, self.time)
        states = self.backend.state if self.backend else None
        if states is not None and asks_by_columns(spec.function):
            states = states_by_columns(states, spec.function)
        timers = OperatorTimerService(self.time, self.context, self.backend.timers if self.backend else None)
        self.runtime = OperatorRuntimeContext(
            spec.uid,
            subtask,
            parallelism,
            spec.max_parallelism,
            spec.parameters,
            states,
            keys=self.context,
            time=self.time,
            timers=timers,
        )
        self.operator_state = OperatorStateBackend(spec.uid, subtask, parallelism)
        self.function: Any = spec.function
        self.life = LifeCycle(self.function, self.context, self._failed)
        self._called = self.function.verb if isinstance(self.function, Adapter) else "process_element"
        self._record = RecordContext(self.context, self.time, timers)
        self._timer = TimerContext(self.context, self.time, timers)
        self._read_columns = field_readers(spec.input)
        self._make_row = row_maker(spec.input)
        self._key_positions = [spec.input.names.index(c.name) for c in spec.key]
        self._batch_call: BatchCall | None = None
        if isinstance(self.function, KeyedBatchProcessFunction) and self.backend is not None:
            self._batch_call = BatchCall(spec, self._key_positions, codec)
            of_many = BatchTimers(self.time, self.backend.timers)
            self._batch, self._many_timers = BatchContext(of_many), TimersContext(of_many)
            self.backend.timers_by_columns = takes_timers_together(self.function)
        self._ended: tuple[Sequence[int], Sequence[int]] = (), ()
        self._copies = RowCopies(spec.output, spec.side_outputs, reuses=spec.keeps_rows)
        self._writer = EmittedWriter(
            spec.output,
            spec.side_outputs,
            keeps_rows=spec.keeps_rows,
            writes_main=spec.writes_main,
            timed_side_outputs=spec.timed_side_outputs,
        )

    def open(self, restored: RestoredFrom | None = None) -> None:
        """Initialises the function's states, and opens it.

        Args:
            restored: The epoch that it goes on from.

        Raises:
            OperatorFailure: Its `initialize_state` or `open` raised.
        """
        keyed = self.backend is not None
        self.life.begin(InitializationContext(restored, self.operator_state, self.runtime, keyed=keyed), self.runtime)

    def renew(self, function: Function) -> None:
        """Puts another copy of the function, not begun yet, over the keyed state that is there."""
        self.dispose()
        self.operator_state = OperatorStateBackend(self.spec.uid, self.subtask, self.parallelism)
        self.function = function
        self.life = LifeCycle(function, self.context, self._failed)

    def close(self) -> None:
        """Closes the function if it was begun."""
        self.life.close()

    def dispose(self) -> None:
        """Closes the function; what that raises ends nothing, and is logged."""
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
            processing_time: The epoch's, in ms.
            watermark: Where the operator stands, in ms; None before the first.
            attempt: How often the epoch was tried before.
            completed: Ids of checkpoints that have become visible since the epoch before.
            aborted: Ids of those that were given up.
        """
        self._ended = completed, aborted
        if self._batch_call is not None:
            self._batch_call.begin()
        self.time.begin(processing_time, NO_WATERMARK if watermark is None else watermark)
        self.runtime.attempt = attempt

    def advance(self) -> dict[str, pa.RecordBatch]:
        """Tells of checkpoints that ended, then fires the timers that are due, those of event time first.

        Returns as `process` does.

        Raises:
            OperatorFailure: The function raised, or returned what its output type does not admit.
        """
        self.life.notify(*self._ended)
        if self._batch_call is not None and takes_timers_together(self.function):
            return self._fire_together(self._batch_call, _EVENT, _PROCESSING)
        emitted = self._emitted()
        self._fire(_EVENT, self.time.watermark, emitted)
        self._fire(_PROCESSING, self.time.processing_time, emitted)
        return self._outputs(emitted)

    def process(self, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        """Processes one batch of records.

        Args:
            batch: The input columns, in the spec's order. One more behind them is the records' event time, in which
                order they come.

        Returns:
            One batch per output that got rows: `main`, and the tag ids that somebody reads. If the spec emits event
            time, main has the column `EVENT_TIME` behind its own.

        Raises:
            OperatorFailure: The function raised, or returned what its output type does not admit.
        """
        if self._batch_call is not None:
            return {} if self._batch_call.waits_with(batch) else self.flush()
        arrays = batch.columns
        columns = self._read(arrays)
        emitted = self._emitted()
        keys = None
        if self.backend is not None:
            keys = self._keys(columns)
            self.backend.prefetch(keys)
        rows = map(self._make_row, *columns)
        if len(arrays) > len(columns):
            self._timed_loop(keys, arrays[-1].to_pylist(), rows, emitted)
        elif emitted.times is not None:
            self._timed_loop(keys, [None] * batch.num_rows, rows, emitted)
        elif keys is not None:
            self._keyed_loop(keys, rows, emitted)
        else:
            self._loop(rows, emitted)
        return self._outputs(emitted)

    def flush(self) -> dict[str, pa.RecordBatch]:
        """Processes the records that a function over batches has been spared so far, behind the last one of an epoch.

        Returns and raises as `process` does.
        """
        call = self._batch_call
        waiting = call.taken() if call is not None else None
        return self._process_batch(call, waiting) if call is not None and waiting is not None else {}

    def advance_watermark(self) -> dict[str, pa.RecordBatch]:
        """Lets the watermark follow the epoch's records, where a function gets all timers that are due at once.

        Called behind `flush`: the records of a batch are in no order, so none may come any more. Returns and raises as
        `process` does.
        """
        call, behind = self._batch_call, self.spec.out_of_orderness
        if call is None or behind is None or call.latest is None or not takes_timers_together(self.function):
            return {}
        reached = watermark_behind(call.latest, behind)
        if reached <= self.time.watermark:
            return {}
        self.time.watermark = reached
        return self._fire_together(call, _EVENT)

    def _process_batch(self, call: BatchCall, batch: pa.RecordBatch) -> dict[str, pa.RecordBatch]:
        keys, records = call.records(batch)
        self.time.timestamp = None
        given = partial(self.function.process_batch, keys, records, self._batch)
        outputs = self._given(call, given, keys, "process_batch() raised", records)
        self.context.tell_of(len(keys))
        return outputs

    def _fire_together(self, call: BatchCall, *domains: TimeDomain) -> dict[str, pa.RecordBatch]:
        """Hands over the timers that are due: to a declared function once, to an author's until none is."""
        if isinstance(self.function, FiresTogether):
            return self._fire_declared(call, self.function)
        outputs: list[dict[str, pa.RecordBatch]] = []
        for domain in domains:
            limit = self.time.watermark if domain is _EVENT else self.time.processing_time
            self._many_timers.domain = domain
            while (timers := self._timers(domain)) is not None and (due := timers.due_keys(limit)) is not None:
                for keys, times in call.timers(due, domain):
                    given = partial(self.function.on_timers, keys, times, self._many_timers)
                    what = f"on_timers() with {len(keys)} timers up to {times[-1]} raised"
                    outputs.append(self._given(call, given, keys, what))
                    self.context.tell_of(len(keys))
        return by_output(outputs)

    def _fire_declared(self, call: BatchCall, function: FiresTogether) -> dict[str, pa.RecordBatch]:
        backend = self.backend
        if backend and backend.has_timers(_PROCESSING):
            # It registers none: an earlier function under this uid did. They are taken, or epochs would begin for them.
            for _ in backend.timers(_PROCESSING).all_due(self.time.processing_time, in_turn=False):
                pass
        timers = self._timers(_EVENT)
        keys = timers.due_keys(self.time.watermark, in_turn=function.in_turn) if timers is not None else None
        if keys is None:
            return {}
        latest = int(np.asarray(keys.times).max())
        given = partial(function.fire, keys, self._batch)
        return self._given(call, given, keys, f"{len(keys)} timers up to {latest} raised")

    def _given(
        self, call: BatchCall, given: Callable[[], Any], keys: Keys, what: str, records: pa.RecordBatch | None = None
    ) -> dict[str, pa.RecordBatch]:
        """Returns what a function over batches gives, which may be a generator, by output."""
        self.context.entry = NO_KEY
        try:
            return call.outputs(given(), keys)
        except OutputValueError as error:
            raise output_failure(self.spec, self.subtask, error) from None
        except BaseException as error:
            raise self._failed(error, what, data=(keys, records)) from error

    def process_rows(self, records: Rows) -> dict[str, pa.RecordBatch]:
        """As `process`, for an operator without key and records that another function gave as objects."""
        emitted = self._emitted()
        times = records.times
        if times is None and emitted.times is not None:
            times = [None] * len(records.rows)
        if times is not None:
            self._timed_loop(None, times, records.rows, emitted)
        else:
            self._loop(records.rows, emitted)
        return self._outputs(emitted)

    def take_rows(self) -> Rows | None:
        """Returns the rows of the main output that the last call gave, if the spec says that they are kept."""
        rows, self._writer.kept = self._writer.kept, None
        return rows

    def finish(self) -> dict[str, pa.RecordBatch]:
        """Tells the function that its input has ended; returns and raises as `process` does."""
        self.time.timestamp = None
        emitted = self._emitted()
        emitted.add(self.life.finish(), None)
        return self._outputs(emitted)

    def snapshot(self, checkpoint_id: int, epoch: int) -> None:
        """Ends an epoch: lets the function store its fields. What it has done by now is what `changes` gives.

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
        """Returns what the epoch changed in all states of the instance, behind `snapshot`; it stays pending.

        Raises:
            StateValueError: A value does not fit its state's type.
            LakestateError: State was written where it may not be.
        """
        now = self.time.processing_time
        changes = self.backend.freeze(now) if self.backend is not None else []
        return [*changes, *self.operator_state.freeze(now, sum(rows.num_rows for _, rows in changes))]

    def range_of(self, schema: StateSchema) -> KeyGroupRange:
        """Returns which rows of a state `operator_state` needs: of all subtasks, or of its own key groups."""
        if schema.kind == "keyed" and self.backend is not None:
            return self.backend.key_groups
        return KeyGroupRange(0, self.spec.max_parallelism - 1)

    def settle(self) -> None:
        """The changes that `changes` gave were sealed."""
        if self.backend is not None:
            self.backend.settle()
        self.operator_state.settle()

    @property
    def rows_in_memory(self) -> int:
        """Live rows, over all states, that count against the worker's memory between epochs."""
        return (self.backend.rows_in_memory if self.backend is not None else 0) + self.operator_state.rows

    @property
    def schemas(self) -> tuple[StateSchema, ...]:
        """Schemas of all states that were asked for."""
        keyed = self.backend.schemas if self.backend is not None else ()
        return (*keyed, *self.operator_state.schemas)

    def statistics(self) -> tuple[StateStatistics, ...]:
        """Sizes of all states, as of the epoch before."""
        keyed = self.backend.statistics() if self.backend is not None else ()
        return (*keyed, *self.operator_state.statistics())

    def earliest_timer(self, domain: TimeDomain) -> int | None:
        """Returns when the next timer of a clock is due, in ms; None without one."""
        timers = self._timers(domain)
        return timers.earliest() if timers is not None else None

    def _read(self, arrays: Sequence[Any]) -> list[list[Any]]:
        try:
            return [read(column) for read, column in zip(self._read_columns, arrays, strict=False)]
        except BaseException as error:  # of the author's codecs
            raise self._failed(error, "Reading its records raised") from error

    def _keys(self, columns: Sequence[list[Any]] | Mapping[int, list[Any]]) -> list[Any]:
        if len(self._key_positions) == 1:
            return columns[self._key_positions[0]]
        return list(zip(*itemgetter(*self._key_positions)(columns), strict=True))

    def _emitted(self) -> Emitted:
        return Emitted(self._copies, timed=self.spec.emits_event_time)

    def _keyed_loop(self, keys: list[Any], rows: Iterable[Any], emitted: Emitted) -> None:
        """The row path: per record one row object, one key, one call. Measured before anything is added here."""
        function: KeyedProcessFunction = self.function
        process, record, context = function.process_element, self._record, self.context
        take = emitted.taking(process)
        key: Any = None
        row: Any = None
        try:
            for key, row in zip(keys, rows, strict=True):
                context.entry = key
                result = process(row, record)
                if result is not None:
                    take(result)
        except BaseException as error:
            raise self._failed(error, f"{self._called}() raised", key, row) from error

    def _loop(self, rows: Iterable[Any], emitted: Emitted) -> None:
        function: ProcessFunction = self.function
        process, record = function.process_element, self._record
        take = emitted.taking(process)
        row: Any = None
        try:
            for row in rows:
                result = process(row, record)
                if result is not None:
                    take(result)
        except BaseException as error:
            raise self._failed(error, f"{self._called}() raised", None, row) from error

    def _timed_loop(
        self, keys: list[Any] | None, times: list[int | None], rows: Iterable[Any], emitted: Emitted
    ) -> None:
        """Either of the above, for records with event times: where the watermark follows them, timers fire between."""
        process, record, context, time = self.function.process_element, self._record, self.context, self.time
        behind, timers = self.spec.out_of_orderness, None
        below = None if behind is None else behind + MARGIN  # as `watermark_behind`, without a call per record
        take = emitted.taking(process) if emitted.times is None else None
        of_records: Iterable[Any] = repeat(None, len(times)) if keys is None else keys
        key: Any = None
        row: Any = None
        try:
            for key, at, row in zip(of_records, times, rows, strict=True):
                if below is not None and at is not None and (reached := at - below) > time.watermark:
                    time.watermark = reached
                    if timers is None:
                        timers = self._timers(_EVENT)
                    if timers is not None and timers.first <= reached:
                        self._fire_due(timers, _EVENT, reached, emitted)
                time.timestamp = at
                context.entry = key
                result = process(row, record)
                if result is not None:
                    if take is not None:
                        take(result)
                    else:
                        emitted.add(result, at)
        except BaseException as error:
            raise self._failed(error, f"{self._called}() raised", key, row) from error

    def _timers(self, domain: TimeDomain) -> TimerTable | None:
        """Returns the timers of a clock, None as long as there are none."""
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
        for at, entry in timers.due(limit):
            time.timestamp = at  # in front of the entry: states may clean up when they hear of it
            context.entry = entry
            try:
                result = on_timer(at, timer)
                if result is not None:
                    emitted.add(result, at if domain is _EVENT else None)
            except BaseException as error:
                raise self._failed(error, "on_timer() raised", context.current_key(), f"timer at {at}") from error
        time.firing = None

    def _outputs(self, emitted: Emitted) -> dict[str, pa.RecordBatch]:
        try:
            return self._writer.write(emitted)
        except OutputValueError as error:
            raise output_failure(self.spec, self.subtask, error) from None
        except BaseException as error:  # of a row's own methods
            raise self._failed(error, "Writing its rows raised", data=emitted.rows) from error

    def _failed(
        self, error: BaseException, what: str, key: Any = None, record: Any = None, data: Any = None
    ) -> BaseException:
        if isinstance(error, (OperatorFailure, LocalStateError)):  # the second is no fault of the author's
            return error
        known = key if record is not None and self.spec.key else NO_KEY
        return user_failure(self.spec.uid, self.subtask, error, what, known, record, data)


__all__ = ["Operator"]
