"""Writes a new file under a name that was never used before."""

from collections.abc import Callable

from state_engine.clock import Ids
from state_engine.errors import NotWritableError, StorageError
from state_engine.storage.port import CheckpointStorage, Data

ATTEMPTS = 10


def create_under_new_name(storage: CheckpointStorage, ids: Ids, name: Callable[[str], str], *buffers: Data) -> str:
    """Writes the buffers to a file that did not exist. Tries up to 10 new names.

    Semantics of Flink's `FsCheckpointStateOutputStream.createStream`. A failed attempt leaves at most a file that
    nothing names; the sweep of unnamed files removes it.

    Args:
        name: Makes a path from a new id.

    Returns:
        The path that was written, durable.

    Raises:
        NotWritableError: at once, since another name would not help.
        StorageError: after the last attempt, with the last cause chained.
    """
    last: StorageError | None = None
    for _ in range(ATTEMPTS):
        path = name(ids.new_id())
        try:
            storage.put_exclusive(path, *buffers)
        except NotWritableError:
            raise
        except StorageError as error:
            last = error
        else:
            return path
    raise StorageError(
        f"No new file could be written to {storage.url} in {ATTEMPTS} attempts; the last name was {path!r}.",
        action="Check the storage; the epoch is run again and nothing was sealed.",
    ) from last


__all__ = ["ATTEMPTS", "create_under_new_name"]
