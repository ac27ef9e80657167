"""Reads staged output for a sink: the very bytes that the epoch's manifest names."""

from state_engine.errors import MissingFileError, NotFoundError
from state_engine.log.records import OutputFile
from state_engine.storage.port import CheckpointStorage
from state_engine.storage.whole_file import check_whole


def read_staged(storage: CheckpointStorage, file: OutputFile) -> bytes:
    """Reads a staged file and compares it with the length and checksum in its manifest.

    Raises:
        MissingFileError: It is gone.
        DamagedFileError: It is not what was staged.
    """
    remedy = (
        "Bring the file back from a backup, or restore an older checkpoint or savepoint. Or start once with "
        "keep_output=True: output that is owed and cannot be paid is then left out."
    )
    try:
        data = storage.get(file.path)
    except NotFoundError as error:
        raise MissingFileError(
            f"The staged output {file.path} is gone before its sink had it.", action=remedy
        ) from error
    check_whole(data, file, named=f"The staged output {file.path}", remedy=remedy)
    return data


__all__ = ["read_staged"]
