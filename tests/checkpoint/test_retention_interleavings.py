"""Savepoint, restore, retention and compaction at the same time: none deletes what another one needs."""

import copy
import random
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from schedules import Schedule, at_random, in_between

from state_engine.checkpoint.leases import leased
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.retention.steps import DELETING_MS, apply_retention, plan_retention
from state_engine.epoch import look
from state_engine.epoch.ports import Mark
from state_engine.errors import CondemnedError, CorruptionError, NotFoundError, NothingToRestoreError
from state_engine.inspect import read_state
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Pin
from state_engine.savepoint import list_savepoints, load_savepoint, trigger_savepoint
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.testing.changes import model_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import CountingIds, ManualClock
from state_engine.testing.sample_jobs import SCHEMAS, random_changes, sample_job

pytestmark = pytest.mark.slow  # all together

REFUSED = (CondemnedError, CorruptionError, NothingToRestoreError, NotFoundError)


class Stage:
    """A job with three checkpoints, of which the policy keeps one, and the actors around it."""

    def __init__(self, root: str) -> None:
        self.job: JobBuilder = sample_job(root)
        self.clock, self.ids = ManualClock(), CountingIds()
        self.rng = random.Random(3)
        self.publisher = CheckpointPublisher(self.job.storage, self.job.job, clock=self.clock, ids=self.ids)
        for checkpoint in (1, 2, 3):
            self.job.epoch(random_changes(self.rng))
            self.checkpoint(checkpoint)
        self.job.epoch(random_changes(self.rng))
        self.target = self.job.log.read(1, 4)
        self.pins: list[Pin] = []
        self.moved = False
        self.refused = 0

    def copy(self, root: str) -> "Stage":
        """Returns the same in another root."""
        new = copy.copy(self)
        new.job = job = copy.copy(self.job)
        job.root, job.storage = root, open_storage(root, job.job)
        for info in self.job.storage.list(""):
            job.storage.put_if_absent(info.path, self.job.storage.get(info.path))
        job.log = ManifestLog(job.storage, job.job)
        job.model, job.models = copy.deepcopy(job.model), dict(job.models)
        new.ids, new.rng, new.pins = copy.copy(self.ids), random.Random(4), []
        new.publisher = CheckpointPublisher(job.storage, job.job, clock=new.clock, ids=new.ids)
        return new

    def checkpoint(self, number: int, *, full: bool = False) -> None:
        sealed = self.job.epoch(random_changes(self.rng), checkpoint_id=number)
        self.publisher.begin(sealed, Mark(checkpoint_id=number, full=full, trigger="interval"))
        self.job.adopt(self.publisher.completed())

    def retain(self) -> None:
        policy = RetentionPolicy(grace_ms=0)
        try:
            plan = plan_retention(self.job.root, self.job.job, policy, self.clock.now_ms())
            apply_retention(plan, clock=self.clock, ids=self.ids)
        except (NotFoundError, CorruptionError):
            self.refused += 1  # another run deleted a file while this one looked: then this one changes nothing

    def savepoint(self, epoch: int | None) -> Callable[[], None]:
        def run() -> None:
            try:
                self.pins.append(trigger_savepoint(self.job.root, self.job.job, epoch=epoch, clock=self.clock))
            except REFUSED:
                assert epoch is not None or self.moved, "the newest epoch of a line can always be pinned"
                self.refused += 1

        return run

    def condemn(self, *, times: float) -> None:
        """Runs retention, which condemns files, and then lets `times` times `DELETING_MS` pass without another run."""
        plan = plan_retention(self.job.root, self.job.job, RetentionPolicy(grace_ms=1), self.clock.now_ms())
        assert apply_retention(plan, clock=self.clock, ids=self.ids).condemned
        self.clock.advance(int(times * DELETING_MS))

    def compact(self) -> None:
        self.checkpoint(9, full=True)

    def restore(self) -> None:
        self.moved = True
        try:
            with leased(self.job.root, self.target, "a restore", clock=self.clock, ids=self.ids):
                self.job.restore(self.target)
        except REFUSED:
            self.refused += 1

    def verify(self) -> None:
        job = self.job
        head = look.newest(ManifestLog(job.storage, job.job))
        assert head is not None
        assert head.hash == (job.head.hash if job.head else "")
        self._reads("latest", head)
        assert {pin.savepoint_id for pin in list_savepoints(job.root, job.job)} == {p.savepoint_id for p in self.pins}
        for pin in self.pins:
            load_savepoint(job.root, job.job, pin.savepoint_id)
            self._reads(pin.savepoint_id, job.log.read(pin.generation, pin.epoch))
        log = ManifestLog(job.storage, job.job)
        log.chain(head)

    def _reads(self, at: str, stored: StoredManifest) -> None:
        for schema in SCHEMAS[:2]:
            live = read_state(self.job.root, self.job.job, schema.uid, schema.name, at=at)
            assert model_of(schema, live) == self.job.rows(schema.uid, schema.name, stored), (at, schema.name)


def actors(stage: Stage, names: str) -> dict[str, Callable[[], None]]:
    by_name: dict[str, Callable[[], None]] = {
        "retention": stage.retain,
        "second retention": stage.retain,
        "savepoint": stage.savepoint(None),
        "old savepoint": stage.savepoint(4),
        "compaction": stage.compact,
        "restore": stage.restore,
    }
    return {name: by_name[name] for name in names.split(", ")}


OTHERS = ["old savepoint", "savepoint", "restore", "compaction", "second retention"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """A stage that tests copy and do not change."""
    return Stage(f"memory://{tmp_path_factory.mktemp('template')}")


@pytest.fixture(params=[0, 0.5, 1.5, 2.5], ids=["now", "in time", "late", "very late"])
def condemned(template: Stage, request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """A stage where nothing is condemned, or files were, the given number of `DELETING_MS` ago."""
    stage = template.copy(f"memory://{tmp_path}/template")
    if request.param:
        stage.condemn(times=request.param)
    return stage


@pytest.fixture(params=[6, pytest.param(1, marks=pytest.mark.long)], ids=["some calls", "all calls"])
def places(request: pytest.FixtureRequest) -> count:
    """The calls before which something happens: all, or every sixth, from a random one on in each run."""
    first = random.SystemRandom().randrange(request.param)
    print(f"from call {first}, every {request.param}")
    return count(first, request.param)


@pytest.mark.all_pairs(condemned=2)
@pytest.mark.parametrize("inner", OTHERS)
def test_the_other_one_runs_between_two_calls_of_retention(
    condemned: Stage, tmp_path: Path, inner: str, places: count
) -> None:
    for call in places:
        stage = condemned.copy(f"memory://{tmp_path}/{call}")
        calls = Schedule(actors(stage, f"retention, {inner}")).run(in_between("retention", call))["retention"]
        stage.verify()
        if calls <= call:
            break
    assert calls > 20


@pytest.mark.all_pairs(condemned=2)
@pytest.mark.parametrize("outer", OTHERS[:4])
def test_retention_runs_between_any_two_calls_of_the_other_one(
    condemned: Stage, tmp_path: Path, outer: str, places: count
) -> None:
    for call in places:
        stage = condemned.copy(f"memory://{tmp_path}/{call}")
        calls = Schedule(actors(stage, f"retention, {outer}")).run(in_between(outer, call))[outer]
        stage.verify()
        if calls <= call:
            break
    assert calls > 5


def test_a_crash_anywhere_is_finished_by_the_next_run(condemned: Stage, tmp_path: Path, places: count) -> None:
    whole = condemned.copy(f"memory://{tmp_path}/whole")
    whole.retain()
    expected = {info.path for info in whole.job.storage.list("_epochs/g000001", recursive=False)}
    for call in places:
        stage = condemned.copy(f"memory://{tmp_path}/{call}")
        calls = Schedule(actors(stage, "retention")).run(in_between("", 0), kill=("retention", call))["retention"]
        if calls < call:
            break
        stage.verify()
        stage.retain()
        stage.verify()
        assert {info.path for info in stage.job.storage.list("_epochs/g000001", recursive=False)} == expected
        assert stage.job.storage.list("_retention/condemned") == []
    assert calls > 30


def test_all_of_them_in_any_order(template: Stage, tmp_path: Path) -> None:
    refused = 0
    for seed in range(30):
        stage = template.copy(f"memory://{tmp_path}/{seed}")
        driver = "restore" if seed % 2 else "compaction"  # a job does one after the other
        names = f"retention, old savepoint, {driver}, second retention, savepoint"
        dies = ("retention", seed * 7 % 60) if seed % 3 == 0 else None
        Schedule(actors(stage, names)).run(at_random(seed), kill=dies)
        stage.verify()
        stage.retain()
        stage.verify()
        refused += stage.refused
    assert refused, "at least one was refused in time"
