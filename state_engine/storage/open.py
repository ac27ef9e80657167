"""Opens an address with the implementation of the storage port that fits it."""

from collections.abc import Sequence

from state_engine.errors import StorageError
from state_engine.storage.local import LocalStorage
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.port import CheckpointStorage, check_name, is_name
from state_engine.storage.roots import address, local_path


def open_storage(root: str, job: str) -> CheckpointStorage:
    """Opens the storage of one job: the folder of its name below `root`, an address as of `open_root`."""
    return open_root(f"{address(root).rstrip('/')}/{check_name('job name', job)}")


def job_names(root: str) -> Sequence[str]:
    """Returns the sorted names of the folders below a root that may be jobs."""
    scheme, _, rest = root.partition("://")
    folders = MemoryStorage.names(rest.strip("/")) if scheme == "memory" else open_root(root).folders("")
    return [name for name in folders if is_name(name)]


def open_root(url: str) -> CheckpointStorage:
    """Opens any address as a storage: that of a job, or of a sink's table.

    Args:
        url: `memory://name`, a path or `file://` URL of a directory, or the URL of a bucket and prefix as obstore
            takes it (`s3://`, `gs://`, `az://`, `abfss://`, `http(s)://`).

    Raises:
        UnsupportedAddressError: The address would be another place than it seems.
        StorageError: No storage can open it.
    """
    if (path := local_path(url)) is not None:
        return LocalStorage(path)
    scheme, _, rest = url.partition("://")
    if scheme == "memory":
        return MemoryStorage.open(rest.strip("/"))
    return _open_bucket(url)


def _open_bucket(url: str) -> CheckpointStorage:
    from obstore.store import from_url  # imported here, so that local jobs do not pay for loading it

    from state_engine.storage.object_store import ObjectStorage

    try:
        return ObjectStorage(from_url(url), url=url)
    except Exception as error:  # obstore raises several unrelated types for a bad address
        raise StorageError(
            f"The address {url!r} cannot be opened: {error}.",
            action="Use a directory, file://, memory://, s3://, gs:// or az:// address.",
        ) from error


__all__ = ["job_names", "open_root", "open_storage"]
