"""Reads a canonical savepoint from its folder: where the folder is, what it holds, the history that folds to it."""

from typing import NamedTuple

from state_engine.epoch.request import SavepointLocation
from state_engine.errors import DamagedFileError, DamagedManifestError, MissingFileError, NotFoundError
from state_engine.log.documents import decode_savepoint
from state_engine.log.manifest import StoredManifest, decode_manifest
from state_engine.log.paths import METADATA, savepoint_folder
from state_engine.log.records import StateFile
from state_engine.log.savepoints import CanonicalSavepoint
from state_engine.storage.folder import FolderStorage
from state_engine.storage.open import open_root
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.state_reader import Segment
from state_engine.storage.whole_file import check_whole

REMEDY = "Restore another savepoint, or bring the file back from a backup."


class Canonical(NamedTuple):
    """A canonical savepoint that was read: its folder, its metadata, their hash, and the manifest of its epoch."""

    storage: CheckpointStorage
    savepoint: CanonicalSavepoint
    hash: str
    head: StoredManifest

    @property
    def segment(self) -> Segment:
        """All its state: a base without manifests after it."""
        return Segment(self.storage, self.savepoint.base(), ())

    @property
    def files(self) -> tuple[StateFile, ...]:
        """The files of all tables."""
        return tuple(file for table in self.savepoint.tables for file in table.files)


def location_in_job(root: str, job: str, savepoint_id: str) -> SavepointLocation:
    """Returns the location, in its job, of a canonical savepoint that was not written to another directory."""
    return SavepointLocation(url=f"{root.rstrip('/')}/{job}", folder=savepoint_folder(savepoint_id))


def location_of_url(url: str) -> SavepointLocation:
    """Returns the location of a savepoint, given the address of its folder or of the `_metadata` in it."""
    return SavepointLocation(url=url.rstrip("/").removesuffix(f"/{METADATA}") or "/")


def open_location(location: SavepointLocation) -> CheckpointStorage:
    """Opens the folder of a savepoint as a storage."""
    storage = open_root(location.url)
    return FolderStorage(storage, location.folder) if location.folder else storage


def read_canonical(storage: CheckpointStorage) -> Canonical:
    """Reads and verifies the metadata of the savepoint in a folder; no table is read.

    Raises:
        NotFoundError: There is no savepoint, or it was never finished.
        CorruptionError: The metadata, or the manifest in them, are not what was written.
    """
    where = f"{storage.url}/{METADATA}"
    stored = decode_savepoint(storage.get(METADATA), path=where)
    head = decode_manifest(bytes(stored.savepoint.sealed), path=where)
    if head.hash != stored.savepoint.manifest:
        raise DamagedManifestError(
            f"The manifest in {where} has the hash {head.hash}, expected {stored.savepoint.manifest}.", action=REMEDY
        )
    return Canonical(storage, stored.savepoint, stored.hash, head)


def verify_lengths(source: Canonical) -> None:
    """Checks that all files exist with their lengths; one listing per table, contents are not read.

    Raises:
        MissingFileError: A file is gone.
        DamagedFileError: A file has another length.
    """
    lengths = {
        info.path: info.size
        for table in source.savepoint.tables
        for info in source.storage.list(table.path, recursive=False)
    }
    for file in source.files:
        if file.path not in lengths:
            raise missing(source, file)
        if lengths[file.path] != file.length:
            raise DamagedFileError(
                f"{source.storage.url}/{file.path}, which savepoint {source.savepoint.savepoint_id} needs, has "
                f"{lengths[file.path]} bytes, expected {file.length}.",
                action=REMEDY,
            )


def read_file(source: Canonical, file: StateFile) -> bytes:
    """Reads a file whole and checks that it is what was written.

    Raises:
        MissingFileError: It is gone.
        DamagedFileError: Length or checksum differ.
    """
    try:
        data = source.storage.get(file.path)
    except NotFoundError as error:
        raise missing(source, file) from error
    named = f"{source.storage.url}/{file.path} of savepoint {source.savepoint.savepoint_id}"
    check_whole(data, file, named=named, remedy=REMEDY)
    return data


def missing(source: Canonical, file: StateFile) -> MissingFileError:
    """Returns the error that names a file which is gone."""
    return MissingFileError(
        f"{source.storage.url}/{file.path}, which savepoint {source.savepoint.savepoint_id} needs, is gone.",
        action=REMEDY,
    )


__all__ = [
    "REMEDY",
    "Canonical",
    "location_in_job",
    "location_of_url",
    "missing",
    "open_location",
    "read_canonical",
    "read_file",
    "verify_lengths",
]
