"""Change files that are read for several states: small ones once, and what comes is what the storage has."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from state_engine.errors import NotFoundError
from state_engine.log.records import Ack, Manifest, OperatorEpoch, StateHandle
from state_engine.storage import read_once
from state_engine.storage.local import LocalStorage
from state_engine.storage.read_once import ReadOnce
from state_engine.testing.counting import CountingStorage

FILES = {"a": b"0123456789", "b": b"abcdef", "large": b"x" * 100}


class Bucket(CountingStorage):
    """A storage whose address is that of a bucket."""

    url = "s3://bucket/prefix"


@pytest.fixture(params=[CountingStorage, Bucket])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CountingStorage:
    local = LocalStorage(tmp_path)
    for path, data in FILES.items():
        local.put_exclusive(path, data)
    kind: Callable[[LocalStorage], CountingStorage] = request.param
    return kind(local)


def manifest(*paths: str, inlined: tuple[str, ...] = ()) -> Manifest:
    """Returns a manifest of which only the change files matter."""
    acks = tuple(
        Ack(
            uid="op", subtask=number, attempt="x", records_in=0, records_out=0,
            changes=StateHandle(path=path, length=len(FILES.get(path, b"gone")), checksum="", rows=1, codec="none"),
        )
        for number, path in enumerate(paths)
    )  # fmt: skip
    return Manifest(
        job="job", lineage=(), generation=1, epoch=1, kind="epoch", incarnation="i", incarnation_number=1,
        predecessor="", processing_time=0, operators={"op": OperatorEpoch(parallelism=2, max_parallelism=8, acks=acks)},
        inlined=dict.fromkeys(inlined, b""),
    )  # fmt: skip


def test_a_small_file_is_read_once_however_many_sections_are_read(
    storage: CountingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_once, "MOST_WHOLE", 50)
    with ReadOnce(storage, [manifest("a", "large"), manifest("b")]) as reader:
        for _ in range(3):
            assert reader.get_range("a", 2, 3) == b"234"
            assert reader.get_range("a", 8, 9) == b"89"
            assert reader.get_range("b", 6, 1) == b""
            assert reader.get_range("large", 0, 2) == b"xx"
        assert (reader.url, reader.get("large")) == (storage.url, FILES["large"])
    assert storage.reads == {"a": 1, "b": 1, "large": 4}


def test_only_so_many_bytes_are_held(storage: CountingStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_once, "MOST_TOGETHER", 16)
    with ReadOnce(storage, [manifest("a", "b", "large")]) as reader:
        for _ in range(2):
            assert [reader.get_range(path, 0, 1) for path in ("a", "b", "large")] == [b"0", b"a", b"x"]
    assert storage.reads == {"a": 1, "b": 1, "large": 2}


def test_what_a_manifest_has_inlined_is_not_fetched(storage: CountingStorage) -> None:
    with ReadOnce(storage, [manifest("a", "b", inlined=("a",))]) as reader:
        assert reader.get_range("b", 0, 1) == b"a"
    assert storage.reads == {"b": 1}


def test_a_file_that_is_gone_is_missed_when_it_is_read_and_each_time(storage: CountingStorage) -> None:
    with ReadOnce(storage, [manifest("gone", "a")]) as reader:
        assert reader.get_range("a", 0, 1) == b"0"
        for _ in range(2):
            with pytest.raises(NotFoundError):
                reader.get_range("gone", 0, 1)


def test_from_a_bucket_files_are_fetched_ahead_and_side_by_side(tmp_path: Path) -> None:
    local = LocalStorage(tmp_path)
    local.put_exclusive("a", FILES["a"])
    local.put_exclusive("b", FILES["b"])
    both = threading.Barrier(2, timeout=20)

    class Slow(Bucket):
        def get(self, path: str) -> bytes:
            both.wait()  # each waits for the other request
            return super().get(path)

    slow = Slow(local)
    with ReadOnce(slow, [manifest("a", "b")]) as reader:
        assert reader.get_range("b", 0, 2) + reader.get_range("a", 0, 2) == b"ab01"


def test_no_request_is_open_once_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_once, "_AT_ONCE", 1)
    begun, go_on, done = threading.Event(), threading.Event(), []

    class Held(Bucket):
        def get(self, path: str) -> bytes:
            begun.set()
            assert go_on.wait(20)
            done.append(path)
            return b""

    with ReadOnce(Held(LocalStorage(tmp_path)), [manifest("a", "b", "large")]):
        assert begun.wait(20)
        threading.Timer(0.05, go_on.set).start()
    assert done == ["a"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read-once")]
