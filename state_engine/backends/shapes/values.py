"""Tables of values, one for each entry: of value states, and the accumulators of reducing and aggregating states."""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.backends.ascending import Flags, inverse_of, last_of_each, positions_of
from state_engine.backends.delta import Delta, one_array
from state_engine.backends.entry_index import Part, Segment
from state_engine.backends.shapes.table import ColumnTable, EntryTable, Expired
from state_engine.backends.stamps import LAST_ACCESS, at_most, earliest, split_stamps, stamp_all, unexpired, without
from state_engine.backends.stores.dicts import MISSING
from state_engine.backends.stores.value_runs import Run
from state_engine.log.ops import Op


class ValueTable(EntryTable):
    """Values by entry. None in the overlay is a delete, since no value state can hold None."""

    def freeze(self) -> Delta | None:
        overlay = self.overlay
        if not overlay:
            return None
        array = self.stored.write(list(overlay.values()), list(overlay).__getitem__)
        if array.null_count:
            logged = [value is not None or self._may_hold(entry) for entry, value in overlay.items()]
            if not all(logged):
                overlay, array = dict(compress(overlay.items(), logged)), array.filter(pa.array(logged))
        self.overlay, self._pending = {}, (overlay, array)
        return Delta(_ops_of(array), array, entries=list(overlay)) if overlay else None

    def settle(self) -> None:
        if self._pending is None:
            return
        overlay, array = self._pending
        self._pending = None
        if not self.stored.reads_alike:
            overlay = dict(zip(overlay, self.stored.read(array), strict=True))
        self.base.merge(overlay, [e for e, v in overlay.items() if v is None] if array.null_count else ())

    def merge(self, delta: Delta) -> None:
        read = self.stored.read(delta.values)
        if (delta.ops == Op.PUT).all():
            self.base.merge(zip(delta.entries, read, strict=True))
            return
        of_rows = zip(delta.entries, delta.ops.tolist(), read, strict=True)
        values = {entry: value if op == Op.PUT else None for entry, op, value in of_rows}
        self.base.merge(values, [entry for entry, value in values.items() if value is None])

    def drop_expired(self, expired: Expired) -> None:
        """See `StampedTable`."""
        expired_entries = [entry for entry, stamped in self.base.items() if expired(stamped[1])]
        self.base.merge(dict.fromkeys(expired_entries), expired_entries)

    def clean(self, entries: list[Any], expiry: float, seen: int | None) -> float:
        overlay, oldest = self.overlay, math.inf
        for entry, stamped in zip(entries, map(self.base.get, entries), strict=True):
            if stamped is None:
                continue
            time = stamped[1]
            if time is None:
                if seen is not None and entry not in overlay:
                    overlay[entry] = (stamped[0], seen)
            elif time <= expiry:
                if entry not in overlay:
                    overlay[entry] = None
            elif time < oldest:
                oldest = time
        return oldest

    # By columns -------------------------------------------------------------------------------------------------------

    def get_many(self, keys: Keys) -> Any:
        """Returns the value of each distinct key, null for a key without one."""
        entries, overlay = keys.entries, self.overlay
        self.base.prefetch(entries)
        stored = self.base.get
        if not overlay:
            return self.stored.write(list(map(stored, entries)), entries.__getitem__)
        written = overlay.get
        values = [stored(e) if (value := written(e, MISSING)) is MISSING else value for e in entries]
        return self.stored.write(values, entries.__getitem__)

    held = get_many

    def put_many(self, distinct: Keys, values: Any) -> None:
        """Sets the values of keys, each given once; null removes."""
        self.overlay.update(zip(distinct.entries, self.stored.read(values), strict=True))


class ValueColumnTable(ColumnTable):
    """Values by columns: a `Run` for each segment in the overlay, in which null is a delete."""

    # Reading and writing ----------------------------------------------------------------------------------------------

    def get_many(self, keys: Keys) -> Any:
        """Returns the value of each distinct key, null for a key without one."""
        self.join()
        parts = self.parts(keys)
        values = [self._of(part) for part in parts]
        order = np.concatenate([part.positions for part in parts]) if parts else np.empty(0, np.int64)
        return pa.concat_arrays([self.stored.nulls(0), *values]).take(indices(inverse_of(order)))

    held = get_many

    def put_many(self, distinct: Keys, values: Any) -> None:
        """Sets the values of keys, each given once; null removes."""
        self.join()
        for segment, positions, numbers in self.parts(distinct):
            self.write(segment, Run(numbers, values.take(indices(positions))))

    def content(self, entry: Any) -> Any:
        [value] = self.stored.read(self._of(self.addressing.part_of(entry)))
        return value

    def _of(self, part: Part) -> Any:
        runs, written = self.store.get(part.segment), self.written.get(part.segment)
        stored = self.stored.nulls(len(part.numbers)) if runs is None else runs.of(part.numbers)
        if written is None:
            return stored
        written_rows = positions_of(part.numbers, written.numbers)
        rows = np.where(written_rows >= 0, written_rows + len(stored), np.arange(len(stored)))
        return pa.concat_arrays([stored, written.values]).take(indices(rows))

    def write(self, segment: Segment, change: Run) -> None:
        below = self.written.get(segment)
        self.written[segment] = change if below is None else below.under(change)

    # Rows of the log --------------------------------------------------------------------------------------------------

    def rows_of_overlay(self) -> Delta:
        entries = list(self.overlay)
        array = self.stored.write(list(self.overlay.values()), entries.__getitem__)
        return Delta(_ops_of(array), array, entries=entries)

    def changes(self, delta: Delta) -> Mapping[Segment, Run]:
        put = pa.array(np.arange(len(delta)), mask=delta.ops != Op.PUT)
        values = one_array(delta.values).cast(self.stored.arrow).take(put)
        return dict(self._runs(self.addressing.split(delta), values))

    def _runs(self, rows: Iterable[Part], values: Any) -> Iterator[tuple[Segment, Run]]:
        for segment, positions, numbers in rows:
            last = last_of_each(numbers, self.addressing.size)
            yield segment, Run(numbers[last], values.take(indices(positions[last])))

    def frozen(self, segment: Segment, written: Run) -> Run:
        if self.stored.stamped or not written.values.null_count:  # of stamped values the store may have dropped some
            return written
        return written.where(np.asarray(written.values.is_valid()) | self.store.may_hold(segment, written.numbers))

    def as_rows(self, changes: Mapping[Segment, Run]) -> Delta:
        runs = list(changes.values())
        values = pa.concat_arrays([run.values for run in runs])
        numbers = [run.numbers for run in runs]
        return self.numbered_rows(_ops_of(values), values, numbers, [len(one) for one in numbers])

    def numbers(self) -> Iterable[Numbers]:
        yield from self.store.numbers()
        for changes in self.written, self._pending:
            for run in changes.values():
                yield run.numbers

    def renumber(self, new: Any) -> None:
        super().renumber(new)
        for changes in self.written, self._pending:
            for segment, run in changes.items():
                changes[segment] = Run(new(run.numbers), run.values)

    # Time to live -----------------------------------------------------------------------------------------------------

    def drop_expired(self, expired: Expired) -> None:
        """See `StampedTable`."""

        def keep(runs: Any) -> None:
            runs.keep(lambda numbers: unexpired(runs.of(numbers, LAST_ACCESS), expired))

        self.store.alter(keep)

    def count_written(self, segment: Segment) -> int:
        run = self.written.get(segment)
        return 0 if run is None else len(run.numbers)

    def clean(self, segment: Segment, numbers: Numbers, expiry: float, seen: int | None) -> float:
        self.join()
        runs = self.store.get(segment)
        if runs is None:
            return math.inf
        times = runs.of(numbers, LAST_ACCESS)
        old = at_most(times, expiry)
        changed = np.flatnonzero(self._changed(segment, numbers, old, times, seen))
        if len(changed):
            values, _ = split_stamps(runs.of(numbers[changed]))
            self.write(segment, Run(numbers[changed], stamp_all(without(values, old[changed]), seen)))
        return earliest(times, ~old)

    def _changed(self, segment: Segment, numbers: Numbers, old: Flags, times: Any, seen: int | None) -> Flags:
        """Returns which entries a clean-up changes: those that the epoch did not write itself."""
        changed, written = old, self.written.get(segment)
        if times.null_count and seen is not None:
            changed = old | (np.asarray(times.is_null()) & self.store.get(segment).has(numbers))
        if written is not None and changed.any():
            changed = changed & (positions_of(numbers, written.numbers) < 0)
        return changed


def _ops_of(values: Any) -> Any:
    """Returns the ops of rows with these values."""
    ops = np.full(len(values), Op.PUT, dtype=np.int8)
    if values.null_count:
        ops[np.asarray(values.is_null())] = Op.DELETE
    return ops


__all__ = ["ValueColumnTable", "ValueTable"]
