"""A file that was read whole, against the length and the checksum of when it was written."""

from state_engine.errors import DamagedFileError
from state_engine.log.change_file import checksum_of
from state_engine.log.records import OutputFile, StateFile, StateHandle


def check_whole(data: bytes, file: OutputFile | StateFile | StateHandle, *, named: str, remedy: str) -> None:
    """Compares what was read of a file with what names it.

    Args:
        data: All bytes of the file.
        file: What names it.
        named: What the file is called in the message.
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
