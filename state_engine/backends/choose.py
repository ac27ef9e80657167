"""From the backend that an author named to the instances that do its work, and where they may lie."""

import getpass
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from state_engine.api.state_backend import EmbeddedRocksDBStateBackend, StateBackend
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.keyed import KeyedStateBackend, MakeBackend
from state_engine.backends.keys import KeyCodec, KeyContext
from state_engine.backends.time import OperatorTime
from state_engine.key_groups import KeyGroupRange


def backend_maker(named: StateBackend, root: str, job: str, generation: int) -> MakeBackend:
    """Returns what makes the backend of an operator's subtask in one generation of a job."""
    if not isinstance(named, EmbeddedRocksDBStateBackend):
        return HeapKeyedStateBackend
    from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, tuning_of  # only who uses it

    def make(
        uid: str, codec: KeyCodec, key_groups: KeyGroupRange, context: KeyContext, time: OperatorTime
    ) -> KeyedStateBackend:
        operator = operator_folder(named.get_db_storage_paths(), root, job, uid)
        folder = operator / range_name(generation, key_groups, codec.max_parallelism)
        return RocksDBKeyedStateBackend(uid, codec, key_groups, context, time, LocalDatabase(folder, tuning_of(named)))

    return make


def operator_folder(paths: Sequence[str], root: str, job: str, uid: str) -> Path:
    """Returns the folder for all databases of an operator on this host."""
    digest = hashlib.sha256("\0".join((root, job, uid)).encode()).hexdigest()[:16]
    folders = [Path(path) / "lakestate" for path in paths] or [default_folder()]
    return folders[int(digest, 16) % len(folders)] / f"{job}-{digest}"


def range_name(generation: int, key_groups: KeyGroupRange, max_parallelism: int) -> str:
    """Returns the name of a range's folder."""
    return f"{generation}.{key_groups.first}-{key_groups.last}.{max_parallelism}"


def default_folder() -> Path:
    """Returns the folder for databases where the author named none: this user's, among the temporary files."""
    return Path(tempfile.gettempdir()) / f"lakestate-{os.getuid() if hasattr(os, 'getuid') else getpass.getuser()}"


__all__ = ["backend_maker", "default_folder", "operator_folder", "range_name"]
