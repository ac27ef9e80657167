"""The course of `up` and `down`, with processes that only sleep and streams that only report their state."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakestate.supervision.heartbeat import Condition
from lakestate.up.broker import KafkaBroker
from lakestate.up.course import Course
from lakestate.up.errors import NotUpError
from lakestate.up.layout import Layout
from lakestate.up.record import Record
from lakestate.up.streams import StreamState
from state_engine.errors import LakestateError

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
FAILING = [sys.executable, "-c", "raise SystemExit('no such option')"]
RECORD = Record(port=1, every_s=3_600)
NAMES = ("feeder", "code-server", "web-server", "daemon")


class FakeStreams:
    """Two streams that run when they are started, and complete a checkpoint at the second look."""

    names = ("flights", "orders")

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.looks = 0
        self.conditions = dict.fromkeys(self.names, Condition.UNKNOWN)
        self.refuses: str | None = None

    def start(self, job: str) -> bool:
        if self.refuses == job:
            raise LakestateError(f"{job} is refused.")
        if self.conditions[job] is Condition.RUNNING:
            return False
        self.calls.append(f"start {job}")
        self.conditions[job] = Condition.RUNNING
        return True

    def stop(self, job: str) -> bool:
        if self.conditions[job] is not Condition.RUNNING:
            return False
        self.calls.append(f"stop {job}")
        self.conditions[job] = Condition.STOPPED
        return True

    def state(self, job: str) -> StreamState:
        self.looks += 1
        checkpoint = 1 if self.looks > 4 else None
        return StreamState(self.conditions[job], 1, 1, 5, checkpoint, 3, None, "It was killed.", "/log")


class Told:
    """Records progress."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.last: dict[str, str] = {}

    def progress(self, name: str, text: str, *, done: bool = False) -> None:
        self.last[name] = text
        if done and name not in self.done:
            self.done.append(name)


@pytest.fixture
def streams() -> FakeStreams:
    return FakeStreams()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def course_of(
    layout: Layout,
    streams: FakeStreams,
    *,
    daemon: Sequence[str] = SLEEP,
    groups: set[str] | None = None,
    **kafka: Any,
) -> Course:
    shown = {"flights", "orders"} if groups is None else groups
    return Course(
        layout,
        streams=streams,  # type: ignore[arg-type]
        dagster=lambda port: {"code-server": SLEEP, "web-server": SLEEP, "daemon": daemon},
        groups=lambda url: shown,
        **kafka,
    )


@pytest.fixture
def course(layout: Layout, streams: FakeStreams) -> Iterator[Course]:
    course = course_of(layout, streams)
    yield course
    course.end()


class FakeBroker(KafkaBroker):
    """A broker that only sleeps, and listens once its process lives."""

    def prepare(self) -> list[str]:
        return SLEEP

    @property
    def listens(self) -> bool:
        return True


def wait_until_gone(course: Course, name: str) -> None:
    until = time.monotonic() + 20
    while course.look().processes[name].is_alive:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_everything_begins_is_waited_for_and_ends(course: Course, streams: FakeStreams) -> None:
    assert course.look().living == []
    begun = course.begin(RECORD)
    assert sorted(begun) == sorted([*NAMES, "flights", "orders"])
    told = Told()
    course.await_ready(RECORD, told, begun)
    assert sorted(told.done) == ["dagster", "flights", "orders"]
    assert told.last["flights"] == "epoch 1/5, checkpoint 1"
    assert sorted(course.look().living) == sorted(begun)

    told = Told()
    assert sorted(course.end(observer=told)) == sorted(begun)
    assert told.done[0] == "daemon", "it would start streams again"
    assert told.done[-1] == "feeder"
    assert course.look().living == []
    assert course.end() == []


def test_the_broker_begins_before_all_others_and_ends_after_them(layout: Layout, streams: FakeStreams) -> None:
    asked: list[str] = []
    course = course_of(layout, streams, broker=FakeBroker(layout.kafka, 9092), topics=asked.append)
    begun = course.begin(RECORD)
    assert (begun[:2], asked) == (["kafka", "feeder"], ["127.0.0.1:9092"])
    told = Told()
    course.end(observer=told)
    assert told.done[-1] == "kafka"


def test_a_broker_that_ends_at_once_undoes_what_was_begun(layout: Layout, streams: FakeStreams) -> None:
    class Failing(FakeBroker):
        def prepare(self) -> list[str]:
            return FAILING

        @property
        def listens(self) -> bool:
            return False

    course = course_of(layout, streams, broker=Failing(layout.kafka, 9092), topics=print)
    with pytest.raises(NotUpError, match=r"The Kafka broker does not listen at 127\.0\.0\.1:9092"):
        course.begin(RECORD)
    assert (course.look().living, streams.calls) == ([], [])


def test_what_lives_is_left_alone_and_what_has_crashed_is_started_again(
    course: Course, layout: Layout, streams: FakeStreams
) -> None:
    course.begin(RECORD)
    assert course_of(layout, streams).begin(RECORD) == []
    before = {name: state.pid for name, state in course.look().processes.items()}
    killed = before["web-server"]
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    streams.conditions["orders"] = Condition.FAILED
    wait_until_gone(course, "web-server")
    assert sorted(course_of(layout, streams).begin(RECORD)) == ["orders", "web-server"]
    after = {name: state.pid for name, state in course.look().processes.items()}
    assert {name for name in NAMES if before[name] != after[name]} == {"web-server"}


def test_the_end_comes_also_after_crashes(course: Course, streams: FakeStreams) -> None:
    course.begin(RECORD)
    for name in ("daemon", "feeder"):
        pid = course.look().processes[name].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(course, name)
    streams.conditions["flights"] = Condition.FAILED
    assert sorted(course.end()) == ["code-server", "orders", "web-server"]
    assert course.look().living == []


def test_a_process_that_ends_at_once_is_named_with_its_last_line(layout: Layout, streams: FakeStreams) -> None:
    course = course_of(layout, streams, daemon=FAILING)
    begun = course.begin(RECORD)
    wait_until_gone(course, "daemon")
    with pytest.raises(NotUpError, match="daemon has ended: no such option") as raised:
        course.await_ready(RECORD, Told(), begun)
    assert str(layout.processes / "daemon" / "log") in str(raised.value.action)
    course.end(begun)
    assert course.look().living == []


def test_a_stream_that_fails_is_named_with_its_cause(course: Course, streams: FakeStreams) -> None:
    course.begin(RECORD)
    streams.conditions["orders"] = Condition.FAILED
    with pytest.raises(NotUpError, match=r"stream orders has ended\. It was killed\."):
        course.await_ready(RECORD, Told(), ["flights", "orders"])


def test_what_was_not_begun_now_is_not_waited_for(course: Course, streams: FakeStreams) -> None:
    course.begin(RECORD)
    streams.conditions["orders"] = Condition.STOPPED
    told = Told()
    course.await_ready(RECORD, told, ["flights"])
    assert sorted(told.last) == ["dagster", "flights"]


def test_an_address_that_does_not_answer_is_waited_for_no_longer_than_it_should(
    layout: Layout, streams: FakeStreams
) -> None:
    course = course_of(layout, streams, groups={"flights"})
    course.begin(RECORD)
    try:
        with pytest.raises(NotUpError, match=r"Not ready after 1 s: dagster\."):
            course.await_ready(RECORD, Told(), ["feeder"], patience_s=1.2)
    finally:
        course.end()


def test_a_stream_that_is_refused_undoes_what_was_begun(course: Course, streams: FakeStreams) -> None:
    streams.refuses = "orders"
    with pytest.raises(LakestateError, match="orders is refused"):
        course.begin(RECORD)
    assert course.look().living == []
    assert streams.calls == ["start flights", "stop flights"]
