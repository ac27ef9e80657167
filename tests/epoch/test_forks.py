"""A restore is a new generation: the old one is closed, sinks go back, and the next start can finish it."""

import pytest
from msgspec.structs import replace

from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.request import RestoreTarget
from state_engine.errors import FencedError, NothingToRestoreError, RestoreError, SinkRewindError
from state_engine.log.manifest import StoredManifest
from state_engine.testing.simulated import Faults, SimulatedCrash
from state_engine.testing.simulated_services import SimulatedSinks
from state_engine.testing.simulated_tasks import truth
from state_engine.testing.simulator import SimulatedDriver, Simulation, position, request

CLOSED_BUT_NOT_BEGUN = [CrashPoint.S2_CLOSED, CrashPoint.S3_REWOUND, CrashPoint.S2_BEFORE_CLAIM]


def finished(seed: int = 0) -> Simulation:
    simulation = Simulation(seed)
    simulation.finish(Faults())
    return simulation


def target_of(simulation: Simulation, epoch: int, generation: int = 1) -> StoredManifest:
    return simulation.world.log.read(generation, epoch)


def run(driver: SimulatedDriver) -> None:
    while True:
        driver.step()


def test_a_fork_abandons_later_epochs_of_the_old_generation() -> None:
    simulation = finished()
    target = target_of(simulation, 5)
    old = simulation.start()
    driver = simulation.start(simulation.restore(target))
    first = simulation.head.manifest
    assert (first.generation, first.epoch, first.kind, first.predecessor) == (2, 6, "restore", target.hash)
    assert [(span.generation, span.first, span.last) for span in first.lineage] == [(1, 1, 5), (2, 6, None)]
    assert first.origin is not None
    assert (first.origin.epoch, first.origin.savepoint_id) == (5, "sp")
    assert driver.offset == position(target) == 28
    with pytest.raises(FencedError):
        old.step()
    simulation.finish(Faults())
    simulation.verify()


def test_a_fork_of_a_fork_and_back() -> None:
    simulation = finished()
    for generation, epoch in ((1, 7), (2, 9), (1, 3), (3, 10), (1, 3)):
        simulation.finish(Faults(), simulation.restore(target_of(simulation, epoch, generation), (3, 2)))
        simulation.verify()
    assert simulation.world.log.generations() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("with_request", [False, True])
@pytest.mark.parametrize("point", CLOSED_BUT_NOT_BEGUN, ids=str)
def test_the_next_start_finishes_a_fork(point: CrashPoint, with_request: bool) -> None:
    simulation = finished()
    wanted = replace(simulation.restore(target_of(simulation, 5)), parallelism=5)
    with pytest.raises(SimulatedCrash):
        simulation.start(wanted, Faults(crashes=[(point, None)]))
    assert simulation.head.manifest.kind == "closing"
    simulation.start(wanted if with_request else None)
    assert simulation.world.log.generations() == [1, 2]
    assert {op.parallelism for op in simulation.head.manifest.operators.values()} == {5}
    simulation.finish(Faults())
    simulation.verify()


def test_another_restore_comes_after_the_unfinished_one() -> None:
    simulation = finished()
    with pytest.raises(SimulatedCrash):
        simulation.start(simulation.restore(target_of(simulation, 5)), Faults(crashes=[(CrashPoint.S2_CLOSED, None)]))
    driver = simulation.start(simulation.restore(target_of(simulation, 3)))
    assert (simulation.head.manifest.generation, driver.offset) == (3, 14)
    simulation.finish(Faults())
    simulation.verify()


@pytest.mark.parametrize("point", CLOSED_BUT_NOT_BEGUN, ids=str)
def test_two_starts_finish_one_fork(point: CrashPoint) -> None:
    simulation = finished()
    wanted = simulation.restore(target_of(simulation, 5))

    def rival() -> None:
        simulation.start().step()

    epoch = 11 if point is CrashPoint.S2_CLOSED else 5 if point is CrashPoint.S3_REWOUND else 6
    with pytest.raises(FencedError):
        simulation.start(wanted, Faults(hooks={(point, epoch): rival}))
    assert simulation.world.log.generations() == [1, 2]
    simulation.finish(Faults())
    simulation.verify()


@pytest.mark.parametrize("point", [CrashPoint.E6_SEALED, CrashPoint.E7_BEFORE_SINK_COMMIT], ids=str)
def test_output_owed_by_the_target_is_committed_and_that_of_later_epochs_is_not(point: CrashPoint) -> None:
    for back in (0, 2):
        simulation = Simulation()
        with pytest.raises(SimulatedCrash):
            run(simulation.start(faults=Faults(crashes=[(point, 6)])))
        simulation.start(simulation.restore(target_of(simulation, 6 - back)))
        simulation.verify()


def test_a_zombie_of_the_old_generation_cannot_reach_the_sinks() -> None:
    simulation = Simulation()
    driver = simulation.start()
    for _ in range(4):
        driver.step()
    wanted = simulation.restore(target_of(simulation, 3))
    driver.crash.faults.hooks[CrashPoint.E7_BEFORE_SINK_COMMIT, 6] = lambda: simulation.start(wanted)
    driver.step()
    simulation.verify()


def test_a_delayed_put_arrives_before_or_after_the_closing_manifest() -> None:
    for hook in (CrashPoint.S2_BEFORE_CLOSING, CrashPoint.S2_CLOSED):
        simulation = Simulation()
        driver = simulation.start()
        driver.step()
        driver.step()
        driver.crash.faults.puts = ["delayed"] * 5
        with pytest.raises(Exception, match="It is unknown"):
            driver.step()
        wanted = simulation.restore(target_of(simulation, 2))
        simulation.start(wanted, Faults(hooks={(hook, 4): simulation.world.deliver}))
        simulation.finish(Faults())
        simulation.verify()


def test_a_savepoint_of_another_job_begins_a_new_job() -> None:
    old, new = finished(), Simulation(job="copy")
    new.world.others["simulated"] = old.world
    before = dict(old.world.storage.objects)
    target = target_of(old, 5)
    wanted = replace(request("copy", (1, 4)), restore=RestoreTarget(stored=target))
    with pytest.raises(SimulatedCrash):
        new.start(wanted, Faults(crashes=[(CrashPoint.S2_CLAIMED, None)]))
    driver = new.start(wanted)  # the same request again goes on
    first = new.world.log.read(1, 6).manifest
    assert (first.kind, first.incarnation_number, first.base) == ("restore", 1, None)
    assert first.origin is not None
    assert first.origin.job == "simulated"
    while driver.offset < 60:
        driver.step()
    state, counts, _ = truth(old.records)
    assert new.world.state_at(new.head) == state
    assert new.world.table.live == [row for row in sorted(counts) if row[0] >= 28]
    assert old.world.storage.objects == before
    with pytest.raises(RestoreError, match="epochs of its own"):
        new.start(replace(wanted, restore=RestoreTarget(stored=target_of(old, 6))))


def test_a_fork_that_loses_the_race_for_the_first_manifest_does_not_go_on_from_anothers_state() -> None:
    olds, new = [finished(), Simulation(job="other")], Simulation(job="copy")
    olds[1].finish(Faults())
    new.world.others |= {"simulated": olds[0].world, "other": olds[1].world}
    mine, others = (replace(request("copy", (1, 4)), restore=RestoreTarget(stored=target_of(old, 5))) for old in olds)
    hooks = {(CrashPoint.S2_BEFORE_CLAIM, 6): lambda: new.start(others)}
    with pytest.raises(FencedError, match="was starting"):
        new.start(mine, Faults(hooks=hooks))


def test_a_target_that_is_not_there_is_refused() -> None:
    simulation = finished()
    gone = target_of(simulation, 5)
    before = dict(simulation.world.storage.objects)
    missing = StoredManifest(replace(gone.manifest, epoch=77), gone.hash)
    with pytest.raises(NothingToRestoreError, match="Epoch 77"):
        simulation.start(simulation.restore(missing))
    with pytest.raises(Exception, match="is not the manifest"):
        simulation.start(simulation.restore(StoredManifest(gone.manifest, "0" * 64)))
    with pytest.raises(NothingToRestoreError):
        Simulation().start(simulation.restore(gone))
    assert simulation.world.storage.objects == before


def test_a_sink_that_cannot_go_back_refuses_before_anything_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: SimulatedSinks, target: StoredManifest, generation: int) -> None:
        raise SinkRewindError("The table was compacted by someone else.")

    simulation = finished()
    before = dict(simulation.world.storage.objects)
    monkeypatch.setattr(SimulatedSinks, "check_rewind", refuse)
    with pytest.raises(SinkRewindError):
        simulation.start(simulation.restore(target_of(simulation, 5)))
    assert simulation.world.storage.objects == before


def test_the_number_of_a_generation_is_never_used_twice() -> None:
    simulation = finished()
    simulation.world.storage.put_exclusive("_epochs/g000004/changes/left-behind", b"")
    simulation.start(simulation.restore(target_of(simulation, 5)))
    assert simulation.head.manifest.generation == 5


@pytest.mark.parametrize("point", CLOSED_BUT_NOT_BEGUN, ids=str)
def test_a_restore_that_keeps_output_keeps_it_whichever_start_finishes_it(point: CrashPoint) -> None:
    simulation = finished()
    before = simulation.world.table.live
    wanted = replace(simulation.restore(target_of(simulation, 5)), keep_output=True)
    with pytest.raises(SimulatedCrash):
        simulation.start(wanted, Faults(crashes=[(point, None)]))
    driver = simulation.start()
    assert (simulation.head.manifest.generation, driver.offset) == (2, 28)
    assert simulation.world.table.live == before
    assert simulation.world.fence == (2, 0)


@pytest.mark.parametrize("another", [3, 5])
def test_an_unfinished_restore_keeps_output_for_a_start_that_says_so(another: int) -> None:
    """If a table was compacted after the closing manifest and before the sinks go back, this is the only way on."""
    simulation = finished()
    before = simulation.world.table.live
    with pytest.raises(SimulatedCrash):
        simulation.start(simulation.restore(target_of(simulation, 5)), Faults(crashes=[(CrashPoint.S2_CLOSED, None)]))
    simulation.start(replace(simulation.restore(target_of(simulation, another)), keep_output=True))
    assert simulation.head.manifest.generation == (2 if another == 5 else 3)
    assert simulation.world.table.live == before
