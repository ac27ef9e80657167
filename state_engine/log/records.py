"""The records that an epoch makes durable: handles, acks and the manifest.

Pure data (msgspec structs); `docs/formats/` describes their layout in bytes.
"""

from typing import Literal

import msgspec

from state_engine.log.source_records import SourceFile, SourceFingerprint, SourcePosition
from state_engine.log.window_records import WindowsShape
from state_engine.serialization.column import Column, Record

StateKind = Literal["keyed", "operator", "broadcast", "timer"]
StateShape = Literal["value", "list", "map", "reducing", "aggregating"]
ManifestKind = Literal["claim", "epoch", "idle", "closing", "restore"]
SinkKind = Literal["delta", "memory", "foreach", "postgresql", "kafka", "custom"]
Codec = Literal["zstd", "lz4", "none"]
StateFileFormat = Literal["parquet", "stream"]
StorageName = Literal["delta", "filesystem", "memory"]


class StateTtl(Record, frozen=True, kw_only=True):
    """How long the values of a state live; `docs/formats/last-access.md` explains the fields.

    `update` defines what renews the last access of a value: writes alone, or reads as well. With `returns_expired` a
    value that expired is returned until it is cleaned up; with `drops_expired` a full fold leaves out what has expired
    at its epoch. With `allow_change` the author allows that the last access of rows stamped in the other time counts as
    unknown; no manifest keeps it.
    """

    milliseconds: int
    time: Literal["processing", "event"] = "processing"
    update: Literal["write", "read"] = "write"
    returns_expired: bool = False
    drops_expired: bool = False
    allow_change: bool = False


class FormerType(Record, frozen=True, kw_only=True):
    """A type that the values of a state had, and the conversion from it to the next one.

    Rows up to epoch `until` have it. `renamed` maps paths of fields in the next type to the names that they had,
    `defaults` maps paths of new fields to their values: Arrow IPC streams of one row. With `by_function` the author's
    function converted the values: epoch `until` + 1 holds the whole state, and earlier rows no longer count.
    """

    until: int
    schema_id: str
    value: str
    renamed: dict[str, str] = msgspec.field(default_factory=dict)
    defaults: dict[str, bytes] = msgspec.field(default_factory=dict)
    by_function: bool = False


class DeclaredChanges(Record, frozen=True, kw_only=True):
    """What the code declares about earlier types of a state: as `FormerType`, but not yet tied to one of them.

    `migrates_from` are the types for which the code has a function.
    """

    aliases: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    defaults: dict[str, bytes] = msgspec.field(default_factory=dict)
    migrates_from: tuple[str, ...] = ()


class StateSchema(Record, frozen=True, kw_only=True):
    """Identity and types of one state: (uid, kind, name) names it, `schema_id` is a digest up to `value`.

    Types are Spark DDL in canonical spelling (`bigint`, `struct<a:int,b:string>`). `namespace` is null for the void
    namespace, `user_key` is set for map state only. `value` is the element type of a list, the accumulator type of
    an aggregating state.

    `ttl` is null if the values of the state live for ever. The last access of rows up to epoch `unknown_until` is
    unreliable: they were stamped in another time.

    `former` are the types that values had before, oldest first; rows of these types still exist. `declared` is in acks
    only, no manifest keeps it.
    """

    schema_id: str
    uid: str
    kind: StateKind
    name: str
    shape: StateShape
    key: tuple[Column, ...] = ()
    namespace: str | None = None
    user_key: str | None = None
    value: str
    ttl: StateTtl | None = None
    unknown_until: int | None = None
    former: tuple[FormerType, ...] = ()
    declared: DeclaredChanges | None = None


class Section(Record, frozen=True, kw_only=True):
    """Rows of one state and a run of key groups inside a change file: a complete Arrow IPC stream.

    `first` and `last` are key groups, both inclusive. `checksum` is `xxh3:` and 32 hex digits over the section's bytes.
    """

    schema_id: str
    name: str
    first: int
    last: int
    offset: int
    length: int
    rows: int
    checksum: str = ""


class StateHandle(Record, frozen=True, kw_only=True):
    """Pointer to durable bytes. `path` is relative to the job's root; `checksum` is `xxh3:` and 32 hex digits."""

    path: str
    length: int
    checksum: str
    rows: int
    codec: str
    sections: tuple[Section, ...] = ()


class OutputFile(Record, frozen=True, kw_only=True):
    """Staged output of one subtask for one output of its operator.

    `path` is relative to the job's root, or to the sink table's root when `in_table` is true. `first` orders files
    of one epoch by subtask. `statistics` is Delta's own JSON (`numRecords` at least). `partition` has the values of the
    table's partition columns, as Delta spells them; the file does not have these columns.
    """

    output: str
    path: str
    in_table: bool = False
    length: int
    checksum: str
    rows: int
    statistics: str = ""
    partition: dict[str, str | None] = msgspec.field(default_factory=dict)


class Failure(Record, frozen=True, kw_only=True):
    """A subtask failed; it travels as data, so that every subtask still ends its epoch.

    `error` names the class in `errors.py` of an `engine` failure, if it has one. Text is made by `causes`.
    """

    kind: Literal["user_function", "output_type", "state_type", "poison", "engine"]
    uid: str
    subtask: int
    message: str
    action: str = ""
    key: str = ""
    record: str = ""
    traceback: str = ""
    error: str = ""


class StateStatistics(Record, frozen=True, kw_only=True):
    """Size of one state in one subtask, as of the epoch's predecessor.

    `keys` counts places: keys in their namespaces. For timers it counts the timers themselves.
    """

    name: str
    rows: int
    keys: int


class HighestTime(Record, frozen=True, kw_only=True):
    """The largest event time (ms) that a partition of an operator's edge has brought.

    `edge` is the edge's place in the operator's plan, `partition` the value of the partition column as text, empty
    without one. `active_at` is the processing time of the last epoch in which it brought records; acks leave it out.
    """

    edge: int
    partition: str = ""
    time: int
    active_at: int = 0


class EarliestTimers(Record, frozen=True, kw_only=True):
    """When the next timers of an operator are due, in ms; null without any."""

    event_time: int | None = None
    processing_time: int | None = None


class Ack(Record, frozen=True, kw_only=True):
    """What one attempt of one subtask did in one epoch. `schemas` lists the states that it has seen so far.

    `earliest_timer` is null in what this release writes; `timers` took its place. `broadcast` holds a digest of the
    changes to each broadcast state that was changed. `timings_ms` is the time that the task took, phase by phase:
    `input` (waiting for records), `catch_up` (with the log), `process` (the functions), `changes` (rows and file of
    what changed), `stage` (output for sinks), `freeze` (all else between the last record and the ack: the functions'
    `snapshot_state`, the sizes of the states, the earliest timers). `inlined` is the content of the change file if none
    was written, on its way to the driver: no manifest keeps it here.
    """

    uid: str
    subtask: int
    attempt: str
    records_in: int
    records_out: int
    changes: StateHandle | None = None
    inlined: bytes | None = None
    outputs: tuple[OutputFile, ...] = ()
    schemas: tuple[StateSchema, ...] = ()
    statistics: tuple[StateStatistics, ...] = ()
    earliest_timer: int | None = None
    timers: EarliestTimers | None = None
    event_times: tuple[HighestTime, ...] = ()
    broadcast: dict[str, str] = msgspec.field(default_factory=dict)
    failure: Failure | None = None
    timings_ms: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def keys(self) -> int:
        """The number of keys that the subtask held: that of its largest state; of timers only if no other has keys."""
        timers = {schema.name for schema in self.schemas if schema.kind == "timer"}
        kept = [one.keys for one in self.statistics if one.name not in timers]
        return max(kept, default=0) or max((one.keys for one in self.statistics), default=0)


class OperatorEpoch(Record, frozen=True, kw_only=True):
    """One operator in one epoch. Acks are in subtask order.

    `since` is the first sealed epoch in which it ran, null before that. `finished`: its input has ended and its
    functions were told so; false again once there is input. `rescaled_from` is the parallelism that the job's
    definition had when the running job was rescaled to another. `partition_columns` are, by edge, the columns of the
    partitions in its event times, empty without one; the tuple is empty if no edge has one, and in manifests of earlier
    releases. `left_at` is the epoch of the claim since which the job does not have the operator, null as long as it
    has. `unwritten`: no subtask has written any state yet; earlier releases never set it. `windows` is what the state
    of its windows depends on, null if it has none, and in manifests of earlier releases.
    """

    parallelism: int
    max_parallelism: int
    acks: tuple[Ack, ...] = ()
    since: int | None = None
    finished: bool = False
    rescaled_from: int | None = None
    partition_columns: tuple[str, ...] = ()
    left_at: int | None = None
    unwritten: bool = False
    windows: WindowsShape | None = None


class BaseReference(Record, frozen=True, kw_only=True):
    """Names a base file: the published fold that this chain starts from."""

    path: str
    checksum: str
    generation: int
    epoch: int
    checkpoint_id: int


class Rewrite(Record, frozen=True, kw_only=True):
    """What a restore changed about the state that it took over, before anything was built on it.

    `uids` maps the uids that operators had to those that they have now. `max_parallelism` is the number of key groups
    into which all keys were sorted anew; null: as they were. The state of the operators in `left`, by the uids that
    they had, was left out.
    """

    uids: dict[str, str] = msgspec.field(default_factory=dict)
    max_parallelism: int | None = None
    left: tuple[str, ...] = ()


class Origin(Record, frozen=True, kw_only=True):
    """What a generation started from: a manifest of another generation (or job).

    With `imported` the generation began with copies of that manifest's state, which its base names, and nothing comes
    before them: the manifest is in no log under this root, or the state of another job was rewritten. `rewrite` says
    what the generation sees differently from that manifest.
    """

    job: str
    generation: int
    epoch: int
    manifest: str
    savepoint_id: str | None = None
    imported: bool = False
    rewrite: Rewrite | None = None


class Adopted(Record, frozen=True, kw_only=True):
    """State that was copied below the job's root, from a canonical savepoint or rewritten: its fold, its manifest."""

    base: BaseReference
    manifest_path: str


class Successor(Record, frozen=True, kw_only=True):
    """In a closing manifest: the generation that goes on, and all that is needed to begin it.

    With `keep_output` sinks keep what abandoned epochs gave them; `adopt_sinks` takes over tables of another log.
    `allow_changed_sources` are the numbers of the sources that were allowed to differ from those of the origin.
    `adopted` is set if the generation goes on from the files of a canonical savepoint.
    `reset_processing_time` lets it begin with the clock's time, even if processing time was later before.
    """

    generation: int
    origin: Origin
    parallelism: int | None = None
    keep_output: bool = False
    adopted: Adopted | None = None
    adopt_sinks: bool = False
    reset_processing_time: bool = False
    allow_changed_sources: tuple[int, ...] = ()


class GroupRestore(Record, frozen=True, kw_only=True):
    """In a manifest of kind `restore` after the first of its generation: which state it took from where.

    `groups` maps the operators to the key groups that were replaced as a whole, as (first, last), both inclusive. With
    `keys` only that number of keys of each operator was replaced, all of them in these groups.
    """

    source: Origin
    groups: dict[str, tuple[tuple[int, int], ...]]
    keys: int = 0


class Span(Record, frozen=True, kw_only=True):
    """One part of a lineage: epochs `first` to `last` of a generation; `last` is null while it is open."""

    generation: int
    first: int
    last: int | None = None


class SinkTable(Record, frozen=True, kw_only=True):
    """What a sink of the job is.

    `table` is the URL or absolute path of a Delta table, the name of a memory sink, or the address in another system.
    `options` is what a restore without the job's code needs besides, such as the columns of an upsert's keys; no
    secrets. They may differ from epoch to epoch.
    """

    uid: str
    kind: SinkKind
    table: str = ""
    options: dict[str, str] = msgspec.field(default_factory=dict)


class Manifest(Record, frozen=True, kw_only=True):
    """One sealed epoch.

    `predecessor` is the hash of the manifest before it in the lineage (empty for the very first). `operators` holds
    every operator of the job, also if the epoch brought no data. `schemas` accumulates. `sources` are the source
    positions *after* this epoch. `checkpoint_id` is set if the coordinator's barrier fell on this epoch.
    `sinks` are all that the job ever had: the last one of a uid is where this epoch's output for it goes.
    `watermarks` (by operator) hold from the next epoch on; `event_times` is what they were computed from, and `timers`
    when each operator's next ones are due. `snapshot_id` is the id of the checkpoint that covers this epoch: its own,
    else that of the next one. `restored` is set if its rows come from another epoch, and not from input.
    """

    job: str
    generation: int
    epoch: int
    kind: ManifestKind
    incarnation: str
    incarnation_number: int
    predecessor: str
    processing_time: int
    lineage: tuple[Span, ...]
    watermarks: dict[str, int] = msgspec.field(default_factory=dict)
    fingerprints: tuple[SourceFingerprint, ...] = ()
    source_metadata: str = ""
    sources: tuple[SourcePosition, ...] = ()
    operators: dict[str, OperatorEpoch] = msgspec.field(default_factory=dict)
    schemas: tuple[StateSchema, ...] = ()
    keys: dict[str, tuple[Column, ...]] = msgspec.field(default_factory=dict)
    inlined: dict[str, bytes] = msgspec.field(default_factory=dict)
    base: BaseReference | None = None
    checkpoint_id: int | None = None
    origin: Origin | None = None
    successor: Successor | None = None
    sinks: tuple[SinkTable, ...] = ()
    event_times: dict[str, tuple[HighestTime, ...]] = msgspec.field(default_factory=dict)
    timers: dict[str, EarliestTimers] = msgspec.field(default_factory=dict)
    snapshot_id: int | None = None
    restored: GroupRestore | None = None


class StateFile(Record, frozen=True, kw_only=True):
    """One file of a published state, sorted by key group. `path` is relative to the job's root.

    `first` and `last` are the key groups in it, both inclusive; `row_groups` lists (first, last, rows) per row group.
    A Parquet file of a state table, or by its `format` a stream (`log/state_stream.py`): its row groups are single key
    groups, and `spans` their (offset, length) in bytes. A stream may be `inlined`: then no file exists at `path`.
    """

    schema_id: str
    path: str
    length: int
    checksum: str
    rows: int
    first: int
    last: int
    generation: int
    max_parallelism: int
    codec: str
    row_groups: tuple[tuple[int, int, int], ...] = ()
    format: StateFileFormat = "parquet"
    spans: tuple[tuple[int, int], ...] = ()
    inlined: bytes | None = None


class TableVersion(Record, frozen=True, kw_only=True):
    """The version of a state table when the base was published (for time travel; a base does not rely on it)."""

    path: str
    version: int


class Base(Record, frozen=True, kw_only=True):
    """A published fold: all files that make up the state at (generation, epoch), and the sources' files so far.

    `manifest` is the hash of the manifest of that epoch. `storage` is the checkpoint storage that keeps the files.
    """

    job: str
    generation: int
    epoch: int
    checkpoint_id: int
    manifest: str
    full: bool
    files: tuple[StateFile, ...]
    tables: tuple[TableVersion, ...] = ()
    source_files: tuple[tuple[SourceFile, ...], ...] = ()
    schemas: tuple[StateSchema, ...] = ()
    storage: StorageName = "delta"


class Pin(Record, frozen=True, kw_only=True):
    """A native savepoint: one sealed epoch, its base, and the manifests since; all paths relative to the job's root.

    `manifests` lists (path, hash) from the base's successor to the epoch itself, in order. `handles` lists every other
    file that a restore reads, with its length. `directory` is the folder, outside of the job's root, in which a
    `_metadata` says where the savepoint is stored. A pin with `folds` only keeps the epoch while a canonical savepoint
    of the same id is written (into `directory`, if set), and is removed after that.
    """

    savepoint_id: str
    job: str
    generation: int
    epoch: int
    manifest: str
    base: BaseReference | None
    manifests: tuple[tuple[str, str], ...]
    handles: tuple[tuple[str, int], ...]
    created_at: int
    trigger: str = "user"
    label: str = ""
    note: str = ""
    bytes: int = 0
    rows: int = 0
    directory: str | None = None
    folds: bool = False

    @property
    def kind(self) -> Literal["native"]:
        """The kind, which distinguishes it from a canonical savepoint."""
        return "native"


__all__ = sorted(
    name for name, value in globals().items() if isinstance(value, type) and issubclass(value, msgspec.Struct)
)
