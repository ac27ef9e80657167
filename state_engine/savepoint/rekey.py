"""Rewrites the state of a restore: under other uids, and sorted into another number of key groups.

Keys are hashed by the engine's own function, so a row is in the key group to which a record of its key will be routed.
A state is read in ranges of the old key groups and written in ranges of the new ones. Between the two its rows are in a
temporary folder of this machine, unless they all go into one file. Memory holds one range at a time.
"""

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from state_engine.backends.keys import KeyCodec
from state_engine.backends.migration import sorted_by_group
from state_engine.checkpoint import plan as planning
from state_engine.checkpoint.plan import StatePlan, cut_ranges, part_stem, states_of
from state_engine.epoch.request import RestoreTarget
from state_engine.epoch.rewrite import plan_rewrite, rewritten_schema
from state_engine.key_groups import KeyGroupRange
from state_engine.log.fold import taken
from state_engine.log.manifest import StoredManifest
from state_engine.log.ops import KEY_GROUP, POSITION, SEQ
from state_engine.log.paths import state_table_path
from state_engine.log.records import Base, Rewrite, StateFile, StateSchema
from state_engine.savepoint.copying import CopyAttempt
from state_engine.savepoint.group_rows import within
from state_engine.savepoint.segments import live_pieces, log_size, reading_plan, source_files_of
from state_engine.storage.checkpoint_storage import FoldedPart
from state_engine.storage.delta_access import write_parquet_part
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment

_CHUNK = 200_000


class RewrittenState(NamedTuple):
    """One state: how it is read, how it is written, and the number of rows of its log, live or not."""

    reading: StatePlan
    writing: StatePlan
    rows: int


def with_rewrite(
    target: RestoreTarget,
    job: str,
    *,
    uid_mapping: Mapping[str, str],
    max_parallelism: int | None,
    uids: Collection[str],
    allow_non_restored_state: bool = False,
    discard_state: Collection[str] = (),
) -> RestoreTarget:
    """Returns a restore's target with the changes to make to its state; arguments and errors of `plan_rewrite`.

    Rewritten state of another job is in no log of that job, so it is marked as imported.
    """
    manifest = target.stored.manifest
    rewrite = plan_rewrite(
        manifest,
        uid_mapping=uid_mapping,
        max_parallelism=max_parallelism,
        uids=uids,
        allow_non_restored_state=allow_non_restored_state,
        discard_state=discard_state,
    )
    elsewhere = rewrite is not None and manifest.job != job
    return replace(target, rewrite=rewrite, imported=target.imported or elsewhere)


def rewrite_state(
    storage: CheckpointStorage,
    folder: str,
    job: str,
    generation: int,
    segments: Sequence[Segment],
    head: StoredManifest,
    rewrite: Rewrite,
    attempt: CopyAttempt,
) -> Base:
    """Writes all state of an epoch anew, and returns the base that names the files; the base is not written yet.

    A file's name determines its content, so that a new attempt continues one that died.

    Args:
        storage: Of the job that is restored.
        folder: The folder in it for the files.
        job: Its name.
        generation: That of the base.
        segments: What folds to the state of the epoch.
        head: The epoch, as it was sealed.
        rewrite: What changes.
        attempt: Gets the progress, and can be cancelled.

    Raises:
        RestoreCancelledError: It was cancelled.
        CorruptionError: A file of the source is gone or damaged.
        StorageError: A file cannot be written.
    """
    manifest = head.manifest
    states = [
        planned(segments, head, schema, rewrite, folder)
        for schema in states_of([manifest])
        if schema.uid not in rewrite.left
    ]
    attempt.expect(sum(state.rows for state in states))
    files = tuple(file for state in states for file in _write(storage, segments, state, generation, attempt))
    return Base(
        job=job,
        generation=generation,
        epoch=manifest.epoch,
        checkpoint_id=0,
        manifest=head.hash,
        full=True,
        files=files,
        source_files=source_files_of(segments),
        schemas=tuple(state.writing.schema for state in states),
    )


def regrouped(schema: StateSchema, rows: pa.Table, max_parallelism: int) -> pa.Table:
    """Returns rows of a state sorted by the key groups that their keys have now; within each they keep their order.

    Lists of operators have a subtask in place of a key group. If a subtask is beyond the last key group, all lists are
    moved to subtask 0, in their order; any start redistributes them as it would have done.
    """
    if schema.kind in ("operator", "broadcast"):
        return _within(rows, max_parallelism)
    if not schema.key:  # raw bytes that belong to key groups as wholes; the number of key groups stays
        return rows
    codec = KeyCodec(schema.key, max_parallelism)
    pieces = []
    for start in range(0, rows.num_rows, _CHUNK):
        piece = rows.slice(start, _CHUNK)
        arrays: list[Any] = [piece.column(column.name).combine_chunks() for column in schema.key]
        pieces.append(codec.key_groups(codec.read(arrays), arrays))
    groups = np.concatenate(pieces) if pieces else np.zeros(0, np.int32)
    order = np.argsort(groups, kind="stable").astype(np.int64)
    return taken(_with_groups(rows, groups), order)


def _within(rows: pa.Table, max_parallelism: int) -> pa.Table:
    slots = rows.column(KEY_GROUP).to_numpy()
    if not len(slots) or slots.max() < max_parallelism:
        return rows
    rows = _with_groups(rows, np.zeros(len(slots), np.int32))
    position, seq = rows.schema.get_field_index(POSITION), rows.schema.get_field_index(SEQ)
    last = int(rows.column(POSITION).to_numpy().max())
    rows = rows.set_column(position, rows.schema.field(position), pa.array(np.full(len(slots), last, np.int64)))
    return rows.set_column(seq, rows.schema.field(seq), pa.array(np.arange(len(slots), dtype=np.int64)))


def _with_groups(rows: pa.Table, groups: Any) -> pa.Table:
    index = rows.schema.get_field_index(KEY_GROUP)
    return rows.set_column(index, rows.schema.field(index), pa.array(groups, pa.int32()))


def planned(
    segments: Sequence[Segment], head: StoredManifest, schema: StateSchema, rewrite: Rewrite, folder: str = ""
) -> RewrittenState:
    """Plans how one state is rewritten; reads nothing.

    Args:
        segments: What folds to it.
        head: The epoch, as it was sealed.
        schema: The state as of that epoch.
        rewrite: What changes.
        folder: The folder into which it is written.
    """
    reading, rows = reading_plan(segments, head.manifest, schema), log_size(segments, schema)[0]
    new_schema = rewritten_schema(schema, rewrite)
    groups = rewrite.max_parallelism or reading.max_parallelism
    writing = reading._replace(
        schema=new_schema,
        table=f"{folder}/{state_table_path(new_schema)}",
        stem="part",
        ranges=cut_ranges([(0, groups - 1, rows)], groups, planning.ROWS_PER_FILE),
        max_parallelism=groups,
    )
    return RewrittenState(reading, writing, rows)


def _write(
    storage: CheckpointStorage,
    segments: Sequence[Segment],
    state: RewrittenState,
    generation: int,
    attempt: CopyAttempt,
) -> Iterator[StateFile]:
    writing, name = state.writing, f"{state.writing.schema.uid}/{state.writing.schema.name}"
    share = state.rows / len(state.reading.ranges)
    with _Shelf(writing.ranges) as shelf:
        for live in live_pieces(segments, state.reading, attempt.raise_if_cancelled):
            attempt.raise_if_cancelled()
            shelf.put(regrouped(writing.schema, live, writing.max_parallelism))
            attempt.add_done(share, name)
        for (first, last), pieces in shelf.ranges():
            attempt.raise_if_cancelled()
            rows = sorted_by_group(pieces)
            stem = part_stem(writing, first, last)
            part = FoldedPart(writing.schema, writing.table, stem, generation, writing.max_parallelism, rows)
            yield write_parquet_part(storage, part).file


class _Shelf:
    """Holds the rows of one state between reading the old ranges and writing the new ones.

    Args:
        ranges: The new ones. If there is only one, the pieces stay in memory, where an old range fitted as well.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = ranges
        self._held: list[pa.Table] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._pieces = 0

    def __enter__(self) -> "_Shelf":
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def put(self, rows: pa.Table) -> None:
        """Takes rows of one old range, sorted by their new key groups."""
        if len(self._ranges) == 1:
            self._held.append(rows)
            return
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="lakestate-rekey-")
        self._pieces += 1
        for number, (first, last) in enumerate(self._ranges):
            piece = within(rows, KeyGroupRange(first, last))
            if piece.num_rows:
                path = Path(self._folder.name, f"{number:05d}-{self._pieces:05d}.arrow")
                with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, piece.schema) as writer:
                    writer.write_table(piece)

    def ranges(self) -> Iterator[tuple[tuple[int, int], list[pa.Table]]]:
        """Yields the new ranges that have rows, with their pieces in the order in which they were put."""
        for number, range_ in enumerate(self._ranges):
            pieces = self._held if self._folder is None else self._read(number)
            if any(piece.num_rows for piece in pieces):
                yield range_, pieces

    def _read(self, number: int) -> list[pa.Table]:
        assert self._folder is not None
        tables = []
        for path in sorted(Path(self._folder.name).glob(f"{number:05d}-*.arrow")):
            with pa.OSFile(str(path), "rb") as source:
                tables.append(pa.ipc.open_file(source).read_all())
        return tables


__all__ = ["RewrittenState", "planned", "regrouped", "rewrite_state", "with_rewrite"]
