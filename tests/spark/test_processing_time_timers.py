"""Processing-time timers in a real stream: they fire once while no record comes, also across a restart."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from support import Ahead, Input, newest, wait_for, with_epochs

from state_engine.api import KeyedProcessFunction, TimeDomain, Types, ValueStateDescriptor
from state_engine.errors import UserFunctionError
from state_engine.spark import MemorySink, StreamJob

pytestmark = pytest.mark.spark
ALARMS = "k string, records bigint, waited bigint, domain string"


class Alarm(KeyedProcessFunction):
    """Counts the records of a key, and reports their number `after` ms after the first record."""

    def __init__(self, after: int) -> None:
        self.after = after

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.since = runtime_context.get_state(ValueStateDescriptor("since", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        if self.since.value() is None:
            now = ctx.timer_service().current_processing_time()
            self.since.update(now)
            ctx.timer_service().register_processing_time_timer(now + self.after)
        self.count.update((self.count.value() or 0) + 1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        assert ctx.timer_service().current_processing_time() >= timestamp
        waited = timestamp - (self.since.value() or 0)
        domain = "processing" if ctx.time_domain() is TimeDomain.PROCESSING_TIME else "event"
        yield ctx.get_current_key(), self.count.value(), waited, domain


class Broken(Alarm):
    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        raise RuntimeError("the alarm is broken")


def alarm_job(df: Any, root: Path, name: str, sink: Any, function: Alarm, **options: Any) -> StreamJob:
    job = StreamJob(name, root=str(root), **{"parallelism": 2, **options})
    job.from_stream(df).key_by("k").process(function, ALARMS, uid="alarm").sink_to(sink, uid="out")
    return job


def expected(source: Input, after: int) -> list[tuple[Any, ...]]:
    counts: dict[Any, int] = {}
    for record in source.all:
        counts[record.k] = counts.get(record.k, 0) + 1
    return sorted(((k, n, after, "processing") for k, n in counts.items()), key=repr)


def rows(sink: MemorySink) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in sink.rows()), key=repr)


def test_timers_of_an_idle_stream_fire_once(spark, tmp_path: Path, started) -> None:
    source = Input(tmp_path / "in").add_many(1)
    sink = MemorySink("idle-alarms")
    client = started(
        alarm_job(source.stream(spark), tmp_path / "root", "idle-alarms", sink, Alarm(300)).start(
            trigger_interval_ms=100
        )
    )
    wait_for(lambda: rows(sink) or client.exception, "alarms")
    assert rows(sink) == expected(source, 300)
    assert [epoch.kind for epoch in client.epochs] == ["epoch", "idle"]
    assert newest(tmp_path / "root", "idle-alarms").timers == {}


def test_timers_survive_a_restart_at_another_parallelism(
    spark, tmp_path: Path, started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state_engine.spark.driver.client.SystemClock", Ahead)
    source, root = Input(tmp_path / "in").add_many(1), tmp_path / "root"
    sink = MemorySink("alarms")

    def start(**options: Any) -> Any:
        job = alarm_job(source.stream(spark), root, "alarms", sink, Alarm(60_000))
        return started(job.start(trigger_interval_ms=100, **options))

    with_epochs(start(), 1).stop()
    manifest = newest(root, "alarms")
    assert manifest.timers["alarm"].processing_time == manifest.processing_time + 60_000
    assert manifest.timers["alarm"].event_time is None

    monkeypatch.setattr(Ahead, "by_ms", 30_000)
    client = start(parallelism=3)
    assert newest(root, "alarms").timers == manifest.timers
    client.run_idle_epoch()
    assert rows(sink) == []
    client.stop()

    monkeypatch.setattr(Ahead, "by_ms", 61_000)
    client = start(parallelism=1)
    wait_for(lambda: rows(sink) or client.exception, "alarms")
    client.run_idle_epoch()
    assert rows(sink) == expected(source, 60_000)
    assert newest(root, "alarms").timers == {}


def test_timers_of_an_idle_job_that_is_rescaled_fire_once(
    spark, tmp_path: Path, started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state_engine.spark.driver.client.SystemClock", Ahead)
    source, root, sink = Input(tmp_path / "in").add_many(1), tmp_path / "root", MemorySink("moving-alarms")
    job = alarm_job(source.stream(spark), root, "moving-alarms", sink, Alarm(600_000))
    client = with_epochs(started(job.start(trigger_interval_ms=100)), 1)
    timers = newest(root, "moving-alarms").timers
    for parallelism in (5, 3):
        client.rescale(parallelism).result(60)
        assert newest(root, "moving-alarms").timers == timers
    assert [epoch.kind for epoch in client.epochs] == ["epoch", "idle", "idle"]
    assert rows(sink) == []
    monkeypatch.setattr(Ahead, "by_ms", 601_000)
    wait_for(lambda: rows(sink) or client.exception, "alarms")
    client.run_idle_epoch()
    assert rows(sink) == expected(source, 600_000)
    assert newest(root, "moving-alarms").timers == {}


def test_a_timer_that_fails_stops_the_job_and_stays(spark, tmp_path: Path, started) -> None:
    source, root = Input(tmp_path / "in").add_many(1), tmp_path / "root"
    sink = MemorySink("broken-alarms")

    def start(function: Alarm) -> Any:
        job = alarm_job(source.stream(spark), root, "broken-alarms", sink, function)
        return started(job.start(trigger_interval_ms=100))

    client = start(Broken(1))
    wait_for(lambda: client.state == "FAILED", "the failure")
    assert isinstance(client.exception, UserFunctionError)
    assert "on_timer() raised RuntimeError: the alarm is broken" in str(client.exception)
    with pytest.raises(UserFunctionError):
        client.await_termination(30)
    assert newest(root, "broken-alarms").kind == "epoch"
    client = start(Alarm(1))
    wait_for(lambda: rows(sink) or client.exception, "alarms")
    assert rows(sink) == expected(source, 1)
