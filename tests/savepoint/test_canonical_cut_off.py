"""If writing a canonical savepoint is cut off, nothing of it exists: no metadata, no tables, no pin."""

from pathlib import Path

import pytest
from canonical_jobs import model, running_job, state_of

from state_engine.errors import NothingToRestoreError, StorageError
from state_engine.savepoint import list_savepoints, resolve_restore, trigger_savepoint
from state_engine.storage.local import LocalStorage
from state_engine.storage.open import open_storage


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


class _Fails(LocalStorage):
    """A disk on which the n-th new file below a savepoint cannot be written."""

    left = 0

    def put_if_absent(self, path: str, data: object) -> None:  # type: ignore[override]
        if "_savepoints/" in path or path.startswith(("aircraft/", "carrier/", "_metadata")):
            type(self).left -= 1
            if type(self).left < 0:
                raise StorageError("The disk is full.")
        super().put_if_absent(path, data)  # type: ignore[arg-type]


@pytest.mark.parametrize("written", range(7))
@pytest.mark.parametrize("elsewhere", [False, True])
def test_an_interrupted_one_is_not_there(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, elsewhere: bool
) -> None:
    job = running_job(root)
    _Fails.left, needed = written, 6 if elsewhere else 5
    directory = str(tmp_path / "backup") if elsewhere else None
    with monkeypatch.context() as patch:
        patch.setattr("state_engine.storage.open.LocalStorage", _Fails)
        if written < needed:
            with pytest.raises(StorageError):
                trigger_savepoint(root, "flights", kind="canonical", directory=directory)
        else:
            trigger_savepoint(root, "flights", kind="canonical", directory=directory)
    if written < needed:
        assert list_savepoints(root, "flights") == []
        assert list(tmp_path.rglob("_metadata")) == []
        remaining = [p for p in tmp_path.rglob("*.parquet") if "_savepoints" in p.parts or "backup" in p.parts]
        assert remaining == []
    assert state_of(root, "flights") == model(job, 4)


class _LosesAnswers(LocalStorage):
    """A disk that writes the last file of a savepoint, or its pin, and reports a failure."""

    file = "_metadata"

    def put_if_absent(self, path: str, data: object) -> None:  # type: ignore[override]
        super().put_if_absent(path, data)  # type: ignore[arg-type]
        if path.endswith(self.file):
            raise StorageError("There is no answer.")


@pytest.mark.parametrize("kind", ["canonical", "native"])
def test_one_whose_last_put_gave_no_answer_is_not_there(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    running_job(root)
    monkeypatch.setattr(_LosesAnswers, "file", "_metadata" if kind == "canonical" else "pin.json")
    with monkeypatch.context() as patch:
        patch.setattr("state_engine.storage.open.LocalStorage", _LosesAnswers)
        with pytest.raises(StorageError, match="no answer"):
            trigger_savepoint(root, "flights", kind=kind)  # type: ignore[call-overload]
    remaining = [path for path in Path(root, "flights", "_savepoints").rglob("*") if path.is_file()]
    assert remaining == []


def test_a_crash_before_the_metadata_leaves_nothing_that_can_be_restored(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_job(root)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("state_engine.savepoint.canonical.encode_savepoint", die)
    with pytest.raises(KeyboardInterrupt):
        trigger_savepoint(root, "flights", kind="canonical")
    assert list_savepoints(root, "flights") == []
    [name] = open_storage(root, "flights").folders("_savepoints")
    with pytest.raises(NothingToRestoreError, match="it has none"):
        resolve_restore(root, "flights", name)
    with pytest.raises(NothingToRestoreError, match="no _metadata"):
        resolve_restore(root, "flights", f"{root}/flights/_savepoints/{name}")
