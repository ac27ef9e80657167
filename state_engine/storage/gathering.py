"""A writer for storages that take only whole objects: it gathers the pieces and puts them at the end."""

from state_engine.errors import StorageError
from state_engine.storage.port import CheckpointStorage, Data, check_path


class GatheringWriter:
    """Holds the object in memory until it is closed, so that nothing exists under its name before that."""

    def __init__(self, storage: CheckpointStorage, path: str) -> None:
        self._storage = storage
        self._path = check_path(path)
        self._parts: list[bytes] = []
        self._ended = False

    def write(self, data: Data) -> None:
        self._check_open()
        self._parts.append(bytes(memoryview(data).cast("B")))

    def sync(self) -> None:
        """Does nothing: nothing is stored yet."""

    def close(self) -> None:
        self._check_open()
        self._ended = True
        parts, self._parts = self._parts, []
        self._storage.put_exclusive(self._path, *parts)

    def discard(self) -> None:
        self._ended = True
        self._parts = []

    def _check_open(self) -> None:
        if self._ended:
            raise StorageError(f"{self._path!r} has been closed already.", action="Write a new object.")


__all__ = ["GatheringWriter"]
