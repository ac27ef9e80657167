"""Checkpoint storage on an object store (S3, Google Cloud Storage, Azure, …), through `obstore`."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import obstore
from obstore import exceptions

from state_engine.clock import Ids, RandomIds
from state_engine.errors import (
    AlreadyExistsError,
    NotFoundError,
    NotWritableError,
    StorageError,
    UnsupportedStorageError,
)
from state_engine.storage.gathering import GatheringWriter
from state_engine.storage.port import Data, ObjectInfo, ObjectWriter, check_path, check_prefix

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_REFUSALS = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)
PROBES = "_probe"
"""Folder of the objects with which `check_writable` examines the store."""

# a listing that is refused has no error class of its own
_REFUSED = re.compile(r"status code: 40[13]\b")
_UNSUPPORTED = re.compile(r"status code: 501\b|not (yet )?implemented", re.IGNORECASE)


class ObjectStorage:
    """Objects below the prefix of `store`. Every put has mode `create`, so both puts are atomic.

    The store must honour conditional puts (`If-None-Match: *`): S3, GCS, Azure, MinIO and R2 do, and `check_writable`
    finds out. obstore retries inside one call, so a put may find the object that its own first attempt made.
    `AlreadyExistsError` therefore does not prove that *another* writer made the object, and callers compare contents.
    obstore's store on local disks does not fsync; use `LocalStorage` there.

    Args:
        store: An obstore store with the job's root as its prefix.
        url: Its name in messages.
    """

    def __init__(self, store: "ObjectStore", *, url: str, ids: Ids | None = None) -> None:
        self._store = store
        self._url = url
        self._ids = ids or RandomIds()

    @property
    def url(self) -> str:
        return self._url

    def get(self, path: str) -> bytes:
        with self._errors(path):
            return bytes(obstore.get(self._store, check_path(path)).bytes())

    def get_range(self, path: str, offset: int, length: int) -> bytes:
        # a range that is empty or begins at or after the end is an error of the protocol; the port returns no bytes
        with self._errors(path):
            if length <= 0 or offset >= int(obstore.head(self._store, check_path(path))["size"]):
                return b""
            return bytes(obstore.get_range(self._store, path, start=offset, length=length))

    def put_exclusive(self, path: str, *buffers: Data) -> None:
        self.put_if_absent(path, b"".join(memoryview(buffer).cast("B") for buffer in buffers))

    def open_exclusive(self, path: str) -> ObjectWriter:
        if self.exists(path):
            raise AlreadyExistsError(f"There is an object at {path!r} in {self._url} already.")
        return GatheringWriter(self, path)

    def put_if_absent(self, path: str, data: Data) -> None:
        with self._errors(path):
            obstore.put(self._store, check_path(path), bytes(data), mode="create", use_multipart=False)

    def list(self, prefix: str, *, recursive: bool = True) -> list[ObjectInfo]:
        folder = check_prefix(prefix) or None
        with self._errors(prefix):
            if recursive:
                metas = [meta for page in obstore.list(self._store, folder, chunk_size=1000) for meta in page]
            else:
                metas = list(obstore.list_with_delimiter(self._store, folder)["objects"])
        infos = (ObjectInfo(m["path"], m["size"], int(m["last_modified"].timestamp() * 1000)) for m in metas)
        return sorted(infos)

    def folders(self, prefix: str) -> Sequence[str]:
        with self._errors(prefix):
            prefixes = obstore.list_with_delimiter(self._store, check_prefix(prefix) or None)["common_prefixes"]
        return sorted(folder.rstrip("/").rpartition("/")[2] for folder in prefixes)

    def exists(self, path: str) -> bool:
        try:
            with self._errors(path):
                obstore.head(self._store, check_path(path))
        except NotFoundError:
            return False
        return True

    def delete(self, path: str) -> None:
        try:
            with self._errors(path):
                obstore.delete(self._store, check_path(path))
        except NotFoundError:
            return

    @property
    def deletes_at_once(self) -> int:
        return 1_000  # of S3; the client splits it for stores that take fewer

    def delete_together(self, paths: Sequence[str]) -> None:
        checked = [check_path(path) for path in paths]
        try:
            with self._errors(checked[0] if checked else ""):
                obstore.delete(self._store, checked)
        except NotFoundError:  # of a store that tells, and perhaps left the others
            for path in checked:
                self.delete(path)

    def abandoned(self) -> Sequence[ObjectInfo]:
        return ()  # objects are put whole

    def check_writable(self) -> None:
        """Puts a small object twice, and removes it. A store that takes it twice lets two drivers seal one epoch.

        Raises:
            UnsupportedStorageError: The store replaced the object, or it refuses conditional puts.
            NotWritableError: The object cannot be put or removed.
        """
        probe = f"{PROBES}/{self._ids.new_id()}"
        try:
            self._is_put(probe, b"lakestate")  # or was, by a try of the client whose answer was lost
            replaced = self._is_put(probe, b"lakestate again")
            self.delete(probe)
        except NotWritableError:
            raise
        except StorageError as error:
            if _UNSUPPORTED.search(error.message) is not None:
                raise _without_conditional_puts(self._url, error.message.rstrip(".")) from error
            raise NotWritableError(
                f"The state root {self._url} cannot be written: {error.message}",
                action="Check that the bucket exists, and the credentials and the region in the environment.",
            ) from error
        if replaced:
            raise _without_conditional_puts(self._url, "it replaced an object that was there")

    def _is_put(self, path: str, data: bytes) -> bool:
        try:
            self.put_if_absent(path, data)
        except AlreadyExistsError:
            return False
        return True

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Turns obstore's errors into ours."""
        where = f"{path!r} in {self._url}"
        try:
            yield
        except exceptions.AlreadyExistsError as error:
            raise AlreadyExistsError(f"There is an object at {where} already.") from error
        except FileNotFoundError as error:
            raise NotFoundError(f"There is no object at {where}.") from error
        except (exceptions.BaseError, OSError, ValueError, NotImplementedError) as error:
            # the first line: after it come details for obstore's own authors
            reason = str(error).partition("\n")[0].rstrip(".")
            if isinstance(error, _REFUSALS) or _REFUSED.search(reason) is not None:
                raise NotWritableError(
                    f"The object store refused access to {where}: {reason}.",
                    action="Give these credentials permission to list, read, write and delete in the bucket.",
                ) from error
            raise StorageError(
                f"The object store failed at {where}: {reason}.",
                action="Check the bucket and the connection; a put may or may not have happened.",
            ) from error


def _without_conditional_puts(url: str, what: str) -> UnsupportedStorageError:
    return UnsupportedStorageError(
        f"The object store of {url} does not honour conditional puts ({what}): two drivers could seal one epoch.",
        action="Use a store that refuses a put with If-None-Match if the object exists, such as S3, GCS, Azure, MinIO "
        "or R2 in their current versions, or a root on a shared disk.",
    )


__all__ = ["PROBES", "ObjectStorage"]
