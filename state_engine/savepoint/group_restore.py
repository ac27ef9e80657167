"""The storage side of a restore of key groups or keys: reads both epochs, writes the rows, seals nothing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from state_engine.clock import Clock, Ids, RandomIds
from state_engine.epoch.carry import origin_of
from state_engine.epoch.crash_points import CrashPoint, NoCrash
from state_engine.epoch.key_groups import RestoredRows
from state_engine.epoch.ports import Crash
from state_engine.errors import RestoreCancelledError
from state_engine.key_groups import KeyGroupRange, range_of
from state_engine.log.change_file import ChangeFileHeader, encode_change_file
from state_engine.log.fold import fold
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import change_path
from state_engine.log.records import Ack, Codec, EarliestTimers, GroupRestore, StateHandle, StateSchema
from state_engine.savepoint.catalogue import resolve_restore
from state_engine.savepoint.group_report import KeyGroupRestore, StateChange, operator_change
from state_engine.savepoint.group_rows import converted, earliest, numbered, only_keys, removals, resets, within
from state_engine.savepoint.keeping import KeptSource, source_kept
from state_engine.savepoint.segments import segments_at, segments_of_target
from state_engine.savepoint.selection import MovedState, Part, Selection, choose
from state_engine.storage.create import create_under_new_name
from state_engine.storage.open import open_storage
from state_engine.storage.state_reader import Segment, empty_rows, read_log_rows

Changes = list[tuple[StateSchema, list[pa.Table]]]
_CODEC: Codec = "zstd"


class GroupRestorer:
    """One restore of key groups. The source's rows are read once, however often the job seals epochs meanwhile.

    Args:
        root: Of the storage.
        job: The job in which state is replaced.
        source: What `resolve_restore` takes.
        selection: What is replaced.
        ids: New names.
        cancelled: Called between files; when it returns True, `RestoreCancelledError` is raised.
        crash: Called after each change file.

    Raises:
        NothingToRestoreError: The source does not exist.
        CorruptionError: It is damaged.
    """

    def __init__(
        self,
        root: str,
        job: str,
        source: str,
        selection: Selection,
        *,
        ids: Ids | None = None,
        cancelled: Callable[[], bool] | None = None,
        crash: Crash | None = None,
    ) -> None:
        self._root = root
        self._job = job
        self._selection = selection
        self._storage = open_storage(root, job)
        self._ids: Ids = ids or RandomIds()
        self._cancelled = cancelled or (lambda: False)
        self._crash: Crash = crash or NoCrash()
        self._target = resolve_restore(root, job, source)
        self._source: KeptSource | None = None
        self._found: dict[tuple[str, str, tuple[KeyGroupRange, ...]], pa.Table] = {}
        self._written: list[str] = []

    def plan(self, head: StoredManifest) -> KeyGroupRestore:
        """Reports how the state at a manifest would change; reads the rows of both epochs, and writes nothing.

        Raises:
            RestoreError: It is refused; the error's class and message say why.
            CorruptionError: A file on either side is gone or damaged.
        """
        parts = self._choose(head)
        segments, states = segments_at(self._root, self._job, head), []
        for part in parts:
            for state in part.states:
                removed = self._live(segments, state.now, part).num_rows if state.known else 0
                restored = self._coming(state, part)
                states.append(
                    StateChange(
                        uid=part.uid,
                        state=state.now.name,
                        kind=state.now.kind,
                        removed=removed,
                        written=restored.num_rows if restored is not None else 0,
                    )
                )
        return KeyGroupRestore(
            job=self._job,
            source=origin_of(self._target),
            onto=head.manifest.epoch,
            operators=tuple(map(operator_change, parts)),
            states=tuple(states),
        )

    def write(self, head: StoredManifest) -> RestoredRows:
        """Writes the rows for the epoch after a manifest durably; no manifest names them yet.

        Raises:
            RestoreError, CorruptionError, StorageError: None of the written files is left.
        """
        try:
            return self._write(head)
        except BaseException:
            self.discard()
            raise

    @contextmanager
    def kept(self, clock: Clock | None = None) -> Iterator[None]:
        """Keeps the source's files until the block ends, even if the savepoint that lists them is disposed of.

        Raises:
            CondemnedError, CorruptionError: As of `source_kept`.
        """
        purpose = "restore of key groups"
        with source_kept(self._root, self._job, self._target, purpose, clock=clock, ids=self._ids) as self._source:
            yield

    def discard(self) -> None:
        """Removes the written files. Call it only when it is certain that no manifest names them."""
        while self._written:
            self._storage.delete(self._written.pop())

    def _write(self, head: StoredManifest) -> RestoredRows:
        parts = self._choose(head)
        acks: dict[str, tuple[Ack, ...]] = {}
        timers: dict[str, EarliestTimers] = {}
        new: list[StateSchema] = []
        for part in parts:
            changes, restored = self._changes(head, part)
            acks[part.uid] = tuple(self._ack(head, part, subtask, changes) for subtask in range(part.parallelism))
            timers[part.uid] = earliest(restored)
            new.extend(state.now for state in part.states if not state.known)
        record = GroupRestore(
            source=origin_of(self._target),
            groups={part.uid: operator_change(part).groups for part in parts},
            keys=len(self._selection.keys),
        )
        return RestoredRows(acks=acks, schemas=tuple(new), timers=timers, record=record)

    def _choose(self, head: StoredManifest) -> tuple[Part, ...]:
        return choose(self._selection, head.manifest, self._target.stored.manifest)

    def _changes(self, head: StoredManifest, part: Part) -> tuple[Changes, list[tuple[StateSchema, pa.Table]]]:
        """Returns the rows per state: those that remove before those that are restored; and the restored ones alone."""
        segments = segments_at(self._root, self._job, head) if part.keys else ()
        changes: Changes = []
        restored = []
        for state in part.states:
            pieces = []
            if state.known:
                deletes = removals(state.now, self._live(segments, state.now, part)) if part.keys else None
                pieces.append(resets(state.now, part.ranges) if deletes is None else deletes)
            if (rows := self._coming(state, part)) is not None:
                pieces.append(rows)
                restored.append((state.now, rows))
            changes.append((state.now, pieces))
        return changes, restored

    def _coming(self, state: MovedState, part: Part) -> pa.Table | None:
        """Returns the source's live rows, as rows of the job; None if the source does not have the state."""
        if state.source is None:
            return None
        name = (part.uid, state.now.name, part.ranges)
        if name not in self._found:
            if self._source is None:
                self._source = KeptSource(segments_of_target(self._root, self._target), None)
            self._found[name] = self._live(self._source.segments, state.source, part)
        return converted(state, self._found[name])

    def _live(self, segments: Sequence[Segment], schema: StateSchema, part: Part) -> pa.Table:
        tables = [empty_rows(schema)]
        for first, last in part.ranges:
            for rows in read_log_rows(segments, schema, first, last):
                tables.append(rows)
                self._stop_if_cancelled()
        live = fold(schema, tables)
        return only_keys(schema, live, part.keys) if part.keys else live

    def _ack(self, head: StoredManifest, part: Part, subtask: int, changes: Changes) -> Ack:
        self._stop_if_cancelled()
        attempt, manifest = self._ids.new_id(), head.manifest
        owned = range_of(subtask, part.parallelism, part.max_parallelism)
        states, seq = [], 0
        for schema, pieces in changes:
            parts = [piece for piece in (within(piece, owned) for piece in pieces) if piece.num_rows]
            if parts:
                states.append((schema, numbered(schema, parts, seq)))
                seq += states[-1][1].num_rows
        header = ChangeFileHeader(
            job=manifest.job,
            generation=manifest.generation,
            epoch=manifest.epoch + 1,
            uid=part.uid,
            subtask=subtask,
            attempt=attempt,
            max_parallelism=part.max_parallelism,
        )
        return Ack(
            uid=part.uid,
            subtask=subtask,
            attempt=attempt,
            records_in=0,
            records_out=0,
            changes=self._store(header, states) if states else None,
        )

    def _store(self, header: ChangeFileHeader, states: Sequence[tuple[StateSchema, pa.Table]]) -> StateHandle:
        buffers, sections, checksum, length = encode_change_file(header, states, _CODEC)
        name = partial(change_path, header.generation, header.epoch, header.uid, header.subtask)
        path = create_under_new_name(self._storage, self._ids, name, *buffers)
        self._written.append(path)
        self._crash.at(CrashPoint.E5_CHANGE_FILE_WRITTEN, header.epoch)
        rows = sum(section.rows for section in sections)
        return StateHandle(path=path, length=length, checksum=checksum, rows=rows, codec=_CODEC, sections=sections)

    def _stop_if_cancelled(self) -> None:
        if self._source is not None:
            self._source.renew()
        if self._cancelled():
            raise RestoreCancelledError(
                f"The restore into job {self._job!r} was cancelled.", action="Nothing; the state is as it was."
            )


__all__ = ["GroupRestorer"]
