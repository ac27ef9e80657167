"""The author's API for the windows of a stream; it makes a window operation without Spark, so tests use it too."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from state_engine.api.aggregates import Aggregate
from state_engine.api.durations import as_milliseconds
from state_engine.api.functions import AggregateFunction, Function, ReduceFunction
from state_engine.api.output_tag import OutputTag
from state_engine.api.types import StructType, TypeInformation
from state_engine.api.windows import (
    EventTimeSessionWindows,
    Evictor,
    MergingWindowAssigner,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    WindowAssigner,
    WindowFunction,
)
from state_engine.api.windows.counting import CountWindowAssigner
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.sessions import SessionAggregation
from state_engine.runtime.declared.windowed import WindowedAggregation
from state_engine.runtime.declared.windows import WindowAggregation
from state_engine.runtime.outputs import checked_late_data
from state_engine.runtime.windows.checks import accumulator_type_of, checked
from state_engine.runtime.windows.contents import (
    AggregatedContents,
    Aggregating,
    EvictableContents,
    ListContents,
    ReducedContents,
    Reducing,
    WindowContents,
)
from state_engine.runtime.windows.operation import WindowOperation
from state_engine.runtime.windows.operator import WindowAdapter

R = TypeVar("R")
AnyWindowFunction = WindowFunction[Any, Any, Any, Any] | ProcessWindowFunction[Any, Any, Any, Any]


class WindowedStream(Generic[R]):
    """Records partitioned by key and window: PyFlink's class of the same name.

    `trigger`, `evictor`, `allowed_lateness` and `side_output_late_data` configure the windows and return this object.
    `reduce`, `aggregate`, `apply` and `process` define what is done with the windows, and make an operator. `uid` is
    its stable name, under which its state is found. All methods raise `JobDefinitionError` for what cannot run.

    Args:
        columns: Columns of the records, or their type if they are bare values.
        assigner: Decides which windows a record is in.
        add: Makes an operator from an adapter, an output type and a uid.
        has_event_time: Whether the records have event times.
        key: The key columns, for rows of declared aggregates; None if records are not rows of columns.
    """

    applied: ClassVar[type[Function]] = WindowFunction
    processed: ClassVar[type[Function]] = ProcessWindowFunction

    def __init__(
        self,
        columns: TypeInformation,
        assigner: WindowAssigner[Any, Any],
        add: Callable[[Any, Any, str | None], R],
        *,
        has_event_time: bool = True,
        key: Sequence[str] | None = None,
    ) -> None:
        self._columns = columns
        self._key = key
        self._assigner: WindowAssigner[Any, Any] = checked(assigner, WindowAssigner, "window()")
        if assigner.is_event_time() and not has_event_time:
            raise JobDefinitionError(
                f"window() got {type(assigner).__name__} on a stream without event time.",
                action="Call assign_timestamps_and_watermarks(...) before key_by(), or use windows by processing time.",
            )
        self._add = add
        self._trigger: Trigger[Any, Any] | None = None
        self._evictor: Evictor | None = None
        self._lateness = 0
        self._late_data: OutputTag | None = None

    def get_input_type(self) -> TypeInformation:
        """Returns the columns of the records."""
        return self._columns

    def trigger(self, trigger: Trigger[Any, Any]) -> "WindowedStream[R]":
        """Sets when windows fire, instead of the assigner's default trigger."""
        checked(trigger, Trigger, "trigger()")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise JobDefinitionError(
                f"{type(trigger).__name__} cannot be used with {type(self._assigner).__name__}, whose windows merge.",
                action="Let its can_merge() return True and implement its on_merge(), or use another trigger.",
            )
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor) -> "WindowedStream[R]":
        """Sets which elements leave a window before or after its function; the window then keeps all elements."""
        self._evictor = checked(evictor, Evictor, "evictor()")
        return self

    def allowed_lateness(self, time_ms: Any) -> "WindowedStream[R]":
        """Sets how long after its end an event-time window still takes records; each late record fires it again.

        Args:
            time_ms: The lateness in ms, or a `Time`; 0 without this call.
        """
        is_number = isinstance(time_ms, int) and not isinstance(time_ms, bool)
        lateness = time_ms if is_number else as_milliseconds(time_ms, "The allowed lateness")
        if lateness < 0:
            raise JobDefinitionError(f"The allowed lateness was given as {time_ms!r}.", action="Give 0 or more.")
        self._lateness = lateness
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> "WindowedStream[R]":
        """Sends records that are too late for all their windows to a side output; without this call they are dropped.

        Args:
            output_tag: A tag with the columns of the stream. `get_side_output` of the result returns the stream of late
                records.
        """
        self._late_data = checked_late_data("side_output_late_data", output_tag, self._columns)
        return self

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: AnyWindowFunction | None = None,
        output_type: Any = None,
        *,
        uid: str | None = None,
    ) -> R:
        """Reduces the records of a window as they come.

        Args:
            reduce_function: Makes one record of two; all have the stream's columns.
            window_function: Gets the reduced record; without a window function, this record is the window's row.
            output_type: Columns of the rows; by default those of the stream, if there is no window function.
            uid: Stable name of the operator.
        """
        if not isinstance(reduce_function, ReduceFunction) and (
            isinstance(reduce_function, (type, Function)) or not callable(reduce_function)
        ):
            raise JobDefinitionError(
                f"reduce() got {reduce_function!r}.", action="Give a ReduceFunction or a function of two records."
            )
        contents: WindowContents = ReducedContents(reduce_function, self._columns)
        if self._evictor is not None:
            contents = EvictableContents(self._columns, self._evictor, Reducing(reduce_function))
        output = self._columns if output_type is None and window_function is None else output_type
        return self._end("reduce", contents, window_function, output, uid, reduce_function)

    def aggregate(
        self,
        aggregate_function: AggregateFunction | Mapping[str, Aggregate],
        window_function: AnyWindowFunction | None = None,
        accumulator_type: Any = None,
        output_type: Any = None,
        *,
        uid: str | None = None,
    ) -> R:
        """Aggregates the records of a window as they come.

        Instead of a function you can give declared aggregates: they are kept by columns, without a Python call per
        record. Each window then gives one row when it is over: the key, `window_start`, `window_end` and the results.

        Args:
            aggregate_function: A function; its accumulator is all that is kept of a window. Or `Aggregate`s by the name
                of the result, for `TumblingEventTimeWindows`, `SlidingEventTimeWindows` and `EventTimeSessionWindows`;
                with these, only `uid` and `side_output_late_data()` may be given.
            window_function: Gets the one result; without a window function, this result is the window's row.
            accumulator_type: Type of the accumulator; by default the type hint of what `create_accumulator` returns.
            output_type: Columns of the rows; required with a function.
            uid: Stable name of the operator.
        """
        if isinstance(aggregate_function, Mapping):
            extras = {
                "a window function": window_function,
                "accumulator_type": accumulator_type,
                "output_type": output_type,
                "trigger()": self._trigger,
                "evictor()": self._evictor,
                "allowed_lateness()": self._lateness or None,
            }
            return self._declared(
                aggregate_function, [what for what, value in extras.items() if value is not None], uid
            )
        checked(aggregate_function, AggregateFunction, "aggregate()")
        if self._evictor is None:
            accumulator = accumulator_type_of(aggregate_function, accumulator_type)
            contents: WindowContents = AggregatedContents(aggregate_function, accumulator)
        else:
            contents = EvictableContents(self._columns, self._evictor, Aggregating(aggregate_function))
        return self._end("aggregate", contents, window_function, output_type, uid, aggregate_function)

    def apply(
        self, window_function: WindowFunction[Any, Any, Any, Any], output_type: Any = None, *, uid: str | None = None
    ) -> R:
        """Keeps all records of a window, and applies a function to them.

        Args:
            window_function: Makes rows from them.
            output_type: Columns of the rows; required.
            uid: Stable name of the operator.
        """
        checked(window_function, self.applied, "apply()")
        return self._end("apply", self._listed(), window_function, output_type, uid)

    def process(
        self,
        process_window_function: ProcessWindowFunction[Any, Any, Any, Any],
        output_type: Any = None,
        *,
        uid: str | None = None,
    ) -> R:
        """Applies a function to all records of a window, as `apply`; the function may use state."""
        checked(process_window_function, self.processed, "process() on windows")
        return self._end("process", self._listed(), process_window_function, output_type, uid)

    def _keyed(self, function: Any) -> Any:
        """Returns a window function as one that gets a key."""
        return function

    def _records(self) -> StructType | None:
        return None

    def _key_columns(self) -> Sequence[str] | None:
        """Returns the key columns in rows of declared aggregates; None if there can be no such rows."""
        return self._key

    def _declared(self, aggregates: Mapping[str, Aggregate], more: Sequence[str], uid: str | None) -> R:
        key, columns = self._key_columns(), self._columns
        if key is None or not isinstance(columns, StructType):
            raise JobDefinitionError(
                "aggregate() by columns is not available for PyFlink's streams.", action="Give an AggregateFunction."
            )
        if more:
            raise JobDefinitionError(
                f"aggregate() by columns got {', '.join(more)} as well.",
                action="Remove that, or give an AggregateFunction instead of the aggregates.",
            )
        function = _aggregation_of(self._assigner)(key, self._assigner, aggregates, columns, self._late_data)
        return self._add(function, function.output, uid)

    def _listed(self) -> WindowContents:
        return ListContents(self._columns) if self._evictor is None else EvictableContents(self._columns, self._evictor)

    def _end(
        self,
        verb: str,
        contents: WindowContents,
        function: AnyWindowFunction | None,
        output_type: Any,
        uid: str | None,
        folding: Any = None,
    ) -> R:
        if function is not None and not isinstance(function, (self.applied, self.processed)):
            raise JobDefinitionError(
                f"{verb}() got {function!r} as window function.",
                action=f"Give an object of a {self.applied.__name__} or a {self.processed.__name__}.",
            )
        if output_type is None:
            raise JobDefinitionError(
                f"{verb}() of windows got no output_type.",
                action="Declare the columns of its rows: output_type='a int, b string'.",
            )
        operation = WindowOperation(
            verb=verb,
            assigner=self._assigner,
            trigger=self._trigger or self._assigner.get_default_trigger(None),
            contents=contents,
            function=self._keyed(function),
            records=self._records(),
            folding=folding if isinstance(folding, Function) else None,
            given=tuple(getattr(f, "__qualname__", type(f).__name__) for f in (folding, function) if f is not None),
            allowed_lateness=self._lateness,
            late_data=self._late_data,
            ends_when_purged=self._trigger is None and isinstance(self._assigner, CountWindowAssigner),
            evicting=self._evictor is not None,
        )
        return self._add(WindowAdapter(operation), output_type, uid)


def _aggregation_of(assigner: Any) -> type[WindowedAggregation]:
    """Returns the class that aggregates such windows by columns.

    Raises:
        JobDefinitionError: There is none for these windows.
    """
    kind = type(assigner)  # an author's own class may assign other windows
    if kind is EventTimeSessionWindows:
        return SessionAggregation
    if kind in (TumblingEventTimeWindows, SlidingEventTimeWindows):
        return WindowAggregation
    raise JobDefinitionError(
        f"aggregate() by columns got {assigner!r}.",
        action="Give TumblingEventTimeWindows, SlidingEventTimeWindows or EventTimeSessionWindows, or an "
        "AggregateFunction instead of the aggregates: it works with all windows.",
    )


__all__ = ["AnyWindowFunction", "WindowedStream"]
