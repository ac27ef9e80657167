"""Translates the graph of a program to a job of operators."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from state_engine.api.checkpointed import CheckpointedFunction, CheckpointListener
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.flink.collections import batch_of, read_collection, write_collection
from state_engine.flink.keys import Key
from state_engine.flink.nodes import (
    BroadcastNode,
    BroadcastProcessNode,
    CollectionNode,
    FrameNode,
    KeyedNode,
    Node,
    SideNode,
    SinkEntry,
    StatelessNode,
    TimedNode,
    TwoInputNode,
)
from state_engine.runtime.adapters import MapAdapter
from state_engine.runtime.chain import ChainAdapter, itself
from state_engine.runtime.co_adapters import CoFlatMapAdapter, CoMapAdapter
from state_engine.runtime.keyed_elements import KeyOf, Leading
from state_engine.runtime.lifecycle import authors_function
from state_engine.runtime.windows.all import ALL
from state_engine.spark.graph.broadcast_streams import BroadcastConnectedStream
from state_engine.spark.graph.computed import extended
from state_engine.spark.graph.connected_streams import ConnectedStreams
from state_engine.spark.graph.keyed_stream import KeyedStream
from state_engine.spark.graph.sinks import Sink
from state_engine.spark.graph.stream import DataStream
from state_engine.spark.job import StreamJob

OPERATORS = (StatelessNode, KeyedNode, TwoInputNode, BroadcastProcessNode)
CO_ADAPTERS = {"map": CoMapAdapter, "flat_map": CoFlatMapAdapter}


class Translation:
    """Builds one job.

    Args:
        job: The job, without operators.
        session: The Spark session, for collections.
        said: The operators and sinks of the program, in order.
    """

    def __init__(self, job: StreamJob, session: Any, said: Sequence[Node | SinkEntry]) -> None:
        self._job = job
        self._session = session
        self._sinks = [one for one in said if isinstance(one, SinkEntry)]
        self._nodes = _reachable([one.node if isinstance(one, SinkEntry) else one for one in said])
        self._consumers: dict[Node, list[Node]] = {node: [] for node in self._nodes}
        for node in self._nodes:
            for upstream in node.inputs:
                self._consumers[upstream].append(node)
        self._with_sink = {entry.node for entry in self._sinks}
        self._streams: dict[Node, DataStream] = {}

    def build(self) -> None:
        """Adds the operators and sinks.

        Raises:
            JobDefinitionError: The program cannot run as one job.
        """
        for node in self._nodes:
            self._check_parallelism(node)
            if isinstance(node, OPERATORS):
                self._stream(node)
        quiet = Counter[str]()
        for entry in self._sinks:
            uid = entry.uid
            if uid is None and entry.quiet:
                quiet["print"] += 1
                uid = f"print-{quiet['print']}"
            sink = entry.sink if isinstance(entry.sink, Sink) else entry.sink(self._job)
            self._stream(entry.node).sink_to(sink, uid=uid)

    @property
    def nameless_sinks(self) -> int:
        """The number of sinks that should have a uid and have none."""
        return sum(1 for entry in self._sinks if entry.uid is None and not entry.quiet)

    def _check_parallelism(self, node: Node) -> None:
        parallelism = self._job.settings.parallelism
        if node.non_parallel and parallelism != 1:
            raise JobDefinitionError(
                f"{node.label} asks for one subtask, but the job has {parallelism} of each operator.",
                action="Run the program with env.set_parallelism(1), or key by a constant.",
            )

    def _chained_to(self, node: Node) -> StatelessNode | None:
        """Returns the only consumer of a node if both run in one operator; None if the node ends its operator."""
        consumers = [one for one in self._consumers[node] if not isinstance(one, SideNode)]
        if not isinstance(node, OPERATORS) or len(consumers) != 1 or node in self._with_sink or not node.chains_off:
            return None
        [consumer] = consumers
        return consumer if isinstance(consumer, StatelessNode) and _may_follow(consumer) else None

    def _stream(self, node: Node) -> DataStream:
        """Returns the output stream of a node, or of the operator in which the node runs."""
        while (consumer := self._chained_to(node)) is not None:
            node = consumer
        if node not in self._streams:
            self._streams[node] = self._task(node) if isinstance(node, OPERATORS) else self._made(node)
        return self._streams[node]

    def _made(self, node: Node) -> DataStream:
        if isinstance(node, SideNode):
            [operator] = node.inputs
            assert node.tag is not None
            return self._stream(operator).get_side_output(node.tag)
        stream = self._without_operator(node)
        if node in self._with_sink:
            return stream.add_operator("process", MapAdapter(itself), node.columns("a sink"), None)
        if stream.reads_source and not isinstance(node, BroadcastNode) and self._readers(node) > 1:
            return stream.add_operator("process", MapAdapter(itself), node.columns("its reader"), None)
        return stream

    def _readers(self, node: Node) -> int:
        """Returns the number of readers of a node; those after `broadcast()` count as readers of the node before it."""
        consumers = self._consumers[node]
        return sum(self._readers(one) if isinstance(one, BroadcastNode) else 1 for one in consumers)

    def _task(self, node: Node) -> DataStream:
        """Adds the operator that ends with a node, and sets whether it may share a task with its neighbours."""
        links = self._links(node)
        stream = self._operator(links)
        if not node.chains_off:
            return stream.disable_chaining()
        first = links[0]
        return stream.start_new_chain() if isinstance(first, StatelessNode) and not first.chains_on else stream

    def _links(self, node: Node) -> list[Node]:
        """Returns the nodes that run in the operator that ends with this node."""
        links = [node]
        while isinstance(links[0], StatelessNode) and self._chained_to(links[0].inputs[0]) is links[0]:
            links.insert(0, links[0].inputs[0])
        return links

    def _operator(self, links: list[Node]) -> DataStream:
        """Adds the operator that runs these nodes as a chain."""
        first, node = links[0], links[-1]
        functions = [link.function for link in links]  # type: ignore[attr-defined]
        if isinstance(first, TwoInputNode) and first.verb != "process":
            functions[0] = CO_ADAPTERS[first.verb](first.function)
        function = functions[0] if len(functions) == 1 else ChainAdapter(functions)
        output = node.columns("the next operator or sink")
        if isinstance(first, BroadcastProcessNode):
            return self._beside_broadcast(first, output)
        if isinstance(first, TwoInputNode):
            return self._connected(first).add_operator(function, output, first.uid)
        [upstream] = first.inputs
        if isinstance(first, KeyedNode):
            assert first.key is not None
            keyed = self._keyed(upstream, first.key)
            return keyed.stream.add_operator("keyed_process", function, output, first.uid, keyed.key)
        uid = next((link.uid for link in reversed(links) if link.uid is not None), None)
        return self._stream(upstream).add_operator("process", function, output, uid)

    def _without_operator(self, node: Node) -> DataStream:
        match node:
            case CollectionNode():
                columns = node.columns("from_collection()")
                batch = batch_of(node.values, columns)
                folder = write_collection(self._job.root, self._job.name, node.number, batch)
                df = read_collection(self._session, folder, columns)
                return self._job.from_stream(df, node.name, bounded=True).returns(columns)
            case FrameNode():
                stream = self._job.from_stream(node.df, node.name, replays=node.replays, bounded=node.bounded)
                return stream if node.type is None else stream.returns(node.columns("from_source()"))
            case BroadcastNode():
                [upstream] = node.inputs
                return self._stream(upstream).broadcast()
            case TimedNode():
                [upstream] = node.inputs
                return self._stream(upstream).assign_timestamps_and_watermarks(node.strategy)
        first, *others = (self._stream(upstream) for upstream in node.inputs)
        return first.union(*others)

    def _keyed(self, upstream: Node, key: Key) -> KeyedStream:
        stream = self._stream(upstream)
        visible, computed = stream.columns, key.computed
        if key.is_all:
            everything = stream.with_column(ALL, "cast(null as boolean)")
            record_type = StructType(everything.columns.names, everything.columns.types, carrier=Leading(visible))
            return everything.returns(record_type).key_by(ALL)
        if computed is None:
            return stream.key_by(*key.names)
        made = extended(visible, computed)
        columns = StructType(made.names, made.types, carrier=Leading(visible))
        plain = StructType(computed.names, computed.types)
        return stream.with_computed(KeyOf(key.selector, key.given or computed), plain, columns).key_by(*key.names)

    def _beside_broadcast(self, node: BroadcastProcessNode, output: StructType) -> DataStream:
        upstream, rules = node.inputs
        data: Any = self._stream(upstream) if node.key is None else self._keyed(upstream, node.key)
        connected: BroadcastConnectedStream[DataStream] = data.connect(self._stream(rules).broadcast(*node.descriptors))
        return connected.process(node.function, output, uid=node.uid)

    def _connected(self, node: TwoInputNode) -> ConnectedStreams[DataStream]:
        sides: list[Any] = [
            self._stream(upstream) if key is None else self._keyed(upstream, key)
            for upstream, key in zip(node.inputs, node.keys, strict=True)
        ]
        connected: ConnectedStreams[DataStream] = sides[0].connect(sides[1])
        return connected


def _may_follow(node: StatelessNode) -> bool:
    """Returns whether a function may be chained to another: not `process`, a chain's start, or one with checkpoints."""
    authors = authors_function(node.function)
    has_own_life = isinstance(authors, (CheckpointedFunction, CheckpointListener))
    return node.verb != "process" and node.chains_on and not has_own_life


def _reachable(nodes: Iterable[Node]) -> list[Node]:
    """Returns nodes and all their upstream nodes, upstream nodes first."""
    ordered: dict[Node, None] = {}

    def visit(node: Node) -> None:
        if node not in ordered:
            for upstream in node.inputs:
                visit(upstream)
            ordered[node] = None

    for node in nodes:
        visit(node)
    return list(ordered)


__all__ = ["Translation"]
