"""The chain of manifests: sealing, the newest epoch, and predecessors across generations, bases and jobs."""

import pytest
from msgspec.structs import replace

from state_engine.checkpoint.floors import raise_floor
from state_engine.errors import (
    AlreadyExistsError,
    DamagedManifestError,
    MissingFileError,
    NotFoundError,
    UnsupportedVersionError,
)
from state_engine.log.lineage import check_base_joins, fork_lineage
from state_engine.log.manifest import StoredManifest, encode_manifest
from state_engine.log.outline import outline_of
from state_engine.log.paths import base_path, change_path, manifest_path
from state_engine.log.records import Base, BaseReference, Manifest, Origin, Span
from state_engine.log.retention_records import Floor
from state_engine.storage import manifest_log
from state_engine.storage.faults import FaultyStorage
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage

FIRST = (Span(generation=1, first=1),)


def _manifest(
    epoch: int,
    predecessor: str = "",
    *,
    job: str = "job",
    lineage: tuple[Span, ...] = FIRST,
    base: BaseReference | None = None,
    origin: Origin | None = None,
) -> Manifest:
    return Manifest(
        job=job,
        generation=lineage[-1].generation,
        epoch=epoch,
        kind="epoch",
        incarnation="me",
        incarnation_number=1,
        predecessor=predecessor,
        processing_time=epoch,
        lineage=lineage,
        base=base,
        origin=origin,
    )


def _seal(log: ManifestLog, first: int, last: int, head: StoredManifest | None = None) -> StoredManifest:
    """Seals the epochs `first` to `last` after `head` and returns the last one."""
    for epoch in range(first, last + 1):
        lineage = FIRST if head is None else head.manifest.lineage
        head = log.put(_manifest(epoch, head.hash if head else "", lineage=lineage))
    assert head is not None
    return head


def _origin(head: StoredManifest) -> Origin:
    m = head.manifest
    return Origin(job=m.job, generation=m.generation, epoch=m.epoch, manifest=head.hash)


@pytest.fixture
def storage() -> FaultyStorage:
    return FaultyStorage(MemoryStorage())


@pytest.fixture
def log(storage: FaultyStorage) -> ManifestLog:
    return ManifestLog(storage, "job")


def test_nothing_sealed(log: ManifestLog) -> None:
    assert log.generations() == []
    assert log.newest(1) is None
    with pytest.raises(NotFoundError):
        log.read(1, 1)


def test_an_epoch_is_sealed_once(log: ManifestLog, storage: FaultyStorage) -> None:
    sealed = log.put(_manifest(1))
    with pytest.raises(AlreadyExistsError):
        log.put(_manifest(1, predecessor="x"))
    assert ManifestLog(storage, "job").read(1, 1) == sealed


def test_newest_reads_one_manifest_however_long_the_log(log: ManifestLog, storage: FaultyStorage) -> None:
    _seal(log, 1, 30)
    storage.put_exclusive(change_path(1, 99, "u", 0, "a"), b"x")
    storage.put_exclusive(base_path(1, 98, "b"), b"x")
    storage.put_exclusive("_epochs/g000001/e0000000077.json.bak", b"x")
    storage.calls.clear()
    newest = ManifestLog(storage, "job").newest(1)
    assert newest is not None
    assert newest.manifest.epoch == 30
    assert [operation for operation, _ in storage.calls] == ["list", "list", "get"], "epochs, floors, one manifest"


def test_generations_are_numbers_in_order(log: ManifestLog, storage: FaultyStorage) -> None:
    for generation in (2, 10, 1):
        storage.put_exclusive(manifest_path(generation, 1), b"x")
    storage.put_exclusive("_epochs/gXYZ/file", b"x")
    assert log.generations() == [1, 2, 10]


def test_a_chain_is_oldest_first_and_read_once(log: ManifestLog, storage: FaultyStorage) -> None:
    head = _seal(log, 1, 10)
    fresh = ManifestLog(storage, "job")
    assert [stored.manifest.epoch for stored in fresh.chain(head)] == list(range(1, 11))
    storage.calls.clear()
    assert len(fresh.chain(head)) == 10
    assert storage.calls == []


def test_outlines_follow_the_chain_and_each_is_read_once(log: ManifestLog, storage: FaultyStorage) -> None:
    head = _seal(log, 1, 10)
    fresh = ManifestLog(storage, "job", cached=1)
    assert fresh.outlines(head) == [outline_of(stored) for stored in log.chain(head)]
    storage.calls.clear()
    assert len(fresh.outlines(head)) == 10
    assert fresh.read_outline(1, 3).manifest.epoch == 3
    assert storage.calls == []
    fresh.forget_outlines()
    fresh.outlines(head)
    assert len(storage.calls) == 9


def test_outlines_end_where_the_chain_ends(log: ManifestLog) -> None:
    at = _seal(log, 1, 6)
    base = BaseReference(path="b", checksum="c", generation=1, epoch=6, checkpoint_id=1)
    head = log.put(_manifest(7, at.hash, base=base))
    assert [one.manifest.epoch for one in log.outlines(head)] == [7]
    other = log.put(_manifest(8, head.hash, base=base))
    assert [one.manifest.epoch for one in log.outlines(other)] == [7, 8]


def test_an_outline_of_another_manifest_breaks_the_chain(log: ManifestLog, storage: FaultyStorage) -> None:
    head = _seal(log, 1, 4)
    fresh = ManifestLog(storage, "job")
    fresh.outlines(head)
    storage.inner.delete(manifest_path(1, 2))
    storage.inner.put_if_absent(manifest_path(1, 2), encode_manifest(_manifest(2, "another"))[0])
    assert len(fresh.outlines(head)) == 4, "what was read once is known by its hash"
    with pytest.raises(DamagedManifestError, match=r"The chain breaks at epoch 2 .* expected"):
        ManifestLog(storage, "job").outlines(head)
    storage.inner.delete(manifest_path(1, 2))
    storage.inner.put_if_absent(manifest_path(1, 2), encode_manifest(_manifest(3, "another"))[0])
    with pytest.raises(DamagedManifestError, match="holds epoch 3 of generation 1 of job 'job', not its own"):
        ManifestLog(storage, "job").outlines(head)


def test_an_outline_is_read_anew_where_another_hash_is_expected(log: ManifestLog, storage: FaultyStorage) -> None:
    fresh = ManifestLog(storage, "job")
    fresh.outlines(_seal(log, 1, 4))
    for epoch in (2, 3, 4):
        storage.inner.delete(manifest_path(1, epoch))
    other = _seal(ManifestLog(storage, "job"), 2, 2, log.read(1, 1))
    for epoch in (3, 4):
        other = ManifestLog(storage, "job").put(replace(_manifest(epoch, other.hash), incarnation="other"))
    assert [one.hash for one in fresh.outlines(other)] == [one.hash for one in ManifestLog(storage, "job").chain(other)]


def test_the_cache_is_small(storage: FaultyStorage) -> None:
    head = _seal(ManifestLog(storage, "job"), 1, 10)
    small = ManifestLog(storage, "job", cached=3)
    small.chain(head)
    storage.calls.clear()
    small.read(1, 1)
    small.read(1, 9)
    assert len(storage.calls) == 1


def test_a_chain_ends_after_the_base(log: ManifestLog, storage: FaultyStorage) -> None:
    at = _seal(log, 1, 6)
    base = BaseReference(path="b", checksum="c", generation=1, epoch=6, checkpoint_id=1)
    head = log.put(_manifest(7, at.hash, base=base))
    assert log.chain(head) == [head]
    assert check_base_joins(log.chain(head), _base(at)) is None
    with pytest.raises(DamagedManifestError, match="was folded at"):
        check_base_joins(log.chain(head), _base(log.read(1, 5)))
    head = log.put(_manifest(8, head.hash, base=base))
    storage.inner.delete(manifest_path(1, 6))
    assert [stored.manifest.epoch for stored in ManifestLog(storage, "job").chain(head)] == [7, 8]
    with pytest.raises(MissingFileError, match="epoch 6"):
        ManifestLog(storage, "job").chain(head, down_to_base=False)


def _base(at: StoredManifest) -> Base:
    m = at.manifest
    return Base(
        job=m.job, generation=m.generation, epoch=m.epoch, checkpoint_id=1, manifest=at.hash, full=True, files=()
    )


def test_a_base_at_the_head_leaves_nothing_to_follow(log: ManifestLog) -> None:
    at = _seal(log, 1, 2)
    base = BaseReference(path="b", checksum="c", generation=1, epoch=3, checkpoint_id=1)
    assert log.chain(log.put(_manifest(3, at.hash, base=base))) == []


def test_a_chain_crosses_generations_and_skips_abandoned_epochs(log: ManifestLog) -> None:
    _seal(log, 1, 9)
    restored = log.read(1, 5)
    lineage = fork_lineage(restored.manifest.lineage, 5, 2)
    first = log.put(_manifest(6, restored.hash, lineage=lineage, origin=_origin(restored)))
    middle = _seal(log, 7, 8, first)
    again = log.put(
        _manifest(9, middle.hash, lineage=fork_lineage(middle.manifest.lineage, 8, 4), origin=_origin(middle))
    )
    places = [(stored.manifest.generation, stored.manifest.epoch) for stored in log.chain(again)]
    assert places == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 6), (2, 7), (2, 8), (4, 9)]


def test_a_base_of_abandoned_epochs_is_refused(log: ManifestLog) -> None:
    _seal(log, 1, 9)
    restored = log.read(1, 5)
    abandoned = BaseReference(path="b", checksum="c", generation=1, epoch=7, checkpoint_id=1)
    lineage = fork_lineage(restored.manifest.lineage, 5, 2)
    first = log.put(_manifest(6, restored.hash, lineage=lineage, origin=_origin(restored)))
    second = log.put(_manifest(7, first.hash, lineage=lineage))
    head = log.put(_manifest(8, second.hash, lineage=lineage, base=abandoned))
    with pytest.raises(DamagedManifestError, match="not on its lineage"):
        log.chain(head)


def test_a_chain_goes_on_in_the_job_that_was_forked(storage: FaultyStorage, log: ManifestLog) -> None:
    restored = _seal(log, 1, 3)
    fork_storage = MemoryStorage()
    fork = ManifestLog(fork_storage, "fork", open_job={"job": storage}.__getitem__)
    lineage = (Span(generation=1, first=4),)
    head = fork.put(_manifest(4, restored.hash, job="fork", lineage=lineage, origin=_origin(restored)))
    assert [(s.manifest.job, s.manifest.epoch) for s in fork.chain(head)] == [
        ("job", 1),
        ("job", 2),
        ("job", 3),
        ("fork", 4),
    ]
    with pytest.raises(MissingFileError, match="canonical savepoint"):
        ManifestLog(fork_storage, "fork").chain(head)


@pytest.mark.parametrize("generation", [1, 7])
def test_the_chain_of_a_fork_ends_after_the_base_of_what_was_restored(
    storage: FaultyStorage, log: ManifestLog, generation: int
) -> None:
    at = _seal(log, 1, 3)
    base = BaseReference(path="b", checksum="c", generation=generation, epoch=3, checkpoint_id=1)
    restored = log.put(_manifest(5, log.put(_manifest(4, at.hash, base=base)).hash, base=base))
    fork = ManifestLog(MemoryStorage(), "fork", open_job={"job": storage}.__getitem__)
    lineage = (Span(generation=1, first=6),)
    first = fork.put(_manifest(6, restored.hash, job="fork", lineage=lineage, origin=_origin(restored)))
    head = fork.put(_manifest(7, first.hash, job="fork", lineage=lineage))
    storage.inner.delete(manifest_path(1, 3))
    if generation == 7:
        with pytest.raises(DamagedManifestError, match="'job' names the base of epoch 3 in generation 7"):
            fork.chain(head)
        return
    assert [stored.manifest.epoch for stored in fork.chain(head)] == [4, 5, 6, 7]
    with pytest.raises(MissingFileError, match="epoch 3"):
        fork.chain(head, down_to_base=False)


def test_a_missing_manifest_is_named(log: ManifestLog, storage: FaultyStorage) -> None:
    head = _seal(log, 1, 6)
    storage.inner.delete(manifest_path(1, 3))
    with pytest.raises(MissingFileError, match=r"epoch 3 \(_epochs/g000001/e0000000003.json.*What to do"):
        ManifestLog(storage, "job").chain(head)


def test_what_was_read_before_is_read_anew_where_another_hash_is_expected(storage: FaultyStorage) -> None:
    """The root was put back to an older copy, or the job began anew in it."""
    other = ManifestLog(storage, "job")
    old = _seal(other, 1, 2)
    for epoch in (1, 2):
        storage.inner.delete(manifest_path(1, epoch))
    first = ManifestLog(storage, "job").put(replace(_manifest(1), incarnation="other"))
    assert other.read(1, 1, expected=first.hash).hash == first.hash != old.manifest.predecessor
    second = _manifest(2, first.hash)
    assert other.chain(other.put(second), down_to_base=False)[0].hash == first.hash


def test_a_manifest_that_was_exchanged_breaks_the_chain(log: ManifestLog, storage: FaultyStorage) -> None:
    head = _seal(log, 1, 6)
    storage.inner.delete(manifest_path(1, 3))
    storage.inner.put_if_absent(manifest_path(1, 3), encode_manifest(_manifest(3, "forged"))[0])
    with pytest.raises(DamagedManifestError, match=r"breaks at epoch 3.*its hash is"):
        ManifestLog(storage, "job").chain(head)


def test_damage_names_epoch_and_path(log: ManifestLog, storage: FaultyStorage) -> None:
    head = _seal(log, 1, 6)
    data = storage.get(manifest_path(1, 2))
    storage.inner.delete(manifest_path(1, 2))
    storage.inner.put_if_absent(manifest_path(1, 2), data.replace(b'"epoch":2', b'"epoch":7'))
    with pytest.raises(DamagedManifestError, match=r"breaks at epoch 2 \(_epochs/g000001/e0000000002.json.*checksum"):
        ManifestLog(storage, "job").chain(head)


def test_a_manifest_of_a_later_release_is_not_called_damaged(log: ManifestLog, storage: FaultyStorage) -> None:
    head = _seal(log, 1, 3)
    data = storage.get(manifest_path(1, 2))
    storage.inner.delete(manifest_path(1, 2))
    storage.inner.put_if_absent(manifest_path(1, 2), data.replace(b'"version":1', b'"version":2'))
    with pytest.raises(UnsupportedVersionError, match=r"epoch 2.*version 2 .*reads version 1"):
        ManifestLog(storage, "job").chain(head)


def test_a_copied_manifest_is_not_taken_for_another_epoch(log: ManifestLog, storage: FaultyStorage) -> None:
    _seal(log, 1, 2)
    storage.inner.put_if_absent(manifest_path(1, 3), storage.get(manifest_path(1, 2)))
    with pytest.raises(DamagedManifestError, match="holds epoch 2"):
        log.newest(1)


def test_a_copied_manifest_is_not_taken_for_that_of_another_line(log: ManifestLog, storage: FaultyStorage) -> None:
    _seal(log, 1, 2)
    storage.inner.put_if_absent(manifest_path(2, 2), storage.get(manifest_path(1, 2)))
    with pytest.raises(DamagedManifestError, match="holds epoch 2 of generation 1 of job 'job'"):
        log.read(2, 2)
    with pytest.raises(DamagedManifestError, match="holds epoch 2 of generation 1 of job 'job'"):
        ManifestLog(storage, "another").read(1, 2)


def test_the_newest_epoch_is_found_although_all_that_was_listed_is_freed(
    log: ManifestLog, storage: FaultyStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the listing the job seals two more epochs, and retention frees the first two."""
    _seal(log, 1, 4)
    fresh = log.read(1, 4)
    log = ManifestLog(storage, "job")
    listed = log.epochs

    def slow(generation: int) -> list[int]:
        monkeypatch.setattr(log, "epochs", listed)
        raise_floor(storage, Floor(job="job", generation=1, epoch=2, checkpoint_id=0, raised_at=0))
        for epoch in (1, 2):
            storage.delete(manifest_path(1, epoch))
        return [1, 2]

    monkeypatch.setattr(log, "epochs", slow)
    assert log.newest(1) == fresh


def test_few_manifests_are_kept_that_hold_many_bytes(storage: FaultyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(_manifest(1, "0" * 64), inlined={"changes/1": bytes(100)})
    monkeypatch.setattr(manifest_log, "CACHED_BYTES", int(2.5 * len(encode_manifest(large)[0])))
    log, digest = ManifestLog(storage, "job"), ""
    for epoch in range(1, 6):
        digest = log.put(replace(_manifest(epoch, digest), inlined={f"changes/{epoch}": bytes(100)})).hash
    storage.calls.clear()
    assert [log.read(1, epoch).manifest.epoch for epoch in (5, 4)] == [5, 4]
    assert storage.calls == []
    assert log.read(1, 3).manifest.inlined == {"changes/3": bytes(100)}  # one more than the cache has room for
    assert len(storage.calls) == 1
    storage.calls.clear()
    log.read(1, 4)
    assert storage.calls == []


def test_one_manifest_is_kept_however_large_it_is(storage: FaultyStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_log, "CACHED_BYTES", 10)
    log = ManifestLog(storage, "job")
    log.put(replace(_manifest(1, ""), inlined={"changes/1": bytes(100)}))
    storage.calls.clear()
    log.read(1, 1)
    assert storage.calls == []
