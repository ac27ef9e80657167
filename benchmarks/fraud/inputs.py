"""Payments for the fraud job: files of JSON lines, one per epoch, and the same records as Arrow batches."""

import datetime
import json
import os
from collections.abc import Iterator
from decimal import Decimal
from itertools import count, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.data import FIRST_MODIFIED
from lakestate.examples.fraud.data import Volume, read_part
from lakestate.examples.fraud.job import FIELDS
from lakestate.examples.fraud.truth import read_line
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.serialization.types import columns_of, columns_to_arrow

PURCHASES_PER_PART = 9_600
"""With this volume a part of ten minutes has some 10,000 payments."""
INPUT = parse_columns_ddl(f"{FIELDS}, malformed string")
NAMES = INPUT.names[:-1]
_SCHEMA = columns_to_arrow(columns_of(INPUT)).append(pa.field(EVENT_TIME, pa.int64()))
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)


def write(folder: Path, *, epochs: int, epoch_records: int, cards: int) -> None:
    """Writes one file of exactly `epoch_records` lines per epoch, each modified a second after the one before."""
    folder.mkdir(parents=True)
    lines = _lines(Volume(cards, PURCHASES_PER_PART))
    for epoch in range(epochs):
        path = folder / f"payments-{epoch + 1:05d}.json"
        path.write_text("\n".join(islice(lines, epoch_records)) + "\n")
        os.utime(path, times=(FIRST_MODIFIED + epoch, FIRST_MODIFIED + epoch))


def _lines(volume: Volume) -> Iterator[str]:
    for number in count(1):
        yield from read_part(number, volume)


def read(folder: Path) -> Iterator[pa.RecordBatch]:
    """Yields the records of each file as the operator gets them: in order of event time, which is the last column."""
    for path in sorted(folder.glob("*.json")):
        records = [_record(line) for line in path.read_text().splitlines()]
        records.sort(key=lambda record: (record[-1], record[1] or 0))
        columns = zip(zip(*records, strict=True), _SCHEMA.types, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(values, kind) for values, kind in columns], schema=_SCHEMA)


def _record(line: str) -> tuple[Any, ...]:
    """Returns the columns of a line as Spark reads it, and its event time in ms."""
    given, reason = read_line(line)
    if given is None:
        return *(None for _ in NAMES), line, 0
    if reason:
        given = json.loads(line, parse_float=Decimal)
    at = datetime.datetime.fromisoformat(given["at"])
    return at, *(given.get(name) for name in NAMES[1:]), None, (at - _EPOCH) // _MS


__all__ = ["INPUT", "read", "write"]
