"""The operator of windows: what happens to a record, to a timer, and to a window that is over.

Semantics are those of Flink's `WindowOperator`. State and timers of a window are stored under its key, with the text of
the window as namespace. Its timers are those of the trigger, and the one at which the window ends.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from state_engine.api.descriptors import ValueStateDescriptor
from state_engine.api.pyflink_types import Types
from state_engine.api.timers import TimeDomain
from state_engine.api.windows import (
    EventTimeTrigger,
    MergingWindowAssigner,
    ProcessingTimeTrigger,
    ProcessWindowFunction,
    TimeWindow,
    TriggerResult,
    WindowFunction,
)
from state_engine.api.windows.counting import CountWindowAssigner
from state_engine.api.windows.windows import MAX_TIMESTAMP
from state_engine.backends.keys import Namespaced
from state_engine.iterating import whole
from state_engine.runtime.adapters import Adapter, OtherStates
from state_engine.runtime.emitted import TimedRows
from state_engine.runtime.windows.assigned import windows_of
from state_engine.runtime.windows.contents import CONTENTS
from state_engine.runtime.windows.contexts import (
    AssignerContext,
    StatelessContext,
    WindowProcessContext,
    WindowTriggerContext,
)
from state_engine.runtime.windows.merging import MergingWindowSet
from state_engine.runtime.windows.operation import Pane, WindowOperation
from state_engine.serialization.copies import copied
from state_engine.serialization.rows import row_maker

MERGING_SET = "merging-window-set"
"""Name of the state."""


class WindowAdapter(Adapter):
    """Runs a window operation.

    Args:
        operation: The operation.

    Attributes:
        operation: The operation.
    """

    asks_in_open = False  # triggers and assigners ask for states with their first record

    def __init__(self, operation: WindowOperation) -> None:
        self.verb = operation.verb
        self.operation = self._do = operation
        self.function = getattr(operation.function, "of_author", operation.function)
        self._event_time = operation.assigner.is_event_time()
        self._lateness = operation.allowed_lateness if self._event_time else 0
        self._merging = isinstance(operation.assigner, MergingWindowAssigner)
        # Such a trigger's timer is at the window's end: do not register it a second time for each record.
        default_trigger = EventTimeTrigger if self._event_time else ProcessingTimeTrigger
        self._trigger_ends = type(operation.trigger) is default_trigger and not self._lateness

    @property
    def argument(self) -> str:
        return ", ".join([*self._do.given, f"windows={self._do.assigner!r}"])

    def open(self, runtime_context: Any) -> None:
        operation, context = self._do, runtime_context
        self._keys, self._time, self._timers = context.keys, context.time, context.timers
        self._serializer = operation.assigner.get_window_serializer()
        self._serialize = self._serializer.serialize
        operation.contents.open(context)
        self._adding = operation.contents.adding
        if self._merging:
            windows = Types.MAP(Types.STRING(), Types.STRING())
            self._sets = context.get_state(ValueStateDescriptor(MERGING_SET, windows))
        others: Any = OtherStates(context, CONTENTS, MERGING_SET)
        self._assigner_context = AssignerContext(self._time, others)
        if isinstance(operation.assigner, CountWindowAssigner):  # so all subtasks convert state of earlier releases
            self._assigner_context.get_runtime_context().get_state(operation.assigner.windows)
        self._assigned = windows_of(operation.assigner, self._assigner_context, self._end_of)
        self._trigger_context = WindowTriggerContext(self._keys, self._time, self._timers, others)
        self._process_context = WindowProcessContext(self._keys, self._time, others, merging=self._merging)
        self._record = None if operation.records is None else row_maker(operation.records)
        if operation.folding is not None:
            operation.folding.open(StatelessContext(context))  # type: ignore[arg-type]
        if operation.function is not None:
            operation.function.open(others)

    def close(self) -> None:
        for function in (self._do.folding, self._do.function):
            if function is not None:
                function.close()

    # A record -----------------------------------------------------------------------------------------------------

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """The path of every record: measure before you add anything to what it does per window."""
        if self._record is not None:
            value = self._record(*value.as_tuple()[:-1])
        if self._merging:
            return self._merge_element(value)
        keys, time = self._keys, self._time
        key, timestamp = keys.entry, time.timestamp
        late_below = time.late_below if self._event_time else None
        add = self._adding.add
        fires_after = time.watermark if self._trigger_ends and self._event_time else MAX_TIMESTAMP
        rows: TimedRows | None = None
        is_assigned = False
        for window, end, namespace in self._assigned(value, timestamp):
            if late_below is not None and end <= late_below:
                continue
            is_assigned = True
            keys.entry = entry = Namespaced(key, namespace)
            add(value)
            if fires_after < end < MAX_TIMESTAMP:  # what an EventTimeTrigger does
                self._timers.register_event_time_timer(end)
                continue
            rows = self._ask_trigger(value, Pane(key, window, entry, entry, None), end, rows)
        keys.entry = key
        return rows if is_assigned else self._left_out(value)

    def _merge_element(self, value: Any) -> Iterable[Any] | None:
        """As `process_element`, for windows that may be merged."""
        operation, keys, key, timestamp = self._do, self._keys, self._keys.entry, self._time.timestamp
        rows: TimedRows | None = None
        sets = self._windows_of(key)
        if self._event_time:
            self._end_overdue(key, sets)
        is_assigned = False
        for assigned in whole(operation.assigner.assign_windows(value, timestamp, self._assigner_context)):
            window = sets.add_window(assigned, partial(self._merged, key))
            end = self._end_of(window)
            if self._event_time and end <= self._time.late_below:
                sets.retire_window(window)
                continue
            is_assigned = True
            entry = self._entry_of(key, window)
            holder = self._entry_of(key, sets.state_window(window))
            keys.entry = holder
            self._adding.add(value)
            keys.entry = entry
            rows = self._ask_trigger(value, Pane(key, window, entry, holder, sets), end, rows)
        keys.entry = key
        sets.persist()
        return rows if is_assigned else self._left_out(value)

    def _ask_trigger(self, value: Any, pane: Pane, end: int, rows: TimedRows | None) -> TimedRows | None:
        """Acts on the trigger's decision for an element; registers the window's end if needed; returns rows so far."""
        result = self._do.trigger.on_element(value, self._time.timestamp, pane.window, self._trigger_context)
        fires = result is not TriggerResult.CONTINUE
        if fires:
            rows = rows or TimedRows()
            self._act(result, pane, rows)
            self._keys.entry = pane.entry
        if fires or not self._trigger_ends:
            self._register_end(end)
        return rows

    def _left_out(self, value: Any) -> Iterable[Any] | None:
        """Returns the late data row for a record that is in no window, or too late for all of its windows."""
        late_data = self._do.late_data
        return ((late_data, value),) if late_data is not None and self._is_element_late() else None

    def _windows_of(self, key: Any) -> MergingWindowSet:
        self._keys.entry = key
        return MergingWindowSet(self._do.assigner, self._serializer, self._sets)  # type: ignore[arg-type]

    def _entry_of(self, key: Any, window: Any) -> Namespaced:
        """Returns the entry under which the state and the timers of a window are stored."""
        return Namespaced(key, self._serialize(window))

    def _end_of(self, window: Any) -> int:
        """Returns when a window is over, in ms of the assigner's clock; `MAX_TIMESTAMP` if never."""
        end: int = window.max_timestamp() + self._lateness
        return end if end < MAX_TIMESTAMP else MAX_TIMESTAMP

    def _is_element_late(self) -> bool:
        timestamp = self._time.timestamp
        if not self._event_time or timestamp is None:
            return False
        return bool(timestamp + self._do.allowed_lateness <= self._time.late_below)

    def _merged(self, key: Any, result: Any, windows: list[Any], holder: Any, others: list[Any]) -> None:
        """Merges windows: merges trigger state, clears it and the end timers of the old windows, moves contents."""
        self._check_merge(result)
        keys, ctx, trigger = self._keys, self._trigger_context, self._do.trigger
        entries = {window: self._entry_of(key, window) for window in windows}
        keys.entry = self._entry_of(key, result)
        ctx.merged = list(entries.values())
        trigger.on_merge(result, ctx)
        ctx.merged = ()
        for window, entry in entries.items():
            keys.entry = entry
            trigger.clear(window, ctx)
            self._delete_end(window)
        self._do.contents.merge(keys, self._entry_of(key, holder), [self._entry_of(key, other) for other in others])

    def _end_overdue(self, key: Any, sets: MergingWindowSet) -> None:
        """Ends windows that are over now, but that an earlier release, with a longer lateness, has kept."""
        late_below = self._time.late_below
        for window in sets.windows:
            if self._end_of(window) <= late_below:
                holder = self._entry_of(key, sets.state_window(window))
                self._end(Pane(key, window, self._entry_of(key, window), holder, sets))

    def _check_merge(self, result: Any) -> None:
        """Raises if a merged window is already over: its timer has passed, so nothing would end it."""
        now = self._time.late_below if self._event_time else self._time.processing_time
        if self._end_of(result) <= now:
            raise ValueError(f"windows were merged into {result}, which is over at {now}: fix merge_windows()")

    # A timer ------------------------------------------------------------------------------------------------------

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        """Calls the trigger for a timer of a window, and ends the window if it is over."""
        operation, keys, entry = self._do, self._keys, self._keys.entry
        window = self._serializer.deserialize(entry.namespace)
        sets, holder = None, entry
        if self._merging:
            sets = self._windows_of(entry.key)
            holder_window = sets.state_window(window)
            if holder_window is None:
                return None  # it was merged, and its trigger did not delete a timer
            holder = self._entry_of(entry.key, holder_window)
        pane = Pane(entry.key, window, entry, holder, sets)
        rows = TimedRows()
        in_event_time = ctx.time_domain() is TimeDomain.EVENT_TIME
        call = operation.trigger.on_event_time if in_event_time else operation.trigger.on_processing_time
        keys.entry = entry
        result = call(timestamp, window, self._trigger_context)
        if result is not TriggerResult.CONTINUE:
            self._act(result, pane, rows)
        if in_event_time is self._event_time and timestamp >= window.max_timestamp():
            # If a release with another lateness opened the window, its last timer may come too early or too late.
            end = self._end_of(window)
            if timestamp >= end:
                self._end(pane)
            else:
                keys.entry = entry
                self._register_end(end)
        return rows

    # A window -----------------------------------------------------------------------------------------------------

    def _act(self, result: TriggerResult, pane: Pane, rows: TimedRows) -> None:
        """Does what a trigger decided."""
        keys, contents, window = self._keys, self._do.contents, pane.window
        if result.is_fire():
            keys.entry = pane.holder
            given = contents.fire(window, partial(self._call, pane))
            rows.add(given, window.max_timestamp() if isinstance(window, TimeWindow) else self._time.timestamp)
        if result.is_purge():
            keys.entry = pane.holder
            contents.clear()
            if self._do.ends_when_purged:
                self._end(pane)

    def _call(self, pane: Pane, elements: list[Any]) -> Iterable[Any]:
        """Calls the window function and reads all its rows, with the key as current entry."""
        function = self._do.function
        if function is None:
            return list(map(copied, elements))
        self._keys.entry = pane.key
        if isinstance(function, WindowFunction):
            given = function.apply(pane.key, pane.window, elements)
        else:
            given = function.process(pane.key, self._process_context.at(pane.window, pane.entry), elements)
        rows = [copied(row) for row in whole(given)] if given is not None else []
        self._keys.entry = pane.holder
        return rows

    def _end(self, pane: Pane) -> None:
        """Removes all state of a window."""
        keys = self._keys
        keys.entry = pane.holder
        self._do.contents.clear()
        keys.entry = pane.entry
        if not self._trigger_ends:  # else its only timer has just fired
            self._do.trigger.clear(pane.window, self._trigger_context)
        keys.entry = pane.key
        if isinstance(self._do.function, ProcessWindowFunction):
            self._do.function.clear(self._process_context.at(pane.window, pane.entry))
        if pane.sets is not None:
            pane.sets.retire_window(pane.window)
            pane.sets.persist()

    def _register_end(self, end: int) -> None:
        if end == MAX_TIMESTAMP:
            return
        if self._event_time:
            self._timers.register_event_time_timer(end)
        else:
            self._timers.register_processing_time_timer(end)

    def _delete_end(self, window: Any) -> None:
        end = self._end_of(window)
        if self._event_time:
            self._timers.delete_event_time_timer(end)
        else:
            self._timers.delete_processing_time_timer(end)


__all__ = ["MERGING_SET", "WindowAdapter"]
