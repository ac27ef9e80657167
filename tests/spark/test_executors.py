"""Which executors exist, by Spark's scheduler and by its status store, which is updated later."""

from types import SimpleNamespace
from typing import Any

from state_engine.spark.plan.preferred_locations import Executor, Executors


class Sequence(list[Any]):
    """A Scala sequence."""

    def size(self) -> int:
        return len(self)

    def apply(self, place: int) -> Any:
        return self[place]

    def mkString(self, separator: str) -> str:
        return separator.join(self)


class Context:
    """A Spark context with a scheduler and a status store; it counts how often the store was read."""

    def __init__(self) -> None:
        self.ids = Sequence()
        self.book: dict[str, tuple[str, int]] = {"driver": ("driver:7001", 0)}
        self.opened = 0

    def getExecutorIds(self) -> Sequence:
        return self.ids

    def statusStore(self) -> Any:
        return SimpleNamespace(executorList=self._list)

    def _list(self, active: bool) -> Sequence:
        assert active
        self.opened += 1
        return Sequence(self._summary(name, *entry) for name, entry in self.book.items())

    def _summary(self, name: str, place: str, tasks: int) -> Any:
        return SimpleNamespace(id=lambda: name, hostPort=lambda: place, maxTasks=lambda: tasks)


def test_the_books_are_opened_when_others_come_or_go() -> None:
    context = Context()
    executors = Executors(context, "job")
    context.ids, context.book["0"] = Sequence("0"), ("one.example:7002", 4)
    for _ in range(3):
        assert executors.look() == {"0": Executor("one.example", 4)}
    assert context.opened == 1
    context.ids, context.book["1"] = Sequence("01"), ("[::1]:7003", 2)
    assert executors.look() == {"0": Executor("one.example", 4), "1": Executor("[::1]", 2)}
    context.ids = Sequence("1")
    assert executors.look() == {"1": Executor("[::1]", 2)}
    assert context.opened == 3


def test_an_executor_that_the_books_lack_is_looked_for_again() -> None:
    context = Context()
    executors = Executors(context, "job")
    context.ids = Sequence("0")
    assert executors.look() == {}
    context.book["0"] = ("one.example", 1)  # its blocks have no port yet
    assert executors.look() == {"0": Executor("one.example", 1)}
    assert executors.look() == {"0": Executor("one.example", 1)}
    assert context.opened == 2


def test_without_executors_there_is_none() -> None:
    assert Executors(Context(), "job").look() == {}


def test_jobs_begin_with_different_executors() -> None:
    context = Context()
    context.ids = Sequence("0123456789")
    context.book |= dict.fromkeys(context.ids, ("one.example", 1))
    first = {next(iter(Executors(context, f"job{n}").look())) for n in range(20)}
    assert len(first) > 5
