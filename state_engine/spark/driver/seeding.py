"""S4: makes a fresh Spark directory, from which the next batch begins where the manifests say.

The directory is a cache: each start makes a new one, from the manifests and the base that they name, and never
continues an old one. `docs/seeding.md` has the recipe, and what Spark does when a part is missing.
"""

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Sequence

from state_engine.errors import NotWritableError, SourceFileMissingError
from state_engine.log.source_records import SourceFile, SourcePosition
from state_engine.spark.driver.offsets import is_file_source

_VERSION = "v1"
_BATCHES = ("0", "1")
"""Two batches that are done, and have the same offsets.

When Spark starts, it plans the last one that is done once more. After only one that would be everything from the
beginning, for which a Delta source needs an older version of its table than the position, and fails without it.
"""
_INCARNATION = re.compile("[0-9a-f]{32}")


def seed(
    directory: str, metadata: str, positions: Sequence[SourcePosition], files: Sequence[Sequence[SourceFile]]
) -> None:
    """Writes a directory from which Spark plans batch 2, right after `positions`.

    Args:
        directory: A path that does not exist yet, on a local disk.
        metadata: Second line of the offset file, verbatim from the manifest.
        positions: One per source. Empty for a job that has not sealed an epoch with data, or has
            `replays=False`; it then starts where its sources' options say.
        files: Per source, all files that it has seen up to here, oldest first (empty for other sources).

    Raises:
        NotWritableError: The directory cannot be written.
    """
    try:
        os.makedirs(directory, exist_ok=False)
        if not positions:
            return
        _write(os.path.join(directory, "metadata"), json.dumps({"id": str(uuid.uuid4())}))
        lines = ['{"logOffset":0}' if is_file_source(p) else p.offset for p in positions]
        watermark = json.loads(metadata).get("batchWatermarkMs", 0) if metadata else 0
        commit = json.dumps({"nextBatchWatermarkMs": watermark}, separators=(",", ":"))
        for batch in _BATCHES:
            _write(os.path.join(directory, "offsets", batch), "\n".join([_VERSION, metadata, *lines]))
            _write(os.path.join(directory, "commits", batch), f"{_VERSION}\n{commit}")
        for index, position in enumerate(positions):
            if is_file_source(position):
                _write(os.path.join(directory, "sources", str(index), "0"), _file_log(files[index]))
    except OSError as error:
        raise NotWritableError(
            f"Spark's directory {directory} cannot be written: {error}.",
            action="Give the job a local folder that it may write to, with free space.",
        ) from error


def _file_log(files: Sequence[SourceFile]) -> str:
    """Returns Spark's log of the files that a source has read.

    Every line but the last has batch -1: original ids repeat rows after a compaction, and 0 on all lines takes minutes.
    """
    last = len(files) - 1
    entries = [
        json.dumps({"path": f.path, "timestamp": f.timestamp, "batchId": 0 if n == last else -1}, separators=(",", ":"))
        for n, f in enumerate(files)
    ]
    return "\n".join([_VERSION, *entries])


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{uuid.uuid4().hex}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)


def remove_others(directory: str) -> None:
    """Removes the directories of earlier incarnations beside this one, except the newest of them.

    The fenced driver may still use that one, and shall end because it learns that it is fenced. A directory that cannot
    be removed does no harm.
    """
    parent, kept = os.path.split(directory)
    others = [
        os.path.join(parent, name) for name in os.listdir(parent) if name != kept and _INCARNATION.fullmatch(name)
    ]
    for earlier in sorted(others, key=os.path.getmtime)[:-1]:
        shutil.rmtree(earlier, ignore_errors=True)


def check_files_exist(paths: Sequence[str], missing: Callable[[Sequence[str]], Sequence[str]]) -> None:
    """Refuses a restore that must read files again which are gone.

    Args:
        paths: The files.
        missing: Returns those that do not exist.

    Raises:
        SourceFileMissingError: There are any.
    """
    gone = missing(paths)
    if gone:
        shown = ", ".join(gone[:3]) + (f" and {len(gone) - 3} more" if len(gone) > 3 else "")
        raise SourceFileMissingError(
            f"{len(gone)} source files that were read after the restored epoch are gone: {shown}.",
            action="Put them back under the same names, or restore a later savepoint.",
        )


__all__ = ["check_files_exist", "remove_others", "seed"]
