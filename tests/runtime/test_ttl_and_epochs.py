"""Which values expire by event time does not depend on where epochs are cut, or on the parallelism."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import (
    Duration,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness
from state_engine.testing.state_folding_suite import Adding

TTL = 10
END = (1 << 63) - 1
Records = list[tuple[str, int, int]]


class Mortal(KeyedProcessFunction):
    """Emits the states of the key at each record and each timer; both also write."""

    def __init__(self, config: StateTtlConfig) -> None:
        self.config = config

    def open(self, runtime_context: Any) -> None:
        last = ValueStateDescriptor("last", Types.LONG())
        every = ListStateDescriptor("all", Types.LONG())
        by_n = MapStateDescriptor("by_n", Types.LONG(), Types.LONG())
        total = ReducingStateDescriptor("sum", Adding(), Types.LONG())
        for descriptor in (last, every, by_n, total):
            descriptor.enable_time_to_live(self.config)
        self.last = runtime_context.get_state(last)
        self.all = runtime_context.get_list_state(every)
        self.by_n = runtime_context.get_map_state(by_n)
        self.sum = runtime_context.get_reducing_state(total)

    def seen(self) -> str:
        return f"{self.last.value()} {list(self.all)} {sorted(self.by_n.items())} {self.sum.get()}"

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        at = ctx.timestamp()
        assert at is not None
        yield ctx.get_current_key(), f"{at}: {self.seen()}"
        self.last.update(value.v)
        self.all.add(value.v)
        self.by_n.put(value.v, at)
        self.sum.add(1)
        ctx.timer_service().register_event_time_timer(at + value.v % 7 * 3)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), f"timer {timestamp}: {self.seen()}"
        self.last.update(timestamp)


def run(
    config: StateTtlConfig, records: Records, cuts: set[int], parallelism: int, behind: int, *, restores: bool = False
) -> dict[str, Any]:
    """Returns the rows of each key in order; `restores`: each epoch is run by a job that was restored from the last."""

    def make() -> KeyedOneInputStreamOperatorTestHarness:
        return KeyedOneInputStreamOperatorTestHarness(
            Mortal(config),
            key="k",
            input_type="k string, v bigint",
            output_type="k string, seen string",
            parallelism=parallelism,
            watermark_strategy=WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(behind)),
        )

    harness, epoch, emitted = make(), [], []
    for n, record in enumerate(records):
        epoch.append(record)
        if n in cuts or n == len(records) - 1:
            harness.process_elements([(k, v) for k, v, _ in epoch], [at for _, _, at in epoch])
            epoch = []
            if restores:
                emitted += harness.extract_output_values()
                snapshot = harness.snapshot()
                harness = make()
                harness.initialize_state(snapshot)
    harness.process_watermark(END)
    rows: dict[str, list[Any]] = {}
    for key, seen in [*emitted, *harness.extract_output_values()]:
        rows.setdefault(key, []).append(seen)
    return rows


steps = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12)), min_size=1, max_size=20)


@settings(max_examples=settings.default.max_examples // 4)
@given(
    steps=steps,
    cuts=st.sets(st.integers(0, 19)),
    parallelism=st.integers(1, 3),
    behind=st.sampled_from([0, 5]),
    reads=st.booleans(),
    cleans=st.booleans(),
)
def test_an_ordered_input_expires_the_same_wherever_it_is_cut(
    steps: list[tuple[str, int]], cuts: set[int], parallelism: int, behind: int, reads: bool, cleans: bool
) -> None:
    at, records = 100, []
    for n, (key, later) in enumerate(steps):
        at += later
        records.append((key, n, at))
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL)).use_event_time()
    builder = builder.update_ttl_on_read_and_write() if reads else builder
    builder = builder.cleanup_incrementally(2, True) if cleans else builder.disable_cleanup_in_background()
    config = builder.build()
    whole = run(config, records, set(), 1, behind)
    assert run(config, records, set(range(len(records))), 1, behind) == whole
    assert run(config, records, cuts, parallelism, behind) == whole
    assert run(builder.cleanup_full_snapshot().build(), records, cuts, parallelism, behind, restores=True) == whole
