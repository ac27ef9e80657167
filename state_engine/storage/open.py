"""Opens an address with the implementation of the storage port that fits it."""

import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from state_engine.errors import StorageError
from state_engine.storage.local import LocalStorage
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.port import CheckpointStorage, check_name, is_name
from state_engine.storage.roots import address, local_path

_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
"""Variables with the address of an S3 server. What is no URL ends the client with a panic of its library."""


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

    if urlsplit(url).scheme in ("s3", "s3a"):
        _check_endpoint()
    try:
        return ObjectStorage(from_url(url), url=url)
    except Exception as error:  # obstore raises several unrelated types for a bad address
        reason = str(error).partition("\n")[0].rstrip(".")  # after it come details for obstore's own authors
        raise StorageError(
            f"The address {url!r} cannot be opened: {reason}.",
            action="Use a directory, file://, memory://, s3://, gs:// or az:// address, and check the store's "
            "variables in the environment.",
        ) from error


def _check_endpoint() -> None:
    for name in _ENDPOINTS:
        value = os.environ.get(name)
        if value is not None and (urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc):
            raise StorageError(
                f"The environment variable {name} is {value!r}, which is no URL of a server.",
                action="Set it to one such as https://minio.example:9000, or remove it for S3 itself.",
            )
        if value is not None and value.startswith("http:") and os.environ.get("AWS_ALLOW_HTTP", "").lower() != "true":
            raise StorageError(
                f"The server in {name}, {value}, is reached without encryption, which is not allowed.",
                action="Use https, or set AWS_ALLOW_HTTP=true in a network that you trust.",
            )


__all__ = ["job_names", "open_root", "open_storage"]
