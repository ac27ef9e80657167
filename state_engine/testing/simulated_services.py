"""The sinks and the publisher of the simulated world, with the fences and the idempotence that their ports require."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.look import newest
from state_engine.epoch.ports import CheckpointEnd, Mark, TableFence
from state_engine.epoch.sink_moves import outputs_of
from state_engine.epoch.table_sink import TableSink
from state_engine.errors import SinkError
from state_engine.log.lineage import contains
from state_engine.log.manifest import StoredManifest
from state_engine.log.paths import base_path
from state_engine.log.records import BaseReference, Manifest
from state_engine.testing.simulated import TABLE_OF, Entry, SimulatedCrashes, World
from state_engine.testing.simulated_table import AppendingTable


@dataclass
class SimulatedSinks:
    """The `Sinks` port: production's sink over a table for the first operator, an at-least-once sink for the last."""

    world: World
    crash: SimulatedCrashes
    prepared: bool = False

    def __post_init__(self) -> None:
        world = self.world
        self.table = TableSink(world.job, TABLE_OF, AppendingTable(world.table), world.log, lambda: world.now_ms)

    def fences(self) -> list[TableFence]:
        return [self.table.standing()]

    def adopt(self, uids: Collection[str], generation: int, owed: StoredManifest | None) -> None:
        assert not uids, "this world has one log"

    def prepare(self) -> None:
        self.prepared = True
        self.world.sinks_made += 1
        self.table.create()

    def deliver(self, manifest: Manifest) -> None:
        pass

    def commit(self, sealed: StoredManifest) -> None:
        assert self.prepared, "a sink got output before it was created"
        manifest, faults = sealed.manifest, self.crash.faults
        if faults.sink_errors:
            faults.sink_errors -= 1
            if faults.sink_errors % 2 == 0:
                raise SinkError("simulated: the sink is away")
        if files := outputs_of(manifest, TABLE_OF):
            self.table.commit(manifest.generation, manifest.epoch, files)
        self.crash.at(CrashPoint.E7_SINK_COMMITTED, manifest.epoch)
        self.world.notified.append(self._entry(manifest, "total"))
        self.crash.at(CrashPoint.E7_SINK_COMMITTED, manifest.epoch)
        if faults.sink_errors:
            faults.sink_errors -= 1
            raise SinkError("simulated: the answer of the sink was lost")

    def pay(self, sealed: StoredManifest, *, leave_out: bool, without: Collection[str]) -> None:
        self.commit(sealed)

    def check_rewind(self, target: StoredManifest, generation: int) -> None:
        if target.manifest.job == self.world.job:
            self.table.check_rewind(target, generation)

    def check_owed(self, sealed: StoredManifest) -> None:
        pass

    def close(self) -> None:
        pass

    def rewind(self, target: StoredManifest, generation: int, *, keep_output: bool) -> None:
        assert self.prepared, "a sink was rewound before it was created"
        head = newest(self.world.log)
        assert head is not None
        returned = [
            stored.manifest
            for stored in self.world.log.chain(target, down_to_base=False)
            if stored.manifest.operators["count"].acks
            and not contains(head.manifest.lineage, stored.manifest.generation, stored.manifest.epoch)
        ]
        if target.manifest.job == self.world.job:
            self.table.rewind(target, generation, keep_output=keep_output)
        if keep_output:
            return
        self.world.notified.extend(self._entry(manifest, "total") for manifest in returned)

    def _entry(self, manifest: Manifest, uid: str) -> Entry:
        return Entry(manifest.generation, manifest.epoch, self.world.output(manifest.operators[uid].acks))


@dataclass
class SimulatedPublisher:
    """The `Publisher` port: folds into one JSON base; the list `World.checkpoints` is its table `_checkpoints`."""

    world: World
    crash: SimulatedCrashes
    ends: list[CheckpointEnd] = field(default_factory=list)

    def abandon(self, checkpoint_id: int) -> bool:
        return False

    def begin(self, sealed: StoredManifest, mark: Mark) -> None:
        manifest = sealed.manifest
        self.crash.at(CrashPoint.E9_PUBLISH_BEGUN, manifest.epoch)
        path = base_path(manifest.generation, manifest.epoch, self.world.new_id())
        data = json.dumps(self.world.state_at(sealed)).encode()
        self.crash.at(CrashPoint.E9_FILES_WRITTEN, manifest.epoch)
        self.crash.at(CrashPoint.E9_TABLE_COMMITTED, manifest.epoch)
        self.world.storage.put_exclusive(path, data)
        self.crash.at(CrashPoint.E9_BASE_WRITTEN, manifest.epoch)
        self.world.checkpoints.append(
            BaseReference(
                path=path,
                checksum="",
                generation=manifest.generation,
                epoch=manifest.epoch,
                checkpoint_id=manifest.checkpoint_id or 0,
            )
        )
        self.ends.append(CheckpointEnd(manifest.checkpoint_id or 0, completed=True))
        self.crash.at(CrashPoint.E9_VISIBLE, manifest.epoch)

    def completed(self) -> BaseReference | None:
        return self.world.checkpoints[-1] if self.world.checkpoints else None

    def has_ended(self) -> bool:
        return bool(self.ends)

    def ended(self) -> Sequence[CheckpointEnd]:
        ends, self.ends = self.ends, []
        return ends

    def finish(self, head: StoredManifest) -> BaseReference | None:
        lineage = head.manifest.lineage
        for stored in self.world.log.chain(head):
            if stored.manifest.job != self.world.job:
                continue
            visible = {base.checkpoint_id for base in self.world.checkpoints}
            if stored.manifest.checkpoint_id is not None and stored.manifest.checkpoint_id not in visible:
                self.begin(stored, Mark(checkpoint_id=stored.manifest.checkpoint_id))
        bases = [base for base in self.world.checkpoints if contains(lineage, base.generation, base.epoch)]
        return max(bases, key=lambda base: base.epoch, default=None)


__all__ = ["SimulatedPublisher", "SimulatedSinks"]
