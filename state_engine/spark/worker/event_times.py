"""What a subtask reports to the driver about event time: the largest one of each partition of its edges."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from state_engine.epoch.ports import StreamEdge
from state_engine.errors import EventTimeError
from state_engine.log.records import HighestTime
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.spark.wire.rows import PARTITION


class EventTimesSeen:
    """The largest event times of a subtask's records.

    Args:
        uid: The operator.
        edges: The operator's inputs.
    """

    def __init__(self, uid: str, edges: Sequence[StreamEdge]) -> None:
        self._uid = uid
        self._own = [n for n, edge in enumerate(edges) if edge.out_of_orderness is not None]
        self._highest: dict[tuple[int, str], int] = {}

    def add(self, records: pa.RecordBatch) -> None:
        """Takes a batch of records.

        Raises:
            EventTimeError: A record of a stream with a watermark strategy has no event time.
        """
        if not self._own:
            return
        if PARTITION not in records.schema.names:
            self._check(records, records.column(EVENT_TIME))
            self._raise_to(self._own[0], "", pc.max(records.column(EVENT_TIME)).as_py())
            return
        table: Any = pa.Table.from_batches([records.select([PARTITION, EVENT_TIME])])
        table = table.filter(pc.field(PARTITION).is_valid())
        self._check(table, table.column(EVENT_TIME))
        for row in table.group_by(PARTITION).aggregate([(EVENT_TIME, "max")]).to_pylist():
            edge, _, partition = row[PARTITION].partition("|")
            self._raise_to(int(edge), partition, row[f"{EVENT_TIME}_max"])

    def seen(self) -> tuple[HighestTime, ...]:
        """Returns the largest event time of every partition that brought records."""
        return tuple(HighestTime(edge=e, partition=p, time=time) for (e, p), time in sorted(self._highest.items()))

    def _raise_to(self, edge: int, partition: str, time: int) -> None:
        self._highest[edge, partition] = max(time, self._highest.get((edge, partition), time))

    def _check(self, records: Any, times: Any) -> None:
        if not times.null_count:
            return
        record = _first(records.filter(times.is_null()).slice(0, 1))
        shown = {name: value for name, value in record.items() if not name.startswith("__ls_")}
        raise EventTimeError(
            f"A record of operator {self._uid!r} has no event time: {shown}.",
            action="Drop such records by where('... is not null') before assign_timestamps_and_watermarks(), or "
            "give them a time by coalesce(...) in with_timestamp_column().",
        )


def _first(records: Any) -> dict[str, Any]:
    """Returns a record for a message; all its values as text if it has a date that Python cannot hold."""
    try:
        return records.to_pylist()[0]  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        return {name: records.column(name).cast("string").to_pylist()[0] for name in records.schema.names}


__all__ = ["EventTimesSeen"]
