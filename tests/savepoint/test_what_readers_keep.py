"""Restores and readers keep the very files that they read, even if newer bases come or the savepoint is removed."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from canonical_jobs import state_of

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.epoch.ports import Mark
from state_engine.errors import NothingToRestoreError, NotWritableError, SavepointError
from state_engine.inspect import diff_states, find_state, history_kept, run_sql, scan_state
from state_engine.inspect.read import segments_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import LEASES
from state_engine.log.records import BaseReference
from state_engine.savepoint import dispose_savepoint, restore_key_groups, retain, trigger_savepoint
from state_engine.savepoint.group_restore import GroupRestorer
from state_engine.savepoint.keeping import users_of
from state_engine.savepoint.segments import files_of
from state_engine.storage.folder import FolderStorage
from state_engine.storage.local import LocalStorage
from state_engine.testing.changes import model_of
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import COUNT, random_changes, sample_job

Model = dict[tuple[str, str], dict[Any, Any]]


class Moving:
    """A job at epoch 3, which is read from the base of epoch 1; later, newer bases replace that one."""

    def __init__(self, root: str) -> None:
        self.root, self.rng = root, random.Random(3)
        self.job: JobBuilder = sample_job(root)
        self.publisher = CheckpointPublisher(self.job.storage, "flights", clock=ManualClock())
        self._publish(self._epoch(1), 1)
        self._epoch()
        self._third = self._epoch(2)
        self.removed: list[str] = []

    def _epoch(self, checkpoint_id: int | None = None) -> StoredManifest:
        return self.job.epoch(random_changes(self.rng), checkpoint_id=checkpoint_id)

    def _publish(self, sealed: StoredManifest, number: int) -> BaseReference:
        self.publisher.begin(sealed, Mark(checkpoint_id=number, full=True))
        base = self.publisher.completed()
        assert base is not None
        return base

    def model(self, epoch: int) -> Model:
        return self.job.models[1, epoch]

    def files(self) -> set[str]:
        """Returns the files from which epoch 3 is read while its own base is not visible."""
        with history_kept(self.root, "flights", "epoch:1/3") as history:
            return {file.path for one in segments_of(self.root, "flights", history) for file in files_of(one)}

    def go_on(self) -> None:
        """Makes the checkpoint of epoch 3 and newer ones visible; retention keeps only the newest."""
        if not self.removed:
            self._publish(self._third, 2)
            self.job.adopt(self._publish(self._epoch(3), 3))
            self._publish(self._epoch(4), 4)
        self.retain()

    def retain(self) -> None:
        done = retain(self.root, "flights", RetentionPolicy(grace_ms=0)).report
        assert done is not None
        self.removed += done.removed


@pytest.fixture
def moving(tmp_path: Path) -> Moving:
    return Moving(str(tmp_path))


def during_the_plan(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    """Runs a function when a restore of key groups is about to read."""
    plan, done = GroupRestorer.plan, list[int]()

    def planned(self: GroupRestorer, head: StoredManifest) -> Any:
        if not done:
            done.append(1)
            work()
        return plan(self, head)

    monkeypatch.setattr(GroupRestorer, "plan", planned)


@pytest.mark.parametrize("by_savepoint", [True, False])
def test_a_restore_of_key_groups_reads_what_it_found(
    moving: Moving, monkeypatch: pytest.MonkeyPatch, by_savepoint: bool
) -> None:
    pin, files = trigger_savepoint(moving.root, "flights"), moving.files()
    source = pin.savepoint_id if by_savepoint else "epoch:1/3"

    def meanwhile() -> None:
        assert dispose_savepoint(moving.root, "flights", pin.savepoint_id, force=True)
        moving.go_on()

    during_the_plan(monkeypatch, meanwhile)
    restore_key_groups(moving.root, "flights", source, [(0, 12)])
    assert state_of(moving.root, "flights") == moving.model(3)
    assert moving.removed
    assert not files & set(moving.removed)
    assert moving.job.storage.list(LEASES) == []
    moving.retain()
    assert files & set(moving.removed), "nothing else needs them"


def test_a_savepoint_whose_key_groups_are_restored_is_in_use(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("native", "canonical"):
        savepoint_id = trigger_savepoint(moving.root, "flights", kind=kind).savepoint_id
        with monkeypatch.context() as patch:
            during_the_plan(patch, lambda name=savepoint_id: refused(moving, name))  # type: ignore[misc]
            restore_key_groups(moving.root, "flights", savepoint_id, [(0, 12)])
        assert dispose_savepoint(moving.root, "flights", savepoint_id)


def refused(moving: Moving, savepoint_id: str) -> None:
    with pytest.raises(SavepointError, match="in use"):
        dispose_savepoint(moving.root, "flights", savepoint_id)


def test_a_reader_has_the_files_that_it_found(moving: Moving) -> None:
    files = moving.files()
    with history_kept(moving.root, "flights", "epoch:1/3") as history:
        moving.go_on()
        schema = find_state(history, "flights", "aircraft/count")
        rows = list(scan_state(moving.root, "flights", history, schema, rows_at_once=1))
        assert {k: v for part in rows for k, v in model_of(COUNT, part).items()} == moving.model(3)["aircraft", "count"]
    assert not files & set(moving.removed)
    moving.retain()
    assert files & set(moving.removed)
    with pytest.raises(NothingToRestoreError, match="retention"), history_kept(moving.root, "flights", "epoch:1/3"):
        pass


@pytest.mark.parametrize("live", [False, True])
def test_sql_has_the_files_that_it_found(moving: Moving, monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    from state_engine.inspect import query

    create = query._create_view
    monkeypatch.setattr(query, "_create_view", lambda *given: (moving.go_on(), create(*given)))
    result = run_sql(moving.root, "flights", 'select value from aircraft."count"', at="epoch:1/3", live=live)
    wanted = moving.model(3 if live else 1)["aircraft", "count"]
    assert sorted(result["value"].to_pylist(), key=str) == sorted(wanted.values(), key=str)
    assert moving.removed
    assert moving.job.storage.list(LEASES) == []


def test_a_diff_has_the_files_of_both_sides(moving: Moving) -> None:
    result = diff_states(moving.root, "flights", "epoch:1/2", "epoch:1/3", on_progress=lambda *_: moving.go_on())
    by_name = {(one.uid, one.state): one for one in result}
    before, after = moving.model(2)["aircraft", "count"], moving.model(3)["aircraft", "count"]
    assert by_name["aircraft", "count"].added == len(after.keys() - before.keys())
    assert by_name["aircraft", "count"].removed == len(before.keys() - after.keys())
    assert len(by_name) == 3
    assert moving.removed
    assert moving.job.storage.list(LEASES) == []


def test_a_canonical_savepoint_that_is_read_is_in_use(moving: Moving) -> None:
    taken = trigger_savepoint(moving.root, "flights", kind="canonical")
    with history_kept(moving.root, "flights", taken.savepoint_id, purpose="inspect") as history:
        assert isinstance(history.segment.storage, FolderStorage)
        assert users_of(history.segment.storage)[0].startswith("inspect since")
        refused(moving, taken.savepoint_id)
    assert dispose_savepoint(moving.root, "flights", taken.savepoint_id)


def test_who_may_not_write_reads_all_the_same(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_self: LocalStorage, path: str, _data: object) -> None:
        raise NotWritableError(f"{path} was not written.")

    monkeypatch.setattr(LocalStorage, "put_if_absent", refuse)
    result = run_sql(moving.root, "flights", 'select value from aircraft."count"', at="epoch:1/3", live=True)
    assert result.num_rows == len(moving.model(3)["aircraft", "count"])
