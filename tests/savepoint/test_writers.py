"""A canonical savepoint has the same tables whichever process folds its ranges, and in whatever order."""

import random
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from canonical_jobs import model, running_job, state_of
from msgspec.structs import replace

from state_engine.checkpoint.fold_state import EncodedRange, WrittenRange
from state_engine.checkpoint.plan import StatePlan
from state_engine.errors import DamagedManifestError, StorageError
from state_engine.log.savepoints import CanonicalSavepoint
from state_engine.savepoint import ProcessWriter, list_savepoints, trigger_savepoint, validate_savepoint
from state_engine.savepoint.writers import Fold, WriteOrder, open_fold
from state_engine.storage.local import LocalStorage
from state_engine.testing.manual import CountingIds, ManualClock


class Elsewhere:
    """Folds as another process would: gets the order and the plan as bytes, and the ranges in any order, twice."""

    def write(self, fold: Fold, plan: StatePlan) -> Sequence[WrittenRange]:
        order = msgspec.json.decode(msgspec.json.encode(fold.order), type=WriteOrder)
        told = msgspec.json.decode(msgspec.json.encode(plan), type=StatePlan)
        found = {}
        for range_ in random.Random(1).sample([*told.ranges, *told.ranges], 2 * len(told.ranges)):
            found[range_] = open_fold(order).write(told, *range_)
        return [written for range_ in plan.ranges if (written := found[range_]) is not None]


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("state_engine.checkpoint.plan.ROWS_PER_FILE", 5)


def taken(root: str, writer: object, directory: str | None = None) -> CanonicalSavepoint:
    found = trigger_savepoint(
        root,
        "flights",
        kind="canonical",
        writer=writer,  # type: ignore[arg-type]
        clock=ManualClock(1_700_000_000_000),
        ids=CountingIds(),
        directory=directory,
    )
    assert isinstance(found, CanonicalSavepoint)
    return found


@pytest.mark.parametrize("writer", [ProcessWriter(4), Elsewhere()], ids=["threads", "elsewhere"])
@pytest.mark.parametrize("moved", [False, True])
def test_files_have_the_same_names_bytes_and_order(tmp_path: Path, writer: object, moved: bool) -> None:
    savepoints = []
    for name, who in (("one", ProcessWriter(1)), ("other", writer)):
        root = str(tmp_path / name)
        job = running_job(root)
        savepoints.append(taken(root, who, str(tmp_path / f"{name} backup") if moved else None))
        assert state_of(root, "flights", savepoints[-1].savepoint_id) == model(job, 4)
        assert validate_savepoint(root, "flights", savepoints[-1].savepoint_id).ok
    one, other = savepoints
    assert max(len(table.files) for table in one.tables) > 1
    assert one.tables == other.tables, "names, checksums, row groups, ranges"
    assert (one.rows, one.bytes) == (other.rows, other.bytes)


def test_another_epoch_under_the_same_number_is_refused(tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    running_job(root)

    class Lost:
        def write(self, fold: Fold, plan: StatePlan) -> Sequence[WrittenRange]:
            open_fold(replace(fold.order, manifest="xxh3:0"))
            raise AssertionError

    with pytest.raises(DamagedManifestError, match="Epoch 4 of generation 1"):
        taken(root, Lost())
    assert list_savepoints(root, "flights") == []


def test_nothing_is_left_when_one_of_many_ranges_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(tmp_path / "root")
    running_job(root)

    class Full(LocalStorage):
        def put_if_absent(self, path: str, data: object) -> None:  # type: ignore[override]
            if path.startswith("aircraft/") and path.endswith("-00012.parquet"):
                raise StorageError("The disk is full.")
            super().put_if_absent(path, data)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr("state_engine.storage.open.LocalStorage", Full)
        with pytest.raises(StorageError, match="full"):
            taken(root, ProcessWriter(4), str(tmp_path / "backup"))
    assert list((tmp_path / "backup").rglob("*.parquet")) == []
    assert list_savepoints(root, "flights") == []


def test_ranges_are_folded_while_the_disk_takes_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(tmp_path / "root")
    running_job(root)
    folded, encode, put = threading.Semaphore(0), Fold.encode, Fold.put

    def encoding(fold: Fold, plan: StatePlan, first: int, last: int) -> EncodedRange | None:
        found = encode(fold, plan, first, last)
        folded.release()
        return found

    def putting(fold: Fold, encoded: EncodedRange) -> WrittenRange:
        if encoded.part.written.file.first == 0 and len(plan_ranges) > 2:
            for _ in range(3):  # two that are folded at a time, and one more
                assert folded.acquire(timeout=30), "folding waited for the disk"
        return put(fold, encoded)

    plan_ranges: tuple[tuple[int, int], ...] = ()

    class Noting(ProcessWriter):
        def write(self, fold: Fold, plan: StatePlan) -> Sequence[WrittenRange]:
            nonlocal plan_ranges
            plan_ranges = plan.ranges
            while folded.acquire(blocking=False):
                pass
            return super().write(fold, plan)

    monkeypatch.setattr(Fold, "encode", encoding)
    monkeypatch.setattr(Fold, "put", putting)
    assert taken(root, Noting(2)).rows == taken(root, ProcessWriter(1)).rows
