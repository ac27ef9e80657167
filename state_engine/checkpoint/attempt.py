"""E9, step by step: folds the epochs since a base, gives them to the checkpoint storage, makes the checkpoint visible.

```
plan ─► files ─► one commit per table ─► base ─► row in _checkpoints
          │              │                │            │
   E9_FILES_WRITTEN  E9_TABLE_COMMITTED  E9_BASE_WRITTEN  E9_VISIBLE
```

A file's name determines its content, or is new with each attempt. A commit has (generation, epoch) as its application
transaction. So after any crash the same publish can be run again. A checkpoint storage without tables commits nothing.
Only the last step is visible to others. Nothing is deleted here.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import NamedTuple

from state_engine.checkpoint.fold_inputs import read_fold_inputs
from state_engine.checkpoint.fold_state import FoldedState, commit_state, fold_parts
from state_engine.checkpoint.leases import files_kept
from state_engine.checkpoint.plan import plan_state, states_of
from state_engine.checkpoint.rows import completed_row
from state_engine.checkpoint.table import CheckpointRow, CheckpointTable
from state_engine.clock import Clock, Ids
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import Crash, Mark
from state_engine.log.documents import encode_base
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import base_path, state_table_path
from state_engine.log.records import Base, BaseReference, Manifest, StateSchema, StorageName, TableVersion
from state_engine.log.source_records import SourceFile, files_read
from state_engine.storage.checkpoint_storage import CheckpointStorageAccess
from state_engine.storage.create import create_under_new_name
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage, ObjectReader
from state_engine.storage.read_once import ReadOnce
from state_engine.storage.state_reader import history_of, inherited_base
from state_engine.storage.table_log import Fence


class World(NamedTuple):
    """All that a publish needs from outside; `access_for` opens the checkpoint storage for state on top of a base."""

    job: str
    storage: CheckpointStorage
    access_for: Callable[[Base | None], CheckpointStorageAccess]
    rows: CheckpointTable
    log: ManifestLog
    clock: Clock
    ids: Ids
    crash: Crash
    open_job: Callable[[str], CheckpointStorage] | None

    def storage_of(self, job: str) -> CheckpointStorage:
        """Opens the storage of this job or of the one that it was forked from."""
        return self.storage if job == self.job or self.open_job is None else self.open_job(job)


class Interval(NamedTuple):
    """What a checkpoint folds: the epochs after a base up to the sealed one, oldest first.

    The first checkpoint of a forked job has no base, but may have inherited one from the other job.
    """

    sealed: StoredManifest
    reference: BaseReference | None
    base: Base | None
    manifests: tuple[Manifest, ...]
    inherited: Base | None


class AbandonedError(Exception):
    """The checkpoint was abandoned before it became visible."""


def publish(
    world: World,
    sealed: StoredManifest,
    reference: BaseReference | None,
    mark: Mark,
    joined: Sequence[CheckpointRow] = (),
    may_become_visible: Callable[[int], bool] = lambda _: True,
) -> BaseReference:
    """Publishes the checkpoint that fell on a sealed epoch; running it again is safe.

    Args:
        world: Storage, checkpoint storage, clock and so on.
        sealed: The epoch; it has a checkpoint id.
        reference: The newest visible base on its lineage.
        mark: Its id, its trigger, and whether it is full.
        joined: Rows of earlier checkpoints that this one replaces; they become visible with it.
        may_become_visible: Called once, immediately before the last step; its answer is final.

    Returns:
        The new base, visible to all readers.

    Raises:
        StorageError: Nothing became visible, or it is unknown whether something did.
        CorruptionError: The log is damaged, or files of the checkpoint are gone.
        CondemnedError: Retention is removing files of the checkpoint: another driver owns the job.
        FencedError: A later generation has a checkpoint.
        AbandonedError: It may not become visible.
    """
    epoch, began = sealed.manifest.epoch, world.clock.now_ms()
    world.crash.at(CrashPoint.E9_PUBLISH_BEGUN, epoch)
    interval = read_interval(world, sealed, reference)
    access = world.access_for(interval.base)
    states = _write_all(world, access, interval, full=mark.full)
    world.crash.at(CrashPoint.E9_FILES_WRITTEN, epoch)
    folded = world.clock.now_ms()
    states = _commit_all(world, access, sealed.manifest, states)
    committed = world.clock.now_ms()
    new = _write_base(world, interval, states, access.traits.name)
    world.crash.at(CrashPoint.E9_BASE_WRITTEN, epoch)
    written = world.clock.now_ms()
    waited = max(0, began - sealed.manifest.processing_time)
    phases = {"epoch": waited, "fold": folded - began, "tables": committed - folded, "base": written - committed}
    row = completed_row(interval.sealed, interval.manifests, states, new, mark, phases=phases, now_ms=written)
    if epoch <= world.log.floors().get(sealed.manifest.generation, 0):  # retention may have deleted its files
        raise AbandonedError
    # Retention may also run for a driver that took the job over meanwhile: the files that the row names have to stay.
    named = {new.path, *(file.path for state in states for file in state.files if file.inlined is None)}
    with files_kept(world.storage, sealed, named, "checkpoint", world.clock, world.ids):
        if not may_become_visible(mark.checkpoint_id):
            raise AbandonedError
        # Once a later generation has a checkpoint, retention may free this one. The fence is checked on the very table
        # version on which the commit is made.
        fence = Fence(f"lakestate/{world.job}/generation", sealed.manifest.generation)
        world.rows.append([*joined, row], app_id=app_id(sealed.manifest), version=epoch, fence=fence)
    world.crash.at(CrashPoint.E9_VISIBLE, epoch)
    return new


def app_id(manifest: Manifest) -> str:
    """Returns the application id of a generation's transactions; their versions are epochs."""
    return f"lakestate/{manifest.job}/g{manifest.generation}"


def read_interval(world: World, sealed: StoredManifest, reference: BaseReference | None) -> Interval:
    """Reads and verifies the chain after the base.

    Raises:
        DamagedManifestError: The chain does not join the base.
    """
    inputs = read_fold_inputs(world.storage, world.log, sealed, reference)
    inherited = inherited_base(world.job, inputs.manifests, world.storage_of)
    return Interval(sealed, reference, inputs.base, inputs.manifests, inherited)


def _write_all(world: World, access: CheckpointStorageAccess, interval: Interval, *, full: bool) -> list[FoldedState]:
    head, states = interval.sealed.manifest, []
    with _reading_once(world, interval) as reader_of:
        for schema in states_of(interval.manifests):
            plan = plan_state(
                schema,
                interval.base,
                interval.manifests,
                access.active(state_table_path(schema)),
                interval.inherited,
                asked_full=full,
                traits=access.traits,
            )
            base = (interval.base or interval.inherited) if plan.full else None
            segments = history_of(base, world.job, interval.manifests, reader_of)
            states.append(fold_parts(access.write, plan, segments, head.generation))
    return states


@contextmanager
def _reading_once(world: World, interval: Interval) -> Iterator[Callable[[str], ObjectReader]]:
    """Gives the readers of jobs' files for the time in which all states are folded from the same change files."""
    with ExitStack() as stack:

        @cache
        def reader_of(job: str) -> ObjectReader:
            changes = (manifest for manifest in interval.manifests if manifest.job == job)
            return stack.enter_context(ReadOnce(world.storage_of(job), changes))

        yield reader_of


def _commit_all(
    world: World, access: CheckpointStorageAccess, head: Manifest, states: Sequence[FoldedState]
) -> list[FoldedState]:
    committed = []
    for state in states:
        committed.append(commit_state(access, state, app_id=app_id(head), epoch=head.epoch))
        world.crash.at(CrashPoint.E9_TABLE_COMMITTED, head.epoch)
    return committed


def _write_base(world: World, interval: Interval, states: Sequence[FoldedState], storage: StorageName) -> BaseReference:
    head = interval.sealed.manifest
    assert head.checkpoint_id is not None, "only an epoch with a checkpoint id is published"
    base = Base(
        job=world.job,
        generation=head.generation,
        epoch=head.epoch,
        checkpoint_id=head.checkpoint_id,
        manifest=interval.sealed.hash,
        full=all(state.plan.full for state in states),
        files=tuple(file for state in states for file in state.files),
        tables=tuple(
            TableVersion(path=state.plan.table, version=state.version) for state in states if state.version is not None
        ),
        source_files=source_files(interval),
        schemas=_schemas(interval, states),
        storage=storage,
    )
    data, checksum = encode_base(base)
    path = create_under_new_name(
        world.storage, world.ids, lambda new: base_path(head.generation, head.epoch, new), data
    )
    return BaseReference(
        path=path,
        checksum=checksum,
        generation=head.generation,
        epoch=head.epoch,
        checkpoint_id=head.checkpoint_id,
    )


def _schemas(interval: Interval, states: Sequence[FoldedState]) -> tuple[StateSchema, ...]:
    """Returns the schemas of the states, and the older ones with which files that stay were written."""
    newest = {state.plan.schema.schema_id: state.plan.schema for state in states}
    used = {file.schema_id for state in states for file in state.files}
    older = interval.base.schemas if interval.base is not None else ()
    return (*(old for old in older if old.schema_id in used - newest.keys()), *newest.values())


def source_files(interval: Interval) -> tuple[tuple[SourceFile, ...], ...]:
    """Returns for each source all files that were read from it: those of the base and those of every epoch since."""
    base = interval.base or interval.inherited
    return files_read(base.source_files if base is not None else (), (one.sources for one in interval.manifests))


__all__ = ["AbandonedError", "Interval", "World", "app_id", "publish", "read_interval", "source_files"]
