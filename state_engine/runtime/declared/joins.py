"""What joins of two keyed streams have in common: columns of the rows, records kept per key, and pairs by time."""

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
"""Event times and bounds are nearer to 0 than so many ms: their sums then have room in 64 bits."""

_KEYS_AT_ONCE = 1 << 12
"""What is kept of so many keys is at hand at once when their timers fire."""


class Records(NamedTuple):
    """Records of one input.

    Attributes:
        codes: The numbers of their keys.
        times: Their event times, in ms.
        rows: An array of structs.
    """

    codes: Numbers
    times: Numbers
    rows: Any

    def take(self, positions: Numbers) -> "Records":
        """Returns those at these positions."""
        return Records(self.codes[positions], self.times[positions], self.rows.take(indices(positions)))

    def then(self, other: "Records") -> "Records":
        """Returns these and others behind them."""
        times = np.concatenate([self.times, other.times])
        return Records(np.concatenate([self.codes, other.codes]), times, pa.concat_arrays([self.rows, other.rows]))


class Side:
    """One of the two inputs: its records in the columns that both share, and those that are kept per key.

    Args:
        number: 1 or 2.
        state: Name of the list state that has its records.
        columns: Of its records.
        places: Position of each among the shared columns.
        key: Names of its key columns.
        keeps_unmatched: Whether its records are given without a partner, too.

    Attributes:
        record_type: Of its records, as Arrow has it.
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
        """Asks for the state, which is kept as the operator says."""
        self._state = runtime_context.get_list_state(declared.kept(ListStateDescriptor(self._name, self._stored)))

    def positions(self, batch: pa.RecordBatch) -> Numbers:
        """Returns where the records of this input are."""
        return np.flatnonzero(np.asarray(batch.column(INPUT)) == self.number)

    def joinable(self, batch: pa.RecordBatch, positions: Numbers) -> Numbers:
        """Returns those that may be in a row: as in SQL, no null is equal to another one."""
        if self.keeps_unmatched:
            return positions
        there = np.ones(len(positions), bool)
        for place in self._key_places:
            there &= np.asarray(pc.is_valid(batch.column(place)), bool)[positions]
        return positions[there]

    def records(self, keys: Keys, batch: pa.RecordBatch, positions: Numbers) -> Records:
        """Returns the records at these positions, by the numbers of their keys among the distinct ones."""
        taken = indices(positions)
        columns = [batch.column(place).take(taken) for place in self._places]
        rows = pa.StructArray.from_arrays(columns, fields=list(self.record_type))
        return Records(keys.codes[positions], np.asarray(keys.times)[positions], rows)

    def stored(self, each: Keys, wanted: Numbers | None = None) -> Records:
        """Returns what is kept of keys, in their order and that in which it came.

        Args:
            each: Keys, each once.
            wanted: The numbers of those that are asked for; None for all.
        """
        lists: Any = self._state.get_many(each if wanted is None else each.take(wanted))
        counts = np.diff(np.asarray(lists.offsets)).astype(np.int64)
        times, rows = lists.flatten().flatten()
        codes = np.arange(len(each)) if wanted is None else wanted
        return Records(np.repeat(codes, counts), np.asarray(times), rows)

    def keep(self, each: Keys, new: Records) -> None:
        """Puts records behind those that are kept of their keys."""
        self._state.add_many(each.take(new.codes), self._entries(new))

    def replace(self, each: Keys, kept: Records, touched: Flags) -> None:
        """Replaces what is kept of some keys.

        Args:
            each: Keys, each once.
            kept: What stays, in the order of their numbers.
            touched: The keys for which this is other than before.
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
    """Two keyed streams in one operator, which makes rows of the records of both.

    A row has the columns of the first stream, then those of the second but for its key columns, which hold the same.

    Args:
        first: The first stream, as it is keyed.
        second: The second one; as many key columns, of the same types.
        names: Of the states that keep their records.
        keeps_unmatched: The number of the input whose records are given without a partner, too; 0 for none.

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
                f"{self.verb}() of streams without key.", action="Put key_by(...) in front of both."
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
        """Returns rows of records of both inputs, one by one."""
        names, other_names = (side.columns.names for side in self.sides)
        own, others = (dict(zip(n, r.flatten(), strict=True)) for n, r in ((names, first), (other_names, second)))
        return pa.table({**own, **{name: others[name] for name in self._behind}})

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
        own = [entries[code] for code in records.codes.tolist()]
        # Of the state's key, not of the record: a later release may call the column of the second stream otherwise.
        for n, name in enumerate(self._key):
            column = self._write_key[n](own if len(self._key) == 1 else [key[n] for key in own])
            rows = rows.set_column(rows.schema.get_field_index(name), name, column)
        return rows

    def late(self, tag: OutputTag | None, side: Side, keys: Keys, batch: pa.RecordBatch, late: Numbers) -> list[Any]:
        """Returns the output of the records at these positions, which came too late; none where nobody takes them."""
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
    """Yields keys, each once and with its first time, not many at once."""
    first = keys.first
    for start in range(0, len(first), _KEYS_AT_ONCE):
        yield keys.take(first[start : start + _KEYS_AT_ONCE])


def event_times(keys: Keys) -> Numbers:
    """Returns the event time of each record.

    Raises:
        ValueError: One has none.
        OverflowError: One is too far from 1970 to be added to.
    """
    if keys.times is None or keys.times.null_count:
        event_time(None)
    times = np.asarray(keys.times)
    if len(times) and max(int(times.max()), -int(times.min())) >= FARTHEST:
        raise OverflowError(f"event times from {times.min()} to {times.max()} ms: none may be {FARTHEST} ms from 1970")
    return times


class Order:
    """Records of one input by key and time, to be looked up by those of the other.

    Args:
        records: What is looked up; of one key and time in the order in which they came.
        times: All times that will be asked for.
    """

    def __init__(self, records: Records, times: Sequence[Numbers]) -> None:
        self._times = np.unique(np.concatenate([records.times, *times]))
        found = self._places(records.codes, records.times)
        self.positions = order_of(found)
        self._sorted = found[self.positions]

    def first(self, codes: Numbers, times: Numbers) -> Numbers:
        """Returns where the first record of each key lies that is not before a time, or would lie."""
        return np.searchsorted(self._sorted, self._places(codes, times), "left")

    def behind(self, codes: Numbers, times: Numbers) -> Numbers:
        """Returns where the first record of each key lies that is after a time, or would lie."""
        return np.searchsorted(self._sorted, self._places(codes, times), "right")

    def _places(self, codes: Numbers, times: Numbers) -> Numbers:
        """Returns numbers that stand to each other as key and time do."""
        return codes * len(self._times) + np.searchsorted(self._times, times)


__all__ = ["FARTHEST", "Join", "Order", "Records", "Side", "event_times", "some_at_once"]
