"""Builds the log of a job directly: manifests and change files as tasks and driver would write them.

It is for tests without Spark of everything that reads the log: publish, savepoints, inspection, assets. It is
deterministic: the same calls write the same bytes. It also keeps a plain model of the state after each epoch, for
comparison.

```
job = JobBuilder(root, "flights", [state("aircraft", "count", "tailnum string", "bigint")])
job.epoch({("aircraft", "count"): [put("N1", 3), put("N2", 1)]})
job.epoch({("aircraft", "count"): [delete("N1")]}, checkpoint_id=1)
job.rows("aircraft", "count")     # {(("N2",), None, None): 1}
```
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from state_engine.epoch.inlining import take_inlined
from state_engine.key_groups import key_group_of, range_of, subtask_of
from state_engine.log.change_file import ChangeFileHeader, encode_change_file
from state_engine.log.lineage import fork_lineage
from state_engine.log.manifest import StoredManifest
from state_engine.log.ops import Op, log_schema
from state_engine.log.paths import change_path
from state_engine.log.records import (
    Ack,
    BaseReference,
    Manifest,
    ManifestKind,
    OperatorEpoch,
    Origin,
    Span,
    StateHandle,
    StateSchema,
    StateStatistics,
    Successor,
)
from state_engine.log.source_records import SourceFile, SourcePosition
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.port import CheckpointStorage
from state_engine.testing.changes import Change, EntryKey, Model, StateName, apply


class JobBuilder:
    """The log of one job, sealed epoch by epoch, and a model of its state.

    Args:
        root: Root of the storage; the job's folder is below it.
        job: Name of the job.
        schemas: All its keyed states.
        parallelism: Parallelism of every operator, until changed by `parallelism` of an epoch or a restore.
        max_parallelism: Max parallelism of every operator; a prime by default, as in Flink's tests.
    """

    def __init__(
        self, root: str, job: str, schemas: Sequence[StateSchema], *, parallelism: int = 2, max_parallelism: int = 13
    ) -> None:
        self.root, self.job = root, job
        self.storage: CheckpointStorage = open_storage(root, job)
        self.log = ManifestLog(self.storage, job, open_job=lambda other: open_storage(root, other))
        self.schemas = tuple(schemas)
        self.parallelism, self.max_parallelism = parallelism, max_parallelism
        self.head: StoredManifest | None = None
        self.base: BaseReference | None = None
        self.now_ms = 1_700_000_000_000
        self.model: Model = {(s.uid, s.name): {} for s in self.schemas}
        self.models: dict[tuple[int, int], Model] = {}
        self.inlines: Callable[[int, int], bool] = inlines_some
        self._generation = 1
        self._lineage: tuple[Span, ...] = (Span(generation=1, first=1),)

    def epoch(
        self,
        changes: Mapping[StateName, Sequence[Change]] | None = None,
        *,
        parallelism: int | None = None,
        checkpoint_id: int | None = None,
        kind: ManifestKind = "epoch",
        new_files: Sequence[str] = (),
    ) -> StoredManifest:
        """Writes the change files of one epoch and seals it."""
        self.parallelism = parallelism or self.parallelism
        epoch = self.head.manifest.epoch + 1 if self.head else 1
        uids = dict.fromkeys(schema.uid for schema in self.schemas)
        given = {uid: self._acks(uid, epoch, changes or {}) if kind not in ("claim", "closing") else () for uid in uids}
        acks, inlined = take_inlined(given)
        operators = {
            uid: OperatorEpoch(parallelism=self.parallelism, max_parallelism=self.max_parallelism, acks=acks[uid])
            for uid in uids
        }
        files = tuple(SourceFile(path=path, timestamp=self.now_ms) for path in new_files)
        source = SourcePosition(offset=f'{{"logOffset":{epoch}}}', new_files=files)
        for name, rows in (changes or {}).items():
            schema = next(schema for schema in self.schemas if (schema.uid, schema.name) == name)
            apply(schema, self.model[name], rows, self.max_parallelism)
        return self._seal(
            epoch, kind, operators=operators, sources=(source,), checkpoint_id=checkpoint_id, inlined=inlined
        )

    def adopt(self, base: BaseReference | None) -> None:
        """Lets later manifests name this base."""
        self.base = base

    def restore(self, target: StoredManifest, *, parallelism: int | None = None) -> StoredManifest:
        """Closes the generation and claims a new one that continues after `target`."""
        assert self.head is not None
        place = target.manifest
        number = self._generation + 1
        origin = Origin(job=self.job, generation=place.generation, epoch=place.epoch, manifest=target.hash)
        self._seal(self.head.manifest.epoch + 1, "closing", successor=Successor(generation=number, origin=origin))
        self._generation, self._lineage = number, fork_lineage(place.lineage, place.epoch, number)
        self.head, self.base = target, place.base
        self.model = copy.deepcopy(self.models[place.generation, place.epoch])
        self.parallelism = parallelism or self.parallelism
        operators = {
            uid: OperatorEpoch(parallelism=self.parallelism, max_parallelism=self.max_parallelism)
            for uid in {schema.uid for schema in self.schemas}
        }
        sources = place.sources
        bare = tuple(SourcePosition(offset=source.offset) for source in sources)
        return self._seal(place.epoch + 1, "claim", operators=operators, sources=bare, origin=origin)

    def fork(self, job: str) -> "JobBuilder":
        """Begins another job that continues after the newest epoch of this one."""
        assert self.head is not None
        place = self.head.manifest
        fork = JobBuilder(
            self.root, job, self.schemas, parallelism=self.parallelism, max_parallelism=self.max_parallelism
        )
        fork.head, fork.model = self.head, copy.deepcopy(self.model)
        fork._lineage = (Span(generation=1, first=place.epoch + 1),)
        origin = Origin(job=self.job, generation=place.generation, epoch=place.epoch, manifest=self.head.hash)
        operators = {uid: msgspec.structs.replace(operator, acks=()) for uid, operator in place.operators.items()}
        fork._seal(place.epoch + 1, "restore", operators=operators, origin=origin)
        return fork

    def rows(self, uid: str, name: str, at: StoredManifest | None = None) -> dict[EntryKey, Any]:
        """Returns the model of one state, now or after a sealed epoch: (key, namespace, user key) to value."""
        if at is None:
            return self.model[uid, name]
        return self.models[at.manifest.generation, at.manifest.epoch][uid, name]

    def _seal(self, epoch: int, kind: ManifestKind, **fields: Any) -> StoredManifest:
        manifest = Manifest(
            job=self.job,
            generation=self._generation,
            epoch=epoch,
            kind=kind,
            incarnation="0" * 32,
            incarnation_number=1,
            predecessor=self.head.hash if self.head else "",
            processing_time=self.now_ms,
            lineage=self._lineage,
            schemas=self.schemas,
            keys={schema.uid: schema.key for schema in self.schemas},
            base=self.base,
        )
        self.now_ms += 1000
        self.head = self.log.put(msgspec.structs.replace(manifest, **fields))
        self.models[self._generation, epoch] = copy.deepcopy(self.model)
        return self.head

    def _acks(self, uid: str, epoch: int, changes: Mapping[StateName, Sequence[Change]]) -> tuple[Ack, ...]:
        acks = []
        for subtask in range(self.parallelism):
            tables, seq = [], 0
            for schema in (schema for schema in self.schemas if schema.uid == uid):
                rows = []
                for change in changes.get((uid, schema.name), ()):
                    group = self._group(schema, change)
                    if subtask_of(group, self.parallelism, self.max_parallelism) == subtask:
                        rows.append(_row(schema, change, group, seq, self.now_ms))
                        seq += 1
                rows.sort(key=lambda row: (row["key_group"], row["seq"]))
                tables.append((schema, pa.Table.from_pylist(rows, log_schema(schema, ddl_to_arrow))))
            handle, inlined = self._write(uid, epoch, subtask, tables) if seq else (None, None)
            acks.append(
                Ack(
                    uid=uid, subtask=subtask, attempt=_attempt(epoch, subtask), records_in=seq, records_out=0,
                    changes=handle, inlined=inlined, schemas=tuple(schema for schema, _ in tables),
                    statistics=self._statistics(uid, subtask),
                )
            )  # fmt: skip
        return tuple(acks)

    def _write(
        self, uid: str, epoch: int, subtask: int, tables: list[tuple[StateSchema, pa.Table]]
    ) -> tuple[StateHandle, bytes | None]:
        attempt = _attempt(epoch, subtask)
        header = ChangeFileHeader(
            job=self.job, generation=self._generation, epoch=epoch, uid=uid, subtask=subtask, attempt=attempt,
            max_parallelism=self.max_parallelism,
        )  # fmt: skip
        buffers, sections, checksum, length = encode_change_file(header, tables, block_rows=4)
        path = change_path(self._generation, epoch, uid, subtask, attempt)
        inlined = b"".join(buffers) if self.inlines(epoch, subtask) else None
        if inlined is None:
            self.storage.put_exclusive(path, *buffers)
        rows = sum(section.rows for section in sections)
        handle = StateHandle(path=path, length=length, checksum=checksum, rows=rows, codec="zstd", sections=sections)
        return handle, inlined

    def _statistics(self, uid: str, subtask: int) -> tuple[StateStatistics, ...]:
        owned = range_of(subtask, self.parallelism, self.max_parallelism)
        statistics = []
        for schema in (schema for schema in self.schemas if schema.uid == uid):
            entries = self.model[uid, schema.name]
            types = [column.type for column in schema.key]
            mine = [e for e in entries if key_group_of(e[0], types, self.max_parallelism) in owned]
            rows = sum(len(entries[e]) if schema.shape == "list" else 1 for e in mine)
            statistics.append(StateStatistics(name=schema.name, rows=rows, keys=len({e[0] for e in mine})))
        return tuple(statistics)

    def _group(self, schema: StateSchema, change: Change) -> int:
        if change.op == Op.RESET_GROUP:
            return change.group
        return key_group_of(change.key, [column.type for column in schema.key], self.max_parallelism)


def inlines_some(epoch: int, subtask: int) -> bool:
    """Returns whether a subtask's changes are inlined in the manifest; one epoch may have inlined changes and files."""
    return (epoch + subtask) % 3 == 0


def inlines_none(epoch: int, subtask: int) -> bool:
    """Inlines no changes: all of them are in files."""
    return False


def _row(schema: StateSchema, change: Change, group: int, seq: int, now_ms: int) -> dict[str, Any]:
    row: dict[str, Any] = {"key_group": group, "namespace": change.namespace, "value": change.value}
    row |= {"op": int(change.op), "seq": seq, "last_access": now_ms if change.op < Op.DELETE else None}
    if change.op != Op.RESET_GROUP:
        row |= {column.name: value for column, value in zip(schema.key, change.key, strict=True)}
    if schema.user_key is not None:
        row["user_key"] = change.user_key
    return row


def _attempt(epoch: int, subtask: int) -> str:
    return f"{epoch:016x}{subtask:016x}"


__all__ = ["JobBuilder", "inlines_none", "inlines_some"]
