"""Base classes of the functions that an author writes, under PyFlink's names (`pyflink.datastream.functions`).

Differences from PyFlink: `open()` may run many times and in several workers. Fields of a function object are not
state. A function may return a list instead of yielding.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from state_engine.api.keys import Keys
from state_engine.api.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from state_engine.api.timers import BatchTimerService, TimeDomain, TimerService
from state_engine.errors import UnsupportedMethodError

if TYPE_CHECKING:
    import pyarrow as pa

    from state_engine.api.descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )


NO_METRICS = "Count in a state, or emit the counts to a side output."


class KeyedStateStore(ABC):
    """Gives access to the states of the operator; returns the same object for the same name."""

    @abstractmethod
    def get_state(self, state_descriptor: "ValueStateDescriptor") -> ValueState[Any]:
        """Returns the value state of this name."""

    @abstractmethod
    def get_list_state(self, state_descriptor: "ListStateDescriptor") -> ListState[Any]:
        """Returns the list state of this name."""

    @abstractmethod
    def get_map_state(self, state_descriptor: "MapStateDescriptor") -> MapState[Any, Any]:
        """Returns the map state of this name."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: "ReducingStateDescriptor") -> ReducingState[Any]:
        """Returns the reducing state of this name."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: "AggregatingStateDescriptor") -> AggregatingState[Any, Any]:
        """Returns the aggregating state of this name."""


class RuntimeContext(KeyedStateStore):
    """Tells a function where it runs, and gives it access to its states."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Returns the operator's uid."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Returns the operator's parallelism in this epoch."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Returns the number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Returns the subtask's number, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Returns the number of earlier attempts of this epoch: 0 for the first attempt."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Returns the uid with the subtask's number, such as `uid (2/4)`."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Returns the value of a parameter with which the job was started."""

    def get_metrics_group(self) -> NoReturn:
        """Is not supported.

        Raises:
            UnsupportedMethodError: Always.
        """
        raise UnsupportedMethodError("RuntimeContext.get_metrics_group() is not supported.", action=NO_METRICS)


class Function(ABC):  # noqa: B024 - as in PyFlink, a function need not implement either
    """Base of all functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once per instance, before its first record. A job may create several instances during its life."""

    def finish(self) -> Iterable[Any] | None:
        """Called in the epoch in which the input ends, after the last record and timer; returns the last rows.

        The input ends when a job is drained or a bounded source has been read. Rows are yielded or returned as in
        `process_element`. They have no event time, and there is no current key.
        """

    def close(self) -> None:
        """Called once when an instance is no longer used, unless its process is killed."""


class MapFunction(Function):
    """Turns each record into one record."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Returns the output record for this record."""


class FlatMapFunction(Function):
    """Turns each record into any number of records."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Yields or returns the output records for this record."""


class FilterFunction(Function):
    """Decides which records are kept."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Returns whether the record is kept."""


class ReduceFunction(Function):
    """Combines two values into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the combination of the two."""


class ColumnReduceFunction(ReduceFunction):
    """A reduce function that also reduces whole columns; `ReducingState.add_many` calls it with columns."""

    @abstractmethod
    def reduce_columns(self, keys: Keys, values: "pa.Array[Any]") -> Any:
        """Returns for each distinct key the reduced value of its records, as `reduce` would, in the order of the keys.

        Args:
            keys: The key of each record.
            values: One per record, none of them null, of the state's type.

        Returns:
            A column of the state's type. Null means that nothing remains of the values, whichever other values they
            are reduced with.
        """


class AggregateFunction(Function):
    """Aggregates values in an accumulator; input, accumulator and result may have different types."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Returns a new accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Adds a value and returns the accumulator, the same or a new one."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Returns the result for an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Merges two accumulators; session windows need it."""


class ColumnAggregateFunction(AggregateFunction):
    """An aggregate function that also aggregates whole columns.

    `AggregatingState.add_many` and `get_many` call its methods for columns. These must give the same results as the
    methods for single values: a row function may use the same state, and `on_timer` reads it by the row methods.
    """

    @abstractmethod
    def add_columns(self, keys: Keys, values: "pa.Array[Any]", accumulators: "pa.Array[Any]") -> Any:
        """Returns each distinct key's accumulator with the values of its records added, as `add` would one by one.

        Args:
            keys: The key of each record.
            values: One per record, as `add_many` got them: of any type, possibly with nulls.
            accumulators: One per distinct key, in the order of `keys.distinct`, of the state's type; null for a key
                without an accumulator.

        Returns:
            The new accumulators in the same order, one per distinct key, as a column of the state's type, or a list of
            Python values. Null clears the state of its key, as it does when `add` returns None.
        """

    @abstractmethod
    def get_result_columns(self, accumulators: "pa.Array[Any]") -> Any:
        """Returns the result of each accumulator, as `get_result` would one by one.

        Args:
            accumulators: At least one, none of them null, of the state's type. Keys without an accumulator have no
                result, and are left out.
        """


class KeyedBatchProcessFunction(Function):
    """Processes the records of many keys at once, as columns, with the state of these keys.

    A function that registers timers implements one of two methods. `on_timers` gets many timers at once. `on_timer`
    gets them one by one, and uses the same states through their row methods.
    """

    class Context(ABC):
        """Gives `process_batch` the clocks and timers."""

        @abstractmethod
        def timer_service(self) -> BatchTimerService:
            """Returns the time service."""

        @abstractmethod
        def timed(self, rows: Any, times: Any) -> "pa.Table":
            """Returns rows of an output with event times of their own.

            A downstream operator may need event times: for event-time timers, windows, or a time to live. Without this
            call, an output's only batch takes the times of the records if it has one row per record.

            Args:
                rows: A record batch or table.
                times: One per row: integers, ms since the Unix epoch, or null; None where no row has one.
            """

    class OnTimersContext(Context):
        """Gives `on_timers` the clocks and timers."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns the clock by which the timers fired."""

    @abstractmethod
    def process_batch(self, keys: Keys, batch: "pa.RecordBatch", ctx: "KeyedBatchProcessFunction.Context") -> Any:
        """Processes a batch of records.

        How an epoch's records are divided into batches has no meaning. Whatever a key needs to remember must be in its
        state.

        Args:
            keys: The key of each record.
            batch: The records; the column names are those of the stream.
            ctx: The clocks, and timers.

        Returns:
            The rows of the main output, as a record batch or table with its columns in any order; or a list or
            generator of rows of the main output and of pairs `(OutputTag, rows)` for side outputs; or None.
        """

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Called when a timer fires, as `KeyedProcessFunction.on_timer`.

        It reads states as Python objects. A function with this method therefore keeps its states as Python objects;
        `on_timers` is faster.
        """

    def on_timers(
        self, keys: Keys, timestamps: "pa.Array[Any]", ctx: "KeyedBatchProcessFunction.OnTimersContext"
    ) -> Any:
        """Called with many due timers at once, in place of one call of `on_timer` for each.

        All due timers of a clock come in one turn: one call, or several if there are very many. All timers of a turn
        are removed before its first call. A timer that a call registers comes in a later turn, if it is due. A timer of
        the current turn can no longer be deleted. No state may have a time to live in event time.

        Args:
            keys: The key of each timer; a key occurs once for each of its timers.
            timestamps: The registered times: integers, ms, ascending. The order of timers with the same time depends
                only on their keys.
            ctx: The clocks, and timers.

        Returns:
            As `process_batch`. If a downstream operator needs event times, an output's only batch with one row per
            timer takes the times of the timers, provided that these are event times.
        """


class ProcessFunction(Function):
    """Processes records one by one, without keys."""

    class Context(ABC):
        """What `process_element` gets with a record: its event time, and the time service."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the time service."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Returns the record's event time in ms, or None without one."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "ProcessFunction.Context") -> Iterable[Any] | None:
        """Processes one record; yields or returns output rows, and `(tag, row)` for side outputs."""


class KeyedProcessFunction(Function):
    """Processes records one by one, with the state of their key."""

    class Context(ABC):
        """What `process_element` gets with a record: its key, its event time, and the time service."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Returns the key: the value of a single key column, or a tuple of several."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the time service."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Returns the record's event time in ms, or None without one."""

    class OnTimerContext(Context):
        """What `on_timer` gets: as `Context`, with the clock of the timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns the clock by which the timer fired."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedProcessFunction.Context") -> Iterable[Any] | None:
        """Processes one record; yields or returns output rows, and `(tag, row)` for side outputs."""

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Called when a timer fires, with the key that registered it; yields or returns as `process_element` does.

        Args:
            timestamp: The time for which the timer was registered, in ms.
            ctx: Its `timestamp()` is that time too. Rows returned for an event-time timer have it as event time; rows
                returned for a processing-time timer have no event time.
        """


__all__ = [
    "AggregateFunction",
    "ColumnAggregateFunction",
    "ColumnReduceFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeyedBatchProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
]
