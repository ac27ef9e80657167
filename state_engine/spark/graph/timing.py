"""Event times of a stream: turns a strategy into columns of ours, which travel after the author's."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from state_engine.api.types import StructType
from state_engine.api.watermarks import TimestampAssigner, WatermarkStrategy
from state_engine.backends.time import NO_WATERMARK
from state_engine.causes import shown
from state_engine.errors import EventTimeError, JobDefinitionError
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.serialization.convert import field_readers
from state_engine.serialization.rows import as_tuple, row_maker
from state_engine.spark.graph.between import selected
from state_engine.spark.wire.arrow_map import map_in_arrow
from state_engine.spark.wire.failures import raised_before_operators, reporting_failures
from state_engine.spark.wire.names import quote_always
from state_engine.spark.wire.rows import PARTITION
from state_engine.spark.wire.schemas import ddl_of
from state_engine.spark.wire.task_spec import travelling

_WHAT = "extract_timestamp(), on the records of source {!r},"
_OF_DATE = "cast(unix_date({0}) as bigint) * 86400000"
_MILLISECONDS: list[tuple[type[spark_types.DataType], str]] = [
    (spark_types.TimestampType, "unix_millis({0})"),
    # From its fields: functions of two timestamps, or of the time since 1970, cast it in the session's time zone. There
    # an hour that is skipped when clocks are put forward becomes another one.
    (
        spark_types.TimestampNTZType,
        _OF_DATE.format("cast({0} as date)")
        + " + hour({0}) * 3600000 + minute({0}) * 60000 + cast(extract(second from {0}) * 1000 as bigint)",
    ),
    (spark_types.DateType, _OF_DATE),
    (spark_types.IntegralType, "cast({0} as bigint)"),
]


def check_gives_time(strategy: WatermarkStrategy) -> None:
    """Raises JobDefinitionError if a strategy gives no time."""
    if strategy.timestamp is None and strategy.assigner is None:
        raise JobDefinitionError(
            "assign_timestamps_and_watermarks() got a strategy without timestamps.",
            action="Add .with_timestamp_column('<column>'), or .with_timestamp_assigner(...): Spark's records have no "
            "time by themselves.",
        )


def timing_columns(frame: DataFrame, strategy: WatermarkStrategy) -> list[str]:
    """Returns, as Spark SQL, the columns that a strategy adds to a stream, except the time that an assigner gives.

    Args:
        frame: A DataFrame of the stream's columns.
        strategy: The strategy.

    Raises:
        JobDefinitionError: Spark rejects an expression, or it gives no time.
        UnsupportedTopologyError: An expression is not deterministic, or looks at several records.
    """
    columns = []
    if strategy.timestamp is not None:
        columns.append(f"{_milliseconds(frame, strategy.timestamp)} as {EVENT_TIME}")
    if strategy.partition is not None:
        selected(frame, strategy.partition)
        columns.append(f"coalesce(cast(({strategy.partition}) as string), '') as {PARTITION}")
    return columns


def _milliseconds(frame: DataFrame, expression: str) -> str:
    """Returns an event time, as Spark SQL, in ms since the Unix epoch; a date is its midnight in UTC."""
    kind = selected(frame, f"({expression}) as t").schema["t"].dataType
    for type_, made in _MILLISECONDS:
        if isinstance(kind, type_):
            return made.format(f"({expression})")
    raise JobDefinitionError(
        f"with_timestamp_column({expression!r}) gives a {kind.simpleString()}.",
        action="Give a timestamp, a date, or a whole number of milliseconds.",
    )


def with_event_time(
    df: DataFrame, columns: StructType, strategy: WatermarkStrategy, timing: Sequence[str], *, source: str
) -> DataFrame:
    """Returns a source's DataFrame with the strategy's columns after its own.

    Args:
        df: The stream.
        columns: Its columns, without ours.
        strategy: The strategy.
        timing: The result of `timing_columns`.
        source: Name of the source, for messages.
    """
    authored = [quote_always(name) for name in columns.names]
    timed = df.selectExpr(*authored, *timing)
    if strategy.assigner is None:
        return timed
    added = [quote_always(name) for name in timed.columns[len(authored) :]]
    ddl = ", ".join([ddl_of(columns), *(f"{name} string" for name in added), f"{EVENT_TIME} bigint"])
    return map_in_arrow(timed, AssignerRunner(strategy.assigner, columns, source), ddl)


class AssignerRunner:
    """What `mapInArrow` runs for a `TimestampAssigner`: adds a column of event times.

    Args:
        assigner: The author's assigner.
        columns: Columns of the records.
        source: Name of the source, for messages.
    """

    def __init__(self, assigner: TimestampAssigner, columns: StructType, source: str) -> None:
        self._assigner = assigner
        self._columns = columns
        self._source = source

    def __reduce__(self) -> tuple[object, ...]:
        parts = self._assigner, self._columns, self._source
        return travelling(AssignerRunner, parts, _WHAT.format(self._source))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with reporting_failures():
            yield from self._run(batches)

    def _run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = field_readers(self._columns)
        make = row_maker(self._columns)
        time_of = self._assigner.extract_timestamp
        for batch in batches:
            times: list[Any] = []
            row: Any = None
            try:
                columns = [read(batch.column(n)) for read, n in zip(readers, self._columns.names, strict=True)]
                for row in map(make, *columns):
                    times.append(time_of(row, NO_WATERMARK))
                timed = batch.append_column(EVENT_TIME, _as_column(times))
            except BaseException as error:
                raise raised_before_operators(_WHAT.format(self._source), error, row) from error
            yield timed


def _as_column(times: Sequence[Any]) -> pa.Int64Array:
    try:
        return pa.array(times, pa.int64())
    except (pa.ArrowException, OverflowError):
        wrong = next(time for time in times if not _is_time(time))
        raise EventTimeError(
            f"extract_timestamp() gave {shown(wrong)}, a {type(wrong).__name__}.",
            action="Give whole ms since 1970, as an int: of a datetime, int(at.timestamp() * 1000).",
        ) from None


def _is_time(given: Any) -> bool:
    try:
        pa.scalar(given, pa.int64())
    except (pa.ArrowException, OverflowError):
        return False
    return True


def assigning(assigner: TimestampAssigner, columns: StructType) -> Callable[[Any], Any]:
    """Returns the function of a map between operators that appends a record's event time to its fields."""
    return lambda row: (*as_tuple(row, columns), assigner.extract_timestamp(row, NO_WATERMARK))


__all__ = ["AssignerRunner", "assigning", "check_gives_time", "timing_columns", "with_event_time"]
