"""Makes instances of the backend that an author chose, and decides where they store files."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from state_engine.api.state_backend import EmbeddedRocksDBStateBackend, StateBackend
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keyed import KeyedStateBackend, MakeBackend
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.time import OperatorTime
from state_engine.errors import LocalStateError
from state_engine.key_groups import KeyGroupRange


def backend_maker(named: StateBackend, root: str, job: str, generation: int) -> MakeBackend:
    """Returns the function that makes the backend of an operator's subtask in one generation of a job."""
    if not isinstance(named, EmbeddedRocksDBStateBackend):
        return HeapKeyedStateBackend
    # Import RocksDB only for jobs that use it.
    from state_engine.backends.rocksdb import LocalDatabase, RangeFolder, RocksDBKeyedStateBackend, tuning_of

    def make(
        uid: str, codec: KeyCodec, key_groups: KeyGroupRange, context: KeyContext, time: OperatorTime
    ) -> KeyedStateBackend:
        operator = operator_folder(named.get_db_storage_paths(), root, job, uid)
        folder = RangeFolder(operator, generation, key_groups, codec.max_parallelism)
        return RocksDBKeyedStateBackend(uid, codec, key_groups, context, time, LocalDatabase(folder, tuning_of(named)))

    return make


def check_installed(named: StateBackend) -> None:
    """Checks that the packages of a backend are installed.

    Raises:
        MissingExtraError: One is not.
    """
    if isinstance(named, EmbeddedRocksDBStateBackend):
        import state_engine.backends.rocksdb  # noqa: F401  # raises if it cannot


def operator_folder(paths: Sequence[str], root: str, job: str, uid: str) -> Path:
    """Returns the folder for all databases of an operator on this host."""
    digest = hashlib.sha256("\0".join((root, job, uid)).encode()).hexdigest()[:16]
    folders = [Path(path) / "lakestate" for path in paths] or [_own_folder()]
    return folders[int(digest, 16) % len(folders)] / f"{job}-{digest}"


def _own_folder() -> Path:
    """Returns the default folder for databases: private to this user, in the folder for temporary files.

    Raises:
        LocalStateError: Another user made it, or it is no folder.
    """
    user = os.getuid()
    folder = Path(tempfile.gettempdir()) / f"lakestate-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user:
        raise LocalStateError(
            f"{folder} is not a folder of this user.",
            action="Check who made it and remove it, or give other folders with set_db_storage_paths().",
        )
    return folder


__all__ = ["backend_maker", "check_installed", "operator_folder"]
