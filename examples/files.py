"""A folder of Parquet files that Spark's file source reads in their order."""

import contextlib
import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

_FIRST_MODIFIED_S = 1_388_534_400  # 2014-01-01: any fixed instant will do, but the file source wants a growing one


def write_file(table: pa.Table, folder: Path, name: str, number: int) -> Path:
    """Writes one file as `<name>-00001.parquet`, …; returns its path.

    Spark's file source takes files by modification time, so each file gets one that is a second later than the one
    before. A file appears whole or not at all: it is written under a name that Spark ignores, and then renamed.

    Args:
        table: The records, in the order of the stream.
        folder: Of all the files.
        name: Of the stream.
        number: Which file it is, from 1.
    """
    path = folder / f"{name}-{number:05}.parquet"
    hidden = folder / f".{path.name}.part"
    try:
        pyarrow.parquet.write_table(table, hidden)
        modified = _FIRST_MODIFIED_S + number - 1
        os.utime(hidden, (modified, modified))
        hidden.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            hidden.unlink()  # a full disk must not hold half a file as well
        raise
    return path


def newest_number(folder: Path, name: str) -> int:
    """Returns the number of the last file that `write_file` has written there; 0 without any."""
    pattern = re.compile(rf"{re.escape(name)}-(\d+)\.parquet")
    with contextlib.suppress(FileNotFoundError):
        found = map(pattern.fullmatch, os.listdir(folder))
        return max((int(match[1]) for match in found if match), default=0)
    return 0


__all__ = ["newest_number", "write_file"]
