"""A checkpointed function on workers that take turns, fail and are rescaled, compared with a plain loop. No JVM."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from state_engine.api import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.output_tag import columns_type
from state_engine.epoch.broadcast import check_broadcast
from state_engine.epoch.ports import EpochPlan, OperatorPlan
from state_engine.key_groups import key_group_of, subtask_of
from state_engine.log.change_file import ChangeFileHeader, encode_change_file
from state_engine.log.paths import change_path
from state_engine.log.records import Ack, Manifest, OperatorEpoch, Span, StateHandle
from state_engine.runtime.spec import OperatorSpec
from state_engine.runtime.two_inputs import INPUT, KeyedInput, with_broadcast
from state_engine.serialization.column import Column
from state_engine.spark.wire.task_spec import TaskSpec, pack
from state_engine.spark.worker.cache import WorkerCache
from state_engine.storage.manifest_log import ManifestLog
from state_engine.storage.open import open_storage

MAX = 13
SEEDS = 4
KEY = (Column(name="k", type="string"),)
KEYS = [f"k{n}" for n in range(12)]


class Tell(KeyedProcessFunction, CheckpointedFunction):
    """Emits how often the key came, what its subtask has seen lately, and how much all subtasks have seen."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.stored = store.get_list_state(ListStateDescriptor("lately", Types.LONG()))
        self.amounts = store.get_union_list_state(ListStateDescriptor("amounts", Types.LONG()))
        self.lately = list(self.stored)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        self.lately = [*self.lately, value.n][-4:]
        if value.n % 3 == 0:
            self.amounts.add(value.n)
        yield value.n, self.count.value(), ",".join(map(str, self.lately)), sum(self.amounts)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update(self.lately)


class Plain:
    """The same function with dicts and lists."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.lately: list[list[int]] = []
        self.amounts: list[list[int]] = []

    def epoch(self, parts: list[list[tuple[str, int]]]) -> list[tuple[Any, ...]]:
        self.lately, self.amounts = (cut(lists, len(parts)) for lists in (self.lately, self.amounts))
        sealed = [list(amounts) for amounts in self.amounts]
        rows = []
        for subtask, part in enumerate(parts):
            others = sum(sum(amounts) for n, amounts in enumerate(sealed) if n != subtask)
            for key, n in part:
                self.counts[key] = self.counts.get(key, 0) + 1
                self.lately[subtask] = [*self.lately[subtask], n][-4:]
                if n % 3 == 0:
                    self.amounts[subtask].append(n)
                lately = ",".join(map(str, self.lately[subtask]))
                rows.append((n, self.counts[key], lately, others + sum(self.amounts[subtask])))
        return rows


def cut(lists: list[list[int]], parallelism: int) -> list[list[int]]:
    """Cuts lists into new pieces, as Flink's round-robin repartitioner does."""
    if len(lists) == parallelism:
        return lists
    whole, pieces = [element for elements in lists for element in elements], []
    for subtask in range(parallelism):
        size = len(whole) // (parallelism - subtask) + (len(whole) % (parallelism - subtask) > 0)
        pieces.append(whole[:size])
        whole = whole[size:]
    return pieces


INPUT_COLUMNS = columns_type("k string, n bigint", "input")
OUTPUT_COLUMNS = columns_type("n bigint, count bigint, lately string, all bigint", "output")
TELL = OperatorSpec("tell", "keyed_process", Tell(), INPUT_COLUMNS, KEY, (), OUTPUT_COLUMNS, max_parallelism=MAX)


class Cluster:
    """A log, and worker processes on it."""

    def __init__(self, root: Path, workers: int, spec: OperatorSpec) -> None:
        self.root = str(root)
        self.storage = open_storage(self.root, "rotating")
        self.log = ManifestLog(self.storage, "rotating", open_job=lambda job: open_storage(self.root, job))
        self.workers = [WorkerCache() for _ in range(workers)]
        self.payload, self.digest = pack(TaskSpec(spec))
        self.attempts = 0
        self.served: list[tuple[int, set[int]]] = [(0, set()) for _ in range(workers)]
        """For each worker: the parallelism that it served last, and the subtasks that it served at that parallelism."""
        self.head = self.log.put(self._manifest(1, "claim", 1, ()))

    def _manifest(self, epoch: int, kind: Any, parallelism: int, acks: tuple[Ack, ...]) -> Manifest:
        before = self.head.manifest if epoch > 1 else None
        schemas = {schema.name: schema for ack in acks for schema in ack.schemas}
        schemas |= {schema.name: schema for schema in (before.schemas if before else ())}
        since = before.operators["tell"].since if before else None
        return Manifest(
            job="rotating",
            generation=1,
            epoch=epoch,
            kind=kind,
            incarnation="0" * 32,
            incarnation_number=1,
            predecessor=self.head.hash if epoch > 1 else "",
            processing_time=1000 * epoch,
            lineage=(Span(generation=1, first=1),),
            schemas=tuple(schemas.values()),
            keys={"tell": KEY},
            operators={
                "tell": OperatorEpoch(
                    parallelism=parallelism, max_parallelism=MAX, acks=acks, since=since or (epoch if acks else None)
                )
            },
        )

    def claim(self) -> None:
        """Another driver takes over: a manifest without an epoch."""
        manifest = self.head.manifest
        operators = {"tell": replace(manifest.operators["tell"], acks=())}
        claim = replace(self._manifest(manifest.epoch + 1, "claim", 1, ()), operators=operators)
        self.head = self.log.put(claim)

    def attempt(
        self,
        worker: int,
        subtask: int,
        part: list[tuple[str, int]],
        parallelism: int,
        elements: list[tuple[str, int]] | None = None,
    ) -> tuple[Ack, list[Any]]:
        """Runs one subtask up to its ack."""
        manifest = self.head.manifest
        plan = EpochPlan(
            job="rotating",
            root=self.root,
            generation=1,
            epoch=manifest.epoch + 1,
            incarnation="0" * 32,
            predecessor=self.head.hash,
            predecessor_epoch=manifest.epoch,
            predecessor_generation=1,
            processing_time=1000 * (manifest.epoch + 1),
            operators=(OperatorPlan(uid="tell", parallelism=parallelism, max_parallelism=MAX),),
        )
        size, subtasks = self.served[worker]
        self.served[worker] = (parallelism, (subtasks if size == parallelism else set()) | {subtask})
        cached = self.workers[worker].acquire(self.payload, self.digest, plan, subtask, 1 << 30)
        operator = cached.operator
        operator.begin(plan.processing_time, None, 0)
        operator.advance()
        rows: list[Any] = []
        if part or elements:
            keys, numbers = zip(*(elements or []), *part, strict=True)
            columns: dict[str, Any] = {"k": pa.array(keys, pa.string()), "n": pa.array(numbers, pa.int64())}
            if elements is not None:
                columns[INPUT] = pa.array([2] * len(elements) + [1] * len(part), pa.int8())
            found = operator.process(pa.record_batch(columns)).get("main")
            rows = [tuple(row.values()) for row in found.to_pylist()] if found is not None else []
        operator.snapshot(1, plan.epoch)
        states = operator.changes()
        self.attempts += 1
        name = f"{self.attempts:032x}"
        cached.pending = name
        header = ChangeFileHeader(
            job="rotating",
            generation=1,
            epoch=plan.epoch,
            uid="tell",
            subtask=subtask,
            attempt=name,
            max_parallelism=MAX,
        )
        parts, sections, checksum, length = encode_change_file(header, states)
        path = change_path(1, plan.epoch, "tell", subtask, name)
        self.storage.put_exclusive(path, *parts)
        handle = StateHandle(path=path, length=length, checksum=checksum, rows=0, codec="zstd", sections=sections)
        ack = Ack(
            uid="tell",
            subtask=subtask,
            attempt=name,
            records_in=len(part),
            records_out=len(rows),
            changes=handle if states else None,
            schemas=operator.schemas,
            broadcast=operator.operator_state.digests(),
        )
        cached.release()
        return ack, rows

    def seal(self, acks: list[Ack]) -> None:
        epoch = self.head.manifest.epoch + 1
        self.head = self.log.put(self._manifest(epoch, "epoch", len(acks), tuple(acks)))


def every_seed(count: int) -> pytest.MarkDecorator:
    """Runs a test with `count` seeds: a few of them in `make test`, all others in `make test-long`."""
    seeds = [pytest.param(n, marks=() if n < SEEDS else pytest.mark.long) for n in range(count)]
    return pytest.mark.parametrize("seed", seeds)


@every_seed(12)
def test_rotation_retries_and_rescales_do_not_show(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    cluster, plain, number = Cluster(tmp_path, 3, TELL), Plain(), 0
    parallelism = 2
    for epoch in range(25):
        if epoch and rng.random() < 0.25:
            parallelism = rng.choice([1, 2, 3])
        if rng.random() < 0.1:
            cluster.claim()
        parts: list[list[tuple[str, int]]] = [[] for _ in range(parallelism)]
        for _ in range(rng.randrange(9)):
            number, key = number + 1, rng.choice(KEYS)
            parts[subtask_of(key_group_of((key,), ["string"], MAX), parallelism, MAX)].append((key, number))
        acks, rows = [], []
        for subtask, part in enumerate(parts):
            for _ in range(rng.choice([0, 0, 0, 1, 2])):  # attempts that are not sealed
                cluster.attempt(rng.randrange(3), subtask, part, parallelism)
            ack, given = cluster.attempt(rng.randrange(3), subtask, part, parallelism)
            acks.append(ack)
            rows += given
        assert rows == plain.epoch(parts), f"epoch {epoch} at parallelism {parallelism}"
        cluster.seal(acks)
    instances = [cached for worker in cluster.workers for cached in worker._entries.values()]
    assert len(instances) == sum(len(subtasks) for _, subtasks in cluster.served)
    assert len(instances) >= len(cluster.workers), "every worker is warm"


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Match(KeyedBroadcastProcessFunction):
    """Emits how often the key came, all rules in their order, and how many there are."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        rules = ctx.get_broadcast_state(RULES)
        yield value.n, self.count.value(), str(rules.items()), len(rules.keys())

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        if value.n % 7 == 0:
            rules.clear()
        elif value.n % 3 == 0:
            rules.remove(value.k)
        else:
            rules.put(value.k, value.n)


@every_seed(8)
def test_broadcast_state_is_the_same_whichever_worker_runs(tmp_path: Path, seed: int) -> None:
    two = with_broadcast(KeyedInput(INPUT_COLUMNS, ("k",)), INPUT_COLUMNS)
    spec = OperatorSpec(
        "tell",
        "keyed_broadcast_process",
        Match(),
        two.columns,
        KEY,
        (),
        OUTPUT_COLUMNS,
        max_parallelism=MAX,
        two_inputs=two,
        broadcast=(RULES,),
    )
    rng, cluster, number = random.Random(seed), Cluster(tmp_path, 3, spec), 0
    parallelism, counts, rules = 2, dict.fromkeys(KEYS, 0), {}
    for epoch in range(20):
        if rng.random() < 0.25:
            parallelism = rng.choice([1, 2, 3])
        elements = [(rng.choice(KEYS[:5]), rng.randrange(50)) for _ in range(rng.randrange(4))]
        for key, value in elements:
            rules = {} if value % 7 == 0 else {k: v for k, v in rules.items() if k != key}
            if value % 7 and value % 3:
                rules[key] = value
        parts: list[list[tuple[str, int]]] = [[] for _ in range(parallelism)]
        expected = []
        for _ in range(rng.randrange(6)):
            number, key = number + 1, rng.choice(KEYS)
            counts[key] += 1
            parts[subtask_of(key_group_of((key,), ["string"], MAX), parallelism, MAX)].append((key, number))
            expected.append((number, counts[key], str(list(rules.items())), len(rules)))
        acks, rows = [], []
        for subtask, part in enumerate(parts):
            for _ in range(rng.choice([0, 0, 1])):  # attempts that are not sealed
                cluster.attempt(rng.randrange(3), subtask, part, parallelism, elements)
            ack, given = cluster.attempt(rng.randrange(3), subtask, part, parallelism, elements)
            acks.append(ack)
            rows += given
        assert sorted(rows) == expected, f"epoch {epoch} at parallelism {parallelism}"
        check_broadcast({"tell": acks}, epoch)
        cluster.seal(acks)
