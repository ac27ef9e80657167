"""Files that are read at another place than before: checks that they are the same, and finds them there.

Spark's log of a file source has full paths and times: a file below another folder, or with another time, may be taken
for a new one.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from state_engine.epoch.source_changes import is_file_format, is_moved
from state_engine.epoch.source_paths import followed
from state_engine.errors import SourcesChangedError
from state_engine.log.records import Manifest
from state_engine.log.source_records import SourceFile, SourceFingerprint


def follow_files(
    files: Iterable[SourceFile], recorded: SourceFingerprint, now: SourceFingerprint
) -> Iterator[SourceFile]:
    """Yields files with their paths below the place where the source reads now.

    Args:
        files: As they were recorded while the source read at `recorded`, or before.
        recorded: The source as it was then.
        now: The source as it is.
    """
    former = (*recorded.former, recorded.path, *now.former)
    for file in files:
        yield replace(file, path=followed(file.path, former, now.path))


def check_moved(
    target: Manifest,
    now: Sequence[SourceFingerprint],
    files: Sequence[Sequence[SourceFile]],
    allowed: Iterable[int],
) -> None:
    """Checks the file sources that a start allows to have moved; what may not move at all is refused elsewhere.

    Args:
        target: The epoch that the job goes on from.
        now: The sources as the job declares them.
        files: Per source, what it has read up to that epoch.
        allowed: Numbers of the sources that may have changed.

    Raises:
        SourcesChangedError: Files at the new place have other times.
    """
    if len(target.fingerprints) != len(now):
        return
    for number in allowed:
        if number >= len(target.sources) or not is_moved(old := target.fingerprints[number], new := now[number]):
            continue
        if is_file_format(new) and number < len(files):
            _check_times(number, new.path, list(follow_files(files[number], old, new)))


def _check_times(number: int, path: str, files: Sequence[SourceFile]) -> None:
    changed = [file.path for file in files if _time_of(file.path) not in (None, file.timestamp)]
    if changed:
        raise SourcesChangedError(
            f"Source {number}: {len(changed)} of {len(files)} files that were read have another modification time "
            f"below {path}, such as {changed[0]}: they may be other files, and Spark may read them again.",
            action="Move the folder, or copy it with its times (mv, cp -p, rsync -t). Give new files names that the "
            "old ones did not have.",
        )


def _time_of(url: str) -> int | None:
    """Returns when a local file was modified, in ms since 1970-01-01 UTC; None if it does not exist."""
    try:
        return os.stat(unquote(urlsplit(url).path)).st_mtime_ns // 1_000_000
    except OSError:
        return None


__all__ = ["check_moved", "follow_files"]
