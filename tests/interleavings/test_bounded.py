"""The enumerators are complete: for small processes every order is tried, and each end is one that they reach too."""

import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import count, product

import pytest
from bounded import Pair, one_among_all, preempted_once, preempted_twice

from state_engine.errors import AlreadyExistsError
from state_engine.storage.memory import MemoryStorage
from state_engine.testing.interleaving import Call, Interleaving, Process, Schedule, commute

ROOT = "bounded"
Ends = set[tuple[object, ...]]


class World:
    """Three processes that read, list, write and delete a handful of objects, and the ends of all runs."""

    def __init__(self, roots: Iterator[str]) -> None:
        self.roots = roots
        self.ends: Ends = set()
        self.runs = 0

    def __call__(self, schedule: Schedule) -> Interleaving:
        name = next(self.roots)
        storage = MemoryStorage.open(name)
        for path in ("a/1", "a/2", "b/1"):
            storage.put_if_absent(path, b"0")
        seen: list[object] = []
        played = Interleaving(schedule)
        played.run(processes(storage, seen.append))
        self.ends.add((*sorted(storage.objects), *sorted(map(repr, seen))))
        MemoryStorage.forget(name)
        self.runs += 1
        return played


def processes(storage: MemoryStorage, tell: Callable[[object], None]) -> Mapping[str, Process]:
    def put(path: str) -> bool:
        try:
            storage.put_if_absent(path, b"1")
        except AlreadyExistsError:
            return False
        return True

    def one() -> None:
        before = len(storage.list("a"))
        done = put("a/3") and storage.exists("d/1")
        tell(("one", before, done, storage.exists("c/1"), len(storage.list("b"))))
        storage.delete("a/3")

    def two() -> None:
        existed = storage.exists("a/3")
        storage.delete("a/1")
        tell(("two", existed, put("c/1"), storage.exists("a/2"), storage.exists("b/1")))

    def three() -> None:
        storage.delete("b/1")
        tell(("three", len(storage.list("a")), put("c/1")))

    return {"one": one, "two": two, "three": three}


@pytest.fixture
def world() -> World:
    return World(iter(lambda: f"{ROOT}/same", ""))


def by_force(world: World, schedules: Iterator[Schedule]) -> Ends:
    forced = World(world.roots)
    for schedule in schedules:
        forced(schedule)
    return forced.ends


def test_one_preemption_anywhere(world: World) -> None:
    ran = preempted_once(world, "one", ["two", "three"])
    everywhere = (Schedule((("one", steps),), ("two", "three", "one")) for steps in range(1, 10))
    assert world.ends == by_force(world, everywhere)
    assert len(world.ends) > 3
    assert world.runs == 1 + ran.schedules
    assert ran.schedules < ran.places == 7


@pytest.mark.parametrize("pair", [Pair("one", "two"), Pair("two", "one"), Pair("one", "two", ["three"], back=True)])
def test_two_preemptions_anywhere(world: World, pair: Pair) -> None:
    ran = preempted_twice(world, pair)
    everywhere = (
        pair.schedule(((pair.outer, first), (pair.inner, then))) for first, then in product(range(9), repeat=2)
    )
    assert world.ends == by_force(world, everywhere)
    assert len(world.ends) > 5
    assert world.runs == 1 + ran.schedules
    assert ran.schedules < ran.places


def test_one_before_each_call_of_others_that_run_together(world: World) -> None:
    mix = (("two", 2), ("three", 2), ("two", 2), ("three", 1))
    ran = one_among_all(world, "one", ["two", "three"], mix)
    together = world(Schedule(mix, ("two", "three", "one")))
    everywhere = (
        Schedule((*together.until(place), ("one", 99), *together.since(place)), ("two", "three"))
        for place in range(len(together.trace) + 1)
    )
    assert world.ends == by_force(world, everywhere)
    assert len(world.ends) > 3
    assert ran.schedules < ran.places == 9


def test_a_sample_has_the_size_that_was_asked_for(world: World) -> None:
    assert preempted_twice(world, Pair("one", "two"), size=5).schedules == 6
    assert preempted_once(world, "one", ["two"], size=2).schedules == 3


@pytest.mark.parametrize("size", [None, 3])
def test_a_root_that_differs_from_run_to_run_is_refused(size: int | None) -> None:
    numbers = count()
    world = World(f"{ROOT}/{number}" for number in numbers)
    for enumerate_all in (
        lambda: preempted_once(world, "one", ["two"], size=size),
        lambda: preempted_twice(world, Pair("one", "two"), size=size),
        lambda: one_among_all(world, "one", ["two", "three"], (), size=size),
    ):
        with pytest.raises(AssertionError, match="differ from run to run"):
            enumerate_all()


def test_calls_of_threads_outside_the_schedule_are_refused() -> None:
    storage = MemoryStorage()

    def one() -> None:
        thread = threading.Thread(target=storage.exists, args=("a/1",), name="pool")
        thread.start()
        thread.join()

    with pytest.raises(AssertionError, match="pool: exists a/1"):
        Interleaving(Schedule()).run({"one": one})


def test_asking_for_the_jobs_below_a_root_is_a_step_like_any_other() -> None:
    answers: list[list[str]] = []

    def one() -> None:
        answers.append(MemoryStorage.names(ROOT))
        answers.append(MemoryStorage.names(ROOT))

    def two() -> None:
        MemoryStorage.open(f"{ROOT}/job").put_if_absent("a", b"1")

    played = Interleaving(Schedule((("one", 2),), ("two", "one")))
    played.run({"one": one, "two": two})
    MemoryStorage.forget(f"{ROOT}/job")
    assert answers == [[], ["job"]]
    asks, puts, _ = played.trace
    assert not commute(asks, puts)
    assert not commute(puts, asks)


def test_threads_of_one_process_are_always_in_each_others_way() -> None:
    reads = [Call(name, "get", "memory://job", "a") for name in ("driver", "driver/publish", "retention")]
    assert not commute(reads[0], reads[1])
    assert commute(reads[0], reads[2])
