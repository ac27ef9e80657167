"""Storage of a folder that is no job's: the root of a sink's Delta table, where output is staged."""

import os
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from state_engine.storage.local import LocalStorage
from state_engine.storage.port import CheckpointStorage, open_storage


def local_path(url: str) -> str | None:
    """Returns the absolute path of a local folder's path or `file:` URL, None for other URLs."""
    if url.startswith("file:"):
        return os.path.abspath(unquote(urlsplit(url).path))
    return None if "://" in url else os.path.abspath(url)


@lru_cache(maxsize=64)
def open_root(url: str) -> CheckpointStorage:
    """Opens the storage of any folder by its path or URL."""
    path = local_path(url)
    if path is not None:
        return LocalStorage(path)
    head, _, name = url.rstrip("/").rpartition("/")
    return open_storage(head, name)


__all__ = ["local_path", "open_root"]
