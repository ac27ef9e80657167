"""The conformance suite, for every storage that is shipped."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import pytest
from obstore.store import LocalStore, MemoryStore, ObjectStore

from state_engine.storage.faults import FaultyStorage
from state_engine.storage.folder import FolderStorage
from state_engine.storage.local import LocalStorage
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.object_store import ObjectStorage
from state_engine.storage.open import open_storage
from state_engine.testing.counting import CountingStorage
from state_engine.testing.storage_suite import DirectoryAccess, StorageSubject, StorageSuite


class TestLocalStorage(StorageSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> StorageSubject:
        return StorageSubject(
            open_storage(str(tmp_path), "job"),
            DirectoryAccess(tmp_path / "job"),
            lambda: open_storage(f"file://{tmp_path}", "job"),
        )


class TestFolderOfAStorage(StorageSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> StorageSubject:
        def opened() -> FolderStorage:
            return FolderStorage(LocalStorage(tmp_path), "a/folder")

        (tmp_path / "a" / "folder's neighbour").mkdir(parents=True)
        (tmp_path / "a" / "folder's neighbour" / "x").touch()
        return StorageSubject(opened(), DirectoryAccess(tmp_path / "a" / "folder"), opened)


@dataclass
class DictionaryBehind:
    objects: dict[str, tuple[bytes, int]]

    def read(self, path: str) -> bytes | None:
        return self.objects[path][0] if path in self.objects else None

    def write(self, path: str, data: bytes) -> None:
        self.objects[path] = (data, 0)

    def paths(self) -> list[str]:
        return sorted(self.objects)


class TestMemoryStorage(StorageSuite):
    @pytest.fixture
    def subject(self, request: pytest.FixtureRequest) -> Iterator[StorageSubject]:
        name = f"{request.node.name}-{threading.get_ident()}"
        storage = MemoryStorage.open(f"{name}/job")
        yield StorageSubject(
            storage, DictionaryBehind(storage.objects), lambda: open_storage(f"memory://{name}", "job")
        )
        MemoryStorage.forget(f"{name}/job")


class TestObjectStorageOnFiles(StorageSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> StorageSubject:
        def opened() -> ObjectStorage:
            return ObjectStorage(LocalStore(tmp_path), url="store://files")

        return StorageSubject(opened(), DirectoryAccess(tmp_path), opened)


@dataclass
class StoreBehind:
    store: ObjectStore

    def read(self, path: str) -> bytes | None:
        try:
            return bytes(obstore.get(self.store, path).bytes())
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        obstore.put(self.store, path, data)

    def paths(self) -> list[str]:
        return sorted(meta["path"] for page in obstore.list(self.store) for meta in page)


class TestObjectStorageInMemory(StorageSuite):
    @pytest.fixture
    def subject(self) -> StorageSubject:
        store = MemoryStore()
        return StorageSubject(
            ObjectStorage(store, url="store://memory"),
            StoreBehind(store),
            lambda: ObjectStorage(store, url="store://memory"),
        )


class TestFaultyStorageWithoutFaults(StorageSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> StorageSubject:
        return StorageSubject(
            FaultyStorage(LocalStorage(tmp_path)),
            DirectoryAccess(tmp_path),
            lambda: FaultyStorage(LocalStorage(tmp_path)),
        )


class TestCountingStorage(StorageSuite):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> StorageSubject:
        return StorageSubject(
            CountingStorage(LocalStorage(tmp_path)),
            DirectoryAccess(tmp_path),
            lambda: CountingStorage(LocalStorage(tmp_path)),
        )
