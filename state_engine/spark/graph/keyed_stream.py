"""Streams after `key_by`: Python functions with the state of each record's key, running aggregations, windows."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from state_engine.api.aggregates import Aggregate
from state_engine.api.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from state_engine.api.output_tag import OutputTag
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import StructType
from state_engine.api.windows import WindowAssigner
from state_engine.api.windows.counting import count_windows
from state_engine.errors import JobDefinitionError
from state_engine.runtime.adapters import FilterAdapter, FlatMapAdapter, MapAdapter, ReduceAdapter, given
from state_engine.runtime.batch_function import check_timer_methods
from state_engine.runtime.declared.aggregation import Aggregation
from state_engine.runtime.declared.changelog import ChangelogAggregation
from state_engine.runtime.declared.deduplication import Deduplication
from state_engine.runtime.declared.join_streams import IntervalJoinedStreams
from state_engine.runtime.declared.latest import Latest
from state_engine.runtime.declared.temporal_join import TemporalJoin, TemporalJoinType
from state_engine.runtime.declared.top_n import TopN
from state_engine.runtime.outputs import checked_late_data
from state_engine.runtime.read_columns import columns_read
from state_engine.runtime.running import RunningAdapter, RunningVerb
from state_engine.runtime.spec import check_columns
from state_engine.runtime.two_inputs import KeyedInput
from state_engine.runtime.windows.stream import WindowedStream
from state_engine.spark.graph.broadcast_streams import BroadcastConnectedStream, BroadcastStream
from state_engine.spark.graph.connected_streams import ConnectedStreams
from state_engine.spark.graph.feeding import Input, Names
from state_engine.spark.wire.names import column_names

if TYPE_CHECKING:
    from state_engine.spark.graph.stream import DataStream


class KeyedStream:
    """Records partitioned by key.

    Every method adds one operator, with a function that runs in Python. A function with `open` may keep keyed state.
    `uid` is the operator's stable name: its state is found under it. Without one a name is made from the operator's
    place, with a warning, and the state is lost to a job of another shape. All raise `JobDefinitionError` for what
    cannot run.
    """

    def __init__(self, stream: "DataStream", key: tuple[str, ...], order_by: tuple[str, ...]) -> None:
        self.stream = stream
        self.key = key
        self.order_by = order_by

    @property
    def input(self) -> "Input[DataStream]":
        """The stream as an input of an operator that has another one too."""
        return Input(self.stream, KeyedInput(self.stream.columns, self.key, self.order_by))

    @overload
    def connect(self, other: "KeyedStream") -> "ConnectedStreams[DataStream]": ...

    @overload
    def connect(self, other: "BroadcastStream[DataStream]") -> "BroadcastConnectedStream[DataStream]": ...

    def connect(
        self, other: "KeyedStream | BroadcastStream[DataStream]"
    ) -> "ConnectedStreams[DataStream] | BroadcastConnectedStream[DataStream]":
        """Brings this stream and another keyed one into one operator, where they share the state of their keys.

        The other stream may also be a broadcast one, which every subtask gets as a whole.

        Raises:
            JobDefinitionError: The other is no keyed or broadcast stream of the same job.
            UnsupportedTopologyError: Both begin at one source.
        """
        if isinstance(other, BroadcastStream):
            return BroadcastConnectedStream(self.input, other)
        if not isinstance(other, KeyedStream):
            raise JobDefinitionError(
                f"connect() of a keyed stream got {type(other).__name__}.", action="Call key_by(...) on both first."
            )
        return ConnectedStreams(self.input, other.input)

    def process(
        self,
        function: KeyedProcessFunction | KeyedBatchProcessFunction,
        output_type: Any,
        *,
        columns: Names | None = None,
        uid: str | None = None,
    ) -> "DataStream":
        """Applies a function with the state of each record's key, record by record or batch by batch.

        Args:
            function: What to apply; each worker gets copies of it.
            output_type: Columns of the rows that it returns.
            columns: The columns that the function reads. Records then have only these, and those of `key_by`, in the
                stream's order. The others are not read from a source of files, and are not sent to the workers. By
                default all; of a source's records only those that `process_element` reads, where it uses its record by
                `record.column` alone (docs/adr/0040-columns-that-are-read.md).
            uid: Stable name of the operator.

        Raises:
            JobDefinitionError: A column is missing, or the function cannot run.
        """
        if not isinstance(function, (KeyedProcessFunction, KeyedBatchProcessFunction)):
            raise JobDefinitionError(
                f"process() on a keyed stream got {given(function)}.",
                action="Give a KeyedProcessFunction, or a KeyedBatchProcessFunction.",
            )
        check_timer_methods(function)
        return self._read_by(function, columns)._apply(function, output_type, uid)

    def map(
        self, function: MapFunction | Callable[[Any], Any], output_type: Any, *, uid: str | None = None
    ) -> "DataStream":
        """Makes one row of each record."""
        return self._apply(MapAdapter(function), output_type, uid)

    def flat_map(
        self, function: FlatMapFunction | Callable[[Any], Any], output_type: Any, *, uid: str | None = None
    ) -> "DataStream":
        """Makes any number of rows of each record: what the function yields or returns."""
        return self._apply(FlatMapAdapter(function), output_type, uid)

    def filter(self, function: FilterFunction | Callable[[Any], Any], *, uid: str | None = None) -> "DataStream":
        """Keeps the records for which the function is true."""
        return self._apply(FilterAdapter(function), self.stream.columns, uid)

    def reduce(self, function: ReduceFunction | Callable[[Any, Any], Any], *, uid: str | None = None) -> "DataStream":
        """Reduces the records of each key, and emits the result so far for each record.

        The function gets what it returned last, or the key's first record, and the new record. It returns a row of the
        stream's columns.
        """
        return self._apply(ReduceAdapter(function, self.stream.columns), self.stream.columns, uid)

    def sum(self, field: int | str = 0, *, uid: str | None = None) -> "DataStream":
        """Emits, for each record, the first record of its key with the sum of a field so far.

        Args:
            field: Name or position of a field of numbers. Null stops the job, and so does a sum that outgrows the
                field's type: cast the field first.
            uid: Stable name of the operator.
        """
        return self._run("sum", field, uid)

    def min(self, field: int | str = 0, *, uid: str | None = None) -> "DataStream":
        """Emits, for each record, the first record of its key with the least value of a field so far.

        Args:
            field: Name or position of a field with values that have an order. Null stops the job.
            uid: Stable name of the operator.
        """
        return self._run("min", field, uid)

    def max(self, field: int | str = 0, *, uid: str | None = None) -> "DataStream":
        """Emits, for each record, the first record of its key with the largest value of a field so far.

        Fields as in `min`.
        """
        return self._run("max", field, uid)

    def min_by(self, field: int | str = 0, *, uid: str | None = None) -> "DataStream":
        """Emits, for each record, the record of its key with the least value of a field so far; the first of several.

        Fields as in `min`.
        """
        return self._run("min_by", field, uid)

    def max_by(self, field: int | str = 0, *, uid: str | None = None) -> "DataStream":
        """Emits, for each record, the record of its key with the largest value of a field so far; the first of several.

        Fields as in `min`.
        """
        return self._run("max_by", field, uid)

    def aggregate(
        self,
        aggregates: Mapping[str, Aggregate],
        *,
        ttl: StateTtlConfig | None = None,
        changelog: bool = False,
        retract: bool = False,
        uid: str | None = None,
    ) -> "DataStream":
        """Emits one row for each key with records in an epoch: the key, and the aggregates of all its records so far.

        The rows of a key replace each other: a later one is an update. All is computed by columns, without a Python
        call per record.

        Args:
            aggregates: Aggregates by the name of the result, such as
                `{"n": Aggregate.count(), "total": Aggregate.sum("amount")}`.
            ttl: How long the numbers of a key are kept; for ever by default.
            changelog: Rows also have `op`: `+I` for a key's first row, `-U` for a row that is replaced, and `+U` for
                the row that replaces it. A key with unchanged results has no row.
            retract: The records are a changelog themselves: a record with the `op` `-U` or `-D` is retracted. The rows
                are a changelog too, as with `changelog`; the row of a key that has no records any more comes again with
                `-D`. Only for counts, and sums and means of integers and decimals.
            uid: Stable name of the operator.
        """

        def made(columns: StructType) -> Aggregation | ChangelogAggregation:
            if changelog or retract:
                return ChangelogAggregation(self.key, aggregates, columns, ttl, retract=retract)
            return Aggregation(self.key, aggregates, columns, ttl)

        keyed, function = self, made(self.stream.columns)
        if self.stream.reads_source and not retract:  # rows of an operator have the columns that its author gives them
            keyed = self._reading([one.column for one in aggregates.values() if one.column is not None])
            function = made(keyed.stream.columns)
        return keyed._apply(function, function.output, uid)

    def deduplicate(self, *, ttl: StateTtlConfig | None = None, uid: str | None = None) -> "DataStream":
        """Emits the first record of each key, and no other; computed by columns, as `aggregate`.

        Args:
            ttl: How long a key is remembered; for ever by default, which needs a state as large as all keys.
            uid: Stable name of the operator.
        """
        return self._apply(Deduplication(self.stream.columns, ttl), self.stream.columns, uid)

    def latest(
        self,
        *,
        by: str | None = None,
        ttl: StateTtlConfig | None = None,
        changelog: bool = False,
        uid: str | None = None,
    ) -> "DataStream":
        """Emits the newest record of each key, in each epoch in which it became another one.

        It is computed by columns, as `aggregate`. The rows of a key replace each other: a later one is an update.

        Args:
            by: A column such as a version or a time of change: the record with its largest value is the newest. Of
                several with that value the later one is the newest. Null is less than all. By default the newest record
                is the last to come, in the order of `key_by(order_by=...)` within an epoch.
            ttl: How long a key's newest record is remembered; for ever by default.
            changelog: Rows also have `op`: `+I` for a key's first record, `-U` for a record that is replaced, and `+U`
                for the record that replaces it.
            uid: Stable name of the operator.
        """
        function = Latest(self.stream.columns, by, ttl, changelog=changelog)
        return self._apply(function, function.output, uid)

    def top_n(
        self, n: int, *, by: str, descending: bool = True, ttl: StateTtlConfig | None = None, uid: str | None = None
    ) -> "DataStream":
        """Emits what changes among the `n` first records of each key, ranked by a column.

        It is computed by columns, as `aggregate`. A row is a record with its `rank`, from 1, and `op`: `+I` has the
        rank now, `-U` had the rank before and `+U` has it now, `-D` had the rank and no record has it now. The rows of
        an epoch are the difference to the epoch before. Of equal values the earlier record comes first.

        Args:
            n: Number of records per key.
            by: The column that ranks them. Null is less than all values, NaN is larger than all numbers.
            descending: Whether the largest value comes first.
            ttl: How long the first records of a key are kept since they last changed; for ever by default.
            uid: Stable name of the operator.
        """
        function = TopN(self.stream.columns, n, by, descending=descending, ttl=ttl)
        return self._apply(function, function.output, uid)

    def interval_join(self, other: "KeyedStream") -> "IntervalJoinedStreams[DataStream]":
        """Pairs records with those of another keyed stream that have the same key and are near in event time.

        `between(lower, upper)` sets how near, and `join(how, uid=...)` completes the operator. A row has the columns of
        this stream, then those of the other one except its key columns; its event time is the later one of the two. It
        is computed by columns, as `aggregate`. Null keys have no partner, as in SQL.

        Args:
            other: A stream of the same job with event times, and with the same number and types of key columns.
        """
        connected = self._meeting(other, "interval_join")
        return IntervalJoinedStreams(*connected.inputs, connected.add_join)

    def temporal_join(
        self,
        versions: "KeyedStream",
        how: TemporalJoinType = "inner",
        *,
        late_data: OutputTag | None = None,
        uid: str | None = None,
    ) -> "DataStream":
        """Joins each record with the version of its key, in another keyed stream, that was valid at its event time.

        It is computed by columns. A record of the other stream is valid from its event time on, until that of the next
        one of its key: Flink's `FOR SYSTEM_TIME AS OF`. Rows have the columns of this stream, then those of the other
        one except its key columns. A row comes when the watermark passes the record's time, which is also the row's.

        Args:
            versions: A stream of the same job with event times, and with the same number and types of key columns.
            how: `left` also emits records without a version, with nulls.
            late_data: Side output for records of this stream that the watermark has passed; by default these are
                dropped.
            uid: Stable name of the operator.
        """
        connected = self._meeting(versions, "temporal_join")
        if late_data is not None:
            checked_late_data("temporal_join", late_data, self.stream.columns)
        return connected.add_join(TemporalJoin(*connected.inputs, how, late_data), uid)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> "WindowedStream[DataStream]":
        """Puts the records of each key into windows; `reduce`, `aggregate`, `apply` or `process` makes rows of them.

        Args:
            window_assigner: Which windows a record is in. Windows by event time need a stream that has it.
        """
        stream = self.stream
        timed = stream.has_event_time
        return WindowedStream(stream.columns, window_assigner, self._apply, has_event_time=timed, key=self.key)

    def count_window(self, size: int, slide: int = 0) -> "WindowedStream[DataStream]":
        """Puts every `size` records of a key into a window, which fires when it is full.

        Args:
            size: Records in a window.
            slide: Records from the start of one window to that of the next; 0 for windows one after the other.
        """
        return self.window(count_windows(size, slide))

    def _meeting(self, other: "KeyedStream", verb: str) -> "ConnectedStreams[DataStream]":
        if not isinstance(other, KeyedStream):
            raise JobDefinitionError(f"{verb}() got {type(other).__name__}.", action="Call key_by(...) on both first.")
        connected = ConnectedStreams(self.input, other.input)
        connected.check_event_times(verb)
        return connected

    def _read_by(
        self, function: KeyedProcessFunction | KeyedBatchProcessFunction, columns: Names | None
    ) -> "KeyedStream":
        """Returns the stream with the columns that its author names, or that the function's code shows to be read."""
        struct = self.stream.columns
        if columns is not None:
            read = column_names(columns, "columns of process()")
            check_columns(struct, read)
            if struct.carrier is not None:
                raise JobDefinitionError(
                    f"process() got columns for records of the form {struct.carrier!r}.",
                    action="Leave out columns, or use select() and returns() before key_by().",
                )
            return self._reading(read)
        if (
            struct.carrier is not None
            or not self.stream.reads_source
            or isinstance(function, KeyedBatchProcessFunction)
        ):
            return self
        shown = columns_read(function.process_element, struct.names)
        return self._reading(sorted(shown)) if shown is not None else self

    def _reading(self, columns: Sequence[str]) -> "KeyedStream":
        """Returns the stream with these columns and those of `key_by` alone."""
        kept = {*columns, *self.key, *self.order_by}
        names = [name for name in self.stream.columns.names if name in kept]
        if len(names) == len(self.stream.columns.names):
            return self
        return KeyedStream(self.stream.only(names), self.key, self.order_by)

    def _run(self, verb: RunningVerb, field: int | str, uid: str | None) -> "DataStream":
        columns = self.stream.columns
        return self._apply(RunningAdapter(verb, field, columns), columns, uid)

    def _apply(self, function: Function, output_type: Any, uid: str | None) -> "DataStream":
        return self.stream.add_operator("keyed_process", function, output_type, uid, self.key, self.order_by)


__all__ = ["KeyedStream"]
