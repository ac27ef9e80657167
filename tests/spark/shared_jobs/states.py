"""States of every kind: in batches, of operators, broadcast, by a codec of the author."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from support import COUNTS, Input, counted, records

from state_engine.api import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBatchProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    TypeCodec,
    Types,
    ValueStateDescriptor,
)
from state_engine.inspect import open_job
from state_engine.spark import MemorySink, StreamJob

from .part import Part, Ran, Start, output

LATER = OutputTag("later", "n bigint")


class CountBatches(KeyedBatchProcessFunction):
    """Counts the records of a key; those that are not the first go to a side output, too."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_batch(self, keys: Any, batch: Any, ctx: Any) -> Any:
        times = pc.add(pc.fill_null(self.count.get_many(keys), 0), pa.array(keys.running_counts()))
        self.count.put_many(keys, times)
        rows = pa.table({"times": times, "n": batch.column("n"), "k": batch.column("k")})
        return [rows, (LATER, rows.filter(pc.greater(rows["times"], 1)).select(["n"]))]


class CountRows(KeyedProcessFunction):
    """The same, row by row."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        times = (self.count.value() or 0) + 1
        self.count.update(times)
        yield value.n, value.k, times
        if times > 1:
            yield LATER, (value.n,)


class FormsOfAFunction(Part):
    """One operator takes whole batches, then rows, then batches; another one the other way round.

    A chained function and a side output follow.
    """

    def build(self, job: StreamJob, start: Start) -> None:
        forms: list[Any] = [CountBatches(), CountRows()]
        if start.number == 1:
            forms.reverse()
        keyed = self.records(job, start).key_by("k", order_by=["n"])
        keyed.process(forms[1], COUNTS, uid="other-forms").sink_to(MemorySink("other-forms"), uid="other-forms-out")
        keyed = self.records(job, start).key_by("k", order_by=["n"])
        counts = keyed.process(forms[0], COUNTS, uid="forms")
        counts.sink_to(MemorySink("forms"), uid="forms-out")
        twice = counts.map(lambda row: (row.n, 2 * row.times), "n bigint, twice bigint", uid="twice")
        twice.sink_to(MemorySink("twice"), uid="twice-out")
        counts.get_side_output(LATER).sink_to(MemorySink("later"), uid="later-out")

    def check(self, ran: Ran) -> None:
        wanted = counted(self.shared.all)
        assert output("forms") == output("other-forms") == wanted
        assert output("twice") == [(n, 2 * times) for n, _, times in wanted]
        assert output("later") == [(n,) for n, _, times in wanted if times > 1]
        for uid in ("forms", "other-forms"):
            assert ran.state(uid, "count") == {k: times for _, k, times in wanted}


class Buffer(ProcessFunction, CheckpointedFunction):
    """Emits records 25 at a time, and the rest at the end; a union list counts the records of each subtask."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.stored = store.get_list_state(ListStateDescriptor("buffer", Types.LONG()))
        self.counts = store.get_union_list_state(ListStateDescriptor("counts", Types.LONG()))
        self.held = list(self.stored)
        self.count = 0

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.stored.update(self.held)
        if self.count:
            self.counts.add(self.count)
            self.count = 0

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        self.held.append(value.n)
        self.count += 1
        if len(self.held) >= 25:
            yield from self.finish()

    def finish(self) -> Iterable[Any]:
        rows = [(n, sum(self.counts)) for n in self.held]
        self.held = []
        return rows


class ListsOfSubtasks(Part):
    def build(self, job: StreamJob, start: Start) -> None:
        buffered = self.records(job, start).process(Buffer(), "n bigint, seen bigint", uid="buffer")
        buffered.sink_to(MemorySink("buffered"), uid="buffered-out")

    def check(self, ran: Ran) -> None:
        """Every record was emitted once or is in a buffer, and was counted once."""
        given = [n for n, _ in output("buffered")]
        kept, counts = ran.rows("buffer", "buffer"), ran.rows("buffer", "counts")
        assert sorted([*given, *(row["value"] for row in kept)]) == [row.n for row in self.shared.all]
        assert sum(row["value"] for row in counts) == len(self.shared.all)
        assert {row["namespace"] for row in counts} == {str(ran.start.parallelism)}
        assert len({row["key_group"] for row in kept}) <= ran.start.parallelism
        assert ran.manifest.operators["buffer"].finished == ran.start.ends == (not kept)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
MATCHED = "n bigint, k string, rule bigint, times bigint"


class Match(KeyedBroadcastProcessFunction):
    """Emits the rule of each record, which is the newest one of its `sub`, and how often its key came."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value.n, value.k, ctx.get_broadcast_state(RULES).get(value.sub), self.count.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        if value.v >= 0:
            ctx.get_broadcast_state(RULES).put(value.name, value.number)
        else:
            ctx.get_broadcast_state(RULES).remove(value.name)


class Highest(BroadcastProcessFunction):
    """Emits the highest rule, without a key."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.n, value.k, ctx.get_broadcast_state(RULES).get(value.sub), 0

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(value.sub, max(value.v, ctx.get_broadcast_state(RULES).get(value.sub) or 0))


class Rules(Part):
    """Each start has one new file of each side, which are read in one epoch, in which the rules come first."""

    def __init__(self, spark: Any, folder: Path, shared: Input) -> None:
        super().__init__(spark, folder, shared)
        self.rules, self.data = Input(folder / "rules"), Input(folder / "data")
        self.newest: dict[str, int] = {}
        self.highest: dict[str, int] = {}
        self.matched: list[Any] = []
        self.plain: list[Any] = []

    def add(self, start: Start) -> None:
        rules = sorted(records(12, seed=100 * start.number + 5, first=1000 * start.number))
        data = sorted(records(40, seed=100 * start.number + 4, first=1000 * start.number))
        self.rules.add(rules)
        self.data.add(data)
        for rule in rules:
            self.newest.pop(rule.sub, None)
            if rule.v >= 0:
                self.newest[rule.sub] = rule.n
            self.highest[rule.sub] = max(rule.v, self.highest.get(rule.sub, 0))
        for row in data:
            times = 1 + sum(before.k == row.k for before in self.data.all if before.n < row.n)
            self.matched.append((row.n, row.k, self.newest.get(row.sub), times))
            self.plain.append((row.n, row.k, self.highest.get(row.sub), 0))

    def build(self, job: StreamJob, start: Start) -> None:
        def stream(source: Input) -> Any:
            return job.from_stream(source.stream(self.spark), bounded=start.ends)

        rules = stream(self.rules).select("n as number", "sub as name", "v").broadcast(RULES)
        matched = stream(self.data).key_by("k", order_by=["n"]).connect(rules).process(Match(), MATCHED, uid="match")
        matched.sink_to(MemorySink("matched"), uid="matched-out")
        highest = stream(self.data).connect(stream(self.rules).broadcast(RULES))
        highest.process(Highest(), MATCHED, uid="highest").sink_to(MemorySink("highest"), uid="highest-out")

    def check(self, ran: Ran) -> None:
        assert output("matched") == self.matched
        assert output("highest") == self.plain
        rows = ran.rows("match", "rules")
        assert [(row["user_key"], row["value"]) for row in rows] == list(self.newest.items())
        assert {row["key_group"] for row in rows} == {0}
        assert len(ran.manifest.operators["match"].acks) == ran.start.parallelism
        sealed = (stored.manifest.operators.get("match") for stored in open_job(str(ran.root), ran.name).epochs())
        acks = [list(operator.acks) for operator in sealed if operator is not None and operator.acks]
        assert any(_has_rules(first) for first, *_ in acks)
        assert not any(_has_rules(ack) for _, *others in acks for ack in others), "the first subtask alone writes them"


def _has_rules(ack: Any) -> bool:
    return ack.changes is not None and any(section.name == "rules" for section in ack.changes.sections)


class Words:
    """Counts of words, in a class that is no dataclass."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts


class ByWord(TypeCodec[Words]):
    version = 0
    stored_type = dict[str, int]

    def encode(self, value: Words) -> Any:
        return value.counts

    def decode(self, stored: Any, version: int) -> Words:
        return Words(**stored)


class ByWordInCapitals(ByWord):
    """The codec of the newer release: writes capitals, and reads the older release's format."""

    version = 1

    def encode(self, value: Words) -> Any:
        return {word.upper(): n for word, n in value.counts.items()}

    def decode(self, stored: Any, version: int) -> Words:
        return Words(**{word.lower(): n for word, n in stored.items()})


class CountWords(KeyedProcessFunction):
    def __init__(self, codec: TypeCodec[Words]) -> None:
        self.codec = codec

    def open(self, runtime_context: Any) -> None:
        self.words = runtime_context.get_state(ValueStateDescriptor("words", self.codec))

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        words = self.words.value() or Words()
        words.counts[value.sub] = words.counts.get(value.sub, 0) + 1
        self.words.update(words)
        return [(value.n, sum(words.counts.values()))]


class NewerCodec(Part):
    """From the second start on, the class of the state has a newer version of its codec."""

    def build(self, job: StreamJob, start: Start) -> None:
        function = CountWords(ByWordInCapitals() if start.number else ByWord())
        words = self.records(job, start).key_by("k", order_by=["n"]).process(function, "n bigint, all int", uid="words")
        words.sink_to(MemorySink("words"), uid="words-out")

    def check(self, ran: Ran) -> None:
        assert output("words") == [(n, times) for n, _, times in counted(self.shared.all)]
        wanted: dict[Any, Counter[str]] = {}
        for row in self.shared.all:
            wanted.setdefault(row.k, Counter())[row.sub.upper()] += 1
        state = ran.state("words", "words")
        assert (1 in {stored["codec_version"] for stored in state.values()}) == (ran.start.number > 0)
        assert {k: {w.upper(): n for w, n in dict(stored["value"]).items()} for k, stored in state.items()} == wanted
