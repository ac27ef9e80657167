"""Each kind of fault does what it says, and nothing else."""

import pytest

from state_engine.errors import AlreadyExistsError, StorageError
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.storage.memory import MemoryStorage


def test_before_means_that_nothing_happened() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("before", "put_if_absent", "e2")])
    storage.put_if_absent("e1", b"x")
    with pytest.raises(StorageError, match="put_if_absent of 'e2' failed before"):
        storage.put_if_absent("e2", b"x")
    assert not storage.inner.exists("e2")
    storage.put_if_absent("e2", b"x")


def test_after_means_that_the_answer_was_lost() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("after", "put_if_absent")])
    with pytest.raises(StorageError, match="after"):
        storage.put_if_absent("e1", b"x")
    assert storage.inner.get("e1") == b"x"


def test_a_lost_answer_cannot_hide_that_the_name_was_taken() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("after", "put_if_absent")])
    storage.inner.put_if_absent("e1", b"first")
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("e1", b"second")


def test_a_put_in_flight_arrives_when_it_is_released() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("in_flight", "put_if_absent", times=2)])
    for path in ("e1", "e2"):
        with pytest.raises(StorageError, match="in flight"):
            storage.put_if_absent(path, b"late")
    assert storage.list("") == []
    storage.put_if_absent("e1", b"early")

    (late,) = storage.release("e1")
    assert isinstance(late.outcome, AlreadyExistsError)
    assert storage.get("e1") == b"early"
    assert [put.path for put in storage.in_flight] == ["e2"]

    (late,) = storage.release()
    assert late.outcome is None
    assert storage.get("e2") == b"late"
    assert storage.release() == []


def test_skip_and_times_and_the_choice_of_error() -> None:
    fault = Fault("before", "get", skip=1, times=2, error=ConnectionError)
    storage = FaultyStorage(MemoryStorage(), [fault])
    storage.put_if_absent("a", b"x")
    assert storage.get("a") == b"x"
    for _ in range(2):
        with pytest.raises(ConnectionError):
            storage.get("a")
    assert storage.get("a") == b"x"


def test_slow_waits_and_succeeds() -> None:
    waited: list[float] = []
    storage = FaultyStorage(MemoryStorage(), [Fault("slow", times=None, latency_s=0.5)], sleep=waited.append)
    storage.put_exclusive("a", b"x")
    assert storage.get_range("a", 0, 1) == b"x"
    assert waited == [0.5, 0.5]


def test_only_puts_can_be_in_flight() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("in_flight")])
    with pytest.raises(ValueError, match="Only a put"):
        storage.get("a")
