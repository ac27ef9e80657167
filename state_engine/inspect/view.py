"""Shows a job from outside, cheaply enough for every tick of a sensor: reads no state, starts no JVM."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from state_engine.checkpoint.completed import CompletedCheckpoints
from state_engine.checkpoint.fold_inputs import newest_fold_inputs
from state_engine.checkpoint.plan import changed_rows, live_rows, states_of
from state_engine.checkpoint.statistics import HISTORY, CheckpointStatistics, statistics_of
from state_engine.checkpoint.table import CheckpointRow, CheckpointTable, newest_base
from state_engine.epoch import look
from state_engine.errors import NotFoundError
from state_engine.inspect.published import PublishedStates, published_states
from state_engine.inspect.read import History, known_states, last_group, segments_of
from state_engine.inspect.scan import ReadKeyGroups, group_rows
from state_engine.log.lineage import predecessor_of
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import SAVEPOINTS
from state_engine.log.records import Base, Manifest
from state_engine.log.savepoints import Savepoint
from state_engine.savepoint.catalogue import find_savepoint, is_there, list_savepoints
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.storage.open_access import open_tables
from state_engine.storage.port import check_name
from state_engine.storage.state_reader import Segment, inherited_base


class StateSize(NamedTuple):
    """Size of one state.

    `rows` and `keys` are what its subtasks reported last, None when none did. `bytes` is what a restore of the newest
    epoch reads: the files of the newest base, and the sections of the change files after it.
    """

    uid: str
    state: str
    rows: int | None
    keys: int | None
    bytes: int
    log_rows: int


class SinkSize(NamedTuple):
    """What one output of an operator gave to its sink in an interval of epochs."""

    uid: str
    output: str
    files: int
    rows: int
    bytes: int


class JobView:
    """One job as it is stored. Every method reads the storage again.

    Args:
        root: Of the storage.
        job: Name of the job.
    """

    def __init__(self, root: str, job: str) -> None:
        self.root, self.job = root, job
        self._storage = open_storage(root, job)
        self._log = ManifestLog(self._storage, job, open_job=lambda other: open_storage(root, other))
        self._runs = ReadKeyGroups()
        self._rows = CheckpointTable(self._storage, open_tables(self._storage))

    @property
    def url(self) -> str:
        """Where the job's files are."""
        return self._storage.url

    @property
    def generations(self) -> list[int]:
        """Generations that have epochs, in ascending order."""
        return self._log.generations()

    def newest(self) -> StoredManifest | None:
        """Returns the newest sealed manifest, None before the first one."""
        return look.newest(self._log)

    def epochs(self, limit: int = 20) -> list[StoredManifest]:
        """Returns the newest epochs of the current lineage, newest first; abandoned and removed ones are left out."""
        newest_first: list[StoredManifest] = []
        head = self.newest()
        while head is not None and len(newest_first) < limit:
            newest_first.append(head)
            place, named = predecessor_of(head.manifest), head.manifest.predecessor
            try:
                head = self._log.read(place.generation, place.epoch) if place and place.job == self.job else None
            except NotFoundError:  # retention has deleted it
                break
            if head is not None and head.hash != named:  # retention has deleted it, then a late driver put another
                break
        return newest_first

    def checkpoints(self, limit: int | None = None) -> list[CheckpointRow]:
        """Returns the rows of checkpoints, oldest first; failed and aborted ones too.

        Args:
            limit: Only this number of the newest ones; each costs a small read.
        """
        return list(islice(self.checkpoints_backwards(), limit))[::-1]

    def checkpoints_backwards(self) -> Iterator[CheckpointRow]:
        """Yields the rows of checkpoints, newest first; each is read when the iteration reaches it."""
        return self._rows.newest_first()

    def completed_checkpoints(self) -> CompletedCheckpoints:
        """Returns the completed checkpoints as of now, on any lineage; none of them is read yet."""
        return CompletedCheckpoints(self._rows)

    def published(self, row: CheckpointRow) -> PublishedStates | None:
        """Returns what a completed checkpoint published of each state; None for another row.

        Raises:
            CorruptionError: Its base is damaged; or gone, as may happen with an old checkpoint.
        """
        return published_states(self._storage, row, self._runs)

    def newest_checkpoint(self) -> CheckpointRow | None:
        """Returns the completed checkpoint that a restore of the newest epoch would start from."""
        head = self.newest()
        for row in self._rows.newest_first() if head is not None else ():
            if head is not None and newest_base([row], head.manifest) is not None:
                return row
        return None

    def checkpoint_statistics(self, history: int = HISTORY) -> CheckpointStatistics:
        """Returns counts, summary and history of the job's checkpoints, the newest first."""
        return statistics_of(self._rows.rows(), history=history)

    def savepoints(self) -> list[Savepoint]:
        """Returns the completed savepoints that can be read, oldest first."""
        return list_savepoints(self.root, self.job)

    def savepoint_ids(self) -> set[str]:
        """Returns the ids of the completed savepoints; none of them is read."""
        listed = self._rows.savepoint_ids().intersection(self._storage.folders(SAVEPOINTS))
        return {name for name in listed if is_there(self._storage, name)}

    def savepoint(self, savepoint_id: str) -> Savepoint | None:
        """Returns a savepoint by its id, whether its files exist or not; None if it does not exist (any more)."""
        return find_savepoint(self._storage, check_name("savepoint id", savepoint_id))

    def savepoint_row(self, savepoint_id: str) -> CheckpointRow | None:
        """Returns the row of a savepoint in `_checkpoints`, also of one that is gone."""
        return self._rows.savepoint(savepoint_id)

    def statistics(self) -> list[StateSize]:
        """Returns the size of every state at the newest epoch, without reading state."""
        head = self.newest()
        if head is None:
            return []
        inputs = newest_fold_inputs(self._storage, self._log, self._rows, head)
        manifests = inputs.manifests
        base = inputs.base or inherited_base(self.job, manifests, lambda job: open_storage(self.root, job))
        return _sizes(base, manifests or (head.manifest,))

    def key_groups(self) -> list[tuple[str, str, list[float]]]:
        """Returns (operator, state, rows of its log in each key group) at the newest epoch.

        Only for states that are spread over key groups: keyed states and timers. Their small files are read, once each;
        for large ones the base has enough.
        """
        head = self.newest()
        if head is None:
            return []
        inputs = newest_fold_inputs(self._storage, self._log, self._rows, head)
        history = History(head, Segment(self._storage, inputs.base, inputs.manifests))
        segments = segments_of(self.root, self.job, history)
        return [
            (
                schema.uid,
                schema.name,
                group_rows(segments, schema, last_group(history, schema.uid) + 1, self._runs).tolist(),
            )
            for schema in known_states(history)
            if schema.kind in ("keyed", "timer") and schema.uid in head.manifest.operators
        ]

    def sinks(self, limit: int = 20) -> list[SinkSize]:
        """Returns what each output gave to its sink in the newest epochs of the current lineage."""
        total: dict[tuple[str, str], SinkSize] = {}
        for stored in self.epochs(limit):
            for uid, operator in stored.manifest.operators.items():
                for output in (output for ack in operator.acks for output in ack.outputs):
                    so_far = total.get((uid, output.output), SinkSize(uid, output.output, 0, 0, 0))
                    total[uid, output.output] = SinkSize(
                        uid,
                        output.output,
                        so_far.files + 1,
                        so_far.rows + output.rows,
                        so_far.bytes + output.length,
                    )
        return [total[name] for name in sorted(total)]


def open_job(root: str, job: str) -> JobView:
    """Opens a job for inspection; it may be running, stopped, or not exist at all.

    Raises:
        JobDefinitionError: The name cannot be that of a job.
    """
    return JobView(root, job)


def _sizes(base: Base | None, chain: Sequence[Manifest]) -> list[StateSize]:
    head = chain[-1]
    after_base = chain if base is None else [manifest for manifest in chain if manifest.epoch > base.epoch]
    sizes = []
    for schema in states_of(chain):
        ids = {schema.schema_id}
        ids |= (
            {old.schema_id for old in base.schemas if (old.uid, old.name) == (schema.uid, schema.name)}
            if base
            else set()
        )
        files = [file for file in base.files if file.schema_id in ids] if base is not None else []
        live = live_rows([head], schema) or live_rows(chain, schema)
        sizes.append(
            StateSize(
                uid=schema.uid,
                state=schema.name,
                rows=live[0] if live else None,
                keys=live[1] if live else None,
                bytes=sum(file.length for file in files)
                + sum(_share(manifest, schema.uid, schema.name) for manifest in after_base),
                log_rows=sum(file.rows for file in files) + changed_rows(after_base, schema),
            )
        )
    return sizes


def _share(manifest: Manifest, uid: str, name: str) -> int:
    """Returns the bytes of the sections of one state in the change files of an epoch."""
    operator = manifest.operators.get(uid)
    handles = [ack.changes for ack in operator.acks if ack.changes is not None] if operator is not None else []
    return sum(section.length for handle in handles for section in handle.sections if section.name == name)


__all__ = ["JobView", "SinkSize", "StateSize", "open_job"]
