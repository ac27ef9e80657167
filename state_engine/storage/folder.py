"""Makes a folder of a storage a storage of its own."""

from collections.abc import Iterable, Sequence

from state_engine.storage.port import CheckpointStorage, Data, ObjectInfo, ObjectWriter, check_path, check_prefix


class FolderStorage:
    """Objects below one folder of another storage; paths are relative to that folder."""

    def __init__(self, storage: CheckpointStorage, folder: str) -> None:
        self._storage = storage
        self._folder = check_path(folder)

    @property
    def url(self) -> str:
        return f"{self._storage.url.rstrip('/')}/{self._folder}"

    def get(self, path: str) -> bytes:
        return self._storage.get(self._full(path))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self._storage.get_range(self._full(path), offset, length)

    def put_exclusive(self, path: str, *buffers: Data) -> None:
        self._storage.put_exclusive(self._full(path), *buffers)

    def open_exclusive(self, path: str) -> ObjectWriter:
        return self._storage.open_exclusive(self._full(path))

    def put_if_absent(self, path: str, data: Data) -> None:
        self._storage.put_if_absent(self._full(path), data)

    def list(self, prefix: str, *, recursive: bool = True) -> list[ObjectInfo]:
        below = check_prefix(prefix)
        infos = self._storage.list(f"{self._folder}/{below}" if below else self._folder, recursive=recursive)
        return _from(self._folder, infos)

    def folders(self, prefix: str) -> Sequence[str]:
        below = check_prefix(prefix)
        return self._storage.folders(f"{self._folder}/{below}" if below else self._folder)

    def exists(self, path: str) -> bool:
        return self._storage.exists(self._full(path))

    def delete(self, path: str) -> None:
        self._storage.delete(self._full(path))

    @property
    def deletes_at_once(self) -> int:
        return self._storage.deletes_at_once

    def delete_together(self, paths: Sequence[str]) -> None:
        self._storage.delete_together([self._full(path) for path in paths])

    def abandoned(self) -> Sequence[ObjectInfo]:
        infos = (info for info in self._storage.abandoned() if info.path.startswith(f"{self._folder}/"))
        return _from(self._folder, infos)

    def check_writable(self) -> None:
        self._storage.check_writable()

    def _full(self, path: str) -> str:
        return f"{self._folder}/{check_path(path)}"


def _from(folder: str, found: Iterable[ObjectInfo]) -> list[ObjectInfo]:
    return [info._replace(path=info.path[len(folder) + 1 :]) for info in found]


__all__ = ["FolderStorage"]
