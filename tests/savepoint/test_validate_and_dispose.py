"""Validation names each damaged file of a savepoint; a disposed savepoint disappears from lists first."""

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from canonical_jobs import model, running_job, start, state_of
from msgspec.structs import replace

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.errors import (
    DamagedFileError,
    JobDefinitionError,
    NothingToRestoreError,
    SavepointError,
    StorageError,
)
from state_engine.log.change_file import checksum_of
from state_engine.log.documents import decode_reference, decode_savepoint, encode_reference, encode_savepoint
from state_engine.log.manifest import encode_manifest
from state_engine.log.paths import (
    IN_USE,
    METADATA,
    elsewhere_path,
    manifest_path,
    metadata_path,
    pin_path,
    savepoint_folder,
)
from state_engine.log.records import StateFile
from state_engine.log.savepoints import CanonicalSavepoint
from state_engine.savepoint import (
    SavepointKind,
    dispose_savepoint,
    list_savepoints,
    read_catalogue,
    resolve_restore,
    trigger_savepoint,
    validate_savepoint,
)
from state_engine.storage.local import LocalStorage
from state_engine.storage.open import open_storage
from state_engine.testing.changes import put, reset_group
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.sample_jobs import random_changes, sample_job


@pytest.fixture
def job(tmp_path: Path) -> JobBuilder:
    return running_job(str(tmp_path / "root"))


def folder_of(job: JobBuilder, savepoint: CanonicalSavepoint) -> Path:
    return Path(job.root, job.job, savepoint_folder(savepoint.savepoint_id))


def write(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "cut": lambda path: write(path, path.read_bytes()[:-1]),
    "flipped": lambda path: write(path, flip(path.read_bytes(), path.stat().st_size // 2)),
    "empty": lambda path: write(path, b""),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["native", "canonical"])
def test_damage_of_each_file_is_named(job: JobBuilder, kind: str, damage: str) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind=kind)  # type: ignore[call-overload]
    root = Path(job.root, job.job)
    if kind == "canonical":
        root = folder_of(job, savepoint)
        files = [file.path for table in savepoint.tables for file in table.files]
    else:
        files = [path for path, _ in (*savepoint.handles, *savepoint.manifests)]
    assert validate_savepoint(job.root, job.job, savepoint.savepoint_id).ok
    assert len(files) > 2
    for path in files:
        good = (root / path).read_bytes()
        DAMAGES[damage](root / path)
        report = validate_savepoint(job.root, job.job, savepoint.savepoint_id)
        assert not report.ok
        assert path in str(report.findings[0]), report.findings
        (root / path).unlink(missing_ok=True)
        (root / path).write_bytes(good)
    assert validate_savepoint(job.root, job.job, savepoint.savepoint_id).ok


def test_bytes_within_a_manifest_are_checked_too(job: JobBuilder) -> None:
    """The manifest is unchanged since its seal; its writer had put wrong bytes into it."""
    job.inlines = lambda epoch, subtask: True
    manifest = job.epoch(random_changes(random.Random(5), 30)).manifest
    path, data = next(iter(manifest.inlined.items()))
    place = Path(job.root, job.job, manifest_path(manifest.generation, manifest.epoch))
    for wrong in (flip(data, len(data) // 2), data[:-1], b""):
        write(place, encode_manifest(replace(manifest, inlined={**manifest.inlined, path: wrong}))[0])
        savepoint = trigger_savepoint(job.root, job.job)
        report = validate_savepoint(job.root, job.job, savepoint.savepoint_id)
        assert [finding.path for finding in report.findings] == [path]
    write(place, encode_manifest(manifest)[0])
    assert validate_savepoint(job.root, job.job, trigger_savepoint(job.root, job.job).savepoint_id).ok


def test_all_that_is_wrong_is_said_at_once(job: JobBuilder) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    files = [file.path for table in savepoint.tables for file in table.files]
    for path in files:
        (folder_of(job, savepoint) / path).unlink()
    findings = validate_savepoint(job.root, job.job, savepoint.savepoint_id).findings
    assert [finding.path for finding in findings] == files


def test_damaged_metadata_are_named(job: JobBuilder) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    metadata = folder_of(job, savepoint) / METADATA
    good = metadata.read_bytes()
    for at in random.Random(1).sample(range(len(good)), 20):
        write(metadata, flip(good, at))
        report = validate_savepoint(job.root, job.job, savepoint.savepoint_id)
        assert [METADATA in finding.path for finding in report.findings] == [True]
        with pytest.raises(Exception, match=METADATA):
            start(job.root, "copy", str(folder_of(job, savepoint)))
    write(metadata, good)
    assert validate_savepoint(job.root, job.job, savepoint.savepoint_id).ok


def rewrite(job: JobBuilder, savepoint: CanonicalSavepoint, change: Callable[[pa.Table], pa.Table]) -> str:
    """Replaces a file of the first state by other rows, and adapts length and checksum in the metadata."""
    folder = folder_of(job, savepoint)
    table = savepoint.tables[0]
    [file] = table.files
    rows = change(pq.ParquetFile(folder / file.path).read())
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    data = sink.getvalue().to_pybytes()
    write(folder / file.path, data)
    described = replace(file, length=len(data), checksum=checksum_of(data))
    rewrite_metadata(folder, lambda s: replace(s, tables=(with_files(s, 0, (described,)), *s.tables[1:])))
    return file.path


def with_files(savepoint: CanonicalSavepoint, index: int, files: tuple[StateFile, ...]) -> object:
    return replace(savepoint.tables[index], files=files)


def rewrite_metadata(folder: Path, change: Callable[[CanonicalSavepoint], CanonicalSavepoint]) -> None:
    savepoint = decode_savepoint((folder / METADATA).read_bytes()).savepoint
    write(folder / METADATA, encode_savepoint(change(savepoint))[0])


def _moved_keys(rows: pa.Table) -> pa.Table:
    index = rows.column_names.index("tailnum")
    names = rows.column("tailnum").to_pylist()
    return rows.set_column(index, "tailnum", pa.array(names[::-1], pa.string()))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: rows.take(list(range(rows.num_rows))[::-1]), "not sorted by key group"),
        (lambda rows: rows.slice(1), "rows, expected"),
        (_moved_keys, "keys are not in their key group"),
        (lambda rows: rows.drop_columns(["last_access"]), "it has the columns"),
    ],
)
def test_rows_that_are_not_in_their_place(
    job: JobBuilder, change: Callable[[pa.Table], pa.Table], problem: str
) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    path = rewrite(job, savepoint, change)
    [finding] = validate_savepoint(job.root, job.job, savepoint.savepoint_id).findings
    assert finding.path == path
    assert problem in finding.problem


def test_key_groups_that_are_missing(job: JobBuilder) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    folder = folder_of(job, savepoint)

    def shorten(s: CanonicalSavepoint) -> CanonicalSavepoint:
        first = s.tables[0]
        return replace(s, tables=(replace(first, ranges=((0, 5, 3), (7, 11, 4))), *s.tables[1:]))

    rewrite_metadata(folder, shorten)
    findings = validate_savepoint(job.root, job.job, savepoint.savepoint_id).findings
    text = "; ".join(map(str, findings))
    assert "key groups 6 to 6 are in no range" in text
    assert "key groups end at 11, expected 12" in text
    assert {finding.path for finding in findings} == {"aircraft/count"}


def test_a_table_that_another_writer_changed(job: JobBuilder) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    log = folder_of(job, savepoint) / "aircraft/legs/_delta_log"
    log.joinpath("00000000000000000001.json").unlink()
    [finding] = validate_savepoint(job.root, job.job, savepoint.savepoint_id).findings
    assert (finding.path, "differ" in finding.problem) == ("aircraft/legs", True)
    shutil.rmtree(log)
    [finding] = validate_savepoint(job.root, job.job, savepoint.savepoint_id).findings
    assert "log is gone" in finding.problem
    assert state_of(job.root, job.job, savepoint.savepoint_id) == model(job, 4), "a restore reads files"


def test_a_manifest_that_was_swapped_is_found(job: JobBuilder) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    other = Path(job.root, job.job, "_epochs/g000001/e0000000003.json").read_bytes()
    rewrite_metadata(folder_of(job, savepoint), lambda s: replace(s, sealed=msgspec.Raw(other)))
    [finding] = validate_savepoint(job.root, job.job, savepoint.savepoint_id).findings
    assert "expected" in finding.problem


def test_what_does_not_exist(job: JobBuilder, tmp_path: Path) -> None:
    with pytest.raises(NothingToRestoreError, match="it has none"):
        validate_savepoint(job.root, job.job, "sp-none")
    with pytest.raises(NothingToRestoreError, match="no _metadata"):
        validate_savepoint(job.root, job.job, str(tmp_path / "nowhere"))
    assert not dispose_savepoint(job.root, job.job, "sp-none")
    for name in ("..", "../x"):
        with pytest.raises(JobDefinitionError):
            dispose_savepoint(job.root, job.job, name)
        with pytest.raises(JobDefinitionError):
            validate_savepoint(job.root, job.job, name)


@pytest.mark.parametrize("kind", ["native", "noted elsewhere", "canonical", "elsewhere"])
def test_a_disposed_savepoint_is_gone_and_the_job_is_not(job: JobBuilder, tmp_path: Path, kind: str) -> None:
    other = trigger_savepoint(job.root, job.job, kind="canonical")
    before = {path for path in Path(job.root).rglob("*") if "_checkpoints" not in path.parts}
    directory = str(tmp_path / "backup") if "elsewhere" in kind else None
    savepoint = trigger_savepoint(
        job.root,
        job.job,
        kind="native" if kind in ("native", "noted elsewhere") else "canonical",
        directory=directory,
    )
    assert (savepoint.directory is not None) == ("elsewhere" in kind)
    assert savepoint.directory is None or Path(savepoint.directory, METADATA).is_file()
    assert dispose_savepoint(job.root, job.job, savepoint.savepoint_id)
    assert not dispose_savepoint(job.root, job.job, savepoint.savepoint_id), "a second time does nothing"
    assert list_savepoints(job.root, job.job) == [other]
    remaining = {path for path in Path(job.root).rglob("*") if "_checkpoints" not in path.parts}
    assert {path for path in remaining - before if path.is_file()} == set()
    assert [path for path in tmp_path.joinpath("backup").rglob("*") if path.is_file()] == []
    assert state_of(job.root, job.job) == model(job, 4)
    assert validate_savepoint(job.root, job.job, other.savepoint_id).ok


def test_one_that_was_moved_is_left_where_it_is(job: JobBuilder, tmp_path: Path) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical", directory=str(tmp_path / "backup"))
    assert savepoint.directory is not None
    shutil.move(savepoint.directory, tmp_path / "moved")
    assert dispose_savepoint(job.root, job.job, savepoint.savepoint_id)
    assert validate_savepoint(job.root, job.job, str(tmp_path / "moved")).ok


@pytest.mark.parametrize("content_of_note", ["another root's", "another savepoint's", "something else", "nothing"])
def test_a_note_that_is_anothers_is_left_where_it_is(job: JobBuilder, tmp_path: Path, content_of_note: str) -> None:
    pin = trigger_savepoint(job.root, job.job, directory=str(tmp_path / "backup"))
    assert pin.directory is not None
    note = Path(pin.directory, METADATA)
    reference = decode_reference(note.read_bytes())
    assert (reference.relocatable, reference.root) == (False, job.root)
    contents = {
        "another root's": encode_reference(replace(reference, root="/elsewhere")),
        "another savepoint's": encode_reference(replace(reference, savepoint_id="sp-1")),
        "something else": b"{}",
        "nothing": None,
    }
    content = contents[content_of_note]
    note.unlink()
    if content is not None:
        note.write_bytes(content)
    assert dispose_savepoint(job.root, job.job, pin.savepoint_id)
    assert (note.read_bytes() if note.exists() else None) == content


def test_what_a_restore_is_reading_is_not_disposed_of(job: JobBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    refused = []

    def meanwhile(storage: object, path: str, data: bytes) -> bool:
        with pytest.raises(SavepointError, match="job copy") as caught:
            dispose_savepoint(job.root, job.job, savepoint.savepoint_id)
        refused.append(caught.value)
        return put_once(storage, path, data)  # type: ignore[arg-type]

    from state_engine.storage.tables import put_once

    monkeypatch.setattr("state_engine.savepoint.adoption.put_once", meanwhile)
    start(job.root, "copy", f"flights/{savepoint.savepoint_id}")
    assert refused
    assert dispose_savepoint(job.root, job.job, savepoint.savepoint_id)
    assert state_of(job.root, "copy") == model(job, 4)


def test_a_restore_that_died_does_not_keep_it_for_ever(job: JobBuilder) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    (folder_of(job, savepoint) / IN_USE).mkdir()
    (folder_of(job, savepoint) / IN_USE / "x").write_text("job gone at / since 1")
    with pytest.raises(SavepointError, match="job gone"):
        dispose_savepoint(job.root, job.job, savepoint.savepoint_id)
    assert dispose_savepoint(job.root, job.job, savepoint.savepoint_id, force=True)
    assert list_savepoints(job.root, job.job) == []


def test_a_native_one_that_a_fork_depends_on_is_not_disposed_of(job: JobBuilder) -> None:
    pin = trigger_savepoint(job.root, job.job)
    start(job.root, "fork", f"flights/{pin.savepoint_id}")
    with pytest.raises(SavepointError, match="'fork' needs its files"):
        dispose_savepoint(job.root, job.job, pin.savepoint_id, force=True)
    assert list_savepoints(job.root, job.job) == [pin]


def test_a_fork_is_seen_in_a_root_in_memory_too(tmp_path: Path) -> None:
    job = running_job(f"memory://{tmp_path}")
    pin = trigger_savepoint(job.root, job.job)
    start(job.root, "fork", f"flights/{pin.savepoint_id}")
    with pytest.raises(SavepointError, match="'fork' needs its files"):
        dispose_savepoint(job.root, job.job, pin.savepoint_id)


def test_a_damaged_savepoint_can_be_disposed_of(job: JobBuilder) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    write(folder_of(job, savepoint) / METADATA, b"{}")
    [damaged] = read_catalogue(job.root, job.job).damaged
    assert damaged.path == metadata_path(savepoint.savepoint_id)
    assert dispose_savepoint(job.root, job.job, savepoint.savepoint_id)
    assert read_catalogue(job.root, job.job) == ([], [])


@pytest.mark.parametrize(
    ("kind", "elsewhere", "path_of"),
    [("native", False, pin_path), ("canonical", False, metadata_path), ("canonical", True, elsewhere_path)],
)
def test_a_damaged_savepoint_hides_no_other(
    job: JobBuilder, tmp_path: Path, kind: SavepointKind, elsewhere: bool, path_of: Callable[[str], str]
) -> None:
    sound = trigger_savepoint(job.root, job.job)
    directory = str(tmp_path / "elsewhere") if elsewhere else None
    name = trigger_savepoint(job.root, job.job, kind=kind, directory=directory).savepoint_id
    path = path_of(name)
    write(Path(job.root, job.job, path), b"{}")
    findings = read_catalogue(job.root, job.job)
    assert findings.savepoints == list_savepoints(job.root, job.job) == [sound]
    assert [(one.savepoint_id, one.path) for one in findings.damaged] == [(name, path)]
    assert path in findings.damaged[0].problem
    report = validate_savepoint(job.root, job.job, name)
    assert [finding.path.endswith(path) for finding in report.findings] == [True]
    with pytest.raises(DamagedFileError, match=name):
        resolve_restore(job.root, job.job, name)
    with pytest.raises(NothingToRestoreError, match=f"'sp-none'; it has .*{sound.savepoint_id}"):
        resolve_restore(job.root, job.job, "sp-none")


def test_an_interrupted_disposal_is_continued(job: JobBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    savepoint = trigger_savepoint(job.root, job.job, kind="canonical")
    files = len(open_storage(job.root, job.job).list(savepoint_folder(savepoint.savepoint_id)))
    delete = LocalStorage.delete
    for left in range(files):
        calls = iter(range(left))

        def fail(self: LocalStorage, path: str, calls: object = calls) -> None:
            if next(calls, None) is None:  # type: ignore[call-overload]
                raise StorageError("The network is down.")
            delete(self, path)

        with monkeypatch.context() as patch:
            patch.setattr(LocalStorage, "delete", fail)
            with suppress(StorageError):
                dispose_savepoint(job.root, job.job, savepoint.savepoint_id)
        if left >= 2:
            assert list_savepoints(job.root, job.job) == [], "invisible from the first step on"
    dispose_savepoint(job.root, job.job, savepoint.savepoint_id)
    assert open_storage(job.root, job.job).list(savepoint_folder(savepoint.savepoint_id)) == []
    job.epoch(random_changes(random.Random(1)))


def test_a_row_that_resets_a_key_group_has_no_key_to_be_astray(tmp_path: Path) -> None:
    job = sample_job(str(tmp_path))
    publisher = CheckpointPublisher(job.storage, job.job)
    publisher.begin(job.epoch({("aircraft", "count"): [put("N1", 1)]}, checkpoint_id=1))
    job.adopt(publisher.completed())
    resets = {("aircraft", name): [reset_group(group) for group in range(13)] for name in ("count", "legs")}
    publisher.begin(job.epoch(resets, checkpoint_id=2))
    job.adopt(publisher.completed())
    pin = trigger_savepoint(job.root, job.job)
    assert validate_savepoint(job.root, job.job, pin.savepoint_id).findings == ()
