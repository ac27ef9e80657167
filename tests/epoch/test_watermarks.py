"""The watermarks of operators, and when an epoch without records is due. Pure functions."""

from typing import Any

import pytest

from state_engine.epoch.ports import OperatorPlan, StreamEdge
from state_engine.epoch.watermarks import advance, at_end, earliest_timers, has_ended, is_due, still_told
from state_engine.log.records import Ack, EarliestTimers, HighestTime, Manifest, Span

NEVER = -(1 << 63)
END = (1 << 63) - 1


def operator(uid: str, *edges: StreamEdge) -> OperatorPlan:
    return OperatorPlan(uid=uid, parallelism=2, max_parallelism=8, edges=edges)


def source(out_of_orderness: int | None = 0, **given: Any) -> StreamEdge:
    return StreamEdge(out_of_orderness=out_of_orderness, **given)


def ack(uid: str, *times: HighestTime, **given: Any) -> Ack:
    return Ack(uid=uid, subtask=0, attempt="a", records_in=0, records_out=0, event_times=times, **given)


def at(time: int, edge: int = 0, partition: str = "", active_at: int = 0) -> HighestTime:
    return HighestTime(edge=edge, partition=partition, time=time, active_at=active_at)


def after(
    operators: Any, *epochs: Any, end: bool = False, since: int = 0, known: Any = None, watermarks: Any = None
) -> list[dict[str, int]]:
    """Runs epochs of (processing time, acks); returns the watermarks of the operators after each."""
    watermarks, times = watermarks or {}, known or {}
    seen = []
    for now, acks in epochs:
        began = at_end(operators, watermarks) if end else watermarks
        watermarks, times = advance(operators, began, times, acks, now, since, end_of_input=end)
        seen.append(watermarks)
    return seen


def test_a_watermark_of_a_source_is_its_out_of_orderness_and_two_below_the_largest_time() -> None:
    job = [operator("a", source(10))]
    epochs = [(0, {"a": [ack("a", at(100)), ack("a", at(105))]}), (1, {"a": [ack("a", at(90))]}), (2, {})]
    assert after(job, *epochs) == [{"a": 93}, {"a": 93}, {"a": 93}]


def test_without_a_strategy_there_is_no_watermark_before_the_end() -> None:
    job = [operator("a", source(None))]
    assert after(job, (0, {"a": [ack("a", at(100))]})) == [{}]
    assert after(job, (0, {}), end=True) == [{"a": END}]


def test_the_slowest_partition_decides() -> None:
    job = [operator("a", source(0))]
    one = {"a": [ack("a", at(100, partition="x"), at(50, partition="y"))]}
    assert after(job, (0, one), (1, {"a": [ack("a", at(70, partition="y"))]})) == [{"a": 48}, {"a": 68}]


def test_an_idle_partition_holds_no_watermark_back() -> None:
    job = [operator("a", source(0, idle_after=1000))]
    both = {"a": [ack("a", at(100, partition="x"), at(50, partition="y"))]}
    x = {"a": [ack("a", at(200, partition="x"))]}
    y = {"a": [ack("a", at(120, partition="y"))]}
    assert after(job, (0, both), (999, x), (1000, x), (1500, y)) == [{"a": 48}, {"a": 48}, {"a": 198}, {"a": 198}]


def test_if_all_are_idle_the_watermark_does_not_move() -> None:
    job = [operator("a", source(0, idle_after=10))]
    assert after(job, (0, {"a": [ack("a", at(100))]}), (500, {})) == [{"a": 98}, {"a": 98}]


def test_a_stream_that_never_brought_anything_is_idle_as_well() -> None:
    job = [operator("c", source(0), source(0, input=2, idle_after=100))]
    one = {"c": [ack("c", at(500))]}
    both = {"c": [ack("c", at(600), at(550, edge=1))]}
    assert after(job, (1000, one), (1099, {}), (1100, {}), (1101, both), since=1000) == [
        {}, {}, {"c": 498}, {"c": 548},
    ]  # fmt: skip
    alone = [operator("a", source(0, idle_after=100)), operator("b", StreamEdge(upstream="a"), source(0))]
    assert after(alone, (100, {"b": [ack("b", at(7, edge=1))]})) == [{"b": 5}]


def test_time_without_a_driver_makes_no_partition_idle() -> None:
    job = [operator("a", source(0, idle_after=100))]
    known = {"a": (at(900, partition="x", active_at=1000), at(5, partition="y", active_at=990))}
    x = {"a": [ack("a", at(950, partition="x"))]}
    epochs = [(5000, x), (5099, x), (5100, x)]
    assert after(job, *epochs, known=known, watermarks={"a": 4}, since=5000) == [{"a": 4}, {"a": 4}, {"a": 948}]
    assert after(job, *epochs, known=known, watermarks={"a": 4}, since=0) == [{"a": 948}] * 3


def test_a_watermark_is_one_below_that_of_the_upstream_operator_an_epoch_before() -> None:
    job = [operator("a", source(0)), operator("b", StreamEdge(upstream="a")), operator("c", StreamEdge(upstream="b"))]
    epochs = [(n, {"a": [ack("a", at(100 * n))]}) for n in (1, 2, 3)]
    assert after(job, *epochs) == [{"a": 98}, {"a": 198, "b": 97}, {"a": 298, "b": 197, "c": 96}]


def test_several_inputs_take_the_least() -> None:
    job = [
        operator("a", source(0)),
        operator("b", source(0)),
        operator("c", StreamEdge(upstream="a"), StreamEdge(upstream="b", input=2)),
    ]
    acks = {"a": [ack("a", at(100))], "b": [ack("b", at(30))]}
    assert after(job, (0, acks), (1, {}))[-1] == {"a": 98, "b": 28, "c": 27}


def test_an_input_that_never_had_a_watermark_holds_all_back() -> None:
    job = [operator("c", source(0), source(0, input=2))]
    assert after(job, (0, {"c": [ack("c", at(100, edge=0))]})) == [{}]
    assert after(job, (0, {"c": [ack("c", at(100, edge=0), at(70, edge=1))]})) == [{"c": 68}]


def test_an_idle_input_is_left_out_also_downstream_of_an_operator() -> None:
    job = [
        operator("a", source(0)),
        operator("b", source(0, idle_after=100)),
        operator("c", StreamEdge(upstream="a"), StreamEdge(upstream="b", input=2)),
    ]
    acks = {"a": [ack("a", at(500))], "b": [ack("b", at(30))]}
    assert after(job, (0, acks), (100, {})) == [{"a": 498, "b": 28}, {"a": 498, "b": 28, "c": 497}]


def test_an_edge_downstream_of_an_operator_may_have_a_strategy_of_its_own() -> None:
    job = [operator("a", source(0)), operator("b", StreamEdge(upstream="a", out_of_orderness=5))]
    assert after(job, (0, {"a": [ack("a", at(500))], "b": [ack("b", at(40))]})) == [{"a": 498, "b": 33}]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_last_watermark_passes_one_operator_an_epoch(depth: int) -> None:
    edges = [StreamEdge(upstream=str(n - 1)) if n else source(0) for n in range(depth)]
    job = [operator(str(n), edge) for n, edge in enumerate(edges)]
    watermarks: dict[str, int] = {}
    ran_at_the_end = []
    for n in range(depth):
        began = at_end(job, watermarks)
        ran_at_the_end.append([uid for uid, time in began.items() if time == END])
        assert has_ended(job, began) == (n == depth - 1)
        watermarks = advance(job, began, {}, {}, 0, 0, end_of_input=True).watermarks
    assert ran_at_the_end == [[str(k) for k in range(n + 1)] for n in range(depth)]


def head(watermarks: dict[str, int], timers: dict[str, EarliestTimers], **given: Any) -> Manifest:
    return Manifest(
        job="j",
        generation=1,
        epoch=1,
        kind="epoch",
        incarnation="i",
        incarnation_number=1,
        predecessor="",
        processing_time=0,
        lineage=(Span(generation=1, first=1),),
        watermarks=watermarks,
        timers=timers,
        **given,
    )


def test_a_processing_time_timer_is_due_when_its_time_has_come() -> None:
    manifest = head({}, {"a": EarliestTimers(processing_time=50)})
    assert [is_due([operator("a", source(0))], manifest, now, 0) for now in (49, 50, 51)] == [False, True, True]


@pytest.mark.parametrize(("timer", "due"), [(98, True), (99, True), (100, False)])
def test_an_event_time_timer_is_due_at_the_watermark(timer: int, due: bool) -> None:
    assert is_due([operator("a", source(0))], head({"a": 99}, {"a": EarliestTimers(event_time=timer)}), 0, 0) is due


def test_a_timer_is_due_that_the_watermark_will_reach_after_other_epochs() -> None:
    job = [operator("a", source(0)), operator("b", StreamEdge(upstream="a")), operator("c", StreamEdge(upstream="b"))]
    timers = {"c": EarliestTimers(event_time=70)}
    assert is_due(job, head({"a": 72}, timers), 0, 0)
    assert not is_due(job, head({"a": 71}, timers), 0, 0)


def test_a_timer_is_due_once_the_slow_partition_is_idle() -> None:
    job = [operator("a", source(0, idle_after=100))]
    times = {
        "a": (
            HighestTime(edge=0, partition="x", time=900, active_at=1000),
            HighestTime(edge=0, partition="y", time=5, active_at=940),
        )
    }
    manifest = head({"a": 4}, {"a": EarliestTimers(event_time=500)}, event_times=times)
    assert [is_due(job, manifest, now, 0) for now in (1000, 1039, 1040)] == [False, False, True]
    assert [is_due(job, manifest, now, 5000) for now in (5000, 5099)] == [False, False]


def test_a_timer_is_due_once_an_empty_input_is_idle() -> None:
    job = [operator("a", source(0), source(0, input=2, idle_after=100))]
    manifest = head({}, {"a": EarliestTimers(event_time=500)}, event_times={"a": (at(900),)})
    assert [is_due(job, manifest, now, 1000) for now in (1000, 1099, 1100)] == [False, False, True]


X, Y, WHOLE = at(900, partition="x", active_at=7), at(5, partition="y", active_at=9), at(100, active_at=6)


@pytest.mark.parametrize(("before", "now", "told"), [
    (("p", ""), "p", (WHOLE, X, Y)),
    (("p", ""), "q", ()),
    (("p", ""), None, ()),
    (("", "q"), "p", ()),
    (("", "q"), None, (WHOLE, X, Y)),
    ((), None, (WHOLE,)),
    ((), "p", (X, Y)),
])  # fmt: skip
def test_partitions_of_another_column_are_forgotten(before: tuple[str, ...], now: str | None, told: Any) -> None:
    """Those of one edge are; the other edge keeps its column."""
    other = at(70, edge=1)
    plan = operator("a", source(0, partition=now), source(0, partition=before[1] or None if before else None))
    assert still_told(plan, (WHOLE, X, Y, other), before) == (*told, other)


def test_operators_say_their_partition_columns_if_there_is_one() -> None:
    assert operator("a", source(0), source(0, partition="p")).partition_columns == ("", "p")
    assert operator("a", source(0), source(0)).partition_columns == ()


def test_records_without_partition_are_distinguished_from_streams_without() -> None:
    """This holds if an earlier release did not record by which column it told partitions apart."""
    plan = operator("a", source(0, partition="p"))
    without_value = at(100, active_at=7)
    assert still_told(plan, (without_value, X, Y), ()) == (without_value, X, Y)
    assert still_told(plan, (WHOLE, X, Y), ()) == (X, Y)
    assert still_told(plan, (WHOLE,), ()) == ()


def test_the_earliest_timers_of_all_subtasks() -> None:
    acks = [
        ack("a", timers=EarliestTimers(event_time=7)),
        ack("a", timers=EarliestTimers(event_time=5, processing_time=9)),
        ack("a"),
    ]
    assert earliest_timers(acks) == EarliestTimers(event_time=5, processing_time=9)
    assert earliest_timers([ack("a")]) == EarliestTimers()
