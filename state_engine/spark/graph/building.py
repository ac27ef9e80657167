"""The graph of a job while its author builds it; `definition` is what is started."""

from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from state_engine.errors import JobDefinitionError, UnsupportedTopologyError
from state_engine.log.records import SinkTable
from state_engine.runtime.discovery import discover_states
from state_engine.spark.graph.changelogs import check_reads_changelog
from state_engine.spark.graph.definition import JobDefinition, spec_of
from state_engine.spark.graph.nodes import OperatorNode, SourceNode
from state_engine.spark.graph.settings import JobSettings
from state_engine.spark.graph.sources import Sources
from state_engine.spark.graph.uids import Uids


class JobGraph:
    """Sources, operators and the names that are taken. Streams add to it.

    Args:
        settings: The job's settings.
        strict: Whether operators and sinks without a uid are refused.

    Attributes:
        settings: As given.
        operators: The operators, upstream first.
        session: The Spark session, or a stand-in for it; set with the first source.
        is_started: Whether a driver runs the job, or has run it: nothing can be added any more.
    """

    session: SparkSession
    is_started = False

    def __init__(self, settings: JobSettings, *, strict: bool) -> None:
        self.settings = settings
        self.operators: list[OperatorNode] = []
        self._uids = Uids(strict=strict)
        self._names: list[str] = []
        self._read: dict[int, SourceNode] = {}
        self._sources: Sources | None = None

    def add_source(self, df: DataFrame, name: str, *, replays: bool, bounded: bool) -> SourceNode:
        """Adds a source; if its name is taken, a number is appended to the name."""
        self.check_open()
        self.session = df.sparkSession
        while name in self._names:
            name = f"{name}_{len(self._names) + 1}"
        source = SourceNode(df, name, len(self._names), replays, bounded)
        self._names.append(name)
        self._sources = None
        return source

    def claim_uid(self, uid: str | None, kind: str) -> str:
        """Claims the uid of an operator."""
        self.check_open()
        return self._uids.operator(uid, kind)

    def claim_sink_uid(self, uid: str | None, place: str) -> str:
        """Claims the uid of a sink."""
        self.check_open()
        return self._uids.sink(uid, place)

    def claim_table(self, sink: SinkTable) -> None:
        """Claims the table of a sink."""
        self._uids.table(sink.uid, sink.kind, sink.table)

    def append(self, node: OperatorNode) -> None:
        """Adds an operator after those that feed it, and finds out which states it will use.

        Raises:
            JobDefinitionError: A state cannot be stored, the function cannot be sent to workers, or it would read a
                changelog as records.
            UnsupportedTopologyError: Another operator reads a source that it reads.
        """
        for source, _ in node.sources:
            if source.number in self._read:
                raise UnsupportedTopologyError(
                    f"Two operators read the source {source.name!r}; an epoch would read it twice.",
                    action="Put an operator after it, map(lambda row: row, ..., uid=...): both may read its output.",
                )
        if not self.settings.operator_chaining:
            node.chaining = "never"
        check_reads_changelog(node)
        node.states, node.all_states_known = discover_states(spec_of(node, self.settings), _sent_copy)
        for upstream, number in node.upstream:
            upstream.downstream.append((node, number))
        self._read |= {source.number: source for source, _ in node.sources}
        self.operators.append(node)
        self._sources = None

    @property
    def sources(self) -> Sources:
        """The sources, once the job is built.

        Raises:
            JobDefinitionError: The job has no operator, a source feeds none, or only some of the sources can replay.
        """
        if self._sources is None:
            self._sources = self._checked_sources()
        return self._sources

    def _checked_sources(self) -> Sources:
        if not self.operators:
            raise JobDefinitionError(
                f"Job {self.settings.name!r} has no operator.",
                action="Chain from_stream(...).key_by(...).process(...) first.",
            )
        unread = [name for number, name in enumerate(self._names) if number not in self._read]
        if unread:
            raise JobDefinitionError(
                f"The source {unread[0]!r} of job {self.settings.name!r} feeds no operator.",
                action="Unite or connect it with another stream, or leave it out.",
            )
        return Sources([self._read[number] for number in sorted(self._read)])

    @property
    def definition(self) -> JobDefinition:
        """The job as it is now: what is added later is not part of it. Raises as `sources` does."""
        return JobDefinition(self.settings, tuple(self.operators), self.sources, self.session)

    def check_open(self) -> None:
        """Raises JobDefinitionError once the job was started."""
        if self.is_started:
            raise JobDefinitionError(
                f"Job {self.settings.name!r} was started; nothing can be added to it.",
                action="Build a new StreamJob with all its operators and sinks, and start that.",
            )


def _sent_copy(function: Any) -> Any:
    """Returns the copy of a function that a worker would get."""
    return cloudpickle.loads(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]


__all__ = ["JobGraph"]
