"""A running job gets another parallelism: with which epoch, for how long, and what is refused."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import EpochPlan, OperatorPlan, SourcePositions, StreamEdge
from state_engine.epoch.rescale import RescaleRequest, rescaled, sharing
from state_engine.errors import FencedError, LakestateError, MaxParallelismChangedError, RescaleError, UserFunctionError
from state_engine.log.barriers import Barrier
from state_engine.log.manifest import StoredManifest
from state_engine.testing.simulated import Faults, SimulatedCrash
from state_engine.testing.simulated_tasks import SimulatedTasks
from state_engine.testing.simulator import MAX_PARALLELISM, SimulatedDriver, Simulation, request


class Told:
    """Records how a rescale ended, for a caller that waits for it."""

    def __init__(self) -> None:
        self.ends: list[tuple[int | None, str]] = []

    def __call__(self, sealed: StoredManifest | None, why: str) -> None:
        self.ends.append((sealed.manifest.epoch if sealed else None, why))


def ask(driver: SimulatedDriver, parallelism: Any) -> Told:
    told = Told()
    driver.epochs.rescale(RescaleRequest(parallelism, told))
    return told


def sizes(stored: StoredManifest) -> tuple[int, ...]:
    """Returns the parallelisms in a manifest; asserts that they are the numbers of subtasks that ran."""
    operators = stored.manifest.operators.values()
    assert all(len(operator.acks) in (0, operator.parallelism) for operator in operators)
    return tuple(operator.parallelism for operator in operators)


class Watched:
    """Tasks that remember their plans."""

    def __init__(self, simulation: Simulation, driver: SimulatedDriver) -> None:
        self._tasks = SimulatedTasks(simulation.world, driver.crash, simulation.records[:7])
        self.plans: list[EpochPlan] = []
        self.meanwhile: Any = lambda: None
        self.fails = False

    def run(self, plan: EpochPlan) -> Sequence[Barrier]:
        self.plans.append(plan)
        self.meanwhile()
        if self.fails:
            raise UserFunctionError("it broke")
        return self._tasks.run(plan)

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        return [tuple(operator.parallelism for operator in plan.operators) for plan in self.plans]


def test_the_next_epoch_has_it_and_all_that_follow() -> None:
    simulation = Simulation()
    driver = simulation.start()
    assert sizes(driver.step()) == (2, 3)
    told = ask(driver, 4)
    assert driver.epochs.wants_rescale
    assert told.ends == []
    assert sizes(driver.step()) == (4, 4)
    assert told.ends == [(3, "")]
    assert not driver.epochs.wants_rescale
    assert sizes(driver.step()) == (4, 4)
    ask(driver, {"total": 1})
    assert sizes(driver.idle()) == (4, 1)
    assert [operator.parallelism for operator in driver.epochs.operators] == [4, 1]
    simulation.finish(Faults())
    simulation.verify()


def test_all_attempts_of_an_epoch_have_one_parallelism() -> None:
    simulation = Simulation()
    driver = simulation.start(faults=Faults(mixed={2}))
    tasks = Watched(simulation, driver)
    ask(driver, 4)
    late: list[Told] = []
    tasks.meanwhile = lambda: late.append(ask(driver, 1)) if not late else None
    driver.epochs.run_epoch(tasks, SourcePositions())
    assert tasks.sizes == [(4, 4), (4, 4)]
    assert [told.ends for told in late] == [[]]
    driver.epochs.run_epoch(tasks, SourcePositions())
    assert tasks.sizes[2:] == [(1, 1)]
    assert late[0].ends == [(3, "")]


def test_an_epoch_that_is_not_sealed_leaves_it_to_the_next() -> None:
    simulation = Simulation()
    driver = simulation.start()
    tasks = Watched(simulation, driver)
    tasks.fails = True
    told = ask(driver, 4)
    with pytest.raises(UserFunctionError):
        driver.epochs.run_epoch(tasks, SourcePositions())
    assert driver.epochs.wants_rescale
    assert [operator.parallelism for operator in driver.epochs.operators] == [2, 3]
    assert told.ends == []
    assert sizes(driver.step()) == (4, 4)
    assert told.ends == [(2, "")]
    simulation.verify()


@pytest.mark.parametrize(
    ("parallelism", "says"),
    [
        (0, "cannot have the parallelism 0"),
        (-1, "cannot have the parallelism -1"),
        (MAX_PARALLELISM + 1, "cannot have the parallelism 14: its state has 13 key groups"),
        (True, "cannot have the parallelism True"),
        (2.0, r"cannot have the parallelism 2\.0"),
        ("2", "cannot have the parallelism '2'"),
        ({"total": 0}, "'total' cannot have"),
        ({"count": 2, "nobody": 2}, "no operator 'nobody'"),
    ],
)
def test_what_cannot_be_is_refused_at_once_and_nothing_changes(parallelism: Any, says: str) -> None:
    simulation = Simulation()
    driver = simulation.start()
    with pytest.raises(RescaleError, match=says):
        ask(driver, parallelism)
    assert not driver.epochs.wants_rescale
    assert sizes(driver.step()) == (2, 3)


def test_two_before_one_epoch_are_both_done_where_they_agree() -> None:
    driver = Simulation().start()
    count, total, other = ask(driver, {"count": 4}), ask(driver, {"total": 5}), ask(driver, {"count": 1})
    assert sizes(driver.step()) == (1, 5)
    assert count.ends == [(None, "another rescale came before the next epoch")]
    assert total.ends == other.ends == [(2, "")]


def test_callers_that_wait_learn_of_the_end_of_the_job() -> None:
    simulation = Simulation()
    driver = simulation.start()
    tasks = Watched(simulation, driver)
    tasks.fails = True
    tried = ask(driver, 4)
    with pytest.raises(UserFunctionError):
        driver.epochs.run_epoch(tasks, SourcePositions())
    waiting = ask(driver, 5)
    driver.epochs.end_rescales()
    late = ask(driver, 6)
    assert tried.ends == waiting.ends == late.ends == [(None, "the job has ended")]


@pytest.mark.parametrize("point", [CrashPoint.E1_PLANNED, CrashPoint.E6_BEFORE_PUT])
def test_a_crash_before_the_seal_keeps_the_old_parallelism(point: CrashPoint) -> None:
    simulation = Simulation()
    driver = simulation.start(faults=Faults(crashes=[(point, 3)]))
    driver.step()
    ask(driver, 4)
    with pytest.raises(SimulatedCrash):
        driver.step()
    assert sizes(simulation.start().step()) == (2, 3)
    simulation.finish(Faults())
    simulation.verify()


@pytest.mark.parametrize("point", [CrashPoint.E6_SEALED, CrashPoint.E7_COMMITTED, CrashPoint.E8_BEFORE_RETURN])
def test_a_crash_after_the_seal_keeps_the_rescale(point: CrashPoint) -> None:
    simulation = Simulation()
    driver = simulation.start(faults=Faults(crashes=[(point, 3)]))
    driver.step()
    ask(driver, 4)
    with pytest.raises(SimulatedCrash):
        driver.step()
    assert sizes(simulation.head) == (4, 4)
    again = simulation.start()
    assert sizes(again.step()) == (4, 4)
    simulation.finish(Faults())
    assert sizes(simulation.head) == (4, 4)
    simulation.verify()


def test_a_driver_that_was_replaced_cannot_rescale_the_job() -> None:
    simulation = Simulation()
    zombie = simulation.start()
    zombie.step()
    driver = simulation.start()
    driver.step()
    told = ask(zombie, 4)
    with pytest.raises(FencedError):
        zombie.step()
    assert told.ends == []
    assert not zombie.epochs.wants_rescale
    assert sizes(driver.step()) == (2, 3)
    simulation.finish(Faults())
    simulation.verify()


# A later start ------------------------------------------------------------------------------------------------------


def rescaled_job(parallelism: Any = 4) -> Simulation:
    simulation = Simulation()
    driver = simulation.start()
    ask(driver, parallelism)
    driver.step()
    return simulation


def test_starts_keep_it_while_the_definition_says_the_same() -> None:
    simulation = rescaled_job({"total": 7})
    for _ in range(3):
        assert sizes(simulation.start().step()) == (2, 7)
    assert sizes(simulation.start(request(parallelism=(5, 3))).step()) == (5, 7)
    assert sizes(simulation.start(request(parallelism=(5, 2))).step()) == (5, 2)
    assert sizes(simulation.start(request(parallelism=(5, 3))).step()) == (5, 3), "rescaled under another definition"
    simulation.verify()


def test_a_start_that_names_a_parallelism_has_it_and_ends_the_rescale() -> None:
    simulation = rescaled_job()
    assert sizes(simulation.start(replace(request(), parallelism=6)).step()) == (6, 6)
    assert sizes(simulation.start().step()) == (2, 3)
    simulation.verify()


def test_a_rescale_after_a_start_with_another_parallelism_is_kept() -> None:
    simulation = Simulation()
    driver = simulation.start(replace(request(), parallelism=6))
    ask(driver, {"count": 2, "total": 7})
    driver.step()
    assert sizes(simulation.start().step()) == (2, 7)


def test_a_rescale_back_to_the_definition_is_none() -> None:
    simulation = rescaled_job()
    ask(driver := simulation.start(), {"count": 2, "total": 3})
    sealed = driver.step()
    assert {operator.rescaled_from for operator in sealed.manifest.operators.values()} == {None}
    assert sizes(simulation.start(request(parallelism=(5, 5))).step()) == (5, 5)


def test_a_restore_goes_by_the_definition() -> None:
    simulation = rescaled_job()
    driver = simulation.start(simulation.restore(simulation.head))
    assert sizes(driver.step()) == (2, 3)
    assert sizes(simulation.start().step()) == (2, 3)
    simulation.verify()


def test_a_definition_with_too_few_key_groups_is_refused_as_such() -> None:
    simulation = rescaled_job(9)
    start = request()
    small = tuple(replace(shape, max_parallelism=5) for shape in start.operators)
    with pytest.raises(MaxParallelismChangedError):
        simulation.start(replace(start, operators=small))


# Which operators share one parallelism --------------------------------------------------------------------------------


def plan(uid: str, *upstream: str, chained: bool = False, parallelism: int = 2) -> OperatorPlan:
    edges = tuple(StreamEdge(upstream=one, chained=chained) for one in upstream) or (StreamEdge(),)
    return OperatorPlan(uid=uid, parallelism=parallelism, max_parallelism=13, edges=edges)


def test_chains_and_readers_of_one_operator_share_a_parallelism() -> None:
    operators = [
        plan("a"),
        plan("b", "a", chained=True),
        plan("c", "b", chained=True),
        plan("d", "c"),
        plan("e", "c"),
        plan("f", "d"),
        plan("g", "d", "f"),
        plan("h"),
    ]
    assert sharing(operators) == [("a", "b", "c"), ("d", "e"), ("f", "g"), ("h",)]
    declared = {one.uid: 2 for one in operators}

    def after(wanted: Any) -> dict[str, int]:
        plans = rescaled(operators, wanted, declared)
        assert all((one.rescaled_from is None) == (one.parallelism == 2) for one in plans)
        return {one.uid: one.parallelism for one in plans if one.parallelism != 2}

    assert after({"b": 4}) == {"a": 4, "b": 4, "c": 4}
    assert after({"e": 3, "f": 2}) == {"d": 3, "e": 3}
    assert after({"a": 5, "c": 5}) == {"a": 5, "b": 5, "c": 5}
    assert set(after(13).values()) == {13}
    with pytest.raises(RescaleError, match=r"'d', 'e' share one parallelism, and are to have 3 \(d\), 4 \(e\)"):
        after({"d": 3, "e": 4})


def test_a_new_operator_of_a_rescaled_chain_is_as_wide_as_the_chain() -> None:
    simulation = rescaled_job({"total": 7})
    count, total = request().operators
    downstream = replace(
        total, uid="behind", parallelism=3, edges=(StreamEdge(upstream="total", chained=True),), schemas=()
    )
    with pytest.raises(LakestateError):  # the simulated job has no such operator; its claim says how wide it would be
        simulation.start(replace(request(), operators=(count, total, downstream))).step()
    assert sizes(simulation.head) == (2, 7, 7)
