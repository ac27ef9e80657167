"""Watermarks and due timers: the driver computes them from the acks of an epoch. Pure.

A watermark stays `MARGIN` below the earliest time that may still come (docs/adr/0028). On an edge that makes its own
watermark, that time is the largest event time of its slowest partition, less its out-of-orderness. On any other edge it
is one above the watermark that the upstream operator had when the epoch began: what that operator emits in the epoch is
not late, and closes nothing that it touches. The watermark of an operator is the least of those of its edges, without
idle ones, and never goes back.

A partition is idle if it has brought nothing for some time, counted only while the current driver runs. While no driver
ran, none could receive its records, and they may be waiting now.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from state_engine.backends.time import MARGIN, MAX_WATERMARK, NO_WATERMARK, watermark_after
from state_engine.epoch.ports import OperatorPlan, StreamEdge
from state_engine.log.records import Ack, EarliestTimers, HighestTime, Manifest

NO_TIMERS = EarliestTimers()

Watermarks = dict[str, int]
EventTimes = dict[str, tuple[HighestTime, ...]]


class EventTime(NamedTuple):
    """The watermarks of the operators after an epoch, by uid, and the event times that they were computed from."""

    watermarks: Watermarks
    event_times: EventTimes


def advance(
    operators: Sequence[OperatorPlan],
    began: Mapping[str, int],
    known: Mapping[str, tuple[HighestTime, ...]],
    acks: Mapping[str, Iterable[Ack]],
    processing_time: int,
    since: int,
    *,
    end_of_input: bool = False,
) -> EventTime:
    """Returns the watermarks of the operators from the next epoch on.

    Args:
        operators: Upstream first.
        began: Their watermarks when the epoch began.
        known: Event times of the epochs before.
        acks: The acks of the epoch; empty for one that brings nothing.
        processing_time: The epoch's.
        since: The processing time at which the driver began.
        end_of_input: The sources bring no more records.
    """
    clock = _Clock(processing_time, since)
    watermarks, event_times = dict(began), dict(known)
    idle: set[str] = set()
    for operator in operators:
        times = _merged(known.get(operator.uid, ()), acks.get(operator.uid, ()), processing_time)
        if times:
            event_times[operator.uid] = times
        edge_watermarks = [
            _of_edge(edge, [t for t in times if t.edge == n], began, idle, clock, end_of_input=end_of_input)
            for n, edge in enumerate(operator.edges)
        ]
        awake = [watermark for watermark in edge_watermarks if watermark is not None]
        if not awake:
            idle.add(operator.uid)
            continue
        current = watermarks.get(operator.uid, NO_WATERMARK)
        if (advanced := min(awake)) > current:
            watermarks[operator.uid] = advanced
    return EventTime(watermarks, event_times)


def at_end(operators: Sequence[OperatorPlan], watermarks: Mapping[str, int]) -> Watermarks:
    """Returns the watermarks in an epoch of the end: operators that only sources feed have the last watermark."""
    ended = (o.uid for o in operators if not o.upstream)
    return {**watermarks, **dict.fromkeys(ended, MAX_WATERMARK)}


def has_ended(operators: Sequence[OperatorPlan], watermarks: Mapping[str, int]) -> bool:
    """Returns whether every operator has the last watermark."""
    return all(watermarks.get(operator.uid) == MAX_WATERMARK for operator in operators)


def finishing(operators: Sequence[OperatorPlan], head: Manifest, watermarks: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the operators that have the last watermark in an epoch of the end, and were not told so before."""
    told = {uid for uid, operator in head.operators.items() if operator.finished}
    return tuple(o.uid for o in operators if watermarks.get(o.uid) == MAX_WATERMARK and o.uid not in told)


def still_told(plan: OperatorPlan, times: Sequence[HighestTime], columns: Sequence[str]) -> tuple[HighestTime, ...]:
    """Returns the event times of the partitions that may still bring records to an operator as it is declared today.

    Partitions of another partition column never bring any, and would hold the watermark back for ever. The operator
    keeps its watermark: only the event times from which its edges are computed begin anew.

    Args:
        plan: The operator today.
        times: The known event times of its edges.
        columns: The partition column of these times, by edge; empty if it is not known.
    """
    kept: list[HighestTime] = []
    for n, edge in enumerate(plan.edges):
        edge_times = [time for time in times if time.edge == n]
        if not columns:
            kept += _still_told_perhaps(edge_times, by_column=edge.partition is not None)
        elif n < len(columns) and columns[n] == (edge.partition or ""):
            kept += edge_times
    return tuple(kept)


def _still_told_perhaps(times: Sequence[HighestTime], *, by_column: bool) -> list[HighestTime]:
    """Does the same as `still_told` for one edge, if only the names of its partitions are known, not their column.

    A stream without partition column is the partition without name. With a partition column, records without a value in
    it are the partition without name too: this was the case if some named partition was last active no later than the
    partition without name.
    """
    named = [time for time in times if time.partition]
    nameless = [time for time in times if not time.partition]
    if not by_column:
        return nameless
    oldest = min((time.active_at for time in named), default=None)
    return [*(time for time in nameless if oldest is not None and time.active_at >= oldest), *named]


def earliest_timers(acks: Iterable[Ack]) -> EarliestTimers:
    """Returns when the next timers of an operator are due, over all its subtasks."""
    timers = [ack.timers for ack in acks if ack.timers is not None]
    event = [timer.event_time for timer in timers if timer.event_time is not None]
    processing = [timer.processing_time for timer in timers if timer.processing_time is not None]
    return EarliestTimers(event_time=min(event, default=None), processing_time=min(processing, default=None))


def is_due(operators: Sequence[OperatorPlan], head: Manifest, now: int, since: int) -> bool:
    """Returns whether an epoch without records would fire a timer: the next one, or one after others like it.

    Args:
        operators: Upstream first.
        head: The newest manifest.
        now: Processing time, in ms.
        since: The processing time at which the driver began.
    """
    timers = head.timers
    for of_operator in timers.values():
        if of_operator.processing_time is not None and of_operator.processing_time <= now:
            return True
    waiting = {uid: t.event_time for uid, t in timers.items() if t.event_time is not None}
    if not waiting:
        return False
    watermarks = head.watermarks
    for _ in operators:  # a watermark passes one operator an epoch
        if any(due_at <= watermarks.get(uid, NO_WATERMARK) for uid, due_at in waiting.items()):
            return True
        watermarks = advance(operators, watermarks, head.event_times, {}, now, since).watermarks
    return any(due_at <= watermarks.get(uid, NO_WATERMARK) for uid, due_at in waiting.items())


def _of_edge(
    edge: StreamEdge,
    times: Sequence[HighestTime],
    began: Mapping[str, int],
    idle: set[str],
    clock: "_Clock",
    *,
    end_of_input: bool,
) -> int | None:
    """Returns the watermark of an edge; None if it is idle."""
    upstream = NO_WATERMARK if edge.upstream is None else began.get(edge.upstream, NO_WATERMARK)
    if upstream == MAX_WATERMARK or (edge.upstream is None and end_of_input):
        return MAX_WATERMARK
    if edge.out_of_orderness is None:
        return None if edge.upstream in idle else max(upstream + 1 - MARGIN, NO_WATERMARK)
    if not times:
        return None if clock.is_idle(edge, clock.since) else NO_WATERMARK
    awake = [t.time for t in times if not clock.is_idle(edge, t.active_at)]
    return watermark_after(min(awake), edge.out_of_orderness) if awake else None


class _Clock(NamedTuple):
    """Processing time: the epoch's, and that at which the driver began."""

    now: int
    since: int

    def is_idle(self, edge: StreamEdge, active_at: int) -> bool:
        """Returns whether a partition of an edge is idle, if it was last active at `active_at`."""
        return edge.idle_after is not None and self.now - max(active_at, self.since) >= edge.idle_after


def _merged(known: Iterable[HighestTime], acks: Iterable[Ack], processing_time: int) -> tuple[HighestTime, ...]:
    """Returns the largest event time of each partition; those that an ack names were active in this epoch."""
    merged = {(time.edge, time.partition): time for time in known}
    for ack in acks:
        for time in ack.event_times:
            before = merged.get((time.edge, time.partition))
            highest = time.time if before is None else max(before.time, time.time)
            merged[time.edge, time.partition] = HighestTime(
                edge=time.edge, partition=time.partition, time=highest, active_at=processing_time
            )
    return tuple(merged[identity] for identity in sorted(merged))


__all__ = [
    "NO_TIMERS",
    "EventTime",
    "advance",
    "at_end",
    "earliest_timers",
    "finishing",
    "has_ended",
    "is_due",
    "still_told",
]
