"""Raw state in the harness: restored at other parallelisms, complete with each snapshot, refused if it is wrong."""

import gzip
import io
import struct
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from state_engine.api import (
    CheckpointedFunction,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    KeyGroupStatePartitionStreamProvider,
    ProcessFunction,
    RuntimeContext,
    StateInitializationContext,
    StateSnapshotContext,
    ValueStateDescriptor,
)
from state_engine.epoch.failures import is_final
from state_engine.errors import JobDefinitionError, LakestateError, RawStateError, UserFunctionError
from state_engine.key_groups import key_group_of, range_of
from state_engine.runtime import raw_streams
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness, check_restorable, repackage_state

M = 13
ENTRY = struct.Struct(">qq")


def group_of(number: int) -> int:
    return key_group_of([number], ["bigint"], M)


class Counts(KeyedProcessFunction, CheckpointedFunction):
    """Counts records by key in a dict, which it stores as bytes, and stores each number that came in a partition."""

    def initialize_state(self, context: StateInitializationContext) -> None:
        self.counts: dict[int, int] = {}
        for group in context.get_raw_keyed_state_inputs():
            for n, count in ENTRY.iter_unpack(group.get_stream().read()):
                assert group_of(n) == group.get_key_group_id()
                self.counts[n] = count
        self.seen = [part.get_stream().read() for part in context.get_raw_operator_state_inputs()]

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.counts[value.n] = self.counts.get(value.n, 0) + 1
        self.seen.append(b"%d" % value.n)
        yield value.n, self.counts[value.n]

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        out = context.get_raw_keyed_operator_state_output()
        for group in out.get_key_group_list():
            entries = sorted((n, count) for n, count in self.counts.items() if group_of(n) == group)
            if entries:
                out.start_new_key_group(group)
                for entry in entries:
                    out.write(ENTRY.pack(*entry))
        parts = context.get_raw_operator_state_output()
        for part in self.seen:
            parts.start_new_partition()
            parts.write(part)


def counts(function: Any = None, **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(
        function or Counts(), "n", "n bigint", "n bigint, count bigint", max_parallelism=M, **given
    )


def feed(harness: KeyedOneInputStreamOperatorTestHarness, *numbers: int) -> list[tuple[int, int]]:
    harness.process_elements([(n,) for n in numbers])
    rows_out = sorted(harness.extract_output_values())
    harness.clear_output()
    return rows_out


def expected(times: int) -> dict[int, bytes]:
    groups: dict[int, bytes] = {}
    for n in range(10):
        groups[group_of(n)] = groups.get(group_of(n), b"") + ENTRY.pack(n, times)
    return groups


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_rescaled_from_two_to_three_to_one(backend: str) -> None:
    snapshot = None
    for times, parallelism in enumerate((2, 3, 1, 1), 1):
        with counts(parallelism=parallelism, state_backend=backend) as harness:
            if snapshot is not None:
                harness.initialize_state(snapshot)
            assert feed(harness, *range(10)) == [(n, times) for n in range(10)]
            before, snapshot = snapshot, harness.snapshot()
        assert snapshot.raw_keyed_state() == expected(times)
        parts = snapshot.raw_operator_state()
        assert sorted(int(part) for of_subtask in parts for part in of_subtask) == sorted([*range(10)] * times)
        assert len(parts) <= parallelism
        assert snapshot.key_groups() == set(expected(times))
        assert snapshot.states() == snapshot.operator_states() == {}
        assert before is None or before.raw_keyed_state() == expected(times - 1)


def test_instances_that_go_on_and_those_made_anew_are_the_same() -> None:
    check_restorable(lambda: counts(parallelism=2), [[(1,), (2,)], [], [(1,), (9,)], [(2,)]])


def test_a_function_that_does_not_store_all_is_found() -> None:
    class Forgets(Counts):
        def snapshot_state(self, context: StateSnapshotContext) -> None:
            if self.counts.get(1) != 2:
                super().snapshot_state(context)

    with pytest.raises(AssertionError, match="epoch 3"):
        check_restorable(lambda: counts(Forgets()), [[(1,)], [(1,)], [(1,)]])


def test_subtasks_are_put_together() -> None:
    parts = [counts(parallelism=2, subtask=n) for n in range(2)]
    for n, part in enumerate(parts):
        feed(part, *(k for k in range(10) if group_of(k) in range_of(n, 2, M)))
    assert all(parts[n].snapshot().key_groups() for n in range(2))
    with counts(parallelism=3) as whole:
        whole.initialize_state(repackage_state(*(part.snapshot() for part in parts)))
        assert feed(whole, *range(10)) == [(n, 2) for n in range(10)]


class Writes(KeyedProcessFunction, CheckpointedFunction):
    """Writes into its snapshot what a test defines."""

    def __init__(self, write: Callable[[StateSnapshotContext], Any]) -> None:
        self.write = write

    def initialize_state(self, context: StateInitializationContext) -> None:
        self.found = [(p.get_key_group_id(), p.get_stream().read()) for p in context.get_raw_keyed_state_inputs()]
        self.parts = [p.get_stream().read() for p in context.get_raw_operator_state_inputs()]

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        return None

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        self.write(context)


def written(write: Callable[[StateSnapshotContext], Any], **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    harness = counts(Writes(write), **given)
    feed(harness)
    return harness


def both(context: StateSnapshotContext) -> None:
    context.get_raw_keyed_operator_state_output().start_new_key_group(5)
    context.get_raw_keyed_operator_state_output().write(b"five")
    context.get_raw_operator_state_output().write(b"one ")
    context.get_raw_operator_state_output().write(b"part")


class Silent(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        return None


@pytest.mark.parametrize("silent", [Silent, lambda: Writes(lambda context: None)], ids=["plain", "checkpointed"])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_what_no_snapshot_writes_is_gone(silent: Callable[[], Any], parallelism: int) -> None:
    before = written(both).snapshot()
    assert (before.raw_keyed_state(), before.raw_operator_state()) == ({5: b"five"}, [[b"one part"]])
    with counts(silent(), parallelism=parallelism) as harness:
        harness.initialize_state(before)
        harness.open()
        assert harness.snapshot().raw_keyed_state() == {5: b"five"}, "not before an epoch was sealed"
        feed(harness)
        after = harness.snapshot()
    assert (after.raw_keyed_state(), after.raw_operator_state()) == ({}, [])


def test_the_stream_knows_what_was_written() -> None:
    facts: list[Any] = []

    def write(context: StateSnapshotContext) -> None:
        out = context.get_raw_keyed_operator_state_output()
        facts.append((out.get_key_group_list(), out.get_current_key_group(), out.writable(), out.readable()))
        out.start_new_key_group(8)
        facts.append((out.get_current_key_group(), out.write(memoryview(b"abc")), out.is_key_group_already_started(8)))
        out.close()  # as a wrapper of a stream does
        out.start_new_key_group(12)
        facts.append([out.is_key_group_already_finished(group) for group in (7, 8, 12)])
        parts = context.get_raw_operator_state_output()
        facts.append((parts.write(b""), parts.get_number_of_partitions()))
        parts.start_new_partition()
        parts.start_new_partition()
        facts.append(parts.get_number_of_partitions())

    harness = written(write, parallelism=2, subtask=1)
    assert facts == [(range(7, 13), -1, True, False), (8, 3, True), [False, True, False], (0, 0), 2]
    assert harness.snapshot().raw_keyed_state() == {8: b"abc", 12: b""}
    assert harness.snapshot().raw_operator_state() == [[], [b"", b""]]


def test_what_wraps_files_can_wrap_the_streams() -> None:
    def write(context: StateSnapshotContext) -> None:
        out = context.get_raw_keyed_operator_state_output()
        out.start_new_key_group(0)
        with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed:
            packed.write(b"packed")
        out.start_new_key_group(1)
        with io.TextIOWrapper(out, encoding="utf-8") as text:
            text.write("é")

    with written(write) as before, counts(Writes(lambda context: None)) as after:
        after.initialize_state(before.snapshot())
        after.open()
        (_, packed), (_, text) = after.functions[0].found
        assert (gzip.decompress(packed), text.decode()) == (b"packed", "é")


def test_an_input_ends_where_its_partition_does_and_is_one_stream() -> None:
    provider = KeyGroupStatePartitionStreamProvider(io.BytesIO(b"abc"), 3)
    assert (provider.get_stream().read(2), provider.get_stream().read(2), provider.get_stream().read()) == (
        b"ab",
        b"c",
        b"",
    )
    assert provider.get_key_group_id() == 3


KEPT: list[Any] = []


def strange(context: StateSnapshotContext) -> None:
    context.get_raw_keyed_operator_state_output().start_new_key_group(7)


def twice(context: StateSnapshotContext) -> None:
    for group in (1, 2, 1):
        context.get_raw_keyed_operator_state_output().start_new_key_group(group)


def of_no_group(context: StateSnapshotContext) -> None:
    context.get_raw_keyed_operator_state_output().write(b"x")


def too_much(context: StateSnapshotContext) -> None:
    for _ in range(11):
        context.get_raw_operator_state_output().write(b"0123456789")


def late(context: StateSnapshotContext) -> None:
    for out in KEPT:
        out.write(b"x")
    KEPT.append(context.get_raw_operator_state_output())


def late_partition(context: StateSnapshotContext) -> None:
    for out in KEPT:
        out.start_new_partition()
    KEPT.append(context.get_raw_operator_state_output())


def late_key_group(context: StateSnapshotContext) -> None:
    for out in KEPT:
        out.start_new_key_group(0)
    KEPT.append(context.get_raw_keyed_operator_state_output())


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (strange, "began key group 7 in its raw keyed state; its subtask has 0 to 6"),
        (twice, "began key group 1 twice"),
        (of_no_group, "belongs to no key group"),
        (too_much, "more than 100 bytes of raw operator state in one subtask"),
        (late, "raw operator state after the end of the snapshot"),
        (late_partition, "raw operator state after the end of the snapshot"),
        (late_key_group, "raw keyed state after the end of the snapshot"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_could_not_be_read_back_is_refused(write: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    KEPT.clear()
    monkeypatch.setattr(raw_streams, "MAX_BYTES", 100)
    harness = counts(Writes(write), parallelism=2, subtask=0)

    def run() -> None:
        feed(harness)
        feed(harness)

    with pytest.raises(RawStateError, match=text) as refused:
        run()
    assert "Operator 'operator', subtask 0, failed in epoch" in str(refused.value)
    assert is_final(refused.value)
    assert harness.snapshot().raw_operator_state() == []


@pytest.mark.parametrize(("value", "kind"), [("text", "str"), (7, "int"), ([1], "list"), (None, "NoneType")])
def test_what_is_not_bytes_is_refused(value: Any, kind: str) -> None:
    with pytest.raises(UserFunctionError, match=f"TypeError: raw operator state takes bytes, not {kind}"):
        written(lambda context: context.get_raw_operator_state_output().write(value))


@pytest.mark.parametrize("group", ["1", 1.0, None])
def test_a_key_group_is_an_integer(group: Any) -> None:
    with pytest.raises(UserFunctionError, match="TypeError"):
        written(lambda context: context.get_raw_keyed_operator_state_output().start_new_key_group(group))


def test_a_failed_epoch_leaves_the_bytes_of_the_one_before() -> None:
    class Failing(Counts):
        def snapshot_state(self, context: StateSnapshotContext) -> None:
            super().snapshot_state(context)
            if 3 in self.counts:
                raise OSError("no luck")

    with counts(Failing()) as harness:
        feed(harness, 1)
        with pytest.raises(UserFunctionError, match="no luck"):
            feed(harness, 1, 3)
        assert feed(harness, 1) == [(1, 2)]
        assert harness.snapshot().raw_operator_state() == [[b"1", b"1"]]


class Unkeyed(ProcessFunction, CheckpointedFunction):
    """As `Counts`, with partitions only; reads keyed state if a test says so."""

    asks = ""

    def initialize_state(self, context: StateInitializationContext) -> None:
        self.held = [int(part.get_stream().read()) for part in context.get_raw_operator_state_inputs()]
        if self.asks == "inputs":
            context.get_raw_keyed_state_inputs()

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
        self.held.append(value.n)

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        for n in self.held:
            context.get_raw_operator_state_output().start_new_partition()
            context.get_raw_operator_state_output().write(b"%d" % n)
        if self.asks == "output":
            context.get_raw_keyed_operator_state_output()


def unkeyed(asks: str = "", **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    function = Unkeyed()
    function.asks = asks
    return KeyedOneInputStreamOperatorTestHarness(function, (), "n bigint", "n bigint", **given)


def test_partitions_need_no_key() -> None:
    with unkeyed(parallelism=2) as two:
        feed(two, 1, 2, 3, 4, 5)
    assert two.snapshot().raw_operator_state() == [[b"1", b"3", b"5"], [b"2", b"4"]]
    with unkeyed(parallelism=3) as three:
        three.initialize_state(two.snapshot())
        feed(three)
        assert three.snapshot().raw_operator_state() == [[b"1", b"3"], [b"5", b"2"], [b"4"]]


@pytest.mark.parametrize("asks", ["inputs", "output"])
def test_without_a_key_there_is_no_raw_keyed_state(asks: str) -> None:
    def run() -> None:
        feed(unkeyed(asks))

    with pytest.raises(JobDefinitionError, match="raw keyed state, but its stream has no key") as refused:
        run()
    assert isinstance(refused.value, LakestateError)
    assert "key_by" in refused.value.action


def test_a_function_that_takes_the_wider_context_goes_on_as_it_was() -> None:
    class Older(Silent, CheckpointedFunction):
        def initialize_state(self, context: Any) -> None:
            self.count = context.get_keyed_state_store().get_state(ValueStateDescriptor("count", "bigint"))

        def open(self, runtime_context: RuntimeContext) -> None: ...

        def snapshot_state(self, context: FunctionSnapshotContext) -> None: ...

    with counts(Older()) as harness:
        feed(harness, 1)
        assert harness.snapshot().raw_keyed_state() == {}
