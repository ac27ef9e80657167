"""Which manifests a cached instance may follow, and what it takes from each."""

import pytest
from msgspec.structs import replace

from state_engine.epoch import follow
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.errors import DamagedManifestError
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import manifest_path
from state_engine.log.records import Ack, Manifest, OperatorEpoch, Span
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage

OWN = OperatorPlan(uid="op", parallelism=1, max_parallelism=13)


def sealed(
    storage: MemoryStorage, epochs: int, mark: str = "", since: StoredManifest | None = None
) -> list[StoredManifest]:
    """Seals epochs after `since`; those of another `mark` have other hashes."""
    log, manifests = ManifestLog(storage, "job"), [since] if since else []
    for epoch in range((since.manifest.epoch if since else 0) + 1, epochs + 1):
        ack = Ack(uid="op", subtask=0, attempt=f"{mark}{epoch}", records_in=1, records_out=1)
        manifest = Manifest(
            job="job", generation=1, epoch=epoch, kind="epoch", incarnation="a", incarnation_number=1,
            predecessor=manifests[-1].hash if manifests else "", processing_time=epoch,
            operators={"op": OperatorEpoch(parallelism=1, max_parallelism=13, acks=(ack,))},
            lineage=(Span(generation=1, first=1),),
        )  # fmt: skip
        manifests.append(log.put(manifest))
    return manifests


def plan_on(head: StoredManifest | None) -> EpochPlan:
    manifest = head.manifest if head else None
    return EpochPlan(
        job="job", root="", generation=1, epoch=(manifest.epoch if manifest else 0) + 1, incarnation="a",
        predecessor=head.hash if head else "", predecessor_epoch=manifest.epoch if manifest else 0,
        predecessor_generation=1, processing_time=0, operators=(OWN,),
    )  # fmt: skip


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage()


def test_an_instance_follows_all_manifests_since_its_token(storage: MemoryStorage) -> None:
    line = sealed(storage, 5)
    log = ManifestLog(storage, "job")
    assert follow.steps_since(log, line[1].hash, plan_on(line[4])) == line[2:]
    assert follow.steps_since(log, line[4].hash, plan_on(line[4])) == []


def test_a_token_that_names_no_ancestor_is_followed_nowhere(storage: MemoryStorage) -> None:
    line = sealed(storage, 5)
    assert follow.steps_since(ManifestLog(storage, "job"), "another", plan_on(line[4])) is None
    assert follow.steps_since(ManifestLog(storage, "job"), line[0].hash, plan_on(None)) is None


def test_an_instance_that_is_too_far_back_is_loaded_anew(storage: MemoryStorage) -> None:
    line = sealed(storage, follow.STEPS + 4)
    log = ManifestLog(storage, "job")
    steps = follow.steps_since(log, line[2].hash, plan_on(line[-1]))
    assert steps == line[3:]
    assert follow.steps_since(log, line[1].hash, plan_on(line[-1])) is None


def test_an_instance_is_loaded_anew_if_retention_removed_manifests_since_its_token(storage: MemoryStorage) -> None:
    line = sealed(storage, 5)
    storage.delete(manifest_path(1, line[2].manifest.epoch))
    assert follow.steps_since(ManifestLog(storage, "job"), line[1].hash, plan_on(line[4])) is None


def test_a_manifest_that_a_worker_read_before_the_root_was_put_back_is_not_followed(storage: MemoryStorage) -> None:
    """The worker's log has kept epochs 3 and 4; the root was put back to epoch 2, and 3 and 4 were sealed anew."""
    old = sealed(storage, 4)
    log = ManifestLog(storage, "job")
    for stored in old:
        log.read(1, stored.manifest.epoch)
    for stored in old[2:]:
        storage.delete(manifest_path(1, stored.manifest.epoch))
    new = sealed(storage, 4, "again", old[1])
    assert follow.steps_since(log, old[1].hash, plan_on(new[-1])) is None
    assert follow.steps_since(ManifestLog(storage, "job"), old[1].hash, plan_on(new[-1])) == new[1:]


def test_another_manifest_than_the_epoch_was_planned_on_is_damage(storage: MemoryStorage) -> None:
    line = sealed(storage, 2)
    plan = replace(plan_on(line[1]), predecessor="another")
    with pytest.raises(DamagedManifestError, match="planned on"):
        follow.predecessor(ManifestLog(storage, "job"), plan)


def test_only_the_first_manifest_can_seal_what_the_instance_did_last(storage: MemoryStorage) -> None:
    line = sealed(storage, 3)
    taken, goes_on = follow.steps_to_take(line[1:], "2", OWN, 0)
    assert ([step.is_own for step in taken], goes_on) == ([True, False], False)
    taken, goes_on = follow.steps_to_take(line[1:2], "2", OWN, 0)
    assert ([step.is_own for step in taken], goes_on) == ([True], True)
    taken, goes_on = follow.steps_to_take(line[1:], "3", OWN, 0)
    assert ([step.is_own for step in taken], goes_on) == ([False, False], False)
    assert follow.steps_to_take([], "2", OWN, 0) == ([], False)


def test_claims_after_it_leave_an_instance_as_it_is(storage: MemoryStorage) -> None:
    line = sealed(storage, 2)
    claim = StoredManifest(replace(line[1].manifest, epoch=3, kind="claim", operators={}), "claim")
    _, goes_on = follow.steps_to_take([line[1], claim], "2", OWN, 0)
    assert goes_on
    _, goes_on = follow.steps_to_take([claim], "2", OWN, 0)
    assert not goes_on


@pytest.mark.parametrize(("parallelism", "subtask"), [(2, 0), (1, 1)])
def test_an_attempt_of_another_parallelism_or_subtask_is_not_the_instances(
    storage: MemoryStorage, parallelism: int, subtask: int
) -> None:
    line = sealed(storage, 1)
    own = replace(OWN, parallelism=parallelism)
    assert follow.attempt_of(line[0], own, subtask) is None
    assert follow.attempt_of(line[0], OWN, 0) == "1"
