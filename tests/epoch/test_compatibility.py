"""Each refusal of a start names what differs and leaves every byte as it was."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from state_engine.epoch.request import OperatorShape, StartRequest
from state_engine.errors import (
    JobDefinitionError,
    KeyTypeChangedError,
    LakestateError,
    MaxParallelismChangedError,
    SourcesChangedError,
    StateReturnsError,
    StateTypeChangedError,
    TtlTimeChangedError,
    UnknownOperatorError,
    WindowsChangedError,
)
from state_engine.log.records import StateSchema, StateTtl
from state_engine.log.source_records import SourceFingerprint
from state_engine.log.window_records import WindowsShape
from state_engine.serialization.column import Column
from state_engine.testing.simulated import Faults
from state_engine.testing.simulated_tasks import schema
from state_engine.testing.simulator import Simulation, request

Change = Callable[[StartRequest], StartRequest]


def operator(**fields: object) -> Change:
    """Changes the first operator."""

    def change(start: StartRequest) -> StartRequest:
        first, *others = start.operators
        return replace(start, operators=(replace(first, **fields), *others))

    return change


def source(**fields: object) -> Change:
    return lambda start: replace(start, fingerprints=(replace(start.fingerprints[0], **fields),))


REFUSALS: list[tuple[Change, type[LakestateError], str]] = [
    (lambda start: replace(start, parallelism=14), JobDefinitionError, "14 is out of bounds: operator 'count'.*13 key"),
    (operator(max_parallelism=128), MaxParallelismChangedError, "128; its state was written with 13"),
    (operator(keys=(Column(name="key", type="bigint"),)), KeyTypeChangedError, r"\(key bigint\).*\(key string\)"),
    (operator(keys=()), KeyTypeChangedError, "'count'"),
    (
        operator(schemas=(replace(schema("count"), schema_id="x", value="double"),)),
        StateTypeChangedError,
        "bigint, is double",
    ),
    (
        operator(schemas=(replace(schema("count"), schema_id="x", shape="list"),)),
        StateTypeChangedError,
        "value, is list",
    ),
    (
        operator(schemas=(replace(schema("count"), ttl=StateTtl(milliseconds=1, time="event")),)),
        TtlTimeChangedError,
        "is in event time.*in processing time.*allow_time_characteristic_change",
    ),
    (operator(uid="counter"), UnknownOperatorError, r"'count' \(n\).*new in the job: counter"),
    (source(kind="delta"), SourcesChangedError, "source 0: kind was counted, is delta"),
    (source(path="letters"), SourcesChangedError, "path was numbers, is letters"),
    (source(options={"header": "true"}), SourcesChangedError, "option header was not set, is true"),
    (lambda start: replace(start, fingerprints=()), SourcesChangedError, "there were 1 and are 0"),
]


@pytest.mark.parametrize("restore", [False, True])
@pytest.mark.parametrize(("change", "kind", "says"), REFUSALS, ids=[says[:20] for _, _, says in REFUSALS])
def test_a_refusal_writes_nothing(change: Change, kind: type[LakestateError], says: str, restore: bool) -> None:
    simulation = Simulation()
    simulation.finish(Faults())
    start = request()
    if restore:
        start = simulation.restore(simulation.world.log.read(1, 4))
    before, sinks_made = dict(simulation.world.storage.objects), simulation.world.sinks_made
    with pytest.raises(kind, match=says) as refusal:
        simulation.start(change(start))
    assert refusal.value.action
    assert simulation.world.storage.objects == before
    assert simulation.world.sinks_made == sinks_made


def test_state_of_a_lost_operator_may_stay_in_the_log_and_come_back() -> None:
    simulation = Simulation()
    driver = simulation.start()
    for _ in range(3):
        driver.step()
    before = simulation.world.state_at(simulation.head)
    renamed = operator(uid="other")(request())
    simulation.start(replace(renamed, allow_non_restored_state=True))
    head = simulation.head.manifest
    assert set(head.operators) == {"other", "total", "count"}
    assert "count" in {known.uid for known in head.schemas}
    simulation.start(replace(request(), resume_state=("count",)))
    assert simulation.world.state_at(simulation.head) == before
    assert simulation.head.manifest.operators["count"].left_at is None, "and is not required again"
    simulation.start()


def test_old_state_across_a_gap_is_refused_until_the_start_says_what_becomes_of_it() -> None:
    simulation = Simulation()
    driver = simulation.start()
    for _ in range(3):
        driver.step()
    without = replace(operator(uid="other")(request()), allow_non_restored_state=True)
    simulation.start(without)
    left_at = simulation.head.manifest.epoch
    simulation.start(without)
    assert simulation.head.manifest.operators["count"].left_at == left_at, "also after later starts"
    objects = dict(simulation.world.storage.objects)
    with pytest.raises(StateReturnsError, match=rf"'count' is back.*from epoch {left_at} to .*\(n\).*--resume-state"):
        simulation.start(replace(request(), allow_non_restored_state=True))
    with pytest.raises(StateReturnsError):
        simulation.start(replace(simulation.restore(simulation.head), allow_non_restored_state=True))
    assert simulation.world.storage.objects == objects


def test_a_restore_from_before_the_gap_needs_no_permission() -> None:
    simulation = Simulation()
    driver = simulation.start()
    before = driver.step()
    simulation.start(replace(operator(uid="other")(request()), allow_non_restored_state=True))
    simulation.start(simulation.restore(before))


def test_an_operator_that_never_wrote_any_state_may_go_and_come_back() -> None:
    simulation = Simulation()
    new = OperatorShape(uid="new", parallelism=1, max_parallelism=7, keys=(), schemas=(schema("new"),))
    simulation.start(replace(request(), operators=(*request().operators, new)))
    simulation.start().step()
    assert simulation.head.manifest.operators["new"].left_at is not None
    assert not simulation.head.manifest.operators["count"].unwritten
    simulation.start(replace(request(), operators=(*request().operators, new)))


SESSIONS = WindowsShape(kind="sessions", event_time=True, trigger="EventTimeTrigger")


@pytest.mark.parametrize("restore", [False, True])
def test_other_windows_are_refused_once_there_is_state(restore: bool) -> None:
    simulation = Simulation()
    simulation.start(operator(windows=SESSIONS)(request()))
    driver = simulation.start(operator(windows=replace(SESSIONS, kind="windows of time"))(request()))
    for _ in range(3):
        driver.step()
    assert simulation.head.manifest.operators["count"].windows == replace(SESSIONS, kind="windows of time")
    before = dict(simulation.world.storage.objects)
    start = simulation.restore(simulation.head) if restore else request()
    for changed, says in [
        (SESSIONS, "'count' changed: they were windows of time, and are sessions"),
        (None, "'count' changed: it had windows of time, and has none"),
    ]:
        with pytest.raises(WindowsChangedError, match=says):
            simulation.start(operator(windows=changed)(start))
    assert simulation.world.storage.objects == before
    simulation.start(operator(windows=replace(SESSIONS, kind="windows of time"))(start))


def test_windows_that_an_earlier_release_has_not_recorded_are_not_asked_for() -> None:
    simulation = Simulation()
    driver = simulation.start()
    for _ in range(3):
        driver.step()
    simulation.start(operator(windows=SESSIONS)(request()))
    assert simulation.head.manifest.operators["count"].windows == SESSIONS


def test_sources_may_change_before_the_first_position() -> None:
    simulation = Simulation()
    simulation.start()
    simulation.start(source(path="letters")(request()))
    assert simulation.head.manifest.fingerprints == (SourceFingerprint(kind="counted", path="letters"),)


def test_an_operator_and_a_state_may_be_added() -> None:
    simulation = Simulation()
    simulation.finish(Faults())
    new = OperatorShape(uid="new", parallelism=2, max_parallelism=7, keys=(), schemas=(schema("new"),))
    simulation.start(replace(request(), operators=(*request().operators, new)))
    assert simulation.head.manifest.operators["new"].max_parallelism == 7
    assert {known.uid for known in simulation.head.manifest.schemas} == {"count", "total", "new"}


def test_parallelism_may_change_but_not_beyond_max_parallelism() -> None:
    simulation = Simulation()
    with pytest.raises(JobDefinitionError, match="14 is out of bounds"):
        simulation.start(replace(request(), parallelism=14))
    assert simulation.world.storage.objects == {}
    simulation.finish(Faults())
    simulation.start(replace(request(), parallelism=13))
    assert {op.parallelism for op in simulation.head.manifest.operators.values()} == {13}


def test_a_time_to_live_comes_with_the_start_and_changes_with_the_next() -> None:
    def ttl(**fields: object) -> Change:
        return operator(schemas=(replace(schema("count"), ttl=StateTtl(milliseconds=9, **fields)),))  # type: ignore[arg-type]

    simulation = Simulation()
    simulation.finish(Faults())

    def known() -> StateSchema:
        return next(known for known in simulation.head.manifest.schemas if known.uid == "count")

    simulation.start(ttl()(request()))
    assert known() == replace(schema("count"), ttl=StateTtl(milliseconds=9))
    simulation.start(ttl(update="read")(request()))
    assert known() == replace(schema("count"), ttl=StateTtl(milliseconds=9, update="read"))
    simulation.start(ttl(time="event", allow_change=True)(request()))
    assert known().ttl == StateTtl(milliseconds=9, time="event")
    assert known().unknown_until == simulation.head.manifest.epoch, "the claim's own epoch, which has no rows"
