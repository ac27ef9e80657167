"""The keyed state backends of a harness: as a job's author names them, with databases that go with the harness."""

import copy
import os
import shutil
import tempfile
import weakref

from state_engine.api.state_backend import EmbeddedRocksDBStateBackend, StateBackend, state_backend_of
from state_engine.backends.choose import backend_maker
from state_engine.backends.keyed import MakeBackend


class HarnessBackends:
    """Makes the backends of the instances of one harness.

    Databases lie in a folder of its own, so that harnesses share nothing: an instance takes up what an earlier one of
    the same harness left there. The folder goes with this object.

    Args:
        named: `heap`, `rocksdb`, or an instance.
        job: Name of the job.

    Raises:
        JobDefinitionError: There is no such backend.
    """

    def __init__(self, named: StateBackend | str, job: str) -> None:
        self._named = state_backend_of(named)
        self._job = job
        self._make: MakeBackend | None = None

    @property
    def make(self) -> MakeBackend:
        """Makes one backend. The folder is made when this is asked for."""
        if self._make is None:
            self._make = backend_maker(self._in_a_folder(), "", self._job, 1)
        return self._make

    def _in_a_folder(self) -> StateBackend:
        if not isinstance(self._named, EmbeddedRocksDBStateBackend):
            return self._named
        below = next(iter(self._named.get_db_storage_paths()), None)
        if below is not None:
            os.makedirs(below, exist_ok=True)
        folder = tempfile.mkdtemp(prefix="lakestate-harness-", dir=below)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        own = copy.copy(self._named)
        own.set_db_storage_paths(folder)
        return own


__all__ = ["HarnessBackends"]
