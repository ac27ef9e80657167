"""Reads a whole savepoint and reports what is wrong with it: files, checksums, rows, key groups. Changes nothing."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.epoch.request import SavepointLocation
from state_engine.errors import (
    CorruptionError,
    LakestateError,
    MissingFileError,
    NotFoundError,
    NothingToRestoreError,
    StorageError,
)
from state_engine.key_groups import SEED, hash_values
from state_engine.log.change_file import checksum_of, verify_change_file
from state_engine.log.documents import decode_pin, decode_reference, decode_savepoint, is_reference
from state_engine.log.ops import KEY_GROUP, OP, Op, ops_to_names, table_schema
from state_engine.log.paths import METADATA, elsewhere_path, manifest_path, metadata_path, pin_path
from state_engine.log.records import Manifest, Pin, StateFile, StateHandle, StateSchema
from state_engine.log.savepoints import SavepointTable
from state_engine.savepoint.catalogue import is_location, load_savepoint, location_of
from state_engine.savepoint.handles import handles_in, read_pinned
from state_engine.savepoint.source import Canonical, location_in_job, location_of_url, open_location, read_canonical
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import CheckpointStorage, check_name
from state_engine.storage.state_files import decode_state_file

Aspect = Literal["files", "checksums", "key groups", "keys", "rows"]
"""What a finding is about: a file that is gone or cannot be read, one with other bytes, key groups that are missing or
in the wrong file, keys that are not in their key group, numbers of rows."""


class Finding(NamedTuple):
    """One thing that is wrong: the file (or table) that it concerns, the problem, and the aspect that it is about."""

    path: str
    problem: str
    about: Aspect

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class ValidationReport(NamedTuple):
    """What was validated, and what is wrong with it.

    Attributes:
        savepoint_id: Empty if not even that could be read.
        kind: `native`, `canonical`, or empty.
        findings: All that is wrong.
        files: How many files were read.
        rows: How many rows of state these hold.
    """

    savepoint_id: str
    kind: str
    findings: tuple[Finding, ...]
    files: int = 0
    rows: int = 0

    @property
    def ok(self) -> bool:
        """Whether a restore would find all it needs."""
        return not self.findings


def validate_savepoint(root: str, job: str, savepoint: str) -> ValidationReport:
    """Validates a savepoint of either kind: every file by length and checksum, every row by key and key group.

    Reads all of it, one file at a time. It does not check whether a job's present code can go on from the savepoint: a
    start checks that before it writes anything.

    Args:
        root: Of the storage.
        job: The job that took it.
        savepoint: Its id, or the absolute path or address of a canonical savepoint's folder.

    Raises:
        NothingToRestoreError: There is no such savepoint.
    """
    if is_location(savepoint):
        return _at(location_of_url(savepoint), root)
    storage = open_storage(root, job)
    check_name("savepoint id", savepoint)
    if storage.exists(metadata_path(savepoint)):
        return _at(location_in_job(root, job, savepoint), root)
    if storage.exists(elsewhere_path(savepoint)):
        found = _elsewhere(root, job, savepoint)
        return found if isinstance(found, ValidationReport) else _at(found, root)
    try:
        data = storage.get(pin_path(savepoint))
    except NotFoundError:
        load_savepoint(root, job, savepoint)  # says what exists
        raise
    try:
        pin = decode_pin(data, path=pin_path(savepoint)).pin
    except CorruptionError as error:
        return _unreadable(pin_path(savepoint), error, savepoint, "native")
    return _validate_pin(storage, pin)


def _elsewhere(root: str, job: str, savepoint_id: str) -> SavepointLocation | ValidationReport:
    """Returns where a canonical savepoint was written to, or a report of what is wrong with the note about that."""
    path = elsewhere_path(savepoint_id)
    try:
        return location_of(root, decode_savepoint(open_storage(root, job).get(path), path=path).savepoint)
    except CorruptionError as error:
        return _unreadable(path, error, savepoint_id, "canonical")


def _unreadable(path: str, error: LakestateError, savepoint_id: str = "", kind: str = "") -> ValidationReport:
    about: Aspect = "files" if isinstance(error, MissingFileError) else "checksums"
    return ValidationReport(savepoint_id, kind, (Finding(path, error.message, about),))


def _at(location: SavepointLocation, root: str) -> ValidationReport:
    storage = open_location(location)
    where = f"{storage.url}/{METADATA}"
    try:
        data = storage.get(METADATA)
        if is_reference(data):
            reference = decode_reference(data, path=where)
            return validate_savepoint(reference.root, reference.job, reference.savepoint_id)
        return _validate_canonical(read_canonical(storage))
    except NotFoundError as error:
        raise NothingToRestoreError(
            f"There is no savepoint at {storage.url}: it has no {METADATA}.",
            action="Give the folder with the savepoint's `_metadata`; a savepoint that was not finished has none.",
        ) from error
    except CorruptionError as error:
        return _unreadable(where, error)


def _validate_canonical(source: Canonical) -> ValidationReport:
    findings: list[Finding] = []
    for table in source.savepoint.tables:
        findings += _check_ranges(table)
        findings += _check_table(source.storage, table)
        for file in table.files:
            findings += check_file(source.storage, table.schema, file)
    savepoint = source.savepoint
    return ValidationReport(
        savepoint.savepoint_id, savepoint.kind, tuple(findings), 1 + len(source.files), savepoint.rows
    )


def _check_ranges(table: SavepointTable) -> Iterator[Finding]:
    """Checks that every key group is in one range, and that the files of each range have the range's number of rows."""
    following = 0
    for first, last, rows in table.ranges:
        if first != following or last < first:
            problem = f"key groups {following} to {first - 1} are in no range, or in several"
            yield Finding(table.path, problem, "key groups")
        following = last + 1
        inside = sum(file.rows for file in table.files if first <= file.first and file.last <= last)
        if inside != rows:
            problem = f"key groups {first} to {last} have {inside} rows in files, expected {rows}"
            yield Finding(table.path, problem, "rows")
    if following != table.max_parallelism:
        problem = f"key groups end at {following - 1}, expected {table.max_parallelism - 1}"
        yield Finding(table.path, problem, "key groups")


def _check_table(storage: CheckpointStorage, table: SavepointTable) -> Iterator[Finding]:
    """Checks that the log of the Delta table names exactly the savepoint's files."""
    try:
        active = open_tables(storage).active(table.path)
    except StorageError as error:
        yield Finding(table.path, error.message, "files")
        return
    expected = {file.path.removeprefix(f"{table.path}/") for file in table.files}
    if active is None:
        yield Finding(table.path, "the table's log is gone", "files")
    elif set(active.names) != expected:
        difference = sorted(expected.symmetric_difference(active.names))
        yield Finding(table.path, f"the table's log and the savepoint differ in {', '.join(difference[:3])}", "files")


def check_file(storage: CheckpointStorage, schema: StateSchema, file: StateFile) -> Iterator[Finding]:
    """Yields what is wrong with one file of a state: at most one thing, since the others follow from it."""
    try:
        data = storage.get(file.path) if file.inlined is None else file.inlined
    except NotFoundError:
        yield Finding(file.path, "it is gone", "files")
        return
    if len(data) != file.length:
        yield Finding(file.path, f"it has {len(data)} bytes, expected {file.length}", "checksums")
    elif checksum_of(data) != file.checksum:
        yield Finding(file.path, f"its checksum is {checksum_of(data)}, expected {file.checksum}", "checksums")
    else:
        try:
            rows = decode_state_file(data, file)
        except CorruptionError as error:
            yield Finding(file.path, f"it cannot be read: {error.message}", "files")
            return
        yield from _check_rows(ops_to_names(rows) if file.format == "stream" else rows, schema, file)


def _check_rows(rows: pa.Table, schema: StateSchema, file: StateFile) -> Iterator[Finding]:
    wanted = table_schema(schema, ddl_to_arrow)
    groups = rows.column(KEY_GROUP).to_numpy() if KEY_GROUP in rows.column_names else np.zeros(0, np.int32)
    if rows.column_names != wanted.names:
        yield Finding(file.path, f"it has the columns {rows.column_names}, expected {wanted.names}", "files")
    elif rows.num_rows != file.rows:
        yield Finding(file.path, f"it has {rows.num_rows} rows, expected {file.rows}", "rows")
    elif (np.diff(groups) < 0).any():
        yield Finding(file.path, "its rows are not sorted by key group", "key groups")
    elif len(groups) and (groups[0] < file.first or groups[-1] > file.last or file.last >= file.max_parallelism):
        problem = f"its key groups are {groups[0]} to {groups[-1]}, expected {file.first} to {file.last}"
        yield Finding(file.path, problem, "key groups")
    elif problem := _astray(rows, groups, schema, file):
        yield Finding(file.path, problem, "keys")


def _astray(rows: pa.Table, groups: "np.ndarray[Any, Any]", schema: StateSchema, file: StateFile) -> str:
    """Returns how many keys are in a wrong key group, and the first of them, in words; empty if there are none."""
    if len(groups) and schema.kind in ("keyed", "timer") and schema.key:
        belongs = _groups_of(rows, schema, file.max_parallelism)
        # A row that resets a key group has no key.
        astray = (belongs != groups) & pc.not_equal(rows.column(OP), pa.scalar(Op.RESET_GROUP.name.lower())).to_numpy()
        if astray.any():
            row = int(np.flatnonzero(astray)[0])
            count = int(astray.sum())
            return f"{count} keys are not in their key group; row {row} is in {groups[row]}, not {belongs[row]}"
    return ""


def _groups_of(rows: pa.Table, schema: StateSchema, max_parallelism: int) -> "np.ndarray[Any, np.dtype[np.int64]]":
    hashes = np.full(rows.num_rows, SEED, np.uint64)
    for column in schema.key:
        hashes = hash_values(rows.column(column.name).to_pylist(), column.type, hashes)
    return np.mod(hashes.view(np.int64), max_parallelism)


def _validate_pin(storage: CheckpointStorage, pin: Pin) -> ValidationReport:
    try:
        pinned = read_pinned(storage, pin)
    except CorruptionError as error:
        return _unreadable(pin_path(pin.savepoint_id), error, pin.savepoint_id, pin.kind)
    findings: list[Finding] = []
    base = pinned.segment.base
    schemas = {schema.schema_id: schema for schema in base.schemas} if base is not None else {}
    for file in base.files if base is not None else ():
        findings += check_file(storage, schemas[file.schema_id], file)
    if base is not None and (rows := sum(file.rows for file in base.files)) != pin.rows:
        findings.append(Finding(pin_path(pin.savepoint_id), f"its base has {rows} rows, expected {pin.rows}", "rows"))
    for manifest in pinned.segment.manifests:
        findings += _check_acks(manifest)
        for handle in handles_in(manifest):
            findings += _check_changes(storage, handle, manifest.inlined.get(handle.path))
    return ValidationReport(
        pin.savepoint_id, pin.kind, tuple(findings), len(pin.handles) + len(pin.manifests), pin.rows
    )


def _check_acks(manifest: Manifest) -> Iterator[Finding]:
    """Checks that every subtask of every operator has acknowledged the epoch."""
    for uid, operator in manifest.operators.items() if manifest.kind == "epoch" else ():
        missing = sorted(set(range(operator.parallelism)) - {ack.subtask for ack in operator.acks})
        if missing:
            path = manifest_path(manifest.generation, manifest.epoch)
            yield Finding(path, f"subtask {missing[0]} of operator {uid} did not acknowledge", "key groups")


def _check_changes(storage: CheckpointStorage, handle: StateHandle, inlined: bytes | None) -> Iterator[Finding]:
    try:
        data = storage.get(handle.path) if inlined is None else inlined
    except NotFoundError:
        yield Finding(handle.path, "it is gone", "files")
        return
    if len(data) != handle.length:
        yield Finding(handle.path, f"it has {len(data)} bytes, expected {handle.length}", "checksums")
        return
    try:
        verify_change_file(data)
    except CorruptionError as error:
        yield Finding(handle.path, error.message, "checksums")
        return
    if checksum_of(data) != handle.checksum:
        yield Finding(handle.path, f"its checksum is {checksum_of(data)}, expected {handle.checksum}", "checksums")


__all__ = ["Aspect", "Finding", "ValidationReport", "check_file", "validate_savepoint"]
