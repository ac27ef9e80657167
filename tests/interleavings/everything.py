"""A job with a past, everything that may happen to it at once, and what must hold afterwards."""

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from course import Course, Lost, Seal, kind_of, steps_of
from small_job import COUNT, Run, Sealed, State

from state_engine.checkpoint.compaction import compact
from state_engine.checkpoint.leases import LEASE_MS
from state_engine.checkpoint.retention.policy import Keep, RetentionPolicy
from state_engine.checkpoint.retention.steps import DELETING_MS, RetentionPlan, apply_retention, plan_retention
from state_engine.checkpoint.table import CheckpointTable
from state_engine.clock import Ids
from state_engine.epoch import look
from state_engine.epoch.crash_points import CrashPoint
from state_engine.errors import LakestateError
from state_engine.inspect import read_state
from state_engine.inspect.read import At
from state_engine.log.documents import decode_base, decode_pin
from state_engine.log.lineage import contains
from state_engine.log.manifest import StoredManifest, decode_manifest, encode_manifest
from state_engine.log.paths import (
    CONDEMNED,
    LEASES,
    manifest_path,
    parse_beside_manifest,
    parse_manifest_path,
    parse_state_file,
    pin_path,
)
from state_engine.savepoint import (
    dispose_savepoint,
    list_savepoints,
    load_savepoint,
    restore_key_groups,
    trigger_savepoint,
    validate_savepoint,
)
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.memory import MemoryStorage
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.testing.interleaving import Interleaving, Process, Schedule
from state_engine.testing.manual import ManualClock

JOB = "flights"
POLICY = RetentionPolicy(checkpoints=Keep(last=1), savepoints=Keep(last=1), grace_ms=0)


@dataclass
class LeaseHeld:
    """The `Crash` port of a restore of key groups: from its first crash point on, its source's files must stay."""

    now: Callable[[], int]
    since: int | None = None

    def at(self, point: CrashPoint, epoch: int) -> None:
        self.since = self.now() if self.since is None else self.since


class OwnIds:
    """Ids of one process: the same in every run, and never those of another process."""

    def __init__(self, owner: str) -> None:
        self._owner = hashlib.sha256(owner.encode()).hexdigest()
        self._last = 0

    def new_id(self) -> str:
        self._last += 1
        return hashlib.sha256(f"{self._owner} {self._last}".encode()).hexdigest()[:32]


@dataclass
class Queue:
    """The `Background` of a driver: another thread of its process runs the tasks."""

    wait_until: Callable[[Callable[[], bool]], None]
    tasks: deque[Callable[[], None]] = field(default_factory=deque)
    busy: bool = False
    closed: bool = False

    def submit(self, task: Callable[[], None]) -> None:
        self.tasks.append(task)

    def wait(self, timeout_s: float | None = None) -> bool:
        self.wait_until(lambda: not self.tasks and not self.busy)
        return True

    def close(self) -> None:
        self.closed = True

    def work(self) -> None:
        while True:
            self.wait_until(lambda: bool(self.tasks) or self.closed)
            if not self.tasks:
                return
            self.busy = True
            self.tasks.popleft()()
            self.busy = False


class Everything:
    """One root with the job and its savepoints, copied from a template, and the processes that work on it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.clock = ManualClock()
        self.sealed = Sealed()
        self.taken: dict[str, str] = {}
        self.disposed: set[str] = set()
        self.names: dict[str, str] = {}
        self.interleaving: Interleaving | None = None
        self.seals: list[Seal] = []
        self.runs: dict[str, Run] = {}
        self.held = LeaseHeld(self._now)

    @classmethod
    def begin(cls, root: str) -> "Everything":
        """Makes checkpoints of epochs 4, 11 and 14 (the policy keeps one), and savepoints of both kinds between."""
        stage = cls(root)
        stage._run("begin", "eec")  # epochs 1 to 4
        stage._take("kept", "native")
        stage._run("on", "e")  # 5 and 6
        stage._take("bad", "native")
        stage._take("canonical", "canonical")
        stage._run("on and on", "ee")  # 7 to 9
        stage._take("old", "native", trigger="policy:nightly")
        stage._run("further", "fe")  # 10 to 12
        stage._take("new", "native", trigger="policy:nightly")
        stage._run("to the end", "ce")  # 13 to 15
        return stage

    def copy(self, root: str) -> "Everything":
        """Returns a copy in another root."""
        new = Everything(root)
        new.names = self.names
        new.taken, new.disposed = dict(self.taken), set(self.disposed)
        new.sealed.manifests.update(self.sealed.manifests)
        storage = open_storage(self.root, JOB)
        assert isinstance(storage, MemoryStorage)
        target = open_storage(root, JOB)
        assert isinstance(target, MemoryStorage)
        target.objects.update(storage.objects)
        new.clock.advance(60_000)
        return new

    def forget(self) -> None:
        for job in MemoryStorage.names(self.root.removeprefix("memory://")):
            MemoryStorage.forget(f"{self.root.removeprefix('memory://')}/{job}")

    # processes ----------------------------------------------------------------------------------------------------

    def play(self, names: Iterable[str], schedule: Schedule) -> Interleaving:
        """Runs processes as a schedule says, and restarts those that died; raises errors that they may not end with."""
        self.interleaving = Interleaving(schedule, on_put=self._note_put, restart=self._again)
        course = self._course()
        self.interleaving.run({key: run for name in names for key, run in self.processes(name).items()})
        course.check_leased()
        for name, error in self.interleaving.errors.items():
            if not course.may_end_with(name, error):
                error.add_note(f"Nothing that happened calls for that refusal of {name}.")
                raise error
        self._check_seals()
        return self.interleaving

    def processes(self, name: str) -> dict[str, Process]:
        """Returns one process, of one or two threads."""
        kind, ids = name.removesuffix("+"), OwnIds(name)
        again = name != kind
        if kind == "driver":
            return self._job(name, JOB, "e" if again else "ecgfe", ids, source=self.names["kept"])
        if kind == "rewind":
            return self._job(name, JOB, "ec", ids, restore=None if again else self.names["kept"])
        if kind == "fork":
            return self._job(name, "fork", "ece", ids, restore=f"{JOB}/{self.names['kept']}")
        if kind == "late-fork":
            return self._job(name, "late", "e", ids, restore=f"{JOB}/{self.names['old']}")
        if kind == "import":
            return self._job(name, "import", "ec", ids, restore=f"{JOB}/{self.names['canonical']}")
        if kind == "stop":  # reaches the driver without a storage call
            return {name: lambda: self.runs["driver"].stop()}
        single: dict[str, Callable[[Ids], None]] = {
            "groups": self._groups,
            "retention": self._retain,
            "cleaner": self._retain,
            "savepoint": lambda ids: self._take(name, "native", ids=ids),
            "past": lambda ids: self._take(name, "native", ids=ids, epoch=8),
            "canonical": lambda ids: self._take(name, "canonical", ids=ids, epoch=9),
            "dispose": lambda ids: self._dispose("bad"),
            "compact": lambda ids: compact(self.root, JOB, clock=self.clock, ids=ids) and None,
        }
        return {name: lambda: single[kind](ids)}

    def _again(self, name: str) -> Mapping[str, Process]:
        wanted = ("driver", "rewind", "compact", "fork", "late-fork", "import", "retention", "cleaner", "dispose")
        return self.processes(f"{name}+") if name in wanted else {}

    def _job(
        self, name: str, job: str, script: str, ids: Ids, *, restore: str | None = None, source: str = ""
    ) -> dict[str, Process]:
        assert self.interleaving is not None
        queue = Queue(self.interleaving.wait_until)
        run = Run(self.root, job, script, self.clock, ids, restore, source, queue, queue.close)
        run.on_stop = lambda head: self._savepoint_of(head, ids)
        self.runs[name] = run
        return {name: run, f"{name}/publish": queue.work}

    def _run(self, name: str, script: str, job: str = JOB, restore: str | None = None) -> None:
        """Runs a job while no other process runs."""
        Run(self.root, job, script, self.clock, OwnIds(name), restore)()
        self._learn()
        self.clock.advance(60_000)

    def _take(
        self, name: str, kind: str, *, ids: Ids | None = None, epoch: int | None = None, trigger: str = "user"
    ) -> None:
        savepoint = trigger_savepoint(
            self.root, JOB, kind=kind, epoch=epoch, clock=self.clock, ids=ids or OwnIds(name), trigger=trigger
        )
        self.taken[savepoint.savepoint_id] = savepoint.trigger
        if ids is None:
            self.names[name] = savepoint.savepoint_id

    def _savepoint_of(self, head: StoredManifest, ids: Ids) -> None:
        """Takes the savepoint with which a stop ends."""
        savepoint = trigger_savepoint(self.root, JOB, clock=self.clock, ids=ids)
        self.taken[savepoint.savepoint_id] = savepoint.trigger
        by = next((s.process for s in self.seals if encode_manifest(s.manifest)[1] == savepoint.manifest), "")
        if savepoint.manifest != head.hash and by == threading.current_thread().name:
            raise Lost(f"the job was stopped after {head.manifest.epoch}, and its savepoint is of {savepoint.epoch}")

    def _dispose(self, name: str) -> None:
        self.disposed.add(self.names[name])
        dispose_savepoint(self.root, JOB, self.names[name])

    def _groups(self, ids: Ids) -> None:
        restore = restore_key_groups(
            self.root, JOB, self.names["old"], [(2, 3)], clock=self.clock, ids=ids, crash=self.held
        )
        assert restore.sealed is not None
        restored = self.sealed.manifests[JOB, *restore.sealed].manifest.restored
        if restored is None or restored.groups != {COUNT.uid: ((2, 3),)}:
            raise Lost(f"key groups were restored, but {restore.sealed} holds {restored}")

    def _retain(self, ids: Ids) -> None:
        apply_retention(self._plan(), clock=self.clock, ids=ids)

    def _plan(self, job: str = JOB) -> RetentionPlan:
        return plan_retention(self.root, job, POLICY, self.clock.now_ms())

    def _now(self) -> int:
        return len(self.interleaving.trace) if self.interleaving is not None else 0

    def _course(self) -> Course:
        """Returns what will happen to the job: trace and seals grow with the run."""
        assert self.interleaving is not None
        storage, pin = open_storage(self.root, JOB), pin_path(self.names["old"])
        listed = decode_pin(storage.get(pin), path=pin).pin
        return Course(
            trace=self.interleaving.trace,
            seals=self.seals,
            job=JOB,
            number=max(s.manifest.incarnation_number for (job, *_), s in self.sealed.manifests.items() if job == JOB),
            held_since=lambda: self.held.since,
            pin=pin,
            needed=frozenset(path for path, _ in (*listed.manifests, *listed.handles)),
        )

    def _note_put(self, storage: MemoryStorage, path: str, data: bytes) -> None:
        self._note(storage, path, data)
        if parse_manifest_path(path) is not None:
            manifest = decode_manifest(data, path=path).manifest
            self.seals.append(Seal(self._now() - 1, threading.current_thread().name, manifest))

    def _note(self, storage: MemoryStorage, path: str, data: bytes) -> None:
        if parse_manifest_path(path) is None:
            return
        stored = decode_manifest(data, path=path)
        place = (stored.manifest.job, stored.manifest.generation, stored.manifest.epoch)
        self.sealed.manifests.setdefault(place, stored)

    def _learn(self, job: str = JOB) -> None:
        storage = open_storage(self.root, job)
        for info in storage.list(""):
            if parse_manifest_path(info.path) is not None:
                self._note(storage, info.path, storage.get(info.path))

    def _check_seals(self) -> None:
        """A run that ended has sealed its whole script, any other run a beginning of it; and no seal was undone."""
        assert self.interleaving is not None
        head = self._head(JOB)
        assert head is not None
        for name, run in self.runs.items():
            sealed, script = steps_of(self.seals, name), run.script.replace("f", "c")
            ended = name not in self.interleaving.errors and name not in self.interleaving.killed
            if sealed != script if ended and not run.stopping else not script.startswith(sealed):
                raise Lost(f"{name} sealed {sealed!r} of {script!r}")
        storage = open_storage(self.root, JOB)
        for _, process, manifest in self.seals:
            place = manifest.generation, manifest.epoch
            if manifest.job != JOB:
                continue
            if manifest.generation >= head.manifest.generation and not contains(head.manifest.lineage, *place):
                raise Lost(f"{place}, which {process} sealed, is not in the lineage of the newest epoch")
            refused = kind_of(process) == "groups" and process in self.interleaving.errors
            if refused and manifest.restored is not None and storage.exists(manifest_path(*place)):
                raise Lost(f"key groups were restored by {place}, although {process} was refused")

    # what must hold -----------------------------------------------------------------------------------------------

    def verify(self) -> None:
        """Checks that nothing is lost that is needed, now and after retention has removed all that it may remove.

        Raises:
            Lost: Something that is needed is lost.
        """
        self._whole(window=False)
        self.clock.advance(LEASE_MS + 1)
        for _ in range(5):
            for job in self.jobs():
                apply_retention(self._plan(job), clock=self.clock, ids=OwnIds(f"last {self.clock.now_ms()} {job}"))
            self.clock.advance(DELETING_MS * 2)
        self._whole()
        for job in self.jobs():
            self._no_garbage(job)
        self._goes_on()

    def jobs(self) -> list[str]:
        names = MemoryStorage.names(self.root.removeprefix("memory://"))
        return [job for job in names if self._head(job) is not None]

    def _head(self, job: str) -> StoredManifest | None:
        return look.newest(self._log(job))

    def _log(self, job: str) -> ManifestLog:
        return ManifestLog(open_storage(self.root, job), job, open_job=lambda other: open_storage(self.root, other))

    def _whole(self, *, window: bool = True) -> None:
        assert JOB in self.jobs(), "the job itself is gone"
        for job in self.jobs():
            self._same_numbers(job)
            head = self._head(job)
            assert head is not None
            self._reads(job, None, head.manifest.generation, head.manifest.epoch)
            plan = self._plan(job)
            if plan.oldest_epoch is not None and window:
                for epoch in range(plan.oldest_epoch[1], head.manifest.epoch + 1):
                    generation = next(s.generation for s in head.manifest.lineage[::-1] if s.first <= epoch)
                    self._reads(job, f"epoch:{generation}/{epoch}", generation, epoch)
            for row in CheckpointTable(open_storage(self.root, job), open_tables(open_storage(self.root, job))).rows():
                if row.kind == "checkpoint" and row.id in plan.checkpoints:
                    self._reads(job, f"checkpoint:{row.id}", row.generation, row.epoch)
        self._savepoints()

    def _savepoints(self) -> None:
        listed = {savepoint.savepoint_id: savepoint for savepoint in list_savepoints(self.root, JOB)}
        for name, trigger in self.taken.items():
            if name not in listed and name not in self.disposed and trigger == "user":
                raise Lost(f"savepoint {name} is gone")
        for name, savepoint in listed.items():
            try:
                load_savepoint(self.root, JOB, name)
                report = validate_savepoint(self.root, JOB, name)
            except LakestateError as error:
                raise Lost(f"savepoint {name} of epoch {savepoint.epoch}: {error}") from error
            if not report.ok:
                raise Lost(f"savepoint {name} of epoch {savepoint.epoch}: {report.findings}")
            self._reads(JOB, name, savepoint.generation, savepoint.epoch)

    def _reads(self, job: str, at: At, generation: int, epoch: int) -> None:
        try:
            rows = read_state(self.root, job, COUNT.uid, COUNT.name, at=at)
        except LakestateError as error:
            raise Lost(f"{at or 'the newest epoch'} of {job} (g{generation} e{epoch}): {error}") from error
        state: State = dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
        expected = self.sealed.state(job, generation, epoch)
        if state != expected:
            raise Lost(f"{at or 'the newest epoch'} of {job} (g{generation} e{epoch}) is {state}, not {expected}")

    def _same_numbers(self, job: str) -> None:
        """A number is sealed once: each manifest above the floor is the first one that was put there."""
        storage, log = open_storage(self.root, job), self._log(job)
        floors = log.floors()
        for info in storage.list("_epochs"):
            if (place := parse_manifest_path(info.path)) is not None and place[1] > floors.get(place[0], 0):
                first = self.sealed.manifests[job, *place]
                if decode_manifest(storage.get(info.path), path=info.path).hash != first.hash:
                    raise Lost(f"{info.path} of {job} was sealed twice")

    def _no_garbage(self, job: str) -> None:
        """Each remaining file is named by something that is kept."""
        storage, plan = open_storage(self.root, job), self._plan(job)
        assert not plan.removals, plan.removals
        paths = [info.path for info in storage.list("")]
        assert storage.list(CONDEMNED) == []
        assert storage.list(LEASES) == []
        manifests = [decode_manifest(storage.get(p)).manifest for p in paths if parse_manifest_path(p) is not None]
        named = {ack.changes.path for m in manifests for o in m.operators.values() for ack in o.acks if ack.changes}
        bases = [decode_base(storage.get(p)).base for p in paths if "/bases/" in p]
        files = {file.path for base in bases for file in base.files}
        head = self._head(job)
        assert head is not None
        for path in paths:
            start = plan.oldest_epoch
            if start is None or path in named or path in files or "/bases/" in path:
                continue
            place = parse_beside_manifest(path) or parse_state_file(path)
            if place is not None and place[1] < start[1] and place[0] <= start[0]:
                active = open_tables(storage).active(path.rpartition("/")[0]) if parse_state_file(path) else None
                assert active is not None, f"nothing needs {path} of {job}"
                assert path.rpartition("/")[2] in active.names, f"nothing needs {path} of {job}"

    def _goes_on(self) -> None:
        """Starts everything that can be started: the job itself, its forks, and a new job from each savepoint."""
        for name, savepoint in {s.savepoint_id: s for s in list_savepoints(self.root, JOB)}.items():
            job = f"from-{name}"
            try:
                Run(self.root, job, "", self.clock, OwnIds(job), f"{JOB}/{name}")()
            except LakestateError as error:
                raise Lost(f"savepoint {name} of epoch {savepoint.epoch} cannot be restored: {error}") from error
        for job in self.jobs():
            if not job.startswith("from-"):
                try:
                    Run(self.root, job, "ce", self.clock, OwnIds(f"goes on {job}"))()
                except LakestateError as error:
                    raise Lost(f"{job} does not start: {error}") from error
            self._learn(job)
            self._reads_newest(job)
        for name in [savepoint.savepoint_id for savepoint in list_savepoints(self.root, JOB)]:
            try:
                Run(self.root, JOB, "", self.clock, OwnIds(f"back to {name}"), name)()
            except LakestateError as error:
                raise Lost(f"{JOB} does not go back to savepoint {name}: {error}") from error
            self._learn()
            self._reads_newest(JOB)

    def _reads_newest(self, job: str) -> None:
        head = self._head(job)
        assert head is not None
        self._reads(job, None, head.manifest.generation, head.manifest.epoch)


__all__ = ["JOB", "Everything", "Lost"]
