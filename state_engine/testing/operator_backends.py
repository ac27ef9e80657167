"""Creates the keyed state backends of a harness from a job's setting, and deletes their databases with the harness."""

import copy
import os
import shutil
import tempfile
import weakref

from state_engine.api.state_backend import EmbeddedRocksDBStateBackend, StateBackend, state_backend_of
from state_engine.backends.choose import backend_maker
from state_engine.backends.keyed import MakeBackend


class HarnessBackends:
    """Creates the backends for the instances of one harness.

    Each harness has its own folder for databases, so that harnesses share nothing. An instance continues the databases
    that an earlier instance of the same harness left there. The folder is deleted with this object.

    Args:
        named: `heap`, `rocksdb`, or an instance.
        job: Name of the job.

    Raises:
        JobDefinitionError: This backend does not exist.
    """

    def __init__(self, named: StateBackend | str, job: str) -> None:
        self._named = state_backend_of(named)
        self._job = job
        self._make: MakeBackend | None = None

    @property
    def make(self) -> MakeBackend:
        """The function that creates a backend; the first access creates the folder."""
        if self._make is None:
            self._make = backend_maker(self._in_a_folder(), "", self._job, 1)
        return self._make

    def _in_a_folder(self) -> StateBackend:
        if not isinstance(self._named, EmbeddedRocksDBStateBackend):
            return self._named
        parent = next(iter(self._named.get_db_storage_paths()), None)
        if parent is not None:
            os.makedirs(parent, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="lakestate-harness-", dir=parent)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        backend = copy.copy(self._named)
        backend.set_db_storage_paths(folder)
        return backend


__all__ = ["HarnessBackends"]
