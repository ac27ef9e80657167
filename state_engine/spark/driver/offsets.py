"""Reads the positions of Spark's sources from the offset log of the running query (E1).

Spark writes `offsets/<batch>` before it hands out the batch. A file source records the files that a batch brought in
`sources/<i>/<log offset>`. Verified against Spark 4.2; see `docs/seeding.md`.
The epoch driver seals the positions (`EpochDriver._manifest`, E6); the next start writes them back (`seeding.py`).
"""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from state_engine.epoch.ports import SourcePositions
from state_engine.errors import MissingFileError, SourcesChangedError
from state_engine.log.source_records import SourceFile, SourceFingerprint, SourcePosition


class SparkOffsetLog:
    """The offset log of one incarnation's Spark directory.

    Args:
        directory: The query's checkpoint location, on a local disk.
        fingerprints: The sources of the job, in order.
        seeded: Source positions that the directory was seeded with; empty for a fresh start.
    """

    def __init__(
        self, directory: str, fingerprints: Sequence[SourceFingerprint], seeded: Sequence[SourcePosition]
    ) -> None:
        self._directory = directory
        self._fingerprints = tuple(fingerprints)
        self._file_offsets = [0 if p.offset and _file_offset(p.offset) is not None else -1 for p in seeded] or [
            -1
        ] * len(self._fingerprints)

    def read(self, batch_id: int) -> SourcePositions:
        """Returns the positions after a batch, with the new files of file sources.

        Raises:
            SourcesChangedError: The log has another version than 1, or another number of sources than the job.
            MissingFileError: The log of a file source has lost an entry.
        """
        with open(os.path.join(self._directory, "offsets", str(batch_id)), encoding="utf-8") as file:
            version, metadata, *lines = file.read().splitlines()
        if version != "v1" or len(lines) != len(self._fingerprints):
            raise SourcesChangedError(
                f"Spark's offset log names {len(lines)} sources in version {version!r}, the job has "
                f"{len(self._fingerprints)}.",
                action="Use offset log version 1, and one streaming DataFrame per from_stream().",
            )
        positions = [self._position(index, line) for index, line in enumerate(lines)]
        return SourcePositions(metadata=metadata, positions=tuple(positions), fingerprints=self._fingerprints)

    def advance(self, state: SourcePositions) -> None:
        """Notes that the epoch of these positions was sealed: its files are no longer new."""
        for index, position in enumerate(state.positions):
            offset = _file_offset(position.offset)
            if offset is not None:
                self._file_offsets[index] = offset

    def _position(self, index: int, line: str) -> SourcePosition:
        offset = _file_offset(line)
        if offset is None:
            return SourcePosition(offset=line)
        files: list[SourceFile] = []
        for number in range(self._file_offsets[index] + 1, offset + 1):
            files.extend(self._files_of(index, number))
        return SourcePosition(offset=line, new_files=tuple(files))

    def _files_of(self, index: int, number: int) -> list[SourceFile]:
        """Returns the files of one log entry, from its own file or from the compaction file that contains it.

        Raises:
            MissingFileError: The entry does not exist. Without its files in the manifest, the next start would read
                them a second time.
        """
        folder = os.path.join(self._directory, "sources", str(index))
        for name in _names_of(folder, number):
            entries = [e for e in _entries(os.path.join(folder, name)) if e["batchId"] == number]
            if entries:
                return [SourceFile(path=e["path"], timestamp=e["timestamp"]) for e in entries]
        raise MissingFileError(
            f"Spark's log of source {index} has no entry {number} in {folder}; which files it brought is not known.",
            action="Start the job again: it makes a new directory from the manifests, and reads these files in it.",
        )


def _entries(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().splitlines()[1:]]
    except FileNotFoundError:
        return []


def _names_of(folder: str, number: int) -> Iterator[str]:
    """Yields the files that may hold an entry; some time after a compaction Spark removes the entry's own file."""
    yield str(number)
    compactions = []
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        last, _, ending = name.partition(".")
        if ending == "compact" and last.isdecimal() and int(last) >= number:
            compactions.append(int(last))
    yield from (f"{last}.compact" for last in sorted(compactions))


def _file_offset(line: str) -> int | None:
    """Returns the log offset of a file source's line, None for other sources."""
    try:
        parsed = json.loads(line)
    except ValueError:
        return None
    if isinstance(parsed, dict) and set(parsed) == {"logOffset"}:
        return int(parsed["logOffset"])
    return None


def is_file_source(position: SourcePosition) -> bool:
    """Returns whether a position is that of a file source."""
    return _file_offset(position.offset) is not None


__all__ = ["SparkOffsetLog", "is_file_source"]
