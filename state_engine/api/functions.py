"""Functions that an author writes, by PyFlink's names (`pyflink.datastream.functions`).

What differs from PyFlink: `open()` may run many times and in several workers, fields of a function object are not
state, and a function may return a list instead of yielding.
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


NO_METRICS = "Count in a state, or give what is counted to a side output."


class KeyedStateStore(ABC):
    """Gives the states of the operator; the same object for the same name."""

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
    """What a function may know about where it runs, and the way to its states."""

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
        """Returns how often this epoch was tried before: 0 for the first attempt."""

    @abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Returns the uid with the subtask's number, as `uid (2/4)`."""

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Returns a parameter that the job was started with."""

    def get_metrics_group(self) -> NoReturn:
        """Is not there.

        Raises:
            UnsupportedMethodError: Always.
        """
        raise UnsupportedMethodError("RuntimeContext.get_metrics_group() is not there.", action=NO_METRICS)


class Function(ABC):  # noqa: B024 - as in PyFlink, a function need not implement either
    """Base of all functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called before the first record of an instance, which may be more than once in the life of a job."""

    def finish(self) -> Iterable[Any] | None:
        """Called in the epoch in which the input ends, behind the last record and timer; returns the last rows.

        The input ends when a job is drained or a bounded source was read. Rows are yielded or returned as
        `process_element` does, and have no event time; there is no current key.
        """

    def close(self) -> None:
        """Called once when an instance is no longer used, unless its process is killed."""


class MapFunction(Function):
    """Makes one record of each."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Returns the record that is made of this one."""


class FlatMapFunction(Function):
    """Makes any number of records of each."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Yields or returns the records that are made of this one."""


class FilterFunction(Function):
    """Decides which records stay."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Says whether the record stays."""


class ReduceFunction(Function):
    """Combines two values into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the combination of the two."""


class ColumnReduceFunction(ReduceFunction):
    """Reduces values record by record, and whole columns of them: `ReducingState.add_many` takes the second way."""

    @abstractmethod
    def reduce_columns(self, keys: Keys, values: "pa.Array[Any]") -> Any:
        """Returns of each distinct key what its records' values reduce to, as `reduce` would, in the keys' order.

        Args:
            keys: Of the records.
            values: One per record, none of them null, of the state's type.

        Returns:
            A column of the state's type. Null says that nothing is left of the values, whatever others they are reduced
            with.
        """


class AggregateFunction(Function):
    """Aggregates values over an accumulator; input, accumulator and result may differ in type."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Returns a new accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Adds a value and returns the accumulator, the same or a new one."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Returns the result of an accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Merges two accumulators (session windows)."""


class ColumnAggregateFunction(AggregateFunction):
    """Aggregates value by value, and whole columns of them.

    `AggregatingState.add_many` and `get_many` take the second way, which has to mean what the first one means: a row
    function may have the same state, and timers see it by the methods for rows.
    """

    @abstractmethod
    def add_columns(self, keys: Keys, values: "pa.Array[Any]", accumulators: "pa.Array[Any]") -> Any:
        """Returns the accumulator of each distinct key with its records' values added, as `add` would one by one.

        Args:
            keys: Of the records.
            values: One per record, as `add_many` got them: of whatever type, with whatever nulls.
            accumulators: One per distinct key, in the order of `keys.distinct`, of the state's type; null where there
                is none yet.

        Returns:
            As many accumulators in the same order: a column of the state's type, or a list of Python values. Null
            clears the state of its key, as None does that `add` returns.
        """

    @abstractmethod
    def get_result_columns(self, accumulators: "pa.Array[Any]") -> Any:
        """Returns the result of each accumulator, as `get_result` would one by one.

        Args:
            accumulators: At least one, none of them null, of the state's type: keys without one have no result.
        """


class KeyedBatchProcessFunction(Function):
    """Processes the records of many keys at once, as columns, with the state of these keys.

    Timers, if it registers any, come to `on_timers`, many at once; or to `on_timer`, one by one, which then sees the
    same states through their row methods. A function has one of the two.
    """

    class Context(ABC):
        """What a batch comes with."""

        @abstractmethod
        def timer_service(self) -> BatchTimerService:
            """Returns the time service."""

        @abstractmethod
        def timed(self, rows: Any, times: Any) -> "pa.Table":
            """Returns rows of an output with event times of their own.

            An operator that reads the output may want them: for event-time timers, windows, a time to live. Without
            this, the one batch of an output that has as many rows as there are records takes the times of these.

            Args:
                rows: A record batch or table.
                times: One per row: integers, ms since the Unix epoch, or null; None where no row has one.
            """

    class OnTimersContext(Context):
        """What timers come with."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns by which clock the timers fired."""

    @abstractmethod
    def process_batch(self, keys: Keys, batch: "pa.RecordBatch", ctx: "KeyedBatchProcessFunction.Context") -> Any:
        """Processes records.

        How an epoch's records are cut into batches says nothing: all that a key has to know of itself is in its state.

        Args:
            keys: The key of each record.
            batch: The records; the column names are those of the stream.
            ctx: The clocks, and timers.

        Returns:
            The rows of the main output, as a record batch or table with its columns, in any order of the columns; or
            pairs of an `OutputTag` and rows of that side output, and rows of the main one, in a list or generator; or
            None.
        """

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Called when a timer fires, as `KeyedProcessFunction.on_timer`.

        With it, states are kept as Python objects, which is what it sees of them: `on_timers` is faster.
        """

    def on_timers(
        self, keys: Keys, timestamps: "pa.Array[Any]", ctx: "KeyedBatchProcessFunction.OnTimersContext"
    ) -> Any:
        """Called with the timers that are due, which are gone then; they do not come one by one.

        All timers of a clock that are due come in one turn: one call, or several if they are very many. All of a turn
        are gone when its first call comes: what a call registers comes in a further turn, if it is due, and to delete
        what came in the same turn is too late. No state may have a time to live in event time.

        Args:
            keys: The key of each timer; one is there once for each of its timers.
            timestamps: What they were registered for: integers, ms, ascending. Timers of one time come in an order that
                their keys alone decide.
            ctx: The clocks, and timers.

        Returns:
            As `process_batch`. Where an operator behind it wants event times, one batch of an output with a row for
            each timer takes the timers' times, if they are event times.
        """


class ProcessFunction(Function):
    """Processes records one by one, without keys."""

    class Context(ABC):
        """What a record comes with."""

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
        """What a record comes with."""

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
        """What a timer comes with."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns by which clock the timer fired."""

    @abstractmethod
    def process_element(self, value: Any, ctx: "KeyedProcessFunction.Context") -> Iterable[Any] | None:
        """Processes one record; yields or returns output rows, and `(tag, row)` for side outputs."""

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext") -> Iterable[Any] | None:
        """Called when a timer fires, with the key that registered it; yields or returns as `process_element` does.

        Args:
            timestamp: The time that the timer was registered for, in ms.
            ctx: Its `timestamp()` is that time too. Rows returned for an event-time timer have it as event time, those
                for a processing-time timer have none.
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
