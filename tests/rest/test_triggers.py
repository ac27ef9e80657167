"""Operations by their trigger ids."""

import itertools

import pytest

from lakestate.rest.triggers import (
    Key,
    Outcome,
    TooManyOperationsError,
    TriggerRegistry,
    UnknownOperationError,
)


class Time:
    now = 0

    def __call__(self) -> int:
        return self.now


def registry(time: Time, **options: int) -> TriggerRegistry:
    ids = itertools.count(1)
    return TriggerRegistry(lambda: f"{next(ids):032x}", time, **options)


def test_an_operation_is_under_way_until_it_ends() -> None:
    known = registry(Time())
    key, is_new = known.begin("savepoint", "j")
    assert is_new
    assert key == Key("savepoint", "j", f"{1:032x}")
    assert known.look(key) is None
    known.end(key, Outcome(result="there"))
    assert known.look(key) == Outcome(result="there")


def test_the_callers_own_id_begins_one_operation_only() -> None:
    known = registry(Time())
    assert known.begin("savepoint", "j", "mine") == (Key("savepoint", "j", "mine"), True)
    assert known.begin("savepoint", "j", "mine") == (Key("savepoint", "j", "mine"), False)
    assert known.begin("checkpoint", "j", "mine")[1], "of another kind"
    assert known.begin("savepoint", "k", "mine")[1], "of another job"


def test_an_unknown_operation_is_refused() -> None:
    known = registry(Time())
    key, _ = known.begin("savepoint", "j")
    for other in (key._replace(kind="checkpoint"), key._replace(job_id="k"), key._replace(trigger_id="x")):
        with pytest.raises(UnknownOperationError, match="not found"):
            known.look(other)


def test_an_end_is_forgotten_after_its_time_and_what_is_under_way_is_not() -> None:
    time = Time()
    known = registry(time, kept_ms=100)
    ended, _ = known.begin("savepoint", "j")
    running, _ = known.begin("savepoint", "j")
    time.now = 1_000
    known.end(ended, Outcome(result="x"))
    time.now = 1_100
    assert known.look(ended) is not None
    time.now = 1_101
    with pytest.raises(UnknownOperationError):
        known.look(ended)
    assert known.look(running) is None


def test_what_is_under_way_is_bounded() -> None:
    known = registry(Time(), max_running=2)
    first, _ = known.begin("savepoint", "j")
    known.begin("savepoint", "j", "b")
    with pytest.raises(TooManyOperationsError):
        known.begin("savepoint", "j")
    assert known.begin("savepoint", "j", "b") == (Key("savepoint", "j", "b"), False), "one that is known begins nothing"
    known.end(first, Outcome(result=1))
    assert known.begin("savepoint", "j")[1]


def test_an_end_is_unread_until_somebody_asked_after_it() -> None:
    known = registry(Time())
    key, _ = known.begin("savepoint", "j")
    known.look(key)
    assert (known.running, known.unread) == (1, 1), "asked too early"
    known.end(key, Outcome(error=ValueError("bad")))
    assert (known.running, known.unread) == (0, 1)
    known.look(key)
    assert (known.running, known.unread) == (0, 0)
