"""Rows that an operator instance emits, with their event times where a downstream operator needs them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from state_engine.api.types import StructType
from state_engine.runtime.fresh_tuples import gives_fresh_tuples
from state_engine.runtime.outputs import MAIN, OutputValueError, OutputWriter, is_tagged, split_by_tag
from state_engine.serialization.copies import RowCopies

EVENT_TIME = "__ls_time"
"""Column after those of a record: its event time in ms, null without one."""


class Emitted:
    """Collects the rows of a function in their order, each as it was when the function gave it.

    Args:
        copies: Copies the rows.
        timed: Whether their event times are needed.

    Attributes:
        rows: Rows, and `(tag, row)` pairs.
        times: The event time of each; None if event times are not needed.
    """

    __slots__ = ("_copies", "_take", "rows", "times")

    def __init__(self, copies: RowCopies, *, timed: bool) -> None:
        self.rows: list[Any] = []
        self.times: list[int | None] | None = [] if timed else None
        self._copies = copies
        self._take = copies.into(self.rows)

    def taking(self, call: Any) -> Callable[[Iterable[Any]], None]:
        """Returns the function that adds the rows of a method, for rows whose event times are not needed."""
        fresh = self._copies.takes_tuples and gives_fresh_tuples(call)
        return self.rows.extend if fresh else self._take

    def add(self, given: Iterable[Any], time: int | None) -> None:
        """Adds the rows that one call of the function gave."""
        before = len(self.rows)
        self._take(given)
        if self.times is not None:
            times = given.times if isinstance(given, TimedRows) else [time] * (len(self.rows) - before)
            self.times.extend(times)


class TimedRows(list[Any]):
    """Rows with event times of their own, instead of the time of the record or timer that made them.

    Attributes:
        times: The event time of each.
    """

    def __init__(self) -> None:
        super().__init__()
        self.times: list[int | None] = []

    def add(self, given: Iterable[Any], time: int | None) -> None:
        """Adds rows of one event time."""
        before = len(self)
        self.extend(given)
        self.times.extend([time] * (len(self) - before))


class Rows(NamedTuple):
    """Rows of a main output as the function gave them.

    Attributes:
        rows: The rows.
        times: The event time of each; None if event times are not needed.
    """

    rows: list[Any]
    times: list[int | None] | None


class EmittedWriter:
    """Makes record batches of the rows that an instance emitted.

    Args:
        output: Columns of the main output.
        side_outputs: Columns of each side output that has a reader, by tag id; rows of others are dropped.
        keeps_rows: Whether the next operator takes the rows of the main output as Python objects, from `kept`.
        writes_main: Whether the main output becomes columns.
        timed_side_outputs: Side outputs whose rows have event times, if those of the main output do.

    Attributes:
        kept: Rows of the main output, of the last call of `write`.
    """

    def __init__(
        self,
        output: StructType,
        side_outputs: dict[str, StructType],
        *,
        keeps_rows: bool = False,
        writes_main: bool = True,
        timed_side_outputs: Sequence[str] = (),
    ) -> None:
        self._main = OutputWriter(MAIN, output)
        self._side = {tag: OutputWriter(tag, struct) for tag, struct in side_outputs.items()}
        self._has_tags = False
        self._keeps_rows = keeps_rows
        self._writes_main = writes_main
        self._timed_side_outputs = frozenset(timed_side_outputs)
        self.kept: Rows | None = None

    def write(self, emitted: Emitted) -> dict[str, pa.RecordBatch]:
        """Returns one batch per output that got rows: `main`, and the tag ids that have readers.

        A timed output has the column `EVENT_TIME` after its own columns.

        Raises:
            OutputValueError: A row does not fit its output's columns.
        """
        rows, times = emitted.rows, emitted.times
        if not rows:
            return {}
        if not self._has_tags and self._keeps_rows:
            self._has_tags = any(map(is_tagged, rows))
            if not self._has_tags:
                return self._plain(rows, times)
        if not self._has_tags:
            try:
                return self._plain(rows, times)
            except OutputValueError:
                self._has_tags = any(map(is_tagged, rows))  # only when the rows are not plain: it costs 50 ns a row
                if not self._has_tags:
                    raise
        main, tagged = split_by_tag(rows)
        times_aside: dict[str, list[int | None]] = {}
        if times is not None:
            if self._timed_side_outputs:
                times_aside = _times_by_tag(rows, times)
            times = [time for row, time in zip(rows, times, strict=True) if not is_tagged(row)]
        batches = self._plain(main, times) if main else {}
        for tag, of_tag in tagged.items():
            if tag in self._side:
                tag_times = times_aside.get(tag) if tag in self._timed_side_outputs else None
                batches[tag] = _with_times(self._side[tag].write(of_tag), tag_times)
        return batches

    def _plain(self, rows: list[Any], times: list[int | None] | None) -> dict[str, pa.RecordBatch]:
        """Writes rows that all belong to the main output."""
        if self._keeps_rows:
            self.kept = Rows(rows, times)
        return {MAIN: _with_times(self._main.write(rows), times)} if self._writes_main else {}


def _times_by_tag(rows: Sequence[Any], times: Sequence[int | None]) -> dict[str, list[int | None]]:
    """Returns the event times of the `(tag, row)` pairs among rows, by tag id, in order."""
    by_tag: dict[str, list[int | None]] = {}
    for row, time in zip(rows, times, strict=True):
        if is_tagged(row):
            by_tag.setdefault(row[0].tag_id, []).append(time)
    return by_tag


def _with_times(batch: pa.RecordBatch, times: list[int | None] | None) -> pa.RecordBatch:
    return batch if times is None else batch.append_column(EVENT_TIME, pa.array(times, pa.int64()))


__all__ = ["EVENT_TIME", "Emitted", "EmittedWriter", "Rows", "TimedRows"]
