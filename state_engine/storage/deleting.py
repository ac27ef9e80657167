"""Removes many objects, as many in one request as the storage takes."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from state_engine.storage.port import CheckpointStorage


class DeletesOneByOne:
    """The part of a `CheckpointStorage` where one request removes one object."""

    @abstractmethod
    def delete(self, path: str) -> None: ...

    @property
    def deletes_at_once(self) -> int:
        return 1

    def delete_together(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)


def delete_all(storage: CheckpointStorage, paths: Sequence[str]) -> None:
    """Removes objects in this order; absent ones are fine.

    Raises:
        StorageError: Some of them may be gone, the first ones sooner than the last; calling again continues.
    """
    for batch in batches_to_delete(storage, paths):
        storage.delete_together(batch)


def batches_to_delete(storage: CheckpointStorage, paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yields the paths in order, as many at once as the storage removes by one request."""
    size = storage.deletes_at_once
    for start in range(0, len(paths), size):
        yield paths[start : start + size]


__all__ = ["DeletesOneByOne", "batches_to_delete", "delete_all"]
