"""One flipped bit in any durable file: every reader raises a named error, or reads the very same. Never something else.

The root is small and holds every kind of file that the engine writes below a job: manifests with inlined changes and
without, change files, bases, state files, rows of `_checkpoints`, logs of tables, a native and a canonical savepoint,
copies of a restore, the birth id, a lease, a list of condemned files and a floor. `docs/guarantees.md` says which check
covers which.
"""

import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from canonical_jobs import NoSinks, checkpoint, running_job, start
from dead_processes import die_holding

from state_engine.checkpoint.floors import raise_floor, read_floors
from state_engine.checkpoint.kept import read_condemned
from state_engine.checkpoint.leases import leased, read_leases
from state_engine.checkpoint.retention.policy import RetentionPolicy
from state_engine.checkpoint.retention.steps import plan_retention
from state_engine.checkpoint.table import CheckpointTable
from state_engine.epoch.look import newest
from state_engine.errors import LakestateError
from state_engine.inspect import read_state
from state_engine.log.paths import BIRTH, condemned_path
from state_engine.log.retention_records import Condemned, CondemnedFile, Floor, encode_condemned
from state_engine.savepoint import read_catalogue, trigger_savepoint, validate_savepoint
from state_engine.savepoint.restore import JobRestore
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.open_access import open_tables
from state_engine.testing.jobs import JobBuilder
from state_engine.testing.manual import ManualClock
from state_engine.testing.sample_jobs import SCHEMAS

NOW_MS = 1_700_000_300_000
PARTS = 48

Reader = Callable[[], Any]


class Root:
    """The root, the readers of each kind of file, and what they read from the sound root."""

    def __init__(self, root: str) -> None:
        self.job: JobBuilder = running_job(root)
        native = trigger_savepoint(root, "flights", clock=ManualClock())
        canonical = trigger_savepoint(root, "flights", kind="canonical", clock=ManualClock())
        head = start(root, "flights", canonical.savepoint_id).stored
        checkpoint(root, "flights", head, 9)
        self._keep_aside()
        assert isinstance(self.job.storage, MemoryStorage)
        self.objects = self.job.storage.objects
        self.sound = dict(self.objects)
        self._names = ["latest", "epoch:1/1", "epoch:1/3", "checkpoint:1", "checkpoint:9"]
        self._names += [native.savepoint_id, canonical.savepoint_id]
        self.readers_of: dict[str, list[str]] = {path: [] for path in self.sound}
        self.expected = {name: self._read(name) for name in self.readers()}

    def _read(self, name: str) -> Any:
        """Reads the sound root, and notes which files the reader reads."""
        with pytest.MonkeyPatch.context() as patched:
            for method in ("get", "get_range"):
                patched.setattr(MemoryStorage, method, self._noting(getattr(MemoryStorage, method), name))
            what, result = self.outcome(self.readers()[name])
        assert what == "read", (name, result)
        return result

    def _noting(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        def noting(storage: MemoryStorage, path: str, *given: Any) -> Any:
            if storage.objects is self.objects and name not in self.readers_of.get(path, [name]):
                self.readers_of[path].append(name)
            return method(storage, path, *given)

        return noting

    def _keep_aside(self) -> None:
        """Adds a lease of a process that died, a list of condemned files, and a floor."""
        storage, clock = self.job.storage, ManualClock(NOW_MS)
        die_holding(leased(self.job.root, self.job.log.read(1, 4), "a test", clock=clock, way=False))
        file = CondemnedFile(path="aircraft/count/gone.parquet", bytes=1, reason="a test")
        condemned = Condemned(list_id="a", job="flights", condemned_at=NOW_MS, grace_ms=9_000_000, files=(file,))
        storage.put_if_absent(condemned_path("a"), encode_condemned(condemned))
        raise_floor(storage, Floor(job="flights", generation=7, epoch=3, checkpoint_id=2, raised_at=NOW_MS))

    def readers(self) -> Mapping[str, Reader]:
        root, storage = self.job.root, self.job.storage

        def state(name: str) -> Reader:
            return lambda: [
                sorted(map(str, read_state(root, "flights", s.uid, s.name, at=name).to_pylist())) for s in SCHEMAS
            ]

        def restored(name: str) -> Reader:
            def read() -> Any:
                JobRestore(root, "flights", name, lambda *_: NoSinks(), clock=ManualClock(NOW_MS)).run()
                return state("latest")()

            return read

        def started() -> Any:
            manifest = start(root, "flights", None).stored.manifest
            return manifest.epoch, manifest.generation, manifest.schemas, manifest.base, state("latest")()

        def retained() -> Any:
            plan = plan_retention(root, "flights", RetentionPolicy(grace_ms=0), NOW_MS)
            leases = read_leases(root, "flights", NOW_MS)
            return plan, leases, read_condemned(storage), read_floors(storage), ManifestLog(storage, "flights").birth()

        readers = {f"state at {name}": state(name) for name in self._names}
        readers |= {f"restore of {name}": restored(name) for name in self._names}
        readers |= {f"validation of {name}": self._validated(name) for name in self._names[-2:]}
        return {
            **readers,
            "start": started,
            "retention": retained,
            "savepoints": self._listed,
            "rows": lambda: CheckpointTable(storage, open_tables(storage)).rows(),
            "head": lambda: newest(ManifestLog(storage, "flights")),
        }

    def _listed(self) -> Any:
        catalogue = read_catalogue(self.job.root, "flights")
        return catalogue if not catalogue.damaged else _named("it lists a savepoint as damaged")

    def _validated(self, name: str) -> Reader:
        return lambda: validate_savepoint(self.job.root, "flights", name).ok or _named("validation found something")

    def outcome(self, read: Reader) -> tuple[str, Any]:
        """Runs a reader on the root as it is now, and restores the root afterwards."""
        before = dict(self.objects)
        try:
            return "read", read()
        except LakestateError as error:
            return "named", type(error).__name__
        finally:
            self.objects.clear()
            self.objects.update(before)

    def flip(self, path: str, bit: int, name: str) -> str:
        """Reads with one bit of a file flipped; returns what went wrong, or an empty text."""
        data, changed = self.sound[path]
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        self.objects[path] = bytes(flipped), changed
        what, result = self.outcome(self.readers()[name])
        self.objects[path] = self.sound[path]
        differs = what == "read" and result != self.expected[name]
        return f"{name}: other than before with bit {bit} of {path} flipped" if differs else ""


def _named(what: str) -> None:
    raise LakestateError(what)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return Root(f"memory://{tmp_path_factory.mktemp('flips')}")


KINDS = {
    "manifest": "_epochs/g000001/e",
    "change file": "_epochs/g000001/changes/",
    "base": "_epochs/g000001/bases/",
    "birth id": BIRTH,
    "floor": "_epochs/floors/",
    "row of checkpoints": "_checkpoints/part-",
    "log of a table": "_checkpoints/_plain_log/",
    "pin": "_savepoints/sp-",
    "copy of a restore": "_restored/",
    "lease": "_retention/leases/",
    "list of condemned files": "_retention/condemned/",
    "state file": "aircraft/",
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_root_holds_every_kind_of_file(root: Root, kind: str) -> None:
    assert [path for path in root.sound if path.startswith(KINDS[kind])]


def test_no_flipped_bit_is_read_as_something_else(root: Root) -> None:
    seed = random.randrange(1 << 32)
    rng, paths = random.Random(seed), [path for path, readers in root.readers_of.items() if readers]
    problems = []
    for number in range(2_000):
        path = paths[number % len(paths)]  # each file, however short
        bit, reader = rng.randrange(len(root.sound[path][0]) * 8), rng.choice(root.readers_of[path])
        problems.append(root.flip(path, bit, reader))
    assert [one for one in problems if one] == [], f"seed {seed}"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_byte_is_read_as_something_else(root: Root, part: int) -> None:
    """One bit of each byte of each file, in parts."""
    rng = random.Random(part)
    sizes = {path: len(root.sound[path][0]) for path, readers in root.readers_of.items() if readers}
    places = [(path, at) for path, size in sizes.items() for at in range(size)]
    problems = [
        root.flip(path, at * 8 + rng.randrange(8), rng.choice(root.readers_of[path]))
        for path, at in places[part::PARTS]
    ]
    assert [one for one in problems if one] == []


def test_only_what_later_files_cover_has_no_reader(root: Root) -> None:
    """Such files are changes that a base also holds, and versions of a table's log before the newest."""
    covered = re.compile(r"_epochs/g000001/changes/e0000000002-.*|.*/_plain_log/\d+\.json")
    unread = {path for path, readers in root.readers_of.items() if not readers}
    assert [path for path in unread if not covered.fullmatch(path)] == []
