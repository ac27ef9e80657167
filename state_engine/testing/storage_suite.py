"""What every storage of a job must do: a suite of tests for implementations of `CheckpointStorage`.

Derive a test class and define the fixture `subject`:

```python
class TestMyStorage(StorageSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> StorageSubject:
        return StorageSubject(MyStorage(tmp_path), direct=DirectoryAccess(tmp_path), again=lambda: MyStorage(tmp_path))
```

`direct` reads and writes the same objects without the storage under test. A storage that agrees only with itself
therefore fails.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pytest

from state_engine.errors import AlreadyExistsError, NotFoundError, StorageError
from state_engine.storage.port import CheckpointStorage

PATH = "_epochs/g000001/e0000000001.json"


class DirectAccess(Protocol):
    """Direct access to the objects of the storage under test, which bypasses that storage."""

    def read(self, path: str) -> bytes | None:
        """Returns the bytes at a path, or None if there is no object."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Puts bytes at a path, as another program would."""
        ...

    def paths(self) -> list[str]:
        """Returns the sorted paths of all objects, temporary ones included."""
        ...


@dataclass
class DirectoryAccess:
    """Direct access to objects that are files below a directory."""

    root: Path

    def read(self, path: str) -> bytes | None:
        """Returns the file's bytes."""
        file = self.root / path
        return file.read_bytes() if file.is_file() else None

    def write(self, path: str, data: bytes) -> None:
        """Writes the file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    def paths(self) -> list[str]:
        """Returns all files."""
        return sorted(file.relative_to(self.root).as_posix() for file in self.root.rglob("*") if file.is_file())


@dataclass
class StorageSubject:
    """The storage under test, direct access to its objects, and a function that opens the same objects again."""

    storage: CheckpointStorage
    direct: DirectAccess
    again: Callable[[], CheckpointStorage]


class StorageSuite:
    """Tests of the port; each test checks one guarantee of `CheckpointStorage`.

    A subclass defines a fixture `subject`, the `StorageSubject` under test.
    """

    @pytest.fixture
    def storage(self, subject: StorageSubject) -> CheckpointStorage:
        """The storage alone."""
        return subject.storage

    def test_put_exclusive_writes_the_buffers_in_order(self, subject: StorageSubject) -> None:
        subject.storage.put_exclusive(PATH, b"ab", memoryview(b"cd"), pa.py_buffer(b"ef"), bytearray(b""))
        assert subject.direct.read(PATH) == b"abcdef"

    def test_put_if_absent_writes_everything(self, subject: StorageSubject) -> None:
        data = bytes(range(256)) * 1000
        subject.storage.put_if_absent(PATH, data)
        assert subject.direct.read(PATH) == data

    def test_an_object_may_be_written_piece_by_piece(self, subject: StorageSubject) -> None:
        writer = subject.storage.open_exclusive("a/b")
        piece = bytearray(b"ab")
        writer.write(piece)
        piece[:] = b"xx"
        writer.sync()
        writer.write(memoryview(b"cd"))
        writer.write(b"")
        writer.close()
        assert subject.direct.read("a/b") == b"abcd"
        writer.discard()
        assert subject.direct.read("a/b") == b"abcd", "what was closed stays"
        with pytest.raises(StorageError):
            writer.write(b"e")
        with pytest.raises(StorageError):
            writer.close()

    def test_a_discarded_object_is_gone(self, subject: StorageSubject) -> None:
        writer = subject.storage.open_exclusive(PATH)
        writer.write(b"half")
        writer.discard()
        writer.discard()
        assert subject.direct.paths() == []
        assert not subject.storage.exists(PATH)
        subject.storage.put_exclusive(PATH, b"whole")
        assert subject.direct.read(PATH) == b"whole"

    def test_a_taken_name_cannot_be_written_piece_by_piece(self, subject: StorageSubject) -> None:
        subject.direct.write(PATH, b"first")
        with pytest.raises(AlreadyExistsError):
            subject.storage.open_exclusive(PATH).close()
        assert subject.direct.read(PATH) == b"first"

    def test_an_empty_object_is_an_object(self, subject: StorageSubject) -> None:
        subject.storage.put_if_absent("a", b"")
        subject.storage.put_exclusive("b")
        assert (subject.direct.read("a"), subject.direct.read("b")) == (b"", b"")
        assert subject.storage.exists("a")
        assert subject.storage.get("b") == b""

    def test_a_taken_name_is_refused_and_keeps_its_bytes(self, subject: StorageSubject) -> None:
        subject.direct.write(PATH, b"first")
        with pytest.raises(AlreadyExistsError):
            subject.storage.put_if_absent(PATH, b"second")
        with pytest.raises(AlreadyExistsError):
            subject.storage.put_exclusive(PATH, b"third")
        assert subject.direct.read(PATH) == b"first"

    def test_a_refused_put_leaves_nothing(self, subject: StorageSubject) -> None:
        subject.storage.put_if_absent(PATH, b"first")
        with pytest.raises(AlreadyExistsError):
            subject.storage.put_if_absent(PATH, b"second")
        assert subject.direct.paths() == [PATH]

    def test_of_many_concurrent_puts_one_wins(self, subject: StorageSubject) -> None:
        winners: list[int] = []
        start = threading.Barrier(8)

        def put(number: int) -> None:
            storage = subject.again()
            start.wait()
            try:
                storage.put_if_absent(PATH, str(number).encode() * 10_000)
            except AlreadyExistsError:
                return
            winners.append(number)

        threads = [threading.Thread(target=put, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(winners) == 1
        assert subject.direct.read(PATH) == str(winners[0]).encode() * 10_000
        assert subject.direct.paths() == [PATH]

    def test_get_returns_what_lies_there(self, subject: StorageSubject) -> None:
        subject.direct.write(PATH, b"\x00\xffdata")
        assert subject.storage.get(PATH) == b"\x00\xffdata"
        assert isinstance(subject.storage.get(PATH), bytes)

    def test_get_of_nothing_is_not_found(self, storage: CheckpointStorage) -> None:
        storage.put_if_absent(PATH, b"x")
        for path in ("absent", "_epochs", "_epochs/g000001", "_epochs/g000001/e"):
            with pytest.raises(NotFoundError):
                storage.get(path)
            with pytest.raises(NotFoundError):
                storage.get_range(path, 0, 1)
            assert not storage.exists(path)

    @pytest.mark.parametrize(
        ("offset", "length", "found"),
        [(0, 3, b"012"), (3, 4, b"3456"), (8, 100, b"89"), (10, 5, b""), (50, 5, b""), (4, 0, b"")],
    )
    def test_get_range(self, subject: StorageSubject, offset: int, length: int, found: bytes) -> None:
        subject.direct.write("object", b"0123456789")
        assert subject.storage.get_range("object", offset, length) == found

    def test_exists(self, subject: StorageSubject) -> None:
        assert not subject.storage.exists(PATH)
        subject.direct.write(PATH, b"x")
        assert subject.storage.exists(PATH)

    def test_list_is_recursive_and_sorted(self, subject: StorageSubject) -> None:
        for path in ("b/2", "b/c/1", "a", "b/1", "bb/1"):
            subject.direct.write(path, path.encode() * 2)
        assert [info.path for info in subject.storage.list("")] == ["a", "b/1", "b/2", "b/c/1", "bb/1"]
        assert [(info.path, info.size) for info in subject.storage.list("b")] == [("b/1", 6), ("b/2", 6), ("b/c/1", 10)]
        assert subject.storage.list("b/") == subject.storage.list("b")

    def test_list_of_one_folder_only(self, subject: StorageSubject) -> None:
        for path in ("b/2", "b/c/1", "a", "b/1"):
            subject.direct.write(path, b"x")
        assert [info.path for info in subject.storage.list("b", recursive=False)] == ["b/1", "b/2"]
        assert [info.path for info in subject.storage.list("", recursive=False)] == ["a"]

    def test_list_of_nothing_is_empty(self, subject: StorageSubject) -> None:
        assert subject.storage.list("") == []
        assert subject.storage.list("absent/folder") == []
        assert subject.storage.list("absent/folder", recursive=False) == []
        assert list(subject.storage.folders("absent")) == []

    def test_times_of_a_listing_are_milliseconds(self, storage: CheckpointStorage) -> None:
        storage.put_if_absent("a", b"x")
        storage.put_if_absent("b", b"x")
        first, second = storage.list("")
        assert 1_500_000_000_000 < first.modified_ms <= second.modified_ms + 2_000 < 10_000_000_000_000

    def test_folders_are_those_directly_below(self, subject: StorageSubject) -> None:
        for path in ("_epochs/g000002/e1", "_epochs/g000001/changes/x", "_epochs/file", "other/x"):
            subject.direct.write(path, b"x")
        assert list(subject.storage.folders("_epochs")) == ["g000001", "g000002"]
        assert list(subject.storage.folders("")) == ["_epochs", "other"]

    def test_delete_removes_and_forgives(self, subject: StorageSubject) -> None:
        subject.direct.write(PATH, b"x")
        subject.direct.write("other", b"y")
        subject.storage.delete(PATH)
        subject.storage.delete(PATH)
        subject.storage.delete("never/there")
        assert subject.direct.paths() == ["other"]
        subject.storage.put_if_absent(PATH, b"again")
        assert subject.storage.get(PATH) == b"again"

    def test_delete_together_removes_and_forgives(self, subject: StorageSubject) -> None:
        assert subject.storage.deletes_at_once >= 1
        for path in ("a", "b/1", "b/2", "other"):
            subject.direct.write(path, b"x")
        subject.storage.delete_together(["b/1", "never/there", "a"])
        subject.storage.delete_together([])
        assert subject.direct.paths() == ["b/2", "other"]

    def test_a_second_opening_sees_the_same(self, subject: StorageSubject) -> None:
        subject.storage.put_exclusive(PATH, b"x")
        assert subject.again().get(PATH) == b"x"
        assert subject.again().url == subject.storage.url

    def test_check_writable_leaves_nothing(self, subject: StorageSubject) -> None:
        subject.storage.check_writable()
        assert subject.direct.paths() == []

    @pytest.mark.parametrize(
        "path", ["", "/etc/passwd", "../up", "a/../../up", "a//b", "./a", "a/", "a\\b", "a\0b", ".."]
    )
    def test_paths_that_leave_the_root_are_refused(self, subject: StorageSubject, path: str) -> None:
        for call in (
            lambda: subject.storage.get(path),
            lambda: subject.storage.put_if_absent(path, b"x"),
            lambda: subject.storage.put_exclusive(path, b"x"),
            lambda: subject.storage.open_exclusive(path),
            lambda: subject.storage.delete(path),
            lambda: subject.storage.exists(path),
        ):
            with pytest.raises(StorageError, match="normal path"):
                call()
        assert subject.direct.paths() == []


__all__ = ["DirectAccess", "DirectoryAccess", "StorageSubject", "StorageSuite"]
