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
    triggers = registry(Time())
    key, is_new = triggers.begin("savepoint", "j")
    assert is_new
    assert key == Key("savepoint", "j", f"{1:032x}")
    assert triggers.look(key) is None
    triggers.end(key, Outcome(result="there"))
    assert triggers.look(key) == Outcome(result="there")


def test_the_callers_own_id_begins_one_operation_only() -> None:
    triggers = registry(Time())
    assert triggers.begin("savepoint", "j", "mine") == (Key("savepoint", "j", "mine"), True)
    assert triggers.begin("savepoint", "j", "mine") == (Key("savepoint", "j", "mine"), False)
    assert triggers.begin("checkpoint", "j", "mine")[1], "of another kind"
    assert triggers.begin("savepoint", "k", "mine")[1], "of another job"


def test_an_unknown_operation_is_refused() -> None:
    triggers = registry(Time())
    key, _ = triggers.begin("savepoint", "j")
    for other in (key._replace(kind="checkpoint"), key._replace(job_id="k"), key._replace(trigger_id="x")):
        with pytest.raises(UnknownOperationError, match="not found"):
            triggers.look(other)


def test_an_end_is_forgotten_after_its_time_and_what_is_under_way_is_not() -> None:
    time = Time()
    triggers = registry(time, kept_ms=100)
    ended, _ = triggers.begin("savepoint", "j")
    running, _ = triggers.begin("savepoint", "j")
    time.now = 1_000
    triggers.end(ended, Outcome(result="x"))
    time.now = 1_100
    assert triggers.look(ended) is not None
    time.now = 1_101
    with pytest.raises(UnknownOperationError):
        triggers.look(ended)
    assert triggers.look(running) is None


def test_what_is_under_way_is_bounded() -> None:
    triggers = registry(Time(), max_running=2)
    first, _ = triggers.begin("savepoint", "j")
    triggers.begin("savepoint", "j", "b")
    with pytest.raises(TooManyOperationsError):
        triggers.begin("savepoint", "j")
    assert triggers.begin("savepoint", "j", "b") == (Key("savepoint", "j", "b"), False), (
        "one that is known begins nothing"
    )
    triggers.end(first, Outcome(result=1))
    assert triggers.begin("savepoint", "j")[1]


def test_an_end_is_unread_until_a_client_has_read_it() -> None:
    triggers = registry(Time())
    key, _ = triggers.begin("savepoint", "j")
    triggers.look(key)
    assert (triggers.running, triggers.unread) == (1, 1), "asked too early"
    triggers.end(key, Outcome(error=ValueError("bad")))
    assert (triggers.running, triggers.unread) == (0, 1)
    triggers.look(key)
    assert (triggers.running, triggers.unread) == (0, 0)
