"""State streams: when they are inlined, when a file is opened, and which files remain. After Flink's own tests."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from state_engine.errors import NotWritableError, StateTooLargeError, StorageError
from state_engine.storage.faults import Fault, FaultyStorage
from state_engine.storage.local import LocalStorage
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.object_store import ObjectStorage
from state_engine.storage.output_stream import (
    MAX_FILE_STATE_THRESHOLD,
    FsCheckpointStateOutputStream,
    MemCheckpointOutputStream,
)
from state_engine.storage.port import CheckpointStorage
from state_engine.testing.manual import CountingIds


def fs(storage: CheckpointStorage, *, buffer: int = 4096, threshold: int = 0) -> FsCheckpointStateOutputStream:
    return FsCheckpointStateOutputStream(storage, CountingIds(), lambda new: f"chk/{new}", buffer, threshold)


def mem(limit: int = 100) -> MemCheckpointOutputStream:
    return MemCheckpointOutputStream("chk/1", limit, "State 'count' of operator 'a'")


def write_and_close(stream: FsCheckpointStateOutputStream, data: bytes) -> None:
    with stream:
        stream.write(data)
        stream.close_and_get_handle()


def opened(storage: FaultyStorage) -> list[str]:
    return [path for operation, path in storage.calls if operation == "open_exclusive"]


@pytest.mark.parametrize(
    ("size", "buffer", "threshold", "inlined"),
    [
        # Flink's FsCheckpointStateOutputStreamTest
        (222, 999, 512, True),
        (896, 1024, 15, False),
        (576_446, 259, 17, False),
        (16_678, 4096, 0, False),
        # at the threshold, and one byte above it
        (20 * 1024, 20 * 1024, 20 * 1024, True),
        (20 * 1024 + 1, 20 * 1024, 20 * 1024, False),
        (20 * 1024 + 1, 64 * 1024, 20 * 1024, False),
        (1 << 20, 1 << 20, 1 << 20, True),
    ],
)
def test_what_was_written_is_inlined_or_in_a_file(
    tmp_path: Path, size: int, buffer: int, threshold: int, inlined: bool
) -> None:
    rng = random.Random(size)
    data, at = rng.randbytes(size), 0
    stream = fs(LocalStorage(tmp_path), buffer=buffer, threshold=threshold)
    while at < size:
        length = rng.choice([1, 7, 100, buffer, buffer + 1, 3 * buffer])
        at += stream.write(memoryview(data)[at : at + length])
        assert stream.get_pos() == at
    handle = stream.close_and_get_handle()
    assert handle is not None
    assert handle.length == size
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    if inlined:
        assert (handle.inlined, files) == (data, [])
    else:
        assert handle.inlined is None
        assert [file.relative_to(tmp_path).as_posix() for file in files] == [handle.path]
        assert files[0].read_bytes() == data


def test_a_file_is_opened_at_the_first_flush_and_not_before() -> None:
    storage = FaultyStorage(MemoryStorage())
    stream = fs(storage, buffer=10, threshold=10)
    stream.write(b"12345")
    stream.flush()  # not more than the threshold
    stream.write(b"67890")
    stream.flush()
    assert opened(storage) == []
    stream.write(b"x")
    assert len(opened(storage)) == 1
    stream.write(b"y" * 100)
    stream.flush()
    stream.sync()
    assert len(opened(storage)) == 1
    handle = stream.close_and_get_handle()
    assert handle is not None
    assert storage.get(handle.path) == b"1234567890x" + b"y" * 100


def test_flush_above_the_threshold_opens_it() -> None:
    storage = FaultyStorage(MemoryStorage())
    stream = fs(storage, buffer=100, threshold=3)
    stream.write(b"1234")
    assert opened(storage) == []
    stream.flush()
    assert len(opened(storage)) == 1


def test_nothing_written_leaves_nothing() -> None:
    storage = FaultyStorage(MemoryStorage())
    assert fs(storage).close_and_get_handle() is None
    assert mem().close_and_get_handle() is None
    assert storage.calls == []


def test_a_name_that_cannot_be_opened_is_replaced_up_to_ten_times() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("before", "open_exclusive", times=9)])
    stream = fs(storage)
    stream.write(b"x")
    handle = stream.close_and_get_handle()
    assert handle is not None
    assert handle.path == opened(storage)[9]
    assert len(set(opened(storage))) == 10
    storage = FaultyStorage(MemoryStorage(), [Fault("before", "open_exclusive", times=10)])
    stream = fs(storage)
    stream.write(b"x")
    with pytest.raises(StorageError, match="in 10 attempts") as error:
        stream.close_and_get_handle()
    assert isinstance(error.value.__cause__, StorageError)
    assert len(opened(storage)) == 10
    assert stream.is_closed()


def test_a_taken_name_is_left_alone() -> None:
    inner = MemoryStorage()
    storage, ids = FaultyStorage(inner), CountingIds()
    taken = f"chk/{ids.new_id()}"
    inner.put_exclusive(taken, b"somebody else's")
    stream = fs(storage)
    stream.write(b"mine")
    handle = stream.close_and_get_handle()
    assert handle is not None
    assert handle.path != taken
    assert (inner.get(taken), inner.get(handle.path)) == (b"somebody else's", b"mine")


def test_a_storage_that_cannot_be_written_is_not_tried_again() -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("before", "open_exclusive", times=None, error=NotWritableError)])
    stream = fs(storage)
    stream.write(b"x")
    with pytest.raises(NotWritableError):
        stream.close_and_get_handle()
    assert len(opened(storage)) == 1


@pytest.mark.parametrize("operation", ["write", "close"])
def test_what_fails_is_removed(tmp_path: Path, operation: str) -> None:
    storage = FaultyStorage(LocalStorage(tmp_path), [Fault("before", operation)])  # type: ignore[arg-type]
    stream = fs(storage, buffer=4)
    with pytest.raises(StorageError, match="Injected"):
        write_and_close(stream, b"12345")
    assert stream.is_closed()
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_on_an_object_store_nothing_exists_before_the_end() -> None:
    store = MemoryStore()
    storage, ids = ObjectStorage(store, url="store://memory"), CountingIds()
    taken = f"chk/{ids.new_id()}"
    storage.put_exclusive(taken, b"somebody else's")
    with fs(storage, buffer=4) as stream:
        stream.write(b"12345")
        stream.sync()
        assert [info.path for info in storage.list("")] == [taken]
        handle = stream.close_and_get_handle()
    assert handle is not None
    assert (storage.get(taken), storage.get(handle.path)) == (b"somebody else's", b"12345")
    with fs(storage, buffer=4) as stream:
        stream.write(b"discarded")
    assert len(storage.list("")) == 2


def test_leaving_the_block_discards(tmp_path: Path) -> None:
    with fs(LocalStorage(tmp_path), buffer=4) as stream:
        stream.write(b"12345")
        assert [file for file in tmp_path.rglob("*") if file.is_file()] != []
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    with fs(LocalStorage(tmp_path), buffer=4) as stream:
        stream.write(b"12345")
        handle = stream.close_and_get_handle()
    assert handle is not None
    assert (tmp_path / handle.path).read_bytes() == b"12345"


@pytest.mark.parametrize("make", [lambda: fs(MemoryStorage()), mem], ids=["fs", "mem"])
@pytest.mark.parametrize("end", ["close", "close_and_get_handle"])
def test_a_closed_stream_takes_and_gives_nothing(
    make: Callable[[], FsCheckpointStateOutputStream | MemCheckpointOutputStream], end: str
) -> None:
    stream = make()
    stream.write(b"x")
    getattr(stream, end)()
    assert stream.is_closed()
    stream.close()
    with pytest.raises(StorageError, match="closed already"):
        stream.write(b"y")
    with pytest.raises(StorageError, match="closed already"):
        stream.close_and_get_handle()


def test_files_are_durable_before_the_handle_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda at: (synced.append(os.readlink(f"/proc/self/fd/{at}")), fsync(at))[1])
    stream = fs(LocalStorage(tmp_path))
    stream.write(b"x")
    handle = stream.close_and_get_handle()
    assert handle is not None
    assert synced[-2:] == [str(tmp_path / handle.path), str(tmp_path / "chk")]


def test_sizes_have_to_fit() -> None:
    with pytest.raises(ValueError, match="smaller than the threshold"):
        fs(MemoryStorage(), buffer=9, threshold=10)
    with pytest.raises(ValueError, match="threshold is"):
        fs(MemoryStorage(), buffer=1 << 30, threshold=MAX_FILE_STATE_THRESHOLD + 1)
    with pytest.raises(ValueError, match="threshold is"):
        fs(MemoryStorage(), threshold=-1)


def test_memory_takes_what_fits_and_refuses_more_by_name() -> None:
    stream = mem(limit=5)
    stream.write(b"123")
    stream.write(memoryview(b"45"))
    stream.flush()
    stream.sync()
    assert stream.get_pos() == 5
    handle = stream.close_and_get_handle()
    assert handle is not None
    assert (handle.path, handle.length, handle.inlined) == ("chk/1", 5, b"12345")
    stream = mem(limit=5)
    stream.write(b"123456")
    assert stream.get_pos() == 6
    with pytest.raises(StateTooLargeError, match="State 'count' of operator 'a' has 6 bytes, more than the 5") as error:
        stream.close_and_get_handle()
    assert "FileSystemCheckpointStorage" in error.value.action
