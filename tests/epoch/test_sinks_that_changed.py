"""A start checks in S1 that every sink with sealed output is there, and writes nothing if one is missing."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.request import StartRequest
from state_engine.epoch.sink_names import check_names, merged, table_of
from state_engine.errors import SinkError
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import SinkTable
from state_engine.testing.simulated import Faults, SimulatedCrash
from state_engine.testing.simulated_services import SimulatedSinks
from state_engine.testing.simulator import Simulation, request


def sink(uid: str, table: str = "") -> SinkTable:
    return SinkTable(uid=uid, kind="delta" if table else "foreach", table=table)


X_TO_A, X_TO_B, Y_TO_A, Y_TO_B = sink("x", "a"), sink("x", "b"), sink("y", "a"), sink("y", "b")


def with_sinks(*sinks: SinkTable) -> StartRequest:
    return replace(request(), sinks=sinks)


@pytest.mark.parametrize(
    ("today", "known"),
    [
        ([X_TO_A], []),
        ([X_TO_A], [X_TO_A]),
        ([X_TO_A, Y_TO_B], [X_TO_A]),
        ([X_TO_A, Y_TO_A], [X_TO_A]),
        ([X_TO_A, Y_TO_A], []),
        ([X_TO_B], [X_TO_A]),
        ([], [X_TO_A]),
        ([X_TO_A], [X_TO_A, Y_TO_A]),
        ([sink("y")], [sink("x")]),
        ([SinkTable(uid="y", kind="memory", table="a")], [X_TO_A]),
    ],
)
def test_sinks_may_come_stay_move_and_go(today: list[SinkTable], known: list[SinkTable]) -> None:
    check_names(today, known)


@pytest.mark.parametrize(
    ("today", "known"),
    [([Y_TO_A], [X_TO_A]), ([X_TO_B, Y_TO_A], [X_TO_A]), ([X_TO_B, Y_TO_A], [X_TO_A, X_TO_B])],
)
def test_a_table_may_not_go_on_under_another_uid(today: list[SinkTable], known: list[SinkTable]) -> None:
    with pytest.raises(SinkError, match=r"'y'.*table a.*'x'") as caught:
        check_names(today, known)
    assert "uid='x'" in caught.value.action


def test_manifests_remember_every_sink_and_where_each_writes() -> None:
    simulation = Simulation()
    for today, known in (
        ((X_TO_A,), (X_TO_A,)),
        ((X_TO_B,), (X_TO_A, X_TO_B)),
        ((Y_TO_B, X_TO_B), (X_TO_A, Y_TO_B, X_TO_B)),
        ((Y_TO_B, X_TO_A), (X_TO_B, Y_TO_B, X_TO_A)),
        ((), (X_TO_B, Y_TO_B, X_TO_A)),
    ):
        driver = simulation.start(with_sinks(*today))
        assert driver.step().manifest.sinks == known
        assert merged(known, today) == known
    assert table_of(simulation.head.manifest, "x") == X_TO_A
    assert table_of(simulation.head.manifest, "z") is None


def test_a_restore_remembers_sinks_that_were_added_after_its_target() -> None:
    simulation = Simulation()
    target = simulation.start(with_sinks(X_TO_A)).step()
    simulation.start(with_sinks(X_TO_A, Y_TO_B)).step()
    simulation.start(replace(simulation.restore(target), sinks=(X_TO_A,)))
    assert simulation.head.manifest.generation == 2
    assert simulation.head.manifest.sinks == (Y_TO_B, X_TO_A)


def test_a_fork_begins_with_its_own_sinks() -> None:
    old, new = Simulation(), Simulation(job="fork")
    target = old.start(with_sinks(X_TO_A)).step()
    new.world.others["simulated"] = old.world
    new.start(replace(old.restore(target), job="fork", sinks=(Y_TO_A,)))
    assert new.head.manifest.sinks == (Y_TO_A,)


def refusing(method: str, told: list[int]) -> Callable[..., None]:
    def refuse(self: SimulatedSinks, sealed: StoredManifest, *_: int) -> None:
        told.append(sealed.manifest.epoch)
        raise SinkError(f"simulated: {method}")

    return refuse


def refused(simulation: Simulation, start: StartRequest, match: str) -> None:
    before, sinks_made = dict(simulation.world.storage.objects), simulation.world.sinks_made
    with pytest.raises(SinkError, match=match):
        simulation.start(start)
    assert (simulation.world.storage.objects, simulation.world.sinks_made) == (before, sinks_made)


def test_another_uid_is_refused_unless_output_is_kept() -> None:
    simulation = Simulation()
    target = simulation.start(with_sinks(X_TO_A)).step()
    refused(simulation, with_sinks(Y_TO_A), "'x'")
    refused(simulation, replace(simulation.restore(target), sinks=(Y_TO_A,)), "'x'")
    simulation.start(replace(with_sinks(Y_TO_A), keep_output=True))
    simulation.start(with_sinks(Y_TO_A))
    assert simulation.head.manifest.sinks == (X_TO_A, Y_TO_A)


def test_a_claim_asks_for_the_sinks_of_the_epoch_that_may_owe(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, checked = Simulation(), list[int]()
    owing = simulation.start().step().manifest.epoch
    simulation.start()  # a claim after it
    monkeypatch.setattr(SimulatedSinks, "check_owed", refusing("owed", checked))
    refused(simulation, request(), "owed")
    assert checked == [owing]
    simulation.start(replace(request(), keep_output=True))


@pytest.mark.parametrize("behind", [False, True])
def test_a_restore_asks_for_the_sinks_of_what_it_still_has_to_pay(
    monkeypatch: pytest.MonkeyPatch, behind: bool
) -> None:
    """An epoch after the target is abandoned, and its debt need not be paid."""
    simulation, checked = Simulation(), list[int]()
    driver = simulation.start()
    target = driver.step()
    if behind:
        driver.step()
    monkeypatch.setattr(SimulatedSinks, "check_owed", refusing("owed", checked))
    if behind:
        simulation.start(simulation.restore(target))
    else:
        refused(simulation, simulation.restore(target), "owed")
    assert checked == ([] if behind else [target.manifest.epoch])


def test_the_start_that_finishes_a_restore_asks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, checked = Simulation(), list[int]()
    driver = simulation.start()
    target = driver.step()
    driver.step()
    with pytest.raises(SimulatedCrash):
        simulation.start(simulation.restore(target), Faults(crashes=[(CrashPoint.S2_CLOSED, None)]))
    monkeypatch.setattr(SimulatedSinks, "check_rewind", refusing("rewind", checked))
    refused(simulation, request(), "rewind")
    assert checked == [target.manifest.epoch]
    simulation.start(replace(request(), keep_output=True))
    assert simulation.head.manifest.generation == 2
