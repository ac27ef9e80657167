"""A job of two operators of which only the tasks are simulated: all else is what production runs.

The operators `first` and `second` have six value states each and an exchange between them. Change files of a thousand
subtasks are made once; each epoch links them under its own names.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from msgspec.structs import replace

from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.clock import RandomIds, SystemClock
from state_engine.epoch.acks import digest_of_attempts
from state_engine.epoch.driver import EpochDriver
from state_engine.epoch.ports import EpochPlan, SourcePositions, StreamEdge
from state_engine.epoch.request import Head, OperatorShape, StartRequest
from state_engine.epoch.start import StartUp
from state_engine.key_groups import key_group_of, subtask_of
from state_engine.log.barriers import Barrier, SeenAll
from state_engine.log.change_file import ChangeFileHeader, encode_change_file
from state_engine.log.manifest import StoredManifest
from state_engine.log.ops import Op, log_schema
from state_engine.log.paths import change_path
from state_engine.log.records import Ack, BaseReference, HighestTime, StateHandle, StateStatistics
from state_engine.log.source_records import SourceFingerprint, SourcePosition
from state_engine.serialization.types import ddl_to_arrow
from state_engine.spark.sinks.commits import SinkCommits
from state_engine.spark.wire.rows import decode_barrier, encode_barrier
from state_engine.storage.local import LocalStorage
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.port import CheckpointStorage
from state_engine.testing.changes import state
from state_engine.testing.counting import CountingStorage
from state_engine.testing.manual import ManualBarriers

JOB = "scale"
OPERATORS = ("first", "second")
STATES = 6
GROUPS = 4_096
KEYS = 20
"""Number of keys of each subtask; each has a value in each state, and each epoch writes all of them."""
VALUE = "struct<n:bigint,total:double,at:timestamp>"
SCHEMAS = {
    uid: tuple(state(uid, f"state_{number}", "k bigint", VALUE) for number in range(STATES)) for uid in OPERATORS
}
TIMINGS = dict.fromkeys(("input", "catch_up", "process", "changes", "stage", "freeze"), 12.345)


class Template(NamedTuple):
    """A change file of one subtask, with the handle that an ack has of it."""

    file: Path
    handle: StateHandle


class SimulatedTasks:
    """The `Tasks` port: hands the driver what the barriers of both operators hold; E2 to E5 cost nothing.

    Attributes:
        seconds: Time that simulating has taken in the last epoch, which is not the driver's.
        collected: Size of the barriers of the last epoch, bytes.
    """

    def __init__(self, storage: CheckpointStorage, folder: Path, subtasks: int) -> None:
        self.seconds, self.collected = 0.0, 0
        self._root, self._subtasks, self._ids = Path(storage.url), subtasks, RandomIds()
        folder.mkdir()
        self._templates = {uid: list(self._made(folder, uid)) for uid in OPERATORS}

    def run(self, plan: EpochPlan) -> list[Barrier]:
        began = time.perf_counter()
        sent = [encode_barrier(barrier) for barrier in self.barriers(plan)]
        self.seconds, self.collected = time.perf_counter() - began, sum(map(len, sent))
        return [decode_barrier(barrier) for barrier in sent]

    def barriers(self, plan: EpochPlan) -> list[Barrier]:
        """Returns the full barriers of all subtasks of the last operator, as `Alignment` makes them."""
        first, second = (self._acks(plan, uid) for uid in OPERATORS)
        digest = digest_of_attempts(ack.attempt for ack in first)
        return [
            Barrier(
                uid=ack.uid,
                subtask=ack.subtask,
                attempt=ack.attempt,
                acks=(*(first if ack.subtask == 0 else ()), ack),
                seen_all=(SeenAll(uid="first", by_uid="second", by_subtask=ack.subtask, digest=digest),),
                incarnation=plan.incarnation,
                epoch=plan.epoch,
            )
            for ack in second
        ]

    def _acks(self, plan: EpochPlan, uid: str) -> list[Ack]:
        acks = []
        for subtask, template in enumerate(self._templates[uid]):
            attempt = self._ids.new_id()
            path = change_path(plan.generation, plan.epoch, uid, subtask, attempt)
            _link(template.file, self._root / path)
            statistics = tuple(StateStatistics(name=one.name, rows=KEYS, keys=KEYS) for one in SCHEMAS[uid])
            acks.append(
                Ack(
                    uid=uid, subtask=subtask, attempt=attempt, records_in=1_000 + subtask, records_out=1_000,
                    changes=replace(template.handle, path=path), schemas=SCHEMAS[uid], statistics=statistics,
                    event_times=(HighestTime(edge=0, time=plan.processing_time),) if uid == "first" else (),
                    timings_ms=TIMINGS,
                )
            )  # fmt: skip
        return acks

    def _made(self, folder: Path, uid: str) -> Iterator[Template]:
        for subtask, rows in enumerate(_rows(self._subtasks)):
            header = ChangeFileHeader(
                job=JOB, generation=1, epoch=1, uid=uid, subtask=subtask, attempt=self._ids.new_id(),
                max_parallelism=GROUPS,
            )  # fmt: skip
            tables = [(one, pa.Table.from_pylist(rows, log_schema(one, ddl_to_arrow))) for one in SCHEMAS[uid]]
            parts, sections, checksum, length = encode_change_file(header, tables)
            file = folder / f"{uid}-{subtask}"
            file.write_bytes(b"".join(bytes(part) for part in parts))
            yield Template(
                file,
                StateHandle(
                    path="", length=length, checksum=checksum, rows=len(rows) * STATES, codec="zstd", sections=sections
                ),
            )


class SimulatedJob:
    """The job under a folder; `start` runs S1 to S3 in this process.

    Args:
        folder: Its root, and a folder for what the tasks hand out.
        subtasks: Parallelism of both operators.
    """

    def __init__(self, folder: Path, subtasks: int) -> None:
        self.storage = CountingStorage(LocalStorage(folder / "root" / JOB))
        self._folder, self._subtasks = folder, subtasks
        self._offsets = count(1)

    @cached_property
    def tasks(self) -> SimulatedTasks:
        """The tasks; a process that only starts the job has none."""
        return SimulatedTasks(self.storage, self._folder / "templates", self._subtasks)

    def start(self) -> Head:
        """Starts the job, or starts it again."""
        log = ManifestLog(self.storage, JOB)
        sinks = SinkCommits(JOB, (), self.storage, log, lambda *_: None)
        self.publisher = CheckpointPublisher(self.storage, JOB)
        head = StartUp(log, sinks, self.publisher, SystemClock(), RandomIds()).run(self._request())
        self.barriers = ManualBarriers(self.publisher.next_checkpoint_id())
        log.outlines(head.stored)  # in which S4 looks for files of sources, and for sizes of changes
        self._driver = EpochDriver(head, log, sinks, self.publisher, self.barriers, SystemClock())
        return head

    def epoch(self) -> float:
        """Runs an epoch, and returns the driver's seconds in it; a checkpoint that falls on it is among them."""
        offset = next(self._offsets)
        positions = (SourcePosition(offset=f'{{"logOffset":{offset}}}'),)
        began = time.perf_counter()
        self._driver.run_epoch(self.tasks, SourcePositions(metadata="{}", positions=positions))
        return time.perf_counter() - began - self.tasks.seconds

    def checkpoint(self) -> BaseReference:
        """Runs an epoch with a checkpoint, and returns its base once it is visible."""
        self.barriers.wanted = True
        self.epoch()
        base = self.publisher.completed()
        assert base is not None
        return base

    @property
    def head(self) -> StoredManifest:
        """The newest manifest."""
        return self._driver.head

    def _request(self) -> StartRequest:
        def shape(uid: str, edge: StreamEdge) -> OperatorShape:
            return OperatorShape(
                uid=uid, parallelism=self._subtasks, max_parallelism=GROUPS, keys=SCHEMAS[uid][0].key, edges=(edge,),
                schemas=SCHEMAS[uid],
            )  # fmt: skip

        operators = (shape("first", StreamEdge()), shape("second", StreamEdge(upstream="first")))
        source = SourceFingerprint(kind="files", path="in")
        return StartRequest(
            job=JOB, root=str(Path(self.storage.url).parent), operators=operators, fingerprints=(source,)
        )


def _rows(subtasks: int) -> list[list[dict[str, Any]]]:
    """Returns the rows of a state, by subtask: `KEYS` keys each."""
    rows: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    missing = subtasks
    for key in count():
        group = key_group_of((key,), ["bigint"], GROUPS)
        own = rows[subtask_of(group, subtasks, GROUPS)]
        if len(own) == KEYS:
            continue
        own.append({"key_group": group, "k": key, "value": {"n": key, "total": key / 3, "at": key}, "op": int(Op.PUT)})
        missing -= len(own) == KEYS
        if not missing:
            break
    for own in rows.values():
        own.sort(key=lambda row: row["key_group"])
        for number, row in enumerate(own):
            row["seq"] = number
    return [rows[subtask] for subtask in range(subtasks)]


def _link(file: Path, path: Path) -> None:
    """Gives a file another name. File systems allow some ten thousand names of one file."""
    try:
        os.link(file, path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(file, path)


__all__ = ["JOB", "KEYS", "OPERATORS", "STATES", "SimulatedJob", "SimulatedTasks"]
