"""Staged output as a sink takes it: the very bytes that the epoch's manifest names."""

from state_engine.errors import DamagedFileError, MissingFileError, NotFoundError
from state_engine.log.change_file import checksum_of
from state_engine.log.records import OutputFile
from state_engine.storage.port import CheckpointStorage


def read_staged(storage: CheckpointStorage, file: OutputFile) -> bytes:
    """Reads a staged file and compares it with what its manifest says.

    Raises:
        MissingFileError: It is gone.
        DamagedFileError: It is not what was staged.
    """
    remedy = (
        "Bring the file back from a backup, or restore an older checkpoint or savepoint. Or start once with "
        "keep_output=True: what is owed and cannot be paid is then left out."
    )
    try:
        data = storage.get(file.path)
    except NotFoundError as error:
        raise MissingFileError(
            f"The staged output {file.path} is gone before its sink had it.", action=remedy
        ) from error
    if len(data) != file.length or checksum_of(data) != file.checksum:
        raise DamagedFileError(
            f"The staged output {file.path} has {len(data)} bytes with checksum {checksum_of(data)}; expected are "
            f"{file.length} with {file.checksum}.",
            action=remedy,
        )
    return data


__all__ = ["read_staged"]
