"""`window(EventTimeSessionWindows...).aggregate({...})`: the aggregates of a key's records in each of its sessions.

Results are those of Flink's merging windows. A session's aggregates are stored in a namespace that stays the same while
the session grows. So a record moves only the end of its session; parts are combined only when sessions become one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.aggregates import Aggregate
from state_engine.api.descriptors import ListStateDescriptor, StateDescriptor
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.output_tag import OutputTag
from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType
from state_engine.backends.batch_keys import NamespacedKeys
from state_engine.backends.layout import Layout
from state_engine.runtime.declared.comparison import Flags
from state_engine.runtime.declared.spans import Grouped, Spans, joined, touched
from state_engine.runtime.declared.windowed import WindowedAggregation, checked_texts, texts_of

_SESSIONS = "sessions"
_SESSION = StructType(("start_ms", "end_ms", "namespace"), (Types.LONG(), Types.LONG(), Types.STRING()), carrier=tuple)


class SessionAggregation(WindowedAggregation):
    """Keeps aggregates per key and session; gives one row for each when the watermark passes the session's last ms.

    Args:
        key: The key columns that the rows have.
        assigner: Has the gap of the sessions.
        aggregates: The aggregates by the name of the result.
        columns: Columns of the records.
        late_data: Side output for late records that touch no open session; None if they are dropped.

    Raises:
        JobDefinitionError: An aggregate is not possible with these columns, or has the name of another column.
    """

    def __init__(
        self,
        key: Sequence[str],
        assigner: Any,
        aggregates: Mapping[str, Aggregate],
        columns: StructType,
        late_data: OutputTag | None = None,
    ) -> None:
        super().__init__(key, assigner, aggregates, columns, late_data)
        self._gap: int = assigner.gap

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._sessions = runtime_context.get_list_state(self.kept(ListStateDescriptor(_SESSIONS, _SESSION)))

    def layout_of(self, descriptor: StateDescriptor) -> Layout:
        # Nearly every session has a namespace of its own.
        return Layout.COLUMNS if descriptor.name == _SESSIONS else Layout.PLACES

    def _reach(self, earliest: int, latest: int) -> tuple[int, int]:
        return earliest, latest + self._gap

    # Records ------------------------------------------------------------------------------------------------------

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        times = self._event_times(keys)
        stored = _Stored.of(self._sessions.get_many(keys.distinct))
        late = self._too_late(keys, times, stored.spans, ctx.timer_service().current_watermark())
        records = np.flatnonzero(~late)
        if len(records):
            spans = Spans(keys.codes[records], times[records], times[records] + self._gap)
            grouped = joined(stored.spans, spans, self._gap)
            groups = _Groups.of(grouped, stored, spans, keys)
            self._add(groups, grouped, keys, batch, records)
            self._move_timers(groups, grouped, stored, ctx.timer_service())
            self._put(groups, grouped, stored, keys.distinct)
        return self._late(batch, times, late, ctx)

    def _too_late(self, keys: Keys, times: Numbers, stored: Spans, over: int) -> Flags:
        """Returns flags of the records that are in no session: their session would be over, and they touch no open one.

        Records come in order of time. So an accepted late record can extend its session for later late records. The
        other records of the epoch, which are not late, come after all late ones.
        """
        late: Flags = times + (self._gap - 1) <= over
        positions = np.flatnonzero(late)
        if len(positions):
            alone = Spans(keys.codes[positions], times[positions], times[positions] + self._gap)
            late[positions[touched(stored, alone, self._gap)]] = False
        return late

    def _add(self, groups: "_Groups", found: Grouped, keys: Keys, batch: pa.RecordBatch, records: Numbers) -> None:
        """Adds records to their groups; then merges groups that are now one session."""
        needed = batch.select(self._aggregates.inputs)
        if len(records) < batch.num_rows and needed.num_columns:
            needed = needed.take(indices(records))
        self._aggregates.add(groups.keys.take(found.record_groups), needed)
        several = np.flatnonzero(found.counts[found.sessions] > 1)
        if len(several):
            holders = groups.holders[found.sessions[several]]
            merged = several[several != holders]
            self._aggregates.merge(groups.keys.take(several), groups.keys.take(holders), groups.keys.take(merged))

    def _move_timers(self, groups: "_Groups", found: Grouped, stored: "_Stored", timers: Any) -> None:
        """Deletes timers of merged sessions, registers those of new ones, moves those of sessions that last longer."""
        ends = np.full(len(found.sessions), -1)
        existed = found.stored >= 0
        ends[existed] = stored.spans.ends[found.stored[existed]]
        wanted = found.ends[found.sessions]
        holds = np.zeros(len(found.sessions), bool)
        holds[groups.holders] = True
        stays = holds & existed & (ends == wanted)
        for flags, times, update in (
            (existed & ~stays, ends, timers.delete_event_time_timers),
            (holds & ~stays, wanted, timers.register_event_time_timers),
        ):
            positions = np.flatnonzero(flags)
            update(groups.keys.take(positions), pa.array(times[positions] - 1))

    def _put(self, groups: "_Groups", found: Grouped, stored: "_Stored", each: Keys) -> None:
        """Replaces the lists of the keys whose sessions changed."""
        before = found.stored[groups.holders]
        same = (before >= 0) & (found.counts == 1)
        same[same] = (stored.spans.starts[before[same]] == found.starts[same]) & (
            stored.spans.ends[before[same]] == found.ends[same]
        )
        changed = np.zeros(len(each), bool)
        changed[found.codes[~same]] = True
        sessions = np.flatnonzero(changed[found.codes])
        texts = groups.texts.take(indices(groups.holders[sessions]))
        spans = Spans(found.codes[sessions], found.starts[sessions], found.ends[sessions])
        self._put_lists(each, np.flatnonzero(changed), spans, texts)

    def _put_lists(self, each: Keys, codes: Numbers, spans: Spans, namespaces: Any) -> None:
        """Replaces the lists of some keys by these sessions, which are in the order of the keys."""
        counts = np.bincount(spans.codes, minlength=len(each))[codes]
        values = pa.StructArray.from_arrays(
            [pa.array(spans.starts), pa.array(spans.ends), namespaces], names=list(_SESSION.names)
        )
        offsets: Any = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        self._sessions.put_many(each.take(codes), pa.ListArray.from_arrays(offsets, values))

    # Sessions that are over ---------------------------------------------------------------------------------------

    def fire(self, keys: Keys, ctx: Any) -> Any:
        windows = self._fired(keys)
        each, ends = windows.own, np.asarray(windows.times) + 1
        stored = _Stored.of(self._sessions.get_many(each))
        namespaces = checked_texts(windows).take(indices(windows.spaces))
        positions = stored.positions(windows.of_own, ends, namespaces)
        present = np.flatnonzero(positions >= 0)
        stays = np.ones(len(stored.spans.codes), bool)
        stays[positions[present]] = False
        rest = np.flatnonzero(stays)
        self._put_lists(each, np.arange(len(each)), stored.spans.take(rest), stored.namespaces.take(indices(rest)))
        return self._rows(windows.take(present), stored.spans.starts[positions[present]], ctx)


class _Stored(NamedTuple):
    """The stored open sessions of some keys, in order of key and time.

    Attributes:
        spans: Start and end of each session, with the number of its key.
        namespaces: The namespace of each session's aggregates, as text.
    """

    spans: Spans
    namespaces: Any

    @classmethod
    def of(cls, lists: Any) -> "_Stored":
        starts, ends, namespaces = lists.flatten().flatten()
        counts = np.diff(np.asarray(lists.offsets)).astype(np.int64)
        codes = np.repeat(np.arange(len(lists)), counts)
        return cls(Spans(codes, np.asarray(starts), np.asarray(ends)), namespaces)

    def positions(self, codes: Numbers, ends: Numbers, namespaces: Any) -> Numbers:
        """Returns the position of the session with each key, end and namespace; -1 if there is none."""
        columns = [np.concatenate(pair) for pair in ((self.spans.codes, codes), (self.spans.ends, ends))]
        size = len(self.spans.codes)
        # No two sessions of a key have the same end.
        numbers = Keys([indices(column) for column in columns], lambda _: []).codes
        positions = np.full(int(numbers.max(initial=-1)) + 1, -1)
        positions[numbers[:size]] = np.arange(size)
        matches = positions[numbers[size:]]
        present = np.flatnonzero(matches >= 0)
        same = pc.equal(self.namespaces.take(indices(matches[present])), namespaces.take(indices(present)))
        matches[present[~np.asarray(same)]] = -1
        return matches


class _Groups(NamedTuple):
    """The namespaces in which groups of records are kept.

    Attributes:
        keys: The key of each group, with its namespace.
        texts: The namespace of each group, as text.
        holders: For each session the group with the namespace that it keeps: its first stored group, or its first group
            if none is stored.
    """

    keys: NamespacedKeys
    texts: Any
    holders: Numbers

    @classmethod
    def of(cls, found: Grouped, stored: _Stored, records: Spans, keys: Keys) -> "_Groups":
        existed = found.stored >= 0
        new = np.flatnonzero(~existed)
        new_texts = texts_of(records.starts[found.first[new]], records.ends[found.last[new]])
        stored_texts = stored.namespaces.take(indices(found.stored[existed]))
        order = np.argsort(np.concatenate([np.flatnonzero(existed), new]))
        texts = pa.concat_arrays([stored_texts, new_texts]).take(indices(order))
        holders = np.cumsum(found.counts) - found.counts
        # Only the first group of a session can be new: it has the records before all stored sessions.
        holders += ~existed[holders] & (found.counts > 1)
        columns = [indices(found.codes[found.sessions]), indices(np.arange(len(existed)))]
        return cls(NamespacedKeys(columns, keys.distinct, texts.to_pylist()), texts, holders)


__all__ = ["SessionAggregation"]
