"""Writes a folder of files that Spark's file source reads in order: Parquet, or lines of text."""

import contextlib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

_FIRST_MODIFIED_S = 1_388_534_400  # 2014-01-01: any fixed time works, but the file source needs times that grow


def write_file(table: pa.Table, folder: Path, name: str, number: int) -> Path:
    """Writes one file as `<name>-00001.parquet`, …; returns its path.

    Spark's file source reads files by modification time, so each file gets a time one second later than that of the
    file before. A file appears complete or not at all: it is written under a name that Spark ignores, and then renamed.

    Args:
        table: The records, in the order of the stream.
        folder: Of all the files.
        name: Of the stream.
        number: Number of the file, starting at 1.
    """
    return _write(folder, f"{name}-{number:05}.parquet", number, lambda path: pyarrow.parquet.write_table(table, path))


def write_lines(lines: Iterable[str], folder: Path, name: str, number: int) -> Path:
    """Writes one file as `<name>-00001.json`, …, a record a line; otherwise like `write_file`."""
    text = "".join(f"{line}\n" for line in lines)
    return _write(folder, f"{name}-{number:05}.json", number, lambda path: path.write_text(text, encoding="utf-8"))


def _write(folder: Path, name: str, number: int, write: Callable[[Path], object]) -> Path:
    path = folder / name
    hidden = folder / f".{name}.part"
    try:
        write(hidden)
        modified = _FIRST_MODIFIED_S + number - 1
        os.utime(hidden, (modified, modified))
        hidden.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            hidden.unlink()  # so that a full disk does not also keep half a file
        raise
    return path


def newest_number(folder: Path, name: str, ending: str = "parquet") -> int:
    """Returns the number of the last file of a stream that was written to a folder; 0 if there is none."""
    pattern = re.compile(rf"{re.escape(name)}-(\d+)\.{re.escape(ending)}")
    with contextlib.suppress(FileNotFoundError):
        matches = map(pattern.fullmatch, os.listdir(folder))
        return max((int(match[1]) for match in matches if match), default=0)
    return 0


__all__ = ["newest_number", "write_file", "write_lines"]
