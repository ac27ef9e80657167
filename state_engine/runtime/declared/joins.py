"""The base of joins of two keyed streams: columns of the rows, records kept per key, and lookups by time."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.descriptors import ListStateDescriptor
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.api.output_tag import OutputTag
from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType
from state_engine.api.windows.windows import event_time
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.base import Declared, renaming, stored_rows
from state_engine.runtime.declared.comparison import Flags
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.two_inputs import INPUT, KeyedInput, TwoInputs, two_inputs
from state_engine.serialization.convert import writer
from state_engine.serialization.types import to_arrow

FARTHEST = 1 << 61
"""Event times and bounds must be nearer to 0 than this number of ms, so that their sums fit into 64 bits."""

_KEYS_AT_ONCE = 1 << 12
"""When timers fire, the records of at most this number of keys are in memory at a time."""


class Records(NamedTuple):
    """Records of one input.

    Attributes:
        codes: The numbers of their keys.
        times: Their event times, in ms.
        rows: The records as an array of structs.
    """

    codes: Numbers
    times: Numbers
    rows: Any

    def take(self, positions: Numbers) -> "Records":
        """Returns the records at these positions."""
        return Records(self.codes[positions], self.times[positions], self.rows.take(indices(positions)))

    def then(self, other: "Records") -> "Records":
        """Returns these records followed by others."""
        times = np.concatenate([self.times, other.times])
        return Records(np.concatenate([self.codes, other.codes]), times, pa.concat_arrays([self.rows, other.rows]))


class Side:
    """One of the two inputs: reads its records from the shared columns, and keeps records per key.

    Args:
        number: 1 or 2.
        state: Name of the list state that keeps its records.
        columns: Columns of its records.
        places: Position of each among the shared columns.
        key: Names of its key columns.
        keeps_unmatched: Whether its records are also given without a partner.

    Attributes:
        record_type: The Arrow type of its records.
    """

    def __init__(
        self,
        number: int,
        state: str,
        columns: StructType,
        places: Sequence[int],
        key: Sequence[str],
        *,
        keeps_unmatched: bool,
    ) -> None:
        self.number = number
        self.columns = columns
        self.keeps_unmatched = keeps_unmatched
        self._name = state
        self._places = places
        self._key_places = [places[columns.names.index(name)] for name in key]
        self._stored = StructType(("at", "record"), (Types.LONG(), stored_rows(columns)), carrier=tuple)
        self.record_type: Any = to_arrow(columns)

    def open(self, runtime_context: RuntimeContext, declared: Declared) -> None:
        """Gets the state, with the time to live of the operator."""
        self._state = runtime_context.get_list_state(declared.kept(ListStateDescriptor(self._name, self._stored)))

    def positions(self, batch: pa.RecordBatch) -> Numbers:
        """Returns the positions of this input's records."""
        return np.flatnonzero(np.asarray(batch.column(INPUT)) == self.number)

    def joinable(self, batch: pa.RecordBatch, positions: Numbers) -> Numbers:
        """Returns the positions of records that may give a row: as in SQL, a null key equals no other key."""
        if self.keeps_unmatched:
            return positions
        valid = np.ones(len(positions), bool)
        for place in self._key_places:
            valid &= np.asarray(pc.is_valid(batch.column(place)), bool)[positions]
        return positions[valid]

    def records(self, keys: Keys, batch: pa.RecordBatch, positions: Numbers) -> Records:
        """Returns the records at these positions, with the numbers of their keys among the distinct keys."""
        taken = indices(positions)
        columns = [batch.column(place).take(taken) for place in self._places]
        rows = pa.StructArray.from_arrays(columns, fields=list(self.record_type))
        return Records(keys.codes[positions], np.asarray(keys.times)[positions], rows)

    def stored(self, each: Keys, wanted: Numbers | None = None) -> Records:
        """Returns the kept records of keys, in the order of the keys and of arrival.

        Args:
            each: Distinct keys.
            wanted: The numbers of the keys to read; None for all.
        """
        lists: Any = self._state.get_many(each if wanted is None else each.take(wanted))
        counts = np.diff(np.asarray(lists.offsets)).astype(np.int64)
        times, rows = lists.flatten().flatten()
        codes = np.arange(len(each)) if wanted is None else wanted
        return Records(np.repeat(codes, counts), np.asarray(times), rows)

    def keep(self, each: Keys, new: Records) -> None:
        """Appends records to the kept records of their keys."""
        self._state.add_many(each.take(new.codes), self._entries(new))

    def replace(self, each: Keys, kept: Records, touched: Flags) -> None:
        """Replaces the kept records of some keys.

        Args:
            each: Distinct keys.
            kept: The records that stay, in the order of their keys' numbers.
            touched: Flags of the keys whose kept records change.
        """
        numbers = np.flatnonzero(touched)
        if not len(numbers):
            return
        counts = np.bincount(kept.codes, minlength=len(touched))[numbers]
        offsets: Any = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        entries = self._entries(kept.take(np.flatnonzero(touched[kept.codes])))
        self._state.put_many(each.take(numbers), pa.ListArray.from_arrays(offsets, entries))

    def _entries(self, records: Records) -> Any:
        fields: Any = to_arrow(self._stored)
        return pa.StructArray.from_arrays([pa.array(records.times), records.rows], fields=list(fields))


class Join(Declared):
    """Base of joins: an operator of two keyed streams, which makes rows from the records of both.

    A row has the columns of the first stream, then those of the second without its key columns, which are the same.

    Args:
        first: The first stream, as it is keyed.
        second: The second stream; it has the same number of key columns, of the same types.
        names: Names of the states that keep their records.
        keeps_unmatched: The number of the input whose records are also given without a partner; 0 for none.

    Attributes:
        inputs: How the records of both share columns.
        output: Columns of the rows.

    Raises:
        JobDefinitionError: A stream has no key, the types of the keys differ, or both have a column of one name.
    """

    def __init__(self, first: KeyedInput, second: KeyedInput, names: tuple[str, str], keeps_unmatched: int) -> None:
        super().__init__(None)
        if not first.key:
            raise JobDefinitionError(
                f"{self.verb}() of streams without key.", action="Call key_by(...) on both streams first."
            )
        self.inputs: TwoInputs = two_inputs(first, second)
        parts = ((first, range(len(first.columns.names))), (second, self.inputs.places))
        self.sides = tuple(
            Side(number, name, one.columns, places, one.key, keeps_unmatched=number == keeps_unmatched)
            for number, name, (one, places) in zip((1, 2), names, parts, strict=True)
        )
        self._key = first.key
        self._behind = [name for name in second.columns.names if name not in second.key]
        self._check_names(first.columns.names)
        types = [second.columns.types[second.columns.names.index(name)] for name in self._behind]
        self.output = StructType((*first.columns.names, *self._behind), (*first.columns.types, *types))

    def open(self, runtime_context: RuntimeContext) -> None:
        for side in self.sides:
            side.open(runtime_context, self)
        columns = self.sides[0].columns
        self._write_key = [writer(columns.types[columns.names.index(name)]) for name in self._key]

    def rows(self, first: Any, second: Any) -> Any:
        """Returns a row for each pair of a record of input 1 and the record of input 2 at the same position."""
        names, other_names = (side.columns.names for side in self.sides)
        left, right = (dict(zip(n, r.flatten(), strict=True)) for n, r in ((names, first), (other_names, second)))
        return pa.table({**left, **{name: right[name] for name in self._behind}})

    def alone(self, side: Side, records: Records, each: Keys) -> Any:
        """Returns rows of records of one input that have no partner.

        Args:
            side: The input.
            records: Its records.
            each: Their keys, by number.
        """
        nothing = pa.nulls(len(records.times), self.sides[2 - side.number].record_type)
        if side.number == 1:
            return self.rows(records.rows, nothing)
        rows, entries = self.rows(nothing, records.rows), each.entries
        row_keys = [entries[code] for code in records.codes.tolist()]
        # From the state's key, not the record: a later release may rename the column of the second stream.
        for n, name in enumerate(self._key):
            column = self._write_key[n](row_keys if len(self._key) == 1 else [key[n] for key in row_keys])
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows

    def late(self, tag: OutputTag | None, side: Side, keys: Keys, batch: pa.RecordBatch, late: Numbers) -> list[Any]:
        """Returns the side output of the late records at these positions; an empty list if no output takes them."""
        if tag is None or not len(late):
            return []
        records = side.records(keys, batch, late)
        rows = pa.table(list(records.rows.flatten()), names=list(side.columns.names))
        return [(tag, rows.append_column(EVENT_TIME, pa.array(records.times)))]

    def _check_names(self, own: Sequence[str]) -> None:
        taken = {name.lower() for name in own}
        for name in self._behind:
            if name.lower() in taken:
                raise JobDefinitionError(f"{self.verb}() of two streams with a column {name!r}.", action=renaming(name))


def some_at_once(keys: Keys) -> Iterator[Keys]:
    """Yields distinct keys, each with its first time, in slices of limited size."""
    first = keys.first
    for start in range(0, len(first), _KEYS_AT_ONCE):
        yield keys.take(first[start : start + _KEYS_AT_ONCE])


def event_times(keys: Keys) -> Numbers:
    """Returns the event time of each record.

    Raises:
        ValueError: A record has no event time.
        OverflowError: An event time is too far from 1970 for additions.
    """
    if keys.times is None or keys.times.null_count:
        event_time(None)
    times = np.asarray(keys.times)
    if len(times) and max(int(times.max()), -int(times.min())) >= FARTHEST:
        raise OverflowError(f"event times from {times.min()} to {times.max()} ms: none may be {FARTHEST} ms from 1970")
    return times


class Order:
    """An index of one input's records by key and time, for lookups by records of the other input.

    Args:
        records: The indexed records; those of one key and time are in the order in which they came.
        times: All times that will be looked up.
    """

    def __init__(self, records: Records, times: Sequence[Numbers]) -> None:
        self._times = np.unique(np.concatenate([records.times, *times]))
        places = self._places(records.codes, records.times)
        self.positions = order_of(places)
        self._sorted = places[self.positions]

    def at_or_after(self, codes: Numbers, times: Numbers) -> Numbers:
        """Returns the sorted position of each key's first record at or after a time, or where it would be inserted."""
        return np.searchsorted(self._sorted, self._places(codes, times), "left")

    def after(self, codes: Numbers, times: Numbers) -> Numbers:
        """Returns the sorted position of each key's first record after a time, or where it would be inserted."""
        return np.searchsorted(self._sorted, self._places(codes, times), "right")

    def _places(self, codes: Numbers, times: Numbers) -> Numbers:
        """Returns integers in the order of key and time."""
        return codes * len(self._times) + np.searchsorted(self._times, times)


__all__ = ["FARTHEST", "Join", "Order", "Records", "Side", "event_times", "some_at_once"]
