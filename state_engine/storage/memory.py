"""Checkpoint storage in the memory of this process, for tests, the simulator and first steps."""

import threading
from collections.abc import Sequence
from typing import ClassVar

from state_engine.clock import Clock, SystemClock
from state_engine.errors import AlreadyExistsError, NotFoundError, NotWritableError
from state_engine.storage.deleting import DeletesOneByOne
from state_engine.storage.gathering import GatheringWriter
from state_engine.storage.port import Data, ObjectInfo, ObjectWriter, check_path, check_prefix

MAX_OBJECT_BYTES = 5 * 1024 * 1024


class MemoryStorage(DeletesOneByOne):
    """Objects in a dictionary. Nothing survives the process, and no other process sees it.

    As in Flink (`JobManagerCheckpointStorage`), one object has at most 5 MiB.

    Args:
        objects: Path to (bytes, time of the put in ms); shared by all storages opened under one name.
        url: Its name in messages.
        clock: Gives the times of listings.
        max_object_bytes: Larger puts are refused with `NotWritableError`.
    """

    _registry: ClassVar[dict[str, dict[str, tuple[bytes, int]]]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        objects: dict[str, tuple[bytes, int]] | None = None,
        *,
        url: str = "memory://",
        clock: Clock | None = None,
        max_object_bytes: int = MAX_OBJECT_BYTES,
    ) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {} if objects is None else objects
        self._url = url
        self._clock = clock or SystemClock()
        self._max_object_bytes = max_object_bytes

    @classmethod
    def open(cls, name: str, *, clock: Clock | None = None) -> "MemoryStorage":
        """Returns the storage of this name, with the same objects in the whole process; the first call creates it."""
        with cls._lock:
            objects = cls._registry.setdefault(name, {})
        return cls(objects, url=f"memory://{name}", clock=clock)

    @classmethod
    def names(cls, prefix: str) -> list[str]:
        """Returns the sorted last parts of the names `<prefix>/<part>` that were opened so far."""
        with cls._lock:
            opened = [name.rpartition("/") for name in cls._registry]
        return sorted(part for before, _, part in opened if before == prefix)

    @classmethod
    def forget(cls, name: str) -> None:
        """Drops the storage of this name. Storages that are open under it keep their objects."""
        with cls._lock:
            cls._registry.pop(name, None)

    @property
    def url(self) -> str:
        return self._url

    def get(self, path: str) -> bytes:
        try:
            return self.objects[check_path(path)][0]
        except KeyError:
            raise NotFoundError(f"There is no object at {path!r} in {self._url}.") from None

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        return self.get(path)[offset : offset + length]

    def put_exclusive(self, path: str, *buffers: Data) -> None:
        self.put_if_absent(path, b"".join(memoryview(buffer).cast("B") for buffer in buffers))

    def open_exclusive(self, path: str) -> ObjectWriter:
        if self.exists(path):
            raise AlreadyExistsError(f"There is an object at {path!r} in {self._url} already.")
        return GatheringWriter(self, path)

    def put_if_absent(self, path: str, data: Data) -> None:
        check_path(path)
        content = bytes(data)
        if len(content) > self._max_object_bytes:
            raise NotWritableError(
                f"{path!r} has {len(content)} bytes; the memory storage takes at most {self._max_object_bytes}.",
                action="Use a directory or an object store as the state root; memory:// is for tests.",
            )
        # dict.setdefault is atomic, so exactly one of several threads finds its own entry
        entry = (content, self._clock.now_ms())
        if self.objects.setdefault(path, entry) is not entry:
            raise AlreadyExistsError(f"There is an object at {path!r} in {self._url} already.")

    def list(self, prefix: str, *, recursive: bool = True) -> list[ObjectInfo]:
        folder = check_prefix(prefix)
        start = f"{folder}/" if folder else ""
        objects = self.objects.copy()
        paths = [p for p in objects if p.startswith(start) and (recursive or "/" not in p[len(start) :])]
        return [ObjectInfo(path, len(objects[path][0]), objects[path][1]) for path in sorted(paths)]

    def folders(self, prefix: str) -> Sequence[str]:
        folder = check_prefix(prefix)
        start = f"{folder}/" if folder else ""
        rests = (path[len(start) :] for path in self.objects.copy() if path.startswith(start))
        return sorted({rest.partition("/")[0] for rest in rests if "/" in rest})

    def exists(self, path: str) -> bool:
        return check_path(path) in self.objects

    def delete(self, path: str) -> None:
        self.objects.pop(check_path(path), None)

    def abandoned(self) -> Sequence[ObjectInfo]:
        return ()  # objects are put whole

    def check_writable(self) -> None:
        """A dictionary can always be written."""


__all__ = ["MAX_OBJECT_BYTES", "MemoryStorage"]
