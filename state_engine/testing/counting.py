"""A storage that counts the bytes read from it, per object."""

import threading
from collections import Counter
from collections.abc import Sequence

from state_engine.storage.port import CheckpointStorage, Data, ObjectInfo, ObjectWriter


class CountingStorage:
    """Wraps a storage and counts the bytes that readers get; writes and listings are not counted.

    Args:
        inner: The wrapped storage.

    Attributes:
        bytes_read: Number of bytes read, by path.
        reads: Number of calls of `get` and `get_range`, by path.
    """

    def __init__(self, inner: CheckpointStorage) -> None:
        self.inner = inner
        self.bytes_read: Counter[str] = Counter()
        self.reads: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self.inner.url

    def total(self, suffix: str = "") -> int:
        """Returns the number of bytes read from all objects with a path that ends with `suffix`."""
        with self._lock:
            return sum(count for path, count in self.bytes_read.items() if path.endswith(suffix))

    def get(self, path: str) -> bytes:
        return self._counted(path, self.inner.get(path))

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self._counted(path, self.inner.get_range(path, offset, length))

    def put_exclusive(self, path: str, *buffers: Data) -> None:
        self.inner.put_exclusive(path, *buffers)

    def open_exclusive(self, path: str) -> ObjectWriter:
        return self.inner.open_exclusive(path)

    def put_if_absent(self, path: str, data: Data) -> None:
        self.inner.put_if_absent(path, data)

    def list(self, prefix: str, *, recursive: bool = True) -> list[ObjectInfo]:
        return self.inner.list(prefix, recursive=recursive)

    def folders(self, prefix: str) -> Sequence[str]:
        return self.inner.folders(prefix)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def delete(self, path: str) -> None:
        self.inner.delete(path)

    @property
    def deletes_at_once(self) -> int:
        return self.inner.deletes_at_once

    def delete_together(self, paths: Sequence[str]) -> None:
        self.inner.delete_together(paths)

    def abandoned(self) -> Sequence[ObjectInfo]:
        return self.inner.abandoned()

    def check_writable(self) -> None:
        self.inner.check_writable()

    def _counted(self, path: str, data: bytes) -> bytes:
        with self._lock:
            self.bytes_read[path] += len(data)
            self.reads[path] += 1
        return data


__all__ = ["CountingStorage"]
