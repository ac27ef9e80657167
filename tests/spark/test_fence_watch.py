"""A driver that seals nothing notices that another driver has taken over its job; without Spark."""

from pathlib import Path
from typing import Any

import pytest

from state_engine.epoch.carry import carried
from state_engine.epoch.driver import EpochDriver
from state_engine.epoch.request import Head
from state_engine.errors import DamagedManifestError, FencedError, NotFoundError, StorageError
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import manifest_path
from state_engine.spark.driver.fence_watch import FenceWatch
from state_engine.spark.graph.settings import fence_interval_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import sample_job


class CountingLog:
    """A log that records what is read; raises `error`, if it is set, instead of an answer."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.asked: list[tuple[int, int]] = []
        self.error: Exception | None = None

    def read(self, generation: int, epoch: int) -> StoredManifest:
        self.asked.append((generation, epoch))
        if self.error is not None:
            raise self.error
        stored: StoredManifest = self._log.read(generation, epoch)
        return stored


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    return sample_job(str(tmp_path / "state"))


@pytest.fixture
def head(job: JobBuilder) -> StoredManifest:
    return job.epoch({})


def claim(job: JobBuilder, head: StoredManifest, kind: Any = "claim") -> StoredManifest:
    """Returns what another driver's start seals after the newest epoch."""
    return job.log.put(carried(head, kind, incarnation="another", number=2, now_ms=9))


def driver_of(head: StoredManifest) -> EpochDriver:
    nothing: Any = None
    return EpochDriver(Head(root="root", stored=head, operators=()), nothing, nothing, nothing, nothing, ManualClock())


def test_one_name_is_read_once_in_an_interval_and_never_by_a_driver_that_seals(job, head) -> None:
    log, clock = CountingLog(job.log), ManualClock(5_000)
    watch = FenceWatch(log, 1_000, clock)
    for _ in range(25):
        assert watch.look(head) is None
        clock.advance(100)
    place = (head.manifest.generation, head.manifest.epoch)
    assert log.asked == [(place[0], place[1] + 1)] * 2
    for _ in range(5):
        head = job.epoch({})
        clock.advance(900)
        assert watch.look(head) is None
    assert len(log.asked) == 2


@pytest.mark.parametrize("kind", ["claim", "closing"])
def test_a_start_or_a_restore_of_another_driver_ends_an_idle_one_by_name(job, head, kind: str) -> None:
    clock, driver = ManualClock(5_000), driver_of(head)
    watch = FenceWatch(job.log, 1_000, clock)
    assert watch.look(driver.head) is None
    claim(job, head, kind)
    clock.advance(1_000)
    successor = watch.look(driver.head)
    assert successor is not None
    with pytest.raises(FencedError, match=r"sealed by incarnation 2 \(another\)") as caught:
        driver.check_owner(successor)
    assert caught.value.action
    assert not driver.is_due(1 << 60)
    with pytest.raises(FencedError):
        next(driver.run_end_of_input(None))  # type: ignore[arg-type]


def test_what_this_driver_has_sealed_meanwhile_is_no_other_driver(job, head) -> None:
    driver = driver_of(head)
    own = job.epoch({})
    driver.check_owner(own)
    driver.check_owner(head)
    driver._head = own
    driver.check_owner(own)
    with pytest.raises(FencedError):
        driver.check_owner(claim(job, own))


def test_storage_that_does_not_answer_ends_nothing_and_damage_does(job, head, caplog: Any) -> None:
    log, clock = CountingLog(job.log), ManualClock(5_000)
    watch = FenceWatch(log, 1_000, clock)
    watch.look(head)
    log.error = StorageError("the network is away", action="Wait.")
    clock.advance(1_000)
    assert watch.look(head) is None
    assert watch.look(head) is None
    assert len(log.asked) == 1, "it is asked again after the same time, and not at once"
    assert "the network is away" in caplog.text
    log.error = NotFoundError("nothing there")
    clock.advance(1_000)
    assert watch.look(head) is None
    log.error = None
    path = manifest_path(head.manifest.generation, head.manifest.epoch + 1)
    job.storage.put_if_absent(path, b"{}")
    clock.advance(1_000)
    with pytest.raises(DamagedManifestError):
        watch.look(head)


@pytest.mark.parametrize(
    ("root", "interval_ms"),
    [("/srv/state", 1_000), ("file:///srv/state", 1_000), ("memory://x", 1_000), ("s3://bucket/state", 10_000)],
)
def test_storage_that_charges_for_questions_is_asked_less_often(root: str, interval_ms: int) -> None:
    assert fence_interval_of(root) == interval_ms
