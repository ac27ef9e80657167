"""Canonical savepoints: the fold of a sealed epoch, written out as Delta tables that need nothing outside their folder.

```
pin ─► files and Delta commits, state by state ─► _metadata ─► row in _checkpoints
```

Until the savepoint is written, the pin protects the files that are folded from retention. It also gives the savepoint
its name. `_metadata` makes the savepoint visible as a whole; a folder without it is no savepoint.
"""

import msgspec
from msgspec.structs import replace

from state_engine.checkpoint.attempt import Interval, source_files
from state_engine.checkpoint.fold_inputs import FoldInputs
from state_engine.checkpoint.plan import StatePlan, file_name, plan_state, states_of
from state_engine.clock import Ids
from state_engine.errors import AlreadyExistsError, SavepointError
from state_engine.log.documents import encode_savepoint
from state_engine.log.manifest import StoredManifest
from state_engine.log.ops import table_schema
from state_engine.log.paths import METADATA, PIN, elsewhere_path, manifest_path, savepoint_folder, state_table_path
from state_engine.log.savepoints import CanonicalSavepoint, SavepointTable
from state_engine.log.state_ttl import without_expired
from state_engine.savepoint.writers import Fold, ProcessWriter, RangeWriter, WriteOrder
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.folder import FolderStorage
from state_engine.storage.open import open_root, open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import history_of, inherited_base
from state_engine.storage.tables import TABLE_LOGS, TableFile, Tables


def write_canonical(
    root: str,
    draft: CanonicalSavepoint,
    head: StoredManifest,
    inputs: FoldInputs,
    ids: Ids,
    writer: RangeWriter | None = None,
) -> CanonicalSavepoint:
    """Writes the tables of a savepoint and makes it visible.

    Args:
        root: Of the storage of the job.
        draft: The savepoint without its content; `directory` is where it goes, None for below the job's root.
        head: The epoch.
        behind: The base and the manifests that fold to it.
        ids: New names.
        writer: Folds the ranges; `ProcessWriter` by default, which holds a few ranges of key groups in memory.

    Returns:
        The savepoint as it was written, durable.

    Raises:
        AlreadyExistsError: The savepoint's folder has files other than the pin.
        CorruptionError: A file that is folded is gone or damaged.
        StorageError: The savepoint could not be written; nothing is visible.
    """
    storage = open_storage(root, draft.job)
    folder = savepoint_folder(draft.savepoint_id)
    target: CheckpointStorage = (
        open_root(draft.directory) if draft.directory is not None else FolderStorage(storage, folder)
    )
    if [info for info in target.list("") if info.path != PIN]:
        raise AlreadyExistsError(
            f"{target.url} is not empty: savepoint {draft.savepoint_id} cannot be written there.",
            action="Take it again; it gets another name.",
        )
    stem = f"part-{ids.new_id()}"
    try:
        savepoint = _write_tables(root, draft, head, inputs, target, stem, writer or ProcessWriter())
        data, _hash = encode_savepoint(replace(savepoint, directory=None))
        target.put_if_absent(METADATA, data)
        if savepoint.directory is not None:
            storage.put_if_absent(elsewhere_path(savepoint.savepoint_id), encode_savepoint(savepoint)[0])
    except Exception:
        target.delete(METADATA)  # first: a put without an answer may have made the savepoint visible
        storage.delete(elsewhere_path(draft.savepoint_id))
        remove_tables(target, [state_table_path(schema) for schema in states_of([head.manifest])], stem)
        raise
    return savepoint


def remove_tables(target: CheckpointStorage, tables: list[str], stem: str = "") -> None:
    """Removes tables: their logs first, then data files with names that begin with `stem`."""
    for table in tables:
        infos = target.list(table)
        logs = [info.path for info in infos if info.path.removeprefix(f"{table}/").startswith(TABLE_LOGS)]
        data = [info.path for info in infos if info.path.startswith(f"{table}/{stem}") and info.path not in logs]
        for path in (*logs, *data):
            target.delete(path)


def _write_tables(
    root: str,
    draft: CanonicalSavepoint,
    head: StoredManifest,
    inputs: FoldInputs,
    target: CheckpointStorage,
    stem: str,
    writer: RangeWriter,
) -> CanonicalSavepoint:
    job = draft.job

    def storage_of(other: str) -> CheckpointStorage:
        return open_storage(root, other)

    inherited = inherited_base(job, inputs.manifests, storage_of)
    fold = Fold(_order(root, draft, inputs), target, history_of(inputs.base, job, inputs.manifests, storage_of))
    delta = open_tables(target)
    tables = []
    for schema in states_of([head.manifest]):
        manifests = inputs.manifests or (head.manifest,)
        plan = plan_state(schema, inputs.base, manifests, None, inherited, asked_full=True)
        plan = plan._replace(table=state_table_path(schema), stem=stem)
        written = writer.write(fold, plan._replace(schema=without_expired(schema)))
        files = [
            TableFile(one.file.path.removeprefix(f"{plan.table}/"), one.file.length, one.file.rows, one.statistics)
            for one in written
        ]
        _commit(delta, plan, files, draft)
        rows = {file.name: file.rows for file in files}
        ranges = tuple((first, last, rows.get(file_name(plan, first, last), 0)) for first, last in plan.ranges)
        tables.append(
            SavepointTable(
                schema=schema,
                path=plan.table,
                max_parallelism=plan.max_parallelism,
                ranges=ranges,
                files=tuple(one.file for one in written),
            )
        )
    interval = Interval(head, inputs.reference, inputs.base, inputs.manifests, inherited)
    sealed = storage_of(job).get(manifest_path(head.manifest.generation, head.manifest.epoch))
    return replace(
        draft,
        sealed=msgspec.Raw(sealed),
        tables=tuple(tables),
        source_files=source_files(interval),
        bytes=sum(file.length for table in tables for file in table.files),
        rows=sum(file.rows for table in tables for file in table.files),
    )


def _order(root: str, draft: CanonicalSavepoint, inputs: FoldInputs) -> WriteOrder:
    inside = draft.directory is None
    return WriteOrder(
        root=root,
        job=draft.job,
        generation=draft.generation,
        epoch=draft.epoch,
        manifest=draft.manifest,
        base=inputs.reference,
        url=f"{root.rstrip('/')}/{draft.job}" if inside else str(draft.directory),
        folder=savepoint_folder(draft.savepoint_id) if inside else "",
    )


def _commit(delta: Tables, plan: StatePlan, files: list[TableFile], draft: CanonicalSavepoint) -> None:
    delta.commit(
        plan.table,
        files,
        schema=table_schema(plan.schema, ddl_to_arrow),
        app_id=f"lakestate/{draft.job}/{draft.savepoint_id}",
        version=1,
        info={"lakestate.savepoint": draft.savepoint_id, "lakestate.epoch": str(draft.epoch)},
    )
    active = delta.active(plan.table)
    if active is None or set(active.names) != {file.name for file in files}:
        raise SavepointError(
            f"The table {plan.table} of savepoint {draft.savepoint_id} does not hold what was written to it.",
            action="Take the savepoint again, to a directory into which no other process writes.",
        )


__all__ = ["remove_tables", "write_canonical"]
