"""Reads the rows of a state: from the files of a base, then from the change files of the manifests since.

Both readers return tables in one form (`log_schema(…, position=True)`), a piece at a time, for a range of key groups.
The load of a subtask, the publisher, savepoints and inspection all use them. Nothing is read that cannot overlap.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, takewhile
from typing import NamedTuple

import pyarrow as pa

from state_engine.errors import DamagedFileError, MissingFileError, NotFoundError, StateTypeChangedError
from state_engine.log.change_file import read_state
from state_engine.log.documents import decode_base
from state_engine.log.evolution import convert_rows, counts
from state_engine.log.fold import fold
from state_engine.log.lineage import check_joins
from state_engine.log.ops import log_schema, ops_to_codes, with_position
from state_engine.log.records import Base, BaseReference, Manifest, StateHandle, StateSchema
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.port import ObjectReader
from state_engine.storage.state_files import read_state_file

_ENOUGH_ROWS = 1 << 12
_REMEDY = "Bring the file back from a backup, or restore an older checkpoint or savepoint (see `list_savepoints`)."


class Segment(NamedTuple):
    """A piece of a state's history in one storage: a base, if it has one, and the manifests after it, in order."""

    storage: ObjectReader
    base: Base | None
    manifests: Sequence[Manifest]


def read_base(storage: ObjectReader, reference: BaseReference) -> Base:
    """Reads a base and checks that it is the one that the reference names.

    Raises:
        MissingFileError: It is gone.
        DamagedFileError: It is not what was written, or another base has its path.
    """
    try:
        stored = decode_base(storage.get(reference.path), path=reference.path)
    except NotFoundError as error:
        raise MissingFileError(f"The base {reference.path} is gone.", action=_REMEDY) from error
    if stored.hash != reference.checksum:
        raise DamagedFileError(
            f"The base {reference.path} has the checksum {stored.hash}, expected {reference.checksum}.", action=_REMEDY
        )
    base = stored.base
    if (base.generation, base.epoch) != (reference.generation, reference.epoch):
        raise DamagedFileError(
            f"The base {reference.path} is of epoch {base.epoch} of generation {base.generation}, but its reference "
            f"names epoch {reference.epoch} of generation {reference.generation}.",
            action=_REMEDY,
        )
    return base


def read_base_rows(storage: ObjectReader, base: Base, schema: StateSchema, first: int, last: int) -> Iterator[pa.Table]:
    """Reads the rows of one state in key groups `first` to `last`, both inclusive, file by file.

    Only row groups that overlap are fetched; of a stream, only the key groups. A file that is read whole is verified by
    length and checksum, parts of files by the checksums of their pages or blocks.

    Raises:
        MissingFileError: A file that the base names is gone.
        DamagedFileError: A file is not what the base records.
        StateTypeChangedError: The rows do not fit the schema.
    """
    if not counts(schema, base.epoch):
        return
    schema_ids = {old.schema_id for old in base.schemas if (old.uid, old.name) == (schema.uid, schema.name)}
    schema_ids.add(schema.schema_id)
    for file in base.files:
        if file.schema_id not in schema_ids or file.last < first or file.first > last:
            continue
        table = read_state_file(storage, file, first, last)
        if table is not None:
            yield _conform(schema, table, base.epoch, file.path)


def read_change_rows(
    storage: ObjectReader, manifest: Manifest, schema: StateSchema, first: int, last: int
) -> Iterator[pa.Table]:
    """Reads the changes of one epoch to one state in key groups `first` to `last`, both inclusive.

    Changes that are inlined in the manifest are read from the manifest. Few rows of many subtasks come together: a
    table costs more than the few rows in it.

    Raises:
        MissingFileError: A change file that the manifest names is gone.
        DamagedFileError: A section is not what the manifest records.
        StateTypeChangedError: The rows do not fit the schema.
    """
    held: list[pa.Table] = []
    of_held, count = "", 0
    for rows, path in _written_rows(storage, manifest, schema, first, last):
        if held and (rows.schema != held[0].schema or count >= _ENOUGH_ROWS):
            yield _conform(schema, with_position(pa.concat_tables(held), manifest.epoch), manifest.epoch, of_held)
            held, count = [], 0
        of_held = path if not held else of_held
        held.append(rows)
        count += rows.num_rows
    if held:
        yield _conform(schema, with_position(pa.concat_tables(held), manifest.epoch), manifest.epoch, of_held)


def _written_rows(
    storage: ObjectReader, manifest: Manifest, schema: StateSchema, first: int, last: int
) -> Iterator[tuple[pa.Table, str]]:
    """Yields the rows of each subtask as they were written, with the path of their file."""
    operator = manifest.operators.get(schema.uid)
    for ack in operator.acks if operator is not None and counts(schema, manifest.epoch) else ():
        if ack.changes is None:
            continue
        handle = ack.changes
        try:
            rows = read_state(_fetcher(storage, manifest, handle), handle, schema.name, first, last)
        except NotFoundError as error:
            raise MissingFileError(
                f"The change file {handle.path} of epoch {manifest.epoch} is gone.", action=_REMEDY
            ) from error
        if rows is not None:
            yield rows, handle.path


def read_log_rows(segments: Sequence[Segment], schema: StateSchema, first: int, last: int) -> Iterator[pa.Table]:
    """Reads all rows of a state in a range of key groups, oldest first."""
    for storage, base, manifests in segments:
        if base is not None:
            yield from read_base_rows(storage, base, schema, first, last)
        for manifest in manifests:
            yield from read_change_rows(storage, manifest, schema, first, last)


def history_of(
    base: Base | None, own: str, manifests: Sequence[Manifest], storage_of: Callable[[str], ObjectReader]
) -> list[Segment]:
    """Returns a history as segments, cut where it crosses from the job from which this one was forked.

    Args:
        base: Where the history begins; it belongs to the job of the first manifest, or to `own` without manifests.
            None if `own` has no base: the history then begins after the base of the other job, if that job has one.
        own: The job that the history belongs to.
        manifests: After the base, oldest first.
        storage_of: Opens the storage of a job.

    Raises:
        DamagedManifestError: The manifests do not follow the base.
        CorruptionError: A base is gone or damaged.
    """
    if base is None:
        base = inherited_base(own, manifests, storage_of)
    elif manifests:
        check_joins(manifests[0], base)
    jobs = [(job, tuple(group)) for job, group in groupby(manifests, key=lambda m: m.job)] or [(own, ())]
    return [Segment(storage_of(job), base if n == 0 else None, group) for n, (job, group) in enumerate(jobs)]


def inherited_base(own: str, manifests: Sequence[Manifest], storage_of: Callable[[str], ObjectReader]) -> Base | None:
    """Reads the base after which the chain of a fork begins (`ManifestLog.chain`): that of the restored epoch.

    Args:
        own: The job that the history belongs to.
        manifests: Oldest first.
        storage_of: Opens the storage of a job.

    Returns:
        The base, which belongs to the job of the first manifest; None if that job is `own`, or has no base.

    Raises:
        CorruptionError: The base is gone or damaged, or the manifests do not follow it.
    """
    job = manifests[0].job if manifests else own
    if job == own:
        return None
    *_, restored = takewhile(lambda manifest: manifest.job == job, manifests)
    if restored.base is None:
        return None
    base = read_base(storage_of(job), restored.base)
    check_joins(manifests[0], base)
    return base


def load_groups(segments: Sequence[Segment], schema: StateSchema, first: int, last: int) -> pa.Table:
    """Returns the live rows of a state in key groups `first` to `last`, both inclusive, sorted by key group."""
    rows = list(read_log_rows(segments, schema, first, last))
    return fold(schema, [empty_rows(schema), *rows])


def empty_rows(schema: StateSchema) -> pa.Table:
    """Returns an empty table, in the form that the readers return."""
    return log_schema(schema, ddl_to_arrow, position=True).empty_table()


def _fetcher(storage: ObjectReader, manifest: Manifest, handle: StateHandle) -> Callable[[int, int], bytes]:
    inlined = manifest.inlined.get(handle.path)
    if inlined is not None:
        return lambda offset, length: inlined[offset : offset + length]
    return lambda offset, length: storage.get_range(handle.path, offset, length)


def _conform(schema: StateSchema, table: pa.Table, epoch: int, path: str) -> pa.Table:
    """Converts rows, written or folded in an epoch, to the types of the schema; refuses rows that do not fit."""
    target = log_schema(schema, ddl_to_arrow, position=True)
    try:
        rows = convert_rows(schema, ops_to_codes(table), epoch)
        return rows if rows.schema == target else rows.select(target.names).cast(target)
    except (KeyError, pa.ArrowException) as error:
        raise StateTypeChangedError(
            f"State {schema.name!r} of operator {schema.uid!r} was written to {path} with other types: {error}.",
            action="Restore with the types that it was written with, or migrate the state.",
        ) from error


__all__ = [
    "Segment",
    "empty_rows",
    "history_of",
    "inherited_base",
    "load_groups",
    "read_base",
    "read_base_rows",
    "read_change_rows",
    "read_log_rows",
]
