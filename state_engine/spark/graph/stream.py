"""Streams, as the author of a job chains them. Named errors refuse here what cannot run, before Spark does."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

from pyspark.sql import DataFrame

from state_engine.api.descriptors import MapStateDescriptor
from state_engine.api.functions import FilterFunction, FlatMapFunction, Function, MapFunction, ProcessFunction
from state_engine.api.output_tag import OutputTag, columns_type
from state_engine.api.types import StructType
from state_engine.api.watermarks import WatermarkStrategy
from state_engine.api.windows import WindowAssigner
from state_engine.api.windows.counting import count_windows
from state_engine.errors import JobDefinitionError, UnsupportedTopologyError
from state_engine.runtime.adapters import Adapter, FilterAdapter, FlatMapAdapter, MapAdapter, given
from state_engine.runtime.declared.base import Declared
from state_engine.runtime.outputs import MAIN
from state_engine.runtime.spec import OperatorKind, check_columns, key_columns
from state_engine.runtime.two_inputs import KeyedInput
from state_engine.runtime.windows.all import ALL, AllWindowedStream
from state_engine.spark.graph.between import check_condition, selected, taken
from state_engine.spark.graph.broadcast_streams import BroadcastConnectedStream, BroadcastStream
from state_engine.spark.graph.building import JobGraph
from state_engine.spark.graph.computed import Compute
from state_engine.spark.graph.connected_streams import ConnectedStreams
from state_engine.spark.graph.dry import DrySession, selected_columns
from state_engine.spark.graph.edges import check_distinct, with_step
from state_engine.spark.graph.feeding import Input, Names
from state_engine.spark.graph.keyed_stream import KeyedStream
from state_engine.spark.graph.nodes import (
    ComputeStep,
    Edge,
    MapStep,
    OperatorNode,
    SelectStep,
    SourceNode,
    Step,
    TimeStep,
    WhereStep,
)
from state_engine.spark.graph.operator_output import operator_of, output_of
from state_engine.spark.graph.sinks import Sink
from state_engine.spark.graph.timing import check_gives_time, timing_columns
from state_engine.spark.wire.names import column_names, quote_always
from state_engine.spark.wire.schemas import ddl_of, struct_of


class DataStream:
    """Records on their way to an operator, or after the last one.

    Before the first operator any stateless, deterministic Spark transformation may be used on the DataFrame itself;
    between operators `select`, `where`, `with_column` and `map`. `select`, `where` and `with_column` take Spark SQL;
    `map`, `flat_map`, `filter` and `process` take functions that run in Python.

    Args:
        graph: The job's graph.
        edges: Where its records come from.
        columns: The columns of its records.
    """

    def __init__(self, graph: JobGraph, edges: tuple[Edge, ...], columns: StructType) -> None:
        self._graph = graph
        self._edges = edges
        self._columns = columns

    @property
    def columns(self) -> StructType:
        """The columns of the records."""
        return self._columns

    def _frame(self) -> DataFrame:
        """Returns an empty DataFrame of the stream's columns, on which Spark checks expressions."""
        return self._graph.session.createDataFrame([], ddl_of(self._columns))

    @property
    def _is_dry(self) -> bool:
        """Whether the job is only looked at, without Spark: no expression is checked then."""
        session: object = self._graph.session
        return isinstance(session, DrySession)

    def _with(self, step: Step, columns: StructType) -> "DataStream":
        return DataStream(self._graph, tuple(with_step(edge, step) for edge in self._edges), columns)

    @property
    def reads_source(self) -> bool:
        """Whether records come straight from a source. Only one operator may read it; an output may feed many."""
        return any(isinstance(edge.origin, SourceNode) for edge in self._edges)

    @property
    def _is_between(self) -> bool:
        """Whether barriers travel among the records."""
        return any(isinstance(edge.origin, OperatorNode) for edge in self._edges)

    def select(self, *expressions: str) -> "DataStream":
        """Keeps the columns that the Spark SQL expressions give, one record for each.

        Raises:
            JobDefinitionError: Spark rejects the expressions.
            UnsupportedTopologyError: Between operators: an expression is not deterministic, or is a generator, an
                aggregate or a window function.
        """
        if self._is_dry:
            return self._with(SelectStep(expressions), selected_columns(self._columns, expressions))
        frame = self._frame()
        # Before the first operator a generator is allowed, and check_upstream() checks the rest.
        if self._is_between:
            changed = selected(frame, *expressions)
        else:
            changed = taken(frame, f"select({', '.join(expressions)})", lambda: frame.selectExpr(*expressions))
        return self._with(SelectStep(expressions), struct_of(changed.schema, "select()"))

    def only(self, names: Sequence[str]) -> "DataStream":
        """Keeps some of the stream's columns, each in the form that it has; records are rows."""
        types = dict(zip(self._columns.names, self._columns.types, strict=True))
        columns = StructType(tuple(names), tuple(types[name] for name in names))
        return self._with(SelectStep(tuple(map(quote_always, names))), columns)

    def where(self, condition: str) -> "DataStream":
        """Keeps the records for which a Spark SQL condition is true.

        Raises as `select` does.
        """
        if not self._is_dry:
            frame = self._frame()
            if self._is_between:
                check_condition(frame, condition)
            else:
                taken(frame, f"where({condition})", lambda: frame.where(condition))
        return self._with(WhereStep(condition), self._columns)

    def with_column(self, name: str, expression: str) -> "DataStream":
        """Adds or replaces one column, by a Spark SQL expression."""
        kept = [quote_always(n) for n in self._columns.names if n.lower() != name.lower()]
        return self.select(*kept, f"({expression}) as {quote_always(name)}")

    def map(
        self, function: MapFunction | Callable[[Any], Any], output_type: Any, *, uid: str | None = None
    ) -> "DataStream":
        """Makes one row of each record with a Python function; prefer `select`, which needs no Python.

        A plain function without `uid` runs on the way from one operator to the next. A `MapFunction`, or any function
        with a `uid`, is an operator: it may be the first one, have sinks, and be opened.

        Raises:
            UnsupportedTopologyError: A plain function without `uid` that is not between two operators.
        """
        adapter = MapAdapter(function)
        if uid is not None or isinstance(function, MapFunction):
            return self.add_operator("process", adapter, output_type, uid)
        output = columns_type(output_type, "map()")
        return self._with(MapStep(function, self._columns, output), output)

    def flat_map(
        self, function: FlatMapFunction | Callable[[Any], Any], output_type: Any, *, uid: str | None = None
    ) -> "DataStream":
        """Makes any number of rows of each record with a Python function, in an operator without keyed state."""
        return self.add_operator("process", FlatMapAdapter(function), output_type, uid)

    def filter(self, function: FilterFunction | Callable[[Any], Any], *, uid: str | None = None) -> "DataStream":
        """Keeps the records for which a Python function is true, in an operator; prefer `where`, in Spark SQL."""
        return self.add_operator("process", FilterAdapter(function), self._columns, uid)

    def returns(self, columns: StructType) -> "DataStream":
        """Returns this stream with records in the form that a type gives: a tuple, a dataclass, a bare value.

        Raises:
            JobDefinitionError: The type has other fields than the stream.
        """
        if columns != self._columns:
            raise JobDefinitionError(
                f"returns() got {columns.ddl()} on a stream of {self._columns.ddl()}.",
                action="Give a type with the same names and types, in the same order.",
            )
        return DataStream(self._graph, self._edges, columns)

    def with_computed(self, compute: Compute, computed: StructType, columns: StructType) -> "DataStream":
        """Adds columns that a Python function computes; prefer `with_column`, which needs no Python.

        Args:
            compute: Returns their values for a record; it must return the same for the same record.
            computed: The columns.
            columns: All columns of the stream that is returned, with the form of its records.
        """
        return self._with(ComputeStep(compute, self._columns, computed), columns)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> "DataStream":
        """Gives the records event times, and the downstream operators watermarks (docs/event-time.md).

        A strategy after an operator replaces the event times and watermarks that the operator passes on.

        Raises:
            JobDefinitionError: This is no strategy, it gives no time, or Spark rejects its expressions.
            UnsupportedTopologyError: Its expressions are not deterministic.
        """
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise JobDefinitionError(
                f"assign_timestamps_and_watermarks() got {watermark_strategy!r}.",
                action="Give WatermarkStrategy.for_bounded_out_of_orderness(...).with_timestamp_column(...).",
            )
        check_gives_time(watermark_strategy)
        columns = () if self._is_dry else tuple(timing_columns(self._frame(), watermark_strategy))
        return self._with(TimeStep(self._columns, watermark_strategy, columns), self._columns)

    @property
    def has_event_time(self) -> bool:
        """Whether the records have event times."""
        return any(edge.timed for edge in self._edges)

    def key_by(self, *columns: Names, order_by: Names = ()) -> KeyedStream:
        """Partitions the records by key.

        Args:
            columns: Names of the key columns: integers, string, binary, boolean, date, timestamp or decimal; null is a
                key like any other.
            order_by: Columns by which the records of an epoch reach the function in order. Give a total order: without
                it, results are independent of parallelism only for functions that do not depend on order. Without such
                columns and without event times, records of different keys come in no order. Those of a large epoch may
                then come key by key, which is faster.

        Raises:
            UnsupportedTypeError: A column cannot be a key.
            JobDefinitionError: A column is missing or has a reserved name, or what is given is no name.
        """
        stream, keyed = self.keyed_input(columns, order_by)
        return KeyedStream(stream, keyed.key, keyed.order_by)

    def keyed_input(self, key: Sequence[Names], order_by: Names) -> "Input[DataStream]":
        """Returns the stream as an input of an operator, keyed. Arguments and errors are those of `key_by`."""
        names = tuple(name for given in key for name in column_names(given, "key_by()"))
        order = column_names(order_by, "order_by of key_by()")
        if not names:
            raise JobDefinitionError("key_by() got no columns.", action="Name at least one.")
        key_columns(self._columns, names)
        check_columns(self._columns, order)
        return Input(self._partitioned(broadcast=False), KeyedInput(self._columns, names, order))

    @property
    def _input(self) -> "Input[DataStream]":
        return Input(self, KeyedInput(self._columns))

    @overload
    def broadcast(self) -> "DataStream": ...

    @overload
    def broadcast(
        self, descriptor: MapStateDescriptor, /, *others: MapStateDescriptor
    ) -> "BroadcastStream[DataStream]": ...

    def broadcast(self, *descriptors: MapStateDescriptor) -> "DataStream | BroadcastStream[DataStream]":
        """Sends every record to every subtask of the next operator, which has no key, or takes it as one of two inputs.

        Each subtask calls its function for every record, and emits the result. A later `key_by` cancels the broadcast.

        Args:
            descriptors: Descriptors of the states in which a function keeps it; the result is then for `connect`.

        Raises:
            JobDefinitionError: A descriptor is no `MapStateDescriptor`.
        """
        stream = self._partitioned(broadcast=True)
        return BroadcastStream(stream, descriptors) if descriptors else stream

    def _partitioned(self, *, broadcast: bool) -> "DataStream":
        edges = tuple(replace(edge, broadcast=broadcast) for edge in self._edges)
        return DataStream(self._graph, edges, self._columns)

    @property
    def _is_broadcast(self) -> bool:
        return any(edge.broadcast for edge in self._edges)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> "AllWindowedStream[DataStream]":
        """Puts all records into windows, whatever their keys: one subtask gets them all.

        Args:
            window_assigner: Which windows a record is in. Windows by event time need a stream that has it.
        """
        if ALL in map(str.lower, self._columns.names):
            raise JobDefinitionError(
                f"window_all() of a stream with a column {ALL!r}.", action="Give the column another name first."
            )

        def add(function: Function, output_type: Any, uid: str | None) -> "DataStream":
            keyed = self.with_column(ALL, "cast(null as boolean)")
            return keyed.add_operator("keyed_process", function, output_type, uid, (ALL,))

        return AllWindowedStream(self._columns, window_assigner, add, has_event_time=self.has_event_time)

    def count_window_all(self, size: int, slide: int = 0) -> "AllWindowedStream[DataStream]":
        """Puts every `size` records into a window; as `KeyedStream.count_window`."""
        return self.window_all(count_windows(size, slide))

    def process(self, function: ProcessFunction, output_type: Any, *, uid: str | None = None) -> "DataStream":
        """Applies a function without keyed state."""
        if not isinstance(function, ProcessFunction):
            raise JobDefinitionError(
                f"process() on a stream without key got {given(function)}.",
                action="Give a ProcessFunction, or put key_by(...) before a KeyedProcessFunction.",
            )
        return self.add_operator("process", function, output_type, uid)

    def add_operator(
        self,
        kind: OperatorKind,
        function: Function,
        output_type: Any,
        uid: str | None,
        key: tuple[str, ...] = (),
        order: tuple[str, ...] = (),
    ) -> "DataStream":
        """Adds an operator after this stream; all methods of both kinds of stream that make an operator call this."""
        verb = function.verb if isinstance(function, (Adapter, Declared)) else kind
        node = OperatorNode(
            uid=self._graph.claim_uid(uid, verb),
            kind=kind,
            function=function,
            edges=self.feeding(),
            input=self._columns,
            key=key,
            order_by=order,
            output=columns_type(output_type, f"operator {uid or verb!r}"),
            generated_uid=uid is None,
        )
        return self.append_operator(node)

    def feeding(self, input_: int = 1) -> tuple[Edge, ...]:
        """Returns the edges by which this stream feeds an input of an operator."""
        return tuple(replace(edge, input=input_) for edge in self._edges)

    def append_operator(self, node: OperatorNode) -> "DataStream":
        """Adds an operator to the job and returns its output stream."""
        self._graph.append(node)
        return DataStream(self._graph, (Edge(node),), node.output)

    def union(self, *streams: "DataStream") -> "DataStream":
        """Returns the records of this stream and of others, in no promised order.

        Raises:
            JobDefinitionError: A stream has other columns than this one, is of another job, or no stream at all.
            UnsupportedTopologyError: Two streams begin at one source, or only some of them are broadcast.
        """
        edges = self.feeding()
        for stream in streams:
            self._check_stream(stream, "union")
            if stream.columns != self._columns:
                raise JobDefinitionError(
                    f"union() of {self._columns.ddl()} and {stream.columns.ddl()}.",
                    action="Bring them to the same names, types and order by select(...) or map(...); or connect().",
                )
            if stream._is_broadcast != self._is_broadcast:
                raise UnsupportedTopologyError(
                    "union() of a broadcast stream and one that is not.", action="Put broadcast() after union()."
                )
            self.check_meets(stream)
            edges = (*edges, *stream.feeding())
            check_distinct(edges)
        return DataStream(self._graph, edges, self._columns)

    @overload
    def connect(self, other: "DataStream") -> "ConnectedStreams[DataStream]": ...

    @overload
    def connect(self, other: "BroadcastStream[DataStream]") -> "BroadcastConnectedStream[DataStream]": ...

    def connect(
        self, other: "DataStream | BroadcastStream[DataStream]"
    ) -> "ConnectedStreams[DataStream] | BroadcastConnectedStream[DataStream]":
        """Brings this stream and another one into one operator with two inputs; the columns may differ.

        Raises:
            JobDefinitionError: The other is no stream of the same job, or it is keyed and this one is not.
            UnsupportedTopologyError: Both begin at one source.
        """
        if isinstance(other, BroadcastStream):
            return BroadcastConnectedStream(self._input, other)
        self._check_stream(other, "connect")
        return ConnectedStreams(self._input, other._input)

    @staticmethod
    def _check_stream(other: object, verb: str) -> None:
        if not isinstance(other, DataStream):
            raise JobDefinitionError(
                f"{verb}() got {type(other).__name__}.", action="Give streams of the job, without key_by()."
            )

    def check_meets(self, other: "DataStream") -> None:
        """Checks that this stream and another one may go to one operator.

        Raises:
            JobDefinitionError: The other is of another job.
            UnsupportedTopologyError: Both begin at one source.
        """
        if other._graph is not self._graph:
            one, two = self._graph.settings.name, other._graph.settings.name
            raise JobDefinitionError(
                f"Streams of the jobs {one!r} and {two!r} cannot come together.",
                action="Begin both with from_stream() of one job.",
            )
        check_distinct((*self.feeding(), *other.feeding()))

    def claim_uid(self, uid: str | None, kind: str) -> str:
        """Claims the uid of an operator after this stream."""
        return self._graph.claim_uid(uid, kind)

    # Of the operator that this stream is an output of ----------------------------------------------------------------

    def get_side_output(self, tag: OutputTag) -> "DataStream":
        """Returns a side output of the operator that this stream is the main output of.

        Raises:
            JobDefinitionError: The tag has no columns, or this is not an operator's main output.
        """
        output = output_of(self._graph, self._edges)
        if output is None or output.name != MAIN:
            raise JobDefinitionError(
                "get_side_output() belongs right after an operator.", action="Call it on what process() returned."
            )
        return DataStream(self._graph, (Edge(output.operator, tag.tag_id),), output.side_output(tag))

    def start_new_chain(self) -> "DataStream":
        """Begins a new task at the operator that this stream is the output of; later operators may be chained to it.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
        """
        operator_of(self._graph, self._edges, "start_new_chain").chaining = "head"
        return self

    def disable_chaining(self) -> "DataStream":
        """Gives the operator that this stream is the output of a task of its own.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
        """
        operator_of(self._graph, self._edges, "disable_chaining").chaining = "never"
        return self

    def enable_object_reuse(self) -> "DataStream":
        """Hands the rows of the operator that this stream is the output of to the next one as they are.

        If the next operator is chained to it, the next function gets the very objects that this function gave: nothing
        is copied, or compared with `output_type`. Give what the next function expects, and change no object afterwards.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
        """
        operator_of(self._graph, self._edges, "enable_object_reuse").object_reuse = True
        return self

    def disable_object_reuse(self) -> "DataStream":
        """Makes rows of the declared types for the next operator, as by default.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
        """
        operator_of(self._graph, self._edges, "disable_object_reuse").object_reuse = False
        return self

    def sink_to(self, sink: Sink, uid: str | None = None) -> "DataStream":
        """Sends the records to a sink; several sinks may take one output.

        Args:
            sink: The sink.
            uid: Stable name of the sink: its commits carry it, and a restore finds its output under it. Without one a
                name is made from the sink's place, with a warning.

        Raises:
            UnsupportedTopologyError: The stream is not an output of an operator.
            DuplicateUidError: Another sink has this uid.
            JobDefinitionError: This is no sink, or it has no uid and the job is strict; or another sink of the job
                writes its table.
        """
        output = output_of(self._graph, self._edges)
        if output is None:
            raise UnsupportedTopologyError(
                "A sink belongs right after an operator or get_side_output(): the operator stages its output.",
                action="Do the last transformation inside the function; map(..., uid=...) is an operator too.",
            )
        output.add_sink(sink, uid)
        return self


__all__ = ["DataStream"]
