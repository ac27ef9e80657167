"""Compares a file that was read whole with the length and the checksum recorded when it was written."""

from state_engine.errors import DamagedFileError
from state_engine.log.change_file import checksum_of
from state_engine.log.records import OutputFile, StateFile, StateHandle


def check_whole(data: bytes, file: OutputFile | StateFile | StateHandle, *, named: str, remedy: str) -> None:
    """Compares the bytes of a file with the length and the checksum in its handle.

    Args:
        data: All bytes of the file.
        file: The handle.
        named: The name of the file in the message.
        remedy: What the reader can do.

    Raises:
        DamagedFileError: Length or checksum differ.
    """
    if len(data) != file.length or checksum_of(data) != file.checksum:
        raise DamagedFileError(
            f"{named} has {len(data)} bytes with checksum {checksum_of(data)}; expected are {file.length} with "
            f"{file.checksum}.",
            action=remedy,
        )


__all__ = ["check_whole"]
