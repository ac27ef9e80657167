"""E2 to E5 in the simulated world: two operators in a row, or two that feed a third; subtasks, attempts, barriers.

`count` sums amounts per key, `total` counts records per group of keys. If there is also an operator `odd`, it sums the
amounts of records with odd numbers, `count` those of the others, and `total` counts the output of both. `truth` is the
expected result, by a plain loop over all records.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from state_engine.epoch.acks import Alignment
from state_engine.epoch.crash_points import CrashPoint
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.errors import EpochError
from state_engine.log.barriers import Barrier
from state_engine.log.paths import change_path, output_path
from state_engine.log.records import Ack, OutputFile, StateHandle, StateSchema
from state_engine.serialization.column import Column
from state_engine.testing.simulated import TABLE_OF, Row, SimulatedCrashes, State, World

TASK_ATTEMPTS = 4
KEY = (Column(name="key", type="string"),)


def schema(uid: str) -> StateSchema:
    """Returns the one state of an operator."""
    return StateSchema(schema_id=f"s-{uid}", uid=uid, kind="keyed", name="n", shape="value", key=KEY, value="bigint")


def key_of(uid: str, row: Row) -> str:
    """Returns the key of a record at an operator."""
    return str(int(row[1]) % 4) if uid == "total" else row[1]


def operate(state: dict[str, int], uid: str, rows: Iterable[Row]) -> list[Row]:
    """Runs one operator over records in order; changes `state`, returns the output."""
    out = []
    for row in rows:
        key = key_of(uid, row)
        state[key] = state.get(key, 0) + (1 if uid == "total" else row[2])
        out.append((row[0], key, state[key]))
    return out


def read_by(uid: str, uids: Collection[str], records: Iterable[Row]) -> list[Row]:
    """Returns the records that an operator takes from the source; `uids` are those of all operators of the job."""
    return [row for row in records if "odd" not in uids or (uid == "odd") == bool(row[0] % 2)]


def truth(records: Sequence[Row], uids: Collection[str] = ("count", "total")) -> tuple[State, list[Row], list[Row]]:
    """Returns the state of the job after these records, and the outputs of `count` and `total`."""
    state: State = {uid: {} for uid in uids}
    outputs = {uid: operate(state[uid], uid, read_by(uid, uids, records)) for uid in uids if uid != "total"}
    totals = operate(state["total"], "total", sorted(row for rows in outputs.values() for row in rows))
    return {uid: rows for uid, rows in state.items() if rows}, outputs["count"], totals


@dataclass
class SimulatedTasks:
    """The `Tasks` port for the records of one batch."""

    world: World
    crash: SimulatedCrashes
    records: Sequence[Row] = ()

    def run(self, plan: EpochPlan) -> list[Barrier]:
        faults, first_try = self.crash.faults, not plan.retry
        if first_try and plan.epoch in faults.aborted:
            raise EpochError("simulated: the engine aborted the job")
        state = self.world.state_at(self.world.log.read(plan.predecessor_generation, plan.predecessor_epoch))
        plans = {op.uid: op for op in plan.operators}
        consumers = {uid: op for op in plan.operators for uid in op.upstream}
        done: dict[str, _Output] = {}
        for op in plan.operators:
            upstream = [plans[uid] for uid in op.upstream]
            following = consumers[op.uid].parallelism if op.uid in consumers else 1
            stage = _Stage(self, plan, op, upstream, following, state.get(op.uid, {}))
            done[op.uid] = stage.run([done[uid] for uid in op.upstream])
        barriers = done[plan.operators[-1].uid].barriers[0]
        return barriers[1:] if first_try and plan.epoch in faults.missing else barriers


class _Output(NamedTuple):
    """The output of an operator: its rows in order, and the barriers for each downstream subtask."""

    rows: list[Row]
    barriers: list[list[Barrier]]


@dataclass
class _Stage:
    """One operator in one try of an epoch; `downstream` is the number of subtasks that get its barriers."""

    tasks: SimulatedTasks
    plan: EpochPlan
    op: OperatorPlan
    upstream: list[OperatorPlan]
    downstream: int
    state: dict[str, int]

    def run(self, arriving: list[_Output]) -> _Output:
        """Runs all subtasks on the output of the upstream operators."""
        if self.upstream:
            rows = sorted(row for one in arriving for row in one.rows)
        else:
            rows = read_by(self.op.uid, [op.uid for op in self.plan.operators], self.tasks.records)
        out: list[Row] = []
        leaving: list[list[Barrier]] = [[] for _ in range(self.downstream)]
        for subtask in range(self.op.parallelism):
            alignment = Alignment(self.op.uid, subtask, self.upstream, place=(self.plan.incarnation, self.plan.epoch))
            for barrier in (barrier for one in arriving for barrier in one.barriers[subtask]):
                alignment.add(barrier)
            assert alignment.aligned, f"{self.op.uid}/{subtask} misses {alignment.missing}"
            mine = [row for row in rows if self._subtask_of(row) == subtask]
            ack, made = self._until_done(subtask, mine)
            out += made
            for n, barrier in enumerate(alignment.barriers(ack, self.downstream)):
                leaving[n].append(barrier)
            if subtask == 0 and self._is_mixed():
                # the executor died: subtasks that had not read yet read a second attempt
                again = alignment.barriers(self._until_done(subtask, mine)[0], self.downstream)
                for n in range(1, self.downstream):
                    leaving[n][-1] = again[n]
        return _Output(sorted(out), leaving)

    def _is_mixed(self) -> bool:
        """Returns whether two attempts are read. Of two feeding operators the epoch's number chooses one."""
        plan, faulty = self.plan, self.tasks.crash.faults.mixed
        feeding = [op.uid for op in plan.operators if not op.upstream]
        return not plan.retry and plan.epoch in faulty and self.op.uid == feeding[plan.epoch % len(feeding)]

    def _subtask_of(self, row: Row) -> int:
        group = int(key_of(self.op.uid, row)) * 5 % self.op.max_parallelism
        return group * self.op.parallelism // self.op.max_parallelism

    def _until_done(self, subtask: int, rows: list[Row]) -> tuple[Ack, list[Row]]:
        for _ in range(TASK_ATTEMPTS):
            if (done := self._attempt(subtask, rows)) is not None:
                return done
        raise EpochError(f"simulated: {TASK_ATTEMPTS} attempts of {self.op.uid}/{subtask} died")

    def _attempt(self, subtask: int, rows: list[Row]) -> tuple[Ack, list[Row]] | None:
        """Runs one attempt; returns None if it dies before its end. Its files stay."""
        plan, uid, attempt = self.plan, self.op.uid, self.tasks.world.new_id()
        if self._dies(CrashPoint.E2_ROUTED) or self._dies(CrashPoint.E3_CAUGHT_UP):
            return None
        overlay = dict(self.state)
        out = operate(overlay, uid, rows)
        changed = {key: overlay[key] for key in sorted({key_of(uid, row) for row in rows})}
        if self._dies(CrashPoint.E4_OPERATED) or self._dies(CrashPoint.E5_BEFORE_CHANGE_FILE):
            return None
        path, data = change_path(plan.generation, plan.epoch, uid, subtask, attempt), json.dumps(changed).encode()
        inlined = data if len(data) <= plan.inline_budget else None
        if inlined is None:
            self.tasks.world.storage.put_exclusive(path, data)
        changes = StateHandle(path=path, length=len(data), checksum="", rows=len(changed), codec="none")
        if self._dies(CrashPoint.E5_CHANGE_FILE_WRITTEN):
            return None
        path, in_table = output_path(plan.generation, plan.epoch, uid, subtask, attempt, uid), uid == TABLE_OF
        length = self._stage(path, out) if in_table else self._write(path, out)
        staged = OutputFile(output=uid, path=path, in_table=in_table, length=length, checksum="", rows=len(out))
        if self._dies(CrashPoint.E5_OUTPUT_STAGED):
            return None
        ack = Ack(
            uid=uid,
            subtask=subtask,
            attempt=attempt,
            records_in=len(rows),
            records_out=len(out),
            changes=changes,
            inlined=inlined,
            outputs=(staged,),
            schemas=(schema(uid),),
        )
        return None if self._dies(CrashPoint.E5_ACKED) else (ack, out)

    def _dies(self, point: CrashPoint) -> bool:
        return self.tasks.crash.task_dies(point, self.plan.epoch)

    def _stage(self, path: str, rows: list[Row]) -> int:
        self.tasks.world.table.write_file(path, tuple(rows))
        return len(rows)

    def _write(self, path: str, content: object) -> int:
        data = json.dumps(content).encode()
        self.tasks.world.storage.put_exclusive(path, data)
        return len(data)


__all__ = ["KEY", "SimulatedTasks", "key_of", "operate", "read_by", "schema", "truth"]
