"""A job of production's classes with a Delta sink and a sink in memory, and no JVM: only the tasks are test code.

Record n is a row (n). Each epoch reads `BATCH` records and stages them as a task does.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from state_engine.api.types import AtomicType, StructType
from state_engine.checkpoint.publish import CheckpointPublisher
from state_engine.clock import RandomIds, SystemClock
from state_engine.epoch.acks import Alignment
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.driver import EpochDriver
from state_engine.epoch.ports import EpochPlan, SourcePositions
from state_engine.epoch.request import OperatorShape, RestoreTarget, StartRequest
from state_engine.epoch.start import StartUp
from state_engine.log.barriers import Barrier
from state_engine.log.manifest import StoredManifest
from state_engine.log.records import Ack
from state_engine.log.source_records import SourceFingerprint, SourcePosition
from state_engine.serialization.column import Column
from state_engine.spark.graph.nodes import OperatorNode, SinkNode
from state_engine.spark.graph.sinks import DeltaSink, MemorySink
from state_engine.spark.sinks.commits import SinkCommits
from state_engine.spark.wire.task_spec import StageSpec
from state_engine.spark.worker.staging import Stages
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage
from state_engine.testing.manual import ManualBarriers

BATCH = 2
JOB = "job"
ROWS = StructType(("n",), (AtomicType("bigint"),))
SCHEMA = pa.schema([("n", pa.int64())])


class Died(BaseException):
    """The driver's process has died."""


class Crashes:
    """Ends a driver at one crash point."""

    def __init__(self, point: CrashPoint | None, epoch: int) -> None:
        self._place = (point, epoch)

    def at(self, point: CrashPoint, epoch: int) -> None:
        if (point, epoch) == self._place:
            raise Died


class WholeJob:
    """The parts of a job that outlive its drivers: the root, the table, and the rows in memory.

    Args:
        folder: A folder or an address for all of them.
        root: Name of the root in it.
        name: Name of the job.
    """

    def __init__(self, folder: Path | str, root: str = "root", name: str = JOB) -> None:
        self.root, self.table, self.name = f"{folder}/{root}", f"{folder}/table", name
        self.memory = MemorySink(f"{folder}/{root}/{name}")

    def sinks(self) -> list[SinkNode]:
        """Returns the sinks of the job as it is built today."""
        return [SinkNode("rows", "main", DeltaSink(self.table)), SinkNode("memory", "main", self.memory)]

    def log(self) -> ManifestLog:
        open_job = partial(open_storage, self.root)
        return ManifestLog(open_job(self.name), self.name, open_job=open_job)

    def start(
        self,
        *,
        restore: StoredManifest | None = None,
        dies_at: CrashPoint | None = None,
        epoch: int = 0,
        **options: Any,
    ) -> "Driver":
        return Driver(self, restore, Crashes(dies_at, epoch), options)

    def rows(self) -> list[int]:
        return sorted(pa.table(DeltaTable(self.table).to_pyarrow_table()).column("n").to_pylist())

    def rows_in_memory(self) -> list[int]:
        return sorted(row["n"] for row in self.memory.rows())

    def staged(self, epoch: int) -> Path:
        """Returns the file that an epoch of generation 1 has staged for the table."""
        [path] = Path(self.table).glob(f"part-g000001-e{epoch:010d}-*")
        return path


class Driver:
    """One start of the job, and its epochs."""

    def __init__(
        self, job: WholeJob, restore: StoredManifest | None, crashes: Crashes, options: dict[str, Any]
    ) -> None:
        self._job = job
        node = OperatorNode(
            uid="op", kind="process", function=None, edges=(), input=None, key=(), order_by=(), output=ROWS,
            generated_uid=False, sinks=job.sinks(),
        )  # fmt: skip
        self.storage, self.log = open_storage(job.root, job.name), job.log()
        self.sinks = SinkCommits(job.name, [node], self.storage, self.log, crashes.at)
        publisher = CheckpointPublisher(self.storage, job.name, crash=crashes, open_job=partial(open_storage, job.root))
        request = StartRequest(
            job=job.name,
            root=job.root,
            operators=(
                OperatorShape(uid="op", parallelism=1, max_parallelism=13, keys=(Column(name="k", type="string"),)),
            ),
            fingerprints=(SourceFingerprint(kind="numbers", path="all"),),
            sinks=self.sinks.declared,
            restore=RestoreTarget(stored=restore) if restore is not None else None,
            **options,
        )
        self.sinks.check()
        head = StartUp(self.log, self.sinks, publisher, SystemClock(), RandomIds(), crashes).run(request)
        positions = head.stored.manifest.sources
        self.offset = int(positions[0].offset) if positions else 0
        self.generation = head.stored.manifest.generation
        self._epochs = EpochDriver(
            head, self.log, self.sinks, publisher, ManualBarriers(0), SystemClock(), crashes, inline_threshold=0
        )

    def steps(self, count: int) -> "Driver":
        for _ in range(count):
            self.step()
        return self

    def step(self) -> None:
        end = str(self.offset + BATCH)
        self._epochs.run_epoch(self, SourcePositions(positions=(SourcePosition(offset=end),)))
        self.offset += BATCH

    def run(self, plan: EpochPlan) -> list[Barrier]:
        """E2 to E5 of the epoch's one task."""
        places = {"rows": self._job.table}
        specs = tuple(StageSpec(node.uid, "main", places.get(node.uid)) for node in self._job.sinks())
        stages = Stages(specs, "op", 0, plan)
        numbers = pa.array(range(self.offset, self.offset + BATCH), pa.int64())
        stages.add({"main": pa.record_batch([numbers], schema=SCHEMA)})
        outputs = stages.write(self.storage)
        ack = Ack(
            uid="op", subtask=0, attempt=RandomIds().new_id(), records_in=BATCH, records_out=BATCH, outputs=outputs
        )
        return list(Alignment("op", 0, place=(plan.incarnation, plan.epoch)).barriers(ack))


def ended_at(job: WholeJob, point: CrashPoint, epoch: int, work: Callable[["Driver"], object]) -> None:
    """Runs a driver until it dies at a crash point."""
    driver = job.start(dies_at=point, epoch=epoch)
    try:
        work(driver)
    except Died:
        return
    raise AssertionError(f"{point} of epoch {epoch} was not passed")


__all__ = ["BATCH", "JOB", "Died", "Driver", "WholeJob", "ended_at"]
