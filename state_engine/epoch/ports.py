"""The ports of the protocol: all interfaces that it needs from the outside, and the plan that tasks get.

Production implements them with storage, Spark and threads; the simulator with memory, crashes and delayed writes. The
protocol itself (`start.py`, `driver.py`) has no I/O, clock, randomness or threads of its own.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import LakestateError
from state_engine.log.barriers import Barrier
from state_engine.log.manifest import StoredManifest
from state_engine.log.outline import Outline
from state_engine.log.records import Adopted, BaseReference, Manifest, SinkTable
from state_engine.log.source_records import SourceFingerprint, SourcePosition
from state_engine.log.window_records import WindowsShape


class StreamEdge(msgspec.Struct, frozen=True, kw_only=True):
    """What feeds one input of an operator: Flink's `StreamEdge`, as the downstream operator sees it.

    Args:
        upstream: Uid of the operator that feeds it with one of its outputs; None for the job's sources.
        input: Which input it feeds, 1 or 2, as in `process_element1` and `process_element2`. Several edges of one input
            are a union.
        out_of_orderness: How far (ms) the event time of a record may lag the largest one so far: the edge makes its
            own watermark. None: it passes on that of the upstream operator; sources then have none until they end.
        partition: The partition column, as it was declared; None where all records are one partition.
        idle_after: After how long (ms of processing time) a partition without records no longer holds back the
            watermark; None: never.
        chained: Whether the edge has no exchange: each subtask takes the output of the upstream subtask with its own
            number, in one task with it.
    """

    upstream: str | None = None
    input: int = 1
    out_of_orderness: int | None = None
    partition: str | None = None
    idle_after: int | None = None
    chained: bool = False


class OperatorPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One operator of the job: its parallelism in this epoch, and what feeds it.

    The operators are a graph without cycles. The driver listens to those that are upstream of no other operator.
    `rescaled_from` is the parallelism of the job's definition, where a rescale has replaced it. `windows` is what the
    state of its windows depends on, if it has any.
    """

    uid: str
    parallelism: int
    max_parallelism: int
    edges: tuple[StreamEdge, ...] = (StreamEdge(),)
    rescaled_from: int | None = None
    windows: WindowsShape | None = None

    @property
    def upstream(self) -> tuple[str, ...]:
        """Uids of the operators that feed it, in the order of its edges; the sources are none."""
        return tuple(edge.upstream for edge in self.edges if edge.upstream is not None)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition column of each edge, empty without one; none at all where no edge has one."""
        columns = tuple(edge.partition or "" for edge in self.edges)
        return columns if any(columns) else ()

    @property
    def chained(self) -> bool:
        """Whether it runs in the tasks of the one operator that feeds it."""
        return any(edge.chained for edge in self.edges)


class EpochPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a task has to know about its epoch (E1); the same for every subtask and every attempt.

    `snapshot_id` is the id of the checkpoint that covers the epoch, `completed` and `aborted` those that ended since
    the last sealed epoch. `finishing` are the operators that get their last input in this epoch. A change file of up to
    `inline_budget` bytes goes into the ack instead of into storage.
    """

    job: str
    root: str
    generation: int
    epoch: int
    incarnation: str
    predecessor: str
    predecessor_epoch: int
    predecessor_generation: int
    processing_time: int
    operators: tuple[OperatorPlan, ...]  # upstream first
    watermarks: dict[str, int] = {}
    end_of_input: bool = False
    retry: int = 0
    snapshot_id: int = 0
    completed: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()
    finishing: tuple[str, ...] = ()
    inline_budget: int = 0


class CheckpointEnd(msgspec.Struct, frozen=True):
    """How a checkpoint ended: it became visible (completed), or was given up."""

    checkpoint_id: int
    completed: bool


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoint to take with an epoch.

    Args:
        checkpoint_id: Its id.
        full: Whether the state is folded from scratch.
        trigger: What triggered it.
    """

    checkpoint_id: int
    full: bool = False
    trigger: str = ""


class SourcePositions(msgspec.Struct, frozen=True, kw_only=True):
    """The source positions after an epoch, as in Spark's offset log."""

    metadata: str = ""
    positions: tuple[SourcePosition, ...] = ()
    fingerprints: tuple[SourceFingerprint, ...] = ()


class TableFence(msgspec.Struct, frozen=True, kw_only=True):
    """How far a sink's table (or another system with transactions) is, and which log has written to it.

    Args:
        uid: The sink.
        table: Its table, as messages name it.
        fence: The last transaction of the sink in the table; 0 if it has none, or the table does not exist.
        birth: The number of the log that has written to it; None if only releases without such numbers have.
        sink: The sink, if its system keeps a marker from the first start on, and is no table that can be rewound.
        lost: Whether it has lost its marker, or an older one came back; found out by `table_fences`.
    """

    uid: str
    table: str
    fence: int = 0
    birth: int | None = None
    sink: SinkTable | None = None
    lost: bool = False


class Log(Protocol):
    """The chain of manifests (`storage.manifest_log.ManifestLog`)."""

    def generations(self) -> list[int]: ...

    def newest(self, generation: int) -> StoredManifest | None: ...

    def read(self, generation: int, epoch: int) -> StoredManifest: ...

    def read_outline(self, generation: int, epoch: int) -> Outline:
        """Returns a manifest reduced to its place, its predecessor, and the output for sinks: for long walks.

        Raises:
            NotFoundError, CorruptionError, StorageError: As `read`.
        """
        ...

    def read_copy(self, path: str) -> StoredManifest: ...

    def put(self, manifest: Manifest) -> StoredManifest:
        """Puts a manifest if its number is free.

        Raises:
            AlreadyExistsError: The number is taken.
            StorageError: The outcome is unknown; the caller reads back.
        """
        ...

    def floors(self) -> dict[int, int]:
        """Returns, by generation, the epoch up to which no number may be sealed any more."""
        ...

    def birth(self) -> str | None:
        """Returns the log's birth id, None if it has none yet."""
        ...

    def create_birth_id(self, birth_id: str, now_ms: int) -> None:
        """Gives the log a birth id, unless it has one.

        Raises:
            StorageError: It is unknown whether the log has one now; calling again is safe.
        """
        ...


class Tasks(Protocol):
    """E2 to E5: routes the epoch's records and runs every subtask of every operator."""

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        """Returns the full barriers of the last operators' subtasks, with what they carry from upstream operators.

        Raises:
            EpochError: The engine gave up; nothing is known of this attempt. The driver tries again with the same plan
                and a higher `retry`. Any other exception ends the epoch.
        """
        ...


class Sinks(Protocol):
    """All sinks of the job behind one port: they take the output (E7), and a restore rewinds them.

    Sinks outlive drivers, so they keep the last fence, ordered by (generation, epoch). Once moved to a generation they
    ignore commits of older generations; once they hold an epoch they ignore commits of older epochs. A driver that was
    declared dead may still send either.
    """

    def fences(self) -> Sequence[TableFence]:
        """Returns how far the tables of the sinks are; changes nothing. Other sinks have no numbers to compare."""
        ...

    def adopt(self, uids: Collection[str], generation: int, owed: StoredManifest | None) -> None:
        """Takes over tables that belong to another log, or that are ahead of this one; idempotent by the generation.

        What they hold stays, the fence moves to `generation`, which is higher, and the log's birth id is recorded.
        Output of the epoch `owed` that a table of another log does not have is added.

        Raises:
            StorageError: It is unknown whether they were taken over; calling again is safe.
        """
        ...

    def prepare(self) -> None:
        """Creates what the sinks still lack, such as a table. Called once a start can no longer be refused.

        Raises:
            StorageError: It was not created; calling again is safe.
        """
        ...

    def deliver(self, manifest: Manifest) -> None:
        """Gives an epoch's output to sinks that take it before the seal (`AT_LEAST_ONCE`); others do nothing.

        It may happen that the epoch is never sealed; its records then come again with another epoch.

        Raises:
            SinkError: A sink did not take the output; the epoch is not sealed.
        """
        ...

    def commit(self, sealed: StoredManifest) -> None:
        """Commits what a sealed epoch staged; idempotent by (job, generation, epoch).

        Announces `E7_SINK_COMMITTED` after each sink.

        Raises:
            SinkError, StorageError: Nothing was committed, or the outcome is unknown; calling again is safe.
        """
        ...

    def pay(self, sealed: StoredManifest, *, leave_out: bool, without: Collection[str]) -> None:
        """Commits, as `commit` does, what another driver has staged; it compares the files with their checksums.

        Args:
            sealed: The epoch.
            leave_out: Whether output with missing or damaged files is left out by name, for good.
            without: Uids of sinks that are adopted instead.

        Raises:
            MissingFileError, DamagedFileError: A file is gone, or is not what was staged; nothing of it was committed.
            SinkError, StorageError: As `commit`.
        """
        ...

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        """Rewinds every sink to what it held after `target`; idempotent by the new generation.

        Output after `target` goes. Output that an earlier restore removed comes back, if `target` builds on it. With
        `keep_output` all output stays as it is, and only the fence moves.
        The fence moves to `generation` in the same transaction, also if no output has to be removed. If the fence is at
        `generation` already, nothing changes: a slow starter may call this when the generation already has output.

        Raises:
            SinkRewindError: A sink cannot be rewound to `target`.
        """
        ...

    def check_rewind(self, target: StoredManifest, generation: int) -> None:
        """Raises SinkRewindError if `rewind` could not succeed; changes nothing.

        It also raises if a sink has output to be rewound, but is gone or writes elsewhere now. Called before the fork
        is decided and before it is finished, unless output is kept.
        """
        ...

    def close(self) -> None:
        """Closes connections to other systems; a later call opens them again."""
        ...

    def check_owed(self, sealed: StoredManifest) -> None:
        """Checks whether `pay` can succeed; changes nothing. Not called if output is kept.

        Raises:
            SinkError: A sink that may be owed output is gone, or writes elsewhere now.
            MissingFileError, DamagedFileError: A file that a sink lacks is gone, or is not what was staged.
        """
        ...


class SourceHold(Protocol):
    """Protects what a start restores, and the copies that the start made of it, from retention."""

    def until(self, adopted: Adopted | None, generation: int, epoch: int) -> None:
        """Makes sure that all of it exists, and stays until a manifest of the job has this number.

        Args:
            adopted: The copies, if the restore made any.
            generation: Of the manifest that is about to be sealed.
            epoch: Its number.

        Raises:
            CondemnedError: Retention is removing some of it.
            MissingFileError: Some of it is gone.
            StorageError: Neither is known; starting again is safe.
        """
        ...


class Publisher(Protocol):
    """Publishes checkpoints (E9), and finishes unfinished ones at a start (S3). Announces the crash points of E9."""

    def begin(self, sealed: StoredManifest, mark: Mark) -> None:
        """Starts publishing the checkpoint that fell on this epoch; returns at once."""
        ...

    def abandon(self, checkpoint_id: int) -> bool:
        """Gives up a checkpoint that takes too long: it has then ended, and never becomes visible.

        Returns:
            False if it has ended already, is just becoming visible, or was never begun.
        """
        ...

    def completed(self) -> BaseReference | None:
        """Returns the newest base that became visible since the generation began, for later manifests to adopt."""
        ...

    def has_ended(self) -> bool:
        """Returns whether `ended` would return anything; may be called from any thread."""
        ...

    def ended(self) -> Sequence[CheckpointEnd]:
        """Returns how checkpoints ended, each once, in the order of their ends; also those that a start finished."""
        ...

    def finish(self, head: StoredManifest) -> BaseReference | None:
        """Completes a publish that a dead driver left unfinished, if the chain of `head` owes one.

        The chain may lead into the job that this one was forked from. This call does not pay what that job owes.

        Returns:
            The newest visible base of this job in the lineage of `head`, or None if there is none.
        """
        ...


class Barriers(Protocol):
    """Decides which epochs carry a checkpoint. Its times are those of `Clock.steady_ms`, and it only compares them."""

    def checkpoint_at(self, epoch: int, now_ms: int) -> Mark | None:
        """Returns the checkpoint to take with this epoch, or None."""
        ...

    def next_id(self) -> int:
        """Returns the id that the next checkpoint gets."""
        ...

    def acknowledged(self, checkpoint_id: int, now_ms: int) -> object:
        """Notes that the epoch that carries a checkpoint was sealed."""
        ...

    def declined(self, checkpoint_id: int, now_ms: int, message: str) -> object:
        """Notes that the epoch that was to carry a checkpoint was not sealed."""
        ...

    def sealed(self, epoch: int, log_bytes: int, inlined_bytes: int) -> None:
        """Notes a sealed epoch: the bytes of its change files, and how many of them are inlined in its manifest."""
        ...

    def overdue(self, now_ms: int) -> Sequence[int]:
        """Returns the ids of the checkpoints that take longer than they may."""
        ...

    @property
    def error(self) -> LakestateError | None:
        """The error with which the job has to fail, since too many checkpoints failed; None if it may go on."""
        ...


class Crash(Protocol):
    """Is called at named places, at which a test or the demo can end the process."""

    def at(self, point: CrashPoint, epoch: int) -> None:
        """Called when an epoch passes this place."""
        ...


__all__ = [
    "Barriers",
    "CheckpointEnd",
    "Crash",
    "EpochPlan",
    "Log",
    "Mark",
    "OperatorPlan",
    "Publisher",
    "Sinks",
    "SourcePositions",
    "StreamEdge",
    "TableFence",
    "Tasks",
]
