"""Change files that are read for one state after the other: each small one once, from buckets many at a time."""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from state_engine.log.records import Manifest
from state_engine.storage.port import ObjectReader
from state_engine.storage.roots import local_path

MOST_WHOLE = 256 << 10
"""A longer change file is read in sections: then a request more costs little beside the bytes."""
MOST_TOGETHER = 256 << 20
"""Bytes of whole files that are held at the same time, at most; further files are read in sections. As many bytes of
changes cause a checkpoint by themselves."""
_AT_ONCE = 16
"""Requests to a bucket at a time: each waits some ten milliseconds, most of them for the answer's first byte."""


class ReadOnce(ObjectReader):
    """Reads a job's files as its storage does, but holds small change files between the reads of their sections.

    A fold reads the sections of one state in all files, then those of the next state. Without this, a file of six
    states is requested six times. From a bucket the files are fetched ahead, in the order of the epochs.

    Args:
        storage: The storage.
        manifests: Name the change files that will be read.
    """

    def __init__(self, storage: ObjectReader, manifests: Iterable[Manifest]) -> None:
        self._storage = storage
        self._whole: dict[str, bytes | Future[bytes] | None] = dict.fromkeys(_small_files(manifests))
        self._readers: ThreadPoolExecutor | None = None
        if self._whole and _waits_for_answers(storage):
            self._readers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="read-once")
            for path in self._whole:
                self._whole[path] = self._readers.submit(storage.get, path)

    def __enter__(self) -> "ReadOnce":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._readers is not None:
            self._readers.shutdown(cancel_futures=True)
        self._whole.clear()

    @property
    def url(self) -> str:
        return self._storage.url

    def get(self, path: str) -> bytes:
        return self._storage.get(path)

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        if path not in self._whole:
            return self._storage.get_range(path, offset, length)
        data = self._whole[path]
        if not isinstance(data, bytes):
            data = self._whole[path] = self._storage.get(path) if data is None else data.result()
        return data[offset : offset + length]


def _small_files(manifests: Iterable[Manifest]) -> list[str]:
    """Returns the paths of the change files to hold, in the order of the epochs."""
    paths: list[str] = []
    together = 0
    for manifest in manifests:
        for operator in manifest.operators.values():
            for ack in operator.acks:
                handle = ack.changes
                if handle is None or handle.path in manifest.inlined or handle.length > MOST_WHOLE:
                    continue
                together += handle.length
                if together > MOST_TOGETHER:
                    return paths
                paths.append(handle.path)
    return paths


def _waits_for_answers(storage: ObjectReader) -> bool:
    return not storage.url.startswith("memory:") and local_path(storage.url) is None


__all__ = ["MOST_TOGETHER", "MOST_WHOLE", "ReadOnce"]
